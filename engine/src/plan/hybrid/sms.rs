//! How many SMs prefill gets under `spatial`, and decode the others.
//!
//! ```text
//! prefill(k)   its items, in the order of the queue, each on the CTA of k that is free first
//! decode(s)    max(bytes / HBM, its tasks likewise on the lanes of s SMs)
//! k            the least max(prefill(k), decode(SMs − k)); of equals the smallest
//! ```
//!
//! A few dozen SMs saturate HBM, so decode loses nothing with the others gone until k is large; prefill gains
//! by each SM, in steps where items are few and long.
//!
//! Worked number, C1 on the H200 (16/4 heads, a chunk of 12,288, 220 decodes of 12,288): 1,536 items of 74 µs in
//! the mean take 1.38 ms on 83 SMs; 220 decode tasks of 0.62 ms on two lanes an SM take three rounds on 49 SMs,
//! 1.86 ms, and two on 55, so 77 are left.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::decision::{Choice, Decision, Price};
use crate::hw::Device;
use crate::pack::PackInput;
use crate::plan::hybrid::explain::{decision, timed, ways};
use crate::plan::hybrid::kernels::Grid;
use crate::plan::{LaunchPlan, PrefillPlan};
use crate::tile::{LaneTime, Tile};

/// Items an SM from which how they fall on the SMs no longer matters.
const MANY: usize = 24;

/// Times by which the SMs are shared, ns.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    sms: u32,
    /// Times of the prefill items in the order of the queue.
    items: Vec<f64>,
    /// Time of HBM for all decodes.
    hbm: f64,
    /// Times of the decode tasks in the order of their queue, and lanes of an SM.
    tasks: Vec<f64>,
    lanes: u32,
}

impl Shares {
    /// Of a plan whose packs have their tiles, times of prefill [`items`], and `unique` bytes of decode KV.
    pub(super) fn of(device: &Device, plan: &LaunchPlan, items: Vec<f64>, unique: f64) -> Self {
        let of_tile = |(tile, _): (Tile, u32)| (tile, LaneTime::of(device, tile, &plan.shape));
        let times: Vec<(Tile, LaneTime)> = plan.tiles().into_iter().map(of_tile).collect();
        // Workers hold every tile of the plan.
        let per_sm = times.iter().map(|(_, time)| time.per_sm).fold(f64::INFINITY, f64::min).clamp(1.0, 64.0);
        let mut tasks = Vec::with_capacity(plan.order.len());
        for pack in plan.order.iter().map(|pack| plan.pack(*pack)) {
            let Some((_, time)) = times.iter().find(|(tile, _)| *tile == pack.tile) else { continue };
            let ctas = plan.shape.kv_heads.div_ceil(time.heads) as usize;
            tasks.extend(std::iter::repeat_n(time.cta(pack.tokens.as_f64(), per_sm), ctas));
        }
        Self {
            sms: device.sm_count,
            items,
            hbm: unique / (device.reachable_bytes_per_s() * 1e-9),
            tasks,
            lanes: per_sm as u32,
        }
    }

    /// Prefill on `k` SMs.
    fn prefill(&self, k: u32) -> f64 {
        one_after_another(&self.items, k)
    }

    /// Decode on `sms` SMs.
    fn decode(&self, sms: u32) -> f64 {
        self.hbm.max(one_after_another(&self.tasks, sms.max(1) * self.lanes))
    }

    fn time(&self, k: u32) -> f64 {
        self.prefill(k).max(self.decode(self.sms - k))
    }

    /// SMs of prefill, at least one and not all, with the reason. A device of one SM has none to share, and
    /// both get it.
    pub(super) fn choose(&self) -> (u32, Decision) {
        let times = (1..self.sms.max(2)).map(|k| (k, self.time(k)));
        let k = times.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(1, |best| best.0);
        (k, self.explain(k))
    }

    fn explain(&self, k: u32) -> Decision {
        let way = |k: u32| {
            let what = format!("prefill on {k} SMs, decode on {}", self.sms.saturating_sub(k));
            timed(what, Price::run(self.time(k)))
        };
        let quarters = [1, 2, 3].map(|part| self.sms * part / 4);
        let open = quarters.into_iter().chain([k.saturating_sub(1), k + 1]).filter(|k| (1..self.sms).contains(k));
        let rule = "the number of SMs at which the longer of prefill there and decode on the others is shortest";
        decision(Choice::Fusion, ways(open, k, way), rule, None)
    }
}

/// When the last of `items` ends, each on the lane that is free first.
pub(super) fn one_after_another(items: &[f64], lanes: u32) -> f64 {
    if items.len() > MANY * lanes as usize {
        let (all, longest) = items.iter().fold((0.0, 0.0_f64), |(all, most), item| (all + item, most.max(*item)));
        return (all / f64::from(lanes)).max(longest) + longest / 2.0;
    }
    let mut free: BinaryHeap<Reverse<u64>> = (0..lanes).map(|_| Reverse(0)).collect();
    let mut end = 0;
    for item in items {
        let begin = free.pop().map_or(0, |Reverse(at)| at);
        let done = begin + *item as u64;
        end = end.max(done);
        free.push(Reverse(done));
    }
    end as f64
}

/// Times of the prefill items in the order of the queue.
pub(super) fn items(input: &PackInput<'_>, prefill: &PrefillPlan, grid: Grid) -> Vec<f64> {
    let (device, shape) = (input.device, &input.batch.shape);
    let Some(kernels) = &device.prefill_kernel else { return Vec::new() };
    let time = |task: &crate::plan::PrefillTask| {
        let kernel = kernels.of_tile(task.tile).unwrap_or(&kernels.full);
        kernel.item_ns(device, shape, task.tokens().0)
    };
    let heads = if grid == Grid::FoldedQueue { shape.kv_heads } else { shape.query_heads };
    in_queue_order(prefill.tasks.iter().map(time).collect(), shape.kv_heads, heads)
}

/// Items of one head for all of `heads`, which are those of so many KV heads, or their query heads: KV head by KV head, in
/// each the longest first.
pub(super) fn in_queue_order(mut of_head: Vec<f64>, kv_heads: u32, heads: u32) -> Vec<f64> {
    of_head.sort_by(|a, b| b.total_cmp(a));
    let of_each = (heads / kv_heads.max(1)) as usize;
    let of_kv_head: Vec<f64> = of_head.iter().flat_map(|time| std::iter::repeat_n(*time, of_each)).collect();
    (0..kv_heads).flat_map(|_| of_kv_head.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_follows_what_is_longer() {
        let shares =
            |items: usize, hbm: f64| Shares { sms: 132, items: vec![1e5; items], hbm, tasks: vec![1e4; 264], lanes: 2 };
        let k = |items, hbm| shares(items, hbm).choose().0;
        assert_eq!(k(100, 1e3), 100, "one wave of items, and five rounds of short decodes on 32 SMs");
        assert!(k(2000, 1e3) > 120);
        assert!(k(100, 1e7) < 5, "where decode is long, a few SMs are enough");
    }

    #[test]
    fn the_decision_has_the_least_time() {
        let shares = Shares {
            sms: 132,
            items: (0..500).map(|at| 1e4 + 37.0 * f64::from(at)).collect(),
            hbm: 2e4,
            tasks: vec![8e3; 500],
            lanes: 2,
        };
        let (k, decision) = shares.choose();
        let least = (1..132).map(|k| shares.time(k)).fold(f64::INFINITY, f64::min);
        assert!((shares.time(k) - least).abs() < 1e-9);
        let taken = decision.taken().unwrap();
        assert!(taken.what.contains(&format!("on {k} SMs")) && (taken.price.amount - least).abs() < 1e-6);
    }
}
