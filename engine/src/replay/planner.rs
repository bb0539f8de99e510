//! Plans of steps: carried from step to step where only decodes run, made from scratch where prefill stands beside them.
//! A step that the scheduler cannot take is planned with each request alone, as an engine does that has both.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::plan::Strategy;
use crate::replan::{How, Replanner};
use crate::replay::Work;
use crate::replay::serving::Serving;
use crate::session::{self, PlanOptions, Planned};
use crate::workload::{Batch, BatchSpec, Change};

/// The scheduler of steps that the asked one refuses.
pub const STAND_IN: &str = "query-centric";

/// See the module.
#[derive(Debug)]
pub(super) struct Planner {
    options: PlanOptions,
    carried: Option<Replanner>,
    /// Changes that the carried plan has not seen.
    unseen: Vec<Change>,
}

impl Planner {
    pub(super) fn new(options: &PlanOptions) -> Self {
        Self { options: PlanOptions { explain: false, ..options.clone() }, carried: None, unseen: Vec::new() }
    }

    /// Plans a step after `changes` among the decodes. `how` is told for a plan that was carried. Where the scheduler
    /// refuses the step, [`STAND_IN`] plans it.
    pub(super) fn plan(
        &mut self,
        serving: &Serving,
        work: &[Work],
        changes: &[Change],
    ) -> Result<(Planned, Option<How>)> {
        match self.plan_as_asked(serving, work, changes) {
            Err(Error::Unsupported { who, .. }) if who == self.options.scheduler && who != STAND_IN => {
                self.forget();
                let options = PlanOptions { scheduler: STAND_IN.to_owned(), ..self.options.clone() };
                Ok((from_scratch(serving, work, &options)?, None))
            }
            planned => planned,
        }
    }

    fn plan_as_asked(
        &mut self,
        serving: &Serving,
        work: &[Work],
        changes: &[Change],
    ) -> Result<(Planned, Option<How>)> {
        if work.iter().all(|one| one.chunk.is_some()) {
            self.forget();
        }
        self.unseen.extend_from_slice(changes);
        if work.iter().any(|one| one.chunk.is_some()) {
            return Ok((from_scratch(serving, work, &self.options)?, None));
        }
        let Some(carried) = &mut self.carried else {
            let batch = serving.batch(String::new(), work)?;
            let options = for_kind(&batch, &self.options);
            self.carried = Some(Replanner::new(batch, &options)?);
            self.unseen.clear();
            return Ok((from_scratch(serving, work, &self.options)?, None));
        };
        let replanned = carried.step(&std::mem::take(&mut self.unseen))?;
        let batch = Arc::new(carried.batch().clone());
        let planned = Planned {
            spec: Arc::new(BatchSpec::empty(batch.shape)),
            tree: Arc::new(carried.tree().clone()),
            tiles: Arc::new(carried.tiles().clone()),
            plan: Arc::new(replanned.plan),
            options: Arc::new(for_kind(&batch, &self.options)),
            batch,
            plan_time: replanned.time,
        };
        Ok((planned, Some(replanned.how)))
    }

    /// Nobody decodes any more.
    fn forget(&mut self) {
        self.carried = None;
        self.unseen.clear();
    }
}

fn from_scratch(serving: &Serving, work: &[Work], options: &PlanOptions) -> Result<Planned> {
    let batch = Arc::new(serving.batch(String::new(), work)?);
    let spec = Arc::new(BatchSpec::empty(batch.shape));
    let options = for_kind(&batch, options);
    session::plan_batch(&spec, &batch, &options)
}

/// Strategies that put prefill beside decode need both; a step of one kind runs on streams then.
fn for_kind(batch: &Batch, options: &PlanOptions) -> PlanOptions {
    let asked = options.strategy;
    let strategy = if Strategy::of(batch).contains(&asked) { asked } else { Strategy::Streams };
    PlanOptions { strategy, ..options.clone() }
}
