//! PNG of a picture.

use anyhow::Context as _;
use resvg::tiny_skia::{Pixmap, Transform};

/// Draws an SVG; the bytes of a PNG file.
///
/// # Errors
/// Where the SVG does not parse.
pub fn png(svg: &str) -> anyhow::Result<Vec<u8>> {
    pixmap(svg, 1.0)?.encode_png().context("encoding the picture")
}

/// Draws an SVG, scaled.
///
/// # Errors
/// Where the SVG does not parse.
pub(crate) fn pixmap(svg: &str, scale: f32) -> anyhow::Result<Pixmap> {
    let mut options = resvg::usvg::Options::default();
    // The window's own font, so that a machine without any draws the same letters.
    if let Some(font) = egui::FontDefinitions::default().font_data.get("Ubuntu-Light") {
        options.fontdb_mut().load_font_data((*font.font).as_ref().to_vec());
    }
    let face = options.fontdb_mut().faces().find_map(|face| face.families.first().map(|family| family.0.clone()));
    match face {
        Some(family) => options.fontdb_mut().set_sans_serif_family(family),
        None => options.fontdb_mut().load_system_fonts(),
    }
    let tree = resvg::usvg::Tree::from_str(svg, &options).context("the picture does not parse")?;
    let size = tree.size();
    let side = |length: f32| (length * scale).round() as u32;
    let mut image = Pixmap::new(side(size.width()), side(size.height())).context("the picture is empty")?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut image.as_mut());
    Ok(image)
}
