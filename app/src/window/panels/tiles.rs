//! The (m, n) grid of the device: which tiles it runs well, and which constraint each other one fails, with the figures.

use egui::{RichText, ScrollArea, Sense, Stroke, StrokeKind, Ui, vec2};
use engine::pack::Forced;
use engine::plan::PlannedPack;
use engine::tile::{Constraint, Feasibility, Tile, TileSet};
use engine::units::counted;

use crate::runs::shown::Shown;
use crate::theme::mix;
use crate::timeline::colour::tile_colour;
use crate::window::command::Command;
use crate::window::frame::Frame;
use crate::window::panels::parts::{empty, figure};

/// Size of a cell.
const CELL: egui::Vec2 = vec2(92.0, 46.0);

/// The cell whose figures are shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct State {
    picked: Option<Tile>,
}

/// Draws the panel.
pub fn show(ui: &mut Ui, frame: &Frame<'_>, state: &mut State) {
    let Some(shown) = frame.shown else { return empty(ui, frame.tokens, "Planning…") };
    let set = &shown.planned.tiles;
    let of_pack = frame.selected.pack.and_then(|pack| shown.planned.plan.packs.get(pack.at())).map(|pack| pack.tile);
    let picked = state.picked.or(of_pack).or_else(|| set.feasible().last().copied());
    let cell = picked.and_then(|tile| set.cell(tile));
    device(ui, frame, shown, cell.filter(|cell| cell.is_feasible()));
    ScrollArea::both().auto_shrink(false).show(ui, |ui| {
        grid(ui, frame, shown, state);
        if let Some(cell) = cell {
            figures(ui, frame, shown, cell);
        }
    });
}

fn device(ui: &mut Ui, frame: &Frame<'_>, shown: &Shown, picked: Option<&Feasibility>) {
    let (options, shape) = (&frame.options, &shown.planned.batch.shape);
    ui.horizontal_wrapped(|ui| {
        let label = ui.label("tiles of").id;
        if frame.is_picture {
            ui.label(&options.device.name);
        } else {
            let combo = egui::ComboBox::from_id_salt("device of the tiles").selected_text(&options.device.name);
            let combo = combo.show_ui(ui, |ui| {
                for device in engine::hw::builtin() {
                    if ui.selectable_label(device.key == options.device.key, &device.name).clicked() {
                        frame.send(Command::Device(device.key.clone()));
                    }
                }
            });
            combo.response.labelled_by(label);
        }
        let feasible = shown.planned.tiles.feasible().len();
        let text = format!(
            "head dimension {}, {} · {} of {} feasible · m: query rows, n: KV tokens a step",
            shape.head_dim,
            shape.dtype.name(),
            feasible,
            shown.planned.tiles.cells.len()
        );
        ui.label(RichText::new(text).color(frame.tokens.faint));
    });
    ui.horizontal_wrapped(|ui| {
        match options.tile {
            Some(tile) => {
                ui.label(RichText::new(format!("every pack has {tile}")).color(frame.tokens.warn));
                if !frame.is_picture && ui.small_button("leave it to the rule").clicked() {
                    frame.send(Command::Tile(None));
                }
            }
            None => _ = ui.label(RichText::new("each pack has the tile of its rule").color(frame.tokens.faint)),
        }
        if let Some(cell) = picked.filter(|_| !frame.is_picture) {
            take(ui, frame, shown, cell);
        }
    });
}

/// Sizes along one side of the grid, in order.
fn sizes(set: &TileSet, of: impl Fn(Tile) -> u32) -> Vec<u32> {
    let mut all: Vec<u32> = set.cells.iter().map(|cell| of(cell.tile)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn grid(ui: &mut Ui, frame: &Frame<'_>, shown: &Shown, state: &mut State) {
    let set = &shown.planned.tiles;
    let columns = sizes(set, |tile| tile.n);
    egui::Grid::new("tiles").spacing(vec2(3.0, 3.0)).show(ui, |ui| {
        ui.label(RichText::new("m \\ n").color(frame.tokens.faint));
        for n in &columns {
            ui.label(RichText::new(n.to_string()).color(frame.tokens.faint));
        }
        ui.end_row();
        for m in sizes(set, |tile| tile.m) {
            ui.label(RichText::new(m.to_string()).color(frame.tokens.faint));
            for n in &columns {
                match set.cell(Tile { m, n: *n }) {
                    Some(cell) => tile(ui, frame, shown, cell, state),
                    None => _ = ui.label(""),
                }
            }
            ui.end_row();
        }
    });
}

/// The constraint in full; the font has no circled digits.
fn plain(constraint: Constraint) -> &'static str {
    constraint.about().trim_start_matches(|letter: char| !letter.is_ascii_alphabetic())
}

/// The constraint in a word or two, for a cell.
fn short(constraint: Constraint) -> &'static str {
    match constraint {
        Constraint::SharedMemory => "shared memory",
        Constraint::Registers => "registers",
        Constraint::BytesInFlight => "bytes in flight",
        Constraint::MmaMinimum => "MMA minimum",
        Constraint::Overlap => "overlap",
        Constraint::Joined => "joined packs",
    }
}

fn tile(ui: &mut Ui, frame: &Frame<'_>, shown: &Shown, cell: &Feasibility, state: &mut State) {
    let t = frame.tokens;
    let (place, response) = ui.allocate_exact_size(CELL, Sense::click());
    let packs = shown.planned.plan.packs.iter().filter(|pack| pack.tile == cell.tile).count() as u64;
    let hue = tile_colour(t, cell.tile);
    let fill = match (cell.is_feasible(), packs) {
        (true, 0) => mix(t.canvas, hue, 0.25),
        (true, _) => mix(t.canvas, hue, 0.75),
        (false, _) => t.canvas,
    };
    ui.painter().rect_filled(place, 3.0, fill);
    if state.picked == Some(cell.tile) {
        ui.painter().rect_stroke(place, 3.0, Stroke::new(2.0, t.accent), StrokeKind::Inside);
    }
    let first = match cell.failed.first() {
        Some(failed) => short(*failed).to_owned(),
        None => format!("{} an SM", counted(u64::from(cell.ctas_per_sm), "CTA")),
    };
    let second = if packs > 0 { counted(packs, "pack") } else { cell.in_flight.to_string() };
    let colour = if cell.is_feasible() { t.on(fill) } else { t.faint };
    for (text, dy) in [(cell.tile.to_string(), -13.0), (first, 1.0), (second, 14.0)] {
        let at = place.center() + vec2(0.0, dy);
        ui.painter().text(at, egui::Align2::CENTER_CENTER, text, egui::FontId::proportional(10.5), colour);
    }
    let verdict = cell.failed.first().map_or("feasible", |failed| plain(*failed));
    let name = format!("tile {}: {verdict}", cell.tile);
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, name.clone()));
    if response.on_hover_text(verdict).clicked() {
        state.picked = Some(cell.tile);
    }
}

/// The figures of one tile, and the constraints with theirs.
fn figures(ui: &mut Ui, frame: &Frame<'_>, shown: &Shown, cell: &Feasibility) {
    let device = &shown.planned.options.device;
    let t = frame.tokens;
    ui.set_max_width(420.0);
    ui.separator();
    ui.label(RichText::new(format!("Tile {}", cell.tile)).strong());
    let registers = if cell.registers_estimated { "a bound of ours" } else { "compiler" };
    figure(ui, t, "warps", &cell.warps.to_string(), "derived");
    figure(
        ui,
        t,
        "registers of a thread",
        &format!("{} of {}", cell.registers, device.registers_per_thread),
        registers,
    );
    figure(ui, t, "shared memory of a CTA", &format!("{} of {}", cell.shared, device.shared_per_cta), "derived");
    figure(ui, t, "CTAs an SM", &cell.ctas_per_sm.to_string(), "derived");
    figure(
        ui,
        t,
        "bytes in flight of an SM",
        &format!("{}, needs {}", cell.in_flight, cell.in_flight_needed),
        "derived",
    );
    for failed in &cell.failed {
        ui.add(egui::Label::new(RichText::new(plain(*failed)).color(t.warn)).wrap());
    }
}

/// Takes a tile for every pack, or for the one that is selected.
fn take(ui: &mut Ui, frame: &Frame<'_>, shown: &Shown, cell: &Feasibility) {
    if ui.button(format!("Use {} for every pack", cell.tile)).clicked() {
        frame.send(Command::Tile(Some(cell.tile)));
    }
    let plan = &shown.planned.plan;
    let selected = frame.selected.pack.and_then(|at| Some((at, plan.packs.get(at.at())?)));
    // A shorter tile would cut the pack, and that is for the scheduler.
    let holds = |pack: &PlannedPack| pack.queries_len * plan.shape.group() <= cell.tile.m;
    if let Some((pack, _)) = selected.filter(|(_, pack)| holds(pack))
        && ui.button(format!("Use {} for pack {}", cell.tile, pack.0)).clicked()
    {
        frame.send(Command::Force(Forced::Tile { pack, tile: cell.tile }));
    }
}
