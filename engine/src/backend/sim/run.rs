//! The event loop: launches become ready, CTAs are placed, main loops share the memory system.

mod last;
mod loops;
mod merging;
pub(super) mod order;
mod workers;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use rustc_hash::FxHashMap;

use crate::backend::sim::cost::{CostModel, Footprint};
use crate::backend::sim::dispatch::{Sms, TicketDesk};
use crate::backend::sim::fits::{self, Come};
use crate::backend::sim::l2::L2;
use crate::backend::sim::memory::{Fluid, Pace};
use crate::backend::sim::run::merging::Arrival;
use crate::backend::sim::run::order::Until;
use crate::backend::sim::runs_on::RunsOn;
use crate::backend::sim::series::Series;
use crate::backend::sim::sight::Sight;
use crate::backend::sim::watched::Watched;
use crate::cancel::Cancel;
use crate::capture::{KernelWindow, LONGEST_RUN, Span};
use crate::error::Result;
use crate::hw::Folds;
use crate::plan::{CtaRole, Dispatch, LaunchKind, LaunchPlan, PlannedPack};
use crate::units::{Nanos, PackIdx};
use crate::workload::{PartialForm, PrefixTree};

/// Events between two looks at the cancel flag.
const CANCEL_STRIDE: u32 = 4096;

/// What happens at a moment that is known in advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A launch may place its CTAs.
    Ready(u32),
    /// A CTA's first load leaves.
    Loads(u32),
    /// A CTA is done, after its epilogue.
    Done(u32),
    /// The place of a CTA is free for another.
    Free(u32),
}

/// A CTA, or the task that a persistent worker is at.
#[derive(Clone, Copy, Debug)]
struct Cta {
    span: Span,
    sm: usize,
    footprint: Footprint,
    first_tile: f64,
    /// Main loops that have not ended: two where prefill and decode share a CTA.
    running: u32,
    /// Bytes that it writes.
    written: f64,
    /// It has ended its task, and merges what that completed.
    merging: bool,
    /// It began when its worker had ended another task.
    follows: bool,
}

/// A launch while it runs.
#[derive(Debug)]
struct Progress {
    footprint: Footprint,
    /// CTAs (or tasks) in launch order, and how many are taken so far.
    ctas: Vec<u32>,
    taken: u32,
    done: u32,
    /// Whether a worker takes several short tasks at once, for a persistent launch.
    joined: bool,
    /// Workers still to place, for a persistent launch.
    workers: u32,
    /// CTAs of it that the GPU holds.
    lanes: u32,
    /// The partials that its tasks join to their own rows.
    folds: Folds,
    /// What is left to take by ticket, for a hybrid launch.
    tickets: Option<TicketDesk>,
    waiting_for: usize,
    ready: f64,
    begin: f64,
    end: f64,
    /// Of its spans, in whole nanoseconds, none of which is shorter than one.
    last_end: Nanos,
}

/// What a run gave.
pub(super) struct Outcome {
    pub(super) spans: Vec<Span>,
    pub(super) kernels: Vec<KernelWindow>,
    pub(super) dram_read: Series,
    pub(super) dram_write: Series,
    pub(super) moved: Series,
}

pub(super) struct Simulation<'a> {
    plan: &'a LaunchPlan,
    model: CostModel<'a>,
    /// What computes the packs of each launch.
    runs_on: Vec<RunsOn>,
    now: f64,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    progress: Vec<Progress>,
    /// Launches that have CTAs to place, in the order in which they became ready.
    placing: VecDeque<u32>,
    sms: Sms,
    fluid: Fluid,
    l2: L2,
    dram_bytes: f64,
    dram_written: f64,
    next_dispatch: f64,
    ctas: Vec<Cta>,
    free_ctas: Vec<u32>,
    /// Tasks that the persistent worker of each (SM, lane) has taken and not begun.
    desks: FxHashMap<(usize, u32), VecDeque<u32>>,
    /// Queries that the merge kernel has to do with.
    merged: Vec<u32>,
    /// Bytes that each pack writes over all heads: partials where something is merged, else outputs.
    written: Vec<f64>,
    /// What the rows of each pack see.
    sight: Vec<Sight>,
    /// How the partials of each pack are seen.
    arrivals: Vec<Arrival>,
    /// [`Self::through`] when each (pack, KV head) was written, and the pack of each slot.
    stored: Vec<f64>,
    pack_of_slot: Vec<PackIdx>,
    /// Partials still missing per (query, KV head), for a persistent launch.
    missing: Vec<u32>,
    /// When the last of them so far was written.
    arrived: Vec<f64>,
    /// Of each of them the widest pack that has come, where the worst of the last is asked for.
    widest: Vec<last::Widest>,
    /// Queries that CTAs without tasks merge.
    watched: Watched,
    outcome: Outcome,
}

impl<'a> Simulation<'a> {
    pub(super) fn new((plan, tree): (&'a LaunchPlan, &PrefixTree), model: CostModel<'a>, l2: L2, fluid: Fluid) -> Self {
        let merged: Vec<u32> = plan.merge.merged_queries().map(|query| query.0).collect();
        let persistent = plan.has_queue();
        let heads = plan.shape.kv_heads as usize;
        let missing = if persistent {
            plan.merge.starts.windows(2).flat_map(|pair| std::iter::repeat_n(pair[1] - pair[0], heads)).collect()
        } else {
            Vec::new()
        };
        let watched = Watched::of(plan, &model);
        let mut simulation = Self {
            plan,
            model,
            runs_on: plan.launches.iter().map(|launch| model.runs_on(plan, launch)).collect(),
            now: 0.0,
            events: BinaryHeap::new(),
            progress: Vec::new(),
            placing: VecDeque::new(),
            sms: Sms::new(model.device),
            fluid,
            l2,
            dram_bytes: 0.0,
            dram_written: 0.0,
            next_dispatch: 0.0,
            ctas: Vec::new(),
            free_ctas: Vec::new(),
            desks: FxHashMap::default(),
            merged,
            written: written(plan),
            sight: (0..plan.packs.len()).map(|at| Sight::of(plan, tree, PackIdx::from(at))).collect(),
            arrivals: Arrival::of_packs(plan, &watched),
            stored: vec![0.0; plan.packs.len() * heads],
            pack_of_slot: plan.packs_of_slots(),
            arrived: vec![0.0; missing.len()],
            watched,
            widest: Vec::new(),
            missing,
            outcome: Outcome {
                spans: Vec::new(),
                kernels: Vec::new(),
                dram_read: Series::new(),
                dram_write: Series::new(),
                moved: Series::new(),
            },
        };
        simulation.progress = (0..plan.launches.len()).map(|at| simulation.launch_progress(at)).collect();
        simulation
    }

    fn launch_progress(&self, at: usize) -> Progress {
        let (launch, on) = (&self.plan.launches[at], self.runs_on[at]);
        let mut ctas = self.plan.ctas(launch);
        if on.prefill().is_some() {
            // Its items are claimed KV head by KV head, and of a head the longest first.
            let turn = |cta: &u32| {
                let decode = self.plan.decode_at(launch, *cta);
                (decode.kv_head, Reverse(self.plan.pack(decode.pack).tokens))
            };
            ctas.sort_by_cached_key(turn);
        }
        // SMs that a launch may use are a size of its grid: the hardware places it where there is room.
        let sms = launch.sms.unwrap_or(u32::MAX).clamp(1, self.model.device.sm_count);
        let all = self.model.ctas_per_sm(launch.kind, on) * sms;
        let most = self.model.device.queue_items.map_or(u32::MAX, |items| items.tasks_per_lane);
        let joined = launch.kind.is_persistent() && self.plan.decodes_of(launch) > all.saturating_mul(most);
        let workers = all.min(ctas.len() as u32);
        let folds = self.model.folds(ctas.len() as u32, all);
        let by_ticket = matches!(launch.kind, LaunchKind::Hybrid(k) if matches!(k.dispatch, Dispatch::Tickets(_)));
        Progress {
            tickets: by_ticket.then(|| TicketDesk::new(self.model.device.sm_count as usize)),
            footprint: self.model.footprint_of_launch(launch.kind, on),
            ctas,
            taken: 0,
            done: 0,
            joined,
            workers,
            lanes: all,
            folds,
            waiting_for: 0,
            ready: 0.0,
            begin: f64::INFINITY,
            end: 0.0,
            last_end: Nanos::ZERO,
        }
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// [`crate::Error::Cancelled`], and [`crate::Error::Device`] where a CTA never ran or the run grows too long.
    pub(super) fn run(mut self, cancel: &Cancel) -> Result<Outcome> {
        self.first_launches();
        let (mut done, mut turn) = (Vec::new(), 0_u32);
        loop {
            turn = turn.wrapping_add(1);
            if turn.is_multiple_of(CANCEL_STRIDE) {
                cancel.check()?;
            }
            let timed = self.events.peek().map_or(f64::INFINITY, |Reverse((at, _))| f64::from_bits(*at));
            let loop_done = self.fluid.due_at();
            self.now = timed.min(loop_done).max(self.now);
            if !timed.is_finite() && !loop_done.is_finite() {
                break;
            }
            // Ends are rounded up to whole nanoseconds, two at most.
            if self.now + 2.0 > LONGEST_RUN.as_f64()
                && let Some(come) = self.left_over()
            {
                return Err(fits::too_long(&self.model.device.key, &come));
            }
            if loop_done <= self.now {
                self.settle();
                done.clear();
                self.fluid.finish(&mut done);
                for cta in &done {
                    self.main_loop_done(*cta);
                }
            }
            while let Some(Reverse((at, event))) = self.events.peek().copied() {
                if f64::from_bits(at) > self.now {
                    break;
                }
                self.events.pop();
                self.handle(event);
            }
            self.place_ctas();
        }
        match self.left_over() {
            Some(come) => Err(fits::never_ran(&self.model.device.key, &come)),
            None => Ok(self.outcome),
        }
    }

    /// The first launch of which CTAs are left over.
    fn left_over(&self) -> Option<Come> {
        let come = |(launch, progress): (usize, &Progress)| {
            let (kind, done, ctas) = (self.plan.launches[launch].kind, progress.done, progress.ctas.len());
            ((done as usize) < ctas).then_some(Come { launch, kind, done, ctas })
        };
        self.progress.iter().enumerate().find_map(come)
    }

    /// Brings the memory system to the present, and writes down what it carried until now.
    fn settle(&mut self) {
        let (passed, rates) = self.fluid.settle(self.now);
        if passed <= 0.0 {
            return;
        }
        let begin = self.now - passed;
        self.dram_bytes += rates.dram_read * passed;
        self.dram_written += rates.dram_write * passed;
        self.outcome.dram_read.add(begin, self.now, rates.dram_read);
        self.outcome.dram_write.add(begin, self.now, rates.dram_write);
        self.outcome.moved.add(begin, self.now, rates.moved);
    }

    /// Times are not negative, so their bits sort as they do.
    fn at(&mut self, time: f64, event: Event) {
        self.events.push(Reverse((time.max(0.0).to_bits(), event)));
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Ready(launch) => {
                self.progress[launch as usize].ready = self.now;
                self.placing.push_back(launch);
            }
            Event::Loads(cta) => self.start_main_loop(cta),
            Event::Done(cta) => self.cta_done(cta),
            Event::Free(cta) => self.free(cta),
        }
    }

    /// Places CTAs of the launches in turn. A launch whose CTAs are not all placed keeps the later
    /// ones waiting, as the hardware's queue does.
    fn place_ctas(&mut self) {
        while let Some(launch) = self.placing.front().copied() {
            let progress = &self.progress[launch as usize];
            let queued = self.plan.launches[launch as usize].kind.takes_from_queue();
            // A worker that would find the queue empty, since others took several tasks at once, leaves no trace.
            let tasks = progress.ctas.len() as u32 - progress.taken;
            let left = if queued { progress.workers.min(tasks) } else { tasks };
            if left == 0 {
                self.placing.pop_front();
                self.all_placed(launch as usize);
                continue;
            }
            let footprint = progress.footprint;
            let Some((sm, lane)) = self.sms.place(footprint) else { return };
            if queued {
                self.progress[launch as usize].workers -= 1;
            }
            let begin = self.now.max(self.next_dispatch);
            self.next_dispatch = begin + self.model.device.sim.dispatch_interval.as_f64();
            self.begin_cta(launch, (sm, lane), footprint, begin);
        }
    }

    /// Gives the next CTA of a launch, or the first task of a worker, its lane.
    fn begin_cta(&mut self, launch: u32, place: (usize, u32), footprint: Footprint, begin: f64) {
        self.begin_task(launch, place, footprint, begin, (self.prologue(launch as usize), false));
    }

    fn begin_task(
        &mut self,
        launch: u32,
        (sm, lane): (usize, u32),
        footprint: Footprint,
        begin: f64,
        (until_loads, follows): (Nanos, bool),
    ) {
        let progress = &mut self.progress[launch as usize];
        let kind = self.plan.launches[launch as usize].kind;
        let index = match (&mut progress.tickets, kind) {
            (Some(desk), LaunchKind::Hybrid(kernel)) => {
                desk.take(&kernel, &self.plan.shape, progress.ctas.len() as u32, sm)
            }
            (_, LaunchKind::Persistent(_)) => {
                self.take_item(launch, (sm, lane), 0);
                self.desks.get_mut(&(sm, lane)).and_then(VecDeque::pop_front).unwrap_or_default()
            }
            _ => progress.ctas[progress.taken as usize],
        };
        let progress = &mut self.progress[launch as usize];
        if !kind.is_persistent() {
            progress.taken += 1;
        }
        progress.begin = progress.begin.min(begin);
        let span = Span {
            role: self.plan.role_of(&self.plan.launches[launch as usize], index),
            launch,
            cta: index,
            sm: sm as u32,
            slot: lane,
            begin: Nanos(begin.round() as u64),
            first_tile: Nanos::ZERO,
            loop_end: Nanos::ZERO,
            end: Nanos::ZERO,
        };
        let cta = Cta { span, sm, footprint, first_tile: begin, running: 0, written: 0.0, merging: false, follows };
        let slot = self.store(cta);
        self.at(begin + until_loads.as_f64(), Event::Loads(slot));
    }

    fn store(&mut self, cta: Cta) -> u32 {
        if let Some(slot) = self.free_ctas.pop() {
            self.ctas[slot as usize] = cta;
            return slot;
        }
        self.ctas.push(cta);
        self.ctas.len() as u32 - 1
    }

    fn cta_done(&mut self, slot: u32) {
        let cta = &mut self.ctas[slot as usize];
        cta.span.end = Nanos((self.now.round() as u64).max(cta.span.begin.0 + 1));
        let span = cta.span;
        self.record(span);
        let launch = &self.plan.launches[span.launch as usize];
        if matches!(launch.kind, LaunchKind::Attention(_) | LaunchKind::Persistent(_)) {
            let (decode, heads) = (self.plan.decode_at(launch, span.cta), self.plan.shape.kv_heads as usize);
            let first = decode.pack.at() * heads + decode.kv_head as usize;
            let through = self.through();
            self.stored[first..first + decode.kv_heads as usize].fill(through);
        }
        if launch.kind.is_persistent()
            && let Some(work) = self.complete_partials(&span)
        {
            self.settle();
            if self.asks_early(launch, span.cta) {
                self.take_item(span.launch, (span.sm as usize, span.slot), 1);
            }
            let cta = &mut self.ctas[slot as usize];
            (cta.merging, cta.running) = (true, 1);
            self.fluid.start(cta.sm, slot, &work, Pace::Streams);
            return;
        }
        self.release(slot);
    }

    fn merge_done(&mut self, slot: u32) {
        let span = self.ctas[slot as usize].span;
        let (begin, role) = (span.end, CtaRole::Merge);
        let end = Nanos((self.now.round() as u64).max(begin.0 + 1));
        self.record(Span { role, begin, first_tile: begin, loop_end: end, end, ..span });
        self.release(slot);
    }

    /// Writes a span down; its kernel lasts as long, rounded as its span is.
    fn record(&mut self, span: Span) {
        let progress = &mut self.progress[span.launch as usize];
        progress.last_end = progress.last_end.max(span.end);
        self.outcome.spans.push(span);
    }

    /// A CTA leaves its SM; a persistent worker takes the next task instead while there is one.
    fn release(&mut self, slot: u32) {
        let cta = self.ctas[slot as usize];
        let launch = cta.span.launch as usize;
        let progress = &mut self.progress[launch];
        progress.end = self.now;
        let queued = self.plan.launches[launch].kind.takes_from_queue();
        let held = self.desks.get(&(cta.sm, cta.span.slot)).is_some_and(|desk| !desk.is_empty());
        if queued && (held || (progress.taken as usize) < progress.ctas.len()) {
            progress.done += 1;
            self.free_ctas.push(slot);
            // Rounding may have put the last span's end up to a nanosecond past now.
            let begin = self.now.ceil() + 1.0;
            // The worker is set up, and asks for its next task while it is at this one.
            let until_loads = self.until_next_loads(launch);
            self.begin_task(launch as u32, (cta.sm, cta.span.slot), cta.footprint, begin, (until_loads, true));
        } else {
            self.leave(launch, slot);
        }
    }

    /// A CTA is over; the launch may be done.
    fn leave(&mut self, launch: usize, slot: u32) {
        let turnover = self.model.turnover(self.plan.launches[launch].kind, self.runs_on[launch]);
        if turnover > Nanos::ZERO {
            self.at(self.now + turnover.as_f64(), Event::Free(slot));
        } else {
            self.free(slot);
        }
        self.progress[launch].done += 1;
        if self.progress[launch].done as usize == self.progress[launch].ctas.len() {
            self.launch_done(launch);
        }
    }

    fn free(&mut self, slot: u32) {
        let cta = self.ctas[slot as usize];
        self.free_ctas.push(slot);
        self.sms.free(cta.sm, cta.span.slot, cta.footprint);
    }

    fn launch_done(&mut self, launch: usize) {
        let progress = &self.progress[launch];
        self.outcome.kernels.push(KernelWindow {
            launch: launch as u32,
            ready: Nanos(progress.ready.round() as u64),
            begin: Nanos(progress.begin.round() as u64),
            end: progress.last_end,
        });
        self.start_dependents(launch, Until::Done, progress.end);
    }
}

/// Bytes that each pack writes, over all heads.
pub(super) fn written(plan: &LaunchPlan) -> Vec<f64> {
    let forms = plan.slot_forms();
    let bytes = |form: &Option<PartialForm>| {
        form.map_or(plan.shape.query_bytes(), |form| plan.shape.partial_bytes_as(form)).as_f64()
    };
    let of = |pack: &PlannedPack| &forms[pack.slots_begin as usize..(pack.slots_begin + pack.queries_len) as usize];
    plan.packs.iter().map(|pack| of(pack).iter().map(bytes).sum()).collect()
}
