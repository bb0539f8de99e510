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

use crate::capture::{Capture, Counter, Counts, KernelWindow, Source, SpanKind};
use crate::metrics::{MemoryFlow, Traffic};
use crate::plan::{LaunchKind, LaunchPlan, PlannedPack};
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

/// The points of a run that computed anything: the plan, its kernels, its tile classes.
pub fn roofline(traffic: &Traffic, capture: &Capture) -> Vec<RooflinePoint> {
    let mut points = vec![whole(traffic, capture)];
    points.extend(kernels(capture));
    points.extend(tiles(capture));
    points.retain(|point| point.flop > 0.0 && point.bytes > Bytes::ZERO && point.time > Nanos::ZERO);
    points
}

/// FLOP of a pack over all heads.
fn flop(plan: &LaunchPlan, pack: &PlannedPack) -> f64 {
    let shape = &plan.shape;
    4.0 * f64::from(shape.head_dim) * f64::from(shape.query_heads) * f64::from(pack.queries_len) * pack.tokens.as_f64()
}

/// KV and Q that the CTAs of a pack load.
fn issued(plan: &LaunchPlan, pack: &PlannedPack) -> Bytes {
    plan.shape.kv_bytes_per_token() * pack.tokens.0 + plan.shape.query_bytes() * u64::from(pack.queries_len)
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
        flop: capture.plan.packs.iter().map(|pack| flop(&capture.plan, pack)).sum(),
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

/// The kernels that compute packs; none where the plan has one only.
fn kernels(capture: &Capture) -> Vec<RooflinePoint> {
    if capture.plan.launches.iter().filter(|launch| launch.kind != LaunchKind::Merge).count() < 2 {
        return Vec::new();
    }
    capture.kernels.iter().filter_map(|window| kernel(capture, window)).collect()
}

fn kernel(capture: &Capture, window: &KernelWindow) -> Option<RooflinePoint> {
    let plan = &capture.plan;
    let launch = plan.launches.get(window.launch as usize).filter(|launch| launch.kind != LaunchKind::Merge)?;
    let packs = || plan.packs_of(launch).iter().map(|pack| plan.pack(*pack));
    let counts = capture.counted.iter().flat_map(|counted| &counted.launches).find(|of| of.launch == window.launch);
    let (bytes, from) = bytes(counts.and_then(|of| dram(&of.counts)), || packs().map(|pack| issued(plan, pack)).sum());
    Some(RooflinePoint {
        subject: Subject::Kernel(window.launch),
        flop: packs().map(|pack| flop(plan, pack)).sum(),
        bytes,
        from,
        time: window.end.saturating_sub(window.begin),
    })
}

fn tiles(capture: &Capture) -> Vec<RooflinePoint> {
    let plan = &capture.plan;
    let mut busy: BTreeMap<Tile, u64> = BTreeMap::new();
    for span in capture.spans.iter().filter(|span| span.kind == SpanKind::Attention) {
        let launch = plan.launches.get(span.launch as usize).filter(|launch| span.cta < plan.cta_count(launch));
        if let Some(launch) = launch.filter(|launch| launch.kind != LaunchKind::Merge) {
            let tile = plan.pack(plan.cta_work(launch, span.cta).0).tile;
            *busy.entry(tile).or_default() += span.end.saturating_sub(span.begin).0;
        }
    }
    let slots = capture.slots().max(1);
    let point = |(tile, busy): (Tile, u64)| {
        let packs = || plan.packs.iter().filter(|pack| pack.tile == tile);
        RooflinePoint {
            subject: Subject::Tiles(tile),
            flop: packs().map(|pack| flop(plan, pack)).sum(),
            bytes: packs().map(|pack| issued(plan, pack)).sum(),
            from: BytesFrom::Issued,
            time: Nanos(busy / slots),
        }
    };
    busy.into_iter().map(point).collect()
}
