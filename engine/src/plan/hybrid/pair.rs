//! On how many SMs prefill runs under `co-resident`, where decode takes what it leaves of each and all of the others.
//!
//! ```text
//! prefill   its items, one after another on k SMs, as slow as with decode beside them
//! decode    bytes / min(HBM, k · read beside + (SMs − k) · read alone)
//! time      of the one that ends first at those rates, then what is left of the other at its own
//! k         the least time; of equals the largest
//! ```
//!
//! Beside prefill a decode CTA reads far less than alone, so that prefill on all SMs starves decode; on few SMs prefill
//! is the longer.
//!
//! Worked number, C1 on the H200 (618 GFLOP and 5.54 GB): on 108 SMs prefill takes 1.43 ms at 4.0 TFLOP/s an SM, and
//! decode reads 108 · 19 + 24 · 75 = 3,852 GB/s, 1.44 ms. Measured there: 1.48 ms, and 1.73 ms on all 132.

use crate::decision::{Choice, Decision, Price};
use crate::hw::{Device, PairRates};
use crate::pack::PackInput;
use crate::plan::hybrid::explain::{decision, timed, ways};
use crate::plan::hybrid::sms::one_after_another;

/// Rates where nothing was measured: prefill loses nothing to decode, which reads as fast beside it as alone.
fn unmeasured(device: &Device) -> PairRates {
    let of_sm = (device.reachable_bytes_per_s() / f64::from(device.sm_count)) as u64;
    let tensor_flops_per_sm = device.tensor_flops / u64::from(device.sm_count.max(1));
    PairRates { tensor_flops_per_sm, read_beside_per_sm: of_sm, read_alone_per_sm: of_sm }
}

/// What the choice looks at.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    sms: u32,
    rates: PairRates,
    /// Times of the prefill items alone on their SMs, in the order of the queue, ns.
    items: Vec<f64>,
    /// How much longer they take with decode beside them.
    slower: f64,
    /// Bytes that decode reads, and the most that HBM gives, bytes per second.
    bytes: f64,
    hbm: f64,
}

impl Pair {
    /// Of a batch whose prefill has `items` ([`crate::plan::hybrid::sms::items`]).
    pub(super) fn of(input: &PackInput<'_>, items: Vec<f64>) -> Self {
        let (device, shape) = (input.device, &input.batch.shape);
        let kernels = device.prefill_kernel;
        let rates = kernels.and_then(|kernels| kernels.pair).unwrap_or_else(|| unmeasured(device));
        let alone = kernels.map_or(1.0, |kernels| kernels.slim.efficiency) * device.tensor_flops as f64
            / f64::from(device.sm_count.max(1));
        Self {
            sms: device.sm_count,
            rates,
            items,
            slower: (alone / rates.tensor_flops_per_sm as f64).max(1.0),
            bytes: input.tree.unique_tokens().as_f64() * shape.kv_bytes_per_token().as_f64(),
            hbm: device.reachable_bytes_per_s(),
        }
    }

    /// Estimated time with prefill on `k` SMs, ns.
    fn time(&self, k: u32) -> f64 {
        let alone = one_after_another(&self.items, k);
        let prefill = alone * self.slower;
        let shared = self.rates.read_bytes_per_s(f64::from(k), f64::from(self.sms - k)).min(self.hbm) * 1e-9;
        let decode = self.bytes / shared;
        if prefill < decode {
            prefill + (self.bytes - shared * prefill) / (self.hbm * 1e-9)
        } else {
            decode + (prefill - decode) / self.slower
        }
    }

    /// SMs of prefill, with the reason.
    pub(super) fn choose(&self) -> (u32, Decision) {
        let times: Vec<(u32, f64)> = (1..=self.sms).map(|k| (k, self.time(k))).collect();
        let least = times.iter().map(|(_, time)| *time).fold(f64::INFINITY, f64::min);
        let k = times.iter().rev().find(|(_, time)| *time <= least).map_or(self.sms, |(k, _)| *k);
        let way = |k: u32| timed(format!("prefill on {k} of {} SMs", self.sms), Price::run(self.time(k)));
        let open = [self.sms / 2, self.sms * 3 / 4, self.sms].into_iter().filter(|k| *k > 0);
        let rule = "the number of SMs at which prefill, and decode beside it and on the others, end soonest";
        (k, decision(Choice::Fusion, ways(open, k, way), rule, None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1,536 items of 618 GFLOP in all, at 5.28 TFLOP/s an SM alone.
    fn c1() -> Pair {
        let rates = PairRates {
            tensor_flops_per_sm: 4_000_000_000_000,
            read_beside_per_sm: 19_000_000_000,
            read_alone_per_sm: 75_000_000_000,
        };
        let item = 618e9 / 1536.0 / 5.28e12 * 1e9;
        Pair { sms: 132, rates, items: vec![item; 1536], slower: 1.32, bytes: 5.54e9, hbm: 4.45e12 }
    }

    #[test]
    fn the_worked_number_holds() {
        let (k, decision) = c1().choose();
        assert!((100..=116).contains(&k), "{k}");
        let best = decision.taken().unwrap().price.amount;
        assert!((best / 1.44e6 - 1.0).abs() < 0.05, "{best}");
        assert!(c1().time(132) > 1.1 * best, "on all SMs decode starves");
    }

    #[test]
    fn prefill_has_all_sms_where_it_is_the_longer_by_far() {
        let pair = Pair { bytes: 1e8, ..c1() };
        assert!(pair.choose().0 > 125);
    }
}
