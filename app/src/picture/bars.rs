//! Bars without a display: a group for each case, a bar for each way, on a logarithmic scale of the
//! factor to the first way.

use egui::{Rect, pos2, vec2};

use super::look::Look;
use super::svg::{LEFT, WIDTH, document, hex, rect, text};
use crate::theme::tokens;

/// Height of the plotting area.
const HEIGHT: f32 = 320.0;
/// Lines of the scale, as factors.
const FACTORS: [f64; 9] = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

/// A chart.
#[derive(Clone, Debug, Default)]
pub struct Bars {
    /// Title, with where the figures come from.
    pub title: String,
    /// Name of each group.
    pub cases: Vec<String>,
    /// Name of each way, the first being what the others are compared with.
    pub ways: Vec<String>,
    /// Of each case, the value of each way; `None` where there is none.
    pub values: Vec<Vec<Option<f64>>>,
}

impl Bars {
    /// Factor of a way to the first way of its case.
    fn factor(&self, case: usize, way: usize) -> Option<f64> {
        let row = self.values.get(case)?;
        let (first, value) = (row.first().copied()??, row.get(way).copied()??);
        (first > 0.0 && value > 0.0).then(|| value / first)
    }

    /// The chart as an SVG picture.
    pub fn svg(&self) -> String {
        let t = tokens(false);
        let mut body = String::new();
        text(&mut body, LEFT, 26.0, 15, t.text, &self.title);
        let legend_end = self.legend(&mut body);
        let area = Rect::from_min_size(pos2(LEFT, legend_end + 14.0), vec2(WIDTH - LEFT - 20.0, HEIGHT));
        let (low, high) = self.range();
        let y = |factor: f64| {
            let along = (factor.ln() - low.ln()) / (high.ln() - low.ln());
            area.bottom() - area.height() * along.clamp(0.0, 1.0) as f32
        };
        for factor in FACTORS.into_iter().filter(|factor| (low..=high).contains(factor)) {
            rect(&mut body, Rect::from_min_size(pos2(area.left(), y(factor)), vec2(area.width(), 0.8)), &hex(t.line));
            text(&mut body, 8.0, y(factor) + 4.0, 11, t.faint, &format!("{factor}×"));
        }
        let group = area.width() / self.cases.len().max(1) as f32;
        let bar = group * 0.84 / self.ways.len().max(1) as f32;
        for (case, name) in self.cases.iter().enumerate() {
            let left = area.left() + group * (case as f32 + 0.08);
            for way in 0..self.ways.len() {
                let Some(factor) = self.factor(case, way) else { continue };
                let (from, to) = (y(1.0_f64.clamp(low, high)), y(factor));
                let top = from.min(to) - 1.0;
                let place = vec2((bar * 0.9).max(0.8), (from - to).abs() + 2.0);
                let at = pos2(left + bar * way as f32, top);
                rect(&mut body, Rect::from_min_size(at, place), &hex(t.entity(way as u32)));
            }
            // Names step down in threes, so that long ones do not run into each other.
            let down = area.bottom() + 14.0 + 13.0 * (case % 3) as f32;
            text(&mut body, left, down, 10, t.faint, name);
        }
        document(&Look::default(), area.bottom() + 56.0, &body)
    }

    /// Names of the ways with their colours; gives where it ends.
    fn legend(&self, body: &mut String) -> f32 {
        let t = tokens(false);
        let (mut x, mut y) = (LEFT, 48.0);
        for (way, name) in self.ways.iter().enumerate() {
            let wide = 30.0 + name.chars().count() as f32 * 6.6;
            if x + wide > WIDTH - 20.0 {
                (x, y) = (LEFT, y + 18.0);
            }
            rect(body, Rect::from_min_size(pos2(x, y - 10.0), vec2(12.0, 11.0)), &hex(t.entity(way as u32)));
            text(body, x + 16.0, y, 12, t.text, name);
            x += wide;
        }
        y
    }

    /// The scale: from below the least to above the most factor.
    fn range(&self) -> (f64, f64) {
        let factors =
            (0..self.cases.len()).flat_map(|case| (0..self.ways.len()).filter_map(move |way| self.factor(case, way)));
        let (low, high) = factors.fold((1.0_f64, 1.0_f64), |(low, high), f| (low.min(f), high.max(f)));
        (low.min(0.5) * 0.9, high.max(2.0) * 1.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_a_bar_and_a_missing_one_is_none() {
        let bars = Bars {
            title: "simulated".to_owned(),
            cases: vec!["a".to_owned(), "b".to_owned()],
            ways: vec!["pat".to_owned(), "relay".to_owned()],
            values: vec![vec![Some(2.0), Some(6.0)], vec![Some(1.0), None]],
        };
        assert_eq!(bars.factor(0, 1), Some(3.0));
        let svg = bars.svg();
        let full = svg.matches("<rect").count();
        let less = Bars { values: vec![vec![Some(2.0), None], vec![Some(1.0), None]], ..bars }.svg();
        assert_eq!(full, less.matches("<rect").count() + 1, "one bar more");
        assert!(svg.contains(">2×<"), "the scale reaches over both");
    }
}
