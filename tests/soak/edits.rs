//! Commands to the window: edits of the batch, choices, undo, panels and selections, drawn without a display.

use std::sync::Arc;
use std::time::{Duration, Instant};

use egui::{Context, RawInput, Rect, pos2};
use engine::cancel::Cancel;
use engine::capture::L2State;
use engine::hw;
use engine::pack;
use engine::plan::Strategy;
use engine::plan::hybrid::PodChoice;
use engine::session::Tell;
use engine::tile::Tile;
use engine::units::{NodeIdx, PackIdx};
use engine::workload::{AttentionShape, BatchSpec, NodeSpec, RequestSpec, SCHEMA};
use packscope::jobs::machine::{Found, Machine, RunsPlans};
use packscope::samples;
use packscope::window::command::Command;
use packscope::window::commands::table::{Action, COMMANDS};
use packscope::window::panel::Panel;
use packscope::window::selection::Selection;
use packscope::window::{App, Opening};
use serde::{Deserialize, Serialize};

use crate::batches;
use crate::checks::{Tried, Verdict, readable, sound};
use crate::draw::Draw;

/// A batch to open with, and what is done to it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EditsCase {
    opening: BatchSpec,
    edits: Vec<Edit>,
}

/// One thing that a person does. Places count modulo what is there.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Edit {
    Tokens(u32, u64),
    Repeat(u32, u32),
    Ending(u32, u32),
    AddChild(u32, u64),
    Remove(u32),
    AddRoot,
    Request(RequestSpec),
    RemoveRequest(u32),
    Heads(u32, u32),
    HeadDim(u32),
    BlockSize(u32),
    Sample(u32),
    Scheduler(u32),
    Strategy(Strategy),
    Pod(u32),
    Device(u32),
    Tile(Option<(u32, u32)>),
    SplitConstant(f64),
    L2(L2State),
    Undo,
    Redo,
    Clear,
    /// A line of the table of commands.
    Act(u32),
    Panel(u32),
    Node(u32),
    Pack(u32),
}

/// A case of a seed.
pub(crate) fn draw(draw: &mut Draw) -> EditsCase {
    let opening = BatchSpec { schema: SCHEMA, ..batches::spec(draw) };
    let edits = (0..draw.within(1, 12)).map(|_| edit(draw)).collect();
    EditsCase { opening, edits }
}

/// Ranges are those of the fields on the screen; numbers beyond them are for batch files.
fn edit(draw: &mut Draw) -> Edit {
    let at = draw.below(1000) as u32;
    match draw.below(26) {
        0 | 1 => Edit::Tokens(at, draw.pick([1, 31, 32, 64, 320, 4096, 1 << 20])),
        2 => Edit::Repeat(at, draw.pick([1, 2, 3, 5, 10_000])),
        3 => Edit::Ending(at, draw.pick([0, 1, 2, 10_000])),
        4 => Edit::AddChild(at, draw.within(1, 200)),
        5 => Edit::Remove(at),
        6 => Edit::AddRoot,
        7 => Edit::Request(RequestSpec::Decode { kv: 1024, count: 8 }),
        8 => Edit::Request(RequestSpec::Prefill { chunk: draw.within(1, 512), kv: draw.within(512, 4096) }),
        9 => Edit::RemoveRequest(at),
        10 => Edit::Heads(draw.pick([1, 8, 32, 1024]), draw.pick([1, 7, 8, 32])),
        11 => Edit::HeadDim(draw.pick(AttentionShape::HEAD_DIMS)),
        12 => Edit::BlockSize(draw.pick(AttentionShape::BLOCK_SIZES)),
        13 if draw.one_in(3) => Edit::Sample(at),
        13..16 => Edit::Scheduler(at),
        16 | 17 => Edit::Strategy(draw.pick(Strategy::ALL)),
        18 => Edit::Pod(at),
        19 => Edit::Device(at),
        20 => Edit::Tile(draw.one_in(2).then(|| draw.pick([(16, 64), (64, 128), (128, 128), (1, 1), (0, 0)]))),
        21 => Edit::SplitConstant(draw.pick([0.0, 0.1, 1.0, 1e300])),
        22 => draw.pick([Edit::L2(L2State::Warm), Edit::L2(L2State::Cold)].each_ref()).clone(),
        23 => draw.pick([&Edit::Undo, &Edit::Redo, &Edit::Undo, &Edit::Clear]).clone(),
        24 => Edit::Act(at),
        _ => draw.pick([&Edit::Panel(at), &Edit::Node(at), &Edit::Pack(at)]).clone(),
    }
}

/// No GPU, so that what is there on some machine changes nothing.
struct NoGpu;

impl Machine for NoGpu {
    fn find(&self) -> engine::Result<Found> {
        Err(engine::Error::Hardware("the soak uses no GPU".to_owned()))
    }

    fn open(&self, _: Tell, _: &Cancel) -> engine::Result<Box<dyn RunsPlans>> {
        Err(engine::Error::Hardware("the soak uses no GPU".to_owned()))
    }
}

/// The window, and the batch that it should hold.
struct Desk {
    ctx: Context,
    app: App,
    spec: Arc<BatchSpec>,
    undo: Vec<Arc<BatchSpec>>,
    redo: Vec<Arc<BatchSpec>>,
    /// Whether every batch so far could be built. The fields of the batch panel pull figures that cannot be
    /// into their range, and what the window holds is then its own affair.
    strict: bool,
}

/// Opens the window and does all edits; after each every panel that shows is drawn.
pub(crate) fn try_out(case: &EditsCase) -> Tried {
    let ctx = Context::default();
    let opening = Opening::Batch(Box::new(case.opening.clone()));
    let app = App::on(&ctx, opening, Box::new(NoGpu)).map_err(|error| format!("the window does not open: {error}"))?;
    let mut desk =
        Desk { ctx, app, spec: Arc::new(case.opening.clone()), undo: Vec::new(), redo: Vec::new(), strict: true };
    desk.settle()?;
    for edit in &case.edits {
        desk.apply(edit)?;
    }
    Ok(if desk.app.problem().is_some() { Verdict::Refused } else { Verdict::Taken })
}

impl Desk {
    fn apply(&mut self, edit: &Edit) -> Result<(), String> {
        let at = |at: &u32, of: usize| *at as usize % of.max(1);
        let command = match edit {
            Edit::Undo => {
                travel(&mut self.undo, &mut self.redo, &mut self.spec);
                Some(Command::Act(Action::Undo))
            }
            Edit::Redo => {
                travel(&mut self.redo, &mut self.undo, &mut self.spec);
                Some(Command::Act(Action::Redo))
            }
            Edit::Clear => {
                self.replace(BatchSpec::empty(self.spec.shape));
                Some(Command::Act(Action::Clear))
            }
            Edit::Sample(place) => {
                let samples = samples::samples();
                let sample = &samples[at(place, samples.len())];
                let spec = BatchSpec::from_ron(sample.text).map_err(|error| error.to_string())?;
                self.replace(BatchSpec { scene: None, ..spec });
                Some(Command::Sample(sample.key))
            }
            Edit::Scheduler(place) => {
                let schedulers = pack::schedulers();
                Some(Command::Scheduler(schedulers[at(place, schedulers.len())].name().to_owned()))
            }
            Edit::Strategy(strategy) => Some(Command::Strategy(*strategy)),
            Edit::Pod(place) => {
                let all: Vec<PodChoice> = PodChoice::all().collect();
                Some(Command::Pod(all[at(place, all.len())]))
            }
            Edit::Device(place) => {
                let names = hw::names();
                Some(Command::Device(names[at(place, names.len())].to_owned()))
            }
            Edit::Tile(tile) => Some(Command::Tile(tile.map(|(m, n)| Tile { m, n }))),
            Edit::SplitConstant(value) => Some(Command::SplitConstant(*value)),
            Edit::L2(l2) => Some(Command::L2(*l2)),
            Edit::Act(place) => act(COMMANDS[at(place, COMMANDS.len())].action),
            Edit::Panel(place) => panel(Panel::ALL[at(place, Panel::ALL.len())]),
            Edit::Node(node) => Some(Command::Select(Selection::Node(NodeIdx(node % 40)))),
            Edit::Pack(pack) => Some(Command::Select(Selection::Pack(PackIdx(pack % 40)))),
            other => {
                let mut spec = (*self.spec).clone();
                in_batch(other, &mut spec);
                (spec != *self.spec).then(|| {
                    self.replace(spec.clone());
                    Command::Edit(Box::new(spec))
                })
            }
        };
        if let Some(command) = command {
            self.app.send(command);
            self.settle().map_err(|why| format!("after {edit:?}: {why}"))?;
        }
        Ok(())
    }

    fn replace(&mut self, spec: BatchSpec) {
        self.undo.push(std::mem::replace(&mut self.spec, Arc::new(spec)));
        self.redo.clear();
    }

    /// Draws until the engine thread has answered, and holds what is shown against the batch.
    fn settle(&mut self) -> Result<(), String> {
        let start = Instant::now();
        self.strict &= self.spec.build().is_ok();
        self.frame();
        while self.app.is_running() {
            std::thread::sleep(Duration::from_millis(1));
            self.app.logic_pass(&self.ctx);
            if crate::worker::panicked() {
                return Err("the engine thread panicked".to_owned());
            }
            if start.elapsed() > crate::crew::PATIENCE {
                return Err("the engine thread did not answer".to_owned());
            }
        }
        self.frame();
        self.frame();
        if let Some(problem) = self.app.problem() {
            if problem.contains("fault of packscope") {
                return Err(problem.to_owned());
            }
            return readable(problem);
        }
        let Some(shown) = self.app.shown() else { return Err("nothing is shown, and nobody says why".to_owned()) };
        if self.strict && *shown.planned.spec != *self.spec {
            return Err("the window shows another batch than the one that was edited".to_owned());
        }
        shown.simulated.as_ref().map_or(Ok(()), |run| sound(&run.capture))
    }

    fn frame(&mut self) {
        let app = &mut self.app;
        let ctx = self.ctx.clone();
        let mut drawn = ctx.run_ui(input(), |ui| {
            app.logic_pass(ui.ctx());
            app.ui_pass(ui);
        });
        // No screen takes them.
        drawn.textures_delta.clear();
    }
}

fn input() -> RawInput {
    let screen = Rect::from_min_max(pos2(0.0, 0.0), pos2(1600.0, 1000.0));
    RawInput { screen_rect: Some(screen), ..RawInput::default() }
}

fn travel(from: &mut Vec<Arc<BatchSpec>>, to: &mut Vec<Arc<BatchSpec>>, spec: &mut Arc<BatchSpec>) {
    if let Some(before) = from.pop() {
        to.push(std::mem::replace(spec, before));
    }
}

/// Commands that open a file dialog, change the batch behind the desk, or want a GPU are left out.
fn act(action: Action) -> Option<Command> {
    let outside = [Action::Open, Action::Save, Action::Clear, Action::Undo, Action::Redo, Action::RunGpu];
    (!outside.contains(&action)).then_some(Command::Act(action))
}

/// The panel of comparison runs every way at once, which is a soak of its own.
fn panel(panel: Panel) -> Option<Command> {
    (panel != Panel::Compare).then_some(Command::Show(panel))
}

fn in_batch(edit: &Edit, spec: &mut BatchSpec) {
    let block = u64::from(spec.shape.block_size).max(1);
    match edit {
        Edit::Heads(query, kv) => (spec.shape.query_heads, spec.shape.kv_heads) = (*query, *kv),
        Edit::HeadDim(dim) => spec.shape.head_dim = *dim,
        Edit::BlockSize(size) => spec.shape.block_size = *size,
        Edit::AddRoot => {
            let leaf = NodeSpec { repeat: 8, ..NodeSpec::leaf(block * 4) };
            spec.roots.push(NodeSpec { children: vec![leaf], ..NodeSpec::leaf(block * 16) });
        }
        Edit::Request(request) => spec.requests.push(request.clone()),
        Edit::RemoveRequest(at) if !spec.requests.is_empty() => {
            let at = *at as usize % spec.requests.len();
            spec.requests.remove(at);
        }
        Edit::Tokens(at, tokens) => with_node(spec, *at, |node| {
            node.tokens = if node.children.is_empty() { *tokens } else { tokens.next_multiple_of(block) };
        }),
        Edit::Repeat(at, repeat) => with_node(spec, *at, |node| node.repeat = *repeat),
        Edit::Ending(at, ending) => with_node(spec, *at, |node| node.requests = Some(*ending)),
        Edit::AddChild(at, tokens) => with_node(spec, *at, |node| {
            node.tokens = node.tokens.saturating_add(block - 1) / block * block;
            node.requests = node.requests.filter(|_| !node.children.is_empty());
            node.children.push(NodeSpec::leaf(*tokens));
        }),
        Edit::Remove(at) => remove(spec, *at),
        _ => {}
    }
}

/// Changes a node, counted depth first.
fn with_node(spec: &mut BatchSpec, at: u32, change: impl FnOnce(&mut NodeSpec)) {
    fn find<'a>(nodes: &'a mut [NodeSpec], left: &mut usize) -> Option<&'a mut NodeSpec> {
        for node in nodes {
            if *left == 0 {
                return Some(node);
            }
            *left -= 1;
            if let Some(found) = find(&mut node.children, left) {
                return Some(found);
            }
        }
        None
    }
    let mut left = at as usize % count(&spec.roots).max(1);
    if let Some(node) = find(&mut spec.roots, &mut left) {
        change(node);
    }
}

fn count(nodes: &[NodeSpec]) -> usize {
    nodes.iter().map(|node| 1 + count(&node.children)).sum()
}

/// Removes a child of a node, or a root.
fn remove(spec: &mut BatchSpec, at: u32) {
    if at.is_multiple_of(3) && !spec.roots.is_empty() {
        let at = at as usize % spec.roots.len();
        spec.roots.remove(at);
    } else {
        with_node(spec, at, |node| drop(node.children.pop()));
    }
}
