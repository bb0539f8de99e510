//! The hatched gaps in the lanes: one quiet family of colours, told apart by their hatches.
//!
//! ```text
//! texture   8 pixels wide, a band of 64 rows for each cause; repeats to the right, and no lane is taller than its band
//! picture   a pattern of 8 × 8 units for each cause, by the cause's name
//! ```

use egui::epaint::Vertex;
use egui::{Color32, ColorImage, Mesh, Pos2, Rect, TextureId, pos2};
use engine::metrics::BubbleCause;

use super::gaps::Gaps;
use super::lanes::{FOLD_PX, Lanes};
use super::layout::Layout;
use crate::theme::Tokens;

/// Pixels after which a hatch comes again.
const PERIOD: usize = 8;
/// Rows of the texture for each cause.
const BAND: usize = 64;
const CAUSES: usize = BubbleCause::ALL.len();

/// Colour of a cause.
pub fn colour(tokens: &Tokens, cause: BubbleCause) -> Color32 {
    tokens.bubble(cause as u32)
}

/// Whether a pixel of the hatch of a cause is on a line of it.
fn is_line(cause: BubbleCause, x: usize, y: usize) -> bool {
    let (x, y) = (x % PERIOD, y % PERIOD);
    let (rises, falls) = ((x + y) % PERIOD < 2, (x + PERIOD - y) % PERIOD < 2);
    match cause {
        BubbleCause::LaunchRamp => rises,
        BubbleCause::WaveQuantisation => x % 4 == 0,
        BubbleCause::TailImbalance => falls,
        BubbleCause::InterKernelGap => y % 4 == 0,
        BubbleCause::MergeWait => x % 4 < 2 && y % 4 < 2,
        BubbleCause::DependencyWait => rises || falls,
        BubbleCause::ProbeCost => x % 4 == 0 || y % 4 == 0,
        BubbleCause::Other => x < 2 && y < 2,
    }
}

/// The same as the lines of a path over 8 × 8 units.
pub fn path(cause: BubbleCause) -> &'static str {
    match cause {
        BubbleCause::LaunchRamp => "M-1 1L1 -1M0 8L8 0M7 9L9 7",
        BubbleCause::WaveQuantisation => "M2 0V8M6 0V8",
        BubbleCause::TailImbalance => "M-1 7L1 9M0 0L8 8M7 -1L9 1",
        BubbleCause::InterKernelGap => "M0 2H8M0 6H8",
        BubbleCause::MergeWait => "M1 2H3M5 2H7M1 6H3M5 6H7",
        BubbleCause::DependencyWait => "M0 8L8 0M0 0L8 8",
        BubbleCause::ProbeCost => "M0 2H8M0 6H8M2 0V8M6 0V8",
        BubbleCause::Other => "M3 4H5",
    }
}

/// The texture: lines nearly whole, and what is between them faint.
pub fn texture() -> ColorImage {
    let alpha = |cause, x, y| if is_line(cause, x, y) { 235 } else { 62 };
    let band = |cause: BubbleCause| (0..BAND * PERIOD).map(move |at| alpha(cause, at % PERIOD, at / PERIOD));
    let pixels = BubbleCause::ALL.into_iter().flat_map(band).map(Color32::from_white_alpha).collect();
    ColorImage::new([PERIOD, CAUSES * BAND], pixels)
}

/// The cause whose hatch the corners of a rectangle have; their mean lies within its band.
pub fn cause_at(corners: &[Pos2]) -> Option<BubbleCause> {
    let mean = corners.iter().map(|uv| uv.y).sum::<f32>() / corners.len().max(1) as f32;
    BubbleCause::ALL.get((mean * CAUSES as f32) as usize).copied()
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
            push(&mut mesh, Rect::from_min_max(pos2(left, top), pos2(right, bottom)), gap.cause, tint(gap.cause));
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
                push(&mut mesh, Rect::from_min_max(pos2(left, top), pos2(right, top + height)), cause, tint);
            }
        });
    }
    mesh
}

/// A rectangle in the hatch of a cause.
pub fn push(mesh: &mut Mesh, rect: Rect, cause: BubbleCause, color: Color32) {
    let base = mesh.vertices.len() as u32;
    let corners = [rect.left_top(), rect.right_top(), rect.left_bottom(), rect.right_bottom()];
    // What is higher than its band has the last of its rows stretched, and no lane is.
    let down = |y: f32| (cause as usize * BAND) as f32 + (y - rect.top()).min(BAND as f32);
    let uv = |pos: Pos2| pos2(pos.x / PERIOD as f32, down(pos.y) / (CAUSES * BAND) as f32);
    mesh.vertices.extend(corners.map(|pos| Vertex { pos, uv: uv(pos), color }));
    mesh.indices.extend([base, base + 1, base + 2, base + 2, base + 1, base + 3]);
}

#[cfg(test)]
mod tests {
    use egui::vec2;

    use super::*;

    #[test]
    fn every_cause_has_a_hatch_of_its_own_in_texture_and_picture() {
        let image = texture();
        let hatch = |cause: BubbleCause| &image.pixels[cause as usize * BAND * PERIOD..][..PERIOD * PERIOD];
        for (at, cause) in BubbleCause::ALL.into_iter().enumerate() {
            for other in &BubbleCause::ALL[..at] {
                assert!(hatch(cause) != hatch(*other) && path(cause) != path(*other), "{cause:?} and {other:?}");
            }
            let mut mesh = Mesh::default();
            for height in [1.0, 9.0, 40.0, 64.0] {
                push(&mut mesh, Rect::from_min_size(pos2(3.0, 7.0), vec2(90.0, height)), cause, Color32::RED);
                let corners: Vec<_> = mesh.vertices.iter().rev().take(4).map(|vertex| vertex.uv).collect();
                assert_eq!(cause_at(&corners), Some(cause));
            }
        }
    }
}
