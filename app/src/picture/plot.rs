//! Line plots as SVG, for the figures of benchmarks.

use std::fmt::Write as _;

use egui::{Rect, pos2, vec2};

use super::look::Look;
use super::svg::{WIDTH, document, hex, text};
use crate::theme::tokens;

/// Dashes of lines, so that colour is never the only sign.
const DASHES: [&str; 6] = ["", "7 3", "2 3", "10 3 2 3", "4 4", "1 2"];
/// Places of the colours on the list of hues.
const HUES: [u32; 6] = [4, 5, 2, 1, 3, 7];
const AREA: (f32, f32, f32, f32) = (76.0, 86.0, 30.0, 420.0);

/// One line.
#[derive(Clone, Debug)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Which colour and which dashes it has, each from 0 to 5.
    pub look: (usize, usize),
    /// Points by x.
    pub points: Vec<(f64, f64)>,
}

/// A plot of several lines.
#[derive(Clone, Debug)]
pub struct Plot {
    /// What it shows, on what, and where the figures come from.
    pub title: String,
    /// Quantity and unit across.
    pub across: String,
    /// Quantity and unit upward.
    pub upward: String,
    /// The lines.
    pub series: Vec<Series>,
}

/// A step of 1, 2 or 5 times a power of ten that cuts `range` into about six.
fn step(range: f64) -> f64 {
    let raw = (range / 6.0).max(f64::MIN_POSITIVE);
    let power = 10_f64.powf(raw.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|times| times * power).find(|step| *step >= raw).unwrap_or(raw)
}

/// Least and most of a coordinate, or 0 to 1 of nothing.
fn range(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let low = values.clone().fold(f64::INFINITY, f64::min);
    let high = values.fold(f64::NEG_INFINITY, f64::max);
    if low < high { (low, high) } else { (0.0, 1.0) }
}

/// A number without needless digits.
fn short(value: f64, step: f64) -> String {
    let digits = (-step.log10().floor()).clamp(0.0, 6.0) as usize;
    format!("{value:.digits$}")
}

/// The plot as SVG.
pub fn svg(plot: &Plot) -> String {
    let t = tokens(false);
    let (left, top, right, height) = AREA;
    let area = Rect::from_min_size(pos2(left, top), vec2(WIDTH - left - right, height));
    let points = || plot.series.iter().flat_map(|series| series.points.iter());
    let (x_low, x_high) = range(points().map(|point| point.0));
    let (y_low, y_high) = range(points().map(|point| point.1));
    let (x_step, y_step) = (step(x_high - x_low), step(y_high - y_low));
    let (y_low, y_high) = ((y_low / y_step).floor() * y_step, (y_high / y_step).ceil() * y_step);
    let x = |value: f64| area.left() + ((value - x_low) / (x_high - x_low)) as f32 * area.width();
    let y = |value: f64| area.bottom() - ((value - y_low) / (y_high - y_low)) as f32 * area.height();
    let mut body = String::new();
    text(&mut body, left, 26.0, 15, t.text, &plot.title);
    text(&mut body, 12.0, top - 12.0, 12, t.faint, &plot.upward);
    text(&mut body, area.center().x, area.bottom() + 38.0, 12, t.faint, &plot.across);
    let grid = hex(t.line);
    for tick in ticks(y_low, y_high, y_step) {
        let at = y(tick);
        let _ = writeln!(
            body,
            r#"<path d="M{:.1} {at:.1} H{:.1}" stroke="{grid}" stroke-width="1"/>"#,
            area.left(),
            area.right()
        );
        text(&mut body, 14.0, at + 4.0, 11, t.faint, &short(tick, y_step));
    }
    for tick in ticks(x_low, x_high, x_step) {
        text(&mut body, x(tick) - 6.0, area.bottom() + 18.0, 11, t.faint, &short(tick, x_step));
    }
    let mut legend = left;
    for series in &plot.series {
        let (hue, dash) = series.look;
        let (stroke, dash) = (hex(t.entity(HUES[hue % HUES.len()])), DASHES[dash % DASHES.len()]);
        let line = |body: &mut String, path: &str| {
            let _ = writeln!(
                body,
                r#"<path d="{path}" fill="none" stroke="{stroke}" stroke-width="2" stroke-dasharray="{dash}"/>"#
            );
        };
        let mut path = String::new();
        for (index, point) in series.points.iter().enumerate() {
            let _ = write!(path, "{}{:.1} {:.1}", if index == 0 { "M" } else { "L" }, x(point.0), y(point.1));
        }
        line(&mut body, &path);
        line(&mut body, &format!("M{legend:.1} 46 h28"));
        text(&mut body, legend + 34.0, 50.0, 12, t.text, &series.name);
        legend += 58.0 + series.name.chars().count() as f32 * 6.6;
    }
    document(&Look::default(), area.bottom() + 56.0, &body)
}

/// Multiples of `step` from `low` to `high`.
fn ticks(low: f64, high: f64, step: f64) -> impl Iterator<Item = f64> {
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).map(move |at| at as f64 * step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within_the_range() {
        assert!((step(32.0) - 10.0).abs() < 1e-9 && (step(5.9) - 1.0).abs() < 1e-9 && (step(0.6) - 0.1).abs() < 1e-9);
        let all: Vec<f64> = ticks(0.9, 1.5, 0.1).collect();
        assert_eq!(all.len(), 7, "{all:?}");
    }

    #[test]
    fn a_plot_of_nothing_or_of_one_point_is_drawn_all_the_same() {
        let of = |points| Plot {
            title: "a < b".to_owned(),
            across: String::new(),
            upward: String::new(),
            series: vec![Series { name: "one".to_owned(), look: (0, 0), points }],
        };
        for points in [vec![], vec![(1.0, 2.0)], vec![(0.0, 1.0), (1.0, 3.0)]] {
            let drawn = svg(&of(points));
            assert!(drawn.starts_with("<svg") && drawn.contains("a &lt; b") && !drawn.contains("NaN"));
        }
    }
}
