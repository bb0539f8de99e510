//! Jobs of the engine thread: asking for them, stopping them, taking what they tell.

use engine::cancel::Cancel;
use engine::units::counted;

use crate::jobs::planner::{Event, Job, Task};
use crate::runs::shown::Shown;
use crate::window::app::App;
use crate::window::frame::Level;

impl App {
    pub(in crate::window) fn run(&mut self) {
        self.compared.clear();
        (self.comparing, self.gpu.matching) = (false, false);
        self.cancel.cancel();
        self.cancel = Cancel::default();
        self.generation += 1;
        self.waiting.clear();
        self.submit(Task::Plan);
        self.running = true;
    }

    pub(in crate::window) fn compare(&mut self) {
        self.compared.clear();
        self.comparing = true;
        self.compared_generation = self.generation;
        self.submit(Task::Compare);
    }

    pub(in crate::window) fn submit(&mut self, task: Task) {
        self.waiting.push(Job {
            generation: self.generation,
            document: self.document.clone(),
            task,
            cancel: self.cancel.clone(),
        });
    }

    pub(in crate::window) fn stop(&mut self) {
        self.cancel.cancel();
        self.cancel = Cancel::default();
        self.waiting.clear();
        if self.is_running() {
            self.log.push((Level::Info, "cancelled".to_owned()));
        }
        (self.running, self.comparing, self.gpu.matching) = (false, false, false);
        self.stop_measuring();
    }

    /// Takes an event of the worker; those of older edits are dropped.
    pub(in crate::window) fn take(&mut self, event: Event) {
        match event {
            Event::Done(generation, shown, problem) if generation == self.generation => {
                self.running = false;
                self.shown_generation = generation;
                self.retry_all();
                self.report(&shown);
                self.keep_selection(&shown);
                self.states.timeline.window = None;
                let before = self.shown.replace(shown).and_then(|shown| shown.measured);
                self.attach();
                self.tell_dropped(before);
                match problem {
                    Some(problem) => self.fail(&problem),
                    None => self.problem = None,
                }
            }
            Event::Failed(generation, problem) if generation == self.generation => {
                self.running = false;
                self.fail(&problem);
            }
            Event::Panicked(generation, problem) if generation == self.generation => {
                (self.running, self.comparing, self.gpu.matching) = (false, false, false);
                self.fail(&problem);
            }
            Event::Cancelled(generation) if generation == self.generation => {
                (self.running, self.comparing, self.gpu.matching) = (false, false, false);
            }
            Event::Matched(generation, matched) if generation == self.generation => self.take_matched(matched),
            Event::Compared(generation, way, ways) if generation == self.generation && self.comparing => {
                self.compared.push(way);
                self.ways = ways;
                self.comparing = self.compared.len() < ways;
            }
            _ => {}
        }
    }

    pub(in crate::window) fn report(&mut self, shown: &Shown) {
        let planned = &shown.planned;
        let took = shown.simulated.as_ref().map_or(0.0, |run| run.took.as_secs_f64());
        let text = format!(
            "planned in {} µs, simulated in {:.1} ms: {}, {}",
            planned.plan_time.as_micros(),
            took * 1e3,
            counted(planned.plan.packs.len() as u64, "pack"),
            counted(planned.plan.attention_ctas(), "CTA")
        );
        self.log.push((Level::Info, text));
        if let Some(run) = &shown.simulated {
            let warnings = run.capture.warnings.iter().map(|warning| &warning.text).chain(&run.bubbles.warnings);
            self.log.extend(warnings.map(|warning| (Level::Warning, warning.clone())));
        }
        let over = self.log.len().saturating_sub(500);
        self.log.drain(..over);
    }

    pub(in crate::window) fn fail(&mut self, problem: &str) {
        self.log.push((Level::Error, problem.to_owned()));
        self.problem = Some(problem.to_owned());
    }
}
