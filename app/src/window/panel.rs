//! The panels and parts of the window by name: one table for menus, palette, `list panels` and `export --view`.

use serde::{Deserialize, Serialize};

/// A panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Panel {
    /// The batch, edited.
    Batch,
    /// The prefix tree.
    Tree,
    /// The packs.
    Packs,
    /// Every choice of the plan.
    Decisions,
    /// The grid of tiles.
    Tiles,
    /// Launches, streams, waits.
    Plan,
    /// CTAs over time.
    Timeline,
    /// Bytes.
    Traffic,
    /// CTAs, L2 and DRAM, modelled and measured.
    Memory,
    /// Work against bytes.
    Roofline,
    /// One moment in all views, and the SMs at it.
    Playback,
    /// Ways of running side by side.
    Compare,
    /// Measured and simulated run, CTA by CTA.
    Differences,
    /// The steps of a replay.
    Steps,
    /// Which way wins where in a sweep.
    Sweep,
    /// The selection in full.
    Inspector,
    /// Idle time by cause and by stretch.
    Bubbles,
    /// Warnings, errors, times.
    Log,
}

impl Panel {
    /// All of them, in the order of menus.
    pub const ALL: [Self; 18] = [
        Self::Batch,
        Self::Tree,
        Self::Packs,
        Self::Decisions,
        Self::Tiles,
        Self::Plan,
        Self::Timeline,
        Self::Traffic,
        Self::Memory,
        Self::Roofline,
        Self::Playback,
        Self::Compare,
        Self::Differences,
        Self::Steps,
        Self::Sweep,
        Self::Inspector,
        Self::Bubbles,
        Self::Log,
    ];

    /// The panel of a name, as `list panels` has it.
    pub fn find(name: &str) -> Option<Self> {
        // The grid of SMs is what playback shows of a moment.
        let name = if name == "sm-grid" { "playback" } else { name };
        Self::ALL.into_iter().find(|panel| panel.key() == name)
    }

    /// Name for scripts.
    pub fn key(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Tree => "tree",
            Self::Packs => "packs",
            Self::Decisions => "decisions",
            Self::Tiles => "tiles",
            Self::Plan => "plan",
            Self::Timeline => "timeline",
            Self::Traffic => "traffic",
            Self::Memory => "memory",
            Self::Roofline => "roofline",
            Self::Playback => "playback",
            Self::Compare => "compare",
            Self::Differences => "differences",
            Self::Steps => "replay",
            Self::Sweep => "sweep",
            Self::Inspector => "inspector",
            Self::Bubbles => "bubbles",
            Self::Log => "log",
        }
    }

    /// What it shows, in a sentence.
    pub fn about(self) -> &'static str {
        match self {
            Self::Batch => "The requests as text and numbers, to edit.",
            Self::Tree => "The prefix tree as a canvas on which the batch is drawn.",
            Self::Packs => "Packs with their tile and the reason for it.",
            Self::Decisions => "Every choice with its ways, what it cost by the model, and buttons to try another.",
            Self::Tiles => "The grid of tiles of the device, and which constraint each one fails.",
            Self::Plan => "Launches, streams, waits, order and merge, one step at a time.",
            Self::Timeline => "Every CTA on every SM, bubbles named; throughputs and activity below.",
            Self::Traffic => "Bytes as issued and compulsory, by kind.",
            Self::Memory => "What L2 serves and what comes from DRAM; modelled bytes beside measured ones.",
            Self::Roofline => "Plan, kernels and tile classes under the GPU's limits.",
            Self::Playback => "One moment in all views: the scheduler's choices, then what each slot of each SM does.",
            Self::Compare => "The run against serial, streams and fused.",
            Self::Differences => "Measured and simulated run, CTA by CTA.",
            Self::Steps => "The steps of a trace under several ways: requests, bytes, attention and bubbles of each.",
            Self::Sweep => "Which way wins where in a sweep, over two of its axes, and by how much.",
            Self::Inspector => "Everything about what is selected.",
            Self::Bubbles => "Idle time by cause, and the longest idle stretches.",
            Self::Log => "What happened, with warnings.",
        }
    }

    /// Whether a picture can be made of it: the batch is fields to type in, the log is text.
    pub fn has_picture(self) -> bool {
        !matches!(self, Self::Batch | Self::Log)
    }

    /// Whether it shows many batches instead of the run that is shown, so that no capture holds what it needs.
    pub fn is_study(self) -> bool {
        matches!(self, Self::Steps | Self::Sweep)
    }

    /// Whether a stretch of time says which part of it is meant.
    pub fn has_time(self) -> bool {
        matches!(self, Self::Timeline | Self::Compare | Self::Playback | Self::Packs)
    }

    /// Title.
    pub fn title(self) -> &'static str {
        match self {
            Self::Batch => "Batch",
            Self::Tree => "Prefix tree",
            Self::Packs => "Packs",
            Self::Decisions => "Decisions",
            Self::Tiles => "Tiles",
            Self::Plan => "Plan",
            Self::Timeline => "Timeline",
            Self::Traffic => "Traffic",
            Self::Memory => "Memory",
            Self::Roofline => "Roofline",
            Self::Playback => "Playback",
            Self::Compare => "Compare",
            Self::Differences => "Differences",
            Self::Steps => "Replay",
            Self::Sweep => "Sweep",
            Self::Inspector => "Inspector",
            Self::Bubbles => "Bubbles",
            Self::Log => "Log",
        }
    }
}

/// A part of the window that is drawn by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Menus and run controls.
    Toolbar,
    /// Makespan, busy share and largest bubble.
    Story,
    /// What went wrong.
    Banner,
    /// All panels: their places, tabs and dividers.
    Panels,
    /// One of them.
    Panel(Panel),
    /// Palette, key list and file prompt.
    Overlays,
}

impl Part {
    /// Its name in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Self::Toolbar => "the toolbar",
            Self::Story => "the story of the run",
            Self::Banner => "the banner",
            Self::Panels => "the layout of the panels",
            Self::Panel(panel) => panel.title(),
            Self::Overlays => "the palette, key list or file prompt",
        }
    }
}
