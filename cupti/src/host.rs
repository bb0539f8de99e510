//! The host side of counting: which metrics a chip has, how many passes they need, and what the
//! raw counts come to.

use std::collections::BTreeSet;
use std::ffi::{CString, c_char};

use cupti_sys::{
    CUpti_MetricType, CUpti_PmSampling_GetCounterAvailability_Params, CUpti_Profiler_GetCounterAvailability_Params,
    CUpti_Profiler_Host_ConfigAddMetrics_Params, CUpti_Profiler_Host_Deinitialize_Params,
    CUpti_Profiler_Host_EvaluateToGpuValues_Params, CUpti_Profiler_Host_GetBaseMetrics_Params,
    CUpti_Profiler_Host_GetConfigImage_Params, CUpti_Profiler_Host_GetConfigImageSize_Params,
    CUpti_Profiler_Host_GetNumOfPasses_Params, CUpti_Profiler_Host_Initialize_Params, CUpti_Profiler_Host_Object,
    CUpti_ProfilerType, Params,
};

use crate::error::CuptiError;
use crate::metrics::{Metric, Mode};
use crate::session::{Session, call, text};

/// Bytes that CUPTI reads or writes; aligned as its images must be.
#[derive(Debug, Default)]
pub(crate) struct Image {
    words: Vec<u64>,
    bytes: usize,
}

impl Image {
    pub(crate) fn zeroed(bytes: usize) -> Self {
        Self { words: vec![0; bytes.div_ceil(8)], bytes }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.words.as_ptr().cast()
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.words.as_mut_ptr().cast()
    }
}

/// Metric names as C wants them.
#[derive(Debug)]
pub(crate) struct Names {
    // Keeps what `pointers` point to.
    _strings: Vec<CString>,
    pointers: Vec<*const c_char>,
}

impl Names {
    pub(crate) fn of(metrics: &[Metric], chip: &str) -> Result<Self, CuptiError> {
        let string = |metric: &Metric| CString::new(metric.name()).map_err(|_| unknown(metric, chip));
        let strings = metrics.iter().map(string).collect::<Result<Vec<_>, _>>()?;
        let pointers = strings.iter().map(|string| string.as_ptr()).collect();
        Ok(Self { _strings: strings, pointers })
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut *const c_char {
        self.pointers.as_mut_ptr()
    }

    pub(crate) fn len(&self) -> usize {
        self.pointers.len()
    }
}

fn unknown(metric: &Metric, chip: &str) -> CuptiError {
    CuptiError::UnknownMetric { metric: metric.name().to_owned(), chip: chip.to_owned() }
}

/// Which counters to turn on in which pass.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) image: Image,
    pub(crate) passes: usize,
}

/// CUPTI's host object for one mode.
#[derive(Debug)]
pub(crate) struct Host<'s> {
    session: &'s Session,
    mode: Mode,
    object: *mut CUpti_Profiler_Host_Object,
    // CUPTI may read it as long as the object lives.
    availability: Image,
}

impl<'s> Host<'s> {
    pub(crate) fn open(session: &'s Session, mode: Mode) -> Result<Self, CuptiError> {
        let availability = match mode {
            Mode::Range => range_availability(session)?,
            Mode::Sampling => sampling_availability(session)?,
        };
        let mut host = Self { session, mode, object: std::ptr::null_mut(), availability };
        host.object = host.new_object()?;
        Ok(host)
    }

    fn new_object(&self) -> Result<*mut CUpti_Profiler_Host_Object, CuptiError> {
        let chip = CString::new(self.session.chip()).unwrap_or_default();
        let mut asked = CUpti_Profiler_Host_Initialize_Params {
            profilerType: match self.mode {
                Mode::Range => CUpti_ProfilerType::CUPTI_PROFILER_TYPE_RANGE_PROFILER,
                Mode::Sampling => CUpti_ProfilerType::CUPTI_PROFILER_TYPE_PM_SAMPLING,
            },
            pChipName: chip.as_ptr(),
            pCounterAvailabilityImage: self.availability.as_ptr(),
            ..Params::new()
        };
        let function = self.session.api.cuptiProfilerHostInitialize;
        // SAFETY: name and image outlive the call, the image outlives the object.
        unsafe { call("cuptiProfilerHostInitialize", function, &mut asked) }?;
        Ok(asked.pHostObject)
    }

    /// All base names of the chip.
    pub(crate) fn base_metrics(&self) -> Result<BTreeSet<String>, CuptiError> {
        let mut names = BTreeSet::new();
        for metric_type in [
            CUpti_MetricType::CUPTI_METRIC_TYPE_COUNTER,
            CUpti_MetricType::CUPTI_METRIC_TYPE_RATIO,
            CUpti_MetricType::CUPTI_METRIC_TYPE_THROUGHPUT,
        ] {
            let mut asked = CUpti_Profiler_Host_GetBaseMetrics_Params {
                pHostObject: self.object,
                metricType: metric_type,
                ..Params::new()
            };
            let function = self.session.api.cuptiProfilerHostGetBaseMetrics;
            // SAFETY: the object lives.
            unsafe { call("cuptiProfilerHostGetBaseMetrics", function, &mut asked) }?;
            for at in 0..asked.numMetrics {
                // SAFETY: CUPTI returned an array of `numMetrics` names, valid as long as the object.
                names.insert(unsafe { text(*asked.ppMetricNames.add(at)) });
            }
        }
        Ok(names)
    }

    /// The configuration that counts `metrics`. Call it once for a host object.
    pub(crate) fn configure(&self, metrics: &[Metric]) -> Result<Config, CuptiError> {
        if self.add(self.object, metrics).is_err() {
            return Err(self.culprit(metrics)?);
        }
        let mut size = CUpti_Profiler_Host_GetConfigImageSize_Params { pHostObject: self.object, ..Params::new() };
        let function = self.session.api.cuptiProfilerHostGetConfigImageSize;
        // SAFETY: the object lives.
        unsafe { call("cuptiProfilerHostGetConfigImageSize", function, &mut size) }?;
        let mut image = Image::zeroed(size.configImageSize);
        let mut get = CUpti_Profiler_Host_GetConfigImage_Params {
            pHostObject: self.object,
            configImageSize: image.len(),
            pConfigImage: image.as_mut_ptr(),
            ..Params::new()
        };
        let function = self.session.api.cuptiProfilerHostGetConfigImage;
        // SAFETY: the image has the stated size.
        unsafe { call("cuptiProfilerHostGetConfigImage", function, &mut get) }?;
        let mut count = CUpti_Profiler_Host_GetNumOfPasses_Params {
            configImageSize: image.len(),
            pConfigImage: image.as_mut_ptr(),
            ..Params::new()
        };
        let function = self.session.api.cuptiProfilerHostGetNumOfPasses;
        // SAFETY: the image has the stated size.
        unsafe { call("cuptiProfilerHostGetNumOfPasses", function, &mut count) }?;
        Ok(Config { image, passes: count.numOfPasses })
    }

    fn add(&self, object: *mut CUpti_Profiler_Host_Object, metrics: &[Metric]) -> Result<(), CuptiError> {
        let mut names = Names::of(metrics, self.session.chip())?;
        let mut added = CUpti_Profiler_Host_ConfigAddMetrics_Params {
            pHostObject: object,
            ppMetricNames: names.as_mut_ptr(),
            numMetrics: names.len(),
            ..Params::new()
        };
        let function = self.session.api.cuptiProfilerHostConfigAddMetrics;
        // SAFETY: the names outlive the call.
        unsafe { call("cuptiProfilerHostConfigAddMetrics", function, &mut added) }
    }

    /// CUPTI refuses a list without saying which name it did not like, so each is tried alone on an
    /// object of its own; if each passes alone, they do not go together.
    fn culprit(&self, metrics: &[Metric]) -> Result<CuptiError, CuptiError> {
        for metric in metrics {
            let object = self.new_object()?;
            let alone = self.add(object, std::slice::from_ref(metric));
            self.close(object);
            if alone.is_err() {
                return Ok(unknown(metric, self.session.chip()));
            }
        }
        Ok(CuptiError::NotSupported { what: format!("these {} metrics in one configuration", metrics.len()) })
    }

    /// The values of `metrics` in range or sample `index` of the counter data; none for a value
    /// that is not a number.
    pub(crate) fn evaluate(
        &self,
        data: &Image,
        index: usize,
        names: &mut Names,
    ) -> Result<Vec<Option<f64>>, CuptiError> {
        let mut values = vec![f64::NAN; names.len()];
        let mut asked = CUpti_Profiler_Host_EvaluateToGpuValues_Params {
            pHostObject: self.object,
            pCounterDataImage: data.as_ptr(),
            counterDataImageSize: data.len(),
            rangeIndex: index,
            ppMetricNames: names.as_mut_ptr(),
            numMetrics: names.len(),
            pMetricValues: values.as_mut_ptr(),
            ..Params::new()
        };
        let function = self.session.api.cuptiProfilerHostEvaluateToGpuValues;
        // SAFETY: names, data and as many values as names outlive the call.
        unsafe { call("cuptiProfilerHostEvaluateToGpuValues", function, &mut asked) }?;
        Ok(values.into_iter().map(|value| value.is_finite().then_some(value)).collect())
    }

    fn close(&self, object: *mut CUpti_Profiler_Host_Object) {
        let mut asked = CUpti_Profiler_Host_Deinitialize_Params { pHostObject: object, ..Params::new() };
        // SAFETY: the object is CUPTI's and used no more. A failure leaves nothing to do.
        let _ = unsafe { call("", self.session.api.cuptiProfilerHostDeinitialize, &mut asked) };
    }
}

impl Drop for Host<'_> {
    fn drop(&mut self) {
        if !self.object.is_null() {
            self.close(self.object);
        }
    }
}

/// Which raw counters may be read in this context.
fn range_availability(session: &Session) -> Result<Image, CuptiError> {
    let mut asked = CUpti_Profiler_GetCounterAvailability_Params { ctx: session.current.context, ..Params::new() };
    let function = session.api.cuptiProfilerGetCounterAvailability;
    // SAFETY: without an image only the size is written.
    unsafe { call("cuptiProfilerGetCounterAvailability", function, &mut asked) }?;
    let mut image = Image::zeroed(asked.counterAvailabilityImageSize);
    asked.pCounterAvailabilityImage = image.as_mut_ptr();
    // SAFETY: the image has the stated size.
    unsafe { call("cuptiProfilerGetCounterAvailability", function, &mut asked) }?;
    Ok(image)
}

/// Which raw counters may be sampled on this device.
fn sampling_availability(session: &Session) -> Result<Image, CuptiError> {
    let mut asked =
        CUpti_PmSampling_GetCounterAvailability_Params { deviceIndex: session.device_index(), ..Params::new() };
    let function = session.api.cuptiPmSamplingGetCounterAvailability;
    // SAFETY: without an image only the size is written.
    unsafe { call("cuptiPmSamplingGetCounterAvailability", function, &mut asked) }?;
    let mut image = Image::zeroed(asked.counterAvailabilityImageSize);
    asked.pCounterAvailabilityImage = image.as_mut_ptr();
    // SAFETY: the image has the stated size.
    unsafe { call("cuptiPmSamplingGetCounterAvailability", function, &mut asked) }?;
    Ok(image)
}
