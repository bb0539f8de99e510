//! The constants that a fit moves, and what a move comes to: fractions stop at one, whole numbers are rounded, and
//! what is zero stays so.

use crate::hw::{Device, PrefillKernels, SimConstants};
use crate::units::Nanos;

/// Constants that are moved.
pub(super) const COUNT: usize = 32;
/// The logarithm of a factor for each of them.
pub(super) type Move = [f64; COUNT];

/// A constant where it stands.
enum Constant<'a> {
    /// A time.
    Time(&'a mut Nanos),
    /// Bytes per second.
    Rate(&'a mut u64),
    /// A fraction.
    Part(&'a mut f64),
}

use Constant::{Part, Rate, Time};

impl Constant<'_> {
    /// Makes it larger by a factor. Gives the logarithm of what came of that.
    fn scale(self, by: f64) -> f64 {
        let whole = |was: u64| if was == 0 { 0 } else { (was as f64 * by).round().max(1.0) as u64 };
        let (was, is) = match self {
            Part(part) => {
                let was = *part;
                *part = (was * by).min(1.0);
                (was, *part)
            }
            Rate(rate) => {
                let was = *rate;
                *rate = whole(was);
                (was as f64, *rate as f64)
            }
            Time(time) => {
                let was = *time;
                *time = Nanos(whole(was.0));
                (was.as_f64(), time.as_f64())
            }
        };
        if was > 0.0 { (is / was).ln() } else { 0.0 }
    }
}

/// Those of every device, but for what is measured alone.
const OF_SIM: [for<'a> fn(&'a mut SimConstants) -> Constant<'a>; 24] = [
    |sim| Part(&mut sim.tile_read_efficiency),
    |sim| Rate(&mut sim.sm_bytes_per_s),
    |sim| Time(&mut sim.cta_prologue),
    |sim| Time(&mut sim.cta_epilogue),
    |sim| Time(&mut sim.cta_turnover),
    |sim| Time(&mut sim.tile_step),
    |sim| Time(&mut sim.softmax_step),
    |sim| Rate(&mut sim.store_bytes_per_s),
    |sim| Time(&mut sim.merge_trip),
    |sim| Time(&mut sim.l2_latency),
    |sim| Rate(&mut sim.l2_bytes_per_s),
    |sim| Part(&mut sim.l2_useful_fraction),
    |sim| Time(&mut sim.launch_latency),
    |sim| Time(&mut sim.kernel_gap),
    |sim| Time(&mut sim.attention_gap),
    |sim| Time(&mut sim.host_launch_interval),
    |sim| Time(&mut sim.queue_pop),
    |sim| Time(&mut sim.stream_fork),
    |sim| Time(&mut sim.stream_join),
    |sim| Time(&mut sim.dispatch_interval),
    |sim| Time(&mut sim.idle_latency),
    |sim| Time(&mut sim.worker_prologue),
    |sim| Time(&mut sim.worker_arrival),
    |sim| Time(&mut sim.worker_merge_trip),
];

/// Those of a device with prefill kernels of packscope's own.
const OF_PREFILL: [for<'a> fn(&'a mut PrefillKernels) -> Option<Constant<'a>>; COUNT - OF_SIM.len()] = [
    |kernels| Some(Part(&mut kernels.full.efficiency)),
    |kernels| Some(Part(&mut kernels.full.efficiency_d64)),
    |kernels| Some(Time(&mut kernels.full.copy)),
    |kernels| Some(Part(&mut kernels.slim.efficiency)),
    |kernels| Some(Part(&mut kernels.slim.efficiency_d64)),
    |kernels| kernels.lean_decode.chain.as_mut().map(Time),
    |kernels| kernels.pair.as_mut().map(|pair| Rate(&mut pair.tensor_flops_per_sm)),
    |kernels| kernels.pair.as_mut().map(|pair| Rate(&mut pair.read_beside_per_sm)),
];

/// Whether a constant says nothing of runs without prefill.
pub(super) fn is_of_prefill(knob: usize) -> bool {
    knob >= OF_SIM.len()
}

/// A constant of a device, if it has that one.
fn knob(device: &mut Device, number: usize) -> Option<Constant<'_>> {
    match OF_SIM.get(number) {
        Some(of) => Some(of(&mut device.sim)),
        None => OF_PREFILL.get(number - OF_SIM.len())?(device.prefill_kernel.as_mut()?),
    }
}

/// The device with constant `knob` moved by a logarithm, and how far it went.
pub(super) fn with_one(device: &Device, knob: usize, by: f64) -> (Device, f64) {
    let mut all = [0.0; COUNT];
    all[knob] = by;
    let (device, went) = with_all(device, &all);
    (device, went[knob])
}

/// The device with each constant moved, and how far each went.
pub(super) fn with_all(device: &Device, by: &Move) -> (Device, Move) {
    let mut device = device.clone();
    let mut went = [0.0; COUNT];
    for (number, (by, went)) in by.iter().zip(&mut went).enumerate() {
        if let Some(constant) = knob(&mut device, number).filter(|_| *by != 0.0) {
            *went = constant.scale(by.exp());
        }
    }
    (device, went)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hw;

    /// Place of a constant among the knobs, told by what a large factor changes.
    fn knob_of(is_at: impl Fn(&SimConstants) -> u64) -> usize {
        let device = hw::find("h200-sxm").unwrap();
        (0..COUNT).find(|knob| is_at(&with_one(device, *knob, -1.0).0.sim) != is_at(&device.sim)).unwrap()
    }

    #[test]
    fn a_move_stops_at_one_rounds_whole_numbers_and_says_how_far_it_went() {
        let mut device = hw::find("h200-sxm").unwrap().clone();
        (device.sim.l2_useful_fraction, device.sim.dispatch_interval, device.sim.kernel_gap) =
            (0.8, Nanos(3), Nanos::ZERO);
        let fraction = knob_of(|sim| sim.l2_useful_fraction.to_bits());
        let (moved, went) = with_one(&device, fraction, 1.0);
        assert!((moved.sim.l2_useful_fraction - 1.0).abs() < 1e-12);
        assert!((went - (1.0_f64 / 0.8).ln()).abs() < 1e-12, "{went}");
        let dispatch = knob_of(|sim| sim.dispatch_interval.0);
        assert_eq!(with_one(&device, dispatch, 0.1), (device.clone(), 0.0), "3.3 ns are 3");
        let (moved, went) = with_one(&device, dispatch, -9.0);
        assert_eq!(
            (moved.sim.dispatch_interval, went),
            (Nanos(1), (1.0_f64 / 3.0).ln()),
            "none at all never comes back"
        );
        let gap = knob_of(|sim| sim.kernel_gap.0);
        assert_eq!(with_one(&device, gap, 1.0), (device.clone(), 0.0));
    }

    #[test]
    fn each_knob_is_a_constant_of_its_own() {
        let device = hw::find("h200-sxm").unwrap();
        let told = |device: &Device| format!("{:?} {:?}", device.sim, device.prefill_kernel);
        let mut moved: Vec<String> = (0..COUNT).map(|knob| told(&with_one(device, knob, -1.0).0)).collect();
        moved.sort();
        moved.dedup();
        assert_eq!(moved.len(), COUNT);
        assert!(!moved.contains(&told(device)));
        let without = Device { prefill_kernel: None, ..device.clone() };
        assert_eq!(with_one(&without, COUNT - 1, 1.0), (without, 0.0), "a constant that is not there does not move");
    }
}
