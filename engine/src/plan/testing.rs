//! Plans for tests of what is made of them.

use crate::pack;
use crate::pack::testing::with_input;
use crate::pack::{PackInput, Packing, Scheduler};
use crate::plan::{LaunchPlan, PlanChoice, Strategy, build};
use crate::workload::{BatchSpec, PrefixTree};

/// Calls `run` with what a scheduler plans under `fused` of a batch on a built-in device.
pub(crate) fn with_fused_plan<T>(
    spec: &BatchSpec,
    (scheduler, device): (&str, &str),
    run: impl FnOnce(&PackInput<'_>, &LaunchPlan) -> T,
) -> T {
    with_plan_of(spec, (scheduler, device), |scheduler, input| scheduler.pack(input).unwrap(), run)
}

/// The same of the packs that a scheduler prefers of those that it leaves open.
pub(crate) fn with_preferred_plan<T>(
    spec: &BatchSpec,
    names: (&str, &str),
    run: impl FnOnce(&PackInput<'_>, &LaunchPlan) -> T,
) -> T {
    with_plan_of(spec, names, |scheduler, input| scheduler.packings(input).unwrap().swap_remove(0), run)
}

fn with_plan_of<T>(
    spec: &BatchSpec,
    (scheduler, device): (&str, &str),
    pack: impl FnOnce(&dyn Scheduler, &PackInput<'_>) -> Packing,
    run: impl FnOnce(&PackInput<'_>, &LaunchPlan) -> T,
) -> T {
    let batch = spec.build().unwrap();
    let scheduler = pack::find(scheduler).unwrap();
    let (strategy, rule) = (Strategy::Fused, scheduler.tile_rule());
    let choice = PlanChoice { scheduler: scheduler.name(), strategy, rule, explain: true };
    with_input(&batch, &PrefixTree::of(&batch), (device, None), |input| {
        run(input, &build(input, &pack(scheduler, input), &choice).unwrap())
    })
}
