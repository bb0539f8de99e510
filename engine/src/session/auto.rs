//! `auto`: the scheduler and the strategy whose run is shortest by the simulator, with the others as runners-up.
//!
//! The whole plan of each way is simulated, since no closed form knows how tails, co-residency and
//! L2 fall together; what was chosen is planned once more with its decisions. Where a GPU is there, it may have the last
//! word among the best ones ([`Runner::tune`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::{PlanOptions, Planned, RunOptions, Runner, plan_batch, simulate};
use crate::cancel::Cancel;
use crate::decision::{Choice, Considered, Decision, Price, Subject};
use crate::error::{Error, Result};
use crate::pack;
use crate::plan::{LaunchPlan, hybrid};
use crate::units::Nanos;
use crate::workload::{Batch, BatchSpec};

/// What of a plan is found by its time instead of being asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Auto {
    /// The scheduler, of [`pack::AUTO`].
    pub scheduler: bool,
    /// The strategy, of all that the device has kernels for.
    pub strategy: bool,
}

impl Auto {
    /// Whether anything is.
    pub fn any(self) -> bool {
        self.scheduler || self.strategy
    }
}

/// How many of the best ways a GPU tries.
const TRIED: usize = 3;

/// A scheduler under a strategy, planned, and its simulated time.
struct Way {
    time: Nanos,
    planned: Planned,
}

impl Way {
    fn options(&self) -> &PlanOptions {
        &self.planned.options
    }
}

/// All ways by time, and those that the device or the batch refuses.
struct Ways {
    auto: Auto,
    timed: Vec<Way>,
    refused: Vec<(PlanOptions, Error)>,
}

/// Plans a batch in the way with the least simulated time; of equals the first in the order of menus.
///
/// # Errors
/// As [`plan_batch`]; where every way refuses the batch, what the first one said.
pub(super) fn plan(spec: &Arc<BatchSpec>, batch: &Arc<Batch>, options: &PlanOptions) -> Result<Planned> {
    let ways = Ways::of(spec, batch, options)?;
    let why = options.explain.then(|| ways.explain());
    ways.take(0, options, why)
}

impl Runner {
    /// Plans a batch in the way that this GPU runs fastest of the three with the least simulated times.
    ///
    /// # Errors
    /// As [`super::plan_spec`] and [`Runner::run`]; [`Error::Unsupported`] without a GPU.
    pub fn tune(
        &mut self,
        spec: &BatchSpec,
        options: &PlanOptions,
        run: &RunOptions,
        cancel: &Cancel,
    ) -> Result<Planned> {
        if self.device().is_none() {
            return Err(Error::Unsupported {
                who: "tuning".to_owned(),
                limit:
                    "it runs the best ways on a GPU, and there is none here; leave it out, and the simulator decides"
                        .to_owned(),
            });
        }
        let (spec, batch) = (Arc::new(spec.clone()), Arc::new(spec.build()?));
        let mut ways = Ways::of(&spec, &batch, options)?;
        let (taken, refused): (Vec<Way>, Vec<Way>) =
            ways.timed.into_iter().partition(|way| self.accepts(&way.planned).is_ok());
        for way in refused {
            if let Err(error) = self.accepts(&way.planned) {
                ways.refused.push((way.options().clone(), error));
            }
        }
        ways.timed = taken;
        let mut measured = Vec::new();
        for way in ways.timed.iter().take(TRIED) {
            measured.push(self.run(&way.planned, run, cancel)?.makespan());
        }
        let best = (0..measured.len()).min_by_key(|at| measured[*at]).unwrap_or(0);
        let why = options.explain.then(|| ways.explain_tuned(&measured, best));
        ways.take(best, options, why)
    }
}

impl Ways {
    /// Plans and simulates every way, on all cores.
    fn of(spec: &Arc<BatchSpec>, batch: &Arc<Batch>, options: &PlanOptions) -> Result<Self> {
        let asked = candidates(batch, options)?;
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            while let Some(one) = asked.get(next.fetch_add(1, Ordering::Relaxed)) {
                done.push((one, timed(spec, batch, one)));
            }
            done
        };
        let workers = thread::available_parallelism().map_or(1, usize::from).min(asked.len());
        let done: Vec<_> = thread::scope(|scope| {
            let handles: Vec<_> = (1..workers).map(|_| scope.spawn(work)).collect();
            let mut done = work();
            for handle in handles {
                // A panic of a worker goes on here, as if the work had been done on this thread.
                done.extend(handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            done
        });
        let (mut timed, mut refused) = (Vec::new(), Vec::new());
        for (one, result) in done {
            match result {
                Ok(way) => timed.push(way),
                Err(error @ Error::Unsupported { .. }) => refused.push((one.clone(), error)),
                Err(error) => return Err(error),
            }
        }
        // Workers end in any order.
        let place = |way: &PlanOptions| {
            asked.iter().position(|one| (&one.scheduler, one.strategy) == (&way.scheduler, way.strategy))
        };
        timed.sort_by_key(|way: &Way| (way.time, place(way.options())));
        refused.sort_by_key(|(way, _)| place(way));
        Ok(Self { auto: options.auto, timed, refused })
    }

    /// The way at a place of the list, planned with its decisions, of which `why` is the first.
    fn take(mut self, at: usize, options: &PlanOptions, why: Option<Decision>) -> Result<Planned> {
        if at >= self.timed.len() {
            let first = self.refused.into_iter().next().map(|(_, error)| error);
            return Err(first.unwrap_or_else(|| Error::Plan("there is no strategy for this batch".to_owned())));
        }
        let mut planned = self.timed.swap_remove(at).planned;
        if let Some(why) = why {
            let explained = PlanOptions { explain: true, ..(*planned.options).clone() };
            planned = plan_batch(Arc::clone(&planned.spec), Arc::clone(&planned.batch), &explained)?;
            let mut plan: LaunchPlan = (*planned.plan).clone();
            plan.decisions.insert(0, why);
            planned.plan = Arc::new(plan);
        }
        planned.options = Arc::new(PlanOptions { auto: options.auto, ..(*planned.options).clone() });
        Ok(planned)
    }

    fn explain(&self) -> Decision {
        let rule =
            format!("auto takes the way whose whole run is shortest on the simulator, with cold L2{}", self.others());
        self.decision("µs simulated", self.timed.iter().map(|way| way.time), 0, rule)
    }

    fn explain_tuned(&self, measured: &[Nanos], best: usize) -> Decision {
        let simulated: Vec<String> =
            self.timed.iter().map(|way| format!("{} {}", self.name(way.options()), way.time)).collect();
        let rule = format!(
            "of the {} ways that are shortest on the simulator this GPU runs it fastest, with cold L2 (simulated: {}){}",
            measured.len(),
            simulated.join(", "),
            self.others()
        );
        self.decision("µs measured", measured.iter().copied(), best, rule)
    }

    fn decision(
        &self,
        unit: &'static str,
        times: impl Iterator<Item = Nanos>,
        chosen: usize,
        rule: String,
    ) -> Decision {
        let way = |(way, time): (&Way, Nanos)| {
            Considered::new(self.name(way.options()), time.as_f64() * 1e-3, Price::run(time.as_f64()))
        };
        Decision {
            subject: Subject::Plan,
            other: None,
            choice: Choice::Launch,
            considered: self.timed.iter().zip(times).map(way).collect(),
            chosen,
            unit: unit.into(),
            rule: rule.into(),
            constant: None,
        }
    }

    fn others(&self) -> String {
        if self.refused.is_empty() {
            return String::new();
        }
        let names: Vec<String> = self.refused.iter().map(|(way, _)| self.name(way)).collect();
        format!("; {} cannot run this batch on this device", names.join(", "))
    }

    /// What of a way was not asked for.
    fn name(&self, way: &PlanOptions) -> String {
        let strategy = way.strategy.name();
        match (self.auto.scheduler, self.auto.strategy) {
            (true, true) => format!("{} {strategy}", way.scheduler),
            (true, false) => way.scheduler.clone(),
            (false, _) => strategy.to_owned(),
        }
    }
}

/// The options of every way, in the order of menus.
fn candidates(batch: &Batch, options: &PlanOptions) -> Result<Vec<PlanOptions>> {
    let schedulers = if options.auto.scheduler { pack::AUTO.to_vec() } else { vec![options.scheduler.as_str()] };
    let strategies =
        if options.auto.strategy { hybrid::offered(&options.device, batch) } else { vec![options.strategy] };
    let mut all = Vec::new();
    for scheduler in schedulers {
        pack::find(scheduler)?;
        all.extend(strategies.iter().map(|strategy| PlanOptions {
            scheduler: scheduler.to_owned(),
            strategy: *strategy,
            auto: Auto::default(),
            explain: false,
            ..options.clone()
        }));
    }
    Ok(all)
}

fn timed(spec: &Arc<BatchSpec>, batch: &Arc<Batch>, options: &PlanOptions) -> Result<Way> {
    let planned = plan_batch(Arc::clone(spec), Arc::clone(batch), options)?;
    let time = simulate(&planned, &RunOptions::default(), &Cancel::default())?.makespan();
    Ok(Way { time, planned })
}
