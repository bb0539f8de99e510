//! Where nodes lie on the canvas: pure geometry. Width is requests, height the square root of tokens, so that a short
//! node beside a long one stays visible.
//!
//! Copies that would be narrower than 3 pixels are one rectangle, with what is below one of them in proportion; and a
//! node under 3 pixels joins the one before it on its level. So 10,000 requests draw as fast as a hundred.

use egui::{Pos2, Rect, pos2};
use engine::units::NodeIdx;
use engine::workload::{BatchSpec, NodeSpec, RequestSpec};

use crate::document::drawing::{Numbered, Numbers, Path, Pick, is_one_with_child};

/// Narrowest rectangle that is drawn by itself.
const FOLD: f32 = 3.0;
/// Part of the canvas that nodes fill; the rest is free to draw on.
const FILLED: (f32, f32) = (0.88, 0.84);
/// Fewest requests and least depth that the canvas has room for.
const LEAST: (f32, f32) = (8.0, 40.0);

/// How requests and tokens become pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    /// Left top of the first root.
    pub(super) origin: Pos2,
    /// Pixels of a request.
    pub(super) request: f32,
    /// Pixels of the square root of a token.
    pub(super) token: f32,
}

impl Scale {
    /// Tokens of a node that is so many pixels high.
    pub(super) fn tokens(&self, height: f32) -> u64 {
        (height.max(0.0) / self.token).powi(2).round() as u64
    }

    /// Requests of so many pixels.
    pub(super) fn requests(&self, width: f32) -> u32 {
        (width / self.request).round().clamp(0.0, 100_000.0) as u32
    }

    /// Pixels of so many tokens.
    pub(super) fn height(&self, tokens: u64) -> f32 {
        (tokens as f32).sqrt() * self.token
    }
}

/// A rectangle of the canvas: a node, a listed decode, or several that are too narrow to be drawn apart.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Item {
    /// What it is.
    pub(super) pick: Pick,
    /// Which copy.
    pub(super) copy: u32,
    /// Its number in the tree of the plan.
    pub(super) node: NodeIdx,
    /// Where it lies.
    pub(super) place: Rect,
    /// Rectangles that it stands for.
    pub(super) folded: u64,
    /// Nodes above it.
    pub(super) depth: u32,
    /// KV tokens.
    pub(super) tokens: u64,
    /// Requests at and below one copy.
    pub(super) requests: u64,
    /// Requests that end at one copy.
    pub(super) ending: u32,
}

/// All rectangles, parents before children.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// The rectangles.
    pub(super) items: Vec<Item>,
    /// Their scale.
    pub(super) scale: Scale,
}

/// The part of a batch that the canvas shows, with its sizes.
struct Shown<'a> {
    spec: &'a BatchSpec,
    numbers: &'a Numbers,
    top: Option<&'a Path>,
}

impl Shown<'_> {
    /// Requests and depth.
    fn size(&self) -> (u64, f32) {
        if let Some(top) = self.top
            && let Some((at, node)) = place(self.spec, self.numbers, top)
        {
            let own = self.numbers.all[at];
            return (own.requests.saturating_mul(u64::from(node.repeat)), own.depth);
        }
        let mut at = 0;
        let (mut requests, mut depth) = (0_u64, 0.0_f32);
        for root in &self.spec.roots {
            let own = self.numbers.all[at];
            requests = requests.saturating_add(own.requests.saturating_mul(u64::from(root.repeat)));
            depth = depth.max(own.depth);
            at += own.nodes;
        }
        for request in &self.spec.requests {
            if let RequestSpec::Decode { kv, count } = request {
                requests = requests.saturating_add(u64::from(*count));
                depth = depth.max((*kv as f32).sqrt());
            }
        }
        (requests, depth)
    }
}

/// The scale at which a batch, or what is below `top`, fits.
pub(super) fn fit(spec: &BatchSpec, numbers: &Numbers, top: Option<&Path>, rect: Rect) -> Scale {
    let (requests, depth) = Shown { spec, numbers, top }.size();
    Scale {
        origin: rect.left_top(),
        request: rect.width() * FILLED.0 / (requests as f32).max(LEAST.0),
        token: rect.height() * FILLED.1 / depth.max(LEAST.1),
    }
}

/// Position of a node among all, with the node.
fn place<'a>(spec: &'a BatchSpec, numbers: &Numbers, path: &Path) -> Option<(usize, &'a NodeSpec)> {
    let (mut siblings, mut at, mut found) = (&spec.roots, 0, None);
    for step in path.steps() {
        if let Some((_, node)) = found {
            let node: &NodeSpec = node;
            siblings = &node.children;
            at += 1;
        }
        siblings.get(..*step)?;
        for _ in 0..*step {
            at += numbers.all.get(at)?.nodes;
        }
        found = Some((at, siblings.get(*step)?));
    }
    found
}

/// Lays out a batch, or what is below `top`.
pub(super) fn layout(spec: &BatchSpec, numbers: &Numbers, top: Option<&Path>, scale: Scale) -> Layout {
    let mut walk = Walk { numbers, scale, items: Vec::new(), last: Vec::new() };
    let start = (scale.origin.x, scale.origin.y);
    if let Some((top, (at, node), number)) =
        top.and_then(|top| Some((top, place(spec, numbers, top)?, numbers.number(spec, top)?)))
    {
        let spot =
            Spot { at, left: start.0, top: start.1, request: scale.request, number: u64::from(number.0), depth: 0 };
        walk.node(node, &mut top.steps().to_vec(), spot);
        return Layout { items: walk.items, scale };
    }
    let mut spot = Spot { at: 0, left: start.0, top: start.1, request: scale.request, number: 0, depth: 0 };
    for (position, root) in spec.roots.iter().enumerate() {
        let own = numbers.all[spot.at];
        walk.node(root, &mut vec![position], spot);
        let copies = u64::from(root.repeat);
        spot.left += own.requests.saturating_mul(copies) as f32 * spot.request;
        spot.number = spot.number.saturating_add(own.numbers.saturating_mul(copies));
        spot.at += own.nodes;
    }
    for (position, request) in spec.requests.iter().enumerate() {
        if let RequestSpec::Decode { kv, count } = request {
            let leaf = NodeSpec { repeat: *count, ..NodeSpec::leaf(*kv) };
            let own = Numbered { requests: 1, numbers: 1, nodes: 1, depth: 0.0 };
            walk.copies(&leaf, own, &Pick::Request(position), spot, |_, _| ());
            spot.left += *count as f32 * spot.request;
            spot.number = spot.number.saturating_add(u64::from(*count));
        }
    }
    Layout { items: walk.items, scale }
}

/// Where a node stands: in the list, on the canvas, in the tree.
#[derive(Clone, Copy)]
struct Spot {
    at: usize,
    left: f32,
    top: f32,
    request: f32,
    number: u64,
    depth: u32,
}

struct Walk<'a> {
    numbers: &'a Numbers,
    scale: Scale,
    items: Vec<Item>,
    /// Last rectangle of each level.
    last: Vec<Option<usize>>,
}

impl Walk<'_> {
    fn node(&mut self, node: &NodeSpec, steps: &mut Vec<usize>, spot: Spot) {
        let own = self.numbers.all[spot.at];
        let pick = Pick::Node(Path::of_steps(steps));
        let one = is_one_with_child(node);
        self.copies(node, own, &pick, spot, |walk, spot| {
            let mut below = Spot { at: spot.at + 1, depth: spot.depth + 1, ..spot };
            below.top += walk.scale.height(node.tokens);
            below.number = below.number.saturating_add(u64::from(!one));
            // Requests that end here come first.
            below.left += node.ending() as f32 * spot.request;
            for (position, child) in node.children.iter().enumerate() {
                let own = walk.numbers.all[below.at];
                steps.push(position);
                walk.node(child, steps, below);
                steps.pop();
                let copies = u64::from(child.repeat);
                below.left += own.requests.saturating_mul(copies) as f32 * spot.request;
                below.number = below.number.saturating_add(own.numbers.saturating_mul(copies));
                below.at += own.nodes;
            }
        });
    }

    /// Each copy with what is below it, or all as one rectangle where they are narrow.
    fn copies(
        &mut self,
        node: &NodeSpec,
        own: Numbered,
        pick: &Pick,
        spot: Spot,
        mut below: impl FnMut(&mut Self, Spot),
    ) {
        let width = own.requests as f32 * spot.request;
        if width < FOLD && node.repeat > 1 {
            let all = Spot { request: spot.request * node.repeat as f32, ..spot };
            self.push(node, own, (pick, 0, u64::from(node.repeat)), all);
            below(self, all);
            return;
        }
        for copy in 0..node.repeat {
            let mut one = spot;
            one.left += width * copy as f32;
            one.number = one.number.saturating_add(own.numbers.saturating_mul(u64::from(copy)));
            self.push(node, own, (pick, copy, 1), one);
            below(self, one);
        }
    }

    fn push(&mut self, node: &NodeSpec, own: Numbered, (pick, copy, folded): (&Pick, u32, u64), spot: Spot) {
        let size = egui::vec2(own.requests as f32 * spot.request, self.scale.height(node.tokens).max(2.0));
        let place = Rect::from_min_size(pos2(spot.left, spot.top), size);
        let level = spot.depth as usize;
        self.last.resize(self.last.len().max(level + 1), None);
        if let Some(at) = self.last[level].filter(|at| place.right() - self.items[*at].place.left() < FOLD) {
            let before = &mut self.items[at];
            before.place = before.place.union(place);
            before.folded += folded;
            return;
        }
        self.last[level] = Some(self.items.len());
        self.items.push(Item {
            pick: pick.clone(),
            copy,
            node: NodeIdx(spot.number.min(u64::from(u32::MAX)) as u32),
            place,
            folded,
            depth: spot.depth,
            tokens: node.tokens,
            requests: own.requests,
            ending: node.ending(),
        });
    }
}

impl Layout {
    /// The rectangle at a place; the deepest where several meet.
    pub(super) fn at(&self, place: Pos2) -> Option<&Item> {
        self.items.iter().rev().find(|item| item.place.contains(place))
    }

    /// The node right above a free place: its child would be drawn there.
    pub(super) fn above(&self, place: Pos2) -> Option<&Item> {
        let over = |item: &&Item| item.place.x_range().contains(place.x) && item.place.bottom() <= place.y;
        let nodes = self.items.iter().filter(|item| matches!(item.pick, Pick::Node(_)));
        nodes.filter(over).max_by(|a, b| a.place.bottom().total_cmp(&b.place.bottom()))
    }

    /// The first rectangle of what is picked.
    pub(super) fn of(&self, pick: &Pick) -> Option<&Item> {
        self.items.iter().find(|item| item.pick == *pick)
    }
}

#[cfg(test)]
mod tests {
    use egui::vec2;
    use engine::workload::AttentionShape;

    use super::*;

    fn rect() -> Rect {
        Rect::from_min_size(pos2(0.0, 0.0), vec2(800.0, 400.0))
    }

    fn laid_out(spec: &BatchSpec) -> Layout {
        let numbers = Numbers::of(spec);
        layout(spec, &numbers, None, fit(spec, &numbers, None, rect()))
    }

    #[test]
    fn ten_thousand_requests_fold_and_none_is_lost() {
        let leaf = NodeSpec { repeat: 100, ..NodeSpec::leaf(64) };
        let root = NodeSpec { repeat: 100, children: vec![leaf], ..NodeSpec::leaf(512) };
        let apart = NodeSpec { children: vec![NodeSpec::leaf(16); 10_000], ..NodeSpec::leaf(512) };
        for roots in [vec![root], vec![apart]] {
            let spec = BatchSpec { roots, ..BatchSpec::empty(AttentionShape::default()) };
            let found = laid_out(&spec);
            assert!(found.items.len() < 2 * 800 / 3 + 4, "{}", found.items.len());
            assert!(found.items.iter().all(|item| rect().expand(1.0).contains_rect(item.place)));
            let nodes: u64 = found.items.iter().filter(|item| item.depth == 1).map(|item| item.folded).sum();
            assert!(nodes == 10_000 || found.items.iter().any(|item| item.folded >= 100), "{nodes}");
        }
    }

    #[test]
    fn what_is_drawn_has_its_size_back() {
        let inner = NodeSpec { requests: Some(2), children: vec![NodeSpec::leaf(100)], ..NodeSpec::leaf(256) };
        let spec = BatchSpec { roots: vec![inner], ..BatchSpec::empty(AttentionShape::default()) };
        let found = laid_out(&spec);
        let [root, leaf] = found.items.as_slice() else { panic!("{:?}", found.items) };
        assert_eq!((found.scale.tokens(root.place.height()), found.scale.requests(root.place.width())), (256, 3));
        let past_those_that_end = root.place.left() + 2.0 * found.scale.request;
        assert!((leaf.place.left() - past_those_that_end).abs() < 1e-3, "those that end come first");
        assert_eq!(found.above(leaf.place.center_bottom() + vec2(0.0, 9.0)).unwrap().node, leaf.node);
        assert_eq!(found.at(root.place.center()).unwrap().node, root.node);
    }

    #[test]
    fn a_subtree_fills_the_canvas_with_its_own_numbers() {
        let leaf = NodeSpec { repeat: 3, ..NodeSpec::leaf(64) };
        let inner = NodeSpec { repeat: 4, children: vec![leaf], ..NodeSpec::leaf(64) };
        let root = NodeSpec { children: vec![NodeSpec::leaf(32), inner], ..NodeSpec::leaf(64) };
        let spec = BatchSpec { roots: vec![root], ..BatchSpec::empty(AttentionShape::default()) };
        let numbers = Numbers::of(&spec);
        let top = Path::root(0).child(1);
        let found = layout(&spec, &numbers, Some(&top), fit(&spec, &numbers, Some(&top), rect()));
        assert_eq!((found.items.len(), found.items[0].node), (16, NodeIdx(2)));
        assert!(found.items.iter().map(|item| item.place.right()).fold(0.0, f32::max) > 700.0);
    }
}
