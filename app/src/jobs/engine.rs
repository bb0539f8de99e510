//! The engine thread as the window sees it: one job at a time, others in line behind it.
//!
//! ```text
//! plan ──► drops line and job ──► Planning(id)
//! ask  ──► line ──► Matching(id) | Comparing { id, .. } when nothing else goes on
//! answer of id ──► taken by the job of that id; of any other, dropped
//! ```

use std::time::{Duration, Instant};

use engine::cancel::Cancel;

use super::planner::{self, Event, Job, Task, Told, Worker};
use super::state::{JobId, Work};
use crate::document::Document;

/// A job that takes longer is slow, and says that it goes on.
const SLOW: Duration = Duration::from_millis(250);

/// A plan that takes no longer is waited for before the next frame is painted: painting what is old first, on the cores
/// that plan, would take longer.
const QUICK: Duration = Duration::from_millis(120);

/// The thread, what it is at, and what waits for it.
#[derive(Debug)]
pub(crate) struct Engine {
    worker: Worker,
    work: Work,
    /// When it began.
    began: Instant,
    /// How long the last plan took with its run; none before the first.
    last: Option<Duration>,
    /// Stops the job that goes on.
    cancel: Cancel,
    line: Vec<(Document, Task)>,
    /// A job that the thread has no room for yet.
    refused: Option<Job>,
}

impl Engine {
    pub(crate) fn new(worker: Worker) -> Self {
        Self {
            worker,
            work: Work::Idle,
            began: Instant::now(),
            last: None,
            cancel: Cancel::default(),
            line: Vec::new(),
            refused: None,
        }
    }

    /// What goes on.
    pub(crate) fn work(&self) -> Work {
        self.work
    }

    /// How long one still waits until what goes on is slow, so that it is worth a sign that it does; zero from then on.
    pub(crate) fn until_slow(&self) -> Duration {
        SLOW.saturating_sub(self.began.elapsed())
    }

    /// Whether anything goes on or waits.
    pub(crate) fn is_busy(&self) -> bool {
        self.work != Work::Idle || !self.line.is_empty()
    }

    /// Plans a document; all that was asked before is of no use any more.
    pub(crate) fn plan(&mut self, document: &Document) -> JobId {
        self.stop();
        self.begin(document.clone(), Task::Plan)
    }

    /// Asks for more about the same document, after what goes on. A comparison begins again.
    pub(crate) fn ask(&mut self, document: &Document, task: Task) {
        if let (Task::Compare(_), Work::Comparing { .. }) = (&task, self.work) {
            self.give_up();
        }
        self.line.retain(|(_, other)| std::mem::discriminant(other) != std::mem::discriminant(&task));
        self.line.push((document.clone(), task));
        self.next();
    }

    /// Gives up what goes on and what waits; false where there was nothing.
    pub(crate) fn stop(&mut self) -> bool {
        let busy = self.is_busy();
        self.line.clear();
        self.give_up();
        busy
    }

    /// What the thread has told, as far as it is of the job that goes on.
    pub(crate) fn told(&mut self) -> Vec<Told> {
        let events: Vec<Event> = self.worker.events.try_iter().collect();
        events.into_iter().filter_map(|event| self.take(event)).collect()
    }

    /// The same once a plan that was just asked for is made, where plans are quick. Others are waited for until they are
    /// slow by a frame that has `nothing_new` to show: it would take the cores that plan. At once otherwise.
    pub(crate) fn told_soon(&mut self, nothing_new: bool) -> Vec<Told> {
        let Work::Planning(id) = self.work else { return Vec::new() };
        let is_quick = self.last.is_some_and(|last| last <= QUICK);
        let end = self.began + if nothing_new { SLOW } else { QUICK };
        let mut all = Vec::new();
        while (is_quick || nothing_new) && self.work == Work::Planning(id) {
            let Ok(event) = self.worker.events.recv_deadline(end) else { break };
            all.extend(self.take(event));
        }
        all
    }

    /// Hands the thread again what it had no room for.
    pub(crate) fn push(&mut self) {
        self.refused = self.refused.take().and_then(|job| self.worker.submit(job));
    }

    fn give_up(&mut self) {
        self.cancel.cancel();
        self.refused = None;
        self.work = Work::Idle;
    }

    fn begin(&mut self, document: Document, task: Task) -> JobId {
        let id = JobId::next();
        self.work = match task {
            Task::Plan => Work::Planning(id),
            Task::Match { .. } => Work::Matching(id),
            Task::Compare(ref devices) => {
                Work::Comparing { id, done: 0, of: planner::ways(&document.spec, &document.options, devices).len() }
            }
        };
        self.began = Instant::now();
        self.cancel = Cancel::default();
        self.refused = self.worker.submit(Job { id, document, task, cancel: self.cancel.clone() });
        id
    }

    fn next(&mut self) {
        if self.work == Work::Idle && !self.line.is_empty() {
            let (document, task) = self.line.remove(0);
            self.begin(document, task);
        }
    }

    /// An answer, where it is of the job that goes on; that job ends with it, a comparison with its last way.
    fn take(&mut self, event: Event) -> Option<Told> {
        if self.work.id() != Some(event.id) {
            return None;
        }
        if let Work::Planning(_) = self.work {
            self.last = Some(event.took);
        }
        self.work = if matches!(event.told, Told::Compared(_)) { self.work.one_more() } else { Work::Idle };
        self.next();
        Some(event.told)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use engine::capture::L2State;
    use engine::session::PlanOptions;
    use engine::workload::{AttentionShape, BatchSpec};

    use super::*;
    use crate::runs::compared::{Compared, Kind};

    fn document() -> Document {
        Document {
            spec: Arc::new(BatchSpec::empty(AttentionShape::default())),
            options: PlanOptions::new(&engine::hw::builtin()[0]),
            l2: L2State::Cold,
        }
    }

    fn engine() -> Engine {
        Engine::new(Worker::start(|| ()).unwrap())
    }

    fn failed(id: JobId) -> Event {
        Event { id, told: Told::Failed("late".to_owned()), took: Duration::ZERO }
    }

    fn way(id: JobId) -> Event {
        let way = Compared { kind: Kind::Way, name: "way".to_owned(), outcome: Err("none".to_owned()) };
        Event { id, told: Told::Compared(way), took: Duration::ZERO }
    }

    #[test]
    fn a_late_answer_ends_no_newer_job() {
        let mut engine = engine();
        let (old, new) = (engine.plan(&document()), engine.plan(&document()));
        assert!(engine.take(failed(old)).is_none());
        assert_eq!(engine.work(), Work::Planning(new));
        assert!(engine.take(failed(new)).is_some());
        assert_eq!(engine.work(), Work::Idle);
    }

    #[test]
    fn a_comparison_that_was_stopped_leaves_the_next_one_alone() {
        let mut engine = engine();
        engine.ask(&document(), Task::Compare(Vec::new()));
        let old = engine.work().id().unwrap();
        assert!(engine.stop() && !engine.stop());
        engine.ask(&document(), Task::Compare(Vec::new()));
        for late in [way(old), Event { id: old, told: Told::Cancelled, took: Duration::ZERO }] {
            assert!(engine.take(late).is_none());
        }
        let Work::Comparing { id, done: 0, of } = engine.work() else { panic!("{:?}", engine.work()) };
        for _ in 0..of {
            assert!(engine.take(way(id)).is_some());
        }
        assert_eq!(engine.work(), Work::Idle);
    }

    #[test]
    fn what_is_asked_waits_for_the_plan_and_falls_with_the_next_one() {
        let mut engine = engine();
        let plan = engine.plan(&document());
        engine.ask(&document(), Task::Compare(Vec::new()));
        assert_eq!(engine.work(), Work::Planning(plan));
        engine.take(failed(plan));
        assert!(matches!(engine.work(), Work::Comparing { .. }));
        engine.ask(&document(), Task::Compare(Vec::new()));
        let plan = engine.plan(&document());
        engine.take(failed(plan));
        assert_eq!(engine.work(), Work::Idle, "the comparison was of another document");
    }
}
