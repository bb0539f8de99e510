//! What a drag draws: where it was pressed decides what is in the hand, and where the pointer is then makes the stroke.
//! All of it is measured in the layout in which the drag began, so that nothing runs away under the pointer.

use std::sync::Arc;

use egui::{Pos2, Rect};
use engine::workload::BatchSpec;

use super::layout::{Item, Layout};
use super::strip::{Chunk, ChunkPart, Strip};
use crate::document::drawing::{self, Path, Pick, Stroke};

/// Pixels at the lower and the right edge of a node that take hold of them.
const EDGE: f32 = 6.0;
/// Least size of a node whose edges can be taken.
const WIDE: f32 = 14.0;

/// What is in the hand.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Grip {
    /// Free canvas: a new node, under the one above.
    New(Option<Path>),
    /// The lower edge: tokens.
    Lower(Item),
    /// The right edge: requests of a leaf, copies of all others.
    Right(Item),
    /// Nodes with all below them.
    Nodes(Vec<Path>),
    /// Several at once.
    Band,
    /// Free strip: a new chunk.
    NewChunk,
    /// A chunk, by its middle or by an end.
    Chunk(Chunk, ChunkPart),
}

/// A drag that goes on.
#[derive(Clone, Debug)]
pub(super) struct Drag {
    /// What is in the hand.
    pub(super) grip: Grip,
    /// Where it was pressed.
    pub(super) from: Pos2,
    /// The batch then.
    pub(super) spec: Arc<BatchSpec>,
    /// Its layout then.
    pub(super) layout: Layout,
    /// The strip then.
    pub(super) strip: Strip,
}

/// What is at a place.
pub(super) fn grip(layout: &Layout, strip: &Strip, place: Pos2, picked: &[Pick], shift: bool) -> Grip {
    if strip.rect.contains(place) {
        return strip.at(place).map_or(Grip::NewChunk, |(chunk, part)| Grip::Chunk(chunk, part));
    }
    let Some(item) = layout.at(place) else {
        let under = layout.above(place).and_then(|item| item.pick.path().cloned());
        return if shift { Grip::Band } else { Grip::New(under) };
    };
    let size = item.place.size();
    if size.y > WIDE && item.place.bottom() - place.y < EDGE {
        return Grip::Lower(item.clone());
    }
    if size.x > WIDE && item.place.right() - place.x < EDGE {
        return Grip::Right(item.clone());
    }
    match &item.pick {
        Pick::Request(_) => Grip::Right(item.clone()),
        Pick::Node(path) if picked.contains(&item.pick) => {
            let mut all: Vec<Path> = picked.iter().filter_map(|pick| pick.path().cloned()).collect();
            all.retain(|other| other != path);
            all.insert(0, path.clone());
            Grip::Nodes(all)
        }
        Pick::Node(path) => Grip::Nodes(vec![path.clone()]),
    }
}

impl Drag {
    /// The stroke with the pointer at a place; none where the hand does nothing there.
    pub(super) fn stroke(&self, place: Pos2, alt: bool) -> Option<Stroke> {
        let scale = &self.layout.scale;
        match &self.grip {
            Grip::New(under) => {
                let size = (place - self.from).abs();
                let width = scale.requests(size.x).max(1);
                (size.x.max(size.y) > 3.0).then(|| Stroke::Add {
                    under: under.clone(),
                    tokens: scale.tokens(size.y),
                    width,
                    copies: alt,
                })
            }
            Grip::Lower(item) => Some(Stroke::Set {
                of: item.pick.clone(),
                tokens: Some(self.whole(item, scale.tokens(place.y - item.place.top()))),
                copies: None,
                requests: None,
            }),
            Grip::Right(item) => Some(self.wider(item, place.x, alt)),
            Grip::Nodes(what) => {
                let over = self.landing(place);
                // Over itself, the hand has not moved it yet.
                let still = over.is_some_and(|item| item.pick.path().is_some_and(|path| what.contains(path)));
                let under = over.and_then(|item| item.pick.path().cloned());
                let same = |path: &Path| path.parent() == under;
                (!still && (alt || !what.iter().all(same))).then(|| Stroke::Move {
                    what: what.clone(),
                    under,
                    copy: alt,
                })
            }
            Grip::Band => None,
            Grip::NewChunk => self.strip.new_chunk(self.from, place),
            Grip::Chunk(chunk, part) => Some(self.strip.moved(chunk, *part, self.from, place)),
        }
    }

    /// The node that moved nodes would land under.
    pub(super) fn landing(&self, place: Pos2) -> Option<&Item> {
        matches!(self.grip, Grip::Nodes(_)).then(|| self.layout.at(place)).flatten()
    }

    /// What the band holds.
    pub(super) fn band(&self, place: Pos2) -> Option<(Rect, Vec<Pick>)> {
        if self.grip != Grip::Band {
            return None;
        }
        let band = Rect::from_two_pos(self.from, place);
        let mut held: Vec<Pick> =
            self.layout.items.iter().filter(|item| band.intersects(item.place)).map(|item| item.pick.clone()).collect();
        held.sort();
        held.dedup();
        Some((band, held))
    }

    /// The mouse draws whole blocks; numbers that are typed can be any.
    fn whole(&self, item: &Item, tokens: u64) -> u64 {
        // An edge that has hardly moved leaves the tokens as they are.
        let unmoved = self.layout.scale.tokens(item.place.height());
        if tokens == unmoved { item.tokens } else { drawing::whole(tokens, drawing::block(&self.spec)) }
    }

    fn wider(&self, item: &Item, x: f32, alt: bool) -> Stroke {
        let scale = &self.layout.scale;
        let (of, one) = (item.pick.clone(), item.requests as f32 * scale.request);
        let node = item.pick.path().and_then(|path| path.node(&self.spec));
        let is_one_leaf = node.is_some_and(|node| node.children.is_empty() && node.repeat == 1);
        if is_one_leaf && !alt {
            let requests = scale.requests(x - item.place.left()).max(1);
            return Stroke::Set { of, tokens: None, copies: None, requests: Some(requests) };
        }
        let first = item.place.left() - one * item.copy as f32;
        let copies = ((x - first) / one.max(1e-3)).round().clamp(1.0, 100_000.0) as u32;
        Stroke::Set { of, tokens: None, copies: Some(copies), requests: None }
    }
}
