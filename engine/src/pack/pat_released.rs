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
use crate::pack::cut::{Parting, walk};
use crate::pack::splits::{piece, push_pieces};
use crate::pack::{Pack, PackInput, Packing, Scheduler};
use crate::tile::TileRule;

/// KV token loads that one more partial weighs.
const PARTIAL_TOKENS: u64 = 4;
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
        let most = input.max_queries();
        let mut packing = walk(
            input,
            |parting| {
                let last = parting.queries == parting.remaining;
                !last && reread(parting, most) > PARTIAL_TOKENS * u64::from(parting.queries)
            },
            |parting, split| explain(parting, reread(parting, most), split),
        );
        cut_long(&mut packing, input.batch.shape.block_size);
        fill_waves(&mut packing, input);
        Ok(packing)
    }
}

/// Tokens that the node's packs re-read more if the child leaves with its queries: one reading of
/// the node, or none where the pieces of both still add up to as many as before.
fn reread(parting: &Parting, most: u32) -> u64 {
    let apart = (parting.remaining - parting.queries).div_ceil(most) + parting.queries.div_ceil(most);
    u64::from(apart - parting.remaining.div_ceil(most)) * parting.tokens.0
}

fn explain(parting: &Parting, reread: u64, split: bool) -> Decision {
    let partials = PARTIAL_TOKENS * u64::from(parting.queries);
    Decision {
        subject: Subject::Node(parting.node),
        other: Some(parting.child),
        considered: [
            Considered { what: "merge", cost: reread as f64 },
            Considered { what: "split", cost: partials as f64 },
        ],
        chosen: u8::from(split),
        unit: "KV token loads",
        rule: "a child is merged when it adds no re-read, when its partials would cost as much, or when it is the last (released code)",
        constant: Some(RuleConstant {
            name: "token loads of a partial",
            value: PARTIAL_TOKENS as f64,
            flips_at: (reread > 0).then(|| reread as f64 / f64::from(parting.queries)),
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
