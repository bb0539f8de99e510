//! Parts of the panel, and what lies over or under its lanes.

use egui::{Rect, TextureHandle, pos2, vec2};
use engine::metrics::BubbleCause;

use super::minimap;
use crate::timeline::folds::Folds;
use crate::timeline::marks;
use crate::timeline::only::Only;

/// Parts of the panel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Regions {
    /// Names of the SMs.
    pub(super) gutter: Rect,
    /// Time ruler.
    pub(super) ruler: Rect,
    /// Lanes.
    pub(super) lanes: Rect,
    /// Counters over time.
    pub(super) strip: Option<Rect>,
}

/// Width of the names.
pub(super) const GUTTER: f32 = 64.0;
/// Height of the ruler.
const RULER: f32 = 20.0;
/// Height under which all of it goes to the lanes.
const LOW: f32 = 190.0;
/// Least height of the lanes of a run beside the counters, and what part of all is the counters' where they want more.
const LANES: f32 = 74.0;
const COUNTERS: f32 = 0.28;

/// Where the minimap lies in the panel; nowhere in a low one.
pub(super) fn map(whole: Rect) -> Rect {
    let height = if whole.height() < LOW { 0.0 } else { minimap::HEIGHT };
    Rect::from_min_size(whole.left_top() + vec2(GUTTER, 2.0), vec2(whole.width() - GUTTER, height))
}

/// Parts what is under the minimap; the counters take their least to their most pixels, and give way where the lanes of so
/// many runs would have too few.
pub(super) fn of(outer: Rect, counters: Option<(f32, f32)>, runs: usize) -> Regions {
    let strip = counters.map(|(least, most)| (outer.height() * COUNTERS).clamp(least, most));
    let strip = strip.filter(|height| outer.height() > height + RULER + LANES * runs.max(1) as f32);
    let bottom = outer.bottom() - strip.map_or(0.0, |height| height + 6.0);
    let left = outer.left() + GUTTER;
    Regions {
        gutter: Rect::from_min_max(pos2(outer.left(), outer.top() + RULER), pos2(left, bottom)),
        ruler: Rect::from_min_max(pos2(left, outer.top()), pos2(outer.right(), outer.top() + RULER)),
        lanes: Rect::from_min_max(pos2(left, outer.top() + RULER), pos2(outer.right(), bottom)),
        strip: strip.map(|_| Rect::from_min_max(pos2(left, bottom + 6.0), outer.right_bottom())),
    }
}

/// What lies over or under the lanes.
pub(super) struct Marks<'a> {
    /// Range with statistics.
    pub(super) range: Option<(f64, f64)>,
    /// Where the pointer measures it.
    pub(super) measured_at: Option<f32>,
    /// Times that were marked.
    pub(super) named: &'a marks::Marks,
    /// SMs that were folded or unfolded by hand.
    pub(super) folds: &'a Folds,
    /// The colour that is looked at.
    pub(super) only: Option<Only>,
    /// The cause of it, where it is one, and the one that the pointer is on in the legend.
    pub(super) cause: Option<BubbleCause>,
    pub(super) hovered: Option<BubbleCause>,
    /// Hatch of bubbles.
    pub(super) hatch: TextureHandle,
    /// Where the pointer is in time.
    pub(super) pointer_at: Option<f32>,
}
