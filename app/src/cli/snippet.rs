//! The place of an error in a text: its line or a window of it, with the lines beside it, and where the caret
//! stands. A line of megabytes is no message, and the reporter counts columns in 16 bits.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use miette::{MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents};

use engine::shown;

/// Most characters of the line on each side of the place.
const SIDE: usize = 100;
/// Most characters of the line before and of the line behind it.
const BESIDE: usize = 160;
/// Where something is left out.
const MORE: &str = "…";

/// A place with the text around it.
#[derive(Debug)]
pub(crate) struct Snippet {
    name: String,
    /// The lines that are shown.
    text: String,
    /// Line of the place, from 0.
    line: usize,
    /// Column of the place in its whole line in characters, from 0.
    column: usize,
    /// Line of the first one that is shown, from 0.
    first_line: usize,
    /// Byte of the place in what is shown.
    caret: usize,
}

impl Snippet {
    /// The place at this byte of a text.
    pub(super) fn of(name: &str, text: &str, offset: usize) -> Self {
        let at = text.floor_char_boundary(offset.min(text.len()));
        let begin = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let end = text[at..].find('\n').map_or(text.len(), |newline| at + newline);
        let line = text[..begin].bytes().filter(|byte| *byte == b'\n').count();
        let mut snippet =
            Self::of_line(name, (&text[begin..at], &text[at..end]), line, text[begin..at].chars().count());
        if let Some(above) = text[..begin].strip_suffix('\n') {
            let above = above.rsplit('\n').next().unwrap_or_default();
            snippet.put_above(&head(above));
        }
        if let Some(below) = text[end..].strip_prefix('\n') {
            let below = below.split('\n').next().unwrap_or_default();
            snippet.text.push('\n');
            snippet.text.push_str(&head(below));
        }
        snippet
    }

    /// The place between both parts of a line, which may be cut on the outside; line and column from 0.
    pub(super) fn of_line(name: &str, (before, after): (&str, &str), line: usize, column: usize) -> Self {
        let (left, right) = (shown::last(before, SIDE), shown::first(after.trim_end_matches('\r'), SIDE));
        let mut text = String::new();
        if column > left.chars().count() {
            text.push_str(MORE);
        }
        text.push_str(&shown::line(left));
        let caret = text.len();
        text.push_str(&shown::line(right));
        if right.len() < after.trim_end_matches('\r').len() {
            text.push_str(MORE);
        }
        Self { name: shown::line(name).into_owned(), text, line, column, first_line: line, caret }
    }

    fn put_above(&mut self, above: &str) {
        self.first_line -= 1;
        self.caret += above.len() + 1;
        self.text = format!("{above}\n{}", self.text);
    }

    /// Where the caret stands, in what is shown.
    pub(super) fn caret(&self) -> usize {
        self.caret
    }
}

fn head(line: &str) -> String {
    let line = line.trim_end_matches('\r');
    let head = shown::first(line, BESIDE);
    let more = if head.len() < line.len() { MORE } else { "" };
    format!("{}{more}", shown::line(head))
}

impl SourceCode for Snippet {
    /// All that is shown, whatever the span: there is one place. Asked for no lines around it, the reporter
    /// wants to know where the place itself is.
    fn read_span<'a>(
        &'a self,
        _span: &SourceSpan,
        lines_before: usize,
        _lines_after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let (line, column) = if lines_before == 0 { (self.line, self.column) } else { (self.first_line, 0) };
        let span = SourceSpan::from((0, self.text.len()));
        let count = self.text.split('\n').count();
        Ok(Box::new(MietteSpanContents::new_named(self.name.clone(), self.text.as_bytes(), span, line, column, count)))
    }
}

/// Both parts of the line of a file around a byte, as far as a message shows them.
pub(crate) fn around(path: &Path, offset: usize) -> Option<(String, String)> {
    const REACH: u64 = 1024;
    if path.extension().is_some_and(|extension| extension == "gz") {
        // Places count in what is packed in it.
        return None;
    }
    let offset = offset as u64;
    let begin = offset.saturating_sub(REACH);
    let mut file = File::open(path).ok()?;
    file.seek(SeekFrom::Start(begin)).ok()?;
    let mut bytes = Vec::new();
    file.take(2 * REACH).read_to_end(&mut bytes).ok()?;
    let (before, after) = bytes.split_at_checked((offset - begin) as usize)?;
    let before = before.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let after = after.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    Some((text(before), text(after)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_line_stands_whole_between_its_neighbours() {
        let snippet = Snippet::of("a.ron", "one\ntwo µ three\r\nfour\nfive", 10);
        assert_eq!(snippet.text, "one\ntwo µ three\nfour");
        assert_eq!((snippet.line, snippet.column, snippet.first_line), (1, 5, 0));
        assert!(snippet.text[snippet.caret..].starts_with(" three"), "{}", snippet.caret);
    }

    #[test]
    fn a_long_line_is_a_window_around_the_place() {
        let text = format!("{}X{}\nnext {}", "µ".repeat(200_000), "y".repeat(2_000_000), "z".repeat(900));
        let snippet = Snippet::of("a.ron", &text, text.find('X').unwrap());
        assert_eq!((snippet.line, snippet.column), (0, 200_000));
        assert!(snippet.text.chars().count() <= 2 * SIDE + BESIDE + 4, "{}", snippet.text);
        assert!(snippet.text[snippet.caret..].starts_with("Xyy"));
        assert!(snippet.text.starts_with("…µµ") && snippet.text.contains("y…\nnext zzz"));
    }

    proptest::proptest! {
        #[test]
        fn the_caret_stands_before_the_character_of_the_place(
            text in "([aµ日\x1b\t]{0,300}\r?\n?){0,5}",
            offset in 0..2000_usize,
        ) {
            let snippet = Snippet::of("a", &text, offset);
            let at = text.floor_char_boundary(offset.min(text.len()));
            let expected = text[at..].chars().next().filter(|c| !"\r\n".contains(*c)).map(String::from);
            let got = snippet.text[snippet.caret..].chars().next().filter(|c| *c != '\n').map(String::from);
            if let Some(expected) = expected {
                proptest::prop_assert_eq!(got, Some(shown::line(&expected).into_owned()));
            }
            proptest::prop_assert!(snippet.text.split('\n').count() <= 3);
            proptest::prop_assert!(snippet.text.chars().count() <= 2 * SIDE + 2 * BESIDE + 8);
        }
    }
}
