//! Textures of the window, each made once: the hatches of bubbles, and the grain of lanes that were simulated.

use egui::{
    Color32, ColorImage, Context, Id, Mesh, Painter, Rect, Shape, TextureHandle, TextureOptions, TextureWrapMode, Ui,
};
use engine::metrics::BubbleCause;

use crate::theme::Tokens;
use crate::timeline::bubbles::{colour, push, texture};

/// Pixels after which the grain comes again.
const GRAIN: usize = 4;

/// A texture that repeats, made where it is not there yet.
fn made(ctx: &Context, name: &'static str, image: impl FnOnce() -> ColorImage) -> TextureHandle {
    let id = Id::unique(name);
    if let Some(made) = ctx.data(|data| data.get_temp::<TextureHandle>(id)) {
        return made;
    }
    let options = TextureOptions { wrap_mode: TextureWrapMode::Repeat, ..TextureOptions::NEAREST };
    let made = ctx.load_texture(name, image(), options);
    ctx.data_mut(|data| data.insert_temp(id, made.clone()));
    made
}

/// The hatches of all causes.
pub(crate) fn of(ctx: &Context) -> TextureHandle {
    made(ctx, "hatches of bubbles", texture)
}

/// A place in the hatch and colour of a cause.
pub(crate) fn fill(ui: &Ui, tokens: &Tokens, place: Rect, cause: BubbleCause) {
    let mut mesh = Mesh::with_texture(of(ui.ctx()).id());
    push(&mut mesh, place, cause, colour(tokens, cause));
    ui.painter().add(Shape::mesh(mesh));
}

/// Lets the ground shine through lanes in a fine grain: they were simulated.
pub(crate) fn grain(painter: &Painter, tokens: &Tokens, place: Rect) {
    let dot = |at: usize| matches!((at % GRAIN, at / GRAIN), (0, 0) | (2, 2));
    let pixel = |at| Color32::from_white_alpha(if dot(at) { 110 } else { 0 });
    let image = || ColorImage::new([GRAIN, GRAIN], (0..GRAIN * GRAIN).map(pixel).collect());
    let mut mesh = Mesh::with_texture(made(painter.ctx(), "grain", image).id());
    // One dot a pixel of the screen, whatever the scale of text.
    let scale = painter.ctx().pixels_per_point() / GRAIN as f32;
    let uv = Rect::from_min_max((place.min.to_vec2() * scale).to_pos2(), (place.max.to_vec2() * scale).to_pos2());
    mesh.add_rect_with_uv(place, uv, tokens.canvas);
    painter.add(Shape::mesh(mesh));
}
