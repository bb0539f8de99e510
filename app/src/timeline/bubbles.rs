//! The hatched gaps in the lanes, coloured by their causes.

use egui::epaint::Vertex;
use egui::{Color32, Mesh, Rect, TextureId, pos2};
use engine::metrics::BubbleCause;

use super::gaps::Gaps;
use super::lanes::{FOLD_PX, Lanes};
use super::layout::Layout;
use crate::theme::Tokens;

/// Pixels after which the hatch comes again.
pub const PERIOD: f32 = 8.0;

/// Colour of a cause.
pub fn colour(tokens: &Tokens, cause: BubbleCause) -> Color32 {
    tokens.entity([8, 5, 3, 7, 0, 2, 11, 1][cause as usize % 8])
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
    // Over strips they would be hairlines between lanes that are not told apart.
    for lane in layout.visible().filter(|lane| !layout.is_strip(*lane)) {
        let Some(found) = lanes.lanes.get(lane) else { break };
        let top = layout.top(lane);
        let height = layout.lane_height(lane);
        let bottom = top + (height - if height > 4.0 { 0.5 } else { 0.0 });
        gaps.wide(found.sm, found.slot, view.clone(), narrowest, |gap| {
            let left = layout.x(gap.begin.as_f64()).max(layout.rect.left());
            let right = layout.x(gap.end.as_f64()).min(layout.rect.right());
            push(&mut mesh, Rect::from_min_max(pos2(left, top), pos2(right, bottom)), tint(gap.cause));
        });
    }
    mesh
}

/// Bubbles of one cause over strips, where all of them would be hairlines of many colours: each slot a share of its
/// SM's strip.
pub fn over_strips(
    (lanes, gaps): (&Lanes, &Gaps),
    layout: &Layout,
    texture: TextureId,
    (cause, tint): (BubbleCause, Color32),
) -> Mesh {
    let mut mesh = Mesh::with_texture(texture);
    let narrowest = (layout.ns_per_px() * FOLD_PX) as u64;
    let view = layout.view.begin.max(0.0) as u64..layout.view.end.max(0.0).ceil() as u64;
    for lane in layout.visible().filter(|lane| layout.is_strip(*lane)) {
        let Some(found) = lanes.lanes.get(lane) else { break };
        let (top, height) = (layout.top(lane), layout.lane_height(lane));
        gaps.wide(found.sm, found.slot, view.clone(), narrowest, |gap| {
            if gap.cause == cause {
                let left = layout.x(gap.begin.as_f64()).max(layout.rect.left());
                let right = layout.x(gap.end.as_f64()).min(layout.rect.right());
                push(&mut mesh, Rect::from_min_max(pos2(left, top), pos2(right, top + height)), tint);
            }
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
