//! Theme tokens: every colour of the window, dark and light. No other file names a raw colour.
//!
//! Hues are those of Okabe and Ito, which people with any common colour blindness tell apart. An
//! entity keeps its colour as long as it keeps its index; colour is never its only sign.

use egui::{Color32, Context, CornerRadius, RichText, Stroke, Theme, Visuals};

/// The three sizes of type: the story on top, text, and what stands beside it.
pub const LARGE: f32 = 20.0;
const TEXT: f32 = 13.0;
/// See [`LARGE`].
pub const SMALL: f32 = 11.0;

/// Hues for entities; neighbours on the list differ most.
const HUES: [(u8, u8, u8); 12] = [
    (86, 180, 233),
    (230, 159, 0),
    (0, 158, 115),
    (204, 121, 167),
    (0, 114, 178),
    (213, 94, 0),
    (148, 203, 120),
    (170, 140, 230),
    (240, 205, 80),
    (80, 190, 190),
    (225, 130, 120),
    (150, 165, 185),
];

/// Hues of the levels of a prefix tree, by their places above: neighbours differ most, and shades of one stay apart from
/// those of another.
const OF_LEVELS: [usize; 8] = [0, 1, 2, 3, 7, 5, 8, 9];
/// Shades of a level: towards white, or as much darker.
const SHADES: [f32; 6] = [0.0, 0.34, -0.24, 0.17, -0.4, -0.12];

/// Bubbles: one quiet family, which hatches tell apart.
const BUBBLES: [(u8, u8, u8); 8] = [
    (192, 178, 150),
    (188, 160, 150),
    (180, 156, 174),
    (150, 158, 176),
    (154, 172, 178),
    (158, 174, 158),
    (140, 142, 150),
    (168, 166, 158),
];

/// Colours of one appearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// Whether this is the dark appearance.
    pub dark: bool,
    /// Behind everything.
    pub back: Color32,
    /// Behind a panel.
    pub panel: Color32,
    /// Behind lanes and canvases.
    pub canvas: Color32,
    /// Hair lines.
    pub line: Color32,
    /// Main text.
    pub text: Color32,
    /// Secondary text.
    pub faint: Color32,
    /// Selection and focus.
    pub accent: Color32,
    /// Something to look at.
    pub warn: Color32,
    /// Something wrong.
    pub error: Color32,
    /// Better than the baseline.
    pub better: Color32,
    /// Worse than the baseline.
    pub worse: Color32,
    /// The merge.
    pub merge: Color32,
    /// Prefill, in a batch that has it.
    pub prefill: Color32,
    /// Decode, in a batch with prefill.
    pub decode: Color32,
    /// A CTA that computes both.
    pub both: Color32,
    /// Slots without work.
    pub idle: Color32,
}

const DARK: Tokens = Tokens {
    dark: true,
    back: Color32::from_rgb(15, 17, 21),
    panel: Color32::from_rgb(22, 25, 31),
    canvas: Color32::from_rgb(17, 19, 24),
    line: Color32::from_rgb(47, 53, 63),
    text: Color32::from_rgb(222, 227, 234),
    faint: Color32::from_rgb(144, 154, 168),
    accent: Color32::from_rgb(98, 170, 255),
    warn: Color32::from_rgb(240, 180, 70),
    error: Color32::from_rgb(255, 120, 100),
    better: Color32::from_rgb(90, 200, 165),
    worse: Color32::from_rgb(245, 150, 90),
    merge: Color32::from_rgb(146, 151, 160),
    prefill: Color32::from_rgb(230, 159, 0),
    decode: Color32::from_rgb(86, 180, 233),
    both: Color32::from_rgb(0, 158, 115),
    idle: Color32::from_rgb(96, 105, 120),
};

const LIGHT: Tokens = Tokens {
    dark: false,
    back: Color32::from_rgb(232, 235, 240),
    panel: Color32::from_rgb(250, 251, 253),
    canvas: Color32::from_rgb(255, 255, 255),
    line: Color32::from_rgb(208, 213, 221),
    text: Color32::from_rgb(28, 33, 41),
    faint: Color32::from_rgb(92, 101, 115),
    accent: Color32::from_rgb(12, 98, 198),
    warn: Color32::from_rgb(150, 95, 0),
    error: Color32::from_rgb(186, 40, 25),
    better: Color32::from_rgb(0, 118, 84),
    worse: Color32::from_rgb(180, 74, 0),
    merge: Color32::from_rgb(122, 127, 136),
    prefill: Color32::from_rgb(223, 154, 0),
    decode: Color32::from_rgb(0, 114, 178),
    both: Color32::from_rgb(0, 148, 108),
    idle: Color32::from_rgb(166, 174, 186),
};

/// Tokens of an appearance.
pub fn tokens(dark: bool) -> &'static Tokens {
    if dark { &DARK } else { &LIGHT }
}

/// Tokens of the appearance that is on.
pub fn of(ctx: &Context) -> &'static Tokens {
    tokens(ctx.theme() == Theme::Dark)
}

impl Tokens {
    /// Colour of entity `index`; after twelve the hues come back a shade apart.
    pub fn entity(&self, index: u32) -> Color32 {
        let (r, g, b) = HUES[index as usize % HUES.len()];
        let round = (index as usize / HUES.len()) % 3;
        let shade = [1.0, 0.8, 0.66][round] * if self.dark { 0.92 } else { 0.97 };
        let scale = |channel: u8| (f32::from(channel) * shade) as u8;
        Color32::from_rgb(scale(r), scale(g), scale(b))
    }

    /// Colour of a node of the prefix tree and of its packs: the hue is that of its level, and nodes of a level are shades.
    pub fn node(&self, level: u32, node: u32) -> Color32 {
        let (r, g, b) = HUES[OF_LEVELS[level as usize % OF_LEVELS.len()]];
        let plain = Color32::from_rgb(r, g, b);
        // Numbers of neighbours are as far apart as their subtrees are large, whatever that is.
        let mixed = node.wrapping_mul(0x9E37_79B9) >> 16;
        let shade = SHADES[mixed as usize % SHADES.len()];
        let towards = if shade > 0.0 { Color32::WHITE } else { Color32::BLACK };
        let most = if self.dark { 0.08 } else { 0.0 };
        mix(mix(plain, towards, shade.abs()), Color32::BLACK, most)
    }

    /// Colour of bubble cause `index`.
    pub fn bubble(&self, index: u32) -> Color32 {
        let (r, g, b) = BUBBLES[index as usize % BUBBLES.len()];
        mix(Color32::from_rgb(r, g, b), Color32::BLACK, if self.dark { 0.0 } else { 0.42 })
    }

    /// Text that reads on `fill`.
    pub fn on(&self, fill: Color32) -> Color32 {
        let light = 299 * u32::from(fill.r()) + 587 * u32::from(fill.g()) + 114 * u32::from(fill.b());
        if light > 125_000 { LIGHT.text } else { DARK.text }
    }

    /// A colour drawn back, for what is not lit.
    pub fn dimmed(&self, colour: Color32) -> Color32 {
        mix(colour, self.canvas, 0.72)
    }
}

/// The title of a window in the window: text, so that a long one has its place.
pub fn title(text: &str) -> RichText {
    RichText::new(text).size(TEXT).strong()
}

/// `share` of `b` and the rest of `a`.
pub fn mix(a: Color32, b: Color32, share: f32) -> Color32 {
    let channel = |x: u8, y: u8| (f32::from(x) + (f32::from(y) - f32::from(x)) * share) as u8;
    Color32::from_rgb(channel(a.r(), b.r()), channel(a.g(), b.g()), channel(a.b(), b.b()))
}

/// Puts both appearances in place and leaves Ctrl +/−/0 to the command table.
pub fn install(ctx: &Context) {
    for theme in [Theme::Dark, Theme::Light] {
        let t = tokens(theme == Theme::Dark);
        ctx.style_mut_of(theme, |style| {
            style.visuals = visuals(t);
            style.spacing.item_spacing = egui::vec2(7.0, 5.0);
            style.spacing.button_padding = egui::vec2(7.0, 2.5);
            style.interaction.tooltip_delay = 0.15;
            for (kind, size) in [
                (egui::TextStyle::Heading, LARGE),
                (egui::TextStyle::Body, TEXT),
                (egui::TextStyle::Button, TEXT),
                (egui::TextStyle::Small, SMALL),
            ] {
                style.text_styles.insert(kind, egui::FontId::proportional(size));
            }
        });
    }
    ctx.options_mut(|options| options.zoom_with_keyboard = false);
}

fn visuals(t: &Tokens) -> Visuals {
    let mut visuals = if t.dark { Visuals::dark() } else { Visuals::light() };
    visuals.panel_fill = t.panel;
    visuals.window_fill = t.panel;
    visuals.extreme_bg_color = t.canvas;
    visuals.faint_bg_color = mix(t.panel, t.line, 0.22);
    visuals.window_stroke = Stroke::new(1.0, t.line);
    visuals.selection.bg_fill = mix(t.panel, t.accent, 0.34);
    visuals.selection.stroke = Stroke::new(1.0, t.text);
    visuals.hyperlink_color = t.accent;
    visuals.warn_fg_color = t.warn;
    visuals.error_fg_color = t.error;
    visuals.widgets.noninteractive.bg_stroke = Stroke::new(1.0, t.line);
    visuals.widgets.noninteractive.fg_stroke = Stroke::new(1.0, t.text);
    visuals.widgets.inactive.fg_stroke = Stroke::new(1.0, t.text);
    visuals.widgets.inactive.weak_bg_fill = mix(t.panel, t.line, 0.6);
    visuals.widgets.inactive.bg_fill = mix(t.panel, t.line, 0.6);
    for widget in [&mut visuals.widgets.noninteractive, &mut visuals.widgets.inactive, &mut visuals.widgets.hovered] {
        widget.corner_radius = CornerRadius::same(4);
    }
    visuals
}
