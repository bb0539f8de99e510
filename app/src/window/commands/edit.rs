//! Edits of the document, and taking them back.

use std::sync::Arc;

use engine::plan::Strategy;
use engine::session::{Auto, PlanOptions};
use engine::workload::{BatchSpec, Scene};

use crate::document::Document;
use crate::document::edit::Edit;
use crate::window::app::App;
use crate::window::command::Command;
use crate::window::frame::Level;

impl App {
    /// The edit that a command asks for, where it asks for one.
    pub(in crate::window) fn edit_of(&mut self, command: Command) -> Option<Edit> {
        Some(match command {
            Command::Edit(spec) => Edit::Batch(Arc::from(spec)),
            // Who chooses one has no other searched for.
            Command::Scheduler(name) => Edit::Scheduler(name, false),
            Command::AutoScheduler => Edit::Scheduler(self.document.options.scheduler.clone(), true),
            Command::Strategy(strategy) => Edit::Strategy(strategy, false),
            Command::AutoStrategy => Edit::Strategy(self.document.options.strategy, true),
            Command::Adopt { scheduler, strategy, device } => {
                let mut options = self.document.options.clone();
                if let Some(device) = device.and_then(|key| engine::hw::find(&key).ok()) {
                    options.device = device.clone();
                }
                Edit::Options(Box::new(PlanOptions { scheduler, strategy, auto: Auto::default(), ..options }))
            }
            Command::Pod(choice) => Edit::Pod(choice),
            Command::Tile(tile) => Edit::Tile(tile),
            Command::SplitConstant(value) => Edit::SplitConstant(value),
            Command::Force(choice) => {
                let mut all = self.document.options.pack.forced.clone();
                all.retain(|other| !other.is_about_the_same(&choice));
                all.push(choice);
                Edit::Forced(all)
            }
            Command::Unforce => Edit::Forced(Vec::new()),
            Command::L2(l2) => Edit::L2(l2),
            Command::Device(key) => match (engine::hw::find(&key), self.gpu.device()) {
                (Ok(device), _) => Edit::Device(Box::new(device.clone())),
                (Err(_), Some(device)) if device.key == key => Edit::Device(Box::new(device.clone())),
                (Err(error), _) => {
                    self.fail(&error.to_string());
                    return None;
                }
            },
            _ => return None,
        })
    }

    /// Edits the document and plans it; what changes nothing plans nothing.
    pub(in crate::window) fn edit(&mut self, edit: Edit) {
        if self.history.edit(&mut self.document, edit, self.gesture) {
            if self.gesture.is_some() && self.ghost.is_none() {
                self.ghost = self.shown.as_ref().and_then(|shown| shown.front().cloned());
            }
            self.run();
        }
    }

    pub(in crate::window) fn travel(&mut self, back: bool) {
        let (history, document) = (&mut self.history, &mut self.document);
        let (name, what) =
            if back { (history.undo(document), "undone") } else { (history.redo(document), "done again") };
        if let Some(name) = name {
            self.log.push((Level::Info, format!("{what}: {name}")));
            self.run();
        }
    }

    /// Shows a batch from a file with the device and choice that its text speaks of.
    pub(in crate::window) fn open(&mut self, mut spec: BatchSpec) {
        self.capture = None;
        let scene = spec.scene.take();
        let mut document = Document { spec: Arc::new(spec), ..self.document.clone() };
        if let Some(scene) = scene {
            self.set_scene(&mut document, &scene);
        }
        self.history.edit(&mut self.document, Edit::Whole(Box::new(document)), None);
        self.run();
    }

    fn set_scene(&mut self, document: &mut Document, scene: &Scene) {
        let (mut told, options) = (Vec::new(), &mut document.options);
        if let Some(device) = scene.device.as_deref().and_then(|key| engine::hw::find(key).ok()) {
            options.device = device.clone();
            told.push(device.key.clone());
        }
        if let Some(scheduler) = scene.scheduler.as_deref().and_then(|name| engine::pack::find(name).ok()) {
            scheduler.name().clone_into(&mut options.scheduler);
            options.auto.scheduler = false;
            told.push(scheduler.name().to_owned());
        }
        if let Some(strategy) = scene.strategy.as_deref().and_then(|name| name.parse::<Strategy>().ok()) {
            (options.strategy, options.auto.strategy) = (strategy, false);
            told.push(strategy.name().to_owned());
        }
        if !told.is_empty() {
            self.log.push((Level::Info, format!("{}: shown with {}", document.spec.name, told.join(", "))));
        }
    }
}
