//! Opening and saving.

use std::path::Path;
use std::sync::Arc;

use engine::capture::{Loaded, write_atomically};
use engine::workload::BatchSpec;

use crate::document::Document;
use crate::document::edit::Edit;
use crate::jobs::state::JobId;
use crate::picture::{animation, png, timeline};
use crate::runs::compared::Way;
use crate::runs::headline;
use crate::runs::shown::Shown;
use crate::timeline::axis::Axis;
use crate::window::app::App;
use crate::window::frame::Level;
use crate::window::open::{self, Opened};
use crate::window::selection::Selection;

impl App {
    pub(in crate::window) fn take_text(&mut self, text: &str) {
        match BatchSpec::from_ron(text) {
            Ok(spec) => self.open(spec),
            Err(error) => self.fail(&error.to_string()),
        }
    }

    /// Opens a file; one that is refused leaves all as it is, with one message.
    pub(in crate::window) fn open_path(&mut self, path: &Path) {
        match open::open(path) {
            Ok(Opened::Capture(loaded)) => {
                self.show_capture(*loaded);
                self.capture = Some(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
            }
            Ok(Opened::Batch(spec)) => self.open(*spec),
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
            Ok(()) => self.log.push((Level::Info, format!("saved {}", path.display()))),
            Err(error) => self.fail(&error.to_string()),
        }
    }

    /// Writes the timeline as it is looked at as a picture: PNG where the name ends so, an animation of the whole run where
    /// it ends in APNG, SVG else.
    pub(in crate::window) fn save_picture(&mut self, path: &Path) {
        let Some(run) = self.shown.as_ref().and_then(|shown| shown.runs(self.states.timeline.sources).next()) else {
            return self.fail("there is no run to make a picture of");
        };
        let view = self.states.timeline.axis.view(run.lanes.end);
        let window = self.states.timeline.axis.window.map(|_| (view.begin, view.end));
        let svg = timeline::window_svg(&run.capture, &run.damage, window);
        if animation::is_wanted(path) {
            let bytes = animation::animation(&run.capture, &run.damage).map_err(|error| format!("{error:#}"));
            return self.wrote(path, bytes);
        }
        let is_png = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("png"));
        let bytes = if is_png { png::png(&svg).map_err(|error| format!("{error:#}")) } else { Ok(svg.into_bytes()) };
        self.wrote(path, bytes);
    }

    fn wrote(&mut self, path: &Path, bytes: Result<Vec<u8>, String>) {
        let doing = "writing the picture";
        let saved = bytes.and_then(|bytes| write_atomically(path, doing, &bytes).map_err(|error| error.to_string()));
        match saved {
            Ok(()) => self.log.push((Level::Info, format!("wrote {}", path.display()))),
            Err(problem) => self.fail(&problem),
        }
    }

    /// Shows a capture as it was taken; an edit of its batch then plans anew.
    pub(in crate::window) fn show_capture(&mut self, loaded: Loaded) {
        let missing = loaded.missing.iter().map(|missing| format!("the capture is damaged; it lacks {missing}"));
        self.log.extend(missing.map(|text| (Level::Warning, text)));
        match Shown::of_capture(loaded) {
            Ok(shown) => {
                self.engine.stop();
                self.newest = JobId::next();
                self.shown_of = Some(self.newest);
                self.retry_all();
                self.problem = None;
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
                    self.keep(&planned, Way { run, traffic });
                    self.attach();
                }
            }
            Err(error) => self.fail(&error.to_string()),
        }
    }
}
