//! What a session must know of the CUDA driver: the context that is current, and its version.

use cudarc::driver::sys;

use crate::error::CuptiError;

/// The CUDA context that is current on this thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Current {
    /// The context.
    pub(crate) context: cupti_sys::CUcontext,
    /// Index of its device, as the driver counts.
    pub(crate) device: i32,
    /// CUDA version of the driver, major * 1000 + minor * 10.
    pub(crate) version: i32,
    /// Waits for all work of the context.
    pub(crate) synchronize: fn() -> Result<(), u32>,
}

/// Asks the driver.
pub(crate) fn current() -> Result<Current, CuptiError> {
    // SAFETY: only tries to open the library; the calls below panic without it.
    if !unsafe { sys::is_culib_present() } {
        return Err(CuptiError::NoDriver);
    }
    let (mut context, mut device, mut version) = (std::ptr::null_mut(), 0, 0);
    // SAFETY: all three write to a local of the right type.
    let results = unsafe {
        [
            sys::cuCtxGetCurrent(&raw mut context),
            sys::cuCtxGetDevice(&raw mut device),
            sys::cuDriverGetVersion(&raw mut version),
        ]
    };
    if context.is_null() || results.iter().any(|result| *result != sys::CUresult::CUDA_SUCCESS) {
        return Err(CuptiError::NoContext);
    }
    Ok(Current { context: context.cast(), device, version, synchronize })
}

fn synchronize() -> Result<(), u32> {
    // SAFETY: takes nothing; `current` found a driver and a context.
    match unsafe { sys::cuCtxSynchronize() } {
        sys::CUresult::CUDA_SUCCESS => Ok(()),
        code => Err(code as u32),
    }
}
