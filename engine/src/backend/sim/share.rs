//! How prefill and decode share an SM and the memory: two classes of main loops, each at a speed of
//! its own.
//!
//! Decode waits for memory and uses little of the tensor cores, prefill the other way round, so one
//! factor for both would make a full HBM stop the tensor cores. Each SM has two clocks instead:
//!
//! ```text
//! streams    s₀ = min(cap₀, φ)                       waits for HBM all its time
//! computes   s₁ = min(cap₁, φ / (l·φ + h))           waits for L2 a part l of its time and for HBM a part h
//! tensor     t₀·s₀ + t₁·s₁ ≤ 1 on each SM            a class is sure of its share of the warps, w / (w₀ + w₁)
//! port       m₀·s₀ + m₁·s₁ ≤ what an SM draws
//! φ          the largest at which all draw no more than HBM gives
//! ```
//!
//! The schedulers of an SM issue in turn for the warps that are ready, so that a class which asks for less
//! of the tensor cores than its share of the warps gets all that it asks for, and the other has the rest.
//!
//! Under prefill the power limit slows the clock, more so with reads beside it and in long runs, and the tensor cores
//! leave the reads less (`limits::PowerLimit`).
//!
//! A class whose memory takes less than all its time may see it slow down by as much for nothing:
//! that is why overlap pays. What decode takes of the tensor cores (padded rows of its tile) is what
//! prefill loses: that is why POD's decode tile has 16 rows.
//!
//! Worked number: decodes of 4 warps that want half of the tensor cores at full speed and run at φ = 0.4
//! take 0.2 of them. Prefill of 8 warps that wants 1.6 (two CTAs at 0.8) gets 0.8, and runs at half its
//! speed. At φ = 1 the decodes would want more than the third of which they are sure, and get that.

use crate::backend::sim::limits::Limits;

/// Demands of one class of main loops on one SM at full speed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Class {
    /// Bytes per ns from and to HBM.
    pub(super) dram: f64,
    /// Bytes per ns between the SM and L2.
    pub(super) moved: f64,
    /// Fraction of the SM's tensor cores.
    pub(super) tensor: f64,
    /// Warps that compete for them.
    pub(super) warps: f64,
    /// Part of the time in which memory that hits L2 would be waited for.
    pub(super) l2_wait: f64,
    /// Part of the time in which HBM would be.
    pub(super) hbm_wait: f64,
}

/// Streams and computes of one SM.
pub(super) type Pair = [Class; 2];

/// Rounds of finding caps and φ in turn; the second changes little, the third almost nothing.
const ROUNDS: usize = 3;
/// A class that waits for HBM less than this does not wait for it.
const NO_WAIT: f64 = 1e-6;
/// Where the search for φ begins: below what any memory gives to any demand.
const LEAST: f64 = 1e-30;

impl Class {
    /// Speed at which its memory keeps up when every HBM latency is stretched by 1/φ.
    fn fed(&self, phi: f64) -> f64 {
        let wait = if self.hbm_wait < NO_WAIT { self.l2_wait } else { self.l2_wait + self.hbm_wait / phi };
        if wait > 0.0 { 1.0 / wait } else { f64::INFINITY }
    }

    /// How fast [`Self::fed`] rises with φ.
    fn slope(&self, phi: f64) -> f64 {
        if self.hbm_wait < NO_WAIT {
            return 0.0;
        }
        let below = self.l2_wait * phi + self.hbm_wait;
        self.hbm_wait / (below * below)
    }
}

/// Speeds of both classes of every SM.
pub(super) fn speeds(sms: &[Pair], limits: &Limits) -> Vec<[f64; 2]> {
    let mut phi = 1.0;
    let mut speeds = vec![[1.0; 2]; sms.len()];
    let wanted: f64 = sms.iter().map(|sm| sm[1].tensor.min(1.0)).sum();
    let (mut drawn, mut busy) = (0.0, wanted);
    for _ in 0..ROUNDS {
        let clock = limits.power.map_or(1.0, |power| power.clock(wanted, sms.len() as f64, drawn));
        let caps: Vec<[f64; 2]> = sms.iter().map(|sm| caps(sm, (phi, clock), limits)).collect();
        let before = phi;
        let reads = limits.power.map_or(1.0, |power| power.reads(busy, sms.len() as f64));
        phi = fill(sms, &caps, limits.hbm * reads);
        for ((speed, cap), sm) in speeds.iter_mut().zip(&caps).zip(sms) {
            *speed = [0, 1].map(|class| cap[class].min(sm[class].fed(phi)));
        }
        busy = sms.iter().zip(&speeds).map(|(sm, speed)| sm[1].tensor * speed[1]).sum();
        drawn = sms.iter().zip(&speeds).map(|(sm, speed)| sm[0].dram * speed[0] + sm[1].dram * speed[1]).sum();
        if (phi - before).abs() < 1e-3 * before {
            break;
        }
    }
    slow_to_l2(sms, &mut speeds, limits.l2);
    speeds
}

/// What tensor cores and port of one SM let each class have, at most 1, and prefill no more than the clock has left.
fn caps(sm: &Pair, (phi, clock): (f64, f64), limits: &Limits) -> [f64; 2] {
    let port = limits.sm;
    let [t0, t1] = sm.map(|class| class.tensor);
    let free = sm.map(|class| class.fed(phi).min(1.0));
    let wants = [t0 * free[0], t1 * free[1]];
    let mut caps = [1.0, clock];
    if wants[0] + wants[1] > 1.0 {
        let sure = sm.map(|class| class.warps / (sm[0].warps + sm[1].warps));
        caps = if wants[0] <= sure[0] {
            [1.0, ((1.0 - wants[0]) / t1).min(clock)]
        } else if wants[1] <= sure[1] {
            [(1.0 - wants[1]) / t0, clock]
        } else {
            [sure[0] / t0, (sure[1] / t1).min(clock)]
        };
    }
    if let Some(both) = limits.pair.filter(|_| sm[0].warps > 0.0 && t1 > 0.0) {
        caps = [caps[0].min(both.decode), caps[1].min(both.tensor / t1)];
    }
    let drawn: f64 = (0..2).map(|class| sm[class].moved * caps[class].min(free[class])).sum();
    if drawn > port {
        let scale = port / drawn;
        caps = [0, 1].map(|class| caps[class].min(free[class]) * scale);
    }
    caps
}

/// The largest φ ≤ 1 at which all together draw no more than `limit` from HBM. The sum is concave
/// and rises with φ, so Newton's steps from below never pass it.
fn fill(sms: &[Pair], caps: &[[f64; 2]], limit: f64) -> f64 {
    let mut phi = LEAST;
    for _ in 0..64 {
        let (mut drawn, mut slope) = (0.0, 0.0);
        for (sm, cap) in sms.iter().zip(caps) {
            for (class, cap) in sm.iter().zip(cap) {
                let fed = class.fed(phi);
                drawn += class.dram * fed.min(*cap);
                if fed < *cap {
                    slope += class.dram * class.slope(phi);
                }
            }
        }
        let room = limit - drawn;
        if slope <= 0.0 {
            return if room >= 0.0 { 1.0 } else { phi };
        }
        if room <= limit * 1e-6 {
            break;
        }
        let next = phi + room / slope;
        if next >= 1.0 && phi >= 1.0 {
            return 1.0;
        }
        phi = next.min(1.0);
    }
    phi
}

/// Where L2 gives less than all want of it, all slow down alike.
fn slow_to_l2(sms: &[Pair], speeds: &mut [[f64; 2]], limit: f64) {
    let moved: f64 = sms.iter().zip(speeds.iter()).map(|(sm, s)| sm[0].moved * s[0] + sm[1].moved * s[1]).sum();
    if moved > limit {
        let scale = limit / moved;
        speeds.iter_mut().flatten().for_each(|speed| *speed *= scale);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { hbm: 100.0, l2: 1e9, sm: 1e9, pair: None, power: None };

    fn decode(dram: f64, tensor: f64) -> Class {
        Class { dram, moved: dram, tensor, warps: 4.0, l2_wait: 0.0, hbm_wait: 1.0 }
    }

    fn prefill(tensor: f64) -> Class {
        Class { dram: 0.0, moved: 1.0, tensor, warps: 8.0, l2_wait: 0.5, hbm_wait: 0.0 }
    }

    #[test]
    fn the_worked_number_holds() {
        let sms = [[decode(250.0, 0.5), prefill(1.6)]];
        let [[streams, computes]] = speeds(&sms, &LIMITS)[..] else { panic!("one SM") };
        assert!((streams - 0.4).abs() < 1e-3 && (computes - 0.5).abs() < 1e-3, "{streams} {computes}");
    }

    #[test]
    fn lean_decodes_get_all_they_want_of_the_tensor_cores_and_padded_ones_their_share() {
        let free = Limits { hbm: 1e9, ..LIMITS };
        let of = |tensor| speeds(&[[decode(1.0, tensor), prefill(1.6)]], &free)[0];
        let [streams, computes] = of(0.12);
        assert!((streams - 1.0).abs() < 1e-3 && (computes - 0.88 / 1.6).abs() < 1e-3, "{streams} {computes}");
        let [streams, computes] = of(0.9);
        assert!((streams * 0.9 - 1.0 / 3.0).abs() < 1e-3, "{streams}");
        assert!((computes * 1.6 - 2.0 / 3.0).abs() < 1e-3, "{computes}");
    }

    #[test]
    fn a_full_hbm_does_not_stop_prefill_that_hits_l2() {
        let sms = vec![[decode(50.0, 0.01), prefill(0.8)]; 10];
        for [streams, computes] in speeds(&sms, &LIMITS) {
            assert!((streams - 0.2).abs() < 1e-3 && computes > 0.99, "{streams} {computes}");
        }
    }

    #[test]
    fn prefill_that_misses_l2_draws_on_hbm_and_waits_for_it() {
        let misses = Class { dram: 5.0, moved: 5.0, tensor: 0.8, warps: 4.0, l2_wait: 0.0, hbm_wait: 0.8 };
        let sms = vec![[decode(20.0, 0.0), misses]; 10];
        let got = speeds(&sms, &LIMITS);
        let drawn: f64 = got.iter().map(|[a, b]| 20.0 * a + 5.0 * b).sum();
        assert!((drawn - LIMITS.hbm).abs() < 0.1, "{drawn}");
        assert!(got[0][1] < 1.0 && got[0][1] > got[0][0], "{got:?}");
    }
}
