//! The kernel that merges partials, and what a persistent worker merges likewise or joins to its own rows.

use serde::{Deserialize, Serialize};

/// Warps of a persistent worker that compute, and merge.
pub const WARPS_OF_WORKER: u32 = 4;

/// How workers that have no more tasks share merges: all warps of one take a merge, or where there are more merges than
/// workers, a warp each.
#[derive(Clone, Copy, Debug)]
pub struct SharedMerges {
    workers: u32,
    /// Warps of a merge.
    pub warps: u32,
}

impl SharedMerges {
    /// So many merges on so many workers.
    pub fn new(merges: u32, workers: u32) -> Self {
        Self { workers, warps: if merges <= workers { WARPS_OF_WORKER } else { 1 } }
    }

    /// Merges one after another where there are so many of them.
    pub fn turns(&self, merges: u32) -> u32 {
        merges.div_ceil((self.workers * (WARPS_OF_WORKER / self.warps)).max(1))
    }
}

/// The kernel that merges the partials of a query, one CTA a query: a warp merges `heads` query heads at once and keeps
/// `rows` rows of partials outstanding, half as many at head dimension 256. A persistent worker merges likewise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MergeKernel {
    /// Warps of the CTA.
    pub warps: u32,
    /// Registers of one thread.
    pub registers: u32,
    /// The same at head dimension 64.
    #[serde(default)]
    pub registers_d64: Option<u32>,
    /// Query heads that a warp merges at once.
    pub heads: u32,
    /// Rows, one of a head of a partial, that a warp keeps outstanding.
    pub rows: u32,
    /// The same of a warp of a persistent worker, where it is another number.
    #[serde(default)]
    pub worker_rows: Option<u32>,
    /// A task of a persistent kernel joins the other partials of a query that it completes to its own rows, where there are
    /// at most so many in all.
    pub fold: u32,
    /// Tasks per worker of a launch from which on they look for them as they begin, and not as they end.
    #[serde(default)]
    pub fold_tasks: Option<u32>,
}

/// The partials that tasks of a persistent launch join to their own rows: those that are complete in time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Folds {
    most: u32,
    as_begun: bool,
}

impl Folds {
    /// Whether a task of `heads` KV heads joins the others of a query with so many `partials`, which are complete at
    /// `arrived`, where it began and was done with its tiles at `begin` and `loop_end`. Tasks of one head do not look
    /// as they end.
    pub fn joins(self, partials: u32, heads: u32, arrived: f64, (begin, loop_end): (f64, f64)) -> bool {
        let in_time = if self.as_begun { arrived <= begin } else { heads > 1 && arrived <= loop_end };
        partials <= self.most && in_time
    }
}

impl MergeKernel {
    /// What tasks join where each of `workers` has its share of `tasks`.
    pub fn folds(&self, tasks: u32, workers: u32) -> Folds {
        Folds { most: self.fold, as_begun: tasks >= self.fold_tasks.unwrap_or(0).saturating_mul(workers) }
    }

    /// Trips to memory, one after another, in which a warp merges `partials` partials of the heads that it takes at once.
    pub fn trips(&self, partials: u32, head_dim: u32) -> u32 {
        partials.div_ceil(self.at_once(self.rows, head_dim))
    }

    /// Trips of a CTA of the merge kernel, for `partials` partials of each of `heads` query heads.
    pub fn trips_of_row(&self, partials: u32, heads: u32, head_dim: u32) -> u32 {
        let rounds = heads.div_ceil((self.heads * self.warps).max(1));
        let parts = self.parts(self.trips(partials, head_dim), heads, self.warps);
        rounds * self.trips(partials.div_ceil(parts), head_dim)
    }

    /// As [`Self::trips`], in a persistent worker.
    pub fn worker_trips(&self, partials: u32, head_dim: u32) -> u32 {
        partials.div_ceil(self.at_once(self.worker_rows.unwrap_or(self.rows), head_dim))
    }

    /// Parts of the partials of each head that warps merge side by side where `heads` heads leave some of `warps` without
    /// any, and more than one trip is to be made; 1 elsewhere.
    pub fn parts(&self, trips: u32, heads: u32, warps: u32) -> u32 {
        let busy = heads.div_ceil(self.heads.max(1)).max(1);
        if trips > 1 { (warps / busy).max(1) } else { 1 }
    }

    /// Trips in which `warps` warps of a persistent worker merge `rows` rows of so many partials each; those that have few rows
    /// share the partials of each.
    pub fn rounds(&self, rows: u32, warps: u32, partials: u32, head_dim: u32) -> u32 {
        let groups = rows.div_ceil(self.heads.max(1)).max(1);
        groups.div_ceil(warps) * self.worker_trips(partials.div_ceil((warps / groups).max(1)), head_dim)
    }

    /// Partials of a head that a warp asks for at once.
    fn at_once(&self, rows: u32, head_dim: u32) -> u32 {
        let rows = if head_dim > 128 { rows / 2 } else { rows };
        (rows / self.heads.max(1)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use crate::hw;

    #[test]
    fn tasks_join_few_partials_that_are_there_as_they_begin_or_in_a_short_queue_as_they_end() {
        let kernel = hw::find("h200-sxm").unwrap().merge_kernel.unwrap();
        let (short, long) = (kernel.folds(100, 264), kernel.folds(10_000, 264));
        let at_work = (10.0, 20.0);
        for (heads, arrived, [in_short, in_long]) in
            [(4, 9.0, [true, true]), (4, 15.0, [true, false]), (4, 21.0, [false, false]), (1, 9.0, [false, true])]
        {
            assert_eq!(short.joins(2, heads, arrived, at_work), in_short, "short, {heads} heads, {arrived}");
            assert_eq!(long.joins(2, heads, arrived, at_work), in_long, "long, {heads} heads, {arrived}");
        }
        assert!(!short.joins(kernel.fold + 1, 4, 9.0, at_work) && !long.joins(kernel.fold + 1, 4, 9.0, at_work));
    }

    #[test]
    fn warps_without_heads_of_their_own_share_the_partials_of_others() {
        let kernel = hw::find("h200-sxm").unwrap().merge_kernel.unwrap();
        let parts = |heads, warps| kernel.parts(2, heads, warps);
        assert_eq!([1, 4, 5, 8, 9, 12, 16, 17, 32, 64].map(|heads| parts(heads, 8)), [8, 8, 4, 4, 2, 2, 2, 1, 1, 1]);
        assert_eq!([4, 8, 12, 16].map(|heads| parts(heads, 4)), [4, 2, 1, 1]);
        assert_eq!(kernel.parts(1, 4, 8), 1, "one trip has nothing to share");
    }
}
