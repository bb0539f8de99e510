//! Cutting packs along the KV.

use crate::decision::{Choice, Considered, Decision, Price, RuleConstant, Subject};
use crate::pack::{Pack, PackInput, Packing};
use crate::tile;
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
        if let (true, Some(first)) = (input.explain, packing.packs.first().copied()) {
            let mean = total as f64 / count as f64;
            packing.decisions.push(explain(input, Subject::Plan, &first, (1, mean)));
        }
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
            let first_piece = Subject::Pack(PackIdx::from(out.len()));
            packing.decisions.push(explain(input, first_piece, &pack, (parts, mean)));
        }
        push_pieces(&mut out, pack, blocks.div_ceil(parts), block);
    }
    packing.packs = out;
}

/// Appends `pack` in pieces of `piece_blocks` blocks; the last one has the rest.
pub(super) fn push_pieces(out: &mut Vec<Pack>, pack: Pack, piece_blocks: u32, block_size: u32) {
    let mut begin = pack.blocks_begin;
    while begin < pack.blocks_end {
        let end = pack.blocks_end.min(begin.saturating_add(piece_blocks.max(1)));
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

/// A pack in its parts against the whole; one part tells that nothing is cut, with two as the other way.
fn explain(input: &PackInput<'_>, subject: Subject, pack: &Pack, (parts, mean): (u32, f64)) -> Decision {
    let shape = &input.batch.shape;
    let tile = tile::select(input.tiles, tile::TileRule::Fitting, pack.rows(shape.group()), pack.tokens).tile;
    let way = |what: String, tokens: u64| {
        let time = tile::pack_time(input.device, tile, shape.head_dim, shape.dtype, Tokens(tokens));
        Considered::new(what, tokens as f64, Price::Time(time))
    };
    Decision {
        subject,
        other: None,
        choice: Choice::Split,
        considered: vec![
            way(format!("{} pieces", parts.max(2)), pack.tokens.0.div_ceil(u64::from(parts.max(2)))),
            way("one piece".to_owned(), pack.tokens.0),
        ],
        chosen: usize::from(parts < 2),
        unit: "KV tokens of its longest CTA",
        rule: "a pack is cut where it is longer than the mean over all packs, since it bounds the tail (PAT 6)".into(),
        constant: Some(RuleConstant { name: "mean KV tokens", value: mean, flips_at: Some(pack.tokens.as_f64()) }),
    }
}
