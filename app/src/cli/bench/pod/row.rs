//! The ways of running a hybrid batch, and a row of times by way.

use engine::plan::Strategy;
use engine::plan::hybrid::PodChoice;
use engine::units::Nanos;

/// FlashAttention's decode.
pub(super) const FLASH: &str = "query-centric";
/// The device on which the paper's figures were measured.
pub(super) const PAPERS_DEVICE: &str = "a100-sxm-80gb";

/// A way of running a hybrid batch.
pub(super) struct Way {
    pub(super) name: &'static str,
    pub(super) strategy: Strategy,
    pub(super) pod: PodChoice,
}

/// All ways; the first is what the others are compared with.
pub(super) static WAYS: [Way; 6] = [
    Way { name: "serial", strategy: Strategy::Serial, pod: PodChoice::Released },
    Way { name: "streams", strategy: Strategy::Streams, pod: PodChoice::Released },
    Way { name: "cta-parallel", strategy: Strategy::CtaParallel, pod: PodChoice::Released },
    Way { name: "hfuse", strategy: Strategy::HFuse, pod: PodChoice::Released },
    Way { name: "fused released", strategy: Strategy::Fused, pod: PodChoice::Released },
    Way { name: "fused ours", strategy: Strategy::Fused, pod: PodChoice::Ours },
];
pub(super) const SERIAL: usize = 0;
pub(super) const STREAMS: usize = 1;
pub(super) const HFUSE: usize = 3;
pub(super) const RELEASED: usize = 4;
pub(super) const OURS: usize = 5;

/// Makespans of a batch by way, and the least that any can take.
pub(super) struct Timed {
    pub(super) name: String,
    pub(super) times: [Nanos; WAYS.len()],
    pub(super) oracle: f64,
}

impl Timed {
    pub(super) fn gain(&self, way: usize) -> f64 {
        self.times[SERIAL].as_f64() / self.times[way].as_f64()
    }
}

/// Gains of a way over serial, ascending.
pub(super) fn sorted_gains(rows: &[Timed], way: usize) -> Vec<f64> {
    let mut gains: Vec<f64> = rows.iter().map(|row| row.gain(way)).collect();
    gains.sort_by(f64::total_cmp);
    gains
}
