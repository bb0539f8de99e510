//! The least time that any kernel could take for a batch: its unique bytes read, its products computed.
//!
//! | bound | from |
//! |---|---|
//! | read | unique KV, Q and output, on the curve of what a plain read takes for so many bytes |
//! | products | 4·d FLOP for each (query head, KV token), over the measured tensor rate |
//!
//! Worked number: configuration 3 of PAT's Figure 10 at 32/8 has 1,024 requests of 2,080 tokens: 32 heads ·
//! 4 · 128 · 2,129,920 = 34.9 GFLOP, 55.6 µs at 628 TFLOP/s; its 143 MB come in 45.5 µs. The floor is 55.6 µs.

use crate::hw::HybridLimits;
use crate::units::{Bytes, Nanos};
use crate::workload::{Batch, PrefixTree};

/// What a GPU can do at best, as measured on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Time of a plain read with cold L2, by bytes, ascending.
    pub read: Vec<(Bytes, Nanos)>,
    /// How far the repeats of each lie apart; empty where only the medians are known.
    pub read_spread: Vec<ReadSpread>,
    /// Tensor rate of `mma.sync`, which decodes compute with, FLOP per second.
    pub flops: f64,
    /// What tensor cores and reads reach alone and at once, where the GPU has warpgroup instructions.
    pub hybrid: Option<HybridLimits>,
}

/// How far the repeats of a plain read lie apart, as a share of their median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadSpread {
    /// Of all ([`Spread::share`](crate::capture::Spread::share)).
    pub all: f64,
    /// Of those into which as many pauses of the memory fell ([`Pauses::steady`](crate::capture::Pauses::steady)).
    pub steady: Option<f64>,
}

/// The two bounds of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    /// From the bytes.
    pub read: Nanos,
    /// From the products.
    pub products: Nanos,
}

impl Floor {
    /// The larger of the two.
    pub fn time(&self) -> Nanos {
        self.read.max(self.products)
    }
}

impl Limits {
    /// The floor of a batch.
    pub fn floor(&self, batch: &Batch, tree: &PrefixTree) -> Floor {
        let shape = &batch.shape;
        let rows = shape.query_bytes() * (2 * batch.requests().len() as u64);
        let bytes = Bytes(shape.kv_bytes_per_token().0 * tree.unique_tokens().0) + rows;
        let flop = 4.0 * f64::from(shape.head_dim) * f64::from(shape.query_heads) * batch.decode_tokens().as_f64();
        Floor { read: self.read_time(bytes), products: Nanos((flop / self.flops * 1e9).round() as u64) }
    }

    /// Time of a plain read, on straight lines through the measured points and on past the last.
    fn read_time(&self, bytes: Bytes) -> Nanos {
        let points = self.read.as_slice();
        let Some(first) = points.first() else { return Nanos::ZERO };
        if bytes <= first.0 || points.len() < 2 {
            return Nanos((first.1.as_f64() * (bytes.as_f64() / first.0.as_f64()).max(1.0)).round() as u64);
        }
        let after = points.iter().position(|point| point.0 >= bytes).unwrap_or(points.len() - 1).max(1);
        let ((x0, y0), (x1, y1)) = (points[after - 1], points[after]);
        let slope = (y1.as_f64() - y0.as_f64()) / (x1.as_f64() - x0.as_f64());
        Nanos((y0.as_f64() + slope * (bytes.as_f64() - x0.as_f64())).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{AttentionShape, parse_tree};

    /// The curve and rate of one H200.
    fn h200() -> Limits {
        let points = [(8, 7_040), (16, 9_820), (34, 14_210), (64, 22_430), (128, 39_230), (256, 72_830)];
        let read = points.map(|(mib, ns)| (Bytes(mib << 20), Nanos(ns))).to_vec();
        Limits { read, read_spread: Vec::new(), flops: 628e12, hybrid: None }
    }

    #[test]
    fn floors_are_those_of_the_published_table() {
        let floor = |tree: &str| {
            let batch = parse_tree(tree, AttentionShape::default()).unwrap().build().unwrap();
            h200().floor(&batch, &PrefixTree::of(&batch))
        };
        let near = |got: Nanos, micros: f64| (got.as_f64() / 1e3 - micros).abs() < 0.15;
        let one = floor("1,10_4096,416");
        assert!(near(one.read, 13.8) && near(one.products, 1.2), "{one:?}");
        let three = floor("1,1024_2048,32");
        assert!(near(three.read, 45.5) && near(three.products, 55.6) && three.time() == three.products, "{three:?}");
    }

    #[test]
    fn past_the_last_point_the_last_slope_goes_on() {
        let per_mib = (72_830.0 - 39_230.0) / 128.0;
        let got = h200().read_time(Bytes(512 << 20)).as_f64();
        assert!((got - (72_830.0 + 256.0 * per_mib)).abs() < 2.0, "{got}");
        assert_eq!(h200().read_time(Bytes(1)), Nanos(7_040), "a launch has its price");
    }
}
