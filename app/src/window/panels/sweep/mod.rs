//! A sweep as a map: which way wins where over two of its axes, by how much, and what it ran there. A cell that is
//! clicked opens its batch under the way that wins.

mod model;
mod paint;

use std::sync::Arc;

use egui::{ComboBox, RichText, Ui};
use engine::units::counted;

use self::model::{Axis, Map, usual, varying};
use crate::runs::sweep::Sweep;
use crate::window::frame::Frame;
use crate::window::panels::parts::empty;

/// The axes, the cell in the hand, and the map of the sweep that is open.
#[derive(Debug, Default)]
pub struct State {
    axes: Option<(Axis, Axis)>,
    picked: Option<(usize, usize)>,
    made: Option<Made>,
}

#[derive(Debug)]
struct Made {
    of: Arc<Sweep>,
    axes: (Axis, Axis),
    varying: Vec<Axis>,
    map: Map,
}

impl State {
    fn refresh(&mut self, sweep: &Arc<Sweep>) {
        if !self.made.as_ref().is_some_and(|made| Arc::ptr_eq(&made.of, sweep)) {
            let varying = varying(&sweep.rows);
            let axes = usual(&varying);
            (self.axes, self.picked) = (Some(axes), None);
            self.made = Some(Made { of: Arc::clone(sweep), axes, map: Map::of(&sweep.rows, axes), varying });
        }
        if let (Some(made), Some(axes)) = (&mut self.made, self.axes)
            && made.axes != axes
        {
            (made.axes, made.map, self.picked) = (axes, Map::of(&sweep.rows, axes), None);
        }
    }
}

/// Draws the panel.
pub fn show(ui: &mut Ui, frame: &Frame<'_>, state: &mut State) {
    let Some(sweep) = frame.sweep else {
        let text = "Open the Parquet file of a sweep (File > Open, or drop it here): 'packscope sweep' writes one.";
        return empty(ui, frame.tokens, text);
    };
    if sweep.rows.is_empty() {
        let text = format!("{} has no rows: no point of the sweep is done yet.", sweep.path.display());
        return empty(ui, frame.tokens, &text);
    }
    state.refresh(sweep);
    header(ui, frame, sweep, state);
    let picked = state.picked;
    let Some(made) = &state.made else { return };
    paint::legend(ui, frame, &made.map);
    if let Some(now) = paint::map(ui, frame, sweep, &made.map, picked) {
        state.picked = Some(now);
    }
}

/// Which file, and the two axes.
fn header(ui: &mut Ui, frame: &Frame<'_>, sweep: &Sweep, state: &mut State) {
    let Some(made) = &state.made else { return };
    ui.horizontal_wrapped(|ui| {
        if !frame.is_picture {
            ui.label(RichText::new(sweep.title()).strong()).on_hover_text(sweep.path.display().to_string());
        }
        let axes = state.axes.get_or_insert(made.axes);
        for (text, axis) in [("across", &mut axes.0), ("down", &mut axes.1)] {
            if frame.is_picture {
                ui.label(format!("{text}: {}", axis.name()));
                continue;
            }
            let label = ui.label(text).id;
            let combo = ComboBox::from_id_salt(("axis", text)).selected_text(axis.name()).show_ui(ui, |ui| {
                for other in &made.varying {
                    ui.selectable_value(axis, *other, other.name());
                }
            });
            combo.response.labelled_by(label);
        }
        let refused = sweep.rows.iter().filter(|row| row.refused.is_some()).count() as u64;
        let rough = sweep.rows.iter().any(|row| !row.calibrated);
        let text = format!("{}, {refused} of them refused", counted(sweep.rows.len() as u64, "row"));
        ui.label(RichText::new(text).color(frame.tokens.faint));
        let source = if rough { "simulated, in part not calibrated" } else { "simulated" };
        ui.label(RichText::new(source).color(frame.tokens.warn));
    });
}
