//! The two curves behind a floor: how long plain reads of so many bytes take, and the tensor rate.

use std::ops::Range;

use crate::compile::Compiler;
use crate::error::KernelError;
use crate::gpu::{DeviceBuffer, Function, Gpu};
use crate::plan::Dtype;
use crate::stream::Stream;
use crate::timing::{Protocol, Timing};

#[repr(C)]
struct ReadParams {
    from: u64,
    vectors: u64,
    sink: u64,
}

#[repr(C)]
struct MmaParams {
    sink: u64,
    rounds: u32,
    unused: u32,
}

/// Ring of the bulk-copy reader: 6 stages of 8 KiB.
const BULK_SHARED: u32 = 6 * 8192;

/// How long the plain read kernel that is fastest by its median takes to fetch the first `bytes` of `source` under
/// `protocol`: 16-byte loads and, where the GPU has them, bulk copies, with 1 to 4 CTAs per SM. `bytes` is cut to a multiple of 8 KiB.
pub fn read_time(
    gpu: &Gpu,
    compiler: &Compiler,
    protocol: &Protocol,
    stream: &Stream,
    source: &DeviceBuffer,
    bytes: usize,
) -> Result<Timing, KernelError> {
    let bytes = bytes.min(source.bytes()) / 8192 * 8192;
    let sink = gpu.allocate(16)?;
    let params = ReadParams { from: source.address(), vectors: (bytes / 16) as u64, sink: sink.address() };
    let mut best: Option<Timing> = None;
    let mut variants = vec![("packscope_read", 512, 0)];
    if compiler.arch().bulk_copies() {
        variants.push(("packscope_read_bulk", 32, BULK_SHARED));
    }
    for (entry, threads, shared) in variants {
        let mut kernel = compiler.limits(entry)?;
        kernel.resources.threads = threads;
        kernel.resources.shared_bytes = shared;
        let function = gpu.load(&kernel)?;
        for per_sm in 1..=4 {
            let grid = gpu.info().sms * per_sm;
            let timing = protocol.time(gpu, stream, |s| {
                // SAFETY: the structure is the kernel's only parameter, and it reads `bytes` of a live buffer.
                unsafe { function.launch(grid, threads, s, &params) }
            })?;
            if best.as_ref().is_none_or(|best| timing.median() < best.median()) {
                best = Some(timing);
            }
        }
    }
    Ok(best.unwrap_or(Timing { micros: Vec::new(), stamps: Vec::new() }))
}

/// A plain read of a whole buffer, which leaves none of another buffer's lines in L2, dirty or clean.
#[derive(Debug)]
pub struct Sweep {
    function: Function,
    sink: DeviceBuffer,
    grid: u32,
}

impl Sweep {
    /// Loads the kernel.
    pub fn new(gpu: &Gpu, compiler: &Compiler) -> Result<Self, KernelError> {
        let mut kernel = compiler.limits("packscope_read")?;
        kernel.resources.threads = 512;
        Ok(Self { function: gpu.load(&kernel)?, sink: gpu.allocate(16)?, grid: gpu.info().sms * 2 })
    }

    /// Queues a read of `source`.
    pub fn read(&self, source: &DeviceBuffer, stream: &Stream) -> Result<(), KernelError> {
        let vectors = (source.bytes() / 16) as u64;
        let params = ReadParams { from: source.address(), vectors, sink: self.sink.address() };
        // SAFETY: the structure is the kernel's only parameter, and it reads a live buffer.
        unsafe { self.function.launch(self.grid, 512, stream, &params) }
    }
}

/// Tensor rate of `mma.sync` m16n8k16 with 32-bit accumulators, in FLOP per second, on random operands.
pub fn mma_rate(gpu: &Gpu, compiler: &Compiler, stream: &Stream) -> Result<f64, KernelError> {
    const ROUNDS: u32 = 4096;
    let sink = gpu.allocate(16)?;
    let params = MmaParams { sink: sink.address(), rounds: ROUNDS, unused: 0 };
    let mut kernel = compiler.limits("packscope_mma")?;
    kernel.resources.threads = 256;
    let function = gpu.load(&kernel)?;
    let grid = gpu.info().sms * 2;
    let timing = Protocol::warm().time(gpu, stream, |s| {
        // SAFETY: the structure is the kernel's only parameter; the sink is a live buffer.
        unsafe { function.launch(grid, 256, s, &params) }
    })?;
    let flop = f64::from(grid) * 8.0 * f64::from(ROUNDS) * 16.0 * (2 * 16 * 8 * 16) as f64;
    Ok(flop / (timing.median() * 1e-6))
}

#[repr(C)]
struct FillParams {
    to: u64,
    count: u64,
    first: u64,
    seed: u32,
    kind: u32,
}

/// Which values fill a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// [`random_value`]: exact in f16 and bf16, so that the host knows them, but most bits of their mantissas are zero.
    Exact,
    /// Near the normal distribution with whole mantissas. Tensor cores draw more power on them, so the clock under load
    /// is that of real work.
    Normal,
}

/// Fills a buffer with 16-bit random values, value `i` being [`random_value`]`(seed, i)`.
pub fn fill_random(
    gpu: &Gpu,
    compiler: &Compiler,
    stream: &Stream,
    buffer: &DeviceBuffer,
    dtype: Dtype,
    seed: u32,
) -> Result<(), KernelError> {
    let values = buffer.bytes() / 2;
    fill_random_part(gpu, compiler, stream, (buffer, 0..values, 0), dtype, (Values::Exact, seed))
}

/// As [`fill_random`], for some of a buffer's values, the first of which has the number `first`, and of any kind.
pub fn fill_random_part(
    gpu: &Gpu,
    compiler: &Compiler,
    stream: &Stream,
    (buffer, values, first): (&DeviceBuffer, Range<usize>, u64),
    dtype: Dtype,
    (kind, seed): (Values, u32),
) -> Result<(), KernelError> {
    if values.start > values.end || values.end > buffer.bytes() / 2 {
        return Err(KernelError::Plan(format!("values {values:?} of a buffer of {} bytes", buffer.bytes())));
    }
    let mut kernel = compiler.limits("packscope_fill")?;
    kernel.resources.threads = 256;
    let function = gpu.load(&kernel)?;
    let to = buffer.address() + values.start as u64 * 2;
    let kind = u32::from(dtype == Dtype::Bf16) | if kind == Values::Normal { 2 } else { 0 };
    let params = FillParams { to, count: values.len() as u64, first, seed, kind };
    // SAFETY: the structure is the kernel's only parameter; it writes `count` values of a live buffer, as checked above.
    unsafe { function.launch(gpu.info().sms * 8, 256, stream, &params)? };
    stream.synchronize()
}

/// The value that [`fill_random`] writes at `index`: a multiple of 1/64 in [-2, 2), exact in f16 and bf16.
pub fn random_value(seed: u32, index: u64) -> f32 {
    let seed = u64::from(seed) << 32 | u64::from(seed);
    let mut x = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed;
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x >> 56) as i32 - 128) as f32 / 64.0
}
