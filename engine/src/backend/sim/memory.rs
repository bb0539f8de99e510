//! Shared bandwidth as a fluid, over time that each SM lives through at its own speed.
//!
//! By Little's law a loaded memory system stretches every latency alike, so all CTAs slow down by
//! one factor. Each SM has a clock that runs at `speed ≤ 1`; a main loop is a stretch of that clock.
//!
//! ```text
//! speed of an SM = min(1, SM bandwidth / its demand, tensor rate / its demand, φ / e)
//! φ: the largest at which all SMs together draw no more than HBM gives, which near its limit is less (`limits`), and move
//!    no more than L2 gives, hits and misses
//! e: part of its time that memory would take alone; what computes all the time is not stretched
//! ```
//!
//! HBM and L2 answer through one fabric, so what hits L2 takes of the time in which HBM could have answered: `hbm / l2`
//! of it a byte. Worked number, H200, 180 requests of which each reads 18.8 times what they have between them, 178 MB:
//! 39 µs of HBM and 3.2 GB of hits in 225 µs; 64 µs where a scheduler reads them 2.6 times.
//!
//! While prefill or joined packs run, each SM has a second clock for them, and `share` finds both speeds.

mod solve;

use crate::backend::sim::cost::{MainLoop, Waits};
use crate::backend::sim::limits::Limits;
use crate::backend::sim::memory::solve::Scan;
use crate::backend::sim::share::{Class, Sharing};

/// Arrays over SMs are padded to this many, so that loops over them run in vector registers.
pub(super) const LANES: usize = 4;
/// Slack of an SM's clock, ns, within which a main loop counts as done: far above the rounding of a
/// run of hours, far below anything shown.
const DONE: f64 = 1e-3;
/// The least part of its time that an SM waits for memory: queries and block tables come from there too.
pub(super) const LEAST_EXPOSURE: f64 = 0.02;

/// What a main loop asks for at full speed.
#[derive(Clone, Copy, Debug)]
struct Demand {
    /// Bytes per ns read from HBM.
    dram_read: f64,
    /// Bytes per ns written to HBM.
    dram_write: f64,
    /// Bytes per ns between the SM and L2.
    moved: f64,
    /// Bytes per ns of HBM that could be answered in the time that all of them take.
    fabric: f64,
    /// Fraction of the SM's tensor cores.
    tensor: f64,
    /// What of it is prefill's.
    wgmma: f64,
    /// Warps that compete for them.
    warps: f64,
    /// Parts of the time that memory would take alone.
    waits: Waits,
}

impl Demand {
    const NONE: Self = Self {
        dram_read: 0.0,
        dram_write: 0.0,
        moved: 0.0,
        fabric: 0.0,
        tensor: 0.0,
        wgmma: 0.0,
        warps: 0.0,
        waits: Waits { l2: 0.0, hbm: 0.0 },
    };
}

/// Which clock of its SM a main loop goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// That of memory: decode and merge.
    Streams,
    /// That of the tensor cores: prefill, and joined packs.
    Computes,
}

/// A main loop on an SM.
#[derive(Clone, Copy, Debug)]
struct Running {
    /// The SM's clock at which it is done.
    done: f64,
    cta: u32,
    demand: Demand,
}

/// What the memory system carries, bytes per ns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    pub(super) dram_read: f64,
    pub(super) dram_write: f64,
    pub(super) moved: f64,
}

/// Some SMs side by side, so that a step over all of them runs in vector registers. The last group
/// may have lanes without an SM, on which nothing ever runs.
#[derive(Clone, Copy, Debug)]
struct Group {
    dram_read: [f64; LANES],
    dram_write: [f64; LANES],
    moved: [f64; LANES],
    fabric: [f64; LANES],
    tensor: [f64; LANES],
    warps: [f64; LANES],
    clock: [f64; LANES],
    /// Part of the SM's time in which memory would be waited for, the mean of its main loops.
    exposure: [f64; LANES],
    /// Inverse of the speed that an SM could have on its own.
    inverse_local: [f64; LANES],
    /// That speed; the same and what it takes of the fabric as `f·min(local, φ/e) = (f/e)·min(local·e, φ)` has them.
    local: [f64; LANES],
    local_exposed: [f64; LANES],
    fabric_exposed: [f64; LANES],
    speed: [f64; LANES],
    /// The SM's clock at its next completion.
    next: [f64; LANES],
}

impl Group {
    const IDLE: Self = Self {
        dram_read: [0.0; LANES],
        dram_write: [0.0; LANES],
        moved: [0.0; LANES],
        fabric: [0.0; LANES],
        tensor: [0.0; LANES],
        warps: [0.0; LANES],
        clock: [0.0; LANES],
        exposure: [1.0; LANES],
        inverse_local: [1.0; LANES],
        local: [1.0; LANES],
        local_exposed: [1.0; LANES],
        fabric_exposed: [0.0; LANES],
        speed: [1.0; LANES],
        next: [f64::INFINITY; LANES],
    };

    /// What streams on an SM asks for, beside prefill.
    fn class(&self, lane: usize) -> Class {
        Class {
            dram: self.fabric[lane],
            moved: self.moved[lane],
            tensor: self.tensor[lane],
            wgmma: 0.0,
            warps: self.warps[lane],
            l2_wait: 0.0,
            hbm_wait: self.exposure[lane],
        }
    }
}

/// What computes on one SM: prefill, or joined packs.
#[derive(Clone, Debug)]
struct Computing {
    running: Vec<Running>,
    demand: Demand,
    clock: f64,
    speed: f64,
    /// The clock at its next completion.
    next: f64,
}

impl Computing {
    const IDLE: Self = Self { running: Vec::new(), demand: Demand::NONE, clock: 0.0, speed: 1.0, next: f64::INFINITY };

    fn refresh(&mut self) {
        (self.demand, self.next) = sum(&self.running);
    }

    fn class(&self) -> Class {
        let demand = &self.demand;
        // Waits of several main loops are a mean, since they go by one clock.
        let count = self.running.len().max(1) as f64;
        Class {
            dram: demand.fabric,
            moved: demand.moved,
            tensor: demand.tensor,
            wgmma: demand.wgmma,
            warps: demand.warps,
            l2_wait: demand.waits.l2 / count,
            hbm_wait: demand.waits.hbm / count,
        }
    }
}

/// All SMs. Everything is held at one moment, `time`; [`Fluid::settle`] moves it on.
#[derive(Debug)]
pub(super) struct Fluid {
    limits: Limits,
    /// What L2 still has to write back.
    dirty: f64,
    /// A main loop has begun; until then nothing is written back.
    begun: bool,
    time: f64,
    running: Vec<Vec<Running>>,
    sms: Vec<Group>,
    /// What computes on each SM; empty until something does.
    computing: Vec<Computing>,
    /// Main loops of it that run.
    computes: usize,
    sharing: Sharing,
    /// SMs of which demands have changed since `sharing` took them; each once.
    changed: Vec<usize>,
    is_changed: Vec<bool>,
    /// Sums over the groups before each, and over all of them; as far as no group before has changed since.
    scans: Vec<Scan>,
    scanned: usize,
    /// Demands have changed since `rates`, the speeds and `due_at` were found.
    stale: bool,
    rates: Rates,
    due_at: f64,
}

impl Fluid {
    pub(super) fn new(sms: usize, limits: Limits) -> Self {
        Self {
            limits,
            dirty: 0.0,
            begun: false,
            time: 0.0,
            running: vec![Vec::new(); sms],
            sms: vec![Group::IDLE; sms.div_ceil(LANES)],
            computing: Vec::new(),
            computes: 0,
            sharing: Sharing::default(),
            changed: (0..sms).collect(),
            is_changed: vec![true; sms],
            scans: vec![Scan::NONE; sms.div_ceil(LANES) + 1],
            scanned: 0,
            stale: false,
            rates: Rates::default(),
            due_at: f64::INFINITY,
        }
    }

    /// L2 begins with `dirty` bytes that are to be written back.
    pub(super) fn with_dirty_l2(mut self, dirty: f64) -> Self {
        self.dirty = dirty;
        self
    }

    /// What HBM gives to main loops: while it is written back to, the less.
    fn hbm(&self) -> f64 {
        if self.dirty > 0.0 { self.limits.back.leaves(self.limits.hbm) } else { self.limits.hbm }
    }

    /// What L2 writes back per ns of what it held before.
    fn back(&self) -> f64 {
        let Rates { dram_read, dram_write, .. } = self.rates;
        if self.begun { self.limits.back.rate(self.limits.hbm, dram_read, dram_write) } else { 0.0 }
    }

    /// Lets time go by to `now`. Gives the rates that held since the last call.
    pub(super) fn settle(&mut self, now: f64) -> (f64, Rates) {
        let passed = now - self.time;
        self.time = now;
        let mut rates = self.rates;
        if self.dirty > 0.0 {
            let back = self.back();
            rates.dram_write += back;
            self.dirty -= back * passed;
            // What is written within the slack is not waited for: late in a run that is below a step of the clock.
            if self.dirty < (back * DONE).max(1.0) {
                self.dirty = 0.0;
                self.stale = true;
            }
        }
        if passed > 0.0 {
            for group in &mut self.sms {
                for lane in 0..LANES {
                    group.clock[lane] += passed * group.speed[lane];
                }
            }
            for sm in &mut self.computing {
                sm.clock += passed * sm.speed;
            }
        }
        (passed, rates)
    }

    /// HBM bytes read by `now`, beyond what was settled.
    pub(super) fn unsettled_read(&self, now: f64) -> f64 {
        (now - self.time) * self.rates.dram_read
    }

    /// Starts the main loop of `cta`; everything must be settled.
    pub(super) fn start(&mut self, sm: usize, cta: u32, work: &MainLoop, pace: Pace) {
        self.begun = true;
        let time = work.time.max(1e-3);
        let demand = Demand {
            dram_read: work.dram_read / time,
            dram_write: work.dram_write / time,
            moved: work.moved / time,
            fabric: work.fabric(&self.limits) / time,
            tensor: work.tensor / time,
            wgmma: work.wgmma / time,
            warps: work.warps,
            waits: Waits { l2: work.waits.l2 / time, hbm: work.waits.hbm / time },
        };
        if pace == Pace::Computes {
            if self.computing.is_empty() {
                self.computing = vec![Computing::IDLE; self.running.len()];
            }
            let at = &mut self.computing[sm];
            at.running.push(Running { done: at.clock + time, cta, demand });
            at.refresh();
            self.computes += 1;
            self.change(sm);
            return;
        }
        let clock = self.sms[sm / LANES].clock[sm % LANES];
        self.running[sm].push(Running { done: clock + time, cta, demand });
        self.refresh(sm);
    }

    /// Takes the main loops that are done; everything must be settled.
    pub(super) fn finish(&mut self, done: &mut Vec<u32>) {
        for group in 0..self.sms.len() {
            for lane in 0..LANES {
                let clock = self.sms[group].clock[lane] + DONE;
                if self.sms[group].next[lane] <= clock {
                    self.take_done(group * LANES + lane, clock, done);
                }
            }
        }
        for at in 0..self.computing.len() {
            let sm = &mut self.computing[at];
            let clock = sm.clock + DONE;
            if sm.next <= clock {
                let before = done.len();
                take(&mut sm.running, clock, done);
                sm.refresh();
                self.computes -= done.len() - before;
                self.change(at);
            }
        }
    }

    /// Demands of an SM have changed.
    fn change(&mut self, sm: usize) {
        self.stale = true;
        if !std::mem::replace(&mut self.is_changed[sm], true) {
            self.changed.push(sm);
        }
    }

    fn take_done(&mut self, sm: usize, clock: f64, done: &mut Vec<u32>) {
        take(&mut self.running[sm], clock, done);
        self.refresh(sm);
    }

    fn refresh(&mut self, sm: usize) {
        let (demand, next) = sum(&self.running[sm]);
        let (group, lane) = (&mut self.sms[sm / LANES], sm % LANES);
        group.dram_read[lane] = demand.dram_read;
        group.dram_write[lane] = demand.dram_write;
        group.moved[lane] = demand.moved;
        group.fabric[lane] = demand.fabric;
        group.tensor[lane] = demand.tensor;
        group.warps[lane] = demand.warps;
        group.inverse_local[lane] = (demand.moved / self.limits.sm).max(demand.tensor).max(1.0);
        let count = self.running[sm].len().max(1) as f64;
        group.exposure[lane] = (demand.waits.hbm / count).clamp(LEAST_EXPOSURE, 1.0);
        group.local[lane] = 1.0 / group.inverse_local[lane];
        group.local_exposed[lane] = group.local[lane] * group.exposure[lane];
        group.fabric_exposed[lane] = demand.fabric / group.exposure[lane];
        group.next[lane] = next;
        self.scanned = self.scanned.min(sm / LANES);
        self.change(sm);
    }

    /// When the next main loop is done, if nothing else begins before.
    pub(super) fn due_at(&mut self) -> f64 {
        if self.stale {
            self.stale = false;
            self.solve();
            let back = self.back();
            if self.dirty > 0.0 && back > 0.0 {
                self.due_at = smaller(self.due_at, self.time + self.dirty / back);
            }
        }
        self.due_at
    }
}

/// Demands of main loops together, and the first of their ends.
fn sum(running: &[Running]) -> (Demand, f64) {
    let mut demand = Demand::NONE;
    let mut next = f64::INFINITY;
    for entry in running {
        demand.dram_read += entry.demand.dram_read;
        demand.dram_write += entry.demand.dram_write;
        demand.moved += entry.demand.moved;
        demand.fabric += entry.demand.fabric;
        demand.tensor += entry.demand.tensor;
        demand.wgmma += entry.demand.wgmma;
        demand.warps += entry.demand.warps;
        demand.waits.l2 += entry.demand.waits.l2;
        demand.waits.hbm += entry.demand.waits.hbm;
        next = smaller(next, entry.done);
    }
    (demand, next)
}

/// Takes those that are done at `clock`.
fn take(running: &mut Vec<Running>, clock: f64, done: &mut Vec<u32>) {
    running.retain(|entry| {
        let over = entry.done <= clock;
        if over {
            done.push(entry.cta);
        }
        !over
    });
}

/// As `f64::max` where neither is not-a-number, in one instruction.
fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// As `f64::min` where neither is not-a-number, in one instruction.
pub(super) fn smaller(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}
