//! The prefill strip under the tree: each chunk on a line of its own, from its context to its end on one axis of KV
//! tokens. Pure geometry.

use egui::{Pos2, Rect, pos2};
use engine::workload::{BatchSpec, RequestSpec};

use crate::document::drawing::Stroke;

/// Height of a line, and that of the strip at most.
const LINE: f32 = 14.0;
const MOST: f32 = 84.0;
/// Free height to draw on.
const FREE: f32 = 22.0;
/// Pixels at the ends of a chunk that take hold of them.
const EDGE: f32 = 6.0;
/// KV tokens that the axis has at least, and how much of it is free behind the longest.
const LEAST: u64 = 4096;
const SPARE: f32 = 1.25;
/// Tokens to which the mouse snaps.
const STEP: u64 = 16;

/// Part of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkPart {
    /// Where its context ends.
    Begin,
    /// Its end.
    End,
    /// All of it.
    Middle,
}

/// A chunk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Chunk {
    /// Position in the list of requests.
    pub(super) at: usize,
    /// KV tokens before it.
    pub(super) context: u64,
    /// Query tokens.
    pub(super) tokens: u64,
    /// Where its query tokens lie.
    pub(super) place: Rect,
}

/// All chunks.
#[derive(Clone, Debug)]
pub(super) struct Strip {
    /// Where the strip lies.
    pub(super) rect: Rect,
    /// Pixels of a KV token.
    pub(super) token: f32,
    /// The chunks, from the top.
    pub(super) chunks: Vec<Chunk>,
}

fn chunks(spec: &BatchSpec) -> impl Iterator<Item = (usize, u64, u64)> {
    spec.requests.iter().enumerate().filter_map(|(at, request)| match request {
        RequestSpec::Prefill { chunk, kv } => Some((at, kv.saturating_sub(*chunk), *chunk)),
        _ => None,
    })
}

/// Height that the strip of a batch wants.
pub(super) fn height(spec: &BatchSpec) -> f32 {
    (chunks(spec).count() as f32 * LINE + FREE).min(MOST)
}

impl Strip {
    /// Lays out the chunks of a batch; on the axis of `before`, where a drag goes on.
    pub(super) fn new(spec: &BatchSpec, rect: Rect, before: Option<f32>) -> Self {
        let count = chunks(spec).count();
        let longest = chunks(spec).map(|(_, context, chunk)| context + chunk).max().unwrap_or(0).max(LEAST);
        let token = before.unwrap_or(rect.width() / (longest as f32 * SPARE));
        let line = ((rect.height() - FREE * 0.6) / count.max(1) as f32).min(LINE);
        let placed = chunks(spec).enumerate().map(|(line_at, (at, context, chunk))| {
            let top = rect.top() + 2.0 + line_at as f32 * line;
            let left = rect.left() + context as f32 * token;
            let right = rect.left() + (context + chunk) as f32 * token;
            let place = Rect::from_min_max(pos2(left, top), pos2(right.max(left + 2.0), top + (line - 2.0).max(1.0)));
            Chunk { at, context, tokens: chunk, place }
        });
        Self { rect, token, chunks: placed.collect() }
    }

    /// The chunk at a place, with what of it is there.
    pub(super) fn at(&self, place: Pos2) -> Option<(Chunk, ChunkPart)> {
        let found =
            self.chunks.iter().find(|chunk| chunk.place.expand2(egui::vec2(EDGE / 2.0, 1.0)).contains(place))?;
        let (left, right) = (place.x - found.place.left(), found.place.right() - place.x);
        let part = match () {
            () if right < EDGE && right <= left => ChunkPart::End,
            () if left < EDGE => ChunkPart::Begin,
            () => ChunkPart::Middle,
        };
        Some((*found, part))
    }

    fn tokens(&self, x: f32) -> u64 {
        let tokens = ((x - self.rect.left()) / self.token).max(0.0) as u64;
        (tokens + STEP / 2) / STEP * STEP
    }

    /// A chunk from where the pointer was pressed to where it is.
    pub(super) fn new_chunk(&self, from: Pos2, to: Pos2) -> Option<Stroke> {
        let (begin, end) = (self.tokens(from.x.min(to.x)), self.tokens(from.x.max(to.x)));
        (end > begin).then_some(Stroke::Chunk { at: None, context: begin, chunk: end - begin })
    }

    /// A chunk after a part of it went from one place to another.
    pub(super) fn moved(&self, chunk: &Chunk, part: ChunkPart, from: Pos2, to: Pos2) -> Stroke {
        let step = STEP.cast_signed();
        let by = (((to.x - from.x) / self.token) as i64 + step / 2).div_euclid(step) * step;
        let end = chunk.context + chunk.tokens;
        let (context, chunk_tokens) = match part {
            ChunkPart::Begin => {
                let context = chunk.context.saturating_add_signed(by).min(end - 1);
                (context, end - context)
            }
            ChunkPart::End => (chunk.context, end.saturating_add_signed(by).max(chunk.context + 1) - chunk.context),
            ChunkPart::Middle => (chunk.context.saturating_add_signed(by), chunk.tokens),
        };
        Stroke::Chunk { at: Some(chunk.at), context, chunk: chunk_tokens }
    }
}

#[cfg(test)]
mod tests {
    use egui::vec2;
    use engine::workload::AttentionShape;

    use super::*;

    #[test]
    fn a_chunk_goes_where_its_parts_are_dragged() {
        let requests = vec![RequestSpec::Prefill { chunk: 512, kv: 2048 }];
        let spec = BatchSpec { requests, ..BatchSpec::empty(AttentionShape::default()) };
        let strip = Strip::new(&spec, Rect::from_min_size(pos2(0.0, 0.0), vec2(1024.0, 40.0)), None);
        let (chunk, part) = strip.at(strip.chunks[0].place.right_center() - vec2(1.0, 0.0)).unwrap();
        assert_eq!((chunk.context, chunk.tokens, part), (1536, 512, ChunkPart::End));
        let by = |part, tokens: f32| {
            let from = pos2(300.0, 5.0);
            match strip.moved(&chunk, part, from, from + vec2(tokens * strip.token, 0.0)) {
                Stroke::Chunk { at: Some(0), context, chunk } => (context, chunk),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(by(ChunkPart::End, 160.0), (1536, 672));
        assert_eq!(by(ChunkPart::Begin, -160.0), (1376, 672));
        assert_eq!(by(ChunkPart::Middle, -9000.0), (0, 512));
        assert_eq!(by(ChunkPart::Begin, 9000.0), (2047, 1));
        assert_eq!(strip.new_chunk(pos2(10.0, 3.0), pos2(10.0, 3.0)), None);
    }
}
