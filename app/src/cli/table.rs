//! Tables of text: the first columns are words, the rest numbers.

/// A table that is laid out when printed.
#[derive(Debug, Default)]
pub(crate) struct Table {
    words: usize,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings, of which the first `words` are left-aligned.
    pub(crate) fn new(words: usize, headings: &[&str]) -> Self {
        Self { words, rows: vec![headings.iter().map(|heading| (*heading).to_owned()).collect()] }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The text, a line a row.
    pub(crate) fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width =
            |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        let mut out = String::new();
        for row in &self.rows {
            let cells: Vec<String> = row
                .iter()
                .enumerate()
                .map(|(column, cell)| {
                    let pad = " ".repeat(widths[column] - cell.chars().count());
                    if column < self.words { format!("{cell}{pad}") } else { format!("{pad}{cell}") }
                })
                .collect();
            out.push_str(cells.join("  ").trim_end());
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_align_left_and_numbers_right() {
        let mut table = Table::new(1, &["name", "n"]);
        table.row(vec!["µ".to_owned(), "1,000".to_owned()]);
        assert_eq!(table.text(), "name      n\nµ     1,000\n");
    }
}
