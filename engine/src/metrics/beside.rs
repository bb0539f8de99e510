//! How much of the SMs' time prefill and decode shared.
//!
//! An SM is shared while a CTA that prefills and one that decodes are resident on it, or one that does both. The share
//! is of all SMs' time from the first CTA's begin to the last one's end:
//!
//! ```text
//! SM 0   prefill ████████████            SM 0 is shared from 2 to 12, SM 1 never:
//!        decode    ██████████████        10 of 2 × 16 is 31 %
//! SM 1   prefill ████████████
//!        decode              ████
//! ```

use std::collections::BTreeMap;

use crate::capture::Spans;
use crate::plan::{CtaRole, LaunchPlan};
use crate::units::{Bytes, Nanos};

/// How the two halves of a hybrid run went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoRun {
    /// End of the last prefill CTA.
    pub prefill_end: Nanos,
    /// End of the last decode CTA.
    pub decode_end: Nanos,
    /// Share of the SMs' time in which both ran on one of them.
    pub share: f64,
    /// Products of prefill from its first CTA's begin to its last one's end, FLOP per second.
    pub prefill_flops_per_s: f64,
    /// KV that decode CTAs load, likewise, bytes per second.
    pub decode_bytes_per_s: f64,
}

/// The halves of a run; `None` where it has one.
pub fn co_run(plan: &LaunchPlan, spans: &Spans, sms: u32) -> Option<CoRun> {
    let share = side_by_side(spans, sms)?;
    let [prefill, decode] = [[CtaRole::Prefill, CtaRole::Both], [CtaRole::Decode, CtaRole::Both]].map(|roles| {
        let of = || spans.iter().filter(|span| roles.contains(&span.role));
        (of().map(|span| span.begin).min().unwrap_or_default(), of().map(|span| span.end).max().unwrap_or_default())
    });
    let per_second = |amount: f64, (begin, end): (Nanos, Nanos)| amount * 1e9 / (end - begin).as_f64().max(1.0);
    let shape = &plan.shape;
    let flop = 4.0 * f64::from(shape.head_dim) * f64::from(shape.query_heads) * plan.prefill.attended() as f64;
    let bytes: Bytes = plan.packs.iter().map(|pack| shape.kv_bytes_per_token() * pack.tokens.0).sum();
    Some(CoRun {
        prefill_end: prefill.1,
        decode_end: decode.1,
        share,
        prefill_flops_per_s: per_second(flop, prefill),
        decode_bytes_per_s: per_second(bytes.as_f64(), decode),
    })
}

/// The share of the time of `sms` SMs in which prefill and decode ran side by side on one; `None` where one of the two
/// is not there.
pub fn side_by_side(spans: &Spans, sms: u32) -> Option<f64> {
    // Of each SM, when residents come (+1) and go (−1), prefill's and decode's.
    let mut changes: BTreeMap<u32, Vec<(Nanos, [i32; 2])>> = BTreeMap::new();
    let (mut first, mut last, mut any) = (Nanos(u64::MAX), Nanos::ZERO, [false; 2]);
    for span in spans.iter() {
        first = first.min(span.begin);
        last = last.max(span.end);
        let does = match span.role {
            CtaRole::Prefill => [1, 0],
            CtaRole::Decode => [0, 1],
            CtaRole::Both => [1, 1],
            CtaRole::Merge => continue,
        };
        any = [any[0] || does[0] > 0, any[1] || does[1] > 0];
        let of_sm = changes.entry(span.sm).or_default();
        of_sm.push((span.begin, does));
        of_sm.push((span.end, does.map(|one| -one)));
    }
    let total = last.0.saturating_sub(first.0) * u64::from(sms);
    if any != [true; 2] || total == 0 {
        return None;
    }
    let shared: u64 = changes.into_values().map(shared_of).sum();
    Some(shared as f64 / total as f64)
}

/// Time in which both are resident.
fn shared_of(mut changes: Vec<(Nanos, [i32; 2])>) -> u64 {
    changes.sort_unstable_by_key(|change| change.0);
    let (mut shared, mut now, mut before) = (0, [0; 2], Nanos::ZERO);
    for (at, change) in changes {
        if now[0] > 0 && now[1] > 0 {
            shared += at.0 - before.0;
        }
        now = [now[0] + change[0], now[1] + change[1]];
        before = at;
    }
    shared
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Span;

    fn span(sm: u32, slot: u32, role: CtaRole, (begin, end): (u64, u64)) -> Span {
        let (begin, end) = (Nanos(begin), Nanos(end));
        Span { role, launch: 0, cta: 0, sm, slot, begin, first_tile: begin, loop_end: end, end }
    }

    #[test]
    fn the_drawn_share() {
        let spans = vec![
            span(0, 0, CtaRole::Prefill, (0, 12)),
            span(0, 1, CtaRole::Decode, (2, 16)),
            span(1, 0, CtaRole::Prefill, (0, 12)),
            span(1, 0, CtaRole::Decode, (12, 16)),
        ];
        let share = side_by_side(&Spans::from_unsorted(spans), 2).unwrap();
        assert!((share - 10.0 / 32.0).abs() < 1e-12, "{share}");
    }

    #[test]
    fn a_cta_that_does_both_shares_by_itself_and_a_merge_shares_nothing() {
        let both = vec![span(0, 0, CtaRole::Both, (0, 10)), span(0, 1, CtaRole::Merge, (0, 20))];
        assert_eq!(side_by_side(&Spans::from_unsorted(both), 1), Some(0.5));
        let decodes = vec![span(0, 0, CtaRole::Decode, (0, 10)), span(0, 1, CtaRole::Merge, (0, 20))];
        assert_eq!(side_by_side(&Spans::from_unsorted(decodes), 1), None);
    }
}
