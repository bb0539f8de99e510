//! What the window knows of the GPU and of the run on it.

use engine::cancel::Cancel;
use engine::hw::Device;

use crate::jobs::machine::{Found, Gpu};
use crate::runs::measurement::Measurement;

/// Repeats when nothing else was asked for, as `bench` takes.
const REPEATS: u32 = 20;

/// A run that goes on.
#[derive(Debug)]
pub(crate) struct Going {
    pub(crate) cancel: Cancel,
    pub(crate) line: String,
}

/// All that the window knows of the GPU.
#[derive(Debug)]
pub(crate) struct Measuring {
    pub(crate) thread: Gpu,
    /// The GPU, or why there is none; `None` while it is looked for.
    pub(crate) found: Option<Result<Found, String>>,
    pub(crate) going: Option<Going>,
    /// What the last run failed with.
    pub(crate) problem: Option<String>,
    pub(crate) repeats: u32,
    /// A run was asked for while the plan was being made.
    pub(crate) wanted: bool,
    /// The simulated run beside a measured one is being made.
    pub(crate) matching: bool,
    /// Newest last.
    pub(crate) kept: Vec<Measurement>,
}

impl Measuring {
    pub(crate) fn new(thread: Gpu) -> Self {
        Self {
            thread,
            found: None,
            going: None,
            problem: None,
            repeats: REPEATS,
            wanted: false,
            matching: false,
            kept: Vec::new(),
        }
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
            Some(Ok(_)) => self.going.as_ref().map(|_| "a run on the GPU is going on".to_owned()),
        }
    }
}
