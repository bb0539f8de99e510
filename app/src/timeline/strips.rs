//! SMs as strips, where lanes would be too low to be told apart: each cell of 3 pixels as strong as the SM is
//! occupied then, in the colour of what occupies it most. Where two occupy it alike, as a pack that computes and a stream
//! beside it do, every second SM has that of the other, so that both are in the picture.

use egui::{Color32, ColorImage, Rect};
use engine::capture::Spans;
use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};

use super::lanes::{Entity, FOLD_PX, Lanes, Piece};
use super::layout::Layout;

/// Steps of occupancy that are told apart; neighbours on one step are one rectangle.
const STEPS: f64 = 16.0;
/// Spans of a lane in a cell from which their summaries stand for them.
const MANY: usize = 8;
/// Two occupy a cell alike where the one has this part of the time of the other.
const ALIKE: f64 = 0.9;

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    busy: f64,
    /// What occupies it most, with the time of its pieces as far as none of another was longer.
    first: (Entity, f64),
    /// The same of what comes next.
    next: (Entity, f64),
}

impl Cell {
    fn add(&mut self, entity: Entity, busy: f64) {
        self.busy += busy;
        if entity == self.first.0 {
            self.first.1 += busy;
            return;
        }
        if entity == self.next.0 {
            self.next.1 += busy;
        } else if busy > self.next.1 {
            self.next = (entity, busy);
        }
        if self.next.1 > self.first.1 {
            std::mem::swap(&mut self.first, &mut self.next);
        }
    }
}

/// Cells that look the same.
#[derive(Clone, Copy, Debug)]
struct Run {
    from: usize,
    to: usize,
    entity: Entity,
    /// Share of the slots that is occupied.
    share: f32,
}

/// One SM.
#[derive(Clone, Debug)]
struct Strip {
    top: f32,
    bottom: f32,
    runs: Vec<Run>,
}

impl Layout {
    /// Calls `emit` with each rectangle of a strip and the share of its slots that is occupied; returns how many.
    pub fn strips(&self, lanes: &Lanes, spans: &Spans, mut emit: impl FnMut(Piece, f32, Rect)) -> usize {
        let mut count = 0;
        for strip in self.all_strips(lanes, spans) {
            for run in &strip.runs {
                let left = self.rect.left() + run.from as f32 * FOLD_PX as f32;
                let right = (self.rect.left() + run.to as f32 * FOLD_PX as f32).min(self.rect.right());
                let place = Rect::from_x_y_ranges(left..=right, strip.top..=strip.bottom);
                emit(self.piece(run), run.share, place);
                count += 1;
            }
        }
        count
    }

    /// The same as a picture of one pixel a cell and one row a strip, with the places of the rows: however many cells
    /// differ, it is painted as one rectangle an SM. None without strips, or where it would be wider or higher than
    /// `most` pixels.
    pub fn strip_image(
        &self,
        lanes: &Lanes,
        spans: &Spans,
        most: usize,
        colour: impl Fn(&Piece) -> Color32,
    ) -> Option<(ColorImage, Vec<Rect>)> {
        let cells = self.cells();
        if cells > most || self.sms > most {
            return None;
        }
        let strips = self.all_strips(lanes, spans);
        let mut image = ColorImage::filled([cells, strips.len()], Color32::TRANSPARENT);
        for (strip, pixels) in strips.iter().zip(image.pixels.chunks_exact_mut(cells)) {
            for run in &strip.runs {
                pixels[run.from..run.to].fill(colour(&self.piece(run)).gamma_multiply(run.share));
            }
        }
        let right = self.rect.left() + cells as f32 * FOLD_PX as f32;
        let row = |strip: &Strip| Rect::from_x_y_ranges(self.rect.left()..=right, strip.top..=strip.bottom);
        (!strips.is_empty()).then(|| (image, strips.iter().map(row).collect()))
    }

    /// Cells from the left to the right; the last may reach beyond it.
    fn cells(&self) -> usize {
        (f64::from(self.rect.width()) / FOLD_PX).ceil().max(1.0) as usize
    }

    /// Time of a cell.
    fn cell_width(&self) -> f64 {
        self.ns_per_px() * FOLD_PX
    }

    /// What a run of cells stands for.
    fn piece(&self, run: &Run) -> Piece {
        let time = |cell: usize| (self.view.begin + cell as f64 * self.cell_width()) as u64;
        Piece { begin: time(run.from), end: time(run.to), first: 0, count: 1, entity: run.entity, busy: 0 }
    }

    /// Every strip in sight, from the top. Each goes over all that its SM did, so all cores take part.
    fn all_strips(&self, lanes: &Lanes, spans: &Spans) -> Vec<Strip> {
        let is_strip = |row: &Vec<usize>| row.first().is_some_and(|first| self.is_strip(*first));
        let rows: Vec<Vec<usize>> = self.rows().into_iter().filter(is_strip).collect();
        rows.into_par_iter().map(|row| self.strip(lanes, spans, &row)).collect()
    }

    /// The strip of these lanes, which stand one under another.
    fn strip(&self, lanes: &Lanes, spans: &Spans, row: &[usize]) -> Strip {
        let first = row.first().copied().unwrap_or_default();
        let width = self.cell_width();
        let fold = width.ceil().max(1.0) as u64;
        let view = self.view.begin.max(0.0) as u64..self.view.end.max(0.0).ceil() as u64;
        let mut cells = vec![Cell::default(); self.cells()];
        for lane in row.iter().filter_map(|lane| lanes.lanes.get(*lane)) {
            if lanes.count(spans, lane, &view) > MANY * cells.len() {
                // Where so many begin in a cell, what two neighbours hold differs little.
                lanes.summaries(spans, lane, &view, 2 * fold, |piece| self.spread(&mut cells, &piece, width));
            } else {
                lanes.pieces(spans, lane, view.clone(), fold, |piece| self.spread(&mut cells, &piece, width));
            }
        }
        if (first / self.slots) % 2 == 1 {
            for cell in cells.iter_mut().filter(|cell| cell.next.1 >= ALIKE * cell.first.1) {
                cell.first = cell.next;
            }
        }
        // Whole pixels, so that strips of one or two of them are all as bright as each other.
        let top = self.top(first).round();
        let height = self.lane_height(first) * row.len() as f32;
        let bottom = (self.top(first) + height).round().max(top + 1.0);
        Strip { top, bottom, runs: runs(&cells, width * row.len() as f64) }
    }

    /// Spreads the busy time of a piece evenly over the cells that it lies in.
    fn spread(&self, cells: &mut [Cell], piece: &Piece, width: f64) {
        let (begin, end) = (piece.begin as f64 - self.view.begin, piece.end as f64 - self.view.begin);
        let first = (begin / width).max(0.0) as usize;
        if begin >= 0.0 && end <= (first + 1) as f64 * width {
            // Most lie in one cell.
            if let Some(cell) = cells.get_mut(first) {
                cell.add(piece.entity, piece.busy as f64);
            }
            return;
        }
        let density = piece.busy as f64 / (end - begin).max(1.0);
        let last = ((end / width).ceil().max(0.0) as usize).min(cells.len());
        for (at, cell) in cells.iter_mut().enumerate().take(last).skip(first) {
            let from = begin.max(at as f64 * width);
            let to = end.min((at + 1) as f64 * width);
            cell.add(piece.entity, (to - from).max(0.0) * density);
        }
    }
}

/// Runs of cells that look the same, with the share that is occupied; cells without work are left out. A cell whose
/// lanes are busy all the time has `full`.
fn runs(cells: &[Cell], full: f64) -> Vec<Run> {
    // Less what rounding adds to a cell that is exactly on a step.
    let step = |cell: &Cell| (cell.busy / full * STEPS - 0.02).ceil().clamp(0.0, STEPS);
    let mut runs = Vec::new();
    let mut from = 0;
    for run in cells.chunk_by(|a, b| a.first.0 == b.first.0 && (step(a) - step(b)).abs() < 0.5) {
        let (to, share) = (from + run.len(), (step(&run[0]) / STEPS) as f32);
        if share > 0.0 {
            runs.push(Run { from, to, entity: run[0].first.0, share });
        }
        from = to;
    }
    runs
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use egui::{pos2, vec2};
    use engine::cancel::Cancel;
    use engine::session::{self, PlanOptions, RunOptions};
    use engine::workload::BatchSpec;

    use super::*;
    use crate::timeline::folds::Gpcs;
    use crate::timeline::layout::View;

    /// A run on four GPCs of 8, 8, 8 and the rest of the SMs, interleaved.
    #[test]
    fn strips_of_gpcs_hold_all_busy_time_and_each_lane_has_its_own_place_in_one() {
        let spec = BatchSpec::from_ron(crate::samples::find("pat-05").unwrap().text).unwrap();
        let planned = session::plan_spec(&spec, &PlanOptions::new(&engine::hw::builtin()[0])).unwrap();
        let capture = session::simulate(&planned, &RunOptions::default(), &Cancel::default()).unwrap();
        let lanes = Lanes::of(&capture);
        let sms = capture.provenance.sm_count as usize;
        let of: Vec<u8> = (0..sms).map(|sm| if sm < 24 { sm as u8 % 3 } else { 3 }).collect();
        let gpcs = Arc::new(Gpcs::of(&of, sms).unwrap());
        assert_eq!(gpcs.sms(1), [1, 4, 7, 10, 13, 16, 19, 22]);
        let rect = Rect::from_min_size(pos2(10.0, 20.0), vec2(900.0, 400.0));
        let view = View { begin: 0.0, end: lanes.end as f64, scroll: 70.0, lane_height: Some(30.0) };
        let layout = Layout::by_gpc(&lanes, view, rect, &gpcs);
        assert!(layout.height() <= rect.height() && layout.is_strips());
        assert_eq!(layout.rows().concat().len(), lanes.lanes.len());
        let tops: BTreeSet<u32> = (0..lanes.lanes.len()).map(|lane| (layout.top(lane) * 1e3) as u32).collect();
        assert_eq!(tops.len(), lanes.lanes.len());
        for sm in [0, 5, 23, 24, sms - 1] {
            let all = layout.lanes_at(layout.top(sm * layout.slots) + 0.01);
            assert!(all.contains(&(sm * layout.slots)) && all.len() == gpcs.sms(of[sm] as usize).len() * layout.slots);
        }
        let busy: u64 = lanes.lanes.iter().map(|lane| lane.busy).sum();
        let (mut drawn, mut rows) = (0.0, BTreeSet::new());
        layout.strips(&lanes, &capture.spans, |_, share, place| {
            let gpc = layout.lanes_at(place.center().y);
            drawn += f64::from(share * place.width()) * layout.ns_per_px() * gpc.len() as f64;
            rows.insert(place.top() as i32);
        });
        let ratio = drawn / busy as f64;
        assert!((0.98..1.15).contains(&ratio) && rows.len() == 4, "{ratio} in {} rows", rows.len());
        assert!(Gpcs::of(&of[1..], sms).is_none() && Gpcs::of(&[], sms).is_none());
    }

    #[test]
    fn summaries_hold_every_span_once_in_order_and_are_no_longer_than_a_fold() {
        let spec = engine::workload::parse_tree("1,10,2000_64,64,64", engine::workload::AttentionShape::default());
        let planned = session::plan_spec(&spec.unwrap(), &PlanOptions::new(&engine::hw::builtin()[0])).unwrap();
        let capture = session::simulate(&planned, &RunOptions::default(), &Cancel::default()).unwrap();
        let lanes = Lanes::of(&capture);
        let mut joined = 0;
        for fold in [1, lanes.end / 50, lanes.end / 3, 2 * lanes.end] {
            for lane in &lanes.lanes {
                let (mut next, mut busy) = (lane.spans.start, 0);
                lanes.summaries(&capture.spans, lane, &(0..lanes.end), fold, |piece| {
                    assert_eq!(piece.first, next);
                    assert!(piece.count == 1 || piece.end - piece.begin <= fold, "{piece:?} in {fold}");
                    next += piece.count as usize;
                    busy += piece.busy;
                    joined += usize::from(piece.count > 1);
                });
                assert_eq!((next, busy), (lane.spans.end, lane.busy));
            }
        }
        assert!(joined > 100, "{joined}");
    }

    /// What is painted as a picture is what the rectangles are.
    #[test]
    fn the_picture_of_strips_has_the_rectangles_cell_by_cell() {
        let spec = BatchSpec::from_ron(crate::samples::find("pat-05").unwrap().text).unwrap();
        let planned = session::plan_spec(&spec, &PlanOptions::new(&engine::hw::builtin()[0])).unwrap();
        let capture = session::simulate(&planned, &RunOptions::default(), &Cancel::default()).unwrap();
        let lanes = Lanes::of(&capture);
        let rect = Rect::from_min_size(pos2(10.0, 20.0), vec2(900.0, 300.0));
        let view = View { begin: 0.0, end: lanes.end as f64, scroll: 0.0, lane_height: None };
        let layout = Layout::new(&lanes, view, rect);
        let colour = |piece: &Piece| piece.entity.pack().map_or(Color32::RED, |pack| Color32::from_gray(pack.0 as u8));
        let (image, rows) = layout.strip_image(&lanes, &capture.spans, 4_096, colour).unwrap();
        assert_eq!((image.size, rows.len()), ([300, layout.sms], layout.sms));
        let mut cells = 0;
        layout.strips(&lanes, &capture.spans, |piece, share, place| {
            let row = rows.iter().position(|row| row.y_range() == place.y_range()).unwrap();
            let column = |x: f32| (f64::from(x - rect.left()) / FOLD_PX).round() as usize;
            for x in column(place.left())..column(place.right()) {
                assert_eq!(image.pixels[row * image.size[0] + x], colour(&piece).gamma_multiply(share));
                cells += 1;
            }
        });
        let painted = image.pixels.iter().filter(|pixel| **pixel != Color32::TRANSPARENT).count();
        assert!(painted == cells && cells > 1_000, "{painted} of {cells}");
        assert!(layout.strip_image(&lanes, &capture.spans, 200, colour).is_none(), "too wide for a picture");
    }

    /// One lane of an SM computes joined packs while the other streams: either hid the other wherever it was drawn.
    #[test]
    fn what_occupies_an_sm_alike_is_in_sight_on_every_second_one() {
        let spec =
            engine::workload::parse_tree("1,384_7776,1067", engine::workload::AttentionShape::default()).unwrap();
        let options = PlanOptions {
            scheduler: "min-time".to_owned(),
            strategy: engine::plan::Strategy::Fused,
            ..PlanOptions::new(engine::hw::find("h200-sxm").unwrap())
        };
        let capture = session::simulate(
            &session::plan_spec(&spec, &options).unwrap(),
            &RunOptions::default(),
            &Cancel::default(),
        )
        .unwrap();
        let lanes = Lanes::of(&capture);
        let rect = Rect::from_min_size(pos2(10.0, 20.0), vec2(900.0, 400.0));
        let view = View { begin: 0.1 * lanes.end as f64, end: 0.3 * lanes.end as f64, scroll: 0.0, lane_height: None };
        let layout = Layout::new(&lanes, view, rect);
        let is_shared = |pack| capture.plan.pack(pack).queries_len > 1;
        let (mut of_packs, mut all) = (0.0, 0.0);
        layout.strips(&lanes, &capture.spans, |piece, _, place| {
            let computes = layout.lanes_at(place.center().y).iter().any(|lane| {
                lanes.lanes[*lane].spans.clone().any(|span| lanes.entities[span].pack().is_some_and(is_shared))
            });
            if computes {
                all += place.width();
                of_packs += if piece.entity.pack().is_some_and(is_shared) { place.width() } else { 0.0 };
            }
        });
        assert!(all > 0.0 && (0.4..0.6).contains(&(of_packs / all)), "{of_packs} of {all}");
    }

    #[test]
    fn all_sms_are_in_sight_and_strips_hold_all_busy_time() {
        let spec = BatchSpec::from_ron(crate::samples::find("pat-05").unwrap().text).unwrap();
        let planned = session::plan_spec(&spec, &PlanOptions::new(&engine::hw::builtin()[0])).unwrap();
        let capture = session::simulate(&planned, &RunOptions::default(), &Cancel::default()).unwrap();
        let lanes = Lanes::of(&capture);
        let busy: u64 = lanes.lanes.iter().map(|lane| lane.busy).sum();
        for height in [90.0, 300.0, 900.0] {
            let rect = Rect::from_min_size(pos2(10.0, 20.0), vec2(900.0, height));
            let view = View { begin: 0.0, end: lanes.end as f64, scroll: 0.0, lane_height: None };
            let layout = Layout::new(&lanes, view, rect);
            assert_eq!(layout.visible(), 0..lanes.lanes.len());
            assert!(layout.height() <= height + 0.01, "{} in {height}", layout.height());
            let (mut drawn, mut rows) = (0.0, BTreeSet::new());
            layout.strips(&lanes, &capture.spans, |_, share, place| {
                drawn += f64::from(share * place.width()) * layout.ns_per_px() * layout.slots as f64;
                rows.insert(place.top() as i32);
                assert!(rect.expand(1.0).contains_rect(place), "{place:?}");
            });
            // A strip is rounded up to a sixteenth of its slots.
            let ratio = drawn / busy as f64;
            assert!((0.98..1.15).contains(&ratio), "{ratio} at {height}");
            assert!(rows.len() as f32 >= (height * 0.9).min(layout.sms as f32 * 0.9), "{} rows", rows.len());
        }
    }
}
