//! Rows of the comparison: all ways, the chosen one on other devices, and captures.

use std::path::Path;

use engine::hw;

use crate::jobs::planner::Task;
use crate::runs::compared::{Compared, Kind, Way};
use crate::runs::shown::Shown;
use crate::window::app::App;
use crate::window::open::{self, Opened};
use crate::window::panel::Panel;

impl App {
    /// Simulates all ways side by side, and the chosen one on the devices that are rows.
    pub(in crate::window) fn compare(&mut self) {
        self.compared.clear();
        self.compared_of = Some(self.newest);
        let own = self.document.options.device.key.as_str();
        let others = self.rows.devices.iter().filter(|key| *key != own);
        let devices = others.filter_map(|key| hw::find(key).ok()).cloned().collect();
        let mut document = self.document.clone();
        // Beside the way that was taken, not beside where the search for it began.
        if let Some(shown) = self.shown.as_ref().filter(|_| document.options.auto.any()) {
            let taken = &shown.planned.options;
            (document.options.scheduler, document.options.strategy) = (taken.scheduler.clone(), taken.strategy);
        }
        self.engine.ask(&document, Task::Compare(devices));
    }

    /// Makes a row of a device, or takes it away.
    pub(in crate::window) fn row_of_device(&mut self, key: String) {
        if let Some(at) = self.rows.devices.iter().position(|own| *own == key) {
            self.rows.devices.remove(at);
            self.compared.retain(|row| row.kind != Kind::Device(key.clone()));
        } else {
            self.rows.devices.push(key);
            self.compare();
        }
    }

    /// Opens a capture as a row, beside what is shown.
    pub(in crate::window) fn add_row(&mut self, path: &Path) {
        match self.read_row(path) {
            Ok(()) => self.bring_up(Panel::Compare),
            Err(problem) => self.fail(&problem),
        }
    }

    /// Reads a capture into a row, in place of the one that it has already.
    pub(in crate::window) fn read_row(&mut self, path: &Path) -> Result<(), String> {
        let Opened::Capture(loaded) = open::open(path)? else {
            return Err(format!("{} is no capture, but rows are: 'packscope run' writes them", path.display()));
        };
        let shown = Shown::of_capture(*loaded).map_err(|error| format!("{}: {error}", path.display()))?;
        let Some(run) = shown.front().cloned() else { return Ok(()) };
        self.drop_row(path);
        let plan = &run.capture.plan;
        let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let name =
            format!("{file}: {} · {} on {}", plan.scheduler, plan.strategy.name(), run.capture.provenance.device_name);
        let outcome = Ok(Way { run, traffic: shown.traffic });
        self.rows.captures.push(Compared { kind: Kind::File(path.to_owned()), name, outcome });
        Ok(())
    }

    pub(in crate::window) fn drop_row(&mut self, path: &Path) {
        self.rows.captures.retain(|row| !matches!(&row.kind, Kind::File(own) if own == path));
    }
}
