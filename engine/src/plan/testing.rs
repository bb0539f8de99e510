//! Plans for tests of what is made of them.

use crate::pack;
use crate::pack::PackInput;
use crate::pack::testing::with_input;
use crate::plan::{LaunchPlan, PlanChoice, Strategy, build};
use crate::workload::{BatchSpec, PrefixTree};

/// Calls `run` with what a scheduler plans under `fused` of a batch on a built-in device.
pub(crate) fn with_fused_plan<T>(
    spec: &BatchSpec,
    (scheduler, device): (&str, &str),
    run: impl FnOnce(&PackInput<'_>, &LaunchPlan) -> T,
) -> T {
    let batch = spec.build().unwrap();
    let scheduler = pack::find(scheduler).unwrap();
    let (strategy, rule) = (Strategy::Fused, scheduler.tile_rule());
    let choice = PlanChoice { scheduler: scheduler.name(), strategy, rule, explain: true };
    with_input(&batch, &PrefixTree::of(&batch), (device, None), |input| {
        run(input, &build(input, &scheduler.pack(input).unwrap(), &choice).unwrap())
    })
}
