//! PM sampling: counters read again and again while the launches run.
//!
//! The GPU writes raw samples to a buffer of its own; after the launches they are decoded at once
//! into counter data (a second decode finds nothing: what did not fit is gone), and each sample
//! evaluated. A sample spans from the one before it to its own trigger, so that amounts (bytes) add
//! up over a series without gaps.

use std::time::Duration;

use cupti_sys::{
    CUpti_PmSampling_CounterData_GetSampleInfo_Params, CUpti_PmSampling_CounterDataImage_Initialize_Params,
    CUpti_PmSampling_DecodeData_Params, CUpti_PmSampling_DecodeStopReason, CUpti_PmSampling_Disable_Params,
    CUpti_PmSampling_Enable_Params, CUpti_PmSampling_GetCounterDataInfo_Params,
    CUpti_PmSampling_GetCounterDataSize_Params, CUpti_PmSampling_Object, CUpti_PmSampling_SetConfig_Params,
    CUpti_PmSampling_Start_Params, CUpti_PmSampling_Stop_Params, CUpti_PmSampling_TriggerMode, Params,
};

use crate::error::{CuptiError, Full, LaunchError};
use crate::host::{Config, Host, Image, Names};
use crate::metrics::{Metric, Mode, Named, Quantity};
use crate::session::{Session, call};
use crate::times::SampleTime;

/// A first sample longer than this many intervals began before the sampling did.
const STALE_INTERVALS: u32 = 4;

/// How to sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Time from one sample to the next; 1 µs is the shortest that keeps its pace.
    pub interval: Duration,
    /// Samples to keep; when there are as many, more may be lost, which is an error. Each takes seven
    /// kilobytes of this process's memory a metric.
    pub max_samples: usize,
    /// Memory that the GPU may write raw samples to, bytes; more is an error. A sample takes some
    /// tens of kilobytes, from each unit of the chip a few.
    pub hardware_bytes: usize,
}

impl Default for Sampling {
    /// 2 µs, 8,192 samples, half a gibibyte.
    fn default() -> Self {
        Self { interval: Duration::from_micros(2), max_samples: 1 << 13, hardware_bytes: 1 << 29 }
    }
}

/// Samples of some metrics in the order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    /// When each sample began, which is when the one before it ended.
    pub starts: Vec<SampleTime>,
    /// When each sample ended.
    pub ends: Vec<SampleTime>,
    /// The values of each sample, in the order in which the metrics were asked; none where CUPTI
    /// gave no number.
    pub values: Vec<Vec<Option<f64>>>,
    /// Samples left out because their times were zero or not in order, and a first one that reached
    /// back to before the sampling began.
    pub rejected: usize,
}

impl Samples {
    /// How many samples there are.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    fn add(&mut self, (start, end): (u64, u64), values: Vec<Option<f64>>) {
        let in_order = self.ends.last().is_none_or(|last| last.0 <= start);
        if start == 0 || end <= start || !in_order {
            self.rejected += 1;
            return;
        }
        self.starts.push(SampleTime(start));
        self.ends.push(SampleTime(end));
        self.values.push(values);
    }

    /// The first sample reaches back to the last trigger, which may be that of an earlier sampling.
    fn reject_stale_start(&mut self, interval: Duration) {
        let longest = u64::try_from((interval * STALE_INTERVALS).as_nanos()).unwrap_or(u64::MAX);
        if let (Some(start), Some(end)) = (self.starts.first(), self.ends.first())
            && end.0 - start.0 > longest
        {
            self.starts.remove(0);
            self.ends.remove(0);
            self.values.remove(0);
            self.rejected += 1;
        }
    }
}

/// Samples in our words.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// The samples, values in the quantities' units.
    pub samples: Samples,
    quantities: Vec<Quantity>,
}

impl Series {
    /// How many samples there are.
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// What was sampled: what was asked, less what this chip does not have.
    pub fn quantities(&self) -> &[Quantity] {
        &self.quantities
    }

    /// One quantity's value in each sample; nothing where it was not sampled.
    pub fn values(&self, quantity: Quantity) -> impl Iterator<Item = Option<f64>> + '_ {
        let at = self.quantities.iter().position(|sampled| *sampled == quantity);
        self.samples.values.iter().filter_map(move |values| at.map(|at| values.get(at).copied().flatten()))
    }

    /// The sum over all samples: the amount over the whole series.
    pub fn total(&self, quantity: Quantity) -> Option<f64> {
        self.quantities.contains(&quantity).then(|| self.values(quantity).flatten().sum())
    }
}

impl Session {
    /// Samples `quantities` while `launch` runs; see [`Session::pm_sampling`].
    pub fn sample<E: Into<LaunchError>>(
        &mut self,
        quantities: &[Quantity],
        sampling: &Sampling,
        launch: impl FnMut() -> Result<(), E>,
    ) -> Result<Series, CuptiError> {
        let names = self.names(Mode::Sampling, quantities)?;
        let metrics: Vec<Metric> = names.iter().flat_map(Named::metrics).cloned().collect();
        let mut samples = self.pm_sampling(&metrics, sampling, launch)?;
        for values in &mut samples.values {
            let get = |metric: &Metric| metrics.iter().position(|m| m == metric).and_then(|at| values[at]);
            *values = names.iter().map(|named| named.value(get)).collect();
        }
        Ok(Series { samples, quantities: names.into_iter().map(|named| named.quantity).collect() })
    }

    /// Samples `metrics`, which must fit one pass, while `launch` runs, once. Samples begin a little
    /// before the first launch and end after the last.
    pub fn pm_sampling<E: Into<LaunchError>>(
        &mut self,
        metrics: &[Metric],
        sampling: &Sampling,
        mut launch: impl FnMut() -> Result<(), E>,
    ) -> Result<Samples, CuptiError> {
        let host = Host::open(self, Mode::Sampling)?;
        let config = host.configure(metrics)?;
        if config.passes > 1 {
            return Err(CuptiError::TooManyPasses { metrics: metrics.len(), passes: config.passes });
        }
        let mut names = Names::of(metrics, self.chip())?;
        let sampler = Sampler::enable(self)?;
        sampler.configure(&config, sampling)?;
        let mut data = sampler.counter_data(&mut names, sampling.max_samples.max(1))?;
        sampler.start()?;
        let launched = self.launch(&mut launch);
        sampler.stop()?;
        launched?;
        sampler.decode(&host, &mut names, &mut data, sampling)
    }
}

/// CUPTI's PM sampler, enabled on the session's device.
#[derive(Debug)]
struct Sampler<'s> {
    session: &'s Session,
    object: *mut CUpti_PmSampling_Object,
}

impl<'s> Sampler<'s> {
    fn enable(session: &'s Session) -> Result<Self, CuptiError> {
        let mut asked = CUpti_PmSampling_Enable_Params { deviceIndex: session.device_index(), ..Params::new() };
        // SAFETY: the block states its size.
        unsafe { call("cuptiPmSamplingEnable", session.api.cuptiPmSamplingEnable, &mut asked) }?;
        Ok(Self { session, object: asked.pPmSamplingObject })
    }

    fn configure(&self, config: &Config, sampling: &Sampling) -> Result<(), CuptiError> {
        let mut asked = CUpti_PmSampling_SetConfig_Params {
            pPmSamplingObject: self.object,
            configSize: config.image.len(),
            pConfig: config.image.as_ptr(),
            hardwareBufferSize: sampling.hardware_bytes,
            samplingInterval: u64::try_from(sampling.interval.as_nanos()).unwrap_or(u64::MAX),
            triggerMode: CUpti_PmSampling_TriggerMode::CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL,
            ..Params::new()
        };
        // SAFETY: the image outlives the sampler in `pm_sampling`.
        unsafe { call("cuptiPmSamplingSetConfig", self.session.api.cuptiPmSamplingSetConfig, &mut asked) }
    }

    fn counter_data(&self, names: &mut Names, samples: usize) -> Result<Image, CuptiError> {
        let mut size = CUpti_PmSampling_GetCounterDataSize_Params {
            pPmSamplingObject: self.object,
            pMetricNames: names.as_mut_ptr(),
            numMetrics: names.len(),
            maxSamples: u32::try_from(samples).unwrap_or(u32::MAX),
            ..Params::new()
        };
        let function = self.session.api.cuptiPmSamplingGetCounterDataSize;
        // SAFETY: the names outlive the call.
        unsafe { call("cuptiPmSamplingGetCounterDataSize", function, &mut size) }?;
        Ok(Image::zeroed(size.counterDataSize))
    }

    fn start(&self) -> Result<(), CuptiError> {
        let mut asked = CUpti_PmSampling_Start_Params { pPmSamplingObject: self.object, ..Params::new() };
        // SAFETY: the object lives.
        unsafe { call("cuptiPmSamplingStart", self.session.api.cuptiPmSamplingStart, &mut asked) }
    }

    fn stop(&self) -> Result<(), CuptiError> {
        let mut asked = CUpti_PmSampling_Stop_Params { pPmSamplingObject: self.object, ..Params::new() };
        // SAFETY: the object lives.
        unsafe { call("cuptiPmSamplingStop", self.session.api.cuptiPmSamplingStop, &mut asked) }
    }

    /// All samples of the hardware buffer.
    fn decode(
        &self,
        host: &Host<'_>,
        names: &mut Names,
        data: &mut Image,
        sampling: &Sampling,
    ) -> Result<Samples, CuptiError> {
        let mut samples = Samples::default();
        for index in 0..self.decode_all(data, sampling)? {
            self.session.go_on()?;
            samples.add(self.times_of(data, index)?, host.evaluate(data, index, names)?);
        }
        samples.reject_stale_start(sampling.interval);
        Ok(samples)
    }

    /// Decodes into `data`; how many samples that were.
    fn decode_all(&self, data: &mut Image, sampling: &Sampling) -> Result<usize, CuptiError> {
        let api = self.session.api;
        let mut fill = CUpti_PmSampling_CounterDataImage_Initialize_Params {
            pPmSamplingObject: self.object,
            counterDataSize: data.len(),
            pCounterData: data.as_mut_ptr(),
            ..Params::new()
        };
        let function = api.cuptiPmSamplingCounterDataImageInitialize;
        // SAFETY: the image has the stated size.
        unsafe { call("cuptiPmSamplingCounterDataImageInitialize", function, &mut fill) }?;
        let mut decode = CUpti_PmSampling_DecodeData_Params {
            pPmSamplingObject: self.object,
            pCounterDataImage: data.as_mut_ptr(),
            counterDataImageSize: data.len(),
            ..Params::new()
        };
        // SAFETY: the image has the stated size.
        let decoded = unsafe { call("cuptiPmSamplingDecodeData", api.cuptiPmSamplingDecodeData, &mut decode) };
        let out_of_memory = cupti_sys::CUptiResult::CUPTI_ERROR_OUT_OF_MEMORY.0;
        let overflow = matches!(decoded, Err(CuptiError::Call { code, .. }) if code == out_of_memory);
        if overflow || decode.overflow != 0 {
            let capacity = sampling.hardware_bytes as u64;
            return Err(CuptiError::BufferOverflow { full: Full::Hardware, capacity });
        }
        decoded?;
        let full = CUpti_PmSampling_DecodeStopReason::CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL;
        if decode.decodeStopReason == full {
            return Err(CuptiError::BufferOverflow { full: Full::Samples, capacity: sampling.max_samples as u64 });
        }
        let mut info = CUpti_PmSampling_GetCounterDataInfo_Params {
            pCounterDataImage: data.as_ptr(),
            counterDataImageSize: data.len(),
            ..Params::new()
        };
        let function = api.cuptiPmSamplingGetCounterDataInfo;
        // SAFETY: the image has the stated size.
        unsafe { call("cuptiPmSamplingGetCounterDataInfo", function, &mut info) }?;
        Ok(info.numCompletedSamples)
    }

    fn times_of(&self, data: &Image, index: usize) -> Result<(u64, u64), CuptiError> {
        let mut asked = CUpti_PmSampling_CounterData_GetSampleInfo_Params {
            pPmSamplingObject: self.object,
            pCounterDataImage: data.as_ptr(),
            counterDataImageSize: data.len(),
            sampleIndex: index,
            ..Params::new()
        };
        let function = self.session.api.cuptiPmSamplingCounterDataGetSampleInfo;
        // SAFETY: the image has the stated size.
        unsafe { call("cuptiPmSamplingCounterDataGetSampleInfo", function, &mut asked) }?;
        Ok((asked.startTimestamp, asked.endTimestamp))
    }
}

impl Drop for Sampler<'_> {
    fn drop(&mut self) {
        let mut asked = CUpti_PmSampling_Disable_Params { pPmSamplingObject: self.object, ..Params::new() };
        // SAFETY: the object is used no more. A failure leaves nothing to do.
        let _ = unsafe { call("", self.session.api.cuptiPmSamplingDisable, &mut asked) };
    }
}
