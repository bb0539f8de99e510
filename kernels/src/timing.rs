//! Timed repeats: cold or warm L2, warm-ups, median; events around the whole call, plainly launched or as a graph.

use std::rc::Rc;

use cudarc::driver::{result, sys};

use crate::context::Context;
use crate::error::KernelError;
use crate::gpu::{DeviceBuffer, Gpu};
use crate::stream::Stream;

/// How a call is timed.
#[derive(Debug)]
pub struct Protocol {
    /// Runs before the first that counts.
    pub warm_ups: u32,
    /// Runs that count.
    pub repeats: u32,
    /// Written before each run, so that L2 holds none of the inputs; `None` leaves L2 warm.
    pub flush: Option<DeviceBuffer>,
    /// Replay the call as a CUDA graph instead of launching it.
    pub graph: bool,
}

/// Times of the runs that counted, microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// In the order in which they ran.
    pub micros: Vec<f64>,
}

impl Timing {
    /// Median, microseconds; 0 when nothing ran.
    pub fn median(&self) -> f64 {
        let mut sorted = self.micros.clone();
        sorted.sort_by(f64::total_cmp);
        match sorted.len() {
            0 => 0.0,
            n if n % 2 == 1 => sorted[n / 2],
            n => sorted[n / 2 - 1].midpoint(sorted[n / 2]),
        }
    }
}

impl Protocol {
    /// The published protocol: 512 MiB written before each run, 5 warm-ups, 20 runs.
    pub fn cold(gpu: &Gpu) -> Result<Self, KernelError> {
        Ok(Self { warm_ups: 5, repeats: 20, flush: Some(gpu.allocate(512 << 20)?), graph: false })
    }

    /// The same with a warm L2.
    pub fn warm() -> Self {
        Self { warm_ups: 5, repeats: 20, flush: None, graph: false }
    }

    /// Times `call`, which queues its work on the stream that it is given and allocates nothing. Without a flush each
    /// timed call follows an untimed one.
    pub fn time(
        &self,
        gpu: &Gpu,
        stream: &Stream,
        mut call: impl FnMut(&Stream) -> Result<(), KernelError>,
    ) -> Result<Timing, KernelError> {
        let graph = if self.graph { Some(Graph::capture(stream, &mut call)?) } else { None };
        let mut queue = |stream: &Stream| match &graph {
            Some(graph) => graph.launch(stream),
            None => call(stream),
        };
        let (begin, end) = (gpu.event()?, gpu.event()?);
        let mut micros = Vec::with_capacity(self.repeats as usize);
        for run in 0..self.warm_ups + self.repeats {
            // Nothing waits before the first event: the GPU is busy with what comes before it while the CPU queues the
            // call, so the events see what the GPU takes and not how fast the CPU submits.
            match &self.flush {
                Some(buffer) => buffer.fill(run as u8, stream)?,
                None => queue(stream)?,
            }
            begin.record(stream)?;
            queue(stream)?;
            end.record(stream)?;
            stream.synchronize()?;
            if run >= self.warm_ups {
                micros.push(begin.micros_to(&end)?);
            }
        }
        Ok(Timing { micros })
    }
}

/// A captured and instantiated call.
struct Graph {
    exec: sys::CUgraphExec,
    context: Rc<Context>,
}

impl Graph {
    fn capture(
        stream: &Stream,
        call: &mut impl FnMut(&Stream) -> Result<(), KernelError>,
    ) -> Result<Self, KernelError> {
        let context = &stream.context;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is alive and idle on our side.
        let begun = unsafe { result::stream::begin_capture(stream.raw, mode) };
        context.checked(begun, "beginning a capture")?;
        if let Err(failed) = call(stream) {
            // SAFETY: the capture was begun above, and what it holds so far is not used after this.
            context.give_back(|| unsafe {
                result::stream::end_capture(stream.raw).and_then(|graph| result::graph::destroy(graph))
            });
            return Err(failed);
        }
        // SAFETY: the capture was begun above.
        let graph = context.checked(unsafe { result::stream::end_capture(stream.raw) }, "ending a capture")?;
        // SAFETY: `graph` is whole.
        let exec = unsafe { result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)) };
        let exec = context.checked(exec, "instantiating a graph");
        // SAFETY: what was instantiated stands without it, and it is not used after this.
        context.give_back(|| unsafe { result::graph::destroy(graph) });
        Ok(Self { exec: exec?, context: Rc::clone(context) })
    }

    fn launch(&self, stream: &Stream) -> Result<(), KernelError> {
        // SAFETY: both are alive.
        let launched = unsafe { result::graph::launch(self.exec, stream.raw) };
        self.context.checked(launched, "launching a graph")
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: instantiated in `capture`, destroyed once.
        self.context.give_back(|| unsafe { result::graph::exec_destroy(self.exec) });
    }
}

#[cfg(test)]
mod tests {
    use super::Timing;

    #[test]
    fn the_median_of_an_even_count_is_the_mean_of_the_middle_two() {
        assert!((Timing { micros: vec![4.0, 1.0, 3.0, 2.0] }.median() - 2.5).abs() < 1e-12);
        assert!((Timing { micros: vec![9.0, 1.0, 3.0] }.median() - 3.0).abs() < 1e-12);
    }
}
