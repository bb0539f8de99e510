//! Legends that act: what colours of CTAs and of bubbles mean, with their shares. A click looks at one alone.

use egui::Color32;
use egui::{ColorImage, Rect, RichText, Sense, TextureHandle, TextureOptions, TextureWrapMode, Ui, pos2, vec2};
use engine::metrics::BubbleCause;
use engine::plan::LaunchPlan;
use engine::units::counted;

use crate::runs::run::Run;
use crate::theme::mix;
use crate::timeline::bubbles::{PERIOD, colour};
use crate::timeline::colour::tile_colour;
use crate::timeline::lanes::Entity;
use crate::timeline::only::Only;
use crate::window::frame::Frame;

/// The hatch: one diagonal that repeats.
pub(super) fn hatch(ui: &Ui) -> TextureHandle {
    let side = PERIOD as usize;
    let alpha = |x: usize, y: usize| if (x + y) % side < 2 { 235 } else { 62 };
    let pixels = (0..side * side).map(|at| Color32::from_white_alpha(alpha(at % side, at / side))).collect();
    let options = TextureOptions { wrap_mode: TextureWrapMode::Repeat, ..TextureOptions::NEAREST };
    ui.ctx().load_texture("hatch", ColorImage::new([side, side], pixels), options)
}

/// One entry: a click looks at it alone, another one at all again. Gives whether the pointer is on it.
fn entry(ui: &mut Ui, (fill, text, about): (Color32, &str, &str), what: Only, only: &mut Option<Only>) -> bool {
    let place = egui::IdSalt::new("swatch");
    let named = (egui::Atom::custom(place, vec2(9.0, 9.0)), RichText::new(text).small());
    let button = egui::Button::selectable(*only == Some(what), named).gap(4.0).atom_ui(ui);
    if let Some(swatch) = button.rect(place) {
        ui.painter().rect_filled(swatch, 2.0, fill);
    }
    let response = button.response;
    if response.clicked() {
        *only = (*only != Some(what)).then_some(what);
    }
    let hovered = response.hovered();
    response.on_hover_text(format!("{about}\nA click looks at it alone, another one at all again."));
    hovered
}

/// What the colours of CTAs mean where they mean kinds or tiles, with how many there are of each.
pub(super) fn of_ctas(ui: &mut Ui, frame: &Frame<'_>, (plan, run): (&LaunchPlan, &Run), only: &mut Option<Only>) {
    let t = frame.tokens;
    let [prefill, decode, both, merge] = run.told.roles;
    let merging = (merge, "merge", t.merge, Only::Role(Entity::Merge));
    let roles = if !frame.by_tile && !plan.prefill.is_empty() {
        vec![
            (prefill, "prefill", t.prefill, Only::Role(Entity::Prefill)),
            (decode, "decode", t.decode, Only::Decode),
            (both, "prefill and decode", t.both, Only::Role(Entity::Both)),
            merging,
        ]
    } else {
        vec![merging]
    };
    let tiles = if frame.by_tile { plan.tiles() } else { Vec::new() };
    if tiles.is_empty() && roles.iter().all(|(count, ..)| *count == 0) {
        return;
    }
    for (tile, packs) in tiles {
        let text = format!("tile {tile} · {}", counted(u64::from(packs), "pack"));
        entry(ui, (tile_colour(t, tile), &text, "CTAs of packs with this tile."), Only::Tile(tile), only);
    }
    for (count, name, fill, what) in roles.into_iter().filter(|(count, ..)| *count > 0) {
        let text = format!("{name} · {}", counted(count, "CTA"));
        entry(ui, (fill, &text, "What these CTAs do."), what, only);
    }
}

/// Busy and bubbles with their names and shares, and as a bar over what is left of the line, or over one of its own;
/// returns the cause under the pointer.
pub(super) fn of_bubbles(ui: &mut Ui, frame: &Frame<'_>, run: &Run, only: &mut Option<Only>) -> Option<BubbleCause> {
    if let Some(reason) = run.damage.of_causes() {
        let text = format!("{}: busy time and bubbles by cause are not known: {reason}", run.source().name());
        ui.label(RichText::new(text).small().color(frame.tokens.warn));
        return None;
    }
    let report = &run.bubbles;
    let busy = mix(frame.tokens.panel, frame.tokens.text, 0.75);
    let bubbles = report.bubbles.iter().filter(|bubble| bubble.slot_time.0 > 0);
    let parts: Vec<_> = bubbles
        .map(|bubble| (bubble.cause, report.share(bubble.slot_time), colour(frame.tokens, bubble.cause)))
        .collect();
    let mut hovered = None;
    let (swatch, _) = ui.allocate_exact_size(vec2(9.0, 9.0), Sense::hover());
    ui.painter().rect_filled(swatch, 2.0, busy);
    ui.label(RichText::new(format!("busy {:.1} %", report.busy_share() * 100.0)).small());
    for (cause, share, fill) in &parts {
        let text = format!("{} {:.1} %", cause.words(), share * 100.0);
        let about = format!("{}\n{}", cause.about(), cause.remedy());
        if entry(ui, (*fill, &text, &about), Only::Cause(*cause), only) {
            hovered = Some(*cause);
        }
    }
    let all = parts.iter().map(|(_, share, fill)| (*share, *fill));
    bar(ui, std::iter::once((report.busy_share(), busy)).chain(all));
    hovered
}

/// Shares side by side.
fn bar(ui: &mut Ui, parts: impl Iterator<Item = (f64, Color32)>) {
    const LEAST: f32 = 120.0;
    if ui.available_size_before_wrap().x < LEAST {
        ui.end_row();
    }
    let width = ui.available_size_before_wrap().x;
    let (bar, _) = ui.allocate_exact_size(vec2(width, 9.0), Sense::hover());
    let mut left = bar.left();
    for (share, fill) in parts {
        let width = bar.width() * share as f32;
        ui.painter().rect_filled(Rect::from_min_size(pos2(left, bar.top()), vec2(width, bar.height())), 0.0, fill);
        left += width;
    }
}
