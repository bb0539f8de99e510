//! What every picture is made of: a page, rectangles and text as SVG.

use std::fmt::Write as _;

use egui::{Color32, Rect};
use engine::metrics;
use engine::shown;

use super::look::Look;
use crate::timeline::bubbles;

/// Width of the pictures of benches.
pub(crate) const WIDTH: f32 = 1200.0;
pub(crate) const LEFT: f32 = 60.0;
/// Width of a letter over the size of its text, on average.
const LETTER: f32 = 0.53;

pub(crate) fn hex(colour: Color32) -> String {
    format!("#{:02x}{:02x}{:02x}", colour.r(), colour.g(), colour.b())
}

pub(super) fn escaped(text: &str) -> String {
    shown::line(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

pub(crate) fn text(out: &mut String, x: f32, y: f32, size: u32, fill: Color32, text: &str) {
    let fill = hex(fill);
    let _ = writeln!(out, r#"<text x="{x:.1}" y="{y:.1}" font-size="{size}" fill="{fill}">{}</text>"#, escaped(text));
}

/// How wide a text is, about.
pub(super) fn width_of(text: &str, size: u32) -> f32 {
    text.chars().count() as f32 * size as f32 * LETTER
}

/// A text in as many lines as it needs in a width; gives the height of those after the first.
pub(super) fn wrapped(out: &mut String, (x, y, width): (f32, f32, f32), size: u32, fill: Color32, words: &str) -> f32 {
    let step = size as f32 * 1.35;
    let (mut line, mut down) = (String::new(), 0.0);
    for word in words.split(' ') {
        if !line.is_empty() && width_of(&line, size) + width_of(word, size) > width {
            text(out, x, y + down, size, fill, &line);
            (line, down) = (String::new(), down + step);
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    text(out, x, y + down, size, fill, &line);
    down
}

pub(crate) fn rect(out: &mut String, place: Rect, fill: &str) {
    let (x, y, w, h) = (place.left(), place.top(), place.width(), place.height());
    let _ = writeln!(out, r#"<rect x="{x:.2}" y="{y:.2}" width="{w:.2}" height="{h:.2}" fill="{fill}"/>"#);
}

/// A page that is as wide as its look says, with the hatches of bubbles.
pub(crate) fn document(look: &Look, height: f32, body: &str) -> String {
    page(look, look.width.units(), height, &hatches(look), body)
}

/// A pattern for each cause of bubbles, by its name.
pub(super) fn hatches(look: &Look) -> String {
    let mut patterns = String::new();
    for cause in metrics::BubbleCause::ALL {
        let (name, fill, path) = (cause.name(), hex(bubbles::colour(look.tokens(), cause)), bubbles::path(cause));
        let _ = writeln!(
            patterns,
            r#"<pattern id="{name}" width="8" height="8" patternUnits="userSpaceOnUse"><rect width="8" height="8" fill="{fill}" opacity="0.25"/><path d="{path}" stroke="{fill}" stroke-width="1.4" fill="none"/></pattern>"#
        );
    }
    patterns
}

/// A page of so many units, as wide as its look says.
pub(super) fn page(look: &Look, units: f32, height: f32, definitions: &str, body: &str) -> String {
    let shrunk = look.width.units() / units;
    let (width, tall) = (look.width.length(units * shrunk), look.width.length(height * shrunk));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{tall}\" viewBox=\"0 0 {units} {height}\" font-family=\"sans-serif\">\n<defs>\n{definitions}</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"{}\"/>\n{body}</svg>\n",
        hex(look.tokens().canvas)
    )
}
