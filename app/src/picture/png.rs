//! PNG of a picture.

use anyhow::Context as _;

/// Draws an SVG; the bytes of a PNG file.
///
/// # Errors
/// Where the SVG does not parse.
pub fn png(svg: &str) -> anyhow::Result<Vec<u8>> {
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
    let size = tree.size().to_int_size();
    let mut image = resvg::tiny_skia::Pixmap::new(size.width(), size.height()).context("the picture is empty")?;
    resvg::render(&tree, resvg::tiny_skia::Transform::default(), &mut image.as_mut());
    image.encode_png().context("encoding the picture")
}
