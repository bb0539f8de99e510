//! The order of a queue with joined packs.
//!
//! A CTA of [`DOUBLE`] computes at its own pace, whatever HBM gives, and slower beside another of its kind. So joined packs have one
//! lane of each SM, and the other streams for as long as they run. Where they are more, the next begin when the first end: with `t`
//! the time of the longest CTA and `T` that of the plan by HBM and the lanes alone,
//!
//! ```text
//! turns   ⌊0.95 · T / t⌋, one at least
//! lanes   CTAs / turns, and one an SM at least
//! place   behind what the other lanes have streamed when a lane of theirs is free: 0.9 · begin of HBM's time, and half a CTA of
//!         each, which they have begun by then
//! ```
//!
//! All others go along the tree, and those that are shared among the streams as without joined packs.
//!
//! Worked number, H200 at 64/8: 1,152 requests of which each twelfth shares 2,656 tokens and all 1,600, in 72 joined packs, so 576
//! CTAs. With as much of the streams between them as between other shared packs the run takes 918 µs; in five turns, 818.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::decision::Decision;
use crate::pack::PackInput;
use crate::plan::PlannedPack;
use crate::plan::queue::{Load, Mix, along_tree, mixed};
use crate::tile::{DOUBLE, LaneTime};
use crate::units::PackIdx;

/// The part of the plan's time in which the turns of joined packs are done.
const DONE: f64 = 0.95;
/// The part of HBM's rate that the lanes beside them draw. Over 41 trees 0.7, with which the next ones come earlier, is alike: five
/// take 1.5 to 3.5 % more, and seven 1.2 to 8.1 % less (H200).
const DRAWN: f64 = 0.9;

/// The packs in the order of the queue, with the reason where one is asked for.
pub(super) fn order(input: &PackInput<'_>, packs: &[PlannedPack], loads: &[Load]) -> (Vec<PackIdx>, Option<Decision>) {
    let is_joined = |pack: &PackIdx| packs[pack.at()].is_joined();
    let mut joined: Vec<PackIdx> = (0..packs.len()).map(PackIdx::from).filter(is_joined).collect();
    joined.sort_by_key(|pack| Reverse(packs[pack.at()].tokens));
    let mix = Mix::of(loads);
    let turns = Turns::of(input, &joined, loads, &mix);
    let mut beside = loads.to_vec();
    for pack in &joined {
        beside[pack.at()] = Load::NONE;
    }
    let mix_beside = Mix::of(&beside);
    let mut others = along_tree(input, packs, &beside, &mix_beside);
    if mix_beside.share > 0.0 {
        others = mixed(&others, &beside, &mix_beside);
    }
    others.retain(|pack| !is_joined(pack));
    let order = merged(&joined, &turns.begins(&joined, loads), &others, loads, &turns);
    (order, input.explain.then(|| turns.explain(&mix)))
}

/// How joined packs take turns.
struct Turns {
    /// CTAs of a pack, of all packs, and those that run at once.
    of_pack: u32,
    ctas: f64,
    lanes: f64,
    /// Lanes of the device.
    all: f64,
}

impl Turns {
    fn of(input: &PackInput<'_>, joined: &[PackIdx], loads: &[Load], mix: &Mix) -> Self {
        let of_pack = input.batch.shape.kv_heads;
        let ctas = joined.len() as f64 * f64::from(of_pack);
        let longest = joined.iter().map(|pack| loads[pack.at()].cta).fold(1.0, f64::max);
        let turns = (DONE * mix.together() / longest).floor().max(1.0);
        let sms = f64::from(input.device.sm_count);
        let per_sm = LaneTime::of(input.device, DOUBLE, &input.batch.shape).per_sm;
        Self { of_pack, ctas, lanes: sms.max((ctas / turns).ceil()), all: per_sm * sms }
    }

    /// When each pack begins, where its CTAs take the lanes that are free first.
    fn begins(&self, joined: &[PackIdx], loads: &[Load]) -> Vec<f64> {
        let mut free: BinaryHeap<Reverse<u64>> = (0..self.lanes as usize).map(|_| Reverse(0)).collect();
        let begin = |pack: &PackIdx| {
            let taken: Vec<u64> = (0..self.of_pack).map_while(|_| free.pop().map(|Reverse(at)| at)).collect();
            free.extend(taken.iter().map(|at| Reverse(at + loads[pack.at()].cta as u64)));
            taken.first().copied().unwrap_or(0) as f64
        };
        joined.iter().map(begin).collect()
    }

    fn explain(&self, mix: &Mix) -> Decision {
        let ways = [
            ("queue with joined packs first", self.ctas.min(self.all) / self.all),
            ("queue with joined packs in turns, streams beside them", self.ctas.min(self.lanes) / self.all),
        ];
        let rule = "as few lanes as let all joined packs take turns within the run, but one on each SM: they compute at a pace of their own while the others stream";
        mix.choice(ways, "% of the lanes compute joined packs at once", rule)
    }
}

/// Both together: a joined pack where the others have streamed for as long as until it begins.
fn merged(joined: &[PackIdx], begins: &[f64], others: &[PackIdx], loads: &[Load], turns: &Turns) -> Vec<PackIdx> {
    let of_others = |part: fn(&Load) -> f64| others.iter().map(|pack| part(&loads[pack.at()])).sum::<f64>();
    let ctas = turns.all * of_others(|load| if load.cta > 0.0 { load.lanes / load.cta } else { 0.0 });
    let begun = 0.5 * (turns.all - turns.lanes).max(0.0) * of_others(|load| load.hbm) / ctas.max(1.0);
    let mut order = Vec::with_capacity(joined.len() + others.len());
    let mut next = joined.iter().zip(begins).peekable();
    let mut streamed = 0.0;
    for other in others {
        let due = |(_, begin): &(&PackIdx, &f64)| **begin <= 0.0 || DRAWN * **begin + begun <= streamed;
        order.extend(std::iter::from_fn(|| next.next_if(due)).map(|(pack, _)| *pack));
        streamed += loads[other.at()].hbm;
        order.push(*other);
    }
    order.extend(next.map(|(pack, _)| *pack));
    order
}

#[cfg(test)]
mod tests {
    use crate::plan::LaunchPlan;
    use crate::plan::testing::with_preferred_plan;
    use crate::workload::{AttentionShape, parse_tree};

    /// The fused plan of a tree by `min-time` on an H200, and whether each pack of its queue is a joined one.
    fn planned(tree: &str, (query_heads, kv_heads): (u32, u32)) -> (LaunchPlan, Vec<bool>) {
        let shape = AttentionShape { query_heads, kv_heads, ..Default::default() };
        with_preferred_plan(&parse_tree(tree, shape).unwrap(), ("min-time", "h200-sxm"), |_, plan| {
            (plan.clone(), plan.order.iter().map(|pack| plan.pack(*pack).is_joined()).collect())
        })
    }

    #[test]
    fn joined_packs_that_have_a_lane_on_each_sm_are_all_first() {
        let (_, kinds) = planned("1,384_7776,1067", (32, 8));
        let count = kinds.iter().filter(|joined| **joined).count();
        assert!(count == 12 && kinds[..count].iter().all(|joined| *joined), "{count} {:?}", &kinds[..20]);
    }

    /// 72 packs of eight CTAs each, on 132 lanes in turns: about 17 begin, and the others when those are done.
    #[test]
    fn more_joined_packs_than_that_take_turns_with_streams_between_them() {
        let (plan, kinds) = planned("1,12,1152_1600,2656,671", (64, 8));
        assert_eq!(kinds.iter().filter(|joined| **joined).count(), 72);
        let first = kinds.iter().take_while(|joined| **joined).count();
        assert_eq!(first, 17);
        let turns = kinds.chunk_by(|a, b| a == b).filter(|run| run[0]).count();
        assert!((4..=8).contains(&turns), "{turns} turns");
        let last = kinds.iter().rposition(|joined| *joined).unwrap();
        assert!(last < kinds.len() * 7 / 8, "the last begins at {last} of {}", kinds.len());
        let mut all = plan.order.clone();
        all.sort_unstable();
        assert!(all.iter().enumerate().all(|(at, pack)| pack.at() == at));
        let told = plan.decisions.iter().find(|decision| decision.considered[0].what.contains("joined packs first"));
        assert!(told.is_some_and(|decision| decision.considered[decision.chosen].what.contains("in turns")));
    }

    /// Two turns would not be done in time, so all run at once, some with another on their SM.
    #[test]
    fn long_joined_packs_take_more_than_one_lane_of_an_sm() {
        let (_, kinds) = planned("1,384_6528,491", (64, 8));
        assert!(kinds[..24].iter().all(|joined| *joined) && !kinds[24], "{:?}", &kinds[..30]);
    }
}
