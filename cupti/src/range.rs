//! Counts over a range of launches.
//!
//! ```text
//!  metrics ──► config image (which counters in which pass)
//!                 │
//!     ┌───────────▼───────────┐
//!     │ before                │  the caller brings caches into the state to count from
//!     │ start, push range     │
//!     │   launch, wait        │  once per pass: the caller's closures run again each time
//!     │ pop range, stop       │
//!     └───────────┬───────────┘
//!              decode ──► counter data ──► values
//! ```
//!
//! The range holds everything that the closure launches, on any stream, concurrent as it stands.
//! The closure must do the same work each time: passes count different things of it, and a ratio of
//! two passes is only as good as they are alike.

use cupti_sys::{
    CUpti_ProfilerRange, CUpti_ProfilerReplayMode, CUpti_RangeProfiler_CounterDataImage_Initialize_Params,
    CUpti_RangeProfiler_DecodeData_Params, CUpti_RangeProfiler_Disable_Params, CUpti_RangeProfiler_Enable_Params,
    CUpti_RangeProfiler_GetCounterDataSize_Params, CUpti_RangeProfiler_Object, CUpti_RangeProfiler_PopRange_Params,
    CUpti_RangeProfiler_PushRange_Params, CUpti_RangeProfiler_SetConfig_Params, CUpti_RangeProfiler_Start_Params,
    CUpti_RangeProfiler_Stop_Params, Params,
};

use crate::error::{CuptiError, Full, LaunchError};
use crate::host::{Config, Host, Image, Names};
use crate::metrics::{Metric, Mode, Named, Quantity};
use crate::session::{Session, call};

/// Passes beyond the planned ones after which CUPTI is not believed any more.
const SPARE_PASSES: usize = 8;

/// What was counted over a range.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeCounts {
    /// How often the launches ran.
    pub passes: usize,
    /// Each metric and its value; none where CUPTI gave no number.
    pub values: Vec<(Metric, Option<f64>)>,
}

impl RangeCounts {
    /// The value of a metric that was asked.
    pub fn get(&self, metric: &Metric) -> Option<f64> {
        self.values.iter().find(|(asked, _)| asked == metric).and_then(|(_, value)| *value)
    }
}

/// What was counted over a range, in our words.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// How often the launches ran.
    pub passes: usize,
    values: Vec<(Quantity, Option<f64>)>,
}

impl Counted {
    /// The value in the quantity's unit; none where the chip has no such metric or no number came.
    pub fn get(&self, quantity: Quantity) -> Option<f64> {
        self.values.iter().find(|(asked, _)| *asked == quantity).and_then(|(_, value)| *value)
    }
}

impl Session {
    /// Counts `quantities` over what `launch` launches; see [`Session::range`].
    pub fn count<E: Into<LaunchError>>(
        &mut self,
        quantities: &[Quantity],
        before: impl FnMut() -> Result<(), E>,
        launch: impl FnMut() -> Result<(), E>,
    ) -> Result<Counted, CuptiError> {
        let names = self.names(Mode::Range, quantities)?;
        let metrics: Vec<Metric> = names.iter().flat_map(Named::metrics).cloned().collect();
        let counts = self.range(&metrics, before, launch)?;
        let values = names.iter().map(|named| (named.quantity, named.value(|metric| counts.get(metric)))).collect();
        Ok(Counted { passes: counts.passes, values })
    }

    /// Counts `metrics` over what `launch` launches. It runs once per pass and must do the same work
    /// each time; `before` runs before each pass and is not counted, so that it can empty a cache.
    /// The session waits for the GPU after each of them.
    pub fn range<E: Into<LaunchError>>(
        &mut self,
        metrics: &[Metric],
        mut before: impl FnMut() -> Result<(), E>,
        mut launch: impl FnMut() -> Result<(), E>,
    ) -> Result<RangeCounts, CuptiError> {
        let host = Host::open(self, Mode::Range)?;
        let config = host.configure(metrics)?;
        let mut names = Names::of(metrics, self.chip())?;
        let mut profiler = RangeProfiler::enable(self)?;
        profiler.data = profiler.counter_data(&mut names)?;
        profiler.configure(&config)?;
        let passes = profiler.replay(config.passes, &mut before, &mut launch)?;
        profiler.decode()?;
        let values = host.evaluate(&profiler.data, 0, &mut names)?;
        Ok(RangeCounts { passes, values: metrics.iter().cloned().zip(values).collect() })
    }
}

/// CUPTI's range profiler, enabled on the session's context.
#[derive(Debug)]
struct RangeProfiler<'s> {
    session: &'s Session,
    object: *mut CUpti_RangeProfiler_Object,
    /// Where CUPTI decodes to; it knows the address from `configure` until `drop`.
    data: Image,
}

impl<'s> RangeProfiler<'s> {
    fn enable(session: &'s Session) -> Result<Self, CuptiError> {
        let mut asked = CUpti_RangeProfiler_Enable_Params { ctx: session.current.context, ..Params::new() };
        // SAFETY: the context is current on this thread.
        unsafe { call("cuptiRangeProfilerEnable", session.api.cuptiRangeProfilerEnable, &mut asked) }?;
        Ok(Self { session, object: asked.pRangeProfilerObject, data: Image::default() })
    }

    /// Room for one range.
    fn counter_data(&self, names: &mut Names) -> Result<Image, CuptiError> {
        let mut size = CUpti_RangeProfiler_GetCounterDataSize_Params {
            pRangeProfilerObject: self.object,
            pMetricNames: names.as_mut_ptr(),
            numMetrics: names.len(),
            maxNumOfRanges: 1,
            maxNumRangeTreeNodes: 1,
            ..Params::new()
        };
        let function = self.session.api.cuptiRangeProfilerGetCounterDataSize;
        // SAFETY: the names outlive the call.
        unsafe { call("cuptiRangeProfilerGetCounterDataSize", function, &mut size) }?;
        let mut data = Image::zeroed(size.counterDataSize);
        let mut fill = CUpti_RangeProfiler_CounterDataImage_Initialize_Params {
            pRangeProfilerObject: self.object,
            counterDataSize: data.len(),
            pCounterData: data.as_mut_ptr(),
            ..Params::new()
        };
        let function = self.session.api.cuptiRangeProfilerCounterDataImageInitialize;
        // SAFETY: the image has the stated size.
        unsafe { call("cuptiRangeProfilerCounterDataImageInitialize", function, &mut fill) }?;
        Ok(data)
    }

    fn configure(&mut self, config: &Config) -> Result<(), CuptiError> {
        let mut asked = CUpti_RangeProfiler_SetConfig_Params {
            pRangeProfilerObject: self.object,
            configSize: config.image.len(),
            pConfig: config.image.as_ptr(),
            counterDataImageSize: self.data.len(),
            pCounterDataImage: self.data.as_mut_ptr(),
            range: CUpti_ProfilerRange::CUPTI_UserRange,
            replayMode: CUpti_ProfilerReplayMode::CUPTI_UserReplay,
            maxRangesPerPass: 1,
            numNestingLevels: 1,
            minNestingLevel: 1,
            passIndex: 0,
            targetNestingLevel: 1,
            ..Params::new()
        };
        // SAFETY: the profiler keeps the data, and `range` keeps the configuration for longer than it.
        unsafe { call("cuptiRangeProfilerSetConfig", self.session.api.cuptiRangeProfilerSetConfig, &mut asked) }
    }

    fn replay<E: Into<LaunchError>>(
        &self,
        planned: usize,
        before: &mut impl FnMut() -> Result<(), E>,
        launch: &mut impl FnMut() -> Result<(), E>,
    ) -> Result<usize, CuptiError> {
        for pass in 1..=planned + SPARE_PASSES {
            self.session.go_on()?;
            self.session.launch(before)?;
            if self.pass(launch)? {
                return Ok(pass);
            }
        }
        Err(CuptiError::EndlessPasses { passes: planned + SPARE_PASSES, planned })
    }

    /// One pass; true after the last.
    fn pass<E: Into<LaunchError>>(&self, launch: &mut impl FnMut() -> Result<(), E>) -> Result<bool, CuptiError> {
        let api = self.session.api;
        let mut start = CUpti_RangeProfiler_Start_Params { pRangeProfilerObject: self.object, ..Params::new() };
        // SAFETY: the object lives.
        unsafe { call("cuptiRangeProfilerStart", api.cuptiRangeProfilerStart, &mut start) }?;
        let mut push = CUpti_RangeProfiler_PushRange_Params {
            pRangeProfilerObject: self.object,
            pRangeName: c"plan".as_ptr(),
            ..Params::new()
        };
        // SAFETY: the name is static.
        unsafe { call("cuptiRangeProfilerPushRange", api.cuptiRangeProfilerPushRange, &mut push) }?;
        // A failed launch leaves the range open; disabling the profiler, in `drop`, closes it.
        self.session.launch(launch)?;
        let mut pop = CUpti_RangeProfiler_PopRange_Params { pRangeProfilerObject: self.object, ..Params::new() };
        // SAFETY: the object lives.
        unsafe { call("cuptiRangeProfilerPopRange", api.cuptiRangeProfilerPopRange, &mut pop) }?;
        let mut stop = CUpti_RangeProfiler_Stop_Params { pRangeProfilerObject: self.object, ..Params::new() };
        // SAFETY: the object lives.
        unsafe { call("cuptiRangeProfilerStop", api.cuptiRangeProfilerStop, &mut stop) }?;
        Ok(stop.isAllPassSubmitted != 0)
    }

    fn decode(&self) -> Result<(), CuptiError> {
        let mut asked = CUpti_RangeProfiler_DecodeData_Params { pRangeProfilerObject: self.object, ..Params::new() };
        let function = self.session.api.cuptiRangeProfilerDecodeData;
        // SAFETY: the counter data given in `configure` lives.
        unsafe { call("cuptiRangeProfilerDecodeData", function, &mut asked) }?;
        if asked.numOfRangeDropped > 0 {
            return Err(CuptiError::BufferOverflow { full: Full::Ranges, capacity: 1 });
        }
        Ok(())
    }
}

impl Drop for RangeProfiler<'_> {
    fn drop(&mut self) {
        let mut asked = CUpti_RangeProfiler_Disable_Params { pRangeProfilerObject: self.object, ..Params::new() };
        // SAFETY: the object is used no more. A failure leaves nothing to do.
        let _ = unsafe { call("", self.session.api.cuptiRangeProfilerDisable, &mut asked) };
    }
}
