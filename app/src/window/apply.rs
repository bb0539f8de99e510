//! The one place in which commands change the window's state.

use std::path::Path;
use std::sync::Arc;

use egui::{Context, Theme};
use engine::cancel::Cancel;
use engine::capture::{Loaded, write_atomically};
use engine::units::{NodeIdx, PackIdx};
use engine::workload::BatchSpec;

use super::app::{App, default_dock};
use super::command::{Action, Command};
use super::panels::{Level, Panel};
use super::selection::Selection;
use super::worker::{Event, Job, Shown};
use crate::samples;

/// Steps that can be undone.
const UNDO: usize = 200;

impl App {
    pub(super) fn apply(&mut self, ctx: &Context, command: Command) {
        match command {
            Command::Act(action) => self.act(ctx, action),
            Command::Edit(spec) => self.replace(*spec),
            Command::Select(what) => self.selected = what,
            Command::Hover(what) => self.hovered = what,
            Command::OpenPath(path) => self.open_path(&path),
            Command::SavePath(path) => self.save_path(&path),
            Command::Sample(key) => {
                if let Some(sample) = samples::find(key) {
                    self.take_text(sample.text);
                }
            }
            Command::CompareOnce if self.running || self.compared_generation == self.generation => {}
            Command::CompareOnce | Command::Compare => self.compare(),
            Command::Show(panel) => {
                self.dock.make_active(|_, tile| matches!(tile, egui_tiles::Tile::Pane(pane) if *pane == panel));
                if panel == Panel::Compare && self.compared.is_empty() {
                    self.compare();
                }
            }
            choice => self.choose(choice),
        }
    }

    fn choose(&mut self, choice: Command) {
        match choice {
            Command::Scheduler(name) => self.options.scheduler = name,
            Command::Strategy(strategy) => self.options.strategy = strategy,
            Command::Tile(tile) => self.options.tile = tile,
            Command::SplitConstant(value) => self.options.pack.split_constant = value,
            Command::Device(key) => match engine::hw::find(&key) {
                Ok(device) => self.options.device = device.clone(),
                Err(error) => self.fail(&error.to_string()),
            },
            _ => return,
        }
        self.run();
    }

    fn act(&mut self, ctx: &Context, action: Action) {
        if let Some(shown) = &self.shown
            && self.states.timeline.act(action, shown, self.selected)
        {
            return;
        }
        match action {
            Action::Run => self.run(),
            Action::Cancel => self.stop(),
            Action::Undo => self.travel(true),
            Action::Redo => self.travel(false),
            Action::Open => self.chrome.ask_open(),
            Action::Save => self.chrome.ask_save(&self.spec.name),
            Action::Clear => self.replace(BatchSpec::empty(self.spec.shape)),
            Action::Appearance => ctx.set_theme(if ctx.theme() == Theme::Dark { Theme::Light } else { Theme::Dark }),
            Action::Colour => self.by_tile = !self.by_tile,
            Action::Palette => self.chrome.toggle_palette(),
            Action::Keys => self.chrome.keys = !self.chrome.keys,
            Action::Layout => self.dock = default_dock(),
            Action::Deselect if self.chrome.close() => {}
            Action::Deselect if self.is_running() => self.stop(),
            Action::Deselect => {
                self.selected = Selection::None;
                self.states.timeline.range = None;
            }
            other => self.selected = self.moved(other),
        }
    }

    /// The selection after a step along the lane or the chain.
    fn moved(&self, action: Action) -> Selection {
        let Some(shown) = &self.shown else { return self.selected };
        match (action, self.selected) {
            (Action::Previous | Action::Next, Selection::Cta(at)) => {
                let lane = shown.lanes.lanes.iter().find(|lane| lane.spans.contains(&at));
                let to = if action == Action::Next { at + 1 } else { at.saturating_sub(1) };
                Selection::Cta(if lane.is_some_and(|lane| lane.spans.contains(&to)) { to } else { at })
            }
            (Action::Up, Selection::Cta(at)) => match shown.lanes.pack_of.get(at) {
                Some(pack) if (*pack as usize) < shown.nodes_of_packs.len() => Selection::Pack(PackIdx(*pack)),
                _ => self.selected,
            },
            (Action::Up, Selection::Pack(pack)) => {
                shown.nodes_of_packs.get(pack.at()).map_or(Selection::None, |node| Selection::Node(*node))
            }
            (Action::Up, Selection::Node(node)) => {
                let above = shown.planned.tree.nodes.get(node.at()).and_then(|found| found.parent);
                above.map_or(self.selected, Selection::Node)
            }
            (Action::Down, Selection::Node(node)) => {
                let pack = shown.nodes_of_packs.iter().position(|of| *of == node);
                pack.map_or(self.selected, |pack| Selection::Pack(PackIdx::from(pack)))
            }
            (Action::Down, Selection::Pack(pack)) => {
                let span = shown.lanes.pack_of.iter().position(|of| *of == pack.0);
                span.map_or(self.selected, Selection::Cta)
            }
            (Action::Down, Selection::None) => Selection::Node(NodeIdx(0)),
            (_, same) => same,
        }
    }

    /// Makes `spec` the batch, with the one before kept for undo.
    pub(super) fn replace(&mut self, spec: BatchSpec) {
        self.undo.push(std::mem::replace(&mut self.spec, Arc::new(spec)));
        if self.undo.len() > UNDO {
            self.undo.remove(0);
        }
        self.redo.clear();
        self.run();
    }

    fn travel(&mut self, back: bool) {
        let (from, to) = if back { (&mut self.undo, &mut self.redo) } else { (&mut self.redo, &mut self.undo) };
        if let Some(spec) = from.pop() {
            to.push(std::mem::replace(&mut self.spec, spec));
            self.run();
        }
    }

    fn run(&mut self) {
        self.compared.clear();
        self.comparing = false;
        self.submit(false);
        self.running = true;
    }

    fn compare(&mut self) {
        self.compared.clear();
        self.comparing = true;
        self.compared_generation = self.generation;
        self.submit(true);
    }

    fn submit(&mut self, compare: bool) {
        if !compare {
            self.cancel.cancel();
            self.cancel = Cancel::default();
            self.generation += 1;
            self.waiting.clear();
        }
        self.waiting.push(Job {
            generation: self.generation,
            spec: Arc::clone(&self.spec),
            options: self.options.clone(),
            compare,
            cancel: self.cancel.clone(),
        });
    }

    fn stop(&mut self) {
        self.cancel.cancel();
        self.cancel = Cancel::default();
        self.waiting.clear();
        (self.running, self.comparing) = (false, false);
        self.log.push((Level::Info, "cancelled".to_owned()));
    }

    /// Takes an event of the worker; those of older edits are dropped.
    pub(super) fn take(&mut self, event: Event) {
        match event {
            Event::Done(generation, shown, problem) if generation == self.generation => {
                self.running = false;
                self.shown_generation = generation;
                self.report(&shown);
                self.keep_selection(&shown);
                self.states.timeline.window = None;
                self.shown = Some(shown);
                match problem {
                    Some(problem) => self.fail(&problem),
                    None => self.problem = None,
                }
            }
            Event::Failed(generation, problem) if generation == self.generation => {
                self.running = false;
                self.fail(&problem);
            }
            Event::Cancelled(generation) if generation == self.generation => {
                (self.running, self.comparing) = (false, false);
            }
            Event::Compared(generation, way, ways) if generation == self.generation && self.comparing => {
                self.compared.push(way);
                self.ways = ways;
                self.comparing = self.compared.len() < ways;
            }
            _ => {}
        }
    }

    /// A selection that the new plan does not have is dropped; a CTA of another run always.
    fn keep_selection(&mut self, shown: &Shown) {
        let there = match self.selected {
            Selection::Node(node) => node.at() < shown.planned.tree.nodes.len(),
            Selection::Pack(pack) => pack.at() < shown.nodes_of_packs.len(),
            Selection::None => true,
            Selection::Cta(_) => false,
        };
        if !there {
            self.selected = Selection::None;
        }
    }

    fn report(&mut self, shown: &Shown) {
        let planned = &shown.planned;
        let text = format!(
            "planned in {} µs, simulated in {:.1} ms: {} packs, {} CTAs",
            planned.plan_time.as_micros(),
            shown.run_time.as_secs_f64() * 1e3,
            planned.plan.packs.len(),
            planned.plan.attention_ctas()
        );
        self.log.push((Level::Info, text));
        if let Some(capture) = &shown.capture {
            self.log.extend(capture.warnings.iter().map(|warning| (Level::Warning, warning.text.clone())));
        }
        if let Some(bubbles) = &shown.bubbles {
            self.log.extend(bubbles.warnings.iter().map(|warning| (Level::Warning, warning.clone())));
        }
        let over = self.log.len().saturating_sub(500);
        self.log.drain(..over);
    }

    fn fail(&mut self, problem: &str) {
        self.log.push((Level::Error, problem.to_owned()));
        self.problem = Some(problem.to_owned());
    }

    fn take_text(&mut self, text: &str) {
        match BatchSpec::from_ron(text) {
            Ok(spec) => self.replace(spec),
            Err(error) => self.fail(&error.to_string()),
        }
    }

    fn open_path(&mut self, path: &Path) {
        if path.extension().is_some_and(|extension| extension == "pscope") {
            match engine::capture::read(path) {
                Ok(loaded) => self.show_capture(loaded),
                Err(error) => self.fail(&error.to_string()),
            }
            return;
        }
        match std::fs::read_to_string(path) {
            Ok(text) => self.take_text(&text),
            Err(error) => self.fail(&format!("reading {} failed: {error}", path.display())),
        }
    }

    fn save_path(&mut self, path: &Path) {
        let saved = self.spec.to_ron().and_then(|text| write_atomically(path, "writing the batch", text.as_bytes()));
        match saved {
            Ok(()) => self.log.push((Level::Info, format!("saved {}", path.display()))),
            Err(error) => self.fail(&error.to_string()),
        }
    }

    /// Shows a capture as it was taken; an edit of its batch then plans anew.
    pub(super) fn show_capture(&mut self, loaded: Loaded) {
        for missing in loaded.missing {
            self.log.push((Level::Warning, missing));
        }
        match Shown::of_capture(loaded.capture) {
            Ok(shown) => {
                self.cancel.cancel();
                self.cancel = Cancel::default();
                self.waiting.clear();
                self.generation += 1;
                self.shown_generation = self.generation;
                (self.running, self.comparing, self.problem) = (false, false, None);
                self.undo.push(std::mem::replace(&mut self.spec, Arc::clone(&shown.planned.spec)));
                self.options = (*shown.planned.options).clone();
                self.selected = Selection::None;
                self.shown = Some(Box::new(shown));
            }
            Err(error) => self.fail(&error.to_string()),
        }
    }
}
