//! The panels in their places.

use egui::Ui;
use egui_tiles::{Container, Linear, LinearDir, Tile, TileId, Tiles, Tree};

use super::frame::Frame;
use super::guard::Guard;
use super::panel::Panel;
use super::panels::{
    batch, bubbles, compare, decisions, differences, inspector, log, memory, packs, plan, playback, roofline, tiles,
    timeline, traffic, tree,
};

/// State of the panels.
#[derive(Debug, Default)]
pub(super) struct PanelStates {
    pub(super) tree: tree::State,
    pub(super) packs: packs::State,
    pub(super) decisions: decisions::State,
    pub(super) tiles: tiles::State,
    pub(super) plan: plan::State,
    pub(super) playback: playback::State,
    pub(super) timeline: timeline::State,
    pub(super) bubbles: bubbles::State,
    pub(super) compare: compare::State,
    pub(super) differences: differences::State,
}

impl PanelStates {
    /// Forgets the state of a panel: one that panicked may have left it half changed.
    pub(super) fn reset(&mut self, panel: Panel) {
        match panel {
            Panel::Tree => self.tree = tree::State::default(),
            Panel::Packs => self.packs = packs::State::default(),
            Panel::Decisions => self.decisions = decisions::State::default(),
            Panel::Tiles => self.tiles = tiles::State::default(),
            Panel::Plan => self.plan = plan::State::default(),
            Panel::Playback => self.playback = playback::State::default(),
            Panel::Timeline => self.timeline = timeline::State::default(),
            Panel::Bubbles => self.bubbles = bubbles::State::default(),
            Panel::Compare => self.compare = compare::State::default(),
            Panel::Differences => self.differences = differences::State::default(),
            _ => {}
        }
    }
}

/// Draws the panels in their places.
pub(super) struct Behavior<'a> {
    pub(super) frame: &'a Frame<'a>,
    pub(super) states: &'a mut PanelStates,
    pub(super) guard: &'a Guard,
}

impl egui_tiles::Behavior<Panel> for Behavior<'_> {
    fn pane_ui(&mut self, ui: &mut Ui, _: TileId, panel: &mut Panel) -> egui_tiles::UiResponse {
        let frame = egui::Frame::new().fill(self.frame.tokens.panel).inner_margin(6);
        frame.show(ui, |ui| {
            ui.set_min_size(ui.available_size());
            let (frame, states) = (self.frame, &mut *self.states);
            self.guard.panel(ui, frame, *panel, |ui| draw(ui, frame, states, *panel));
        });
        egui_tiles::UiResponse::None
    }

    fn tab_title_for_pane(&mut self, panel: &Panel) -> egui::WidgetText {
        panel.title().into()
    }

    fn simplification_options(&self) -> egui_tiles::SimplificationOptions {
        egui_tiles::SimplificationOptions { all_panes_must_have_tabs: true, ..Default::default() }
    }

    fn gap_width(&self, _: &egui::Style) -> f32 {
        4.0
    }
}

fn draw(ui: &mut Ui, frame: &Frame<'_>, states: &mut PanelStates, panel: Panel) {
    #[cfg(test)]
    crate::jobs::mishap::trip(frame.spec, panel.title());
    match panel {
        Panel::Batch => batch::show(ui, frame),
        Panel::Tree => tree::show(ui, frame, &mut states.tree),
        Panel::Packs => packs::show(ui, frame, &mut states.packs),
        Panel::Decisions => decisions::show(ui, frame, &mut states.decisions),
        Panel::Tiles => tiles::show(ui, frame, &mut states.tiles),
        Panel::Plan => plan::show(ui, frame, &mut states.plan),
        Panel::Playback => {
            let of = (states.timeline.sources, states.timeline.axis.range);
            playback::show(ui, frame, &mut states.playback, of);
        }
        Panel::Timeline => timeline::show(ui, frame, &mut states.timeline),
        Panel::Traffic => traffic::show(ui, frame),
        Panel::Memory => memory::show(ui, frame),
        Panel::Roofline => roofline::show(ui, frame),
        Panel::Compare => compare::show(ui, frame, &mut states.compare, &mut states.timeline.axis),
        Panel::Differences => differences::show(ui, frame, &mut states.differences),
        Panel::Inspector => inspector::show(ui, frame),
        Panel::Bubbles => bubbles::show(ui, frame, &mut states.bubbles),
        Panel::Log => log::show(ui, frame),
    }
}

/// Panels in their places: batch left, tree and packs over the timeline, inspector right.
pub(super) fn default_dock() -> Tree<Panel> {
    let mut tiles = Tiles::default();
    let mut tabs = |panels: &[Panel]| {
        let panes = panels.iter().map(|panel| tiles.insert_pane(*panel)).collect();
        tiles.insert_tab_tile(panes)
    };
    let left = tabs(&[Panel::Batch]);
    let tree = tabs(&[Panel::Tree]);
    let packs = tabs(&[Panel::Packs, Panel::Decisions, Panel::Tiles, Panel::Plan]);
    let time = tabs(&[Panel::Timeline, Panel::Playback, Panel::Compare, Panel::Differences]);
    let inspector = tabs(&[Panel::Inspector, Panel::Bubbles, Panel::Log]);
    let traffic = tabs(&[Panel::Traffic, Panel::Memory, Panel::Roofline]);
    let mut linear = |dir, children: Vec<(TileId, f32)>| {
        let mut linear = Linear::new(dir, children.iter().map(|(id, _)| *id).collect());
        for (id, share) in children {
            linear.shares.set_share(id, share);
        }
        tiles.insert_new(Tile::Container(Container::Linear(linear)))
    };
    let top = linear(LinearDir::Horizontal, vec![(tree, 1.0), (packs, 1.0)]);
    let middle = linear(LinearDir::Vertical, vec![(top, 0.36), (time, 0.64)]);
    let right = linear(LinearDir::Vertical, vec![(inspector, 0.55), (traffic, 0.45)]);
    let root = linear(LinearDir::Horizontal, vec![(left, 0.2), (middle, 0.58), (right, 0.22)]);
    Tree::new(egui::Id::unique("dock"), root, tiles)
}
