//! PNG of a picture.

use std::sync::LazyLock;

use anyhow::Context as _;
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::Options;

use super::look::{Look, Width};

/// Fonts and all else that a picture is read with; an animation has many pictures.
static OPTIONS: LazyLock<Options<'static>> = LazyLock::new(options);

/// Dots of a metre at 300 an inch.
const DOTS_PER_METRE: u32 = 11_811;

/// Draws an SVG; the bytes of a PNG file.
///
/// # Errors
/// Where the SVG does not parse.
pub fn png(svg: &str) -> anyhow::Result<Vec<u8>> {
    png_of(svg, &Look::default())
}

/// Draws an SVG of a look: one for paper with 300 dots an inch, and its size in the file.
///
/// # Errors
/// Where the SVG does not parse.
pub fn png_of(svg: &str, look: &Look) -> anyhow::Result<Vec<u8>> {
    let image = pixmap(svg, look.width.scale())?;
    let mut bytes = Vec::new();
    let mut encoder = ::png::Encoder::new(&mut bytes, image.width(), image.height());
    encoder.set_color(::png::ColorType::Rgba);
    encoder.set_depth(::png::BitDepth::Eight);
    if matches!(look.width, Width::Millimetres(_)) {
        let unit = ::png::Unit::Meter;
        encoder.set_pixel_dims(Some(::png::PixelDimensions { xppu: DOTS_PER_METRE, yppu: DOTS_PER_METRE, unit }));
    }
    let mut writer = encoder.write_header().context("beginning the picture")?;
    writer.write_image_data(&straight(&image)).context("encoding the picture")?;
    writer.finish().context("ending the picture")?;
    Ok(bytes)
}

/// Draws an SVG of a look as pixels for the clipboard.
///
/// # Errors
/// Where the SVG does not parse.
pub fn image(svg: &str, look: &Look) -> anyhow::Result<egui::ColorImage> {
    let image = pixmap(svg, look.width.scale())?;
    let size = [image.width() as usize, image.height() as usize];
    Ok(egui::ColorImage::from_rgba_unmultiplied(size, &straight(&image)))
}

/// Red, green, blue and alpha of each pixel, the colours not multiplied by alpha.
fn straight(image: &Pixmap) -> Vec<u8> {
    let pixels = image.pixels().iter().map(resvg::tiny_skia::PremultipliedColorU8::demultiply);
    pixels.flat_map(|pixel| [pixel.red(), pixel.green(), pixel.blue(), pixel.alpha()]).collect()
}

/// Draws an SVG, scaled.
///
/// # Errors
/// Where the SVG does not parse.
pub(crate) fn pixmap(svg: &str, scale: f32) -> anyhow::Result<Pixmap> {
    let tree = resvg::usvg::Tree::from_str(svg, &OPTIONS).context("the picture does not parse")?;
    let size = tree.size();
    let side = |length: f32| (length * scale).round() as u32;
    let mut image = Pixmap::new(side(size.width()), side(size.height())).context("the picture is empty")?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut image.as_mut());
    Ok(image)
}

fn options() -> Options<'static> {
    let mut options = Options::default();
    // The window's own font, so that a machine without any draws the same letters.
    let fonts = egui::FontDefinitions::default();
    if let Some(font) = fonts.font_data.get("Ubuntu-Light") {
        options.fontdb_mut().load_font_data((*font.font).as_ref().to_vec());
    }
    let face = options.fontdb_mut().faces().find_map(|face| face.families.first().map(|family| family.0.clone()));
    match face {
        Some(family) => options.fontdb_mut().set_sans_serif_family(family),
        None => options.fontdb_mut().load_system_fonts(),
    }
    // Signs that it has not, such as arrows.
    for (_, font) in fonts.font_data.iter().filter(|(name, _)| *name != "Ubuntu-Light") {
        options.fontdb_mut().load_font_data((*font.font).as_ref().to_vec());
    }
    options
}
