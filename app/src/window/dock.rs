//! The panels in their places.

use egui::Ui;
use egui_tiles::{Container, Linear, LinearDir, Tile, TileId, Tiles, Tree};

use super::frame::Frame;
use super::guard::Guard;
use super::panel::Panel;
use super::panels::{
    batch, bubbles, compare, decisions, differences, inspector, log, memory, packs, plan, playback, roofline, steps,
    sweep, tiles, timeline, traffic, tree,
};

/// State of the panels.
#[derive(Debug, Default)]
pub(super) struct PanelStates {
    /// The panel under the pointer.
    pub(super) pointed: Option<Panel>,
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
    pub(super) roofline: roofline::State,
    pub(super) steps: steps::State,
    pub(super) sweep: sweep::State,
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
            Panel::Roofline => self.roofline = roofline::State::default(),
            Panel::Steps => self.steps = steps::State::default(),
            Panel::Sweep => self.sweep = sweep::State::default(),
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

impl Behavior<'_> {
    /// Draws one panel over all that is left of the window.
    pub(super) fn alone(&mut self, ui: &mut Ui, panel: Panel) {
        let frame = egui::Frame::new().fill(self.frame.tokens.panel).inner_margin(6);
        frame.show(ui, |ui| {
            ui.set_min_size(ui.available_size());
            if ui.rect_contains_pointer(ui.max_rect()) {
                self.states.pointed = Some(panel);
            }
            let (frame, states) = (self.frame, &mut *self.states);
            self.guard.panel(ui, frame, panel, |ui| draw(ui, frame, states, panel));
        });
    }
}

impl egui_tiles::Behavior<Panel> for Behavior<'_> {
    fn pane_ui(&mut self, ui: &mut Ui, _: TileId, panel: &mut Panel) -> egui_tiles::UiResponse {
        self.alone(ui, *panel);
        egui_tiles::UiResponse::None
    }

    fn tab_title_for_pane(&mut self, panel: &Panel) -> egui::WidgetText {
        match (*panel, self.frame.unread) {
            (Panel::Log, unread) if unread > 0 => format!("Log · {unread}").into(),
            (panel, _) => panel.title().into(),
        }
    }

    fn simplification_options(&self) -> egui_tiles::SimplificationOptions {
        egui_tiles::SimplificationOptions { all_panes_must_have_tabs: true, ..Default::default() }
    }

    fn gap_width(&self, _: &egui::Style) -> f32 {
        4.0
    }
}

/// Draws one panel into all that is left.
pub(super) fn draw(ui: &mut Ui, frame: &Frame<'_>, states: &mut PanelStates, panel: Panel) {
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
        Panel::Roofline => roofline::show(ui, frame, &mut states.roofline),
        Panel::Compare => compare::show(ui, frame, &mut states.compare, &mut states.timeline.axis),
        Panel::Differences => differences::show(ui, frame, &mut states.differences),
        Panel::Steps => steps::show(ui, frame, &mut states.steps),
        Panel::Sweep => sweep::show(ui, frame, &mut states.sweep),
        Panel::Inspector => inspector::show(ui, frame),
        Panel::Bubbles => bubbles::show(ui, frame, &mut states.bubbles, &mut states.timeline.only),
        Panel::Log => log::show(ui, frame),
    }
}

/// Panels in their places: time below, over the full width and half of the height; above it a rail of batch and tree, then
/// what was made of them, then what is selected.
pub(super) fn default_dock() -> Tree<Panel> {
    let mut tiles = Tiles::default();
    let mut tabs = |panels: &[Panel]| {
        let panes = panels.iter().map(|panel| tiles.insert_pane(*panel)).collect();
        tiles.insert_tab_tile(panes)
    };
    let batch = tabs(&[Panel::Batch]);
    let tree = tabs(&[Panel::Tree]);
    let packs = tabs(&[
        Panel::Packs,
        Panel::Decisions,
        Panel::Tiles,
        Panel::Plan,
        Panel::Traffic,
        Panel::Memory,
        Panel::Roofline,
    ]);
    let inspector = tabs(&[Panel::Inspector, Panel::Bubbles, Panel::Log]);
    let time =
        tabs(&[Panel::Timeline, Panel::Playback, Panel::Compare, Panel::Differences, Panel::Steps, Panel::Sweep]);
    let mut linear = |dir, children: Vec<(TileId, f32)>| {
        let mut linear = Linear::new(dir, children.iter().map(|(id, _)| *id).collect());
        for (id, share) in children {
            linear.shares.set_share(id, share);
        }
        tiles.insert_new(Tile::Container(Container::Linear(linear)))
    };
    let top = linear(LinearDir::Horizontal, vec![(batch, 0.2), (tree, 0.27), (packs, 0.31), (inspector, 0.22)]);
    let root = linear(LinearDir::Vertical, vec![(top, 0.43), (time, 0.57)]);
    Tree::new(egui::Id::unique("dock"), root, tiles)
}

/// Shows or hides the rail of batch and tree.
pub(super) fn toggle_rail(dock: &mut Tree<Panel>) {
    for panel in [Panel::Batch, Panel::Tree] {
        let pane = dock.tiles.find_pane(&panel);
        // The tabs that it stands in by itself, or only the pane where it was put beside others.
        let alone = |id: &TileId| {
            let tabs = dock.tiles.get_container(*id);
            tabs.is_some_and(|tabs| tabs.num_children() == 1)
        };
        let tile = pane.map(|pane| dock.tiles.parent_of(pane).filter(alone).unwrap_or(pane));
        if let Some(tile) = tile {
            dock.tiles.toggle_visibility(tile);
        }
    }
}

/// Whether all panels are somewhere: a layout that was kept by a version with fewer of them is not whole.
pub(super) fn is_whole(dock: &Tree<Panel>) -> bool {
    Panel::ALL.iter().all(|panel| dock.tiles.find_pane(panel).is_some())
}
