//! The one colour that is looked at, of CTAs or of bubbles; all others are drawn back.

use engine::metrics::BubbleCause;
use engine::plan::LaunchPlan;
use engine::tile::Tile;

use super::lanes::Entity;

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Only {
    /// Bubbles of a cause.
    Cause(BubbleCause),
    /// CTAs that compute decodes, whatever their packs are.
    Decode,
    /// CTAs that stand for this, beside decodes.
    Role(Entity),
    /// CTAs of a tile.
    Tile(Tile),
}

impl Only {
    /// Whether CTAs of a plan that stand for something are looked at.
    pub fn has(self, plan: &LaunchPlan, entity: Entity) -> bool {
        match self {
            Self::Cause(_) => false,
            Self::Decode => entity.pack().is_some(),
            Self::Role(role) => entity == role,
            Self::Tile(tile) => {
                entity.pack().and_then(|pack| plan.packs.get(pack.at())).is_some_and(|pack| pack.tile == tile)
            }
        }
    }

    /// The cause, where bubbles of one are looked at.
    pub fn cause(self) -> Option<BubbleCause> {
        if let Self::Cause(cause) = self { Some(cause) } else { None }
    }
}
