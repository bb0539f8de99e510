//! The objects of `run --json` and `compare --json`: how plans ran.

use serde::Serialize;

use crate::capture::{Capture, Counter, Counts, LaunchCounts, Source, Spread};
use crate::decision;
use crate::export::halves::{CoRunJson, co_run_json, prefill_sms};
use crate::export::json::{PlanJson, SCHEMA};
use crate::hw::ExpectedError;
use crate::metrics::{Bandwidth, BubbleReport};
use crate::numerics::CheckReport;
use crate::units::{Nanos, counted};

/// Idle slot time of one cause.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BubbleJson {
    /// Name of the cause.
    pub cause: &'static str,
    /// Slot time.
    pub slot_ns: u64,
}

/// Bandwidth over the makespan.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BandwidthJson {
    /// Reached.
    pub achieved_bytes_per_s: u64,
    /// By the data sheet.
    pub peak_bytes_per_s: u64,
    /// Reached over data sheet.
    pub utilization: f64,
}

/// Hardware counters; all `null` where simulated, not asked for, or refused.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MeasuredJson {
    /// Bytes read from DRAM.
    pub dram_read_bytes: Option<u64>,
    /// Bytes written to DRAM.
    pub dram_write_bytes: Option<u64>,
    /// Bytes that SMs read from L2.
    pub l2_read_bytes: Option<u64>,
    /// Bytes that came from L2 to the SMs.
    pub l2_to_sm_bytes: Option<u64>,
    /// Share of L2's lookups that hit.
    pub l2_hit_rate: Option<f64>,
    /// Fraction of time in which the tensor cores were active.
    pub tensor_active: Option<f64>,
    /// Mean active time of an SM over that of the busiest.
    pub sm_active: Option<f64>,
    /// Resident warps over the most that fit, while an SM is active.
    pub warps_active: Option<f64>,
    /// How often the launches ran to count all of that.
    pub passes: Option<u32>,
    /// How the series over time were sampled.
    pub series: Option<SeriesJson>,
    /// Each launch by itself, where the plan has several.
    pub launches: Option<Vec<LaunchCountsJson>>,
}

/// How the series over time came about.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SeriesJson {
    /// Time from one sample to the next.
    pub interval_ns: u64,
    /// Runs that the series are the mean of.
    pub repeats: u32,
    /// Samples within them.
    pub samples: u32,
    /// Samples left out.
    pub rejected: u32,
    /// The samples are placed on the CTAs' time axis to within this.
    pub alignment_error_ns: u64,
}

/// Counts of one launch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LaunchCountsJson {
    /// Launch of the plan.
    pub launch: u32,
    /// Bytes read from DRAM.
    pub dram_read_bytes: Option<u64>,
    /// Bytes written to DRAM.
    pub dram_write_bytes: Option<u64>,
    /// Bytes that SMs read from L2.
    pub l2_read_bytes: Option<u64>,
    /// Fraction of time in which the tensor cores were active.
    pub tensor_active: Option<f64>,
}

/// Result of `--check`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CheckJson {
    /// Output rows compared.
    pub rows: u64,
    /// Largest relative error.
    pub max_rel_err: f64,
    /// The largest that a right run of this plan shows.
    pub bound: f64,
}

/// Pauses of the memory while a run was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PausesJson {
    /// From the begin of one to that of the next.
    pub period_ns: u64,
    /// How long nothing comes to any SM.
    pub length_ns: u64,
    /// From the 5th to the 95th percentile over the median, of the largest of the groups.
    pub steady_spread: f64,
    /// The repeats by how many fell into them.
    pub groups: Vec<PauseGroupJson>,
}

impl PausesJson {
    /// How long and how often.
    pub fn rhythm(&self) -> String {
        format!("{} every {}", Nanos(self.length_ns), Nanos(self.period_ns))
    }

    /// What the repeats with equally many took, a line each.
    pub fn of_groups(&self) -> Vec<String> {
        self.groups.iter().map(PauseGroupJson::words).collect()
    }
}

/// Repeats into which equally many pauses of the memory fell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PauseGroupJson {
    /// How many.
    pub pauses: u32,
    /// Repeats.
    pub repeats: u64,
    /// Their median.
    pub makespan_ns: u64,
    /// Their 5th percentile.
    pub makespan_p5_ns: u64,
    /// Their 95th percentile.
    pub makespan_p95_ns: u64,
}

impl PauseGroupJson {
    /// `142 repeats without one`, or with how many.
    pub fn name(&self) -> String {
        let with = match self.pauses {
            0 => "without one".to_owned(),
            some => format!("with {some}"),
        };
        format!("{} {with}", counted(self.repeats, "repeat"))
    }

    fn words(&self) -> String {
        let (low, high) = (Nanos(self.makespan_p5_ns), Nanos(self.makespan_p95_ns));
        format!("{}: {}, nine of ten {low} to {high}", self.name(), Nanos(self.makespan_ns))
    }
}

/// `run --json`: the plan object, and how it ran.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunJson {
    /// All of `plan --json`.
    #[serde(flatten)]
    pub plan: PlanJson,
    /// `sim` or `cuda`.
    pub backend: String,
    /// `simulated` or `measured`.
    pub source: &'static str,
    /// Whether the simulator is fitted to the device; `null` where measured.
    pub calibrated: Option<bool>,
    /// How far off its figures may be expected to be; `null` where measured, beside prefill, and where nobody knows.
    pub expected_error: Option<ExpectedError>,
    /// Runs.
    pub repeats: u64,
    /// State of L2 before each run.
    pub l2: &'static str,
    /// Whether the kernels give the same bits in every run; `null` for a simulated one, which computes none.
    pub deterministic: Option<bool>,
    /// Median.
    pub makespan_ns: u64,
    /// Shortest.
    pub makespan_min_ns: u64,
    /// Longest.
    pub makespan_max_ns: u64,
    /// 5th percentile.
    pub makespan_p5_ns: u64,
    /// 95th percentile.
    pub makespan_p95_ns: u64,
    /// Pauses of the memory meanwhile; `null` where it was not seen to have any, and where simulated.
    pub memory_pauses: Option<PausesJson>,
    /// What the rule that chose thought the run would take; `null` where it weighed something else, or
    /// the plan was made without explanation.
    pub estimate_ns: Option<u64>,
    /// SMs × the largest number of CTAs resident on one SM at once.
    pub slots: u64,
    /// Slot time in which a CTA was resident.
    pub busy_slot_ns: u64,
    /// Slots × makespan of the run whose spans these are.
    pub total_slot_ns: u64,
    /// The rest of the slot time by cause.
    pub bubbles: Vec<BubbleJson>,
    /// Share of the SMs' time in which prefill and decode ran side by side on one; `null` without one of them.
    pub side_by_side: Option<f64>,
    /// How the two went; `null` likewise.
    pub co_run: Option<CoRunJson>,
    /// SMs that prefill was given, where it was given some.
    pub prefill_sms: Option<u32>,
    /// Bandwidth.
    pub bandwidth: BandwidthJson,
    /// Hardware counters.
    pub measured: MeasuredJson,
    /// Cost of tracing as a fraction of the plain time.
    pub probe_overhead: Option<f64>,
    /// CRC-32 of the plan as it ran, queue order included.
    pub plan_crc: u32,
    /// What the CRC covers; see [`crate::plan::PlanDigest`].
    pub plan_digest_version: u32,
    /// Result of `--check`, where asked for.
    pub check: Option<CheckJson>,
    /// What a person must know.
    pub warnings: Vec<String>,
}

impl RunJson {
    /// What stands beside its figures where people read them ([`Source::words`]).
    pub fn source_words(&self) -> &'static str {
        let source = if self.calibrated.is_some() { Source::Simulated } else { Source::Measured };
        source.words(self.calibrated.unwrap_or(true))
    }
}

/// The run object.
pub fn run_json(
    plan: PlanJson,
    capture: &Capture,
    bubbles: &BubbleReport,
    bandwidth: &Bandwidth,
    check: Option<&CheckReport>,
) -> RunJson {
    let times = capture.times.spread();
    let co_run = co_run_json(capture);
    RunJson {
        plan,
        backend: capture.provenance.backend.clone(),
        source: capture.provenance.source.name(),
        calibrated: (capture.provenance.source == Source::Simulated).then_some(capture.provenance.calibrated),
        expected_error: capture.provenance.expected_error,
        repeats: times.count as u64,
        l2: capture.times.l2.name(),
        deterministic: (capture.provenance.source == Source::Measured).then_some(capture.provenance.deterministic),
        makespan_ns: times.median.0,
        makespan_min_ns: times.least.0,
        makespan_max_ns: times.most.0,
        makespan_p5_ns: times.low.0,
        makespan_p95_ns: times.high.0,
        memory_pauses: pauses_json(capture),
        estimate_ns: decision::run_estimate(&capture.plan.decisions).map(|(_, time)| time.0),
        slots: bubbles.slots,
        busy_slot_ns: bubbles.busy_slot.0,
        total_slot_ns: bubbles.total_slot.0,
        bubbles: bubbles
            .bubbles
            .iter()
            .map(|bubble| BubbleJson { cause: bubble.cause.name(), slot_ns: bubble.slot_time.0 })
            .collect(),
        side_by_side: co_run.as_ref().map(|both| both.co_resident_share),
        co_run,
        prefill_sms: prefill_sms(&capture.plan),
        bandwidth: BandwidthJson {
            achieved_bytes_per_s: bandwidth.achieved_bytes_per_s,
            peak_bytes_per_s: bandwidth.peak_bytes_per_s,
            utilization: bandwidth.utilization,
        },
        measured: measured(capture),
        probe_overhead: capture.probe_overhead,
        plan_crc: capture.provenance.plan.crc,
        plan_digest_version: capture.provenance.plan.version,
        check: check.map(|check| CheckJson { rows: check.rows, max_rel_err: check.max_rel_err, bound: check.bound }),
        warnings: capture.warnings.iter().map(|warning| &warning.text).chain(&bubbles.warnings).cloned().collect(),
    }
}

/// The pauses of the memory, and what they did to the repeats; `None` where a capture has none.
pub fn pauses_json(capture: &Capture) -> Option<PausesJson> {
    let pauses = capture.pauses.as_ref()?;
    let group = |(pauses, times): (u32, Spread)| PauseGroupJson {
        pauses,
        repeats: times.count as u64,
        makespan_ns: times.median.0,
        makespan_p5_ns: times.low.0,
        makespan_p95_ns: times.high.0,
    };
    Some(PausesJson {
        period_ns: pauses.period_ns.round() as u64,
        length_ns: pauses.length.0,
        steady_spread: pauses.steady(&capture.times)?,
        groups: pauses.groups(&capture.times).into_iter().map(group).collect(),
    })
}

/// What the hardware counted, if it did.
fn measured(capture: &Capture) -> MeasuredJson {
    let Some(counted) = &capture.counted else { return MeasuredJson::default() };
    let bytes = |counts: &Counts, counter| counts.get(counter).map(|value| value.round() as u64);
    let all = &counted.plan;
    let launch = |of: &LaunchCounts| LaunchCountsJson {
        launch: of.launch,
        dram_read_bytes: bytes(&of.counts, Counter::DramRead),
        dram_write_bytes: bytes(&of.counts, Counter::DramWrite),
        l2_read_bytes: bytes(&of.counts, Counter::L2Read),
        tensor_active: of.counts.get(Counter::TensorActive),
    };
    MeasuredJson {
        dram_read_bytes: bytes(all, Counter::DramRead),
        dram_write_bytes: bytes(all, Counter::DramWrite),
        l2_read_bytes: bytes(all, Counter::L2Read),
        l2_to_sm_bytes: bytes(all, Counter::L2ToSm),
        l2_hit_rate: all.get(Counter::L2HitRate),
        tensor_active: all.get(Counter::TensorActive),
        sm_active: all.get(Counter::SmActive),
        warps_active: all.get(Counter::WarpsActive),
        passes: Some(counted.passes),
        series: counted.sampled.map(|how| SeriesJson {
            interval_ns: how.interval.0,
            repeats: how.repeats,
            samples: how.samples,
            rejected: how.rejected,
            alignment_error_ns: how.alignment_error.0,
        }),
        launches: (!counted.launches.is_empty()).then(|| counted.launches.iter().map(launch).collect()),
    }
}

/// `compare --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompareJson {
    /// Always [`SCHEMA`].
    pub schema: u32,
    /// Which of the runs the others are compared with.
    pub baseline: usize,
    /// The runs.
    pub runs: Vec<RunJson>,
}

/// The comparison object, against the first run.
pub fn compare_json(runs: Vec<RunJson>) -> CompareJson {
    CompareJson { schema: SCHEMA, baseline: 0, runs }
}
