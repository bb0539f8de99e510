//! The roofline: how much is computed for each byte, and how close to the GPU's limits.
//!
//! A point is one kernel, one tile class, or the whole plan. Its work is 4·d FLOP for each (query head, KV
//! token) that it computes; its bytes are those of DRAM where the hardware counted them, or for the plan the
//! simulator did, and those that its CTAs issue where not. A kernel takes the time of its window. A tile class takes the slot time of its
//! CTAs over all slots, as if it had had the GPU to itself for that share.
//!
//! Worked number: configuration 20 of PAT's Figure 10 at 32/8 has 256 · 4,096 tokens · 32 heads · 4 · 128 FLOP
//! = 17.2 GFLOP on 4.30 GB, 4.0 FLOP a byte: far left of where the roofs of an H200 meet.

use std::collections::BTreeMap;

use crate::capture::{Capture, Counter, Counts, KernelWindow, Source};
use crate::hw::Device;
use crate::metrics::{MemoryFlow, Traffic};
use crate::plan::{Launch, LaunchPlan, PlannedPack, PrefillTask};
use crate::tile::Tile;
use crate::units::{Bytes, Nanos};

/// What a point stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The whole plan.
    Plan,
    /// A launch of it.
    Kernel(u32),
    /// All packs of one tile.
    Tiles(Tile),
}

/// Where the bytes of a point come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BytesFrom {
    /// Read and written in DRAM, counted by the hardware.
    Counted,
    /// Read and written in DRAM, by the simulator.
    Simulated,
    /// Issued by the CTAs, derived from the plan.
    Issued,
}

/// A point of the roofline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RooflinePoint {
    /// What it stands for.
    pub subject: Subject,
    /// Work, FLOP.
    pub flop: f64,
    /// Bytes moved for it.
    pub bytes: Bytes,
    /// Where those come from.
    pub from: BytesFrom,
    /// Time that it took.
    pub time: Nanos,
}

impl RooflinePoint {
    /// FLOP a byte.
    pub fn intensity(&self) -> f64 {
        self.flop / self.bytes.as_f64().max(1.0)
    }

    /// FLOP per second.
    pub fn rate(&self) -> f64 {
        self.flop / (self.time.as_f64().max(1.0) * 1e-9)
    }
}

/// The roofs over a plan on a device: what a plain read reaches, bytes per second, and what its kernels can get of the
/// tensor cores, FLOP per second. Prefill has warpgroup instructions where the device has kernels of them.
pub fn roofs(device: &Device, plan: &LaunchPlan) -> (f64, f64) {
    let decode = device.tensor_flops as f64 * device.sim.tensor_efficiency;
    let prefill = device.hybrid_limits.filter(|_| device.prefill_kernel.is_some() && !plan.prefill.tasks.is_empty());
    (device.reachable_bytes_per_s(), prefill.map_or(decode, |limits| (limits.flops_alone as f64).max(decode)))
}

/// The points of a run that computed anything: the plan, its kernels, its tile classes.
pub fn roofline(traffic: &Traffic, capture: &Capture) -> Vec<RooflinePoint> {
    let mut points = vec![whole(traffic, capture)];
    points.extend(kernels(capture));
    points.extend(tiles(capture));
    points.retain(|point| point.flop > 0.0 && point.bytes > Bytes::ZERO && point.time > Nanos::ZERO);
    points
}

/// What some part of a plan computes, and what its CTAs load for that.
#[derive(Clone, Copy, Debug, Default)]
struct Computed {
    flop: f64,
    issued: Bytes,
}

impl Computed {
    fn add(&mut self, other: Self) {
        self.flop += other.flop;
        self.issued += other.issued;
    }
}

/// A pack over all heads.
fn of_pack(plan: &LaunchPlan, pack: &PlannedPack) -> Computed {
    let shape = &plan.shape;
    let pairs = f64::from(pack.queries_len) * pack.tokens.as_f64();
    Computed {
        flop: flop(plan, pairs),
        issued: shape.kv_bytes_per_token() * pack.tokens.0 + shape.query_bytes() * u64::from(pack.queries_len),
    }
}

/// A prefill task over all heads, by so many CTAs, each of which loads the KV of one.
fn of_task(plan: &LaunchPlan, task: &PrefillTask, ctas: u32) -> Computed {
    let shape = &plan.shape;
    let per_head = shape.kv_bytes_per_token_head() * task.tokens().0;
    Computed {
        flop: flop(plan, task.attended() as f64),
        issued: per_head * u64::from(ctas) + shape.query_bytes() * u64::from(task.rows()),
    }
}

/// FLOP of QK and PV for (query, KV token) pairs, over all query heads.
fn flop(plan: &LaunchPlan, pairs: f64) -> f64 {
    4.0 * f64::from(plan.shape.head_dim) * f64::from(plan.shape.query_heads) * pairs
}

/// What the packs and prefill tasks of a launch compute.
fn of_launch(plan: &LaunchPlan, launch: &Launch) -> Computed {
    let mut sum = Computed::default();
    plan.packs_of(launch).iter().for_each(|pack| sum.add(of_pack(plan, plan.pack(*pack))));
    let ctas = launch.kind.prefill_heads(&plan.shape);
    plan.tasks_of(launch).iter().for_each(|task| sum.add(of_task(plan, task, ctas)));
    sum
}

fn whole(traffic: &Traffic, capture: &Capture) -> RooflinePoint {
    let counted = capture.counted.as_ref().and_then(|counted| dram(&counted.plan));
    let simulated = || {
        let flow = MemoryFlow::of(traffic, capture).filter(|flow| flow.source == Source::Simulated)?;
        Some(flow.dram_read? + flow.dram_written.unwrap_or_default())
    };
    let (bytes, from) = match (counted, simulated()) {
        (None, Some(simulated)) => (simulated, BytesFrom::Simulated),
        (counted, _) => bytes(counted, || traffic.issued()),
    };
    RooflinePoint {
        subject: Subject::Plan,
        flop: capture.plan.launches.iter().map(|launch| of_launch(&capture.plan, launch).flop).sum(),
        bytes,
        from,
        time: capture.makespan(),
    }
}

/// DRAM bytes among some counts.
fn dram(counts: &Counts) -> Option<Bytes> {
    let bytes = counts.get(Counter::DramRead)? + counts.get(Counter::DramWrite).unwrap_or(0.0);
    Some(Bytes(bytes.round() as u64))
}

/// Counted bytes where there are any, or else the issued ones.
fn bytes(counted: Option<Bytes>, issued: impl FnOnce() -> Bytes) -> (Bytes, BytesFrom) {
    match counted {
        Some(counted) => (counted, BytesFrom::Counted),
        None => (issued(), BytesFrom::Issued),
    }
}

/// The kernels that compute attention; none where the plan has one only.
fn kernels(capture: &Capture) -> Vec<RooflinePoint> {
    if capture.plan.launches.iter().filter(|launch| !launch.kind.is_merge()).count() < 2 {
        return Vec::new();
    }
    capture.kernels.iter().filter_map(|window| kernel(capture, window)).collect()
}

fn kernel(capture: &Capture, window: &KernelWindow) -> Option<RooflinePoint> {
    let plan = &capture.plan;
    let launch = plan.launches.get(window.launch as usize).filter(|launch| !launch.kind.is_merge())?;
    let computed = of_launch(plan, launch);
    let counts = capture.counted.iter().flat_map(|counted| &counted.launches).find(|of| of.launch == window.launch);
    let (bytes, from) = bytes(counts.and_then(|of| dram(&of.counts)), || computed.issued);
    Some(RooflinePoint {
        subject: Subject::Kernel(window.launch),
        flop: computed.flop,
        bytes,
        from,
        time: window.end.saturating_sub(window.begin),
    })
}

fn tiles(capture: &Capture) -> Vec<RooflinePoint> {
    let plan = &capture.plan;
    let busy = busy_by_tile(capture);
    let mut computed: BTreeMap<Tile, Computed> = BTreeMap::new();
    for pack in &plan.packs {
        computed.entry(pack.tile).or_default().add(of_pack(plan, pack));
    }
    let ctas = plan.ctas_of_prefill();
    for task in &plan.prefill.tasks {
        computed.entry(task.tile).or_default().add(of_task(plan, task, ctas));
    }
    let slots = capture.slots().max(1);
    let point = |(tile, computed): (Tile, Computed)| RooflinePoint {
        subject: Subject::Tiles(tile),
        flop: computed.flop,
        bytes: computed.issued,
        from: BytesFrom::Issued,
        time: Nanos(busy.get(&tile).copied().unwrap_or(0) / slots),
    };
    computed.into_iter().map(point).collect()
}

/// Slot time of the CTAs of each tile. A CTA that computes prefill beside decode stands for both of its tiles,
/// since each has its slot for all of that time.
fn busy_by_tile(capture: &Capture) -> BTreeMap<Tile, u64> {
    let plan = &capture.plan;
    let numbers = plan.all_numbers();
    let mut busy: BTreeMap<Tile, u64> = BTreeMap::new();
    for span in capture.spans.iter().filter(|span| span.role.computes()) {
        let Some(work) = numbers.get(span.launch as usize).and_then(|launch| launch.work(span.cta)) else { continue };
        let prefill = work.prefill_task().map(|task| task.tile);
        let decode = work.first_decode().map(|work| plan.pack(work.pack).tile).filter(|tile| prefill != Some(*tile));
        for tile in prefill.into_iter().chain(decode) {
            *busy.entry(tile).or_default() += span.end.saturating_sub(span.begin).0;
        }
    }
    busy
}
