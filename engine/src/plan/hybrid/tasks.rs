//! Prefill chunks to tasks: blocks of rows × ranges of KV, cut at the causal bound.
//!
//! As FlashAttention does: the blocks of 128 KV tokens are dealt to the splits evenly, and a block
//! of rows reads of its split what lies before the bound of its last row. Early rows may have
//! nothing to read in a late split; that CTA is launched all the same and leaves at once.
//!
//! Worked number: a chunk of 512 rows that ends at 2,048 tokens, blocks of 64 rows, two splits of 8
//! KV blocks: split 0 is tokens 0..1,024 of all 8 row blocks, split 1 tokens 1,024..1,600 of the
//! first and ..2,048 of the last.

use std::ops::Range;

use crate::plan::hybrid::auto::SPLIT_BLOCK;
use crate::plan::{PrefillChunk, PrefillPlan, PrefillTask};
use crate::tile::Tile;
use crate::units::QueryIdx;
use crate::workload::{Batch, Request, RequestKind};

/// All chunks of a batch in tasks of `tile.m` query tokens and `splits` ranges of KV.
pub(super) fn build(batch: &Batch, tile: Tile, splits: u32) -> PrefillPlan {
    build_with(batch, (tile, tile.m), |_| splits)
}

/// As [`build`], in tasks of so many query tokens, each chunk with splits of its own.
pub(super) fn build_with(batch: &Batch, (tile, rows): (Tile, u32), splits: impl Fn(&Request) -> u32) -> PrefillPlan {
    let mut plan = PrefillPlan::default();
    for (query, request) in batch.prefills() {
        if let RequestKind::Prefill { chunk } = request.kind {
            let lengths = (chunk.0 as u32, request.kv.0 as u32);
            push_chunk(&mut plan, query, lengths, (tile, rows), splits(request).max(1));
        }
    }
    plan
}

/// What a task has of its chunk.
pub(super) struct Piece {
    split: u32,
    /// Query tokens of the chunk.
    rows: Range<u32>,
    /// KV tokens, up to the causal bound of the last row.
    pub(super) kv: Range<u32>,
}

/// A chunk of so many rows at the end of so much KV in tasks of so many rows, split by split, in a split block by block.
pub(super) fn pieces((rows, kv): (u32, u32), of_task: u32, splits: u32) -> impl Iterator<Item = Piece> {
    let of_split = kv.div_ceil(SPLIT_BLOCK).div_ceil(splits) * SPLIT_BLOCK;
    (0..splits).flat_map(move |split| {
        (0..rows).step_by(of_task as usize).map(move |begin| {
            let end = rows.min(begin + of_task);
            let bound = kv - rows + end;
            let kv = (split * of_split).min(bound)..((split + 1) * of_split).min(bound);
            Piece { split, rows: begin..end, kv }
        })
    })
}

fn push_chunk(
    plan: &mut PrefillPlan,
    query: QueryIdx,
    (rows, kv): (u32, u32),
    (tile, of_task): (Tile, u32),
    splits: u32,
) {
    let (tasks_begin, slots_begin) = (plan.tasks.len() as u32, plan.slots);
    for piece in pieces((rows, kv), of_task, splits) {
        let rows_begin = piece.rows.start;
        plan.tasks.push(PrefillTask {
            query,
            rows_begin,
            rows_end: piece.rows.end,
            kv_begin: piece.kv.start,
            kv_end: piece.kv.end,
            position: kv - rows + rows_begin,
            slots_begin: (splits > 1).then(|| slots_begin + piece.split * rows + rows_begin),
            tile,
        });
    }
    if splits > 1 {
        plan.slots += splits * rows;
    }
    plan.chunks.push(PrefillChunk {
        query,
        rows,
        kv,
        splits,
        tasks_begin,
        tasks_end: plan.tasks.len() as u32,
        slots_begin,
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{AttentionShape, BatchSpec, RequestSpec};

    fn batch(chunk: u64, kv: u64) -> Batch {
        let requests = vec![RequestSpec::Prefill { chunk, kv }];
        BatchSpec { requests, ..BatchSpec::empty(AttentionShape::default()) }.build().unwrap()
    }

    #[test]
    fn the_worked_number_holds() {
        let plan = build(&batch(512, 2048), Tile { m: 64, n: 128 }, 2);
        let range = |task: usize| (plan.tasks[task].kv_begin, plan.tasks[task].kv_end);
        assert_eq!(plan.tasks.len(), 16);
        assert_eq!((range(0), range(7)), ((0, 1024), (0, 1024)));
        assert_eq!((range(8), range(15)), ((1024, 1600), (1024, 2048)));
        assert_eq!(plan.slots, 1024);
        assert_eq!(plan.chunks[0].slots_of(3).collect::<Vec<_>>(), [3, 515]);
    }

    #[test]
    fn a_split_behind_the_causal_bound_is_empty_and_covers_all_the_same() {
        let batch = batch(512, 512);
        let plan = build(&batch, Tile { m: 64, n: 128 }, 4);
        let empty = plan.tasks.iter().filter(|task| task.kv_begin == task.kv_end).count();
        assert_eq!(empty, 2 + 4 + 6, "blocks of 64 rows before the splits at 128, 256 and 384");
        plan.coverage(batch.requests()).unwrap();
    }

    type Damage = fn(&mut PrefillPlan);

    #[test]
    fn a_plan_that_misses_or_repeats_a_token_is_caught() {
        let batch = batch(300, 1000);
        let good = build(&batch, Tile { m: 128, n: 64 }, 3);
        good.coverage(batch.requests()).unwrap();
        let damages: [(Damage, &str); 5] = [
            (|plan| plan.tasks[0].kv_end -= 1, "the next task begins at"),
            (|plan| plan.tasks[8].kv_end -= 1, "of 1000 tokens are computed"),
            (|plan| plan.tasks[3].kv_begin -= 1, "tokens up to 384 are computed"),
            (|plan| plan.tasks[1].position += 1, "do not agree"),
            (|plan| plan.chunks[0].rows = 299, "another prefill chunk"),
        ];
        for (damage, says) in damages {
            let mut plan = good.clone();
            damage(&mut plan);
            let error = plan.coverage(batch.requests()).unwrap_err().to_string();
            assert!(error.contains(says), "{error} does not say '{says}'");
        }
    }
}
