//! Traces of papers' serving experiments, built from what the papers tell of them; what is not public has a substitute.
//!
//! | experiment | told | substitute |
//! |---|---|---|
//! | PAT 8.4, conversation | system prompt of 46 + 348 + 2,123 tokens, four of them by location and language; 256 tokens out; Poisson arrivals | the prompts behind it: 32 to 2,048 tokens, drawn log-uniformly, for `BurstGPT`'s |
//! | POD 5.2, offline | 16K tokens in; 2K, 1K or 256 out; all at once | fewer requests |
//! | POD 5.3, online | 4K to 32K tokens, 9.5K (arXiv) or 10.5K (internal) in the mean; 470 or 331 out; Poisson arrivals | inputs drawn log-uniformly and clipped to that mean; outputs alike |

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::import::{Trace, TraceRequest};

/// Tokens of one hash id, as PAT's own loader has them.
const BLOCK: u64 = 16;
/// Ends of the three levels of the system prompt, in tokens.
const LEVELS: [u64; 3] = [46, 46 + 348, 46 + 348 + 2123];
/// Tokens that PAT lets each request generate.
const PAT_OUTPUT: u64 = 256;
/// Tokens of POD's offline requests.
const OFFLINE_INPUT: u64 = 16_384;

/// PAT's conversation trace at a request rate (requests a second).
pub fn pat_conversation(seed: u64, count: u32, rate: f64) -> Trace {
    let random = &mut StdRng::seed_from_u64(seed);
    let mut arrivals = Poisson::new(rate);
    let request = |number: u32, random: &mut StdRng| {
        let (location, language) = (random.random_range(0..2_u64), random.random_range(0..2_u64));
        let input = LEVELS[2] + log_uniform(random, 32, 2048);
        let id = |block: u64| {
            // Who shares a block is decided by the level in which it ends.
            let end = ((block + 1) * BLOCK).min(input);
            let of = match LEVELS.iter().position(|level| end <= *level) {
                Some(0) => 0,
                Some(1) => 1 + location,
                Some(_) => 3 + 2 * location + language,
                None => 7 + u64::from(number),
            };
            (of << 32) + block
        };
        let hash_ids = (0..input.div_ceil(BLOCK)).map(id).collect();
        TraceRequest { arrival_ms: arrivals.next(random), input, output: PAT_OUTPUT, hash_ids, decoding_ms: None }
    };
    trace(count, random, request)
}

/// POD's offline requests, each of so many output tokens.
pub fn pod_offline(count: u32, output: u64) -> Trace {
    let request = |_: u32, _: &mut StdRng| TraceRequest { input: OFFLINE_INPUT, output, ..TraceRequest::default() };
    trace(count, &mut StdRng::seed_from_u64(0), request)
}

/// POD's online requests at a request rate (requests a second), of so many input and output tokens in the mean.
pub fn pod_online(seed: u64, count: u32, rate: f64, (input, output): (u64, u64)) -> Trace {
    let mut arrivals = Poisson::new(rate);
    let request = |_: u32, random: &mut StdRng| TraceRequest {
        arrival_ms: arrivals.next(random),
        // A log-uniform draw from 4K to m has the mean (m − 4K) / ln(m / 4K).
        input: log_uniform(random, 4096, most_for_mean(4096, input).min(32_768)),
        output: log_uniform(random, output / 4, most_for_mean(output / 4, output)),
        ..TraceRequest::default()
    };
    trace(count, &mut StdRng::seed_from_u64(seed), request)
}

fn trace(count: u32, random: &mut StdRng, mut request: impl FnMut(u32, &mut StdRng) -> TraceRequest) -> Trace {
    let requests = (0..count).map(|number| request(number, random)).collect();
    Trace { block: BLOCK, requests, rows: u64::from(count), notes: Vec::new() }
}

/// Arrival times of so many a second.
struct Poisson {
    rate: f64,
    ms: f64,
}

impl Poisson {
    fn new(rate: f64) -> Self {
        Self { rate, ms: 0.0 }
    }

    fn next(&mut self, random: &mut StdRng) -> f64 {
        self.ms += -(1.0 - random.random::<f64>()).ln() / self.rate * 1e3;
        self.ms
    }
}

fn log_uniform(random: &mut StdRng, least: u64, most: u64) -> u64 {
    let (least, most) = ((least.max(1) as f64).ln(), (most.max(2) as f64).ln());
    (least + random.random::<f64>() * (most - least).max(0.0)).exp().round() as u64
}

/// The upper end with which a log-uniform draw from `least` has a mean, by halving.
fn most_for_mean(least: u64, mean: u64) -> u64 {
    let (least, mean) = (least as f64, mean as f64);
    let (mut low, mut high) = (mean, 1e3 * mean);
    for _ in 0..60 {
        let most = f64::midpoint(low, high);
        if (most - least) / (most / least).ln() < mean { low = most } else { high = most }
    }
    low as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::prefix_keys;

    #[test]
    fn the_system_prompt_is_shared_by_levels() {
        let trace = pat_conversation(1, 60, 8.0);
        let keys = prefix_keys(&trace.requests, BLOCK, 16);
        let shared = |a: usize, b: usize| keys[a].iter().zip(&keys[b]).take_while(|(a, b)| a == b).count();
        let mut lengths: Vec<usize> = (1..60).map(|other| shared(0, other)).collect();
        lengths.sort_unstable();
        lengths.dedup();
        // Whole blocks of 46, 394 and 2,517 tokens.
        assert_eq!(lengths, [2, 24, 157]);
        let last = trace.requests.last().unwrap().arrival_ms / 1e3;
        assert!((60.0 / last - 8.0).abs() < 3.0, "{last} s for 60 requests");
    }

    #[test]
    fn online_requests_have_the_means_that_the_paper_tells() {
        let trace = pod_online(1, 4000, 1.0, (9500, 470));
        let mean = |of: fn(&TraceRequest) -> u64| trace.requests.iter().map(of).sum::<u64>() as f64 / 4000.0;
        assert!((mean(|one| one.input) / 9500.0 - 1.0).abs() < 0.05, "{}", mean(|one| one.input));
        assert!((mean(|one| one.output) / 470.0 - 1.0).abs() < 0.05, "{}", mean(|one| one.output));
        assert!(trace.requests.iter().all(|one| one.input >= 4096));
        assert_eq!(pod_offline(3, 256).requests.len(), 3);
    }
}
