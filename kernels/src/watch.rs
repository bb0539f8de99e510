//! Which queries CTAs merge that have no more tasks (`watch.cuh`), in a short queue.
//!
//! ```text
//! several tasks a CTA   all queries that tasks do not join as they end: merges stay out of the chain of tasks
//! one                   those that CTAs which share them merge in one round, or in two fewer than the last task would; where
//!                       warps share the rows of every task, those of few partials too
//! rounds                ⌈rows of a warp / 4⌉ · ⌈partials of a warp / 6⌉, a way to L2 and back each
//! ```
//!
//! In a long queue merges lie beside the tiles of other tasks, and partials would have to wait in L2 for its end.
//!
//! Worked number: 32 requests over 16,384 shared tokens at 32/8 are packs of 16 queries in 16 pieces. The last of the 17 partials
//! came from one of these, whose warps merged 16 rows each in 12 rounds: 12 of 51.8 µs on an H200, with 16 CTAs at work.

use crate::params::PackQuery;
use crate::plan::{DecodeShape, PackTask, PlanArrays, Tile};

/// By so many rounds CTAs that share the merges must need fewer: to see that it is time for one takes about one.
const ROUNDS_LESS: u32 = 2;
/// Queries of up to so many partials are joined by tasks as they end (`kFoldPartials`).
const FOLDED: u32 = 4;
/// Rows that a warp merges at once (`kRowsAtOnce`).
const ROWS: u32 = 4;
/// Rows that a warp computes of a tile whose rows no warps share.
const ROWS_OF_WARP: u32 = 16;
/// Warps that compute, of the tiles that are watched.
const WARPS: u32 = 4;
/// Of tasks that begin together one may end last that by its length would do so after this part of the longest: their reads take
/// turns at HBM, and what they write waits there too. Where only a warp merges each query, to be wrong costs more, and it is nearer.
const MAY_BE_LAST: f64 = 0.7;
const ABOUT_LAST: f64 = 0.95;

/// Marks `queries`, those of all packs one after another, where `tasks` are for so many CTAs; gives those that are watched,
/// each once.
pub(crate) fn watch(
    plan: &PlanArrays<'_>,
    shape: &DecodeShape,
    queries: &mut [PackQuery],
    (tasks, ctas): (u32, u32),
) -> Vec<PackQuery> {
    if plan.tiles.contains(&Tile::TALL) {
        return Vec::new();
    }
    let mut latest = vec![0.0; plan.num_queries as usize];
    for_each(plan, queries, |pack, query| {
        // Slots of prefill rows belong to no query.
        if let Some(latest) = latest.get_mut(query.query as usize) {
            *latest = length(plan, pack).max(*latest);
        }
    });
    let shared = |more_than: u32| {
        let many: u32 = plan.merge_offsets.windows(2).map(|run| u32::from(run[1] - run[0] > more_than)).sum();
        many * shape.kv_heads <= ctas.min(tasks)
    };
    let at_once = tasks <= ctas && plan.tiles.iter().copied().all(rows_are_shared) && shared(1);
    let (more_than, shared) = if at_once { (1, true) } else { (FOLDED, shared(FOLDED)) };
    let about_last = if shared { MAY_BE_LAST } else { ABOUT_LAST };
    let mut watched = vec![None; plan.num_queries as usize];
    for_each(plan, queries, |pack, query| {
        let own = query.query as usize;
        if query.count > more_than && own < watched.len() {
            let may_be_last = length(plan, pack) >= about_last * latest[own];
            let rounds =
                || (rounds_of_watchers(shape, query.count, shared), rounds_of_last(plan, shape, pack, query.count));
            if tasks > ctas || (may_be_last && gains(rounds(), shared)) {
                watched[own] = Some(*query);
            }
        }
    });
    for_each(plan, queries, |_, query| {
        if watched.get(query.query as usize).is_some_and(Option::is_some) {
            query.count |= PackQuery::WATCHED;
        }
    });
    watched.into_iter().flatten().collect()
}

fn for_each(plan: &PlanArrays<'_>, queries: &mut [PackQuery], mut with: impl FnMut(&PackTask, &mut PackQuery)) {
    let mut queries = queries.iter_mut();
    for pack in plan.packs {
        queries.by_ref().take(pack.num_queries as usize).for_each(|query| with(pack, query));
    }
}

/// Whether all warps of a task share its rows. Its merge begins behind three barriers, after it has counted what arrived: CTAs
/// that wait for it see what it wrote sooner.
fn rows_are_shared(tile: Tile) -> bool {
    tile.heads_together() == 1 && tile.m <= 2 * ROWS_OF_WARP
}

/// Whether CTAs without tasks should have a merge, in so many rounds, rather than the last task, in `own` rounds. Where all warps of
/// a CTA have one (`shared`), those of one round end up to 9 % of a run sooner on an H200, and none later (1x3615 at 32/8,
/// `1,10_1792,628` at 32/4). Of more they need fewer than the task: of as many, two ended between 3.5 % sooner and 2 later, three 3 and
/// four 10 % later (2x28533 at 8/1, 1x13144 at 16/1).
fn gains((watchers, own): (u32, u32), shared: bool) -> bool {
    own >= watchers + ROUNDS_LESS || (shared && watchers == 1)
}

/// How long a CTA of a pack takes, for telling which of them ends last: ns on an H200, by what a token takes its tile.
fn length(plan: &PlanArrays<'_>, pack: &PackTask) -> f64 {
    let tile = tile_of(plan, pack);
    let of_token = match tile {
        _ if tile.heads_together() > 1 => 50.0,
        Tile::DOUBLE => 36.0,
        Tile { m: 64, .. } => 20.0,
        Tile { m: 32, .. } => 16.0,
        _ => 12.0,
    };
    of_token * f64::from(pack.kv_tokens)
}

fn tile_of(plan: &PlanArrays<'_>, pack: &PackTask) -> Tile {
    plan.tiles.get(pack.tile as usize).copied().unwrap_or(Tile::MASKED)
}

/// In how many rounds a pack that is the last of its queries merges them, of so many partials each.
fn rounds_of_last(plan: &PlanArrays<'_>, shape: &DecodeShape, pack: &PackTask, partials: u32) -> u32 {
    rounds_of_rows(tile_of(plan, pack), pack.num_queries * shape.group(), shape, partials)
}

/// In how many rounds the last to arrive merges `rows` rows of a KV head, of so many partials each.
fn rounds_of_rows(tile: Tile, rows: u32, shape: &DecodeShape, partials: u32) -> u32 {
    if tile.heads_together() > 1 {
        rounds(rows.min(ROWS_OF_WARP), 1, shape, partials)
    } else if !rows_are_shared(tile) {
        // A query that lies in two warps is merged whole by the last of them.
        let of_warp = rounds(rows.min(ROWS_OF_WARP.next_multiple_of(shape.group())), 1, shape, partials);
        if tile == Tile::DOUBLE { 2 * of_warp } else { of_warp }
    } else {
        rounds(rows, WARPS, shape, partials)
    }
}

/// In how many rounds a query is merged for a KV head: by all warps of a CTA where the merges are `shared` by CTAs, else by one.
fn rounds_of_watchers(shape: &DecodeShape, partials: u32, shared: bool) -> u32 {
    rounds(shape.group(), if shared { WARPS } else { 1 }, shape, partials)
}

/// Warps that have few rows share the partials of each.
fn rounds(rows: u32, warps: u32, shape: &DecodeShape, partials: u32) -> u32 {
    let groups = rows.div_ceil(ROWS).max(1);
    // `kMergeBatch`.
    let at_once = if shape.head_dim > 128 { 3 } else { 6 };
    groups.div_ceil(warps) * partials.div_ceil((warps / groups).max(1)).div_ceil(at_once)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Dtype;

    const TILES: [Tile; 3] = [Tile { m: 64, n: 64 }, Tile { m: 16, n: 16 }, Tile { m: 16, n: 64 }];

    fn shape(group: u32) -> DecodeShape {
        DecodeShape { q_heads: group, kv_heads: 1, head_dim: 128, dtype: Dtype::F16, block_size: 16, scale: 1.0 }
    }

    #[test]
    fn rounds_are_those_of_the_warp_with_the_most_rows() {
        let of = |tile: usize, queries: u32, group: u32, partials: u32| {
            rounds_of_rows(TILES[tile], queries * group, &shape(group), partials)
        };
        assert_eq!(of(0, 16, 4, 17), 12);
        assert_eq!(of(0, 9, 7, 11), 12, "21 rows of three queries");
        assert_eq!(of(0, 1, 4, 17), 3);
        assert_eq!(of(1, 1, 4, 6), 1);
        assert_eq!(of(1, 1, 7, 25), 10, "a head a warp");
        assert_eq!(of(2, 1, 4, 16), 1, "four warps with four partials each");
        assert_eq!(of(2, 1, 16, 16), 3, "four rows a warp");
        assert_eq!(rounds_of_watchers(&shape(4), 17, true), 1);
        assert_eq!(rounds_of_watchers(&shape(7), 25, true), 3, "two warps for each four rows");
        assert_eq!(rounds_of_watchers(&shape(7), 25, false), 10);
    }

    /// How many of 16 queries are watched that share a pack in so many pieces and have one of their own behind it, of so many
    /// tokens each; and how many marks there are.
    fn watched(pieces: u32, tokens: (u32, u32), tasks_and_ctas: (u32, u32)) -> (usize, usize) {
        watched_beside(1, pieces, tokens, tasks_and_ctas)
    }

    /// The same where the packs of their own have another tile.
    fn watched_beside(
        tile: u32,
        pieces: u32,
        (shared, leaf): (u32, u32),
        tasks_and_ctas: (u32, u32),
    ) -> (usize, usize) {
        let piece = PackTask { num_queries: 16, tile: 0, kv_tokens: shared, ..PackTask::default() };
        let leaf = PackTask { num_queries: 1, tile, kv_tokens: leaf, ..PackTask::default() };
        let packs = [vec![piece; pieces as usize], vec![leaf; 16]].concat();
        let merge_offsets: Vec<u32> = (0..=16).map(|query| query * (pieces + 1)).collect();
        let tiles = &TILES;
        let plan = PlanArrays {
            packs: &packs,
            tiles,
            num_queries: 16,
            merge_offsets: &merge_offsets,
            ..PlanArrays::default()
        };
        let query = |query| PackQuery { query, count: pieces + 1, ..PackQuery::default() };
        let mut queries: Vec<PackQuery> = (0..=pieces).flat_map(|_| (0..16).map(query)).collect();
        let watched = watch(&plan, &shape(4), &mut queries, tasks_and_ctas);
        assert!(watched.iter().all(|query| query.count == pieces + 1), "what is watched has its own count");
        (watched.len(), queries.iter().filter(|query| query.count & PackQuery::WATCHED != 0).count())
    }

    #[test]
    fn in_one_wave_those_are_watched_whose_last_task_merges_many_rows() {
        assert_eq!(watched(4, (512, 64), (20, 264)), (16, 80));
        assert_eq!(watched(4, (512, 512), (20, 264)), (16, 80), "leaves end last, but others need one round");
        assert_eq!(watched(4, (512, 512), (15, 264)), (0, 0), "16 merges on 15 CTAs: a warp each, as for a leaf");
        // Packs of 9,600 ns beside leaves of 12,800.
        assert_eq!(
            watched(4, (480, 256), (20, 264)),
            (16, 80),
            "a pack may end last, and all warps of a CTA share a merge"
        );
        assert_eq!(watched(4, (480, 256), (15, 264)), (0, 0), "where one warp has it, packs seem further from the end");
        assert_eq!(watched(3, (512, 64), (20, 264)), (0, 0), "tasks join few partials as they end");
    }

    /// 25 partials of a query take others two rounds, a leaf whose warps share its row two, and a pack twenty.
    #[test]
    fn of_more_rounds_those_are_watched_whose_pack_may_end_last() {
        assert_eq!(watched_beside(2, 24, (480, 1100), (40, 264)), (16, 400), "9,600 ns beside leaves of 13,200");
        assert_eq!(watched_beside(2, 24, (480, 1200), (40, 264)), (0, 0), "beside leaves of 14,400");
    }

    /// The same of 16 queries that have packs of their own, each in so many pieces.
    fn watched_alone(tile: u32, pieces: u32, tasks_and_ctas: (u32, u32)) -> usize {
        let pack = PackTask { num_queries: 1, tile: 0, kv_tokens: 128, ..PackTask::default() };
        let packs = vec![pack; 16 * pieces as usize];
        let merge_offsets: Vec<u32> = (0..=16).map(|query| query * pieces).collect();
        let plan = PlanArrays {
            packs: &packs,
            tiles: &TILES[tile as usize..=tile as usize],
            num_queries: 16,
            merge_offsets: &merge_offsets,
            ..PlanArrays::default()
        };
        let one = |query| vec![PackQuery { query, count: pieces, ..PackQuery::default() }; pieces as usize];
        let mut queries: Vec<PackQuery> = (0..16).flat_map(one).collect();
        watch(&plan, &shape(4), &mut queries, tasks_and_ctas).len()
    }

    #[test]
    fn where_warps_share_the_rows_of_all_tasks_few_partials_are_watched_too() {
        assert_eq!(watched_alone(2, 4, (64, 264)), 16);
        assert_eq!(watched_alone(2, 2, (32, 264)), 16);
        assert_eq!(watched_alone(2, 1, (16, 264)), 0, "nothing to merge");
        assert_eq!(watched_alone(2, 4, (300, 264)), 0, "tasks join few as they end");
        assert_eq!(watched_alone(2, 4, (15, 264)), 0, "16 merges on 15 CTAs: a warp each");
        assert_eq!(watched_alone(1, 4, (64, 264)), 0, "each head has a warp");
    }

    #[test]
    fn merges_of_many_rounds_are_left_to_the_last_task_where_it_takes_no_more() {
        assert!(gains((1, 1), true));
        assert!(!gains((2, 2), true) && !gains((1, 1), false));
        assert!(gains((3, 5), true) && gains((3, 5), false));
    }

    #[test]
    fn where_ctas_have_several_tasks_merges_stay_out_of_them() {
        assert_eq!(watched(4, (512, 512), (300, 264)), (16, 80));
        assert_eq!(watched(3, (512, 512), (300, 264)), (0, 0));
    }
}
