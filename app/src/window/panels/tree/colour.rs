//! What the colour of a node means.

use egui::Color32;

use super::layout::Item;
use crate::theme::mix;
use crate::timeline::colour::tile_colour;
use crate::window::frame::Frame;

/// What the colour of a node tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Colour {
    /// Its pack, as on the timeline.
    #[default]
    Pack,
    /// The tile of its pack.
    Tile,
    /// How deep it stands.
    Level,
    /// How often its tokens are read, over once.
    Waste,
}

impl Colour {
    /// All of them, in the order of the buttons.
    pub(super) const ALL: [Self; 4] = [Self::Pack, Self::Tile, Self::Level, Self::Waste];

    /// Name on the button.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pack => "pack",
            Self::Tile => "tile",
            Self::Level => "level",
            Self::Waste => "waste",
        }
    }

    /// What it tells, in one sentence.
    pub(super) fn about(self) -> &'static str {
        match self {
            Self::Pack => "colour by pack, as on the timeline",
            Self::Tile => "colour by the tile of the node's first pack",
            Self::Level => "colour by level of the tree alone",
            Self::Waste => {
                "the redder, the more often CTAs read the tokens of the node than once (derived from the plan)"
            }
        }
    }

    /// Colour of a node, by the plan that is shown.
    pub(super) fn of(self, frame: &Frame<'_>, item: &Item) -> Color32 {
        let t = frame.tokens;
        let plain = t.node(item.depth, item.node.0);
        let Some(shown) = frame.shown.filter(|_| !frame.stale) else {
            return if self == Self::Level { t.node(item.depth, 0) } else { plain };
        };
        match self {
            Self::Pack => plain,
            Self::Level => t.node(item.depth, 0),
            Self::Tile => {
                let pack = shown.first_packs.get(item.node.at()).copied().flatten();
                let tile = pack.and_then(|pack| shown.planned.plan.packs.get(pack.at())).map(|pack| pack.tile);
                tile.map_or(t.idle, |tile| tile_colour(t, tile))
            }
            Self::Waste => {
                let reads = shown.nodes.get(item.node.at()).map_or(1.0, engine::metrics::NodeTraffic::redundancy);
                mix(t.better, t.error, ((reads - 1.0) / 3.0).clamp(0.0, 1.0) as f32)
            }
        }
    }
}
