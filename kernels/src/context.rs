//! The context on the GPU, and what becomes of it: every driver call reports here, every wait is made here, and what
//! is given back goes through here.
//!
//! ```text
//! well ──► a call says that a kernel or the device broke down ──► broken: nothing is given back one by one
//!     └──► somebody asks to stop, and the work does not end ────► busy:   nor is it then
//! ```
//!
//! A broken context frees all that is on it when it goes. A busy one would make whoever lets go of it wait for the
//! work, so that a thread of its own does.

use std::cell::Cell;
use std::time::{Duration, Instant};

use cudarc::driver::{DriverError, result, sys};

use crate::error::{During, KernelError, Trouble};
use crate::stop::Stop;

/// For so long a wait asks again at once; a run shorter than that is not made longer by a sleep after it.
const SPIN: Duration = Duration::from_millis(20);
/// Sleep between two questions of a longer wait: a hundredth of it at most.
const NAP: Duration = Duration::from_micros(200);
/// For so long the work in hand may go on after somebody has asked to stop.
const GRACE: Duration = Duration::from_millis(300);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Well,
    Broken,
    Busy,
}

/// The primary context of a device, retained and current on this thread.
#[derive(Debug)]
pub(crate) struct Context {
    device: sys::CUdevice,
    state: Cell<State>,
    pub(crate) stop: Stop,
}

impl Context {
    pub(crate) fn open(device: sys::CUdevice) -> Result<Self, KernelError> {
        // SAFETY: `device` is valid; released in `drop`.
        let raw = unsafe { result::primary_ctx::retain(device) }.during("creating a context")?;
        let context = Self { device, state: Cell::new(State::Well), stop: Stop::default() };
        // SAFETY: `raw` was retained above.
        context.checked(unsafe { result::ctx::set_current(raw) }, "making the context current")?;
        Ok(context)
    }

    /// What a call gave, or the error with its remedy. After one that leaves the context of no use, nothing is asked of
    /// it any more.
    pub(crate) fn checked<T>(&self, result: Result<T, DriverError>, what: &'static str) -> Result<T, KernelError> {
        if result.as_ref().is_err_and(|e| Trouble::of(e.0).is_final()) {
            self.state.set(State::Broken);
        }
        result.during(what)
    }

    /// Waits until `query` finds all done, for as long as nobody asks to stop.
    pub(crate) fn wait(&self, query: impl Fn() -> Result<(), DriverError>) -> Result<(), KernelError> {
        let start = Instant::now();
        loop {
            if self.stop.is_asked() {
                self.end_within_grace(query);
                return Err(KernelError::Stopped);
            }
            match query() {
                Err(e) if e.0 == sys::CUresult::CUDA_ERROR_NOT_READY => pause(start),
                done => return self.checked(done, "running the kernels"),
            }
        }
    }

    /// Lets the work in hand end, so that what it works on can be given back. Work that does not end keeps all of it.
    fn end_within_grace(&self, query: impl Fn() -> Result<(), DriverError>) {
        let start = Instant::now();
        loop {
            match query() {
                Err(e) if e.0 == sys::CUresult::CUDA_ERROR_NOT_READY => {}
                // A failure of work that nobody wants is no news; it is only noted that the context is broken.
                done => return drop(self.checked(done, "running the kernels")),
            }
            if start.elapsed() > GRACE {
                return self.state.set(State::Busy);
            }
            pause(start);
        }
    }

    /// Gives something back, unless the context does so as a whole. A failure leaves nothing to do: what was wrong was
    /// said by the call before it.
    pub(crate) fn give_back(&self, free: impl FnOnce() -> Result<(), DriverError>) {
        if self.state.get() == State::Well {
            let _ = free();
        }
    }
}

fn pause(start: Instant) {
    if start.elapsed() < SPIN {
        std::hint::spin_loop();
    } else {
        std::thread::sleep(NAP);
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let device = self.device;
        // SAFETY: retained once in `open`; all owners of device objects hold this context and are gone.
        let release = move || unsafe { result::primary_ctx::release(device) };
        if self.state.get() == State::Busy {
            // Without a thread for it, it stays until the process ends.
            let _ = std::thread::Builder::new().name("gpu release".to_owned()).spawn(release);
        } else {
            let _ = release();
        }
    }
}
