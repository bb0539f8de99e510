//! From packs to a launch plan: tiles, slots, launches, merge.
//!
//! ```text
//! serial    stream 0: [64×128] [32×128] [16×32] [merge]
//! streams   stream 0: [64×128] ┐
//!           stream 1: [32×128] ├─► stream 0: [merge]
//!           stream 2: [16×32]  ┘
//! fused     stream 0: [workers take (pack, head) tasks, longest first; last arriver merges]
//! ```

use crate::decision::{Considered, Decision, Subject};
use crate::pack::{PackInput, Packing};
use crate::plan::{CtaOrder, Launch, LaunchKind, LaunchPlan, MergePlan, PlannedPack, Strategy};
use crate::tile::{self, Tile, TileChoice, TileRule};
use crate::units::{PackIdx, QueryIdx};

/// What was chosen for a plan, beside the packs.
#[derive(Clone, Copy, Debug)]
pub struct PlanChoice {
    /// Name of the scheduler.
    pub scheduler: &'static str,
    /// How the CTAs reach the GPU.
    pub strategy: Strategy,
    /// How tiles are chosen.
    pub rule: TileRule,
    /// Whether decisions are kept.
    pub explain: bool,
}

/// Builds the launch plan of a packing.
///
/// Whether the packs are right is for [`crate::pack::coverage`] to say.
pub fn build(input: &PackInput<'_>, packing: &Packing, choice: &PlanChoice) -> LaunchPlan {
    let group = input.batch.shape.group();
    let mut decisions = packing.decisions.records.clone();
    let mut queries = Vec::with_capacity(packing.queries.len());
    let mut packs = Vec::with_capacity(packing.packs.len());
    for pack in &packing.packs {
        let rows = pack.rows(group);
        let tile = tile::select(input.tiles, choice.rule, rows, pack.tokens);
        if choice.explain {
            decisions.push(explain_tile(PackIdx::from(packs.len()), rows, &tile));
        }
        packs.push(PlannedPack {
            node: pack.node,
            slots_begin: queries.len() as u32,
            queries_len: pack.queries_len,
            blocks_begin: pack.blocks_begin,
            blocks_end: pack.blocks_end,
            tokens: pack.tokens,
            tile: tile.tile,
            heads: input.tiles.cell(tile.tile).map_or(1, |cell| cell.heads),
        });
        queries.extend_from_slice(packing.queries_of(pack));
    }
    let merge = merge_plan(&queries, input.batch.requests().len());
    let (order, launches) = launches(&packs, choice.strategy, merge.max_partials() > 1);
    LaunchPlan {
        scheduler: choice.scheduler.to_owned(),
        strategy: choice.strategy,
        device: input.device.key.clone(),
        shape: input.batch.shape,
        packs,
        queries,
        order,
        launches,
        merge,
        decisions,
    }
}

/// Lists each query's slots in the order of packs, by counting.
fn merge_plan(queries: &[QueryIdx], requests: usize) -> MergePlan {
    let mut starts = vec![0_u32; requests + 1];
    for query in queries {
        starts[query.at() + 1] += 1;
    }
    for at in 0..requests {
        starts[at + 1] += starts[at];
    }
    let mut next = starts.clone();
    let mut slots = vec![0; queries.len()];
    for (slot, query) in queries.iter().enumerate() {
        slots[next[query.at()] as usize] = slot as u32;
        next[query.at()] += 1;
    }
    MergePlan { starts, slots }
}

fn launches(packs: &[PlannedPack], strategy: Strategy, merge: bool) -> (Vec<PackIdx>, Vec<Launch>) {
    if packs.is_empty() {
        return (Vec::new(), Vec::new());
    }
    match strategy {
        Strategy::Serial => by_tile(packs, merge, false),
        Strategy::Streams => by_tile(packs, merge, true),
        Strategy::Fused => persistent(packs),
    }
}

/// One launch a tile shape, largest tile first; the merge waits for all of them.
fn by_tile(packs: &[PlannedPack], merge: bool, own_streams: bool) -> (Vec<PackIdx>, Vec<Launch>) {
    let mut tiles: Vec<Tile> = Vec::new();
    for pack in packs {
        if let Err(at) = tiles.binary_search_by(|tile| pack.tile.cmp(tile)) {
            tiles.insert(at, pack.tile);
        }
    }
    let mut order = Vec::with_capacity(packs.len());
    let mut launches = Vec::with_capacity(tiles.len() + 1);
    for (group, tile) in tiles.iter().enumerate() {
        let packs_begin = order.len() as u32;
        order.extend(packs.iter().enumerate().filter(|(_, pack)| pack.tile == *tile).map(|(at, _)| PackIdx::from(at)));
        launches.push(Launch {
            kind: LaunchKind::Attention(*tile),
            stream: if own_streams { group as u32 } else { 0 },
            packs_begin,
            packs_end: order.len() as u32,
            order: CtaOrder::PackFastest,
            after: Vec::new(),
        });
    }
    if merge {
        let end = order.len() as u32;
        launches.push(Launch {
            kind: LaunchKind::Merge,
            stream: 0,
            packs_begin: end,
            packs_end: end,
            order: CtaOrder::PackFastest,
            after: (0..launches.len() as u32).collect(),
        });
    }
    (order, launches)
}

/// One launch whose workers can hold every tile in use; tasks longest first, so that the last ones
/// to start are the shortest.
fn persistent(packs: &[PlannedPack]) -> (Vec<PackIdx>, Vec<Launch>) {
    let mut order: Vec<PackIdx> = (0..packs.len()).map(PackIdx::from).collect();
    order.sort_unstable_by_key(|pack| (std::cmp::Reverse(packs[pack.at()].tokens), pack.0));
    let m = packs.iter().map(|pack| pack.tile.m).max().unwrap_or(16);
    let n = packs.iter().map(|pack| pack.tile.n).max().unwrap_or(16);
    let launch = Launch {
        kind: LaunchKind::Persistent(Tile { m, n }),
        stream: 0,
        packs_begin: 0,
        packs_end: order.len() as u32,
        order: CtaOrder::HeadFastest,
        after: Vec::new(),
    };
    (order, vec![launch])
}

fn explain_tile(pack: PackIdx, rows: u32, choice: &TileChoice) -> Decision {
    let padding = |tile: Tile| f64::from(rows.div_ceil(tile.m) * tile.m - rows);
    Decision {
        subject: Subject::Pack(pack),
        other: None,
        considered: [
            Considered { what: tile_name(choice.tile), cost: padding(choice.tile) },
            Considered { what: tile_name(choice.runner_up), cost: padding(choice.runner_up) },
        ],
        chosen: 0,
        unit: "padded rows",
        rule: choice.reason,
        constant: None,
    }
}

/// Names of the shapes on the grid of the solver, without making strings while planning.
fn tile_name(tile: Tile) -> &'static str {
    const NAMES: [[&str; 5]; 4] = [
        ["tile 16×16", "tile 16×32", "tile 16×64", "tile 16×128", "tile 16×256"],
        ["tile 32×16", "tile 32×32", "tile 32×64", "tile 32×128", "tile 32×256"],
        ["tile 64×16", "tile 64×32", "tile 64×64", "tile 64×128", "tile 64×256"],
        ["tile 128×16", "tile 128×32", "tile 128×64", "tile 128×128", "tile 128×256"],
    ];
    let index = |size: u32| (size.max(16).ilog2() - 4) as usize;
    NAMES.get(index(tile.m)).and_then(|row| row.get(index(tile.n))).copied().unwrap_or("another tile")
}
