//! Parameter blocks: zeroed, and with their own size in the first field.
//!
//! CUPTI reads the size to learn which fields the caller knows. It counts up to the last field,
//! without the padding behind it: a later version may put a field there.

// All blocks and their sizes, as listed below.
#[allow(clippy::wildcard_imports)]
use crate::bindings::*;

/// A parameter block of CUPTI.
///
/// # Safety
/// All bytes zero must be a valid value of the type, and `SIZE` what the headers call its size.
pub unsafe trait Params: Sized {
    /// What belongs into the block's first field, bytes.
    const SIZE: usize;

    /// Writes [`Params::SIZE`] into the first field.
    fn state_size(&mut self);

    /// All fields zero or null, but for the size.
    fn new() -> Self {
        // SAFETY: the trait promises that zeroes are a valid value.
        let mut params: Self = unsafe { std::mem::zeroed() };
        params.state_size();
        params
    }
}

macro_rules! params {
    ($($name:ident $size:ident)*) => {
        $(
            const _: () = assert!($size <= size_of::<$name>() && $size + 8 > size_of::<$name>());

            // SAFETY: integers, newtypes of integers and pointers only; the size is the headers'.
            unsafe impl Params for $name {
                const SIZE: usize = $size;

                fn state_size(&mut self) {
                    self.structSize = $size;
                }
            }
        )*
    };
}

params! {
    CUpti_Device_GetChipName_Params CUpti_Device_GetChipName_Params_SIZE
    CUpti_Profiler_Initialize_Params CUpti_Profiler_Initialize_Params_SIZE
    CUpti_Profiler_DeInitialize_Params CUpti_Profiler_DeInitialize_Params_SIZE
    CUpti_Profiler_GetCounterAvailability_Params CUpti_Profiler_GetCounterAvailability_Params_SIZE
    CUpti_Profiler_DeviceSupported_Params CUpti_Profiler_DeviceSupported_Params_SIZE
    CUpti_Profiler_Host_Initialize_Params CUpti_Profiler_Host_Initialize_Params_SIZE
    CUpti_Profiler_Host_Deinitialize_Params CUpti_Profiler_Host_Deinitialize_Params_SIZE
    CUpti_Profiler_Host_GetBaseMetrics_Params CUpti_Profiler_Host_GetBaseMetrics_Params_SIZE
    CUpti_Profiler_Host_EvaluateToGpuValues_Params CUpti_Profiler_Host_EvaluateToGpuValues_Params_SIZE
    CUpti_Profiler_Host_ConfigAddMetrics_Params CUpti_Profiler_Host_ConfigAddMetrics_Params_SIZE
    CUpti_Profiler_Host_GetConfigImageSize_Params CUpti_Profiler_Host_GetConfigImageSize_Params_SIZE
    CUpti_Profiler_Host_GetConfigImage_Params CUpti_Profiler_Host_GetConfigImage_Params_SIZE
    CUpti_Profiler_Host_GetNumOfPasses_Params CUpti_Profiler_Host_GetNumOfPasses_Params_SIZE
    CUpti_RangeProfiler_SetConfig_Params CUpti_RangeProfiler_SetConfig_Params_SIZE
    CUpti_RangeProfiler_Enable_Params CUpti_RangeProfiler_Enable_Params_SIZE
    CUpti_RangeProfiler_Disable_Params CUpti_RangeProfiler_Disable_Params_SIZE
    CUpti_RangeProfiler_Start_Params CUpti_RangeProfiler_Start_Params_SIZE
    CUpti_RangeProfiler_Stop_Params CUpti_RangeProfiler_Stop_Params_SIZE
    CUpti_RangeProfiler_PushRange_Params CUpti_RangeProfiler_PushRange_Params_SIZE
    CUpti_RangeProfiler_PopRange_Params CUpti_RangeProfiler_PopRange_Params_SIZE
    CUpti_RangeProfiler_DecodeData_Params CUpti_RangeProfiler_DecodeData_Params_SIZE
    CUpti_RangeProfiler_GetCounterDataSize_Params CUpti_RangeProfiler_GetCounterDataSize_Params_SIZE
    CUpti_RangeProfiler_CounterDataImage_Initialize_Params CUpti_RangeProfiler_CounterDataImage_Initialize_Params_SIZE
    CUpti_PmSampling_SetConfig_Params CUpti_PmSampling_SetConfig_Params_SIZE
    CUpti_PmSampling_Enable_Params CUpti_PmSampling_Enable_Params_SIZE
    CUpti_PmSampling_Disable_Params CUpti_PmSampling_Disable_Params_SIZE
    CUpti_PmSampling_Start_Params CUpti_PmSampling_Start_Params_SIZE
    CUpti_PmSampling_Stop_Params CUpti_PmSampling_Stop_Params_SIZE
    CUpti_PmSampling_DecodeData_Params CUpti_PmSampling_DecodeData_Params_SIZE
    CUpti_PmSampling_GetCounterAvailability_Params CUpti_PmSampling_GetCounterAvailability_Params_SIZE
    CUpti_PmSampling_GetCounterDataSize_Params CUpti_PmSampling_GetCounterDataSize_Params_SIZE
    CUpti_PmSampling_CounterDataImage_Initialize_Params CUpti_PmSampling_CounterDataImage_Initialize_Params_SIZE
    CUpti_PmSampling_GetCounterDataInfo_Params CUpti_PmSampling_GetCounterDataInfo_Params_SIZE
    CUpti_PmSampling_CounterData_GetSampleInfo_Params CUpti_PmSampling_CounterData_GetSampleInfo_Params_SIZE
}
