//! The window.

use engine::capture::Loaded;
use engine::workload::BatchSpec;

/// What the window opens on.
#[derive(Debug)]
pub enum Opening {
    /// A finished example.
    Example,
    /// A batch.
    Batch(Box<BatchSpec>),
    /// A capture.
    Capture(Box<Loaded>),
}

/// Opens the window and returns when it is closed.
///
/// # Errors
/// Always, until the window is built.
pub fn open(_opening: Opening) -> anyhow::Result<()> {
    anyhow::bail!("the window is not built yet")
}
