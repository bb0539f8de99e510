//! The timeline as a picture: the window's own layout, without a display.

use std::fmt::Write as _;

use egui::{Color32, Rect, pos2, vec2};
use engine::capture::Capture;
use engine::metrics;
use engine::plan::CtaRole;
use engine::units::Nanos;

use super::svg::{LEFT, WIDTH, document, hex, rect, text};
use crate::runs::damage::{self, Damage};
use crate::runs::headline;
use crate::theme::{Tokens, mix, tokens};
use crate::timeline::colour::entity_colour;
use crate::timeline::counters::caption;
use crate::timeline::lanes::Lanes;
use crate::timeline::layout::{Layout, View, ticks};

fn title(capture: &Capture) -> String {
    let batch = if capture.batch.name.is_empty() { "batch" } else { &capture.batch.name };
    let (plan, made) = (&capture.plan, &capture.provenance);
    let way = format!("{} · {} · {}", plan.scheduler, plan.strategy.name(), made.device_name);
    format!("{batch} · {way} · {}", headline::sentence(capture))
}

/// Under a title: which run the lanes are of, and what its file had lost. Gives the height that it takes.
fn subtitle(out: &mut String, t: &Tokens, capture: &Capture, damage: &Damage, top: f32) -> f32 {
    let mut lines: Vec<(String, Color32)> = Vec::new();
    lines.extend(headline::lanes(capture, damage).map(|traced| (traced, t.faint)));
    let lost = damage.missing().iter().map(|missing| (format!("the capture is damaged; it lacks {missing}"), t.warn));
    lines.extend(lost);
    for (at, (line, fill)) in lines.iter().enumerate() {
        text(out, LEFT, top + 15.0 * at as f32, 11, *fill, line);
    }
    15.0 * lines.len() as f32
}

fn lanes(out: &mut String, t: &Tokens, (capture, damage): (&Capture, &Damage), area: Rect, (begin, end): (f64, f64)) {
    let lanes = Lanes::of(capture);
    let layout = Layout::new(&lanes, View { begin, end, scroll: 0.0, lane_height: None }, area);
    // Where CTAs are lost, a gap may be none; where windows are, its cause is not known.
    let gaps = if damage.of_causes().is_none() && !layout.is_strips() {
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
    let colour = |entity| entity_colour(t, &capture.plan, entity, false);
    if layout.is_strips() {
        layout.strips(&lanes, &capture.spans, |piece, share, place| {
            rect(out, place, &hex(mix(t.canvas, colour(piece.entity), share)));
        });
    } else {
        layout.pieces(&lanes, &capture.spans, |_, piece, place| rect(out, place, &hex(colour(piece.entity))));
    }
    for tick in ticks(layout.view, area.width(), 110.0) {
        let x = layout.x(tick);
        text(out, x, area.bottom() + 14.0, 11, t.faint, &Nanos(tick as u64).to_string());
    }
}

fn legend(out: &mut String, t: &Tokens, (capture, damage): (&Capture, &Damage), y: f32) {
    let report = metrics::bubbles(&capture.plan, capture);
    let busy = damage::busy(report.busy_share(), 1, damage);
    text(out, LEFT, y, 12, t.text, &format!("busy {busy}"));
    let mut x = LEFT + 90.0;
    if !capture.plan.prefill.is_empty() {
        let roles = [
            (CtaRole::Prefill, "prefill", t.prefill),
            (CtaRole::Decode, "decode", t.decode),
            (CtaRole::Both, "both", t.both),
            (CtaRole::Merge, "merge", t.merge),
        ];
        for (_, name, fill) in roles.into_iter().filter(|(role, ..)| capture.spans.role.contains(role)) {
            rect(out, Rect::from_min_size(pos2(x, y - 10.0), vec2(14.0, 11.0)), &hex(fill));
            text(out, x + 18.0, y, 12, t.text, name);
            x += 36.0 + name.len() as f32 * 6.6;
        }
    }
    if let Some(reason) = damage.of_causes() {
        return text(out, x, y, 12, t.warn, &format!("bubbles {} ({reason})", damage::UNKNOWN));
    }
    for bubble in report.bubbles.iter().filter(|bubble| bubble.slot_time.0 > 0) {
        let name = bubble.cause.name();
        rect(out, Rect::from_min_size(pos2(x, y - 10.0), vec2(14.0, 11.0)), &format!("url(#{name})"));
        let label = format!("{} {:.1} %", name.replace('-', " "), report.share(bubble.slot_time) * 100.0);
        text(out, x + 18.0, y, 12, t.text, &label);
        x += 36.0 + label.len() as f32 * 6.6;
    }
}

/// The timeline of a run with its bubbles, title, source and legend.
pub fn timeline_svg(capture: &Capture, damage: &Damage) -> String {
    window_svg(capture, damage, None)
}

/// The timeline with where its lanes lie, for the moments of an animation.
pub(super) struct Placed {
    /// The picture.
    pub(super) svg: String,
    /// The picture with its lanes and counters drawn back.
    pub(super) veil: String,
    /// Where lanes and counters lie.
    pub(super) area: Rect,
    /// Nanoseconds that the area is wide.
    pub(super) end: f64,
}

/// Draws the timeline for an animation.
pub(super) fn placed(capture: &Capture, damage: &Damage) -> Placed {
    let end = capture.makespan().as_f64().max(1.0);
    let (body, area, height) = drawn(capture, damage, (0.0, end));
    let mut veil = body.clone();
    let fill = hex(tokens(false).canvas);
    let (x, y, width, tall) = (area.left(), area.top(), area.width(), area.height());
    let _ = writeln!(
        veil,
        r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{tall:.1}" fill="{fill}" fill-opacity="0.78"/>"#
    );
    Placed { svg: document(height, &body), veil: document(height, &veil), area, end }
}

/// The same of a stretch of time, in nanoseconds; of all where there is none.
pub fn window_svg(capture: &Capture, damage: &Damage, window: Option<(f64, f64)>) -> String {
    let window = window.unwrap_or((0.0, capture.makespan().as_f64().max(1.0)));
    let (body, _, height) = drawn(capture, damage, window);
    document(height, &body)
}

/// The body of the picture, where its lanes and counters lie, and its height.
fn drawn(capture: &Capture, damage: &Damage, window: (f64, f64)) -> (String, Rect, f32) {
    let t = tokens(false);
    let mut body = String::new();
    text(&mut body, LEFT, 26.0, 15, t.text, &title(capture));
    let under = subtitle(&mut body, t, capture, damage, 43.0);
    legend(&mut body, t, (capture, damage), 48.0 + under);
    let height = (capture.slots() as f32 * 2.0).clamp(240.0, 900.0);
    let area = Rect::from_min_size(pos2(LEFT, 60.0 + under), vec2(WIDTH - LEFT - 20.0, height));
    text(&mut body, 8.0, area.top() + 10.0, 11, t.faint, "SM 0");
    let last = format!("SM {}", capture.provenance.sm_count.saturating_sub(1));
    text(&mut body, 8.0, area.bottom(), 11, t.faint, &last);
    lanes(&mut body, t, (capture, damage), area, window);
    let under = Rect::from_min_size(pos2(LEFT, area.bottom() + 24.0), vec2(area.width(), 0.0));
    let bottom = counters(&mut body, t, capture, under, window);
    let all = area.with_max_y(if bottom > under.top() { bottom - 18.0 } else { area.bottom() });
    (body, all, bottom + 6.0)
}

/// Throughputs and shares under the lanes, on their axis; returns where they end.
fn counters(out: &mut String, t: &Tokens, capture: &Capture, under: Rect, (begin, end): (f64, f64)) -> f32 {
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
        let place = Rect::from_min_size(pos2(under.left(), top), vec2(under.width(), if bytes { 84.0 } else { 48.0 }));
        rect(out, place, &hex(t.back));
        for (at, series) in rows.into_iter().enumerate() {
            let colour = t.entity([4, 5, 2, 7][(at + if bytes { 0 } else { 2 }) % 4]);
            let mut points = String::new();
            for (step, value) in series.values.iter().enumerate().filter(|(_, value)| value.is_finite()) {
                for time in [step, step + 1].map(|step| series.start.as_f64() + series.step.as_f64() * step as f64) {
                    let x = place.left() + ((time - begin) / (end - begin)).clamp(0.0, 1.0) as f32 * place.width();
                    let y = place.bottom() - (value / most) as f32 * (place.height() - 2.0);
                    let _ = write!(points, "{x:.1},{y:.1} ");
                }
            }
            let fill = hex(colour);
            let _ = writeln!(out, r#"<polyline points="{points}" fill="none" stroke="{fill}" stroke-width="1.2"/>"#);
            text(
                out,
                place.left() + 6.0,
                place.top() + 13.0 + 13.0 * at as f32,
                11,
                colour,
                &series.name.replace('_', " "),
            );
        }
        let limit = if bytes { format!("top: {:.2} TB/s", most / 1e12) } else { "top: 100 %".to_owned() };
        text(out, place.right() - 96.0, place.top() + 13.0, 11, t.faint, &limit);
        top = place.bottom() + 6.0;
    }
    if top > under.top() {
        text(out, under.left(), top + 10.0, 11, t.faint, &caption(capture));
        top += 16.0;
    }
    top
}

/// Runs of this session one under another, aligned at their start on one time scale.
pub fn compare_svg(captures: &[Capture]) -> String {
    let t = tokens(false);
    let end = captures.iter().map(|capture| capture.makespan().0).max().unwrap_or(1).max(1) as f64;
    let mut body = String::new();
    let mut y = 10.0;
    for capture in captures {
        let whole = Damage::default();
        text(&mut body, LEFT, y + 16.0, 14, t.text, &title(capture));
        let under = subtitle(&mut body, t, capture, &whole, y + 32.0);
        legend(&mut body, t, (capture, &whole), y + 36.0 + under);
        let area = Rect::from_min_size(pos2(LEFT, y + 44.0 + under), vec2(WIDTH - LEFT - 20.0, 140.0));
        lanes(&mut body, t, (capture, &whole), area, (0.0, end));
        y += 216.0 + under;
    }
    document(y + 6.0, &body)
}
