//! Jobs of the engine thread: asking for them, stopping them, taking what they tell.

use engine::units::counted;

use crate::jobs::planner::Told;
use crate::runs::shown::Shown;
use crate::window::app::App;
use crate::window::frame::Level;

impl App {
    /// Plans the document.
    pub(in crate::window) fn run(&mut self) {
        self.compared.clear();
        self.newest = self.engine.plan(&self.document);
    }

    pub(in crate::window) fn stop(&mut self) {
        if self.engine.stop() {
            self.log.push((Level::Info, "cancelled".to_owned()));
        }
        self.gpu.state.stop();
        self.studies.stop();
    }

    /// Takes what came of the job that goes on.
    pub(in crate::window) fn take(&mut self, told: Told) {
        match told {
            Told::Done(shown, problem) => {
                self.shown_of = Some(self.newest);
                self.retry_all();
                self.report(&shown);
                self.keep_selection(&shown);
                let before = self.shown.replace(shown).and_then(|shown| shown.measured);
                self.attach();
                self.select_again();
                self.tell_dropped(before);
                match problem {
                    Some(problem) => self.fail(&problem),
                    None => self.problem = None,
                }
            }
            Told::Failed(problem) | Told::Panicked(problem) => self.fail(&problem),
            Told::Cancelled => {}
            Told::Matched(matched) => self.take_matched(matched),
            Told::Compared(way) => self.compared.push(way),
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
        self.read = self.read.saturating_sub(over);
    }

    pub(in crate::window) fn fail(&mut self, problem: &str) {
        self.log.push((Level::Error, problem.to_owned()));
        self.problem = Some(problem.to_owned());
    }
}
