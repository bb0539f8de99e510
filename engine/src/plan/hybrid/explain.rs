//! The decisions of a hybrid batch, written down: splits, and what runs beside what.
//!
//! Every way has an estimated time as price (see `ours`), named by what it covers: POD's ways estimate
//! the whole run, FlashAttention's prefill splits that kernel alone, and two kernels that overlap as the
//! hardware pleases have only a bound. Where a rule of the released code chose, the constant is the one
//! in the branch that decided, and its flip is found by asking the rule again just beyond each value at
//! which a comparison turns.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::decision::{Choice, Considered, Decision, Price, RuleConstant, Subject};
use crate::plan::hybrid::PodChoice;
use crate::plan::hybrid::auto::{self, Answer, PodWay, Question, Rule, released_by};
use crate::plan::hybrid::ours::{self, Estimate, Work, estimate};

/// A way with its estimated time, which is also its cost.
pub(super) fn timed(what: impl Into<Cow<'static, str>>, price: Price) -> Considered {
    Considered::new(what, price.amount * 1e-3, price)
}

/// A decision about the whole plan by estimated times.
pub(super) fn decision(
    choice: Choice,
    (considered, chosen): (Vec<Considered>, usize),
    rule: impl Into<Cow<'static, str>>,
    constant: Option<RuleConstant>,
) -> Decision {
    Decision {
        subject: Subject::Plan,
        other: None,
        choice,
        considered,
        chosen,
        unit: "µs estimated".into(),
        rule: rule.into(),
        constant,
    }
}

/// The numbers that are told of those that were open, in order and each once, as ways; and which of them was taken.
pub(super) fn ways(
    told: impl IntoIterator<Item = u32>,
    taken: u32,
    way: impl Fn(u32) -> Considered,
) -> (Vec<Considered>, usize) {
    let told: BTreeSet<u32> = told.into_iter().chain([taken]).collect();
    let chosen = told.iter().position(|number| *number == taken).unwrap_or(0);
    (told.into_iter().map(way).collect(), chosen)
}

/// Numbers of splits: small ones, the most, and the one that was taken.
fn splits_of(what: &str, taken: u32, cap: u32, price: impl Fn(u32) -> Price) -> (Vec<Considered>, usize) {
    let name = |splits: u32| match splits {
        1 => format!("{what} whole"),
        _ => format!("{what} in {splits}"),
    };
    let told = [1, 2, 4, cap].into_iter().filter(|splits| *splits <= cap);
    ways(told, taken, |splits| timed(name(splits), price(splits)))
}

/// Nearest of `candidates` beyond which `outcome` is another than at `value`.
fn flip<T: PartialEq>(value: f64, candidates: &[f64], outcome: impl Fn(f64) -> T) -> Option<f64> {
    let now = outcome(value);
    let beyond = |at: f64| if at >= value { at * (1.0 + 1e-9) } else { at * (1.0 - 1e-9) };
    let turns = candidates.iter().copied().filter(|at| outcome(beyond(*at)) != now);
    turns.min_by(|a, b| (a - value).abs().total_cmp(&(b - value).abs()))
}

/// FlashAttention's own split of the prefill, and that its kernels run as the strategy says.
pub(super) fn flash(work: &Work<'_>, taken: u32, strategy: &'static str) -> Vec<Decision> {
    let q = &work.question;
    let waves = auto::flash_waves(q, auto::MOST_SPLITS);
    let split = decision(
        Choice::Split,
        splits_of("prefill KV", taken, waves.cap, |splits| Price::one_kernel(ours::prefill_alone(work, splits))),
        "the fewest splits within 85 % of the best wave efficiency over blocks of 64 rows, none from 80 % of two CTAs an SM (FlashAttention 2)",
        Some(waves.constant()),
    );
    if q.decodes == 0 {
        return vec![split];
    }
    let (own, rule) = match strategy {
        "serial" => (
            Price::run(ours::prefill_alone(work, taken) + ours::decode_alone(work)),
            "serial was asked for: one kernel after the other, each with its own tail",
        ),
        _ => (
            Price::lower_bound(ours::bound(work)),
            "the strategy was asked for; how far its kernels overlap only a run tells, so all that stands here is a bound",
        ),
    };
    let considered = vec![timed(strategy, own), timed("fused", Price::run(ours::choose(work).time))];
    vec![split, decision(Choice::Fusion, (considered, 0), rule, None)]
}

/// POD's splits, CTAs an SM and policy.
pub(super) fn pod(work: &Work<'_>, answer: &Answer, ours: &Estimate, choice: PodChoice) -> Vec<Decision> {
    vec![prefill_splits(work, answer, choice), decode_splits(work, answer, choice), way(work, answer, ours, choice)]
}

fn prefill_splits(work: &Work<'_>, answer: &Answer, choice: PodChoice) -> Decision {
    let (q, taken) = (&work.question, answer.prefill_splits);
    let time = |splits: u32| estimate(work, &Answer { prefill_splits: splits, ..*answer });
    let (rule, constant) = if choice == PodChoice::Ours {
        (
            "of all splits that fill two waves at most (POD 4.2.4) the one with the shortest estimate, or within 3 % of it that of POD's released code",
            cap_constant(q, taken, &time),
        )
    } else if q.decode_ctas() >= q.wave() || taken > 1 {
        let fill = f64::from(q.decode_ctas()) / f64::from(q.sm_count);
        let turns = auto::flash_prefill_splits(q, q.prefill_cap()) > 1;
        let name = "decode CTAs an SM from which prefill is not split";
        (
            "prefill is split by FlashAttention's rule to two full waves at most (POD 4.2.4), and not where the decodes alone fill two CTAs an SM (POD's released code)",
            RuleConstant::new(name, 2.0, turns.then_some(fill)),
        )
    } else {
        (
            "prefill is split by FlashAttention's rule to two full waves at most (POD 4.2.4)",
            auto::flash_waves(q, q.prefill_cap()).constant(),
        )
    };
    let price = |splits: u32| Price::run(time(splits));
    decision(Choice::Split, splits_of("prefill KV", taken, q.prefill_cap(), price), rule, Some(constant))
}

/// The limit of two waves: below `taken · P₀ / W` waves the splits that were taken are out of reach,
/// and where none were, some number beyond the limit may be worth more.
fn cap_constant(q: &Question, taken: u32, time: &dyn Fn(u32) -> f64) -> RuleConstant {
    let waves = |splits: u32| f64::from(splits * q.prefill_ctas(128)) / f64::from(q.wave());
    let cap = q.prefill_cap();
    let flips_at = if taken > 1 {
        Some(waves(taken))
    } else {
        let now = ours::MARGIN * time(1);
        (cap + 1..=4 * cap + 4).find(|splits| time(*splits) < now).map(waves)
    };
    RuleConstant::new("waves that prefill splits may fill", 2.0, flips_at)
}

fn decode_splits(work: &Work<'_>, answer: &Answer, choice: PodChoice) -> Decision {
    let (q, taken) = (&work.question, answer.decode_splits);
    let forced = match choice {
        PodChoice::Released => None,
        PodChoice::Ours | PodChoice::Way(_) => Some(answer.way),
    };
    let fill = f64::from(q.decode_ctas()) / f64::from(q.wave());
    let prefill = 2.0 * f64::from(q.prefill_ctas(128)) / f64::from(q.wave());
    let value = Rule::default().part;
    let splits = |part: f64| released_by(q, forced, &Rule { part, ..Rule::default() }).decode_splits;
    let cap = auto::MOST_SPLITS.min(taken.max(2));
    let price = |splits: u32| Price::run(estimate(work, &Answer { decode_splits: splits, ..*answer }));
    let rule = if q.whole {
        "two splits where the decodes fill 80 to 100 % of two CTAs an SM beside a long or a short prefill (POD's released code), else FlashAttention's wave rule"
    } else {
        "the scheduler has cut or shared the KV already, so it is left as it is"
    };
    let constant =
        RuleConstant::new("share of two CTAs an SM that is nearly full", value, flip(value, &[fill, prefill], splits));
    decision(Choice::Split, splits_of("decode KV", taken, cap, price), rule, q.whole.then_some(constant))
}

/// CTAs an SM and policy, each way with the splits that it would have.
fn way(work: &Work<'_>, answer: &Answer, ours: &Estimate, choice: PodChoice) -> Decision {
    let q = &work.question;
    let of = |way: PodWay| match choice {
        _ if way == answer.way => *answer,
        PodChoice::Ours => ours::best_of(work, way).answer,
        PodChoice::Released | PodChoice::Way(_) => released_by(q, Some(way), &Rule::default()),
    };
    let considered = PodWay::ALL.iter().map(|way| timed(way.name(), Price::run(estimate(work, &of(*way))))).collect();
    let chosen = PodWay::ALL.iter().position(|way| *way == answer.way).unwrap_or(0);
    let (rule, constant) = match choice {
        PodChoice::Ours => (
            Cow::Borrowed(
                "the estimate is the shortest (the largest of compute, memory, decode waves and the chain of prefill CTAs, with its tail), or within 3 % of it what POD's released code takes",
            ),
            Some(efficiency(work, ours)),
        ),
        PodChoice::Released => {
            let (why, constant) = automatic(q);
            (
                Cow::Owned(format!(
                    "{why} (the automatic choice of POD's released code); ours would be {}",
                    ours.answer.way.name()
                )),
                Some(constant),
            )
        }
        PodChoice::Way(_) => {
            (Cow::Owned(format!("this way was asked for; ours would be {}", ours.answer.way.name())), None)
        }
    };
    decision(Choice::Fusion, (considered, chosen), rule, constant)
}

/// The prefill rate at which our choice would be another.
fn efficiency(work: &Work<'_>, ours: &Estimate) -> RuleConstant {
    const STEP: f64 = 1.02;
    let value = work.device.sim.prefill_efficiency;
    let same = |efficiency: f64| {
        let mut device = work.device.clone();
        device.sim.prefill_efficiency = efficiency;
        ours::choose(&Work { device: &device, ..*work }).answer == ours.answer
    };
    let steps = (1..=100).flat_map(|step| [value * STEP.powi(step), value * STEP.powi(-step)]);
    let flips_at = steps.filter(|efficiency| *efficiency <= 1.0).find(|efficiency| !same(*efficiency)).map(|beyond| {
        let inside = if beyond > value { beyond / STEP } else { beyond * STEP };
        let (mut inside, mut beyond) = (inside, beyond);
        for _ in 0..20 {
            let middle = inside.midpoint(beyond);
            if same(middle) { inside = middle } else { beyond = middle }
        }
        beyond
    });
    RuleConstant::new("sim.prefill_efficiency", value, flips_at)
}

/// The branch of the released choice that decided, with its constant.
fn automatic(q: &Question) -> (&'static str, RuleConstant) {
    let rule = Rule::default();
    let (prefill, decode) = (f64::from(q.prefill_ctas(128)), f64::from(q.decode_ctas()));
    let (wave, sms) = (f64::from(q.wave()), f64::from(q.sm_count));
    let way = |rule: &Rule| released_by(q, None, rule).way;
    let answer = released_by(q, None, &rule);
    if answer.prefill_splits > 1 || answer.decode_splits > 1 {
        let turns = flip(rule.part, &[decode / wave, 2.0 * prefill / wave], |part| way(&Rule { part, ..rule }));
        let name = "share of two CTAs an SM that is nearly full";
        return ("a side is split, which only two CTAs an SM do", RuleConstant::new(name, rule.part, turns));
    }
    if prefill < wave && decode < rule.decodes_per_sm * sms {
        let turns = flip(rule.decodes_per_sm, &[decode / sms], |n| way(&Rule { decodes_per_sm: n, ..rule }));
        let name = "decode CTAs an SM that are few";
        return (
            "prefill fills less than a wave and decodes are few",
            RuleConstant::new(name, rule.decodes_per_sm, turns),
        );
    }
    if (prefill < wave || decode < wave) && auto::is_long(q, &rule) {
        let ratio = f64::from(q.prefill_kv) / f64::from(q.decode_kv.max(1));
        let turns = flip(rule.long, &[ratio], |long| way(&Rule { long, ..rule }));
        let name = "prefill KV by decode KV that is long";
        return (
            "the prefill is long beside the decodes, and one of them fills less than a wave",
            RuleConstant::new(name, rule.long, turns),
        );
    }
    let turns = flip(rule.more, &[decode / prefill.max(1.0)], |more| way(&Rule { more, ..rule }));
    let name = "decode CTAs a prefill CTA from which it is four an SM";
    ("the larger of prefill and decode CTAs decides", RuleConstant::new(name, rule.more, turns))
}

#[cfg(test)]
mod tests {
    use super::flip;

    #[test]
    fn the_nearest_turn_that_changes_the_outcome_is_the_flip() {
        // The outcome turns at 3 and at 7; 5 changes nothing.
        let outcome = |value: f64| i32::from(value > 3.0) + i32::from(value > 7.0);
        assert_eq!(flip(4.0, &[7.0, 5.0, 3.0], outcome), Some(3.0));
        assert_eq!(flip(6.5, &[7.0, 5.0, 3.0], outcome), Some(7.0));
        assert_eq!(flip(4.0, &[5.0], outcome), None);
    }
}
