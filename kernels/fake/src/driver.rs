//! The driver's functions, as far as packscope calls them.

#![allow(non_snake_case, reason = "the names of the library that it stands in for")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::Mutex;

use crate::kernels;
use crate::state::{Code, INVALID_VALUE, Kind, NOT_SUPPORTED, OUT_OF_MEMORY, SUCCESS, State, call, give_back, with};

/// Names of the loaded kernels; a function is the place of its name, from one.
static NAMES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The one context.
const CONTEXT: usize = 8;

/// Writes what a call gives.
///
/// # Safety
/// `place` is valid for a `T`.
unsafe fn give<T>(place: *mut T, value: T) -> Code {
    // SAFETY: the caller promises it.
    unsafe { place.write(value) };
    SUCCESS
}

/// A new handle at `place`.
///
/// # Safety
/// `place` is valid for a handle.
unsafe fn new_handle(place: *mut usize, kind: Kind) -> Code {
    // SAFETY: the caller promises it.
    call(|state| unsafe { give(place, state.handle(kind)) })
}

#[unsafe(no_mangle)]
extern "C" fn cuInit(_flags: c_uint) -> Code {
    with(State::start);
    call(|_| SUCCESS)
}

/// One that does not count: it reads no more than a table.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(code: Code, name: *mut *const c_char) -> Code {
    let text: &CStr = match code {
        OUT_OF_MEMORY => c"CUDA_ERROR_OUT_OF_MEMORY",
        100 => c"CUDA_ERROR_NO_DEVICE",
        214 => c"CUDA_ERROR_ECC_UNCORRECTABLE",
        700 => c"CUDA_ERROR_ILLEGAL_ADDRESS",
        702 => c"CUDA_ERROR_LAUNCH_TIMEOUT",
        719 => c"CUDA_ERROR_LAUNCH_FAILED",
        999 => c"CUDA_ERROR_UNKNOWN",
        _ => c"CUDA_ERROR",
    };
    // SAFETY: the caller passes a place.
    unsafe { give(name, text.as_ptr()) }
}

/// As [`cuGetErrorName`].
#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(code: Code, text: *mut *const c_char) -> Code {
    let words: &CStr = match code {
        OUT_OF_MEMORY => c"out of memory",
        100 => c"no CUDA-capable device is detected",
        214 => c"uncorrectable ECC error encountered",
        700 => c"an illegal memory access was encountered",
        702 => c"the launch timed out and was terminated",
        719 => c"unspecified launch failure",
        999 => c"unknown error",
        _ => c"an error of the fake driver",
    };
    // SAFETY: the caller passes a place.
    unsafe { give(text, words.as_ptr()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_uint, _device: c_int) -> Code {
    // By the numbers of `CUdevice_attribute`: an H200.
    let number = match attribute {
        16 => 132,
        38 => 60 << 20,
        39 => 2048,
        75 => 9,
        76 => 0,
        81 => 228 << 10,
        82 => 65_536,
        97 => 227 << 10,
        106 => 32,
        _ => return INVALID_VALUE,
    };
    // SAFETY: the caller passes a place.
    call(|_| unsafe { give(value, number) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, room: c_int, _device: c_int) -> Code {
    let text = b"NVIDIA H200 (fake)\0";
    if (room as usize) < text.len() {
        return INVALID_VALUE;
    }
    call(|_| {
        // SAFETY: the caller passes `room` bytes.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), name.cast(), text.len()) };
        SUCCESS
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> Code {
    // SAFETY: the caller passes a place.
    call(|_| unsafe { give(count, 1) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGet(device: *mut c_int, _ordinal: c_int) -> Code {
    // SAFETY: the caller passes a place.
    call(|_| unsafe { give(device, 0) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, _device: c_int) -> Code {
    // SAFETY: the caller passes a place.
    call(|state| unsafe { give(bytes, state.total() as usize) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> Code {
    // SAFETY: the caller passes a place.
    call(|_| unsafe { give(version, 13_000) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut usize, _device: c_int) -> Code {
    call(|state| {
        state.retain();
        // SAFETY: the caller passes a place.
        unsafe { give(context, CONTEXT) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(_device: c_int) -> Code {
    give_back(State::release)
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(_context: usize) -> Code {
    call(|_| SUCCESS)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetCurrent(context: *mut usize) -> Code {
    // SAFETY: the caller passes a place.
    call(|_| unsafe { give(context, CONTEXT) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetDevice(device: *mut c_int) -> Code {
    // SAFETY: the caller passes a place.
    call(|_| unsafe { give(device, 0) })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSynchronize() -> Code {
    call(|_| SUCCESS)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> Code {
    call(|state| {
        // SAFETY: the caller passes two places.
        unsafe { (*free, *total) = (state.free_bytes() as usize, state.total() as usize) };
        SUCCESS
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> Code {
    call(|state| match state.allocate(bytes as u64) {
        // SAFETY: the caller passes a place.
        Some(new) => unsafe { give(address, new) },
        None => OUT_OF_MEMORY,
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(address: u64) -> Code {
    give_back(|state| state.free(address))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) -> Code {
    call(|state| {
        let Some(place) = state.bytes(to, bytes as u64) else { return state.fault() };
        // SAFETY: the caller passes that many bytes; a large buffer has no place for them.
        unsafe { std::ptr::copy_nonoverlapping(from.cast(), place.as_mut_ptr(), place.len()) };
        SUCCESS
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) -> Code {
    call(|state| {
        let Some(place) = state.bytes(from, bytes as u64) else { return state.fault() };
        // SAFETY: the caller passes that many bytes; a large buffer has none to give.
        unsafe { std::ptr::copy_nonoverlapping(place.as_ptr(), to.cast(), place.len()) };
        SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8Async(to: u64, byte: u8, bytes: usize, _stream: usize) -> Code {
    call(|state| {
        state.launch();
        match state.bytes(to, bytes as u64) {
            Some(place) => {
                place.fill(byte);
                SUCCESS
            }
            None => state.fault(),
        }
    })
}

/// As a device without priorities says.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) -> Code {
    call(|_| {
        // SAFETY: the caller passes places.
        unsafe { (*least, *greatest) = (0, 0) };
        SUCCESS
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreateWithPriority(stream: *mut usize, _flags: c_uint, _priority: c_int) -> Code {
    // SAFETY: the caller passes a place.
    unsafe { new_handle(stream, Kind::Stream) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventCreate(event: *mut usize, _flags: c_uint) -> Code {
    // SAFETY: the caller passes a place.
    unsafe { new_handle(event, Kind::Event) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadData(module: *mut usize, _image: *const c_void) -> Code {
    // SAFETY: the caller passes a place.
    unsafe { new_handle(module, Kind::Module) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamEndCapture(_stream: usize, graph: *mut usize) -> Code {
    with(|state| state.capture(false));
    // SAFETY: the caller passes a place.
    unsafe { new_handle(graph, Kind::Graph) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphInstantiateWithFlags(exec: *mut usize, _graph: usize, _flags: u64) -> Code {
    // SAFETY: the caller passes a place.
    unsafe { new_handle(exec, Kind::Graph) }
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(handle: usize) -> Code {
    give_back(|state| state.drop_handle(Kind::Stream, handle))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventDestroy_v2(handle: usize) -> Code {
    give_back(|state| state.drop_handle(Kind::Event, handle))
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleUnload(handle: usize) -> Code {
    give_back(|state| state.drop_handle(Kind::Module, handle))
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphDestroy(handle: usize) -> Code {
    give_back(|state| state.drop_handle(Kind::Graph, handle))
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphExecDestroy(handle: usize) -> Code {
    give_back(|state| state.drop_handle(Kind::Graph, handle))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamQuery(_stream: usize) -> Code {
    call(|state| state.ended())
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitEvent(_stream: usize, _event: usize, _flags: c_uint) -> Code {
    call(|_| SUCCESS)
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamBeginCapture_v2(_stream: usize, _mode: c_uint) -> Code {
    call(|state| state.capture(true))
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphLaunch(_exec: usize, _stream: usize) -> Code {
    call(|state| {
        state.launch();
        SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecord(_event: usize, _stream: usize) -> Code {
    call(|_| SUCCESS)
}

#[unsafe(no_mangle)]
extern "C" fn cuFuncSetAttribute(_function: usize, _attribute: c_uint, _value: c_int) -> Code {
    call(|_| SUCCESS)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventElapsedTime(ms: *mut f32, _start: usize, _end: usize) -> Code {
    // SAFETY: the caller passes a place.
    call(|_| unsafe { give(ms, 0.05) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuFuncGetAttribute(value: *mut c_int, _attribute: c_uint, _function: usize) -> Code {
    // SAFETY: the caller passes a place.
    call(|_| unsafe { give(value, 168) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    count: *mut c_int,
    _function: usize,
    _threads: c_int,
    _shared: usize,
) -> Code {
    // SAFETY: the caller passes a place.
    call(|_| unsafe { give(count, 2) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetFunction(function: *mut usize, _module: usize, name: *const c_char) -> Code {
    call(|_| {
        // SAFETY: the caller passes a C string.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
        let Ok(mut names) = NAMES.lock() else { return INVALID_VALUE };
        names.push(name);
        // SAFETY: the caller passes a place.
        unsafe { give(function, names.len()) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchKernel(
    function: usize,
    grid: c_uint,
    _: c_uint,
    _: c_uint,
    _: c_uint,
    _: c_uint,
    _: c_uint,
    _shared: c_uint,
    _stream: usize,
    params: *mut *mut c_void,
    _extra: *mut *mut c_void,
) -> Code {
    call(|state| {
        let name = NAMES.lock().ok().and_then(|names| names.get(function.wrapping_sub(1)).cloned());
        let Some(name) = name else { return INVALID_VALUE };
        state.launch();
        // SAFETY: all our kernels take one structure by value, the one that its name stands for.
        unsafe { kernels::run(state, &name, grid, *params) }
    })
}

/// Launches with an attribute, such as clusters, are none that this GPU makes.
#[unsafe(no_mangle)]
extern "C" fn cuLaunchKernelEx(
    _config: *const c_void,
    _function: usize,
    _params: *mut *mut c_void,
    _extra: *mut *mut c_void,
) -> Code {
    call(|_| NOT_SUPPORTED)
}

/// The map is of no use to anybody here.
#[unsafe(no_mangle)]
extern "C" fn cuTensorMapEncodeTiled() -> Code {
    call(|_| SUCCESS)
}
