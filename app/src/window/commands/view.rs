//! What is looked at: selection, sources, and parts that are drawn again.

use engine::capture::Source;
use engine::units::NodeIdx;

use crate::runs::shown::{Shown, Sources};
use crate::timeline::axis::Axis;
use crate::timeline::playback::Step;
use crate::window::app::App;
use crate::window::commands::table::Action;
use crate::window::dock::default_dock;
use crate::window::frame::Level;
use crate::window::panel::{Panel, Part};
use crate::window::panels::playback;
use crate::window::selection::{Lit, Selection};

/// CTAs of a pack that are named.
const CTAS_OF_A_PACK: usize = 60;
/// Least and largest scale of text and controls, and a step of it.
const SCALES: (f32, f32) = (0.8, 2.0);
pub(super) const STEP: f32 = 0.1;
/// How much larger a panel is presented.
const PRESENTED: f32 = 1.4;

impl App {
    /// Scales text and controls.
    pub(in crate::window) fn scale(&mut self, ctx: &egui::Context, scale: f32) {
        self.scale = ((scale * 10.0).round() / 10.0).clamp(SCALES.0, SCALES.1);
        ctx.set_zoom_factor(if self.presented.is_some() { self.scale * PRESENTED } else { self.scale });
    }

    /// Shows one panel over all of the window in larger letters, or all again.
    pub(in crate::window) fn present(&mut self, ctx: &egui::Context) {
        self.presented = if self.presented.is_some() { None } else { Some(self.in_front()) };
        self.scale(ctx, self.scale);
    }

    /// The panel that is meant where none is named: the presented one, or the one under the pointer, or the timeline.
    pub(in crate::window) fn in_front(&self) -> Panel {
        self.presented.or(self.states.pointed).unwrap_or(Panel::Timeline)
    }

    /// Selects what the last session had selected, once there is the run that it is of.
    pub(in crate::window) fn select_again(&mut self) {
        let (Some(later), Some(shown), true) = (self.later, &self.shown, self.is_current()) else { return };
        if self.selected == Selection::None && later.selected.is_in(shown) {
            self.selected = later.selected;
        }
        // It may be of a measured run that is still to be read.
        if !self.keeper.as_ref().is_some_and(|keeper| keeper.runs.is_reading()) {
            self.later = None;
        }
    }

    /// Brings a panel to the front.
    pub(in crate::window) fn bring_up(&mut self, panel: Panel) {
        if self.presented.is_some() {
            self.presented = Some(panel);
        }
        self.dock.make_active(|_, tile| matches!(tile, egui_tiles::Tile::Pane(pane) if *pane == panel));
    }

    /// Selects and goes there in the timeline.
    pub(in crate::window) fn reveal(&mut self, what: Selection) {
        self.selected = what;
        self.bring_up(Panel::Timeline);
        if let Some(shown) = &self.shown {
            self.states.timeline.reveal(shown, what);
        }
    }

    /// Unfolds an SM and goes there in the timeline.
    pub(in crate::window) fn reveal_sm(&mut self, sm: u32) {
        self.bring_up(Panel::Timeline);
        if !self.states.timeline.reveal_sm(sm) {
            self.log.push((Level::Warning, format!("the timeline shows no SM {sm}")));
        }
    }

    /// Goes to where one looked before, or after; a range is no look and stays.
    pub(in crate::window) fn look(&mut self, back: bool) {
        let axis = &mut self.states.timeline.axis;
        if let Some(look) = self.looks.travel(back) {
            *axis = Axis { range: axis.range, ..look };
        }
    }

    /// Goes to the longest bubble of the run in front.
    pub(in crate::window) fn reveal_longest(&mut self) {
        let run = self.shown.as_ref().and_then(|shown| shown.runs(self.states.timeline.sources).next());
        let longest = run.and_then(|run| Some(Selection::Gap(run.source(), *run.gaps.longest(None, 1).first()?)));
        if let Some(longest) = longest {
            self.reveal(longest);
        }
    }

    /// Finds the CTAs of the selection, when it is another one.
    pub(in crate::window) fn find_ctas(&mut self) {
        if self.ctas.0 == self.selected {
            return;
        }
        let found = match (self.selected, &self.shown) {
            (Selection::Gap(source, at), Some(shown)) => shown.run(source).and_then(|run| {
                let gap = run.gaps.get(at)?;
                Some(engine::metrics::bounded_by(&run.capture.plan, &run.capture, &gap))
            }),
            (Selection::Pack(pack), Some(shown)) => shown.front().map(|run| {
                let entities = run.lanes.entities.iter().enumerate();
                let own = entities.filter(|(_, of)| of.pack() == Some(pack)).map(|(span, _)| span);
                own.take(CTAS_OF_A_PACK).collect()
            }),
            _ => None,
        };
        self.ctas = (self.selected, found.unwrap_or_default());
    }

    /// Playback goes on by the time since the frame before.
    pub(in crate::window) fn play_on(&mut self, ctx: &egui::Context) {
        let timeline = &self.states.timeline;
        if let Some(shown) = self.shown.as_ref().filter(|_| self.states.playback.playback.plays) {
            let extent = playback::State::extent(shown, timeline.sources, timeline.axis.range);
            self.states.playback.playback.advance(f64::from(ctx.input(|input| input.stable_dt)), extent);
            ctx.request_repaint();
        }
    }

    /// Plays, stops or steps; false if the action is none of playback's.
    pub(in crate::window) fn play(&mut self, action: Action) -> bool {
        let of = (self.states.timeline.sources, self.states.timeline.axis.range);
        let (by, forward) = match action {
            Action::Play => (None, true),
            Action::ArrowLeft | Action::ArrowRight => (Some(Step::Event), action == Action::ArrowRight),
            Action::WaveBack | Action::WaveOn => (Some(Step::Wave), action == Action::WaveOn),
            _ => return false,
        };
        if let Some(shown) = &self.shown {
            match by {
                Some(by) => self.states.playback.step(by, forward, shown, of),
                None => self.states.playback.playback.toggle(playback::State::extent(shown, of.0, of.1)),
            }
        }
        true
    }

    /// Both, then each alone.
    pub(in crate::window) fn next_sources(&self) -> Sources {
        match self.states.timeline.sources {
            Sources::Both => Sources::Only(Source::Measured),
            Sources::Only(Source::Measured) => Sources::Only(Source::Simulated),
            Sources::Only(Source::Simulated) => Sources::Both,
        }
    }

    /// Selects what a step along the lane or the chain leads to, and brings it into sight.
    pub(in crate::window) fn go_on(&mut self, action: Action) {
        self.selected = self.moved(action);
        if let Some(shown) = &self.shown {
            self.states.timeline.follow(shown, self.selected);
        }
    }

    /// The selection after a step along the lane or the chain.
    fn moved(&self, action: Action) -> Selection {
        let Some(shown) = &self.shown else { return self.selected };
        match (action, self.selected) {
            (Action::Previous | Action::Next, Selection::Cta(source, at)) => {
                let mut lanes = shown.run(source).map(|run| run.lanes.lanes.iter()).into_iter().flatten();
                let lane = lanes.find(|lane| lane.spans.contains(&at));
                let to = if action == Action::Next { at + 1 } else { at.saturating_sub(1) };
                Selection::Cta(source, if lane.is_some_and(|lane| lane.spans.contains(&to)) { to } else { at })
            }
            (Action::Up, what @ Selection::Cta(..)) => Lit::of(what, shown).pack.map_or(self.selected, Selection::Pack),
            (Action::Up, Selection::Pack(pack)) => {
                shown.nodes_of_packs.get(pack.at()).map_or(Selection::None, |node| Selection::Node(*node))
            }
            (Action::Up, Selection::Node(node)) => {
                let above = shown.planned.tree.nodes.get(node.at()).and_then(|found| found.parent);
                above.map_or(self.selected, Selection::Node)
            }
            (Action::Down, Selection::Node(node)) => {
                let pack = shown.first_packs.get(node.at()).copied().flatten();
                pack.map_or(self.selected, Selection::Pack)
            }
            (Action::Down, Selection::Pack(pack)) => {
                let Some(run) = shown.runs(self.states.timeline.sources).next() else { return self.selected };
                let span = run.lanes.entities.iter().position(|of| of.pack() == Some(pack));
                span.map_or(self.selected, |span| Selection::Cta(run.source(), span))
            }
            // What bounds a bubble comes after it.
            (Action::Down, Selection::Gap(source, _)) => {
                self.ctas.1.first().map_or(self.selected, |span| Selection::Cta(source, *span))
            }
            (Action::Down, Selection::None) => Selection::Node(NodeIdx(0)),
            (_, same) => same,
        }
    }

    /// Lets a part of the window be drawn again that failed, from a state that it did not leave half changed.
    pub(in crate::window) fn retry(&mut self, part: Part) {
        self.guard.retry(part);
        self.renew(part);
    }

    pub(in crate::window) fn renew(&mut self, part: Part) {
        match part {
            Part::Panel(panel) => self.states.reset(panel),
            Part::Panels => self.dock = default_dock(),
            Part::Overlays => _ = self.chrome.close(),
            Part::Toolbar | Part::Story | Part::Banner => {}
        }
    }

    /// Another run is shown: what failed on the one before gets another chance.
    pub(in crate::window) fn retry_all(&mut self) {
        for part in self.guard.retry_all() {
            self.renew(part);
        }
    }

    /// Keeps the selection where the new plan has it: a CTA by its launch and number, where it does the same.
    pub(in crate::window) fn keep_selection(&mut self, shown: &Shown) {
        self.ctas = (Selection::None, Vec::new());
        let there = match self.selected {
            Selection::Node(node) => node.at() < shown.planned.tree.nodes.len(),
            Selection::Pack(pack) => pack.at() < shown.nodes_of_packs.len(),
            Selection::None => true,
            Selection::Gap(source, at) => {
                self.selected = self.same_gap(shown, source, at).unwrap_or_default();
                true
            }
            Selection::Cta(source, span) => {
                self.selected = self.same_cta(shown, source, span).unwrap_or_default();
                true
            }
        };
        if !there {
            self.selected = Selection::None;
        }
    }

    /// The bubble of the same cause on the same lane at the same time.
    fn same_gap(&self, shown: &Shown, source: Source, at: usize) -> Option<Selection> {
        let (before, after) = (self.shown.as_ref()?.run(source)?, shown.run(source)?);
        let old = before.gaps.get(at)?;
        let middle = old.begin.0.midpoint(old.end.0);
        let at = after.gaps.at(old.sm, old.slot, middle)?;
        (after.gaps.get(at)?.cause == old.cause).then_some(Selection::Gap(source, at))
    }

    fn same_cta(&self, shown: &Shown, source: Source, span: usize) -> Option<Selection> {
        let (before, after) = (self.shown.as_ref()?.run(source)?, shown.run(source)?);
        let (old, new) = (&before.capture.spans, &after.capture.spans);
        let (launch, cta) = (old.launch.get(span)?, old.cta.get(span)?);
        let at = (0..new.len()).find(|at| new.launch[*at] == *launch && new.cta[*at] == *cta)?;
        (before.lanes.entities.get(span) == after.lanes.entities.get(at)).then_some(Selection::Cta(source, at))
    }
}
