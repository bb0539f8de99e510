//! What of time and SMs is looked at, and what keys do to it.

use engine::capture::Source;
use engine::units::Nanos;

use super::drawn::Drawn;
use super::minimap;
use super::place::place_of;
use crate::runs::shown::{Shown, Sources};
use crate::timeline::axis::Axis;
use crate::timeline::folds::Folds;
use crate::timeline::layout::Layout;
use crate::timeline::marks::Marks;
use crate::timeline::only::Only;
use crate::window::commands::table::Action;
use crate::window::selection::Selection;

/// What is looked at.
#[derive(Clone, Default)]
pub struct State {
    /// What of time and SMs.
    pub axis: Axis,
    /// Which runs are shown.
    pub sources: Sources,
    /// Times that were marked.
    pub marks: Marks,
    /// SMs that were folded or unfolded by hand.
    pub folds: Folds,
    /// SMs are folded into their GPCs, where those are known.
    pub by_gpc: bool,
    /// The one colour that is looked at.
    pub only: Option<Only>,
    /// All figures of the range are shown.
    pub(super) drawer: bool,
    pub(super) map: minimap::Map,
    /// The meshes of the frame before, one pair for each run.
    pub(super) drawn: Vec<Drawn>,
    /// The time under the pointer in the frame before.
    pub(super) pointer: Option<f64>,
    /// The lanes of the frame before, one for each run.
    pub(super) layouts: Vec<(Source, Layout)>,
    pub(super) drag_from: Option<f64>,
    /// Height of the pointer while it measures.
    pub(super) measured_at: Option<f32>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("axis", &self.axis).finish_non_exhaustive()
    }
}

impl State {
    /// Handles an action of the table; false if it is none of the timeline's.
    pub fn act(&mut self, action: Action, shown: &Shown, selected: Selection) -> bool {
        let end = shown.end(self.sources);
        let axis = &mut self.axis;
        match action {
            Action::ZoomIn => axis.zoom(end, 1.3, None),
            Action::ZoomOut => axis.zoom(end, 1.0 / 1.3, None),
            Action::PanLeft => axis.pan(end, -0.12),
            Action::PanRight => axis.pan(end, 0.12),
            Action::Taller => self.stretch(1.3),
            Action::Lower => self.stretch(1.0 / 1.3),
            Action::Fit => axis.fit(),
            Action::Focus => {
                let before = *axis;
                self.reveal(shown, selected);
                if self.axis == before {
                    self.axis.fit();
                }
            }
            Action::Mark => self.mark(shown, selected),
            Action::Range => self.take_range(shown, selected),
            Action::Gpcs => self.by_gpc = !self.by_gpc && shown.runs(self.sources).any(|run| run.gpcs.is_some()),
            Action::Fold => {
                if let Some((_, place)) = place_of(shown, selected) {
                    self.fold(place.sm);
                }
            }
            _ => return false,
        }
        true
    }

    /// Marks where the selection begins, else the range, else the time under the pointer.
    fn mark(&mut self, shown: &Shown, selected: Selection) {
        let selection = place_of(shown, selected).map(|(_, place)| (place.begin, place.name));
        let range = self.axis.range.map(|(from, _)| (from, "range".to_owned()));
        let pointer = self.pointer.map(|at| (at, Nanos(at as u64).to_string()));
        if let Some((at, name)) = selection.or(range).or(pointer) {
            self.marks.toggle(at, &name);
        }
    }

    /// Makes the selection the range.
    fn take_range(&mut self, shown: &Shown, selected: Selection) {
        if let Some((_, place)) = place_of(shown, selected) {
            self.axis.range = Some((place.begin, place.end));
        }
    }

    /// Folds or unfolds an SM.
    pub(super) fn fold(&mut self, sm: usize) {
        if std::mem::take(&mut self.by_gpc) {
            return;
        }
        let is_strip = self.layouts.first().is_some_and(|(_, layout)| layout.row(sm).is_strip);
        self.folds.toggle(sm as u32, is_strip);
    }

    /// Makes all lanes taller around the middle.
    fn stretch(&mut self, factor: f32) {
        if let Some((_, layout)) = self.layouts.first() {
            self.axis.stretch(layout, factor, layout.rect.center().y);
        }
    }

    /// Shows a CTA or a bubble in both directions: its time with a margin, and its lane in the middle.
    pub fn reveal(&mut self, shown: &Shown, what: Selection) {
        let end = shown.end(self.sources);
        let Some((source, place)) = place_of(shown, what) else { return };
        let margin = (place.end - place.begin).max(1.0) * 0.3;
        self.axis.place(end, place.begin - margin, place.end + margin);
        if let Some((_, layout)) = self.layouts.iter().find(|(of, _)| *of == source) {
            self.axis.bring(layout, place.sm * layout.slots + place.slot);
        }
    }

    /// Brings a CTA or a bubble into sight where it is not, as near as what is looked at.
    pub fn follow(&mut self, shown: &Shown, what: Selection) {
        let Some((source, place)) = place_of(shown, what) else { return };
        if let Some((_, layout)) = self.layouts.iter().find(|(of, _)| *of == source) {
            let lane = place.sm * layout.slots + place.slot;
            self.axis.follow(shown.end(self.sources), (place.begin, place.end), layout, lane);
        }
    }

    /// Unfolds an SM and brings it into sight; false where there is none.
    pub fn reveal_sm(&mut self, sm: u32) -> bool {
        let Some((_, layout)) = self.layouts.first().filter(|(_, layout)| (sm as usize) < layout.sms) else {
            return false;
        };
        self.by_gpc = false;
        let row = layout.row(sm as usize);
        self.axis.scroll = (row.top + row.height / 2.0 - layout.rect.height() / 2.0).max(0.0);
        self.folds.open(sm);
        true
    }
}
