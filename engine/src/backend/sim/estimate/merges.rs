//! Merges by the last arrivers of a persistent launch: which kind of CTAs they fall to.

use rustc_hash::FxHashMap;

use crate::backend::sim::cost::CostModel;
use crate::backend::sim::estimate::kinds::Kinds;
use crate::backend::sim::merge_cost::SPREAD;
use crate::backend::sim::watched::Watched;
use crate::plan::{LaunchPlan, PlannedPack};
use crate::units::PackIdx;

/// What merges by last arrivers add to the ends of kinds, ns.
#[derive(Debug, Default)]
pub(super) struct LastMerges {
    /// By how much the last CTA of each kind that has any merges longer than its like do in the mean; none where nothing
    /// is merged so.
    pub(super) of_kinds: Vec<f64>,
    /// By how much the whole run ends later since a worker that merges holds its next task already.
    pub(super) held: f64,
}

/// Tasks of the persistent launch, and the workers that the GPU holds for them.
fn tasks_and_workers(kinds: &Kinds) -> (f64, f64) {
    let Some(launch) = kinds.of_pack.first().map(|kind| kinds.all[*kind as usize].launch) else { return (0.0, 1.0) };
    let tasks: f64 = kinds.all.iter().filter(|kind| kind.launch == launch).map(|kind| kind.ctas).sum();
    (tasks.round(), (1.0 / kinds.orders[launch as usize].share).round())
}

/// Whether the persistent launch of a plan is all there is, and each of its workers has one task at most.
pub(super) fn end_the_only_wave(plan: &LaunchPlan, kinds: &Kinds) -> bool {
    let (tasks, workers) = tasks_and_workers(kinds);
    plan.launches.len() == 1 && !kinds.of_pack.is_empty() && tasks <= workers
}

/// What merges take of workers in the mean over each kind, which goes to the kinds, and what they add to the end of the run.
///
/// Where nothing begins behind them, `ends` are the ends of the kinds without merges: then all of these is added, and of
/// packs that may as well end the other way round the one with the most queries is taken for the last.
pub(super) fn by_last_arrivers(
    plan: &LaunchPlan,
    model: &CostModel<'_>,
    kinds: &mut Kinds,
    ends: Option<&[f64]>,
) -> LastMerges {
    if kinds.of_pack.is_empty() || plan.merge.max_partials() < 2 {
        return LastMerges::default();
    }
    let arrivals = ends.map_or_else(|| Arrivals::of(plan, kinds), |ends| Arrivals::of_ends(plan, kinds, ends));
    let pack_of_slot = plan.packs_of_slots();
    let (tasks, workers) = tasks_and_workers(kinds);
    let folds = model.folds(tasks as u32, workers as u32);
    let busy = if ends.is_some() { 0.0 } else { (tasks / workers).min(1.0) };
    let heads = f64::from(plan.shape.kv_heads);
    let (mut sums, mut most) = (vec![0.0; kinds.all.len()], vec![0.0_f64; kinds.all.len()]);
    let mut of_pack = vec![0.0; plan.packs.len()];
    let merging = |partials: usize, pack: &PlannedPack, busy: f64| {
        let queries = pack.queries_len as usize;
        let heads = pack.heads.max(1);
        model.inline_merge(&vec![partials as u32; queries * heads as usize], (pack.tile, heads), (1.0, busy)).time
    };
    // What a whole pack of a kind takes to merge its queries of so many partials.
    let mut known: FxHashMap<(u32, usize), [f64; 2]> = FxHashMap::default();
    let watched = Watched::of(plan, model);
    for query in plan.merge.merged_queries() {
        let partials = plan.merge.of(query).len();
        let packs = plan.merge.of(query).iter().map(|slot| pack_of_slot[*slot as usize]);
        let Some(last) = arrivals.last(plan, packs) else { continue };
        let kind = kinds.of_pack[last.pack.at()] as usize;
        if watched.has(query) {
            let merge = watched.merge(model, partials as u32).map_or(0.0, |merge| merge.time);
            most[kind] = most[kind].max(last.late + merge);
            continue;
        }
        let (end, of_kind, pack) = (arrivals.of_pack[last.pack.at()], &kinds.all[kind], plan.pack(last.pack));
        if folds.joins(partials as u32, pack.heads, last.before, (end - of_kind.alone(), end - of_kind.end)) {
            continue;
        }
        // While other lanes have work, and when it is the last that has any.
        let [whole, last_whole] = *known
            .entry((kind as u32, partials))
            .or_insert_with(|| [busy, 0.0].map(|busy| merging(partials, pack, busy)));
        let ctas = heads / f64::from(pack.heads.max(1));
        let of_query = whole / f64::from(pack.queries_len.max(1));
        // Joined packs are done long before the others, which memory holds up and them not.
        if !pack.is_joined() {
            of_pack[last.pack.at()] += of_query;
        }
        sums[kind] += of_query * ctas;
        most[kind] = most[kind].max(last.late + last_whole);
    }
    if ends.is_some() {
        return LastMerges { of_kinds: most, held: 0.0 };
    }
    for ((kind, sum), most) in kinds.all.iter_mut().zip(sums).zip(&mut most) {
        kind.merging = sum / kind.ctas.max(1.0);
        *most = (*most - kind.merging).max(0.0);
    }
    LastMerges { of_kinds: most, held: arrivals.held(&of_pack) }
}

/// The pack that merges a query.
struct Last {
    pack: PackIdx,
    /// How much later than its own time it ends, ns.
    late: f64,
    /// When the one before it ends.
    before: f64,
}

/// When the packs of a queue end, ns: for telling which of them is the last. Either were all lanes busy and no CTA slowed, or
/// as they did.
struct Arrivals {
    of_pack: Vec<f64>,
    /// The part of its end by which a pack may end later, as far as that is told.
    spread: f64,
    /// When each pack of the queue begins, and what a CTA of it takes.
    queue: Vec<(f64, f64)>,
}

impl Arrivals {
    fn of(plan: &LaunchPlan, kinds: &Kinds) -> Self {
        let mut arrivals = Self { of_pack: vec![0.0; plan.packs.len()], spread: 0.0, queue: Vec::new() };
        for (launch, order) in plan.launches.iter().zip(&kinds.orders).filter(|(launch, _)| launch.kind.is_persistent())
        {
            // Waves begun before a pack, and what they take.
            let (mut waves, mut work) = (0.0, 0.0);
            for pack in plan.packs_of(launch) {
                let kind = &kinds.all[kinds.of_pack[pack.at()] as usize];
                let ctas = plan.shape.kv_heads.div_ceil(plan.run_of_heads(launch, *pack));
                // The first wave begins at once; later ones when the one before is half done in the mean.
                let begun = if waves < 1.0 { 0.0 } else { work - 0.5 * work / waves };
                arrivals.of_pack[pack.at()] = begun + kind.alone();
                arrivals.queue.push((begun, kind.alone()));
                let part = f64::from(ctas) * order.share;
                (waves, work) = (waves + part, work + part * kind.alone());
            }
        }
        arrivals
    }

    /// Of packs that begin together, from the ends of their kinds.
    fn of_ends(plan: &LaunchPlan, kinds: &Kinds, ends: &[f64]) -> Self {
        let of_pack = (0..plan.packs.len()).map(|pack| ends[kinds.of_pack[pack] as usize]).collect();
        Self { of_pack, spread: SPREAD, queue: Vec::new() }
    }

    /// By how much a run ends later where workers merge for as long as `of_pack` says after each pack. A worker takes its
    /// next task before it merges, and no other can have that then.
    fn held(&self, of_pack: &[f64]) -> f64 {
        let end = self.of_pack.iter().copied().fold(0.0, f64::max);
        let packs = self.of_pack.iter().zip(of_pack).filter(|(_, merges)| **merges > 0.0);
        let tail = |(arrives, merges): (&f64, &f64)| {
            let next = self.queue.get(self.queue.partition_point(|task| task.0 < *arrives))?;
            Some(arrives + merges + next.1 - end)
        };
        packs.filter_map(tail).fold(0.0, f64::max)
    }

    /// The pack that ends last, of equals the one with the most queries.
    fn last(&self, plan: &LaunchPlan, packs: impl Iterator<Item = PackIdx> + Clone) -> Option<Last> {
        let end = packs.clone().map(|pack| self.of_pack[pack.at()]).fold(0.0, f64::max);
        let may_be = |pack: &PackIdx| self.of_pack[pack.at()] * (1.0 + self.spread) >= end;
        let key = |pack: PackIdx| (plan.pack(pack).queries_len, self.of_pack[pack.at()]);
        let pack = packs.clone().filter(may_be).reduce(|a, b| if key(b) > key(a) { b } else { a })?;
        let before = packs.filter(|other| *other != pack).map(|other| self.of_pack[other.at()]).fold(0.0, f64::max);
        Some(Last { pack, late: end - self.of_pack[pack.at()], before })
    }
}
