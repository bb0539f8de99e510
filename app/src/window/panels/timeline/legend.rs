//! Legends that act: what colours of CTAs and of bubbles mean, with their shares. A click looks at one alone.

use egui::{Color32, Rect, RichText, Sense, StrokeKind, Ui, pos2, vec2};
use engine::metrics::BubbleCause;
use engine::plan::LaunchPlan;
use engine::units::counted;

use crate::runs::run::Run;
use crate::theme::Tokens;
use crate::theme::mix;
use crate::timeline::colour::tile_colour;
use crate::timeline::lanes::Entity;
use crate::timeline::only::Only;
use crate::window::frame::Frame;
use crate::window::hatch;

/// Large enough that hatches are told apart.
const SWATCH: egui::Vec2 = vec2(12.0, 11.0);

/// What a place of the legend is filled with.
#[derive(Clone, Copy)]
enum Fill {
    Plain(Color32),
    Hatch(BubbleCause),
}

impl Fill {
    fn busy(tokens: &Tokens) -> Self {
        Self::Plain(mix(tokens.panel, tokens.text, 0.75))
    }

    fn paint(self, ui: &Ui, tokens: &Tokens, place: Rect) {
        match self {
            Self::Plain(colour) => _ = ui.painter().rect_filled(place, 0.0, colour),
            Self::Hatch(cause) => hatch::fill(ui, tokens, place, cause),
        }
    }
}

/// One entry: a click looks at it alone, another one at all again. Gives whether the pointer is on it.
fn entry(
    ui: &mut Ui,
    tokens: &Tokens,
    (fill, text, about): (Fill, &str, &str),
    what: Only,
    only: &mut Option<Only>,
) -> bool {
    let place = egui::IdSalt::new("swatch");
    let named = (egui::Atom::custom(place, SWATCH), RichText::new(text).small());
    let button = egui::Button::selectable(*only == Some(what), named).gap(4.0).atom_ui(ui);
    if let Some(swatch) = button.rect(place) {
        fill.paint(ui, tokens, swatch);
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
        entry(
            ui,
            t,
            (Fill::Plain(tile_colour(t, tile)), &text, "CTAs of packs with this tile."),
            Only::Tile(tile),
            only,
        );
    }
    for (count, name, fill, what) in roles.into_iter().filter(|(count, ..)| *count > 0) {
        let text = format!("{name} · {}", counted(count, "CTA"));
        entry(ui, t, (Fill::Plain(fill), &text, "What these CTAs do."), what, only);
    }
}

/// Busy and bubbles as a bar; those of runs one under another begin and end alike.
pub(super) fn bar(ui: &mut Ui, frame: &Frame<'_>, run: &Run) {
    const SHARE: f32 = 0.16;
    let (width, report) = ((ui.max_rect().width() * SHARE).clamp(90.0, 420.0), &run.bubbles);
    let (bar, response) = ui.allocate_exact_size(vec2(width, SWATCH.y), Sense::hover());
    if let Some(reason) = run.damage.of_causes() {
        ui.painter().rect_stroke(bar, 0.0, (1.0, frame.tokens.line), StrokeKind::Inside);
        response.on_hover_text(reason);
        return;
    }
    let bubbles = report.bubbles.iter().map(|bubble| (report.share(bubble.slot_time), Fill::Hatch(bubble.cause)));
    let mut left = bar.left();
    for (share, fill) in std::iter::once((report.busy_share(), Fill::busy(frame.tokens))).chain(bubbles) {
        let width = bar.width() * share as f32;
        fill.paint(ui, frame.tokens, Rect::from_min_size(pos2(left, bar.top()), vec2(width, bar.height())));
        left += width;
    }
}

/// Busy and bubbles with their names and shares; returns the cause under the pointer.
pub(super) fn of_bubbles(ui: &mut Ui, frame: &Frame<'_>, run: &Run, only: &mut Option<Only>) -> Option<BubbleCause> {
    if let Some(reason) = run.damage.of_causes() {
        let text = format!("{}: busy time and bubbles by cause are not known: {reason}", run.source().name());
        ui.label(RichText::new(text).small().color(frame.tokens.warn));
        return None;
    }
    let report = &run.bubbles;
    let mut hovered = None;
    let (swatch, _) = ui.allocate_exact_size(SWATCH, Sense::hover());
    Fill::busy(frame.tokens).paint(ui, frame.tokens, swatch);
    ui.label(RichText::new(format!("busy {:.1} %", report.busy_share() * 100.0)).small());
    for bubble in report.bubbles.iter().filter(|bubble| bubble.slot_time.0 > 0) {
        let cause = bubble.cause;
        let text = format!("{} {:.1} %", cause.words(), report.share(bubble.slot_time) * 100.0);
        let about = format!("{}\n{}", cause.about(), cause.remedy());
        if entry(ui, frame.tokens, (Fill::Hatch(cause), &text, &about), Only::Cause(cause), only) {
            hovered = Some(cause);
        }
    }
    hovered
}
