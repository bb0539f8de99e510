//! The panels. Each gets a read-only frame, its own state and a way to send commands.

pub mod batch;
pub mod compare;
pub mod differences;
pub mod figures;
pub mod inspector;
pub mod log;
pub mod memory;
pub mod packs;
pub mod roofline;
pub mod timeline;
pub mod traffic;
pub mod tree;

use std::cell::RefCell;

use egui::{Color32, RichText, Ui};
use engine::plan::LaunchPlan;
use engine::session::PlanOptions;
use engine::units::{Nanos, PackIdx};
use engine::workload::BatchSpec;

use super::command::Command;
use super::lanes::Entity;
use super::measuring::Measurement;
use super::selection::{Lit, Selection};
use super::theme::Tokens;
use super::worker::{Compared, Shown};

/// A panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Panel {
    /// The batch, edited.
    Batch,
    /// The prefix tree.
    Tree,
    /// The packs.
    Packs,
    /// CTAs over time.
    Timeline,
    /// Bytes.
    Traffic,
    /// CTAs, L2 and DRAM, modelled and measured.
    Memory,
    /// Work against bytes.
    Roofline,
    /// Ways of running side by side.
    Compare,
    /// Measured and simulated run, CTA by CTA.
    Differences,
    /// The selection in full.
    Inspector,
    /// Warnings, errors, times.
    Log,
}

impl Panel {
    /// All of them, in the order of menus.
    pub const ALL: [Self; 11] = [
        Self::Batch,
        Self::Tree,
        Self::Packs,
        Self::Timeline,
        Self::Traffic,
        Self::Memory,
        Self::Roofline,
        Self::Compare,
        Self::Differences,
        Self::Inspector,
        Self::Log,
    ];

    /// Title.
    pub fn title(self) -> &'static str {
        match self {
            Self::Batch => "Batch",
            Self::Tree => "Prefix tree",
            Self::Packs => "Packs",
            Self::Timeline => "Timeline",
            Self::Traffic => "Traffic",
            Self::Memory => "Memory",
            Self::Roofline => "Roofline",
            Self::Compare => "Compare",
            Self::Differences => "Differences",
            Self::Inspector => "Inspector",
            Self::Log => "Log",
        }
    }
}

/// How loud a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// For the record.
    Info,
    /// Something to know.
    Warning,
    /// Something failed.
    Error,
}

/// Everything that a panel may read in one frame.
#[derive(Debug)]
pub struct Frame<'a> {
    /// The batch as edited.
    pub spec: &'a BatchSpec,
    /// What it is planned with.
    pub options: &'a PlanOptions,
    /// The last good plan and run.
    pub shown: Option<&'a Shown>,
    /// Whether that is older than the batch as edited.
    pub stale: bool,
    /// Ways side by side.
    pub compared: &'a [Compared],
    /// Measured runs of this and of earlier plans, newest last.
    pub kept: &'a [Measurement],
    /// The selection.
    pub selected: Lit,
    /// What the pointer was on in the last frame.
    pub hovered: Lit,
    /// CTAs coloured by tile instead of by pack.
    pub by_tile: bool,
    /// Log lines.
    pub log: &'a [(Level, String)],
    /// Colours.
    pub tokens: &'static Tokens,
    /// Commands of this frame.
    pub commands: &'a RefCell<Vec<Command>>,
}

impl Frame<'_> {
    /// Sends a command to the logic pass.
    pub fn send(&self, command: Command) {
        self.commands.borrow_mut().push(command);
    }

    /// Selects on click, hovers under the pointer.
    pub fn link(&self, response: &egui::Response, what: Selection) {
        if response.clicked() {
            self.send(Command::Select(what));
        }
        if response.hovered() {
            self.send(Command::Hover(what));
        }
    }

    /// Colour of what a CTA stands for: of a pack that of its tree node, or of its tile.
    pub fn entity_colour(&self, shown: &Shown, entity: Entity) -> Color32 {
        entity_colour(self.tokens, &shown.planned.plan, entity, self.by_tile)
    }

    /// Whether the pack of a CTA is lit by selection or hover.
    pub fn lights(&self, shown: &Shown, entity: Entity) -> bool {
        let node = |pack: PackIdx| shown.nodes_of_packs.get(pack.at()).map(|node| (pack, *node));
        entity
            .pack()
            .and_then(node)
            .is_some_and(|(pack, node)| self.selected.has_pack(pack, node) || self.hovered.has_pack(pack, node))
    }
}

/// Colour of a pack, of prefill, or of the merge. Beside prefill all decodes have one colour, so that
/// the two are told apart at a glance.
pub fn entity_colour(tokens: &Tokens, plan: &LaunchPlan, entity: Entity, by_tile: bool) -> Color32 {
    let pack = entity.pack().and_then(|pack| plan.packs.get(pack.at()));
    match (entity, pack) {
        (Entity::Prefill, _) => tokens.prefill,
        (Entity::Both, _) => tokens.both,
        (Entity::Merge, _) => tokens.merge,
        (_, Some(_)) if !by_tile && !plan.prefill.is_empty() => tokens.decode,
        (_, Some(found)) if by_tile => tokens.entity(found.tile.m.trailing_zeros() * 3 + found.tile.n.trailing_zeros()),
        (_, Some(found)) => tokens.entity(found.node.0),
        (_, None) => tokens.idle,
    }
}

/// A figure with its name and where it comes from.
pub fn figure(ui: &mut Ui, tokens: &Tokens, name: &str, value: &str, source: &str) {
    ui.horizontal(|ui| {
        ui.label(RichText::new(name).color(tokens.faint));
        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
            ui.label(RichText::new(source).small().color(tokens.faint));
            ui.label(RichText::new(value).strong());
        });
    });
}

/// A sentence where there is nothing to show.
pub fn empty(ui: &mut Ui, tokens: &Tokens, text: &str) {
    ui.add_space(12.0);
    ui.vertical_centered(|ui| ui.label(RichText::new(text).color(tokens.faint)));
}

/// What to say in a view that has no run.
pub fn no_run(frame: &Frame<'_>) -> &'static str {
    match frame.shown {
        Some(shown) if shown.planned.batch.requests().is_empty() => {
            "The batch is empty. Add a tree or requests on the left, or pick a sample."
        }
        Some(_) => "There is a plan, but it did not run; the banner says why.",
        None => "Planning…",
    }
}

/// A difference of times with its sign: `+340 ns`, `−12.1 µs`.
pub fn signed(difference: i64) -> String {
    let sign = if difference < 0 { '−' } else { '+' };
    format!("{sign}{}", Nanos(difference.unsigned_abs()))
}

/// How far a simulated time is from the measured one: `+3.1 %`.
pub fn percent_of(simulated: Nanos, measured: Nanos) -> String {
    let change = (simulated.as_f64() / measured.as_f64().max(1.0) - 1.0) * 100.0;
    let sign = if change < 0.0 { '−' } else { '+' };
    format!("{sign}{:.1} %", change.abs())
}
