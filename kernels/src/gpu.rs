//! The device: context, memory, modules. Thin owners that free what they hold.
//!
//! Nothing here may be sent to another thread: the thread that opens the GPU owns it.

use std::rc::Rc;

use cudarc::driver::{DriverError, result, sys};

use crate::compile::CompiledKernel;
use crate::context::Context;
use crate::error::{During, KernelError, describe};
use crate::spec::Arch;
use crate::stream::Stream;

/// What the driver says about a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuInfo {
    /// Name as the driver gives it.
    pub name: String,
    /// Compute capability, (major, minor).
    pub capability: (u32, u32),
    /// Multiprocessors.
    pub sms: u32,
    /// Shared memory of an SM, bytes.
    pub shared_per_sm: u32,
    /// Largest shared memory of a CTA, bytes.
    pub shared_per_cta: u32,
    /// Registers of an SM.
    pub registers_per_sm: u32,
    /// Warps that fit an SM.
    pub warps_per_sm: u32,
    /// CTAs that fit an SM.
    pub ctas_per_sm: u32,
    /// L2 cache, bytes.
    pub l2_bytes: u32,
    /// Highest clock of the SMs, kHz; 0 where the driver does not tell.
    pub clock_khz: u32,
    /// Device memory, bytes.
    pub memory_bytes: usize,
    /// CUDA version of the driver, major * 1000 + minor * 10.
    pub driver_version: i32,
}

/// One GPU, current on this thread.
#[derive(Debug)]
pub struct Gpu {
    info: GpuInfo,
    pub(crate) context: Rc<Context>,
}

impl Gpu {
    /// Opens device `ordinal` and makes it current on this thread.
    pub fn open(ordinal: usize) -> Result<Self, KernelError> {
        let (device, info) = look(ordinal)?;
        Ok(Self { info, context: Rc::new(Context::open(device)?) })
    }

    /// Has every wait for the GPU ask whether to go on. Where `asked` says to stop, the wait ends with
    /// [`KernelError::Stopped`] once the work that the GPU is at has ended, or shortly after where that does not end; the
    /// GPU is then of no more use, and its memory is free when the work is done.
    pub fn stop_when(&self, asked: impl Fn() -> bool + Send + Sync + 'static) {
        self.context.stop.when(asked);
    }

    /// What the driver says about device `ordinal`, without a context on it: neither its memory nor its time is
    /// taken.
    pub fn find(ordinal: usize) -> Result<GpuInfo, KernelError> {
        Ok(look(ordinal)?.1)
    }

    /// What the driver says about the device.
    pub fn info(&self) -> &GpuInfo {
        &self.info
    }

    /// The compile target of this device.
    pub fn arch(&self) -> Arch {
        Arch {
            capability: self.info.capability.0 * 10 + self.info.capability.1,
            shared_per_sm: self.info.shared_per_sm,
            shared_per_cta: self.info.shared_per_cta,
        }
    }

    /// Free and total device memory in bytes.
    pub fn memory(&self) -> Result<(usize, usize), KernelError> {
        self.context.checked(result::mem_get_info(), "asking for free memory")
    }

    /// Uninitialised device memory.
    pub fn allocate(&self, bytes: usize) -> Result<DeviceBuffer, KernelError> {
        // SAFETY: a plain allocation; freed in `DeviceBuffer::drop`. One byte keeps empty arrays valid.
        match unsafe { result::malloc_sync(bytes.max(16)) } {
            Ok(address) => Ok(DeviceBuffer { address, bytes, context: Rc::clone(&self.context) }),
            Err(e) if e.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                Err(KernelError::OutOfMemory { wanted: bytes, free: self.memory().map_or(0, |m| m.0) })
            }
            Err(e) => self.context.checked(Err(e), "allocating device memory"),
        }
    }

    /// Device memory holding a copy of `values`.
    pub fn upload<T: DeviceValue>(&self, values: &[T]) -> Result<DeviceBuffer, KernelError> {
        let buffer = self.allocate(size_of_val(values))?;
        buffer.write(0, values)?;
        Ok(buffer)
    }

    /// Waits for copies and whatever else is left of the context's work, and reports an error that a kernel left behind.
    /// Kernels are waited for on their stream, since this wait cannot be stopped.
    pub fn synchronize(&self) -> Result<(), KernelError> {
        self.context.stop.check()?;
        self.context.checked(result::ctx::synchronize(), "running the kernels")
    }

    pub(crate) fn load(&self, kernel: &CompiledKernel) -> Result<Function, KernelError> {
        let context = &self.context;
        // SAFETY: the image is a whole cubin from NVRTC; unloaded in `Module::drop`.
        let loaded = unsafe { result::module::load_data(kernel.cubin.as_ptr().cast()) };
        let module = Module { raw: context.checked(loaded, "loading a kernel")?, context: Rc::clone(context) };
        let name = crate::compile::entry_name(kernel.name);
        // SAFETY: `module` was loaded above.
        let found = unsafe { result::module::get_function(module.raw, name) };
        let raw = context.checked(found, "finding a kernel")?;
        let mut function = Function { raw, module, resources: kernel.resources };
        let registers = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_NUM_REGS;
        // SAFETY: `raw` is a function of the module that `function` owns.
        let registers = unsafe { result::function::get_function_attribute(raw, registers) };
        // The loaded code knows best: not every NVRTC writes the figure to its log.
        function.resources.registers = context.checked(registers, "reading a kernel's registers")? as u32;
        if kernel.resources.shared_bytes > 0 {
            let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let bytes = i32::try_from(kernel.resources.shared_bytes).unwrap_or(i32::MAX);
            // SAFETY: `raw` is a function of the module that `function` owns.
            let raised = unsafe { result::function::set_function_attribute(raw, attribute, bytes) };
            context.checked(raised, "raising a kernel's shared memory")?;
            // A CTA keeps its SM from parting its memory anew: one that left less than all to shared memory would keep
            // a CTA of another kernel out.
            let part = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
            // SAFETY: as above; 100 per cent.
            let parted = unsafe { result::function::set_function_attribute(raw, part, 100) };
            context.checked(parted, "asking for all shared memory")?;
        }
        Ok(function)
    }
}

/// The device `ordinal`, where our kernels run on it.
fn look(ordinal: usize) -> Result<(sys::CUdevice, GpuInfo), KernelError> {
    // SAFETY: only tries to open the library.
    if !unsafe { sys::is_culib_present() } {
        return Err(KernelError::NoDriver);
    }
    let found = match result::init().and_then(|()| result::device::get_count()) {
        Ok(found) => found as usize,
        Err(e) if e.0 == sys::CUresult::CUDA_ERROR_NO_DEVICE => 0,
        Err(e) => return Err(KernelError::NoStart { reason: describe(e) }),
    };
    if ordinal >= found {
        return Err(KernelError::NoGpu { ordinal, found });
    }
    let device = result::device::get(i32::try_from(ordinal).unwrap_or(i32::MAX)).during("opening the GPU")?;
    let info = read_info(device)?;
    if info.capability.0 < 8 {
        let (major, minor) = info.capability;
        return Err(KernelError::TooOld { name: info.name, major, minor });
    }
    Ok((device, info))
}

fn read_info(device: sys::CUdevice) -> Result<GpuInfo, KernelError> {
    use sys::CUdevice_attribute as A;
    let read = |attribute| -> Result<u32, KernelError> {
        // SAFETY: `device` is valid.
        Ok(unsafe { result::device::get_attribute(device, attribute) }.during("reading device attributes")? as u32)
    };
    let mut driver_version = 0;
    // SAFETY: the pointer is valid for the call. A failure leaves 0, which shows as unknown.
    let _ = unsafe { sys::cuDriverGetVersion(&raw mut driver_version) };
    Ok(GpuInfo {
        name: result::device::get_name(device).during("reading the device name")?,
        capability: (
            read(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            read(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        sms: read(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        shared_per_sm: read(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?,
        shared_per_cta: read(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        registers_per_sm: read(A::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR)?,
        warps_per_sm: read(A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)? / 32,
        ctas_per_sm: read(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR)?,
        l2_bytes: read(A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?,
        clock_khz: read(A::CU_DEVICE_ATTRIBUTE_CLOCK_RATE).unwrap_or(0),
        // SAFETY: `device` is valid.
        memory_bytes: unsafe { result::device::total_mem(device) }.during("reading the memory size")?,
        driver_version,
    })
}

mod sealed {
    /// Types whose every bit pattern is a value and that hold no pointers or padding.
    pub trait Sealed: Copy {}
    impl Sealed for u8 {}
    impl Sealed for u16 {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
    impl Sealed for f32 {}
    impl Sealed for crate::params::Item {}
    impl Sealed for crate::params::MergeRow {}
    impl Sealed for crate::params::PackQuery {}
    impl Sealed for crate::params::Entry {}
    impl Sealed for crate::params::PrefillItem {}
    impl Sealed for crate::TraceRecord {}
}

/// Values that may be copied to and from the device as they lie in memory.
pub trait DeviceValue: sealed::Sealed {}
impl<T: sealed::Sealed> DeviceValue for T {}

/// Bytes from which the driver was seen to have a kernel fill memory; 4 KiB it writes without one.
pub(crate) const FILLED_BY_A_KERNEL: usize = 8 << 10;

/// An owned piece of device memory.
#[derive(Debug)]
pub struct DeviceBuffer {
    address: sys::CUdeviceptr,
    bytes: usize,
    pub(crate) context: Rc<Context>,
}

impl DeviceBuffer {
    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    fn span(&self, offset: usize, bytes: usize) -> Result<u64, KernelError> {
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return Err(KernelError::Plan(format!("{bytes} bytes at {offset} of a buffer of {}", self.bytes)));
        }
        Ok(self.address + offset as u64)
    }

    /// Copies `values` to `offset` bytes from the start and waits for it.
    pub fn write<T: DeviceValue>(&self, offset: usize, values: &[T]) -> Result<(), KernelError> {
        let to = self.span(offset, size_of_val(values))?;
        // SAFETY: `span` checked the range, and `T` is plain data.
        let copied = unsafe { result::memcpy_htod_sync(to, values) };
        self.context.checked(copied, "copying to the GPU")
    }

    /// Copies `count` values from `offset` bytes on and waits for it.
    pub fn read<T: DeviceValue + Default>(&self, offset: usize, count: usize) -> Result<Vec<T>, KernelError> {
        let from = self.span(offset, count * size_of::<T>())?;
        let mut values = vec![T::default(); count];
        // SAFETY: `span` checked the range, and any bit pattern is a `T`.
        let copied = unsafe { result::memcpy_dtoh_sync(&mut values, from) };
        self.context.checked(copied, "copying from the GPU")?;
        Ok(values)
    }

    /// Sets every byte, in stream order.
    pub fn fill(&self, byte: u8, stream: &Stream) -> Result<(), KernelError> {
        // SAFETY: the whole of this allocation; the stream is alive.
        let filled = unsafe { result::memset_d8_async(self.address, byte, self.bytes, stream.raw) };
        if self.bytes >= FILLED_BY_A_KERNEL {
            stream.count(1);
        }
        self.context.checked(filled, "filling device memory")
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated by `Gpu::allocate`, freed once. cuMemFree waits for kernels that may use it.
        self.context.give_back(|| unsafe { result::free_sync(self.address) });
    }
}

#[derive(Debug)]
struct Module {
    raw: sys::CUmodule,
    context: Rc<Context>,
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: loaded once in `Gpu::load`.
        self.context.give_back(|| unsafe { result::module::unload(self.raw) });
    }
}

/// A loaded kernel.
#[derive(Debug)]
pub(crate) struct Function {
    raw: sys::CUfunction,
    module: Module,
    resources: crate::compile::Resources,
}

impl Function {
    pub(crate) fn resources(&self) -> crate::compile::Resources {
        self.resources
    }

    /// CTAs that an SM holds, from the compiled code.
    pub(crate) fn ctas_per_sm(&self) -> Result<u32, KernelError> {
        let threads = i32::try_from(self.resources.threads).unwrap_or(i32::MAX);
        let shared = self.resources.shared_bytes as usize;
        // SAFETY: the function is loaded.
        let ctas = unsafe { result::occupancy::max_active_block_per_multiprocessor(self.raw, threads, shared) };
        Ok(self.module.context.checked(ctas, "asking for occupancy")? as u32)
    }

    /// Launches with one parameter, a structure that the kernel takes by value.
    ///
    /// # Safety
    /// `P` must be the kernel's only parameter, and every device address in it valid for what the kernel does until
    /// the launch has ended.
    pub(crate) unsafe fn launch<P>(&self, grid: u32, threads: u32, stream: &Stream, p: &P) -> Result<(), KernelError> {
        // SAFETY: the caller's promise.
        unsafe { self.launch_with(grid, threads, stream, p, false) }
    }

    /// As [`Self::launch`]. A `programmatic` launch may start as soon as every CTA of the launch before it on its stream
    /// has allowed that or ended, rather than when all have ended.
    ///
    /// # Safety
    /// As [`Self::launch`].
    pub(crate) unsafe fn launch_with<P>(
        &self,
        grid: u32,
        threads: u32,
        stream: &Stream,
        p: &P,
        programmatic: bool,
    ) -> Result<(), KernelError> {
        if programmatic {
            let id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
            let mut value = sys::CUlaunchAttributeValue { pad: [0; 64] };
            value.programmaticStreamSerializationAllowed = 1;
            // SAFETY: the caller's promise.
            let launched = unsafe { self.launch_as(grid, threads, stream, p, (id, value)) };
            return self.module.context.checked(launched, "launching a kernel");
        }
        stream.count(1);
        let mut arguments = [std::ptr::from_ref(p).cast_mut().cast()];
        let shared = self.resources.shared_bytes;
        // SAFETY: the driver copies the parameter during the call; the rest is the caller's promise.
        let launched = unsafe {
            result::launch_kernel(self.raw, (grid, 1, 1), (threads, 1, 1), shared, stream.raw, &mut arguments)
        };
        self.module.context.checked(launched, "launching a kernel")
    }

    /// As [`Self::launch`], in clusters of `size` CTAs, of which `grid` is a multiple; [`KernelError::Unsupported`] where
    /// the driver makes none of that size.
    ///
    /// # Safety
    /// As [`Self::launch`].
    pub(crate) unsafe fn launch_clusters<P>(
        &self,
        grid: u32,
        (threads, size): (u32, u32),
        stream: &Stream,
        p: &P,
    ) -> Result<(), KernelError> {
        use sys::CUresult::{CUDA_ERROR_INVALID_CLUSTER_SIZE, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED};
        let larger = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
        // SAFETY: the function is loaded.
        let allowed = unsafe { result::function::set_function_attribute(self.raw, larger, 1) };
        self.module.context.checked(allowed, "allowing larger clusters")?;
        let mut value = sys::CUlaunchAttributeValue { pad: [0; 64] };
        value.clusterDim = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x: size, y: 1, z: 1 };
        let id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        // SAFETY: the caller's promise.
        let launched = unsafe { self.launch_as(grid, threads, stream, p, (id, value)) };
        match launched {
            Err(DriverError(CUDA_ERROR_INVALID_CLUSTER_SIZE | CUDA_ERROR_INVALID_VALUE | CUDA_ERROR_NOT_SUPPORTED)) => {
                Err(KernelError::Unsupported(format!("clusters of {size} CTAs")))
            }
            launched => self.module.context.checked(launched, "launching clusters"),
        }
    }

    /// As [`Self::launch`] with an attribute.
    ///
    /// # Safety
    /// As [`Self::launch`].
    unsafe fn launch_as<P>(
        &self,
        grid: u32,
        threads: u32,
        stream: &Stream,
        p: &P,
        (id, value): (sys::CUlaunchAttributeID, sys::CUlaunchAttributeValue),
    ) -> Result<(), DriverError> {
        stream.count(1);
        let mut arguments = [std::ptr::from_ref(p).cast_mut().cast()];
        let mut attribute = sys::CUlaunchAttribute { id, pad: [0; 4], value };
        let config = sys::CUlaunchConfig {
            gridDimX: grid,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: self.resources.shared_bytes,
            hStream: stream.raw,
            attrs: &raw mut attribute,
            numAttrs: 1,
        };
        // SAFETY: the driver copies configuration and parameter during the call; the rest is the caller's promise.
        unsafe { sys::cuLaunchKernelEx(&raw const config, self.raw, arguments.as_mut_ptr(), std::ptr::null_mut()) }
            .result()
    }
}
