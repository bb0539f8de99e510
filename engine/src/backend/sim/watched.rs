//! Which queries of a persistent launch CTAs merge that have no more tasks, and what that takes: as `kernels/src/watch.rs` has it.
//!
//! ```text
//! several tasks a CTA   all queries that tasks do not join as they end
//! one                   those that CTAs which share them merge in one round, or in two fewer than the last task would; where
//!                       warps share the rows of every task, those of few partials too
//! ```
//!
//! Their merges are here those of the task that completes them, with the time that sharing CTAs take, and take none where tasks
//! are left: it is others' that wait for the end.

use crate::backend::sim::cost::{CostModel, MainLoop};
use crate::hw::{MergeKernel, SharedMerges};
use crate::pack::SubtreeLayout;
use crate::plan::{LaunchPlan, PlannedPack};
use crate::units::QueryIdx;

/// By so many rounds CTAs that share the merges must need fewer.
const ROUNDS_LESS: u32 = 2;
/// The first trip to L2 of such a merge, in those of a task that merges: stamps in merges that need not wait give 1.4 µs on an H200,
/// of which the ways to L2 are 0.2 each and most is code that the SM has not run before.
const FIRST_TRIP: f64 = 1.3;
/// Joining what their warps have merged of a row that takes one warp several trips, likewise: 0.35 µs by the same stamps. With both,
/// 121 plans of 32 batches of 9 to 490 µs differ from measured ones by 2.8 % around the mean of their batch, and with one trip for
/// each by 3.3.
const JOINED_BY_WATCHERS: f64 = 0.3;
/// Of tasks that begin together one may end last that by its length would do so after this part of the longest: their reads take
/// turns at HBM, and what they write waits there too. Where only a warp merges each query, to be wrong costs more, and it is nearer.
const MAY_BE_LAST: f64 = 0.7;
const ABOUT_LAST: f64 = 0.95;

/// Which queries are watched.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// Empty where none is.
    of_query: Vec<bool>,
    /// Warps of a merge.
    warps: u32,
    /// How many merges the one has that has the most.
    turns: u32,
}

impl Watched {
    pub(super) fn of(plan: &LaunchPlan, model: &CostModel<'_>) -> Self {
        let ([launch], Some(kernel)) = (&plan.launches[..], model.device.merge_kernel) else { return Self::default() };
        let ctas = 2 * model.device.sm_count;
        // A task has several KV heads, each of which has a number.
        let tasks_of = |pack| plan.shape.kv_heads.div_ceil(plan.run_of_heads(launch, pack).max(1));
        let tasks: u32 = plan.packs_of(launch).iter().map(|pack| tasks_of(*pack)).sum();
        let short = tasks < kernel.fold_tasks.unwrap_or(0).saturating_mul(ctas);
        let tall = plan.packs.iter().any(|pack| pack.tile == SubtreeLayout::TALL);
        if !launch.kind.is_persistent() || !short || tall {
            return Self::default();
        }
        let with_more =
            |than: u32| plan.merge.merged_queries().filter(move |query| plan.merge.of(*query).len() as u32 > than);
        let merging_more =
            |than: u32| SharedMerges::new(with_more(than).count() as u32 * plan.shape.kv_heads, ctas.min(tasks));
        // A task whose warps share its rows merges behind barriers, and after it has counted what arrived.
        let rows_are_shared =
            |pack: &PlannedPack| model.rows_of_warps((pack.tile, pack.heads), 1).1 > 1 && !pack.is_joined();
        let of_launch = || plan.packs_of(launch).iter().map(|pack| plan.pack(*pack));
        let at_once = tasks <= ctas && of_launch().all(rows_are_shared) && merging_more(1).warps > 1;
        let more_than = if at_once { 1 } else { kernel.fold };
        if plan.merge.max_partials() <= more_than {
            return Self::default();
        }
        let pack_of_slot = plan.packs_of_slots();
        let packs = |query: QueryIdx| plan.merge.of(query).iter().map(|slot| plan.pack(pack_of_slot[*slot as usize]));
        let merging = merging_more(more_than);
        let about_last = if merging.warps > 1 { MAY_BE_LAST } else { ABOUT_LAST };
        let mut of_query = vec![false; plan.merge.starts.len()];
        for query in with_more(more_than) {
            let partials = plan.merge.of(query).len() as u32;
            let latest = packs(query).map(length).fold(0.0, f64::max);
            let watchers = model.rounds_of_watchers(&kernel, partials, merging.warps);
            let gains = |pack: &PlannedPack| {
                let own = model.rounds_of_last(&kernel, pack, partials);
                let sooner = own >= watchers + ROUNDS_LESS || (merging.warps > 1 && watchers == 1);
                length(pack) >= about_last * latest && sooner
            };
            of_query[query.at()] = tasks > ctas || packs(query).any(gains);
        }
        let watched = of_query.iter().filter(|watched| **watched).count() as u32 * plan.shape.kv_heads;
        Self { of_query, warps: merging.warps, turns: merging.turns(watched) }
    }

    pub(super) fn has(&self, query: QueryIdx) -> bool {
        self.of_query.get(query.at()).copied().unwrap_or(false)
    }

    /// The merge of a query of so many partials, from the end of the last task on. Such tasks count no partials, but all are
    /// given the time for it ([`CostModel::worker_epilogue`]): it is what passes here until others see what the last one wrote.
    pub(super) fn merge(&self, model: &CostModel<'_>, partials: u32) -> Option<MainLoop> {
        let kernel = model.device.merge_kernel?;
        let more = model.rounds_of_watchers(&kernel, partials, self.warps) * self.turns.max(1) - 1;
        let groups = model.shape.group().div_ceil(kernel.heads.max(1)).max(1);
        let parts = groups < self.warps && kernel.worker_trips(partials, model.shape.head_dim) > 1;
        let trips = FIRST_TRIP + f64::from(more) + if parts { JOINED_BY_WATCHERS } else { 0.0 };
        Some(model.merge_in_trips(partials, trips))
    }
}

/// How long a CTA of a pack takes, for telling which of them ends last: ns on an H200, by what a token takes its tile.
fn length(pack: &PlannedPack) -> f64 {
    let of_token = match pack.tile.m {
        _ if pack.heads > 1 => 50.0,
        _ if pack.is_joined() => 36.0,
        64 => 20.0,
        32 => 16.0,
        _ => 12.0,
    };
    of_token * pack.tokens.as_f64()
}

impl CostModel<'_> {
    /// In how many rounds a pack that is the last of its queries merges them.
    fn rounds_of_last(&self, kernel: &MergeKernel, pack: &PlannedPack, partials: u32) -> u32 {
        let (rows, warps) = self.rows_of_warps((pack.tile, pack.heads), pack.queries_len * self.shape.group());
        kernel.rounds(rows, warps, partials, self.shape.head_dim)
    }

    fn rounds_of_watchers(&self, kernel: &MergeKernel, partials: u32, warps: u32) -> u32 {
        kernel.rounds(self.shape.group(), warps, partials, self.shape.head_dim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing::with_fused_plan;
    use crate::workload::{AttentionShape, parse_tree};

    /// How many queries of a tree are watched under `pat`, and the most partials of one.
    fn watched(tree: &str, query_heads: u32, kv_heads: u32, device: &str) -> (usize, u32) {
        watched_under("pat", tree, (query_heads, kv_heads), device)
    }

    fn watched_under(scheduler: &str, tree: &str, (query_heads, kv_heads): (u32, u32), device: &str) -> (usize, u32) {
        let shape = AttentionShape { query_heads, kv_heads, ..AttentionShape::default() };
        with_fused_plan(&parse_tree(tree, shape).unwrap(), (scheduler, device), |input, plan| {
            let model = CostModel { device: input.device, shape: &plan.shape };
            let watched = Watched::of(plan, &model);
            (watched.of_query.iter().filter(|watched| **watched).count(), plan.merge.max_partials())
        })
    }

    #[test]
    fn queries_of_many_partials_are_watched_in_short_queues_of_devices_whose_kernels_are_known() {
        let (queries, partials) = watched("1,32_16384,128", 32, 8, "h200-sxm");
        assert!(queries == 32 && partials > 4, "{queries} with {partials}");
        assert_eq!(watched("1,8_8192,512", 32, 8, "h200-sxm"), (8, 8), "packs of 0.91 of their leaves may be last");
        assert_eq!(watched("1,8_8192,832", 32, 8, "h200-sxm"), (8, 7), "leaves end last, but others need one round");
        assert_eq!(watched("1,40_8192,832", 32, 8, "h200-sxm").0, 0, "where a warp has each, two as a leaf does");
        assert_eq!(watched("1,512_2048,256", 32, 8, "h200-sxm").0, 0, "few partials");
        assert_eq!(watched("1,1000_16384,128", 64, 32, "h200-sxm").0, 0, "a long queue");
        assert_eq!(watched("1,32_16384,128", 32, 8, "h100-sxm-pat").0, 0, "no kernel of ours is in its table");
    }

    #[test]
    fn where_warps_share_the_rows_of_all_tasks_few_partials_are_watched_too() {
        let alone = |tree: &str, device: &str| watched_under("flashinfer-decode", tree, (32, 8), device);
        assert_eq!(alone("4_1024", "h200-sxm"), (4, 4));
        assert_eq!(alone("4_1024", "h100-sxm-pat").0, 0, "no kernel of ours is in its table");
        assert_eq!(alone("64_1024", "h200-sxm"), (0, 1), "nothing to merge");
    }

    #[test]
    fn rounds_are_those_of_the_kernels() {
        let shape = AttentionShape { query_heads: 28, kv_heads: 4, ..AttentionShape::default() };
        let device = crate::hw::find("h200-sxm").unwrap();
        let (model, kernel) = (CostModel { device, shape: &shape }, device.merge_kernel.unwrap());
        assert_eq!(kernel.rounds(16, 1, 17, 128), 12);
        assert_eq!(kernel.rounds(21, 1, 11, 128), 12);
        assert_eq!(model.rounds_of_watchers(&kernel, 25, 4), 3, "two warps for each four rows");
        assert_eq!(model.rounds_of_watchers(&kernel, 25, 1), 10);
    }

    /// Four warps share the partials of a row, so what a round takes hardly depends on how many there are.
    #[test]
    fn a_round_of_more_partials_takes_little_longer_and_a_second_round_a_trip() {
        let shape = AttentionShape { query_heads: 32, kv_heads: 8, ..AttentionShape::default() };
        let model = CostModel { device: crate::hw::find("h200-sxm").unwrap(), shape: &shape };
        let watched = Watched { warps: 4, turns: 1, ..Watched::default() };
        let [six, seven, last_of_one, first_of_two] =
            [6, 7, 24, 25].map(|partials| watched.merge(&model, partials).unwrap().time);
        let trip = model.device.worker_merge_trip().as_f64();
        assert!(six < seven && seven - six < 0.5 * trip, "{six} {seven}");
        assert!((last_of_one - seven).abs() < 1e-6 && first_of_two - last_of_one > 0.9 * trip, "{first_of_two}");
    }
}
