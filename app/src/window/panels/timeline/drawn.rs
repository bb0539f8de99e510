//! The meshes of a run's lanes and bubbles, kept for as long as nothing that they show changes: under a pointer that
//! moves, and while playback runs, millions of slices are gone through once.

use std::sync::{Arc, Weak};

use egui::{Context, Mesh, TextureId};
use engine::metrics::BubbleCause;
use engine::plan::LaunchPlan;

use super::blocks::Block;
use super::regions::Marks;
use crate::runs::run::Run;
use crate::runs::shown::Shown;
use crate::theme::mix;
use crate::timeline::bubbles;
use crate::timeline::lanes::Piece;
use crate::timeline::layout::Layout;
use crate::timeline::only::Only;
use crate::window::frame::Frame;
use crate::window::panels::lanes::Painted;
use crate::window::selection::Lit;

/// The meshes of one run.
#[derive(Clone, Debug)]
pub(super) struct Drawn {
    key: Key,
    /// Bubbles, under the lanes.
    pub(super) bubbles: Arc<Mesh>,
    /// CTAs, or strips.
    pub(super) lanes: Painted,
    /// Bubbles of the cause that is looked at, over strips.
    pub(super) over: Option<Arc<Mesh>>,
}

/// All that the meshes are made from.
#[derive(Clone, Debug)]
struct Key {
    run: Weak<Run>,
    plan: Weak<LaunchPlan>,
    layout: Layout,
    look: Look,
}

/// What colours hang on.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Look {
    tokens: usize,
    by_tile: bool,
    only: Option<Only>,
    cause: Option<BubbleCause>,
    hovered: Option<BubbleCause>,
    hatch: TextureId,
    /// Selection and hover, where others are drawn back.
    lit: Option<[Lit; 2]>,
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.run.ptr_eq(&other.run)
            && self.plan.ptr_eq(&other.plan)
            && self.layout == other.layout
            && self.look == other.look
    }
}

impl Key {
    fn of(frame: &Frame<'_>, shown: &Shown, block: &Block<'_>, marks: &Marks<'_>) -> Self {
        let look = Look {
            tokens: std::ptr::from_ref(frame.tokens) as usize,
            by_tile: frame.by_tile,
            only: marks.only,
            cause: marks.cause,
            hovered: marks.hovered,
            hatch: marks.hatch.id(),
            lit: frame.selected.draws_others_back().then_some([frame.selected, frame.hovered]),
        };
        let (run, plan) = (Arc::downgrade(block.run), Arc::downgrade(&shown.planned.plan));
        Self { run, plan, layout: block.layout.clone(), look }
    }
}

impl Drawn {
    /// The meshes of each run: those of the frame before where they would be the same.
    pub(super) fn of(
        ctx: &Context,
        before: &mut Vec<Self>,
        frame: &Frame<'_>,
        shown: &Shown,
        (blocks, marks): (&[Block<'_>], &Marks<'_>),
    ) {
        let mut now = Vec::with_capacity(blocks.len());
        for block in blocks {
            let key = Key::of(frame, shown, block, marks);
            let kept = before.iter().position(|drawn| drawn.key == key);
            now.push(
                kept.map_or_else(|| Self::new(ctx, key, frame, shown, (block, marks)), |at| before.swap_remove(at)),
            );
        }
        *before = now;
    }

    fn new(
        ctx: &Context,
        key: Key,
        frame: &Frame<'_>,
        shown: &Shown,
        (block, marks): (&Block<'_>, &Marks<'_>),
    ) -> Self {
        let Block { run, layout, .. } = block;
        let (gaps, hatch) = ((&run.lanes, &run.gaps), marks.hatch.id());
        let tint = |cause| {
            let is_back = marks.hovered.or(marks.cause).is_some_and(|lit| lit != cause);
            mix(bubbles::colour(frame.tokens, cause), frame.tokens.canvas, if is_back { 0.8 } else { 0.25 })
        };
        let focused = frame.selected.draws_others_back();
        let colour = |piece: &Piece| {
            let plain = frame.entity_colour(shown, piece.entity);
            let folded = if piece.count > 1 { mix(plain, frame.tokens.canvas, 0.15) } else { plain };
            let left_out = marks.only.is_some_and(|only| !only.has(&shown.planned.plan, piece.entity));
            let is_back = left_out || (focused && !frame.lights(shown, piece.entity));
            if is_back { frame.tokens.dimmed(folded) } else { folded }
        };
        let over = marks.cause.map(|cause| {
            let tint = (cause, bubbles::colour(frame.tokens, cause));
            Arc::new(bubbles::over_strips(gaps, layout, hatch, tint))
        });
        Self {
            key,
            bubbles: Arc::new(bubbles::mesh(gaps, layout, hatch, tint)),
            lanes: Painted::new(ctx, frame.is_picture, (run, layout), colour),
            over,
        }
    }
}
