//! Named bubbles: the legend with each cause's share, their hatch, and the one under the pointer.

use egui::Color32;
use egui::{ColorImage, Rect, RichText, Sense, TextureHandle, TextureOptions, TextureWrapMode, Ui, pos2, vec2};
use engine::metrics::BubbleCause;

use crate::runs::run::Run;
use crate::theme::mix;
use crate::timeline::bubbles::{PERIOD, colour};
use crate::window::frame::Frame;

/// The hatch: one diagonal that repeats.
pub(super) fn hatch(ui: &Ui) -> TextureHandle {
    let side = PERIOD as usize;
    let alpha = |x: usize, y: usize| if (x + y) % side < 2 { 235 } else { 62 };
    let pixels = (0..side * side).map(|at| Color32::from_white_alpha(alpha(at % side, at / side))).collect();
    let options = TextureOptions { wrap_mode: TextureWrapMode::Repeat, ..TextureOptions::NEAREST };
    ui.ctx().load_texture("hatch", ColorImage::new([side, side], pixels), options)
}

/// Busy and bubbles as one bar with their names and shares; returns the cause under the pointer.
pub(super) fn legend(ui: &mut Ui, frame: &Frame<'_>, run: &Run, named: bool) -> Option<BubbleCause> {
    if let Some(reason) = run.damage.of_causes() {
        let text = format!("{}: busy time and bubbles by cause are not known: {reason}", run.source().name());
        ui.label(RichText::new(text).small().color(frame.tokens.warn));
        return None;
    }
    let report = &run.bubbles;
    let busy = mix(frame.tokens.panel, frame.tokens.text, 0.75);
    let mut parts = vec![(None, report.busy_share(), busy)];
    let bubbles = report.bubbles.iter().filter(|bubble| bubble.slot_time.0 > 0);
    parts.extend(
        bubbles.map(|bubble| (Some(bubble.cause), report.share(bubble.slot_time), colour(frame.tokens, bubble.cause))),
    );
    let (bar, _) = ui.allocate_exact_size(vec2(ui.available_width(), 9.0), Sense::hover());
    let mut left = bar.left();
    for (_, share, fill) in &parts {
        let width = bar.width() * *share as f32;
        ui.painter().rect_filled(Rect::from_min_size(pos2(left, bar.top()), vec2(width, bar.height())), 0.0, *fill);
        left += width;
    }
    let mut hovered = None;
    ui.horizontal_wrapped(|ui| {
        if named {
            ui.label(RichText::new(run.words()).small().color(frame.tokens.warn));
        }
        for (cause, share, fill) in parts {
            let (swatch, _) = ui.allocate_exact_size(vec2(9.0, 9.0), Sense::hover());
            ui.painter().rect_filled(swatch, 2.0, fill);
            let name = cause.map_or_else(|| "busy".to_owned(), |cause| cause.name().replace('-', " "));
            let text = RichText::new(format!("{name} {:.1} %", share * 100.0)).small();
            let response = ui.add(egui::Label::new(text).extend());
            if let Some(cause) = cause {
                hovered = if response.hovered() { Some(cause) } else { hovered };
                response.on_hover_text(format!("{}\n{}", cause.about(), cause.remedy()));
            }
            ui.add_space(4.0);
        }
    });
    hovered
}
