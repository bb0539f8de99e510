//! FlashInfer: the multi-level cascade, and the plain decode kernel with its chunk search.
//!
//! ```text
//! cascade   [leaves] ─► [level k] ─► [join] ─► … ─► [level 0] ─► [join]     one launch a level, all on one stream
//! decode    [(request, KV chunk)] ─► [merge]
//! ```
//!
//! The cascade plans each level as a prefill of one-token queries with the group folded. Its row tile
//! comes from the average of packed rows over the level: above 64 → 128, above 16 → 64, else 16. KV is
//! cut inside a level where that fills the grid better: the smallest chunk of at least 128 tokens for
//! which all (row tile, chunk) fit into two CTAs an SM. Level results are kept in the element type of
//! the output and joined two by two. Left out: rows of a level at which a request has ended, which
//! FlashInfer runs over an empty range.
//!
//! Worked number of the decode search, 8 requests of 4,096 tokens, 8 KV heads, pages of 32, two CTAs
//! on 132 SMs: 264 / 8 = 33 chunks a head, 4 a request of 32 pages, so chunks of 32 pages (1,024
//! tokens) are the smallest that fit.

use crate::decision::{Choice, Considered, Decision, Price, RuleConstant, Subject};
use crate::error::Result;
use crate::pack::levels::{Phases, Run, UNCUT};
use crate::pack::query_centric::leaf_of_each_request;
use crate::pack::{CtaOrder, MergeShape, PackInput, Packing, Scheduler, price};
use crate::tile::{self, Tile};
use crate::units::{NodeIdx, Tokens};
use crate::workload::PartialForm;

/// No chunk is shorter than this, in tokens.
const LEAST_CHUNK: u32 = 128;
/// Tile of the decode kernel as PAT's comparison names it.
const DECODE: Tile = Tile { m: 16, n: 128 };

/// The multi-level cascade.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cascade;

impl Scheduler for Cascade {
    fn name(&self) -> &'static str {
        "cascade"
    }

    fn about(&self) -> &'static str {
        "FlashInfer's multi-level cascade: one launch a tree level from the leaves up, results joined pairwise in series."
    }

    fn pack(&self, input: &PackInput<'_>) -> Result<Packing> {
        let mut levels = vec![Vec::new(); input.tree.depth() as usize];
        for (position, node) in input.tree.nodes.iter().enumerate() {
            levels[node.depth as usize].push(NodeIdx::from(position));
        }
        let group = input.batch.shape.group();
        let mut phases = Phases::default();
        for nodes in levels.iter().rev() {
            let rows: u32 = nodes.iter().map(|node| input.tree.node(*node).query_count() * group).sum();
            let average = rows / nodes.len().max(1) as u32;
            let tile = input.tile_or(level_tile(average));
            let most = (tile.m / group).max(1);
            let kv: Vec<(u32, u32)> = nodes
                .iter()
                .map(|node| {
                    let node = input.tree.node(*node);
                    (node.query_count().div_ceil(most), node.blocks.end - node.blocks.start)
                })
                .collect();
            let search = Search::of(input, &kv, 2 * input.device.sm_count / input.batch.shape.kv_heads);
            if input.explain
                && let Some(first) = nodes.first()
            {
                phases.packing.decisions.push(explain_level(input, *first, average, tile));
                phases.packing.decisions.push(search.explain(input, tile, Subject::Node(*first)));
            }
            for node in nodes {
                phases.push(input, Run::of_node(input, *node), input.tree.queries(*node), most, search.chunk);
            }
            phases.end(Some(tile), CtaOrder::PackFastest);
        }
        Ok(phases.finish(MergeShape::Pairwise))
    }
}

/// Tile of a level by its average of packed rows (FlashInfer's prefill planner, d below 256).
fn level_tile(average_rows: u32) -> Tile {
    match average_rows {
        65.. => Tile { m: 128, n: 64 },
        17..=64 => Tile { m: 64, n: 64 },
        _ => Tile { m: 16, n: 128 },
    }
}

fn explain_level(input: &PackInput<'_>, first: NodeIdx, average: u32, tile: Tile) -> Decision {
    let node = input.tree.node(first);
    let shape = &input.batch.shape;
    let rows = node.query_count() * shape.group();
    let ways = [Tile { m: 128, n: 64 }, Tile { m: 64, n: 64 }, Tile { m: 16, n: 128 }];
    let way = |tile: Tile| {
        let reads = rows.div_ceil(tile.m);
        let what = format!("rows of {}", tile.m);
        Considered::new(what, f64::from(reads), price::kv(input, Tokens(node.tokens.0 * u64::from(reads))))
    };
    let flip = if average > 64 { 64.0 } else { 16.0 };
    Decision {
        subject: Subject::Node(first),
        other: None,
        choice: Choice::Tile,
        considered: ways.iter().map(|tile| way(*tile)).collect(),
        chosen: ways.iter().position(|way| way.m == tile.m).unwrap_or(0),
        unit: "readings of this node".into(),
        rule: format!("level {}: the tile of a level goes by its average of packed rows, above 64 → 128, above 16 → 64, else 16 (FlashInfer)", node.depth).into(),
        constant: Some(RuleConstant::new("average rows", f64::from(average), Some(flip) )),
    }
}

/// The plain decode kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlashInferDecode;

impl Scheduler for FlashInferDecode {
    fn shares(&self) -> bool {
        false
    }

    fn name(&self) -> &'static str {
        "flashinfer-decode"
    }

    fn about(&self) -> &'static str {
        "FlashInfer's decode: every request alone, KV cut into the smallest chunks that still fit the grid, found by binary search; a long request late in the batch makes a tail."
    }

    fn pack(&self, input: &PackInput<'_>) -> Result<Packing> {
        let shape = &input.batch.shape;
        let tile = input.tile_or(DECODE);
        let occupancy = tile::occupancy(input.device, tile, shape.head_dim, shape.dtype).max(1);
        let grid = occupancy * input.device.sm_count / shape.kv_heads;
        let requests: Vec<_> = input.batch.decodes().collect();
        let kv: Vec<(u32, u32)> =
            requests.iter().map(|(query, _)| (1, input.batch.tables().row(*query).len() as u32)).collect();
        let search = Search::of(input, &kv, grid);
        let leaves = leaf_of_each_request(input);
        let mut phases = Phases::default();
        for ((query, request), (_, blocks_end)) in requests.iter().zip(&kv) {
            let run = Run { node: leaves[query.at()], blocks_begin: 0, blocks_end: *blocks_end, tokens: request.kv };
            phases.push(input, run, &[*query], 1, search.chunk);
        }
        phases.end(Some(tile), CtaOrder::PackFastest);
        if input.explain {
            phases.packing.decisions.push(search.explain(input, tile, Subject::Plan));
        }
        // Where any request is cut, all results go through the fp32 buffer and the merge.
        let split = phases.packing.packs.len() > requests.len();
        Ok(phases.finish(MergeShape::GatherOf { form: PartialForm::Fp32, always: split }))
    }
}

/// The search for the chunk: the smallest for which all (row tile, chunk) fit into the grid.
#[derive(Clone, Debug)]
struct Search {
    /// Blocks of a chunk; [`UNCUT`] where the grid is full without cutting.
    chunk: u32,
    /// CTAs a KV head that fit.
    grid: u32,
    /// (chunk in blocks, CTAs a KV head) of each look.
    looked: Vec<(u32, u32)>,
    longest: u32,
    /// CTAs a KV head that, were they what fits, would give another chunk.
    flips_at: Option<u32>,
}

impl Search {
    /// Over (row tiles, blocks) of each unit of work.
    fn of(input: &PackInput<'_>, kv: &[(u32, u32)], grid: u32) -> Self {
        let longest = kv.iter().map(|(_, blocks)| *blocks).max().unwrap_or(1).max(1);
        let count = |chunk: u32| kv.iter().map(|(tiles, blocks)| tiles * blocks.div_ceil(chunk)).sum::<u32>();
        let mut search = Self { chunk: UNCUT, grid, looked: Vec::new(), longest, flips_at: None };
        if count(longest) >= grid {
            // With room for more than that, the search would begin.
            search.flips_at = Some(count(longest));
            return search;
        }
        let least = (LEAST_CHUNK / input.batch.shape.block_size).max(1);
        let (mut low, mut high) = (least.min(longest), longest);
        while low < high {
            let middle = low.midpoint(high);
            let ctas = count(middle);
            search.looked.push((middle, ctas));
            if ctas <= grid {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        search.chunk = low;
        // Less room asks for a longer chunk, enough room for the next shorter one takes that.
        let longer = (low < longest).then(|| count(low));
        let shorter = (low > least).then(|| count(low - 1));
        search.flips_at = longer.into_iter().chain(shorter).min_by_key(|ctas| ctas.abs_diff(grid));
        search
    }

    fn explain(&self, input: &PackInput<'_>, tile: Tile, subject: Subject) -> Decision {
        let shape = &input.batch.shape;
        let way = |chunk: u32, ctas: u32| {
            let tokens = Tokens(u64::from(chunk.min(self.longest)) * u64::from(shape.block_size));
            let time = tile::pack_time(input.device, tile, shape.head_dim, shape.dtype, tokens);
            let waves = f64::from(ctas.div_ceil(self.grid.max(1)).max(1));
            Considered::new(format!("chunks of {tokens} tokens"), f64::from(ctas), Price::one_kernel(time * waves))
        };
        let mut considered: Vec<Considered> = self.looked.iter().map(|(chunk, ctas)| way(*chunk, *ctas)).collect();
        let found = self.looked.iter().position(|(chunk, _)| *chunk == self.chunk);
        let chosen = found.unwrap_or_else(|| {
            considered.push(way(self.chunk, 0));
            considered.len() - 1
        });
        Decision {
            subject,
            other: None,
            choice: Choice::Split,
            considered,
            chosen,
            unit: "CTAs a KV head".into(),
            rule: "the smallest chunk, by binary search, for which all CTAs are resident at once; none where the batch fills the grid uncut (FlashInfer)".into(),
            constant: Some(RuleConstant::new("CTAs a KV head that fit", f64::from(self.grid), self.flips_at.map(f64::from))),
        }
    }
}
