//! What tensor cores and memory do at once: the floor of a hybrid batch.
//!
//! A floor that takes prefill at the tensor rate and decode at the memory rate, each as if it were alone, is one that no
//! GPU reaches: the two share the SMs' issue slots and shared memory, and above all the power. Here a loop with the
//! products and the exponentials of prefill runs beside one or two CTAs per SM that read memory through a ring, as decode
//! does, and both count what they do in a given time.

use crate::compile::Compiler;
use crate::error::KernelError;
use crate::gpu::{DeviceBuffer, Function, Gpu};
use crate::limits::fill_random;
use crate::plan::Dtype;
use crate::stream::Stream;

/// What one measurement showed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CoRate {
    /// Tensor work, FLOP per second.
    pub flops: f64,
    /// Memory read, bytes per second.
    pub bytes: f64,
    /// Clock of the SMs, Hz; 0 where only the reader ran.
    pub clock: f64,
}

/// Rates alone and together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CoRunRates {
    /// The tensor loop alone.
    pub tensor: CoRate,
    /// The reader alone, with one and with two CTAs per SM.
    pub read: [CoRate; 2],
    /// Both, with one and with two reader CTAs per SM.
    pub both: [CoRate; 2],
}

#[repr(C)]
struct CoRunParams {
    from: u64,
    bytes: u64,
    done: u64,
    nanos: u64,
    sink: u64,
}

/// How long each measurement lasts: long enough for the clock to come down to what the power allows.
const NANOS: u64 = 20_000_000;

/// Memory that the reader goes through again and again: many times the L2.
const SOURCE: usize = 2 << 30;

const TENSOR_THREADS: u32 = 256;
const TENSOR_SHARED: u32 = 64 << 10;
const READ_THREADS: u32 = 128;
const READ_SHARED: u32 = 64 << 10;

/// QK and PV of 64 rows by 128 tokens by 128 dimensions, by one warpgroup.
const STEP_FLOP: f64 = 2.0 * 2.0 * 64.0 * 128.0 * 128.0;

struct Bench<'a> {
    gpu: &'a Gpu,
    stream: &'a Stream,
    beside: Stream,
    tensor: Function,
    read: Function,
    source: DeviceBuffer,
    done: DeviceBuffer,
    sink: DeviceBuffer,
}

/// Measures both alone and together.
///
/// # Errors
/// [`KernelError::Unsupported`] without warpgroup instructions.
pub fn co_run(gpu: &Gpu, compiler: &Compiler, stream: &Stream) -> Result<CoRunRates, KernelError> {
    let load = |entry, threads, shared| {
        let mut kernel = compiler.co_run(entry)?;
        kernel.resources.threads = threads;
        kernel.resources.shared_bytes = shared;
        gpu.load(&kernel)
    };
    let bench = Bench {
        gpu,
        stream,
        beside: gpu.stream()?,
        tensor: load("packscope_co_tensor", TENSOR_THREADS, TENSOR_SHARED)?,
        read: load("packscope_co_read", READ_THREADS, READ_SHARED)?,
        source: gpu.allocate(SOURCE)?,
        done: gpu.allocate(32)?,
        sink: gpu.allocate(16)?,
    };
    fill_random(gpu, compiler, stream, &bench.source, Dtype::F16, 1)?;
    Ok(CoRunRates {
        tensor: bench.rates(true, 0)?,
        read: [bench.rates(false, 1)?, bench.rates(false, 2)?],
        both: [bench.rates(true, 1)?, bench.rates(true, 2)?],
    })
}

impl Bench<'_> {
    /// Rates with the tensor loop, or without, beside so many reader CTAs per SM.
    fn rates(&self, tensor: bool, readers: u32) -> Result<CoRate, KernelError> {
        let sms = self.gpu.info().sms;
        let params = CoRunParams {
            from: self.source.address(),
            bytes: SOURCE as u64,
            done: self.done.address(),
            nanos: NANOS,
            sink: self.sink.address(),
        };
        self.done.fill(0, self.stream)?;
        self.stream.synchronize()?;
        if tensor {
            // SAFETY: the structure is the kernel's only parameter; `self` holds its buffers until both have ended.
            unsafe { self.tensor.launch(sms, TENSOR_THREADS, self.stream, &params)? };
        }
        if readers > 0 {
            // SAFETY: likewise.
            unsafe { self.read.launch(sms * readers, READ_THREADS, &self.beside, &params)? };
        }
        self.stream.synchronize()?;
        self.beside.synchronize()?;
        let done: Vec<u64> = self.done.read(0, 4)?;
        let seconds = NANOS as f64 * 1e-9;
        Ok(CoRate {
            flops: done[0] as f64 * STEP_FLOP / seconds,
            bytes: done[1] as f64 / seconds,
            clock: if done[3] > 0 { done[2] as f64 / done[3] as f64 * 1e9 } else { 0.0 },
        })
    }
}
