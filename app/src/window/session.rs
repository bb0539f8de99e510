//! What is worked on, kept in a file of ours: a window that ends in any way begins where it was.
//!
//! ```text
//! logic pass ──something differs, a second after the last time──► thread "session" ──► session.ron, by rename
//! start ──► session.ron ──► document, capture, view; a file that cannot be read is told, and left aside
//!               └─► measured runs, each a capture of its own (jobs::run_folder)
//! ```
//!
//! The file is written under another name and renamed, so that a kill leaves the one before whole. A second passes
//! between two writes at the least: no more than that, and what a write takes, can be lost.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, bounded};
use egui_tiles::Tree;
use engine::capture::write_atomically;
use engine::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::document::Document;
use crate::jobs::run_folder::RunFolder;
use crate::runs::shown::Sources;
use crate::timeline::axis::Axis;
use crate::timeline::marks::Marks;
use crate::window::kept_runs::KeptRuns;
use crate::window::panel::Panel;
use crate::window::selection::Selection;

/// Version of the file.
const VERSION: u32 = 1;
/// Least time between two writes.
const BETWEEN: Duration = Duration::from_secs(1);

/// How the document is looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct View {
    pub(super) axis: Axis,
    #[serde(default)]
    pub(super) marks: Marks,
    /// Which runs the timeline shows.
    #[serde(default)]
    pub(super) sources: Sources,
    #[serde(default)]
    pub(super) selected: Selection,
    pub(super) by_tile: bool,
    /// SMs are folded into their GPCs.
    #[serde(default)]
    pub(super) by_gpc: bool,
    pub(super) dark: bool,
    /// How large text and controls are.
    #[serde(default = "plain")]
    pub(super) scale: f32,
    /// Files that were opened last, the newest first.
    #[serde(default)]
    pub(super) recent: Vec<PathBuf>,
    /// Devices that are rows of the comparison, by their keys.
    #[serde(default)]
    pub(super) row_devices: Vec<String>,
    /// Captures that are rows of it.
    #[serde(default)]
    pub(super) row_captures: Vec<PathBuf>,
    /// Where the panels stand.
    #[serde(default, with = "layout")]
    pub(super) layout: Option<Tree<Panel>>,
    /// The capture that was opened last, where one was.
    pub(super) capture: Option<PathBuf>,
    /// Captures of measured runs, the oldest first; those beside the session from where it is.
    #[serde(default)]
    pub(super) runs: Vec<PathBuf>,
}

/// What the last session had in sight of a run that is still to come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Later {
    pub(super) selected: Selection,
    pub(super) sources: Sources,
}

fn plain() -> f32 {
    1.0
}

/// The layout as a text of its own, so that one of another version costs no more than the layout.
mod layout {
    use egui_tiles::Tree;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use crate::window::dock::is_whole;
    use crate::window::panel::Panel;

    #[expect(clippy::ref_option, reason = "serde calls it so")]
    pub(super) fn serialize<S: Serializer>(tree: &Option<Tree<Panel>>, to: S) -> Result<S::Ok, S::Error> {
        let text = tree.as_ref().map(ron::to_string).transpose().map_err(serde::ser::Error::custom)?;
        text.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Tree<Panel>>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        Ok(text.and_then(|text| ron::from_str(&text).ok()).filter(is_whole))
    }
}

/// The file.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    version: u32,
    document: String,
    view: View,
}

fn write(path: &Path, document: &Document, view: View) -> Result<()> {
    let stored = Stored { version: VERSION, document: document.to_ron()?, view };
    let text = ron::to_string(&stored).map_err(|error| Error::Batch(error.to_string()))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(Error::io("making the folder of the session", folder))?;
    write_atomically(path, "writing the session", text.as_bytes())
}

pub(super) fn read(path: &Path) -> Result<(Document, View)> {
    let text = std::fs::read_to_string(path).map_err(Error::io("reading the session", path))?;
    let told = |problem: String| Error::Batch(format!("{}: {problem}", path.display()));
    let stored: Stored = ron::from_str(&text).map_err(|error| told(error.to_string()))?;
    if stored.version != VERSION {
        return Err(told(format!("the session has version {}, and this is {VERSION}", stored.version)));
    }
    Ok((Document::from_ron(&stored.document)?, stored.view))
}

/// The thread that writes, and what it wrote last.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) runs: KeptRuns,
    to_write: Sender<(Document, View)>,
    last: Option<(Document, View)>,
    at: Option<Instant>,
}

impl Keeper {
    /// Starts the thread with the measured runs that the session names; with all that lie beside it where that is not
    /// known. `wake` is called when one was written or read.
    ///
    /// # Errors
    /// The system's, when it gives no thread.
    pub(super) fn start(
        path: PathBuf,
        names: Option<&[PathBuf]>,
        wake: impl Fn() + Send + 'static,
    ) -> std::io::Result<Self> {
        let (to_write, inbox) = bounded::<(Document, View)>(1);
        let folder = Arc::new(RunFolder::beside(&path));
        let named = names.map_or_else(|| folder.all(), |names| names.iter().map(|name| folder.find(name)).collect());
        let runs = KeptRuns::start(Arc::clone(&folder), named, wake)?;
        let mut named = runs.order.clone();
        std::thread::Builder::new().name("session".to_owned()).spawn(move || {
            let mut told = false;
            while let Ok((document, view)) = inbox.recv() {
                let now: Vec<PathBuf> = view.runs.iter().map(|name| folder.find(name)).collect();
                match write(&path, &document, view) {
                    Ok(()) => {
                        let before = std::mem::replace(&mut named, now);
                        folder.remove(before.into_iter().filter(|file| !named.contains(file)));
                    }
                    Err(error) if !told => {
                        told = true;
                        tracing::warn!("the session is not kept: {error}");
                    }
                    Err(_) => {}
                }
            }
        })?;
        Ok(Self { runs, to_write, last: None, at: None })
    }

    /// Hands over what differs from the last write; gives how long to wait where that is too early.
    pub(super) fn keep(&mut self, document: &Document, view: View) -> Option<Duration> {
        if self.has(document, &view) {
            return None;
        }
        let wait = self.at.map_or(Duration::ZERO, |at| BETWEEN.saturating_sub(at.elapsed()));
        if wait > Duration::ZERO {
            return Some(wait);
        }
        let now = (document.clone(), view);
        self.at = Some(Instant::now());
        if self.to_write.try_send(now.clone()).is_err() {
            return Some(BETWEEN);
        }
        self.last = Some(now);
        None
    }

    /// Whether this is what the last write has.
    fn has(&self, document: &Document, view: &View) -> bool {
        self.last.as_ref().is_some_and(|(own, seen)| {
            (Arc::ptr_eq(&own.spec, &document.spec) || own.spec == document.spec)
                && own.options == document.options
                && own.l2 == document.l2
                && seen == view
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_session_is_refused_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("session.ron");
        for text in [
            "",
            "(version: 1",
            "(version:9,document:\"\",view:(axis:(window:None,range:None,scroll:0,lane_height:None),by_tile:false,dark:true,capture:None))",
        ] {
            std::fs::write(&path, text).unwrap();
            assert!(read(&path).unwrap_err().to_string().contains("session.ron"), "{text}");
        }
    }

    #[test]
    fn whenever_it_is_read_the_file_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep").join("session.ron");
        let spec = engine::workload::BatchSpec::empty(engine::workload::AttentionShape::default());
        let options = engine::session::PlanOptions::new(&engine::hw::builtin()[0]);
        let mut document = Document { spec: Arc::new(spec), options, l2: engine::capture::L2State::Warm };
        let view = View {
            axis: Axis::default(),
            marks: Marks::default(),
            sources: Sources::Both,
            selected: Selection::None,
            by_tile: true,
            by_gpc: true,
            dark: false,
            scale: 1.2,
            recent: vec![PathBuf::from("a.ron")],
            row_devices: vec!["h20-sxm".to_owned()],
            row_captures: vec![PathBuf::from("a.pscope")],
            layout: Some(crate::window::dock::default_dock()),
            capture: None,
            runs: vec![PathBuf::from("session.runs/a.pscope")],
        };
        write(&path, &document, view.clone()).unwrap();
        let (into, looked) = (path.clone(), view.clone());
        let writing = std::thread::Builder::new().name("writing".to_owned()).spawn(move || {
            for at in 0..150 {
                document.options.pack.split_constant = f64::from(at);
                write(&into, &document, looked.clone()).unwrap();
            }
            document
        });
        let writing = writing.unwrap();
        let mut reads = 0;
        while !writing.is_finished() || reads < 100 {
            assert_eq!(read(&path).unwrap().1, view);
            reads += 1;
        }
        assert_eq!(read(&path).unwrap().0, writing.join().unwrap());
    }
}
