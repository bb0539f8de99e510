//! The colours of CTAs and of tiles.

use egui::Color32;
use engine::plan::LaunchPlan;
use engine::tile::Tile;
use engine::units::NodeIdx;
use engine::workload::{BatchSpec, PrefixTree};

use super::lanes::Entity;
use crate::theme::Tokens;

/// Colour of a tile, wherever one stands for its packs.
pub fn tile_colour(tokens: &Tokens, tile: Tile) -> Color32 {
    tokens.entity(tile.m.trailing_zeros() * 3 + tile.n.trailing_zeros())
}

/// The level of each node of a prefix tree.
#[derive(Clone, Debug, Default)]
pub struct Levels(Vec<u32>);

impl Levels {
    /// Those of a tree.
    pub fn of(tree: &PrefixTree) -> Self {
        Self(tree.nodes.iter().map(|node| node.depth).collect())
    }

    /// Those of the tree of a batch; none of one that is damaged.
    pub fn of_batch(spec: &BatchSpec) -> Self {
        spec.build().map(|batch| Self::of(&PrefixTree::of(&batch))).unwrap_or_default()
    }

    /// That of a node; the top where it is not known.
    pub fn get(&self, node: NodeIdx) -> u32 {
        self.0.get(node.at()).copied().unwrap_or(0)
    }
}

/// Colour of a pack, of prefill, or of the merge. Beside prefill all decodes have one colour, so that
/// the two are told apart at a glance.
pub fn entity_colour(
    tokens: &Tokens,
    (plan, levels): (&LaunchPlan, &Levels),
    entity: Entity,
    by_tile: bool,
) -> Color32 {
    let pack = entity.pack().and_then(|pack| plan.packs.get(pack.at()));
    match (entity, pack) {
        (Entity::Prefill, _) => tokens.prefill,
        (Entity::Both, _) => tokens.both,
        (Entity::Merge, _) => tokens.merge,
        (_, Some(_)) if !by_tile && !plan.prefill.is_empty() => tokens.decode,
        (_, Some(found)) if by_tile => tile_colour(tokens, found.tile),
        (_, Some(found)) => tokens.node(levels.get(found.node), found.node.0),
        (_, None) => tokens.idle,
    }
}
