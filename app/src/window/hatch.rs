//! The hatches of bubbles in the window: one texture, made once.

use egui::{Context, Id, Mesh, Rect, Shape, TextureHandle, TextureOptions, TextureWrapMode, Ui};
use engine::metrics::BubbleCause;

use crate::theme::Tokens;
use crate::timeline::bubbles::{colour, push, texture};

/// The texture.
pub(crate) fn of(ctx: &Context) -> TextureHandle {
    let id = Id::unique("hatches of bubbles");
    if let Some(made) = ctx.data(|data| data.get_temp::<TextureHandle>(id)) {
        return made;
    }
    let options = TextureOptions { wrap_mode: TextureWrapMode::Repeat, ..TextureOptions::NEAREST };
    let made = ctx.load_texture("hatch", texture(), options);
    ctx.data_mut(|data| data.insert_temp(id, made.clone()));
    made
}

/// A place in the hatch and colour of a cause.
pub(crate) fn fill(ui: &Ui, tokens: &Tokens, place: Rect, cause: BubbleCause) {
    let mut mesh = Mesh::with_texture(of(ui.ctx()).id());
    push(&mut mesh, place, cause, colour(tokens, cause));
    ui.painter().add(Shape::mesh(mesh));
}
