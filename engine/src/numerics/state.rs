//! The online-softmax state and its merge, in f32 as the kernels do it.
//!
//! A partial holds the normalised output O and the log-sum-exp of the scores it saw. Two partials
//! over disjoint KV merge to
//!
//! ```text
//! LSE = ln(e^LSE₁ + e^LSE₂)      O = O₁·e^(LSE₁ − LSE) + O₂·e^(LSE₂ − LSE)
//! ```
//!
//! Empty ⊕ empty = empty: with both LSE at −∞ the difference is not a number, so that case is
//! answered before any exponent is taken.

/// The result of one (pack, query, head): normalised O of length d, and LSE (natural log).
#[derive(Clone, Debug, PartialEq)]
pub struct Partial {
    /// Normalised output.
    pub o: Vec<f32>,
    /// Log-sum-exp of the scaled scores; −∞ for no tokens.
    pub lse: f32,
}

impl Partial {
    /// The partial over no tokens.
    pub fn empty(head_dim: usize) -> Self {
        Self { o: vec![0.0; head_dim], lse: f32::NEG_INFINITY }
    }
}

/// Merges any number of partials, in order.
pub fn merge<'a>(partials: impl Iterator<Item = &'a Partial>, head_dim: usize) -> Partial {
    let mut out = Partial::empty(head_dim);
    for partial in partials {
        out = merge_two(out, partial);
    }
    out
}

fn merge_two(mut a: Partial, b: &Partial) -> Partial {
    let high = a.lse.max(b.lse);
    if high == f32::NEG_INFINITY {
        return a;
    }
    let (weight_a, weight_b) = ((a.lse - high).exp(), (b.lse - high).exp());
    let sum = weight_a + weight_b;
    for (left, right) in a.o.iter_mut().zip(&b.o) {
        *left = (*left * weight_a + right * weight_b) / sum;
    }
    a.lse = high + sum.ln();
    a
}

/// A running state while tiles of one pack go by: unnormalised output, running maximum and sum.
#[derive(Clone, Debug)]
pub(super) struct Running {
    max: f32,
    sum: f32,
    o: Vec<f32>,
}

impl Running {
    pub(super) fn new(head_dim: usize) -> Self {
        Self { max: f32::NEG_INFINITY, sum: 0.0, o: vec![0.0; head_dim] }
    }

    /// Takes one tile: its scaled scores and the V rows that belong to them.
    pub(super) fn tile<'a>(&mut self, scores: &[f32], values: impl Iterator<Item = &'a [f32]>) {
        let high = scores.iter().copied().fold(self.max, f32::max);
        if high == f32::NEG_INFINITY {
            return;
        }
        let rescale = (self.max - high).exp();
        self.sum *= rescale;
        self.o.iter_mut().for_each(|o| *o *= rescale);
        for (score, value) in scores.iter().zip(values) {
            let weight = (score - high).exp();
            self.sum += weight;
            for (o, v) in self.o.iter_mut().zip(value) {
                *o += weight * v;
            }
        }
        self.max = high;
    }

    pub(super) fn finish(self) -> Partial {
        if self.sum == 0.0 {
            return Partial::empty(self.o.len());
        }
        let scale = 1.0 / self.sum;
        Partial { o: self.o.into_iter().map(|o| o * scale).collect(), lse: self.max + self.sum.ln() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_merged_with_empty_is_empty() {
        let empty = Partial::empty(2);
        let merged = merge([&empty, &empty].into_iter(), 2);
        assert_eq!(merged, empty);
    }

    #[test]
    fn empty_changes_nothing() {
        let one = Partial { o: vec![0.5, -2.0], lse: 1.25 };
        let empty = Partial::empty(2);
        assert_eq!(merge([&empty, &one, &empty].into_iter(), 2), one);
    }

    #[test]
    fn equal_weights_average() {
        let a = Partial { o: vec![1.0], lse: 3.0 };
        let b = Partial { o: vec![2.0], lse: 3.0 };
        let merged = merge([&a, &b].into_iter(), 1);
        assert!((merged.o[0] - 1.5).abs() < 1e-6 && (merged.lse - (3.0 + 2_f32.ln())).abs() < 1e-6);
    }
}
