//! Where lanes and rectangles of the timeline lie: pure geometry, for the window and for pictures.

use std::ops::Range;

use egui::{Color32, Mesh, Pos2, Rect, epaint::Vertex, epaint::WHITE_UV, pos2};
use engine::capture::Spans;

use crate::timeline::lanes::{FOLD_PX, Lane, Lanes, Piece};

/// What part of a capture is on the screen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View {
    /// First nanosecond.
    pub begin: f64,
    /// Past the last nanosecond.
    pub end: f64,
    /// Pixels scrolled down.
    pub scroll: f32,
    /// Height of a lane; `None` fits all lanes into the rectangle.
    pub lane_height: Option<f32>,
}

/// Free pixels under an SM, where there is room.
const BETWEEN: f32 = 1.5;
/// Tallest lane where all fit.
const TALLEST_FITTED: f32 = 22.0;
/// Height of a lane under which an SM is a strip of its occupancy.
pub const STRIPS_BELOW: f32 = 4.0;

/// Lanes of a rectangle.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Where lanes are drawn.
    pub rect: Rect,
    /// What of the capture.
    pub view: View,
    /// Height of a lane.
    pub lane: f32,
    /// Free pixels under each SM.
    pub gap: f32,
    /// Lanes of an SM.
    pub slots: usize,
    /// SMs.
    pub sms: usize,
    /// Height of a lane at which all of them fit.
    pub fitted: f32,
}

impl Layout {
    /// Lays out the lanes.
    pub fn new(lanes: &Lanes, view: View, rect: Rect) -> Self {
        let slots = lanes.lanes.iter().take_while(|lane| lane.sm == 0).count().max(1);
        let sms = lanes.lanes.len() / slots;
        // Whatever the height, all SMs are in sight; from 5 pixels there is room between them.
        let fit = rect.height() / lanes.lanes.len().max(1) as f32;
        let between = if fit > 5.0 { BETWEEN } else { 0.0 };
        let fitted = ((rect.height() / sms.max(1) as f32 - between) / slots as f32).min(TALLEST_FITTED);
        let layout = Self { rect, view, lane: fitted, gap: between, slots, sms, fitted };
        view.lane_height.map_or(layout, |height| layout.with_lane(height.max(fitted)))
    }

    /// The same with lanes of another height.
    #[must_use]
    pub fn with_lane(&self, lane: f32) -> Self {
        Self { lane, gap: if lane > 4.0 { BETWEEN } else { self.gap }, ..*self }
    }

    /// Whether lanes are too low to be told apart: an SM is then one strip.
    pub fn is_strips(&self) -> bool {
        self.lane < STRIPS_BELOW
    }

    /// Height of all lanes.
    pub fn height(&self) -> f32 {
        self.group() * self.sms as f32
    }

    /// Height of an SM.
    pub fn group(&self) -> f32 {
        self.lane * self.slots as f32 + self.gap
    }

    /// Top of a lane.
    pub fn top(&self, lane: usize) -> f32 {
        let (sm, slot) = (lane / self.slots, lane % self.slots);
        self.rect.top() - self.view.scroll + sm as f32 * self.group() + slot as f32 * self.lane
    }

    /// Lane at a height.
    pub fn lane_at(&self, y: f32) -> Option<usize> {
        let inside = y - self.rect.top() + self.view.scroll;
        if inside < 0.0 || !self.rect.y_range().contains(y) {
            return None;
        }
        let sm = (inside / self.group()) as usize;
        let slot = ((inside - sm as f32 * self.group()) / self.lane) as usize;
        (sm < self.sms).then(|| sm * self.slots + slot.min(self.slots - 1))
    }

    /// Lanes at a height: one, or all of an SM where that is a strip.
    pub fn lanes_at(&self, y: f32) -> Range<usize> {
        let Some(lane) = self.lane_at(y) else { return 0..0 };
        let first = lane / self.slots * self.slots;
        if self.is_strips() { first..first + self.slots } else { lane..lane + 1 }
    }

    /// Lanes that are on the screen.
    pub fn visible(&self) -> Range<usize> {
        let first = (self.view.scroll / self.group()).max(0.0) as usize;
        let count = (self.rect.height() / self.group()).ceil() as usize + 1;
        (first.min(self.sms) * self.slots)..((first + count).min(self.sms) * self.slots)
    }

    /// Pixel of a time.
    pub fn x(&self, time: f64) -> f32 {
        let width = f64::from(self.rect.width());
        let x = (time - self.view.begin) / (self.view.end - self.view.begin).max(1e-9) * width;
        self.rect.left() + x.clamp(-10.0, width + 10.0) as f32
    }

    /// Time of a pixel.
    pub fn time(&self, x: f32) -> f64 {
        let share = f64::from((x - self.rect.left()) / self.rect.width().max(1.0));
        self.view.begin + share * (self.view.end - self.view.begin)
    }

    /// Nanoseconds of a pixel.
    pub fn ns_per_px(&self) -> f64 {
        (self.view.end - self.view.begin) / f64::from(self.rect.width().max(1.0))
    }

    /// Calls `emit` with every rectangle on the screen; returns how many.
    pub fn pieces(&self, lanes: &Lanes, spans: &Spans, mut emit: impl FnMut(&Lane, Piece, Rect)) -> usize {
        let fold = (self.ns_per_px() * FOLD_PX).ceil().max(1.0) as u64;
        let view = self.view.begin.max(0.0) as u64..self.view.end.max(0.0).ceil() as u64;
        let mut count = 0;
        let inset = if self.lane > 4.0 { 0.5 } else { 0.0 };
        for index in self.visible() {
            let Some(lane) = lanes.lanes.get(index) else { break };
            let top = self.top(index);
            let bottom = top + (self.lane - inset).max(1.0);
            lanes.pieces(spans, lane, view.clone(), fold, |piece| {
                count += 1;
                let left = self.x(piece.begin as f64).max(self.rect.left());
                let right = self.x(piece.end as f64).min(self.rect.right()).max(left + 1.0);
                emit(lane, piece, Rect::from_min_max(pos2(left, top), pos2(right, bottom)));
            });
        }
        count
    }

    /// One mesh of all rectangles, or of strips as strong as SMs are occupied; wide rectangles keep a dark edge so that
    /// neighbours part.
    pub fn mesh(&self, lanes: &Lanes, spans: &Spans, colour: impl Fn(&Piece) -> Color32) -> (Mesh, usize) {
        let mut mesh = Mesh::default();
        if self.is_strips() {
            let count = self.strips(lanes, spans, |piece, share, rect| {
                push(&mut mesh, rect, colour(&piece).gamma_multiply(share));
            });
            return (mesh, count);
        }
        let count = self.pieces(lanes, spans, |_, piece, rect| {
            let trimmed = if rect.width() > 4.0 { rect.with_max_x(rect.right() - 0.8) } else { rect };
            push(&mut mesh, trimmed, colour(&piece));
        });
        (mesh, count)
    }
}

fn push(mesh: &mut Mesh, rect: Rect, color: Color32) {
    let base = mesh.vertices.len() as u32;
    let vertex = |pos: Pos2| Vertex { pos, uv: WHITE_UV, color };
    mesh.vertices.extend([rect.left_top(), rect.right_top(), rect.left_bottom(), rect.right_bottom()].map(vertex));
    mesh.indices.extend([base, base + 1, base + 2, base + 2, base + 1, base + 3]);
}

/// Ticks of a ruler: round times at least `apart` pixels from one another.
pub fn ticks(view: View, width: f32, apart: f32) -> Vec<f64> {
    let span = view.end - view.begin;
    if span <= 0.0 || width < apart || !span.is_finite() {
        return Vec::new();
    }
    let rough = span * f64::from(apart / width);
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|by| by * power).into_iter().find(|step| *step >= rough).unwrap_or(rough);
    let first = (view.begin / step).ceil() as i64;
    let last = (view.end / step).floor() as i64;
    (first..=last.min(first + 200)).map(|tick| tick as f64 * step).collect()
}
