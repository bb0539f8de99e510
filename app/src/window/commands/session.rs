//! The session: keeping what is worked on, and beginning where it ended.

use std::path::PathBuf;

use egui::{Context, Theme};
use engine::hw;

use crate::document::edit::Edit;
use crate::document::history::History;
use crate::window::app::App;
use crate::window::commands::files::absolute;
use crate::window::frame::Level;
use crate::window::session::{self, Keeper, View};

impl App {
    /// Keeps what is worked on in a file from now on; with `restore`, begins where that file ends.
    ///
    /// # Errors
    /// The system's, when it gives no thread.
    pub fn keep_session(&mut self, ctx: &Context, path: PathBuf, restore: bool) -> std::io::Result<()> {
        if let Ok((_, view)) = session::read(&path) {
            self.recent = view.recent;
        }
        self.keeper = Some(Keeper::start(path)?);
        if restore {
            self.restore(ctx);
        }
        Ok(())
    }

    /// The capture that what is shown was opened from; for a window that was opened on one.
    pub fn came_from(&mut self, path: Option<PathBuf>) {
        self.capture = path;
    }

    fn restore(&mut self, ctx: &Context) {
        let Some(path) = self.keeper.as_ref().map(|keeper| keeper.path.clone()).filter(|path| path.exists()) else {
            return;
        };
        let (document, view) = match session::read(&path) {
            Ok(kept) => kept,
            Err(error) => {
                let aside = path.with_extension("ron.unread");
                let kept = std::fs::rename(&path, &aside).is_ok();
                let place = if kept { format!("; it is kept as {}", aside.display()) } else { String::new() };
                self.log.push((Level::Warning, format!("the last session could not be read: {error}{place}")));
                return;
            }
        };
        if let Some(capture) = view.capture {
            if capture.exists() {
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
        if let Some(layout) = view.layout {
            self.dock = layout;
        }
        self.scale(ctx, view.scale);
        self.select_later = Some(view.selected);
        // A capture is shown already, though its simulated run may still be made.
        if self.is_current() {
            self.select_again();
        }
        ctx.set_theme(if view.dark { Theme::Dark } else { Theme::Light });
        self.log.push((Level::Info, "the last session is back".to_owned()));
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
        let view = View {
            axis: self.states.timeline.axis,
            marks: self.states.timeline.marks.clone(),
            sources: self.states.timeline.sources,
            selected: self.selected,
            by_tile: self.by_tile,
            scale: self.scale,
            recent: self.recent.clone(),
            row_devices: self.rows.devices.clone(),
            row_captures: self.rows.files().map(absolute).collect(),
            layout: Some(self.dock.clone()),
            dark: ctx.theme() == Theme::Dark,
            capture: self.capture.clone(),
        };
        if let Some(wait) = keeper.keep(&self.document, view) {
            ctx.request_repaint_after(wait);
        }
    }
}
