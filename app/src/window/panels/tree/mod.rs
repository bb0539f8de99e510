//! The prefix tree as a canvas on which a batch is drawn: width is requests, height is tokens.
//!
//! ```text
//! pointer ─► hands (what is in the hand) ─► Stroke ─► drawing::draw ─► Command::Draw, or the reason at the pointer
//! key ─────► keys ──────────────────────────┘
//! number ──► figures (typed in place) ──────┘
//! ```
//!
//! While a drag lasts, all is measured in the layout in which it began, and the batch as it was then is a ghost.

mod colour;
mod figures;
mod hands;
mod keys;
mod layout;
mod paint;
mod state;
mod strip;

use std::sync::Arc;

use egui::{Key, Pos2, Rect, Response, RichText, Sense, Ui, vec2};
use engine::units::{Tokens, counted};
use engine::workload::NodeSpec;

use self::colour::Colour;
use self::figures::Typed;
use self::hands::{Drag, Grip};
use self::layout::{Item, Layout};
pub use self::state::{Acted, State};
use self::state::{Told, WHEEL_RESTS, label};
use self::strip::Strip;
use crate::document::drawing::{Numbers, Path, Pick, Stroke};
use crate::document::history::Gesture;
use crate::window::command::Command;
use crate::window::commands::table::{Action, COMMANDS};
use crate::window::frame::Frame;
use crate::window::selection::Selection;

/// Height of the line under the canvas.
const CAPTION: f32 = 18.0;

/// Draws the canvas.
pub fn show(ui: &mut Ui, frame: &Frame<'_>, state: &mut State) {
    let numbers = Numbers::of(frame.spec);
    state.follow(frame, &numbers);
    if !frame.is_picture {
        header(ui, frame, state);
    }
    let size = ui.available_size().max(vec2(80.0, 80.0));
    let (outer, response) = ui.allocate_exact_size(size, Sense::click_and_drag());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Canvas, true, "prefix tree canvas"));
    let (canvas, under) = parts(frame, outer);
    state.place = Some(canvas);
    let scale = match &state.drag {
        Some((drag, _)) => drag.layout.scale,
        None => layout::fit(frame.spec, &numbers, state.top.as_ref(), canvas),
    };
    let layout = layout::layout(frame.spec, &numbers, state.top.as_ref(), scale);
    let strip = Strip::new(frame.spec, under, state.drag.as_ref().map(|(drag, _)| drag.strip.token));
    pointer(ui, frame, &response, (&layout, &strip), state);
    keyboard(ui, frame, &response, state);
    let painted = paint::Painted { frame, layout: &layout, strip: &strip, outer, pointer: response.hover_pos() };
    painted.all(ui, state);
    if state.drag.is_none() {
        tooltip(frame, &response, &layout, &strip);
        response.context_menu(|ui| menu(ui, frame));
    }
    paint::nodes(ui, &layout, &strip);
    typing(ui, frame, &layout, &strip, state);
}

/// The canvas of nodes and the strip of prefill chunks.
fn parts(frame: &Frame<'_>, outer: Rect) -> (Rect, Rect) {
    let inner = outer.shrink2(vec2(8.0, 6.0)).with_max_y(outer.bottom() - CAPTION);
    let height = strip::height(frame.spec).min(inner.height() * 0.4);
    let between = inner.bottom() - height;
    (inner.with_max_y(between - 4.0), inner.with_min_y(between))
}

/// Where one is in the tree, and what colours mean.
fn header(ui: &mut Ui, frame: &Frame<'_>, state: &mut State) {
    ui.horizontal_wrapped(|ui| {
        for colour in Colour::ALL {
            ui.selectable_value(&mut state.colour, colour, colour.name()).on_hover_text(colour.about());
        }
        let Some(top) = state.top.clone() else { return };
        ui.separator();
        if ui.link("all").clicked() {
            state.top = None;
        }
        let deepest = top.steps().len();
        // A conversation may have a thousand turns; the nearest are enough to go back by.
        for depth in deepest.saturating_sub(4).max(1)..=deepest {
            let path = Path::of_steps(&top.steps()[..depth]);
            ui.label("›");
            let name = label(frame.spec, &path);
            if depth == deepest {
                ui.label(RichText::new(name).strong());
            } else if ui.link(name).clicked() {
                state.top = Some(path);
            }
        }
    });
}

/// What the pointer does: presses, drags, clicks, the wheel.
fn pointer(ui: &Ui, frame: &Frame<'_>, response: &Response, found: (&Layout, &Strip), state: &mut State) {
    let (layout, strip) = found;
    let modifiers = ui.input(|input| input.modifiers);
    if response.drag_started_by(egui::PointerButton::Primary)
        && let Some(from) = ui.input(|input| input.pointer.press_origin())
    {
        response.request_focus();
        let grip = hands::grip(layout, strip, from, &state.picked, modifiers.shift);
        let (spec, layout, strip) = (Arc::new(frame.spec.clone()), layout.clone(), strip.clone());
        state.drag = Some((Drag { grip, from, spec, layout, strip }, None));
        state.told = None;
    }
    if response.dragged()
        && let Some(place) = response.interact_pointer_pos()
    {
        dragged(frame, place, modifiers.alt, state);
    }
    if response.drag_stopped() {
        state.drag = None;
    }
    if response.clicked() || response.secondary_clicked() {
        response.request_focus();
        clicked(frame, response.interact_pointer_pos(), found, modifiers.shift, state);
    }
    if response.double_clicked()
        && let Some((item, place)) = response.interact_pointer_pos().and_then(|at| Some((layout.at(at)?, at)))
        && let Pick::Node(path) = &item.pick
    {
        let stroke = Stroke::Split { of: path.clone(), at: layout.scale.tokens(place.y - item.place.top()) };
        state.make(frame.spec, &stroke).into_iter().for_each(|command| frame.send(command));
    }
    wheel(ui, frame, response, layout, state);
    cursor(ui, response, found, state);
}

/// The stroke of the drag, made anew from the batch that it began on wherever the pointer goes.
fn dragged(frame: &Frame<'_>, place: Pos2, alt: bool, state: &mut State) {
    let Some((drag, before)) = state.drag.take() else { return };
    if let Some((_, held)) = drag.band(place) {
        state.picked = held;
        state.drag = Some((drag, None));
        return;
    }
    let stroke = drag.stroke(place, alt);
    if stroke != before {
        if let Some(stroke) = &stroke {
            state.make(&drag.spec, stroke).into_iter().for_each(|command| frame.send(command));
        } else {
            let spec = Box::new((*drag.spec).clone());
            frame.send(Command::Draw { spec, name: "drawing".to_owned(), node: None });
            state.told = None;
        }
    }
    state.drag = Some((drag, stroke));
}

fn clicked(
    frame: &Frame<'_>,
    place: Option<Pos2>,
    (layout, strip): (&Layout, &Strip),
    several: bool,
    state: &mut State,
) {
    let Some(place) = place else { return };
    let chunk = strip.at(place).map(|(chunk, _)| (Pick::Request(chunk.at), 0, None));
    let node = |item: &Item| (item.pick.clone(), item.copy, Some(item.node));
    state.told = None;
    let Some((pick, copy, number)) = chunk.or_else(|| layout.at(place).map(node)) else {
        state.picked.clear();
        state.followed = None;
        return frame.send(Command::Select(Selection::None));
    };
    match (several, state.picked.iter().position(|own| *own == pick)) {
        (true, Some(at)) => _ = state.picked.remove(at),
        (true, None) => state.picked.push(pick),
        (false, _) => state.picked = vec![pick],
    }
    (state.copy, state.followed) = (copy, number);
    frame.send(Command::Select(number.map_or(Selection::None, Selection::Node)));
}

/// With Shift, one copy more or less at each notch.
fn wheel(ui: &Ui, frame: &Frame<'_>, response: &Response, layout: &Layout, state: &mut State) {
    let Some(item) = response.hover_pos().and_then(|place| layout.at(place)) else { return };
    let (notches, time) = ui.input(|input| {
        let turned = input.events.iter().map(|event| match event {
            egui::Event::MouseWheel { delta, modifiers, .. } if modifiers.shift => delta.x + delta.y,
            _ => 0.0,
        });
        (turned.sum::<f32>(), input.time)
    });
    if notches == 0.0 {
        return;
    }
    let copies = match &item.pick {
        Pick::Node(path) => path.node(frame.spec).map_or(1, |node| node.repeat),
        Pick::Request(_) => u32::try_from(item.folded).unwrap_or(1),
    };
    let copies = if notches > 0.0 { copies.saturating_add(1) } else { copies.saturating_sub(1).max(1) };
    let stroke = Stroke::Set { of: item.pick.clone(), tokens: None, copies: Some(copies), requests: None };
    let gesture = state.gesture(time).unwrap_or(Gesture(response.id.value() ^ time.to_bits()));
    state.wheel = Some((gesture, time));
    state.make(frame.spec, &stroke).into_iter().for_each(|command| frame.send(command));
    ui.ctx().request_repaint_after(std::time::Duration::from_secs_f64(WHEEL_RESTS));
}

fn cursor(ui: &Ui, response: &Response, (layout, strip): (&Layout, &Strip), state: &State) {
    let Some(place) = response.hover_pos() else { return };
    let grip = match &state.drag {
        Some((drag, _)) => drag.grip.clone(),
        None => hands::grip(layout, strip, place, &[], false),
    };
    let icon = match grip {
        Grip::New(_) | Grip::NewChunk | Grip::Band => egui::CursorIcon::Crosshair,
        Grip::Lower(_) => egui::CursorIcon::ResizeVertical,
        Grip::Nodes(_) if state.drag.is_some() => egui::CursorIcon::Grabbing,
        Grip::Nodes(_) | Grip::Chunk(_, strip::ChunkPart::Middle) => egui::CursorIcon::Grab,
        Grip::Right(_) | Grip::Chunk(..) => egui::CursorIcon::ResizeHorizontal,
    };
    ui.ctx().set_cursor_icon(icon);
}

/// Copy, cut and paste of subtrees as text, and that arrows stay with the canvas while it has the focus.
fn keyboard(ui: &Ui, frame: &Frame<'_>, response: &Response, state: &mut State) {
    state.focused = response.has_focus();
    if !state.focused {
        return;
    }
    let filter = egui::EventFilter { horizontal_arrows: true, vertical_arrows: true, ..Default::default() };
    ui.ctx().memory_mut(|memory| memory.set_focus_lock_filter(response.id, filter));
    let events = ui.input(|input| input.events.clone());
    for event in events {
        let copied = || {
            let node = state.picked.first()?.path()?.node(frame.spec)?;
            ron::to_string(node).ok()
        };
        match event {
            egui::Event::Copy => copied().into_iter().for_each(|text| ui.ctx().copy_text(text)),
            egui::Event::Cut => {
                if let Some(text) = copied() {
                    ui.ctx().copy_text(text);
                    frame.send(Command::Act(Action::Remove));
                }
            }
            egui::Event::Paste(text) => {
                if let Ok(node) = ron::from_str::<NodeSpec>(&text) {
                    let under = state.picked.first().and_then(|pick| pick.path().cloned());
                    let stroke = Stroke::Paste { under, node };
                    state.make(frame.spec, &stroke).into_iter().for_each(|command| frame.send(command));
                } else {
                    let text = "the clipboard holds no subtree: copy one with Ctrl+C first".to_owned();
                    state.told = Some(Told { text, refused: true });
                }
            }
            egui::Event::Key { key: Key::Escape, pressed: true, .. } => state.told = None,
            _ => {}
        }
    }
}

fn tooltip(frame: &Frame<'_>, response: &Response, layout: &Layout, strip: &Strip) {
    let Some(place) = response.hover_pos() else { return };
    if let Some((chunk, _)) = strip.at(place) {
        let (tokens, context) = (Tokens(chunk.tokens), Tokens(chunk.context));
        response
            .clone()
            .on_hover_text_at_pointer(format!("prefill chunk: {tokens} query tokens after {context} of context"));
        return;
    }
    let Some(item) = layout.at(place) else { return };
    frame.send(Command::Hover(Selection::Node(item.node)));
    let (tokens, requests) = (Tokens(item.tokens), counted(item.requests, "request"));
    let name = if item.pick.path().is_some() {
        format!("node {}", item.node.0)
    } else {
        "decodes that share nothing".to_owned()
    };
    let text = match item.folded {
        1 => format!("{name} · {tokens} tokens · {requests}, of which {} end here", item.ending),
        many => format!("{many} too narrow to draw apart, from {name} on · {tokens} tokens · {requests} each"),
    };
    response.clone().on_hover_text_at_pointer(text);
}

/// All strokes, from the one table of commands.
fn menu(ui: &mut Ui, frame: &Frame<'_>) {
    for entry in COMMANDS.iter().filter(|entry| entry.group == "Tree") {
        let button = egui::Button::new(entry.name).shortcut_text(entry.keys_text(ui.ctx()));
        if ui.add(button).clicked() {
            frame.send(Command::Act(entry.action));
            ui.close();
        }
    }
}

/// The fields over what is picked.
fn typing(ui: &Ui, frame: &Frame<'_>, layout: &Layout, strip: &Strip, state: &mut State) {
    let Some(mut figures) = state.figures.take() else { return };
    let of_chunk =
        |pick: &Pick| strip.chunks.iter().find(|chunk| *pick == Pick::Request(chunk.at)).map(|chunk| chunk.place);
    let place = state.picked.first().and_then(|pick| layout.of(pick).map(|item| item.place).or_else(|| of_chunk(pick)));
    let place = place.map_or(strip.rect.left_top(), |place| place.left_top() + vec2(6.0, 6.0));
    match figures.show(ui, frame, place) {
        Typed::Open => state.figures = Some(figures),
        Typed::Closed => {}
        Typed::Taken(stroke) => {
            state.figures = Some(figures);
            if let Some(command) = state.make(frame.spec, &stroke) {
                frame.send(command);
                state.figures = None;
            }
        }
    }
}
