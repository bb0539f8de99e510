//! Kinds of CTAs, and the order in which each launch begins them.

use rustc_hash::FxHashMap;

use crate::backend::sim::cost::{CostModel, DecodeCta, MainLoop};
use crate::backend::sim::estimate::alike::{Alike, Class};
use crate::backend::sim::limits::Limits;
use crate::backend::sim::memory::LEAST_EXPOSURE;
use crate::backend::sim::run;
use crate::backend::sim::runs_on::RunsOn;
use crate::plan::{Launch, LaunchKind, LaunchPlan};
use crate::units::PackIdx;

/// CTAs that are alike.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) launch: u32,
    /// Prologue and epilogue, ns.
    pub(super) begin: f64,
    pub(super) end: f64,
    /// What the first task of a worker takes longer, ns: no tile of it came ahead.
    pub(super) first: f64,
    /// Merges in the mean, ns at full rate.
    pub(super) merging: f64,
    /// The main loop at full rate, ns.
    pub(super) time: f64,
    /// Part of it that HBM would take alone.
    pub(super) exposure: f64,
    /// What it takes of the memory system ([`MainLoop::fabric`]).
    pub(super) fabric: f64,
    pub(super) read: f64,
    /// What it brings into L2, read or written.
    pub(super) through: f64,
    /// Bytes between the SM and L2.
    pub(super) moved: f64,
    /// Time of the whole SM's tensor cores, ns.
    pub(super) tensor: f64,
    pub(super) ctas: f64,
}

/// A launch as it begins its CTAs: kinds with how many of each, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Order {
    pub(super) runs: Vec<(u32, f64)>,
    /// Part of the GPU that a CTA takes.
    pub(super) share: f64,
    /// From the end of a CTA to the beginning of the one in its place, ns.
    pub(super) turnover: f64,
    /// What its first CTAs take more than those that follow on their SMs, ns.
    pub(super) lead: f64,
}

/// All kinds of a plan.
#[derive(Debug)]
pub struct Kinds {
    pub(super) all: Vec<Kind>,
    /// Of each launch.
    pub(super) orders: Vec<Order>,
    /// The kind of each pack of a persistent launch; empty without one.
    pub(super) of_pack: Vec<u32>,
    pub(super) limits: Limits,
}

impl Kinds {
    pub(super) fn of(plan: &LaunchPlan, alike: &Alike, model: &CostModel<'_>, limits: &Limits) -> Option<Self> {
        let written = written(plan, alike);
        let mut kinds = Self { all: Vec::new(), orders: Vec::new(), of_pack: Vec::new(), limits: *limits };
        for (at, launch) in plan.launches.iter().enumerate() {
            let on = model.runs_on(plan, launch);
            let share = 1.0 / f64::from(model.ctas_per_sm(launch.kind, on) * model.device.sm_count);
            let runs = match launch.kind {
                LaunchKind::Attention(_) | LaunchKind::Persistent(_) => {
                    kinds.attention(plan, at, (model, on), (alike, &written), limits)
                }
                LaunchKind::Merge => {
                    let kept = kinds.kept(model);
                    let partials = plan.merge.merged_queries().map(|query| plan.merge.of(query).len() as u32);
                    kinds.merges(at, (model, limits), partials, |partials| model.merge_cta(partials, kept))
                }
                LaunchKind::MergeRound(round) => {
                    let kept = kinds.kept(model);
                    let round = &plan.merge.rounds[round as usize];
                    // The first row of its like stands for all.
                    let mut rows: FxHashMap<(usize, bool), usize> = FxHashMap::default();
                    let like = |row| *rows.entry((round.row(row).len(), round.finishes[row])).or_insert(row);
                    let like: Vec<usize> = (0..round.rows()).map(like).collect();
                    kinds.merges(at, (model, limits), like.into_iter(), |row| model.round_cta(round, row, kept))
                }
                _ => return None,
            };
            let lead = lead(launch.kind, model) + kinds.first_of_longest(at);
            let turnover = model.turnover(launch.kind, on).as_f64();
            kinds.orders.push(Order { runs, share, turnover, lead });
        }
        Some(kinds)
    }

    /// What the longest CTAs of a launch take longer where they are the first of workers, ns: where one wave is all, they end it.
    fn first_of_longest(&self, launch: usize) -> f64 {
        let of_launch = self.all.iter().filter(|kind| kind.launch as usize == launch);
        of_launch.max_by(|a, b| a.alone().total_cmp(&b.alone())).map_or(0.0, |longest| longest.first)
    }

    /// Takes the order of queues from the plan again.
    pub(super) fn order_again(&mut self, plan: &LaunchPlan) {
        for (launch, order) in
            plan.launches.iter().zip(&mut self.orders).filter(|(launch, _)| launch.kind.is_persistent())
        {
            order.runs.clear();
            for pack in plan.packs_of(launch) {
                push_run(&mut order.runs, self.of_pack[pack.at()], ctas(plan, launch, *pack));
            }
        }
    }

    fn attention(
        &mut self,
        plan: &LaunchPlan,
        at: usize,
        (model, on): (&CostModel<'_>, RunsOn),
        (alike, written): (&Alike, &[f64]),
        limits: &Limits,
    ) -> Vec<(u32, f64)> {
        let launch = &plan.launches[at];
        let persistent = launch.kind.is_persistent();
        if persistent {
            self.of_pack = vec![0; plan.packs.len()];
        }
        let mut known: Vec<Option<(u32, f64)>> = vec![None; alike.classes.len()];
        let mut runs = Vec::new();
        for idx in plan.packs_of(launch) {
            let class = alike.of_pack[idx.at()] as usize;
            let (kind, ctas) = *known[class].get_or_insert_with(|| {
                let of = &alike.classes[class];
                self.all.push(decode_kind(plan, at, (model, on), (of, written[class]), limits));
                (self.all.len() as u32 - 1, ctas(plan, launch, of.first))
            });
            self.all[kind as usize].ctas += ctas;
            push_run(&mut runs, kind, ctas);
            if persistent {
                self.of_pack[idx.at()] = kind;
            }
        }
        runs
    }

    /// Rows of a merge kernel, by their partials and whatever else tells them apart.
    fn merges<R: Copy + PartialEq>(
        &mut self,
        at: usize,
        (model, limits): (&CostModel<'_>, &Limits),
        rows: impl Iterator<Item = R>,
        work: impl Fn(R) -> MainLoop,
    ) -> Vec<(u32, f64)> {
        let mut known: Vec<(R, u32)> = Vec::new();
        let mut runs = Vec::new();
        for row in rows {
            let like = known.iter().find(|(other, _)| *other == row).map(|(_, kind)| *kind);
            let kind = like.unwrap_or_else(|| {
                let work = work(row);
                // All but the first CTAs of an SM have the launch behind them.
                let begin = model.device.sim.idle_latency.as_f64();
                self.all.push(Kind::new(at, (begin, 0.0), &work, limits));
                let kind = self.all.len() as u32 - 1;
                known.push((row, kind));
                kind
            });
            self.all[kind as usize].ctas += 1.0;
            push_run(&mut runs, kind, 1.0);
        }
        runs
    }

    /// Part of the partials that L2 still holds when they are merged, as if they were written evenly between the reads.
    fn kept(&self, model: &CostModel<'_>) -> f64 {
        let device = model.device;
        let through: f64 = self.all.iter().map(|kind| kind.ctas * kind.through).sum();
        let useful = device.useful_l2_bytes();
        useful / (through + self.limits.back.by(through, device.dirty_bytes())).max(useful)
    }
}

impl Kind {
    fn new(launch: usize, (begin, end): (f64, f64), work: &MainLoop, limits: &Limits) -> Self {
        Self {
            launch: launch as u32,
            begin,
            end,
            first: 0.0,
            merging: 0.0,
            time: work.time,
            exposure: (work.waits.hbm / work.time).clamp(LEAST_EXPOSURE, 1.0),
            fabric: work.fabric(limits),
            read: work.dram_read,
            through: work.dram_read + work.dram_write,
            moved: work.moved,
            tensor: work.tensor,
            ctas: 0.0,
        }
    }

    /// A CTA by itself, ns.
    pub(super) fn alone(&self) -> f64 {
        self.time + self.apart()
    }

    /// All of that but its main loop, ns.
    pub(super) fn apart(&self) -> f64 {
        self.begin + self.end + self.merging
    }
}

/// The bytes that a pack of each class writes, over all heads.
fn written(plan: &LaunchPlan, alike: &Alike) -> Vec<f64> {
    if !plan.merge.rounds.is_empty() {
        // Systems that prescribe merges have forms of their own.
        let of_packs = run::written(plan);
        return alike.classes.iter().map(|class| of_packs[class.first.at()]).collect();
    }
    let of = |class: &Class| {
        let alone = plan.pack(class.first).queries_len - class.merged;
        plan.shape.partial_bytes_as(plan.partial_form()) * u64::from(class.merged)
            + plan.shape.query_bytes() * u64::from(alone)
    };
    alike.classes.iter().map(|class| of(class).as_f64()).collect()
}

fn decode_kind(
    plan: &LaunchPlan,
    at: usize,
    (model, on): (&CostModel<'_>, RunsOn),
    (class, written): (&Class, f64),
    limits: &Limits,
) -> Kind {
    let (launch, pack, sim) = (&plan.launches[at], plan.pack(class.first), &model.device.sim);
    let hit = 1.0 - class.unique;
    if let RunsOn::Prefill { kernel, further } = on {
        let work = model.decode_item(pack, &kernel, hit, (written, launch.order));
        return Kind::new(at, (0.0, kernel.item_of_pack().as_f64() + further), &work, limits);
    }
    let heads = plan.run_of_heads(launch, class.first);
    let ahead = launch.kind.is_persistent();
    let cta = DecodeCta { sight: class.sight, ..model.cta(pack, heads, launch.order, on) };
    let main_loop = |ahead| model.main_loop(pack, &DecodeCta { ahead, ..cta }, hit, written);
    let work = main_loop(ahead);
    let (begin, end) = if ahead {
        (sim.queue_pop, model.worker_epilogue(work.dram_write, class.merged > 0))
    } else {
        (sim.cta_prologue, model.epilogue(work.dram_write))
    };
    let end = end + model.last_step(&cta);
    let first = if ahead { main_loop(false).time - work.time } else { 0.0 };
    Kind { first, ..Kind::new(at, (begin.as_f64(), end), &work, limits) }
}

/// What the first CTAs of a launch take more than those that follow on their SMs, ns: workers are set up by then, and
/// merges have the launch behind them.
fn lead(kind: LaunchKind, model: &CostModel<'_>) -> f64 {
    let sim = &model.device.sim;
    if kind.is_persistent() {
        model.prologue(kind).as_f64() - sim.queue_pop.as_f64()
    } else if kind.is_merge() {
        sim.cta_prologue.as_f64()
    } else {
        0.0
    }
}

/// CTAs of a pack in a launch.
fn ctas(plan: &LaunchPlan, launch: &Launch, pack: PackIdx) -> f64 {
    f64::from(plan.heads_of(launch).div_ceil(plan.run_of_heads(launch, pack)))
}

fn push_run(runs: &mut Vec<(u32, f64)>, kind: u32, ctas: f64) {
    match runs.last_mut() {
        Some(last) if last.0 == kind => last.1 += ctas,
        _ => runs.push((kind, ctas)),
    }
}
