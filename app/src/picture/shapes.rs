//! What a panel painted as SVG: the same shapes at the same places, so that a picture is what the window shows.
//!
//! ```text
//! panel ─► egui shapes, each with its clip ─► SVG elements: rectangles, lines, polygons, text by lines
//! ```
//!
//! Each line of text carries the width that it has in the window, so that another font does not move what is beside it.

use std::fmt::Write as _;

use egui::epaint::{ClippedShape, ColorMode, Mesh, PathShape, RectShape, TextShape, WHITE_UV};
use egui::{Color32, FontFamily, Pos2, Rect, Shape, Stroke, StrokeKind};

use super::look::Look;
use super::svg::{escaped, hatches, page, rect, text};
use crate::timeline::bubbles;

/// Free space around all.
const MARGIN: f32 = 6.0;
/// What ends so near the end of its page did not fit.
const CUT: f32 = 24.0;

/// The shapes as a picture: from the top of `area` down to the last of them, over all of its width. Where they reach its
/// end, what did not fit is told by `cut`.
pub fn svg(shapes: &[ClippedShape], area: Rect, look: &Look, cut: Option<&str>) -> String {
    let mut out = Svg { body: String::new(), clips: Vec::new(), has_hatch: false };
    let mut bottom = area.top();
    for ClippedShape { clip_rect, shape, .. } in shapes {
        let bounds = shape.visual_bounding_rect();
        let clip = clip_rect.intersect(area);
        if bounds.intersect(clip).is_positive() {
            bottom = bottom.max(bounds.bottom().min(clip.bottom()));
            out.clipped(shape, bounds, clip);
        }
    }
    let mut definitions = if out.has_hatch { hatches(look) } else { String::new() };
    for (at, clip) in out.clips.iter().enumerate() {
        let (x, y, w, h) = (clip.left(), clip.top(), clip.width(), clip.height());
        let _ = writeln!(
            definitions,
            r#"<clipPath id="clip{at}"><rect x="{x:.1}" y="{y:.1}" width="{w:.1}" height="{h:.1}"/></clipPath>"#
        );
    }
    if let Some(cut) = cut.filter(|_| bottom > area.bottom() - CUT) {
        bottom += 14.0;
        text(&mut out.body, area.left() + 12.0, bottom, 11, look.tokens().warn, cut);
    }
    page(look, area.width(), bottom - area.top() + MARGIN, &definitions, &out.body)
}

/// A colour as an attribute, with its opacity where it has one.
fn paint(name: &str, colour: Color32) -> String {
    let [r, g, b, alpha] = colour.to_srgba_unmultiplied();
    match alpha {
        0 => format!(r#"{name}="none""#),
        255 => format!(r##"{name}="#{r:02x}{g:02x}{b:02x}""##),
        _ => format!(r##"{name}="#{r:02x}{g:02x}{b:02x}" {name}-opacity="{:.3}""##, f32::from(alpha) / 255.0),
    }
}

fn line_of(stroke: Stroke) -> String {
    format!(r#"{} stroke-width="{:.2}""#, paint("stroke", stroke.color), stroke.width)
}

struct Svg {
    body: String,
    clips: Vec<Rect>,
    /// A bubble is drawn.
    has_hatch: bool,
}

impl Svg {
    /// A shape within its clip, which is written only where it cuts.
    fn clipped(&mut self, shape: &Shape, bounds: Rect, clip: Rect) {
        if clip.expand(1.0).contains_rect(bounds) {
            return self.shape(shape);
        }
        let at = self.clips.iter().position(|known| *known == clip).unwrap_or_else(|| {
            self.clips.push(clip);
            self.clips.len() - 1
        });
        let _ = writeln!(self.body, r#"<g clip-path="url(#clip{at})">"#);
        self.shape(shape);
        self.body.push_str("</g>\n");
    }

    fn shape(&mut self, shape: &Shape) {
        match shape {
            Shape::Vec(all) => all.iter().for_each(|shape| self.shape(shape)),
            Shape::Rect(rect) => self.rect(rect),
            Shape::Circle(circle) => {
                let (x, y, r) = (circle.center.x, circle.center.y, circle.radius);
                let (fill, line) = (paint("fill", circle.fill), line_of(circle.stroke));
                let _ = writeln!(self.body, r#"<circle cx="{x:.1}" cy="{y:.1}" r="{r:.1}" {fill} {line}/>"#);
            }
            Shape::Ellipse(ellipse) => {
                let (at, radius) = (ellipse.center, ellipse.radius);
                let (fill, line) = (paint("fill", ellipse.fill), line_of(ellipse.stroke));
                let _ = writeln!(
                    self.body,
                    r#"<ellipse cx="{:.1}" cy="{:.1}" rx="{:.1}" ry="{:.1}" {fill} {line}/>"#,
                    at.x, at.y, radius.x, radius.y
                );
            }
            Shape::LineSegment { points: [a, b], stroke } if stroke.width > 0.0 => {
                let line = line_of(*stroke);
                let _ = writeln!(self.body, r#"<path d="M{:.2} {:.2}L{:.2} {:.2}" {line}/>"#, a.x, a.y, b.x, b.y);
            }
            Shape::Path(path) => self.path(path),
            Shape::QuadraticBezier(curve) => {
                let points = curve.flatten(None);
                self.points(&points, curve.closed, curve.fill, colour_of(&curve.stroke.color), curve.stroke.width);
            }
            Shape::CubicBezier(curve) => {
                let points = curve.flatten(None);
                self.points(&points, curve.closed, curve.fill, colour_of(&curve.stroke.color), curve.stroke.width);
            }
            Shape::Text(text) => self.text(text),
            Shape::Mesh(mesh) => self.mesh(mesh),
            // Neither is anything that a panel paints: nothing, bands, and what a graphics card paints by itself.
            Shape::Noop | Shape::LineSegment { .. } | Shape::Band(_) | Shape::Callback(_) => {}
        }
    }

    fn rect(&mut self, shape: &RectShape) {
        // A blurred rectangle is a shadow, which paper has not.
        if shape.blur_width > 0.0 || (shape.fill.a() == 0 && shape.stroke.is_empty()) {
            return;
        }
        let by = match shape.stroke_kind {
            StrokeKind::Inside => -shape.stroke.width / 2.0,
            StrokeKind::Middle => 0.0,
            StrokeKind::Outside => shape.stroke.width / 2.0,
        };
        let place = if shape.stroke.is_empty() { shape.rect } else { shape.rect.expand(by) };
        let (x, y, w, h) = (place.left(), place.top(), place.width().max(0.0), place.height().max(0.0));
        let round = match shape.corner_radius.nw {
            0 => String::new(),
            radius => format!(r#" rx="{radius}""#),
        };
        let line = if shape.stroke.is_empty() { String::new() } else { format!(" {}", line_of(shape.stroke)) };
        let fill = paint("fill", shape.fill);
        let _ =
            writeln!(self.body, r#"<rect x="{x:.2}" y="{y:.2}" width="{w:.2}" height="{h:.2}"{round} {fill}{line}/>"#);
    }

    fn hatched(&mut self, place: Rect, pattern: &str) {
        self.has_hatch = true;
        rect(&mut self.body, place, &format!("url(#{pattern})"));
    }

    fn path(&mut self, path: &PathShape) {
        self.points(&path.points, path.closed, path.fill, colour_of(&path.stroke.color), path.stroke.width);
    }

    fn points(&mut self, points: &[Pos2], closed: bool, fill: Color32, colour: Color32, width: f32) {
        let mut told = String::new();
        for point in points {
            let _ = write!(told, "{:.2},{:.2} ", point.x, point.y);
        }
        let element = if closed { "polygon" } else { "polyline" };
        let (fill, line) = (paint("fill", fill), line_of(Stroke::new(width, colour)));
        let _ = writeln!(self.body, r#"<{element} points="{}" {fill} {line}/>"#, told.trim_end());
    }

    /// Rectangles as four corners each, as lanes are painted, and triangles else.
    fn mesh(&mut self, mesh: &Mesh) {
        let plain = |at: usize| mesh.vertices[at].uv == WHITE_UV;
        let mut at = 0;
        while let Some(triangle) = mesh.indices.get(at..at + 3) {
            let corners = triangle.iter().map(|index| *index as usize);
            let quad = mesh.indices.get(at..at + 6).and_then(|six| rectangle(mesh, six));
            let Some(first) = corners.clone().next() else { break };
            let colour = mesh.vertices[first].color;
            // What carries a texture is a bubble in its hatch.
            let colour = if plain(first) { colour } else { colour.gamma_multiply(0.4) };
            if let Some(place) = quad {
                let corners: Vec<Pos2> = corners.map(|corner| mesh.vertices[corner].uv).collect();
                match bubbles::cause_at(&corners).filter(|_| !plain(first)) {
                    Some(cause) => self.hatched(place, cause.name()),
                    None => self.rect(&RectShape::filled(place, 0.0, colour)),
                }
                at += 6;
            } else {
                let points: Vec<Pos2> = corners.map(|corner| mesh.vertices[corner].pos).collect();
                self.points(&points, true, colour, Color32::TRANSPARENT, 0.0);
                at += 3;
            }
        }
    }

    fn text(&mut self, shape: &TextShape) {
        let job = &shape.galley.job;
        let mut sections = job.sections.iter().peekable();
        let mut offset = 0;
        for row in &shape.galley.rows {
            let mut glyphs = row.row.glyphs.as_slice();
            while !glyphs.is_empty() {
                while sections.peek().is_some_and(|section| section.byte_range.end.0 <= offset) {
                    sections.next();
                }
                let Some(section) = sections.peek().copied().or(job.sections.last()) else { return };
                let (mut count, mut to) = (0, offset);
                for glyph in glyphs {
                    if count > 0 && to >= section.byte_range.end.0 {
                        break;
                    }
                    to += glyph.chr.len_utf8();
                    count += 1;
                }
                let (run, rest) = glyphs.split_at(count);
                let format = &section.format;
                let colour = match shape.override_text_color {
                    Some(colour) => colour,
                    None if format.color == Color32::PLACEHOLDER => shape.fallback_color,
                    None => format.color,
                };
                let words: String = run.iter().map(|glyph| glyph.chr).collect();
                let from = shape.pos + row.pos.to_vec2();
                let right = run.iter().map(|glyph| glyph.pos.x + glyph.advance_width).fold(f32::MIN, f32::max);
                let begin = from + run[0].pos.to_vec2();
                let mono = format.font_id.family == FontFamily::Monospace;
                let how = Line { begin, width: right - run[0].pos.x, size: format.font_id.size, mono };
                self.line(&words, &how, colour.gamma_multiply(shape.opacity_factor), (shape.angle, shape.pos));
                (glyphs, offset) = (rest, to);
            }
            offset += usize::from(row.ends_with_newline);
        }
    }

    fn line(&mut self, words: &str, how: &Line, colour: Color32, (angle, around): (f32, Pos2)) {
        let trimmed = words.trim_end();
        if trimmed.trim().is_empty() || colour.a() == 0 {
            return;
        }
        let lost = (words.chars().count() - trimmed.chars().count()) as f32 / words.chars().count().max(1) as f32;
        let (x, y, size) = (how.begin.x, how.begin.y, how.size);
        let width = how.width * (1.0 - lost);
        let family = if how.mono { r#" font-family="monospace""# } else { "" };
        let turned = if angle.abs() > 1e-3 {
            format!(r#" transform="rotate({:.1} {:.1} {:.1})""#, angle.to_degrees(), around.x, around.y)
        } else {
            String::new()
        };
        let fill = paint("fill", colour);
        let _ = writeln!(
            self.body,
            r#"<text x="{x:.2}" y="{y:.2}" font-size="{size}" textLength="{width:.1}" lengthAdjust="spacingAndGlyphs"{family}{turned} {fill}>{}</text>"#,
            escaped(trimmed)
        );
    }
}

/// Where a line of text begins, how wide it is, and in which letters.
struct Line {
    begin: Pos2,
    width: f32,
    size: f32,
    mono: bool,
}

fn colour_of(mode: &ColorMode) -> Color32 {
    match mode {
        ColorMode::Solid(colour) => *colour,
        ColorMode::UV(_) => Color32::TRANSPARENT,
    }
}

/// The rectangle of two triangles that have four corners of one colour.
fn rectangle(mesh: &Mesh, six: &[u32]) -> Option<Rect> {
    let base = *six.iter().min()? as usize;
    let corners = mesh.vertices.get(base..base + 4)?;
    let is_quad = six.iter().all(|index| (*index as usize) < base + 4);
    let place = Rect::from_points(&corners.iter().map(|corner| corner.pos).collect::<Vec<_>>());
    let at_corner = |pos: Pos2| {
        let near = |a: f32, b: f32| (a - b).abs() < 1e-3;
        (near(pos.x, place.left()) || near(pos.x, place.right()))
            && (near(pos.y, place.top()) || near(pos.y, place.bottom()))
    };
    let one = corners.iter().all(|corner| corner.color == corners[0].color && at_corner(corner.pos));
    (is_quad && one).then_some(place)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use egui::{pos2, vec2};

    use super::*;

    fn picture(shapes: Vec<Shape>) -> String {
        let area = Rect::from_min_size(Pos2::ZERO, vec2(400.0, 300.0));
        let clipped = |shape| ClippedShape {
            clip_rect: area,
            shape,
            transform_after_tessellation: egui::emath::TSTransform::IDENTITY,
        };
        let shapes: Vec<_> = shapes.into_iter().map(clipped).collect();
        svg(&shapes, area, &Look::default(), None)
    }

    #[test]
    fn lanes_become_rectangles_and_what_is_cut_is_clipped() {
        let mut mesh = Mesh::default();
        let place = Rect::from_min_size(pos2(10.0, 10.0), vec2(50.0, 8.0));
        mesh.add_colored_rect(place, Color32::RED);
        mesh.add_colored_rect(place.translate(vec2(380.0, 0.0)), Color32::BLUE);
        let drawn = picture(vec![Shape::Mesh(Arc::new(mesh))]);
        assert_eq!(drawn.matches("<rect").count(), 1 + 2 + 1, "ground, lanes, clip");
        assert!(drawn.contains(r##"width="50.00" height="8.00" fill="#ff0000""##) && drawn.contains("clip-path"));
        assert!(!drawn.contains("polygon"));
    }

    #[test]
    fn each_part_of_a_text_has_its_colour_and_its_width() {
        let context = egui::Context::default();
        let mut shapes = Vec::new();
        for _ in 0..2 {
            let mut output = context.run_ui(egui::RawInput::default(), |ui| {
                let mut job = egui::text::LayoutJob::default();
                let format = |color| egui::TextFormat { color, ..Default::default() };
                job.append("first ", 0.0, format(Color32::RED));
                job.append("a < b\nlast", 0.0, format(Color32::BLUE));
                ui.label(job);
            });
            output.textures_delta.clear();
            shapes = output.shapes;
        }
        let drawn = svg(&shapes, Rect::from_min_size(Pos2::ZERO, vec2(400.0, 300.0)), &Look::default(), None);
        let texts: Vec<&str> = drawn.lines().filter(|line| line.starts_with("<text")).collect();
        assert_eq!(texts.len(), 3, "{drawn}");
        assert!(texts[0].contains("#ff0000") && texts[0].ends_with(">first</text>"), "{}", texts[0]);
        assert!(texts[1].contains("#0000ff") && texts[1].ends_with(">a &lt; b</text>"), "{}", texts[1]);
        assert!(texts[2].ends_with(">last</text>") && texts[2].contains("textLength"), "{}", texts[2]);
    }

    #[test]
    fn what_shines_through_keeps_its_colour() {
        let half = Color32::from_rgba_unmultiplied(200, 100, 0, 128);
        let drawn = picture(vec![Shape::rect_filled(Rect::from_min_size(pos2(1.0, 1.0), vec2(9.0, 9.0)), 2.0, half)]);
        assert!(drawn.contains("fill-opacity=\"0.502\"") && drawn.contains(r#"rx="2""#), "{drawn}");
    }
}
