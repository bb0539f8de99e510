//! Cutting packs along the KV.

use crate::decision::{Considered, Decision, Subject};
use crate::pack::{Pack, PackInput, Packing};
use crate::units::{PackIdx, Tokens};

/// PAT section 6: a pack longer than the mean over all packs is cut into equal parts, in whole
/// blocks, not longer than the mean.
///
/// Worked number: 11 packs of 4,096 and ten times 416 tokens have a mean of 750.5 tokens, 23 whole
/// blocks of 32; the 128 blocks of the long one become 6 parts of 22, 22, 22, 22, 22 and 18 blocks.
pub(super) fn split_above_mean(input: &PackInput<'_>, packing: &mut Packing) {
    if packing.packs.is_empty() {
        return;
    }
    let total: u64 = packing.packs.iter().map(|pack| pack.tokens.0).sum();
    let count = packing.packs.len() as u64;
    // Longer than the mean, compared without rounding: tokens · count > total.
    let longer = |pack: &Pack| pack.tokens.0 * count > total;
    if !packing.packs.iter().any(longer) {
        return;
    }
    let block = input.batch.shape.block_size;
    let mean_blocks = ((total / count) as u32 / block).max(1);
    let mut out = Vec::with_capacity(2 * packing.packs.len());
    for pack in std::mem::take(&mut packing.packs) {
        let blocks = pack.block_count();
        let parts = if longer(&pack) { blocks.div_ceil(mean_blocks) } else { 1 };
        if parts > 1 && input.explain {
            let mean = total as f64 / count as f64;
            packing.decisions.push(explain(PackIdx::from(out.len()), &pack, parts, mean));
        }
        push_pieces(&mut out, pack, blocks.div_ceil(parts), block);
    }
    packing.packs = out;
}

/// Appends `pack` in pieces of `piece_blocks` blocks; the last one has the rest.
pub(super) fn push_pieces(out: &mut Vec<Pack>, pack: Pack, piece_blocks: u32, block_size: u32) {
    let mut begin = pack.blocks_begin;
    while begin < pack.blocks_end {
        let end = pack.blocks_end.min(begin + piece_blocks.max(1));
        out.push(piece(pack, begin, end, block_size));
        begin = end;
    }
}

/// Blocks `begin..end` of a pack.
pub(super) fn piece(pack: Pack, begin: u32, end: u32, block_size: u32) -> Pack {
    let before = u64::from(begin - pack.blocks_begin) * u64::from(block_size);
    let whole = u64::from(end - begin) * u64::from(block_size);
    Pack { blocks_begin: begin, blocks_end: end, tokens: Tokens(whole.min(pack.tokens.0 - before)), ..pack }
}

fn explain(first_piece: PackIdx, pack: &Pack, parts: u32, mean: f64) -> Decision {
    Decision {
        subject: Subject::Pack(first_piece),
        other: None,
        considered: [
            Considered { what: "cut at the mean", cost: pack.tokens.as_f64() / f64::from(parts) },
            Considered { what: "keep whole", cost: pack.tokens.as_f64() },
        ],
        chosen: 0,
        unit: "KV tokens of its longest CTA",
        rule: "a pack longer than the mean over all packs bounds the tail (PAT 6)",
        constant: Some(crate::decision::RuleConstant {
            name: "mean KV tokens",
            value: mean,
            flips_at: Some(pack.tokens.as_f64()),
        }),
    }
}
