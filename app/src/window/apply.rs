//! The one place in which commands change the window's state.

use std::path::Path;
use std::sync::Arc;

use egui::{Context, Theme};
use engine::cancel::Cancel;
use engine::capture::{Loaded, Source, write_atomically};
use engine::plan::Strategy;
use engine::units::{NodeIdx, PackIdx, counted};
use engine::workload::{BatchSpec, Scene};

use super::app::{App, default_dock};
use super::command::{Action, Command};
use super::guard::Part;
use super::open::{self, Opened};
use super::panels::{Level, Panel};
use super::selection::{Lit, Selection};
use super::worker::{Event, Job, Shown, Sources, Task, Way};
use crate::{headline, samples};

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
            Command::Repeats(repeats) => self.gpu.repeats = repeats,
            Command::DropProblem => self.gpu.problem = None,
            Command::CompareOnce if self.running || self.compared_generation == self.generation => {}
            Command::CompareOnce | Command::Compare => self.compare(),
            Command::Retry(part) => self.retry(part),
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

    fn act(&mut self, ctx: &Context, action: Action) {
        if let Some(shown) = &self.shown
            && self.states.timeline.act(action, shown, self.selected)
        {
            return;
        }
        match action {
            Action::Run => self.run(),
            Action::RunGpu => self.measure(),
            Action::Cancel => self.stop(),
            Action::Sources => self.states.timeline.sources = self.next_sources(),
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
            Action::Deselect if self.is_running() || self.is_measuring() => self.stop(),
            Action::Deselect => {
                self.selected = Selection::None;
                self.states.timeline.range = None;
            }
            other => self.selected = self.moved(other),
        }
    }

    /// Both, then each alone.
    fn next_sources(&self) -> Sources {
        match self.states.timeline.sources {
            Sources::Both => Sources::Only(Source::Measured),
            Sources::Only(Source::Measured) => Sources::Only(Source::Simulated),
            Sources::Only(Source::Simulated) => Sources::Both,
        }
    }

    /// The selection after a step along the lane or the chain.
    fn moved(&self, action: Action) -> Selection {
        let Some(shown) = &self.shown else { return self.selected };
        match (action, self.selected) {
            (Action::Previous | Action::Next, Selection::Cta(source, at)) => {
                let mut lanes = shown.run(source).map(|run| run.lanes.lanes.iter()).into_iter().flatten();
                let lane = lanes.find(|lane| lane.spans.contains(&at));
                let to = if action == Action::Next { at + 1 } else { at.saturating_sub(1) };
                Selection::Cta(source, if lane.is_some_and(|lane| lane.spans.contains(&to)) { to } else { at })
            }
            (Action::Up, what @ Selection::Cta(..)) => Lit::of(what, shown).pack.map_or(self.selected, Selection::Pack),
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
                let Some(run) = shown.runs(self.states.timeline.sources).next() else { return self.selected };
                let span = run.lanes.entities.iter().position(|of| of.pack() == Some(pack));
                span.map_or(self.selected, |span| Selection::Cta(run.source(), span))
            }
            (Action::Down, Selection::None) => Selection::Node(NodeIdx(0)),
            (_, same) => same,
        }
    }

    /// Lets a part of the window be drawn again that failed, from a state that it did not leave half changed.
    fn retry(&mut self, part: Part) {
        self.guard.retry(part);
        self.renew(part);
    }

    fn renew(&mut self, part: Part) {
        match part {
            Part::Panel(panel) => self.states.reset(panel),
            Part::Panels => self.dock = default_dock(),
            Part::Overlays => _ = self.chrome.close(),
            Part::Toolbar | Part::Banner => {}
        }
    }

    /// Another run is shown: what failed on the one before gets another chance.
    fn retry_all(&mut self) {
        for part in self.guard.retry_all() {
            self.renew(part);
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
        (self.comparing, self.gpu.matching) = (false, false);
        self.cancel.cancel();
        self.cancel = Cancel::default();
        self.generation += 1;
        self.waiting.clear();
        self.submit(Task::Plan);
        self.running = true;
    }

    fn compare(&mut self) {
        self.compared.clear();
        self.comparing = true;
        self.compared_generation = self.generation;
        self.submit(Task::Compare);
    }

    pub(super) fn submit(&mut self, task: Task) {
        self.waiting.push(Job {
            generation: self.generation,
            spec: Arc::clone(&self.spec),
            options: self.options.clone(),
            l2: self.l2,
            task,
            cancel: self.cancel.clone(),
        });
    }

    fn stop(&mut self) {
        self.cancel.cancel();
        self.cancel = Cancel::default();
        self.waiting.clear();
        if self.is_running() {
            self.log.push((Level::Info, "cancelled".to_owned()));
        }
        (self.running, self.comparing, self.gpu.matching) = (false, false, false);
        self.stop_measuring();
    }

    /// Takes an event of the worker; those of older edits are dropped.
    pub(super) fn take(&mut self, event: Event) {
        match event {
            Event::Done(generation, shown, problem) if generation == self.generation => {
                self.running = false;
                self.shown_generation = generation;
                self.retry_all();
                self.report(&shown);
                self.keep_selection(&shown);
                self.states.timeline.window = None;
                let before = self.shown.replace(shown).and_then(|shown| shown.measured);
                self.attach();
                self.tell_dropped(before);
                match problem {
                    Some(problem) => self.fail(&problem),
                    None => self.problem = None,
                }
            }
            Event::Failed(generation, problem) if generation == self.generation => {
                self.running = false;
                self.fail(&problem);
            }
            Event::Panicked(generation, problem) if generation == self.generation => {
                (self.running, self.comparing, self.gpu.matching) = (false, false, false);
                self.fail(&problem);
            }
            Event::Cancelled(generation) if generation == self.generation => {
                (self.running, self.comparing, self.gpu.matching) = (false, false, false);
            }
            Event::Matched(generation, matched) if generation == self.generation => self.take_matched(matched),
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
            Selection::Cta(..) => false,
        };
        if !there {
            self.selected = Selection::None;
        }
    }

    fn report(&mut self, shown: &Shown) {
        let planned = &shown.planned;
        let took = shown.simulated.as_ref().map_or(0.0, |run| run.took.as_secs_f64());
        let text = format!(
            "planned in {} µs, simulated in {:.1} ms: {}, {}",
            planned.plan_time.as_micros(),
            took * 1e3,
            counted(planned.plan.packs.len() as u64, "pack"),
            counted(planned.plan.attention_ctas(), "CTA")
        );
        self.log.push((Level::Info, text));
        if let Some(run) = &shown.simulated {
            let warnings = run.capture.warnings.iter().map(|warning| &warning.text).chain(&run.bubbles.warnings);
            self.log.extend(warnings.map(|warning| (Level::Warning, warning.clone())));
        }
        let over = self.log.len().saturating_sub(500);
        self.log.drain(..over);
    }

    pub(super) fn fail(&mut self, problem: &str) {
        self.log.push((Level::Error, problem.to_owned()));
        self.problem = Some(problem.to_owned());
    }

    fn take_text(&mut self, text: &str) {
        match BatchSpec::from_ron(text) {
            Ok(spec) => self.open(spec),
            Err(error) => self.fail(&error.to_string()),
        }
    }

    /// Shows a batch from a file with the device and choice that its text speaks of.
    pub(super) fn open(&mut self, mut spec: BatchSpec) {
        if let Some(scene) = spec.scene.take() {
            self.set_scene(&spec.name, &scene);
        }
        self.replace(spec);
    }

    fn set_scene(&mut self, name: &str, scene: &Scene) {
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

    /// Opens a file; one that is refused leaves all as it is, with one message.
    fn open_path(&mut self, path: &Path) {
        match open::open(path) {
            Ok(Opened::Capture(loaded)) => self.show_capture(*loaded),
            Ok(Opened::Batch(spec)) => self.open(*spec),
            Ok(Opened::Device(device)) => {
                self.log.push((Level::Info, format!("the device is now {}, from {}", device.name, path.display())));
                self.options.device = *device;
                self.run();
            }
            Err(problem) => self.fail(&problem),
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
        let missing = loaded.missing.iter().map(|missing| format!("the capture is damaged; it lacks {missing}"));
        self.log.extend(missing.map(|text| (Level::Warning, text)));
        match Shown::of_capture(loaded) {
            Ok(shown) => {
                self.cancel.cancel();
                self.cancel = Cancel::default();
                self.waiting.clear();
                self.generation += 1;
                self.shown_generation = self.generation;
                self.retry_all();
                (self.running, self.comparing, self.gpu.matching, self.problem) = (false, false, false, None);
                self.compared.clear();
                self.undo.push(std::mem::replace(&mut self.spec, Arc::clone(&shown.planned.spec)));
                self.options = (*shown.planned.options).clone();
                self.selected = Selection::None;
                self.states.timeline.window = None;
                let measured = shown.measured.clone();
                let planned = shown.planned.clone();
                let issued = shown.traffic.issued();
                self.shown = Some(Box::new(shown));
                if let Some(run) = measured {
                    self.l2 = run.capture.times.l2;
                    self.log.push((Level::Info, format!("opened a capture: {}", headline::sentence(&run.capture))));
                    self.keep(&planned, Way { run, issued });
                    self.attach();
                }
            }
            Err(error) => self.fail(&error.to_string()),
        }
    }
}
