//! What PAT's released code does, which is not what its paper says.
//!
//! * A child is merged whenever that adds no re-read (`extra = 0`), else when `4·s_c ≥ kv`, with the
//!   inherited tokens counted in `kv`, and the last remaining child always.
//! * Packs longer than **five** times the mean are cut, then the longest packs are halved until
//!   about two CTAs stand on each of 108 SMs.
//! * Tiles come from one list for every GPU.
//!
//! Its slot bug is not modelled: partial slots here are one a (pack, query), so pieces of a pack
//! may have any counts. Children are taken in order of first appearance, where the code follows
//! its hash map.

use crate::decision::{Considered, Decision, RuleConstant, Subject};
use crate::error::Result;
use crate::pack::cut::Emitter;
use crate::pack::splits::{piece, push_pieces};
use crate::pack::{Pack, PackInput, Packing, Scheduler};
use crate::tile::TileRule;
use crate::units::NodeIdx;

/// Packs longer than this many means are cut.
const LONG: f64 = 5.0;
/// Only packs of at least this many tokens count for the mean.
const MEAN_FROM_TOKENS: u64 = 128;
/// Packs of fewer blocks are not halved.
const HALVE_FROM_BLOCKS: u32 = 8;
/// The gather kernel takes at most this many partials a query.
const MOST_PARTIALS: u32 = 32;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct PatReleased;

impl Scheduler for PatReleased {
    fn name(&self) -> &'static str {
        "pat-released"
    }

    fn about(&self) -> &'static str {
        "PAT as its released code does it: merge where no re-read is added, cut above five means, halve until 108 SMs are full."
    }

    fn tile_rule(&self) -> TileRule {
        TileRule::Released
    }

    fn pack(&self, input: &PackInput<'_>) -> Result<Packing> {
        let mut emitter = Emitter::new(input);
        let mut stack: Vec<(NodeIdx, u32)> =
            input.tree.roots.iter().rev().map(|root| (*root, input.tree.node(*root).blocks.start)).collect();
        let mut merged = Vec::new();
        while let Some((node, blocks_begin)) = stack.pop() {
            visit(input, &mut emitter, (node, blocks_begin), &mut stack, &mut merged);
        }
        let mut packing = emitter.packing;
        cut_long(&mut packing, input.batch.shape.block_size);
        fill_waves(&mut packing, input);
        Ok(packing)
    }
}

fn visit(
    input: &PackInput<'_>,
    emitter: &mut Emitter<'_>,
    (node, blocks_begin): (NodeIdx, u32),
    stack: &mut Vec<(NodeIdx, u32)>,
    merged: &mut Vec<(NodeIdx, u32)>,
) {
    let tree = input.tree;
    let kv = emitter.tokens_from(node, blocks_begin).0.cast_signed();
    let chunk = i64::from(emitter.max_queries);
    let first = emitter.packing.queries.len();
    let own = tree.node(node);
    let mut remaining = i64::from(own.query_count());
    emitter.add(&tree.queries(node)[..own.ending as usize]);
    merged.clear();
    let split_from = stack.len();
    for child in tree.children(node) {
        let queries = i64::from(tree.node(*child).query_count());
        let extra = chunks(remaining, chunk) - chunks(remaining - queries, chunk) - chunks(queries, chunk);
        let merge = queries == remaining || extra * kv + 4 * queries >= 0;
        if input.explain {
            emitter.packing.decisions.push(explain(node, *child, -extra * kv, queries, merge));
        }
        if merge {
            merged.push((*child, blocks_begin));
            remaining -= queries;
        } else {
            emitter.add(tree.queries(*child));
            stack.push((*child, tree.node(*child).blocks.start));
        }
    }
    emitter.emit(node, blocks_begin, first);
    stack[split_from..].reverse();
    stack.splice(split_from..split_from, merged.drain(..).rev());
}

fn chunks(queries: i64, chunk: i64) -> i64 {
    (queries + chunk - 1) / chunk
}

fn explain(node: NodeIdx, child: NodeIdx, reread: i64, queries: i64, merge: bool) -> Decision {
    Decision {
        subject: Subject::Node(node),
        other: Some(child),
        considered: [
            Considered { what: "merge", cost: reread as f64 },
            Considered { what: "split", cost: (4 * queries) as f64 },
        ],
        chosen: u8::from(!merge),
        unit: "KV token loads",
        rule: "a child is merged when it adds no re-read, when its partials would cost as much, or when it is the last (released code)",
        constant: Some(RuleConstant {
            name: "token loads of a partial",
            value: 4.0,
            flips_at: (reread > 0).then(|| reread as f64 / queries as f64),
        }),
    }
}

/// Cuts packs of more than five means into equal parts of whole blocks.
fn cut_long(packing: &mut Packing, block_size: u32) {
    let counted: Vec<u64> = packing
        .packs
        .iter()
        .filter(|pack| pack.tokens.0 >= MEAN_FROM_TOKENS)
        .map(|pack| u64::from(pack.block_count()))
        .collect();
    if counted.is_empty() {
        return;
    }
    let mean = counted.iter().sum::<u64>() as f64 / counted.len() as f64;
    let longest = packing.packs.iter().map(Pack::block_count).max().unwrap_or(0);
    if f64::from(longest) <= LONG * mean {
        return;
    }
    let part = (mean as u32).max(1);
    let mut out = Vec::with_capacity(2 * packing.packs.len());
    for pack in std::mem::take(&mut packing.packs) {
        let blocks = pack.block_count();
        if f64::from(blocks) > LONG * mean {
            push_pieces(&mut out, pack, blocks.div_ceil(blocks.div_ceil(part)), block_size);
        } else {
            out.push(pack);
        }
    }
    packing.packs = out;
}

/// Halves the longest packs until about two CTAs stand on each of 108 SMs, whatever the device.
fn fill_waves(packing: &mut Packing, input: &PackInput<'_>) {
    let target = match input.batch.shape.kv_heads {
        0..=4 => 54,
        5..=8 => 27,
        9..=16 => 13,
        17..=32 => 6,
        _ => 4,
    };
    if packing.packs.len() >= target {
        return;
    }
    let mut partials = vec![0_u32; input.batch.requests().len()];
    for pack in &packing.packs {
        for query in packing.queries_of(pack) {
            partials[query.at()] += 1;
        }
    }
    while packing.packs.len() < target && partials.iter().all(|count| *count < MOST_PARTIALS) {
        let Some(longest) = packing.packs.iter().map(Pack::block_count).max() else { return };
        if longest < HALVE_FROM_BLOCKS {
            return;
        }
        let Some(at) = packing.packs.iter().position(|pack| pack.block_count() == longest) else { return };
        let pack = packing.packs.swap_remove(at);
        let middle = pack.blocks_begin + longest.div_ceil(2);
        packing.packs.push(piece(pack, pack.blocks_begin, middle, input.batch.shape.block_size));
        packing.packs.push(piece(pack, middle, pack.blocks_end, input.batch.shape.block_size));
        for query in packing.queries_of(&pack) {
            partials[query.at()] += 1;
        }
    }
}
