//! What the GPU can do at best, measured on it: plain reads, tensor cores, and both at once.

use kernels::{CoRunRates, KernelError, Protocol, Stamps};

use crate::backend::cuda::{Open, RECOVERY, pauses, translate};
use crate::capture::Spread;
use crate::error::Result;
use crate::hw::HybridLimits;
use crate::units::Bytes;

/// Sizes of the plain reads, MiB.
const READ_MIB: [usize; 10] = [1, 8, 16, 34, 64, 128, 256, 512, 1024, 4096];

/// What the GPU can do at best.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Times of plain reads with cold L2, by bytes.
    pub read: Vec<ReadTimes>,
    /// Tensor rate of `mma.sync`, FLOP per second.
    pub flops: f64,
    /// Tensor cores and reads alone and at once; `None` without warpgroup instructions.
    pub hybrid: Option<HybridLimits>,
}

/// What plain reads of so many bytes took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadTimes {
    pub(crate) bytes: Bytes,
    pub(crate) spread: Spread,
    /// See [`Pauses::steady`](crate::capture::Pauses::steady).
    pub(crate) steady: Option<f64>,
}

impl Open {
    /// Measures them, each read so many times, without the inputs of any batch on the GPU.
    pub(super) fn limits(&mut self, repeats: u32) -> Result<Limits> {
        self.inputs = None;
        let flush = self.flush()?;
        let stamps = Stamps::new(&self.gpu, &self.known.compiler, repeats as usize).map_err(translate)?;
        let protocol = Protocol { warm_ups: 5, repeats, flush: Some(flush), graph: false, stamps: Some(stamps) };
        let measured = self.measure_limits(&protocol).map_err(translate);
        self.flush = protocol.flush;
        // Tensor cores at work beside reads draw all the power that the GPU may.
        self.rest(RECOVERY);
        measured
    }

    fn measure_limits(&self, protocol: &Protocol) -> Result<Limits, KernelError> {
        let read = self.read_curve(protocol)?;
        let (gpu, compiler) = (&self.gpu, &self.known.compiler);
        let flops = kernels::mma_rate(gpu, compiler, &self.stream)?;
        let hybrid = match kernels::co_run(gpu, compiler, &self.stream) {
            Ok(rates) => Some(hybrid_limits(&rates, gpu.info().clock_khz)),
            Err(KernelError::Unsupported(_)) => None,
            Err(error) => return Err(error),
        };
        Ok(Limits { read, flops, hybrid })
    }

    fn read_curve(&self, protocol: &Protocol) -> Result<Vec<ReadTimes>, KernelError> {
        let free = self.gpu.memory()?.0;
        let sizes: Vec<usize> = READ_MIB.into_iter().map(|mib| mib << 20).filter(|size| *size < free / 2).collect();
        let buffer = self.gpu.allocate(sizes.last().copied().unwrap_or(1 << 20))?;
        let mut points = Vec::new();
        let sight = || protocol.flush.as_ref().map_or(Ok(None), |source| self.sight_in(source));
        let mut before = sight()?;
        for size in sizes {
            let timing = kernels::read_time(&self.gpu, &self.known.compiler, protocol, &self.stream, &buffer, size)?;
            let after = sight()?;
            let (times, pauses) = (pauses::times(&timing), pauses::of_timing(&timing, before, after));
            let steady = pauses.and_then(|pauses| pauses.steady(&times));
            points.push(ReadTimes { bytes: Bytes(size as u64), spread: times.spread(), steady });
            before = after;
        }
        Ok(points)
    }
}

/// With two readers per SM, as decode beside prefill should have: one is starved by the products.
fn hybrid_limits(rates: &CoRunRates, clock_khz: u32) -> HybridLimits {
    let [_, both] = rates.both;
    let most = u64::from(clock_khz) * 1000;
    HybridLimits {
        flops_alone: rates.tensor.flops as u64,
        bytes_per_s_alone: rates.read[0].bytes.max(rates.read[1].bytes) as u64,
        flops: both.flops as u64,
        bytes_per_s: both.bytes as u64,
        clock_most: most.max(rates.tensor.clock as u64),
        clock_alone: rates.tensor.clock as u64,
        clock: both.clock as u64,
    }
}
