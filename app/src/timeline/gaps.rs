//! Gaps of a run with a pyramid of their widths, so that a frame visits only what it can draw.

use std::ops::Range;

use engine::metrics::Gap;

/// Children of a summary.
const FAN: usize = 16;

/// Every gap of a run by SM, slot and begin; gaps of a lane do not overlap.
#[derive(Clone, Debug, Default)]
pub struct Gaps {
    all: Vec<Gap>,
    /// Widest gap of each run of 16, of each run of 256, and so on.
    levels: Vec<Vec<u64>>,
}

fn width(gap: &Gap) -> u64 {
    gap.end.saturating_sub(gap.begin).0
}

impl Gaps {
    /// Indexes gaps that are sorted by SM, slot and begin.
    pub fn new(all: Vec<Gap>) -> Self {
        let widest = |chunk: &[u64]| chunk.iter().copied().max().unwrap_or(0);
        let mut below: Vec<u64> = all.iter().map(width).collect();
        let mut levels = Vec::new();
        while below.len() > FAN {
            below = below.chunks(FAN).map(widest).collect();
            levels.push(below.clone());
        }
        Self { all, levels }
    }

    fn first(&self, sm: u32, slot: u32, from: u64) -> usize {
        self.all.partition_point(|gap| (gap.sm, gap.slot, gap.end.0) <= (sm, slot, from))
    }

    /// All of them.
    pub fn all(&self) -> &[Gap] {
        &self.all
    }

    /// The gap of a lane at a time.
    pub fn at(&self, sm: u32, slot: u32, time: u64) -> Option<usize> {
        let at = self.first(sm, slot, time);
        let gap = self.all.get(at)?;
        ((gap.sm, gap.slot) == (sm, slot) && gap.begin.0 <= time).then_some(at)
    }

    /// Gaps of a lane that end after `from`, in order.
    pub fn of_lane(&self, sm: u32, slot: u32, from: u64) -> impl Iterator<Item = &Gap> {
        let first = self.first(sm, slot, from);
        self.all[first..].iter().take_while(move |gap| (gap.sm, gap.slot) == (sm, slot))
    }

    /// Calls `emit` with each gap of a lane in `view` that is at least `narrowest` wide, in order.
    ///
    /// Runs without one are passed whole: the cost is that of what is drawn, times a logarithm.
    pub fn wide(&self, sm: u32, slot: u32, view: Range<u64>, narrowest: u64, mut emit: impl FnMut(&Gap)) {
        let mut at = self.first(sm, slot, view.start);
        let last = self.all.partition_point(|gap| (gap.sm, gap.slot, gap.begin.0) < (sm, slot, view.end));
        while at < last {
            let mut step = 1;
            for level in &self.levels {
                let length = step * FAN;
                if !at.is_multiple_of(length) || level[at / length] >= narrowest {
                    break;
                }
                step = length;
            }
            if step == 1 && width(&self.all[at]) >= narrowest {
                emit(&self.all[at]);
            }
            at += step;
        }
    }
}

#[cfg(test)]
mod tests {
    use engine::metrics::BubbleCause;
    use engine::units::Nanos;

    use super::*;

    #[test]
    fn wide_gaps_are_those_of_a_plain_scan() {
        let gap = |lane: u64, at: u64| {
            let begin = at * 100;
            let end = begin + 1 + (at * 7_919 + lane * 31) % 97;
            let cause = BubbleCause::ALL[0];
            Gap { sm: (lane / 2) as u32, slot: (lane % 2) as u32, begin: Nanos(begin), end: Nanos(end), cause }
        };
        let all: Vec<Gap> = (0..6).flat_map(|lane| (0..1_000).map(move |at| gap(lane, at))).collect();
        let gaps = Gaps::new(all.clone());
        for (view, narrowest) in [(0..200_000, 0), (0..200_000, 90), (1_050..77_777, 96), (5..6, 1), (0..90_000, 500)] {
            for (sm, slot) in [(0, 0), (1, 1), (2, 1)] {
                let seen =
                    |gap: &&Gap| (gap.sm, gap.slot) == (sm, slot) && gap.end.0 > view.start && gap.begin.0 < view.end;
                let plain: Vec<Gap> = all.iter().filter(seen).filter(|gap| width(gap) >= narrowest).copied().collect();
                let mut found = Vec::new();
                gaps.wide(sm, slot, view.clone(), narrowest, |gap| found.push(*gap));
                assert_eq!(found, plain);
            }
        }
    }
}
