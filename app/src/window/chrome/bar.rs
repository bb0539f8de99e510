//! The run controls: scheduler, strategy, device, tile, and running.

use egui::{ComboBox, RichText, Ui};
use engine::capture::L2State;
use engine::plan::Strategy;
use engine::plan::hybrid::PodChoice;

use super::offers::{self, Offer};
use super::status::Status;
use crate::jobs::state::Work;
use crate::window::command::Command;
use crate::window::commands::table::{Action, RUN_GPU};
use crate::window::frame::Frame;

/// A list to choose from behind its name.
fn combo(ui: &mut Ui, frame: &Frame<'_>, (name, shown, width): (&str, &str, f32), offers: impl FnOnce() -> Vec<Offer>) {
    let label = ui.label(RichText::new(name).color(frame.tokens.faint)).id;
    let combo = ComboBox::from_id_salt(name).selected_text(shown).width(width);
    let opened = combo.show_ui(ui, |ui| {
        for offer in offers() {
            let label = ui.selectable_label(offer.chosen, &offer.name);
            let label = if offer.about.is_empty() { label } else { label.on_hover_text(&offer.about) };
            if label.clicked() {
                frame.send(offer.command);
            }
        }
    });
    opened.response.labelled_by(label);
}

pub(super) fn choices(ui: &mut Ui, frame: &Frame<'_>, status: &Status<'_>) {
    let options = frame.options;
    let (scheduler, strategy) = frame.taken();
    let auto = |auto: bool, name: &str| if auto { format!("auto: {name}") } else { name.to_owned() };
    let shown = auto(options.auto.scheduler, scheduler);
    combo(ui, frame, ("scheduler", &shown, 130.0), || offers::schedulers(frame));
    let shown = auto(options.auto.strategy, strategy.name());
    combo(ui, frame, ("strategy", &shown, 120.0), || offers::strategies(frame));
    if strategy == Strategy::Fused && frame.spec.is_hybrid() {
        combo(ui, frame, ("POD", options.pod.name(), 110.0), || pods(frame));
    }
    combo(ui, frame, ("device", &options.device.name, 150.0), || offers::devices(frame, status));
    let tile = options.tile.map_or_else(|| "by rule".to_owned(), |tile| tile.to_string());
    combo(ui, frame, ("tile", &tile, 74.0), || tiles(frame));
    if scheduler == "pat" {
        let mut value = options.pack.split_constant;
        let drag = egui::DragValue::new(&mut value)
            .clamp_existing_to_range(false)
            .range(0.01..=1000.0)
            .speed(0.05)
            .prefix("split ");
        let about = "a child is split off when this × its requests is below its parent's tokens";
        if ui.add(drag).on_hover_text(about).changed() {
            frame.send(Command::SplitConstant(value));
        }
    }
}

/// Ways of POD's kernel.
fn pods(frame: &Frame<'_>) -> Vec<Offer> {
    let offer = |choice: PodChoice| Offer {
        name: choice.name().to_owned(),
        about: choice.about().to_owned(),
        chosen: frame.options.pod == choice,
        command: Command::Pod(choice),
    };
    PodChoice::all().map(offer).collect()
}

/// The rule, then each feasible tile.
fn tiles(frame: &Frame<'_>) -> Vec<Offer> {
    let feasible = frame.shown.map(|shown| shown.planned.tiles.feasible()).unwrap_or_default();
    let all = std::iter::once(None).chain(feasible.iter().copied().map(Some));
    all.map(|tile| Offer {
        name: tile.map_or_else(|| "by rule".to_owned(), |tile| tile.to_string()),
        about: String::new(),
        chosen: frame.options.tile == tile,
        command: Command::Tile(tile),
    })
    .collect()
}

pub(super) fn controls(ui: &mut Ui, frame: &Frame<'_>, status: &Status<'_>) {
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
        // A word, since what moves is drawn in every frame, and where the CPU draws, that takes from the plan.
        Work::Planning(_) | Work::Matching(_) if status.slow => {
            ui.label(RichText::new("planning…").color(frame.tokens.accent));
        }
        Work::Idle | Work::Planning(_) | Work::Matching(_) => {}
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
