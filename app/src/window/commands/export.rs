//! Handing on what is shown: pictures of any view, and the run in other programs' formats.

use std::path::Path;

use egui::Context;
use engine::capture::{self, Outputs, write_atomically};
use engine::export::{csv_tables, plan_json, run_json, write_perfetto};
use engine::session;

use crate::picture::look::Look;
use crate::picture::{animation, png};
use crate::window::app::App;
use crate::window::command::{Format, Target};
use crate::window::frame::Level;
use crate::window::panel::Panel;
use crate::window::picture::{self, Wanted};

/// A failure of drawing as one sentence.
fn told(error: impl std::fmt::Display) -> String {
    format!("{error:#}")
}

impl App {
    /// Makes a picture of a view: PNG where the name ends so, an animation of the whole run where it ends in APNG, SVG else.
    pub(in crate::window) fn picture(
        &mut self,
        ctx: &Context,
        (panel, visible): (Panel, bool),
        look: Look,
        to: Target,
    ) {
        let range = if visible { self.range_in_sight() } else { None };
        let drawn = self.svg(&Wanted { panel, range, at: None, look });
        match (drawn, to) {
            (Err(problem), _) => self.fail(&problem),
            (Ok(svg), Target::Clipboard) => match png::image(&svg, &look) {
                Ok(image) => {
                    ctx.copy_image(image);
                    self.log.push((Level::Info, format!("a picture of {} is on the clipboard", panel.title())));
                }
                Err(error) => self.fail(&told(error)),
            },
            (Ok(_), Target::File(path)) if animation::is_wanted(&path) => self.animate(&path),
            (Ok(svg), Target::File(path)) => {
                let is_png = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("png"));
                let bytes = if is_png { png::png_of(&svg, &look).map_err(told) } else { Ok(svg.into_bytes()) };
                self.write_picture(&path, bytes);
            }
        }
    }

    /// The stretch of time that the timeline shows, where that is not all.
    fn range_in_sight(&self) -> Option<(f64, f64)> {
        let timeline = &self.states.timeline;
        let end = self.shown.as_ref().map_or(0, |shown| shown.end(timeline.sources));
        let view = timeline.axis.view(end);
        timeline.axis.window.map(|_| (view.begin, view.end))
    }

    /// A view as it stands, without its controls.
    fn svg(&mut self, wanted: &Wanted) -> Result<String, String> {
        let now = self.states.playback.now(self.shown.as_deref(), self.states.timeline.sources);
        let mut states = std::mem::take(&mut self.states);
        let svg = picture::svg(&self.frame(now), &mut states, wanted);
        self.states = states;
        svg
    }

    fn animate(&mut self, path: &Path) {
        let run = self.shown.as_ref().and_then(|shown| shown.runs(self.states.timeline.sources).next());
        let Some(run) = run else { return self.fail("there is no run to make a picture of") };
        let bytes = animation::animation(&run.capture, &run.damage).map_err(told);
        self.write_picture(path, bytes);
    }

    /// Writes the run that is shown in a format.
    pub(in crate::window) fn export(&mut self, format: Format, path: &Path) {
        let run = self.shown.as_ref().and_then(|shown| shown.runs(self.states.timeline.sources).next()).cloned();
        let Some(run) = run else { return self.fail("there is no run to hand on") };
        let wrote = match format {
            Format::Capture if !run.damage.missing().is_empty() => {
                Err("this run is from a damaged file; copy that file instead".to_owned())
            }
            Format::Capture => capture::to_bytes(&run.capture)
                .and_then(|bytes| write_atomically(path, "writing the capture", &bytes))
                .map_err(told),
            Format::Perfetto => {
                let (loaded, mut bytes) = (run.damage.loaded(&run.capture), Vec::new());
                let trace = write_perfetto(&mut bytes, &loaded).map_err(told);
                trace.and_then(|()| write_atomically(path, "writing the trace", &bytes).map_err(told))
            }
            Format::Csv => tables(path, &run.capture).map_err(told),
            Format::Json => self
                .figures(&run.capture)
                .and_then(|text| write_atomically(path, "writing the figures", text.as_bytes()).map_err(told)),
        };
        if wrote.is_ok() && format == Format::Capture {
            self.remember(path);
        }
        self.wrote(path, wrote);
    }

    /// The figures of a run, as `run --json` has them.
    fn figures(&self, capture: &capture::Capture) -> Result<String, String> {
        let Some(shown) = &self.shown else { return Err("there is no plan".to_owned()) };
        let planned = &shown.planned;
        let report = session::report_of(&planned.batch, &planned.tree, capture);
        let plan = plan_json(&planned.batch, &planned.tree, &planned.plan, Some(planned.plan_time));
        let json = run_json(plan, capture, &report.bubbles, &report.bandwidth, None);
        serde_json::to_string_pretty(&json).map_err(told)
    }

    /// Writes a picture, or tells why there is none.
    pub(in crate::window) fn write_picture(&mut self, path: &Path, bytes: Result<Vec<u8>, String>) {
        let doing = "writing the picture";
        self.wrote(path, bytes.and_then(|bytes| write_atomically(path, doing, &bytes).map_err(told)));
    }

    fn wrote(&mut self, path: &Path, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => self.log.push((Level::Info, format!("wrote {}", path.display()))),
            Err(problem) => self.fail(&problem),
        }
    }
}

/// All tables or none, in a folder.
fn tables(folder: &Path, capture: &capture::Capture) -> engine::Result<()> {
    let mut outputs = Outputs::default();
    outputs.folder(folder, "writing the tables' folder")?;
    for (name, text) in csv_tables(capture) {
        outputs.add(&folder.join(name), "writing a table", text.as_bytes())?;
    }
    outputs.commit().map(|_| ())
}
