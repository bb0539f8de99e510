//! What the papers report, beside what the simulator gives with the same constants for every case.

use super::table::Table;

/// Half a per cent is no direction.
const TIE: f64 = 0.005;

/// A published number and how to find ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    /// What it says.
    pub(crate) what: &'static str,
    /// The published number: a factor, or for [`Measure::MeanBelow`] a share.
    pub(crate) published: f64,
    /// How it is found from times.
    pub(crate) measure: Measure,
    /// The first so many cases only.
    pub(crate) cases: Option<usize>,
}

/// How a number is found from the times of ways over cases.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Measure {
    /// Mean of `1 − first way / this way`.
    MeanBelow(usize),
    /// Largest factor of a way over the first.
    Most(usize),
    /// Mean factor of a way over another.
    MeanOver {
        /// The way.
        way: usize,
        /// What it is compared with.
        base: usize,
    },
    /// Factor of a way over the first in one case.
    Case {
        /// The case.
        case: usize,
        /// The way.
        way: usize,
    },
}

/// Times by case and way; `None` where a way refused the case.
pub(crate) type Times = Vec<Vec<Option<f64>>>;

impl Claim {
    /// Ours; `None` where no case has both times.
    pub(crate) fn simulated(&self, times: &Times) -> Option<f64> {
        let cases = &times[..self.cases.unwrap_or(times.len()).min(times.len())];
        let factors = |way: usize, base: usize| {
            cases.iter().filter_map(move |row| Some(row.get(way).copied()?? / row.get(base).copied()??))
        };
        let mean = |values: &mut dyn Iterator<Item = f64>| {
            let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
            (count > 0).then(|| sum / f64::from(count))
        };
        match self.measure {
            Measure::MeanBelow(way) => mean(&mut factors(0, way).map(|factor| 1.0 - factor)),
            Measure::Most(way) => factors(way, 0).max_by(f64::total_cmp),
            Measure::MeanOver { way, base } => mean(&mut factors(way, base)),
            Measure::Case { case, way } => {
                let row = times.get(case)?;
                Some(row.get(way).copied()?? / row.first().copied()??)
            }
        }
    }

    /// Whether ours points the same way: as far as [`TIE`] from no difference, on the same side.
    pub(crate) fn agrees(&self, simulated: f64) -> bool {
        let none = if matches!(self.measure, Measure::MeanBelow(_)) { 0.0 } else { 1.0 };
        (simulated - none) * (self.published - none).signum() > TIE
    }

    fn show(&self, value: f64) -> String {
        match self.measure {
            Measure::MeanBelow(_) => format!("{:.1}%", value * 100.0),
            _ => format!("{value:.3}×"),
        }
    }
}

/// A table of the claims; empty where there is none.
pub(crate) fn table(claims: &[Claim], times: &Times) -> String {
    if claims.is_empty() {
        return String::new();
    }
    let mut table = Table::new(1, &["published", "paper", "simulated", "direction"]);
    for claim in claims {
        let ours = claim.simulated(times);
        table.row(vec![
            claim.what.to_owned(),
            claim.show(claim.published),
            ours.map_or_else(|| "–".to_owned(), |value| claim.show(value)),
            ours.map_or("–", |value| if claim.agrees(value) { "agrees" } else { "DISAGREES" }).to_owned(),
        ]);
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_are_what_they_say_and_a_refusal_is_left_out() {
        let times: Times = vec![vec![Some(1.0), Some(2.0), None], vec![Some(2.0), Some(8.0), Some(1.0)]];
        let claim = |measure| Claim { what: "", published: 1.5, measure, cases: None };
        let near = |measure, expected: f64| {
            let got = claim(measure).simulated(&times).unwrap();
            assert!((got - expected).abs() < 1e-12, "{measure:?}: {got}");
        };
        near(Measure::MeanBelow(1), 0.625);
        near(Measure::Most(1), 4.0);
        near(Measure::MeanOver { way: 2, base: 0 }, 0.5);
        near(Measure::Case { case: 0, way: 1 }, 2.0);
        assert!(claim(Measure::Case { case: 0, way: 2 }).simulated(&times).is_none());
        assert!(claim(Measure::Most(1)).agrees(1.01) && !claim(Measure::Most(1)).agrees(0.99));
        assert!(!claim(Measure::Most(1)).agrees(1.001), "a tie");
    }
}
