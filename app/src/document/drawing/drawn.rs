//! What a stroke leaves.

use engine::workload::BatchSpec;

use super::path::Pick;

/// A batch after a stroke.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    /// The batch.
    pub spec: BatchSpec,
    /// What the stroke left in the hand.
    pub picked: Vec<Pick>,
    /// What could not be as asked for, and what was made instead.
    pub note: Option<String>,
}
