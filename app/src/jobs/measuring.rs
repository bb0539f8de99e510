//! What the window knows of the GPU and of the run on it.

use engine::hw::Device;

use crate::jobs::machine::{Found, Gpu};
use crate::jobs::state::Measuring;
use crate::runs::measurement::Measurement;

/// Repeats when nothing else was asked for, as `bench` takes.
const REPEATS: u32 = 20;

/// All that the window knows of the GPU.
#[derive(Debug)]
pub(crate) struct OnGpu {
    pub(crate) thread: Gpu,
    /// The GPU, or why there is none; `None` while it is looked for.
    pub(crate) found: Option<Result<Found, String>>,
    /// What the thread is at.
    pub(crate) state: Measuring,
    /// What the last run failed with.
    pub(crate) problem: Option<String>,
    pub(crate) repeats: u32,
    /// Newest last.
    pub(crate) kept: Vec<Measurement>,
}

impl OnGpu {
    pub(crate) fn new(thread: Gpu) -> Self {
        Self { thread, found: None, state: Measuring::Idle, problem: None, repeats: REPEATS, kept: Vec::new() }
    }

    /// The GPU's device, where it is not a built-in one and known already.
    pub(crate) fn device(&self) -> Option<&Device> {
        self.found.as_ref()?.as_ref().ok()?.device.as_ref()
    }

    /// Why no run on the GPU can be asked for.
    pub(crate) fn blocked(&self, wanted: &Device) -> Option<String> {
        match &self.found {
            None => Some("looking for a GPU…".to_owned()),
            Some(Err(reason)) => Some(format!("there is no GPU to run on here: {reason}")),
            Some(Ok(Found { name, device: Some(device) })) if device.key != wanted.key => {
                Some(format!("the plan is for {}, but the GPU here is {name}; choose it as the device", wanted.name))
            }
            Some(Ok(_)) => self.state.id().map(|_| "a run on the GPU is going on".to_owned()),
        }
    }
}
