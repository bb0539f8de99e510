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
use crate::backend::sim::estimate::running::{Drawn, Phases, Running};
use crate::backend::sim::limits::Limits;
use crate::backend::sim::run::order::{Until, gap_before, launch_time, predecessors};
use crate::hw::Device;
use crate::plan::LaunchPlan;

/// CTAs of so many waves of a launch load together, in 158 batches of three kinds the best of 0.5, 1.5, 2.5 and 3.5.
const TOGETHER_WAVES: f64 = 2.5;
/// A run is told to be late by less than its end would be: the search below may give more than there is.
const SLACK: f64 = 1e-3;
/// In the search for the stretch of memory: how near it comes to what they give, its steps from the last one and from
/// anywhere, and where it ends.
const EXACT: f64 = 1e-5;
const STEPS_FROM_LAST: u32 = 5;
const STEPS: u32 = 24;
const LONGEST: f64 = 1e6;

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
    /// The kinds that run, and the place there of each kind, where it has one.
    running: Vec<Running>,
    place_of: Vec<Option<u32>>,
    phases: Vec<Phases>,
    /// How many times as long as alone memory took when it was last solved for.
    stretch: f64,
    /// L2's bytes of before that are still to be written back.
    dirty: f64,
    /// Of them, per ns.
    back: f64,
    /// What is drawn of the memory system per ns since then, and what is still to be drawn.
    rate: f64,
    left: f64,
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
            running: Vec::new(),
            place_of: vec![None; kinds.all.len()],
            phases: vec![Phases::default(); kinds.all.len()],
            stretch: 1.0,
            dirty: device.dirty_bytes(),
            back: 0.0,
            rate: 0.0,
            left: kinds.all.iter().map(|kind| kind.ctas * kind.fabric).sum(),
            changed: true,
            ends: vec![0.0; kinds.all.len()],
        }
    }

    /// When the last CTA of each kind ends, ns; nothing where that is later than `latest`.
    pub(super) fn run(mut self, latest: f64) -> Option<Vec<f64>> {
        while self.earliest_end() <= latest {
            self.begin_ready();
            // The last CTAs leave after their end, which is that of the run.
            if self.launches.iter().all(|launch| launch.done) {
                return Some(self.ends);
            }
            let next_ready = self.next_ready();
            if self.running.is_empty() {
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
            for running in &self.running {
                passed = passed.min(running.next(self.now));
            }
            if self.dirty > 0.0 && back > 0.0 {
                passed = passed.min(self.dirty / back);
            }
            let passed = passed.max(0.0);
            self.now += passed;
            self.left -= self.rate * passed;
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

    /// When the run ends at the earliest: the memory system gives no more than HBM from now on.
    fn earliest_end(&self) -> f64 {
        self.now + (1.0 - SLACK) * self.left.max(0.0) / self.limits.hbm
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
            let (kinds, running) = (self.kinds, &mut self.running);
            let at = *self.place_of[kind as usize].get_or_insert_with(|| {
                running.push(Running::of(kind, &kinds[kind as usize]));
                running.len() as u32 - 1
            });
            let (running, phases) = (&mut self.running[at as usize], &mut self.phases[kind as usize]);
            if together {
                phases.begin(running, self.now, placed);
            } else {
                phases.begin_spread(running, placed);
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
        for running in &self.running {
            let loading = running.loading_ctas();
            ctas += running.ctas;
            loads += loading;
            port += loading * running.kind.moved / running.kind.time;
            tensor += loading * running.kind.tensor / running.kind.time;
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
            self.running.iter().map(|running| running.drawn(local, stretch)).fold(Drawn::default(), Drawn::plus)
        };
        let most = self.limits.given(drawn(1.0).fabric, if is_dirty { back.leaves(hbm) } else { hbm });
        let (mut stretch, mut found) = near(drawn, most, self.stretch).unwrap_or_else(|| {
            let stretch = least(|stretch| drawn(stretch).fabric, most);
            (stretch, drawn(stretch))
        });
        if found.moved > l2_peak {
            stretch = least(|stretch| drawn(stretch).moved, l2_peak);
            found = drawn(stretch);
        }
        self.stretch = stretch;
        self.rate = found.fabric;
        self.running.iter_mut().for_each(|running| running.run_at(local, stretch));
        if is_dirty { back.rate(hbm, found.read, 0.0) } else { 0.0 }
    }

    /// Lets time go by, and ends the cohorts that are done.
    fn live(&mut self, passed: f64) {
        let mut at = 0;
        while let Some(running) = self.running.get_mut(at) {
            if !running.pass(passed, self.now) {
                at += 1;
                continue;
            }
            let (kind, launch) = (running.number as usize, running.kind.launch as usize);
            let phases = &mut self.phases[kind];
            let progress = &mut self.launches[launch];
            let gone = phases.go_on(running, progress.order.turnover, self.now);
            self.changed |= gone.changed;
            self.free += gone.freed * progress.order.share;
            if gone.ended > 0.0 {
                self.ends[kind] = self.now;
                progress.running -= gone.ended;
            }
            let is_over = gone.ended > 0.0 && progress.placed && !progress.done && progress.running < 0.5;
            if phases.is_idle() {
                self.take_out(at);
            } else {
                at += 1;
            }
            if is_over {
                self.launch_done(launch);
            }
        }
    }

    /// Takes a kind out of those that run.
    fn take_out(&mut self, at: usize) {
        self.place_of[self.running.swap_remove(at).number as usize] = None;
        if let Some(moved) = self.running.get(at) {
            self.place_of[moved.number as usize] = Some(at as u32);
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

/// The stretch at which `most` is drawn, or 1 where less is, by Newton's steps from `guess`: from one moment to the next it
/// changes little. Nothing where these do not find it.
fn near(drawn: impl Fn(f64) -> Drawn, most: f64, guess: f64) -> Option<(f64, Drawn)> {
    let mut stretch = guess;
    for _ in 0..STEPS_FROM_LAST {
        let found = drawn(stretch);
        let over = found.fabric - most;
        if over.abs() <= EXACT * most || over < 0.0 && stretch <= 1.0 {
            return Some((stretch, found));
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
