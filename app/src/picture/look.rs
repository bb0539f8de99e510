//! How a picture looks: dark or light, and how wide.
//!
//! | width | laid out as | the smallest text (11 units) is |
//! |---|---|---|
//! | `1200px` | 1,200 units | 11 pixels |
//! | `85mm`, one column of a paper | 408 units | 6.5 points, as figures have it |
//! | `180mm`, a page | 863 units | 6.5 points |

use crate::theme::{Tokens, tokens};

/// Units of the layout in a millimetre: 11 of them are 6.5 points of 25.4 / 72 mm.
const UNITS_PER_MM: f32 = 11.0 / 6.5 * 72.0 / 25.4;
/// Dots of a printed inch, over those that SVG takes an inch for.
const PRINTED: f32 = 300.0 / 96.0;

/// How wide a picture is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Width {
    /// On a screen.
    Pixels(f32),
    /// On paper.
    Millimetres(f32),
}

impl Default for Width {
    fn default() -> Self {
        Self::Pixels(1200.0)
    }
}

impl Width {
    /// Reads `1200px`, `1200` or `85mm`; none where the text is no width between 40 mm or 320 pixels and 20 times that.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let number = |text: &str| text.trim().parse::<f32>().ok();
        let width = match text.strip_suffix("mm") {
            Some(text) => Self::Millimetres(number(text)?),
            None => Self::Pixels(number(text.strip_suffix("px").unwrap_or(text))?),
        };
        let fits = match width {
            Self::Pixels(pixels) => (320.0..=6400.0).contains(&pixels),
            Self::Millimetres(mm) => (40.0..=800.0).contains(&mm),
        };
        fits.then_some(width)
    }

    /// Units that a layout has from side to side.
    pub fn units(self) -> f32 {
        match self {
            Self::Pixels(pixels) => pixels,
            Self::Millimetres(mm) => mm * UNITS_PER_MM,
        }
    }

    /// Dots of an SVG pixel in a picture of pixels: on paper 300 an inch.
    pub(super) fn scale(self) -> f32 {
        match self {
            Self::Pixels(_) => 1.0,
            Self::Millimetres(_) => PRINTED,
        }
    }

    /// A length of the layout as an SVG has it.
    pub(super) fn length(self, units: f32) -> String {
        match self {
            Self::Pixels(_) => format!("{units}"),
            Self::Millimetres(_) => format!("{:.2}mm", units / UNITS_PER_MM),
        }
    }
}

impl std::fmt::Display for Width {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pixels(pixels) => write!(f, "{pixels}px"),
            Self::Millimetres(mm) => write!(f, "{mm}mm"),
        }
    }
}

/// How a picture looks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Look {
    /// Light letters on a dark ground.
    pub dark: bool,
    /// How wide it is.
    pub width: Width,
}

impl Look {
    /// Its colours.
    pub fn tokens(&self) -> &'static Tokens {
        tokens(self.dark)
    }
}

/// Reads a stretch of time such as `10us:20us`; a number without a unit is nanoseconds.
///
/// # Errors
/// What is wrong, and how it is written.
pub fn range(text: &str) -> Result<(f64, f64), String> {
    let wrong = || format!("'{text}' is no stretch of time; write it like 10us:20us, in ns, us, ms or s");
    let (from, to) = text.split_once(':').ok_or_else(wrong)?;
    let (from, to) = (time(from).ok_or_else(wrong)?, time(to).ok_or_else(wrong)?);
    if from < to { Ok((from, to)) } else { Err(format!("'{text}' ends before it begins")) }
}

/// Nanoseconds of `10us`.
fn time(text: &str) -> Option<f64> {
    let text = text.trim();
    let units = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    let found = units.iter().find_map(|(unit, ns)| Some((text.strip_suffix(unit)?, *ns)));
    let (number, ns) = found.unwrap_or((text, 1.0));
    let value = number.trim().parse::<f64>().ok()? * ns;
    (value.is_finite() && value >= 0.0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_read_as_they_are_written() {
        for (text, units) in [("1200px", 1200.0), ("900", 900.0), ("85mm", 407.8), ("180 mm", 863.5)] {
            let width = Width::parse(text).unwrap();
            assert!((width.units() - units).abs() < 1.0, "{text}: {}", width.units());
            assert_eq!(Width::parse(&width.to_string()), Some(width));
        }
        for text in ["", "mm", "5mm", "wide", "NaNpx", "-85mm", "1e9px"] {
            assert_eq!(Width::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_smallest_text_of_a_column_is_legible_in_print() {
        let width = Width::Millimetres(85.0);
        let points = 11.0 / width.units() * 85.0 * 72.0 / 25.4;
        assert!((6.4..6.6).contains(&points), "{points}");
    }

    #[test]
    fn stretches_of_time_are_read_with_their_units() {
        assert_eq!(range("10us:20us"), Ok((10_000.0, 20_000.0)));
        assert_eq!(range("0:1.5ms"), Ok((0.0, 1_500_000.0)));
        assert_eq!(range("500:2 µs"), Ok((500.0, 2_000.0)));
        for text in ["", "10us", "20us:10us", "a:b", "-1:2", "1:inf"] {
            assert!(range(text).is_err(), "{text}");
        }
    }
}
