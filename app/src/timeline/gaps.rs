//! Gaps of a run as columns, with a pyramid of their lengths and running totals by cause, so that a frame visits only
//! what it can draw and a range costs a few searches a lane. A gap takes 18 bytes.

use std::ops::Range;

use engine::metrics::{BubbleCause, Gap};
use engine::units::Nanos;

/// Children of a summary.
const FAN: usize = 16;
/// Gaps between two running totals.
const TOTALLED: usize = 64;

/// Nanoseconds by cause, in the order of [`BubbleCause::ALL`].
pub type ByCause = [u64; BubbleCause::ALL.len()];

/// Every gap of a run by SM, slot and begin; gaps of a lane do not overlap.
#[derive(Clone, Debug, Default)]
pub struct Gaps {
    begin: Vec<u64>,
    end: Vec<u64>,
    cause: Vec<BubbleCause>,
    /// SM, slot and first gap of each lane that has some.
    lanes: Vec<(u32, u32, usize)>,
    /// Longest gap of each run of 16, of each run of 256, and so on.
    levels: Vec<Vec<u64>>,
    /// Idle time by cause before each run of 64 gaps.
    before: Vec<ByCause>,
}

impl FromIterator<Gap> for Gaps {
    /// Takes gaps that are sorted by SM, slot and begin.
    fn from_iter<T: IntoIterator<Item = Gap>>(all: T) -> Self {
        let mut gaps = Self::default();
        all.into_iter().for_each(|gap| gaps.push(gap));
        gaps.index();
        gaps
    }
}

impl Gaps {
    /// Adds the next gap; [`Self::index`] comes after the last one.
    pub fn push(&mut self, gap: Gap) {
        if self.lanes.last().is_none_or(|(sm, slot, _)| (*sm, *slot) != (gap.sm, gap.slot)) {
            self.lanes.push((gap.sm, gap.slot, self.len()));
        }
        self.begin.push(gap.begin.0);
        self.end.push(gap.end.0);
        self.cause.push(gap.cause);
    }

    /// Makes pyramid and totals, and gives back what the columns have to spare.
    pub fn index(&mut self) {
        self.begin.shrink_to_fit();
        self.end.shrink_to_fit();
        self.cause.shrink_to_fit();
        let longest = |chunk: &[u64]| chunk.iter().copied().max().unwrap_or(0);
        let starts = (0..self.len()).step_by(FAN);
        let lengths = |first: usize| (first..(first + FAN).min(self.len())).map(|at| self.length(at));
        let mut below: Vec<u64> = starts.map(|first| lengths(first).max().unwrap_or(0)).collect();
        self.levels.clear();
        while below.len() > 1 {
            let above = below.chunks(FAN).map(longest).collect();
            self.levels.push(std::mem::replace(&mut below, above));
        }
        let mut sum = ByCause::default();
        self.before = Vec::with_capacity(self.len() / TOTALLED + 1);
        for at in 0..self.len() {
            if at.is_multiple_of(TOTALLED) {
                self.before.push(sum);
            }
            sum[self.cause[at] as usize] += self.length(at);
        }
    }

    fn length(&self, at: usize) -> u64 {
        self.end[at].saturating_sub(self.begin[at])
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.begin.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.begin.is_empty()
    }

    /// One of them.
    pub fn get(&self, at: usize) -> Option<Gap> {
        let (begin, end, cause) = (*self.begin.get(at)?, *self.end.get(at)?, *self.cause.get(at)?);
        let lane = self.lanes.partition_point(|(_, _, first)| *first <= at).checked_sub(1)?;
        let (sm, slot, _) = self.lanes[lane];
        Some(Gap { sm, slot, begin: Nanos(begin), end: Nanos(end), cause })
    }

    /// All of them in order.
    pub fn iter(&self) -> impl Iterator<Item = Gap> + '_ {
        (0..self.len()).filter_map(|at| self.get(at))
    }

    /// Positions by length, of all or of one cause, longest first: at most `most` of them.
    pub fn longest(&self, cause: Option<BubbleCause>, most: usize) -> Vec<usize> {
        let mut all: Vec<usize> =
            (0..self.len()).filter(|at| cause.is_none_or(|cause| self.cause[*at] == cause)).collect();
        let by_length = |at: &usize| (std::cmp::Reverse(self.length(*at)), *at);
        if most > 0 && most < all.len() {
            all.select_nth_unstable_by_key(most - 1, by_length);
        }
        all.truncate(most);
        all.sort_unstable_by_key(by_length);
        all
    }

    /// Gaps of the lane at this place of `lanes`.
    fn of_lane(&self, place: usize) -> Range<usize> {
        let first = |at: usize| self.lanes.get(at).map_or(self.len(), |(_, _, first)| *first);
        first(place)..first(place + 1)
    }

    fn lane(&self, sm: u32, slot: u32) -> Range<usize> {
        let found = self.lanes.binary_search_by_key(&(sm, slot), |(sm, slot, _)| (*sm, *slot));
        found.map_or(0..0, |place| self.of_lane(place))
    }

    /// Those of a run of gaps that lie in a range of time.
    fn inside(&self, lane: Range<usize>, range: &Range<u64>) -> Range<usize> {
        let first = self.end[lane.clone()].partition_point(|end| *end <= range.start);
        let last = self.begin[lane.clone()].partition_point(|begin| *begin < range.end);
        lane.start + first..lane.start + last
    }

    /// The gap of a lane at a time.
    pub fn at(&self, sm: u32, slot: u32, time: u64) -> Option<usize> {
        let found = self.inside(self.lane(sm, slot), &(time..time.saturating_add(1)));
        found.into_iter().next()
    }

    /// Idle time before a gap, over all gaps before it.
    fn total(&self, at: usize) -> ByCause {
        let chunk = (at / TOTALLED).min(self.before.len().saturating_sub(1));
        let mut sum = self.before.get(chunk).copied().unwrap_or_default();
        for at in chunk * TOTALLED..at {
            sum[self.cause[at] as usize] += self.length(at);
        }
        sum
    }

    /// Idle time by cause within a range of time, over all lanes.
    pub fn within(&self, range: Range<u64>) -> ByCause {
        let mut all = ByCause::default();
        for place in 0..self.lanes.len() {
            let found = self.inside(self.of_lane(place), &range);
            if found.is_empty() {
                continue;
            }
            let (from, to) = (self.total(found.start), self.total(found.end));
            for (all, (to, from)) in all.iter_mut().zip(to.into_iter().zip(from)) {
                *all += to - from;
            }
            // What of the first and the last lies outside.
            all[self.cause[found.start] as usize] -= range.start.saturating_sub(self.begin[found.start]);
            all[self.cause[found.end - 1] as usize] -= self.end[found.end - 1].saturating_sub(range.end);
        }
        all
    }

    /// Calls `emit` with each gap of a lane in `view` that is at least `narrowest` wide, in order.
    ///
    /// Runs without one are passed whole: the cost is that of what is drawn, times a logarithm.
    pub fn wide(&self, sm: u32, slot: u32, view: Range<u64>, narrowest: u64, mut emit: impl FnMut(&Gap)) {
        let found = self.inside(self.lane(sm, slot), &view);
        let (mut at, last) = (found.start, found.end);
        while at < last {
            let mut step = 1;
            for level in &self.levels {
                let length = step * FAN;
                if !at.is_multiple_of(length) || level[at / length] >= narrowest {
                    break;
                }
                step = length;
            }
            if step == 1 && self.length(at) >= narrowest {
                let (begin, end) = (Nanos(self.begin[at]), Nanos(self.end[at]));
                emit(&Gap { sm, slot, begin, end, cause: self.cause[at] });
            }
            at += step;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn many() -> Vec<Gap> {
        let gap = |lane: u64, at: u64| {
            let begin = at * 100;
            let end = begin + 1 + (at * 7_919 + lane * 31) % 97;
            let cause = BubbleCause::ALL[(at * 5 + lane) as usize % BubbleCause::ALL.len()];
            Gap { sm: (lane / 2) as u32, slot: (lane % 2) as u32, begin: Nanos(begin), end: Nanos(end), cause }
        };
        (0..6).flat_map(|lane| (0..1_000).map(move |at| gap(lane, at))).collect()
    }

    const VIEWS: [(Range<u64>, u64); 6] =
        [(0..200_000, 0), (0..200_000, 90), (1_050..77_777, 96), (5..6, 1), (0..90_000, 500), (40..40, 0)];

    #[test]
    fn wide_gaps_are_those_of_a_plain_scan() {
        let all = many();
        let gaps: Gaps = all.iter().copied().collect();
        assert_eq!((gaps.len(), gaps.iter().collect::<Vec<_>>()), (all.len(), all.clone()));
        for (view, narrowest) in VIEWS {
            for (sm, slot) in [(0, 0), (1, 1), (2, 1), (3, 0)] {
                let seen =
                    |gap: &&Gap| (gap.sm, gap.slot) == (sm, slot) && gap.end.0 > view.start && gap.begin.0 < view.end;
                let plain: Vec<Gap> =
                    all.iter().filter(seen).filter(|gap| gap.length().0 >= narrowest).copied().collect();
                let mut found = Vec::new();
                gaps.wide(sm, slot, view.clone(), narrowest, |gap| found.push(*gap));
                assert_eq!(found, plain);
            }
        }
    }

    #[test]
    fn a_range_has_the_idle_time_of_a_plain_sum() {
        let all = many();
        let gaps: Gaps = all.iter().copied().collect();
        for (range, _) in VIEWS {
            let mut plain = ByCause::default();
            for gap in &all {
                let (from, to) = (gap.begin.0.max(range.start), gap.end.0.min(range.end));
                plain[gap.cause as usize] += to.saturating_sub(from);
            }
            assert_eq!(gaps.within(range.clone()), plain, "{range:?}");
        }
    }

    #[test]
    fn the_longest_come_first_and_are_found_by_place_and_time() {
        let all = many();
        let gaps: Gaps = all.iter().copied().collect();
        let longest = gaps.longest(None, 40);
        let lengths: Vec<u64> = longest.iter().map(|at| all[*at].length().0).collect();
        assert!(lengths.len() == 40 && lengths.is_sorted_by(|a, b| a >= b));
        assert_eq!(lengths[0], all.iter().map(|gap| gap.length().0).max().unwrap());
        let tail = gaps.longest(Some(BubbleCause::TailImbalance), 5);
        assert!(tail.len() == 5 && tail.iter().all(|at| all[*at].cause == BubbleCause::TailImbalance));
        for at in [0, 999, 1_000, 4_321] {
            let gap = all[at];
            assert_eq!(gaps.at(gap.sm, gap.slot, gap.begin.0), Some(at));
            assert_ne!(gaps.at(gap.sm, gap.slot, gap.end.0), Some(at));
        }
    }
}
