/* What generate.sh reads. */
#include <cuda.h>
#include <cupti_result.h>
#include <cupti_version.h>
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_target.h>
#include <cupti_profiler_target.h>
#include <cupti_profiler_host.h>
#include <cupti_range_profiler.h>
#include <cupti_pmsampling.h>

/* The size that each parameter block states: up to its last field, without the padding behind it. */
#define SIZE_OF(name) static const size_t name##_SIZE = name##_STRUCT_SIZE;
SIZE_OF(CUpti_Device_GetChipName_Params)
SIZE_OF(CUpti_Profiler_Initialize_Params)
SIZE_OF(CUpti_Profiler_DeInitialize_Params)
SIZE_OF(CUpti_Profiler_GetCounterAvailability_Params)
SIZE_OF(CUpti_Profiler_DeviceSupported_Params)
SIZE_OF(CUpti_Profiler_Host_Initialize_Params)
SIZE_OF(CUpti_Profiler_Host_Deinitialize_Params)
SIZE_OF(CUpti_Profiler_Host_GetBaseMetrics_Params)
SIZE_OF(CUpti_Profiler_Host_EvaluateToGpuValues_Params)
SIZE_OF(CUpti_Profiler_Host_ConfigAddMetrics_Params)
SIZE_OF(CUpti_Profiler_Host_GetConfigImageSize_Params)
SIZE_OF(CUpti_Profiler_Host_GetConfigImage_Params)
SIZE_OF(CUpti_Profiler_Host_GetNumOfPasses_Params)
SIZE_OF(CUpti_RangeProfiler_SetConfig_Params)
SIZE_OF(CUpti_RangeProfiler_Enable_Params)
SIZE_OF(CUpti_RangeProfiler_Disable_Params)
SIZE_OF(CUpti_RangeProfiler_Start_Params)
SIZE_OF(CUpti_RangeProfiler_Stop_Params)
SIZE_OF(CUpti_RangeProfiler_PushRange_Params)
SIZE_OF(CUpti_RangeProfiler_PopRange_Params)
SIZE_OF(CUpti_RangeProfiler_DecodeData_Params)
SIZE_OF(CUpti_RangeProfiler_GetCounterDataSize_Params)
SIZE_OF(CUpti_RangeProfiler_CounterDataImage_Initialize_Params)
SIZE_OF(CUpti_PmSampling_SetConfig_Params)
SIZE_OF(CUpti_PmSampling_Enable_Params)
SIZE_OF(CUpti_PmSampling_Disable_Params)
SIZE_OF(CUpti_PmSampling_Start_Params)
SIZE_OF(CUpti_PmSampling_Stop_Params)
SIZE_OF(CUpti_PmSampling_DecodeData_Params)
SIZE_OF(CUpti_PmSampling_GetCounterAvailability_Params)
SIZE_OF(CUpti_PmSampling_GetCounterDataSize_Params)
SIZE_OF(CUpti_PmSampling_CounterDataImage_Initialize_Params)
SIZE_OF(CUpti_PmSampling_GetCounterDataInfo_Params)
SIZE_OF(CUpti_PmSampling_CounterData_GetSampleInfo_Params)
