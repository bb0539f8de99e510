//! Opening and saving.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::capture::{Loaded, write_atomically};
use engine::workload::BatchSpec;

use crate::document::Document;
use crate::document::edit::Edit;
use crate::jobs::state::JobId;
use crate::jobs::studies::Study;
use crate::runs::compared::Way;
use crate::runs::headline;
use crate::runs::measurement::Filed;
use crate::runs::shown::Shown;
use crate::timeline::axis::Axis;
use crate::window::app::App;
use crate::window::frame::Level;
use crate::window::open::{self, Opened};
use crate::window::panel::Panel;
use crate::window::selection::Selection;

/// Files that are remembered.
const RECENT: usize = 12;

/// The path from any folder that the next window may start in.
pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

impl App {
    pub(in crate::window) fn take_text(&mut self, text: &str) {
        match BatchSpec::from_ron(text) {
            Ok(spec) => self.open(spec),
            Err(error) => self.fail(&error.to_string()),
        }
    }

    /// Opens a file; one that is refused leaves all as it is, with one message.
    pub(in crate::window) fn open_path(&mut self, path: &Path) {
        let opened = open::open(path);
        if opened.is_ok() {
            self.remember(path);
        }
        match opened {
            Ok(Opened::Capture(loaded)) => {
                self.show_capture(*loaded, Filed::At(absolute(path)));
                self.capture = Some(absolute(path));
            }
            Ok(Opened::Batch(spec)) => self.open(*spec),
            Ok(Opened::Sweep) => self.study(Study::Sweep(path.to_owned())),
            Ok(Opened::Trace(format)) => {
                self.states.steps.take_trace(path, format);
                self.bring_up(Panel::Steps);
            }
            Ok(Opened::Device(device)) => {
                self.log.push((Level::Info, format!("the device is now {}, from {}", device.name, path.display())));
                self.edit(Edit::Device(device));
            }
            Err(problem) => self.fail(&problem),
        }
    }

    pub(in crate::window) fn save_path(&mut self, path: &Path) {
        let saved =
            self.document.spec.to_ron().and_then(|text| write_atomically(path, "writing the batch", text.as_bytes()));
        match saved {
            Ok(()) => {
                self.remember(path);
                self.log.push((Level::Info, format!("saved {}", path.display())));
            }
            Err(error) => self.fail(&error.to_string()),
        }
    }

    /// Puts a file on top of those that were opened last.
    pub(in crate::window) fn remember(&mut self, path: &Path) {
        let path = absolute(path);
        self.recent.retain(|other| *other != path);
        self.recent.insert(0, path);
        self.recent.truncate(RECENT);
    }

    /// Shows a capture as it was taken; an edit of its batch then plans anew.
    pub(in crate::window) fn show_capture(&mut self, loaded: Loaded, filed: Filed) {
        let missing = loaded.missing.iter().map(|missing| format!("the capture is damaged; it lacks {missing}"));
        self.log.extend(missing.map(|text| (Level::Warning, text)));
        match Shown::of_capture(loaded) {
            Ok(shown) => {
                self.engine.stop();
                self.newest = JobId::next();
                self.shown_of = Some(self.newest);
                self.retry_all();
                self.problem = None;
                self.damage_is_told = false;
                self.compared.clear();
                let document = Document {
                    spec: Arc::clone(&shown.planned.spec),
                    options: (*shown.planned.options).clone(),
                    l2: shown.measured.as_ref().map_or(self.document.l2, |run| run.capture.times.l2),
                };
                self.history.edit(&mut self.document, Edit::Whole(Box::new(document)), None);
                self.selected = Selection::None;
                self.states.timeline.axis = Axis::default();
                let measured = shown.measured.clone();
                let planned = shown.planned.clone();
                let traffic = shown.traffic;
                self.shown = Some(Box::new(shown));
                if let Some(run) = measured {
                    self.log.push((Level::Info, format!("opened a capture: {}", headline::sentence(&run.capture))));
                    self.keep(&planned, Way { run, traffic }, filed);
                    self.attach();
                }
            }
            Err(error) => self.fail(&error.to_string()),
        }
    }
}
