//! The session: keeping what is worked on, and beginning where it ended.

use std::path::{Path, PathBuf};

use egui::{Context, Theme};
use engine::hw;

use crate::document::Document;
use crate::document::edit::Edit;
use crate::document::history::History;
use crate::runs::measurement::Filed;
use crate::window::app::App;
use crate::window::commands::files::absolute;
use crate::window::frame::Level;
use crate::window::session::{self, Keeper, Later, View};

impl App {
    /// Keeps what is worked on in a file from now on; with `restore`, begins where that file ends.
    ///
    /// # Errors
    /// The system's, when it gives no thread.
    pub fn keep_session(&mut self, ctx: &Context, path: PathBuf, restore: bool) -> std::io::Result<()> {
        let last = path.exists().then(|| session::read(&path));
        let runs = match &last {
            None => Some(Vec::new()),
            Some(Ok((_, view))) => Some(view.runs.clone()),
            Some(Err(_)) => None,
        };
        if let Some(Ok((_, view))) = &last {
            self.recent.clone_from(&view.recent);
        }
        if let (Some(Err(error)), true) = (&last, restore) {
            self.put_aside(&path, error);
        }
        let wake = ctx.clone();
        self.keeper = Some(Keeper::start(path, runs.as_deref(), move || wake.request_repaint())?);
        match last.filter(|_| restore) {
            Some(Ok((document, view))) => self.restore(ctx, document, view),
            Some(Err(_)) => self.read_runs(None),
            None => {}
        }
        Ok(())
    }

    /// The capture that what is shown was opened from; for a window that was opened on one.
    pub fn came_from(&mut self, path: Option<PathBuf>) {
        if let (Some(path), Some(kept)) = (&path, self.gpu.kept.last_mut()) {
            kept.filed = Filed::At(absolute(path));
        }
        self.capture = path;
    }

    /// Leaves a session that cannot be read beside the next one.
    fn put_aside(&mut self, path: &Path, error: &engine::Error) {
        let aside = path.with_extension("ron.unread");
        let kept = std::fs::rename(path, &aside).is_ok();
        let place = if kept { format!("; it is kept as {}", aside.display()) } else { String::new() };
        self.log.push((Level::Warning, format!("the last session could not be read: {error}{place}")));
    }

    fn restore(&mut self, ctx: &Context, document: Document, view: View) {
        let gone = view.capture.clone().filter(|capture| !capture.exists());
        if let Some(capture) = view.capture {
            if gone.is_none() {
                self.open_path(&capture);
            } else {
                let text = format!("the capture of the last session is gone: {}", capture.display());
                self.log.push((Level::Warning, text));
            }
        }
        if self.document != document {
            self.history.edit(&mut self.document, Edit::Whole(Box::new(document)), None);
            self.run();
        }
        self.restore_rows(view.row_devices, &view.row_captures);
        self.history = History::default();
        self.states.timeline.axis = view.axis;
        self.states.timeline.marks = view.marks;
        self.states.timeline.sources = view.sources;
        self.by_tile = view.by_tile;
        self.states.timeline.by_gpc = view.by_gpc;
        if let Some(layout) = view.layout {
            self.dock = layout;
        }
        self.scale(ctx, view.scale);
        self.later = Some(Later { selected: view.selected, sources: view.sources });
        self.read_runs(gone.as_deref());
        // A capture is shown already, though its simulated run may still be made.
        self.select_again();
        ctx.set_theme(if view.dark { Theme::Dark } else { Theme::Light });
        self.log.push((Level::Info, "the last session is back".to_owned()));
    }

    /// Asks for the measured runs; not for one that was told to be gone.
    fn read_runs(&mut self, gone: Option<&Path>) {
        if let Some(keeper) = &mut self.keeper {
            keeper.runs.read(&self.gpu.kept, |file| gone == Some(file));
        }
    }

    /// The rows of the comparison that were added; a device or a capture that is gone costs its row alone.
    fn restore_rows(&mut self, devices: Vec<String>, captures: &[PathBuf]) {
        self.rows.devices = devices.into_iter().filter(|key| hw::find(key).is_ok()).collect();
        for path in captures {
            if let Err(problem) = self.read_row(path) {
                self.log.push((Level::Warning, format!("a row of the comparison is gone: {problem}")));
            }
        }
    }

    /// Keeps what is worked on, at most once a second.
    pub(in crate::window) fn keep_now(&mut self, ctx: &Context) {
        let Some(keeper) = &mut self.keeper else { return };
        keeper.runs.write(&mut self.gpu.kept);
        let view = View {
            axis: self.states.timeline.axis,
            marks: self.states.timeline.marks.clone(),
            sources: self.later.map_or(self.states.timeline.sources, |later| later.sources),
            selected: self.later.map_or(self.selected, |later| later.selected),
            by_tile: self.by_tile,
            by_gpc: self.states.timeline.by_gpc,
            scale: self.scale,
            recent: self.recent.clone(),
            row_devices: self.rows.devices.clone(),
            row_captures: self.rows.files().map(absolute).collect(),
            layout: Some(self.dock.clone()),
            dark: ctx.theme() == Theme::Dark,
            capture: self.capture.clone(),
            runs: keeper.runs.names(&self.gpu.kept),
        };
        if let Some(wait) = keeper.keep(&self.document, view) {
            ctx.request_repaint_after(wait);
        }
    }
}
