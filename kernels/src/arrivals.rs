//! When data comes to the SMs during plain reads of a whole buffer: where the memory pauses, nothing comes to any.

use crate::compile::Compiler;
use crate::error::KernelError;
use crate::gpu::{DeviceBuffer, Function, Gpu};
use crate::stream::Stream;

#[repr(C)]
struct ArrivalParams {
    from: u64,
    vectors: u64,
    to: u64,
    passes: u32,
    moments: u32,
}

/// Threads of a CTA, and 16-byte loads that each has in flight.
const THREADS: u32 = 512;
const LOADS: usize = 4;

/// Reads of a buffer that write down when data came, of which one warp per SM tells.
#[derive(Debug)]
pub struct Arrivals {
    function: Function,
    moments: DeviceBuffer,
    grid: u32,
    passes: u32,
    of_a_pass: u32,
}

impl Arrivals {
    /// Of `passes` reads of a buffer of so many bytes, one right after the other.
    pub fn new(gpu: &Gpu, compiler: &Compiler, bytes: usize, passes: u32) -> Result<Self, KernelError> {
        let mut kernel = compiler.limits("packscope_arrivals")?;
        kernel.resources.threads = THREADS;
        let grid = gpu.info().sms;
        let of_a_pass = bytes / (16 * LOADS * (grid * THREADS) as usize);
        let moments = gpu.allocate((8 * of_a_pass * (passes * grid) as usize).max(8))?;
        Ok(Self { function: gpu.load(&kernel)?, moments, grid, passes, of_a_pass: of_a_pass as u32 })
    }

    /// Queues the reads of `source`, which has at least as many bytes as were named.
    pub fn read(&self, source: &DeviceBuffer, stream: &Stream) -> Result<(), KernelError> {
        let vectors = u64::from(self.of_a_pass) * (LOADS * (self.grid * THREADS) as usize) as u64;
        if vectors * 16 > source.bytes() as u64 {
            return Err(KernelError::Plan(format!("reads of {} bytes from {}", vectors * 16, source.bytes())));
        }
        let (from, to) = (source.address(), self.moments.address());
        let params = ArrivalParams { from, vectors, to, passes: self.passes, moments: self.of_a_pass };
        // SAFETY: the structure is the kernel's only parameter; it reads `vectors` vectors, as checked above, and writes the
        // moments of all passes of `grid` CTAs, for which there is room.
        unsafe { self.function.launch(self.grid, THREADS, stream, &params) }
    }

    /// The moments of each CTA in their order, ns on the device's clock; wait for the stream first.
    pub fn moments(&self) -> Result<Vec<Vec<u64>>, KernelError> {
        let of_a_cta = (self.passes * self.of_a_pass) as usize;
        let all: Vec<u64> = self.moments.read(0, of_a_cta * self.grid as usize)?;
        Ok(all.chunks_exact(of_a_cta.max(1)).map(<[u64]>::to_vec).collect())
    }
}
