//! Named bubbles: the legend with each cause's share, and the hatched gaps in the lanes.

use egui::epaint::Vertex;
use egui::{
    Color32, ColorImage, Mesh, Rect, RichText, Sense, TextureHandle, TextureId, TextureOptions, TextureWrapMode, Ui,
    pos2, vec2,
};
use engine::metrics::{BubbleCause, Gap};

use super::layout::Layout;
use crate::window::gaps::Gaps;
use crate::window::lanes::{FOLD_PX, Lanes};
use crate::window::panels::Frame;
use crate::window::theme::{Tokens, mix};
use crate::window::worker::Run;

/// Pixels after which the hatch comes again.
const PERIOD: f32 = 8.0;

/// Colour of a cause.
pub fn colour(tokens: &Tokens, cause: BubbleCause) -> Color32 {
    tokens.entity([8, 5, 3, 7, 0, 2, 11, 1][cause as usize % 8])
}

/// The hatch: one diagonal that repeats.
pub(super) fn hatch(ui: &Ui) -> TextureHandle {
    let side = PERIOD as usize;
    let alpha = |x: usize, y: usize| if (x + y) % side < 2 { 235 } else { 62 };
    let pixels = (0..side * side).map(|at| Color32::from_white_alpha(alpha(at % side, at / side))).collect();
    let options = TextureOptions { wrap_mode: TextureWrapMode::Repeat, ..TextureOptions::NEAREST };
    ui.ctx().load_texture("hatch", ColorImage::new([side, side], pixels), options)
}

/// The gap of a lane at a time.
pub(super) fn hit(run: &Run, lane: usize, time: u64) -> Option<&Gap> {
    let lane = run.lanes.lanes.get(lane)?;
    run.gaps.of_lane(lane.sm, lane.slot, time).next().filter(|gap| gap.begin.0 <= time)
}

/// One hatched mesh of all gaps that are wide enough to see; narrower ones are inside folded blocks.
pub fn mesh(
    (lanes, gaps): (&Lanes, &Gaps),
    layout: &Layout,
    texture: TextureId,
    tint: impl Fn(BubbleCause) -> Color32,
) -> Mesh {
    let mut mesh = Mesh::with_texture(texture);
    let narrowest = (layout.ns_per_px() * FOLD_PX) as u64;
    let view = layout.view.begin.max(0.0) as u64..layout.view.end.max(0.0).ceil() as u64;
    for lane in layout.visible() {
        let Some(found) = lanes.lanes.get(lane) else { break };
        let top = layout.top(lane);
        let bottom = top + (layout.lane - if layout.lane > 4.0 { 0.5 } else { 0.0 });
        gaps.wide(found.sm, found.slot, view.clone(), narrowest, |gap| {
            let left = layout.x(gap.begin.as_f64()).max(layout.rect.left());
            let right = layout.x(gap.end.as_f64()).min(layout.rect.right());
            push(&mut mesh, Rect::from_min_max(pos2(left, top), pos2(right, bottom)), tint(gap.cause));
        });
    }
    mesh
}

fn push(mesh: &mut Mesh, rect: Rect, color: Color32) {
    let base = mesh.vertices.len() as u32;
    let corners = [rect.left_top(), rect.right_top(), rect.left_bottom(), rect.right_bottom()];
    mesh.vertices.extend(corners.map(|pos| Vertex { pos, uv: pos / PERIOD, color }));
    mesh.indices.extend([base, base + 1, base + 2, base + 2, base + 1, base + 3]);
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
