//! Pauses of the memory, and what they do to the repeats of a run.
//!
//! An H200's HBM gives nothing to any SM for 0.8 µs every 100.15 µs, by its own clock, whatever runs. Of runs of 20 µs every
//! fifth has such a pause and takes 1.2 µs more than the others: what looks like an unsteady kernel is the memory.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::capture::{RunTimes, Spread};
use crate::units::Nanos;

/// Pauses of the memory while a run was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pauses {
    /// From the begin of one to that of the next, ns.
    pub period_ns: f64,
    /// How long nothing comes to the SMs.
    pub length: Nanos,
    /// How many fell into each repeat, in the order of the makespans.
    pub of_repeats: Vec<u32>,
    /// Begins of those in the run whose spans the capture has, from its start.
    pub begins: Vec<Nanos>,
}

impl Pauses {
    /// Whether they can be: a period that is longer than a pause.
    pub(super) fn hold(&self) -> bool {
        self.period_ns.is_finite() && self.period_ns > self.length.as_f64()
    }

    /// Begin and end of each in the run whose spans the capture has.
    pub fn stretches(&self) -> impl Iterator<Item = (Nanos, Nanos)> {
        self.begins.iter().map(|begin| (*begin, Nanos(begin.0.saturating_add(self.length.0))))
    }

    /// The repeats that had equally many pauses, by that number: of how many pauses, and how far they lie apart.
    pub fn groups(&self, times: &RunTimes) -> Vec<(u32, Spread)> {
        // By what is there: of a forged file a number may be anything.
        let mut alike: BTreeMap<u32, Vec<Nanos>> = BTreeMap::new();
        for (pauses, time) in self.of_repeats.iter().zip(&times.makespans) {
            alike.entry(*pauses).or_default().push(*time);
        }
        alike.into_iter().map(|(pauses, times)| (pauses, Spread::of(times))).collect()
    }

    /// What lies between the 5th and the 95th percentile of the largest of the [groups](Self::groups), as a share of its median:
    /// what a kernel is unsteady by beside the pauses. Of groups of one size that with the fewest; `None` where nothing ran.
    pub fn steady(&self, times: &RunTimes) -> Option<f64> {
        let groups = self.groups(times);
        groups.iter().rev().max_by_key(|(_, spread)| spread.count).map(|(_, spread)| spread.share())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_with_as_many_pauses_are_of_one_group() {
        let makespans = [20, 22, 21, 23, 19].map(Nanos).to_vec();
        let times = RunTimes { makespans, ..RunTimes::default() };
        let pauses = |of_repeats: &[u32]| Pauses {
            period_ns: 100_148.1,
            length: Nanos(1216),
            of_repeats: of_repeats.to_vec(),
            begins: Vec::new(),
        };
        let groups = |of: &[u32]| -> Vec<_> {
            pauses(of).groups(&times).iter().map(|(of, s)| (*of, s.count, s.low.0, s.median.0, s.high.0)).collect()
        };
        assert_eq!(groups(&[0, 1, 0, 1, 0]), [(0, 3, 19, 20, 21), (1, 2, 22, 22, 23)]);
        assert_eq!(groups(&[3, 2, 2, 2, 2]), [(2, 4, 19, 21, 23), (3, 1, 20, 20, 20)]);
        assert!(groups(&[]).is_empty());
        assert_eq!(groups(&[0, u32::MAX, 0, 0, 0]).len(), 2, "without counting up to it");
        let steady = |of: &[u32]| pauses(of).steady(&times).map(|share| (share * 1000.0).round() as u32);
        assert_eq!((steady(&[0, 1, 0, 1, 0]), steady(&[1, 1, 1, 0, 0])), (Some(100), Some(95)));
        assert_eq!((steady(&[1, 1, 0, 0, 4]), steady(&[])), (Some(91), None));
    }
}
