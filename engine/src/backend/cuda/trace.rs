//! From the records that the kernels wrote to the spans of a capture.
//!
//! ```text
//! records ─► fitted clocks ─► one span a CTA of the plan ─► residency lanes ─► windows of the launches
//! ```
//!
//! A record is one (pack, KV head), one (prefill task, query head) or one row of a merge. A CTA that computes several heads side by side wrote one for each; its
//! span goes from the first begin to the last end. Its warps may run ahead into the CTA's next task, so in
//! a persistent launch a span begins where the CTA's last one ended at the earliest.

use std::collections::BTreeMap;

use kernels::TraceRecord;

use crate::backend::cuda::clock::{ClockFit, Pair};
use crate::backend::cuda::lower::{Lowered, TaskOf};
use crate::capture::{KernelWindow, Span, Spans};
use crate::error::{Error, Result};
use crate::plan::{CtaOrder, CtaRole, Launch, LaunchPlan, Work};
use crate::units::Nanos;

/// What a traced run gave.
#[derive(Debug)]
pub(super) struct Traced {
    pub(super) spans: Spans,
    pub(super) kernels: Vec<KernelWindow>,
    /// SM clock while it ran, kHz.
    pub(super) clock_khz: u32,
    /// See [`ClockFit::error`].
    pub(super) clock_error: f64,
}

/// Makes spans of records. Times count from `origin`, a reading of the GPU's timer before the launch, which moves in
/// steps of `step`.
pub(super) fn spans(
    plan: &LaunchPlan,
    (lowered, watched): (&Lowered, &[u32]),
    records: &[TraceRecord],
    origin: u64,
    step: Nanos,
) -> Result<Traced> {
    let readings = records.iter().flat_map(|r| r.readings().map(|reading| Pair { sm: r.sm(), reading }));
    let pairs: Vec<Pair> = readings.collect();
    let fit = ClockFit::new(&pairs, origin, step.as_f64())
        .ok_or_else(|| Error::Gpu(format!("its trace holds {} records, too few to place in time", records.len())))?;
    let (merges, tasks): (Vec<_>, Vec<_>) = records.iter().partition(|record| is_of_a_watched_query(plan, record));
    let mut by_cta = gather(plan, lowered, &tasks, &fit)?;
    by_cta.extend(watched_merges(plan, watched, &merges, &fit)?);
    part_tasks(lowered, &mut by_cta);
    let mut spans: Vec<Span> = by_cta.into_values().collect();
    lanes(&mut spans);
    let kernels = windows(plan, &spans);
    let clock_khz = (1e6 / fit.rate).round() as u32;
    Ok(Traced { spans: Spans::from_unsorted(spans), kernels, clock_khz, clock_error: fit.error })
}

/// Where a span ran: launch, then CTA of the plan.
type Key = (u32, u32);

/// One span a CTA of the plan; `slot` holds the CTA's number on the GPU for now.
fn gather(
    plan: &LaunchPlan,
    lowered: &Lowered,
    records: &[&TraceRecord],
    fit: &ClockFit,
) -> Result<BTreeMap<Key, Span>> {
    let places = Places::of(plan);
    let mut by_cta: BTreeMap<Key, Span> = BTreeMap::new();
    for record in records {
        let (launch, work) = places
            .work(plan, lowered, record)
            .ok_or_else(|| Error::Gpu(format!("its trace names task {}, which the plan has not", record.task)))?;
        let of = &plan.launches[launch as usize];
        let cta = plan
            .cta_of(of, work)
            .ok_or_else(|| Error::Gpu(format!("its trace has work that launch {launch} has not")))?;
        let span = span_of(record, (plan.role_of(of, cta), launch, cta), fit);
        by_cta.entry((launch, cta)).and_modify(|whole| join(whole, &span)).or_insert(span);
    }
    Ok(by_cta)
}

fn span_of(record: &TraceRecord, (role, launch, cta): (CtaRole, u32, u32), fit: &ClockFit) -> Span {
    let at = |clock| Nanos(fit.nanos(record.sm(), clock).max(0.0).round() as u64);
    Span {
        role,
        launch,
        cta,
        sm: record.sm(),
        slot: record.cta,
        begin: at(record.begin_clock),
        first_tile: at(record.first_tile_clock),
        loop_end: at(record.main_done_clock),
        end: at(record.end_clock),
    }
}

/// Whether a record is of a merge by a CTA without tasks: of a merge where the plan has no launch of one.
fn is_of_a_watched_query(plan: &LaunchPlan, record: &TraceRecord) -> bool {
    record.task == TraceRecord::MERGE && !plan.launches.iter().any(|launch| launch.kind.is_merge())
}

/// The merges by CTAs without tasks. Each has a key of its own behind the tasks, and names the last task of the queue that has
/// a partial of its query.
fn watched_merges(
    plan: &LaunchPlan,
    watched: &[u32],
    records: &[&TraceRecord],
    fit: &ClockFit,
) -> Result<Vec<(Key, Span)>> {
    let mut last_of = vec![0; plan.merge.starts.len()];
    for (place, pack) in (0_u32..).zip(&plan.order) {
        for query in plan.queries_of(*pack) {
            last_of[query.at()] = place;
        }
    }
    let heads = plan.shape.kv_heads.max(1);
    let merge = |record: &&TraceRecord| {
        let launch = plan.launches.first()?;
        let query = *watched.get((record.kv_head / heads) as usize)?;
        let work = plan.decode_work(launch, *last_of.get(query as usize)?, record.kv_head % heads)?;
        let cta = plan.cta_of(launch, Work::Decode(work))?;
        // Its first tile is the end of its last wait for partials: before that nothing is merged.
        let span = span_of(record, (CtaRole::Merge, 0, cta), fit);
        Some(((0, u32::MAX - record.kv_head), Span { begin: span.first_tile, loop_end: span.first_tile, ..span }))
    };
    let merges: Option<Vec<_>> = records.iter().map(merge).collect();
    merges.ok_or_else(|| Error::Gpu("its trace names a merge that the plan has not".to_owned()))
}

/// The launches of packs, prefill tasks and merges.
struct Places {
    /// Of each place of the plan's order.
    of_pack: Vec<u32>,
    /// Of each prefill task.
    of_task: Vec<u32>,
    merges: Vec<u32>,
}

impl Places {
    fn of(plan: &LaunchPlan) -> Self {
        let mut places =
            Self { of_pack: vec![0; plan.order.len()], of_task: vec![0; plan.prefill.tasks.len()], merges: Vec::new() };
        for (at, launch) in (0_u32..).zip(&plan.launches) {
            places.of_pack[launch.packs_begin as usize..launch.packs_end as usize].fill(at);
            let (begin, end) = launch.kind.tasks();
            places.of_task[begin as usize..end as usize].fill(at);
            if launch.kind.is_merge() {
                places.merges.push(at);
            }
        }
        places
    }

    /// The launch of a record, and what the plan calls its work.
    fn work(&self, plan: &LaunchPlan, lowered: &Lowered, record: &TraceRecord) -> Option<(u32, Work)> {
        if let Some(merge) = self.merges.get((TraceRecord::MERGE - record.task) as usize) {
            return Some((*merge, Work::Merge(record.kv_head)));
        }
        let (place, query_head) = match record.task.checked_sub(TraceRecord::PREFILL) {
            None => (*lowered.place_of.get(record.task as usize)?, None),
            Some(task) => match *lowered.task_of.get(task as usize)? {
                TaskOf::Prefill(task) => {
                    let at = *self.of_task.get(task as usize)?;
                    let work = plan.prefill_work(&plan.launches[at as usize], task, record.kv_head);
                    return Some((at, Work::Prefill(work)));
                }
                TaskOf::Pack(place) => (place, Some(record.kv_head)),
            },
        };
        let at = *self.of_pack.get(place as usize)?;
        let launch: &Launch = &plan.launches[at as usize];
        let kv_head = query_head.map_or(record.kv_head, |head| head / plan.shape.group().max(1));
        let mut work = plan.decode_work(launch, place, kv_head)?;
        if let Some(head) = query_head.filter(|_| launch.order == CtaOrder::QueryHeads) {
            work.head = head;
        }
        Some((at, Work::Decode(work)))
    }
}

/// The heads of a CTA are one span.
fn join(whole: &mut Span, head: &Span) {
    whole.begin = whole.begin.min(head.begin);
    whole.first_tile = whole.first_tile.min(head.first_tile);
    whole.loop_end = whole.loop_end.max(head.loop_end);
    whole.end = whole.end.max(head.end);
}

/// Parts the tasks of each persistent CTA from each other, and gives every span a length.
fn part_tasks(lowered: &Lowered, by_cta: &mut BTreeMap<Key, Span>) {
    let mut order: Vec<Key> = by_cta.keys().copied().collect();
    order.sort_by_key(|key| {
        let span = &by_cta[key];
        (span.launch, span.slot, span.end, span.begin)
    });
    let mut before: Option<Span> = None;
    for key in order {
        let Some(span) = by_cta.get_mut(&key) else { continue };
        let stays = lowered.stays(span.launch);
        if let Some(last) = before.filter(|last| stays && (last.launch, last.slot) == (span.launch, span.slot)) {
            span.begin = span.begin.max(last.end);
        }
        span.end = span.end.max(span.begin + Nanos(1));
        span.first_tile = span.first_tile.clamp(span.begin, span.end);
        span.loop_end = span.loop_end.clamp(span.first_tile, span.end);
        before = Some(*span);
    }
}

/// A CTA keeps the first lane of its SM that was free when it began.
fn lanes(spans: &mut [Span]) {
    let mut residents: BTreeMap<(u32, u32, u32), (Nanos, Nanos)> = BTreeMap::new();
    for span in &*spans {
        let stay = residents.entry((span.sm, span.launch, span.slot)).or_insert((span.begin, span.end));
        *stay = (stay.0.min(span.begin), stay.1.max(span.end));
    }
    let mut arrivals: Vec<_> =
        residents.iter().map(|(&(sm, launch, cta), &(begin, end))| (sm, begin, end, launch, cta)).collect();
    arrivals.sort_unstable();
    let mut free_at: BTreeMap<u32, Vec<Nanos>> = BTreeMap::new();
    let mut lane_of = BTreeMap::new();
    for (sm, begin, end, launch, cta) in arrivals {
        let lanes = free_at.entry(sm).or_default();
        let lane = lanes.iter().position(|free| *free <= begin).unwrap_or_else(|| {
            lanes.push(Nanos::ZERO);
            lanes.len() - 1
        });
        lanes[lane] = end;
        lane_of.insert((sm, launch, cta), lane as u32);
    }
    for span in spans {
        span.slot = lane_of[&(span.sm, span.launch, span.slot)];
    }
}

/// A launch could begin when those that it waits for were done; the first ones at the start of the run.
fn windows(plan: &LaunchPlan, spans: &[Span]) -> Vec<KernelWindow> {
    let mut windows: Vec<Option<(Nanos, Nanos)>> = vec![None; plan.launches.len()];
    for span in spans {
        let window = windows[span.launch as usize].get_or_insert((span.begin, span.end));
        *window = (window.0.min(span.begin), window.1.max(span.end));
    }
    let end_of = |launch: u32| windows.get(launch as usize).copied().flatten().map_or(Nanos::ZERO, |window| window.1);
    let mut kernels = Vec::new();
    for (at, launch) in plan.launches.iter().enumerate() {
        let Some((begin, end)) = windows[at] else { continue };
        let before = plan.before_on_stream(at);
        let waits = launch.after.iter().copied().chain(before.map(|other| other as u32));
        let ready = waits.map(end_of).max().unwrap_or(Nanos::ZERO).min(begin);
        kernels.push(KernelWindow { launch: at as u32, ready, begin, end });
    }
    kernels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing::with_fused_plan;
    use crate::workload::{AttentionShape, parse_tree};

    #[test]
    fn a_merge_that_waited_is_shown_from_the_end_of_its_wait_on() {
        let shape = AttentionShape { query_heads: 32, kv_heads: 8, ..AttentionShape::default() };
        let spec = parse_tree("1,10_4096,416", shape).unwrap();
        let plan = with_fused_plan(&spec, ("pat", "h200-sxm"), |_, plan| plan.clone());
        // At 1.7 GHz: 2 µs of waiting and 2 of merging.
        let mut record = TraceRecord::default();
        (record.task, record.begin_ns, record.end_ns) = (TraceRecord::MERGE, 1_001_000, 1_005_000);
        (record.begin_clock, record.first_tile_clock, record.end_clock) = (10_000, 13_400, 16_800);
        record.main_done_clock = record.begin_clock;
        let pairs = record.readings().map(|reading| Pair { sm: 0, reading });
        let fit = ClockFit::new(&pairs, 1_000_000, 32.0).unwrap();
        let merges = watched_merges(&plan, &[3], &[&record], &fit).unwrap();
        let span = merges[0].1;
        let near = |time: Nanos, ns: f64| assert!((time.as_f64() - ns).abs() < 40.0, "{time:?}, not {ns}");
        near(span.begin, 3_000.0);
        near(span.end, 5_000.0);
        assert_eq!((span.role, span.first_tile, span.loop_end), (CtaRole::Merge, span.begin, span.begin));
    }
}
