//! What to count, in our words, and what each chip calls it.
//!
//! A chip's metrics are asked of CUPTI, never assumed: each [`Quantity`] has a list of names, and
//! the first that the chip has is taken. A name is a base (`dram__bytes_read`) and a rollup over
//! the units of the chip (`sum`).

use std::collections::BTreeSet;

/// A metric as CUPTI names it, rollup included, such as `dram__bytes_read.sum`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Metric(String);

impl Metric {
    /// A metric of this name. Whether the chip has it is found when it is counted.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Metric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// How to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Once over a range of launches, replayed as often as the metrics need.
    Range,
    /// Again and again while the launches run, in one pass.
    Sampling,
}

/// What a run is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quantity {
    /// Bytes read from device memory.
    DramReadBytes,
    /// Bytes written to device memory.
    DramWriteBytes,
    /// Bytes that SMs asked of L2 to read.
    L2ReadBytes,
    /// Share of all sector lookups in L2 that hit, 0 to 1.
    L2HitRate,
    /// Bytes that came back from L2 to the SMs' first-level caches.
    L2ToSmBytes,
    /// Share of cycles with the tensor pipe at work, 0 to 1: over a range, of the cycles in which SMs
    /// held a warp; in a sample, of all cycles.
    TensorActive,
    /// Share of cycles in which the mean SM held a warp, 0 to 1: over a range, of those of the busiest
    /// SM; in a sample, of all cycles.
    SmActive,
    /// Resident warps over the most that fit, while an SM is active, 0 to 1.
    WarpsActive,
}

/// What a chip calls a quantity.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// The quantity.
    pub quantity: Quantity,
    /// The metric to count.
    pub metric: Metric,
    /// The metric to divide it by, where the quantity is a ratio of two.
    pub over: Option<Metric>,
    /// Factor that brings it to the quantity's unit.
    pub factor: f64,
}

impl Named {
    /// The metrics to count for it.
    pub fn metrics(&self) -> impl Iterator<Item = &Metric> {
        std::iter::once(&self.metric).chain(&self.over)
    }

    /// The quantity from the metrics' values. A share is at most 1: its two counts may come from
    /// different passes and then differ by a little.
    pub(crate) fn value(&self, get: impl Fn(&Metric) -> Option<f64>) -> Option<f64> {
        let below = self.over.as_ref().map_or(Some(1.0), &get)?;
        let value = get(&self.metric)? * self.factor / below;
        if !value.is_finite() {
            return None;
        }
        Some(if self.quantity.is_amount() { value } else { value.min(1.0) })
    }
}

/// A name that a quantity may have: base and rollup.
type Name = (&'static str, &'static str);

/// One way to come to a quantity.
struct Candidate {
    name: Name,
    over: Option<Name>,
    factor: f64,
}

/// L2 counts in sectors.
const SECTOR_BYTES: f64 = 32.0;
/// Percent of peak become shares.
const PERCENT: f64 = 0.01;

const ELAPSED: &str = "avg.pct_of_peak_sustained_elapsed";
const ACTIVE: &str = "avg.pct_of_peak_sustained_active";

const fn of(base: &'static str, rollup: &'static str, factor: f64) -> Candidate {
    Candidate { name: (base, rollup), over: None, factor }
}

const fn ratio(name: Name, over: Name) -> Candidate {
    Candidate { name, over: Some(over), factor: 1.0 }
}

const DRAM_READ: [Candidate; 2] = [of("dram__bytes_read", "sum", 1.0), of("fbpa__dram_read_bytes", "sum", 1.0)];
const DRAM_WRITE: [Candidate; 2] = [of("dram__bytes_write", "sum", 1.0), of("fbpa__dram_write_bytes", "sum", 1.0)];
// Of texture units, which all loads of an SM pass. The plain count adds what one half of a divided
// L2 reads from the other: on an H200, half as much again.
const L2_READ: [Candidate; 2] =
    [of("lts__t_sectors_srcunit_tex_op_read", "sum", SECTOR_BYTES), of("lts__t_sectors_op_read", "sum", SECTOR_BYTES)];
const L2_HITS: [Candidate; 1] = [of("lts__t_sector_hit_rate", "pct", PERCENT)];
const L2_TO_SM: [Candidate; 1] = [of("l1tex__m_xbar2l1tex_read_bytes", "sum", 1.0)];
const WARPS: [Candidate; 1] = [of("sm__warps_active", ACTIVE, PERCENT)];
// A range is longer than its launches: on an H200 some 55 us of set-up count as elapsed. So over a
// range, shares are taken of what the SMs were active, and their own activity of the busiest SM's.
const TENSOR_OF_ACTIVE: [Candidate; 1] = [of("sm__pipe_tensor_cycles_active", ACTIVE, PERCENT)];
const TENSOR_OF_SAMPLE: [Candidate; 1] = [of("sm__pipe_tensor_cycles_active", ELAPSED, PERCENT)];
const SM_OF_BUSIEST: [Candidate; 1] = [ratio(("sm__cycles_active", "avg"), ("sm__cycles_active", "max"))];
const SM_OF_SAMPLE: [Candidate; 1] = [of("sm__cycles_active", ELAPSED, PERCENT)];

impl Quantity {
    /// What a run with counters counts over its launches.
    pub const COUNTED: [Self; 8] = [
        Self::DramReadBytes,
        Self::DramWriteBytes,
        Self::L2ReadBytes,
        Self::L2HitRate,
        Self::L2ToSmBytes,
        Self::TensorActive,
        Self::SmActive,
        Self::WarpsActive,
    ];

    /// What a run with counters samples over time; all of it fits one pass on the chips asked so far.
    pub const SAMPLED: [Self; 4] = [Self::DramReadBytes, Self::DramWriteBytes, Self::TensorActive, Self::SmActive];

    /// Name in captures and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::DramReadBytes => "dram_read_bytes",
            Self::DramWriteBytes => "dram_write_bytes",
            Self::L2ReadBytes => "l2_read_bytes",
            Self::L2HitRate => "l2_hit_rate",
            Self::L2ToSmBytes => "l2_to_sm_bytes",
            Self::TensorActive => "tensor_active",
            Self::SmActive => "sm_active",
            Self::WarpsActive => "warps_active",
        }
    }

    /// Whether it is an amount that adds up over time (bytes), not a share.
    pub fn is_amount(self) -> bool {
        matches!(self, Self::DramReadBytes | Self::DramWriteBytes | Self::L2ReadBytes | Self::L2ToSmBytes)
    }

    fn candidates(self, mode: Mode) -> &'static [Candidate] {
        match (self, mode) {
            (Self::DramReadBytes, _) => &DRAM_READ,
            (Self::DramWriteBytes, _) => &DRAM_WRITE,
            (Self::L2ReadBytes, _) => &L2_READ,
            (Self::L2HitRate, _) => &L2_HITS,
            (Self::L2ToSmBytes, _) => &L2_TO_SM,
            (Self::TensorActive, Mode::Range) => &TENSOR_OF_ACTIVE,
            (Self::TensorActive, Mode::Sampling) => &TENSOR_OF_SAMPLE,
            (Self::SmActive, Mode::Range) => &SM_OF_BUSIEST,
            (Self::SmActive, Mode::Sampling) => &SM_OF_SAMPLE,
            (Self::WarpsActive, _) => &WARPS,
        }
    }

    /// The first way that works with the base metrics that a chip has.
    pub(crate) fn named_among(self, mode: Mode, bases: &BTreeSet<String>) -> Option<Named> {
        let has = |name: &Name| bases.contains(name.0);
        let found = self.candidates(mode).iter().find(|way| has(&way.name) && way.over.iter().all(has))?;
        let metric = |(base, rollup): Name| Metric::new(format!("{base}.{rollup}"));
        Some(Named { quantity: self, metric: metric(found.name), over: found.over.map(metric), factor: found.factor })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_that_the_chip_has_is_taken() {
        let bases = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
        let named = |names: &[&str]| Quantity::DramReadBytes.named_among(Mode::Range, &bases(names));
        let metric = |names: &[&str]| named(names).map(|named| named.metric.name().to_owned());
        assert_eq!(metric(&["fbpa__dram_read_bytes", "dram__bytes_read"]).unwrap(), "dram__bytes_read.sum");
        assert_eq!(metric(&["fbpa__dram_read_bytes"]).unwrap(), "fbpa__dram_read_bytes.sum");
        assert_eq!(metric(&["lts__t_sector_hit_rate"]), None);
    }

    #[test]
    fn values_come_in_the_quantities_units() {
        let bases: BTreeSet<String> =
            ["lts__t_sectors_op_read", "sm__cycles_active", "lts__t_sector_hit_rate"].map(str::to_owned).into();
        let value = |quantity: Quantity, values: &[(&str, f64)]| {
            let named = quantity.named_among(Mode::Range, &bases).unwrap();
            named.value(|metric| values.iter().find(|(name, _)| *name == metric.name()).map(|(_, value)| *value))
        };
        assert_eq!(value(Quantity::L2ReadBytes, &[("lts__t_sectors_op_read.sum", 10.0)]), Some(320.0));
        let cycles = [("sm__cycles_active.avg", 90.0), ("sm__cycles_active.max", 100.0)];
        assert_eq!(value(Quantity::SmActive, &cycles), Some(0.9));
        assert_eq!(value(Quantity::SmActive, &cycles[..1]), None);
        assert_eq!(value(Quantity::SmActive, &[cycles[0], ("sm__cycles_active.max", 0.0)]), None);
        // Two passes that differ by a little.
        assert_eq!(value(Quantity::L2HitRate, &[("lts__t_sector_hit_rate.pct", 101.2)]), Some(1.0));
    }

    #[test]
    fn names_are_distinct() {
        let names: BTreeSet<&str> = Quantity::COUNTED.iter().map(|quantity| quantity.name()).collect();
        assert_eq!(names.len(), Quantity::COUNTED.len());
    }
}
