//! Random choices, all from one seed, and damage to text.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// A source of choices.
pub(crate) struct Draw(StdRng);

/// Numbers that programs get wrong, as text.
const NUMBERS: [&str; 22] = [
    "0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "16",
    "0.5",
    "1e-300",
    "1e300",
    "NaN",
    "inf",
    "-0.0",
    "255",
    "65536",
    "1048576",
    "1048577",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775808",
    "18446744073709551615",
];

/// Text that parsers and screens get wrong.
const SNIPPETS: [&str; 24] = [
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "\"",
    "'",
    "\\",
    "//",
    "/*",
    "Some(",
    "None",
    "r#\"",
    "\u{feff}",
    "\0",
    "\u{202e}",
    "\u{1b}[31m",
    "\u{1f600}",
    "\n",
    "\r",
    "é",
];

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    /// A number below `end`, or 0 where there is none.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.0.random_range(0..end) }
    }

    /// An index below `end`, or 0 where there is none.
    pub(crate) fn at(&mut self, end: usize) -> usize {
        self.below(end as u64) as usize
    }

    /// A number from `first` to `last`.
    pub(crate) fn within(&mut self, first: u64, last: u64) -> u64 {
        self.0.random_range(first..=last)
    }

    /// Whether it is one of so many.
    pub(crate) fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    /// One of several.
    pub(crate) fn pick<T: Copy, const N: usize>(&mut self, of: [T; N]) -> T {
        of[self.at(N)]
    }

    /// One of a list that is not empty.
    pub(crate) fn of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.at(list.len())]
    }

    /// Any 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.random()
    }

    /// A number of any size: small ones, powers of two and their neighbours, and the largest.
    pub(crate) fn any(&mut self) -> u64 {
        let power = 1_u64 << self.below(64);
        match self.below(6) {
            0 => self.below(8),
            1 => self.below(5000),
            2 => power,
            3 => power - 1,
            4 => power.wrapping_add(1),
            _ => u64::MAX - self.below(3),
        }
    }

    /// As [`Self::any`], cut to 32 bits.
    pub(crate) fn any32(&mut self) -> u32 {
        u32::try_from(self.any()).unwrap_or(u32::MAX)
    }

    /// Usually a number from `first` to `last`, now and then any.
    pub(crate) fn mostly(&mut self, first: u64, last: u64) -> u64 {
        if self.one_in(150) { self.any() } else { self.within(first, last) }
    }

    /// A number of doubtful use, as text.
    pub(crate) fn number(&mut self) -> String {
        if self.one_in(4) { self.any().to_string() } else { self.pick(NUMBERS).to_owned() }
    }

    /// Damages text in a few places.
    pub(crate) fn damage(&mut self, text: &mut String) {
        for _ in 0..self.within(1, 3) {
            match self.below(7) {
                0..3 => self.other_number(text),
                3 => {
                    let range = self.range(text);
                    text.replace_range(range, "");
                }
                4 => {
                    let part = text[self.range(text)].to_owned();
                    let place = self.place(text);
                    text.insert_str(place, &part);
                }
                5 => {
                    let (place, snippet) = (self.place(text), self.pick(SNIPPETS));
                    // Now and then so much of it that a line or a nesting has no end.
                    let times = if self.one_in(8) { self.pick([600, 70_000]) } else { 1 };
                    text.insert_str(place, &snippet.repeat(times));
                }
                _ => text.truncate(self.place(text)),
            }
        }
    }

    /// Puts another number in the place of one of the text's.
    pub(crate) fn other_number(&mut self, text: &mut String) {
        let digit = |at: usize| text.as_bytes().get(at).is_some_and(|byte| byte.is_ascii_digit() || *byte == b'.');
        let starts: Vec<usize> = (0..text.len()).filter(|&at| digit(at) && (at == 0 || !digit(at - 1))).collect();
        if starts.is_empty() {
            return;
        }
        let start = *self.of(&starts);
        let end = (start..text.len()).find(|&at| !digit(at)).unwrap_or(text.len());
        let number = self.number();
        text.replace_range(start..end, &number);
    }

    /// A place between two letters.
    fn place(&mut self, text: &str) -> usize {
        text.floor_char_boundary(self.at(text.len() + 1))
    }

    /// A part of the text, mostly a short one.
    fn range(&mut self, text: &str) -> std::ops::Range<usize> {
        let begin = self.place(text);
        let length = if self.one_in(8) { self.at(text.len() + 1) } else { self.at(20) };
        begin..text.floor_char_boundary(begin.saturating_add(length).min(text.len()))
    }
}
