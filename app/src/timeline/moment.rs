//! Moments as text, so that one can be sent to somebody: `12.345us` of the run, `choice:5` of the scheduler's choices.

use std::fmt;
use std::str::FromStr;

use super::playback::Moment;

/// Units of time, with nanoseconds; longer names first, so that `us` is not taken for `s`.
const UNITS: [(&str, f64); 5] = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Choices(made) => write!(f, "choice:{}", made.max(0.0) as u64),
            Self::Time(time) => {
                // Whole nanoseconds, so that the same CTAs run at it.
                let ns = time.max(0.0) as u64;
                let text = format!("{}.{:03}", ns / 1000, ns % 1000);
                write!(f, "{}us", text.trim_end_matches('0').trim_end_matches('.'))
            }
        }
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            let text = engine::shown::quoted(text);
            format!(
                "'{text}' is no moment; write a time of the run such as 12.3us, or choice:5 for a choice of the scheduler"
            )
        };
        if let Some(choice) = text.strip_prefix("choice:") {
            return choice.parse::<u32>().map(|made| Self::Choices(f64::from(made))).map_err(|_| wrong());
        }
        let (unit, ns) = UNITS.into_iter().find(|(unit, _)| text.ends_with(unit)).ok_or_else(wrong)?;
        let number: f64 = text.trim_end_matches(unit).trim_end().parse().map_err(|_| wrong())?;
        let time = (number * ns).round();
        if time.is_finite() && time >= 0.0 { Ok(Self::Time(time)) } else { Err(wrong()) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_moment_comes_back_as_it_was(ns in 0_u64..1 << 50, choice in 0_u32..1 << 30, is_time: bool) {
            let moment = if is_time { Moment::Time(ns as f64) } else { Moment::Choices(f64::from(choice)) };
            prop_assert_eq!(moment.to_string().parse::<Moment>(), Ok(moment));
        }
    }

    #[test]
    fn times_have_units_and_what_is_none_says_what_one_is() {
        for (text, ns) in [("12.3us", 12_300.0), ("12.3µs", 12_300.0), ("7ns", 7.0), ("1.5 ms", 1.5e6), ("2s", 2e9)] {
            assert_eq!(text.parse::<Moment>(), Ok(Moment::Time(ns)), "{text}");
        }
        for text in ["", "12", "us", "-1us", "infus", "NaNs", "choice:", "choice:-1", "choice:1.5", "12us us"] {
            let told = text.parse::<Moment>().unwrap_err();
            assert!(told.contains("12.3us") && told.contains("choice:5"), "{text}: {told}");
        }
    }
}
