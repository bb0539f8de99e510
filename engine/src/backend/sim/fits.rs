//! Whether a run can end and did: a CTA that no SM can hold would wait for ever, and a run without it is no run.

use std::fmt;

use crate::backend::sim::cost::{CostModel, Footprint};
use crate::capture::LONGEST_RUN;
use crate::error::{Error, Result};
use crate::plan::{LaunchKind, LaunchPlan};
use crate::units::{counted, grouped};

/// Refuses a plan with a CTA that does not fit on an empty SM.
pub(super) fn check(model: &CostModel<'_>, plan: &LaunchPlan) -> Result<()> {
    for (at, launch) in plan.launches.iter().enumerate() {
        let lacking = lacking(model, model.footprint_of_launch(launch.kind, model.runs_on(plan, launch)));
        if !lacking.is_empty() {
            let (kind, key) = (launch.kind, &model.device.key);
            return Err(Error::Unsupported {
                who: format!("launch {at} ({kind}) on '{key}'"),
                limit: format!("{}; take another device, scheduler or tile", lacking.join(", and ")),
            });
        }
    }
    Ok(())
}

/// Of what a CTA needs more than an SM has, each with both figures.
fn lacking(model: &CostModel<'_>, need: Footprint) -> Vec<String> {
    let device = model.device;
    let mut lacking = Vec::new();
    if need.shared > device.shared_per_sm.0 {
        let (need, has) = (grouped(need.shared), grouped(device.shared_per_sm.0));
        lacking.push(format!("a CTA takes {need} B of shared memory, and an SM has {has} B"));
    }
    if need.registers > device.registers_per_sm {
        let (need, has) = (grouped(need.registers.into()), grouped(device.registers_per_sm.into()));
        lacking.push(format!("a CTA takes {need} registers, and an SM has {has}"));
    }
    if need.warps > device.warps_per_sm {
        lacking.push(format!(
            "a CTA has {}, and an SM holds {}",
            counted(need.warps.into(), "warp"),
            device.warps_per_sm
        ));
    }
    lacking
}

/// How far a launch has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Come {
    pub(super) launch: usize,
    pub(super) kind: LaunchKind,
    pub(super) done: u32,
    pub(super) ctas: usize,
}

impl fmt::Display for Come {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (done, all) = (grouped(self.done.into()), counted(self.ctas as u64, "CTA"));
        write!(f, "launch {} ({}) with {done} of {all} done", self.launch, self.kind)
    }
}

/// A run that ended with CTAs left over: an error, whatever the reason.
pub(super) fn never_ran(key: &str, come: &Come) -> Error {
    Error::Device(format!("the run on '{key}' stopped at {come}, and nothing is left that would start the next one"))
}

/// A run that is longer than any capture may be.
pub(super) fn too_long(key: &str, come: &Come) -> Error {
    Error::Device(format!(
        "the run on '{key}' takes more than {LONGEST_RUN}, which is what a capture can hold, and is then at {come}; \
         look for a rate that is too low or a time that is too long in the device file, or make the batch smaller"
    ))
}
