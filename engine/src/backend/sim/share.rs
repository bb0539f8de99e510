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

use super::memory::LANES;
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
/// What all together may draw more or less than HBM gives, as a share of that.
const EXACT: f64 = 1e-9;
/// Where the search for φ begins: below what any memory gives to any demand.
const LEAST: f64 = 1e-30;

impl Class {
    /// Speed at which its memory keeps up when every HBM latency is stretched by `stretch`, 1/φ.
    fn fed(&self, stretch: f64) -> f64 {
        let wait = if self.hbm_wait < NO_WAIT { self.l2_wait } else { self.l2_wait + self.hbm_wait * stretch };
        if wait > 0.0 { 1.0 / wait } else { f64::INFINITY }
    }
}

/// Classes that draw on HBM side by side, so that a step over all of them runs in vector registers.
#[derive(Clone, Copy, Debug)]
struct Draws {
    dram: [f64; LANES],
    l2_wait: [f64; LANES],
    hbm_wait: [f64; LANES],
    cap: [f64; LANES],
}

impl Draws {
    /// Draws nothing at any φ.
    const NONE: Self = Self { dram: [0.0; LANES], l2_wait: [0.0; LANES], hbm_wait: [1.0; LANES], cap: [0.0; LANES] };
}

/// The classes of all SMs and their speeds; kept from one solution to the next, which is asked for at every event.
#[derive(Clone, Debug, Default)]
pub(super) struct Sharing {
    sms: Vec<Pair>,
    speeds: Vec<[f64; 2]>,
    caps: Vec<[f64; 2]>,
    draws: Vec<Draws>,
    /// φ of the last solution: the next one is near.
    phi: f64,
}

impl Sharing {
    /// Takes the classes of every SM.
    pub(super) fn take(&mut self, sms: impl Iterator<Item = Pair>) {
        self.sms.clear();
        self.sms.extend(sms);
    }

    /// Speeds of both classes of every SM.
    pub(super) fn speeds(&mut self, limits: &Limits) -> &[[f64; 2]] {
        let sms = &self.sms;
        let mut phi = 1.0;
        self.speeds.clear();
        self.speeds.resize(sms.len(), [1.0; 2]);
        let wanted: f64 = sms.iter().map(|sm| sm[1].tensor.min(1.0)).sum();
        let (mut drawn, mut busy, mut hbm) = (0.0, wanted, None);
        self.caps.clear();
        self.caps.resize(sms.len(), [0.0; 2]);
        for _ in 0..ROUNDS {
            let clock = limits.power.map_or(1.0, |power| power.clock(wanted, sms.len() as f64, drawn));
            let mut same = true;
            for (own, sm) in self.caps.iter_mut().zip(sms) {
                let cap = caps(sm, (phi, clock), limits);
                same &= own.map(f64::to_bits) == cap.map(f64::to_bits);
                *own = cap;
            }
            let before = phi;
            let reads = limits.power.map_or(1.0, |power| power.reads(busy, sms.len() as f64));
            // The same caps under the same limit have the same φ.
            if hbm.replace(limits.hbm * reads) == Some(limits.hbm * reads) && same {
                break;
            }
            let steady = draws(sms, &self.caps, &mut self.draws);
            phi = fill(&self.draws, limits.hbm * reads - steady, self.phi.max(LEAST));
            self.phi = phi;
            for ((speed, cap), sm) in self.speeds.iter_mut().zip(&self.caps).zip(sms) {
                *speed = [0, 1].map(|class| cap[class].min(sm[class].fed(1.0 / phi)));
            }
            if limits.power.is_some() {
                let both = || sms.iter().zip(&self.speeds);
                busy = both().map(|(sm, speed)| sm[1].tensor * speed[1]).sum();
                drawn = both().map(|(sm, speed)| sm[0].dram * speed[0] + sm[1].dram * speed[1]).sum();
            }
            if (phi - before).abs() < 1e-3 * before {
                break;
            }
        }
        slow_to_l2(sms, &mut self.speeds, limits.l2);
        &self.speeds
    }
}

/// What tensor cores and port of one SM let each class have, at most 1, and prefill no more than the clock has left.
fn caps(sm: &Pair, (phi, clock): (f64, f64), limits: &Limits) -> [f64; 2] {
    let port = limits.sm;
    let [t0, t1] = sm.map(|class| class.tensor);
    let paired = |caps: [f64; 2]| match limits.pair.filter(|_| sm[0].warps > 0.0 && t1 > 0.0) {
        Some(both) => [caps[0].min(both.decode), caps[1].min(both.tensor / t1)],
        None => caps,
    };
    // Where full speed asks for no more than there is, whatever memory leaves of it does not either.
    if t0 + t1 <= 1.0 && sm[0].moved + sm[1].moved <= port {
        return paired([1.0, clock]);
    }
    let free = sm.map(|class| class.fed(1.0 / phi).min(1.0));
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
    caps = paired(caps);
    let drawn: f64 = (0..2).map(|class| sm[class].moved * caps[class].min(free[class])).sum();
    if drawn > port {
        let scale = port / drawn;
        caps = [0, 1].map(|class| caps[class].min(free[class]) * scale);
    }
    caps
}

/// Sorts the classes that draw on HBM and wait for it into groups; gives what the others draw, at any φ.
fn draws(sms: &[Pair], caps: &[[f64; 2]], groups: &mut Vec<Draws>) -> f64 {
    let (mut steady, mut count) = (0.0, 0);
    groups.clear();
    for (class, cap) in sms.iter().flatten().zip(caps.iter().flatten()).filter(|(class, _)| class.dram > 0.0) {
        if class.hbm_wait < NO_WAIT {
            steady += class.dram * class.fed(1.0).min(*cap);
            continue;
        }
        let lane = count % LANES;
        if lane == 0 {
            groups.push(Draws::NONE);
        }
        count += 1;
        if let Some(group) = groups.last_mut() {
            group.dram[lane] = class.dram;
            group.l2_wait[lane] = class.l2_wait;
            group.hbm_wait[lane] = class.hbm_wait;
            group.cap[lane] = *cap;
        }
    }
    steady
}

/// The largest φ ≤ 1 at which all together draw no more than `limit` from HBM, from a φ near it. The sum is concave and
/// rises with φ, so Newton's steps from below never pass it, and one from above comes to lie below.
fn fill(groups: &[Draws], limit: f64, near: f64) -> f64 {
    let mut phi = near;
    for _ in 0..64 {
        let (mut drawn, mut slope) = ([0.0; LANES], [0.0; LANES]);
        for group in groups {
            for lane in 0..LANES {
                // φ / (l·φ + h), which rises by h / (l·φ + h)².
                let inverse = 1.0 / (group.l2_wait[lane] * phi + group.hbm_wait[lane]);
                let (fed, cap) = (phi * inverse, group.cap[lane]);
                let rises = if fed < cap { group.dram[lane] * group.hbm_wait[lane] } else { 0.0 };
                drawn[lane] += group.dram[lane] * if fed < cap { fed } else { cap };
                slope[lane] += rises * inverse * inverse;
            }
        }
        let room = limit - drawn.iter().sum::<f64>();
        let slope: f64 = slope.iter().sum();
        if slope <= 0.0 {
            if room >= 0.0 {
                return 1.0;
            }
            if phi <= LEAST {
                return phi;
            }
            // All go as fast as they may, and too fast: that says nothing of how far down it lies.
            phi = LEAST;
            continue;
        }
        if room.abs() <= limit.abs() * EXACT || (room < 0.0 && phi <= LEAST) {
            break;
        }
        let next = phi + room / slope;
        if next >= 1.0 && phi >= 1.0 {
            return 1.0;
        }
        phi = next.clamp(LEAST, 1.0);
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

    fn speeds(sms: &[Pair], limits: &Limits) -> Vec<[f64; 2]> {
        let mut sharing = Sharing::default();
        sharing.take(sms.iter().copied());
        sharing.speeds(limits).to_vec()
    }

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
