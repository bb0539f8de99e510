//! Text from outside as it is shown: no name and no file steers the terminal, breaks a picture or fills the screen.
//!
//! A message that repeats a name, a key or a text of a file takes it through [`quoted`], wherever it is made.

use std::borrow::Cow;

/// Most characters of a text that a message repeats: longer than any name of ours, and short enough that a list of
/// ours stands beside it.
const QUOTED: usize = 48;
/// Most characters of the reason that a parser gives, which may hold a text of the file.
const REASON: usize = 160;

/// A text from outside as a message repeats it: in one line, with its middle left out where it is long.
pub fn quoted(text: &str) -> String {
    brief(text, QUOTED)
}

/// As [`quoted`], for a parser's whole sentence.
pub fn reason(text: &str) -> String {
    brief(text, REASON)
}

/// As [`quoted`], with at most so many characters.
pub fn brief(text: &str, most: usize) -> String {
    replaced(&clipped(text, most), |_| false).into_owned()
}

/// The text in one line: each control character, line breaks too, is replaced by its picture, such as ␛.
pub fn line(text: &str) -> Cow<'_, str> {
    replaced(text, |c| c == '\t')
}

/// As [`line()`], with its line breaks.
pub fn lines(text: &str) -> Cow<'_, str> {
    replaced(text, |c| c == '\t' || c == '\n')
}

fn replaced(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    let shown = |c: char| if keep(c) { c } else { picture(c) };
    if text.chars().all(|c| shown(c) == c) { text.into() } else { text.chars().map(shown).collect() }
}

/// One character for one, so that columns stay. What has no picture of its own is U+FFFD: the controls above
/// ASCII, other line breaks, marks that turn the direction of writing, and what XML does not allow.
fn picture(c: char) -> char {
    const NONE: char = char::REPLACEMENT_CHARACTER;
    match c {
        '\0'..='\x1f' => char::from_u32(0x2400 + u32::from(c)).unwrap_or(NONE),
        '\x7f' => '␡',
        '\u{80}'..='\u{9f}'
        | '\u{200e}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}'
        | '\u{feff}'
        | '\u{fffe}'..='\u{ffff}' => NONE,
        other => other,
    }
}

/// The text with its middle left out where it has more than `most` characters.
pub fn clipped(text: &str, most: usize) -> Cow<'_, str> {
    let count = text.chars().count();
    if count <= most {
        return text.into();
    }
    let half = most / 2;
    let (head, tail) = (first(text, half), last(text, half));
    format!("{head} … {tail}").into()
}

/// The first so many characters.
pub fn first(text: &str, count: usize) -> &str {
    text.char_indices().nth(count).map_or(text, |(end, _)| &text[..end])
}

/// The last so many characters.
pub fn last(text: &str, count: usize) -> &str {
    let begin = text.char_indices().rev().nth(count.saturating_sub(1)).map_or(0, |(begin, _)| begin);
    if count == 0 { "" } else { &text[begin..] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_one_visible_character_each() {
        assert_eq!(line("a\x1b[31mb\r\n\x07c\x7f\u{9b}"), "a␛[31mb␍␊␇c␡\u{fffd}");
        assert_eq!(lines("a\nb\tc\x1b"), "a\nb\tc␛");
        assert_eq!(line("pat-11 · 日本 \u{202e}x"), "pat-11 · 日本 \u{fffd}x");
        assert!(matches!(line("plain · text"), Cow::Borrowed(_)));
    }

    #[test]
    fn what_a_message_repeats_is_one_short_line() {
        assert_eq!(quoted("h200-sxm"), "h200-sxm");
        assert_eq!(quoted("a\tb\u{1b}"), "a␉b␛");
        let long = quoted(&format!("first{}last", "\n".repeat(300_000)));
        assert!(long.starts_with("first␊") && long.contains(" … ") && long.ends_with("␊last"), "{long}");
        assert!(long.chars().count() <= QUOTED + 3, "{long}");
    }

    proptest::proptest! {
        #[test]
        fn what_is_shown_has_the_length_that_was_given_and_no_control(text in "\\PC{0,8}|[\0-\u{a0}]{0,16}|.{0,16}") {
            let shown = line(&text);
            proptest::prop_assert_eq!(shown.chars().count(), text.chars().count());
            proptest::prop_assert!(shown.chars().all(|c| c == '\t' || !c.is_control()));
        }

        #[test]
        fn ends_of_a_text_are_what_they_say(text in ".{0,20}", count in 0..24_usize) {
            proptest::prop_assert_eq!(first(&text, count), text.chars().take(count).collect::<String>());
            let skipped = text.chars().count().saturating_sub(count);
            proptest::prop_assert_eq!(last(&text, count), text.chars().skip(skipped).collect::<String>());
            proptest::prop_assert!(clipped(&text, count).chars().count() <= text.chars().count().max(count + 3));
        }
    }
}
