//! The state of the window and its two passes: `logic` changes it, `ui` draws it.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;

use egui::{Context, Ui};
use egui_tiles::Tree;
use engine::capture::L2State;
use engine::session::PlanOptions;
use engine::workload::{AttentionShape, BatchSpec};

use crate::document::Document;
use crate::document::history::{Gesture, History};
use crate::jobs::engine::Engine;
use crate::jobs::machine::{Gpu, Machine, ThisMachine};
use crate::jobs::measuring::OnGpu;
use crate::jobs::mishap::Mishap;
use crate::jobs::planner::Worker;
use crate::jobs::state::{JobId, Measuring, Work};
use crate::jobs::{machine, mishap};
use crate::runs::compared::Compared;
use crate::runs::run::Run;
use crate::runs::shown::Shown;
use crate::timeline::axis::Axis;
use crate::timeline::marks::Marks;
use crate::timeline::playback::Playback;
use crate::window::chrome;
use crate::window::command::Command;
use crate::window::commands::table::pressed;
use crate::window::dock::{Behavior, PanelStates, default_dock};
use crate::window::frame::{Frame, Level};
use crate::window::guard::Guard;
use crate::window::open::Opening;
use crate::window::panel::{Panel, Part};
use crate::window::panels::tree;
use crate::window::selection::{Lit, Selection};
use crate::window::session::Keeper;
use crate::{samples, theme};

/// The window.
pub struct App {
    pub(super) document: Document,
    pub(super) history: History,
    /// The file of the capture that is shown.
    pub(super) capture: Option<PathBuf>,
    pub(super) keeper: Option<Keeper>,
    /// The drag or the field that edits of this frame belong to.
    pub(super) gesture: Option<Gesture>,
    /// The run before the gesture that goes on.
    pub(super) ghost: Option<Arc<Run>>,
    pub(super) shown: Option<Box<Shown>>,
    pub(super) compared: Vec<Compared>,
    pub(super) engine: Engine,
    pub(super) gpu: OnGpu,
    /// The job that planned the document as it is now, and those whose answers are shown.
    pub(super) newest: JobId,
    pub(super) shown_of: Option<JobId>,
    pub(super) compared_of: Option<JobId>,
    pub(super) problem: Option<String>,
    pub(super) log: Vec<(Level, String)>,
    pub(super) selected: Selection,
    pub(super) hovered: Selection,
    /// A selection with the CTAs that bound it, where it is a bubble.
    pub(super) bounds: (Selection, Vec<usize>),
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
            .field("spec", &self.document.spec.name)
            .field("newest", &self.newest)
            .finish_non_exhaustive()
    }
}

impl App {
    /// The window's state on an opening; planning begins at once.
    ///
    /// # Errors
    /// Where there is no device table or the system gives no thread.
    pub fn new(ctx: &Context, opening: Opening) -> anyhow::Result<Self> {
        Self::on(ctx, opening, Box::new(ThisMachine { cache: crate::paths::kernel_cache() }))
    }

    /// The same on a machine that may have another GPU, or none.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn on(ctx: &Context, opening: Opening, machine: Box<dyn Machine>) -> anyhow::Result<Self> {
        theme::install(ctx);
        let device = engine::hw::builtin().first().ok_or_else(|| anyhow::anyhow!("there is no built-in device"))?;
        let wake = ctx.clone();
        let engine = Engine::new(Worker::start(move || wake.request_repaint())?);
        let wake = ctx.clone();
        let gpu = OnGpu::new(Gpu::start(machine, move || wake.request_repaint())?);
        let mut app = Self {
            document: Document {
                spec: Arc::new(BatchSpec::empty(AttentionShape::default())),
                options: PlanOptions::new(device),
                l2: L2State::Cold,
            },
            history: History::default(),
            capture: None,
            keeper: None,
            gesture: None,
            ghost: None,
            shown: None,
            compared: Vec::new(),
            engine,
            gpu,
            newest: JobId::next(),
            shown_of: None,
            compared_of: None,
            problem: None,
            log: Vec::new(),
            selected: Selection::None,
            hovered: Selection::None,
            bounds: (Selection::None, Vec::new()),
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
        app.history = History::default();
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

    /// The document.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// What of time and SMs the timeline shows.
    pub fn axis(&self) -> &Axis {
        &self.states.timeline.axis
    }

    /// The canvas of the prefix tree.
    pub fn canvas(&self) -> &tree::State {
        &self.states.tree
    }

    /// Where playback stands.
    pub fn playback(&self) -> &Playback {
        &self.states.playback.playback
    }

    /// Times that were marked.
    pub fn marks(&self) -> &Marks {
        &self.states.timeline.marks
    }

    /// Name of the step that undo takes back.
    pub fn undoes(&self) -> Option<&str> {
        self.history.undoes()
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
        self.engine.is_busy()
    }

    /// The logic pass: events of the worker, keys, files, commands.
    pub fn logic_pass(&mut self, ctx: &Context) {
        for told in self.engine.told() {
            self.guarded(|app| app.take(told));
        }
        let events: Vec<machine::Event> = self.gpu.thread.events.try_iter().collect();
        for event in events {
            self.guarded(|app| app.take_gpu(event));
        }
        if matches!((&self.gpu.state, self.engine.work()), (Measuring::Wanted, work) if !matches!(work, Work::Planning(_)))
        {
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
        self.guarded(Self::find_bounds);
        self.guarded(|app| app.play_on(ctx));
        if self.gesture.is_none() {
            self.history.seal();
            self.ghost = None;
        }
        let failed = self.guard.untold();
        self.log.extend(failed.into_iter().map(|text| (Level::Error, text)));
        self.engine.push();
        self.guarded(|app| app.keep_now(ctx));
    }

    /// Does a step of the logic pass; one that panics is given up, told, and leaves nothing going.
    fn guarded(&mut self, step: impl FnOnce(&mut Self)) {
        if let Err(mishap) = mishap::catch(|| step(self)) {
            self.engine.stop();
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
            spec: &self.document.spec,
            options: &self.document.options,
            shown: self.shown.as_deref(),
            ghost: self.ghost.as_deref(),
            stale: self.shown_of != Some(self.newest),
            now: self.states.playback.now(self.shown.as_deref(), self.states.timeline.sources),
            compared: &self.compared,
            kept: &self.gpu.kept,
            selected: self.lit(self.selected),
            hovered: self.lit(self.hovered),
            bounds: &self.bounds.1,
            by_tile: self.by_tile,
            log: &self.log,
            tokens,
            commands: &self.commands,
        };
        let status = chrome::Status {
            work: self.engine.work(),
            problem: self.problem.as_deref(),
            undoes: self.history.undoes(),
            redoes: self.history.redoes(),
            blocked: blocked.as_deref(),
            measuring: self.gpu.state.step(),
            gpu_problem: self.gpu.problem.as_deref(),
            gpu: self.gpu.found.as_ref().and_then(|found| found.as_ref().ok()),
            repeats: self.gpu.repeats,
            l2: self.document.l2,
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
        self.gesture = gesture(ui.ctx()).or_else(|| self.states.tree.gesture(ui.input(|input| input.time)));
        // What was sent while drawing is done by the next logic pass, without waiting for another event.
        if self.commands.get_mut().iter().any(|command| !matches!(command, Command::Hover(_))) {
            ui.ctx().request_repaint();
        }
    }
}

/// The widget that is dragged or typed in: its edits are one step of the history.
fn gesture(ctx: &Context) -> Option<Gesture> {
    let typed = || ctx.memory(egui::Memory::focused).filter(|_| ctx.text_edit_focused());
    ctx.dragged_id().or_else(typed).map(|id| Gesture(id.value()))
}

impl eframe::App for App {
    fn logic(&mut self, ctx: &Context, _: &mut eframe::Frame) {
        self.logic_pass(ctx);
    }

    fn ui(&mut self, ui: &mut Ui, _: &mut eframe::Frame) {
        self.ui_pass(ui);
    }
}
