//! Plans of steps: carried from step to step where only decodes run, made anew where prefill stands beside them.

use std::sync::Arc;

use crate::error::Result;
use crate::plan::Strategy;
use crate::replan::{How, Replanner};
use crate::replay::Work;
use crate::replay::serving::Serving;
use crate::session::{self, PlanOptions, Planned};
use crate::tile;
use crate::workload::{BatchSpec, Change};

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

    /// Plans a step after `changes` among the decodes. `how` is told for a plan that was carried.
    pub(super) fn plan(
        &mut self,
        serving: &Serving,
        work: &[Work],
        changes: &[Change],
    ) -> Result<(Planned, Option<How>)> {
        self.unseen.extend_from_slice(changes);
        if work.iter().any(|one| one.chunk.is_some()) {
            return Ok((self.anew(serving, work)?, None));
        }
        let Some(carried) = &mut self.carried else {
            self.carried = Some(Replanner::new(serving.batch(String::new(), work)?, &self.for_kind(work))?);
            self.unseen.clear();
            return Ok((self.anew(serving, work)?, None));
        };
        let replanned = carried.step(&std::mem::take(&mut self.unseen))?;
        let batch = Arc::new(carried.batch().clone());
        let planned = Planned {
            spec: Arc::new(BatchSpec::empty(batch.shape)),
            tree: Arc::new(carried.tree().clone()),
            tiles: Arc::new(tile::solve(&self.options.device, batch.shape.head_dim, batch.shape.dtype)),
            plan: Arc::new(replanned.plan),
            options: Arc::new(self.for_kind(work)),
            batch,
            plan_time: replanned.time,
        };
        Ok((planned, Some(replanned.how)))
    }

    /// Nobody decodes any more.
    pub(super) fn forget(&mut self) {
        self.carried = None;
        self.unseen.clear();
    }

    fn anew(&self, serving: &Serving, work: &[Work]) -> Result<Planned> {
        let batch = Arc::new(serving.batch(String::new(), work)?);
        let spec = Arc::new(BatchSpec::empty(batch.shape));
        session::plan_batch(spec, batch, &self.for_kind(work))
    }

    /// Strategies that put prefill beside decode need both; a step of one kind runs on streams then.
    fn for_kind(&self, work: &[Work]) -> PlanOptions {
        let prefill = work.iter().any(|one| one.chunk.is_some());
        let hybrid = prefill && work.iter().any(|one| one.chunk.is_none());
        let strategy = match self.options.strategy {
            asked if hybrid || Strategy::ANY_BATCH.contains(&asked) => asked,
            _ => Strategy::Streams,
        };
        PlanOptions { strategy, ..self.options.clone() }
    }
}
