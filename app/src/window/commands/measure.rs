//! Runs on the GPU as the window sees them: asking for one, what it is at, and where its result goes.
//!
//! A measured run belongs to its plan. It is shown while that plan is, and stays in the compare list when an
//! edit makes another plan; when the plan comes back, by undo or by hand, so does the run.

use std::sync::Arc;

use engine::cancel::Cancel;
use engine::capture::Source;
use engine::session::Planned;

use crate::jobs::machine::{self, Outcome};
use crate::jobs::planner::Task;
use crate::jobs::state::{JobId, Measuring, Work};
use crate::runs::compared::{Matched, Way};
use crate::runs::headline;
use crate::runs::measurement::{Filed, Measurement};
use crate::runs::run::Run;
use crate::runs::shown::Sources;
use crate::window::app::App;
use crate::window::frame::Level;
use crate::window::selection::Selection;

impl App {
    /// Asks for a run of the shown plan; of the one being made, once it is there.
    pub(in crate::window) fn measure(&mut self) {
        if let Some(reason) = self.gpu.blocked(&self.document.options.device) {
            self.log.push((Level::Warning, format!("no run on the GPU: {reason}")));
            return;
        }
        self.gpu.problem = None;
        if matches!(self.engine.work(), Work::Planning(_)) {
            self.gpu.state = Measuring::Wanted;
            return;
        }
        self.gpu.state = Measuring::Idle;
        let planned = match &self.shown {
            Some(shown) if self.shown_of == Some(self.newest) => shown.planned.clone(),
            _ => return self.gpu_failed("the batch as edited has no plan to run on the GPU"),
        };
        if planned.batch.requests().is_empty() {
            return self.gpu_failed("the batch is empty: there is nothing to run on the GPU");
        }
        let (id, cancel) = (JobId::next(), Cancel::default());
        let (repeats, l2) = (self.gpu.repeats, self.document.l2);
        if self.gpu.thread.submit(machine::Job { id, planned, repeats, l2, cancel: cancel.clone() }) {
            self.gpu.state = Measuring::Running { id, step: "waiting for the GPU".to_owned(), cancel };
        } else {
            self.gpu_failed("the GPU's thread does not answer");
        }
    }

    /// Takes an event of the GPU's thread; one of another run than goes on is dropped.
    pub(in crate::window) fn take_gpu(&mut self, event: machine::Event) {
        match event {
            machine::Event::Found(found) => self.gpu.found = Some(*found),
            machine::Event::Tells(of, line) => {
                self.log.push((Level::Info, format!("GPU: {line}")));
                if let Measuring::Running { id, step, .. } = &mut self.gpu.state
                    && *id == of
                {
                    *step = line;
                }
            }
            machine::Event::Ended(of, outcome) if self.gpu.state.id() == Some(of) => {
                self.gpu.state = Measuring::Idle;
                match outcome {
                    Outcome::Cancelled => self.log.push((Level::Info, "the run on the GPU was cancelled".to_owned())),
                    Outcome::Failed(problem) => self.gpu_failed(&problem),
                    Outcome::Measured(planned, run) => self.take_measured(&planned, Arc::new(*run)),
                }
            }
            machine::Event::Ended(..) => {}
        }
    }

    pub(in crate::window) fn gpu_failed(&mut self, problem: &str) {
        self.log.push((Level::Error, problem.to_owned()));
        self.gpu.problem = Some(problem.to_owned());
    }

    pub(in crate::window) fn take_measured(&mut self, planned: &Planned, run: Arc<Run>) {
        let text = format!("measured in {:.1} s: {}", run.took.as_secs_f64(), headline::sentence(&run.capture));
        self.log.push((Level::Info, text));
        let warnings = run.capture.warnings.iter().map(|warning| (Level::Warning, warning.text.clone()));
        self.log.extend(warnings);
        let traffic = engine::metrics::traffic(&planned.plan, &planned.batch, &planned.tree);
        self.keep(planned, Way { run, traffic }, Filed::No);
        if !self.attach() {
            let text = "the plan was edited meanwhile; the measured run is of the one before, and is kept in Compare";
            self.log.push((Level::Warning, text.to_owned()));
        }
    }

    /// Puts a measured run into the compare list. What could not be written before is tried again beside it.
    pub(in crate::window) fn keep(&mut self, planned: &Planned, way: Way, filed: Filed) {
        for refused in self.gpu.kept.iter_mut().filter(|kept| kept.filed == Filed::Refused) {
            refused.filed = Filed::No;
        }
        self.gpu.kept.push(Measurement::of(planned, way, filed));
        self.let_go();
    }

    /// Shows the newest measured run of the shown plan, if there is one.
    pub(in crate::window) fn attach(&mut self) -> bool {
        let l2 = self.document.l2;
        let Some(shown) = &mut self.shown else { return false };
        let Some(found) = self.gpu.kept.iter().rfind(|kept| kept.is_of(shown, l2)) else { return false };
        let run = Arc::clone(&found.way.run);
        let is_there = shown.measured.as_ref().is_some_and(|now| Arc::ptr_eq(now, &run));
        if is_there && shown.differences.is_some() {
            return true;
        }
        shown.measured = Some(Arc::clone(&run));
        if let Some(matched) = &found.matched {
            shown.simulated = Some(Arc::clone(&matched.simulated));
            shown.differences = Some(Arc::clone(&matched.differences));
        } else {
            shown.differences = None;
            let (planned, simulated) = (Box::new(shown.planned.clone()), shown.simulated.clone());
            self.engine.ask(&self.document, Task::Match { planned, measured: run, simulated });
        }
        if is_there {
            return true;
        }
        self.states.timeline.sources = self.later.map_or(Sources::Both, |later| later.sources);
        if matches!(self.selected, Selection::Cta(Source::Measured, _) | Selection::Gap(Source::Measured, _)) {
            self.selected = Selection::None;
        }
        true
    }

    /// Takes the simulated run of a measured one.
    pub(in crate::window) fn take_matched(&mut self, matched: Result<Matched, String>) {
        let matched = match matched {
            Ok(matched) => matched,
            Err(reason) => {
                let text = format!("there is no simulated run beside the measured one: {reason}");
                return self.log.push((Level::Warning, text));
            }
        };
        let same = |run: &Arc<Run>| Arc::ptr_eq(run, &matched.measured);
        if let Some(kept) = self.gpu.kept.iter_mut().find(|kept| same(&kept.way.run)) {
            kept.matched = Some(matched.clone());
        }
        if let Some(shown) = self.shown.as_mut().filter(|shown| shown.measured.as_ref().is_some_and(same)) {
            shown.simulated = Some(matched.simulated);
            shown.differences = Some(matched.differences);
        }
    }

    /// Says where the measured run of the plan before has gone, when an edit has dropped it from view.
    pub(in crate::window) fn tell_dropped(&mut self, before: Option<Arc<Run>>) {
        let now = self.shown.as_ref().and_then(|shown| shown.measured.as_ref());
        if let Some(run) = before.filter(|run| now.is_none_or(|now| now.plan_digest != run.plan_digest)) {
            let text =
                format!("the plan changed; its measured run is kept in Compare: {}", headline::sentence(&run.capture));
            self.log.push((Level::Info, text));
        }
    }

    /// Whether a run on the GPU goes on or is about to.
    pub fn is_measuring(&self) -> bool {
        !matches!(self.gpu.state, Measuring::Idle)
    }

    /// Why no run on the GPU can be asked for; `None` where one can.
    pub fn gpu_blocked(&self) -> Option<String> {
        self.gpu.blocked(&self.document.options.device)
    }

    /// What the last run on the GPU failed with, while it stands.
    pub fn gpu_problem(&self) -> Option<&str> {
        self.gpu.problem.as_deref()
    }

    /// Measured runs of this and of earlier plans, newest last.
    pub fn measurements(&self) -> &[Measurement] {
        &self.gpu.kept
    }

    /// Log lines, newest last.
    pub fn log(&self) -> &[(Level, String)] {
        &self.log
    }
}
