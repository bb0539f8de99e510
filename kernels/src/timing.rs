//! Timed repeats: cold or warm L2, warm-ups, median; events around the whole call, plainly launched or as a graph.

use std::rc::Rc;

use cudarc::driver::{result, sys};

use crate::clock::Stamps;
use crate::context::Context;
use crate::error::KernelError;
use crate::gpu::{DeviceBuffer, FILLED_BY_A_KERNEL, Gpu};
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
    /// Stamped behind each run that counts, into the place of its number; `None` where no one asks when they ran.
    pub stamps: Option<Stamps>,
}

/// Times of the runs that counted, microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// In the order in which they ran.
    pub micros: Vec<f64>,
    /// A moment of the device's clock just behind each; empty where they were not stamped.
    pub stamps: Vec<u64>,
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

/// Has calls begin at the same place in the driver's turn of launches, wherever those before them left it.
///
/// Of four launches on a stream the first costs the GPU 1 µs more, and by what went before it that was a call's own
/// launch or not: on an H100 and on an H200, driver 580, every second row of a table of 6 µs calls took 0.5 µs longer.
/// A call of up to three launches is timed without that microsecond, of which serving pays a quarter a launch.
#[derive(Debug)]
pub struct Turns {
    spare: DeviceBuffer,
}

/// Launches of a turn, counted from the stream's first.
const TURN: u32 = 4;

impl Turns {
    /// With a spare buffer to fill.
    pub fn new(gpu: &Gpu) -> Result<Self, KernelError> {
        Ok(Self { spare: gpu.allocate(FILLED_BY_A_KERNEL)? })
    }

    /// Queues fills until a call that follows `between` more launches has the whole of a turn but for its first launch.
    pub fn align(&self, between: u32, stream: &Stream) -> Result<(), KernelError> {
        for _ in 0..fills(stream.launched(), between) {
            self.spare.fill(0, stream)?;
        }
        Ok(())
    }
}

/// Launches that are missing before the second of a turn comes `between` launches later.
fn fills(launched: u32, between: u32) -> u32 {
    1_u32.wrapping_sub(launched).wrapping_sub(between) % TURN
}

impl Protocol {
    /// The published protocol: 512 MiB written before each run, 5 warm-ups, 20 runs.
    pub fn cold(gpu: &Gpu) -> Result<Self, KernelError> {
        Ok(Self { warm_ups: 5, repeats: 20, flush: Some(gpu.allocate(512 << 20)?), graph: false, stamps: None })
    }

    /// The same with a warm L2.
    pub fn warm() -> Self {
        Self { warm_ups: 5, repeats: 20, flush: None, graph: false, stamps: None }
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
        // Of one call; known once it was queued.
        let mut launches = 0;
        let (begin, end, turns) = (gpu.event()?, gpu.event()?, Turns::new(gpu)?);
        let mut micros = Vec::with_capacity(self.repeats as usize);
        for run in 0..self.warm_ups + self.repeats {
            // Nothing waits before the first event: the GPU is busy with what comes before it while the CPU queues the
            // call, so the events see what the GPU takes and not how fast the CPU submits.
            turns.align(self.flush.as_ref().map_or(launches, |_| 1), stream)?;
            match &self.flush {
                Some(buffer) => buffer.fill(run as u8, stream)?,
                None => queue(stream)?,
            }
            begin.record(stream)?;
            let before = stream.launched();
            queue(stream)?;
            launches = stream.launched().wrapping_sub(before);
            end.record(stream)?;
            if let (Some(stamps), Some(counted)) = (&self.stamps, run.checked_sub(self.warm_ups)) {
                stamps.stamp(counted as usize, stream)?;
            }
            stream.synchronize()?;
            if run >= self.warm_ups {
                micros.push(begin.micros_to(&end)?);
            }
        }
        let stamps = self.stamps.as_ref().map(Stamps::read).transpose()?.unwrap_or_default();
        Ok(Timing { micros, stamps })
    }
}

/// A captured and instantiated call.
struct Graph {
    exec: sys::CUgraphExec,
    launches: u32,
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
        let before = stream.launched();
        let called = call(stream);
        // Captured is not launched.
        let launches = stream.launched().wrapping_sub(before);
        stream.count(launches.wrapping_neg());
        if let Err(failed) = called {
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
        Ok(Self { exec: exec?, launches, context: Rc::clone(context) })
    }

    fn launch(&self, stream: &Stream) -> Result<(), KernelError> {
        stream.count(self.launches);
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
    use super::{TURN, Timing, fills};

    #[test]
    fn the_median_of_an_even_count_is_the_mean_of_the_middle_two() {
        let median = |micros: &[f64]| Timing { micros: micros.to_vec(), stamps: Vec::new() }.median();
        assert!((median(&[4.0, 1.0, 3.0, 2.0]) - 2.5).abs() < 1e-12);
        assert!((median(&[9.0, 1.0, 3.0]) - 3.0).abs() < 1e-12);
    }

    #[test]
    fn a_call_begins_behind_the_slow_launch_of_a_turn() {
        for launched in [0, 1, 2, 3, 4, 7, u32::MAX - 1, u32::MAX] {
            for between in 0..9 {
                let fills = fills(launched, between);
                assert!(fills < TURN);
                assert_eq!(launched.wrapping_add(fills).wrapping_add(between) % TURN, 1);
            }
        }
    }
}
