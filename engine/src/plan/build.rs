//! From packs to a launch plan: tiles, slots, launches, merge.
//!
//! ```text
//! serial    stream 0: [64×128] [32×128] [16×32] [merge]
//! streams   stream 0: [64×128] ┐
//!           stream 1: [32×128] ├─► stream 0: [merge]
//!           stream 2: [16×32]  ┘
//! fused     stream 0: [workers take (pack, head) tasks in the order of `queue`; last arriver merges]
//! ```
//!
//! Where a system prescribes its launches, `serial` and `streams` build those instead (`imposed`).

use crate::decision::{BY_HAND, Choice, Considered, Decision, Price, RuleConstant, Subject};
use crate::error::{Error, Result};
use crate::pack::{CtaOrder, Imposed, Pack, PackInput, Packing, Phase, SubtreeLayout};
use crate::plan::imposed::imposed_launches;
use crate::plan::queue;
use crate::plan::{Launch, LaunchKind, LaunchPlan, MergePlan, PlannedPack, PrefillPlan, Strategy};
use crate::tile::{self, Tile, TileRule};
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
///
/// # Errors
/// [`Error::Unsupported`] where the strategy cannot launch what the system prescribes.
pub fn build(input: &PackInput<'_>, packing: &Packing, choice: &PlanChoice) -> Result<LaunchPlan> {
    check_strategy(packing.imposed.as_ref(), choice.scheduler, choice.strategy)?;
    let mut plan = draft(input, packing, choice);
    launch(input, packing, &mut plan, choice.strategy)?;
    let why = order_queue(input, packing, &mut plan);
    plan.decisions.extend(why);
    // With prefill, what runs beside what is a choice of its own (`hybrid`).
    if choice.explain && input.batch.prefills().next().is_none() {
        let imposed = packing.imposed.as_ref();
        let counts = launch_counts(&plan, imposed);
        let why = explain_launches(input, imposed.is_some(), counts, plan.packs.len(), choice.strategy);
        plan.decisions.push(why);
    }
    Ok(plan)
}

/// What of a plan is the same under each strategy: packs with their tiles, slots and merges, and no launches yet.
pub fn draft(input: &PackInput<'_>, packing: &Packing, choice: &PlanChoice) -> LaunchPlan {
    let mut decisions = packing.decisions.records.clone();
    let mut queries = Vec::with_capacity(packing.packs.iter().map(|pack| pack.queries_len as usize).sum());
    let mut packs: Vec<PlannedPack> = Vec::with_capacity(packing.packs.len());
    let mut phases = packing.imposed.iter().flat_map(|imposed| &imposed.phases).peekable();
    let rule = match choice.rule {
        rule @ (TileRule::Fitting | TileRule::Quickest) => input.rule_for_heads(rule, packing.one_head),
        other => other,
    };
    for pack in &packing.packs {
        while phases.next_if(|phase| phase.packs_end as usize <= packs.len()).is_some() {}
        let mut tile = tile_of(input, pack, phases.peek().copied(), rule);
        tile.force(input, PackIdx::from(packs.len()), phases.peek().is_some_and(|phase| phase.tile.is_some()));
        if choice.explain {
            decisions.push(explain_tile(input, PackIdx::from(packs.len()), pack, &tile));
        }
        packs.push(PlannedPack {
            node: pack.node,
            slots_begin: queries.len() as u32,
            queries_len: pack.queries_len,
            blocks_begin: pack.blocks_begin,
            blocks_end: pack.blocks_end,
            tokens: pack.tokens,
            tile: tile.tile,
            heads: if tile.folded { side_by_side(input, tile.tile) } else { 1 },
        });
        queries.extend_from_slice(packing.queries_of(pack));
    }
    LaunchPlan {
        scheduler: choice.scheduler.to_owned(),
        strategy: choice.strategy,
        device: input.device.key.clone(),
        shape: input.batch.shape,
        packs,
        merge: merge_plan(&queries, input.batch.requests().len()),
        queries,
        order: Vec::new(),
        launches: Vec::new(),
        prefill: PrefillPlan::default(),
        decisions,
    }
}

/// Gives a plan its launches under a strategy, in place of those that it has. A queue stands in the order of packs until
/// [`order_queue`] puts it in its own.
///
/// # Errors
/// As [`build`].
pub fn launch(input: &PackInput<'_>, packing: &Packing, plan: &mut LaunchPlan, strategy: Strategy) -> Result<()> {
    let imposed = packing.imposed.as_ref();
    check_strategy(imposed, &plan.scheduler, strategy)?;
    plan.strategy = strategy;
    plan.merge.rounds = Vec::new();
    (plan.order, plan.launches) = match (imposed, strategy) {
        (Some(imposed), Strategy::Serial | Strategy::Streams) => {
            let own_streams = strategy == Strategy::Streams;
            let built = imposed_launches(&plan.packs, &plan.queries, &plan.merge, imposed, own_streams);
            plan.merge.rounds = built.rounds;
            (built.order, built.launches)
        }
        (_, Strategy::Serial | Strategy::Streams) => {
            by_tile(&plan.packs, plan.merge.max_partials() > 1, strategy == Strategy::Streams, cta_order(input))
        }
        _ => persistent(&plan.packs, (0..plan.packs.len()).map(PackIdx::from).collect()),
    };
    Ok(())
}

/// Puts the queue of a persistent launch in order, with the reason where one is asked for.
pub fn order_queue(input: &PackInput<'_>, packing: &Packing, plan: &mut LaunchPlan) -> Option<Decision> {
    let mixes = match plan.strategy {
        Strategy::Serial | Strategy::Streams => return None,
        // With prefill, a launch of its own goes in the place of this one.
        Strategy::Fused => input.batch.prefills().next().is_none(),
        // Behind a persistent prefill launch the decodes are what `fused` makes of them alone.
        Strategy::Spatial | Strategy::CoResident => true,
        _ => false,
    };
    if !mixes || packing.imposed.is_some() {
        plan.order = queue::longest_first(&plan.packs);
        return None;
    }
    let (order, why) = queue::order(input, &plan.packs, plan.merge.max_partials() > 1);
    plan.order = order;
    why
}

/// KV heads that a CTA of a tile computes side by side: one where there are too few to give each of its warps a head, as
/// the warps then share the tokens of that one.
fn side_by_side(input: &PackInput<'_>, tile: Tile) -> u32 {
    let heads = input.tiles.cell(tile).map_or(1, |cell| cell.heads);
    if input.batch.shape.kv_heads < heads { 1 } else { heads }
}

/// A worker of the one persistent launch folds the group into rows; a kernel that does not cannot
/// be one of its tasks.
fn check_strategy(imposed: Option<&Imposed>, scheduler: &str, strategy: Strategy) -> Result<()> {
    let unfolded =
        imposed.is_some_and(|imposed| imposed.phases.iter().any(|phase| phase.order == CtaOrder::QueryHeads));
    if unfolded && !matches!(strategy, Strategy::Serial | Strategy::Streams) {
        return Err(Error::Unsupported {
            who: format!("{scheduler} under {}", strategy.name()),
            limit: "its prefix kernel runs one CTA a query head, and a kernel for all has one a KV head; use serial or streams".to_owned(),
        });
    }
    Ok(())
}

/// A pack's tile with the ways that were open and why it is this one.
struct Tiled {
    tile: Tile,
    others: Vec<Tile>,
    rows: u32,
    /// Whether the group is folded into rows, so that a CTA belongs to a KV head.
    folded: bool,
    reason: &'static str,
    /// See [`tile::TileChoice::from_tokens`].
    from_tokens: Option<u64>,
}

impl Tiled {
    /// Takes the tile that a person chose, where nothing prescribes one and it holds the rows.
    fn force(&mut self, input: &PackInput<'_>, pack: PackIdx, prescribed: bool) {
        let forced = input.options.forced_tile(pack).filter(|_| !prescribed && input.fixed_tile.is_none());
        let Some(tile) = forced.filter(|tile| tile.m >= self.rows && input.tiles.feasible().contains(tile)) else {
            return;
        };
        if !self.others.contains(&self.tile) {
            self.others.push(self.tile);
        }
        (self.tile, self.reason, self.from_tokens) = (tile, BY_HAND, None);
    }
}

fn tile_of(input: &PackInput<'_>, pack: &Pack, phase: Option<&Phase>, rule: TileRule) -> Tiled {
    let folded = phase.is_none_or(|phase| phase.order != CtaOrder::QueryHeads);
    let rows = if folded { pack.rows(input.batch.shape.group()) } else { pack.queries_len };
    let own = phase.and_then(|phase| phase.tile);
    if let (Some(tile), None) = (own, input.fixed_tile) {
        let reason = "the system has one tile for this phase";
        return Tiled { tile, others: Vec::new(), rows, folded, reason, from_tokens: None };
    }
    if pack.is_subtree(input.batch.shape.block_size) {
        let reason = "the masks of a subtree are for this tile";
        let tile = SubtreeLayout::tile(rows);
        return Tiled { tile, others: Vec::new(), rows, folded, reason, from_tokens: None };
    }
    let choice = tile::select(input.tiles, rule, rows, pack.tokens);
    let others = match (input.explain, rule) {
        (false, _) => Vec::new(),
        (true, TileRule::Fitting | TileRule::Quickest | TileRule::OneHead) => {
            input.tiles.feasible().iter().copied().filter(|other| other.m == choice.tile.m).collect()
        }
        (true, _) => vec![choice.runner_up],
    };
    Tiled { tile: choice.tile, others, rows, folded, reason: choice.reason, from_tokens: choice.from_tokens }
}

/// Lists each query's slots in the order of packs, by counting.
pub(super) fn merge_plan(queries: &[QueryIdx], requests: usize) -> MergePlan {
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
    MergePlan { starts, slots, rounds: Vec::new() }
}

/// How the kernels of the device number their CTAs.
fn cta_order(input: &PackInput<'_>) -> CtaOrder {
    if input.device.heads_side_by_side { CtaOrder::HeadFastest } else { CtaOrder::PackFastest }
}

/// One launch a tile shape, largest tile first; the merge waits for all of them.
fn by_tile(packs: &[PlannedPack], merge: bool, own_streams: bool, cta_order: CtaOrder) -> (Vec<PackIdx>, Vec<Launch>) {
    let mut order = Vec::with_capacity(packs.len());
    let mut launches = Vec::new();
    tile_launches(packs, 0..packs.len(), cta_order, own_streams, &[], &mut order, &mut launches);
    if merge {
        launches.push(merge_launch(LaunchKind::Merge, order.len() as u32, (0..launches.len() as u32).collect()));
    }
    (order, launches)
}

/// Appends one launch a tile shape of a run of packs, largest tile first.
pub(super) fn tile_launches(
    packs: &[PlannedPack],
    range: std::ops::Range<usize>,
    cta_order: CtaOrder,
    own_streams: bool,
    after: &[u32],
    order: &mut Vec<PackIdx>,
    launches: &mut Vec<Launch>,
) {
    let mut tiles: Vec<Tile> = Vec::new();
    for pack in &packs[range.clone()] {
        if let Err(at) = tiles.binary_search_by(|tile| pack.tile.cmp(tile)) {
            tiles.insert(at, pack.tile);
        }
    }
    for (stream, tile) in tiles.iter().enumerate() {
        let packs_begin = order.len() as u32;
        order.extend(range.clone().filter(|at| packs[*at].tile == *tile).map(PackIdx::from));
        launches.push(Launch {
            kind: LaunchKind::Attention(*tile),
            stream: if own_streams { stream as u32 } else { 0 },
            packs_begin,
            packs_end: order.len() as u32,
            order: cta_order,
            after: after.to_vec(),
            sms: None,
            programmatic: false,
        });
    }
}

/// A merge, which has no packs.
pub(super) fn merge_launch(kind: LaunchKind, packs_end: u32, after: Vec<u32>) -> Launch {
    Launch {
        kind,
        stream: 0,
        packs_begin: packs_end,
        packs_end,
        order: CtaOrder::PackFastest,
        after,
        sms: None,
        programmatic: false,
    }
}

/// One launch whose workers can hold every tile in use, and take the packs in this order.
fn persistent(packs: &[PlannedPack], order: Vec<PackIdx>) -> (Vec<PackIdx>, Vec<Launch>) {
    if packs.is_empty() {
        return (order, Vec::new());
    }
    let m = packs.iter().map(|pack| pack.tile.m).max().unwrap_or(16);
    let n = packs.iter().map(|pack| pack.tile.n).max().unwrap_or(16);
    let launch = Launch {
        kind: LaunchKind::Persistent(Tile { m, n }),
        stream: 0,
        packs_begin: 0,
        packs_end: order.len() as u32,
        order: CtaOrder::HeadFastest,
        after: Vec::new(),
        sms: None,
        programmatic: false,
    };
    (order, vec![launch])
}

fn explain_tile(input: &PackInput<'_>, at: PackIdx, pack: &Pack, tiled: &Tiled) -> Decision {
    let way = |tile: Tile| {
        let padding = f64::from(tiled.rows.div_ceil(tile.m) * tile.m - tiled.rows);
        Considered::new(tile_name(tile), padding, Price::one_cta(pack_time(input, tile, pack)))
    };
    let mut considered = vec![way(tiled.tile)];
    considered.extend(tiled.others.iter().filter(|other| **other != tiled.tile).map(|other| way(*other)));
    Decision {
        subject: Subject::Pack(at),
        other: None,
        choice: Choice::Tile,
        considered,
        chosen: 0,
        unit: "padded rows".into(),
        rule: tiled.reason.into(),
        // n goes by the KV, so it is another where the limit passes this pack's tokens.
        constant: tiled.from_tokens.map(|from| {
            RuleConstant::new("KV tokens from which the larger n is taken", from as f64, Some(pack.tokens.as_f64()))
        }),
    }
}

fn pack_time(input: &PackInput<'_>, tile: Tile, pack: &Pack) -> f64 {
    let shape = &input.batch.shape;
    tile::pack_time(input.device, tile, shape.head_dim, shape.dtype, pack.tokens)
}

/// Launches of a batch of decodes in series or on streams, and how many of them are attention.
fn launch_counts(plan: &LaunchPlan, imposed: Option<&Imposed>) -> (usize, usize) {
    let launches = match imposed {
        Some(imposed) => imposed_launches(&plan.packs, &plan.queries, &plan.merge, imposed, false).launches,
        None => by_tile(&plan.packs, plan.merge.max_partials() > 1, false, CtaOrder::PackFastest).1,
    };
    (launches.len(), launches.iter().filter(|launch| !launch.kind.is_merge()).count())
}

/// What a strategy costs beside its CTAs. That is little of a run, and the strategy with the least of it
/// need not end first: with prices of 244 ns and 1,500 ns serial took 87.9 µs and streams 79.8 µs.
fn explain_launches(
    input: &PackInput<'_>,
    imposed: bool,
    (apart, attention): (usize, usize),
    packs: usize,
    asked: Strategy,
) -> Decision {
    let sim = &input.device.sim;
    let more = apart.saturating_sub(1) as f64;
    let further = attention.saturating_sub(1) as f64;
    let gaps = more * sim.kernel_gap.as_f64() + further * sim.attention_gap.as_f64();
    let merges = (apart - attention) as f64;
    let joins = merges * sim.kernel_gap.as_f64() + further * (sim.stream_fork + sim.stream_join).as_f64();
    let tasks = packs as f64 * f64::from(input.batch.shape.kv_heads) / f64::from(input.device.sm_count);
    let way = |strategy: Strategy| {
        let (launches, overhead) = match strategy {
            Strategy::Serial => (apart, gaps),
            Strategy::Streams if imposed => (apart, gaps),
            Strategy::Streams => (apart, joins),
            _ => (apart.min(1), tasks * sim.queue_pop.as_f64()),
        };
        Considered::new(strategy.name(), launches as f64, Price::overhead(overhead))
    };
    Decision {
        subject: Subject::Plan,
        other: None,
        choice: Choice::Launch,
        considered: Strategy::ANY_BATCH.map(way).to_vec(),
        chosen: Strategy::ANY_BATCH.iter().position(|strategy| *strategy == asked).unwrap_or(0),
        unit: "launches".into(),
        rule: if imposed && asked != Strategy::Fused {
            "the system prescribes its launches, and the strategy was asked for; the overhead is that of the gaps between them and ranks no run"
                .into()
        } else {
            "the strategy was asked for; the overhead is that of gaps and joins, or of taking tasks from the queue, and ranks no run"
                .into()
        },
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
