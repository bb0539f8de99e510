//! The colours of CTAs and of tiles.

use egui::Color32;
use engine::plan::LaunchPlan;
use engine::tile::Tile;

use super::lanes::Entity;
use crate::theme::Tokens;

/// Colour of a tile, wherever one stands for its packs.
pub fn tile_colour(tokens: &Tokens, tile: Tile) -> Color32 {
    tokens.entity(tile.m.trailing_zeros() * 3 + tile.n.trailing_zeros())
}

/// Colour of a pack, of prefill, or of the merge. Beside prefill all decodes have one colour, so that
/// the two are told apart at a glance.
pub fn entity_colour(tokens: &Tokens, plan: &LaunchPlan, entity: Entity, by_tile: bool) -> Color32 {
    let pack = entity.pack().and_then(|pack| plan.packs.get(pack.at()));
    match (entity, pack) {
        (Entity::Prefill, _) => tokens.prefill,
        (Entity::Both, _) => tokens.both,
        (Entity::Merge, _) => tokens.merge,
        (_, Some(_)) if !by_tile && !plan.prefill.is_empty() => tokens.decode,
        (_, Some(found)) if by_tile => tile_colour(tokens, found.tile),
        (_, Some(found)) => tokens.entity(found.node.0),
        (_, None) => tokens.idle,
    }
}
