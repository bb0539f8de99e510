//! SMs that a person has folded into strips or unfolded into lanes, whatever the height of the other lanes is; and the
//! rows that come of it.
//!
//! ```text
//! SM 0   ▒▒▒▒▒▒▒  strip, as low as the others
//! SM 1   [ CTA 12 ][ CTA 40 ]   unfolded: each slot a lane with room for names
//!        [ CTA 13      ][ CTA 41 ]
//! SM 2   ▒▒▒▒▒▒▒
//! ```
//!
//! Or all SMs by their GPCs, where those are known: one strip for each.

use std::collections::BTreeMap;

/// Height of a lane from which its CTAs carry their names.
pub const NAMED: f32 = 12.0;
/// Height of a lane under which an SM is a strip of its occupancy.
pub const STRIPS_BELOW: f32 = 4.0;
/// Height of a lane of an SM that was unfolded.
const OPEN: f32 = NAMED + 2.0;
/// Height of an SM that was folded.
const CLOSED: f32 = 6.0;
/// Lowest SM where there are more than fit.
const LOWEST: f32 = 1.5;

/// Which SMs differ from the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folds(BTreeMap<u32, bool>);

impl Folds {
    /// Whether an SM was unfolded (true) or folded (false) by hand.
    pub fn of(&self, sm: u32) -> Option<bool> {
        self.0.get(&sm).copied()
    }

    /// Folds an SM that is seen as lanes, or unfolds one that is seen as a strip; where that is how all are, it goes
    /// with them again.
    pub fn toggle(&mut self, sm: u32, is_strip: bool) {
        if self.0.remove(&sm).is_none() {
            self.0.insert(sm, is_strip);
        }
    }

    /// Unfolds an SM.
    pub fn open(&mut self, sm: u32) {
        self.0.insert(sm, true);
    }

    /// All SMs go with the height of lanes again.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether all SMs are alike.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// SMs by their GPCs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpcs {
    /// The GPC of each SM, and its place among those of that.
    places: Vec<(usize, usize)>,
    /// SMs of each.
    sms: Vec<Vec<usize>>,
}

impl Gpcs {
    /// From the GPC of each SM; none where there is not one for each of `sms`.
    pub fn of(gpcs: &[u8], sms: usize) -> Option<Self> {
        let count = gpcs.iter().map(|gpc| *gpc as usize + 1).max().filter(|_| gpcs.len() == sms)?;
        let mut all = Self { places: Vec::with_capacity(sms), sms: vec![Vec::new(); count] };
        for (sm, gpc) in gpcs.iter().enumerate() {
            let own = &mut all.sms[*gpc as usize];
            all.places.push((*gpc as usize, own.len()));
            own.push(sm);
        }
        Some(all)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.sms.len()
    }

    /// SMs of one.
    pub fn sms(&self, gpc: usize) -> &[usize] {
        self.sms.get(gpc).map_or(&[], Vec::as_slice)
    }

    /// The GPC of an SM, and its place there.
    pub fn place(&self, sm: usize) -> (usize, usize) {
        self.places.get(sm).copied().unwrap_or_default()
    }
}

/// Where an SM lies, from the top of the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Its top.
    pub top: f32,
    /// Height of each of its lanes.
    pub lane: f32,
    /// Height with the free pixels under it.
    pub height: f32,
    /// Whether its lanes are too low to be told apart.
    pub is_strip: bool,
}

/// Rows of SMs of which some are folded or unfolded.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    folds: Folds,
    rows: Vec<Row>,
}

impl Rows {
    /// Rows of `sms` SMs with `slots` lanes each, `lane` pixels high and `gap` apart.
    pub fn new(folds: &Folds, (sms, slots): (usize, usize), (lane, gap): (f32, f32)) -> Self {
        let mut top = 0.0;
        let row = |sm: usize| {
            let lanes = slots as f32;
            let (lane, gap) = match folds.of(sm as u32) {
                Some(true) => (lane.max(OPEN), gap.max(1.0)),
                Some(false) => ((CLOSED / lanes).min(lane), gap),
                None => (lane, gap),
            };
            let is_strip = folds.of(sm as u32).map_or(lane < STRIPS_BELOW, |open| !open);
            let row = Row { top, lane, height: lane * lanes + gap, is_strip };
            top += row.height;
            row
        };
        Self { folds: folds.clone(), rows: (0..sms).map(row).collect() }
    }

    /// The same SMs at another height.
    #[must_use]
    pub fn with_lane(&self, slots: usize, lane: f32, gap: f32) -> Self {
        Self::new(&self.folds, (self.rows.len(), slots), (lane, gap))
    }

    /// The height of lanes at which all SMs fit into `height`, as low as they can be.
    pub fn fitted(folds: &Folds, (sms, slots): (usize, usize), gap: f32, height: f32) -> f32 {
        let lanes = slots as f32;
        let by_hand = |open: bool| folds.0.iter().filter(|(sm, is)| (**sm as usize) < sms && **is == open).count();
        let (open, closed) = (by_hand(true), by_hand(false));
        let left = height - closed as f32 * (CLOSED + gap);
        let share = |height: f32, rest: usize| (height / rest.max(1) as f32 - gap).max(LOWEST) / lanes;
        let lane = share(left - open as f32 * (OPEN * lanes + gap.max(1.0)), sms.saturating_sub(open + closed));
        // Where the others have room for names too, the unfolded ones are like them.
        if lane > OPEN { share(left, sms.saturating_sub(closed)).max(OPEN) } else { lane }
    }

    /// An SM.
    pub fn get(&self, sm: usize) -> Option<Row> {
        self.rows.get(sm).copied()
    }

    /// Height of all.
    pub fn height(&self) -> f32 {
        self.rows.last().map_or(0.0, |row| row.top + row.height)
    }

    /// The SM at a height, from the top of the first.
    pub fn at(&self, y: f32) -> usize {
        self.rows.partition_point(|row| row.top <= y).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfolded_sm_has_room_for_names_and_all_others_stay_in_sight() {
        let mut folds = Folds::default();
        folds.toggle(7, true);
        folds.toggle(9, true);
        folds.toggle(9, false);
        assert_eq!((folds.of(7), folds.of(9)), (Some(true), None));
        for (height, sms) in [(300.0, 132), (900.0, 132), (400.0, 8)] {
            let lane = Rows::fitted(&folds, (sms, 2), 0.0, height);
            let rows = Rows::new(&folds, (sms, 2), (lane, 0.0));
            assert!(rows.height() <= height + 2.0, "{} in {height}", rows.height());
            let open = rows.get(7).unwrap();
            assert!(open.lane >= NAMED && !open.is_strip);
            assert_eq!((rows.at(open.top + 1.0), rows.at(open.top + open.height - 0.01)), (7, 7));
            assert_eq!(rows.get(6).unwrap().is_strip, lane < STRIPS_BELOW);
        }
    }

    #[test]
    fn a_folded_sm_among_tall_lanes_is_a_strip() {
        let mut folds = Folds::default();
        folds.toggle(3, false);
        let rows = Rows::new(&folds, (10, 2), (20.0, 1.5));
        let (closed, other) = (rows.get(3).unwrap(), rows.get(4).unwrap());
        assert!(closed.is_strip && closed.height < 10.0);
        assert!((other.top - (closed.top + closed.height)).abs() < 1e-3 && (other.height - 41.5).abs() < 1e-3);
    }
}
