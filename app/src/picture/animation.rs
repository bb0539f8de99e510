//! Moments of a run: one as a picture, and all as an animation (APNG), the moment wandering over the timeline.
//!
//! The picture is drawn twice, as it is and drawn back; a frame is the first before its moment and the second behind it.
//! So from frame to frame only the columns between two moments and the clock differ, and only they are in the file.

use std::collections::HashMap;

use anyhow::Context as _;
use egui::{Rect, pos2};
use engine::capture::Capture;
use engine::units::Nanos;

use super::look::Look;
use super::png;
use super::svg::{document, hex, rect, text};
use super::timeline::{Placed, placed};
use crate::runs::damage::Damage;
use crate::theme::tokens;

/// Pixels across: as much as a slide has room for.
const WIDTH: f32 = 900.0;
/// Moments of the run, hundredths of a second for each, and for the last.
const MOMENTS: usize = 72;
const DELAY: u16 = 8;
const LAST: u16 = 250;
/// Colours of the file.
const COLOURS: usize = 256;
/// The clock under the title: its size in the picture's own units.
const CLOCK: (f32, f32) = (220.0, 20.0);

/// Whether a file's name asks for an animation.
pub fn is_wanted(path: &std::path::Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("apng"))
}

/// A picture in RGB, row by row.
#[derive(Clone)]
struct Image {
    width: usize,
    pixels: Vec<[u8; 3]>,
}

impl Image {
    fn of(svg: &str, scale: f32) -> anyhow::Result<Self> {
        let drawn = png::pixmap(svg, scale)?;
        let pixels = drawn.pixels().iter().map(|pixel| [pixel.red(), pixel.green(), pixel.blue()]).collect();
        Ok(Self { width: drawn.width() as usize, pixels })
    }

    fn height(&self) -> usize {
        self.pixels.len() / self.width.max(1)
    }

    /// Copies columns of rows from another of the same size.
    fn copy(&mut self, from: &Self, columns: std::ops::Range<usize>, rows: std::ops::Range<usize>) {
        for row in rows {
            let at = row * self.width;
            let own = at + columns.start..at + columns.end;
            self.pixels[own.clone()].copy_from_slice(&from.pixels[own]);
        }
    }

    /// Puts a smaller picture at a place.
    fn put(&mut self, other: &Self, (left, top): (usize, usize)) {
        let width = other.width.min(self.width.saturating_sub(left));
        for row in 0..other.height().min(self.height().saturating_sub(top)) {
            let (to, from) = ((top + row) * self.width + left, row * other.width);
            self.pixels[to..to + width].copy_from_slice(&other.pixels[from..from + width]);
        }
    }
}

/// A part of the picture that a frame changes, by its colours' places in the palette.
struct Patch {
    left: u32,
    top: u32,
    width: u32,
    height: u32,
    colours: Vec<u8>,
    delay: u16,
}

/// What draws lanes and counters of a stretch back: what is to come.
fn veil(area: Rect, look: &Look) -> String {
    let fill = hex(look.tokens().canvas);
    let (x, y, width, tall) = (area.left(), area.top(), area.width(), area.height());
    format!(
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{tall:.1}\" fill=\"{fill}\" fill-opacity=\"0.78\"/>\n"
    )
}

/// Draws one moment, nanoseconds from the start of the run: what is to come stands back. An SVG.
pub fn moment(capture: &Capture, damage: &Damage, time: f64, look: &Look) -> String {
    let t = look.tokens();
    let Placed { mut body, height, area, end } = placed(capture, damage, look);
    let time = time.clamp(0.0, end);
    let x = area.left() + area.width() * (time / end) as f32;
    body += &veil(area.with_min_x(x), look);
    rect(&mut body, Rect::from_min_max(pos2(x - 1.0, area.top()), pos2(x + 1.0, area.bottom())), &hex(t.accent));
    let told = format!("{} {}", Nanos(time as u64), capture.provenance.source_words());
    // Left of the line where there is no room right of it.
    let left = if x > area.right() - 160.0 { x - 156.0 } else { x + 6.0 };
    text(&mut body, left, area.top() + 14.0, 13, t.accent, &told);
    document(look, height, &body)
}

/// Draws the animation; the bytes of a file.
///
/// # Errors
/// Where a picture does not parse or the file cannot be encoded.
pub fn animation(capture: &Capture, damage: &Damage) -> anyhow::Result<Vec<u8>> {
    let look = &Look::default();
    let placed = placed(capture, damage, look);
    let (area, end) = (placed.area, placed.end);
    let scale = WIDTH / super::svg::WIDTH;
    let bright = Image::of(&document(look, placed.height, &placed.body), scale)?;
    let faint = Image::of(&document(look, placed.height, &(placed.body + &veil(area, look))), scale)?;
    let pixel = |length: f32| (length * scale).round() as usize;
    let rows = pixel(area.top())..pixel(area.bottom()).min(bright.height());
    let (left, right) = (pixel(area.left()), pixel(area.right()).min(bright.width));
    let palette = palette(&[&bright, &faint]);
    let mut known = HashMap::new();
    let mut patches: Vec<Patch> = Vec::with_capacity(MOMENTS + 1);
    let mut before: Option<Image> = None;
    for moment in 0..=MOMENTS {
        let share = moment as f64 / MOMENTS as f64;
        let at = (left + ((right - left) as f64 * share) as usize).min(right);
        let mut frame = bright.clone();
        frame.copy(&faint, at..right, rows.clone());
        for row in rows.clone().filter(|_| at < right) {
            let line = row * frame.width;
            frame.pixels[line + at..line + (at + 2).min(right)].fill(accent());
        }
        let clock = clock(Nanos((end * share) as u64), capture.provenance.source_words());
        let place = (bright.width.saturating_sub(pixel(CLOCK.0) + 4), pixel(area.top()).saturating_sub(pixel(CLOCK.1)));
        frame.put(&Image::of(&clock, scale)?, place);
        let delay = if moment == MOMENTS { LAST } else { DELAY };
        let changed = changed(before.as_ref(), &frame);
        patches.push(Patch::of(&frame, changed, delay, |colour| {
            *known.entry(colour).or_insert_with(|| nearest(&palette, colour))
        }));
        before = Some(frame);
    }
    file((bright.width as u32, bright.height() as u32), &palette, &patches)
}

fn accent() -> [u8; 3] {
    let accent = tokens(false).accent;
    [accent.r(), accent.g(), accent.b()]
}

/// The time, as a picture of its own.
fn clock(time: Nanos, source: &str) -> String {
    let t = tokens(false);
    let (width, height) = CLOCK;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\">\
         <rect width=\"100%\" height=\"100%\" fill=\"{}\"/>\
         <text x=\"{}\" y=\"15\" font-size=\"14\" text-anchor=\"end\" fill=\"{}\">{time} {source}</text></svg>",
        hex(t.canvas),
        width - 4.0,
        hex(t.text)
    )
}

/// The colours that most pixels have.
fn palette(images: &[&Image]) -> Vec<[u8; 3]> {
    let mut counts: HashMap<[u8; 3], usize> = HashMap::new();
    for colour in images.iter().flat_map(|image| &image.pixels) {
        *counts.entry(*colour).or_default() += 1;
    }
    let mut all: Vec<_> = counts.into_iter().collect();
    all.sort_unstable_by_key(|(colour, count)| (std::cmp::Reverse(*count), *colour));
    let others = all.into_iter().map(|(colour, _)| colour).filter(|colour| *colour != accent());
    std::iter::once(accent()).chain(others).take(COLOURS).collect()
}

fn nearest(palette: &[[u8; 3]], colour: [u8; 3]) -> u8 {
    let distance = |other: &[u8; 3]| -> i32 {
        (0..3).map(|channel| (i32::from(other[channel]) - i32::from(colour[channel])).pow(2)).sum()
    };
    palette.iter().enumerate().min_by_key(|(_, other)| distance(other)).map_or(0, |(at, _)| at as u8)
}

/// The smallest rectangle that holds what differs from the frame before: left, top, right and bottom, all in it.
fn changed(before: Option<&Image>, frame: &Image) -> (usize, usize, usize, usize) {
    let Some(before) = before else { return (0, 0, frame.width - 1, frame.height() - 1) };
    let differs = |at: &usize| before.pixels[*at] != frame.pixels[*at];
    let places = (0..frame.pixels.len()).filter(differs).map(|at| (at % frame.width, at / frame.width));
    // What changes nothing is still a moment that takes its time.
    places
        .map(|(x, y)| (x, y, x, y))
        .reduce(|a, b| (a.0.min(b.0), a.1.min(b.1), a.2.max(b.2), a.3.max(b.3)))
        .unwrap_or_default()
}

impl Patch {
    fn of(
        frame: &Image,
        (left, top, right, bottom): (usize, usize, usize, usize),
        delay: u16,
        mut place: impl FnMut([u8; 3]) -> u8,
    ) -> Self {
        let mut colours = Vec::with_capacity((right - left + 1) * (bottom - top + 1));
        for row in top..=bottom {
            let line = row * frame.width;
            colours.extend(frame.pixels[line + left..=line + right].iter().map(|colour| place(*colour)));
        }
        let (width, height) = ((right - left + 1) as u32, (bottom - top + 1) as u32);
        Self { left: left as u32, top: top as u32, width, height, colours, delay }
    }
}

fn file((width, height): (u32, u32), palette: &[[u8; 3]], patches: &[Patch]) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut encoder = ::png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(::png::ColorType::Indexed);
    encoder.set_depth(::png::BitDepth::Eight);
    encoder.set_palette(palette.as_flattened().to_vec());
    encoder.set_animated(patches.len() as u32, 0).context("beginning the animation")?;
    let mut writer = encoder.write_header().context("beginning the animation")?;
    for (number, patch) in patches.iter().enumerate() {
        let doing = "writing a frame of the animation";
        // The first is the whole picture, for viewers that show no animation.
        if number > 0 {
            // From the corner, so that no dimension reaches past the picture in between.
            writer.set_frame_position(0, 0).context(doing)?;
            writer.set_frame_dimension(patch.width, patch.height).context(doing)?;
            writer.set_frame_position(patch.left, patch.top).context(doing)?;
        }
        writer.set_frame_delay(patch.delay, 100).context(doing)?;
        writer.write_image_data(&patch.colours).context(doing)?;
    }
    writer.finish().context("ending the animation")?;
    Ok(bytes)
}
