//! Painting of the canvas.

use egui::{Align2, Color32, FontId, Painter, Pos2, Rect, Sense, Shape, Stroke as Line, StrokeKind, Ui, pos2, vec2};
use engine::units::{Tokens, counted};

use super::hands::Drag;
use super::layout::{Item, Layout};
use super::state::{State, label};
use super::strip::Strip;
use crate::document::drawing::{self, Pick, Stroke};
use crate::theme::mix;
use crate::window::frame::Frame;
use crate::window::panels::parts::makespans;

/// Most accessibility nodes of the canvas, and the least size of what has one.
const NAMED: usize = 200;
const LEAST: f32 = 10.0;

/// Everything that is painted.
pub(super) struct Painted<'a> {
    pub(super) frame: &'a Frame<'a>,
    pub(super) layout: &'a Layout,
    pub(super) strip: &'a Strip,
    pub(super) outer: Rect,
    pub(super) pointer: Option<Pos2>,
}

impl Painted<'_> {
    pub(super) fn all(&self, ui: &Ui, state: &State) {
        let painter = ui.painter_at(self.outer);
        let t = self.frame.tokens;
        painter.rect_filled(self.outer, 0.0, t.canvas);
        if ui.memory(|memory| state.focused && memory.focused().is_some()) {
            painter.rect_stroke(self.outer.shrink(0.5), 0.0, Line::new(1.0, t.accent), StrokeKind::Inside);
        }
        // Nodes that are moved stay where they were until they are let go.
        let moving = state.drag.as_ref().filter(|(drag, _)| matches!(drag.grip, super::hands::Grip::Nodes(_)));
        let layout = moving.map_or(self.layout, |(drag, _)| &drag.layout);
        for item in &layout.items {
            self.node(&painter, item, state);
        }
        self.chunks(&painter, state);
        if self.frame.spec.roots.is_empty() && self.frame.spec.requests.is_empty() {
            let text = "Drag here to draw a prefix: its width is requests, its height tokens.\nThen drag below it for what continues from it.";
            painter.text(self.outer.center(), Align2::CENTER_CENTER, text, FontId::proportional(13.0), t.faint);
        }
        if let Some((drag, stroke)) = &state.drag {
            self.drag(&painter, drag, stroke.as_ref());
        }
        self.caption(&painter);
        self.told(&painter, state);
    }

    fn node(&self, painter: &Painter, item: &Item, state: &State) {
        if !painter.clip_rect().intersects(item.place) {
            return;
        }
        let (frame, t) = (self.frame, self.frame.tokens);
        let picked = state.picked.contains(&item.pick);
        let lit = picked || frame.selected.has_node(item.node) || frame.hovered.has_node(item.node);
        let mut fill = state.colour.of(frame, item);
        if frame.selected.draws_others_back() && !lit {
            fill = t.dimmed(fill);
        }
        if frame.now.as_ref().is_some_and(|now| !now.has_node(item.node)) {
            fill = t.dimmed(fill);
        }
        if item.folded > 1 {
            fill = mix(fill, t.idle, 0.25);
        }
        let place = item.place;
        let inner = if place.width() > 5.0 { place.shrink(0.75) } else { place };
        painter.rect_filled(inner, if place.width() > 12.0 { 3.0 } else { 0.0 }, fill);
        if lit {
            let colour = if picked { t.accent } else { t.text };
            painter.rect_stroke(inner, 3.0, Line::new(2.0, colour), StrokeKind::Inside);
        }
        if inner.height() < 15.0 || inner.width() < 26.0 {
            return;
        }
        let tokens = Tokens(item.tokens);
        let full = match item.folded {
            1 => format!("{tokens} tokens × {}", counted(item.requests, "request")),
            many => format!("{} of {tokens} tokens", counted(many, "node")),
        };
        for text in [full, tokens.to_string()] {
            let galley = painter.layout_no_wrap(text, FontId::proportional(11.5), t.on(fill));
            if galley.size().x < inner.width() - 6.0 {
                painter.galley(inner.center() - galley.size() / 2.0, galley, t.text);
                return;
            }
        }
    }

    /// Each chunk after its context.
    fn chunks(&self, painter: &Painter, state: &State) {
        let (t, strip) = (self.frame.tokens, self.strip);
        painter.rect_filled(strip.rect, 2.0, mix(t.canvas, t.line, 0.35));
        for chunk in &strip.chunks {
            let context = Rect::from_min_max(pos2(strip.rect.left(), chunk.place.top()), chunk.place.left_bottom());
            painter.rect_filled(context, 0.0, mix(t.canvas, t.prefill, 0.22));
            painter.rect_filled(chunk.place, 1.0, t.prefill);
            if state.picked.contains(&Pick::Request(chunk.at)) {
                painter.rect_stroke(chunk.place, 1.0, Line::new(2.0, t.accent), StrokeKind::Outside);
            }
        }
        let text = match (strip.chunks.is_empty(), self.frame.is_picture) {
            (false, _) => "prefill",
            (true, true) => "no prefill",
            (true, false) => "prefill: drag here for a chunk",
        };
        let place = strip.rect.right_bottom() - vec2(5.0, 2.0);
        painter.text(place, Align2::RIGHT_BOTTOM, text, FontId::proportional(10.5), t.faint);
    }

    /// What was before, what is in the hand, and its figures.
    fn drag(&self, painter: &Painter, drag: &Drag, stroke: Option<&Stroke>) {
        let (t, pointer) = (self.frame.tokens, self.pointer.unwrap_or(drag.from));
        let moving = matches!(drag.grip, super::hands::Grip::Nodes(_));
        if !moving {
            for item in drag.layout.items.iter().filter(|item| item.place.width() > 4.0) {
                ghost(painter, item.place.shrink(1.0), t.faint);
            }
        }
        if let super::hands::Grip::Nodes(what) = &drag.grip {
            let held = drag.layout.items.iter().filter(|item| item.pick.path().is_some_and(|path| what.contains(path)));
            for item in held {
                ghost(painter, item.place.translate(pointer - drag.from), t.accent);
            }
            if let (Some(item), Some(_)) = (drag.landing(pointer), stroke) {
                painter.rect_stroke(item.place, 3.0, Line::new(3.0, t.better), StrokeKind::Inside);
            }
        }
        if let Some((band, _)) = drag.band(pointer) {
            painter.rect(band, 0.0, t.accent.gamma_multiply(0.12), Line::new(1.0, t.accent), StrokeKind::Inside);
        }
        if matches!(stroke, Some(Stroke::Add { .. })) {
            ghost(painter, Rect::from_two_pos(drag.from, pointer), t.accent);
        }
        if let Some(stroke) = stroke {
            let text = figures(stroke, drag);
            bubble(painter, pointer + vec2(14.0, 18.0), &text, (t.text, t.panel));
        }
    }

    fn told(&self, painter: &Painter, state: &State) {
        let Some(told) = &state.told else { return };
        let t = self.frame.tokens;
        let near = state.picked.first().and_then(|pick| self.layout.of(pick)).map(|item| item.place.center_top());
        let at = self.pointer.or(near).unwrap_or(self.outer.left_top()) + vec2(14.0, 40.0);
        let colour = if told.refused { t.error } else { t.warn };
        bubble(painter, at, &told.text, (colour, t.panel));
    }

    fn caption(&self, painter: &Painter) {
        let (frame, t) = (self.frame, self.frame.tokens);
        let requests: u64 = self
            .layout
            .items
            .iter()
            .filter(|item| item.depth == 0)
            .map(|item| item.requests.saturating_mul(item.folded))
            .fold(0, u64::saturating_add);
        let mut text = format!("{} · width: requests, height: √tokens", counted(requests, "request"));
        if let (Some(before), Some(now)) = (frame.ghost, frame.shown.and_then(|shown| shown.front())) {
            text = format!("{} · {text}", makespans(before, now));
        }
        let place = self.outer.left_bottom() + vec2(8.0, -4.0);
        painter.text(place, Align2::LEFT_BOTTOM, text, FontId::proportional(11.0), t.faint);
    }
}

/// What the hand does, in figures.
fn figures(stroke: &Stroke, drag: &Drag) -> String {
    match stroke {
        Stroke::Add { tokens, width, copies, .. } => {
            let tokens = Tokens(drawing::whole(*tokens, drawing::block(&drag.spec)));
            let requests = counted(u64::from(*width), "request");
            let how = if *copies { "each its own" } else { "that share them · Alt: each its own" };
            format!("{tokens} tokens × {requests} {how}")
        }
        other => other.name(&|path| label(&drag.spec, path)),
    }
}

fn ghost(painter: &Painter, place: Rect, colour: Color32) {
    let corners = [place.left_top(), place.right_top(), place.right_bottom(), place.left_bottom(), place.left_top()];
    painter.extend(Shape::dashed_line(&corners, Line::new(1.0, colour), 4.0, 3.0));
}

/// A text with a ground of its own, kept within the canvas.
fn bubble(painter: &Painter, at: Pos2, text: &str, (colour, back): (Color32, Color32)) {
    let clip = painter.clip_rect();
    let width = (clip.width() - 24.0).clamp(60.0, 360.0);
    let galley = painter.layout(text.to_owned(), FontId::proportional(12.0), colour, width);
    let size = galley.size();
    let least = clip.min + vec2(4.0, 4.0);
    let most = (clip.max - size - vec2(8.0, 6.0)).max(least);
    let place = Rect::from_min_size(at.clamp(least, most), size);
    painter.rect_filled(place.expand(4.0), 3.0, back);
    painter.galley(place.min, galley, colour);
}

/// Accessibility nodes of what is large enough to be pointed at.
pub(super) fn nodes(ui: &Ui, layout: &Layout, strip: &Strip) {
    let large = |item: &&Item| item.place.width() >= LEAST && item.place.height() >= LEAST / 2.0;
    for item in layout.items.iter().filter(large).take(NAMED) {
        let id = ui.scope_id().with(("item", &item.pick, item.copy));
        let response = ui.interact(item.place, id, Sense::hover());
        let name = if item.pick.path().is_some() { format!("node {}", item.node.0) } else { "decodes".to_owned() };
        let text = format!("{name}: {} tokens, {}", Tokens(item.tokens), counted(item.requests, "request"));
        response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Group, true, text.clone()));
    }
    for chunk in &strip.chunks {
        let response = ui.interact(chunk.place, ui.scope_id().with(("chunk", chunk.at)), Sense::hover());
        let text = format!("prefill chunk: {} tokens after {}", Tokens(chunk.tokens), Tokens(chunk.context));
        response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Group, true, text.clone()));
    }
    let text = "prefill strip";
    let response = ui.interact(strip.rect, ui.scope_id().with(text), Sense::hover());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Group, true, text));
}
