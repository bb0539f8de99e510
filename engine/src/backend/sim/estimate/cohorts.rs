//! Cohorts of CTAs that share the GPU: an event loop over cohorts instead of CTAs.
//!
//! ```text
//! placed ── begin ──► loading ── time · max(local, e · s) ──► loaded ── end, merging ──► done ── turnover ──► its place is free
//! ```
//!
//! Only those that load draw from memory: the first CTAs of a launch ask for it together, and while they end it idles.
//! Those that follow come apart, so that some load while others begin or end: they are *spread*, and draw in the mean over
//! their whole time.

use std::collections::VecDeque;

use crate::backend::sim::estimate::kinds::{Kind, Kinds, Order};
use crate::backend::sim::limits::{Limits, given};
use crate::backend::sim::run::order::{Until, gap_before, launch_time, predecessors};
use crate::hw::Device;
use crate::plan::LaunchPlan;

/// Cohorts of a kind that come within this part of its time of each other are one.
const TOGETHER: f64 = 0.02;
/// CTAs of so many waves of a launch load together, in 158 batches of three kinds the best of 0.5, 1.5, 2.5 and 3.5.
const TOGETHER_WAVES: f64 = 2.5;
/// Slack of a clock, ns.
const DONE: f64 = 1e-3;
/// In the search for the stretch of memory: how near it comes to what they give, its steps from the last one and from
/// anywhere, and where it ends.
const EXACT: f64 = 1e-5;
const STEPS_FROM_LAST: u32 = 5;
const STEPS: u32 = 24;
const LONGEST: f64 = 1e6;

/// CTAs that go on to their next phase together, and when: a moment, or the clock of their kind.
type Cohort = (f64, f64);

/// The cohorts of a kind that are running, by phase and by when they leave it.
#[derive(Clone, Debug, Default)]
struct Running {
    begun: VecDeque<Cohort>,
    loading: VecDeque<Cohort>,
    ending: VecDeque<Cohort>,
    leaving: VecDeque<Cohort>,
    spread: VecDeque<Cohort>,
    /// Time that a CTA of the kind has loaded for, ns at full rate, and how much of it goes by in a ns.
    clock: f64,
    speed: f64,
    /// The same of the whole time of those that are spread.
    spread_clock: f64,
    spread_speed: f64,
    /// CTAs that load, that are spread, and all.
    loads: f64,
    spreads: f64,
    ctas: f64,
}

impl Running {
    /// How long until the first of its cohorts goes on.
    fn next(&self, now: f64) -> f64 {
        let first = |cohorts: &VecDeque<Cohort>| cohorts.front().map_or(f64::INFINITY, |cohort| cohort.0);
        let loaded = (first(&self.loading) - self.clock) / self.speed;
        let spread = (first(&self.spread) - self.spread_clock) / self.spread_speed;
        let known = first(&self.begun).min(first(&self.ending)).min(first(&self.leaving));
        loaded.min(spread).min(known - now)
    }

    /// Lets cohorts go on; gives the CTAs of those that have ended and of those whose places are free, and whether others
    /// load now.
    fn go_on(&mut self, kind: &Kind, turnover: f64, now: f64) -> (f64, f64, bool) {
        let mut ended = 0.0;
        while let Some((_, ctas)) = self.ending.pop_front_if(|cohort| cohort.0 <= now + DONE) {
            ended += ctas;
        }
        let mut changed = false;
        while let Some((_, ctas)) = self.spread.pop_front_if(|cohort| cohort.0 <= self.spread_clock + DONE) {
            ended += ctas;
            self.spreads -= ctas;
            changed = true;
        }
        self.ctas -= ended;
        if ended > 0.0 {
            push(&mut self.leaving, (now + turnover, ended), kind);
        }
        let mut freed = 0.0;
        while let Some((_, ctas)) = self.leaving.pop_front_if(|cohort| cohort.0 <= now + DONE) {
            freed += ctas;
        }
        while let Some((_, ctas)) = self.loading.pop_front_if(|cohort| cohort.0 <= self.clock + DONE) {
            push(&mut self.ending, (now + kind.end + kind.merging, ctas), kind);
            self.loads -= ctas;
            changed = true;
        }
        while let Some((_, ctas)) = self.begun.pop_front_if(|cohort| cohort.0 <= now + DONE) {
            push(&mut self.loading, (self.clock + kind.time, ctas), kind);
            self.loads += ctas;
            changed = true;
        }
        (ended, freed, changed)
    }

    fn is_idle(&self) -> bool {
        [&self.begun, &self.loading, &self.ending, &self.leaving, &self.spread].iter().all(|phase| phase.is_empty())
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

/// A launch while it runs.
#[derive(Debug)]
struct Progress<'a> {
    order: &'a Order,
    run: usize,
    /// CTAs of that run that have begun.
    begun: f64,
    running: f64,
    /// All that have, over those that the GPU holds.
    waves: f64,
    waiting_for: usize,
    ready: f64,
    placed: bool,
    done: bool,
}

/// A run by cohorts.
#[derive(Debug)]
pub(super) struct Cohorts<'a> {
    plan: &'a LaunchPlan,
    device: &'a Device,
    kinds: &'a [Kind],
    limits: Limits,
    now: f64,
    launches: Vec<Progress<'a>>,
    /// Launches that have CTAs to place, in the order in which they became ready.
    placing: VecDeque<usize>,
    free: f64,
    running: Vec<Running>,
    active: Vec<u32>,
    /// How many times as long as alone memory took when it was last solved for.
    stretch: f64,
    /// L2's bytes of before that are still to be written back.
    dirty: f64,
    /// Of them, per ns.
    back: f64,
    /// Whether others load than when it was solved.
    changed: bool,
    ends: Vec<f64>,
}

impl<'a> Cohorts<'a> {
    pub(super) fn new(plan: &'a LaunchPlan, device: &'a Device, kinds: &'a Kinds, limits: Limits) -> Self {
        let progress = |(at, order): (usize, &'a Order)| {
            let waiting_for = predecessors(plan, at).len();
            let ready = if waiting_for == 0 { launch_time(plan, device, at) + order.lead } else { f64::INFINITY };
            Progress {
                order,
                run: 0,
                begun: 0.0,
                running: 0.0,
                waves: 0.0,
                waiting_for,
                ready,
                placed: false,
                done: false,
            }
        };
        Self {
            plan,
            device,
            kinds: &kinds.all,
            limits,
            now: 0.0,
            launches: kinds.orders.iter().enumerate().map(progress).collect(),
            placing: VecDeque::new(),
            free: 1.0,
            running: vec![Running::default(); kinds.all.len()],
            active: Vec::new(),
            stretch: 1.0,
            dirty: device.dirty_bytes(),
            back: 0.0,
            changed: true,
            ends: vec![0.0; kinds.all.len()],
        }
    }

    /// When the last CTA of each kind ends, ns; nothing where that is later than `latest`.
    pub(super) fn run(mut self, latest: f64) -> Option<Vec<f64>> {
        while self.now <= latest {
            self.begin_ready();
            // The last CTAs leave after their end, which is that of the run.
            if self.launches.iter().all(|launch| launch.done) {
                return Some(self.ends);
            }
            let next_ready = self.next_ready();
            if self.active.is_empty() {
                if !next_ready.is_finite() {
                    return Some(self.ends);
                }
                self.idle(next_ready);
                continue;
            }
            if self.changed {
                self.back = self.solve();
                self.changed = false;
            }
            let back = self.back;
            let mut passed = next_ready - self.now;
            for kind in &self.active {
                passed = passed.min(self.running[*kind as usize].next(self.now));
            }
            if self.dirty > 0.0 && back > 0.0 {
                passed = passed.min(self.dirty / back);
            }
            let passed = passed.max(0.0);
            self.now += passed;
            if self.dirty > 0.0 {
                self.dirty -= back * passed;
                // Reads are the faster from now on.
                if self.dirty < 1.0 {
                    (self.dirty, self.changed) = (0.0, true);
                }
            }
            self.live(passed);
        }
        None
    }

    /// Lets time go by in which nothing runs.
    fn idle(&mut self, until: f64) {
        // Before the first CTA nothing goes back.
        if self.ends.iter().any(|end| *end > 0.0) {
            let back = self.limits.back.rate(self.limits.hbm, 0.0, 0.0);
            self.dirty = (self.dirty - back * (until - self.now)).max(0.0);
        }
        self.now = until;
    }

    /// The next moment at which a launch becomes ready.
    fn next_ready(&self) -> f64 {
        let waits = |launch: &&Progress<'_>| launch.ready > self.now && !launch.placed;
        self.launches.iter().filter(waits).map(|launch| launch.ready).fold(f64::INFINITY, f64::min)
    }

    /// Places CTAs of the launches that are ready, in turn; one whose CTAs find no room keeps the later ones waiting.
    fn begin_ready(&mut self) {
        for at in 0..self.launches.len() {
            let launch = &self.launches[at];
            if launch.ready <= self.now && !launch.placed && !self.placing.contains(&at) {
                self.placing.push_back(at);
            }
        }
        while let Some(at) = self.placing.front().copied() {
            if !self.place(at) {
                return;
            }
            self.placing.pop_front();
            self.launches[at].placed = true;
            self.start_dependents(at, Until::Placed);
            if self.launches[at].running <= 0.0 {
                self.launch_done(at);
            }
        }
    }

    /// Whether all CTAs of a launch have their place.
    fn place(&mut self, at: usize) -> bool {
        let launch = &mut self.launches[at];
        while let Some((kind, ctas)) = launch.order.runs.get(launch.run).copied() {
            let room = ((self.free + 1e-9) / launch.order.share).floor();
            let placed = (ctas - launch.begun).min(room);
            if placed <= 0.0 {
                return false;
            }
            self.free -= placed * launch.order.share;
            launch.begun += placed;
            launch.running += placed;
            let together = launch.waves < TOGETHER_WAVES;
            launch.waves += placed * launch.order.share;
            if launch.begun >= ctas {
                launch.run += 1;
                launch.begun = 0.0;
            }
            let (of, running) = (&self.kinds[kind as usize], &mut self.running[kind as usize]);
            if running.is_idle() {
                self.active.push(kind);
            }
            running.ctas += placed;
            if together {
                push(&mut running.begun, (self.now + of.begin, placed), of);
            } else {
                push(&mut running.spread, (running.spread_clock + of.alone(), placed), of);
                running.spreads += placed;
                self.changed = true;
            }
        }
        true
    }

    /// How many times as long as alone port and tensor cores take on an SM that holds as many CTAs as any, and of these
    /// as many that load as in the mean.
    fn local(&self) -> f64 {
        let sms = f64::from(self.device.sm_count);
        let (mut ctas, mut loads, mut port, mut tensor) = (0.0, 0.0, 0.0, 0.0);
        for kind in &self.active {
            let (of, running) = (&self.kinds[*kind as usize], &self.running[*kind as usize]);
            let loading = running.loads + running.spreads * of.time / of.alone();
            ctas += running.ctas;
            loads += loading;
            port += loading * of.moved / of.time;
            tensor += loading * of.tensor / of.time;
        }
        let loads = f64::max(loads, 1.0);
        let beside = ((ctas / sms).ceil() - 1.0).max(0.0) * loads / f64::max(ctas, 1.0);
        ((port / self.limits.sm).max(tensor) / loads * (1.0 + beside)).max(1.0)
    }

    /// Finds the speeds; gives the bytes of L2's former content that are written back per ns.
    fn solve(&mut self) -> f64 {
        let local = self.local();
        let Limits { hbm, l2_peak, back, .. } = self.limits;
        let is_dirty = self.dirty > 0.0;
        let drawn = |stretch: f64| -> Drawn {
            let of = |kind: &u32| Drawn::of(&self.kinds[*kind as usize], &self.running[*kind as usize], local, stretch);
            self.active.iter().map(of).fold(Drawn::default(), Drawn::plus)
        };
        let most = given(drawn(1.0).fabric, if is_dirty { back.leaves(hbm) } else { hbm });
        let mut stretch =
            near(drawn, most, self.stretch).unwrap_or_else(|| least(|stretch| drawn(stretch).fabric, most));
        let mut found = drawn(stretch);
        if found.moved > l2_peak {
            stretch = least(|stretch| drawn(stretch).moved, l2_peak);
            found = drawn(stretch);
        }
        self.stretch = stretch;
        for kind in &self.active {
            let (of, running) = (&self.kinds[*kind as usize], &mut self.running[*kind as usize]);
            let loading = duration(of, local, stretch);
            running.speed = of.time / loading;
            running.spread_speed = of.alone() / (of.apart() + loading);
        }
        if is_dirty { back.rate(hbm, found.read, 0.0) } else { 0.0 }
    }

    /// Lets time go by, and ends the cohorts that are done.
    fn live(&mut self, passed: f64) {
        let mut at = 0;
        while let Some(kind) = self.active.get(at).copied() {
            let (of, running) = (&self.kinds[kind as usize], &mut self.running[kind as usize]);
            running.clock += passed * running.speed;
            running.spread_clock += passed * running.spread_speed;
            let launch = of.launch as usize;
            let progress = &mut self.launches[launch];
            let (ended, freed, changed) = running.go_on(of, progress.order.turnover, self.now);
            self.changed |= changed;
            self.free += freed * progress.order.share;
            if ended > 0.0 {
                self.ends[kind as usize] = self.now;
                progress.running -= ended;
            }
            if running.is_idle() {
                (running.ctas, running.loads, running.spreads) = (0.0, 0.0, 0.0);
                self.active.swap_remove(at);
            } else {
                at += 1;
            }
            let progress = &self.launches[launch];
            if ended > 0.0 && progress.placed && !progress.done && progress.running < 0.5 {
                self.launch_done(launch);
            }
        }
    }

    fn launch_done(&mut self, at: usize) {
        self.launches[at].done = true;
        self.start_dependents(at, Until::Done);
    }

    fn start_dependents(&mut self, launch: usize, until: Until) {
        for at in launch + 1..self.launches.len() {
            let before = predecessors(self.plan, at);
            if before.contains(&(launch as u32, until)) {
                self.launches[at].waiting_for -= 1;
                if self.launches[at].waiting_for == 0 {
                    let gap = gap_before(self.plan, self.device, at, &before);
                    let ready = (self.now + gap).max(launch_time(self.plan, self.device, at));
                    self.launches[at].ready = ready + self.launches[at].order.lead;
                }
            }
        }
    }
}

/// What CTAs draw of memory, bytes per ns.
#[derive(Clone, Copy, Debug, Default)]
struct Drawn {
    fabric: f64,
    read: f64,
    /// Between L2 and the SMs.
    moved: f64,
    /// By how much the first grows with the stretch: not at all or downwards.
    slope: f64,
}

impl Drawn {
    fn of(kind: &Kind, running: &Running, local: f64, stretch: f64) -> Self {
        let loading = duration(kind, local, stretch);
        let whole = kind.apart() + loading;
        let per_ns = running.loads / loading + running.spreads / whole;
        let waits = kind.exposure * stretch > local;
        let slower = running.loads / (loading * loading) + running.spreads / (whole * whole);
        let slope = if waits { -slower * kind.fabric * kind.time * kind.exposure } else { 0.0 };
        Self { fabric: per_ns * kind.fabric, read: per_ns * kind.read, moved: per_ns * kind.moved, slope }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            fabric: self.fabric + other.fabric,
            read: self.read + other.read,
            moved: self.moved + other.moved,
            slope: self.slope + other.slope,
        }
    }
}

/// How long a CTA of a kind loads where memory takes so many times as long as it does for it alone, ns.
fn duration(kind: &Kind, local: f64, stretch: f64) -> f64 {
    kind.time * local.max(kind.exposure * stretch)
}

/// The stretch at which `most` is drawn, or 1 where less is, by Newton's steps from `guess`: from one moment to the next it
/// changes little. Nothing where these do not find it.
fn near(drawn: impl Fn(f64) -> Drawn, most: f64, guess: f64) -> Option<f64> {
    let mut stretch = guess;
    for _ in 0..STEPS_FROM_LAST {
        let found = drawn(stretch);
        let over = found.fabric - most;
        if over.abs() <= EXACT * most || over < 0.0 && stretch <= 1.0 {
            return Some(stretch);
        }
        if found.slope >= 0.0 {
            return None;
        }
        stretch = (stretch - over / found.slope).max(1.0);
    }
    None
}

/// The least stretch from 1 on at which no more than `most` is drawn: by false position, where an end of the bracket that
/// stays counts for half (the Illinois rule).
fn least(drawn: impl Fn(f64) -> f64, most: f64) -> f64 {
    let (mut low, mut above) = (1.0, drawn(1.0) - most);
    if above <= 0.0 {
        return 1.0;
    }
    let (mut high, mut below) = (2.0, drawn(2.0) - most);
    while below > 0.0 && high < LONGEST {
        (low, above) = (high, below);
        high *= 2.0;
        below = drawn(high) - most;
    }
    for _ in 0..STEPS {
        let x = (low * below - high * above) / (below - above);
        let over = drawn(x) - most;
        if over.abs() <= EXACT * most {
            return x;
        }
        if over > 0.0 {
            (low, above) = (x, over);
            below /= 2.0;
        } else {
            (high, below) = (x, over);
            above /= 2.0;
        }
    }
    high
}
