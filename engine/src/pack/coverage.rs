//! Proof that packs compute each (query, token) exactly once.

use crate::error::{Error, Result};
use crate::pack::{Pack, Packing};
use crate::units::{QueryIdx, Tokens};
use crate::workload::Batch;

/// Checks a packing against the batch, in time linear in packs, queries and shared blocks:
///
/// * the KV ranges of each query's packs follow one another from its first to its last token;
/// * all queries of a pack have the same physical blocks in the pack's range.
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
        of_query.extend(queries.iter().map(|query| (*query, begin, begin + pack.tokens.0)));
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
