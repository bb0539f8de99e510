//! Where lanes and rectangles of the timeline lie: pure geometry, for the window and for pictures.

use std::ops::Range;
use std::sync::Arc;

use egui::{Color32, Mesh, Pos2, Rect, epaint::Vertex, epaint::WHITE_UV, pos2};
use engine::capture::Spans;

use crate::timeline::folds::{Folds, Gpcs, Row, Rows, STRIPS_BELOW};
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

/// Tallest GPC.
const TALLEST_GPC: f32 = 64.0;

/// Lanes of a rectangle.
#[derive(Clone, Debug, PartialEq)]
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
    /// Where some SMs are folded or unfolded by hand, the place of each.
    rows: Option<Arc<Rows>>,
    /// Where SMs are folded into their GPCs: those.
    gpcs: Option<Arc<Gpcs>>,
}

impl Layout {
    /// Lays out the lanes, all SMs alike.
    pub fn new(lanes: &Lanes, view: View, rect: Rect) -> Self {
        Self::folded(lanes, view, rect, &Folds::default())
    }

    /// Lays out the lanes, with some SMs folded or unfolded.
    pub fn folded(lanes: &Lanes, view: View, rect: Rect, folds: &Folds) -> Self {
        let slots = lanes.lanes.iter().take_while(|lane| lane.sm == 0).count().max(1);
        let sms = lanes.lanes.len() / slots;
        // Whatever the height, all SMs are in sight; from 5 pixels there is room between them.
        let fit = rect.height() / lanes.lanes.len().max(1) as f32;
        let between = if fit > 5.0 { BETWEEN } else { 0.0 };
        let fitted = if folds.is_empty() {
            (rect.height() / sms.max(1) as f32 - between) / slots as f32
        } else {
            Rows::fitted(folds, (sms, slots), between, rect.height())
        };
        let fitted = fitted.min(TALLEST_FITTED);
        let rows = (!folds.is_empty()).then(|| Arc::new(Rows::new(folds, (sms, slots), (fitted, between))));
        let layout = Self { rect, view, lane: fitted, gap: between, slots, sms, fitted, rows, gpcs: None };
        match view.lane_height {
            Some(height) => layout.with_lane(height.max(fitted)),
            None => layout,
        }
    }

    /// Lays out one strip for each GPC; all of them are in sight, whatever the height of lanes was.
    pub fn by_gpc(lanes: &Lanes, view: View, rect: Rect, gpcs: &Arc<Gpcs>) -> Self {
        let all = Self::new(lanes, View { scroll: 0.0, lane_height: None, ..view }, rect);
        Self { gap: BETWEEN, gpcs: Some(Arc::clone(gpcs)), ..all }
    }

    /// The GPCs that SMs are folded into, where they are.
    pub fn gpcs(&self) -> Option<&Gpcs> {
        self.gpcs.as_deref()
    }

    /// Height of a GPC with the free pixels under it.
    fn gpc_height(&self, gpcs: &Gpcs) -> f32 {
        (self.rect.height() / gpcs.count().max(1) as f32).min(TALLEST_GPC)
    }

    /// Lanes of each row that is on the screen: of an SM, or of all those of a GPC.
    pub fn rows(&self) -> Vec<Vec<usize>> {
        let of_sm = |sm: &usize| sm * self.slots..(sm + 1) * self.slots;
        match &self.gpcs {
            Some(gpcs) => (0..gpcs.count()).map(|gpc| gpcs.sms(gpc).iter().flat_map(of_sm).collect()).collect(),
            None => self.visible().step_by(self.slots).map(|first| (first..first + self.slots).collect()).collect(),
        }
    }

    /// The same with lanes of another height.
    #[must_use]
    pub fn with_lane(&self, lane: f32) -> Self {
        if self.gpcs.is_some() {
            return self.clone();
        }
        let gap = if lane > 4.0 { BETWEEN } else { self.gap };
        let rows = self.rows.as_ref().map(|rows| Arc::new(rows.with_lane(self.slots, lane, gap)));
        Self { lane, gap, rows, ..self.clone() }
    }

    /// Where an SM lies, or the GPC that it is folded into, from the top of the first.
    pub fn row(&self, sm: usize) -> Row {
        if let Some(gpcs) = &self.gpcs {
            let (height, (gpc, _)) = (self.gpc_height(gpcs), gpcs.place(sm));
            let lanes = gpcs.sms(gpc).len().max(1) * self.slots;
            return Row { top: gpc as f32 * height, lane: (height - self.gap) / lanes as f32, height, is_strip: true };
        }
        let alike = || {
            let height = self.lane * self.slots as f32 + self.gap;
            Row { top: sm as f32 * height, lane: self.lane, height, is_strip: self.lane < STRIPS_BELOW }
        };
        self.rows.as_ref().and_then(|rows| rows.get(sm)).unwrap_or_else(alike)
    }

    /// The SM of a lane and where that lies.
    fn row_of(&self, lane: usize) -> Row {
        self.row(lane / self.slots)
    }

    /// Height of a lane.
    pub fn lane_height(&self, lane: usize) -> f32 {
        self.row_of(lane).lane
    }

    /// The SM at a distance from the top of the first, with how much of it lies above.
    pub fn position(&self, y: f32) -> f32 {
        if let Some(gpcs) = &self.gpcs {
            let gpc = (y / self.gpc_height(gpcs).max(1e-3)).max(0.0) as usize;
            return gpcs.sms(gpc.min(gpcs.count().saturating_sub(1))).first().map_or(0.0, |sm| *sm as f32);
        }
        let sm = match &self.rows {
            Some(rows) => rows.at(y),
            None => (y / self.row(0).height.max(1e-3)).max(0.0) as usize,
        };
        let row = self.row(sm);
        sm as f32 + (y - row.top) / row.height.max(1e-3)
    }

    /// The distance of a position from the top of the first SM.
    pub fn distance(&self, position: f32) -> f32 {
        let row = self.row(position.max(0.0) as usize);
        row.top + (position - position.floor()) * row.height
    }

    /// Whether lanes are too low to be told apart: an SM is then one strip, unless a hand has unfolded it.
    pub fn is_strips(&self) -> bool {
        self.gpcs.is_some() || self.lane < STRIPS_BELOW
    }

    /// Whether the SM of a lane is one strip.
    pub fn is_strip(&self, lane: usize) -> bool {
        self.row_of(lane).is_strip
    }

    /// Height of all lanes.
    pub fn height(&self) -> f32 {
        if let Some(gpcs) = &self.gpcs {
            return gpcs.count() as f32 * self.gpc_height(gpcs);
        }
        self.rows.as_ref().map_or_else(|| self.row(self.sms).top, |rows| rows.height())
    }

    /// Top of a lane.
    pub fn top(&self, lane: usize) -> f32 {
        let row = self.row_of(lane);
        let before = self.gpcs.as_ref().map_or(0, |gpcs| gpcs.place(lane / self.slots).1);
        self.rect.top() - self.view.scroll + row.top + (before * self.slots + lane % self.slots) as f32 * row.lane
    }

    /// Lane at a height.
    pub fn lane_at(&self, y: f32) -> Option<usize> {
        let inside = y - self.rect.top() + self.view.scroll;
        if inside < 0.0 || inside >= self.height() || !self.rect.y_range().contains(y) {
            return None;
        }
        let sm = (self.position(inside) as usize).min(self.sms.saturating_sub(1));
        if self.gpcs.is_some() {
            return Some(sm * self.slots);
        }
        let row = self.row(sm);
        let slot = ((inside - row.top) / row.lane).max(0.0) as usize;
        Some(sm * self.slots + slot.min(self.slots - 1))
    }

    /// Lanes at a height: one, or all of an SM or of a GPC where that is a strip.
    pub fn lanes_at(&self, y: f32) -> Vec<usize> {
        let Some(lane) = self.lane_at(y) else { return Vec::new() };
        let sm = lane / self.slots;
        let of_sm = |sm: usize| sm * self.slots..(sm + 1) * self.slots;
        match &self.gpcs {
            Some(gpcs) => gpcs.sms(gpcs.place(sm).0).iter().flat_map(|sm| of_sm(*sm)).collect(),
            None if self.is_strip(lane) => of_sm(sm).collect(),
            None => vec![lane],
        }
    }

    /// Lanes that are on the screen.
    pub fn visible(&self) -> Range<usize> {
        if self.gpcs.is_some() {
            return 0..self.sms * self.slots;
        }
        let first = self.position(self.view.scroll.max(0.0)) as usize;
        let last = self.position(self.view.scroll.max(0.0) + self.rect.height()) as usize + 1;
        (first.min(self.sms) * self.slots)..(last.min(self.sms) * self.slots)
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

    /// Calls `emit` with every rectangle of lanes that are told apart on the screen; returns how many.
    pub fn pieces(&self, lanes: &Lanes, spans: &Spans, mut emit: impl FnMut(&Lane, Piece, Rect)) -> usize {
        let fold = (self.ns_per_px() * FOLD_PX).ceil().max(1.0) as u64;
        let view = self.view.begin.max(0.0) as u64..self.view.end.max(0.0).ceil() as u64;
        let mut count = 0;
        for index in self.visible().filter(|lane| !self.is_strip(*lane)) {
            let Some(lane) = lanes.lanes.get(index) else { break };
            let (top, height) = (self.top(index), self.lane_height(index));
            let bottom = top + (height - if height > 4.0 { 0.5 } else { 0.0 }).max(1.0);
            lanes.pieces(spans, lane, view.clone(), fold, |piece| {
                count += 1;
                let left = self.x(piece.begin as f64).max(self.rect.left());
                let right = self.x(piece.end as f64).min(self.rect.right()).max(left + 1.0);
                emit(lane, piece, Rect::from_min_max(pos2(left, top), pos2(right, bottom)));
            });
        }
        count
    }

    /// One mesh of all rectangles, or of strips as strong as SMs are occupied.
    pub fn mesh(&self, lanes: &Lanes, spans: &Spans, colour: impl Fn(&Piece) -> Color32) -> (Mesh, usize) {
        let (mut mesh, pieces) = self.lane_mesh(lanes, spans, &colour);
        let strips = self.strips(lanes, spans, |piece, share, rect| {
            push(&mut mesh, rect, colour(&piece).gamma_multiply(share));
        });
        (mesh, strips + pieces)
    }

    /// The same without strips; wide rectangles keep a dark edge so that neighbours part.
    pub fn lane_mesh(&self, lanes: &Lanes, spans: &Spans, colour: impl Fn(&Piece) -> Color32) -> (Mesh, usize) {
        let mut mesh = Mesh::default();
        let pieces = self.pieces(lanes, spans, |_, piece, rect| {
            let trimmed = if rect.width() > 4.0 { rect.with_max_x(rect.right() - 0.8) } else { rect };
            push(&mut mesh, trimmed, colour(&piece));
        });
        (mesh, pieces)
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

/// The ticks with their labels, all in the unit of the last and with as many digits as tell neighbours apart.
pub fn labelled(ticks: &[f64]) -> impl Iterator<Item = (f64, String)> + '_ {
    let (unit, name) = match ticks.last().copied().unwrap_or(0.0) {
        last if last < 10_000.0 => (1.0, "ns"),
        last if last < 10_000_000.0 => (1e3, "µs"),
        _ => (1e6, "ms"),
    };
    let step = ticks.windows(2).next().map_or(unit, |pair| pair[1] - pair[0]);
    // Less what rounding adds to a step of exactly one.
    let digits = ((unit / step).log10() - 1e-6).ceil().clamp(0.0, 6.0) as usize;
    ticks.iter().map(move |tick| (*tick, format!("{:.digits$} {name}", tick / unit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_a_ruler_have_one_unit_and_differ() {
        let labels = |ticks: &[f64]| labelled(ticks).map(|(_, label)| label).collect::<Vec<_>>();
        assert_eq!(labels(&[0.0, 2_000.0, 8_000.0]), ["0 ns", "2000 ns", "8000 ns"]);
        assert_eq!(labels(&[0.0, 10_000.0, 80_000.0]), ["0 µs", "10 µs", "80 µs"]);
        assert_eq!(labels(&[490_000.0, 490_005.0, 490_010.0]), ["490.000 µs", "490.005 µs", "490.010 µs"]);
        assert_eq!(labels(&[20_000_000.0, 20_500_000.0]), ["20.0 ms", "20.5 ms"]);
        assert!(labels(&[]).is_empty() && labels(&[500.0]) == ["500 ns"]);
    }
}
