//! Sound plans pass, and of damaged ones is said what is wrong.

use super::*;
use crate::plan::{Dtype, PackTask, RowSlots, Tile};

const SHAPE: DecodeShape =
    DecodeShape { q_heads: 8, kv_heads: 2, head_dim: 64, dtype: Dtype::F16, block_size: 16, scale: 0.125 };
const PACK: PackTask =
    PackTask { query_begin: 0, num_queries: 2, block_begin: 0, kv_tokens: 20, slot_begin: 0, tile: 0, masks: None };
/// 20 rows at the end of 60 tokens.
const TASK: PrefillTask = PrefillTask {
    rows: TaskRows::From(2),
    num_rows: 20,
    folded: false,
    block_begin: 0,
    kv_begin: 0,
    kv_end: 60,
    position: 40,
    slots: None,
};

fn plan<'a>(packs: &'a [PackTask], slots: &'a [u32], launches: &'a [Launch]) -> PlanArrays<'a> {
    PlanArrays {
        tiles: &[Tile { m: 16, n: 32 }],
        packs,
        query_index: &[0, 1],
        block_ids: &[0, 3, 2, 1],
        merge_offsets: &[0, 1, 2],
        merge_slots: slots,
        num_queries: 2,
        num_slots: 2,
        launches,
        ..PlanArrays::default()
    }
}

fn says(plan: &PlanArrays<'_>) -> String {
    plan.check(&SHAPE, 4).err().map(|error| error.to_string()).unwrap_or_default()
}

fn merge(slots: &[u32], target: u32) -> Work {
    let mut rows = MergeRows::default();
    rows.push(slots, target);
    Work::Merge(rows)
}

#[test]
fn a_sound_plan_passes_and_damaged_ones_do_not() {
    let one = [Launch::new(Work::Packs(vec![0]))];
    assert_eq!(says(&plan(&[PACK], &[0, 1], &one)), "");
    assert!(says(&plan(&[PACK], &[1, 0], &one)).contains("not that of its row"), "slots exchanged");
    assert!(says(&plan(&[PACK], &[0, 0], &one)).contains("merged twice"));
    assert!(plan(&[PACK], &[0, 1], &one).check(&SHAPE, 3).is_err(), "block outside the cache");
    let long = PackTask { kv_tokens: 80, ..PACK };
    assert!(says(&plan(&[long], &[0, 1], &one)).contains("past the block list"));
    let single = PackTask { num_queries: 1, ..PACK };
    let both = [Launch::new(Work::Queue(vec![0, 1]))];
    assert!(says(&plan(&[single; 2], &[0, 1], &both)).contains("slot 0"), "slot written twice");
}

#[test]
fn masks_are_whole_and_leave_every_query_a_token_to_begin_with() {
    let packs = [PackTask { num_queries: 2, kv_tokens: 32, masks: Some(1), ..PACK }];
    let launches = [Launch::new(Work::Packs(vec![0]))];
    let check = |masks: &[u64], tile| {
        let tiles = [tile];
        let plan = PlanArrays { tiles: &tiles, masks, ..plan(&packs, &[0, 1], &launches) };
        plan.check(&SHAPE, 4).err().map(|error| error.to_string()).unwrap_or_default()
    };
    // A byte of each query for the one tile, which is ragged, then what the queries see of it and some query does: both two tokens
    // of the first block, and the second query one of the other.
    let (both, one, all) = (0b11, 0b11 | 1 << 16, 0b11 | 1 << 16);
    assert_eq!(check(&[9, 0x3f, 0x3f, both, one, all], Tile::MASKED), "");
    assert!(check(&[9, 0x3f, 0x3f, both, one, all], Tile { m: 32, n: 64 }).contains("64x64"));
    assert!(check(&[9, 0x3f, 0x3f, both, one], Tile::MASKED).contains("past the last"));
    assert!(check(&[9, 0x3f, 0x3f, both, one, all | 0b100], Tile::MASKED).contains("than its queries"));
    assert!(check(&[9, 0x2f, 0x3f, both, one, all], Tile::MASKED).contains("than its queries"));
    assert!(check(&[9, 0x3f, 0x3f, 1 << 32, 1, 1 | 1 << 32], Tile::MASKED).contains("more than there is"));
    assert!(check(&[9, 0x3f, 0x3f, 0, 0b11, 0b11], Tile::MASKED).contains("none of its first 64 tokens"));
    assert!(check(&[9, 0x3f, 0x3f, 0b01, 0b11, 0b11], Tile::MASKED).contains("sees 1 of 2 tokens of block 0"));
    assert!(
        check(&[9, 0x3f, 0x3f, 0b101, 0b101, 0b101], Tile::MASKED)
            .contains("of which queries see 3 tokens, but not the first")
    );
    let short = [PackTask { kv_tokens: 20, ..packs[0] }];
    let masks = [9, 0x3f, 0x3f, both, one, all];
    let short = PlanArrays { tiles: &[Tile::MASKED], masks: &masks, ..plan(&short, &[0, 1], &launches) };
    assert!(says(&short).contains("20 tokens, no whole blocks of 16"));
    let masks = PlanArrays { packs: &packs, ..short };
    assert!(masks.check(&SHAPE, (1 << 26) + 1).unwrap_err().to_string().contains("a cache of more than 1073741824"));
    // Of 128 tokens of the tall tile: what its warps see, then of each 64 what the queries do and some query does.
    assert_eq!(check(&[9, 0b1, both, both, both, 0, 0, 0], Tile::TALL), "");
    assert!(check(&[9, 0b11, both, both, both, 0, 0, 0], Tile::TALL).contains("than its queries"));
    assert!(check(&[9, 0b1, both, both, 0b1, 0, 0, 0], Tile::TALL).contains("than its queries"));
    assert!(check(&[9, 0b101, both, both, both, 1, 0, 1], Tile::TALL).contains("more than there is"));
    let bare = [PackTask { masks: None, ..packs[0] }];
    assert!(says(&PlanArrays { tiles: &[Tile::TALL], ..plan(&bare, &[0, 1], &launches) }).contains("has no masks"));
}

#[test]
fn every_pack_is_launched_once_and_after_what_came_before() {
    let packs =
        [PackTask { num_queries: 1, ..PACK }, PackTask { num_queries: 1, query_begin: 1, slot_begin: 1, ..PACK }];
    let check = |launches: &[Launch]| says(&plan(&packs, &[0, 1], launches));
    let launch = |packs: &[u32]| Launch::new(Work::Packs(packs.to_vec()));
    assert_eq!(check(&[launch(&[1]), launch(&[0])]), "");
    assert!(check(&[launch(&[1])]).contains("no launch has pack 0"));
    assert!(check(&[launch(&[0, 1]), launch(&[1])]).contains("launch 1 takes"));
    assert!(check(&[launch(&[0, 2])]).contains("launch 0 takes"));
    let early = Launch { after: vec![1], ..launch(&[0]) };
    assert!(check(&[early, launch(&[1])]).contains("waits for a later one"));
}

#[test]
fn merge_rows_stay_with_their_row() {
    let check = |work: Work| says(&plan(&[PACK], &[0, 1], &[Launch::new(Work::Packs(vec![0])), Launch::new(work)]));
    assert_eq!(check(merge(&[1], 1)), "");
    assert_eq!(check(merge(&[1], MergeRows::TO_SLOT | 1)), "");
    assert!(check(merge(&[1], 0)).contains("gives them to another"));
    assert!(check(merge(&[0, 1], 0)).contains("several rows"));
    assert!(check(merge(&[], 0)).contains("joins nothing"));
    assert!(check(merge(&[1], MergeRows::TO_SLOT | 7)).contains("gives them to another"));
}

fn prefill<'a>(tasks: &'a [PrefillTask], launches: &'a [Launch]) -> PlanArrays<'a> {
    PlanArrays { tasks, prefill_rows: 20, ..plan(&[PACK], &[0, 1], launches) }
}

#[test]
fn damaged_prefill_tasks_are_named() {
    let launches = [Launch::new(Work::Packs(vec![0])), Launch::new(Work::Prefill(vec![0]))];
    let check = |task: PrefillTask| says(&prefill(&[task], &launches));
    assert_eq!(check(TASK), "");
    let damages = [
        (PrefillTask { num_rows: 0, ..TASK }, "has 0 rows"),
        (PrefillTask { num_rows: 129, ..TASK }, "has 129 rows"),
        (PrefillTask { kv_end: 65, ..TASK }, "past the block list"),
        (PrefillTask { kv_begin: 8, ..TASK }, "a multiple of 16"),
        (PrefillTask { kv_begin: 61, ..TASK }, "tokens 61..60"),
        (PrefillTask { position: u32::MAX, ..TASK }, "reaches token"),
        (PrefillTask { rows: TaskRows::From(3), ..TASK }, "a row past the 22"),
        (PrefillTask { num_rows: 19, ..TASK }, "nothing computes prefill row 19"),
        (PrefillTask { slots: Some(RowSlots { begin: 0, step: 1 }), ..TASK }, "not that of its row"),
        (PrefillTask { rows: TaskRows::Listed(2), num_rows: 1, ..TASK }, "a row past"),
        (PrefillTask { folded: true, num_rows: 6, ..TASK }, "folds 6 rows of 4"),
    ];
    for (task, wanted) in damages {
        let said = check(task);
        assert!(said.contains(wanted), "{said} does not say '{wanted}'");
    }
}

#[test]
fn hybrid_launches_take_what_their_kernel_has_room_for() {
    let hybrid = |change: &dyn Fn(&mut HybridWork), tasks: &[PrefillTask]| {
        let mut work =
            HybridWork { tasks: (0..tasks.len() as u32).collect(), packs: vec![0], heads: 1, roles: CtaRoles::Index };
        change(&mut work);
        says(&prefill(tasks, &[Launch::new(Work::Hybrid(work))]))
    };
    assert_eq!(hybrid(&|_| {}, &[TASK]), "");
    assert!(hybrid(&|work| work.heads = 4, &[TASK]).contains("4 KV heads to a CTA that takes 1"));
    assert!(hybrid(&|work| work.packs.clear(), &[TASK]).contains("no packs"));
    assert!(hybrid(&|work| work.tasks.clear(), &[TASK]).contains("has 0 tasks"));
    let tickets = |period, prefill| hybrid(&|work| work.roles = CtaRoles::Tickets { period, prefill }, &[TASK]);
    assert_eq!(tickets(3, 1), "");
    assert!(tickets(0, 0).contains("0 of 0 tickets") && tickets(2, 3).contains("3 of 2 tickets"));
    let listed = PrefillTask { rows: TaskRows::Listed(0), num_rows: 2, slots: None, ..TASK };
    assert!(!hybrid(&|_| {}, &[listed]).is_empty(), "rows of a list");
    let folded = PrefillTask { folded: true, num_rows: 4 * TASK.num_rows, ..TASK };
    assert!(hybrid(&|_| {}, &[folded]).contains("and a query head"));
}

#[test]
fn partials_of_prefill_rows_are_merged_once_at_their_own() {
    let split =
        |begin, (kv_begin, kv_end)| PrefillTask { kv_begin, kv_end, slots: Some(RowSlots { begin, step: 2 }), ..TASK };
    let tasks = [split(2, (0, 32)), split(3, (32, 60))];
    let check = |change: &dyn Fn(&mut MergeRows)| {
        let mut rows = MergeRows::default();
        (0..20).for_each(|row| rows.push(&[2 + 2 * row, 3 + 2 * row], 2 + row));
        change(&mut rows);
        let work = [Work::Packs(vec![0]), Work::Prefill(vec![0, 1]), Work::Merge(rows)];
        let launches = work.map(Launch::new);
        says(&PlanArrays { prefill_slots: 40, ..prefill(&tasks, &launches) })
    };
    assert_eq!(check(&|_| {}), "");
    assert!(check(&|rows| rows.targets[3] = 4).contains("gives them to another"));
    let lose = |rows: &mut MergeRows| {
        rows.targets.pop();
        rows.offsets.pop();
    };
    assert!(check(&lose).contains("nothing computes prefill row 19"));
}
