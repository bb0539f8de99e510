//! Around the panels: run controls, menus, banner, palette, key list and the file prompt.

use std::path::PathBuf;

use egui::{Align2, ComboBox, Context, RichText, ScrollArea, Ui};
use engine::capture::L2State;
use engine::pack;
use engine::plan::Strategy;
use engine::plan::hybrid::{PodChoice, has_kernels};

use crate::jobs::machine::Found;
use crate::jobs::state::Work;
use crate::runs::shown::Sources;
use crate::window::command::Command;
use crate::window::commands::table::{Action, COMMANDS, Entry, GROUPS, RUN_GPU};
use crate::window::frame::Frame;
use crate::window::panel::Panel;

/// What the top bar and the banner say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Status<'a> {
    /// What the engine thread is at.
    pub(super) work: Work,
    pub(super) problem: Option<&'a str>,
    /// Names of the steps that undo and redo travel over.
    pub(super) undoes: Option<&'a str>,
    pub(super) redoes: Option<&'a str>,
    /// Why nothing can run on the GPU.
    pub(super) blocked: Option<&'a str>,
    /// What a run on the GPU is at.
    pub(super) measuring: Option<&'a str>,
    pub(super) gpu_problem: Option<&'a str>,
    pub(super) gpu: Option<&'a Found>,
    pub(super) repeats: u32,
    pub(super) l2: L2State,
}

impl Status<'_> {
    /// The name of an entry, undo and redo with what they travel over, and whether it can be chosen.
    fn entry(&self, entry: &Entry) -> (String, bool) {
        let step = match entry.action {
            Action::Undo => self.undoes,
            Action::Redo => self.redoes,
            _ => return (entry.name.to_owned(), true),
        };
        (step.map_or_else(|| entry.name.to_owned(), |step| format!("{} {step}", entry.name)), step.is_some())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asking {
    Open,
    Save,
    Picture,
}

impl Asking {
    fn title(self) -> &'static str {
        match self {
            Self::Open => "Open a batch or device (.ron) or a capture (.pscope)",
            Self::Save => "Save the batch",
            Self::Picture => "Export the timeline as a picture (.svg or .png)",
        }
    }

    fn verb(self) -> &'static str {
        if self == Self::Open { "Open" } else { "Save" }
    }

    fn command(self, path: PathBuf) -> Command {
        match self {
            Self::Open => Command::OpenPath(path),
            Self::Save => Command::SavePath(path),
            Self::Picture => Command::SavePicture(path),
        }
    }
}

/// Windows over the panels.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The key list is shown.
    pub(super) keys: bool,
    palette: Option<String>,
    asking: Option<Asking>,
    path: String,
    picked: Option<Command>,
}

impl State {
    pub(super) fn toggle_palette(&mut self) {
        self.palette = if self.palette.is_some() { None } else { Some(String::new()) };
    }

    pub(super) fn ask_open(&mut self) {
        self.asking = Some(Asking::Open);
    }

    pub(super) fn ask_save(&mut self, name: &str) {
        self.path = format!("{}.ron", plain(name));
        self.asking = Some(Asking::Save);
    }

    pub(super) fn ask_picture(&mut self, name: &str) {
        self.path = format!("{}.svg", plain(name));
        self.asking = Some(Asking::Picture);
    }

    /// The file that was chosen, once.
    pub(super) fn take_picked(&mut self) -> Option<Command> {
        self.picked.take()
    }

    /// Closes what is open; false if nothing was.
    pub(super) fn close(&mut self) -> bool {
        let open = self.keys || self.palette.is_some() || self.asking.is_some();
        (self.keys, self.palette, self.asking) = (false, None, None);
        open
    }
}

/// A name as files have them.
fn plain(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    if name.is_empty() { "batch".to_owned() } else { name.chars().map(letter).collect() }
}

/// Menus and run controls.
pub(super) fn top(ui: &mut Ui, frame: &Frame<'_>, status: &Status<'_>) {
    let margin = egui::Frame::new().fill(frame.tokens.panel).inner_margin(egui::Margin::symmetric(8, 5));
    egui::Panel::top("top").frame(margin).show(ui, |ui| {
        ui.horizontal_wrapped(|ui| {
            ui.label(RichText::new("packscope").strong().color(frame.tokens.accent));
            menus(ui, frame, status);
            ui.separator();
            choices(ui, frame, status);
            ui.separator();
            controls(ui, frame, status);
        });
    });
}

fn menus(ui: &mut Ui, frame: &Frame<'_>, status: &Status<'_>) {
    for group in GROUPS {
        ui.menu_button(group, |ui| {
            for entry in COMMANDS.iter().filter(|entry| entry.group == group) {
                let blocked = status.blocked.filter(|_| entry.action == Action::RunGpu);
                let (name, possible) = status.entry(entry);
                let enabled = blocked.is_none() && possible;
                let button = egui::Button::new(name).shortcut_text(entry.keys_text(ui.ctx()));
                if ui.add_enabled(enabled, button).on_disabled_hover_text(blocked.unwrap_or_default()).clicked() {
                    frame.send(Command::Act(entry.action));
                }
            }
            if group == "View" {
                ui.separator();
                for panel in Panel::ALL {
                    if ui.button(panel.title()).clicked() {
                        frame.send(Command::Show(panel));
                    }
                }
            }
        });
    }
}

/// Which way of POD's kernel.
fn pod(ui: &mut Ui, frame: &Frame<'_>) {
    let label = ui.label(RichText::new("POD").color(frame.tokens.faint)).id;
    let combo = ComboBox::from_id_salt("pod").selected_text(frame.options.pod.name()).width(110.0);
    let shown = combo.show_ui(ui, |ui| {
        for choice in PodChoice::all() {
            let chosen = frame.options.pod == choice;
            if ui.selectable_label(chosen, choice.name()).on_hover_text(choice.about()).clicked() {
                frame.send(Command::Pod(choice));
            }
        }
    });
    shown.response.labelled_by(label);
}

fn choices(ui: &mut Ui, frame: &Frame<'_>, status: &Status<'_>) {
    let options = frame.options;
    let combo =
        |id: &str, shown: &str, width: f32| ComboBox::from_id_salt(id).selected_text(shown.to_owned()).width(width);
    let label = ui.label(RichText::new("scheduler").color(frame.tokens.faint)).id;
    let shown = combo("scheduler", &options.scheduler, 100.0).show_ui(ui, |ui| {
        for scheduler in pack::schedulers() {
            let chosen = options.scheduler == scheduler.name();
            if ui.selectable_label(chosen, scheduler.name()).on_hover_text(scheduler.about()).clicked() {
                frame.send(Command::Scheduler(scheduler.name().to_owned()));
            }
        }
    });
    shown.response.labelled_by(label);
    ui.label(RichText::new("strategy").color(frame.tokens.faint));
    for strategy in Strategy::ALL {
        let chosen = options.strategy == strategy;
        let takes = frame.spec.is_hybrid() && has_kernels(&options.device, strategy);
        if !chosen && !takes && !Strategy::ANY_BATCH.contains(&strategy) {
            continue;
        }
        if ui.selectable_label(chosen, strategy.name()).on_hover_text(strategy.about()).clicked() && !chosen {
            frame.send(Command::Strategy(strategy));
        }
    }
    if options.strategy == Strategy::Fused && frame.spec.is_hybrid() {
        pod(ui, frame);
    }
    let label = ui.label(RichText::new("device").color(frame.tokens.faint)).id;
    let shown = combo("device", &options.device.name, 150.0).show_ui(ui, |ui| {
        let found = status.gpu.and_then(|found| found.device.as_ref());
        let others = found.into_iter().filter(|device| engine::hw::find(&device.key).is_err());
        for device in engine::hw::builtin().iter().chain(others) {
            if ui.selectable_label(options.device.key == device.key, &device.name).clicked() {
                frame.send(Command::Device(device.key.clone()));
            }
        }
    });
    shown.response.labelled_by(label);
    let label = ui.label(RichText::new("tile").color(frame.tokens.faint)).id;
    let tile = options.tile.map_or_else(|| "by rule".to_owned(), |tile| tile.to_string());
    let shown = combo("tile", &tile, 74.0).show_ui(ui, |ui| {
        if ui.selectable_label(options.tile.is_none(), "by rule").clicked() {
            frame.send(Command::Tile(None));
        }
        let tiles = frame.shown.map(|shown| shown.planned.tiles.feasible()).unwrap_or_default();
        for tile in tiles {
            if ui.selectable_label(options.tile == Some(*tile), tile.to_string()).clicked() {
                frame.send(Command::Tile(Some(*tile)));
            }
        }
    });
    shown.response.labelled_by(label);
    if options.scheduler == "pat" {
        let mut value = options.pack.split_constant;
        let drag = egui::DragValue::new(&mut value)
            .clamp_existing_to_range(false)
            .range(0.01..=1000.0)
            .speed(0.05)
            .prefix("split ");
        if ui
            .add(drag)
            .on_hover_text("a child is split off when this × its requests is below its parent's tokens")
            .changed()
        {
            frame.send(Command::SplitConstant(value));
        }
    }
}

fn controls(ui: &mut Ui, frame: &Frame<'_>, status: &Status<'_>) {
    l2(ui, frame, status);
    ui.label(RichText::new("simulator").color(frame.tokens.faint));
    if ui.button("Run").clicked() {
        frame.send(Command::Act(Action::Run));
    }
    measured(ui, frame, status);
    let busy = status.work != Work::Idle || status.measuring.is_some();
    if ui.add_enabled(busy, egui::Button::new("Cancel")).clicked() {
        frame.send(Command::Act(Action::Cancel));
    }
    match status.work {
        Work::Idle => {}
        Work::Planning(_) | Work::Matching(_) => _ = ui.spinner(),
        Work::Comparing { done, of, .. } => {
            let share = done as f32 / of.max(1) as f32;
            ui.add(egui::ProgressBar::new(share).desired_width(90.0).text(format!("{done} of {of}")));
        }
    }
    if let Some(line) = status.measuring {
        ui.spinner();
        ui.label(RichText::new(format!("GPU: {line}")).color(frame.tokens.accent));
    }
}

/// State of L2 before a run, on the simulator and on the GPU.
fn l2(ui: &mut Ui, frame: &Frame<'_>, status: &Status<'_>) {
    ui.label(RichText::new("L2").color(frame.tokens.faint));
    for (state, about) in [
        (L2State::Cold, "nothing of the batch is in L2 when a run begins, simulated or measured"),
        (L2State::Warm, "L2 holds what the run before left, simulated or measured"),
    ] {
        let chosen = status.l2 == state;
        if ui.selectable_label(chosen, state.name()).on_hover_text(about).clicked() && !chosen {
            frame.send(Command::L2(state));
        }
    }
}

/// Run on the GPU, with its repeats; disabled with the reason where it cannot be.
fn measured(ui: &mut Ui, frame: &Frame<'_>, status: &Status<'_>) {
    let button = ui.add_enabled(status.blocked.is_none(), egui::Button::new(RUN_GPU));
    let button = match status.gpu {
        Some(found) => button.on_hover_text(format!("measure the plan on {}", found.name)),
        None => button,
    };
    if button.on_disabled_hover_text(status.blocked.unwrap_or_default()).clicked() {
        frame.send(Command::Act(Action::RunGpu));
    }
    let mut repeats = status.repeats;
    let drag = egui::DragValue::new(&mut repeats).range(1..=1000).speed(0.2).suffix(" repeats");
    if ui.add_enabled(status.gpu.is_some(), drag).on_hover_text("runs on the GPU to take the median of").changed() {
        frame.send(Command::Repeats(repeats));
    }
}

/// What went wrong, and that what is on the screen is older.
pub(super) fn banner(ui: &mut Ui, frame: &Frame<'_>, status: &Status<'_>) {
    measured_banner(ui, frame, status);
    damage_banner(ui, frame);
    let Some(problem) = status.problem else { return };
    let fill = crate::theme::mix(frame.tokens.panel, frame.tokens.error, 0.16);
    let margin = egui::Frame::new().fill(fill).inner_margin(egui::Margin::symmetric(10, 6));
    egui::Panel::top("banner").frame(margin).show(ui, |ui| {
        ui.horizontal_wrapped(|ui| {
            ui.label(RichText::new(problem).color(frame.tokens.error).strong());
            if frame.stale && frame.shown.is_some() {
                ui.label("The views show the last batch that worked.");
            }
        });
    });
}

/// What a run on the GPU failed with; all else goes on.
fn measured_banner(ui: &mut Ui, frame: &Frame<'_>, status: &Status<'_>) {
    let Some(problem) = status.gpu_problem else { return };
    let fill = crate::theme::mix(frame.tokens.panel, frame.tokens.error, 0.16);
    let margin = egui::Frame::new().fill(fill).inner_margin(egui::Margin::symmetric(10, 6));
    egui::Panel::top("GPU banner").frame(margin).show(ui, |ui| {
        ui.horizontal_wrapped(|ui| {
            ui.label(RichText::new(problem).color(frame.tokens.error).strong());
            ui.label("Batch, plan and simulation are as they were; the next run opens the GPU anew.");
            if ui.small_button("×").on_hover_text("take this line away").clicked() {
                frame.send(Command::DropProblem);
            }
        });
    });
}

/// What the file of the shown capture had lost, for as long as it is shown.
fn damage_banner(ui: &mut Ui, frame: &Frame<'_>) {
    let missing: Vec<&str> = frame
        .shown
        .into_iter()
        .flat_map(|shown| shown.runs(Sources::Both))
        .flat_map(|run| run.damage.missing())
        .map(String::as_str)
        .collect();
    let Some((first, more)) = missing.split_first() else { return };
    let fill = crate::theme::mix(frame.tokens.panel, frame.tokens.warn, 0.16);
    let margin = egui::Frame::new().fill(fill).inner_margin(egui::Margin::symmetric(10, 6));
    egui::Panel::top("damage banner").frame(margin).show(ui, |ui| {
        ui.horizontal_wrapped(|ui| {
            let text = format!("This capture is damaged; it lacks {first}.");
            ui.label(RichText::new(text).color(frame.tokens.warn).strong());
            if !more.is_empty() {
                ui.label(format!("And {} more; the log has them.", more.len())).on_hover_text(more.join("\n"));
            }
            ui.label(format!("Figures that this makes untrue stand as {}.", crate::runs::damage::UNKNOWN));
        });
    });
}

/// Palette, key list and file prompt.
pub(super) fn windows(ui: &Ui, frame: &Frame<'_>, state: &mut State) {
    let ctx = ui.ctx().clone();
    keys(&ctx, state);
    palette(&ctx, frame, state);
    prompt(&ctx, state);
}

fn keys(ctx: &Context, state: &mut State) {
    let mut open = state.keys;
    egui::Window::new("All keys").open(&mut open).anchor(Align2::CENTER_CENTER, [0.0, 0.0]).resizable(false).show(
        ctx,
        |ui| {
            egui::Grid::new("keys").num_columns(3).striped(true).spacing([24.0, 4.0]).show(ui, |ui| {
                for entry in COMMANDS.iter().filter(|entry| entry.keys.is_some()) {
                    ui.label(entry.group);
                    ui.label(entry.name);
                    ui.monospace(entry.keys_text(ui.ctx()));
                    ui.end_row();
                }
                for (input, what) in [
                    ("Ctrl+wheel", "zoom at the pointer"),
                    ("Shift+wheel", "pan"),
                    ("Ctrl+Shift+wheel", "taller or lower lanes"),
                    ("drag", "range with statistics"),
                    ("middle drag", "zoom to range"),
                    ("double click", "zoom to CTA, or fit"),
                ] {
                    ui.label("Timeline");
                    ui.label(what);
                    ui.monospace(input);
                    ui.end_row();
                }
            });
        },
    );
    state.keys = open;
}

fn palette(ctx: &Context, frame: &Frame<'_>, state: &mut State) {
    let Some(text) = &mut state.palette else { return };
    let mut done = false;
    egui::Window::new("Command")
        .anchor(Align2::CENTER_TOP, [0.0, 90.0])
        .fixed_size([420.0, 320.0])
        .collapsible(false)
        .show(ctx, |ui| {
            let edit =
                ui.add(egui::TextEdit::singleline(text).hint_text("type a command").desired_width(f32::INFINITY));
            edit.request_focus();
            let wanted = text.to_lowercase();
            let enter = ui.input(|input| input.key_pressed(egui::Key::Enter));
            let fits = |name: &str| {
                let name = name.to_lowercase();
                wanted.split_whitespace().all(|word| name.contains(word))
            };
            let found = COMMANDS.iter().filter(|entry| fits(&format!("{} {}", entry.group, entry.name)));
            let panels = Panel::ALL.into_iter().filter(|panel| fits(&format!("show {}", panel.title())));
            ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
                let commands =
                    found.map(|entry| (entry.name.to_owned(), entry.keys_text(ui.ctx()), Command::Act(entry.action)));
                let shows =
                    panels.map(|panel| (format!("Show {}", panel.title()), String::new(), Command::Show(panel)));
                let all: Vec<_> = commands.chain(shows).collect();
                for (at, (name, keys, command)) in all.into_iter().enumerate() {
                    let button =
                        egui::Button::new(name).shortcut_text(keys).selected(at == 0).min_size(egui::vec2(400.0, 0.0));
                    if ui.add(button).clicked() || (enter && at == 0) {
                        frame.send(command);
                        done = true;
                    }
                }
            });
        });
    if done {
        state.palette = None;
    }
}

fn prompt(ctx: &Context, state: &mut State) {
    let Some(asking) = state.asking else { return };
    let mut chosen: Option<PathBuf> = None;
    let mut close = false;
    egui::Window::new(asking.title())
        .anchor(Align2::CENTER_CENTER, [0.0, 0.0])
        .collapsible(false)
        .resizable(false)
        .show(ctx, |ui| {
            let edit = ui.add(egui::TextEdit::singleline(&mut state.path).hint_text("path").desired_width(460.0));
            ui.horizontal(|ui| {
                let enter = edit.lost_focus() && ui.input(|input| input.key_pressed(egui::Key::Enter));
                if ui.button(asking.verb()).clicked() || enter {
                    chosen = Some(PathBuf::from(state.path.trim()));
                }
                if ui.button("Browse…").on_hover_text("the desktop's own dialog, where it has one").clicked() {
                    let dialog = rfd::FileDialog::new().set_file_name(if asking == Asking::Open {
                        ""
                    } else {
                        state.path.as_str()
                    });
                    chosen = if asking == Asking::Open { dialog.pick_file() } else { dialog.save_file() };
                }
                close = ui.button("Close").clicked();
            });
        });
    if let Some(path) = chosen {
        state.picked = Some(asking.command(path));
        close = true;
    }
    if close {
        state.asking = None;
    }
}
