//! How prefill and decode share an SM and the memory: two classes of main loops, each at a speed of
//! its own.
//!
//! Decode waits for memory and uses little of the tensor cores, prefill the other way round, so one
//! factor for both would make a full HBM stop the tensor cores. Each SM has two clocks instead; joined packs,
//! which read what others of them brought to L2, compute:
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

use super::memory::{LANES, smaller};
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
    /// What of it is prefill's, for the power.
    pub(super) wgmma: f64,
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
        1.0 / (self.l2_wait + self.stretched() * stretch)
    }

    /// The part of the time that a stretch of HBM's latency stretches.
    fn stretched(&self) -> f64 {
        if self.waits() { self.hbm_wait } else { 0.0 }
    }

    /// Whether it waits for HBM.
    fn waits(&self) -> bool {
        self.hbm_wait >= NO_WAIT
    }

    /// Whether it draws on HBM.
    fn draws(&self) -> bool {
        self.dram > 0.0
    }
}

/// Classes that draw on HBM, in columns, so that a step over all of them runs in vector registers. Those that wait for it
/// stand first, and draw nothing beyond them up to whole registers.
#[derive(Clone, Debug, Default)]
struct Draws {
    /// Places of the classes among all: two an SM; and where each of all stands here, if it does.
    places: Vec<usize>,
    columns: Vec<usize>,
    dram: Vec<f64>,
    l2_wait: Vec<f64>,
    hbm_wait: Vec<f64>,
    cap: Vec<f64>,
    /// Places of those that do not wait.
    steady: Vec<usize>,
    /// Each class stands where it belongs.
    is_sorted: bool,
}

impl Draws {
    /// Takes a class in the place of another.
    fn set(&mut self, place: usize, before: &Class, class: &Class) {
        self.is_sorted &= (before.draws(), before.waits()) == (class.draws(), class.waits());
        if self.is_sorted && class.draws() && class.waits() {
            let column = self.columns[place];
            self.dram[column] = class.dram;
            self.l2_wait[column] = class.l2_wait;
            self.hbm_wait[column] = class.hbm_wait;
        }
    }

    /// Sorts the classes out. All are written down, and what follows on one that does not belong there takes its place:
    /// which do changes from event to event, and no branch would be foreseen.
    fn take(&mut self, sms: &[Sm]) {
        let room = 2 * sms.len() + LANES;
        self.places.resize(room, 0);
        self.columns.resize(room, 0);
        for column in [&mut self.dram, &mut self.l2_wait, &mut self.hbm_wait] {
            column.resize(room, 0.0);
        }
        self.steady.clear();
        let mut count = 0;
        for (place, class) in sms.iter().flat_map(|sm| &sm.pair).enumerate() {
            if class.draws() && !class.waits() {
                self.steady.push(place);
            }
            self.places[count] = place;
            self.columns[place] = count;
            self.dram[count] = class.dram;
            self.l2_wait[count] = class.l2_wait;
            self.hbm_wait[count] = class.hbm_wait;
            count += usize::from(class.draws() & class.waits());
        }
        self.end(count);
        self.is_sorted = true;
    }

    fn end(&mut self, count: usize) {
        let whole = count.next_multiple_of(LANES);
        self.places.truncate(count);
        for (column, nothing) in [(&mut self.dram, 0.0), (&mut self.l2_wait, 0.0), (&mut self.hbm_wait, 1.0)] {
            column[count..whole].fill(nothing);
            column.truncate(whole);
        }
        self.cap.clear();
        self.cap.resize(whole, 0.0);
    }

    /// Takes the caps of all classes; gives what those draw that do not wait, at any φ.
    fn cap(&mut self, sms: &[Sm], caps: &[[f64; 2]]) -> f64 {
        let caps = caps.as_flattened();
        for (cap, place) in self.cap.iter_mut().zip(&self.places) {
            *cap = caps[*place];
        }
        let drawn = |place: &usize| {
            let class = &sms[place / 2].pair[place % 2];
            class.dram * class.fed(1.0).min(caps[*place])
        };
        self.steady.iter().map(drawn).fold(0.0, |all, drawn| all + drawn)
    }

    /// What all that wait draw at φ, and by how much that rises with it.
    fn at(&self, phi: f64) -> (f64, f64) {
        let (mut drawn, mut slope) = ([0.0; LANES], [0.0; LANES]);
        let (dram, l2_wait) = (self.dram.as_chunks::<LANES>().0, self.l2_wait.as_chunks::<LANES>().0);
        let (hbm_wait, cap) = (self.hbm_wait.as_chunks::<LANES>().0, self.cap.as_chunks::<LANES>().0);
        for (((dram, l2_wait), hbm_wait), cap) in dram.iter().zip(l2_wait).zip(hbm_wait).zip(cap) {
            for lane in 0..LANES {
                // φ / (l·φ + h), which rises by h / (l·φ + h)².
                let inverse = 1.0 / (l2_wait[lane] * phi + hbm_wait[lane]);
                let (fed, cap) = (phi * inverse, cap[lane]);
                let rises = if fed < cap { dram[lane] * hbm_wait[lane] } else { 0.0 };
                drawn[lane] += dram[lane] * if fed < cap { fed } else { cap };
                slope[lane] += rises * inverse * inverse;
            }
        }
        (drawn.iter().sum(), slope.iter().sum())
    }
}

/// One SM: what it asks for, and what follows from that alone.
#[derive(Clone, Copy, Debug, Default)]
struct Sm {
    pair: Pair,
    /// Caps where no latency is stretched, at the full clock: those that most solutions begin with.
    caps_alone: [f64; 2],
}

impl Sm {
    fn of(pair: Pair, limits: &Limits) -> Self {
        Self { pair, caps_alone: caps(&pair, fed_alone(&pair), 1.0, limits) }
    }
}

/// [`Class::fed`] of both where no latency is stretched.
fn fed_alone(pair: &Pair) -> [f64; 2] {
    pair.map(|class| class.fed(1.0))
}

/// The classes of all SMs and their speeds; kept from one solution to the next, which is asked for at every event. Between
/// two of them few SMs change.
#[derive(Clone, Debug, Default)]
pub(super) struct Sharing {
    sms: Vec<Sm>,
    speeds: Vec<[f64; 2]>,
    caps: Vec<[f64; 2]>,
    /// What [`Class::fed`] depends on, and what it is at the last φ.
    l2_waits: Vec<[f64; 2]>,
    hbm_waits: Vec<[f64; 2]>,
    fed: Vec<[f64; 2]>,
    draws: Draws,
    /// φ of the last solution: the next one is near.
    phi: f64,
}

impl Sharing {
    /// Takes what an SM asks for from now on. The limits but that of HBM are those of the solutions.
    pub(super) fn set(&mut self, sm: usize, pair: Pair, limits: &Limits) {
        if self.sms.len() <= sm {
            self.sms.resize(sm + 1, Sm::default());
            for column in [&mut self.l2_waits, &mut self.hbm_waits, &mut self.fed] {
                column.resize(sm + 1, [0.0; 2]);
            }
            self.speeds.resize(sm + 1, [1.0; 2]);
            self.draws.is_sorted = false;
        }
        for (class, now) in pair.iter().enumerate() {
            self.draws.set(2 * sm + class, &self.sms[sm].pair[class], now);
        }
        self.sms[sm] = Sm::of(pair, limits);
        self.l2_waits[sm] = pair.map(|class| class.l2_wait);
        self.hbm_waits[sm] = pair.map(|class| class.stretched());
    }

    /// Speeds of both classes of every SM.
    pub(super) fn speeds(&mut self, limits: &Limits) -> &[[f64; 2]] {
        let count = self.sms.len() as f64;
        let wanted: f64 = match limits.power {
            Some(_) => self.sms.iter().map(|sm| sm.pair[1].wgmma.min(1.0)).sum(),
            None => 0.0,
        };
        // Where nothing of the power shows, the clock is the highest.
        let slows = limits.power.filter(|power| power.shown > 0.0);
        let (mut phi, mut drawn, mut busy, mut hbm) = (1.0, 0.0, wanted, None);
        self.caps.clear();
        if !self.draws.is_sorted {
            self.draws.take(&self.sms);
        }
        for _ in 0..ROUNDS {
            let clock = slows.map_or(1.0, |power| power.clock(wanted, count, drawn));
            let same = self.cap(clock, limits);
            let before = phi;
            let reads = limits.power.map_or(1.0, |power| power.reads(busy, count));
            // The same caps under the same limit have the same φ.
            if hbm.replace(limits.hbm * reads) == Some(limits.hbm * reads) && same {
                break;
            }
            let steady = self.draws.cap(&self.sms, &self.caps);
            phi = fill(&self.draws, limits.hbm * reads - steady, self.phi.max(LEAST));
            self.phi = phi;
            self.feed(1.0 / phi);
            if (phi - before).abs() < 1e-3 * before {
                break;
            }
            let both = || self.sms.iter().map(|sm| &sm.pair).zip(&self.speeds);
            if limits.power.is_some() {
                busy = both().map(|(sm, speed)| sm[1].wgmma * speed[1]).sum();
            }
            if slows.is_some() {
                drawn = both().map(|(sm, speed)| sm[0].dram * speed[0] + sm[1].dram * speed[1]).sum();
            }
        }
        slow_to_l2(&self.sms, &mut self.speeds, limits.l2_peak);
        &self.speeds
    }

    /// Finds the caps at the φ of `fed`; says whether they are those of the round before.
    fn cap(&mut self, clock: f64, limits: &Limits) -> bool {
        if self.caps.is_empty() {
            let alone =
                |sm: &Sm| if clock < 1.0 { caps(&sm.pair, fed_alone(&sm.pair), clock, limits) } else { sm.caps_alone };
            self.caps.extend(self.sms.iter().map(alone));
            return false;
        }
        let mut same = true;
        for ((own, sm), fed) in self.caps.iter_mut().zip(&self.sms).zip(&self.fed) {
            let cap = caps(&sm.pair, *fed, clock, limits);
            same &= own.map(f64::to_bits) == cap.map(f64::to_bits);
            *own = cap;
        }
        same
    }

    /// Speeds at a φ that stretches every HBM latency so far.
    fn feed(&mut self, stretch: f64) {
        let waits = self.l2_waits.as_flattened().iter().zip(self.hbm_waits.as_flattened());
        for (fed, (l2_wait, hbm_wait)) in self.fed.as_flattened_mut().iter_mut().zip(waits) {
            *fed = 1.0 / (l2_wait + hbm_wait * stretch);
        }
        let ready = self.caps.as_flattened().iter().zip(self.fed.as_flattened());
        for (speed, (cap, fed)) in self.speeds.as_flattened_mut().iter_mut().zip(ready) {
            *speed = smaller(*cap, *fed);
        }
    }
}

/// What tensor cores and port of one SM let each class have that memory feeds so far, at most 1, and prefill no more than
/// the clock has left.
fn caps(sm: &Pair, fed: [f64; 2], clock: f64, limits: &Limits) -> [f64; 2] {
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
    let free = fed.map(|fed| fed.min(1.0));
    let wants = [t0 * free[0], t1 * free[1]];
    let mut caps = [1.0, clock];
    if wants[0] + wants[1] > 1.0 {
        let sure = |class: usize| sm[class].warps / (sm[0].warps + sm[1].warps);
        caps = if wants[0] <= 0.0 || wants[0] <= sure(0) {
            [1.0, ((1.0 - wants[0]) / t1).min(clock)]
        } else if wants[1] <= sure(1) {
            [(1.0 - wants[1]) / t0, clock]
        } else {
            [sure(0) / t0, (sure(1) / t1).min(clock)]
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

/// The largest φ ≤ 1 at which all together draw no more than `limit` from HBM, from a φ near it. The sum is concave and
/// rises with φ, so Newton's steps from below never pass it, and one from above comes to lie below.
fn fill(draws: &Draws, limit: f64, near: f64) -> f64 {
    let mut phi = near;
    for _ in 0..64 {
        let (drawn, slope) = draws.at(phi);
        let room = limit - drawn;
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
fn slow_to_l2(sms: &[Sm], speeds: &mut [[f64; 2]], limit: f64) {
    let pairs = sms.iter().map(|sm| &sm.pair).zip(speeds.iter());
    let moved: f64 = pairs.map(|(sm, s)| sm[0].moved * s[0] + sm[1].moved * s[1]).sum();
    if moved > limit {
        let scale = limit / moved;
        speeds.iter_mut().flatten().for_each(|speed| *speed *= scale);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::sim::limits::{SHARPNESS, WriteBack};

    fn speeds(sms: &[Pair], limits: &Limits) -> Vec<[f64; 2]> {
        let mut sharing = Sharing::default();
        for (at, sm) in sms.iter().enumerate() {
            sharing.set(at, *sm, limits);
        }
        sharing.speeds(limits).to_vec()
    }

    const LIMITS: Limits = Limits {
        hbm: 100.0,
        l2: 1e9,
        l2_peak: 1e9,
        sm: 1e9,
        sharpness: SHARPNESS,
        back: WriteBack { per_read: 0.0, idle: 0.0 },
        pair: None,
        power: None,
    };

    fn decode(dram: f64, tensor: f64) -> Class {
        Class { dram, moved: dram, tensor, wgmma: 0.0, warps: 4.0, l2_wait: 0.0, hbm_wait: 1.0 }
    }

    fn prefill(tensor: f64) -> Class {
        Class { dram: 0.0, moved: 1.0, tensor, wgmma: tensor, warps: 8.0, l2_wait: 0.5, hbm_wait: 0.0 }
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
        let misses = Class { dram: 5.0, moved: 5.0, tensor: 0.8, wgmma: 0.0, warps: 4.0, l2_wait: 0.0, hbm_wait: 0.8 };
        let sms = vec![[decode(20.0, 0.0), misses]; 10];
        let got = speeds(&sms, &LIMITS);
        let drawn: f64 = got.iter().map(|[a, b]| 20.0 * a + 5.0 * b).sum();
        assert!((drawn - LIMITS.hbm).abs() < 0.1, "{drawn}");
        assert!(got[0][1] < 1.0 && got[0][1] > got[0][0], "{got:?}");
    }

    #[test]
    fn what_is_kept_between_solutions_changes_nothing_of_them() {
        let misses = Class { dram: 5.0, moved: 5.0, tensor: 0.8, wgmma: 0.0, warps: 4.0, l2_wait: 0.1, hbm_wait: 0.8 };
        let hits = Class { dram: 3.0, hbm_wait: 0.0, ..misses };
        let idle = [Class { hbm_wait: 0.02, ..Class::default() }, Class::default()];
        let kinds =
            [idle, [decode(30.0, 0.1), idle[1]], [idle[0], prefill(1.6)], [decode(9.0, 0.5), misses], [idle[0], hits]];
        let mut kept = Sharing::default();
        let mut sms = vec![idle; 11];
        for (at, sm) in sms.iter().enumerate() {
            kept.set(at, *sm, &LIMITS);
        }
        for step in 0..200_usize {
            let at = step * 7 % sms.len();
            sms[at] = kinds[step * step % 13 % kinds.len()];
            kept.set(at, sms[at], &LIMITS);
            let all = kept.speeds(&LIMITS).iter().flatten().copied().zip(speeds(&sms, &LIMITS).into_iter().flatten());
            for (kept, fresh) in all {
                assert!((kept - fresh).abs() < 1e-6 * fresh, "{kept} {fresh} after {step} steps");
            }
        }
    }
}
