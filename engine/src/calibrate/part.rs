//! The part of the runs that is fitted first.

use std::collections::BTreeMap;

use super::Observed;

/// From how many runs on a part is fitted first, and which part that is.
const MANY: usize = 60;
const EVERY: usize = 5;

/// The runs to begin with: all of few, else every fifth of each way of planning (scheduler, strategy and heads), in
/// each way beginning with another, so that they go evenly over ways and configurations.
pub(super) fn first(runs: &[Observed]) -> Vec<&Observed> {
    if runs.len() <= MANY {
        return runs.iter().collect();
    }
    let mut ways: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (at, run) in runs.iter().enumerate() {
        let (plan, shape) = (&run.planned.plan, &run.planned.batch.shape);
        let way = (&plan.scheduler, plan.strategy.name(), shape.query_heads, shape.kv_heads);
        ways.entry(way).or_default().push(at);
    }
    let mut part: Vec<usize> = Vec::new();
    for (way, of_way) in ways.values().enumerate() {
        part.extend(of_way.iter().skip(way % EVERY.min(of_way.len())).step_by(EVERY));
    }
    part.sort_unstable();
    part.into_iter().map(|at| &runs[at]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::L2State;
    use crate::hw;
    use crate::plan::Strategy;
    use crate::session::{self, PlanOptions};
    use crate::units::Nanos;
    use crate::workload::{AttentionShape, BatchSpec, RequestSpec};

    /// Configurations, told by their tokens, under each scheduler, strategy and head setup, in the order of a bench.
    fn runs(configurations: u64, schedulers: &[&str]) -> Vec<Observed> {
        let mut runs = Vec::new();
        for (kv_heads, configuration) in [8, 32].into_iter().flat_map(|h| (0..configurations).map(move |c| (h, c))) {
            let shape = AttentionShape { query_heads: 32, kv_heads, ..AttentionShape::default() };
            let requests = vec![RequestSpec::Decode { kv: 32 + configuration, count: 1 }];
            let spec = BatchSpec { requests, ..BatchSpec::empty(shape) };
            for (scheduler, strategy) in schedulers.iter().flat_map(|name| Strategy::ANY_BATCH.map(|way| (name, way))) {
                let device = hw::find("h200-sxm").unwrap();
                let options = PlanOptions { scheduler: (*scheduler).to_owned(), strategy, ..PlanOptions::new(device) };
                let planned = session::plan_spec(&spec, &options).unwrap();
                runs.push(Observed { planned, measured: Nanos(1), l2: L2State::Cold });
            }
        }
        runs
    }

    /// How often each key of a run comes up, least and most.
    fn spread<K: Ord>(part: &[&Observed], key: impl Fn(&Observed) -> K) -> (usize, usize, usize) {
        let mut counts: BTreeMap<K, usize> = BTreeMap::new();
        for run in part {
            *counts.entry(key(run)).or_default() += 1;
        }
        (counts.len(), *counts.values().min().unwrap(), *counts.values().max().unwrap())
    }

    #[test]
    fn a_part_goes_evenly_over_ways_and_configurations() {
        // Five schedulers are 15 ways, so that every fifth run of the list would be of three ways alone.
        for schedulers in
            [&["pat"][..], &["pat", "naive"], &["pat", "naive", "query-centric", "min-time", "min-traffic"]]
        {
            let all = runs(20, schedulers);
            let part = first(&all);
            assert_eq!(part.len(), all.len() / EVERY);
            let plan = |run: &Observed| run.planned.plan.clone();
            assert_eq!(spread(&part, |run| plan(run).strategy.name()).0, 3);
            let ways = spread(&part, |run| {
                (plan(run).scheduler.clone(), plan(run).strategy.name(), run.planned.batch.shape.kv_heads)
            });
            assert_eq!(ways, (6 * schedulers.len(), 4, 4), "each way alike");
            let (configurations, least, most) = spread(&part, |run| run.planned.batch.decode_tokens());
            assert!(configurations == 20 && most - least <= schedulers.len(), "{configurations}: {least} to {most}");
        }
    }

    #[test]
    fn few_runs_are_all_fitted_and_one_of_its_own_way_is_in_every_part() {
        let few = runs(10, &["pat"]);
        assert_eq!((few.len(), first(&few).len()), (MANY, MANY));
        let mut all = runs(20, &["pat"]);
        all.extend(runs(1, &["naive"]).into_iter().take(1));
        assert!(first(&all).iter().any(|run| run.planned.plan.scheduler == "naive"));
    }
}
