//! The timeline as a picture: the window's own layout, without a display.

use std::fmt::Write as _;

use egui::{Color32, Rect, pos2, vec2};
use engine::capture::{Capture, Pauses};
use engine::metrics;
use engine::plan::CtaRole;
use engine::units::Nanos;

use super::look::Look;
use super::svg::{LEFT, document, hex, rect, text, width_of, wrapped};
use crate::runs::damage::{self, Damage};
use crate::runs::headline;
use crate::theme::{Tokens, mix};
use crate::timeline::colour::{Levels, entity_colour};
use crate::timeline::counters::caption;
use crate::timeline::lanes::Lanes;
use crate::timeline::layout::{Layout, View, labelled, ticks};

/// Free space right of all.
const RIGHT: f32 = 20.0;
/// Height of the lanes of one run among several.
const BESIDE: f32 = 140.0;

/// What a picture of a run is headed with: batch, way, device, makespan and where it comes from.
pub fn title(capture: &Capture) -> String {
    let batch = if capture.batch.name.is_empty() { "batch" } else { &capture.batch.name };
    let (plan, made) = (&capture.plan, &capture.provenance);
    let way = format!("{} · {} · {}", plan.scheduler, plan.strategy.name(), made.device_name);
    format!("{batch} · {way} · {}", headline::sentence(capture))
}

/// A run, what its file had lost, and how it is drawn.
struct Drawing<'a> {
    capture: &'a Capture,
    damage: &'a Damage,
    tokens: &'static Tokens,
    width: f32,
}

impl<'a> Drawing<'a> {
    fn new(capture: &'a Capture, damage: &'a Damage, look: &Look) -> Self {
        Self { capture, damage, tokens: look.tokens(), width: look.width.units() }
    }

    /// Units between the margins.
    fn inner(&self) -> f32 {
        self.width - LEFT - RIGHT
    }

    /// Title and what stands under it; gives where that ends.
    fn head(&self, out: &mut String, top: f32, size: u32) -> f32 {
        let t = self.tokens;
        let (x, width) = (12.0, self.width - 24.0);
        let mut y = top + wrapped(out, (x, top, width), size, t.text, &title(self.capture));
        let mut line = |words: &str, fill| {
            y += 16.0;
            y += wrapped(out, (x, y, width), 11, fill, words);
        };
        if let Some(traced) = headline::lanes(self.capture, self.damage) {
            line(&traced, t.faint);
        }
        for missing in self.damage.missing() {
            line(&format!("the capture is damaged; it lacks {missing}"), t.warn);
        }
        self.legend(out, y + 21.0)
    }

    /// Busy share, roles and bubbles, in as many lines as they need; gives where that ends.
    fn legend(&self, out: &mut String, top: f32) -> f32 {
        let (capture, t) = (self.capture, self.tokens);
        let report = metrics::bubbles(&capture.plan, capture);
        let busy = format!("busy {}", damage::busy(report.busy_share(), 1, self.damage));
        text(out, 12.0, top, 12, t.text, &busy);
        let mut entries: Vec<(String, String)> = Vec::new();
        if !capture.plan.prefill.is_empty() {
            let roles = [
                (CtaRole::Prefill, "prefill", t.prefill),
                (CtaRole::Decode, "decode", t.decode),
                (CtaRole::Both, "both", t.both),
                (CtaRole::Merge, "merge", t.merge),
            ];
            let there = roles.into_iter().filter(|(role, ..)| capture.spans.role.contains(role));
            entries.extend(there.map(|(_, name, fill)| (hex(fill), name.to_owned())));
        }
        let lost = self.damage.of_causes();
        if lost.is_none() {
            let bubbles = report.bubbles.iter().filter(|bubble| bubble.slot_time.0 > 0);
            entries.extend(bubbles.map(|bubble| {
                let name = bubble.cause.name();
                let label = format!("{} {:.1} %", name.replace('-', " "), report.share(bubble.slot_time) * 100.0);
                (format!("url(#{name})"), label)
            }));
        }
        let (mut x, mut y) = (12.0 + width_of(&busy, 12) + 18.0, top);
        for (fill, label) in entries {
            let wide = 36.0 + width_of(&label, 12);
            if x + wide > self.width - 12.0 {
                (x, y) = (12.0, y + 17.0);
            }
            rect(out, Rect::from_min_size(pos2(x, y - 10.0), vec2(14.0, 11.0)), &fill);
            text(out, x + 18.0, y, 12, t.text, &label);
            x += wide;
        }
        match lost {
            Some(reason) => {
                let words = format!("bubbles {} ({reason})", damage::UNKNOWN);
                y + 17.0 + wrapped(out, (12.0, y + 17.0, self.width - 24.0), 12, t.warn, &words)
            }
            None => y,
        }
    }

    fn lanes(&self, out: &mut String, area: Rect, (begin, end): (f64, f64)) {
        let (capture, t) = (self.capture, self.tokens);
        let lanes = Lanes::of(capture);
        let layout = Layout::new(&lanes, View { begin, end, scroll: 0.0, lane_height: None }, area);
        // Where CTAs are lost, a gap may be none; where windows are, its cause is not known.
        let gaps = if self.damage.of_causes().is_none() && !layout.is_strips() {
            metrics::gaps(&capture.plan, capture)
        } else {
            Vec::new()
        };
        for gap in gaps {
            let (left, right) = (layout.x(gap.begin.as_f64()), layout.x(gap.end.as_f64()));
            let (left, right) = (left.max(area.left()), right.min(area.right()));
            if right - left >= 3.0 {
                let top = layout.top(gap.sm as usize * layout.slots + gap.slot as usize);
                let place = Rect::from_min_max(pos2(left, top), pos2(right, top + layout.lane));
                rect(out, place, &format!("url(#{})", gap.cause.name()));
            }
        }
        let levels = Levels::of_batch(&capture.batch);
        let colour = |entity| entity_colour(t, (&capture.plan, &levels), entity, false);
        if layout.is_strips() {
            layout.strips(&lanes, &capture.spans, |piece, share, place| {
                rect(out, place, &hex(mix(t.canvas, colour(piece.entity), share)));
            });
        } else {
            layout.pieces(&lanes, &capture.spans, |_, piece, place| rect(out, place, &hex(colour(piece.entity))));
        }
        self.pauses(out, &layout);
        for (tick, label) in labelled(&ticks(layout.view, area.width(), 110.0)) {
            // The last label ends within the picture.
            let x = layout.x(tick).min(self.width - 4.0 - width_of(&label, 11));
            text(out, x, area.bottom() + 14.0, 11, t.faint, &label);
        }
    }

    /// Pauses of the memory over the lanes, as in the window.
    fn pauses(&self, out: &mut String, layout: &Layout) {
        let (area, fill) = (layout.rect, hex(self.tokens.warn));
        for (begin, end) in self.capture.pauses.iter().flat_map(Pauses::stretches) {
            let across = layout.x(begin.as_f64())..=layout.x(end.as_f64());
            let band = Rect::from_x_y_ranges(across, area.y_range()).intersect(area);
            if band.width() < 0.0 {
                continue;
            }
            let (x, y, width, height) = (band.left(), band.top(), band.width().max(1.0), band.height());
            let _ = writeln!(
                out,
                r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{fill}" fill-opacity="0.45"/>"#
            );
            let words = headline::pause(Nanos(end.0 - begin.0));
            let (right, wide) = (band.right() + 4.0, width_of(&words, 11));
            let left = if right + wide < area.right() { right } else { band.left() - 4.0 - wide };
            backed(out, (left, y + 12.0), (self.tokens.warn, self.tokens.canvas), &words);
        }
    }

    /// First and last SM beside the lanes.
    fn numbers(&self, out: &mut String, area: Rect) {
        text(out, 8.0, area.top() + 10.0, 11, self.tokens.faint, "SM 0");
        let last = format!("SM {}", self.capture.provenance.sm_count.saturating_sub(1));
        text(out, 8.0, area.bottom(), 11, self.tokens.faint, &last);
    }

    /// The body of the picture, where its lanes and counters lie, and its height.
    fn whole(&self, window: (f64, f64)) -> (String, Rect, f32) {
        let mut body = String::new();
        let head = self.head(&mut body, 26.0, 15);
        // A narrow picture is as much lower, so that its shape stays.
        let height = (self.capture.slots() as f32 * 2.0).clamp(240.0, 900.0) * (self.width / 1200.0).clamp(0.5, 1.0);
        let area = Rect::from_min_size(pos2(LEFT, head + 12.0), vec2(self.inner(), height));
        self.numbers(&mut body, area);
        self.lanes(&mut body, area, window);
        let under = Rect::from_min_size(pos2(LEFT, area.bottom() + 24.0), vec2(area.width(), 0.0));
        let bottom = self.counters(&mut body, under, window);
        let all = area.with_max_y(if bottom > under.top() { bottom - 18.0 } else { area.bottom() });
        (body, all, bottom + 6.0)
    }

    /// Throughputs and shares under the lanes, on their axis; returns where they end.
    fn counters(&self, out: &mut String, under: Rect, (begin, end): (f64, f64)) -> f32 {
        let (capture, t) = (self.capture, self.tokens);
        let mut top = under.top();
        for unit in ["B/s", "share"] {
            let rows: Vec<_> = capture.counters.iter().filter(|series| series.unit == unit).collect();
            if rows.is_empty() {
                continue;
            }
            let bytes = unit == "B/s";
            let peak = if bytes { capture.provenance.peak_bytes_per_s as f64 } else { 1.0 };
            let values = rows.iter().flat_map(|series| series.values.iter().copied()).filter(|value| value.is_finite());
            let most = values.fold(peak, f64::max).max(1e-9);
            let height = if bytes { 84.0 } else { 48.0 };
            let place = Rect::from_min_size(pos2(under.left(), top), vec2(under.width(), height));
            rect(out, place, &hex(t.back));
            let colour = |at: usize| t.entity([4, 5, 2, 7][(at + if bytes { 0 } else { 2 }) % 4]);
            for (at, series) in rows.iter().enumerate() {
                let mut points = String::new();
                let time = |step: usize| series.start.as_f64() + series.step.as_f64() * step as f64;
                let seen = |step: usize| time(step + 1) > begin && time(step) < end;
                let values = series.values.iter().enumerate().filter(|(_, value)| value.is_finite());
                for (step, value) in values.filter(|(step, _)| seen(*step)) {
                    for time in [time(step), time(step + 1)] {
                        let x = place.left() + ((time - begin) / (end - begin)).clamp(0.0, 1.0) as f32 * place.width();
                        let y = place.bottom() - (value / most) as f32 * (place.height() - 2.0);
                        let _ = write!(points, "{x:.1},{y:.1} ");
                    }
                }
                let fill = hex(colour(at));
                let _ =
                    writeln!(out, r#"<polyline points="{points}" fill="none" stroke="{fill}" stroke-width="1.2"/>"#);
            }
            // Over the lines, so that none runs through their letters.
            for (at, series) in rows.into_iter().enumerate() {
                let down = 13.0 + 13.0 * at as f32;
                let name = series.name.replace('_', " ");
                backed(out, (place.left() + 6.0, place.top() + down), (colour(at), t.back), &name);
            }
            let limit = if bytes { format!("top: {:.2} TB/s", most / 1e12) } else { "top: 100 %".to_owned() };
            backed(out, (place.right() - 96.0, place.top() + 13.0), (t.faint, t.back), &limit);
            top = place.bottom() + 6.0;
        }
        if top > under.top() {
            let (x, width) = (under.left(), under.width());
            top += 16.0 + wrapped(out, (x, top + 10.0, width), 11, t.faint, &caption(capture));
        }
        top
    }
}

/// Small letters on a ground of their own.
fn backed(out: &mut String, (x, y): (f32, f32), (fill, ground): (Color32, Color32), words: &str) {
    let place = Rect::from_min_max(pos2(x - 2.0, y - 10.0), pos2(x + width_of(words, 11) + 2.0, y + 3.0));
    rect(out, place, &hex(ground));
    text(out, x, y, 11, fill, words);
}

/// The timeline of a run with its bubbles, title, source and legend.
pub fn timeline_svg(capture: &Capture, damage: &Damage) -> String {
    window_svg(capture, damage, None, &Look::default())
}

/// The same of a stretch of time, in nanoseconds, and of all where there is none.
pub fn window_svg(capture: &Capture, damage: &Damage, window: Option<(f64, f64)>, look: &Look) -> String {
    let window = window.unwrap_or((0.0, capture.makespan().as_f64().max(1.0)));
    let (body, _, height) = Drawing::new(capture, damage, look).whole(window);
    document(look, height, &body)
}

/// The timeline with where its lanes lie, for moments of it.
pub(super) struct Placed {
    /// The body of the picture.
    pub(super) body: String,
    /// Its height.
    pub(super) height: f32,
    /// Where lanes and counters lie.
    pub(super) area: Rect,
    /// Nanoseconds that the area is wide.
    pub(super) end: f64,
}

/// Draws the timeline for moments of it.
pub(super) fn placed(capture: &Capture, damage: &Damage, look: &Look) -> Placed {
    let end = capture.makespan().as_f64().max(1.0);
    let (body, area, height) = Drawing::new(capture, damage, look).whole((0.0, end));
    Placed { body, height, area, end }
}

/// Whole runs one under another, aligned at their start on one time scale.
pub fn compare_svg(captures: &[Capture]) -> String {
    let whole = Damage::default();
    let runs: Vec<_> = captures.iter().map(|capture| (capture, &whole)).collect();
    beside_svg(&runs, None, &Look::default())
}

/// Runs with what their files had lost one under another, aligned at their start; of a stretch of time, or of all.
pub fn beside_svg(runs: &[(&Capture, &Damage)], window: Option<(f64, f64)>, look: &Look) -> String {
    let end = runs.iter().map(|(capture, _)| capture.makespan().0).max().unwrap_or(1).max(1) as f64;
    let mut body = String::new();
    let mut y = 10.0;
    for (capture, damage) in runs {
        let drawing = Drawing::new(capture, damage, look);
        let head = drawing.head(&mut body, y + 16.0, 14);
        let area = Rect::from_min_size(pos2(LEFT, head + 8.0), vec2(drawing.inner(), BESIDE));
        drawing.lanes(&mut body, area, window.unwrap_or((0.0, end)));
        y = area.bottom() + 32.0;
    }
    document(look, y + 6.0, &body)
}
