//! A CUPTI without a GPU: the table of functions filled with ours, whose results tests choose.
//!
//! Metrics are any names that begin with `known__`; each has the value 7. Calls are logged.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

// Nearly all of it.
#[allow(clippy::wildcard_imports)]
use cupti_sys::*;

use crate::driver::Current;
use crate::error::CuptiError;
use crate::session::Session;

/// What the fake does and has seen.
#[derive(Default)]
pub(crate) struct State {
    /// Calls that fail, with the code.
    pub(crate) refuse: BTreeMap<&'static str, u32>,
    /// Calls so far, by name.
    pub(crate) calls: Vec<&'static str>,
    /// Version that the library says.
    pub(crate) version: u32,
    /// Passes that any set of metrics needs.
    pub(crate) passes: usize,
    /// Passes that the profiler really takes.
    pub(crate) passes_taken: usize,
    /// Ranges that decoding drops.
    pub(crate) dropped_ranges: usize,
    /// Samples in the hardware buffer.
    pub(crate) samples: Vec<(u64, u64)>,
    /// Whether that buffer overflowed.
    pub(crate) overflow: bool,
    /// Kernel records to hand out: start and end.
    pub(crate) kernels: Vec<(u64, u64)>,
    /// Records that CUPTI says it dropped.
    pub(crate) dropped_records: usize,
    pass: usize,
    decoded: usize,
    room: usize,
    buffers: Option<(CUpti_BuffersCallbackRequestFunc, CUpti_BuffersCallbackCompleteFunc)>,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

/// One session at a time also among tests.
static SERIAL: Mutex<()> = Mutex::new(());

pub(crate) struct Fake {
    _serial: MutexGuard<'static, ()>,
    pub(crate) driver: i32,
}

impl Fake {
    pub(crate) fn new() -> Self {
        let serial = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
        STATE.set(State { version: 24, passes: 1, passes_taken: 1, ..State::default() });
        Self { _serial: serial, driver: 13000 }
    }

    #[expect(clippy::unused_self, reason = "what a test sets lives as long as its fake")]
    pub(crate) fn set(&self, change: impl FnOnce(&mut State)) {
        STATE.with_borrow_mut(change);
    }

    pub(crate) fn refusing(call: &'static str, code: CUptiResult) -> Self {
        let fake = Self::new();
        fake.set(|state| {
            state.refuse.insert(call, code.0);
        });
        fake
    }

    pub(crate) fn open(&self) -> Result<Session, CuptiError> {
        let context = std::ptr::without_provenance_mut(8);
        let current = Current { context, device: 0, version: self.driver, synchronize: || Ok(()) };
        Session::with_table(Box::leak(Box::new(table())), current)
    }

    #[expect(clippy::unused_self, reason = "what a test sets lives as long as its fake")]
    pub(crate) fn count(&self, call: &str) -> usize {
        STATE.with_borrow(|state| state.calls.iter().filter(|made| **made == call).count())
    }
}

fn enter(call: &'static str) -> Option<CUptiResult> {
    STATE.with_borrow_mut(|state| {
        state.calls.push(call);
        state.refuse.get(call).map(|code| CUptiResult(*code))
    })
}

fn set(change: impl FnOnce(&mut State)) -> CUptiResult {
    STATE.with_borrow_mut(change);
    CUptiResult::CUPTI_SUCCESS
}

macro_rules! fakes {
    ($($name:ident($params:ident: $type:ty) $body:block)*) => {
        $(
            #[allow(non_snake_case)]
            unsafe extern "C" fn $name($params: *mut $type) -> CUptiResult {
                if let Some(code) = enter(stringify!($name)) {
                    return code;
                }
                // SAFETY: the caller passes a block of this type.
                let $params = unsafe { &mut *$params };
                assert_eq!($params.structSize, <$type as Params>::SIZE);
                $body
            }
        )*
    };
}

const CHIP: &std::ffi::CStr = c"FAKE100";

fakes! {
    cuptiProfilerInitialize(p: CUpti_Profiler_Initialize_Params) { CUptiResult(0) }
    cuptiProfilerDeInitialize(p: CUpti_Profiler_DeInitialize_Params) { CUptiResult(0) }
    cuptiProfilerDeviceSupported(p: CUpti_Profiler_DeviceSupported_Params) {
        let supported = CUpti_Profiler_Support_Level::CUPTI_PROFILER_CONFIGURATION_SUPPORTED;
        (p.isSupported, p.architecture, p.sli, p.vGpu) = (supported, supported, supported, supported);
        (p.confidentialCompute, p.cmp, p.wsl) = (supported, supported, supported);
        STATE.with_borrow(|state| {
            if state.refuse.contains_key("vgpu") {
                let disabled = CUpti_Profiler_Support_Level::CUPTI_PROFILER_CONFIGURATION_DISABLED;
                (p.isSupported, p.vGpu) = (disabled, disabled);
            }
        });
        CUptiResult(0)
    }
    cuptiDeviceGetChipName(p: CUpti_Device_GetChipName_Params) {
        p.pChipName = CHIP.as_ptr();
        CUptiResult(0)
    }
    cuptiProfilerGetCounterAvailability(p: CUpti_Profiler_GetCounterAvailability_Params) {
        p.counterAvailabilityImageSize = 20;
        CUptiResult(0)
    }
    cuptiPmSamplingGetCounterAvailability(p: CUpti_PmSampling_GetCounterAvailability_Params) {
        p.counterAvailabilityImageSize = 20;
        CUptiResult(0)
    }
    cuptiProfilerHostInitialize(p: CUpti_Profiler_Host_Initialize_Params) {
        p.pHostObject = std::ptr::without_provenance_mut(16);
        CUptiResult(0)
    }
    cuptiProfilerHostDeinitialize(p: CUpti_Profiler_Host_Deinitialize_Params) { CUptiResult(0) }
    cuptiProfilerHostGetBaseMetrics(p: CUpti_Profiler_Host_GetBaseMetrics_Params) {
        p.numMetrics = 0;
        CUptiResult(0)
    }
    cuptiProfilerHostConfigAddMetrics(p: CUpti_Profiler_Host_ConfigAddMetrics_Params) {
        for at in 0..p.numMetrics {
            // SAFETY: the block holds as many C strings.
            let name = unsafe { crate::session::text(*p.ppMetricNames.add(at)) };
            if !name.starts_with("known__") {
                return CUptiResult::CUPTI_ERROR_INVALID_PARAMETER;
            }
        }
        CUptiResult(0)
    }
    cuptiProfilerHostGetConfigImageSize(p: CUpti_Profiler_Host_GetConfigImageSize_Params) {
        p.configImageSize = 100;
        CUptiResult(0)
    }
    cuptiProfilerHostGetConfigImage(p: CUpti_Profiler_Host_GetConfigImage_Params) { CUptiResult(0) }
    cuptiProfilerHostGetNumOfPasses(p: CUpti_Profiler_Host_GetNumOfPasses_Params) {
        set(|state| p.numOfPasses = state.passes)
    }
    cuptiProfilerHostEvaluateToGpuValues(p: CUpti_Profiler_Host_EvaluateToGpuValues_Params) {
        for at in 0..p.numMetrics {
            // SAFETY: the block has room for as many values as names.
            unsafe { *p.pMetricValues.add(at) = 7.0 };
        }
        CUptiResult(0)
    }
    cuptiRangeProfilerEnable(p: CUpti_RangeProfiler_Enable_Params) {
        p.pRangeProfilerObject = std::ptr::without_provenance_mut(24);
        CUptiResult(0)
    }
    cuptiRangeProfilerDisable(p: CUpti_RangeProfiler_Disable_Params) { CUptiResult(0) }
    cuptiRangeProfilerStart(p: CUpti_RangeProfiler_Start_Params) { CUptiResult(0) }
    cuptiRangeProfilerPushRange(p: CUpti_RangeProfiler_PushRange_Params) { CUptiResult(0) }
    cuptiRangeProfilerPopRange(p: CUpti_RangeProfiler_PopRange_Params) { CUptiResult(0) }
    cuptiRangeProfilerStop(p: CUpti_RangeProfiler_Stop_Params) {
        set(|state| {
            state.pass += 1;
            p.isAllPassSubmitted = u8::from(state.pass >= state.passes_taken);
        })
    }
    cuptiRangeProfilerSetConfig(p: CUpti_RangeProfiler_SetConfig_Params) { CUptiResult(0) }
    cuptiRangeProfilerDecodeData(p: CUpti_RangeProfiler_DecodeData_Params) {
        set(|state| p.numOfRangeDropped = state.dropped_ranges)
    }
    cuptiRangeProfilerGetCounterDataSize(p: CUpti_RangeProfiler_GetCounterDataSize_Params) {
        p.counterDataSize = 200;
        CUptiResult(0)
    }
    cuptiRangeProfilerCounterDataImageInitialize(p: CUpti_RangeProfiler_CounterDataImage_Initialize_Params) {
        CUptiResult(0)
    }
    cuptiPmSamplingEnable(p: CUpti_PmSampling_Enable_Params) {
        p.pPmSamplingObject = std::ptr::without_provenance_mut(32);
        CUptiResult(0)
    }
    cuptiPmSamplingDisable(p: CUpti_PmSampling_Disable_Params) { CUptiResult(0) }
    cuptiPmSamplingStart(p: CUpti_PmSampling_Start_Params) { CUptiResult(0) }
    cuptiPmSamplingStop(p: CUpti_PmSampling_Stop_Params) { CUptiResult(0) }
    cuptiPmSamplingSetConfig(p: CUpti_PmSampling_SetConfig_Params) { CUptiResult(0) }
    cuptiPmSamplingGetCounterDataSize(p: CUpti_PmSampling_GetCounterDataSize_Params) {
        p.counterDataSize = 300;
        set(|state| state.room = p.maxSamples as usize)
    }
    cuptiPmSamplingCounterDataImageInitialize(p: CUpti_PmSampling_CounterDataImage_Initialize_Params) {
        CUptiResult(0)
    }
    cuptiPmSamplingDecodeData(p: CUpti_PmSampling_DecodeData_Params) {
        use CUpti_PmSampling_DecodeStopReason as Stop;
        set(|state| {
            state.decoded = state.samples.len().min(state.room);
            p.overflow = u8::from(state.overflow);
            p.decodeStopReason = if state.decoded == state.room {
                Stop::CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL
            } else {
                Stop::CUPTI_PM_SAMPLING_DECODE_STOP_REASON_END_OF_RECORDS
            };
        })
    }
    cuptiPmSamplingGetCounterDataInfo(p: CUpti_PmSampling_GetCounterDataInfo_Params) {
        set(|state| p.numCompletedSamples = state.decoded)
    }
    cuptiPmSamplingCounterDataGetSampleInfo(p: CUpti_PmSampling_CounterData_GetSampleInfo_Params) {
        set(|state| (p.startTimestamp, p.endTimestamp) = state.samples[p.sampleIndex])
    }
}

unsafe extern "C" fn get_version(version: *mut u32) -> CUptiResult {
    // SAFETY: the caller passes a place.
    enter("cuptiGetVersion").unwrap_or_else(|| set(|state| unsafe { *version = state.version }))
}

unsafe extern "C" fn subscribe(
    _: *mut CUpti_SubscriberHandle,
    _: CUpti_CallbackFunc,
    _: *mut std::ffi::c_void,
) -> CUptiResult {
    enter("cuptiSubscribe").unwrap_or(CUptiResult(0))
}

unsafe extern "C" fn unsubscribe(_: CUpti_SubscriberHandle) -> CUptiResult {
    enter("cuptiUnsubscribe").unwrap_or(CUptiResult(0))
}

unsafe extern "C" fn timestamp(_: *mut u64) -> CUptiResult {
    CUptiResult(0)
}

unsafe extern "C" fn enable(_: CUpti_ActivityKind) -> CUptiResult {
    enter("cuptiActivityEnable").unwrap_or(CUptiResult(0))
}

unsafe extern "C" fn disable(_: CUpti_ActivityKind) -> CUptiResult {
    enter("cuptiActivityDisable").unwrap_or(CUptiResult(0))
}

unsafe extern "C" fn register(
    request: CUpti_BuffersCallbackRequestFunc,
    complete: CUpti_BuffersCallbackCompleteFunc,
) -> CUptiResult {
    set(|state| state.buffers = Some((request, complete)))
}

/// Asks for a buffer, fills it with the records and gives it back, as CUPTI's thread would.
unsafe extern "C" fn flush(_: u32) -> CUptiResult {
    let (buffers, kernels) = STATE.with_borrow(|state| (state.buffers, state.kernels.clone()));
    let Some((Some(request), Some(complete))) = buffers else {
        return CUptiResult::CUPTI_ERROR_INVALID_OPERATION;
    };
    let (mut buffer, mut size, mut most) = (std::ptr::null_mut(), 0, 0);
    // SAFETY: three places; the records are written within the size that came back.
    unsafe {
        request(&raw mut buffer, &raw mut size, &raw mut most);
        let bytes = kernels.len() * size_of::<CUpti_ActivityKernel9>();
        assert!(!buffer.is_null() && bytes <= size);
        for (at, (start, end)) in kernels.into_iter().enumerate() {
            let mut kernel: CUpti_ActivityKernel9 = std::mem::zeroed();
            kernel.kind = CUpti_ActivityKind::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
            (kernel.start, kernel.end, kernel.gridX) = (start, end, 132);
            kernel.name = CHIP.as_ptr();
            // Buffers are of words.
            buffer.cast::<std::ffi::c_void>().cast::<CUpti_ActivityKernel9>().add(at).write(kernel);
        }
        complete(std::ptr::null_mut(), 0, buffer, size, bytes);
    }
    CUptiResult(0)
}

unsafe extern "C" fn next_record(buffer: *mut u8, valid: usize, record: *mut *mut CUpti_Activity) -> CUptiResult {
    // SAFETY: `record` is null or the last record of this buffer.
    unsafe {
        let next = if (*record).is_null() {
            buffer.cast::<std::ffi::c_void>().cast::<CUpti_ActivityKernel9>()
        } else {
            (*record).cast::<CUpti_ActivityKernel9>().add(1)
        };
        if next.cast::<u8>() >= buffer.add(valid) {
            return CUptiResult::CUPTI_ERROR_MAX_LIMIT_REACHED;
        }
        *record = next.cast();
    }
    CUptiResult(0)
}

unsafe extern "C" fn dropped(_: CUcontext, _: u32, count: *mut usize) -> CUptiResult {
    // SAFETY: the caller passes a place.
    set(|state| unsafe { *count = state.dropped_records })
}

fn table() -> Api {
    Api {
        __library: libloading_this(),
        cuptiGetVersion: get_version,
        cuptiGetTimestamp: timestamp,
        cuptiSubscribe: subscribe,
        cuptiUnsubscribe: unsubscribe,
        cuptiActivityEnable: enable,
        cuptiActivityDisable: disable,
        cuptiActivityRegisterCallbacks: register,
        cuptiActivityFlushAll: flush,
        cuptiActivityGetNextRecord: next_record,
        cuptiActivityGetNumDroppedRecords: dropped,
        cuptiDeviceGetChipName,
        cuptiProfilerInitialize,
        cuptiProfilerDeInitialize,
        cuptiProfilerDeviceSupported,
        cuptiProfilerGetCounterAvailability,
        cuptiProfilerHostInitialize,
        cuptiProfilerHostDeinitialize,
        cuptiProfilerHostGetBaseMetrics,
        cuptiProfilerHostConfigAddMetrics,
        cuptiProfilerHostGetConfigImageSize,
        cuptiProfilerHostGetConfigImage,
        cuptiProfilerHostGetNumOfPasses,
        cuptiProfilerHostEvaluateToGpuValues,
        cuptiRangeProfilerEnable,
        cuptiRangeProfilerDisable,
        cuptiRangeProfilerStart,
        cuptiRangeProfilerStop,
        cuptiRangeProfilerPushRange,
        cuptiRangeProfilerPopRange,
        cuptiRangeProfilerSetConfig,
        cuptiRangeProfilerDecodeData,
        cuptiRangeProfilerGetCounterDataSize,
        cuptiRangeProfilerCounterDataImageInitialize,
        cuptiPmSamplingEnable,
        cuptiPmSamplingDisable,
        cuptiPmSamplingStart,
        cuptiPmSamplingStop,
        cuptiPmSamplingSetConfig,
        cuptiPmSamplingDecodeData,
        cuptiPmSamplingGetCounterAvailability,
        cuptiPmSamplingGetCounterDataSize,
        cuptiPmSamplingCounterDataImageInitialize,
        cuptiPmSamplingGetCounterDataInfo,
        cuptiPmSamplingCounterDataGetSampleInfo,
    }
}

/// The table keeps a library open; here it is the test program itself.
fn libloading_this() -> libloading::Library {
    libloading::os::unix::Library::this().into()
}
