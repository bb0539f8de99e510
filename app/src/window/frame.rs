//! What panels see of the window in one frame, and how they ask for changes.

use std::cell::RefCell;
use std::sync::Arc;

use egui::Color32;
use engine::plan::Strategy;
use engine::session::PlanOptions;
use engine::units::PackIdx;
use engine::workload::BatchSpec;

use crate::jobs::studies::Studying;
use crate::runs::compared::{Compared, Rows};
use crate::runs::measurement::Measurement;
use crate::runs::now::Now;
use crate::runs::replay::Replay;
use crate::runs::run::Run;
use crate::runs::shown::Shown;
use crate::runs::sweep::Sweep;
use crate::theme::Tokens;
use crate::timeline::colour::entity_colour;
use crate::timeline::lanes::Entity;
use crate::window::command::Command;
use crate::window::selection::{Lit, Selection};

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
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each says something else of the frame")]
pub struct Frame<'a> {
    /// The batch as edited.
    pub spec: &'a BatchSpec,
    /// What it is planned with.
    pub options: &'a PlanOptions,
    /// The last good plan and run.
    pub shown: Option<&'a Shown>,
    /// Whether that is older than the batch as edited.
    pub stale: bool,
    /// The run before the gesture that goes on.
    pub ghost: Option<&'a Run>,
    /// The moment of playback, while that is on.
    pub now: Option<Now>,
    /// Ways side by side.
    pub compared: &'a [Compared],
    /// Devices and captures that stand beside them.
    pub rows: &'a Rows,
    /// Measured runs of this and of earlier plans, newest last.
    pub kept: &'a [Measurement],
    /// The trace that was replayed last.
    pub replay: Option<&'a Arc<Replay>>,
    /// The sweep that is open.
    pub sweep: Option<&'a Arc<Sweep>>,
    /// The replay or the opening of a sweep that goes on.
    pub studying: &'a Studying,
    /// Whether the run that is played is from a file.
    pub is_in_file: bool,
    /// The selection.
    pub selected: Lit,
    /// What the pointer was on in the last frame.
    pub hovered: Lit,
    /// Spans of the selection's CTAs: those that bound a bubble in its run, or the first of a pack in the run in front.
    pub ctas: &'a [usize],
    /// CTAs coloured by tile instead of by pack.
    pub by_tile: bool,
    /// Whether the panel is drawn into a picture, where nobody can press a button.
    pub is_picture: bool,
    /// Warnings and errors of the log that were not looked at.
    pub unread: usize,
    /// Log lines.
    pub log: &'a [(Level, String)],
    /// Colours.
    pub tokens: &'static Tokens,
    /// Commands of this frame.
    pub commands: &'a RefCell<Vec<Command>>,
}

impl<'a> Frame<'a> {
    /// What is shown and nothing beside it: no edit, no selection, no other run.
    pub fn of(shown: &'a Shown, tokens: &'static Tokens, commands: &'a RefCell<Vec<Command>>) -> Self {
        static NO_ROWS: Rows = Rows { devices: Vec::new(), captures: Vec::new() };
        Self {
            spec: &shown.planned.spec,
            options: &shown.planned.options,
            shown: Some(shown),
            stale: false,
            ghost: None,
            now: None,
            compared: &[],
            rows: &NO_ROWS,
            kept: &[],
            replay: None,
            sweep: None,
            studying: &Studying::Idle,
            is_in_file: false,
            selected: Lit::default(),
            hovered: Lit::default(),
            ctas: &[],
            by_tile: false,
            is_picture: false,
            unread: 0,
            log: &[],
            tokens,
            commands,
        }
    }

    /// Sends a command to the logic pass.
    pub fn send(&self, command: Command) {
        self.commands.borrow_mut().push(command);
    }

    /// The scheduler and the strategy of the plan; where they are auto, those that were taken last.
    pub fn taken(&self) -> (&str, Strategy) {
        let own = self.options;
        let taken = self.shown.map_or(own, |shown| &*shown.planned.options);
        let scheduler = if own.auto.scheduler { &taken.scheduler } else { &own.scheduler };
        (scheduler, if own.auto.strategy { taken.strategy } else { own.strategy })
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
        entity_colour(self.tokens, (&shown.planned.plan, &shown.levels), entity, self.by_tile)
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
