//! Lanes of a run as they are painted: one mesh of those that are told apart, and one picture of those that are strips.
//!
//! Strips have up to a cell of their own for each third pixel. As rectangles those are more triangles than all the rest
//! of the window has, each to be made, sent and rasterized; as pixels of a picture they are a few hundred kilobytes.

use std::sync::Arc;

use egui::{Color32, Context, Mesh, Painter, Rect, Shape, TextureHandle, TextureOptions, pos2};

use crate::runs::run::Run;
use crate::timeline::lanes::Piece;
use crate::timeline::layout::Layout;

/// What is painted of the lanes of a run, for as long as nothing that it shows changes.
#[derive(Clone)]
pub(super) struct Painted {
    lanes: Arc<Mesh>,
    /// The picture of the strips and where its rows go.
    strips: Option<(TextureHandle, Arc<Mesh>)>,
}

impl std::fmt::Debug for Painted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Painted").field("rectangles", &(self.lanes.indices.len() / 6)).finish_non_exhaustive()
    }
}

impl Painted {
    /// The lanes of a run in their layout. Of what is to be a drawing (`is_vector`) strips are rectangles too.
    pub(super) fn new(
        ctx: &Context,
        is_vector: bool,
        (run, layout): (&Run, &Layout),
        colour: impl Fn(&Piece) -> Color32,
    ) -> Self {
        let spans = &run.capture.spans;
        let most = if is_vector { 0 } else { ctx.input(|input| input.max_texture_side) };
        match layout.strip_image(&run.lanes, spans, most, &colour) {
            Some((image, rows)) => {
                let picture = ctx.load_texture("strips", image, TextureOptions::NEAREST);
                let mut mesh = Mesh::with_texture(picture.id());
                for (at, row) in rows.iter().enumerate() {
                    let v = |row: usize| row as f32 / rows.len() as f32;
                    mesh.add_rect_with_uv(
                        *row,
                        Rect::from_min_max(pos2(0.0, v(at)), pos2(1.0, v(at + 1))),
                        Color32::WHITE,
                    );
                }
                let lanes = layout.lane_mesh(&run.lanes, spans, &colour).0;
                Self { lanes: Arc::new(lanes), strips: Some((picture, Arc::new(mesh))) }
            }
            None => Self { lanes: Arc::new(layout.mesh(&run.lanes, spans, &colour).0), strips: None },
        }
    }

    /// Paints them.
    pub(super) fn paint(&self, painter: &Painter) {
        if let Some((_, strips)) = &self.strips {
            painter.add(Shape::Mesh(Arc::clone(strips)));
        }
        painter.add(Shape::Mesh(Arc::clone(&self.lanes)));
    }
}
