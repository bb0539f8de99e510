//! Quantities and indices with their unit in the type, so that tokens never meet bytes by accident.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

use serde::{Deserialize, Serialize};

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// Nothing of it.
            pub const ZERO: Self = Self(0);

            /// The value as a float, for rates and screen mapping only.
            pub fn as_f64(self) -> f64 {
                self.0 as f64
            }

            /// `self − other`, or zero where that would be negative.
            #[must_use]
            pub fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
        }
        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }
        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }
        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }
        impl SubAssign for $name {
            fn sub_assign(&mut self, other: Self) {
                self.0 -= other.0;
            }
        }
        impl Mul<u64> for $name {
            type Output = Self;
            fn mul(self, count: u64) -> Self {
                Self(self.0 * count)
            }
        }
        impl Div<u64> for $name {
            type Output = Self;
            fn div(self, count: u64) -> Self {
                Self(self.0 / count)
            }
        }
        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
                Self(items.map(|item| item.0).sum())
            }
        }
    };
}

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// Position in the arena that this index belongs to.
            pub fn at(self) -> usize {
                self.0 as usize
            }
        }
        impl From<usize> for $name {
            fn from(position: usize) -> Self {
                Self(position as u32)
            }
        }
    };
}

quantity!(
    /// A time or duration in nanoseconds.
    Nanos
);
quantity!(
    /// An amount of memory or traffic in bytes.
    Bytes
);
quantity!(
    /// A number of KV tokens.
    Tokens
);
index!(
    /// A physical KV block (page) of the paged cache.
    BlockIdx
);
index!(
    /// A request of the batch; for decode also its single query token.
    QueryIdx
);
index!(
    /// A node of the prefix tree.
    NodeIdx
);
index!(
    /// A pack: the queries and KV range that one CTA per KV head computes.
    PackIdx
);

impl std::fmt::Display for Nanos {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            ns @ 0..=9_999 => write!(f, "{ns} ns"),
            ns @ 10_000..=9_999_999 => write!(f, "{:.1} µs", ns as f64 / 1e3),
            ns @ 10_000_000..=9_999_999_999 => write!(f, "{:.2} ms", ns as f64 / 1e6),
            ns => write!(f, "{:.2} s", ns as f64 / 1e9),
        }
    }
}

impl std::fmt::Display for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let mut value = self.as_f64() / 1024.0;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        write!(f, "{value:.1} {}", UNITS[unit])
    }
}

impl std::fmt::Display for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", grouped(self.0))
    }
}

/// A count with a comma at each thousand: `1234567` reads `1,234,567`.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count with its noun: `1 launch`, `2 launches`, `5 queries`, `1,024 CTAs`.
pub fn counted(count: u64, noun: &str) -> String {
    let (stem, ending) = match (count, noun.strip_suffix('y')) {
        (1, _) => (noun, ""),
        (_, Some(stem)) => (stem, "ies"),
        _ if noun.ends_with("ch") || noun.ends_with("ss") => (noun, "es"),
        _ => (noun, "s"),
    };
    format!("{} {stem}{ending}", grouped(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_counted_in_the_singular() {
        assert_eq!(
            [(0, "CTA"), (1, "launch"), (2, "launch"), (1, "pass"), (3, "pass"), (1024, "pack")]
                .map(|(count, noun)| counted(count, noun)),
            ["0 CTAs", "1 launch", "2 launches", "1 pass", "3 passes", "1,024 packs"]
        );
    }

    #[test]
    fn quantities_print_with_a_fitting_unit() {
        assert_eq!(Nanos(950).to_string(), "950 ns");
        assert_eq!(Nanos(12_345).to_string(), "12.3 µs");
        assert_eq!(Bytes(1023).to_string(), "1023 B");
        assert_eq!(Bytes(3 << 20).to_string(), "3.0 MiB");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(999), "999");
    }
}
