//! The capture in memory.

use serde::{Deserialize, Serialize};

use crate::capture::{Counted, Pauses};
use crate::hw::ExpectedError;
use crate::plan::{CtaRole, LaunchPlan, PlanDigest};
use crate::units::Nanos;
use crate::workload::BatchSpec;

/// Where figures come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// From the simulator.
    Simulated,
    /// From a real GPU.
    Measured,
}

impl Source {
    /// The word that stands beside every figure.
    pub fn name(self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::Measured => "measured",
        }
    }

    /// The words beside every figure that a person reads: a simulated one also says where nobody has fitted the
    /// simulator to its device.
    pub fn words(self, calibrated: bool) -> &'static str {
        match self {
            Self::Simulated if !calibrated => "simulated, not calibrated",
            _ => self.name(),
        }
    }
}

/// State of L2 at the start of each run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum L2State {
    /// Nothing of the batch is in L2, which is full of what was written before: that goes back to HBM as the batch
    /// comes, so that a larger L2 can begin more slowly (`SimConstants::cold_write_back`).
    #[default]
    Cold,
    /// As the run before left it.
    Warm,
}

impl L2State {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Warm => "warm",
        }
    }
}

/// What made a capture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Version of packscope.
    pub packscope: String,
    /// `sim` or `cuda`.
    pub backend: String,
    /// Simulated or measured.
    pub source: Source,
    /// Key of the device.
    pub device: String,
    /// Name of the device, as the driver gives it where measured.
    pub device_name: String,
    /// Driver version, where measured.
    pub driver: Option<String>,
    /// SM clock in kHz, where measured.
    pub sm_clock_khz: Option<u32>,
    /// Digest of the plan, so that two captures of one plan know each other.
    pub plan: PlanDigest,
    /// The command line or window action that made it.
    pub command: String,
    /// SMs of the device.
    pub sm_count: u32,
    /// Smallest step of the clock behind the spans; 1 ns where simulated.
    pub clock_step: Nanos,
    /// Largest error, over the SMs, of placing an SM's own clock on that clock, in nanoseconds (standard
    /// error of the fitted offset); where measured.
    pub clock_error_ns: Option<f64>,
    /// HBM bandwidth of the device by its data sheet, bytes per second.
    pub peak_bytes_per_s: u64,
    /// Whether the simulator is fitted to the device (`hw::Device::calibrated`); true where measured. In a file it has
    /// a chunk of its own.
    #[serde(skip, default = "yes")]
    pub calibrated: bool,
    /// How far off the simulator may be expected to be, where decodes alone were simulated on a device that tells it
    /// (`hw::Device::expected_error`). In a file it has a chunk of its own.
    #[serde(skip)]
    pub expected_error: Option<ExpectedError>,
    /// The GPC of each SM, by SM; empty where it is unknown. In a file it has a chunk of its own.
    #[serde(skip)]
    pub gpcs: Vec<u8>,
    /// Whether the kernels were those that give the same bits in every run. In a file it has a chunk of its own.
    #[serde(skip)]
    pub deterministic: bool,
}

fn yes() -> bool {
    true
}

impl Provenance {
    /// What stands beside every figure of the capture ([`Source::words`]).
    pub fn source_words(&self) -> &'static str {
        self.source.words(self.calibrated)
    }
}

/// One CTA, or one task of a persistent worker, on its SM. Times count from the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// What the CTA did; a last-arriving CTA that merges has a span of its own for that.
    pub role: CtaRole,
    /// Launch of the plan.
    pub launch: u32,
    /// CTA index in the launch (task index for a persistent one; for a merge there, the task of its query after which it came:
    /// by the same worker where the last to arrive merges, by any where those without tasks do).
    pub cta: u32,
    /// SM it ran on.
    pub sm: u32,
    /// Residency lane of the SM, from 0; spans of one lane never overlap.
    pub slot: u32,
    /// First instruction.
    pub begin: Nanos,
    /// The first KV tile had landed; equal to `begin` where unknown or not applicable.
    pub first_tile: Nanos,
    /// The main loop was done; equal to `end` where unknown or not applicable.
    pub loop_end: Nanos,
    /// Last result written.
    pub end: Nanos,
}

impl Span {
    /// For how long it was on its SM.
    pub fn length(&self) -> Nanos {
        self.end.saturating_sub(self.begin)
    }
}

/// All spans of a run as columns, sorted by (SM, slot, begin).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spans {
    /// What the CTA did.
    pub role: Vec<CtaRole>,
    /// Launch index.
    pub launch: Vec<u32>,
    /// CTA or task index.
    pub cta: Vec<u32>,
    /// SM.
    pub sm: Vec<u32>,
    /// Residency lane of the SM.
    pub slot: Vec<u32>,
    /// Begin in ns.
    pub begin: Vec<u64>,
    /// First tile landed, in ns.
    pub first_tile: Vec<u64>,
    /// Main loop done, in ns.
    pub loop_end: Vec<u64>,
    /// End in ns.
    pub end: Vec<u64>,
}

impl Spans {
    /// Number of spans.
    pub fn len(&self) -> usize {
        self.begin.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.begin.is_empty()
    }

    /// One span.
    pub fn get(&self, at: usize) -> Span {
        Span {
            role: self.role[at],
            launch: self.launch[at],
            cta: self.cta[at],
            sm: self.sm[at],
            slot: self.slot[at],
            begin: Nanos(self.begin[at]),
            first_tile: Nanos(self.first_tile[at]),
            loop_end: Nanos(self.loop_end[at]),
            end: Nanos(self.end[at]),
        }
    }

    /// All spans in order.
    pub fn iter(&self) -> impl Iterator<Item = Span> + '_ {
        (0..self.len()).map(|at| self.get(at))
    }

    /// Makes the columns from spans, sorted by (SM, slot, begin, launch, CTA).
    pub fn from_unsorted(mut spans: Vec<Span>) -> Self {
        spans.sort_unstable_by_key(|s| (s.sm, s.slot, s.begin, s.end, s.launch, s.cta));
        let mut columns = Self::default();
        for span in spans {
            columns.role.push(span.role);
            columns.launch.push(span.launch);
            columns.cta.push(span.cta);
            columns.sm.push(span.sm);
            columns.slot.push(span.slot);
            columns.begin.push(span.begin.0);
            columns.first_tile.push(span.first_tile.0);
            columns.loop_end.push(span.loop_end.0);
            columns.end.push(span.end.0);
        }
        columns
    }

    /// Gives back what the columns have to spare.
    pub fn shrink_to_fit(&mut self) {
        self.role.shrink_to_fit();
        for column in [&mut self.launch, &mut self.cta, &mut self.sm, &mut self.slot] {
            column.shrink_to_fit();
        }
        for column in [&mut self.begin, &mut self.first_tile, &mut self.loop_end, &mut self.end] {
            column.shrink_to_fit();
        }
    }

    /// Last end of all, or zero.
    pub fn last_end(&self) -> Nanos {
        Nanos(self.end.iter().copied().max().unwrap_or(0))
    }
}

/// When a kernel of the plan was on the GPU: from the moment its first CTA could start (launched,
/// and everything before it on its stream done) to the end of its last CTA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelWindow {
    /// Launch of the plan.
    pub launch: u32,
    /// First moment at which a CTA of it could have been dispatched.
    pub ready: Nanos,
    /// First CTA's first instruction.
    pub begin: Nanos,
    /// Last CTA's end.
    pub end: Nanos,
}

/// A figure over time, in steps of equal width.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CounterSeries {
    /// Name, such as `dram_read`.
    pub name: String,
    /// Unit: `B/s`, or `share` for 0 to 1.
    pub unit: String,
    /// Start of the first step.
    pub start: Nanos,
    /// Width of a step.
    pub step: Nanos,
    /// Mean value in each step.
    pub values: Vec<f64>,
}

/// How long the repeats took, from first launch to the last end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunTimes {
    /// Makespan of each repeat; one where simulated, since the simulator is deterministic.
    pub makespans: Vec<Nanos>,
    /// State of L2 before each repeat.
    pub l2: L2State,
    /// Checking the plan, compiling what it needs and copying its arrays to the GPU; where measured. No
    /// makespan includes it.
    pub upload: Option<Nanos>,
}

/// How far the repeats of a run lie apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Repeats.
    pub count: usize,
    /// Median; the mean of the two middle ones where their number is even.
    pub median: Nanos,
    /// Shortest.
    pub least: Nanos,
    /// Longest.
    pub most: Nanos,
    /// 5th percentile: the nearest rank.
    pub low: Nanos,
    /// 95th percentile, likewise.
    pub high: Nanos,
}

impl RunTimes {
    /// Count, median and range of the makespans; all zero where there is none.
    pub fn spread(&self) -> Spread {
        Spread::of(self.makespans.clone())
    }
}

impl Spread {
    /// Of these times, in any order.
    pub fn of(mut sorted: Vec<Nanos>) -> Self {
        sorted.sort_unstable();
        let middle = sorted.len() / 2;
        let median = match sorted.as_slice() {
            [] => Nanos::ZERO,
            all if all.len() % 2 == 1 => all[middle],
            all => Nanos(all[middle - 1].0.midpoint(all[middle].0)),
        };
        let rank = |percent: usize| {
            let nth = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
            sorted.get(nth).copied().unwrap_or(Nanos::ZERO)
        };
        Self { count: sorted.len(), median, least: rank(0), most: rank(100), low: rank(5), high: rank(95) }
    }

    /// What lies between the 5th and the 95th percentile, as a share of the median; 0 without a time.
    pub fn share(&self) -> f64 {
        let between = self.high.as_f64() - self.low.as_f64();
        if self.median == Nanos::ZERO { 0.0 } else { between / self.median.as_f64() }
    }
}

/// Something a person must know about a run, such as lost records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// What, in one sentence with the numbers.
    pub text: String,
}

/// One run of one plan. The spans are those of one repeat; times count from its start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capture {
    /// What made it.
    pub provenance: Provenance,
    /// The batch as a person would edit it.
    pub batch: BatchSpec,
    /// The plan that ran.
    pub plan: LaunchPlan,
    /// Makespans of all repeats.
    pub times: RunTimes,
    /// Kernels of the repeat that the spans are of.
    pub kernels: Vec<KernelWindow>,
    /// CTAs on SMs.
    pub spans: Spans,
    /// Figures over time.
    pub counters: Vec<CounterSeries>,
    /// What the hardware counted, where it was asked to.
    pub counted: Option<Counted>,
    /// Pauses of the memory meanwhile, where it was seen to have some.
    pub pauses: Option<Pauses>,
    /// Cost of tracing as a fraction of the plain time, where measured.
    pub probe_overhead: Option<f64>,
    /// What a person must know.
    pub warnings: Vec<Warning>,
}

impl Capture {
    /// How long the run takes: the median of the repeats, which are not traced; of a capture that has none, the end of its
    /// spans.
    pub fn time(&self) -> Nanos {
        if self.times.makespans.is_empty() { self.makespan() } else { self.times.spread().median }
    }

    /// End of the run whose spans these are: the last end of a span.
    pub fn makespan(&self) -> Nanos {
        self.spans.last_end()
    }

    /// Residency lanes an SM: the largest number of CTAs that were on one SM at once.
    pub fn slots_per_sm(&self) -> u32 {
        self.spans.slot.iter().map(|slot| slot + 1).max().unwrap_or(0)
    }

    /// All lanes: SMs × lanes an SM.
    pub fn slots(&self) -> u64 {
        u64::from(self.provenance.sm_count) * u64::from(self.slots_per_sm())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        let median = |times: &[u64]| {
            let makespans = times.iter().copied().map(Nanos).collect();
            RunTimes { makespans, ..RunTimes::default() }.spread().median.0
        };
        assert_eq!(median(&[]), 0);
        assert_eq!(median(&[3]), 3);
        assert_eq!(median(&[9, 1, 2]), 2);
        assert_eq!(median(&[4, 9, 1, 2]), 3);
    }
}
