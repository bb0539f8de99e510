//! Whether what came from a file fits together well enough to be followed: every index that a view
//! or a figure would use lies inside what it points into.

use super::file::{Meta, SPANS_PER_CHUNK};
use crate::capture::{Count, Counted, CounterSeries, KernelWindow, Provenance, Spans};
use crate::decision::{Decision, Subject};
use crate::pack::SubtreeLayout;
use crate::plan::{CtaRole, Launch, LaunchKind, LaunchPlan, Placement};
use crate::units::{Nanos, QueryIdx};
use crate::workload::{BatchSpec, Limits};

/// More SMs or lanes an SM than any GPU has; figures above are damage.
const MOST_SMS: u32 = 4096;
/// See [`MOST_SMS`]; an SM of today holds at most 32 CTAs.
const MOST_LANES: u32 = 64;
/// 68 billion spans. Bounds the work that a damaged count can ask for.
const MOST_SPANS: u64 = SPANS_PER_CHUNK as u64 * (1 << 20);
/// See [`MOST_SPANS`].
const MOST_SERIES: u32 = 1 << 16;
/// Eighteen minutes; times the most lanes of the most SMs still far from overflow.
pub(crate) const LONGEST_RUN: Nanos = Nanos(1 << 40);

/// An exabyte. Bytes of reads and writes are added up in 64 bits.
const MOST_BYTES: f64 = 1e18;

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
        let rows = pack.queries_len.saturating_mul(plan.shape.group());
        let masked = pack.tile == SubtreeLayout::tile(rows) && rows <= pack.tile.m;
        if pack.is_subtree(plan.shape.block_size) && !masked {
            return Err(format!("pack {position} has more tokens than its blocks, and no tile with masks"));
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
    if launch.kind == LaunchKind::MergePrefill {
        return Some(plan.prefill.merged_rows());
    }
    let (begin, end) = launch.kind.tasks();
    let there = begin <= end && end as usize <= plan.prefill.tasks.len();
    there.then(|| u64::from(end - begin) * u64::from(launch.kind.prefill_heads(&plan.shape)))
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

/// Checks a plan, sound in itself, against the batch that it is said to be of. Lays out no block tables: a
/// short text can ask for large ones. Whether the tree has the nodes of the packs shows where it is built.
pub(super) fn batch_fits(plan: &LaunchPlan, batch: &BatchSpec) -> Fits {
    let requests = batch.outline().map_err(|error| error.to_string())?;
    if plan.shape != batch.shape || plan.merge.starts.len() != requests.len() + 1 {
        return Err("it is the plan of another batch".to_owned());
    }
    plan.prefill.coverage(&requests).map_err(|error| error.to_string())?;
    let blocks = |query: QueryIdx| requests[query.at()].kv.0.div_ceil(u64::from(batch.shape.block_size));
    for (position, pack) in plan.packs.iter().enumerate() {
        let queries = &plan.queries[pack.slots_begin as usize..(pack.slots_begin + pack.queries_len) as usize];
        let tokens = u64::from(pack.blocks_end - pack.blocks_begin) * u64::from(batch.shape.block_size);
        let below =
            || queries.iter().map(|&query| blocks(query).saturating_sub(u64::from(pack.blocks_end))).sum::<u64>();
        let most = if pack.is_subtree(batch.shape.block_size) {
            tokens + below() * u64::from(batch.shape.block_size)
        } else {
            tokens
        };
        if pack.tokens.0 > most || !queries.iter().all(|&query| u64::from(pack.blocks_end) <= blocks(query)) {
            return Err(format!("pack {position} reaches past its requests"));
        }
    }
    Ok(())
}

/// Checks that placements are of launches that are there, each once, and say something that can be.
pub(super) fn placements_fit(placements: &[Placement], plan: &LaunchPlan) -> Fits {
    if placements.windows(2).any(|pair| pair[0].launch >= pair[1].launch) {
        return Err("they do not follow the launches".to_owned());
    }
    for Placement { launch, sms, programmatic } in placements {
        if *launch as usize >= plan.launches.len() {
            return Err(format!("one is of launch {launch}, which the plan has not"));
        }
        if sms.is_some_and(|sms| !(1..=MOST_SMS).contains(&sms)) {
            return Err(format!("launch {launch} has {} SMs", sms.unwrap_or_default()));
        }
        if *programmatic && plan.before_on_stream(*launch as usize).is_none() {
            return Err(format!("launch {launch} starts beside one before it on its stream, and there is none"));
        }
    }
    Ok(())
}

/// Checks that decisions are about what the plan has, and that each took one of the ways that it considered.
pub(super) fn decisions_fit(decisions: &[Decision], plan: &LaunchPlan) -> Fits {
    for decision in decisions {
        let about = match decision.subject {
            Subject::Pack(pack) => pack.at() < plan.packs.len(),
            Subject::Launch(launch) => (launch as usize) < plan.launches.len(),
            Subject::Node(_) | Subject::Plan => true,
        };
        if !about || decision.taken().is_none() {
            return Err(format!("that of {} does not fit the plan", decision.title()));
        }
    }
    Ok(())
}

/// Checks what is said of the run as a whole. Gives what of it is left out, being no number.
pub(super) fn meta_fits(meta: &mut Meta) -> Result<Vec<String>, String> {
    let made = &mut meta.provenance;
    if made.sm_count > MOST_SMS {
        return Err(format!("it is of a GPU with {} SMs", made.sm_count));
    }
    if meta.spans > MOST_SPANS || meta.counters > MOST_SERIES {
        return Err("it promises more spans or counter series than a file can have".to_owned());
    }
    if meta.times.makespans.iter().chain(&meta.times.upload).chain([&made.clock_step]).any(|time| *time > LONGEST_RUN) {
        return Err("its times are out of range".to_owned());
    }
    let mut left_out = Vec::new();
    for (figure, what) in
        [(&mut meta.probe_overhead, "the cost of tracing"), (&mut made.clock_error_ns, "the clock's error")]
    {
        if let Some(value) = figure.take_if(|value| !value.is_finite()) {
            left_out.push(format!("{what}: it is {value}"));
        }
    }
    Ok(left_out)
}

/// Checks that kernel windows are of launches that are there, at times that can be.
pub(super) fn windows_fit(windows: &[KernelWindow], plan: &LaunchPlan) -> Fits {
    for window in windows {
        if window.launch as usize >= plan.launches.len() {
            return Err(format!("one is of launch {}, which the plan has not", window.launch));
        }
        if window.ready > LONGEST_RUN
            || window.begin > LONGEST_RUN
            || window.end > LONGEST_RUN
            || window.begin > window.end
        {
            return Err(format!("that of launch {} is out of range", window.launch));
        }
    }
    Ok(())
}

/// Checks that the spans point into plan and device.
pub(super) fn spans_fit(spans: &Spans, plan: &LaunchPlan, provenance: &Provenance) -> Fits {
    let ctas: Vec<u32> = plan.launches.iter().map(|launch| plan.cta_count(launch)).collect();
    for span in spans.iter() {
        if ctas.get(span.launch as usize).is_none_or(|&count| span.cta >= count) {
            return Err(format!("a span names CTA {} of launch {}, which the plan has not", span.cta, span.launch));
        }
        let launch = &plan.launches[span.launch as usize];
        // The last-arriving CTA of a persistent launch merges after its task.
        let merges = span.role == CtaRole::Merge && launch.kind.is_persistent();
        if !merges && span.role != plan.role_of(launch, span.cta) {
            let (role, cta, at) = (span.role.name(), span.cta, span.launch);
            return Err(format!("a span of CTA {cta} of launch {at} has the role {role}, which is not the plan's"));
        }
        if span.sm >= provenance.sm_count || span.slot >= MOST_LANES || span.begin > span.end || span.end > LONGEST_RUN
        {
            return Err(format!("a span is out of range: SM {}, lane {}, end {} ns", span.sm, span.slot, span.end.0));
        }
    }
    Ok(())
}

/// Checks that a series holds numbers, and stays within the times that a run can have. Its name may be anything, and
/// is not repeated.
pub(super) fn series_fits(series: &CounterSeries) -> Fits {
    if let Some(value) = series.values.iter().find(|value| !value.is_finite()) {
        return Err(format!("it holds {value}"));
    }
    let bytes = series.values.iter().map(|value| value.abs()).sum::<f64>() * series.step.as_f64() * 1e-9;
    if bytes > MOST_BYTES {
        return Err(format!("it comes to {bytes:e} bytes"));
    }
    let length = series.step.0.checked_mul(series.values.len() as u64);
    match length.and_then(|length| length.checked_add(series.start.0)) {
        Some(end) if end <= LONGEST_RUN.0 && series.step > Nanos::ZERO => Ok(()),
        _ => Err("its times are out of range".to_owned()),
    }
}

/// Checks that counts are of launches that are there, and numbers that can be.
pub(super) fn counts_fit(counted: &Counted, plan: &LaunchPlan) -> Fits {
    if let Some(strange) = counted.launches.iter().find(|of| of.launch as usize >= plan.launches.len()) {
        return Err(format!("it has counts of launch {}, which the plan has not", strange.launch));
    }
    let all = counted.launches.iter().map(|of| &of.counts).chain([&counted.plan]);
    let can_be = |count: &Count| (0.0..=MOST_BYTES).contains(&count.value);
    match all.flat_map(|counts| &counts.0).find(|count| !can_be(count)) {
        Some(count) => Err(format!("its {} is {}", count.counter.name(), count.value)),
        None => Ok(()),
    }
}
