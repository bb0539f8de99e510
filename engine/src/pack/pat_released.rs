//! What PAT's released code does, which is not what its paper says.
//!
//! * A child is merged whenever that adds no re-read (`extra = 0`), else when `4·s_c ≥ kv`, with the
//!   inherited tokens counted in `kv`, and the last remaining child always.
//! * Packs longer than **five** times the mean are cut, then the longest packs are halved until
//!   about two CTAs stand on each of 108 SMs.
//! * Tiles come from one list for every GPU.
//!
//! `pat-compute` is its ablation: the same, with a cost model of padded rows instead of the profit rule,
//! as the Python original has it, slips included. The padding is counted in queries though the tile is
//! chosen by rows, and splitting is priced with the two lengths swapped.
//!
//! Its slot bug is not modelled: partial slots here are one a (pack, query), so pieces of a pack
//! may have any counts. Children are taken in order of first appearance, where the code follows
//! its hash map.

use crate::decision::{Choice, Considered, Decision, Price, RuleConstant, Subject};
use crate::error::{Error, Result};
use crate::pack::cut::{Parting, walk};
use crate::pack::splits::{piece, push_pieces};
use crate::pack::{Pack, PackInput, Packing, Scheduler, price};
use crate::tile::{self, TileRule};
use crate::units::Tokens;

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
pub(super) struct PatReleased {
    /// What decides between merging and splitting.
    pub(super) model: Model,
}

/// What decides between merging and splitting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Model {
    /// Partials against re-reads.
    Profit,
    /// Padded rows and reductions (`pat-compute`).
    Compute,
}

/// Weight of a reduction of one query row in the compute model.
const REDUCTION: f64 = 0.1;
/// Query heads a KV head that the kernel is built for.
const GROUPS: [u32; 4] = [1, 2, 4, 8];

impl Scheduler for PatReleased {
    fn name(&self) -> &'static str {
        match self.model {
            Model::Profit => "pat-released",
            Model::Compute => "pat-compute",
        }
    }

    fn about(&self) -> &'static str {
        match self.model {
            Model::Profit => {
                "PAT as its released code does it: merge where no re-read is added, cut above five means, halve the first of the longest until 108 SMs are full, so that the order of requests counts."
            }
            Model::Compute => {
                "PAT's ablation: pat-released with a cost model of padded rows instead of the profit rule."
            }
        }
    }

    fn tile_rule(&self) -> TileRule {
        TileRule::Released
    }

    fn pack(&self, input: &PackInput<'_>) -> Result<Packing> {
        let group = input.batch.shape.group();
        if !GROUPS.contains(&group) {
            let limit =
                format!("its kernel is built for 1, 2, 4 and 8 query heads a KV head, and this shape has {group}");
            return Err(Error::Unsupported { who: self.name().to_owned(), limit });
        }
        let mut packing = match self.model {
            Model::Profit => by_profit(input),
            Model::Compute => by_padding(input),
        };
        cut_long(&mut packing, input);
        fill_waves(&mut packing, input);
        self.check_partials(&packing, input.batch.requests().len())?;
        Ok(packing)
    }
}

impl PatReleased {
    /// The gather kernel holds so many partials of a query and no more.
    fn check_partials(self, packing: &Packing, requests: usize) -> Result<()> {
        match partials_of(packing, requests).into_iter().max() {
            Some(most) if most > MOST_PARTIALS => Err(Error::Unsupported {
                who: self.name().to_owned(),
                limit: format!(
                    "its gather takes at most {MOST_PARTIALS} partials of a query, and here a query has {most}"
                ),
            }),
            _ => Ok(()),
        }
    }
}

fn by_profit(input: &PackInput<'_>) -> Packing {
    let most = input.max_queries();
    walk(
        input,
        |parting| {
            let last = parting.queries == parting.remaining;
            !last && reread(parting, most) > PARTIAL_TOKENS * u64::from(parting.queries)
        },
        |parting, split| explain(input, parting, reread(parting, most), split),
    )
}

fn by_padding(input: &PackInput<'_>) -> Packing {
    let group = input.batch.shape.group();
    walk(
        input,
        |parting| {
            let (split, merge) = padding_costs(parting, child_tokens(input, parting), group);
            split <= merge
        },
        |parting, split| explain_padding(input, parting, split),
    )
}

fn child_tokens(input: &PackInput<'_>, parting: &Parting) -> f64 {
    input.tree.node(parting.child).tokens.as_f64()
}

/// (cost of splitting, cost of merging) by the compute model. Worked number, group 4, a child of one
/// query and 32 tokens under 256 queries and 256 tokens: 1 query takes the 16-row tile, padded by 15,
/// so splitting costs 0 · 32 + 15 · 256 + 0.4, merging 1 · 256 + 15 · 288: split.
fn padding_costs(parting: &Parting, child_tokens: f64, group: u32) -> (f64, f64) {
    let pad = |queries: u32, tokens: f64| {
        let tile = if queries * group >= 64 { 64 } else { 16 };
        let rows = if queries == 0 { 0 } else { tile - ((queries - 1) % tile + 1) };
        f64::from(rows * group) * tokens
    };
    let (all, child, tokens) = (parting.remaining, parting.queries, parting.tokens.as_f64());
    let reduction = REDUCTION * f64::from(group * child);
    let split = pad(all, child_tokens) + pad(child, tokens) + reduction;
    (split, pad(all - child, tokens) + pad(child, tokens + child_tokens))
}

fn explain_padding(input: &PackInput<'_>, parting: &Parting, split: bool) -> Decision {
    let costs = padding_costs(parting, child_tokens(input, parting), input.batch.shape.group());
    let rows = f64::from(input.batch.shape.group() * parting.queries.max(1));
    let flip = REDUCTION + (costs.1 - costs.0) / rows;
    Decision {
        subject: Subject::Node(parting.node),
        other: Some(parting.child),
        choice: Choice::Sharing,
        considered: vec![
            Considered::new("split", costs.0, price::partials(input, parting.queries)),
            Considered::new("merge", costs.1, price::kv(input, parting.tokens)),
        ],
        chosen: usize::from(!split),
        unit: "padded rows × tokens".into(),
        rule: "a child is merged when splitting wastes more padded rows and reductions (PAT-compute)".into(),
        constant: Some(RuleConstant::new("weight of a reduction", REDUCTION, (flip >= 0.0).then_some(flip))),
    }
}

fn partials_of(packing: &Packing, requests: usize) -> Vec<u32> {
    let mut partials = vec![0_u32; requests];
    for pack in &packing.packs {
        for query in packing.queries_of(pack) {
            partials[query.at()] += 1;
        }
    }
    partials
}

/// Tokens that the node's packs re-read more if the child leaves with its queries: one reading of
/// the node, or none where the pieces of both still add up to as many as before.
fn reread(parting: &Parting, most: u32) -> u64 {
    let apart = (parting.remaining - parting.queries).div_ceil(most) + parting.queries.div_ceil(most);
    u64::from(apart - parting.remaining.div_ceil(most)) * parting.tokens.0
}

fn explain(input: &PackInput<'_>, parting: &Parting, reread: u64, split: bool) -> Decision {
    let partials = PARTIAL_TOKENS * u64::from(parting.queries);
    Decision {
        subject: Subject::Node(parting.node),
        other: Some(parting.child),
        choice: Choice::Sharing,
        considered: vec![
            Considered::new("merge", reread as f64, price::kv(input, Tokens(reread))),
            Considered::new("split", partials as f64, price::partials(input, parting.queries)),
        ],
        chosen: usize::from(split),
        unit: "KV token loads".into(),
        rule: "a child is merged when it adds no re-read, when its partials would cost as much, or when it is the last (released code)".into(),
        constant: Some(RuleConstant::new("token loads of a partial", PARTIAL_TOKENS as f64, (reread > 0).then(|| reread as f64 / f64::from(parting.queries)))),
    }
}

/// Cuts packs of more than five means into equal parts of whole blocks.
fn cut_long(packing: &mut Packing, input: &PackInput<'_>) {
    let block_size = input.batch.shape.block_size;
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
    let part = (mean as u32).max(1);
    if input.explain {
        packing.decisions.push(explain_cut(input, longest, part, mean));
    }
    if f64::from(longest) <= LONG * mean {
        return;
    }
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
    if packing.packs.len() >= target && !input.explain {
        return;
    }
    let mut partials = partials_of(packing, input.batch.requests().len());
    let before = (packing.packs.len(), packing.packs.iter().map(Pack::block_count).max().unwrap_or(0));
    while packing.packs.len() < target && partials.iter().all(|count| *count < MOST_PARTIALS) {
        let Some(longest) = packing.packs.iter().map(Pack::block_count).max() else { break };
        if longest < HALVE_FROM_BLOCKS {
            break;
        }
        let Some(at) = packing.packs.iter().position(|pack| pack.block_count() == longest) else { break };
        let pack = packing.packs.swap_remove(at);
        let middle = pack.blocks_begin + longest.div_ceil(2);
        packing.packs.push(piece(pack, pack.blocks_begin, middle, input.batch.shape.block_size));
        packing.packs.push(piece(pack, middle, pack.blocks_end, input.batch.shape.block_size));
        for query in packing.queries_of(&pack) {
            partials[query.at()] += 1;
        }
    }
    if input.explain {
        let decision = explain_fill(input, packing, before, target);
        packing.decisions.push(decision);
    }
}

/// Time of a pack of so many blocks on a full SM, by the tile of long packs.
fn time_of_blocks(input: &PackInput<'_>, blocks: u32) -> Price {
    let shape = &input.batch.shape;
    let tokens = Tokens(u64::from(blocks) * u64::from(shape.block_size));
    let tile = tile::select(input.tiles, TileRule::Released, input.max_rows, tokens).tile;
    Price::one_cta(tile::pack_time(input.device, tile, shape.head_dim, shape.dtype, tokens))
}

fn explain_cut(input: &PackInput<'_>, longest: u32, part: u32, mean: f64) -> Decision {
    let cut = f64::from(longest) > LONG * mean;
    let pieces = longest.div_ceil(part);
    let piece = longest.div_ceil(pieces);
    let way = |what: String, blocks: u32| Considered::new(what, f64::from(blocks), time_of_blocks(input, blocks));
    Decision {
        subject: Subject::Plan,
        other: None,
        choice: Choice::Split,
        considered: vec![
            way(format!("the longest pack in {pieces} pieces"), piece),
            way("the longest pack whole".to_owned(), longest),
        ],
        chosen: usize::from(!cut),
        unit: "KV blocks of its longest CTA".into(),
        rule: "packs longer than so many means are cut to the mean (released code; the paper cuts above one mean)"
            .into(),
        constant: Some(RuleConstant::new("means", LONG, Some(f64::from(longest) / mean))),
    }
}

/// What halving did: (packs, blocks of the longest) before it, and after.
fn explain_fill(input: &PackInput<'_>, packing: &Packing, before: (usize, u32), target: usize) -> Decision {
    let longest = packing.packs.iter().map(Pack::block_count).max().unwrap_or(0);
    let way = |what: &'static str, (packs, longest): (usize, u32)| {
        Considered::new(what, packs as f64, time_of_blocks(input, longest))
    };
    Decision {
        subject: Subject::Plan,
        other: None,
        choice: Choice::Split,
        considered: vec![
            way("the longest packs halved", (packing.packs.len(), longest)),
            way("packs left as they were", before),
        ],
        chosen: usize::from(packing.packs.len() == before.0),
        unit: "packs a KV head".into(),
        rule: "the longest pack is halved until two CTAs stand on each of 108 SMs, a query has 32 partials, or it has fewer than 8 blocks (released code)".into(),
        constant: Some(RuleConstant::new("packs that are enough", target as f64, Some(before.0 as f64) )),
    }
}
