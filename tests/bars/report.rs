//! Figures beside their bars.

use std::fmt;

/// One figure with its bar.
#[derive(Debug)]
pub(crate) struct Row {
    /// What was measured.
    pub(crate) what: String,
    /// The figure; `None` where this system does not tell it.
    pub(crate) figure: Option<f64>,
    /// What it must not exceed.
    pub(crate) bar: f64,
    /// Of both.
    pub(crate) unit: &'static str,
    /// How it came about.
    pub(crate) how: String,
}

impl Row {
    fn holds(&self) -> bool {
        self.figure.is_none_or(|figure| figure <= self.bar)
    }
}

/// All figures.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// In the order in which they were measured.
    pub(crate) rows: Vec<Row>,
}

impl Report {
    /// Whether no bar is missed.
    pub(crate) fn holds(&self) -> bool {
        self.rows.iter().all(Row::holds)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<52} {:>12} {:>12}  ", "what", "figure", "bar")?;
        self.rows.iter().try_for_each(|row| row.fmt(f))
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figure = self.figure.map_or_else(|| "not told".to_owned(), |figure| format!("{figure:.1} {}", self.unit));
        let bar = format!("{:.0} {}", self.bar, self.unit);
        let missed = if self.holds() { "" } else { "MISSED " };
        writeln!(f, "{:<52} {figure:>12} {bar:>12}  {missed}{}", self.what, self.how)
    }
}
