//! Cutting packs along the KV.

use crate::decision::{Choice, Considered, Decision, Price, RuleConstant, Subject};
use crate::pack::{Pack, PackInput, Packing};
use crate::tile::{self, TileRule};
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

/// FlashAttention 2's rule for splitting KV: the smallest number of splits with at least 85 % of the
/// best wave efficiency, and one if the grid alone fills 80 % of the lanes.
///
/// Worked number: 8 CTAs, 216 lanes, 32 blocks: 16 splits give 128 CTAs, 59 % of a wave, and no
/// eligible number of at most 32 gets past 118 % of that, so 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waves {
    /// CTAs without splitting.
    pub ctas: u32,
    /// CTAs that run at once.
    pub lanes: u32,
    /// KV blocks of the longest row.
    pub blocks: u32,
    /// Most splits, at least one.
    pub cap: u32,
}

impl Waves {
    /// Share of the lanes from which nothing is split.
    pub(super) const FULL: f64 = 0.8;
    /// Share of the best wave efficiency that is enough.
    pub(super) const KEPT: f64 = 0.85;

    /// Number of splits.
    pub fn count(&self) -> u32 {
        self.count_within(Self::FULL, Self::KEPT)
    }

    /// The rule with its two constants open.
    pub(super) fn count_within(&self, full: f64, kept: f64) -> u32 {
        if f64::from(self.ctas) >= full * f64::from(self.lanes) {
            return 1;
        }
        let efficiencies = self.efficiencies();
        let best = efficiencies.iter().map(|(_, efficiency)| *efficiency).fold(0.0, f64::max);
        efficiencies.iter().find(|(_, efficiency)| *efficiency >= kept * best).map_or(1, |(splits, _)| *splits)
    }

    /// Numbers of splits that change the length of a piece, with the share of their waves that is used.
    fn efficiencies(&self) -> Vec<(u32, f64)> {
        let eligible = |s: &u32| *s == 1 || self.blocks.div_ceil(*s) != self.blocks.div_ceil(*s - 1);
        let efficiency = |s: u32| {
            let waves = f64::from(self.ctas * s) / f64::from(self.lanes);
            (s, waves / waves.ceil())
        };
        (1..=self.cap).filter(eligible).map(efficiency).collect()
    }

    /// The constant that decided, and its nearest value beyond which the number of splits is another.
    pub fn constant(&self) -> RuleConstant {
        let share = f64::from(self.ctas) / f64::from(self.lanes);
        if share >= Self::FULL {
            let flips = self.count_within(f64::INFINITY, Self::KEPT) != 1;
            return RuleConstant::new("share of two CTAs an SM that is full", Self::FULL, flips.then_some(share));
        }
        let taken = self.count();
        let efficiencies = self.efficiencies();
        let best = efficiencies.iter().map(|(_, efficiency)| *efficiency).fold(f64::MIN_POSITIVE, f64::max);
        // Above its own share of the best a larger number is taken; at that of a smaller one, the smaller.
        let own = efficiencies.iter().find(|(splits, _)| *splits == taken).map(|(_, efficiency)| efficiency / best);
        let fewer =
            efficiencies.iter().take_while(|(splits, _)| *splits < taken).map(|(_, efficiency)| efficiency / best);
        let flips = own.filter(|share| *share < 1.0).into_iter().chain(fewer);
        RuleConstant::new(
            "share of the best wave efficiency that is enough",
            Self::KEPT,
            flips.min_by(|a, b| (a - Self::KEPT).abs().total_cmp(&(b - Self::KEPT).abs())),
        )
    }
}

/// Cuts every pack into pieces of `piece_blocks` blocks; the last one has the rest.
pub fn cut_into(packing: &mut Packing, piece_blocks: u32, block_size: u32) {
    recut(packing, |out, pack| push_pieces(out, pack, piece_blocks, block_size));
}

/// Cuts every pack into pieces of at most `most` queries; each reads the KV for itself.
pub fn cut_rows(packing: &mut Packing, most: u32) {
    recut(packing, |out, pack| push_rows(out, pack, most));
}

/// Cuts packs for a queue that many workers take from: three quarters of each into pieces of `long` blocks, three
/// quarters of the rest into pieces half as long, and so on down to `least` blocks, so that the run ends evenly. Packs
/// of less than two long pieces stay whole.
///
/// Worked number: 384 blocks with long pieces of 64 and least ones of 8 give four of 64, three of 32, one of 16 and two
/// of 8.
pub fn cut_for_queue(packing: &mut Packing, (long, least): (u32, u32), block_size: u32) {
    let (long, least) = (long.max(1), least.max(1));
    recut(packing, |out, pack| {
        if pack.block_count() < 2 * long {
            return out.push(pack);
        }
        let (mut begin, mut length) = (pack.blocks_begin, long);
        while begin < pack.blocks_end {
            let left = pack.blocks_end - begin;
            let end = if length <= least { pack.blocks_end } else { begin + left * 3 / 4 / length * length };
            push_pieces(out, piece(pack, begin, end, block_size), length, block_size);
            (begin, length) = (end, (length / 2).max(least));
        }
    });
}

/// Puts what `cut` makes of each pack in its place; the phases of a system keep their packs.
fn recut(packing: &mut Packing, mut cut: impl FnMut(&mut Vec<Pack>, Pack)) {
    let packs = std::mem::take(&mut packing.packs);
    let mut ends = Vec::with_capacity(packs.len() + 1);
    for pack in &packs {
        ends.push(packing.packs.len() as u32);
        cut(&mut packing.packs, *pack);
    }
    ends.push(packing.packs.len() as u32);
    for phase in packing.imposed.iter_mut().flat_map(|imposed| &mut imposed.phases) {
        phase.packs_end = ends[(phase.packs_end as usize).min(packs.len())];
    }
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

/// Appends `pack` in pieces of at most `most` queries; the last one has the rest.
pub(super) fn push_rows(out: &mut Vec<Pack>, pack: Pack, most: u32) {
    let most = most.max(1);
    for first in (0..pack.queries_len).step_by(most as usize) {
        let queries_len = most.min(pack.queries_len - first);
        out.push(Pack { queries_begin: pack.queries_begin + first, queries_len, ..pack });
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
    let rule = input.rule_for_heads(TileRule::Fitting, false);
    let tile = tile::select(input.tiles, rule, pack.rows(shape.group()), pack.tokens).tile;
    let way = |what: String, tokens: u64| {
        let time = tile::pack_time(input.device, tile, shape.head_dim, shape.dtype, Tokens(tokens));
        Considered::new(what, tokens as f64, Price::one_cta(time))
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
        unit: "KV tokens of its longest CTA".into(),
        rule: "a pack is cut where it is longer than the mean over all packs, since it bounds the tail (PAT 6)".into(),
        constant: Some(RuleConstant::new("mean KV tokens", mean, Some(pack.tokens.as_f64()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::NodeIdx;

    #[test]
    fn the_worked_number_of_a_queue() {
        let pack = Pack {
            node: NodeIdx(0),
            queries_begin: 0,
            queries_len: 1,
            blocks_begin: 4,
            blocks_end: 388,
            tokens: Tokens(384 * 32 - 5),
        };
        let mut packing = Packing { packs: vec![pack], ..Packing::default() };
        cut_for_queue(&mut packing, (64, 8), 32);
        let blocks: Vec<u32> = packing.packs.iter().map(Pack::block_count).collect();
        assert_eq!(blocks, [64, 64, 64, 64, 32, 32, 32, 16, 8, 8]);
        assert!(packing.packs.windows(2).all(|two| two[0].blocks_end == two[1].blocks_begin));
        assert_eq!(packing.packs.iter().map(|pack| pack.tokens.0).sum::<u64>(), 384 * 32 - 5);
    }
}
