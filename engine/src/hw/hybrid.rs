//! What tensor cores and memory reach at best, alone and together: the floor of a batch with prefill and decode.
//!
//! ```text
//! FLOP     ├──── both: tensor cores beside reads ────┤├─ tensor cores alone ─┤
//! bytes    ├──── both: reads beside tensor cores ────┤   or reads alone
//! ```
//!
//! The two share issue slots, shared memory and above all the power: on an H200 the clock of the SMs falls from 1,673
//! MHz to 1,391 as reads come beside the products. So neither rate holds for both at once, and the floor is the least
//! time in which the FLOP and the bytes can be shared out to the three states.
//!
//! Worked number, C1 of POD-Attention on the H200 (618 GFLOP and 5.67 GB): both for 840 µs at 736 TFLOP/s, in which 3.00
//! GB come at 3.57 TB/s; the other 2.67 GB take 575 µs at 4.65 TB/s. The floor is 1,415 µs; as if each were alone it
//! would be 1,220.

use serde::{Deserialize, Serialize};

/// Rates of a loop with the products and exponentials of prefill and of plain reads, measured on the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HybridLimits {
    /// Tensor cores alone, FLOP per second.
    pub flops_alone: u64,
    /// Reads alone, bytes per second.
    pub bytes_per_s_alone: u64,
    /// Tensor cores beside reads, FLOP per second.
    pub flops: u64,
    /// Reads beside tensor cores, bytes per second.
    pub bytes_per_s: u64,
    /// The highest clock of the SMs, Hz.
    pub clock_most: u64,
    /// Clock of the SMs with tensor cores alone, Hz.
    pub clock_alone: u64,
    /// With both, Hz.
    pub clock: u64,
}

/// No load brings the clock further down than this part of the highest.
const LEAST_CLOCK: f64 = 0.3;

/// Prefill that takes less than the first is over before the power limit slows the clock, also where it is run again
/// and again; from the second on it is slowed all the time.
const BEFORE_LIMIT: f64 = 3e6;
const AT_LIMIT: f64 = 9e6;

/// How much of the power limit shows in a run with so many ns of prefill.
pub fn at_power_limit(prefill_ns: f64) -> f64 {
    ((prefill_ns - BEFORE_LIMIT) / (AT_LIMIT - BEFORE_LIMIT)).clamp(0.0, 1.0)
}

impl HybridLimits {
    /// The clock that the power leaves, over the highest, where tensor cores are at `load` of what prefill on all SMs
    /// takes and HBM gives `bytes_per_ns`.
    ///
    /// What the SMs draw is taken to rise with the cube of their clock, which both measured clocks give a price in reads:
    /// `load · f³ + (alone³ − both³) · bytes / bytes of both = alone³`.
    pub fn clock_at_limit(&self, load: f64, bytes_per_ns: f64) -> f64 {
        let cube = |clock: u64| (clock as f64 / self.clock_most as f64).powi(3);
        let (alone, both) = (cube(self.clock_alone), cube(self.clock));
        let reads = bytes_per_ns / (self.bytes_per_s as f64 * 1e-9);
        let left = (alone - (alone - both).max(0.0) * reads).max(0.0);
        (left / load.max(1e-3)).cbrt().clamp(LEAST_CLOCK, 1.0)
    }

    /// The least time for so many FLOP and bytes, ns.
    pub fn floor_ns(&self, flop: f64, bytes: f64) -> f64 {
        let alone = (flop / self.flops_alone as f64).max(bytes / self.bytes_per_s_alone as f64);
        let both = (flop / self.flops as f64).min(bytes / self.bytes_per_s as f64);
        let flop_left = (flop - both * self.flops as f64).max(0.0);
        let bytes_left = (bytes - both * self.bytes_per_s as f64).max(0.0);
        let left = flop_left / self.flops_alone as f64 + bytes_left / self.bytes_per_s_alone as f64;
        // Where both at once were no faster than one after the other, they would be run so.
        let apart = flop / self.flops_alone as f64 + bytes / self.bytes_per_s_alone as f64;
        (both + left).min(apart).max(alone) * 1e9
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::HybridLimits;
    use crate::hw;

    fn h200() -> HybridLimits {
        hw::find("h200-sxm").unwrap().hybrid_limits.unwrap()
    }

    #[test]
    fn the_worked_number_holds() {
        let floor = h200().floor_ns(618e9, 5.67e9);
        assert!((floor / 1_415e3 - 1.0).abs() < 0.01, "{floor}");
    }

    #[test]
    fn the_clock_falls_to_what_was_measured() {
        let limits = h200();
        let of_most = |clock: u64| clock as f64 / limits.clock_most as f64;
        assert!((limits.clock_at_limit(1.0, 0.0) - of_most(limits.clock_alone)).abs() < 1e-9);
        let reads = limits.bytes_per_s as f64 * 1e-9;
        assert!((limits.clock_at_limit(1.0, reads) - of_most(limits.clock)).abs() < 1e-9);
        assert!((limits.clock_at_limit(0.1, reads) - 1.0).abs() < 1e-9, "a few SMs have power to spare");
        assert!(limits.clock_at_limit(1.0, 1e9) > 0.0);
    }

    #[test]
    fn work_of_one_kind_takes_its_own_rate() {
        let limits = h200();
        assert!((limits.floor_ns(1e12, 0.0) - 1e21 / limits.flops_alone as f64).abs() < 1.0);
        assert!((limits.floor_ns(0.0, 1e9) - 1e18 / limits.bytes_per_s_alone as f64).abs() < 1.0);
    }

    proptest! {
        /// Against all ways to share out the work to the three states, tried one by one.
        #[test]
        fn no_share_of_time_beats_the_floor(flop in 0.0..1e13f64, bytes in 0.0..1e11f64, part in 0.0..1.0f64) {
            let limits = h200();
            let most = (flop / limits.flops as f64).min(bytes / limits.bytes_per_s as f64);
            let both = most * part;
            let left = (flop - both * limits.flops as f64) / limits.flops_alone as f64
                + (bytes - both * limits.bytes_per_s as f64) / limits.bytes_per_s_alone as f64;
            prop_assert!(limits.floor_ns(flop, bytes) <= (both + left) * 1e9 * (1.0 + 1e-9));
        }
    }
}
