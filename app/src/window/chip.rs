//! Where figures come from, as a chip: filled for what was measured, an outline for what was simulated.

use egui::{
    Align2, Color32, CornerRadius, FontId, Painter, Pos2, Rect, Response, RichText, Stroke, StrokeKind, Ui, vec2,
};
use engine::capture::Source;

use crate::runs::run::Run;
use crate::theme::{SMALL, Tokens, mix};

const CORNER: u8 = 7;
const MARGIN: (i8, i8) = (7, 1);

/// Fill, edge and letters.
fn look(t: &Tokens, run: &Run) -> (Color32, Stroke, Color32) {
    let strong = mix(t.panel, t.text, 0.78);
    match run.source() {
        Source::Measured => (strong, Stroke::new(1.0, strong), t.panel),
        Source::Simulated => (Color32::TRANSPARENT, Stroke::new(1.0, t.faint), t.text),
    }
}

/// The chip of a run among other controls; under the pointer it says how far off its figures may be.
pub(crate) fn show(ui: &mut Ui, t: &Tokens, run: &Run) -> Response {
    let (fill, edge, letters) = look(t, run);
    let frame = egui::Frame::new().fill(fill).stroke(edge).corner_radius(CORNER);
    let frame = frame.inner_margin(egui::Margin::symmetric(MARGIN.0, MARGIN.1));
    let chip = frame.show(ui, |ui| ui.label(RichText::new(run.words()).small().color(letters))).inner;
    match &run.capture.provenance.expected_error {
        Some(error) => chip.on_hover_text(error.sentence()),
        None => chip,
    }
}

/// How far off a simulated makespan may be, where that is known; in full under the pointer.
pub(crate) fn expected(ui: &mut Ui, t: &Tokens, run: &Run) {
    if let Some(error) = &run.capture.provenance.expected_error {
        ui.label(RichText::new(error.short()).color(t.faint)).on_hover_text(error.sentence());
    }
}

/// The chip of a run over lanes, from its left edge on; gives its place.
pub(crate) fn paint(painter: &Painter, t: &Tokens, run: &Run, left: Pos2) -> Rect {
    let (fill, edge, letters) = look(t, run);
    let galley = painter.layout_no_wrap(run.words().to_owned(), FontId::proportional(SMALL), letters);
    let size = galley.size() + 2.0 * vec2(f32::from(MARGIN.0), f32::from(MARGIN.1));
    let place = Align2::LEFT_CENTER.anchor_size(left, size);
    painter.rect(place, CornerRadius::same(CORNER), fill, edge, StrokeKind::Inside);
    painter.galley(place.center() - galley.size() / 2.0, galley, letters);
    place
}
