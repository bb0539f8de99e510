//! Names: of CTAs inside them, and of SMs beside them, where a click folds an SM or unfolds it.

use egui::{Align2, FontId, Painter, Rect, Sense, Ui, vec2};
use engine::units::{Nanos, counted};

use super::blocks::{self, Block};
use super::regions::Regions;
use super::state::State;
use crate::runs::damage;
use crate::runs::shown::Shown;
use crate::timeline::folds::{Folds, Gpcs, NAMED};
use crate::timeline::lanes::Lane;
use crate::timeline::layout::Layout;
use crate::window::frame::Frame;

/// Widths from which a CTA carries its number, that it is one, and its pack and tile.
const SHORT_NAME: f32 = 30.0;
const MIDDLE_NAME: f32 = 60.0;
const LONG_NAME: f32 = 140.0;
/// Least height between two names of SMs.
const APART: f32 = 13.0;

/// Most CTAs with an accessibility node.
const NODES: usize = 400;

/// Names inside CTAs, where there is room.
pub(super) fn of_ctas(painter: &Painter, frame: &Frame<'_>, shown: &Shown, block: &Block<'_>) {
    let Block { run, layout, .. } = block;
    let tall = |lane: usize| layout.lane_height(lane) >= NAMED;
    if !layout.visible().any(tall) {
        return;
    }
    let font = FontId::proportional(10.5);
    layout.pieces(&run.lanes, &run.capture.spans, |_, piece, rect| {
        if rect.width() < SHORT_NAME || rect.height() < NAMED - 1.0 || piece.count > 1 {
            return;
        }
        let cta = run.capture.spans.cta[piece.first];
        let pack = piece.entity.pack();
        let tile = pack.and_then(|pack| shown.planned.plan.packs.get(pack.at())).map(|pack| pack.tile);
        let text = match (pack, tile) {
            (Some(pack), Some(tile)) if rect.width() >= LONG_NAME => format!("CTA {cta} · pack {} · {tile}", pack.0),
            _ if rect.width() >= MIDDLE_NAME => format!("CTA {cta}"),
            _ => cta.to_string(),
        };
        let lit = !frame.selected.draws_others_back() || frame.lights(shown, piece.entity);
        let colour = if lit { frame.tokens.on(frame.entity_colour(shown, piece.entity)) } else { frame.tokens.faint };
        let place = rect.left_center() + vec2(4.0, 0.0);
        painter.with_clip_rect(rect.intersect(layout.rect)).text(
            place,
            Align2::LEFT_CENTER,
            text,
            font.clone(),
            colour,
        );
    });
}

/// Names of the SMs, as many as have room; those that were folded or unfolded by hand in front.
pub(super) fn of_sms(painter: &Painter, frame: &Frame<'_>, (layout, folds): (&Layout, &Folds), regions: &Regions) {
    if let Some(gpcs) = layout.gpcs() {
        return of_gpcs(painter, frame, (layout, gpcs), regions);
    }
    let firsts = || layout.visible().step_by(layout.slots).map(|lane| (lane, lane / layout.slots));
    let by_hand = |sm: usize| folds.of(sm as u32);
    let mut taken: Vec<f32> = Vec::new();
    let (own, others): (Vec<_>, Vec<_>) = firsts().partition(|(_, sm)| by_hand(*sm).is_some());
    for (lane, sm) in own.into_iter().chain(others) {
        let y = layout.top(lane) + (layout.row(sm).height / 2.0).clamp(6.0, 8.0);
        let is_cut = y + APART / 2.0 > layout.rect.bottom();
        if is_cut || taken.iter().any(|other| (other - y).abs() < APART) {
            continue;
        }
        taken.push(y);
        let (sign, colour) = match by_hand(sm) {
            Some(true) => ("v ", frame.tokens.text),
            Some(false) => ("> ", frame.tokens.text),
            None => ("", frame.tokens.faint),
        };
        let place = egui::pos2(regions.gutter.right() - 6.0, y);
        painter.text(place, Align2::RIGHT_CENTER, format!("{sign}SM {sm}"), FontId::proportional(10.5), colour);
    }
}

/// Names of the GPCs, with how many SMs each has where there is room for that.
fn of_gpcs(painter: &Painter, frame: &Frame<'_>, (layout, gpcs): (&Layout, &Gpcs), regions: &Regions) {
    for gpc in 0..gpcs.count() {
        let Some(sm) = gpcs.sms(gpc).first() else { continue };
        let row = layout.row(*sm);
        let place = egui::pos2(regions.gutter.right() - 6.0, layout.top(sm * layout.slots) + row.height / 2.0);
        let sms = counted(gpcs.sms(gpc).len() as u64, "SM");
        let (by, font) = (if row.height >= 2.0 * APART { APART / 2.0 } else { 0.0 }, FontId::proportional(10.5));
        let up = vec2(0.0, by);
        painter.text(place - up, Align2::RIGHT_CENTER, format!("GPC {gpc}"), font.clone(), frame.tokens.text);
        if by > 0.0 {
            painter.text(place + up, Align2::RIGHT_CENTER, sms, font, frame.tokens.faint);
        }
    }
}

/// A click beside an SM folds it, or unfolds it; beside a GPC, all of them.
pub(super) fn clicks(ui: &Ui, blocks: &[Block<'_>], regions: &Regions, state: &mut State) {
    let response = ui.interact(regions.gutter, ui.scope_id().with("names of SMs"), Sense::click());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Group, true, "names of SMs"));
    let pointed = response.hover_pos().or(response.interact_pointer_pos());
    let found = pointed.and_then(|pos| {
        let layout = &blocks::at(blocks, pos.y)?.layout;
        Some((layout.lane_at(pos.y)? / layout.slots, layout))
    });
    let Some((sm, layout)) = found else { return };
    if let Some(gpcs) = layout.gpcs() {
        let (gpc, _) = gpcs.place(sm);
        if response.clicked() {
            state.by_gpc = false;
        }
        let sms: Vec<String> = gpcs.sms(gpc).iter().map(usize::to_string).collect();
        response.on_hover_text_at_pointer(format!(
            "GPC {gpc} has SMs {}: a click unfolds all GPCs into their SMs",
            sms.join(", ")
        ));
        return;
    }
    let is_strip = layout.row(sm).is_strip;
    if response.clicked() {
        state.folds.toggle(sm as u32, is_strip);
    }
    let does = if is_strip { "unfolds it into its slots" } else { "folds it into a strip" };
    response.on_hover_text_at_pointer(format!("SM {sm}: a click {does}"));
}

/// An accessibility node for each SM on the screen, or for each GPC.
pub(super) fn nodes(ui: &Ui, block: &Block<'_>) {
    let Block { run, layout, .. } = block;
    for row in layout.rows() {
        let lanes: Vec<&Lane> = row.iter().filter_map(|lane| run.lanes.lanes.get(*lane)).collect();
        let (Some(lane), Some(first)) = (lanes.first(), row.first().copied()) else { continue };
        let ctas: usize = lanes.iter().map(|lane| lane.spans.len()).sum();
        let busy: u64 = lanes.iter().map(|lane| lane.busy).sum();
        let share = busy as f64 / (run.lanes.end.max(1) * lanes.len() as u64) as f64;
        let (busy, ctas) = (damage::busy(share, 0, &run.damage), counted(ctas as u64, "CTA"));
        let top = layout.top(first);
        let height = layout.row(first / layout.slots).height;
        let rect = Rect::from_x_y_ranges(layout.rect.x_range(), top..=top + height).intersect(layout.rect);
        if rect.height() <= 0.0 {
            continue;
        }
        let response = ui.interact(rect, ui.scope_id().with(("sm", run.source().name(), lane.sm)), Sense::hover());
        let name = layout.gpcs().map_or_else(
            || format!("SM {}", lane.sm),
            |gpcs| {
                let (gpc, _) = gpcs.place(lane.sm as usize);
                format!("GPC {gpc} · {}", counted(gpcs.sms(gpc).len() as u64, "SM"))
            },
        );
        let text = format!("{name}: {ctas}, busy {busy} ({})", run.words());
        response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Group, true, text.clone()));
    }
}

/// An accessibility node for each CTA, or group of CTAs that are too narrow to be told apart, in the lanes that carry
/// names: as many as a person can go through.
pub(super) fn nodes_of_ctas(ui: &Ui, block: &Block<'_>) {
    let Block { run, layout, .. } = block;
    let tall = |lane: usize| layout.lane_height(lane) >= NAMED;
    if !layout.visible().any(tall) {
        return;
    }
    let spans = &run.capture.spans;
    let mut left = NODES;
    layout.pieces(&run.lanes, spans, |lane, piece, rect| {
        let rect = rect.intersect(layout.rect);
        if left == 0 || rect.height() < NAMED - 1.0 {
            return;
        }
        left -= 1;
        let place = ("cta", run.source().name(), lane.sm, lane.slot, piece.first);
        let response = ui.interact(rect, ui.scope_id().with(place), Sense::hover());
        response.widget_info(|| {
            let what = match piece.count {
                1 => format!("CTA {} of launch {}", spans.cta[piece.first], spans.launch[piece.first]),
                count => counted(u64::from(count), "CTA"),
            };
            let (begin, end) = (Nanos(piece.begin), Nanos(piece.end));
            let text = format!("SM {} slot {}: {what}, {begin} to {end} ({})", lane.sm, lane.slot, run.words());
            egui::WidgetInfo::labeled(egui::Role::Group, true, text)
        });
    });
}
