//! Proof that packs compute each (query, token) exactly once.

use crate::error::{Error, Result};
use crate::pack::{Pack, Packing, SubtreeLayout};
use crate::units::{QueryIdx, Tokens};
use crate::workload::Batch;

/// Checks a packing against the batch, in time linear in packs, queries and shared blocks:
///
/// * the KV ranges of each query's packs follow one another from its first to its last token;
/// * all queries of a pack have the same physical blocks in the pack's range;
/// * a subtree pack goes through all blocks below that, each once.
///
/// # Errors
/// [`Error::Plan`] naming the query or pack and the tokens.
pub fn coverage(batch: &Batch, packing: &Packing) -> Result<()> {
    let block = u64::from(batch.shape.block_size);
    let mut of_query: Vec<(QueryIdx, u64, u64)> = Vec::with_capacity(packing.queries.len());
    for (position, pack) in packing.packs.iter().enumerate() {
        let queries = packing.queries_of(pack);
        if queries.is_empty() || pack.tokens == Tokens::ZERO {
            return wrong(format!("pack {position} has {} queries and {} tokens", queries.len(), pack.tokens));
        }
        same_blocks(batch, position, pack, queries)?;
        let begin = u64::from(pack.blocks_begin) * block;
        if pack.is_subtree(batch.shape.block_size) {
            subtree_tokens(batch, position, pack, queries)?;
            of_query.extend(queries.iter().map(|query| (*query, begin, batch.request(*query).kv.0)));
        } else {
            of_query.extend(queries.iter().map(|query| (*query, begin, begin + pack.tokens.0)));
        }
    }
    of_query.sort_unstable();
    let mut ranges = of_query.iter().peekable();
    for (query, request) in batch.decodes() {
        let mut done = 0;
        while let Some((_, begin, end)) = ranges.next_if(|range| range.0 == query) {
            if *begin != done {
                return wrong(format!(
                    "query {}: tokens up to {done} are computed, the next pack begins at {begin}",
                    query.0
                ));
            }
            done = *end;
        }
        if done != request.kv.0 {
            return wrong(format!("query {}: {done} of {} tokens are computed", query.0, request.kv));
        }
    }
    match ranges.next() {
        Some((query, ..)) => wrong(format!("query {} is packed but does not decode", query.0)),
        None => Ok(()),
    }
}

fn subtree_tokens(batch: &Batch, position: usize, pack: &Pack, queries: &[QueryIdx]) -> Result<()> {
    let layout = SubtreeLayout::of(batch, pack.blocks_begin..pack.blocks_end, queries, false);
    if pack.tokens != layout.tokens() {
        return wrong(format!("pack {position} goes through {} tokens of {}", pack.tokens, layout.tokens()));
    }
    Ok(())
}

fn same_blocks(batch: &Batch, position: usize, pack: &Pack, queries: &[QueryIdx]) -> Result<()> {
    let range = pack.blocks_begin as usize..pack.blocks_end as usize;
    let Some(first) = batch.tables().row(queries[0]).get(range.clone()) else {
        return wrong(format!("pack {position} reaches past the blocks of query {}", queries[0].0));
    };
    match queries.iter().find(|query| batch.tables().row(**query).get(range.clone()) != Some(first)) {
        Some(query) => {
            wrong(format!("pack {position}: query {} does not have the blocks of query {}", query.0, queries[0].0))
        }
        None => Ok(()),
    }
}

fn wrong(text: String) -> Result<()> {
    Err(Error::Plan(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::NodeIdx;
    use crate::workload::{AttentionShape, BatchSpec, RequestSpec};

    /// Two requests that share their first block of 16 and have one and a half of their own.
    fn batch() -> Batch {
        let blocks = |blocks: &[u32]| RequestSpec::Blocks { kv: 40, blocks: blocks.to_vec() };
        let shape = AttentionShape { block_size: 16, ..AttentionShape::default() };
        BatchSpec { requests: vec![blocks(&[1, 2, 3]), blocks(&[1, 4, 5])], ..BatchSpec::empty(shape) }.build().unwrap()
    }

    fn pack(queries_begin: u32, queries_len: u32, blocks: std::ops::Range<u32>, tokens: u64) -> Pack {
        let (blocks_begin, blocks_end) = (blocks.start, blocks.end);
        Pack { node: NodeIdx(0), queries_begin, queries_len, blocks_begin, blocks_end, tokens: Tokens(tokens) }
    }

    fn judge(packs: &[Pack]) -> Result<()> {
        let queries = vec![QueryIdx(0), QueryIdx(1)];
        coverage(&batch(), &Packing { packs: packs.to_vec(), queries, ..Packing::default() })
    }

    #[test]
    fn a_right_packing_is_proved() {
        judge(&[pack(0, 2, 0..1, 16), pack(0, 1, 1..3, 24), pack(1, 1, 1..3, 24)]).unwrap();
    }

    #[test]
    fn a_subtree_pack_has_all_that_is_below_it() {
        // One block that both share and two of each, the last of them half full.
        judge(&[pack(0, 2, 0..1, 5 * 16)]).unwrap();
        let error = judge(&[pack(0, 2, 0..1, 4 * 16)]).unwrap_err().to_string();
        assert!(error.contains("goes through 64 tokens of 80"), "{error}");
        let error = judge(&[pack(0, 2, 0..1, 5 * 16), pack(0, 1, 1..3, 24)]).unwrap_err().to_string();
        assert!(error.contains("query 0: tokens up to 40 are computed, the next pack begins at 16"), "{error}");
    }

    #[test]
    fn every_kind_of_wrong_packing_is_caught() {
        let shared = pack(0, 2, 0..1, 16);
        let (first, second) = (pack(0, 1, 1..3, 24), pack(1, 1, 1..3, 24));
        for (packs, says) in [
            (vec![shared, first], "query 1: 16 of 40 tokens"),
            (vec![shared, first, second, second], "begins at 16"),
            (vec![first, second], "begins at 16"),
            (vec![pack(0, 2, 0..3, 40)], "does not have the blocks of query 0"),
            (vec![shared, pack(0, 1, 1..4, 24), second], "reaches past the blocks"),
            (vec![shared, first, pack(1, 1, 1..3, 20)], "query 1: 36 of 40 tokens"),
        ] {
            let error = judge(&packs).unwrap_err().to_string();
            assert!(error.contains(says), "{error} does not say '{says}'");
        }
    }
}
