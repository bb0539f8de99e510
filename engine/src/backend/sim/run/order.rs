//! When launches may place their CTAs: stream order, events, programmatic starts.
//!
//! ```text
//! on a stream      ready when the launch before it is done, and all that a programmatic one ran beside
//! after            ready when those are done
//! programmatic     ready when all CTAs of the launch before it on its stream are placed
//! ```

use super::merging::Arrival;
use super::{Event, Simulation};
use crate::backend::sim::cost::MainLoop;
use crate::backend::sim::memory::Pace;
use crate::backend::sim::runs_on::RunsOn;
use crate::capture::Span;
use crate::hw::{Device, PrefillResources};
use crate::plan::{Launch, LaunchKind, LaunchPlan, Strategy};
use crate::tile::Tile;
use crate::units::Nanos;

/// What of a launch another one waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::backend::sim) enum Until {
    /// All its CTAs are on their SMs.
    Placed,
    /// It is done.
    Done,
}

/// When launch `at` may begin if it waits for no other, ns.
pub(in crate::backend::sim) fn launch_time(plan: &LaunchPlan, device: &Device, at: usize) -> f64 {
    let sim = &device.sim;
    // Streams are numbered from 0 on, and an event sets each but the first off.
    let forks = plan.launches.iter().map(|launch| launch.stream).max().unwrap_or(0);
    let fork = f64::from(forks) * sim.stream_fork.as_f64();
    at as f64 * sim.host_launch_interval.as_f64() + sim.launch_latency.as_f64() + fork
}

/// What launch `at` waits for: those of `after`, and the one before it on its stream.
pub(in crate::backend::sim) fn predecessors(plan: &LaunchPlan, at: usize) -> Vec<(u32, Until)> {
    let launch = &plan.launches[at];
    let mut before: Vec<(u32, Until)> = launch.after.iter().map(|other| (*other, Until::Done)).collect();
    let mut on_stream = plan.before_on_stream(at);
    if launch.programmatic {
        before.extend(on_stream.map(|other| (other as u32, Until::Placed)));
    } else {
        // A programmatic launch ran beside the one before it, so whoever is behind waits for both.
        while let Some(other) = on_stream {
            before.push((other as u32, Until::Done));
            on_stream = plan.launches[other].programmatic.then(|| plan.before_on_stream(other)).flatten();
        }
    }
    before.sort_unstable();
    before.dedup();
    before
}

/// From the end of what launch `at` waited for to its first CTA, ns.
pub(in crate::backend::sim) fn gap_before(
    plan: &LaunchPlan,
    device: &Device,
    at: usize,
    before: &[(u32, Until)],
) -> f64 {
    let (launch, sim) = (&plan.launches[at], &device.sim);
    let joins = before.iter().filter(|other| plan.launches[other.0 as usize].stream != launch.stream).count();
    let of_merge = launch.kind.is_merge() || launch.programmatic;
    let gap = if of_merge { sim.kernel_gap } else { sim.kernel_gap + sim.attention_gap };
    gap.as_f64() + joins as f64 * sim.stream_join.as_f64()
}

impl Simulation<'_> {
    pub(super) fn first_launches(&mut self) {
        for at in 0..self.plan.launches.len() {
            self.progress[at].waiting_for = predecessors(self.plan, at).len();
            if self.progress[at].waiting_for == 0 {
                let ready = launch_time(self.plan, self.model.device, at);
                self.at(ready, Event::Ready(at as u32));
            }
        }
    }

    /// All CTAs of a launch have their SMs: those that start programmatically behind it may place theirs.
    pub(super) fn all_placed(&mut self, launch: usize) {
        // The last of them begins when the dispatcher comes to it.
        let begun = self.now.max(self.next_dispatch);
        self.start_dependents(launch, Until::Placed, begun);
    }

    /// Launches that waited for this of `launch` and for nothing else become ready.
    pub(super) fn start_dependents(&mut self, launch: usize, until: Until, end: f64) {
        for at in launch + 1..self.plan.launches.len() {
            let before = predecessors(self.plan, at);
            if !before.contains(&(launch as u32, until)) {
                continue;
            }
            self.progress[at].waiting_for -= 1;
            if self.progress[at].waiting_for == 0 {
                let gap = gap_before(self.plan, self.model.device, at, &before);
                let ready = (end + gap).max(launch_time(self.plan, self.model.device, at));
                self.at(ready, Event::Ready(at as u32));
            }
        }
    }

    /// The device's own prefill kernel, where a launch is of it.
    pub(super) fn own_kernel(&self, launch: &Launch, tile: Tile) -> Option<PrefillResources> {
        let own = match launch.kind {
            LaunchKind::PrefillQueue(_) | LaunchKind::FoldedPrefill(_) => true,
            LaunchKind::Hybrid(kernel) => kernel.dispatch.is_queue() || self.model.in_one_launch(&kernel),
            _ => false,
        };
        if own { self.model.own_prefill(tile) } else { None }
    }

    /// From the end of a worker's task to the first load of its next one.
    pub(super) fn until_next_loads(&self, launch: usize) -> Nanos {
        // A prefill kernel fetches the next item's tiles while it ends this one.
        let decodes = self.plan.launches[launch].kind.is_persistent();
        if decodes { self.model.device.sim.queue_pop } else { Nanos::ZERO }
    }

    /// From a CTA's last tile to the end of its task, ns.
    pub(super) fn epilogue(&self, span: &Span, written: f64) -> f64 {
        let launch = span.launch as usize;
        if self.plan.launches[launch].kind.is_merge() {
            return 0.0;
        }
        if let RunsOn::Prefill { kernel, further } = self.runs_on[launch] {
            return kernel.item_of_pack().as_f64() + further;
        }
        let launch = &self.plan.launches[launch];
        if matches!(launch.kind, LaunchKind::Attention(_) | LaunchKind::Persistent(_)) {
            return self.decode_epilogue(launch, span, written);
        }
        let tile = self.plan.tasks_of(launch).first().map(|task| task.tile);
        let own = tile.and_then(|tile| self.own_kernel(launch, tile));
        own.map_or_else(|| self.model.epilogue(written), |kernel| kernel.item.as_f64())
    }

    /// The same of a CTA that decodes one pack, or of a worker that does.
    fn decode_epilogue(&self, launch: &Launch, span: &Span, written: f64) -> f64 {
        let decode = self.plan.decode_at(launch, span.cta);
        let on = self.runs_on[span.launch as usize];
        let cta = self.model.cta(self.plan.pack(decode.pack), decode.kv_heads, launch.order, on);
        let end = if launch.kind.is_persistent() {
            let arrival = self.arrivals[decode.pack.at()];
            let counting = if arrival == Arrival::Counted { self.model.counting(self.busy(span.launch)) } else { 0.0 };
            self.model.worker_epilogue(written, arrival != Arrival::Alone) + counting
        } else {
            self.model.epilogue(written)
        };
        end + self.model.last_step(&cta)
    }

    /// From a CTA's place on an SM to its first load, ns.
    pub(super) fn prologue(&self, launch: usize) -> Nanos {
        let sim = &self.model.device.sim;
        // Packs on the prefill kernel are items of CTAs that stay.
        let stays = self.runs_on[launch].prefill().is_some() && self.progress[launch].done > 0;
        match () {
            () if stays => Nanos::ZERO,
            () if self.follows_merge(launch) => sim.idle_latency,
            () if self.plan.launches[launch].kind.is_merge() => sim.cta_prologue + sim.idle_latency,
            () => self.model.prologue(self.plan.launches[launch].kind),
        }
    }

    /// Whether a CTA takes the place of another of the same merge. Such a one has the launch behind it: it reads which
    /// row it merges, merges it, and leaves. 7,513 rows of two partials over one head took 29 us on an H200.
    fn follows_merge(&self, launch: usize) -> bool {
        self.plan.launches[launch].kind.is_merge() && self.progress[launch].done > 0
    }

    /// Which clock the decodes of a CTA go by. On an SM of their own, or beside prefill as another kernel, it is that of
    /// streams, whatever they wait for. But joined packs compute: in traces of an H200 64 tokens take them 1.49 to 1.66 µs beside a
    /// stream, whether HBM is idle or full.
    pub(super) fn pace(&self, work: &MainLoop, joined: bool) -> Pace {
        if joined {
            Pace::Computes
        } else if self.plan.strategy == Strategy::CoResident || self.plan.prefill.tasks.is_empty() {
            Pace::Streams
        } else {
            work.pace()
        }
    }
}
