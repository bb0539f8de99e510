//! Who opens the GPU, and lets go of it.
//!
//! ```text
//! open ──► limits, run, check ─┬─► done, or refused before the GPU was touched: it stays open, with its inputs
//!            ▲                 └─► failed or cancelled: closed, and with that all of its memory free
//!            └─────── open anew ◄─────────────────┘
//! ```
//!
//! A fault leaves a context unusable, and a batch that was too large has filled the memory; the next call begins on a
//! GPU without either. What is known of the GPU, and the kernels that are compiled, stay.

use std::cell::{Cell, OnceCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use kernels::{Compiler, Gpu};

use crate::backend::cuda::{Job, Known, Limits, Open, Tell, device, lower, translate};
use crate::cancel::Cancel;
use crate::capture::Capture;
use crate::error::{Error, Result};
use crate::hw::Device;
use crate::numerics::CheckReport;
use crate::plan::LaunchPlan;
use crate::units::Nanos;
use crate::workload::Batch;

/// The first GPU of this machine.
#[derive(Debug)]
pub struct Cuda {
    open: Option<Open>,
    known: Rc<Known>,
}

impl Cuda {
    /// Opens the first GPU; `cache` is the folder for compiled kernels.
    ///
    /// # Errors
    /// [`Error::Hardware`] where driver, GPU or NVRTC are missing, with the remedy, [`Error::Cancelled`].
    pub fn open(cache: Option<PathBuf>, tell: Tell, cancel: &Cancel) -> Result<Self> {
        let gpu = Gpu::open(0).map_err(translate)?;
        let compiler = Compiler::new(gpu.arch(), cache).map_err(translate)?.on_compile(move |event| {
            tell(&format!("compiled {} in {:.1} s", event.what, event.took.as_secs_f64()));
        });
        stop_when(&gpu, &compiler, cancel);
        let stream = gpu.stream().map_err(translate)?;
        let clock_step = Nanos(kernels::clock_step(&gpu, &compiler, &stream).map_err(translate)?);
        let device = device::describe(gpu.info(), &compiler)?;
        let known = Rc::new(Known {
            compiler,
            device,
            clock_step,
            gpcs: OnceCell::new(),
            pausing: OnceCell::new(),
            deterministic: Cell::new(false),
        });
        let open = Open::of(gpu, stream, &known)?;
        Ok(Self { open: Some(open), known })
    }

    /// Name of the first GPU and its built-in device, found without a context on it.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn find() -> Result<(String, Option<&'static Device>)> {
        let info = Gpu::find(0).map_err(translate)?;
        kernels::nvrtc_version().map_err(translate)?;
        let device = device::built_in(&info);
        Ok((info.name, device))
    }

    /// The GPU as a device of the table: the built-in entry where there is one.
    pub fn device(&self) -> &Device {
        &self.known.device
    }

    /// Has kernels give the same bits in every run from now on, or be as fast as they can.
    pub fn set_deterministic(&self, on: bool) {
        self.known.deterministic.set(on);
    }

    /// Whether the kernels run a plan as its system prescribes.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with what they do not run.
    pub fn accepts(plan: &LaunchPlan) -> Result<()> {
        lower::check(plan)
    }

    /// What the GPU can do at best, each plain read `repeats` times.
    ///
    /// # Errors
    /// [`Error::Gpu`], [`Error::Cancelled`].
    pub fn limits(&mut self, repeats: u32, cancel: &Cancel) -> Result<Limits> {
        self.using(cancel, |open| open.limits(repeats))
    }

    /// Runs a plan: plain repeats for the times, then traced ones for the spans.
    ///
    /// # Errors
    /// [`Error::Gpu`] when the GPU fails or has too little memory, [`Error::Unsupported`] for a plan
    /// without kernels, [`Error::Cancelled`].
    pub fn run(&mut self, job: &Job<'_>, cancel: &Cancel) -> Result<Capture> {
        self.using(cancel, |open| open.run(job, cancel))
    }

    /// Runs plans of one batch once each on fresh random input with poisoned outputs, and compares with the f64
    /// reference, which is computed once. One report a plan.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn check(
        &mut self,
        batch: &Batch,
        plans: &[&LaunchPlan],
        seed: u64,
        cancel: &Cancel,
    ) -> Result<Vec<CheckReport>> {
        self.using(cancel, |open| open.check(batch, plans, seed, cancel))
    }

    /// Works on the open GPU.
    fn using<T>(&mut self, cancel: &Cancel, work: impl FnOnce(&mut Open) -> Result<T>) -> Result<T> {
        // Out of its place, so that a panic closes it as well.
        let mut open = match self.open.take() {
            Some(open) => open,
            None => Open::anew(&self.known)?,
        };
        stop_when(&open.gpu, &self.known.compiler, cancel);
        let done = work(&mut open);
        if !matches!(done, Err(Error::Gpu(_) | Error::Cancelled)) {
            self.open = Some(open);
        }
        done
    }
}

impl Open {
    fn anew(known: &Rc<Known>) -> Result<Self> {
        let gpu = Gpu::open(0).map_err(translate)?;
        let stream = gpu.stream().map_err(translate)?;
        Self::of(gpu, stream, known)
    }

    fn of(gpu: Gpu, stream: kernels::Stream, known: &Rc<Known>) -> Result<Self> {
        let aside = gpu.stream().map_err(translate)?;
        let (known, recovered) = (Rc::clone(known), Instant::now());
        Ok(Self { inputs: None, flush: None, stream, aside, gpu, known, recovered })
    }
}

/// Has waits and compilations end once `cancel` says so.
fn stop_when(gpu: &Gpu, compiler: &Compiler, cancel: &Cancel) {
    let (waits, compiles) = (cancel.clone(), cancel.clone());
    gpu.stop_when(move || waits.is_cancelled());
    compiler.stop_when(move || compiles.is_cancelled());
}
