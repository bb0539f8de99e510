//! The state of the window and its two passes: `logic` changes it, `ui` draws it.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;

use egui::{Context, Ui};
use egui_tiles::Tree;
use engine::capture::L2State;
use engine::session::{Auto, PlanOptions};
use engine::workload::{AttentionShape, BatchSpec};

use crate::document::Document;
use crate::document::history::{Gesture, History};
use crate::jobs::engine::Engine;
use crate::jobs::machine::{Gpu, Machine, ThisMachine};
use crate::jobs::measuring::OnGpu;
use crate::jobs::mishap::Mishap;
use crate::jobs::planner::Worker;
use crate::jobs::state::{JobId, Measuring, Work};
use crate::jobs::studies::{Studies, Studying};
use crate::jobs::{machine, mishap};
use crate::runs::compared::{Compared, Rows};
use crate::runs::measurement::Filed;
use crate::runs::now::Now;
use crate::runs::replay::Replay;
use crate::runs::run::Run;
use crate::runs::shown::Shown;
use crate::runs::sweep::Sweep;
use crate::timeline::axis::Axis;
use crate::timeline::looks::Looks;
use crate::timeline::marks::Marks;
use crate::timeline::only::Only;
use crate::timeline::playback::Playback;
use crate::window::chrome;
use crate::window::command::Command;
use crate::window::commands::table::pressed;
use crate::window::dock::{Behavior, PanelStates, default_dock};
use crate::window::find;
use crate::window::frame::{Frame, Level};
use crate::window::guard::Guard;
use crate::window::open::Opening;
use crate::window::panel::{Panel, Part};
use crate::window::panels::{steps, tree};
use crate::window::selection::{Lit, Selection};
use crate::window::session::{Keeper, Later};
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
    pub(super) rows: Rows,
    pub(super) engine: Engine,
    pub(super) gpu: OnGpu,
    pub(super) studies: Studies,
    pub(super) replay: Option<Arc<Replay>>,
    pub(super) sweep: Option<Arc<Sweep>>,
    /// The job that planned the document as it is now, and those whose answers are shown.
    pub(super) newest: JobId,
    pub(super) shown_of: Option<JobId>,
    pub(super) compared_of: Option<JobId>,
    pub(super) problem: Option<String>,
    pub(super) log: Vec<(Level, String)>,
    pub(super) selected: Selection,
    pub(super) hovered: Selection,
    /// A selection with its CTAs: those that bound a bubble, or the first of a pack.
    pub(super) ctas: (Selection, Vec<usize>),
    pub(super) by_tile: bool,
    pub(super) states: PanelStates,
    pub(super) dock: Tree<Panel>,
    /// The panel that is shown alone.
    pub(super) presented: Option<Panel>,
    /// How large text and controls are.
    pub(super) scale: f32,
    /// Files that were opened last, the newest first.
    pub(super) recent: Vec<PathBuf>,
    /// Lines of the log that were looked at.
    pub(super) read: usize,
    /// What the last session had in sight, until its run is there.
    pub(super) later: Option<Later>,
    /// The person has read what the file of the capture lost.
    pub(super) damage_is_told: bool,
    pub(super) chrome: chrome::State,
    pub(super) find: find::State,
    /// Where one looked before and after.
    pub(super) looks: Looks<Axis>,
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
        let wake = ctx.clone();
        let studies = Studies::start(move || wake.request_repaint())?;
        let mut app = Self {
            document: Document {
                spec: Arc::new(BatchSpec::empty(AttentionShape::default())),
                options: PlanOptions { auto: Auto::BOTH, ..PlanOptions::new(device) },
                l2: L2State::Cold,
            },
            history: History::default(),
            capture: None,
            keeper: None,
            gesture: None,
            ghost: None,
            shown: None,
            compared: Vec::new(),
            rows: Rows::default(),
            engine,
            gpu,
            studies,
            replay: None,
            sweep: None,
            newest: JobId::next(),
            shown_of: None,
            compared_of: None,
            problem: None,
            log: Vec::new(),
            selected: Selection::None,
            hovered: Selection::None,
            ctas: (Selection::None, Vec::new()),
            by_tile: false,
            states: PanelStates::default(),
            dock: default_dock(),
            presented: None,
            scale: 1.0,
            recent: Vec::new(),
            read: 0,
            later: None,
            damage_is_told: false,
            chrome: chrome::State::default(),
            find: find::State::default(),
            looks: Looks::default(),
            guard: Guard::default(),
            commands: RefCell::default(),
        };
        app.guarded(|app| match opening {
            Opening::Example => app.apply(ctx, Command::Sample(samples::DEFAULT)),
            Opening::Batch(spec) => app.open(*spec),
            Opening::Capture(loaded) => app.show_capture(*loaded, Filed::No),
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

    /// The trace that was replayed last.
    pub fn replay(&self) -> Option<&Replay> {
        self.replay.as_deref()
    }

    /// The sweep that is open.
    pub fn sweep(&self) -> Option<&Sweep> {
        self.sweep.as_deref()
    }

    /// The replay or the opening of a sweep that goes on.
    pub fn studying(&self) -> &Studying {
        self.studies.state()
    }

    /// The strip of steps.
    pub fn steps(&self) -> &steps::State {
        &self.states.steps
    }

    /// What of time and SMs the timeline shows.
    pub fn axis(&self) -> &Axis {
        &self.states.timeline.axis
    }

    /// The one colour of the timeline that is looked at.
    pub fn only(&self) -> Option<Only> {
        self.states.timeline.only
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

    /// Whether what is shown is the plan and run of the document as it is now.
    pub fn is_current(&self) -> bool {
        self.shown_of == Some(self.newest)
    }

    /// Whether planning or running goes on.
    pub fn is_running(&self) -> bool {
        self.engine.is_busy()
    }

    /// The logic pass: events of the worker, keys, files, commands.
    pub fn logic_pass(&mut self, ctx: &Context) {
        let before = self.newest;
        for told in self.engine.told() {
            self.guarded(|app| app.take(told));
        }
        let events: Vec<machine::Event> = self.gpu.thread.events.try_iter().collect();
        for event in events {
            self.guarded(|app| app.take_gpu(event));
        }
        self.guarded(Self::take_kept);
        if let Some(told) = self.studies.told() {
            self.guarded(|app| app.take_study(told));
        }
        if matches!((&self.gpu.state, self.engine.work()), (Measuring::Wanted, work) if !matches!(work, Work::Planning(_)))
        {
            self.guarded(Self::measure);
        }
        let dropped = ctx.input(|input| input.raw.dropped_files.first().map(|file| file.path().to_path_buf()));
        if let Some(path) = dropped {
            self.send(Command::OpenPath(path));
        }
        // The canvases have no keys of their own: theirs are in the table.
        let canvas = self.states.tree.has_focus() || self.states.steps.has_focus();
        let held = ctx.memory(|memory| memory.focused().is_some()) && !canvas;
        for action in pressed(ctx, held) {
            self.send(Command::Act(action));
        }
        if let Some(path) = self.chrome.take_picked() {
            self.send(path);
        }
        self.hovered = Selection::None;
        for command in self.commands.take() {
            self.guarded(|app| app.apply(ctx, command));
        }
        // A frame without input, on the plan that the one before was painted with.
        let nothing_new = before == self.newest && ctx.input(|input| input.events.is_empty());
        for told in self.engine.told_soon(nothing_new) {
            self.guarded(|app| app.take(told));
        }
        self.guarded(Self::find_ctas);
        self.guarded(|app| app.play_on(ctx));
        self.looks.see(&Axis { range: None, ..self.states.timeline.axis }, ctx.input(|input| input.time));
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

    /// What panels may read in one frame.
    pub(super) fn frame(&self, now: Option<Now>) -> Frame<'_> {
        Frame {
            spec: &self.document.spec,
            options: &self.document.options,
            shown: self.shown.as_deref(),
            ghost: self.ghost.as_deref(),
            stale: !self.is_current(),
            now,
            compared: &self.compared,
            rows: &self.rows,
            kept: &self.gpu.kept,
            replay: self.replay.as_ref(),
            is_in_file: self.played_file().is_some(),
            sweep: self.sweep.as_ref(),
            studying: self.studies.state(),
            selected: self.lit(self.selected),
            hovered: self.lit(self.hovered),
            ctas: &self.ctas.1,
            by_tile: self.by_tile,
            is_picture: false,
            unread: self.unread(),
            log: &self.log,
            tokens: theme::tokens(true),
            commands: &self.commands,
        }
    }

    /// Warnings and errors that were not looked at.
    pub fn unread(&self) -> usize {
        self.log.iter().skip(self.read).filter(|(level, _)| *level != Level::Info).count()
    }

    /// What stands around the panels.
    fn status<'a>(&'a self, blocked: Option<&'a str>) -> chrome::Status<'a> {
        chrome::Status {
            work: self.engine.work(),
            slow: self.engine.until_slow().is_zero(),
            problem: self.problem.as_deref(),
            damage_is_told: self.damage_is_told,
            undoes: self.history.undoes(),
            redoes: self.history.redoes(),
            blocked,
            measuring: self.gpu.state.step(),
            gpu_problem: self.gpu.problem.as_deref(),
            gpu: self.gpu.found.as_ref().and_then(|found| found.as_ref().ok()),
            repeats: self.gpu.repeats,
            l2: self.document.l2,
            recent: &self.recent,
            unread: self.unread(),
        }
    }

    /// The drawing pass.
    pub fn ui_pass(&mut self, ui: &mut Ui) {
        let tokens = theme::of(ui.ctx());
        let blocked = self.gpu_blocked();
        let now = self.states.playback.now(self.shown.as_deref(), self.states.timeline.sources);
        let until_slow = self.engine.until_slow();
        if !until_slow.is_zero() && self.engine.work() != Work::Idle {
            ui.ctx().request_repaint_after(until_slow);
        }
        // What is drawn into is apart from what is read.
        let (mut states, mut chrome) = (std::mem::take(&mut self.states), std::mem::take(&mut self.chrome));
        let mut find = std::mem::take(&mut self.find);
        let mut dock = std::mem::replace(&mut self.dock, Tree::empty(egui::Id::unique("dock")));
        {
            let (frame, status) = (Frame { tokens, ..self.frame(now) }, self.status(blocked.as_deref()));
            let (frame, guard) = (&frame, &self.guard);
            if self.presented.is_none() {
                guard.edge(ui, frame, Part::Toolbar, |ui| chrome::top(ui, frame, &status));
            }
            guard.edge(ui, frame, Part::Story, |ui| chrome::story(ui, frame, &status));
            guard.edge(ui, frame, Part::Banner, |ui| chrome::banner(ui, frame, &status));
            guard.edge(ui, frame, Part::Panels, |ui| {
                egui::CentralPanel::default().frame(egui::Frame::new().fill(tokens.back)).show(ui, |ui| {
                    let mut behavior = Behavior { frame, states: &mut states, guard };
                    match self.presented {
                        Some(panel) => behavior.alone(ui, panel),
                        None => dock.ui(&mut behavior, ui),
                    }
                });
            });
            guard.edge(ui, frame, Part::Overlays, |ui| {
                chrome::windows(ui, frame, &status, &mut chrome);
                find::show(ui, frame, &mut find);
            });
        }
        (self.states, self.chrome, self.dock, self.find) = (states, chrome, dock, find);
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
