//! The one thread that writes measured runs to their files and reads them back, so that neither is waited for.
//!
//! ```text
//! Write(run, place) ──► capture file, by rename ──► Written(run, place or why not)
//! Read(file) ──► capture ──► plan, lanes, bubbles ──► Read(file, run or why not)
//! ```
//!
//! A window that closes waits for what is being written, and for nothing else.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};
use engine::cancel::Cancel;
use engine::capture::{self, Source};
use engine::{Error, Result};

use super::mishap;
use super::run_folder::RunFolder;
use crate::runs::compared::Way;
use crate::runs::measurement::{Filed, Measurement};
use crate::runs::run::Run;
use crate::runs::shown::Shown;

/// So many wait at most; the window asks again for what finds no room.
const ROOM: usize = 64;

/// What the thread is asked.
#[derive(Debug)]
pub(crate) enum Ask {
    /// To write a run to a place in the folder.
    Write(Arc<Run>, PathBuf),
    /// To read one.
    Read(PathBuf),
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Told {
    /// The run is in its file, or why not.
    Written(Arc<Run>, Result<PathBuf, String>),
    /// What a file has, or why there is nothing.
    Read(PathBuf, Result<Box<Measurement>, String>),
}

/// The thread and its channels.
#[derive(Debug)]
pub(crate) struct RunFiles {
    asks: Option<Sender<Ask>>,
    pub(crate) events: Receiver<Told>,
    /// Ends the reading.
    closing: Cancel,
    thread: Option<JoinHandle<()>>,
}

impl RunFiles {
    /// Starts the thread; `wake` is called for each event.
    ///
    /// # Errors
    /// The system's, when it gives no thread.
    pub(crate) fn start(folder: Arc<RunFolder>, wake: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        let (asks, inbox) = bounded(ROOM);
        let (outbox, events) = bounded(ROOM);
        let closing = Cancel::default();
        let ends = closing.clone();
        let thread = std::thread::Builder::new().name("runs".to_owned()).spawn(move || {
            while let Ok(ask) = inbox.recv() {
                let told = match ask {
                    Ask::Write(run, place) => {
                        let written = write(&folder, &run, &place);
                        Told::Written(run, written.map(|()| place).map_err(|error| error.to_string()))
                    }
                    Ask::Read(_) if ends.is_cancelled() => continue,
                    Ask::Read(file) => {
                        let read = read(&folder, &file).map(Box::new);
                        Told::Read(file, read)
                    }
                };
                // A window that has gone away needs no answer, but its runs are written.
                let _ = outbox.send(told);
                wake();
            }
        })?;
        Ok(Self { asks: Some(asks), events, closing, thread: Some(thread) })
    }

    /// Hands over what is asked; false where there is no room for it now.
    pub(crate) fn ask(&self, ask: Ask) -> bool {
        self.asks.as_ref().is_some_and(|asks| asks.try_send(ask).is_ok())
    }
}

impl Drop for RunFiles {
    fn drop(&mut self) {
        self.closing.cancel();
        self.asks = None;
        // The thread may wait for room to tell in.
        self.events = crossbeam_channel::never();
        self.thread.take().map(JoinHandle::join);
    }
}

fn write(folder: &RunFolder, run: &Run, place: &Path) -> Result<()> {
    folder.make()?;
    let caught = mishap::catch(|| capture::write(&run.capture, place));
    caught.unwrap_or_else(|mishap| Err(Error::Capture(mishap.to_string())))
}

/// What a file has; one of ours that is not whole is left aside.
fn read(folder: &RunFolder, file: &Path) -> Result<Measurement, String> {
    let is_ours = folder.has(file);
    let told = |problem: String| format!("{}: {problem}", file.display());
    mishap::catch(|| measurement(file, is_ours)).unwrap_or_else(|mishap| Err(told(mishap.to_string()))).map_err(
        |problem| {
            let aside = file.with_extension("pscope.unread");
            if is_ours && std::fs::rename(file, &aside).is_ok() {
                format!("{problem}; what is left of it is kept as {}", aside.display())
            } else {
                problem
            }
        },
    )
}

/// A file of the person's may have had losses when it was opened; one of ours was whole.
fn measurement(file: &Path, is_ours: bool) -> Result<Measurement, String> {
    let told = |problem: &dyn std::fmt::Display| format!("{}: {problem}", file.display());
    let loaded = capture::read(file).map_err(|error| match error {
        // It names the path itself.
        error @ Error::Io { .. } => error.to_string(),
        other => told(&other),
    })?;
    if is_ours && !loaded.missing.is_empty() {
        return Err(told(&format!("it is damaged, and lacks {}", loaded.missing.join(", "))));
    }
    if loaded.capture.provenance.source != Source::Measured {
        return Err(told(&"it has no measured run"));
    }
    let shown = Shown::of_capture(loaded).map_err(|error| told(&error))?;
    let Some(run) = shown.measured.clone() else { return Err(told(&"it has no run")) };
    let way = Way { run, traffic: shown.traffic };
    Ok(Measurement::of(&shown.planned, way, Filed::At(file.to_owned())))
}
