//! Whether what came from a file fits together well enough to be followed: every index that a view
//! or a figure would use lies inside what it points into.

use crate::capture::{Count, Counted, CounterSeries, Provenance, SpanKind, Spans};
use crate::plan::{Launch, LaunchKind, LaunchPlan};
use crate::units::Nanos;
use crate::workload::{BatchSpec, Limits, PrefixTree};

/// More SMs or lanes an SM than any GPU has; figures above are damage.
const MOST_SMS: u32 = 4096;
/// See [`MOST_SMS`].
const MOST_LANES: u32 = 1024;
/// Eighteen minutes; times the most lanes of the most SMs still far from overflow.
pub(crate) const LONGEST_RUN: Nanos = Nanos(1 << 40);

type Fits = Result<(), String>;

/// Checks the indices of a plan.
pub(super) fn plan_fits(plan: &LaunchPlan) -> Fits {
    plan.shape.validate().map_err(|error| error.to_string())?;
    let (packs, slots) = (plan.packs.len() as u64, plan.queries.len() as u64);
    for (position, pack) in plan.packs.iter().enumerate() {
        if u64::from(pack.slots_begin) + u64::from(pack.queries_len) > slots
            || pack.blocks_begin > pack.blocks_end
            || pack.heads == 0
        {
            return Err(format!("pack {position} reaches past the queries or blocks"));
        }
    }
    if plan.order.iter().any(|pack| u64::from(pack.0) >= packs) {
        return Err("a launch names a pack that is not there".to_owned());
    }
    for (position, launch) in plan.launches.iter().enumerate() {
        if launch.packs_begin > launch.packs_end || launch.packs_end as usize > plan.order.len() {
            return Err(format!("launch {position} reaches past the packs"));
        }
        let decodes = u64::from(launch.packs_end - launch.packs_begin) * u64::from(plan.heads_of(launch));
        let tasks = decodes + prefill_ctas(plan, launch).ok_or("a launch names a prefill task that is not there")?;
        if launch.after.iter().any(|&other| other as usize >= plan.launches.len()) || u32::try_from(tasks).is_err() {
            return Err(format!("launch {position} waits for a launch that is not there, or is too large"));
        }
    }
    prefill_fits(plan)?;
    merge_fits(plan)?;
    rounds_fit(plan)
}

/// Checks that the prescribed merges are there, and read slots that exist.
fn rounds_fit(plan: &LaunchPlan) -> Fits {
    let rounds = &plan.merge.rounds;
    for launch in &plan.launches {
        if matches!(launch.kind, LaunchKind::MergeRound(round) if round as usize >= rounds.len()) {
            return Err("a launch names a merge that is not there".to_owned());
        }
    }
    for (position, round) in rounds.iter().enumerate() {
        let ordered = round.starts.windows(2).all(|pair| pair[0] < pair[1]);
        let whole = round.starts.first() == Some(&0)
            && round.starts.len() == round.rows() + 1
            && round.starts.last().is_some_and(|&last| last as usize == round.slots.len());
        if !ordered || !whole || round.slots.iter().any(|&slot| slot as usize >= plan.queries.len()) {
            return Err(format!("merge round {position} reaches past its slots"));
        }
    }
    Ok(())
}

/// Prefill CTAs of a launch, if its tasks are there.
fn prefill_ctas(plan: &LaunchPlan, launch: &Launch) -> Option<u64> {
    let (begin, end) = match launch.kind {
        LaunchKind::Prefill(kernel) => (kernel.tasks_begin, kernel.tasks_end),
        LaunchKind::Hybrid(kernel) => (kernel.tasks_begin, kernel.tasks_end),
        LaunchKind::MergePrefill => return Some(plan.prefill.merged_rows()),
        LaunchKind::Attention(_) | LaunchKind::Persistent(_) | LaunchKind::Merge | LaunchKind::MergeRound(_) => (0, 0),
    };
    let there = begin <= end && end as usize <= plan.prefill.tasks.len();
    there.then(|| u64::from(end - begin) * u64::from(plan.shape.query_heads))
}

/// Checks chunks, tasks and slots of the prefill against each other.
fn prefill_fits(plan: &LaunchPlan) -> Fits {
    let prefill = &plan.prefill;
    for (position, task) in prefill.tasks.iter().enumerate() {
        let slots_end = task.slots_begin.map_or(0, |slot| u64::from(slot) + u64::from(task.rows_end));
        let ordered = task.rows_begin < task.rows_end && task.kv_begin <= task.kv_end;
        let small = u64::from(task.kv_end).max(u64::from(task.position)) <= Limits::TOKENS;
        if !ordered || !small || task.tile.n == 0 || slots_end > u64::from(prefill.slots) + u64::from(task.rows_begin) {
            return Err(format!("prefill task {position} is out of range"));
        }
    }
    for (position, chunk) in prefill.chunks.iter().enumerate() {
        let slots = u64::from(chunk.splits) * u64::from(chunk.rows);
        let inside = chunk.splits <= 1 || u64::from(chunk.slots_begin) + slots <= u64::from(prefill.slots);
        let tasks = chunk.tasks_begin <= chunk.tasks_end && chunk.tasks_end as usize <= prefill.tasks.len();
        if !inside || !tasks || chunk.rows > chunk.kv || u64::from(chunk.kv) > Limits::TOKENS {
            return Err(format!("prefill chunk {position} is out of range"));
        }
    }
    Ok(())
}

fn merge_fits(plan: &LaunchPlan) -> Fits {
    let starts = &plan.merge.starts;
    let ordered = starts.windows(2).all(|pair| pair[0] <= pair[1]);
    let inside = starts.last().is_none_or(|&last| last as usize <= plan.merge.slots.len());
    if !ordered || !inside || starts.len() > Limits::REQUESTS + 1 {
        return Err("the merge reaches past its slots".to_owned());
    }
    if plan.merge.slots.iter().any(|&slot| slot as usize >= plan.queries.len()) {
        return Err("the merge names a slot that is not there".to_owned());
    }
    if plan.queries.iter().any(|query| query.at() + 1 >= starts.len()) {
        return Err("a pack names a query that is not there".to_owned());
    }
    Ok(())
}

/// Checks a plan, sound in itself, against the batch that it is said to be of.
pub(super) fn batch_fits(plan: &LaunchPlan, batch: &BatchSpec) -> Fits {
    let batch = batch.build().map_err(|error| error.to_string())?;
    if plan.shape != batch.shape || plan.merge.starts.len() != batch.requests().len() + 1 {
        return Err("it is the plan of another batch".to_owned());
    }
    plan.prefill.coverage(&batch).map_err(|error| error.to_string())?;
    let nodes = PrefixTree::of(&batch).nodes.len();
    for (position, pack) in plan.packs.iter().enumerate() {
        let queries = &plan.queries[pack.slots_begin as usize..(pack.slots_begin + pack.queries_len) as usize];
        let inside = queries.iter().all(|&query| pack.blocks_end as usize <= batch.tables().row(query).len());
        if !inside || pack.node.at() >= nodes {
            return Err(format!("pack {position} reaches past its requests or the prefix tree"));
        }
    }
    Ok(())
}

/// Checks that the columns of a run of spans are as long as promised and point into plan and device.
pub(super) fn spans_fit(spans: &Spans, promised: u64, plan: &LaunchPlan, provenance: &Provenance) -> Fits {
    let columns = [
        spans.kind.len(),
        spans.launch.len(),
        spans.cta.len(),
        spans.sm.len(),
        spans.slot.len(),
        spans.begin.len(),
        spans.first_tile.len(),
        spans.loop_end.len(),
        spans.end.len(),
    ];
    if columns.iter().any(|&length| length as u64 != promised) {
        return Err(format!("its columns should have {promised} spans each"));
    }
    let ctas: Vec<u32> = plan.launches.iter().map(|launch| plan.cta_count(launch)).collect();
    for span in spans.iter() {
        if ctas.get(span.launch as usize).is_none_or(|&count| span.cta >= count) {
            return Err(format!("a span names CTA {} of launch {}, which the plan has not", span.cta, span.launch));
        }
        let merge_launch = plan.launches[span.launch as usize].kind.is_merge();
        if merge_launch && span.kind == SpanKind::Attention {
            return Err(format!("a span computes a pack in launch {}, which merges", span.launch));
        }
        if span.sm >= provenance.sm_count.min(MOST_SMS)
            || span.slot >= MOST_LANES
            || span.begin > span.end
            || span.end > LONGEST_RUN
        {
            return Err(format!("a span is out of range: SM {}, lane {}, end {} ns", span.sm, span.slot, span.end.0));
        }
    }
    Ok(())
}

/// Checks that a series stays within the times that a run can have.
pub(super) fn series_fits(series: &CounterSeries) -> Fits {
    let length = series.step.0.checked_mul(series.values.len() as u64);
    match length.and_then(|length| length.checked_add(series.start.0)) {
        Some(end) if end <= LONGEST_RUN.0 => Ok(()),
        _ => Err(format!("the times of '{}' are out of range", series.name)),
    }
}

/// Checks that counts are of launches that are there, and numbers that can be.
pub(super) fn counts_fit(counted: &Counted, plan: &LaunchPlan) -> Fits {
    if let Some(strange) = counted.launches.iter().find(|of| of.launch as usize >= plan.launches.len()) {
        return Err(format!("it has counts of launch {}, which the plan has not", strange.launch));
    }
    let all = counted.launches.iter().map(|of| &of.counts).chain([&counted.plan]);
    let can_be = |count: &Count| count.value.is_finite() && count.value >= 0.0;
    match all.flat_map(|counts| &counts.0).find(|count| !can_be(count)) {
        Some(count) => Err(format!("its {} is {}", count.counter.name(), count.value)),
        None => Ok(()),
    }
}
