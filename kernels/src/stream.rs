//! Streams and events, and which stream's CTAs go first.

use std::cell::Cell;
use std::rc::Rc;

use cudarc::driver::{result, sys};

use crate::context::Context;
use crate::error::KernelError;
use crate::gpu::Gpu;

impl Gpu {
    /// A stream that does not wait for the legacy default stream. No CTAs go before its own.
    pub fn stream(&self) -> Result<Stream, KernelError> {
        self.stream_behind(0)
    }

    /// A stream whose CTAs start where those of so many other streams leave room, as far as the device has priorities.
    ///
    /// Without them the GPU may start the CTAs of streams that were forked together in any order, and plans put the
    /// longest first: on an H100 one plan took 160 or 213 µs from run to run.
    pub(crate) fn stream_behind(&self, others: usize) -> Result<Stream, KernelError> {
        let (mut least, mut greatest) = (0, 0);
        // SAFETY: writes to two integers of ours.
        let asked = unsafe { sys::cuCtxGetStreamPriorityRange(&raw mut least, &raw mut greatest) }.result();
        self.context.checked(asked, "asking for the priorities of streams")?;
        let (mut raw, flags) = (std::ptr::null_mut(), sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32);
        // SAFETY: writes the stream to a place of ours; destroyed in `Stream::drop`.
        let made = unsafe { sys::cuStreamCreateWithPriority(&raw mut raw, flags, priority(others, greatest, least)) };
        self.context.checked(made.result(), "creating a stream")?;
        Ok(Stream { raw, launched: Cell::new(0), context: Rc::clone(&self.context) })
    }

    pub(crate) fn event(&self) -> Result<Event, KernelError> {
        let made = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let raw = self.context.checked(made, "creating an event")?;
        Ok(Event { raw, context: Rc::clone(&self.context) })
    }
}

/// The priority behind so many other streams, the lesser number going first; past the least one all share that.
fn priority(others: usize, greatest: i32, least: i32) -> i32 {
    i32::try_from(others).map_or(least, |others| greatest.saturating_add(others).min(least))
}

/// An owned stream.
#[derive(Debug)]
pub struct Stream {
    pub(crate) raw: sys::CUstream,
    /// Kernels launched so far.
    launched: Cell<u32>,
    pub(crate) context: Rc<Context>,
}

impl Stream {
    /// Waits for the stream's work, for as long as nobody asks to stop.
    pub fn synchronize(&self) -> Result<(), KernelError> {
        // SAFETY: the stream is alive.
        self.context.wait(|| unsafe { sys::cuStreamQuery(self.raw) }.result())
    }

    /// Notes that so many kernels were launched.
    pub(crate) fn count(&self, launches: u32) {
        self.launched.set(self.launched.get().wrapping_add(launches));
    }

    /// Kernels launched so far; wraps around.
    pub(crate) fn launched(&self) -> u32 {
        self.launched.get()
    }

    pub(crate) fn wait(&self, event: &Event) -> Result<(), KernelError> {
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: both are alive.
        let joined = unsafe { result::stream::wait_event(self.raw, event.raw, flags) };
        self.context.checked(joined, "joining streams")
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: created once in `Gpu::stream_behind`; the driver finishes its work first.
        self.context.give_back(|| unsafe { result::stream::destroy(self.raw) });
    }
}

#[derive(Debug)]
pub(crate) struct Event {
    raw: sys::CUevent,
    context: Rc<Context>,
}

impl Event {
    pub(crate) fn record(&self, stream: &Stream) -> Result<(), KernelError> {
        // SAFETY: both are alive.
        let recorded = unsafe { result::event::record(self.raw, stream.raw) };
        self.context.checked(recorded, "recording an event")
    }

    /// Microseconds from `self` to `end`, both completed.
    pub(crate) fn micros_to(&self, end: &Self) -> Result<f64, KernelError> {
        // SAFETY: both are alive.
        let ms = unsafe { result::event::elapsed(self.raw, end.raw) };
        Ok(f64::from(self.context.checked(ms, "reading events")?) * 1e3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created once in `Gpu::event`.
        self.context.give_back(|| unsafe { result::event::destroy(self.raw) });
    }
}

#[cfg(test)]
mod tests {
    use super::priority;

    #[test]
    fn streams_go_in_their_order_as_far_as_the_device_has_priorities() {
        // As an H100 has them, from -5 down to 0.
        assert_eq!([0, 1, 4, 5, 6, usize::MAX].map(|others| priority(others, -5, 0)), [-5, -4, -1, 0, 0, 0]);
        // A device without.
        assert_eq!([0, 1].map(|others| priority(others, 0, 0)), [0, 0]);
    }
}
