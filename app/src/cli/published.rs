//! What the papers report, beside what the simulator gives with the same constants for every case.

use serde_json::{Value, json};

use crate::cli::table::Table;

/// Half a per cent is no direction.
const TIE: f64 = 0.005;

/// This much is still similar.
const SIMILAR: f64 = 0.1;

/// What a paper says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Published {
    /// A factor, or for [`Measure::MeanBelow`] a share.
    Number(f64),
    /// In words, that the factor is above 1.
    More(&'static str),
    /// Below 1.
    Less(&'static str),
    /// About 1.
    Same(&'static str),
}

/// What a paper reports that stands beside nothing here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Apart {
    /// What it says, with the number.
    pub(crate) what: &'static str,
    /// Why there is none of ours.
    pub(crate) why: &'static str,
}

/// A published number and how to find ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    /// What it says.
    pub(crate) what: &'static str,
    /// What is published.
    pub(crate) published: Published,
    /// How it is found from times.
    pub(crate) measure: Measure,
    /// The first so many cases only.
    pub(crate) cases: Option<usize>,
}

/// How a number is found from the times of ways over cases, or from the bytes that they issue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Measure {
    /// Mean of `1 − first way / this way`.
    MeanBelow(usize),
    /// Largest factor of a way over the first.
    Most(usize),
    /// Smallest.
    Least(usize),
    /// Mean factor of the bytes of a way over those of the first.
    MeanBytes(usize),
    /// Smallest.
    LeastBytes(usize),
    /// Largest.
    MostBytes(usize),
    /// Factor of a way over the first in one case, over that factor in another.
    CaseOver {
        /// The way.
        way: usize,
        /// The case.
        case: usize,
        /// What it is compared with.
        base: usize,
    },
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

/// Figures by case and way; `None` where a way refused the case.
pub(crate) type Figures = Vec<Vec<Option<f64>>>;

/// What came out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcomes {
    /// Times.
    pub(crate) times: Figures,
    /// Bytes that the CTAs ask to read and write.
    pub(crate) bytes: Figures,
}

impl Claim {
    /// Ours; `None` where no case has both times.
    pub(crate) fn simulated(&self, came: &Outcomes) -> Option<f64> {
        let of_bytes = matches!(self.measure, Measure::MeanBytes(_) | Measure::LeastBytes(_) | Measure::MostBytes(_));
        let all = if of_bytes { &came.bytes } else { &came.times };
        let cases = &all[..self.cases.unwrap_or(all.len()).min(all.len())];
        let factors = |way: usize, base: usize| {
            cases.iter().filter_map(move |row| Some(row.get(way).copied()?? / row.get(base).copied()??))
        };
        let factor = |case: usize, way: usize| {
            let row = all.get(case)?;
            Some(row.get(way).copied()?? / row.first().copied()??)
        };
        let mean = |values: &mut dyn Iterator<Item = f64>| {
            let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
            (count > 0).then(|| sum / f64::from(count))
        };
        match self.measure {
            Measure::MeanBelow(way) => mean(&mut factors(0, way).map(|factor| 1.0 - factor)),
            Measure::Most(way) | Measure::MostBytes(way) => factors(way, 0).max_by(f64::total_cmp),
            Measure::Least(way) | Measure::LeastBytes(way) => factors(way, 0).min_by(f64::total_cmp),
            Measure::MeanBytes(way) => mean(&mut factors(way, 0)),
            Measure::MeanOver { way, base } => mean(&mut factors(way, base)),
            Measure::Case { case, way } => factor(case, way),
            Measure::CaseOver { way, case, base } => Some(factor(case, way)? / factor(base, way)?),
        }
    }

    /// Whether ours points the same way: as far as [`TIE`] from no difference, on the same side.
    pub(crate) fn agrees(&self, simulated: f64) -> bool {
        let none = if matches!(self.measure, Measure::MeanBelow(_)) { 0.0 } else { 1.0 };
        let side = match self.published {
            Published::Number(number) => (number - none).signum(),
            Published::More(_) => 1.0,
            Published::Less(_) => -1.0,
            Published::Same(_) => return (simulated - none).abs() <= SIMILAR,
        };
        (simulated - none) * side > TIE
    }

    fn paper(&self) -> String {
        match self.published {
            Published::Number(number) => self.show(number),
            Published::More(said) | Published::Less(said) | Published::Same(said) => said.to_owned(),
        }
    }

    /// What is published, what came out, and whether it points the same way.
    pub(crate) fn json(&self, came: &Outcomes) -> Value {
        let ours = self.simulated(came);
        let published = match self.published {
            Published::Number(number) => json!(number),
            Published::More(said) | Published::Less(said) | Published::Same(said) => json!(said),
        };
        let agrees = ours.map(|value| self.agrees(value));
        json!({ "what": self.what, "published": published, "simulated": ours, "agrees": agrees })
    }

    fn show(&self, value: f64) -> String {
        match self.measure {
            Measure::MeanBelow(_) => format!("{:.1}%", value * 100.0),
            _ => format!("{value:.3}×"),
        }
    }
}

/// What stands beside nothing, a line each.
pub(crate) fn apart(all: &[Apart]) -> String {
    all.iter().fold(String::new(), |told, Apart { what, why }| format!("{told}not compared: {what}: {why}\n"))
}

/// The same as JSON.
pub(crate) fn apart_json(all: &[Apart]) -> Value {
    all.iter().map(|Apart { what, why }| json!({ "what": what, "why": why })).collect()
}

/// A table of the claims; empty where there is none.
pub(crate) fn table(claims: &[Claim], came: &Outcomes) -> String {
    if claims.is_empty() {
        return String::new();
    }
    let mut table = Table::new(1, &["published", "paper", "simulated", "direction"]);
    for claim in claims {
        let ours = claim.simulated(came);
        table.row(vec![
            claim.what.to_owned(),
            claim.paper(),
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
        let times = vec![vec![Some(1.0), Some(2.0), None], vec![Some(2.0), Some(8.0), Some(1.0)]];
        let bytes = vec![vec![Some(1.0), Some(6.0), None], vec![Some(1.0), Some(3.0), Some(1.0)]];
        let came = Outcomes { times, bytes };
        let claim = |measure| Claim { what: "", published: Published::Number(1.5), measure, cases: None };
        let near = |measure, expected: f64| {
            let got = claim(measure).simulated(&came).unwrap();
            assert!((got - expected).abs() < 1e-12, "{measure:?}: {got}");
        };
        near(Measure::MeanBelow(1), 0.625);
        near(Measure::Most(1), 4.0);
        near(Measure::Least(1), 2.0);
        near(Measure::MeanOver { way: 2, base: 0 }, 0.5);
        near(Measure::CaseOver { way: 1, case: 1, base: 0 }, 2.0);
        near(Measure::MeanBytes(1), 4.5);
        near(Measure::LeastBytes(1), 3.0);
        near(Measure::MostBytes(1), 6.0);
        near(Measure::Case { case: 0, way: 1 }, 2.0);
        assert!(claim(Measure::Case { case: 0, way: 2 }).simulated(&came).is_none());
        assert!(claim(Measure::Most(1)).agrees(1.01) && !claim(Measure::Most(1)).agrees(0.99));
        assert!(!claim(Measure::Most(1)).agrees(1.001), "a tie");
        let said = |published| Claim { published, ..claim(Measure::Most(1)) };
        for (published, agree, not) in [
            (Published::More("more"), [1.01, 3.0], [0.9, 1.001]),
            (Published::Less("less"), [0.99, 0.1], [1.1, 0.999]),
            (Published::Same("similar"), [0.91, 1.09], [0.89, 1.11]),
        ] {
            assert!(agree.into_iter().all(|ours| said(published).agrees(ours)), "{published:?}");
            assert!(!not.into_iter().any(|ours| said(published).agrees(ours)), "{published:?}");
        }
    }
}
