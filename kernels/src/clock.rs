//! The device's own clock: its step, stamps before and after a call, and pulses that other clocks see too.

use crate::compile::Compiler;
use crate::error::KernelError;
use crate::gpu::{DeviceBuffer, Function, Gpu};
use crate::stream::Stream;

#[repr(C)]
struct StampParams {
    to: u64,
}

/// `%globaltimer` at moments of a stream: a kernel of one thread that writes it down.
#[derive(Debug)]
pub struct Stamps {
    function: Function,
    values: DeviceBuffer,
    count: usize,
}

impl Stamps {
    /// Room for `count` stamps.
    pub fn new(gpu: &Gpu, compiler: &Compiler, count: usize) -> Result<Self, KernelError> {
        let mut kernel = compiler.limits("packscope_stamp")?;
        kernel.resources.threads = 32;
        Ok(Self { function: gpu.load(&kernel)?, values: gpu.upload(&vec![0_u64; count])?, count })
    }

    /// Queues a stamp on `stream`, into place `at`.
    pub fn stamp(&self, at: usize, stream: &Stream) -> Result<(), KernelError> {
        if at >= self.count {
            return Err(KernelError::Plan(format!("stamp {at} of {}", self.count)));
        }
        let params = StampParams { to: self.values.address() + at as u64 * 8 };
        // SAFETY: the structure is the kernel's only parameter; it writes one of the `count` values of a live buffer.
        unsafe { self.function.launch(1, 32, stream, &params) }
    }

    /// The stamps in nanoseconds; wait for the stream first.
    pub fn read(&self) -> Result<Vec<u64>, KernelError> {
        self.values.read(0, self.count)
    }
}

#[repr(C)]
struct PulseParams {
    mark: u64,
    nanos: u64,
}

/// Kernels that keep all SMs busy for a while and say when by `%globaltimer`, so that whatever watches the SMs can be
/// put on that clock.
#[derive(Debug)]
pub struct Pulses {
    function: Function,
    marks: DeviceBuffer,
    count: usize,
    grid: u32,
}

impl Pulses {
    /// Room for `count` pulses.
    pub fn new(gpu: &Gpu, compiler: &Compiler, count: usize) -> Result<Self, KernelError> {
        let mut kernel = compiler.limits("packscope_pulse")?;
        kernel.resources.threads = 32;
        let untouched: Vec<u64> = [u64::MAX, 0].repeat(count);
        Ok(Self { function: gpu.load(&kernel)?, marks: gpu.upload(&untouched)?, count, grid: gpu.info().sms })
    }

    /// Queues pulse `at` on `stream`: one CTA an SM, busy for `nanos`.
    pub fn pulse(&self, at: usize, nanos: u64, stream: &Stream) -> Result<(), KernelError> {
        self.launch(at, nanos, self.grid, stream)
    }

    /// Queues a wait of `nanos` on `stream`, in which one SM alone is busy: what comes before it on the GPU has left no
    /// work by its end. It takes the place of pulse `at`.
    pub fn wait(&self, at: usize, nanos: u64, stream: &Stream) -> Result<(), KernelError> {
        self.launch(at, nanos, 1, stream)
    }

    fn launch(&self, at: usize, nanos: u64, grid: u32, stream: &Stream) -> Result<(), KernelError> {
        if at >= self.count {
            return Err(KernelError::Plan(format!("pulse {at} of {}", self.count)));
        }
        let params = PulseParams { mark: self.marks.address() + at as u64 * 16, nanos };
        // SAFETY: the structure is the kernel's only parameter; it writes two of the values of a live buffer.
        unsafe { self.function.launch(grid, 32, stream, &params) }
    }

    /// First and last nanosecond of each pulse that ran; wait for the stream first.
    pub fn read(&self) -> Result<Vec<(u64, u64)>, KernelError> {
        let marks: Vec<u64> = self.marks.read(0, 2 * self.count)?;
        Ok(marks.chunks_exact(2).map(|mark| (mark[0], mark[1])).filter(|mark| mark.0 <= mark.1).collect())
    }
}

/// The step in which `%globaltimer` advances, in nanoseconds: the least difference among 100,000 readings.
pub fn clock_step(gpu: &Gpu, compiler: &Compiler, stream: &Stream) -> Result<u64, KernelError> {
    let mut kernel = compiler.limits("packscope_clock_step")?;
    kernel.resources.threads = 32;
    let function = gpu.load(&kernel)?;
    let value = gpu.upload(&[0_u64])?;
    let params = StampParams { to: value.address() };
    // SAFETY: the structure is the kernel's only parameter; it writes the one value of a live buffer.
    unsafe { function.launch(1, 32, stream, &params)? };
    stream.synchronize()?;
    Ok(value.read::<u64>(0, 1)?[0])
}
