//! What a replay says of serving: time to the first token, time per output token, throughput.

use crate::replay::{Served, Step};
use crate::units::{Bytes, Nanos};

/// Percentiles of a figure; `None` where there is none of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percentiles {
    /// Half are at most this.
    pub p50: Nanos,
    /// Nine of ten.
    pub p90: Nanos,
    /// 99 of a hundred.
    pub p99: Nanos,
    /// The mean.
    pub mean: Nanos,
}

impl Percentiles {
    /// Of some times, in any order, by nearest rank.
    pub fn of(mut times: Vec<Nanos>) -> Option<Self> {
        times.sort_unstable();
        let count = times.len();
        let rank = |share: f64| times[((share * count as f64).ceil() as usize).clamp(1, count) - 1];
        let mean = times.iter().copied().map(Nanos::as_f64).sum::<f64>() / count.max(1) as f64;
        (count > 0).then(|| Self { p50: rank(0.5), p90: rank(0.9), p99: rank(0.99), mean: Nanos(mean as u64) })
    }
}

/// A way's figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// From the first arrival to the end of the last step.
    pub duration: Nanos,
    /// Tokens that came out.
    pub output_tokens: u64,
    /// Prompt tokens that were computed.
    pub prefill_tokens: u64,
    /// Prompt tokens that were found in the cache.
    pub cached_tokens: u64,
    /// Requests that are done.
    pub done: u64,
    /// From arrival to the first token.
    pub ttft: Option<Percentiles>,
    /// From the first token to the last, over the tokens between; of requests that are done, with at least 2 tokens.
    pub time_per_output_token: Option<Percentiles>,
    /// Attention of all layers and steps.
    pub attention: Nanos,
    /// The rest of all layers and steps.
    pub rest: Nanos,
    /// Bytes that attention issues, over all steps, of one layer.
    pub issued: Bytes,
    /// The same under the first way, on the same steps.
    pub issued_first: Bytes,
    /// Attention of one layer under the first way, on the same steps.
    pub attention_first: Nanos,
    /// Steps in which this way took longer than the first.
    pub steps_lost: u64,
    /// Steps that the scheduler refused, so that each request was planned alone.
    pub steps_stood_in: u64,
}

impl Summary {
    /// Of requests and steps, for so many layers.
    pub(super) fn of(served: &[Served], steps: &[Step], layers: u64) -> Self {
        let ttft = served.iter().filter_map(|one| Some(one.first?.saturating_sub(one.arrival)));
        let per_token = |one: &Served| {
            let (first, last) = (one.first?, one.last?);
            (one.generated >= 2).then(|| Nanos(last.saturating_sub(first).0 / (one.generated - 1)))
        };
        let sum = |figure: fn(&Step) -> u64| steps.iter().map(figure).sum::<u64>();
        Self {
            duration: steps.last().map_or(Nanos::ZERO, |step| step.begin + step.duration),
            output_tokens: served.iter().map(|one| one.generated).sum(),
            prefill_tokens: steps.iter().flat_map(|step| &step.work).filter_map(|work| work.chunk).sum(),
            cached_tokens: served.iter().map(|one| one.cached).sum(),
            done: served.iter().filter(|one| one.last.is_some()).count() as u64,
            ttft: Percentiles::of(ttft.collect()),
            time_per_output_token: Percentiles::of(served.iter().filter_map(per_token).collect()),
            attention: Nanos(layers * sum(|step| step.attention.time.0)),
            rest: Nanos(layers * sum(|step| step.rest.0)),
            issued: Bytes(sum(|step| step.attention.issued.0)),
            issued_first: Bytes(sum(|step| step.first_way().issued.0)),
            attention_first: Nanos(sum(|step| step.first_way().time.0)),
            steps_lost: steps.iter().filter(|step| step.attention.time > step.first_way().time).count() as u64,
            steps_stood_in: steps.iter().filter(|step| step.stood_in).count() as u64,
        }
    }

    /// Output tokens a second.
    pub fn throughput(&self) -> f64 {
        if self.duration.0 == 0 { 0.0 } else { self.output_tokens as f64 / (self.duration.as_f64() / 1e9) }
    }
}
