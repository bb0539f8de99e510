//! Replays and sweeps: asking for them, taking what came, and opening one of their batches.

use std::path::Path;
use std::sync::Arc;

use engine::capture::L2State;
use engine::hw::{self, Device};
use engine::session::PlanOptions;
use engine::sweep::Row;
use engine::units::counted;
use engine::workload::{BatchSpec, PrefixTree};

use crate::document::Document;
use crate::document::drawing::nodes_of_blocks;
use crate::document::edit::Edit;
use crate::jobs::studies::{Study, Told};
use crate::runs::replay::At;
use crate::window::app::App;
use crate::window::frame::Level;
use crate::window::panel::Panel;

impl App {
    /// Begins a replay, or the reading of a sweep; the window goes on meanwhile.
    pub(in crate::window) fn study(&mut self, study: Study) {
        if !self.studies.begin(study) {
            self.fail("too many replays wait to be cancelled; try again in a moment");
        }
    }

    pub(in crate::window) fn take_study(&mut self, told: Told) {
        match told {
            Told::Replayed(replay) => {
                let steps = replay.ways.iter().map(|way| way.steps.len() as u64).sum();
                let text = format!("replayed {}: {}", replay.asked.path.display(), counted(steps, "step"));
                self.log.push((Level::Info, text));
                self.log.extend(replay.trace.notes.iter().map(|note| (Level::Warning, note.clone())));
                self.states.steps.set_opened(None);
                self.replay = Some(Arc::new(replay));
                self.problem = None;
            }
            Told::Swept(sweep) => {
                let rows = counted(sweep.rows.len() as u64, "row");
                self.log.push((Level::Info, format!("opened {}: {rows}", sweep.path.display())));
                self.sweep = Some(Arc::new(sweep));
                self.problem = None;
                self.bring_up(Panel::Sweep);
            }
            Told::Failed(problem) => self.fail(&problem),
            Told::Cancelled => self.log.push((Level::Info, "cancelled".to_owned())),
        }
    }

    /// Opens a step as a batch, under the way that planned it.
    pub(in crate::window) fn open_step(&mut self, at: At) {
        let step = self.replay.as_ref().and_then(|replay| {
            let way = replay.ways.get(at.way)?;
            Some((way.batch_of(at.step)?, way.options_of(at.step)?, way.steps.get(at.step)?.attention.time))
        });
        if let Some((spec, options, time)) = step {
            self.states.steps.set_opened(Some(at));
            let order = "with its requests as they came; here they stand in the order of the tree";
            self.log.push((Level::Info, format!("step {}: {time} in the replay, {order}", at.step)));
            // As nodes, so that what is shared is seen, and can be taken in the hand.
            let tree = spec.build().map(|batch| PrefixTree::of(&batch));
            let drawn = tree.map_or_else(|_| spec.clone(), |tree| nodes_of_blocks(&spec, &tree));
            self.open_as(drawn, options);
        }
    }

    /// Opens the step that loses most to the first way.
    pub(in crate::window) fn open_worst(&mut self) {
        self.bring_up(Panel::Steps);
        match self.replay.as_ref().map(|replay| replay.worst()) {
            Some(Some(at)) => self.open_step(at),
            Some(None) => self.log.push((Level::Info, "no way loses a step to the first one".to_owned())),
            None => self.log.push((Level::Info, "there is no replay: name a trace, and Replay".to_owned())),
        }
    }

    /// Opens the batch of a row of the sweep, under the way of that row.
    pub(in crate::window) fn open_point(&mut self, at: usize) {
        let Some(sweep) = self.sweep.clone() else { return };
        let Some(row) = sweep.rows.get(at) else { return };
        let opened = device_of(row, &sweep.path).and_then(|device| {
            let told = |error: engine::Error| format!("{}: row {}: {error}", sweep.path.display(), row.number);
            let options = row.way().options(&device).map_err(told)?;
            Ok((BatchSpec::from_ron(&row.batch_ron).map_err(told)?, options))
        });
        match opened {
            Ok((spec, options)) => self.open_as(BatchSpec { name: row.batch.clone(), ..spec }, options),
            Err(problem) => self.fail(&problem),
        }
    }

    /// A batch that a replay or a sweep ran, with what it was planned with there: one step of the history.
    fn open_as(&mut self, spec: BatchSpec, options: PlanOptions) {
        self.capture = None;
        let options = PlanOptions { explain: self.document.options.explain, ..options };
        let document = Document { spec: Arc::new(spec), options, l2: L2State::Cold };
        self.edit(Edit::Whole(Box::new(document)));
    }
}

/// The device of a row: one of the table, or a file, which is looked for beside the sweep since rows have only its name.
fn device_of(row: &Row, sweep: &Path) -> Result<Device, String> {
    if let Ok(device) = hw::find(&row.device) {
        return Ok(device.clone());
    }
    let path = sweep.parent().unwrap_or(Path::new(".")).join(&row.device);
    let text = std::fs::read_to_string(&path).map_err(|_| {
        format!(
            "row {} of {} ran on '{}', which is no device of the table and no file beside the sweep; put its file at {}",
            row.number,
            sweep.display(),
            engine::shown::quoted(&row.device),
            path.display()
        )
    })?;
    hw::from_ron(&text).map_err(|error| format!("{}: {error}", path.display()))
}
