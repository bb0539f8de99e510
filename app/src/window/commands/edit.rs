//! Changes of the batch and of what it is planned with, and taking them back.

use std::sync::Arc;

use engine::plan::Strategy;
use engine::workload::{BatchSpec, Scene};

use crate::window::app::App;
use crate::window::command::Command;
use crate::window::frame::Level;

/// Steps that can be undone.
const UNDO: usize = 200;

impl App {
    pub(in crate::window) fn choose(&mut self, choice: Command) {
        match choice {
            Command::Scheduler(name) => self.options.scheduler = name,
            Command::Strategy(strategy) => self.options.strategy = strategy,
            Command::Pod(choice) => self.options.pod = choice,
            Command::Tile(tile) => self.options.tile = tile,
            Command::SplitConstant(value) => self.options.pack.split_constant = value,
            Command::L2(l2) => self.l2 = l2,
            Command::Device(key) => match (engine::hw::find(&key), self.gpu.device()) {
                (Ok(device), _) => self.options.device = device.clone(),
                (Err(_), Some(device)) if device.key == key => self.options.device = device.clone(),
                (Err(error), _) => self.fail(&error.to_string()),
            },
            _ => return,
        }
        self.run();
    }

    /// Makes `spec` the batch, with the one before kept for undo.
    pub(in crate::window) fn replace(&mut self, spec: BatchSpec) {
        self.undo.push(std::mem::replace(&mut self.spec, Arc::new(spec)));
        if self.undo.len() > UNDO {
            self.undo.remove(0);
        }
        self.redo.clear();
        self.run();
    }

    pub(in crate::window) fn travel(&mut self, back: bool) {
        let (from, to) = if back { (&mut self.undo, &mut self.redo) } else { (&mut self.redo, &mut self.undo) };
        if let Some(spec) = from.pop() {
            to.push(std::mem::replace(&mut self.spec, spec));
            self.run();
        }
    }

    /// Shows a batch from a file with the device and choice that its text speaks of.
    pub(in crate::window) fn open(&mut self, mut spec: BatchSpec) {
        if let Some(scene) = spec.scene.take() {
            self.set_scene(&spec.name, &scene);
        }
        self.replace(spec);
    }

    pub(in crate::window) fn set_scene(&mut self, name: &str, scene: &Scene) {
        let mut told = Vec::new();
        if let Some(device) = scene.device.as_deref().and_then(|key| engine::hw::find(key).ok()) {
            self.options.device = device.clone();
            told.push(device.key.clone());
        }
        if let Some(scheduler) = scene.scheduler.as_deref().and_then(|name| engine::pack::find(name).ok()) {
            scheduler.name().clone_into(&mut self.options.scheduler);
            told.push(scheduler.name().to_owned());
        }
        if let Some(strategy) = scene.strategy.as_deref().and_then(|name| name.parse::<Strategy>().ok()) {
            self.options.strategy = strategy;
            told.push(strategy.name().to_owned());
        }
        if !told.is_empty() {
            self.log.push((Level::Info, format!("{name}: shown with {}", told.join(", "))));
        }
    }
}
