//! The simulator.

use crate::cancel::Cancel;
use crate::capture::{Capture, L2State};
use crate::error::{Error, Result};
use crate::hw::Device;
use crate::plan::LaunchPlan;
use crate::workload::{Batch, BatchSpec};

/// Runs a plan on the simulator.
///
/// # Errors
/// Always, until the simulator lands.
pub fn run(
    _spec: &BatchSpec,
    _plan: &LaunchPlan,
    _batch: &Batch,
    _device: &Device,
    _l2: L2State,
    _command: &str,
    _cancel: &Cancel,
) -> Result<Capture> {
    Err(Error::Hardware("the simulator is not built yet".to_owned()))
}
