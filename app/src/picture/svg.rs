//! What every picture is made of: a page, rectangles and text as SVG.

use std::fmt::Write as _;

use egui::{Color32, Rect};
use engine::metrics;
use engine::shown;

use crate::theme::tokens;
use crate::timeline::bubbles;

pub(crate) const WIDTH: f32 = 1200.0;
pub(crate) const LEFT: f32 = 60.0;

pub(crate) fn hex(colour: Color32) -> String {
    format!("#{:02x}{:02x}{:02x}", colour.r(), colour.g(), colour.b())
}

fn escaped(text: &str) -> String {
    shown::line(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

pub(crate) fn text(out: &mut String, x: f32, y: f32, size: u32, fill: Color32, text: &str) {
    let fill = hex(fill);
    let _ = writeln!(out, r#"<text x="{x:.1}" y="{y:.1}" font-size="{size}" fill="{fill}">{}</text>"#, escaped(text));
}

pub(crate) fn rect(out: &mut String, place: Rect, fill: &str) {
    let (x, y, w, h) = (place.left(), place.top(), place.width(), place.height());
    let _ = writeln!(out, r#"<rect x="{x:.2}" y="{y:.2}" width="{w:.2}" height="{h:.2}" fill="{fill}"/>"#);
}

pub(crate) fn document(height: f32, body: &str) -> String {
    let t = tokens(false);
    let mut patterns = String::new();
    for cause in metrics::BubbleCause::ALL {
        let (name, fill) = (cause.name(), hex(bubbles::colour(t, cause)));
        let _ = writeln!(
            patterns,
            r#"<pattern id="{name}" width="6" height="6" patternUnits="userSpaceOnUse"><rect width="6" height="6" fill="{fill}" opacity="0.25"/><path d="M0 6 L6 0" stroke="{fill}" stroke-width="1.2"/></pattern>"#
        );
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\">\n<defs>\n{patterns}</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"{}\"/>\n{body}</svg>\n",
        hex(t.canvas)
    )
}
