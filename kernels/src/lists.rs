//! The lists of a plan as the kernels read them: who owns which partial, what each entry of the work queue is, and
//! which partials a merge joins.
//!
//! On the device the partials of a query get places that follow each other in merge order, whatever slots the plan gave
//! them, so that merging all of them needs no list.

use crate::masks::seen_by_some;
use crate::params::{Entry, Item, MergeRow, PackQuery, PrefillItem};
use crate::plan::{Launch, MergeRows, PackTask, PlanArrays, PrefillTask, TaskRows, Tile, Work};

/// The row and the place of each slot of the plan, with all places of its row. Slots of prefill rows are places; and
/// where a prefill kernel writes partials of queries, which knows no list of places, all slots are.
pub(crate) fn owners(plan: &PlanArrays<'_>) -> Vec<PackQuery> {
    let gathered = |task: &PrefillTask| !matches!(task.rows, TaskRows::From(_)) && task.slots.is_some();
    let in_place = plan.tasks.iter().any(gathered);
    let itself = |slot| PackQuery { query: u32::MAX, slot, first: slot, count: 1 };
    let mut owners: Vec<PackQuery> = (0..plan.num_slots + plan.prefill_slots).map(itself).collect();
    for (query, run) in plan.merge_offsets.windows(2).enumerate() {
        for at in run[0]..run[1] {
            let slot = plan.merge_slots[at as usize];
            let place = if in_place { slot } else { at };
            owners[slot as usize] =
                PackQuery { query: query as u32, slot: place, first: run[0], count: run[1] - run[0] };
        }
    }
    if !plan.launches.iter().any(|launch| matches!(launch.work, Work::Queue(_))) {
        mark_joined(&mut owners, plan.launches);
    }
    owners
}

/// Where merges are launches of their own, a CTA looks only at whether its query has one partial, which is its output.
/// A query has more than one here where a row joins them: a system may leave a lone partial to its merge.
fn mark_joined(owners: &mut [PackQuery], launches: &[Launch]) {
    let rows = launches.iter().filter_map(Launch::merge);
    let joined: std::collections::BTreeSet<u32> =
        rows.flat_map(|rows| &rows.slots).map(|slot| owners[*slot as usize].query).collect();
    for owner in owners {
        owner.count = if joined.contains(&owner.query) { owner.count.max(2) } else { 1 };
    }
}

/// Prefill tasks as the kernel reads them, the longest first and behind those of all query heads those that fold them,
/// with the number of the latter.
pub(crate) fn queued_prefill_items(plan: &PlanArrays<'_>, tasks: &[u32]) -> (Vec<PrefillItem>, u32) {
    let mut items = prefill_items(plan, tasks);
    items.sort_by_key(|item| (item.kind & PrefillItem::FOLDED, std::cmp::Reverse(item.kv_end - item.kv_begin)));
    let folded = items.iter().filter(|item| item.kind & PrefillItem::FOLDED != 0).count() as u32;
    (items, folded)
}

/// Prefill tasks as the kernel reads them.
pub(crate) fn prefill_items(plan: &PlanArrays<'_>, tasks: &[u32]) -> Vec<PrefillItem> {
    let item = |number: &u32| {
        let task = plan.tasks.get(*number as usize)?;
        let (row_begin, kind) = match task.rows {
            TaskRows::From(row) => (row, 0),
            TaskRows::Listed(at) => (at, PrefillItem::LISTED),
        };
        let kind = if task.folded { kind | PrefillItem::FOLDED } else { kind };
        Some(PrefillItem {
            row_begin,
            num_rows: task.num_rows,
            block_begin: task.block_begin,
            kv_begin: task.kv_begin,
            kv_end: task.kv_end,
            position: task.position,
            slot_begin: task.slots.map_or(PrefillItem::NO_SLOT, |slots| slots.begin),
            slot_step: task.slots.map_or(0, |slots| slots.step),
            task: *number,
            kind,
            unused: [0; 2],
        })
    };
    tasks.iter().filter_map(item).collect()
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

/// The work list of some packs in their order, all KV heads of a pack together. `tile` gives a pack's tile as the kernel
/// numbers it, `heads` how many an item takes of a pack of so many tokens whose tile computes so many at once.
pub(crate) fn items(
    plan: &PlanArrays<'_>,
    (packs, marked): (&[u32], &[bool]),
    kv_heads: u32,
    tile: impl Fn(u32) -> u32,
    heads: impl Fn(u32, u32) -> u32,
) -> Vec<Item> {
    let mut first = Vec::with_capacity(plan.packs.len());
    let mut queries = 0;
    for pack in plan.packs {
        first.push(queries);
        queries += pack.num_queries;
    }
    let mut items = Vec::new();
    for &task in packs {
        let pack = &plan.packs[task as usize];
        let together = plan.tiles.get(pack.tile as usize).map_or(1, Tile::heads_together);
        let count = heads(pack.kv_tokens, together).clamp(1, kv_heads);
        for head in (0..kv_heads).step_by(count as usize) {
            items.push(Item {
                query_begin: first[task as usize],
                num_queries: pack.num_queries,
                block_begin: pack.block_begin,
                kv_tokens: pack.kv_tokens,
                task,
                tile: tile(pack.tile),
                head_begin: head as u16,
                head_count: count.min(kv_heads - head) as u16,
                marked: if marked[task as usize] { Item::MARKED } else { 0 } | masks(plan, pack),
            });
        }
    }
    items
}

/// What an item of a pack says of its masks.
fn masks(plan: &PlanArrays<'_>, pack: &PackTask) -> u32 {
    // Of no tile none are read.
    let Some(begin) = pack.masks.filter(|_| pack.kv_tokens > 0) else { return 0 };
    let tile = plan.tiles.get(pack.tile as usize).copied().unwrap_or(Tile::MASKED);
    let words = plan.masks.get(begin as usize..begin as usize + pack.mask_words(tile)).unwrap_or(&[]);
    let seen = tile.seen(words, pack);
    let mut places = (0..).zip(seen.chunks(pack.num_queries.max(1) as usize));
    Item::masked(begin, places.any(|(place, each)| seen_by_some(each) != pack.tokens_of_mask(place)))
}

/// The items of packs of one tile, a CTA each: as many heads as the tile computes at once, pack by pack, or where they are
/// `pack_fastest` head by head.
pub(crate) fn one_each(
    plan: &PlanArrays<'_>,
    packs: &[u32],
    marked: &[bool],
    kv_heads: u32,
    pack_fastest: bool,
) -> Vec<Item> {
    let mut items = items(plan, (packs, marked), kv_heads, |_| 0, |_, together| together);
    if pack_fastest {
        // A stable sort, so packs stay in their order.
        items.sort_by_key(|item| item.head_begin);
    }
    items
}

/// The items of a persistent grid in the order of its CTAs: the first item of each, then those that they take from the
/// queue. A GPU places CTAs that follow each other in one GPC, which has its share of the memory's bandwidth, so each
/// layer of one CTA per SM is walked in steps: of items in the order of their length any number from the first on is
/// spread over all GPCs.
pub(crate) fn spread(mut items: Vec<Item>, sms: u32, lanes: u32) -> Vec<Item> {
    let first = items.len().min(lanes as usize);
    for layer in items[..first].chunks_mut(sms as usize) {
        let step = golden_step(layer.len());
        let in_order = layer.to_vec();
        for (number, item) in in_order.iter().enumerate() {
            layer[number * step % layer.len()] = *item;
        }
    }
    items
}

/// The step near the golden section of `count` that comes to every place of it.
fn golden_step(count: usize) -> usize {
    let golden = (count as f64 * 0.618).round() as usize;
    (golden.max(1)..count).find(|step| gcd(*step, count) == 1).unwrap_or(1)
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
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
    fn plan(launches: &[Launch]) -> PlanArrays<'_> {
        PlanArrays {
            merge_offsets: &[0, 2, 3],
            merge_slots: &[2, 0, 1],
            num_queries: 2,
            num_slots: 3,
            launches,
            ..PlanArrays::default()
        }
    }

    /// As a queue finds them, whose tasks merge.
    fn two_queries() -> Vec<PackQuery> {
        owners(&plan(&[Launch::new(Work::Queue(Vec::new()))]))
    }

    fn merge(rows: &[(&[u32], u32)]) -> MergeRows {
        let mut merge = MergeRows::default();
        for (slots, target) in rows {
            merge.push(slots, *target);
        }
        merge
    }

    /// Its first word would not be there to read.
    #[test]
    fn a_pack_of_no_tokens_has_no_masks() {
        let of = |kv_tokens: u32| {
            let packs = [PackTask { num_queries: 1, kv_tokens, masks: Some(0), ..PackTask::default() }];
            let masks = Tile::MASKED.masks(&[u64::MAX], 1, 1);
            let plan = PlanArrays { packs: &packs, tiles: &[Tile::MASKED], masks: &masks, ..PlanArrays::default() };
            items(&plan, (&[0], &[false]), 1, |tile| tile, |_, _| 1)[0].marked
        };
        assert_eq!((of(64), of(0)), (0b10, 0));
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
    fn ctas_go_through_the_heads_of_a_pack_or_the_packs_of_a_head() {
        let pack = PackTask {
            query_begin: 0,
            num_queries: 1,
            block_begin: 0,
            kv_tokens: 1,
            slot_begin: 0,
            tile: 0,
            masks: None,
        };
        let packs = [pack, pack];
        let plan = PlanArrays { packs: &packs, ..PlanArrays::default() };
        let order = |pack_fastest| {
            let items = one_each(&plan, &[1, 0], &[false, true], 2, pack_fastest);
            items.iter().map(|item| (item.task, item.head_begin)).collect::<Vec<_>>()
        };
        assert_eq!(order(false), [(1, 0), (1, 1), (0, 0), (0, 1)]);
        assert_eq!(order(true), [(1, 0), (0, 0), (1, 1), (0, 1)]);
    }

    #[test]
    fn first_items_are_spread_and_none_is_lost() {
        let item = |task: u32| Item { task, head_count: 1, ..Item::default() };
        let layer = 132_usize;
        for count in [1, 96, 132, 140, 264, 300] {
            let list = spread((0..count).map(item).collect(), layer as u32, 264);
            let place = |task: u32| list.iter().position(|item| item.task == task).unwrap();
            let places: Vec<usize> = (0..count).map(place).collect();
            for (number, at) in places.iter().enumerate() {
                assert_eq!(at / layer, number / layer, "item {number} of {count} is in another layer");
                assert!(number < 264 || *at == number, "item {number} of {count} is another in the queue");
            }
            // Of the first third of a layer as many are in each of eight GPCs, but for one or two.
            let first = layer.min(list.len());
            let third = &places[..first / 3];
            for gpc in 0..8 {
                let here = third.iter().filter(|at| *at * 8 / first == gpc).count();
                assert!((here as f64 - third.len() as f64 / 8.0).abs() <= 2.0, "{here} of {count} in GPC {gpc}");
            }
        }
        for count in 1..300 {
            let step = golden_step(count);
            let mut seen: Vec<usize> = (0..count).map(|at| at * step % count).collect();
            seen.sort_unstable();
            assert!(seen.iter().copied().eq(0..count), "a step of {step} misses some of {count}");
        }
    }

    #[test]
    fn rows_in_another_order_are_listed_by_place() {
        let (rows, list) = merge_rows(&merge(&[(&[1], 1), (&[0, 2], MergeRows::TO_SLOT)]), &two_queries());
        assert_eq!(list, [2, 1, 0]);
        assert_eq!(rows[0], MergeRow { first: 0, count: 1, target: 1, to_slot: 0 });
        assert_eq!(rows[1], MergeRow { first: 1, count: 2, target: 1, to_slot: 1 }, "slot 0 lies at place 1");
    }

    #[test]
    fn slots_are_places_where_a_prefill_kernel_writes_partials_of_queries() {
        let slots = Some(crate::plan::RowSlots { begin: 0, step: 1 });
        let gathered = [PrefillTask { rows: TaskRows::Listed(0), num_rows: 1, slots, ..PrefillTask::default() }];
        let places = |tasks: &[PrefillTask]| {
            let plan = PlanArrays { tasks, prefill_slots: 2, ..plan(&[]) };
            owners(&plan).iter().map(|owner| owner.slot).collect::<Vec<_>>()
        };
        assert_eq!(places(&gathered), [0, 1, 2, 3, 4]);
        assert_eq!(places(&[]), [1, 2, 0, 3, 4]);
    }

    #[test]
    fn the_longest_prefill_tasks_start_first_and_keep_their_numbers() {
        let task = |kv_end, rows| PrefillTask { rows, kv_end, ..PrefillTask::default() };
        let tasks = [
            task(10, TaskRows::From(0)),
            PrefillTask { folded: true, ..task(90, TaskRows::Listed(0)) },
            task(60, TaskRows::From(1)),
            task(30, TaskRows::Listed(0)),
        ];
        let plan = PlanArrays { tasks: &tasks, ..PlanArrays::default() };
        let (items, folded) = queued_prefill_items(&plan, &[0, 1, 2, 3]);
        assert_eq!(items.iter().map(|i| (i.task, i.kv_end)).collect::<Vec<_>>(), [(2, 60), (3, 30), (0, 10), (1, 90)]);
        assert_eq!(folded, 1);
    }

    #[test]
    fn a_lone_partial_that_a_merge_joins_is_not_written_as_output() {
        let counts = |merges: Vec<MergeRows>| {
            let launches: Vec<Launch> = merges.into_iter().map(Work::Merge).map(Launch::new).collect();
            owners(&plan(&launches)).iter().map(|owner| owner.count).collect::<Vec<_>>()
        };
        assert_eq!(counts(vec![merge(&[(&[2, 0], 0)])]), [2, 1, 2]);
        assert_eq!(counts(vec![merge(&[(&[2, 0], 0), (&[1], 1)])]), [2, 2, 2]);
    }
}
