//! What a person works on: one document with one history.
//!
//! ```text
//! gesture ──► Edit ──apply──► Document
//!               └──inverse──► History: undo ⇄ redo, each entry with its name
//! ```
//!
//! Whatever changes a plan or its run is an edit here, so that all of it can be taken back.

pub mod drawing;
pub mod edit;
pub mod history;
mod stored;

use std::sync::Arc;

use engine::capture::L2State;
use engine::session::PlanOptions;
use engine::workload::BatchSpec;

/// A batch and all that it is planned and run with.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The batch.
    pub spec: Arc<BatchSpec>,
    /// Scheduler, strategy, device, tile and constants.
    pub options: PlanOptions,
    /// State of L2 at the start of a run, simulated or measured.
    pub l2: L2State,
}
