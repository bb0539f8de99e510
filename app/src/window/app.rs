//! The state of the window and its two passes: `logic` changes it, `ui` draws it.

use std::cell::RefCell;
use std::sync::Arc;

use egui::{Context, Ui};
use egui_tiles::{Container, Linear, LinearDir, Tile, TileId, Tiles, Tree};
use engine::cancel::Cancel;
use engine::capture::L2State;
use engine::session::PlanOptions;
use engine::workload::{AttentionShape, BatchSpec};

use super::command::{Command, pressed};
use super::gpu::{self, Gpu, Machine, ThisMachine};
use super::guard::{Guard, Part};
use super::measuring::Measuring;
use super::mishap::{self, Mishap};
use super::panels::{
    Frame, Level, Panel, batch, compare, differences, inspector, log, memory, packs, roofline, timeline, traffic, tree,
};
use super::selection::{Lit, Selection};
use super::worker::{Compared, Event, Job, Shown, Worker};
use super::{Opening, chrome, theme};
use crate::samples;

/// State of the panels.
#[derive(Debug, Default)]
pub(super) struct PanelStates {
    pub(super) packs: packs::State,
    pub(super) timeline: timeline::State,
    pub(super) compare: compare::State,
    pub(super) differences: differences::State,
}

impl PanelStates {
    /// Forgets the state of a panel: one that panicked may have left it half changed.
    pub(super) fn reset(&mut self, panel: Panel) {
        match panel {
            Panel::Packs => self.packs = packs::State::default(),
            Panel::Timeline => self.timeline = timeline::State::default(),
            Panel::Compare => self.compare = compare::State::default(),
            Panel::Differences => self.differences = differences::State::default(),
            _ => {}
        }
    }
}

/// The window.
pub struct App {
    pub(super) spec: Arc<BatchSpec>,
    pub(super) options: PlanOptions,
    pub(super) undo: Vec<Arc<BatchSpec>>,
    pub(super) redo: Vec<Arc<BatchSpec>>,
    pub(super) shown: Option<Box<Shown>>,
    pub(super) compared: Vec<Compared>,
    pub(super) ways: usize,
    pub(super) compared_generation: u64,
    pub(super) generation: u64,
    pub(super) shown_generation: u64,
    pub(super) cancel: Cancel,
    pub(super) running: bool,
    pub(super) comparing: bool,
    pub(super) l2: L2State,
    pub(super) gpu: Measuring,
    pub(super) waiting: Vec<Job>,
    pub(super) worker: Worker,
    pub(super) problem: Option<String>,
    pub(super) log: Vec<(Level, String)>,
    pub(super) selected: Selection,
    pub(super) hovered: Selection,
    pub(super) by_tile: bool,
    pub(super) states: PanelStates,
    pub(super) dock: Tree<Panel>,
    pub(super) chrome: chrome::State,
    pub(super) guard: Guard,
    pub(super) commands: RefCell<Vec<Command>>,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App")
            .field("spec", &self.spec.name)
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

impl App {
    /// The window's state on an opening; planning begins at once.
    ///
    /// # Errors
    /// Where there is no device table or the system gives no thread.
    pub fn new(ctx: &Context, opening: Opening) -> anyhow::Result<Self> {
        Self::on(ctx, opening, Box::new(ThisMachine { cache: crate::cli::kernel_cache() }))
    }

    /// The same on a machine that may have another GPU, or none.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn on(ctx: &Context, opening: Opening, machine: Box<dyn Machine>) -> anyhow::Result<Self> {
        theme::install(ctx);
        let device = engine::hw::builtin().first().ok_or_else(|| anyhow::anyhow!("there is no built-in device"))?;
        let wake = ctx.clone();
        let worker = Worker::start(move || wake.request_repaint())?;
        let wake = ctx.clone();
        let gpu = Measuring::new(Gpu::start(machine, move || wake.request_repaint())?);
        let mut app = Self {
            spec: Arc::new(BatchSpec::empty(AttentionShape::default())),
            options: PlanOptions::new(device),
            undo: Vec::new(),
            redo: Vec::new(),
            shown: None,
            compared: Vec::new(),
            ways: 0,
            compared_generation: 0,
            generation: 0,
            shown_generation: 0,
            cancel: Cancel::default(),
            running: false,
            comparing: false,
            l2: L2State::Cold,
            gpu,
            waiting: Vec::new(),
            worker,
            problem: None,
            log: Vec::new(),
            selected: Selection::None,
            hovered: Selection::None,
            by_tile: false,
            states: PanelStates::default(),
            dock: default_dock(),
            chrome: chrome::State::default(),
            guard: Guard::default(),
            commands: RefCell::default(),
        };
        app.guarded(|app| match opening {
            Opening::Example => app.apply(ctx, Command::Sample(samples::DEFAULT)),
            Opening::Batch(spec) => app.open(*spec),
            Opening::Capture(loaded) => app.show_capture(*loaded),
        });
        app.undo.clear();
        Ok(app)
    }

    /// Sends a command to the next logic pass.
    pub fn send(&mut self, command: Command) {
        self.commands.get_mut().push(command);
    }

    /// The last good plan and run.
    pub fn shown(&self) -> Option<&Shown> {
        self.shown.as_deref()
    }

    /// The selection.
    pub fn selected(&self) -> Selection {
        self.selected
    }

    /// What went wrong last, while it stands.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Whether planning or running goes on.
    pub fn is_running(&self) -> bool {
        self.running || self.comparing || self.gpu.matching
    }

    /// The logic pass: events of the worker, keys, files, commands.
    pub fn logic_pass(&mut self, ctx: &Context) {
        let events: Vec<Event> = self.worker.events.try_iter().collect();
        for event in events {
            self.guarded(|app| app.take(event));
        }
        let events: Vec<gpu::Event> = self.gpu.thread.events.try_iter().collect();
        for event in events {
            self.guarded(|app| app.take_gpu(event));
        }
        if self.gpu.wanted && !self.running {
            self.guarded(Self::measure);
        }
        let dropped = ctx.input(|input| input.raw.dropped_files.first().map(|file| file.path().to_path_buf()));
        if let Some(path) = dropped {
            self.send(Command::OpenPath(path));
        }
        for action in pressed(ctx) {
            self.send(Command::Act(action));
        }
        if let Some(path) = self.chrome.take_picked() {
            self.send(path);
        }
        self.hovered = Selection::None;
        for command in self.commands.take() {
            self.guarded(|app| app.apply(ctx, command));
        }
        let failed = self.guard.untold();
        self.log.extend(failed.into_iter().map(|text| (Level::Error, text)));
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting = waiting.into_iter().filter_map(|job| self.worker.submit(job)).collect();
    }

    /// Does a step of the logic pass; one that panics is given up, told, and leaves nothing going.
    fn guarded(&mut self, step: impl FnOnce(&mut Self)) {
        if let Err(mishap) = mishap::catch(|| step(self)) {
            (self.running, self.comparing, self.gpu.matching) = (false, false, false);
            let text = format!("packscope failed at this step: {mishap}. The batch is as it was; save it.");
            self.fail(&text);
        }
    }

    /// What a part of the window failed with when it was drawn last.
    pub fn failure(&self, part: Part) -> Option<Mishap> {
        self.guard.failure(part)
    }

    fn lit(&self, what: Selection) -> Lit {
        self.shown.as_ref().map(|shown| Lit::of(what, shown)).unwrap_or_default()
    }

    /// The drawing pass.
    pub fn ui_pass(&mut self, ui: &mut Ui) {
        let tokens = theme::of(ui.ctx());
        let blocked = self.gpu_blocked();
        let frame = Frame {
            spec: &self.spec,
            options: &self.options,
            shown: self.shown.as_deref(),
            stale: self.shown_generation != self.generation,
            compared: &self.compared,
            kept: &self.gpu.kept,
            selected: self.lit(self.selected),
            hovered: self.lit(self.hovered),
            by_tile: self.by_tile,
            log: &self.log,
            tokens,
            commands: &self.commands,
        };
        let status = chrome::Status {
            running: self.running,
            comparing: self.comparing.then_some((self.compared.len(), self.ways)),
            problem: self.problem.as_deref(),
            can_undo: !self.undo.is_empty(),
            blocked: blocked.as_deref(),
            measuring: self.gpu.going.as_ref().map(|going| going.line.as_str()),
            gpu_problem: self.gpu.problem.as_deref(),
            gpu: self.gpu.found.as_ref().and_then(|found| found.as_ref().ok()),
            repeats: self.gpu.repeats,
            l2: self.l2,
        };
        let guard = &self.guard;
        guard.edge(ui, &frame, Part::Toolbar, |ui| chrome::top(ui, &frame, &status));
        guard.edge(ui, &frame, Part::Banner, |ui| chrome::banner(ui, &frame, &status));
        guard.edge(ui, &frame, Part::Panels, |ui| {
            egui::CentralPanel::default().frame(egui::Frame::new().fill(tokens.back)).show(ui, |ui| {
                self.dock.ui(&mut Behavior { frame: &frame, states: &mut self.states, guard }, ui);
            });
        });
        guard.edge(ui, &frame, Part::Overlays, |ui| chrome::windows(ui, &frame, &mut self.chrome));
        // What was sent while drawing is done by the next logic pass, without waiting for another event.
        if self.commands.get_mut().iter().any(|command| !matches!(command, Command::Hover(_))) {
            ui.ctx().request_repaint();
        }
    }
}

impl eframe::App for App {
    fn logic(&mut self, ctx: &Context, _: &mut eframe::Frame) {
        self.logic_pass(ctx);
    }

    fn ui(&mut self, ui: &mut Ui, _: &mut eframe::Frame) {
        self.ui_pass(ui);
    }
}

struct Behavior<'a> {
    frame: &'a Frame<'a>,
    states: &'a mut PanelStates,
    guard: &'a Guard,
}

impl egui_tiles::Behavior<Panel> for Behavior<'_> {
    fn pane_ui(&mut self, ui: &mut Ui, _: TileId, panel: &mut Panel) -> egui_tiles::UiResponse {
        let frame = egui::Frame::new().fill(self.frame.tokens.panel).inner_margin(6);
        frame.show(ui, |ui| {
            ui.set_min_size(ui.available_size());
            let (frame, states) = (self.frame, &mut *self.states);
            self.guard.panel(ui, frame, *panel, |ui| draw(ui, frame, states, *panel));
        });
        egui_tiles::UiResponse::None
    }

    fn tab_title_for_pane(&mut self, panel: &Panel) -> egui::WidgetText {
        panel.title().into()
    }

    fn simplification_options(&self) -> egui_tiles::SimplificationOptions {
        egui_tiles::SimplificationOptions { all_panes_must_have_tabs: true, ..Default::default() }
    }

    fn gap_width(&self, _: &egui::Style) -> f32 {
        4.0
    }
}

fn draw(ui: &mut Ui, frame: &Frame<'_>, states: &mut PanelStates, panel: Panel) {
    #[cfg(test)]
    super::tests::trip(frame.spec, panel.title());
    match panel {
        Panel::Batch => batch::show(ui, frame),
        Panel::Tree => tree::show(ui, frame),
        Panel::Packs => packs::show(ui, frame, &mut states.packs),
        Panel::Timeline => timeline::show(ui, frame, &mut states.timeline),
        Panel::Traffic => traffic::show(ui, frame),
        Panel::Memory => memory::show(ui, frame),
        Panel::Roofline => roofline::show(ui, frame),
        Panel::Compare => compare::show(ui, frame, &mut states.compare),
        Panel::Differences => differences::show(ui, frame, &mut states.differences),
        Panel::Inspector => inspector::show(ui, frame),
        Panel::Log => log::show(ui, frame),
    }
}

/// Panels in their places: batch left, tree and packs over the timeline, inspector right.
pub(super) fn default_dock() -> Tree<Panel> {
    let mut tiles = Tiles::default();
    let mut tabs = |panels: &[Panel]| {
        let panes = panels.iter().map(|panel| tiles.insert_pane(*panel)).collect();
        tiles.insert_tab_tile(panes)
    };
    let left = tabs(&[Panel::Batch]);
    let tree = tabs(&[Panel::Tree]);
    let packs = tabs(&[Panel::Packs]);
    let time = tabs(&[Panel::Timeline, Panel::Compare, Panel::Differences]);
    let inspector = tabs(&[Panel::Inspector, Panel::Log]);
    let traffic = tabs(&[Panel::Traffic, Panel::Memory, Panel::Roofline]);
    let mut linear = |dir, children: Vec<(TileId, f32)>| {
        let mut linear = Linear::new(dir, children.iter().map(|(id, _)| *id).collect());
        for (id, share) in children {
            linear.shares.set_share(id, share);
        }
        tiles.insert_new(Tile::Container(Container::Linear(linear)))
    };
    let top = linear(LinearDir::Horizontal, vec![(tree, 1.0), (packs, 1.0)]);
    let middle = linear(LinearDir::Vertical, vec![(top, 0.36), (time, 0.64)]);
    let right = linear(LinearDir::Vertical, vec![(inspector, 0.55), (traffic, 0.45)]);
    let root = linear(LinearDir::Horizontal, vec![(left, 0.2), (middle, 0.58), (right, 0.22)]);
    Tree::new(egui::Id::unique("dock"), root, tiles)
}
