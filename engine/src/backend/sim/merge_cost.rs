//! What merges cost: in a kernel of their own, as a system prescribes them, and in a persistent worker.
//!
//! ```text
//! kernel    ⌈query heads / (heads of a warp · warps)⌉ rounds of ⌈partials / those asked for at once⌉ trips; where there are
//!           heads for few warps, several share the partials of each
//! worker    a warp merges the 16 rows that it computes of several heads, or of a tile of 64 rows, there with the other
//!           rows of their queries; the four that share the rows of a smaller tile merge all of them
//! ```

use crate::backend::sim::cost::{CostModel, MainLoop, Waits};
use crate::hw::{Folds, WARPS_OF_WORKER};
use crate::plan::MergeRound;
use crate::tile::{CtaShape, DOUBLE, MERGE_IN_FLIGHT, Tile};
use crate::units::{Bytes, Nanos};
use crate::workload::PartialForm;

/// A merge kernel that the device table does not know: warps and registers of a CTA.
const MERGE_WARPS: u32 = 4;
const MERGE_REGISTERS: u32 = 64;

/// The part of its time by which a CTA may end later than its like, for telling who may come last and merge. Loops of like CTAs
/// take 7 to 20 % more or less than their median on an H100; but of 207 cuts of 16 trees those that are best by 0.02 to 0.04
/// take 1.5 to 1.8 % more than the fastest, by 0.05 to 0.08 1.6 to 2.0, and by none 2.5. Leaves of one KV head that end 3 and 5 %
/// after shared packs came before one of them on an H200, which merged for all its requests: 25 and 30 µs instead of 16 and 22.
pub(super) const SPREAD: f64 = 0.07;

/// What HBM answers later than L2, ns: a row of 2,856 partials over 28 heads took 764 ns a trip on an H200, and one of 60 over
/// 40 heads 510.
const BEYOND_L2: f64 = 250.0;

/// Rows that a warp computes by itself.
const ROWS_OF_WARP: u32 = 16;

/// The most rows that a warp of a tile of 64 merges: those of the queries that its own rows belong to, and a query that
/// lies in two warps is merged whole by the last of them.
///
/// Worked number: of groups of 7 a warp has rows of three queries, so it may merge 21; of groups of 4, its own 16.
fn merged_by_a_warp(group: u32) -> u32 {
    // Queries of which the tile holds all rows, and of these the ones with rows in a warp.
    let whole = (WARPS_OF_WORKER * ROWS_OF_WARP / group).max(1);
    let queries = |warp: u32| {
        let (first, past) = (warp * ROWS_OF_WARP / group, ((warp + 1) * ROWS_OF_WARP - 1) / group + 1);
        past.min(whole).saturating_sub(first)
    };
    (0..WARPS_OF_WORKER).map(|warp| queries(warp) * group).max().unwrap_or(ROWS_OF_WARP)
}

/// What a worker takes to join what its warps have merged of a row, in trips to L2: of 32, 64 and 128 partials of 8 rows an
/// H200 takes 0.8, 2.2 and 5.8 µs less where two warps merge each than where one does.
const JOINED_PARTS: f64 = 1.0;

/// Whether a tile has room for what one of its warps has merged: in the place of the weights that its warps exchange. Three
/// CTAs on an SM, as at head dimension 64, leave no registers for it beside 32 rows.
fn has_room_for_parts(tile: Tile, head_dim: u32) -> bool {
    let (floats_of_lane, weights) = (head_dim / 8 + 2, tile.m * (tile.n + 8));
    weights * 2 >= floats_of_lane * 32 * 4 && (tile.m <= ROWS_OF_WARP || head_dim > 64)
}

impl CostModel<'_> {
    /// The partials that tasks of a persistent launch join, where each of `workers` has its share of `tasks`.
    pub(super) fn folds(&self, tasks: u32, workers: u32) -> Folds {
        self.device.merge_kernel.map(|kernel| kernel.folds(tasks, workers)).unwrap_or_default()
    }

    /// What a CTA of the merge kernel takes.
    pub(super) fn merge_kernel_cta(&self) -> CtaShape {
        let (registers, warps) = self.device.merge_kernel.map_or((MERGE_REGISTERS, MERGE_WARPS), |kernel| {
            (kernel.registers_d64.filter(|_| self.shape.head_dim <= 64).unwrap_or(kernel.registers), kernel.warps)
        });
        CtaShape { warps, registers, shared: Bytes(0) }
    }

    /// A merge CTA: one query over all query heads, of whose partials the fraction `hit` is found in L2.
    pub(super) fn merge_cta(&self, partials: u32, hit: f64) -> MainLoop {
        let loaded = self.shape.partial_bytes().as_f64() * f64::from(partials);
        let trips = (self.trips(partials, loaded), self.merge_trip(hit));
        Self::merging(loaded, self.shape.query_bytes(), trips, hit)
    }

    /// Trips to memory of a CTA that merges one query over all query heads: `loaded` bytes.
    fn trips(&self, partials: u32, loaded: f64) -> f64 {
        let (heads, head_dim) = (self.shape.query_heads, self.shape.head_dim);
        let of_kernel = self.device.merge_kernel.map(|kernel| kernel.trips_of_row(partials, heads, head_dim));
        of_kernel.map_or(loaded / MERGE_IN_FLIGHT, f64::from)
    }

    /// A CTA of a prescribed merge: one row, of whose partials the fraction `hit` is found in L2.
    pub(super) fn round_cta(&self, round: &MergeRound, row: usize, hit: f64) -> MainLoop {
        let partials = round.row(row).len();
        let loaded = self.shape.partial_bytes_as(round.reads).as_f64() * partials as f64;
        let finishes = round.finishes[row];
        let written = if finishes { self.shape.query_bytes() } else { self.shape.partial_bytes_as(round.writes) };
        Self::merging(loaded, written, (self.trips(partials as u32, loaded), self.merge_trip(hit)), hit)
    }

    /// One trip to memory of the merge kernel, of whose partials the fraction `hit` is found in L2.
    fn merge_trip(&self, hit: f64) -> Nanos {
        Nanos((self.device.merge_trip().as_f64() + (1.0 - hit) * BEYOND_L2).round() as u64)
    }

    /// `loaded` bytes of partials in so many trips to memory, one after another. The fraction `hit` of them waits for L2 alone.
    fn merging(loaded: f64, written: Bytes, (trips, trip): (f64, Nanos), hit: f64) -> MainLoop {
        let latency = trip.as_f64();
        let time = (trips * latency).max(latency);
        let dram_write = written.as_f64();
        let dram_read = loaded * (1.0 - hit);
        let moved = loaded + dram_write;
        let waits = Waits { l2: time * hit, hbm: time * (1.0 - hit) };
        MainLoop {
            time,
            unchained: time,
            first_tile: latency,
            dram_read,
            dram_write,
            moved,
            tensor: 0.0,
            wgmma: 0.0,
            warps: 0.0,
            waits,
        }
    }

    /// What a worker that stays on its SM merges: for each (query, KV head) of `heads_of_cta` heads, its partials. The
    /// fraction `hit` of them is found in L2, while the part `busy` of all lanes has work.
    ///
    /// The warps that compute rows merge them, so the rows of a query that has none of theirs leave the other warps idle.
    pub(super) fn inline_merge(&self, merged: &[u32], cta: (Tile, u32), (hit, busy): (f64, f64)) -> MainLoop {
        let (tile, heads_of_cta) = cta;
        let heads = f64::from(self.shape.kv_heads);
        let partial = self.shape.partial_bytes_as(PartialForm::Native).as_f64() / heads;
        let read: f64 = merged.iter().map(|partials| partial * f64::from(*partials)).sum();
        let trips = match self.device.merge_kernel {
            Some(kernel) => {
                let trips = |partials: &u32| kernel.worker_trips(*partials, self.shape.head_dim);
                let rows = merged.len() as u32 * self.shape.group();
                let (rows, warps) = self.rows_of_warps(cta, rows.div_ceil(heads_of_cta.max(1)));
                let rounds = rows.div_ceil(kernel.heads.max(1) * warps);
                let most = merged.iter().copied().max().unwrap_or(0);
                let parts = if has_room_for_parts(tile, self.shape.head_dim) {
                    kernel.parts(trips(&most), rows, warps)
                } else {
                    1
                };
                if parts > 1 {
                    f64::from(trips(&most.div_ceil(parts))) + JOINED_PARTS
                } else {
                    let mean = merged.iter().map(trips).sum::<u32>() as f64 / merged.len().max(1) as f64;
                    f64::from(trips(&most)) + f64::from(rounds.saturating_sub(1)) * mean
                }
            }
            None => merged.iter().map(|partials| (partial * f64::from(*partials) / MERGE_IN_FLIGHT).max(1.0)).sum(),
        };
        let written = self.shape.query_bytes().as_f64() / heads * merged.len() as f64;
        let (sim, trip) = (&self.device.sim, self.device.worker_merge_trip());
        let loaded = (self.device.loaded_latency.as_f64() - sim.idle_latency.as_f64()).max(0.0);
        let trip = Nanos((trip.as_f64() + busy * loaded).round() as u64);
        Self::merging(read, Bytes(written as u64), (trips, trip), hit)
    }

    /// Of so many rows of a KV head those that warps of a worker merge together, and how many warps.
    pub(super) fn rows_of_warps(&self, (tile, heads_of_cta): (Tile, u32), rows: u32) -> (u32, u32) {
        if heads_of_cta > 1 {
            (rows.min(ROWS_OF_WARP), 1)
        } else if tile.m > 2 * ROWS_OF_WARP {
            // A warp merges those of one block of rows after those of the other.
            let blocks = if tile == DOUBLE { 2 } else { 1 };
            (rows.min(blocks * merged_by_a_warp(self.shape.group())), 1)
        } else {
            (rows, WARPS_OF_WORKER)
        }
    }

    /// A merge of a query of so many partials for a KV head, in so many trips.
    pub(super) fn merge_in_trips(&self, partials: u32, trips: f64) -> MainLoop {
        let heads = f64::from(self.shape.kv_heads);
        let partial = self.shape.partial_bytes_as(PartialForm::Native).as_f64() / heads;
        let written = Bytes((self.shape.query_bytes().as_f64() / heads) as u64);
        Self::merging(partial * f64::from(partials), written, (trips, self.device.worker_merge_trip()), 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hw;
    use crate::workload::AttentionShape;

    /// In configuration 7 of PAT at 32/8 warps of packs merge their 16 rows in four trips while HBM is full: 6 to 7 µs on an H200.
    /// As if HBM had answered these, they took 18 to 29.
    #[test]
    fn merges_of_partials_in_l2_do_not_wait_for_hbm() {
        let device = hw::find("h200-sxm").unwrap();
        let model = CostModel { device, shape: &AttentionShape::default() };
        let tile = Tile { m: 64, n: 64 };
        for hit in [0.0, 0.25, 1.0] {
            for merge in [model.merge_cta(10, hit), model.inline_merge(&[2; 16], (tile, 1), (hit, 1.0))] {
                let Waits { l2, hbm } = merge.waits;
                assert!(
                    (l2 - hit * merge.time).abs() < 1e-6 && (hbm + l2 - merge.time).abs() < 1e-6,
                    "{hit}: {merge:?}"
                );
            }
        }
    }

    #[test]
    fn a_warp_merges_its_own_rows_where_groups_divide_them_and_whole_queries_elsewhere() {
        for group in [1, 2, 4, 8, 16] {
            assert_eq!(merged_by_a_warp(group), ROWS_OF_WARP, "{group}");
        }
        assert_eq!([3, 5, 7, 12, 32].map(merged_by_a_warp), [18, 20, 21, 24, 32]);
        for group in 1..=64 {
            let rows = merged_by_a_warp(group);
            assert!(
                rows.is_multiple_of(group) && (ROWS_OF_WARP..ROWS_OF_WARP + 2 * group).contains(&rows),
                "{group}: {rows}"
            );
        }
    }

    /// A warp of 128 rows merges those of its two blocks one after another: in traces on an H200 such tasks end 10 to 20 µs
    /// after their last tile, those of 64 rows 6 to 7.
    #[test]
    fn a_warp_of_two_blocks_of_rows_merges_twice_as_many() {
        let model = CostModel { device: hw::find("h200-sxm").unwrap(), shape: &AttentionShape::default() };
        assert_eq!(model.rows_of_warps((Tile { m: 64, n: 64 }, 1), 64), (16, 1));
        assert_eq!(model.rows_of_warps((DOUBLE, 1), 128), (32, 1));
    }
}
