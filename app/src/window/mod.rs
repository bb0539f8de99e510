//! The desktop window.
//!
//! ```text
//! panels ──commands──► logic pass (app.rs) ──job──► engine thread (jobs/planner)
//!   ▲                       │                             │
//!   └──── read-only frame ◄─┼──────── events ◄────────────┘
//!                           └──run────► GPU thread (jobs/machine), events back the same way
//! ```
//!
//! A job has a number; an edit cancels the one that goes on, and what is told of another job than that is dropped.
//! What is on the screen is the last plan that worked, marked where the batch has moved on.

mod app;
mod chip;
mod chrome;
pub mod command;
pub mod commands;
mod dock;
mod find;
pub mod frame;
mod guard;
mod hatch;
mod kept_runs;
mod open;
pub mod panel;
pub mod panels;
pub mod picture;
pub mod selection;
mod session;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

pub use app::App;
pub use open::Opening;

use crate::paths;
use crate::timeline::playback::Moment;

/// Opens the window and returns when it is closed; on the example, with what was worked on last. `capture` is the file
/// that a capture is from, `at` the moment that playback shows.
///
/// # Errors
/// Where the system gives no window, no OpenGL context or no thread.
pub fn open(opening: Opening, capture: Option<PathBuf>, at: Option<Moment>) -> anyhow::Result<()> {
    let options = eframe::NativeOptions {
        viewport: egui::ViewportBuilder::default()
            .with_title("packscope")
            .with_app_id("packscope")
            .with_inner_size([1600.0, 1000.0])
            .with_min_inner_size([640.0, 420.0])
            .with_drag_and_drop(true),
        // Nothing here is a gradient, and where no GPU paints, the noise would be a fifth of what a frame costs.
        dithering: false,
        ..eframe::NativeOptions::default()
    };
    eframe::run_native(
        "packscope",
        options,
        Box::new(move |creation| {
            let restore = matches!(opening, Opening::Example);
            let mut app = App::new(&creation.egui_ctx, opening)?;
            app.came_from(capture);
            if let Some(path) = paths::session() {
                app.keep_session(&creation.egui_ctx, path, restore)?;
            }
            app.go_to(at);
            Ok(Box::new(app))
        }),
    )
    .map_err(|error| anyhow::anyhow!("{error}"))
}
