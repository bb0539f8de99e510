//! Conservation: every token is computed once, the cache never holds more than it has.

use proptest::prelude::*;

use super::serving::Serving;
use super::*;
use crate::import::TraceRequest;

/// A trace of 32-token hash blocks.
fn trace(rows: &[(u64, u64, u64, Vec<u64>)]) -> Trace {
    let request = |(arrival, input, output, ids): &(u64, u64, u64, Vec<u64>)| TraceRequest {
        arrival_ms: *arrival as f64,
        input: *input,
        output: *output,
        hash_ids: ids[..input.div_ceil(32) as usize].to_vec(),
        decoding_ms: None,
    };
    Trace { block: 32, rows: rows.len() as u64, requests: rows.iter().map(request).collect(), notes: Vec::new() }
}

fn rows() -> impl Strategy<Value = Vec<(u64, u64, u64, Vec<u64>)>> {
    let row = (0..50_u64, 1..400_u64, 1..40_u64, prop::collection::vec(0..3_u64, 13));
    prop::collection::vec(row, 1..24)
}

proptest! {
    #[test]
    fn every_token_is_computed_once_and_the_cache_holds_no_more_than_it_has(
        rows in rows(),
        budget in 1..200_u64,
        running in 1..12_usize,
        cache in 100..1500_u64,
        block in prop::sample::select(vec![16_u32, 32, 64]),
    ) {
        let shape = AttentionShape { block_size: block, ..AttentionShape::default() };
        let options = ServingOptions { token_budget: budget, max_running: running, cache_tokens: cache, time_scale: 1.0 };
        let trace = trace(&rows);
        let mut serving = Serving::new(&trace, shape, options);
        let (mut now, mut prefilled, mut decoded) = (Nanos::ZERO, vec![0; rows.len()], vec![0_u64; rows.len()]);
        for _ in 0..100_000 {
            let Some(work) = serving.step(now) else {
                let Some(arrival) = serving.next_arrival() else { break };
                now = now.max(arrival);
                continue;
            };
            let decodes = work.iter().filter(|one| one.chunk.is_none()).count() as u64;
            let chunks: u64 = work.iter().filter_map(|one| one.chunk).sum();
            prop_assert!(decodes + chunks <= budget.max(decodes), "the budget holds");
            prop_assert!(work.len() <= running);
            let (held, capacity, _) = serving.cache();
            prop_assert!(held <= capacity && capacity == cache / u64::from(block));
            // A batch refuses rows that are too short or have a block twice.
            serving.batch(String::new(), &work).unwrap();
            for one in &work {
                match one.chunk {
                    Some(chunk) => prefilled[one.request as usize] += chunk,
                    None => decoded[one.request as usize] += 1,
                }
            }
            now += Nanos(1_000_000);
            serving.finish(&work, now);
        }
        prop_assert_eq!(serving.cache().0, 0, "all is given back");
        for (at, (row, served)) in rows.iter().zip(&serving.served).enumerate() {
            if serving.refused.contains(&(at as u32)) {
                prop_assert!((row.1 + row.2).div_ceil(u64::from(block)) > cache / u64::from(block));
                continue;
            }
            prop_assert_eq!(prefilled[at] + served.cached, row.1, "each prompt token computed or found, once");
            // The chunk that ends the prompt gives the first token.
            prop_assert_eq!((decoded[at] + 1, served.generated), (row.2, row.2));
            prop_assert!(served.first >= Some(served.arrival) && served.last >= served.first);
        }
    }
}

fn options(max_steps: u64) -> ReplayOptions {
    let serving = ServingOptions { cache_tokens: 20_000, token_budget: 512, ..ServingOptions::default() };
    ReplayOptions { model: Model::find("llama-3-8b").unwrap(), gpus: 1, block_size: 32, serving, max_steps }
}

fn ways(names: &[&str]) -> Vec<PlanOptions> {
    let device = crate::hw::find("h200-sxm").unwrap();
    let way = |name: &&str| PlanOptions { scheduler: (*name).to_owned(), ..PlanOptions::new(device) };
    names.iter().map(way).collect()
}

/// Twelve requests of one shared prefix that arrive together.
fn shared() -> Trace {
    let row = |at: u64| (at / 6 * 5, 256 + 32 * (at % 3), 12, vec![1, 2, 3, 4, 5, 6, 7, 8, 10 + at, 11, 12, 13, 14]);
    trace(&(0..12).map(row).collect::<Vec<_>>())
}

#[test]
fn a_replay_is_deterministic_and_its_carried_plans_are_those_made_anew() {
    let run =
        || replay(&shared(), &ways(&["query-centric", "pat"]), &options(200), &Cancel::default(), &|| ()).unwrap();
    let (a, b) = (run(), run());
    for (a, b) in a.iter().zip(&b) {
        assert_eq!((&a.steps, a.summary), (&b.steps, b.summary));
        assert_eq!(a.summary.output_tokens, 12 * 12);
        assert!(a.summary.cached_tokens > 0 && a.steps.iter().any(|step| step.how.is_some()));
    }
    let pat = &a[1];
    assert!(pat.summary.issued < pat.summary.issued_first, "a shared prefix is read once");
    for (number, step) in pat.steps.iter().enumerate().filter(|(_, step)| step.how.is_some()).step_by(3) {
        let spec = pat.batch_of(number).unwrap();
        let planned = crate::session::plan_spec(&spec, &ways(&["pat"])[0]).unwrap();
        let timed = timing::time(0, &planned, None, &Cancel::default()).unwrap();
        assert_eq!((timed.time, timed.issued), (step.attention.time, step.attention.issued), "step {number}");
    }
}

/// Says that everything takes as long as it has requests.
struct Fake(Vec<usize>);

impl Measure for Fake {
    fn measure(&mut self, planned: &crate::session::Planned, _cancel: &Cancel) -> Result<Nanos> {
        self.0.push(planned.batch.requests().len());
        Ok(Nanos(7_000 + planned.batch.requests().len() as u64))
    }
}

#[test]
fn sampled_steps_are_measured_and_the_others_simulated() {
    let mut fake = Fake(Vec::new());
    let mut sampled = Sampled { by: &mut fake, every: 4 };
    let all =
        replay_measured(&shared(), &ways(&["pat"]), &options(10), &mut sampled, &Cancel::default(), &|| ()).unwrap();
    assert_eq!((all[0].steps.len(), fake.0.len()), (10, 3));
    for (number, step) in all[0].steps.iter().enumerate() {
        let measured = Nanos(7_000 + step.work.len() as u64);
        assert_eq!(step.attention.measured, number % 4 == 0);
        assert_eq!(step.attention.time == measured, number % 4 == 0, "{number}");
    }
}

/// A step of prefill alone has no prefix that its decodes share, and requests with nothing in common neither.
#[test]
fn steps_that_a_scheduler_refuses_are_planned_with_each_request_alone() {
    let row = |at: u64| {
        (at.min(1) * 30 + at / 6 * 1000, 320, 12, (0..13).map(|id| if at < 6 { id } else { 100 * at + id }).collect())
    };
    let trace = trace(&(0..9).map(row).collect::<Vec<_>>());
    let ways = ways(&["query-centric", "relay-plus-plus", "hydragen"]);
    let all = replay(&trace, &ways, &options(400), &Cancel::default(), &|| ()).unwrap();
    assert_eq!(all[0].summary.steps_stood_in, 0);
    for way in &all[1..] {
        let stood_in = way.summary.steps_stood_in;
        assert!(stood_in > 0 && stood_in < way.steps.len() as u64, "{}: {stood_in}", way.scheduler);
        assert!(way.steps.iter().filter(|step| step.stood_in).all(|step| step.attention == *step.first_way()));
        assert_eq!(way.summary.done, 9);
    }
}
