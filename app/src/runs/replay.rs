//! A trace as several ways served it, and what was asked for.

use std::path::PathBuf;

use engine::import::Trace;
use engine::replay::{ReplayOptions, Replayed};
use engine::session::PlanOptions;
use engine::units::counted;

/// A replay to make.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The trace.
    pub path: PathBuf,
    /// Name of the importer that reads it.
    pub format: &'static str,
    /// First row, from 0, and how many; all where there is none.
    pub window: Option<(usize, usize)>,
    /// How the trace is served.
    pub options: ReplayOptions,
    /// The ways; every other is compared with the first.
    pub ways: Vec<PlanOptions>,
}

/// What came of it.
#[derive(Debug)]
pub struct Replay {
    /// What was asked for.
    pub asked: Asked,
    /// The rows that were served, with what the file did not tell.
    pub trace: Trace,
    /// One for each way that was asked for.
    pub ways: Vec<Replayed>,
}

/// A step of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// The way.
    pub way: usize,
    /// The step.
    pub step: usize,
}

impl Replay {
    /// What was served, in a line.
    pub fn title(&self) -> String {
        let file = self.asked.path.file_name().unwrap_or_default().to_string_lossy();
        let requests = counted(self.trace.requests.len() as u64, "request");
        format!("{requests} of {file}, {}", self.asked.options.model.title)
    }

    /// The step that loses most to the first way on the same batch; none where no way loses any.
    pub fn worst(&self) -> Option<At> {
        let lost = self.ways.iter().enumerate().filter_map(|(way, served)| {
            let step = *served.lost().first()?;
            let found = &served.steps[step];
            Some((found.attention.time.0 - found.first_way().time.0, At { way, step }))
        });
        lost.max_by_key(|(by, at)| (*by, std::cmp::Reverse(at.way))).map(|(_, at)| at)
    }

    /// The step beside one, within its way.
    pub fn beside(&self, at: At, forward: bool) -> Option<At> {
        let step = if forward { at.step + 1 } else { at.step.checked_sub(1)? };
        (step < self.ways.get(at.way)?.steps.len()).then_some(At { step, ..at })
    }
}
