//! Where a launch stands beside others: its share of the SMs, and whether it starts while the launch before
//! it runs.
//!
//! Both lie outside the serial form of a launch, so that plans without them keep the bytes and the digest
//! that they have always had. Where a plan has some, the list of them follows its bytes in the digest, and
//! has a chunk of its own in a capture.

use serde::{Deserialize, Serialize};

use crate::plan::{CtaOrder, Launch, LaunchKind, LaunchPlan, Strategy};
use crate::tile::Tile;
use crate::units::PackIdx;

/// Most rows of a tile of packscope's decode kernels.
const LARGEST_DECODE: u32 = 64;

/// What one launch says of its place beside others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The launch.
    pub launch: u32,
    /// SMs that its persistent grid may use; `None` for all.
    pub sms: Option<u32>,
    /// Whether it may start once every CTA of the launch before it on its stream has started.
    pub programmatic: bool,
}

impl LaunchPlan {
    /// The launches that say something of their place, in order; most plans have none.
    pub fn placements(&self) -> Vec<Placement> {
        let of = |(launch, at): (u32, &Launch)| Placement { launch, sms: at.sms, programmatic: at.programmatic };
        let all = (0..).zip(&self.launches).map(of);
        all.filter(|placement| placement.sms.is_some() || placement.programmatic).collect()
    }

    /// Puts launches in their places; a launch that is not there is left out.
    pub fn place(&mut self, placements: &[Placement]) {
        for placement in placements {
            if let Some(launch) = self.launches.get_mut(placement.launch as usize) {
                (launch.sms, launch.programmatic) = (placement.sms, placement.programmatic);
            }
        }
    }

    /// Whether a launch is of the lean decode kernel that fits beside slim prefill, rather than of the tile's own.
    pub fn is_lean(&self, launch: &Launch) -> bool {
        self.strategy == Strategy::CoResident && launch.kind.is_persistent()
    }

    /// Whether packscope's kernels compute the packs of a launch as prefill rows without a mask: where each CTA has one
    /// query head, or the tile has more rows than any decode kernel's, or a pack has more than its tile.
    pub fn is_gathered(&self, launch: &Launch) -> bool {
        let rows = |pack: &PackIdx| self.pack(*pack).queries_len * self.shape.group();
        match launch.kind {
            LaunchKind::Attention(_) if launch.order == CtaOrder::QueryHeads => true,
            LaunchKind::Attention(tile) => {
                let packs = self.packs_of(launch);
                let subtrees = || packs.iter().all(|pack| self.pack(*pack).is_subtree(self.shape.block_size));
                packs.iter().any(|pack| rows(pack) > tile.m) || (tile.m > LARGEST_DECODE && !subtrees())
            }
            LaunchKind::Hybrid(_) => launch.kind.takes_from_queue(),
            _ => false,
        }
    }

    /// Most rows of a pack of a tile, in all launches whose packs are not computed as prefill rows.
    pub fn most_rows_of(&self, tile: Tile) -> u32 {
        let decodes = self.launches.iter().filter(|launch| !self.is_gathered(launch));
        let packs = decodes.flat_map(|launch| self.packs_of(launch)).map(|pack| self.pack(*pack));
        let rows = packs.filter(|pack| pack.tile == tile).map(|pack| pack.queries_len * self.shape.group());
        rows.max().unwrap_or(0)
    }

    /// Whether a persistent launch has packs of several tiles.
    pub fn is_mixed(&self, launch: &Launch) -> bool {
        let packs = self.packs_of(launch);
        let first = packs.first().map(|pack| self.pack(*pack).tile);
        launch.kind.is_persistent() && packs.iter().any(|pack| Some(self.pack(*pack).tile) != first)
    }

    /// The launch before launch `at` on its stream.
    pub fn before_on_stream(&self, at: usize) -> Option<usize> {
        let stream = self.launches.get(at)?.stream;
        (0..at).rev().find(|before| self.launches[*before].stream == stream)
    }
}
