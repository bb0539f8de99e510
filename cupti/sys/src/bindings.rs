// Written by generate.sh from the headers of CUPTI 12.6; not edited by hand.

pub type CUdevice_v1 = ::std::os::raw::c_int;
pub type CUdevice = CUdevice_v1;
pub type CUcontext = *mut CUctx_st;
pub type CUaccessPolicyWindow_v1 = CUaccessPolicyWindow_st;
pub type CUaccessPolicyWindow = CUaccessPolicyWindow_v1;
pub type CUpti_CallbackId = u32;
pub type CUpti_CallbackFunc = ::std::option::Option<
    unsafe extern "C" fn(
        userdata: *mut ::std::os::raw::c_void,
        domain: CUpti_CallbackDomain,
        cbid: CUpti_CallbackId,
        cbdata: *const ::std::os::raw::c_void,
    ),
>;
pub type CUpti_SubscriberHandle = *mut CUpti_Subscriber_st;
pub type CUpti_BuffersCallbackRequestFunc =
    ::std::option::Option<unsafe extern "C" fn(buffer: *mut *mut u8, size: *mut usize, maxNumRecords: *mut usize)>;
pub type CUpti_BuffersCallbackCompleteFunc = ::std::option::Option<
    unsafe extern "C" fn(context: CUcontext, streamId: u32, buffer: *mut u8, size: usize, validSize: usize),
>;
#[repr(C)]
#[derive(Copy, Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct __BindgenBitfieldUnit<Storage> {
    storage: Storage,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUctx_st {
    _unused: [u8; 0],
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct CUaccessProperty_enum(pub ::std::os::raw::c_uint);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUaccessPolicyWindow_st {
    pub base_ptr: *mut ::std::os::raw::c_void,
    pub num_bytes: usize,
    pub hitRatio: f32,
    pub hitProp: CUaccessProperty,
    pub missProp: CUaccessProperty,
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct CUptiResult(pub ::std::os::raw::c_uint);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct CUpti_CallbackDomain(pub ::std::os::raw::c_uint);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_Subscriber_st {
    _unused: [u8; 0],
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct CUpti_ActivityKind(pub ::std::os::raw::c_uint);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct CUpti_ActivityPartitionedGlobalCacheConfig(pub ::std::os::raw::c_uint);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct CUpti_ChannelType(pub ::std::os::raw::c_uint);
#[repr(C)]
#[repr(align(8))]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_Activity {
    pub kind: CUpti_ActivityKind,
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct CUpti_FuncShmemLimitConfig(pub ::std::os::raw::c_uint);
#[repr(C, packed(8))]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityKernel9 {
    pub kind: CUpti_ActivityKind,
    pub cacheConfig: CUpti_ActivityKernel9__bindgen_ty_1,
    pub sharedMemoryConfig: u8,
    pub registersPerThread: u16,
    pub partitionedGlobalCacheRequested: CUpti_ActivityPartitionedGlobalCacheConfig,
    pub partitionedGlobalCacheExecuted: CUpti_ActivityPartitionedGlobalCacheConfig,
    pub start: u64,
    pub end: u64,
    pub completed: u64,
    pub deviceId: u32,
    pub contextId: u32,
    pub streamId: u32,
    pub gridX: i32,
    pub gridY: i32,
    pub gridZ: i32,
    pub blockX: i32,
    pub blockY: i32,
    pub blockZ: i32,
    pub staticSharedMemory: i32,
    pub dynamicSharedMemory: i32,
    pub localMemoryPerThread: u32,
    pub localMemoryTotal: u32,
    pub correlationId: u32,
    pub gridId: i64,
    pub name: *const ::std::os::raw::c_char,
    pub reserved0: *mut ::std::os::raw::c_void,
    pub queued: u64,
    pub submitted: u64,
    pub launchType: u8,
    pub isSharedMemoryCarveoutRequested: u8,
    pub sharedMemoryCarveoutRequested: u8,
    pub padding: u8,
    pub sharedMemoryExecuted: u32,
    pub graphNodeId: u64,
    pub shmemLimitConfig: CUpti_FuncShmemLimitConfig,
    pub graphId: u32,
    pub pAccessPolicyWindow: *mut CUaccessPolicyWindow,
    pub channelID: u32,
    pub channelType: CUpti_ChannelType,
    pub clusterX: u32,
    pub clusterY: u32,
    pub clusterZ: u32,
    pub clusterSchedulingPolicy: u32,
    pub localMemoryTotal_v2: u64,
    pub maxPotentialClusterSize: u32,
    pub maxActiveClusters: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_ActivityKernel9__bindgen_ty_1__bindgen_ty_1 {
    pub _bitfield_align_1: [u8; 0],
    pub _bitfield_1: __BindgenBitfieldUnit<[u8; 1usize]>,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_Device_GetChipName_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub deviceIndex: usize,
    pub pChipName: *const ::std::os::raw::c_char,
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct CUpti_ProfilerRange(pub ::std::os::raw::c_uint);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct CUpti_ProfilerReplayMode(pub ::std::os::raw::c_uint);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_Profiler_Initialize_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_Profiler_DeInitialize_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_Profiler_GetCounterAvailability_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub ctx: CUcontext,
    pub counterAvailabilityImageSize: usize,
    pub pCounterAvailabilityImage: *mut u8,
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct CUpti_Profiler_Support_Level(pub ::std::os::raw::c_uint);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct CUpti_Profiler_API(pub ::std::os::raw::c_uint);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_Profiler_DeviceSupported_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub cuDevice: CUdevice,
    pub isSupported: CUpti_Profiler_Support_Level,
    pub architecture: CUpti_Profiler_Support_Level,
    pub sli: CUpti_Profiler_Support_Level,
    pub vGpu: CUpti_Profiler_Support_Level,
    pub confidentialCompute: CUpti_Profiler_Support_Level,
    pub cmp: CUpti_Profiler_Support_Level,
    pub wsl: CUpti_Profiler_Support_Level,
    pub api: CUpti_Profiler_API,
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct CUpti_MetricType(pub ::std::os::raw::c_uint);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct CUpti_ProfilerType(pub ::std::os::raw::c_uint);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_Profiler_Host_Object {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_Profiler_Host_Initialize_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub profilerType: CUpti_ProfilerType,
    pub pChipName: *const ::std::os::raw::c_char,
    pub pCounterAvailabilityImage: *const u8,
    pub pHostObject: *mut CUpti_Profiler_Host_Object,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_Profiler_Host_Deinitialize_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pHostObject: *mut CUpti_Profiler_Host_Object,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_Profiler_Host_GetBaseMetrics_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pHostObject: *mut CUpti_Profiler_Host_Object,
    pub metricType: CUpti_MetricType,
    pub ppMetricNames: *mut *const ::std::os::raw::c_char,
    pub numMetrics: usize,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_Profiler_Host_EvaluateToGpuValues_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pHostObject: *mut CUpti_Profiler_Host_Object,
    pub pCounterDataImage: *const u8,
    pub counterDataImageSize: usize,
    pub rangeIndex: usize,
    pub ppMetricNames: *mut *const ::std::os::raw::c_char,
    pub numMetrics: usize,
    pub pMetricValues: *mut f64,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_Profiler_Host_ConfigAddMetrics_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pHostObject: *mut CUpti_Profiler_Host_Object,
    pub ppMetricNames: *mut *const ::std::os::raw::c_char,
    pub numMetrics: usize,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_Profiler_Host_GetConfigImageSize_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pHostObject: *mut CUpti_Profiler_Host_Object,
    pub configImageSize: usize,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_Profiler_Host_GetConfigImage_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pHostObject: *mut CUpti_Profiler_Host_Object,
    pub configImageSize: usize,
    pub pConfigImage: *mut u8,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_Profiler_Host_GetNumOfPasses_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub configImageSize: usize,
    pub pConfigImage: *mut u8,
    pub numOfPasses: usize,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_RangeProfiler_Object {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_RangeProfiler_SetConfig_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pRangeProfilerObject: *mut CUpti_RangeProfiler_Object,
    pub configSize: usize,
    pub pConfig: *const u8,
    pub counterDataImageSize: usize,
    pub pCounterDataImage: *mut u8,
    pub range: CUpti_ProfilerRange,
    pub replayMode: CUpti_ProfilerReplayMode,
    pub maxRangesPerPass: usize,
    pub numNestingLevels: u16,
    pub minNestingLevel: u16,
    pub passIndex: usize,
    pub targetNestingLevel: u16,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_RangeProfiler_Enable_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub ctx: CUcontext,
    pub pRangeProfilerObject: *mut CUpti_RangeProfiler_Object,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_RangeProfiler_Disable_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pRangeProfilerObject: *mut CUpti_RangeProfiler_Object,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_RangeProfiler_Start_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pRangeProfilerObject: *mut CUpti_RangeProfiler_Object,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_RangeProfiler_Stop_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pRangeProfilerObject: *mut CUpti_RangeProfiler_Object,
    pub passIndex: usize,
    pub targetNestingLevel: usize,
    pub isAllPassSubmitted: u8,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_RangeProfiler_PushRange_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pRangeProfilerObject: *mut CUpti_RangeProfiler_Object,
    pub pRangeName: *const ::std::os::raw::c_char,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_RangeProfiler_PopRange_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pRangeProfilerObject: *mut CUpti_RangeProfiler_Object,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_RangeProfiler_DecodeData_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pRangeProfilerObject: *mut CUpti_RangeProfiler_Object,
    pub numOfRangeDropped: usize,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_RangeProfiler_GetCounterDataSize_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pRangeProfilerObject: *mut CUpti_RangeProfiler_Object,
    pub pMetricNames: *mut *const ::std::os::raw::c_char,
    pub numMetrics: usize,
    pub maxNumOfRanges: usize,
    pub maxNumRangeTreeNodes: u32,
    pub counterDataSize: usize,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_RangeProfiler_CounterDataImage_Initialize_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pRangeProfilerObject: *mut CUpti_RangeProfiler_Object,
    pub counterDataSize: usize,
    pub pCounterData: *mut u8,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_PmSampling_Object {
    _unused: [u8; 0],
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct CUpti_PmSampling_TriggerMode(pub ::std::os::raw::c_uint);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct CUpti_PmSampling_DecodeStopReason(pub ::std::os::raw::c_uint);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_PmSampling_SetConfig_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
    pub configSize: usize,
    pub pConfig: *const u8,
    pub hardwareBufferSize: usize,
    pub samplingInterval: u64,
    pub triggerMode: CUpti_PmSampling_TriggerMode,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_PmSampling_Enable_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub deviceIndex: usize,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_PmSampling_Disable_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_PmSampling_Start_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_PmSampling_Stop_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_PmSampling_DecodeData_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
    pub pCounterDataImage: *mut u8,
    pub counterDataImageSize: usize,
    pub decodeStopReason: CUpti_PmSampling_DecodeStopReason,
    pub overflow: u8,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_PmSampling_GetCounterAvailability_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub deviceIndex: usize,
    pub counterAvailabilityImageSize: usize,
    pub pCounterAvailabilityImage: *mut u8,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_PmSampling_GetCounterDataSize_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
    pub pMetricNames: *mut *const ::std::os::raw::c_char,
    pub numMetrics: usize,
    pub maxSamples: u32,
    pub counterDataSize: usize,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_PmSampling_CounterDataImage_Initialize_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
    pub counterDataSize: usize,
    pub pCounterData: *mut u8,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_PmSampling_GetCounterDataInfo_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pCounterDataImage: *const u8,
    pub counterDataImageSize: usize,
    pub numTotalSamples: usize,
    pub numPopulatedSamples: usize,
    pub numCompletedSamples: usize,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUpti_PmSampling_CounterData_GetSampleInfo_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
    pub pCounterDataImage: *const u8,
    pub counterDataImageSize: usize,
    pub sampleIndex: usize,
    pub startTimestamp: u64,
    pub endTimestamp: u64,
}
pub struct Api {
    pub __library: ::libloading::Library,
    pub cuptiGetVersion: unsafe extern "C" fn(version: *mut u32) -> CUptiResult,
    pub cuptiSubscribe: unsafe extern "C" fn(
        subscriber: *mut CUpti_SubscriberHandle,
        callback: CUpti_CallbackFunc,
        userdata: *mut ::std::os::raw::c_void,
    ) -> CUptiResult,
    pub cuptiUnsubscribe: unsafe extern "C" fn(subscriber: CUpti_SubscriberHandle) -> CUptiResult,
    pub cuptiGetTimestamp: unsafe extern "C" fn(timestamp: *mut u64) -> CUptiResult,
    pub cuptiActivityEnable: unsafe extern "C" fn(kind: CUpti_ActivityKind) -> CUptiResult,
    pub cuptiActivityDisable: unsafe extern "C" fn(kind: CUpti_ActivityKind) -> CUptiResult,
    pub cuptiActivityGetNumDroppedRecords:
        unsafe extern "C" fn(context: CUcontext, streamId: u32, dropped: *mut usize) -> CUptiResult,
    pub cuptiActivityGetNextRecord: unsafe extern "C" fn(
        buffer: *mut u8,
        validBufferSizeBytes: usize,
        record: *mut *mut CUpti_Activity,
    ) -> CUptiResult,
    pub cuptiActivityRegisterCallbacks: unsafe extern "C" fn(
        funcBufferRequested: CUpti_BuffersCallbackRequestFunc,
        funcBufferCompleted: CUpti_BuffersCallbackCompleteFunc,
    ) -> CUptiResult,
    pub cuptiActivityFlushAll: unsafe extern "C" fn(flag: u32) -> CUptiResult,
    pub cuptiDeviceGetChipName: unsafe extern "C" fn(pParams: *mut CUpti_Device_GetChipName_Params) -> CUptiResult,
    pub cuptiProfilerInitialize: unsafe extern "C" fn(pParams: *mut CUpti_Profiler_Initialize_Params) -> CUptiResult,
    pub cuptiProfilerDeInitialize:
        unsafe extern "C" fn(pParams: *mut CUpti_Profiler_DeInitialize_Params) -> CUptiResult,
    pub cuptiProfilerGetCounterAvailability:
        unsafe extern "C" fn(pParams: *mut CUpti_Profiler_GetCounterAvailability_Params) -> CUptiResult,
    pub cuptiProfilerDeviceSupported:
        unsafe extern "C" fn(pParams: *mut CUpti_Profiler_DeviceSupported_Params) -> CUptiResult,
    pub cuptiProfilerHostInitialize:
        unsafe extern "C" fn(pParams: *mut CUpti_Profiler_Host_Initialize_Params) -> CUptiResult,
    pub cuptiProfilerHostDeinitialize:
        unsafe extern "C" fn(pParams: *mut CUpti_Profiler_Host_Deinitialize_Params) -> CUptiResult,
    pub cuptiProfilerHostGetBaseMetrics:
        unsafe extern "C" fn(pParams: *mut CUpti_Profiler_Host_GetBaseMetrics_Params) -> CUptiResult,
    pub cuptiProfilerHostEvaluateToGpuValues:
        unsafe extern "C" fn(pParams: *mut CUpti_Profiler_Host_EvaluateToGpuValues_Params) -> CUptiResult,
    pub cuptiProfilerHostConfigAddMetrics:
        unsafe extern "C" fn(pParams: *mut CUpti_Profiler_Host_ConfigAddMetrics_Params) -> CUptiResult,
    pub cuptiProfilerHostGetConfigImageSize:
        unsafe extern "C" fn(pParams: *mut CUpti_Profiler_Host_GetConfigImageSize_Params) -> CUptiResult,
    pub cuptiProfilerHostGetConfigImage:
        unsafe extern "C" fn(pParams: *mut CUpti_Profiler_Host_GetConfigImage_Params) -> CUptiResult,
    pub cuptiProfilerHostGetNumOfPasses:
        unsafe extern "C" fn(pParams: *mut CUpti_Profiler_Host_GetNumOfPasses_Params) -> CUptiResult,
    pub cuptiRangeProfilerSetConfig:
        unsafe extern "C" fn(pParams: *mut CUpti_RangeProfiler_SetConfig_Params) -> CUptiResult,
    pub cuptiRangeProfilerEnable: unsafe extern "C" fn(pParams: *mut CUpti_RangeProfiler_Enable_Params) -> CUptiResult,
    pub cuptiRangeProfilerDisable:
        unsafe extern "C" fn(pParams: *mut CUpti_RangeProfiler_Disable_Params) -> CUptiResult,
    pub cuptiRangeProfilerStart: unsafe extern "C" fn(pParams: *mut CUpti_RangeProfiler_Start_Params) -> CUptiResult,
    pub cuptiRangeProfilerStop: unsafe extern "C" fn(pParams: *mut CUpti_RangeProfiler_Stop_Params) -> CUptiResult,
    pub cuptiRangeProfilerPushRange:
        unsafe extern "C" fn(pParams: *mut CUpti_RangeProfiler_PushRange_Params) -> CUptiResult,
    pub cuptiRangeProfilerPopRange:
        unsafe extern "C" fn(pParams: *mut CUpti_RangeProfiler_PopRange_Params) -> CUptiResult,
    pub cuptiRangeProfilerDecodeData:
        unsafe extern "C" fn(pParams: *mut CUpti_RangeProfiler_DecodeData_Params) -> CUptiResult,
    pub cuptiRangeProfilerGetCounterDataSize:
        unsafe extern "C" fn(pParams: *mut CUpti_RangeProfiler_GetCounterDataSize_Params) -> CUptiResult,
    pub cuptiRangeProfilerCounterDataImageInitialize:
        unsafe extern "C" fn(pParams: *mut CUpti_RangeProfiler_CounterDataImage_Initialize_Params) -> CUptiResult,
    pub cuptiPmSamplingSetConfig: unsafe extern "C" fn(pParams: *mut CUpti_PmSampling_SetConfig_Params) -> CUptiResult,
    pub cuptiPmSamplingEnable: unsafe extern "C" fn(pParams: *mut CUpti_PmSampling_Enable_Params) -> CUptiResult,
    pub cuptiPmSamplingDisable: unsafe extern "C" fn(pParams: *mut CUpti_PmSampling_Disable_Params) -> CUptiResult,
    pub cuptiPmSamplingStart: unsafe extern "C" fn(pParams: *mut CUpti_PmSampling_Start_Params) -> CUptiResult,
    pub cuptiPmSamplingStop: unsafe extern "C" fn(pParams: *mut CUpti_PmSampling_Stop_Params) -> CUptiResult,
    pub cuptiPmSamplingDecodeData:
        unsafe extern "C" fn(pParams: *mut CUpti_PmSampling_DecodeData_Params) -> CUptiResult,
    pub cuptiPmSamplingGetCounterAvailability:
        unsafe extern "C" fn(pParams: *mut CUpti_PmSampling_GetCounterAvailability_Params) -> CUptiResult,
    pub cuptiPmSamplingGetCounterDataSize:
        unsafe extern "C" fn(pParams: *mut CUpti_PmSampling_GetCounterDataSize_Params) -> CUptiResult,
    pub cuptiPmSamplingCounterDataImageInitialize:
        unsafe extern "C" fn(pParams: *mut CUpti_PmSampling_CounterDataImage_Initialize_Params) -> CUptiResult,
    pub cuptiPmSamplingGetCounterDataInfo:
        unsafe extern "C" fn(pParams: *mut CUpti_PmSampling_GetCounterDataInfo_Params) -> CUptiResult,
    pub cuptiPmSamplingCounterDataGetSampleInfo:
        unsafe extern "C" fn(pParams: *mut CUpti_PmSampling_CounterData_GetSampleInfo_Params) -> CUptiResult,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUaccessPolicyWindow_st"][::std::mem::size_of::<CUaccessPolicyWindow_st>() - 32usize];
    ["Alignment of CUaccessPolicyWindow_st"][::std::mem::align_of::<CUaccessPolicyWindow_st>() - 8usize];
    ["Offset of field: CUaccessPolicyWindow_st::base_ptr"]
        [::std::mem::offset_of!(CUaccessPolicyWindow_st, base_ptr) - 0usize];
    ["Offset of field: CUaccessPolicyWindow_st::num_bytes"]
        [::std::mem::offset_of!(CUaccessPolicyWindow_st, num_bytes) - 8usize];
    ["Offset of field: CUaccessPolicyWindow_st::hitRatio"]
        [::std::mem::offset_of!(CUaccessPolicyWindow_st, hitRatio) - 16usize];
    ["Offset of field: CUaccessPolicyWindow_st::hitProp"]
        [::std::mem::offset_of!(CUaccessPolicyWindow_st, hitProp) - 20usize];
    ["Offset of field: CUaccessPolicyWindow_st::missProp"]
        [::std::mem::offset_of!(CUaccessPolicyWindow_st, missProp) - 24usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Activity"][::std::mem::size_of::<CUpti_Activity>() - 8usize];
    ["Alignment of CUpti_Activity"][::std::mem::align_of::<CUpti_Activity>() - 8usize];
    ["Offset of field: CUpti_Activity::kind"][::std::mem::offset_of!(CUpti_Activity, kind) - 0usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityKernel9__bindgen_ty_1__bindgen_ty_1"]
        [::std::mem::size_of::<CUpti_ActivityKernel9__bindgen_ty_1__bindgen_ty_1>() - 1usize];
    ["Alignment of CUpti_ActivityKernel9__bindgen_ty_1__bindgen_ty_1"]
        [::std::mem::align_of::<CUpti_ActivityKernel9__bindgen_ty_1__bindgen_ty_1>() - 1usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityKernel9__bindgen_ty_1"]
        [::std::mem::size_of::<CUpti_ActivityKernel9__bindgen_ty_1>() - 1usize];
    ["Alignment of CUpti_ActivityKernel9__bindgen_ty_1"]
        [::std::mem::align_of::<CUpti_ActivityKernel9__bindgen_ty_1>() - 1usize];
    ["Offset of field: CUpti_ActivityKernel9__bindgen_ty_1::both"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9__bindgen_ty_1, both) - 0usize];
    ["Offset of field: CUpti_ActivityKernel9__bindgen_ty_1::config"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9__bindgen_ty_1, config) - 0usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityKernel9"][::std::mem::size_of::<CUpti_ActivityKernel9>() - 208usize];
    ["Alignment of CUpti_ActivityKernel9"][::std::mem::align_of::<CUpti_ActivityKernel9>() - 8usize];
    ["Offset of field: CUpti_ActivityKernel9::kind"][::std::mem::offset_of!(CUpti_ActivityKernel9, kind) - 0usize];
    ["Offset of field: CUpti_ActivityKernel9::cacheConfig"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, cacheConfig) - 4usize];
    ["Offset of field: CUpti_ActivityKernel9::sharedMemoryConfig"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, sharedMemoryConfig) - 5usize];
    ["Offset of field: CUpti_ActivityKernel9::registersPerThread"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, registersPerThread) - 6usize];
    ["Offset of field: CUpti_ActivityKernel9::partitionedGlobalCacheRequested"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, partitionedGlobalCacheRequested) - 8usize];
    ["Offset of field: CUpti_ActivityKernel9::partitionedGlobalCacheExecuted"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, partitionedGlobalCacheExecuted) - 12usize];
    ["Offset of field: CUpti_ActivityKernel9::start"][::std::mem::offset_of!(CUpti_ActivityKernel9, start) - 16usize];
    ["Offset of field: CUpti_ActivityKernel9::end"][::std::mem::offset_of!(CUpti_ActivityKernel9, end) - 24usize];
    ["Offset of field: CUpti_ActivityKernel9::completed"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, completed) - 32usize];
    ["Offset of field: CUpti_ActivityKernel9::deviceId"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, deviceId) - 40usize];
    ["Offset of field: CUpti_ActivityKernel9::contextId"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, contextId) - 44usize];
    ["Offset of field: CUpti_ActivityKernel9::streamId"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, streamId) - 48usize];
    ["Offset of field: CUpti_ActivityKernel9::gridX"][::std::mem::offset_of!(CUpti_ActivityKernel9, gridX) - 52usize];
    ["Offset of field: CUpti_ActivityKernel9::gridY"][::std::mem::offset_of!(CUpti_ActivityKernel9, gridY) - 56usize];
    ["Offset of field: CUpti_ActivityKernel9::gridZ"][::std::mem::offset_of!(CUpti_ActivityKernel9, gridZ) - 60usize];
    ["Offset of field: CUpti_ActivityKernel9::blockX"][::std::mem::offset_of!(CUpti_ActivityKernel9, blockX) - 64usize];
    ["Offset of field: CUpti_ActivityKernel9::blockY"][::std::mem::offset_of!(CUpti_ActivityKernel9, blockY) - 68usize];
    ["Offset of field: CUpti_ActivityKernel9::blockZ"][::std::mem::offset_of!(CUpti_ActivityKernel9, blockZ) - 72usize];
    ["Offset of field: CUpti_ActivityKernel9::staticSharedMemory"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, staticSharedMemory) - 76usize];
    ["Offset of field: CUpti_ActivityKernel9::dynamicSharedMemory"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, dynamicSharedMemory) - 80usize];
    ["Offset of field: CUpti_ActivityKernel9::localMemoryPerThread"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, localMemoryPerThread) - 84usize];
    ["Offset of field: CUpti_ActivityKernel9::localMemoryTotal"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, localMemoryTotal) - 88usize];
    ["Offset of field: CUpti_ActivityKernel9::correlationId"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, correlationId) - 92usize];
    ["Offset of field: CUpti_ActivityKernel9::gridId"][::std::mem::offset_of!(CUpti_ActivityKernel9, gridId) - 96usize];
    ["Offset of field: CUpti_ActivityKernel9::name"][::std::mem::offset_of!(CUpti_ActivityKernel9, name) - 104usize];
    ["Offset of field: CUpti_ActivityKernel9::reserved0"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, reserved0) - 112usize];
    ["Offset of field: CUpti_ActivityKernel9::queued"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, queued) - 120usize];
    ["Offset of field: CUpti_ActivityKernel9::submitted"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, submitted) - 128usize];
    ["Offset of field: CUpti_ActivityKernel9::launchType"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, launchType) - 136usize];
    ["Offset of field: CUpti_ActivityKernel9::isSharedMemoryCarveoutRequested"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, isSharedMemoryCarveoutRequested) - 137usize];
    ["Offset of field: CUpti_ActivityKernel9::sharedMemoryCarveoutRequested"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, sharedMemoryCarveoutRequested) - 138usize];
    ["Offset of field: CUpti_ActivityKernel9::padding"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, padding) - 139usize];
    ["Offset of field: CUpti_ActivityKernel9::sharedMemoryExecuted"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, sharedMemoryExecuted) - 140usize];
    ["Offset of field: CUpti_ActivityKernel9::graphNodeId"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, graphNodeId) - 144usize];
    ["Offset of field: CUpti_ActivityKernel9::shmemLimitConfig"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, shmemLimitConfig) - 152usize];
    ["Offset of field: CUpti_ActivityKernel9::graphId"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, graphId) - 156usize];
    ["Offset of field: CUpti_ActivityKernel9::pAccessPolicyWindow"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, pAccessPolicyWindow) - 160usize];
    ["Offset of field: CUpti_ActivityKernel9::channelID"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, channelID) - 168usize];
    ["Offset of field: CUpti_ActivityKernel9::channelType"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, channelType) - 172usize];
    ["Offset of field: CUpti_ActivityKernel9::clusterX"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, clusterX) - 176usize];
    ["Offset of field: CUpti_ActivityKernel9::clusterY"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, clusterY) - 180usize];
    ["Offset of field: CUpti_ActivityKernel9::clusterZ"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, clusterZ) - 184usize];
    ["Offset of field: CUpti_ActivityKernel9::clusterSchedulingPolicy"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, clusterSchedulingPolicy) - 188usize];
    ["Offset of field: CUpti_ActivityKernel9::localMemoryTotal_v2"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, localMemoryTotal_v2) - 192usize];
    ["Offset of field: CUpti_ActivityKernel9::maxPotentialClusterSize"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, maxPotentialClusterSize) - 200usize];
    ["Offset of field: CUpti_ActivityKernel9::maxActiveClusters"]
        [::std::mem::offset_of!(CUpti_ActivityKernel9, maxActiveClusters) - 204usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Device_GetChipName_Params"][::std::mem::size_of::<CUpti_Device_GetChipName_Params>() - 32usize];
    ["Alignment of CUpti_Device_GetChipName_Params"]
        [::std::mem::align_of::<CUpti_Device_GetChipName_Params>() - 8usize];
    ["Offset of field: CUpti_Device_GetChipName_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Device_GetChipName_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Device_GetChipName_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Device_GetChipName_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_Device_GetChipName_Params::deviceIndex"]
        [::std::mem::offset_of!(CUpti_Device_GetChipName_Params, deviceIndex) - 16usize];
    ["Offset of field: CUpti_Device_GetChipName_Params::pChipName"]
        [::std::mem::offset_of!(CUpti_Device_GetChipName_Params, pChipName) - 24usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_Initialize_Params"][::std::mem::size_of::<CUpti_Profiler_Initialize_Params>() - 16usize];
    ["Alignment of CUpti_Profiler_Initialize_Params"]
        [::std::mem::align_of::<CUpti_Profiler_Initialize_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_Initialize_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Initialize_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Profiler_Initialize_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_Initialize_Params, pPriv) - 8usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_DeInitialize_Params"]
        [::std::mem::size_of::<CUpti_Profiler_DeInitialize_Params>() - 16usize];
    ["Alignment of CUpti_Profiler_DeInitialize_Params"]
        [::std::mem::align_of::<CUpti_Profiler_DeInitialize_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_DeInitialize_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Profiler_DeInitialize_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Profiler_DeInitialize_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_DeInitialize_Params, pPriv) - 8usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_GetCounterAvailability_Params"]
        [::std::mem::size_of::<CUpti_Profiler_GetCounterAvailability_Params>() - 40usize];
    ["Alignment of CUpti_Profiler_GetCounterAvailability_Params"]
        [::std::mem::align_of::<CUpti_Profiler_GetCounterAvailability_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_GetCounterAvailability_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Profiler_GetCounterAvailability_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Profiler_GetCounterAvailability_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_GetCounterAvailability_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_Profiler_GetCounterAvailability_Params::ctx"]
        [::std::mem::offset_of!(CUpti_Profiler_GetCounterAvailability_Params, ctx) - 16usize];
    ["Offset of field: CUpti_Profiler_GetCounterAvailability_Params::counterAvailabilityImageSize"]
        [::std::mem::offset_of!(CUpti_Profiler_GetCounterAvailability_Params, counterAvailabilityImageSize) - 24usize];
    ["Offset of field: CUpti_Profiler_GetCounterAvailability_Params::pCounterAvailabilityImage"]
        [::std::mem::offset_of!(CUpti_Profiler_GetCounterAvailability_Params, pCounterAvailabilityImage) - 32usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_DeviceSupported_Params"]
        [::std::mem::size_of::<CUpti_Profiler_DeviceSupported_Params>() - 56usize];
    ["Alignment of CUpti_Profiler_DeviceSupported_Params"]
        [::std::mem::align_of::<CUpti_Profiler_DeviceSupported_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_DeviceSupported_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Profiler_DeviceSupported_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Profiler_DeviceSupported_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_DeviceSupported_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_Profiler_DeviceSupported_Params::cuDevice"]
        [::std::mem::offset_of!(CUpti_Profiler_DeviceSupported_Params, cuDevice) - 16usize];
    ["Offset of field: CUpti_Profiler_DeviceSupported_Params::isSupported"]
        [::std::mem::offset_of!(CUpti_Profiler_DeviceSupported_Params, isSupported) - 20usize];
    ["Offset of field: CUpti_Profiler_DeviceSupported_Params::architecture"]
        [::std::mem::offset_of!(CUpti_Profiler_DeviceSupported_Params, architecture) - 24usize];
    ["Offset of field: CUpti_Profiler_DeviceSupported_Params::sli"]
        [::std::mem::offset_of!(CUpti_Profiler_DeviceSupported_Params, sli) - 28usize];
    ["Offset of field: CUpti_Profiler_DeviceSupported_Params::vGpu"]
        [::std::mem::offset_of!(CUpti_Profiler_DeviceSupported_Params, vGpu) - 32usize];
    ["Offset of field: CUpti_Profiler_DeviceSupported_Params::confidentialCompute"]
        [::std::mem::offset_of!(CUpti_Profiler_DeviceSupported_Params, confidentialCompute) - 36usize];
    ["Offset of field: CUpti_Profiler_DeviceSupported_Params::cmp"]
        [::std::mem::offset_of!(CUpti_Profiler_DeviceSupported_Params, cmp) - 40usize];
    ["Offset of field: CUpti_Profiler_DeviceSupported_Params::wsl"]
        [::std::mem::offset_of!(CUpti_Profiler_DeviceSupported_Params, wsl) - 44usize];
    ["Offset of field: CUpti_Profiler_DeviceSupported_Params::api"]
        [::std::mem::offset_of!(CUpti_Profiler_DeviceSupported_Params, api) - 48usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_Host_Initialize_Params"]
        [::std::mem::size_of::<CUpti_Profiler_Host_Initialize_Params>() - 48usize];
    ["Alignment of CUpti_Profiler_Host_Initialize_Params"]
        [::std::mem::align_of::<CUpti_Profiler_Host_Initialize_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_Host_Initialize_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_Initialize_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Profiler_Host_Initialize_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_Initialize_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_Profiler_Host_Initialize_Params::profilerType"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_Initialize_Params, profilerType) - 16usize];
    ["Offset of field: CUpti_Profiler_Host_Initialize_Params::pChipName"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_Initialize_Params, pChipName) - 24usize];
    ["Offset of field: CUpti_Profiler_Host_Initialize_Params::pCounterAvailabilityImage"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_Initialize_Params, pCounterAvailabilityImage) - 32usize];
    ["Offset of field: CUpti_Profiler_Host_Initialize_Params::pHostObject"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_Initialize_Params, pHostObject) - 40usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_Host_Deinitialize_Params"]
        [::std::mem::size_of::<CUpti_Profiler_Host_Deinitialize_Params>() - 24usize];
    ["Alignment of CUpti_Profiler_Host_Deinitialize_Params"]
        [::std::mem::align_of::<CUpti_Profiler_Host_Deinitialize_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_Host_Deinitialize_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_Deinitialize_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Profiler_Host_Deinitialize_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_Deinitialize_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_Profiler_Host_Deinitialize_Params::pHostObject"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_Deinitialize_Params, pHostObject) - 16usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_Host_GetBaseMetrics_Params"]
        [::std::mem::size_of::<CUpti_Profiler_Host_GetBaseMetrics_Params>() - 48usize];
    ["Alignment of CUpti_Profiler_Host_GetBaseMetrics_Params"]
        [::std::mem::align_of::<CUpti_Profiler_Host_GetBaseMetrics_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_Host_GetBaseMetrics_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetBaseMetrics_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Profiler_Host_GetBaseMetrics_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetBaseMetrics_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_Profiler_Host_GetBaseMetrics_Params::pHostObject"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetBaseMetrics_Params, pHostObject) - 16usize];
    ["Offset of field: CUpti_Profiler_Host_GetBaseMetrics_Params::metricType"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetBaseMetrics_Params, metricType) - 24usize];
    ["Offset of field: CUpti_Profiler_Host_GetBaseMetrics_Params::ppMetricNames"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetBaseMetrics_Params, ppMetricNames) - 32usize];
    ["Offset of field: CUpti_Profiler_Host_GetBaseMetrics_Params::numMetrics"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetBaseMetrics_Params, numMetrics) - 40usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_Host_EvaluateToGpuValues_Params"]
        [::std::mem::size_of::<CUpti_Profiler_Host_EvaluateToGpuValues_Params>() - 72usize];
    ["Alignment of CUpti_Profiler_Host_EvaluateToGpuValues_Params"]
        [::std::mem::align_of::<CUpti_Profiler_Host_EvaluateToGpuValues_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_Host_EvaluateToGpuValues_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_EvaluateToGpuValues_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Profiler_Host_EvaluateToGpuValues_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_EvaluateToGpuValues_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_Profiler_Host_EvaluateToGpuValues_Params::pHostObject"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_EvaluateToGpuValues_Params, pHostObject) - 16usize];
    ["Offset of field: CUpti_Profiler_Host_EvaluateToGpuValues_Params::pCounterDataImage"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_EvaluateToGpuValues_Params, pCounterDataImage) - 24usize];
    ["Offset of field: CUpti_Profiler_Host_EvaluateToGpuValues_Params::counterDataImageSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_EvaluateToGpuValues_Params, counterDataImageSize) - 32usize];
    ["Offset of field: CUpti_Profiler_Host_EvaluateToGpuValues_Params::rangeIndex"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_EvaluateToGpuValues_Params, rangeIndex) - 40usize];
    ["Offset of field: CUpti_Profiler_Host_EvaluateToGpuValues_Params::ppMetricNames"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_EvaluateToGpuValues_Params, ppMetricNames) - 48usize];
    ["Offset of field: CUpti_Profiler_Host_EvaluateToGpuValues_Params::numMetrics"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_EvaluateToGpuValues_Params, numMetrics) - 56usize];
    ["Offset of field: CUpti_Profiler_Host_EvaluateToGpuValues_Params::pMetricValues"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_EvaluateToGpuValues_Params, pMetricValues) - 64usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_Host_ConfigAddMetrics_Params"]
        [::std::mem::size_of::<CUpti_Profiler_Host_ConfigAddMetrics_Params>() - 40usize];
    ["Alignment of CUpti_Profiler_Host_ConfigAddMetrics_Params"]
        [::std::mem::align_of::<CUpti_Profiler_Host_ConfigAddMetrics_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_Host_ConfigAddMetrics_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_ConfigAddMetrics_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Profiler_Host_ConfigAddMetrics_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_ConfigAddMetrics_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_Profiler_Host_ConfigAddMetrics_Params::pHostObject"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_ConfigAddMetrics_Params, pHostObject) - 16usize];
    ["Offset of field: CUpti_Profiler_Host_ConfigAddMetrics_Params::ppMetricNames"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_ConfigAddMetrics_Params, ppMetricNames) - 24usize];
    ["Offset of field: CUpti_Profiler_Host_ConfigAddMetrics_Params::numMetrics"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_ConfigAddMetrics_Params, numMetrics) - 32usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_Host_GetConfigImageSize_Params"]
        [::std::mem::size_of::<CUpti_Profiler_Host_GetConfigImageSize_Params>() - 32usize];
    ["Alignment of CUpti_Profiler_Host_GetConfigImageSize_Params"]
        [::std::mem::align_of::<CUpti_Profiler_Host_GetConfigImageSize_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_Host_GetConfigImageSize_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetConfigImageSize_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Profiler_Host_GetConfigImageSize_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetConfigImageSize_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_Profiler_Host_GetConfigImageSize_Params::pHostObject"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetConfigImageSize_Params, pHostObject) - 16usize];
    ["Offset of field: CUpti_Profiler_Host_GetConfigImageSize_Params::configImageSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetConfigImageSize_Params, configImageSize) - 24usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_Host_GetConfigImage_Params"]
        [::std::mem::size_of::<CUpti_Profiler_Host_GetConfigImage_Params>() - 40usize];
    ["Alignment of CUpti_Profiler_Host_GetConfigImage_Params"]
        [::std::mem::align_of::<CUpti_Profiler_Host_GetConfigImage_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_Host_GetConfigImage_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetConfigImage_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Profiler_Host_GetConfigImage_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetConfigImage_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_Profiler_Host_GetConfigImage_Params::pHostObject"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetConfigImage_Params, pHostObject) - 16usize];
    ["Offset of field: CUpti_Profiler_Host_GetConfigImage_Params::configImageSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetConfigImage_Params, configImageSize) - 24usize];
    ["Offset of field: CUpti_Profiler_Host_GetConfigImage_Params::pConfigImage"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetConfigImage_Params, pConfigImage) - 32usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_Host_GetNumOfPasses_Params"]
        [::std::mem::size_of::<CUpti_Profiler_Host_GetNumOfPasses_Params>() - 40usize];
    ["Alignment of CUpti_Profiler_Host_GetNumOfPasses_Params"]
        [::std::mem::align_of::<CUpti_Profiler_Host_GetNumOfPasses_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_Host_GetNumOfPasses_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetNumOfPasses_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Profiler_Host_GetNumOfPasses_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetNumOfPasses_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_Profiler_Host_GetNumOfPasses_Params::configImageSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetNumOfPasses_Params, configImageSize) - 16usize];
    ["Offset of field: CUpti_Profiler_Host_GetNumOfPasses_Params::pConfigImage"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetNumOfPasses_Params, pConfigImage) - 24usize];
    ["Offset of field: CUpti_Profiler_Host_GetNumOfPasses_Params::numOfPasses"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetNumOfPasses_Params, numOfPasses) - 32usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_RangeProfiler_SetConfig_Params"]
        [::std::mem::size_of::<CUpti_RangeProfiler_SetConfig_Params>() - 96usize];
    ["Alignment of CUpti_RangeProfiler_SetConfig_Params"]
        [::std::mem::align_of::<CUpti_RangeProfiler_SetConfig_Params>() - 8usize];
    ["Offset of field: CUpti_RangeProfiler_SetConfig_Params::structSize"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_SetConfig_Params, structSize) - 0usize];
    ["Offset of field: CUpti_RangeProfiler_SetConfig_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_SetConfig_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_RangeProfiler_SetConfig_Params::pRangeProfilerObject"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_SetConfig_Params, pRangeProfilerObject) - 16usize];
    ["Offset of field: CUpti_RangeProfiler_SetConfig_Params::configSize"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_SetConfig_Params, configSize) - 24usize];
    ["Offset of field: CUpti_RangeProfiler_SetConfig_Params::pConfig"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_SetConfig_Params, pConfig) - 32usize];
    ["Offset of field: CUpti_RangeProfiler_SetConfig_Params::counterDataImageSize"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_SetConfig_Params, counterDataImageSize) - 40usize];
    ["Offset of field: CUpti_RangeProfiler_SetConfig_Params::pCounterDataImage"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_SetConfig_Params, pCounterDataImage) - 48usize];
    ["Offset of field: CUpti_RangeProfiler_SetConfig_Params::range"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_SetConfig_Params, range) - 56usize];
    ["Offset of field: CUpti_RangeProfiler_SetConfig_Params::replayMode"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_SetConfig_Params, replayMode) - 60usize];
    ["Offset of field: CUpti_RangeProfiler_SetConfig_Params::maxRangesPerPass"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_SetConfig_Params, maxRangesPerPass) - 64usize];
    ["Offset of field: CUpti_RangeProfiler_SetConfig_Params::numNestingLevels"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_SetConfig_Params, numNestingLevels) - 72usize];
    ["Offset of field: CUpti_RangeProfiler_SetConfig_Params::minNestingLevel"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_SetConfig_Params, minNestingLevel) - 74usize];
    ["Offset of field: CUpti_RangeProfiler_SetConfig_Params::passIndex"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_SetConfig_Params, passIndex) - 80usize];
    ["Offset of field: CUpti_RangeProfiler_SetConfig_Params::targetNestingLevel"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_SetConfig_Params, targetNestingLevel) - 88usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_RangeProfiler_Enable_Params"][::std::mem::size_of::<CUpti_RangeProfiler_Enable_Params>() - 32usize];
    ["Alignment of CUpti_RangeProfiler_Enable_Params"]
        [::std::mem::align_of::<CUpti_RangeProfiler_Enable_Params>() - 8usize];
    ["Offset of field: CUpti_RangeProfiler_Enable_Params::structSize"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_Enable_Params, structSize) - 0usize];
    ["Offset of field: CUpti_RangeProfiler_Enable_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_Enable_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_RangeProfiler_Enable_Params::ctx"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_Enable_Params, ctx) - 16usize];
    ["Offset of field: CUpti_RangeProfiler_Enable_Params::pRangeProfilerObject"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_Enable_Params, pRangeProfilerObject) - 24usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_RangeProfiler_Disable_Params"]
        [::std::mem::size_of::<CUpti_RangeProfiler_Disable_Params>() - 24usize];
    ["Alignment of CUpti_RangeProfiler_Disable_Params"]
        [::std::mem::align_of::<CUpti_RangeProfiler_Disable_Params>() - 8usize];
    ["Offset of field: CUpti_RangeProfiler_Disable_Params::structSize"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_Disable_Params, structSize) - 0usize];
    ["Offset of field: CUpti_RangeProfiler_Disable_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_Disable_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_RangeProfiler_Disable_Params::pRangeProfilerObject"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_Disable_Params, pRangeProfilerObject) - 16usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_RangeProfiler_Start_Params"][::std::mem::size_of::<CUpti_RangeProfiler_Start_Params>() - 24usize];
    ["Alignment of CUpti_RangeProfiler_Start_Params"]
        [::std::mem::align_of::<CUpti_RangeProfiler_Start_Params>() - 8usize];
    ["Offset of field: CUpti_RangeProfiler_Start_Params::structSize"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_Start_Params, structSize) - 0usize];
    ["Offset of field: CUpti_RangeProfiler_Start_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_Start_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_RangeProfiler_Start_Params::pRangeProfilerObject"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_Start_Params, pRangeProfilerObject) - 16usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_RangeProfiler_Stop_Params"][::std::mem::size_of::<CUpti_RangeProfiler_Stop_Params>() - 48usize];
    ["Alignment of CUpti_RangeProfiler_Stop_Params"]
        [::std::mem::align_of::<CUpti_RangeProfiler_Stop_Params>() - 8usize];
    ["Offset of field: CUpti_RangeProfiler_Stop_Params::structSize"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_Stop_Params, structSize) - 0usize];
    ["Offset of field: CUpti_RangeProfiler_Stop_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_Stop_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_RangeProfiler_Stop_Params::pRangeProfilerObject"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_Stop_Params, pRangeProfilerObject) - 16usize];
    ["Offset of field: CUpti_RangeProfiler_Stop_Params::passIndex"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_Stop_Params, passIndex) - 24usize];
    ["Offset of field: CUpti_RangeProfiler_Stop_Params::targetNestingLevel"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_Stop_Params, targetNestingLevel) - 32usize];
    ["Offset of field: CUpti_RangeProfiler_Stop_Params::isAllPassSubmitted"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_Stop_Params, isAllPassSubmitted) - 40usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_RangeProfiler_PushRange_Params"]
        [::std::mem::size_of::<CUpti_RangeProfiler_PushRange_Params>() - 32usize];
    ["Alignment of CUpti_RangeProfiler_PushRange_Params"]
        [::std::mem::align_of::<CUpti_RangeProfiler_PushRange_Params>() - 8usize];
    ["Offset of field: CUpti_RangeProfiler_PushRange_Params::structSize"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_PushRange_Params, structSize) - 0usize];
    ["Offset of field: CUpti_RangeProfiler_PushRange_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_PushRange_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_RangeProfiler_PushRange_Params::pRangeProfilerObject"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_PushRange_Params, pRangeProfilerObject) - 16usize];
    ["Offset of field: CUpti_RangeProfiler_PushRange_Params::pRangeName"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_PushRange_Params, pRangeName) - 24usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_RangeProfiler_PopRange_Params"]
        [::std::mem::size_of::<CUpti_RangeProfiler_PopRange_Params>() - 24usize];
    ["Alignment of CUpti_RangeProfiler_PopRange_Params"]
        [::std::mem::align_of::<CUpti_RangeProfiler_PopRange_Params>() - 8usize];
    ["Offset of field: CUpti_RangeProfiler_PopRange_Params::structSize"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_PopRange_Params, structSize) - 0usize];
    ["Offset of field: CUpti_RangeProfiler_PopRange_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_PopRange_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_RangeProfiler_PopRange_Params::pRangeProfilerObject"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_PopRange_Params, pRangeProfilerObject) - 16usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_RangeProfiler_DecodeData_Params"]
        [::std::mem::size_of::<CUpti_RangeProfiler_DecodeData_Params>() - 32usize];
    ["Alignment of CUpti_RangeProfiler_DecodeData_Params"]
        [::std::mem::align_of::<CUpti_RangeProfiler_DecodeData_Params>() - 8usize];
    ["Offset of field: CUpti_RangeProfiler_DecodeData_Params::structSize"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_DecodeData_Params, structSize) - 0usize];
    ["Offset of field: CUpti_RangeProfiler_DecodeData_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_DecodeData_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_RangeProfiler_DecodeData_Params::pRangeProfilerObject"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_DecodeData_Params, pRangeProfilerObject) - 16usize];
    ["Offset of field: CUpti_RangeProfiler_DecodeData_Params::numOfRangeDropped"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_DecodeData_Params, numOfRangeDropped) - 24usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_RangeProfiler_GetCounterDataSize_Params"]
        [::std::mem::size_of::<CUpti_RangeProfiler_GetCounterDataSize_Params>() - 64usize];
    ["Alignment of CUpti_RangeProfiler_GetCounterDataSize_Params"]
        [::std::mem::align_of::<CUpti_RangeProfiler_GetCounterDataSize_Params>() - 8usize];
    ["Offset of field: CUpti_RangeProfiler_GetCounterDataSize_Params::structSize"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_GetCounterDataSize_Params, structSize) - 0usize];
    ["Offset of field: CUpti_RangeProfiler_GetCounterDataSize_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_GetCounterDataSize_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_RangeProfiler_GetCounterDataSize_Params::pRangeProfilerObject"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_GetCounterDataSize_Params, pRangeProfilerObject) - 16usize];
    ["Offset of field: CUpti_RangeProfiler_GetCounterDataSize_Params::pMetricNames"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_GetCounterDataSize_Params, pMetricNames) - 24usize];
    ["Offset of field: CUpti_RangeProfiler_GetCounterDataSize_Params::numMetrics"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_GetCounterDataSize_Params, numMetrics) - 32usize];
    ["Offset of field: CUpti_RangeProfiler_GetCounterDataSize_Params::maxNumOfRanges"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_GetCounterDataSize_Params, maxNumOfRanges) - 40usize];
    ["Offset of field: CUpti_RangeProfiler_GetCounterDataSize_Params::maxNumRangeTreeNodes"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_GetCounterDataSize_Params, maxNumRangeTreeNodes) - 48usize];
    ["Offset of field: CUpti_RangeProfiler_GetCounterDataSize_Params::counterDataSize"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_GetCounterDataSize_Params, counterDataSize) - 56usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_RangeProfiler_CounterDataImage_Initialize_Params"]
        [::std::mem::size_of::<CUpti_RangeProfiler_CounterDataImage_Initialize_Params>() - 40usize];
    ["Alignment of CUpti_RangeProfiler_CounterDataImage_Initialize_Params"]
        [::std::mem::align_of::<CUpti_RangeProfiler_CounterDataImage_Initialize_Params>() - 8usize];
    ["Offset of field: CUpti_RangeProfiler_CounterDataImage_Initialize_Params::structSize"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_CounterDataImage_Initialize_Params, structSize) - 0usize];
    ["Offset of field: CUpti_RangeProfiler_CounterDataImage_Initialize_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_CounterDataImage_Initialize_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_RangeProfiler_CounterDataImage_Initialize_Params::pRangeProfilerObject"][::std::mem::offset_of!(
        CUpti_RangeProfiler_CounterDataImage_Initialize_Params,
        pRangeProfilerObject
    ) - 16usize];
    ["Offset of field: CUpti_RangeProfiler_CounterDataImage_Initialize_Params::counterDataSize"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_CounterDataImage_Initialize_Params, counterDataSize) - 24usize];
    ["Offset of field: CUpti_RangeProfiler_CounterDataImage_Initialize_Params::pCounterData"]
        [::std::mem::offset_of!(CUpti_RangeProfiler_CounterDataImage_Initialize_Params, pCounterData) - 32usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_SetConfig_Params"][::std::mem::size_of::<CUpti_PmSampling_SetConfig_Params>() - 64usize];
    ["Alignment of CUpti_PmSampling_SetConfig_Params"]
        [::std::mem::align_of::<CUpti_PmSampling_SetConfig_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_SetConfig_Params::structSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_SetConfig_Params, structSize) - 0usize];
    ["Offset of field: CUpti_PmSampling_SetConfig_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_SetConfig_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_SetConfig_Params::pPmSamplingObject"]
        [::std::mem::offset_of!(CUpti_PmSampling_SetConfig_Params, pPmSamplingObject) - 16usize];
    ["Offset of field: CUpti_PmSampling_SetConfig_Params::configSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_SetConfig_Params, configSize) - 24usize];
    ["Offset of field: CUpti_PmSampling_SetConfig_Params::pConfig"]
        [::std::mem::offset_of!(CUpti_PmSampling_SetConfig_Params, pConfig) - 32usize];
    ["Offset of field: CUpti_PmSampling_SetConfig_Params::hardwareBufferSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_SetConfig_Params, hardwareBufferSize) - 40usize];
    ["Offset of field: CUpti_PmSampling_SetConfig_Params::samplingInterval"]
        [::std::mem::offset_of!(CUpti_PmSampling_SetConfig_Params, samplingInterval) - 48usize];
    ["Offset of field: CUpti_PmSampling_SetConfig_Params::triggerMode"]
        [::std::mem::offset_of!(CUpti_PmSampling_SetConfig_Params, triggerMode) - 56usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_Enable_Params"][::std::mem::size_of::<CUpti_PmSampling_Enable_Params>() - 32usize];
    ["Alignment of CUpti_PmSampling_Enable_Params"][::std::mem::align_of::<CUpti_PmSampling_Enable_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_Enable_Params::structSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_Enable_Params, structSize) - 0usize];
    ["Offset of field: CUpti_PmSampling_Enable_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_Enable_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_Enable_Params::deviceIndex"]
        [::std::mem::offset_of!(CUpti_PmSampling_Enable_Params, deviceIndex) - 16usize];
    ["Offset of field: CUpti_PmSampling_Enable_Params::pPmSamplingObject"]
        [::std::mem::offset_of!(CUpti_PmSampling_Enable_Params, pPmSamplingObject) - 24usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_Disable_Params"][::std::mem::size_of::<CUpti_PmSampling_Disable_Params>() - 24usize];
    ["Alignment of CUpti_PmSampling_Disable_Params"]
        [::std::mem::align_of::<CUpti_PmSampling_Disable_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_Disable_Params::structSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_Disable_Params, structSize) - 0usize];
    ["Offset of field: CUpti_PmSampling_Disable_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_Disable_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_Disable_Params::pPmSamplingObject"]
        [::std::mem::offset_of!(CUpti_PmSampling_Disable_Params, pPmSamplingObject) - 16usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_Start_Params"][::std::mem::size_of::<CUpti_PmSampling_Start_Params>() - 24usize];
    ["Alignment of CUpti_PmSampling_Start_Params"][::std::mem::align_of::<CUpti_PmSampling_Start_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_Start_Params::structSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_Start_Params, structSize) - 0usize];
    ["Offset of field: CUpti_PmSampling_Start_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_Start_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_Start_Params::pPmSamplingObject"]
        [::std::mem::offset_of!(CUpti_PmSampling_Start_Params, pPmSamplingObject) - 16usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_Stop_Params"][::std::mem::size_of::<CUpti_PmSampling_Stop_Params>() - 24usize];
    ["Alignment of CUpti_PmSampling_Stop_Params"][::std::mem::align_of::<CUpti_PmSampling_Stop_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_Stop_Params::structSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_Stop_Params, structSize) - 0usize];
    ["Offset of field: CUpti_PmSampling_Stop_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_Stop_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_Stop_Params::pPmSamplingObject"]
        [::std::mem::offset_of!(CUpti_PmSampling_Stop_Params, pPmSamplingObject) - 16usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_DecodeData_Params"]
        [::std::mem::size_of::<CUpti_PmSampling_DecodeData_Params>() - 48usize];
    ["Alignment of CUpti_PmSampling_DecodeData_Params"]
        [::std::mem::align_of::<CUpti_PmSampling_DecodeData_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_DecodeData_Params::structSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_DecodeData_Params, structSize) - 0usize];
    ["Offset of field: CUpti_PmSampling_DecodeData_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_DecodeData_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_DecodeData_Params::pPmSamplingObject"]
        [::std::mem::offset_of!(CUpti_PmSampling_DecodeData_Params, pPmSamplingObject) - 16usize];
    ["Offset of field: CUpti_PmSampling_DecodeData_Params::pCounterDataImage"]
        [::std::mem::offset_of!(CUpti_PmSampling_DecodeData_Params, pCounterDataImage) - 24usize];
    ["Offset of field: CUpti_PmSampling_DecodeData_Params::counterDataImageSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_DecodeData_Params, counterDataImageSize) - 32usize];
    ["Offset of field: CUpti_PmSampling_DecodeData_Params::decodeStopReason"]
        [::std::mem::offset_of!(CUpti_PmSampling_DecodeData_Params, decodeStopReason) - 40usize];
    ["Offset of field: CUpti_PmSampling_DecodeData_Params::overflow"]
        [::std::mem::offset_of!(CUpti_PmSampling_DecodeData_Params, overflow) - 44usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_GetCounterAvailability_Params"]
        [::std::mem::size_of::<CUpti_PmSampling_GetCounterAvailability_Params>() - 40usize];
    ["Alignment of CUpti_PmSampling_GetCounterAvailability_Params"]
        [::std::mem::align_of::<CUpti_PmSampling_GetCounterAvailability_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_GetCounterAvailability_Params::structSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterAvailability_Params, structSize) - 0usize];
    ["Offset of field: CUpti_PmSampling_GetCounterAvailability_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterAvailability_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_GetCounterAvailability_Params::deviceIndex"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterAvailability_Params, deviceIndex) - 16usize];
    ["Offset of field: CUpti_PmSampling_GetCounterAvailability_Params::counterAvailabilityImageSize"][::std::mem::offset_of!(
        CUpti_PmSampling_GetCounterAvailability_Params,
        counterAvailabilityImageSize
    ) - 24usize];
    ["Offset of field: CUpti_PmSampling_GetCounterAvailability_Params::pCounterAvailabilityImage"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterAvailability_Params, pCounterAvailabilityImage) - 32usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_GetCounterDataSize_Params"]
        [::std::mem::size_of::<CUpti_PmSampling_GetCounterDataSize_Params>() - 56usize];
    ["Alignment of CUpti_PmSampling_GetCounterDataSize_Params"]
        [::std::mem::align_of::<CUpti_PmSampling_GetCounterDataSize_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataSize_Params::structSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataSize_Params, structSize) - 0usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataSize_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataSize_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataSize_Params::pPmSamplingObject"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataSize_Params, pPmSamplingObject) - 16usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataSize_Params::pMetricNames"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataSize_Params, pMetricNames) - 24usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataSize_Params::numMetrics"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataSize_Params, numMetrics) - 32usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataSize_Params::maxSamples"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataSize_Params, maxSamples) - 40usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataSize_Params::counterDataSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataSize_Params, counterDataSize) - 48usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_CounterDataImage_Initialize_Params"]
        [::std::mem::size_of::<CUpti_PmSampling_CounterDataImage_Initialize_Params>() - 40usize];
    ["Alignment of CUpti_PmSampling_CounterDataImage_Initialize_Params"]
        [::std::mem::align_of::<CUpti_PmSampling_CounterDataImage_Initialize_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_CounterDataImage_Initialize_Params::structSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_CounterDataImage_Initialize_Params, structSize) - 0usize];
    ["Offset of field: CUpti_PmSampling_CounterDataImage_Initialize_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_CounterDataImage_Initialize_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_CounterDataImage_Initialize_Params::pPmSamplingObject"]
        [::std::mem::offset_of!(CUpti_PmSampling_CounterDataImage_Initialize_Params, pPmSamplingObject) - 16usize];
    ["Offset of field: CUpti_PmSampling_CounterDataImage_Initialize_Params::counterDataSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_CounterDataImage_Initialize_Params, counterDataSize) - 24usize];
    ["Offset of field: CUpti_PmSampling_CounterDataImage_Initialize_Params::pCounterData"]
        [::std::mem::offset_of!(CUpti_PmSampling_CounterDataImage_Initialize_Params, pCounterData) - 32usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_GetCounterDataInfo_Params"]
        [::std::mem::size_of::<CUpti_PmSampling_GetCounterDataInfo_Params>() - 56usize];
    ["Alignment of CUpti_PmSampling_GetCounterDataInfo_Params"]
        [::std::mem::align_of::<CUpti_PmSampling_GetCounterDataInfo_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataInfo_Params::structSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataInfo_Params, structSize) - 0usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataInfo_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataInfo_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataInfo_Params::pCounterDataImage"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataInfo_Params, pCounterDataImage) - 16usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataInfo_Params::counterDataImageSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataInfo_Params, counterDataImageSize) - 24usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataInfo_Params::numTotalSamples"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataInfo_Params, numTotalSamples) - 32usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataInfo_Params::numPopulatedSamples"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataInfo_Params, numPopulatedSamples) - 40usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataInfo_Params::numCompletedSamples"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataInfo_Params, numCompletedSamples) - 48usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_CounterData_GetSampleInfo_Params"]
        [::std::mem::size_of::<CUpti_PmSampling_CounterData_GetSampleInfo_Params>() - 64usize];
    ["Alignment of CUpti_PmSampling_CounterData_GetSampleInfo_Params"]
        [::std::mem::align_of::<CUpti_PmSampling_CounterData_GetSampleInfo_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_CounterData_GetSampleInfo_Params::structSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_CounterData_GetSampleInfo_Params, structSize) - 0usize];
    ["Offset of field: CUpti_PmSampling_CounterData_GetSampleInfo_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_CounterData_GetSampleInfo_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_CounterData_GetSampleInfo_Params::pPmSamplingObject"]
        [::std::mem::offset_of!(CUpti_PmSampling_CounterData_GetSampleInfo_Params, pPmSamplingObject) - 16usize];
    ["Offset of field: CUpti_PmSampling_CounterData_GetSampleInfo_Params::pCounterDataImage"]
        [::std::mem::offset_of!(CUpti_PmSampling_CounterData_GetSampleInfo_Params, pCounterDataImage) - 24usize];
    ["Offset of field: CUpti_PmSampling_CounterData_GetSampleInfo_Params::counterDataImageSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_CounterData_GetSampleInfo_Params, counterDataImageSize) - 32usize];
    ["Offset of field: CUpti_PmSampling_CounterData_GetSampleInfo_Params::sampleIndex"]
        [::std::mem::offset_of!(CUpti_PmSampling_CounterData_GetSampleInfo_Params, sampleIndex) - 40usize];
    ["Offset of field: CUpti_PmSampling_CounterData_GetSampleInfo_Params::startTimestamp"]
        [::std::mem::offset_of!(CUpti_PmSampling_CounterData_GetSampleInfo_Params, startTimestamp) - 48usize];
    ["Offset of field: CUpti_PmSampling_CounterData_GetSampleInfo_Params::endTimestamp"]
        [::std::mem::offset_of!(CUpti_PmSampling_CounterData_GetSampleInfo_Params, endTimestamp) - 56usize];
};
pub const CUpti_Device_GetChipName_Params_SIZE: usize = 32;
pub const CUpti_Profiler_Initialize_Params_SIZE: usize = 16;
pub const CUpti_Profiler_DeInitialize_Params_SIZE: usize = 16;
pub const CUpti_Profiler_GetCounterAvailability_Params_SIZE: usize = 40;
pub const CUpti_Profiler_DeviceSupported_Params_SIZE: usize = 52;
pub const CUpti_Profiler_Host_Initialize_Params_SIZE: usize = 48;
pub const CUpti_Profiler_Host_Deinitialize_Params_SIZE: usize = 24;
pub const CUpti_Profiler_Host_GetBaseMetrics_Params_SIZE: usize = 48;
pub const CUpti_Profiler_Host_EvaluateToGpuValues_Params_SIZE: usize = 72;
pub const CUpti_Profiler_Host_ConfigAddMetrics_Params_SIZE: usize = 40;
pub const CUpti_Profiler_Host_GetConfigImageSize_Params_SIZE: usize = 32;
pub const CUpti_Profiler_Host_GetConfigImage_Params_SIZE: usize = 40;
pub const CUpti_Profiler_Host_GetNumOfPasses_Params_SIZE: usize = 40;
pub const CUpti_RangeProfiler_SetConfig_Params_SIZE: usize = 90;
pub const CUpti_RangeProfiler_Enable_Params_SIZE: usize = 32;
pub const CUpti_RangeProfiler_Disable_Params_SIZE: usize = 24;
pub const CUpti_RangeProfiler_Start_Params_SIZE: usize = 24;
pub const CUpti_RangeProfiler_Stop_Params_SIZE: usize = 41;
pub const CUpti_RangeProfiler_PushRange_Params_SIZE: usize = 32;
pub const CUpti_RangeProfiler_PopRange_Params_SIZE: usize = 24;
pub const CUpti_RangeProfiler_DecodeData_Params_SIZE: usize = 32;
pub const CUpti_RangeProfiler_GetCounterDataSize_Params_SIZE: usize = 64;
pub const CUpti_RangeProfiler_CounterDataImage_Initialize_Params_SIZE: usize = 40;
pub const CUpti_PmSampling_SetConfig_Params_SIZE: usize = 60;
pub const CUpti_PmSampling_Enable_Params_SIZE: usize = 32;
pub const CUpti_PmSampling_Disable_Params_SIZE: usize = 24;
pub const CUpti_PmSampling_Start_Params_SIZE: usize = 24;
pub const CUpti_PmSampling_Stop_Params_SIZE: usize = 24;
pub const CUpti_PmSampling_DecodeData_Params_SIZE: usize = 45;
pub const CUpti_PmSampling_GetCounterAvailability_Params_SIZE: usize = 40;
pub const CUpti_PmSampling_GetCounterDataSize_Params_SIZE: usize = 56;
pub const CUpti_PmSampling_CounterDataImage_Initialize_Params_SIZE: usize = 40;
pub const CUpti_PmSampling_GetCounterDataInfo_Params_SIZE: usize = 56;
pub const CUpti_PmSampling_CounterData_GetSampleInfo_Params_SIZE: usize = 64;
#[repr(C)]
#[derive(Copy, Clone)]
pub union CUpti_ActivityKernel9__bindgen_ty_1 {
    pub both: u8,
    pub config: CUpti_ActivityKernel9__bindgen_ty_1__bindgen_ty_1,
}
impl<Storage> __BindgenBitfieldUnit<Storage> {
    #[inline]
    pub const fn new(storage: Storage) -> Self {
        Self { storage }
    }
}
impl<Storage> __BindgenBitfieldUnit<Storage>
where
    Storage: AsRef<[u8]> + AsMut<[u8]>,
{
    #[inline]
    fn extract_bit(byte: u8, index: usize) -> bool {
        let bit_index = if cfg!(target_endian = "big") { 7 - (index % 8) } else { index % 8 };
        let mask = 1 << bit_index;
        byte & mask == mask
    }
    #[inline]
    pub fn get_bit(&self, index: usize) -> bool {
        debug_assert!(index / 8 < self.storage.as_ref().len());
        let byte_index = index / 8;
        let byte = self.storage.as_ref()[byte_index];
        Self::extract_bit(byte, index)
    }
    #[inline]
    pub unsafe fn raw_get_bit(this: *const Self, index: usize) -> bool {
        debug_assert!(index / 8 < core::mem::size_of::<Storage>());
        let byte_index = index / 8;
        let byte = unsafe { *(core::ptr::addr_of!((*this).storage) as *const u8).offset(byte_index as isize) };
        Self::extract_bit(byte, index)
    }
    #[inline]
    fn change_bit(byte: u8, index: usize, val: bool) -> u8 {
        let bit_index = if cfg!(target_endian = "big") { 7 - (index % 8) } else { index % 8 };
        let mask = 1 << bit_index;
        if val { byte | mask } else { byte & !mask }
    }
    #[inline]
    pub fn set_bit(&mut self, index: usize, val: bool) {
        debug_assert!(index / 8 < self.storage.as_ref().len());
        let byte_index = index / 8;
        let byte = &mut self.storage.as_mut()[byte_index];
        *byte = Self::change_bit(*byte, index, val);
    }
    #[inline]
    pub unsafe fn raw_set_bit(this: *mut Self, index: usize, val: bool) {
        debug_assert!(index / 8 < core::mem::size_of::<Storage>());
        let byte_index = index / 8;
        let byte = unsafe { (core::ptr::addr_of_mut!((*this).storage) as *mut u8).offset(byte_index as isize) };
        unsafe { *byte = Self::change_bit(*byte, index, val) };
    }
    #[inline]
    pub fn get(&self, bit_offset: usize, bit_width: u8) -> u64 {
        debug_assert!(bit_width <= 64);
        debug_assert!(bit_offset / 8 < self.storage.as_ref().len());
        debug_assert!((bit_offset + (bit_width as usize)) / 8 <= self.storage.as_ref().len());
        let mut val = 0;
        for i in 0..(bit_width as usize) {
            if self.get_bit(i + bit_offset) {
                let index = if cfg!(target_endian = "big") { bit_width as usize - 1 - i } else { i };
                val |= 1 << index;
            }
        }
        val
    }
    #[inline]
    pub unsafe fn raw_get(this: *const Self, bit_offset: usize, bit_width: u8) -> u64 {
        debug_assert!(bit_width <= 64);
        debug_assert!(bit_offset / 8 < core::mem::size_of::<Storage>());
        debug_assert!((bit_offset + (bit_width as usize)) / 8 <= core::mem::size_of::<Storage>());
        let mut val = 0;
        for i in 0..(bit_width as usize) {
            if unsafe { Self::raw_get_bit(this, i + bit_offset) } {
                let index = if cfg!(target_endian = "big") { bit_width as usize - 1 - i } else { i };
                val |= 1 << index;
            }
        }
        val
    }
    #[inline]
    pub fn set(&mut self, bit_offset: usize, bit_width: u8, val: u64) {
        debug_assert!(bit_width <= 64);
        debug_assert!(bit_offset / 8 < self.storage.as_ref().len());
        debug_assert!((bit_offset + (bit_width as usize)) / 8 <= self.storage.as_ref().len());
        for i in 0..(bit_width as usize) {
            let mask = 1 << i;
            let val_bit_is_set = val & mask == mask;
            let index = if cfg!(target_endian = "big") { bit_width as usize - 1 - i } else { i };
            self.set_bit(index + bit_offset, val_bit_is_set);
        }
    }
    #[inline]
    pub unsafe fn raw_set(this: *mut Self, bit_offset: usize, bit_width: u8, val: u64) {
        debug_assert!(bit_width <= 64);
        debug_assert!(bit_offset / 8 < core::mem::size_of::<Storage>());
        debug_assert!((bit_offset + (bit_width as usize)) / 8 <= core::mem::size_of::<Storage>());
        for i in 0..(bit_width as usize) {
            let mask = 1 << i;
            let val_bit_is_set = val & mask == mask;
            let index = if cfg!(target_endian = "big") { bit_width as usize - 1 - i } else { i };
            unsafe { Self::raw_set_bit(this, index + bit_offset, val_bit_is_set) };
        }
    }
}
impl CUaccessProperty_enum {
    pub const CU_ACCESS_PROPERTY_NORMAL: CUaccessProperty_enum = CUaccessProperty_enum(0);
    pub const CU_ACCESS_PROPERTY_STREAMING: CUaccessProperty_enum = CUaccessProperty_enum(1);
    pub const CU_ACCESS_PROPERTY_PERSISTING: CUaccessProperty_enum = CUaccessProperty_enum(2);
}
impl CUptiResult {
    pub const CUPTI_SUCCESS: CUptiResult = CUptiResult(0);
    pub const CUPTI_ERROR_INVALID_PARAMETER: CUptiResult = CUptiResult(1);
    pub const CUPTI_ERROR_INVALID_DEVICE: CUptiResult = CUptiResult(2);
    pub const CUPTI_ERROR_INVALID_CONTEXT: CUptiResult = CUptiResult(3);
    pub const CUPTI_ERROR_INVALID_EVENT_DOMAIN_ID: CUptiResult = CUptiResult(4);
    pub const CUPTI_ERROR_INVALID_EVENT_ID: CUptiResult = CUptiResult(5);
    pub const CUPTI_ERROR_INVALID_EVENT_NAME: CUptiResult = CUptiResult(6);
    pub const CUPTI_ERROR_INVALID_OPERATION: CUptiResult = CUptiResult(7);
    pub const CUPTI_ERROR_OUT_OF_MEMORY: CUptiResult = CUptiResult(8);
    pub const CUPTI_ERROR_HARDWARE: CUptiResult = CUptiResult(9);
    pub const CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT: CUptiResult = CUptiResult(10);
    pub const CUPTI_ERROR_API_NOT_IMPLEMENTED: CUptiResult = CUptiResult(11);
    pub const CUPTI_ERROR_MAX_LIMIT_REACHED: CUptiResult = CUptiResult(12);
    pub const CUPTI_ERROR_NOT_READY: CUptiResult = CUptiResult(13);
    pub const CUPTI_ERROR_NOT_COMPATIBLE: CUptiResult = CUptiResult(14);
    pub const CUPTI_ERROR_NOT_INITIALIZED: CUptiResult = CUptiResult(15);
    pub const CUPTI_ERROR_INVALID_METRIC_ID: CUptiResult = CUptiResult(16);
    pub const CUPTI_ERROR_INVALID_METRIC_NAME: CUptiResult = CUptiResult(17);
    pub const CUPTI_ERROR_QUEUE_EMPTY: CUptiResult = CUptiResult(18);
    pub const CUPTI_ERROR_INVALID_HANDLE: CUptiResult = CUptiResult(19);
    pub const CUPTI_ERROR_INVALID_STREAM: CUptiResult = CUptiResult(20);
    pub const CUPTI_ERROR_INVALID_KIND: CUptiResult = CUptiResult(21);
    pub const CUPTI_ERROR_INVALID_EVENT_VALUE: CUptiResult = CUptiResult(22);
    pub const CUPTI_ERROR_DISABLED: CUptiResult = CUptiResult(23);
    pub const CUPTI_ERROR_INVALID_MODULE: CUptiResult = CUptiResult(24);
    pub const CUPTI_ERROR_INVALID_METRIC_VALUE: CUptiResult = CUptiResult(25);
    pub const CUPTI_ERROR_HARDWARE_BUSY: CUptiResult = CUptiResult(26);
    pub const CUPTI_ERROR_NOT_SUPPORTED: CUptiResult = CUptiResult(27);
    pub const CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED: CUptiResult = CUptiResult(28);
    pub const CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_ON_DEVICE: CUptiResult = CUptiResult(29);
    pub const CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_ON_NON_P2P_DEVICES: CUptiResult = CUptiResult(30);
    pub const CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_WITH_MPS: CUptiResult = CUptiResult(31);
    pub const CUPTI_ERROR_CDP_TRACING_NOT_SUPPORTED: CUptiResult = CUptiResult(32);
    pub const CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED: CUptiResult = CUptiResult(33);
    pub const CUPTI_ERROR_CUDA_COMPILER_NOT_COMPATIBLE: CUptiResult = CUptiResult(34);
    pub const CUPTI_ERROR_INSUFFICIENT_PRIVILEGES: CUptiResult = CUptiResult(35);
    pub const CUPTI_ERROR_OLD_PROFILER_API_INITIALIZED: CUptiResult = CUptiResult(36);
    pub const CUPTI_ERROR_OPENACC_UNDEFINED_ROUTINE: CUptiResult = CUptiResult(37);
    pub const CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED: CUptiResult = CUptiResult(38);
    pub const CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED: CUptiResult = CUptiResult(39);
    pub const CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES: CUptiResult = CUptiResult(40);
    pub const CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED: CUptiResult = CUptiResult(41);
    pub const CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED: CUptiResult = CUptiResult(42);
    pub const CUPTI_ERROR_UNKNOWN: CUptiResult = CUptiResult(999);
    pub const CUPTI_ERROR_FORCE_INT: CUptiResult = CUptiResult(2147483647);
}
impl CUpti_CallbackDomain {
    pub const CUPTI_CB_DOMAIN_INVALID: CUpti_CallbackDomain = CUpti_CallbackDomain(0);
    pub const CUPTI_CB_DOMAIN_DRIVER_API: CUpti_CallbackDomain = CUpti_CallbackDomain(1);
    pub const CUPTI_CB_DOMAIN_RUNTIME_API: CUpti_CallbackDomain = CUpti_CallbackDomain(2);
    pub const CUPTI_CB_DOMAIN_RESOURCE: CUpti_CallbackDomain = CUpti_CallbackDomain(3);
    pub const CUPTI_CB_DOMAIN_SYNCHRONIZE: CUpti_CallbackDomain = CUpti_CallbackDomain(4);
    pub const CUPTI_CB_DOMAIN_NVTX: CUpti_CallbackDomain = CUpti_CallbackDomain(5);
    pub const CUPTI_CB_DOMAIN_STATE: CUpti_CallbackDomain = CUpti_CallbackDomain(6);
    pub const CUPTI_CB_DOMAIN_SIZE: CUpti_CallbackDomain = CUpti_CallbackDomain(7);
    pub const CUPTI_CB_DOMAIN_FORCE_INT: CUpti_CallbackDomain = CUpti_CallbackDomain(2147483647);
}
impl CUpti_ActivityKind {
    pub const CUPTI_ACTIVITY_KIND_INVALID: CUpti_ActivityKind = CUpti_ActivityKind(0);
    pub const CUPTI_ACTIVITY_KIND_MEMCPY: CUpti_ActivityKind = CUpti_ActivityKind(1);
    pub const CUPTI_ACTIVITY_KIND_MEMSET: CUpti_ActivityKind = CUpti_ActivityKind(2);
    pub const CUPTI_ACTIVITY_KIND_KERNEL: CUpti_ActivityKind = CUpti_ActivityKind(3);
    pub const CUPTI_ACTIVITY_KIND_DRIVER: CUpti_ActivityKind = CUpti_ActivityKind(4);
    pub const CUPTI_ACTIVITY_KIND_RUNTIME: CUpti_ActivityKind = CUpti_ActivityKind(5);
    pub const CUPTI_ACTIVITY_KIND_EVENT: CUpti_ActivityKind = CUpti_ActivityKind(6);
    pub const CUPTI_ACTIVITY_KIND_METRIC: CUpti_ActivityKind = CUpti_ActivityKind(7);
    pub const CUPTI_ACTIVITY_KIND_DEVICE: CUpti_ActivityKind = CUpti_ActivityKind(8);
    pub const CUPTI_ACTIVITY_KIND_CONTEXT: CUpti_ActivityKind = CUpti_ActivityKind(9);
    pub const CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: CUpti_ActivityKind = CUpti_ActivityKind(10);
    pub const CUPTI_ACTIVITY_KIND_NAME: CUpti_ActivityKind = CUpti_ActivityKind(11);
    pub const CUPTI_ACTIVITY_KIND_MARKER: CUpti_ActivityKind = CUpti_ActivityKind(12);
    pub const CUPTI_ACTIVITY_KIND_MARKER_DATA: CUpti_ActivityKind = CUpti_ActivityKind(13);
    pub const CUPTI_ACTIVITY_KIND_SOURCE_LOCATOR: CUpti_ActivityKind = CUpti_ActivityKind(14);
    pub const CUPTI_ACTIVITY_KIND_GLOBAL_ACCESS: CUpti_ActivityKind = CUpti_ActivityKind(15);
    pub const CUPTI_ACTIVITY_KIND_BRANCH: CUpti_ActivityKind = CUpti_ActivityKind(16);
    pub const CUPTI_ACTIVITY_KIND_OVERHEAD: CUpti_ActivityKind = CUpti_ActivityKind(17);
    pub const CUPTI_ACTIVITY_KIND_CDP_KERNEL: CUpti_ActivityKind = CUpti_ActivityKind(18);
    pub const CUPTI_ACTIVITY_KIND_PREEMPTION: CUpti_ActivityKind = CUpti_ActivityKind(19);
    pub const CUPTI_ACTIVITY_KIND_ENVIRONMENT: CUpti_ActivityKind = CUpti_ActivityKind(20);
    pub const CUPTI_ACTIVITY_KIND_EVENT_INSTANCE: CUpti_ActivityKind = CUpti_ActivityKind(21);
    pub const CUPTI_ACTIVITY_KIND_MEMCPY2: CUpti_ActivityKind = CUpti_ActivityKind(22);
    pub const CUPTI_ACTIVITY_KIND_METRIC_INSTANCE: CUpti_ActivityKind = CUpti_ActivityKind(23);
    pub const CUPTI_ACTIVITY_KIND_INSTRUCTION_EXECUTION: CUpti_ActivityKind = CUpti_ActivityKind(24);
    pub const CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER: CUpti_ActivityKind = CUpti_ActivityKind(25);
    pub const CUPTI_ACTIVITY_KIND_FUNCTION: CUpti_ActivityKind = CUpti_ActivityKind(26);
    pub const CUPTI_ACTIVITY_KIND_MODULE: CUpti_ActivityKind = CUpti_ActivityKind(27);
    pub const CUPTI_ACTIVITY_KIND_DEVICE_ATTRIBUTE: CUpti_ActivityKind = CUpti_ActivityKind(28);
    pub const CUPTI_ACTIVITY_KIND_SHARED_ACCESS: CUpti_ActivityKind = CUpti_ActivityKind(29);
    pub const CUPTI_ACTIVITY_KIND_PC_SAMPLING: CUpti_ActivityKind = CUpti_ActivityKind(30);
    pub const CUPTI_ACTIVITY_KIND_PC_SAMPLING_RECORD_INFO: CUpti_ActivityKind = CUpti_ActivityKind(31);
    pub const CUPTI_ACTIVITY_KIND_INSTRUCTION_CORRELATION: CUpti_ActivityKind = CUpti_ActivityKind(32);
    pub const CUPTI_ACTIVITY_KIND_OPENACC_DATA: CUpti_ActivityKind = CUpti_ActivityKind(33);
    pub const CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH: CUpti_ActivityKind = CUpti_ActivityKind(34);
    pub const CUPTI_ACTIVITY_KIND_OPENACC_OTHER: CUpti_ActivityKind = CUpti_ActivityKind(35);
    pub const CUPTI_ACTIVITY_KIND_CUDA_EVENT: CUpti_ActivityKind = CUpti_ActivityKind(36);
    pub const CUPTI_ACTIVITY_KIND_STREAM: CUpti_ActivityKind = CUpti_ActivityKind(37);
    pub const CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: CUpti_ActivityKind = CUpti_ActivityKind(38);
    pub const CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: CUpti_ActivityKind = CUpti_ActivityKind(39);
    pub const CUPTI_ACTIVITY_KIND_NVLINK: CUpti_ActivityKind = CUpti_ActivityKind(40);
    pub const CUPTI_ACTIVITY_KIND_INSTANTANEOUS_EVENT: CUpti_ActivityKind = CUpti_ActivityKind(41);
    pub const CUPTI_ACTIVITY_KIND_INSTANTANEOUS_EVENT_INSTANCE: CUpti_ActivityKind = CUpti_ActivityKind(42);
    pub const CUPTI_ACTIVITY_KIND_INSTANTANEOUS_METRIC: CUpti_ActivityKind = CUpti_ActivityKind(43);
    pub const CUPTI_ACTIVITY_KIND_INSTANTANEOUS_METRIC_INSTANCE: CUpti_ActivityKind = CUpti_ActivityKind(44);
    pub const CUPTI_ACTIVITY_KIND_MEMORY: CUpti_ActivityKind = CUpti_ActivityKind(45);
    pub const CUPTI_ACTIVITY_KIND_PCIE: CUpti_ActivityKind = CUpti_ActivityKind(46);
    pub const CUPTI_ACTIVITY_KIND_OPENMP: CUpti_ActivityKind = CUpti_ActivityKind(47);
    pub const CUPTI_ACTIVITY_KIND_INTERNAL_LAUNCH_API: CUpti_ActivityKind = CUpti_ActivityKind(48);
    pub const CUPTI_ACTIVITY_KIND_MEMORY2: CUpti_ActivityKind = CUpti_ActivityKind(49);
    pub const CUPTI_ACTIVITY_KIND_MEMORY_POOL: CUpti_ActivityKind = CUpti_ActivityKind(50);
    pub const CUPTI_ACTIVITY_KIND_GRAPH_TRACE: CUpti_ActivityKind = CUpti_ActivityKind(51);
    pub const CUPTI_ACTIVITY_KIND_JIT: CUpti_ActivityKind = CUpti_ActivityKind(52);
    pub const CUPTI_ACTIVITY_KIND_COUNT: CUpti_ActivityKind = CUpti_ActivityKind(53);
    pub const CUPTI_ACTIVITY_KIND_FORCE_INT: CUpti_ActivityKind = CUpti_ActivityKind(2147483647);
}
impl CUpti_ActivityPartitionedGlobalCacheConfig {
    pub const CUPTI_ACTIVITY_PARTITIONED_GLOBAL_CACHE_CONFIG_UNKNOWN: CUpti_ActivityPartitionedGlobalCacheConfig =
        CUpti_ActivityPartitionedGlobalCacheConfig(0);
    pub const CUPTI_ACTIVITY_PARTITIONED_GLOBAL_CACHE_CONFIG_NOT_SUPPORTED: CUpti_ActivityPartitionedGlobalCacheConfig =
        CUpti_ActivityPartitionedGlobalCacheConfig(1);
    pub const CUPTI_ACTIVITY_PARTITIONED_GLOBAL_CACHE_CONFIG_OFF: CUpti_ActivityPartitionedGlobalCacheConfig =
        CUpti_ActivityPartitionedGlobalCacheConfig(2);
    pub const CUPTI_ACTIVITY_PARTITIONED_GLOBAL_CACHE_CONFIG_ON: CUpti_ActivityPartitionedGlobalCacheConfig =
        CUpti_ActivityPartitionedGlobalCacheConfig(3);
    pub const CUPTI_ACTIVITY_PARTITIONED_GLOBAL_CACHE_CONFIG_FORCE_INT: CUpti_ActivityPartitionedGlobalCacheConfig =
        CUpti_ActivityPartitionedGlobalCacheConfig(2147483647);
}
impl CUpti_ChannelType {
    pub const CUPTI_CHANNEL_TYPE_INVALID: CUpti_ChannelType = CUpti_ChannelType(0);
    pub const CUPTI_CHANNEL_TYPE_COMPUTE: CUpti_ChannelType = CUpti_ChannelType(1);
    pub const CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY: CUpti_ChannelType = CUpti_ChannelType(2);
    pub const CUPTI_CHANNEL_TYPE_FORCE_INT: CUpti_ChannelType = CUpti_ChannelType(2147483647);
}
impl CUpti_FuncShmemLimitConfig {
    pub const CUPTI_FUNC_SHMEM_LIMIT_DEFAULT: CUpti_FuncShmemLimitConfig = CUpti_FuncShmemLimitConfig(0);
    pub const CUPTI_FUNC_SHMEM_LIMIT_OPTIN: CUpti_FuncShmemLimitConfig = CUpti_FuncShmemLimitConfig(1);
    pub const CUPTI_FUNC_SHMEM_LIMIT_FORCE_INT: CUpti_FuncShmemLimitConfig = CUpti_FuncShmemLimitConfig(2147483647);
}
impl CUpti_ActivityKernel9__bindgen_ty_1__bindgen_ty_1 {
    #[inline]
    pub fn requested(&self) -> u8 {
        unsafe { ::std::mem::transmute(self._bitfield_1.get(0usize, 4u8) as u8) }
    }
    #[inline]
    pub fn set_requested(&mut self, val: u8) {
        unsafe {
            let val: u8 = ::std::mem::transmute(val);
            self._bitfield_1.set(0usize, 4u8, val as u64)
        }
    }
    #[inline]
    pub unsafe fn requested_raw(this: *const Self) -> u8 {
        unsafe {
            ::std::mem::transmute(<__BindgenBitfieldUnit<[u8; 1usize]>>::raw_get(
                ::std::ptr::addr_of!((*this)._bitfield_1),
                0usize,
                4u8,
            ) as u8)
        }
    }
    #[inline]
    pub unsafe fn set_requested_raw(this: *mut Self, val: u8) {
        unsafe {
            let val: u8 = ::std::mem::transmute(val);
            <__BindgenBitfieldUnit<[u8; 1usize]>>::raw_set(
                ::std::ptr::addr_of_mut!((*this)._bitfield_1),
                0usize,
                4u8,
                val as u64,
            )
        }
    }
    #[inline]
    pub fn executed(&self) -> u8 {
        unsafe { ::std::mem::transmute(self._bitfield_1.get(4usize, 4u8) as u8) }
    }
    #[inline]
    pub fn set_executed(&mut self, val: u8) {
        unsafe {
            let val: u8 = ::std::mem::transmute(val);
            self._bitfield_1.set(4usize, 4u8, val as u64)
        }
    }
    #[inline]
    pub unsafe fn executed_raw(this: *const Self) -> u8 {
        unsafe {
            ::std::mem::transmute(<__BindgenBitfieldUnit<[u8; 1usize]>>::raw_get(
                ::std::ptr::addr_of!((*this)._bitfield_1),
                4usize,
                4u8,
            ) as u8)
        }
    }
    #[inline]
    pub unsafe fn set_executed_raw(this: *mut Self, val: u8) {
        unsafe {
            let val: u8 = ::std::mem::transmute(val);
            <__BindgenBitfieldUnit<[u8; 1usize]>>::raw_set(
                ::std::ptr::addr_of_mut!((*this)._bitfield_1),
                4usize,
                4u8,
                val as u64,
            )
        }
    }
    #[inline]
    pub fn new_bitfield_1(requested: u8, executed: u8) -> __BindgenBitfieldUnit<[u8; 1usize]> {
        let mut __bindgen_bitfield_unit: __BindgenBitfieldUnit<[u8; 1usize]> = Default::default();
        __bindgen_bitfield_unit.set(0usize, 4u8, {
            let requested: u8 = unsafe { ::std::mem::transmute(requested) };
            requested as u64
        });
        __bindgen_bitfield_unit.set(4usize, 4u8, {
            let executed: u8 = unsafe { ::std::mem::transmute(executed) };
            executed as u64
        });
        __bindgen_bitfield_unit
    }
}
impl CUpti_ProfilerRange {
    pub const CUPTI_Range_INVALID: CUpti_ProfilerRange = CUpti_ProfilerRange(0);
    pub const CUPTI_AutoRange: CUpti_ProfilerRange = CUpti_ProfilerRange(1);
    pub const CUPTI_UserRange: CUpti_ProfilerRange = CUpti_ProfilerRange(2);
    pub const CUPTI_Range_COUNT: CUpti_ProfilerRange = CUpti_ProfilerRange(3);
}
impl CUpti_ProfilerReplayMode {
    pub const CUPTI_Replay_INVALID: CUpti_ProfilerReplayMode = CUpti_ProfilerReplayMode(0);
    pub const CUPTI_ApplicationReplay: CUpti_ProfilerReplayMode = CUpti_ProfilerReplayMode(1);
    pub const CUPTI_KernelReplay: CUpti_ProfilerReplayMode = CUpti_ProfilerReplayMode(2);
    pub const CUPTI_UserReplay: CUpti_ProfilerReplayMode = CUpti_ProfilerReplayMode(3);
    pub const CUPTI_Replay_COUNT: CUpti_ProfilerReplayMode = CUpti_ProfilerReplayMode(4);
}
impl CUpti_Profiler_Support_Level {
    pub const CUPTI_PROFILER_CONFIGURATION_UNKNOWN: CUpti_Profiler_Support_Level = CUpti_Profiler_Support_Level(0);
    pub const CUPTI_PROFILER_CONFIGURATION_UNSUPPORTED: CUpti_Profiler_Support_Level = CUpti_Profiler_Support_Level(1);
    pub const CUPTI_PROFILER_CONFIGURATION_DISABLED: CUpti_Profiler_Support_Level = CUpti_Profiler_Support_Level(2);
    pub const CUPTI_PROFILER_CONFIGURATION_SUPPORTED: CUpti_Profiler_Support_Level = CUpti_Profiler_Support_Level(3);
}
impl CUpti_Profiler_API {
    pub const CUPTI_PROFILER_RANGE_PROFILING: CUpti_Profiler_API = CUpti_Profiler_API(0);
    pub const CUPTI_PROFILER_PC_SAMPLING: CUpti_Profiler_API = CUpti_Profiler_API(1);
    pub const CUPTI_PROFILER_SASS_METRICS: CUpti_Profiler_API = CUpti_Profiler_API(2);
    pub const CUPTI_PROFILER_PM_SAMPLING: CUpti_Profiler_API = CUpti_Profiler_API(3);
    pub const CUPTI_PROFILER_UNKNOWN: CUpti_Profiler_API = CUpti_Profiler_API(4);
}
impl CUpti_MetricType {
    pub const CUPTI_METRIC_TYPE_COUNTER: CUpti_MetricType = CUpti_MetricType(0);
    pub const CUPTI_METRIC_TYPE_RATIO: CUpti_MetricType = CUpti_MetricType(1);
    pub const CUPTI_METRIC_TYPE_THROUGHPUT: CUpti_MetricType = CUpti_MetricType(2);
    pub const CUPTI_METRIC_TYPE__COUNT: CUpti_MetricType = CUpti_MetricType(3);
}
impl CUpti_ProfilerType {
    pub const CUPTI_PROFILER_TYPE_RANGE_PROFILER: CUpti_ProfilerType = CUpti_ProfilerType(0);
    pub const CUPTI_PROFILER_TYPE_PM_SAMPLING: CUpti_ProfilerType = CUpti_ProfilerType(1);
    pub const CUPTI_PROFILER_TYPE_PROFILER_INVALID: CUpti_ProfilerType = CUpti_ProfilerType(2);
}
impl CUpti_PmSampling_TriggerMode {
    pub const CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_SYSCLK_INTERVAL: CUpti_PmSampling_TriggerMode =
        CUpti_PmSampling_TriggerMode(0);
    pub const CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL: CUpti_PmSampling_TriggerMode =
        CUpti_PmSampling_TriggerMode(1);
    pub const CUPTI_PM_SAMPLING_TRIGGER_MODE_COUNT: CUpti_PmSampling_TriggerMode = CUpti_PmSampling_TriggerMode(2);
}
impl CUpti_PmSampling_DecodeStopReason {
    pub const CUPTI_PM_SAMPLING_DECODE_STOP_REASON_OTHER: CUpti_PmSampling_DecodeStopReason =
        CUpti_PmSampling_DecodeStopReason(0);
    pub const CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL: CUpti_PmSampling_DecodeStopReason =
        CUpti_PmSampling_DecodeStopReason(1);
    pub const CUPTI_PM_SAMPLING_DECODE_STOP_REASON_END_OF_RECORDS: CUpti_PmSampling_DecodeStopReason =
        CUpti_PmSampling_DecodeStopReason(2);
    pub const CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNT: CUpti_PmSampling_DecodeStopReason =
        CUpti_PmSampling_DecodeStopReason(3);
}
impl Api {
    pub unsafe fn from_library<L>(library: L) -> Result<Self, ::libloading::Error>
    where
        L: Into<::libloading::Library>,
    {
        let __library = library.into();
        let cuptiGetVersion = unsafe { __library.get(b"cuptiGetVersion\0") }.map(|sym| *sym)?;
        let cuptiSubscribe = unsafe { __library.get(b"cuptiSubscribe\0") }.map(|sym| *sym)?;
        let cuptiUnsubscribe = unsafe { __library.get(b"cuptiUnsubscribe\0") }.map(|sym| *sym)?;
        let cuptiGetTimestamp = unsafe { __library.get(b"cuptiGetTimestamp\0") }.map(|sym| *sym)?;
        let cuptiActivityEnable = unsafe { __library.get(b"cuptiActivityEnable\0") }.map(|sym| *sym)?;
        let cuptiActivityDisable = unsafe { __library.get(b"cuptiActivityDisable\0") }.map(|sym| *sym)?;
        let cuptiActivityGetNumDroppedRecords =
            unsafe { __library.get(b"cuptiActivityGetNumDroppedRecords\0") }.map(|sym| *sym)?;
        let cuptiActivityGetNextRecord = unsafe { __library.get(b"cuptiActivityGetNextRecord\0") }.map(|sym| *sym)?;
        let cuptiActivityRegisterCallbacks =
            unsafe { __library.get(b"cuptiActivityRegisterCallbacks\0") }.map(|sym| *sym)?;
        let cuptiActivityFlushAll = unsafe { __library.get(b"cuptiActivityFlushAll\0") }.map(|sym| *sym)?;
        let cuptiDeviceGetChipName = unsafe { __library.get(b"cuptiDeviceGetChipName\0") }.map(|sym| *sym)?;
        let cuptiProfilerInitialize = unsafe { __library.get(b"cuptiProfilerInitialize\0") }.map(|sym| *sym)?;
        let cuptiProfilerDeInitialize = unsafe { __library.get(b"cuptiProfilerDeInitialize\0") }.map(|sym| *sym)?;
        let cuptiProfilerGetCounterAvailability =
            unsafe { __library.get(b"cuptiProfilerGetCounterAvailability\0") }.map(|sym| *sym)?;
        let cuptiProfilerDeviceSupported =
            unsafe { __library.get(b"cuptiProfilerDeviceSupported\0") }.map(|sym| *sym)?;
        let cuptiProfilerHostInitialize = unsafe { __library.get(b"cuptiProfilerHostInitialize\0") }.map(|sym| *sym)?;
        let cuptiProfilerHostDeinitialize =
            unsafe { __library.get(b"cuptiProfilerHostDeinitialize\0") }.map(|sym| *sym)?;
        let cuptiProfilerHostGetBaseMetrics =
            unsafe { __library.get(b"cuptiProfilerHostGetBaseMetrics\0") }.map(|sym| *sym)?;
        let cuptiProfilerHostEvaluateToGpuValues =
            unsafe { __library.get(b"cuptiProfilerHostEvaluateToGpuValues\0") }.map(|sym| *sym)?;
        let cuptiProfilerHostConfigAddMetrics =
            unsafe { __library.get(b"cuptiProfilerHostConfigAddMetrics\0") }.map(|sym| *sym)?;
        let cuptiProfilerHostGetConfigImageSize =
            unsafe { __library.get(b"cuptiProfilerHostGetConfigImageSize\0") }.map(|sym| *sym)?;
        let cuptiProfilerHostGetConfigImage =
            unsafe { __library.get(b"cuptiProfilerHostGetConfigImage\0") }.map(|sym| *sym)?;
        let cuptiProfilerHostGetNumOfPasses =
            unsafe { __library.get(b"cuptiProfilerHostGetNumOfPasses\0") }.map(|sym| *sym)?;
        let cuptiRangeProfilerSetConfig = unsafe { __library.get(b"cuptiRangeProfilerSetConfig\0") }.map(|sym| *sym)?;
        let cuptiRangeProfilerEnable = unsafe { __library.get(b"cuptiRangeProfilerEnable\0") }.map(|sym| *sym)?;
        let cuptiRangeProfilerDisable = unsafe { __library.get(b"cuptiRangeProfilerDisable\0") }.map(|sym| *sym)?;
        let cuptiRangeProfilerStart = unsafe { __library.get(b"cuptiRangeProfilerStart\0") }.map(|sym| *sym)?;
        let cuptiRangeProfilerStop = unsafe { __library.get(b"cuptiRangeProfilerStop\0") }.map(|sym| *sym)?;
        let cuptiRangeProfilerPushRange = unsafe { __library.get(b"cuptiRangeProfilerPushRange\0") }.map(|sym| *sym)?;
        let cuptiRangeProfilerPopRange = unsafe { __library.get(b"cuptiRangeProfilerPopRange\0") }.map(|sym| *sym)?;
        let cuptiRangeProfilerDecodeData =
            unsafe { __library.get(b"cuptiRangeProfilerDecodeData\0") }.map(|sym| *sym)?;
        let cuptiRangeProfilerGetCounterDataSize =
            unsafe { __library.get(b"cuptiRangeProfilerGetCounterDataSize\0") }.map(|sym| *sym)?;
        let cuptiRangeProfilerCounterDataImageInitialize =
            unsafe { __library.get(b"cuptiRangeProfilerCounterDataImageInitialize\0") }.map(|sym| *sym)?;
        let cuptiPmSamplingSetConfig = unsafe { __library.get(b"cuptiPmSamplingSetConfig\0") }.map(|sym| *sym)?;
        let cuptiPmSamplingEnable = unsafe { __library.get(b"cuptiPmSamplingEnable\0") }.map(|sym| *sym)?;
        let cuptiPmSamplingDisable = unsafe { __library.get(b"cuptiPmSamplingDisable\0") }.map(|sym| *sym)?;
        let cuptiPmSamplingStart = unsafe { __library.get(b"cuptiPmSamplingStart\0") }.map(|sym| *sym)?;
        let cuptiPmSamplingStop = unsafe { __library.get(b"cuptiPmSamplingStop\0") }.map(|sym| *sym)?;
        let cuptiPmSamplingDecodeData = unsafe { __library.get(b"cuptiPmSamplingDecodeData\0") }.map(|sym| *sym)?;
        let cuptiPmSamplingGetCounterAvailability =
            unsafe { __library.get(b"cuptiPmSamplingGetCounterAvailability\0") }.map(|sym| *sym)?;
        let cuptiPmSamplingGetCounterDataSize =
            unsafe { __library.get(b"cuptiPmSamplingGetCounterDataSize\0") }.map(|sym| *sym)?;
        let cuptiPmSamplingCounterDataImageInitialize =
            unsafe { __library.get(b"cuptiPmSamplingCounterDataImageInitialize\0") }.map(|sym| *sym)?;
        let cuptiPmSamplingGetCounterDataInfo =
            unsafe { __library.get(b"cuptiPmSamplingGetCounterDataInfo\0") }.map(|sym| *sym)?;
        let cuptiPmSamplingCounterDataGetSampleInfo =
            unsafe { __library.get(b"cuptiPmSamplingCounterDataGetSampleInfo\0") }.map(|sym| *sym)?;
        Ok(Api {
            __library,
            cuptiGetVersion,
            cuptiSubscribe,
            cuptiUnsubscribe,
            cuptiGetTimestamp,
            cuptiActivityEnable,
            cuptiActivityDisable,
            cuptiActivityGetNumDroppedRecords,
            cuptiActivityGetNextRecord,
            cuptiActivityRegisterCallbacks,
            cuptiActivityFlushAll,
            cuptiDeviceGetChipName,
            cuptiProfilerInitialize,
            cuptiProfilerDeInitialize,
            cuptiProfilerGetCounterAvailability,
            cuptiProfilerDeviceSupported,
            cuptiProfilerHostInitialize,
            cuptiProfilerHostDeinitialize,
            cuptiProfilerHostGetBaseMetrics,
            cuptiProfilerHostEvaluateToGpuValues,
            cuptiProfilerHostConfigAddMetrics,
            cuptiProfilerHostGetConfigImageSize,
            cuptiProfilerHostGetConfigImage,
            cuptiProfilerHostGetNumOfPasses,
            cuptiRangeProfilerSetConfig,
            cuptiRangeProfilerEnable,
            cuptiRangeProfilerDisable,
            cuptiRangeProfilerStart,
            cuptiRangeProfilerStop,
            cuptiRangeProfilerPushRange,
            cuptiRangeProfilerPopRange,
            cuptiRangeProfilerDecodeData,
            cuptiRangeProfilerGetCounterDataSize,
            cuptiRangeProfilerCounterDataImageInitialize,
            cuptiPmSamplingSetConfig,
            cuptiPmSamplingEnable,
            cuptiPmSamplingDisable,
            cuptiPmSamplingStart,
            cuptiPmSamplingStop,
            cuptiPmSamplingDecodeData,
            cuptiPmSamplingGetCounterAvailability,
            cuptiPmSamplingGetCounterDataSize,
            cuptiPmSamplingCounterDataImageInitialize,
            cuptiPmSamplingGetCounterDataInfo,
            cuptiPmSamplingCounterDataGetSampleInfo,
        })
    }
    pub unsafe fn cuptiGetVersion(&self, version: *mut u32) -> CUptiResult {
        unsafe { (self.cuptiGetVersion)(version) }
    }
    pub unsafe fn cuptiSubscribe(
        &self,
        subscriber: *mut CUpti_SubscriberHandle,
        callback: CUpti_CallbackFunc,
        userdata: *mut ::std::os::raw::c_void,
    ) -> CUptiResult {
        unsafe { (self.cuptiSubscribe)(subscriber, callback, userdata) }
    }
    pub unsafe fn cuptiUnsubscribe(&self, subscriber: CUpti_SubscriberHandle) -> CUptiResult {
        unsafe { (self.cuptiUnsubscribe)(subscriber) }
    }
    pub unsafe fn cuptiGetTimestamp(&self, timestamp: *mut u64) -> CUptiResult {
        unsafe { (self.cuptiGetTimestamp)(timestamp) }
    }
    pub unsafe fn cuptiActivityEnable(&self, kind: CUpti_ActivityKind) -> CUptiResult {
        unsafe { (self.cuptiActivityEnable)(kind) }
    }
    pub unsafe fn cuptiActivityDisable(&self, kind: CUpti_ActivityKind) -> CUptiResult {
        unsafe { (self.cuptiActivityDisable)(kind) }
    }
    pub unsafe fn cuptiActivityGetNumDroppedRecords(
        &self,
        context: CUcontext,
        streamId: u32,
        dropped: *mut usize,
    ) -> CUptiResult {
        unsafe { (self.cuptiActivityGetNumDroppedRecords)(context, streamId, dropped) }
    }
    pub unsafe fn cuptiActivityGetNextRecord(
        &self,
        buffer: *mut u8,
        validBufferSizeBytes: usize,
        record: *mut *mut CUpti_Activity,
    ) -> CUptiResult {
        unsafe { (self.cuptiActivityGetNextRecord)(buffer, validBufferSizeBytes, record) }
    }
    pub unsafe fn cuptiActivityRegisterCallbacks(
        &self,
        funcBufferRequested: CUpti_BuffersCallbackRequestFunc,
        funcBufferCompleted: CUpti_BuffersCallbackCompleteFunc,
    ) -> CUptiResult {
        unsafe { (self.cuptiActivityRegisterCallbacks)(funcBufferRequested, funcBufferCompleted) }
    }
    pub unsafe fn cuptiActivityFlushAll(&self, flag: u32) -> CUptiResult {
        unsafe { (self.cuptiActivityFlushAll)(flag) }
    }
    pub unsafe fn cuptiDeviceGetChipName(&self, pParams: *mut CUpti_Device_GetChipName_Params) -> CUptiResult {
        unsafe { (self.cuptiDeviceGetChipName)(pParams) }
    }
    pub unsafe fn cuptiProfilerInitialize(&self, pParams: *mut CUpti_Profiler_Initialize_Params) -> CUptiResult {
        unsafe { (self.cuptiProfilerInitialize)(pParams) }
    }
    pub unsafe fn cuptiProfilerDeInitialize(&self, pParams: *mut CUpti_Profiler_DeInitialize_Params) -> CUptiResult {
        unsafe { (self.cuptiProfilerDeInitialize)(pParams) }
    }
    pub unsafe fn cuptiProfilerGetCounterAvailability(
        &self,
        pParams: *mut CUpti_Profiler_GetCounterAvailability_Params,
    ) -> CUptiResult {
        unsafe { (self.cuptiProfilerGetCounterAvailability)(pParams) }
    }
    pub unsafe fn cuptiProfilerDeviceSupported(
        &self,
        pParams: *mut CUpti_Profiler_DeviceSupported_Params,
    ) -> CUptiResult {
        unsafe { (self.cuptiProfilerDeviceSupported)(pParams) }
    }
    pub unsafe fn cuptiProfilerHostInitialize(
        &self,
        pParams: *mut CUpti_Profiler_Host_Initialize_Params,
    ) -> CUptiResult {
        unsafe { (self.cuptiProfilerHostInitialize)(pParams) }
    }
    pub unsafe fn cuptiProfilerHostDeinitialize(
        &self,
        pParams: *mut CUpti_Profiler_Host_Deinitialize_Params,
    ) -> CUptiResult {
        unsafe { (self.cuptiProfilerHostDeinitialize)(pParams) }
    }
    pub unsafe fn cuptiProfilerHostGetBaseMetrics(
        &self,
        pParams: *mut CUpti_Profiler_Host_GetBaseMetrics_Params,
    ) -> CUptiResult {
        unsafe { (self.cuptiProfilerHostGetBaseMetrics)(pParams) }
    }
    pub unsafe fn cuptiProfilerHostEvaluateToGpuValues(
        &self,
        pParams: *mut CUpti_Profiler_Host_EvaluateToGpuValues_Params,
    ) -> CUptiResult {
        unsafe { (self.cuptiProfilerHostEvaluateToGpuValues)(pParams) }
    }
    pub unsafe fn cuptiProfilerHostConfigAddMetrics(
        &self,
        pParams: *mut CUpti_Profiler_Host_ConfigAddMetrics_Params,
    ) -> CUptiResult {
        unsafe { (self.cuptiProfilerHostConfigAddMetrics)(pParams) }
    }
    pub unsafe fn cuptiProfilerHostGetConfigImageSize(
        &self,
        pParams: *mut CUpti_Profiler_Host_GetConfigImageSize_Params,
    ) -> CUptiResult {
        unsafe { (self.cuptiProfilerHostGetConfigImageSize)(pParams) }
    }
    pub unsafe fn cuptiProfilerHostGetConfigImage(
        &self,
        pParams: *mut CUpti_Profiler_Host_GetConfigImage_Params,
    ) -> CUptiResult {
        unsafe { (self.cuptiProfilerHostGetConfigImage)(pParams) }
    }
    pub unsafe fn cuptiProfilerHostGetNumOfPasses(
        &self,
        pParams: *mut CUpti_Profiler_Host_GetNumOfPasses_Params,
    ) -> CUptiResult {
        unsafe { (self.cuptiProfilerHostGetNumOfPasses)(pParams) }
    }
    pub unsafe fn cuptiRangeProfilerSetConfig(
        &self,
        pParams: *mut CUpti_RangeProfiler_SetConfig_Params,
    ) -> CUptiResult {
        unsafe { (self.cuptiRangeProfilerSetConfig)(pParams) }
    }
    pub unsafe fn cuptiRangeProfilerEnable(&self, pParams: *mut CUpti_RangeProfiler_Enable_Params) -> CUptiResult {
        unsafe { (self.cuptiRangeProfilerEnable)(pParams) }
    }
    pub unsafe fn cuptiRangeProfilerDisable(&self, pParams: *mut CUpti_RangeProfiler_Disable_Params) -> CUptiResult {
        unsafe { (self.cuptiRangeProfilerDisable)(pParams) }
    }
    pub unsafe fn cuptiRangeProfilerStart(&self, pParams: *mut CUpti_RangeProfiler_Start_Params) -> CUptiResult {
        unsafe { (self.cuptiRangeProfilerStart)(pParams) }
    }
    pub unsafe fn cuptiRangeProfilerStop(&self, pParams: *mut CUpti_RangeProfiler_Stop_Params) -> CUptiResult {
        unsafe { (self.cuptiRangeProfilerStop)(pParams) }
    }
    pub unsafe fn cuptiRangeProfilerPushRange(
        &self,
        pParams: *mut CUpti_RangeProfiler_PushRange_Params,
    ) -> CUptiResult {
        unsafe { (self.cuptiRangeProfilerPushRange)(pParams) }
    }
    pub unsafe fn cuptiRangeProfilerPopRange(&self, pParams: *mut CUpti_RangeProfiler_PopRange_Params) -> CUptiResult {
        unsafe { (self.cuptiRangeProfilerPopRange)(pParams) }
    }
    pub unsafe fn cuptiRangeProfilerDecodeData(
        &self,
        pParams: *mut CUpti_RangeProfiler_DecodeData_Params,
    ) -> CUptiResult {
        unsafe { (self.cuptiRangeProfilerDecodeData)(pParams) }
    }
    pub unsafe fn cuptiRangeProfilerGetCounterDataSize(
        &self,
        pParams: *mut CUpti_RangeProfiler_GetCounterDataSize_Params,
    ) -> CUptiResult {
        unsafe { (self.cuptiRangeProfilerGetCounterDataSize)(pParams) }
    }
    pub unsafe fn cuptiRangeProfilerCounterDataImageInitialize(
        &self,
        pParams: *mut CUpti_RangeProfiler_CounterDataImage_Initialize_Params,
    ) -> CUptiResult {
        unsafe { (self.cuptiRangeProfilerCounterDataImageInitialize)(pParams) }
    }
    pub unsafe fn cuptiPmSamplingSetConfig(&self, pParams: *mut CUpti_PmSampling_SetConfig_Params) -> CUptiResult {
        unsafe { (self.cuptiPmSamplingSetConfig)(pParams) }
    }
    pub unsafe fn cuptiPmSamplingEnable(&self, pParams: *mut CUpti_PmSampling_Enable_Params) -> CUptiResult {
        unsafe { (self.cuptiPmSamplingEnable)(pParams) }
    }
    pub unsafe fn cuptiPmSamplingDisable(&self, pParams: *mut CUpti_PmSampling_Disable_Params) -> CUptiResult {
        unsafe { (self.cuptiPmSamplingDisable)(pParams) }
    }
    pub unsafe fn cuptiPmSamplingStart(&self, pParams: *mut CUpti_PmSampling_Start_Params) -> CUptiResult {
        unsafe { (self.cuptiPmSamplingStart)(pParams) }
    }
    pub unsafe fn cuptiPmSamplingStop(&self, pParams: *mut CUpti_PmSampling_Stop_Params) -> CUptiResult {
        unsafe { (self.cuptiPmSamplingStop)(pParams) }
    }
    pub unsafe fn cuptiPmSamplingDecodeData(&self, pParams: *mut CUpti_PmSampling_DecodeData_Params) -> CUptiResult {
        unsafe { (self.cuptiPmSamplingDecodeData)(pParams) }
    }
    pub unsafe fn cuptiPmSamplingGetCounterAvailability(
        &self,
        pParams: *mut CUpti_PmSampling_GetCounterAvailability_Params,
    ) -> CUptiResult {
        unsafe { (self.cuptiPmSamplingGetCounterAvailability)(pParams) }
    }
    pub unsafe fn cuptiPmSamplingGetCounterDataSize(
        &self,
        pParams: *mut CUpti_PmSampling_GetCounterDataSize_Params,
    ) -> CUptiResult {
        unsafe { (self.cuptiPmSamplingGetCounterDataSize)(pParams) }
    }
    pub unsafe fn cuptiPmSamplingCounterDataImageInitialize(
        &self,
        pParams: *mut CUpti_PmSampling_CounterDataImage_Initialize_Params,
    ) -> CUptiResult {
        unsafe { (self.cuptiPmSamplingCounterDataImageInitialize)(pParams) }
    }
    pub unsafe fn cuptiPmSamplingGetCounterDataInfo(
        &self,
        pParams: *mut CUpti_PmSampling_GetCounterDataInfo_Params,
    ) -> CUptiResult {
        unsafe { (self.cuptiPmSamplingGetCounterDataInfo)(pParams) }
    }
    pub unsafe fn cuptiPmSamplingCounterDataGetSampleInfo(
        &self,
        pParams: *mut CUpti_PmSampling_CounterData_GetSampleInfo_Params,
    ) -> CUptiResult {
        unsafe { (self.cuptiPmSamplingCounterDataGetSampleInfo)(pParams) }
    }
}
pub use self::CUaccessProperty_enum as CUaccessProperty;
