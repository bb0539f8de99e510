//! What part of time and of the SMs is looked at: one axis for the timeline and all that lies over or beside it.
//!
//! It holds over replans. Where a run is shorter than what was looked at, its end is shown.

use serde::{Deserialize, Serialize};

pub use super::folds::NAMED;
use super::layout::{Layout, View};

/// Tallest lane.
const TALLEST: f32 = 40.0;
/// Free time behind the end of a run, as a factor of its length.
const WHOLE: f64 = 1.01;

/// Zoom, scroll and range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// Begin and end in nanoseconds; `None` shows all.
    pub window: Option<(f64, f64)>,
    /// Range with statistics.
    pub range: Option<(f64, f64)>,
    /// Pixels scrolled down.
    pub scroll: f32,
    /// Height of a lane; `None` shows all SMs.
    pub lane_height: Option<f32>,
}

impl Axis {
    /// What is on the screen of a run that ends at `end`.
    pub fn view(&self, end: u64) -> View {
        let whole = end.max(1) as f64 * WHOLE;
        let (begin, end) = match self.window {
            Some((begin, end)) if end <= whole => (begin, end),
            Some((begin, end)) if end - begin < whole => (whole - (end - begin), whole),
            _ => (0.0, whole),
        };
        View { begin, end, scroll: self.scroll, lane_height: self.lane_height }
    }

    /// Zooms in time by `factor` around time `at`, or around the middle.
    pub fn zoom(&mut self, end: u64, factor: f64, at: Option<f64>) {
        let view = self.view(end);
        let at = at.unwrap_or(f64::midpoint(view.begin, view.end));
        let begin = at - (at - view.begin) / factor;
        self.place(end, begin, begin + (view.end - view.begin) / factor);
    }

    /// Pans by a share of what is on the screen.
    pub fn pan(&mut self, end: u64, share: f64) {
        let view = self.view(end);
        let by = (view.end - view.begin) * share;
        self.place(end, view.begin + by, view.end + by);
    }

    /// Shows a span of time, within the run.
    pub fn place(&mut self, end: u64, from: f64, to: f64) {
        let whole = end.max(1) as f64 * WHOLE;
        let width = (to - from).clamp(4.0, whole.max(4.0));
        if width >= whole {
            self.window = None;
            return;
        }
        let begin = from.clamp(0.0, whole - width);
        self.window = Some((begin, begin + width));
    }

    /// Makes lanes taller by `factor`, with what is at height `y` staying there; lanes that all fit are as low as
    /// that asks for.
    pub fn stretch(&mut self, layout: &Layout, factor: f32, y: f32) {
        // All GPCs are in sight, and no lane of them is told apart.
        if layout.gpcs().is_some() {
            return;
        }
        let lane = (layout.lane * factor).min(TALLEST);
        let at = layout.position(y - layout.rect.top() + self.scroll);
        if lane <= layout.fitted {
            (self.lane_height, self.scroll) = (None, 0.0);
            return;
        }
        self.lane_height = Some(lane);
        let taller = layout.with_lane(lane);
        self.scroll = taller.distance(at) - (y - layout.rect.top());
        self.hold(&taller);
    }

    /// Brings a lane into the middle, tall enough for the names of its CTAs.
    pub fn bring(&mut self, layout: &Layout, lane: usize) {
        if layout.gpcs().is_some() {
            return;
        }
        let height = layout.lane.clamp(NAMED + 2.0, TALLEST);
        let taller = layout.with_lane(height);
        self.lane_height = (height > layout.fitted).then_some(height);
        let row = taller.row(lane / layout.slots.max(1));
        self.scroll = row.top + row.height / 2.0 - layout.rect.height() / 2.0;
        self.hold(&taller);
    }

    /// Brings what lies at `begin` to `end` on a lane into sight, no nearer than before; nothing moves where it is there.
    pub fn follow(&mut self, run_end: u64, (begin, end): (f64, f64), layout: &Layout, lane: usize) {
        let view = self.view(run_end);
        if end <= view.begin || begin >= view.end {
            let (middle, half) = (f64::midpoint(begin, end), (view.end - view.begin) / 2.0);
            self.place(run_end, middle - half, middle + half);
        }
        let (top, height) = (layout.top(lane), layout.lane_height(lane));
        if top < layout.rect.top() || top + height > layout.rect.bottom() {
            self.scroll += top + height / 2.0 - layout.rect.center().y;
            self.hold(layout);
        }
    }

    /// Keeps the scroll within the lanes.
    pub fn hold(&mut self, layout: &Layout) {
        self.scroll = self.scroll.clamp(0.0, (layout.height() - layout.rect.height()).max(0.0));
    }

    /// Shows all of time and all SMs.
    pub fn fit(&mut self) {
        (self.window, self.lane_height, self.scroll) = (None, None, 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_holds_over_runs_of_any_length() {
        let mut axis = Axis::default();
        let seen = |axis: &Axis, end| (axis.view(end).begin.round() as i64, axis.view(end).end.round() as i64);
        axis.place(1_000, 200.0, 300.0);
        assert_eq!(seen(&axis, 5_000), (200, 300));
        assert_eq!(seen(&axis, 150), (52, 152), "the end of a shorter run, as wide as before");
        assert_eq!(seen(&axis, 50), (0, 51));
        assert_eq!(seen(&axis, 1_000), (200, 300), "what was looked at comes back with its run");
    }
}
