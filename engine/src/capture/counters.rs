//! What the hardware counted, in passes of their own: amounts over the plan and over each launch, and how
//! the series over time came about.

use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// Something that the hardware counts. In files by place: new ones go to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Counter {
    /// Bytes read from device memory.
    DramRead,
    /// Bytes written to device memory.
    DramWrite,
    /// Bytes of the sectors that L2 looked up to serve reads of the SMs. On an H200 bulk copies look up a quarter
    /// more than reaches the SMs ([`Self::L2ToSm`]), as its two halves ask each other.
    L2Read,
    /// Share of sector lookups in L2 that hit, 0 to 1.
    L2HitRate,
    /// Bytes that came from L2 to the SMs.
    L2ToSm,
    /// Share of the time in which SMs held a warp with the tensor pipe at work, 0 to 1.
    TensorActive,
    /// Mean time in which an SM held a warp over that of the busiest SM, 0 to 1.
    SmActive,
    /// Resident warps over the most that fit, while an SM is active, 0 to 1.
    WarpsActive,
}

impl Counter {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 8] = [
        Self::DramRead,
        Self::DramWrite,
        Self::L2Read,
        Self::L2ToSm,
        Self::L2HitRate,
        Self::TensorActive,
        Self::SmActive,
        Self::WarpsActive,
    ];

    /// Name in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::DramRead => "dram_read_bytes",
            Self::DramWrite => "dram_write_bytes",
            Self::L2Read => "l2_read_bytes",
            Self::L2HitRate => "l2_hit_rate",
            Self::L2ToSm => "l2_to_sm_bytes",
            Self::TensorActive => "tensor_active",
            Self::SmActive => "sm_active",
            Self::WarpsActive => "warps_active",
        }
    }

    /// What a person calls it.
    pub fn title(self) -> &'static str {
        match self {
            Self::DramRead => "DRAM read",
            Self::DramWrite => "DRAM written",
            Self::L2Read => "L2 looked up",
            Self::L2HitRate => "L2 hit rate",
            Self::L2ToSm => "L2 to SMs",
            Self::TensorActive => "tensor cores active",
            Self::SmActive => "SMs active",
            Self::WarpsActive => "warps active",
        }
    }

    /// Whether it counts bytes; the others are shares.
    pub fn is_bytes(self) -> bool {
        matches!(self, Self::DramRead | Self::DramWrite | Self::L2Read | Self::L2ToSm)
    }
}

/// A counter with its value: bytes, or a share from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Count {
    /// What was counted.
    pub counter: Counter,
    /// How much.
    pub value: f64,
}

/// Values of some counters; those that the chip does not have are not there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts(pub Vec<Count>);

impl Counts {
    /// The value of a counter.
    pub fn get(&self, counter: Counter) -> Option<f64> {
        self.0.iter().find(|count| count.counter == counter).map(|count| count.value)
    }
}

/// Counts of one launch by itself: those before it have run and are not counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchCounts {
    /// Launch of the plan.
    pub launch: u32,
    /// What was counted.
    pub counts: Counts,
}

/// How the series over time came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampled {
    /// Time from one sample to the next.
    pub interval: Nanos,
    /// Runs that the series are the mean of.
    pub repeats: u32,
    /// Samples within these runs.
    pub samples: u32,
    /// Samples left out because their times could not be or a value was none.
    pub rejected: u32,
    /// The samples' clock is placed on the kernels' to within this.
    pub alignment_error: Nanos,
}

/// What the hardware counted of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// The chip as the counter library names it.
    pub chip: String,
    /// Over all launches, as they overlap.
    pub plan: Counts,
    /// How often the launches ran for that.
    pub passes: u32,
    /// Each launch by itself; none where the plan has one launch only.
    pub launches: Vec<LaunchCounts>,
    /// The series over time; none where sampling was refused.
    pub sampled: Option<Sampled>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_counter_is_listed_once_under_a_name_of_its_own() {
        let names: BTreeSet<&str> = Counter::ALL.iter().map(|counter| counter.name()).collect();
        assert_eq!(names.len(), Counter::ALL.len());
        let bytes = Counter::ALL.iter().filter(|counter| counter.is_bytes()).count();
        assert_eq!(bytes, names.iter().filter(|name| name.ends_with("_bytes")).count());
    }
}
