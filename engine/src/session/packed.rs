//! The packs of a batch, with all that a plan is made of them with.
//!
//! ```text
//! scheduler ──► packings ──┬─ one ──────────────────────────────────┬──► the packs
//!                          └─ several ──► a plan of each, priced ───┘
//!                                         by cohorts of like CTAs
//! ```
//!
//! A scheduler's own closed form sees one kind of CTA at a time, and does not know who comes last. Where it leaves several
//! packings open, each is priced as a run under the strategy that it is for.

use crate::backend::sim::estimate;
use crate::decision::{Choice, Considered, Decision, Price, RuleConstant, Subject};
use crate::error::Result;
use crate::pack::{self, PackInput, Packing, Scheduler};
use crate::plan::{self, LaunchPlan, PlanChoice, Strategy, hybrid};
use crate::session::PlanOptions;
use crate::tile::{TileRule, TileSet};
use crate::units::{Nanos, Tokens};
use crate::workload::{Batch, PrefixTree};

/// Packs with all that a plan is made of them with.
pub(super) struct Packed<'a> {
    pub(super) input: PackInput<'a>,
    pub(super) packing: Packing,
    scheduler: &'static str,
    rule: TileRule,
}

impl Packed<'_> {
    /// The launch plan of the packs under a strategy.
    pub(super) fn plan(&self, strategy: Strategy, explain: bool) -> Result<LaunchPlan> {
        plan::build(&self.input, &self.packing, &self.choice(strategy, explain))
    }

    /// What is the same of the plan under each strategy.
    pub(super) fn draft(&self) -> LaunchPlan {
        plan::draft(&self.input, &self.packing, &self.choice(Strategy::default(), false))
    }

    /// Gives a draft the launches of a strategy; a queue is still to be put in order.
    pub(super) fn launch(&self, plan: &mut LaunchPlan, strategy: Strategy) -> Result<()> {
        plan::launch(&self.input, &self.packing, plan, strategy)
    }

    pub(super) fn order_queue(&self, plan: &mut LaunchPlan) {
        plan::order_queue(&self.input, &self.packing, plan);
    }

    fn choice(&self, strategy: Strategy, explain: bool) -> PlanChoice {
        PlanChoice { scheduler: self.scheduler, strategy, rule: self.rule, explain }
    }
}

/// The packs of a batch by the scheduler of the options, under their strategy.
pub(super) fn pack_batch<'a>(
    batch: &'a Batch,
    (tree, tiles): (&'a PrefixTree, &'a TileSet),
    options: &'a PlanOptions,
) -> Result<Packed<'a>> {
    let Asked { input, scheduler, rule } = Asked::of(batch, (tree, tiles), options)?;
    let packing = shortest(&input, scheduler, (options.strategy, rule))?;
    Ok(Packed { input, packing, scheduler: scheduler.name(), rule })
}

/// A batch that the scheduler of the options is to pack.
pub(super) struct Asked<'a> {
    pub(super) input: PackInput<'a>,
    pub(super) scheduler: &'static dyn Scheduler,
    pub(super) rule: TileRule,
}

impl<'a> Asked<'a> {
    pub(super) fn of(
        batch: &'a Batch,
        (tree, tiles): (&'a PrefixTree, &'a TileSet),
        options: &'a PlanOptions,
    ) -> Result<Self> {
        let scheduler = pack::find(&options.scheduler)?;
        let fixed_tile = options.tile.or(hybrid::decode_tile(&options.device, batch, options.strategy));
        let rule = match fixed_tile {
            Some(tile) => TileRule::Fixed(tile),
            None => scheduler.tile_rule(),
        };
        let input = PackInput {
            batch,
            tree,
            device: &options.device,
            tiles,
            max_rows: rule.max_rows(tiles),
            fixed_tile,
            options: &options.pack,
            explain: options.explain,
        };
        Ok(Self { input, scheduler, rule })
    }

    /// All that the scheduler leaves open, for a choice among them with others: one at least.
    pub(super) fn every_way(&self) -> Result<Vec<Packed<'a>>> {
        let Self { input, scheduler, rule } = *self;
        let packed = |packing| Packed { input, packing, scheduler: scheduler.name(), rule };
        Ok(scheduler.packings(&input)?.into_iter().map(packed).collect())
    }
}

/// What other packs must gain on those that a scheduler prefers. Behind the first wave cohorts do not see who of a
/// few comes last: of PAT's configurations at five head setups, some whose packs gained less took 4 to 24 % longer when
/// simulated.
const GAIN: f64 = 0.95;
/// The same for those of one wave, where cohorts know who does. The 49 batches that are planned otherwise for this, and for merges
/// that CTAs without tasks share, took an H200 3 % less in the mean, up to 15 % less and up to 7 % more.
const ONE_WAVE_GAIN: f64 = 0.99;
/// The same for packs of whole subtrees alone, of which nobody comes last: they merge nothing. Of 12 trees for which cohorts
/// gave them 2 to 5 % less, all took less on an H100: 2.5 to 14 %.
const SUBTREES_GAIN: f64 = 0.98;

/// The same for packs of one request each, in CTAs of one KV head: whoever comes last has one to merge. Of eight batches
/// for which cohorts gave them 2 to 5 % less, seven took 1 to 15 % less on an H200, and one 3 % longer: of what they are in place
/// of, long tasks with many partials, cohorts have 7 to 11 % too little.
const ONE_HEAD_GAIN: f64 = 0.98;

/// Times this near to the least are alike, and of such runs one with fewer partials is taken. Of 351 plans of 38 batches on an H200
/// prices err by 2.5 % within a batch, and are more often too low where there are more partials. With this rule the plan taken is
/// 4 % longer than the best one at worst, 5 without, and 1.2 % in the mean either way.
const ALIKE: f64 = 1.005;

/// A plan as a run: its time, and the most partials of a query.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) time: Nanos,
    pub(super) partials: u32,
}

/// The run that is taken of those that gain on what a scheduler prefers, one after another, and the least time of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken(Option<(Run, Nanos)>);

impl Taken {
    /// The most that a run may take to be taken; `None` where any is.
    pub(super) fn most(&self) -> Option<Nanos> {
        self.0.map(|(_, least)| alike(least))
    }

    /// Takes a run where there is none yet, or instead of one that is longer, or alike with more partials; says whether it does.
    pub(super) fn takes(&mut self, run: Run) -> bool {
        let Some((before, least)) = self.0 else {
            self.0 = Some((run, run.time));
            return true;
        };
        let least = least.min(run.time);
        let fewer = run.time <= alike(least) && (run.partials, run.time) < (before.partials, before.time);
        let takes = fewer || before.time > alike(least);
        self.0 = Some((if takes { run } else { before }, least));
        takes
    }
}

/// The longest time that is alike with `least`.
fn alike(least: Nanos) -> Nanos {
    Nanos((ALIKE * least.as_f64()) as u64)
}

/// The part of the time of the packs that a scheduler prefers which others may take.
fn gain(packing: &Packing, block_size: u32) -> f64 {
    if packing.packs.iter().all(|pack| pack.is_subtree(block_size)) {
        SUBTREES_GAIN
    } else if packing.takes_requests_by_heads() {
        ONE_HEAD_GAIN
    } else if packing.one_wave {
        ONE_WAVE_GAIN
    } else {
        GAIN
    }
}

/// The most that other packs may take where those that a scheduler prefers need `time`.
pub(super) fn gaining(time: Nanos, packing: &Packing, block_size: u32) -> Nanos {
    Nanos(((time.as_f64() * gain(packing, block_size)).ceil() as u64).saturating_sub(1))
}

/// The packs of a scheduler whose run under a strategy is shortest, of those that it leaves open. Beside prefill cohorts
/// tell no times, and the scheduler's own choice holds.
///
/// # Errors
/// As [`Scheduler::pack`], and where the strategy cannot launch the packs.
pub(crate) fn shortest(
    input: &PackInput<'_>,
    scheduler: &dyn Scheduler,
    (strategy, rule): (Strategy, TileRule),
) -> Result<Packing> {
    if input.batch.prefills().next().is_some() {
        return scheduler.pack(input);
    }
    let mut packings = scheduler.packings(input)?;
    if packings.len() == 1 {
        return Ok(packings.swap_remove(0));
    }
    let choice = PlanChoice { scheduler: scheduler.name(), strategy, rule, explain: false };
    let candidates: Vec<Candidate> =
        packings.iter().map(|packing| Candidate::of(input, packing, &choice)).collect::<Result<_>>()?;
    let block_size = input.batch.shape.block_size;
    let most = |at: usize| gaining(candidates[0].run.time, &packings[at], block_size);
    let others = (1..candidates.len()).filter(|at| candidates[*at].run.time <= most(*at));
    let mut taken = Taken::default();
    let chosen = others.filter(|at| taken.takes(candidates[*at].run)).last().unwrap_or(0);
    let mut packing = packings.swap_remove(chosen);
    if input.explain {
        packing.decisions.records.insert(0, explain(&candidates, chosen, gain(&packing, block_size)));
    }
    Ok(packing)
}

/// A packing that is left open, as a run.
struct Candidate {
    run: Run,
    packs: usize,
    tokens: Tokens,
    /// Whether each CTA takes one KV head.
    one_head: bool,
}

impl Candidate {
    fn of(input: &PackInput<'_>, packing: &Packing, choice: &PlanChoice) -> Result<Self> {
        let plan = plan::build(input, packing, choice)?;
        let time = estimate(&plan, input.tree, input.device).unwrap_or(Nanos(u64::MAX));
        Ok(Self {
            run: Run { time, partials: plan.merge.max_partials() },
            packs: plan.packs.len(),
            tokens: Tokens(plan.packs.iter().map(|pack| pack.tokens.0).sum()),
            one_head: packing.one_head,
        })
    }
}

fn explain(candidates: &[Candidate], chosen: usize, gain: f64) -> Decision {
    let way = |of: &Candidate| {
        let heads = if of.one_head { ", one KV head a CTA" } else { "" };
        let name =
            format!("{} packs over {} KV tokens, {} partials a query{heads}", of.packs, of.tokens, of.run.partials);
        Considered::new(name, of.run.time.as_f64() * 1e-3, Price::run(of.run.time.as_f64()))
    };
    Decision {
        subject: Subject::Plan,
        other: None,
        choice: Choice::Sharing,
        considered: candidates.iter().map(way).collect(),
        chosen,
        unit: "µs by cohorts".into(),
        rule: "the packs that the scheduler prefers, but for others whose run is shorter by cohorts of like CTAs, and by more than these err; of such whose runs take alike, the fewest partials"
            .into(),
        constant: Some(RuleConstant::new("part of the first one's time", gain, None)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::hw;
    use crate::session::{Planned, plan_batch};
    use crate::tile;
    use crate::workload::{AttentionShape, BatchSpec, parse_tree, random_forest};

    fn options(strategy: Strategy) -> PlanOptions {
        let device = hw::find("h200-sxm").unwrap();
        PlanOptions { scheduler: "min-time".to_owned(), strategy, explain: false, ..PlanOptions::new(device) }
    }

    fn planned(spec: &BatchSpec, strategy: Strategy) -> Planned {
        let spec = Arc::new(spec.clone());
        plan_batch(&spec, &Arc::new(spec.build().unwrap()), &options(strategy)).unwrap()
    }

    /// The price of the packs that `min-time` prefers, and of those that are planned; and what these have to gain, where they are
    /// others.
    fn prices(spec: &BatchSpec, strategy: Strategy) -> ([f64; 2], f64) {
        let (options, planned) = (options(strategy), planned(spec, strategy));
        let device = &options.device;
        let tiles = tile::solve(device, planned.batch.shape.head_dim, planned.batch.shape.dtype);
        let Asked { input, scheduler, rule } = Asked::of(&planned.batch, (&planned.tree, &tiles), &options).unwrap();
        let choice = PlanChoice { scheduler: "min-time", strategy, rule, explain: false };
        let first = plan::build(&input, &scheduler.packings(&input).unwrap()[0], &choice).unwrap();
        let prices = [&first, &planned.plan].map(|plan| estimate(plan, &planned.tree, device).unwrap().as_f64());
        let packings = scheduler.packings(&input).unwrap();
        let is_taken = |packing: &&Packing| plan::build(&input, packing, &choice).unwrap().packs == planned.plan.packs;
        let gain = gain(packings.iter().find(is_taken).unwrap(), planned.batch.shape.block_size);
        (prices, gain)
    }

    /// Joined packs near their limits: those of the first tree take 10 % less by their price, of the second 4 % more.
    #[test]
    fn joined_packs_near_their_limits_are_taken_for_a_shorter_run() {
        for (tree, (query_heads, kv_heads), joined) in
            [("1,512_6176,564", (32, 32), 4), ("1,256_3904,1195", (16, 4), 0)]
        {
            let shape = AttentionShape { query_heads, kv_heads, ..Default::default() };
            let planned = planned(&parse_tree(tree, shape).unwrap(), Strategy::Fused);
            let taken = planned.plan.packs.iter().filter(|pack| pack.is_joined()).count();
            assert_eq!(taken, joined, "{tree}");
        }
    }

    #[test]
    fn other_packs_are_taken_only_for_a_shorter_run() {
        for spec in (0..24).map(|number| random_forest(31, number)) {
            for strategy in Strategy::ANY_BATCH {
                let ([first, taken], gain) = prices(&spec, strategy);
                assert!(
                    (taken - first).abs() < 0.5 || taken < gain * first,
                    "{} {}: {first} {taken}",
                    spec.name,
                    strategy.name()
                );
            }
        }
    }

    /// Ten and four pieces of PAT's first configuration have the least price by a thousandth, and fourteen partials a query.
    #[test]
    fn of_packs_whose_runs_take_alike_those_with_the_fewest_partials_are_taken() {
        let shape = AttentionShape { query_heads: 32, kv_heads: 8, ..AttentionShape::default() };
        let spec = parse_tree("1,10_4096,416", shape).unwrap();
        let (options, planned) = (options(Strategy::Fused), planned(&spec, Strategy::Fused));
        let device = &options.device;
        let tiles = tile::solve(device, shape.head_dim, shape.dtype);
        let Asked { input, scheduler, rule } = Asked::of(&planned.batch, (&planned.tree, &tiles), &options).unwrap();
        let choice = PlanChoice { scheduler: "min-time", strategy: Strategy::Fused, rule, explain: false };
        let packings = scheduler.packings(&input).unwrap();
        let runs = packings.iter().map(|packing| Candidate::of(&input, packing, &choice).unwrap());
        let least = runs.map(|candidate| candidate.run).min_by_key(|run| run.time).unwrap();
        let taken = estimate(&planned.plan, &planned.tree, device).unwrap();
        assert!(taken > least.time && taken.as_f64() <= ALIKE * least.time.as_f64(), "{taken:?} {:?}", least.time);
        assert!(planned.plan.merge.max_partials() < least.partials);
    }

    /// Leaves of 96 tokens cost more to merge than to read along with others, but not by a twentieth.
    #[test]
    fn packs_of_whole_subtrees_need_not_gain_a_twentieth() {
        let shape = AttentionShape { query_heads: 32, kv_heads: 8, ..AttentionShape::default() };
        let spec = parse_tree("1,8,384_512,256,96", shape).unwrap();
        let ([first, taken], gain) = prices(&spec, Strategy::Fused);
        assert!(taken > GAIN * first && taken < gain * first, "{first} {taken}");
    }

    /// In CTAs of four heads one request has to be cut into so many pieces that their merge takes as long as all else, or less
    /// where CTAs without tasks share it.
    #[test]
    fn one_long_request_is_spread_by_heads_before_it_is_cut() {
        for (tree, query_heads, kv_heads, part) in
            [("1_10592", 20, 4, 0.88), ("2_4320", 40, 8, 0.94), ("1,3_9792,56", 24, 8, 0.88)]
        {
            let shape = AttentionShape { query_heads, kv_heads, ..AttentionShape::default() };
            let ([first, taken], _) = prices(&parse_tree(tree, shape).unwrap(), Strategy::Fused);
            assert!(taken < part * first, "{tree}: {first} {taken}");
        }
    }

    /// A prefix of one KV head costs more to merge than to read again from L2.
    #[test]
    fn ten_requests_of_one_kv_head_are_not_cut_for_a_prefix_that_l2_gives() {
        for strategy in [Strategy::Serial, Strategy::Fused] {
            let shape = AttentionShape { query_heads: 16, kv_heads: 1, ..AttentionShape::default() };
            let plan = planned(&parse_tree("1,10_4096,416", shape).unwrap(), strategy).plan;
            assert!(plan.packs.iter().all(|pack| pack.queries_len == 1), "{}", strategy.name());
            assert!(plan.merge.max_partials() <= 12, "{}: {}", strategy.name(), plan.merge.max_partials());
        }
    }
}
