//! A kind that has CTAs on the GPU: what every moment asks of it side by side, and its cohorts, by phase.
//!
//! A plan of unequal packs has hundreds of kinds with a CTA or two each, and at every moment one of them goes on while all
//! others draw from memory. So the rates, the clocks and the next moment of each stand in one list, and the cohorts,
//! which only the one that goes on needs, in another.

use std::collections::VecDeque;

use crate::backend::sim::estimate::kinds::Kind;

/// Cohorts of a kind that come within this part of its time of each other are one.
const TOGETHER: f64 = 0.02;
/// Slack of a clock, ns.
const DONE: f64 = 1e-3;

/// CTAs that go on to their next phase together, and when: a moment, or the clock of their kind.
type Cohort = (f64, f64);

/// What is asked of a kind at every moment while it runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    pub(super) number: u32,
    pub(super) kind: Kind,
    /// Time that a CTA of the kind has loaded for, ns at full rate, and how much of it goes by in a ns.
    clock: f64,
    speed: f64,
    /// The same of the whole time of those that are spread.
    spread_clock: f64,
    spread_speed: f64,
    /// How many ns pass in one of each clock.
    slowness: f64,
    spread_slowness: f64,
    /// CTAs that load, that are spread, and all.
    loads: f64,
    spreads: f64,
    pub(super) ctas: f64,
    /// When the first of its cohorts goes on: by its clocks, and those that are in no loop.
    loaded: f64,
    spread: f64,
    known: f64,
}

impl Running {
    pub(super) fn of(number: u32, kind: &Kind) -> Self {
        Self {
            number,
            kind: *kind,
            clock: 0.0,
            speed: 0.0,
            spread_clock: 0.0,
            spread_speed: 0.0,
            slowness: f64::INFINITY,
            spread_slowness: f64::INFINITY,
            loads: 0.0,
            spreads: 0.0,
            ctas: 0.0,
            loaded: f64::INFINITY,
            spread: f64::INFINITY,
            known: f64::INFINITY,
        }
    }

    /// How long until the first of its cohorts goes on.
    pub(super) fn next(&self, now: f64) -> f64 {
        let loaded = (self.loaded - self.clock) * self.slowness;
        let spread = (self.spread - self.spread_clock) * self.spread_slowness;
        loaded.min(spread).min(self.known - now)
    }

    /// Lets time go by; tells whether a cohort goes on then.
    pub(super) fn pass(&mut self, passed: f64, now: f64) -> bool {
        self.clock += passed * self.speed;
        self.spread_clock += passed * self.spread_speed;
        self.loaded <= self.clock + DONE || self.spread <= self.spread_clock + DONE || self.known <= now + DONE
    }

    /// CTAs that load, of those that are spread as many as in the mean.
    pub(super) fn loading_ctas(&self) -> f64 {
        self.loads + self.spreads * self.kind.time / self.kind.alone()
    }

    /// What it draws of memory where SMs take `local` and memory `stretch` times as long as for a CTA alone.
    pub(super) fn drawn(&self, local: f64, stretch: f64) -> Drawn {
        let (kind, loading) = (&self.kind, self.loading(local, stretch));
        let (mut per_ns, mut slower) = (0.0, 0.0);
        for (ctas, time) in [(self.loads, loading), (self.spreads, kind.apart() + loading)] {
            // Most kinds have either alone.
            if ctas > 0.0 {
                let of_each = 1.0 / time;
                per_ns += ctas * of_each;
                slower += ctas * of_each * of_each;
            }
        }
        let waits = kind.exposure * stretch > local;
        let slope = if waits { -slower * kind.fabric * kind.time * kind.exposure } else { 0.0 };
        Drawn { fabric: per_ns * kind.fabric, read: per_ns * kind.read, moved: per_ns * kind.moved, slope }
    }

    /// Sets the speeds of its clocks.
    pub(super) fn run_at(&mut self, local: f64, stretch: f64) {
        let loading = self.loading(local, stretch);
        self.slowness = loading / self.kind.time;
        self.speed = 1.0 / self.slowness;
        self.spread_slowness = (self.kind.apart() + loading) / self.kind.alone();
        self.spread_speed = 1.0 / self.spread_slowness;
    }

    /// How long one of its CTAs loads, ns.
    fn loading(&self, local: f64, stretch: f64) -> f64 {
        self.kind.time * local.max(self.kind.exposure * stretch)
    }
}

/// What CTAs draw of memory, bytes per ns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Drawn {
    pub(super) fabric: f64,
    pub(super) read: f64,
    /// Between L2 and the SMs.
    pub(super) moved: f64,
    /// By how much the first grows with the stretch: not at all or downwards.
    pub(super) slope: f64,
}

impl Drawn {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            fabric: self.fabric + other.fabric,
            read: self.read + other.read,
            moved: self.moved + other.moved,
            slope: self.slope + other.slope,
        }
    }
}

/// The cohorts of a kind, by phase and by when they leave it.
#[derive(Clone, Debug, Default)]
pub(super) struct Phases {
    begun: VecDeque<Cohort>,
    loading: VecDeque<Cohort>,
    ending: VecDeque<Cohort>,
    leaving: VecDeque<Cohort>,
    spread: VecDeque<Cohort>,
}

/// What has come of cohorts that went on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gone {
    /// CTAs that have ended, and those whose places are free.
    pub(super) ended: f64,
    pub(super) freed: f64,
    /// Whether others load now.
    pub(super) changed: bool,
}

impl Phases {
    /// Begins CTAs that load together.
    pub(super) fn begin(&mut self, running: &mut Running, now: f64, ctas: f64) {
        push(&mut self.begun, (now + running.kind.begin, ctas), &running.kind);
        running.ctas += ctas;
        self.note_next(running);
    }

    /// Begins CTAs that come apart.
    pub(super) fn begin_spread(&mut self, running: &mut Running, ctas: f64) {
        push(&mut self.spread, (running.spread_clock + running.kind.alone(), ctas), &running.kind);
        running.spreads += ctas;
        running.ctas += ctas;
        self.note_next(running);
    }

    /// Lets cohorts go on whose time has come.
    pub(super) fn go_on(&mut self, running: &mut Running, turnover: f64, now: f64) -> Gone {
        let (mut gone, kind) = (Gone::default(), running.kind);
        while let Some((_, ctas)) = self.ending.pop_front_if(|cohort| cohort.0 <= now + DONE) {
            gone.ended += ctas;
        }
        while let Some((_, ctas)) = self.spread.pop_front_if(|cohort| cohort.0 <= running.spread_clock + DONE) {
            gone.ended += ctas;
            running.spreads -= ctas;
            gone.changed = true;
        }
        running.ctas -= gone.ended;
        if gone.ended > 0.0 {
            push(&mut self.leaving, (now + turnover, gone.ended), &kind);
        }
        while let Some((_, ctas)) = self.leaving.pop_front_if(|cohort| cohort.0 <= now + DONE) {
            gone.freed += ctas;
        }
        while let Some((_, ctas)) = self.loading.pop_front_if(|cohort| cohort.0 <= running.clock + DONE) {
            push(&mut self.ending, (now + kind.end + kind.merging, ctas), &kind);
            running.loads -= ctas;
            gone.changed = true;
        }
        while let Some((_, ctas)) = self.begun.pop_front_if(|cohort| cohort.0 <= now + DONE) {
            push(&mut self.loading, (running.clock + kind.time, ctas), &kind);
            running.loads += ctas;
            gone.changed = true;
        }
        self.note_next(running);
        gone
    }

    pub(super) fn is_idle(&self) -> bool {
        [&self.begun, &self.loading, &self.ending, &self.leaving, &self.spread].iter().all(|phase| phase.is_empty())
    }

    fn note_next(&self, running: &mut Running) {
        let first = |cohorts: &VecDeque<Cohort>| cohorts.front().map_or(f64::INFINITY, |cohort| cohort.0);
        (running.loaded, running.spread) = (first(&self.loading), first(&self.spread));
        running.known = first(&self.begun).min(first(&self.ending)).min(first(&self.leaving));
    }
}

/// Adds a cohort to a phase; with the one before where both come together, at their mean.
fn push(phase: &mut VecDeque<Cohort>, (at, ctas): Cohort, kind: &Kind) {
    match phase.back_mut() {
        Some(last) if at - last.0 <= TOGETHER * kind.alone() => {
            last.0 = (last.0 * last.1 + at * ctas) / (last.1 + ctas);
            last.1 += ctas;
        }
        _ => phase.push_back((at, ctas)),
    }
}
