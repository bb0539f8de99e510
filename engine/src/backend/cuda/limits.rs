//! What the GPU can do at best, measured on it: plain reads, tensor cores, and both at once.

use kernels::{CoRunRates, KernelError, Protocol};

use crate::backend::cuda::{Open, RECOVERY, translate};
use crate::capture::Spread;
use crate::error::Result;
use crate::hw::HybridLimits;
use crate::units::{Bytes, Nanos};

/// Sizes of the plain reads, MiB.
const READ_MIB: [usize; 10] = [1, 8, 16, 34, 64, 128, 256, 512, 1024, 4096];

/// What the GPU can do at best.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Times of plain reads with cold L2, by bytes.
    pub read: Vec<(Bytes, Spread)>,
    /// Tensor rate of `mma.sync`, FLOP per second.
    pub flops: f64,
    /// Tensor cores and reads alone and at once; `None` without warpgroup instructions.
    pub hybrid: Option<HybridLimits>,
}

impl Open {
    /// Measures them, each read so many times, without the inputs of any batch on the GPU.
    pub(super) fn limits(&mut self, repeats: u32) -> Result<Limits> {
        self.inputs = None;
        let flush = self.flush()?;
        let protocol = Protocol { warm_ups: 5, repeats, flush: Some(flush), graph: false };
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

    fn read_curve(&self, protocol: &Protocol) -> Result<Vec<(Bytes, Spread)>, KernelError> {
        let free = self.gpu.memory()?.0;
        let sizes: Vec<usize> = READ_MIB.into_iter().map(|mib| mib << 20).filter(|size| *size < free / 2).collect();
        let buffer = self.gpu.allocate(sizes.last().copied().unwrap_or(1 << 20))?;
        let mut points = Vec::new();
        for size in sizes {
            let timing = kernels::read_time(&self.gpu, &self.known.compiler, protocol, &self.stream, &buffer, size)?;
            let times = timing.micros.iter().map(|micros| Nanos((micros * 1e3).round() as u64));
            points.push((Bytes(size as u64), Spread::of(times.collect())));
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
