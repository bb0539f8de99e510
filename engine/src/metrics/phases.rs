//! Phases of a run: attention launches that overlap in time are one group, and between groups no
//! CTA runs.
//!
//! ```text
//! serial   │ramp│ group 0: 64×128 │gap│ group 1: 16×32 │gap│ group 2: merge │
//! streams  │ramp│ group 0: 64×128 + 16×32          │ join │ group 1: merge │
//! fused    │ramp│ group 0: workers, merges among them                      │
//! ```

use crate::capture::Capture;
use crate::hw;
use crate::plan::{Launch, LaunchKind, LaunchPlan};
use crate::tile;
use crate::units::Nanos;

/// Launches that ran at overlapping times.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Group {
    /// First CTA's begin.
    pub(super) begin: Nanos,
    /// Last CTA's end.
    pub(super) end: Nanos,
    /// The first moment at which a CTA of it could have been dispatched.
    pub(super) ready: Nanos,
    /// Lanes are filled for the first time until here.
    pub(super) ramp_end: Nanos,
    /// Whether all its launches merge.
    pub(super) merge: bool,
    /// Whether its first launch had to wait for one on another stream.
    pub(super) joined: bool,
    /// CTAs (or tasks).
    pub(super) ctas: u64,
    /// Their slot time.
    pub(super) busy: u64,
    /// Lanes an SM that its CTAs can hold at once.
    pub(super) room: u32,
    /// Up to three spans that ended last, latest first.
    pub(super) last: Vec<u32>,
    /// The span that began first.
    pub(super) first: u32,
}

/// What one launch did.
#[derive(Clone, Copy, Debug)]
struct Ran {
    launch: u32,
    begin: u64,
    end: u64,
    first_end: u64,
    ready: u64,
    ctas: u64,
    busy: u64,
    first: u32,
    last: [Option<u32>; 3],
    top_slot: u32,
}

/// The groups of a run by time.
pub(super) fn groups(plan: &LaunchPlan, capture: &Capture) -> Vec<Group> {
    let mut ran = launches_that_ran(plan, capture);
    ran.sort_unstable_by_key(|r| (r.begin, r.launch));
    let mut groups: Vec<Vec<Ran>> = Vec::new();
    let mut reach = 0;
    for run in ran {
        match groups.last_mut() {
            Some(group) if run.begin < reach => group.push(run),
            _ => groups.push(vec![run]),
        }
        reach = reach.max(run.end);
    }
    groups.iter().map(|members| join(plan, capture, members)).collect()
}

fn launches_that_ran(plan: &LaunchPlan, capture: &Capture) -> Vec<Ran> {
    let spans = &capture.spans;
    let mut ran: Vec<Option<Ran>> = vec![None; plan.launches.len()];
    for at in 0..spans.len() {
        if spans.begin[at] > spans.end[at] || spans.sm[at] >= capture.provenance.sm_count {
            continue;
        }
        // A span of a launch that the plan has not is damage; its time counts as busy all the same.
        let Some(entry) = ran.get_mut(spans.launch[at] as usize) else { continue };
        let (begin, end, index) = (spans.begin[at], spans.end[at], at as u32);
        let run = entry.get_or_insert(Ran {
            launch: spans.launch[at],
            begin,
            end,
            first_end: end,
            ready: begin,
            ctas: 0,
            busy: 0,
            first: index,
            last: [None; 3],
            top_slot: 0,
        });
        if begin < run.begin {
            (run.begin, run.first) = (begin, index);
        }
        run.end = run.end.max(end);
        run.first_end = run.first_end.min(end);
        run.busy += end - begin;
        run.ctas += u64::from(spans.role[at].computes() || is_merge(plan, spans.launch[at]));
        run.top_slot = run.top_slot.max(spans.slot[at]);
        keep_last(&mut run.last, index, |i| (spans.end[i as usize], std::cmp::Reverse(i)));
    }
    for window in &capture.kernels {
        if let Some(Some(run)) = ran.get_mut(window.launch as usize) {
            run.ready = window.ready.0.min(run.begin);
        }
    }
    ran.into_iter().flatten().collect()
}

fn is_merge(plan: &LaunchPlan, launch: u32) -> bool {
    plan.launches.get(launch as usize).is_some_and(|l| l.kind.is_merge())
}

fn keep_last<K: Ord>(last: &mut [Option<u32>; 3], candidate: u32, key: impl Fn(u32) -> K) {
    let mut carried = candidate;
    for place in last {
        match *place {
            None => {
                *place = Some(carried);
                return;
            }
            Some(held) if key(carried) > key(held) => {
                *place = Some(carried);
                carried = held;
            }
            Some(_) => {}
        }
    }
}

fn join(plan: &LaunchPlan, capture: &Capture, members: &[Ran]) -> Group {
    let first = members.iter().min_by_key(|r| (r.begin, r.launch));
    let end = |at: &u32| (std::cmp::Reverse(capture.spans.end[*at as usize]), *at);
    let mut last: Vec<u32> = members.iter().flat_map(|r| r.last.iter().flatten().copied()).collect();
    last.sort_unstable_by_key(end);
    last.truncate(3);
    let launch_of = |run: &Ran| &plan.launches[run.launch as usize];
    let ready_last = members.iter().map(|r| r.ready).max().unwrap_or(0);
    let first_end = members.iter().map(|r| r.first_end).min().unwrap_or(0);
    Group {
        begin: Nanos(members.iter().map(|r| r.begin).min().unwrap_or(0)),
        end: Nanos(members.iter().map(|r| r.end).max().unwrap_or(0)),
        ready: Nanos(members.iter().map(|r| r.ready).min().unwrap_or(0)),
        ramp_end: Nanos(ready_last.max(first_end)),
        merge: members.iter().all(|r| is_merge(plan, r.launch)),
        joined: first.is_some_and(|r| waits_for_another_stream(plan, launch_of(r))),
        ctas: members.iter().map(|r| r.ctas).sum(),
        busy: members.iter().map(|r| r.busy).sum(),
        room: members.iter().map(|r| room(plan, launch_of(r)).max(r.top_slot + 1)).max().unwrap_or(0),
        last,
        first: first.map_or(0, |r| r.first),
    }
}

fn waits_for_another_stream(plan: &LaunchPlan, launch: &Launch) -> bool {
    launch.after.iter().filter_map(|at| plan.launches.get(*at as usize)).any(|before| before.stream != launch.stream)
}

/// Lanes an SM that CTAs of a launch can hold by shared memory and registers; 0 where the device is
/// not in the table, so that what was seen counts alone.
fn room(plan: &LaunchPlan, launch: &Launch) -> u32 {
    let Ok(device) = hw::find(&plan.device) else { return 0 };
    match launch.kind {
        LaunchKind::Attention(tile) | LaunchKind::Persistent(tile) => {
            tile::occupancy(device, tile, plan.shape.head_dim, plan.shape.dtype)
        }
        LaunchKind::Prefill(kernel) | LaunchKind::PrefillQueue(kernel) | LaunchKind::FoldedPrefill(kernel) => {
            tile::resident(device, &kernel.cta)
        }
        LaunchKind::Hybrid(kernel) => tile::resident(device, &kernel.cta),
        LaunchKind::Merge | LaunchKind::MergeRound(_) | LaunchKind::MergePrefill => 0,
    }
}
