//! The panels and parts of the window by name.

/// A panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// The selection in full.
    Inspector,
    /// Idle time by cause and by stretch.
    Bubbles,
    /// Warnings, errors, times.
    Log,
}

impl Panel {
    /// All of them, in the order of menus.
    pub const ALL: [Self; 16] = [
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
        Self::Inspector,
        Self::Bubbles,
        Self::Log,
    ];

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
            Self::Banner => "the banner",
            Self::Panels => "the layout of the panels",
            Self::Panel(panel) => panel.title(),
            Self::Overlays => "the palette, key list or file prompt",
        }
    }
}
