//! The lists of a plan as the kernels read them: who owns which partial, what each entry of the work queue is, and
//! which partials a merge joins.
//!
//! On the device the partials of a query get places that follow each other in merge order, whatever slots the plan gave
//! them, so that merging all of them needs no list.

use std::ops::Range;

use crate::params::{Entry, Item, MergeRow, PackQuery};
use crate::plan::{MergeRows, Phase, PlanArrays, Tile};

/// The query and the place of each slot of the plan, with all places of its query.
pub(crate) fn owners(plan: &PlanArrays<'_>) -> Vec<PackQuery> {
    let mut owners = vec![PackQuery::default(); plan.num_slots as usize];
    for (query, run) in plan.merge_offsets.windows(2).enumerate() {
        for at in run[0]..run[1] {
            let slot = plan.merge_slots[at as usize] as usize;
            owners[slot] = PackQuery { query: query as u32, slot: at, first: run[0], count: run[1] - run[0] };
        }
    }
    owners
}

/// Where merges are launches of their own, a CTA looks only at whether its query has one partial, which is its output.
/// A query has more than one here where a row joins them: a system may leave a lone partial to its merge.
pub(crate) fn mark_joined(owners: &mut [PackQuery], phases: &[Phase]) {
    let rows = || phases.iter().flat_map(|phase| &phase.merges);
    let joined: std::collections::BTreeSet<u32> =
        rows().flat_map(|rows| &rows.slots).map(|slot| owners[*slot as usize].query).collect();
    for owner in owners {
        owner.count = if joined.contains(&owner.query) { owner.count.max(2) } else { 1 };
    }
}

/// The queries of the packs, pack after pack.
pub(crate) fn pack_queries(plan: &PlanArrays<'_>, owners: &[PackQuery]) -> Vec<PackQuery> {
    let slots = plan.packs.iter().flat_map(|p| p.slot_begin..p.slot_begin + p.num_queries);
    slots.map(|slot| owners[slot as usize]).collect()
}

/// The rows of a merge, and the places that they join, or no list where those of each row follow each other.
pub(crate) fn merge_rows(merge: &MergeRows, owners: &[PackQuery]) -> (Vec<MergeRow>, Vec<u32>) {
    let place = |slot: &u32| owners[*slot as usize].slot;
    let places: Vec<u32> = merge.slots.iter().map(place).collect();
    let in_row = |run: &[u32]| run[0] as usize..run[1] as usize;
    let listed = !merge.offsets.windows(2).all(|run| {
        let row = places.get(in_row(run)).unwrap_or(&[]);
        row.windows(2).all(|two| two[1] == two[0] + 1)
    });
    let rows = merge.offsets.windows(2).zip(&merge.targets).map(|(run, target)| {
        let to_slot = target & MergeRows::TO_SLOT != 0;
        MergeRow {
            first: if listed { run[0] } else { places.get(run[0] as usize).copied().unwrap_or(0) },
            count: run[1] - run[0],
            target: if to_slot { place(&(target & !MergeRows::TO_SLOT)) } else { *target },
            to_slot: u32::from(to_slot),
        }
    });
    (rows.collect(), if listed { places } else { Vec::new() })
}

/// KV heads that one entry of the fused queue takes. Short packs are grouped so that fetching an entry does not cost
/// more than its data, as long as every CTA still gets several entries.
pub(crate) fn heads_per_item(tokens: u32, packs: usize, lanes: u32, kv_heads: u32, target: Option<u32>) -> u32 {
    let target = target.unwrap_or(if packs as u32 * kv_heads > lanes * 16 { 128 } else { 0 });
    let mut heads = 1;
    while heads * 2 <= kv_heads && kv_heads.is_multiple_of(heads * 2) && heads * tokens.max(1) < target {
        heads *= 2;
    }
    heads
}

/// The work list of some packs whose tile `wanted` accepts, in the plan's order, all KV heads of a pack together.
pub(crate) fn items(
    plan: &PlanArrays<'_>,
    packs: &Range<usize>,
    kv_heads: u32,
    wanted: impl Fn(u32) -> bool,
    tile: impl Fn(u32) -> u32,
    heads: impl Fn(u32) -> u32,
) -> Vec<Item> {
    let mut items = Vec::new();
    let mut query_begin = 0;
    for (task, pack) in plan.packs.iter().enumerate() {
        let first = query_begin;
        query_begin += pack.num_queries;
        if !packs.contains(&task) || !wanted(pack.tile) {
            continue;
        }
        let together = plan.tiles.get(pack.tile as usize).map_or(1, Tile::heads_together);
        let count = heads(pack.kv_tokens).max(together).min(kv_heads);
        for head in (0..kv_heads).step_by(count as usize) {
            items.push(Item {
                query_begin: first,
                num_queries: pack.num_queries,
                block_begin: pack.block_begin,
                kv_tokens: pack.kv_tokens,
                task: task as u32,
                tile: tile(pack.tile),
                head_begin: head as u16,
                head_count: count.min(kv_heads - head) as u16,
                unused: 0,
            });
        }
    }
    items
}

/// The work queue: `box_tokens` says how many tokens a box of an item's tile has, `block_size` how many a block.
pub(crate) fn entries(
    items: &[Item],
    queries: &[PackQuery],
    block_ids: &[u32],
    box_tokens: impl Fn(u32) -> u32,
    block_size: u32,
) -> Vec<Entry> {
    let entry = |item: &Item| {
        let own = queries.iter().skip(item.query_begin as usize).take(item.num_queries as usize);
        let tokens = box_tokens(item.tile);
        let mut entry =
            Entry { item: *item, blocks: [0; Entry::BLOCKS], queries: [PackQuery::default(); Entry::QUERIES] };
        entry.queries.iter_mut().zip(own).for_each(|(to, from)| *to = *from);
        for (to, token) in entry.blocks.iter_mut().zip((0..item.kv_tokens).step_by(tokens as usize)) {
            let at = (item.block_begin + token / block_size) as usize;
            *to = block_ids.get(at).copied().unwrap_or(0);
        }
        entry
    };
    items.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Query 0 owns slots 2 and 0, in that order; query 1 owns slot 1.
    fn two_queries() -> Vec<PackQuery> {
        let plan = PlanArrays {
            tiles: &[],
            packs: &[],
            query_index: &[],
            block_ids: &[],
            merge_offsets: &[0, 2, 3],
            merge_slots: &[2, 0, 1],
            num_queries: 2,
            num_slots: 3,
            phases: &[],
        };
        owners(&plan)
    }

    fn merge(rows: &[(&[u32], u32)]) -> MergeRows {
        let mut merge = MergeRows::default();
        for (slots, target) in rows {
            merge.push(slots, *target);
        }
        merge
    }

    #[test]
    fn partials_lie_in_merge_order_so_that_the_whole_merge_needs_no_list() {
        let owners = two_queries();
        assert_eq!(owners[2], PackQuery { query: 0, slot: 0, first: 0, count: 2 });
        assert_eq!(owners[0], PackQuery { query: 0, slot: 1, first: 0, count: 2 });
        let (rows, list) = merge_rows(&merge(&[(&[2, 0], 0)]), &owners);
        assert_eq!((rows, list), (vec![MergeRow { first: 0, count: 2, target: 0, to_slot: 0 }], vec![]));
    }

    #[test]
    fn an_entry_holds_its_item_with_its_queries_and_the_blocks_of_its_boxes() {
        let query = |query| PackQuery { query, ..PackQuery::default() };
        let item = Item { query_begin: 1, num_queries: 2, block_begin: 1, kv_tokens: 40, tile: 1, ..Item::default() };
        let queries = [query(7), query(8), query(9), query(10)];
        let entries = entries(&[item], &queries, &[4, 5, 6, 7], |tile| 16 * tile, 32);
        assert_eq!(entries[0].item, item);
        assert_eq!(&entries[0].queries[..3], &[query(8), query(9), PackQuery::default()]);
        assert_eq!(&entries[0].blocks[..4], &[5, 5, 6, 0]);
    }

    #[test]
    fn rows_in_another_order_are_listed_by_place() {
        let (rows, list) = merge_rows(&merge(&[(&[1], 1), (&[0, 2], MergeRows::TO_SLOT)]), &two_queries());
        assert_eq!(list, [2, 1, 0]);
        assert_eq!(rows[0], MergeRow { first: 0, count: 1, target: 1, to_slot: 0 });
        assert_eq!(rows[1], MergeRow { first: 1, count: 2, target: 1, to_slot: 1 }, "slot 0 lies at place 1");
    }

    #[test]
    fn a_lone_partial_that_a_merge_joins_is_not_written_as_output() {
        let counts = |merges: Vec<MergeRows>| {
            let mut owners = two_queries();
            mark_joined(&mut owners, &[Phase { packs_end: 0, merges }]);
            owners.iter().map(|owner| owner.count).collect::<Vec<_>>()
        };
        assert_eq!(counts(vec![merge(&[(&[2, 0], 0)])]), [2, 1, 2]);
        assert_eq!(counts(vec![merge(&[(&[2, 0], 0), (&[1], 1)])]), [2, 2, 2]);
    }
}
