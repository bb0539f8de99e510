//! `auto`: the strategy whose run is shortest by the simulator, with the others as runners-up.
//!
//! The whole plan under each strategy is simulated, since no closed form knows how tails, co-residency and
//! L2 fall together; what was chosen is planned once more with its decisions.

use std::sync::Arc;

use super::{PlanOptions, Planned, RunOptions, plan_batch, simulate};
use crate::cancel::Cancel;
use crate::decision::{Choice, Considered, Decision, Price, Subject};
use crate::error::{Error, Result};
use crate::plan::{LaunchPlan, Strategy, hybrid};
use crate::units::Nanos;
use crate::workload::{Batch, BatchSpec};

/// Plans a batch under the strategy with the least simulated time; of equals the first in the order of menus.
///
/// # Errors
/// As [`plan_batch`]; where every strategy refuses the batch, what the first one said.
pub(super) fn plan(spec: &Arc<BatchSpec>, batch: &Arc<Batch>, options: &PlanOptions) -> Result<Planned> {
    let offered = hybrid::offered(&options.device, batch);
    let mut timed: Vec<(Nanos, Planned)> = Vec::new();
    let mut refused: Vec<(Strategy, Error)> = Vec::new();
    for strategy in offered {
        let one = PlanOptions { strategy, auto: false, explain: false, ..options.clone() };
        match plan_batch(Arc::clone(spec), Arc::clone(batch), &one) {
            Ok(planned) => {
                let run = simulate(&planned, &RunOptions::default(), &Cancel::default())?;
                timed.push((run.makespan(), planned));
            }
            Err(error @ Error::Unsupported { .. }) => refused.push((strategy, error)),
            Err(error) => return Err(error),
        }
    }
    let Some(best) = (0..timed.len()).min_by_key(|at| timed[*at].0) else {
        let first = refused.into_iter().next().map(|(_, error)| error);
        return Err(first.unwrap_or_else(|| Error::Plan("there is no strategy for this batch".to_owned())));
    };
    let why = options.explain.then(|| explain(&timed, best, &refused));
    let mut planned = timed.swap_remove(best).1;
    if let Some(why) = why {
        let explained = PlanOptions { explain: true, ..(*planned.options).clone() };
        planned = plan_batch(Arc::clone(spec), Arc::clone(batch), &explained)?;
        let mut plan: LaunchPlan = (*planned.plan).clone();
        plan.decisions.insert(0, why);
        planned.plan = Arc::new(plan);
    }
    planned.options = Arc::new(PlanOptions { auto: true, ..(*planned.options).clone() });
    Ok(planned)
}

fn explain(timed: &[(Nanos, Planned)], best: usize, refused: &[(Strategy, Error)]) -> Decision {
    let way = |(time, planned): &(Nanos, Planned)| {
        Considered::new(planned.plan.strategy.name(), time.as_f64() * 1e-3, Price::run(time.as_f64()))
    };
    let left_out: Vec<&str> = refused.iter().map(|(strategy, _)| strategy.name()).collect();
    let others = if left_out.is_empty() {
        String::new()
    } else {
        format!("; {} cannot run this batch on this device", left_out.join(", "))
    };
    Decision {
        subject: Subject::Plan,
        other: None,
        choice: Choice::Fusion,
        considered: timed.iter().map(way).collect(),
        chosen: best,
        unit: "µs simulated".into(),
        rule: format!("auto takes the strategy whose whole run is shortest on the simulator, with cold L2{others}")
            .into(),
        constant: None,
    }
}
