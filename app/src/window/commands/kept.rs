//! Measured runs beyond the window: what came of writing them, and those of the last session as they come back.

use std::path::Path;
use std::sync::Arc;

use crate::jobs::run_files::Told;
use crate::runs::measurement::{Filed, KEPT, Measurement};
use crate::window::app::App;
use crate::window::frame::Level;

impl App {
    /// Takes what the thread of the runs' files has told.
    pub(in crate::window) fn take_kept(&mut self) {
        let told = self.keeper.as_mut().map(|keeper| keeper.runs.told()).unwrap_or_default();
        for one in told {
            match one {
                Told::Written(run, outcome) => {
                    let outcome = outcome.map_err(|problem| self.tell_refused(&problem));
                    let filed = outcome.map_or(Filed::Refused, Filed::At);
                    if let Some(kept) = self.gpu.kept.iter_mut().find(|kept| Arc::ptr_eq(&kept.way.run, &run)) {
                        kept.filed = filed;
                    }
                }
                Told::Read(file, Ok(measurement)) => self.take_back(&file, *measurement),
                Told::Read(_, Err(problem)) => {
                    let text = format!("a measured run of the last session is gone: {problem}");
                    self.log.push((Level::Warning, text));
                    self.select_again();
                }
            }
        }
    }

    fn tell_refused(&mut self, problem: &str) {
        let text = format!("a measured run ends with this window, unless it is saved: {problem}");
        self.log.push((Level::Warning, text));
    }

    /// A run of the last session is kept as it was, and shown where it is that of the document.
    fn take_back(&mut self, file: &Path, measurement: Measurement) {
        let Some(keeper) = &self.keeper else { return };
        let at = keeper.runs.place(&self.gpu.kept, file);
        self.gpu.kept.insert(at, measurement);
        self.let_go();
        self.attach();
        self.select_again();
    }

    /// Lets the oldest run go where there are too many, and says so.
    pub(in crate::window) fn let_go(&mut self) {
        if self.gpu.kept.len() > KEPT {
            let gone = self.gpu.kept.remove(0);
            self.log.push((Level::Info, format!("the oldest of {KEPT} measured runs was let go: {}", gone.name)));
        }
    }
}
