//! A view as a picture: the timeline and runs side by side from their own layout, every other panel as it draws itself,
//! without a display.
//!
//! ```text
//! timeline, compare ─► picture::timeline ──────────────────────────┐
//! any other panel ─► drawn into a page of its own ─► shapes as SVG ─┴─► SVG, PNG, clipboard
//! ```

use std::cell::RefCell;

use egui::{Rect, RichText, Theme, Vec2, vec2};

use super::dock::{PanelStates, draw};
use super::frame::Frame;
use super::panel::Panel;
use super::selection::Lit;
use crate::picture::look::Look;
use crate::picture::{animation, shapes, timeline};
use crate::runs::compared::{Compared, Way};
use crate::runs::damage::Damage;
use crate::runs::now::Now;
use crate::runs::run::Run;
use crate::runs::shown::{Shown, Sources};
use crate::theme;
use crate::timeline::playback::Moment;

/// Free space around a panel.
const MARGIN: f32 = 12.0;
/// Tallest picture of a table, in units: some 400 rows.
const TALLEST: f32 = 8000.0;
/// Passes until tables and grids know their widths.
const PASSES: usize = 4;

/// What a picture is to show.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The view.
    pub panel: Panel,
    /// The stretch of time in nanoseconds, where the view has one; all where there is none.
    pub range: Option<(f64, f64)>,
    /// The moment of playback; none where the view is of the whole run.
    pub at: Option<Moment>,
    /// Light or dark, and how wide.
    pub look: Look,
}

/// A picture of a view of what is shown, as the window opens it.
///
/// # Errors
/// One sentence that says why there is no picture.
pub fn of_shown(shown: &Shown, compared: &[Compared], wanted: &Wanted) -> Result<String, String> {
    let commands = RefCell::default();
    let frame = Frame { compared, is_picture: true, ..Frame::of(shown, wanted.look.tokens(), &commands) };
    svg(&frame, &mut PanelStates::default(), wanted)
}

/// A picture of a view as it stands in the window.
pub(super) fn svg(frame: &Frame<'_>, states: &mut PanelStates, wanted: &Wanted) -> Result<String, String> {
    let Some(shown) = frame.shown else { return Err("there is no plan yet to make a picture of".to_owned()) };
    let sources = states.timeline.sources;
    let run = shown.runs(sources).next();
    match (wanted.panel, run) {
        (panel, _) if !panel.has_picture() => Err(format!("there is no picture of {}", panel.title())),
        (Panel::Steps, _) if frame.replay.is_none() => Err("there is no replay to make a picture of".to_owned()),
        (Panel::Sweep, _) if frame.sweep.is_none() => Err("there is no sweep to make a picture of".to_owned()),
        (Panel::Timeline | Panel::Playback, None) => Err("there is no run to make a picture of".to_owned()),
        (Panel::Timeline, Some(run)) if wanted.at.is_some() => match wanted.at {
            Some(Moment::Time(time)) => Ok(animation::moment(&run.capture, &run.damage, time, &wanted.look)),
            _ => Err("the timeline shows a time of the run; the tree shows what is chosen so far".to_owned()),
        },
        (Panel::Timeline, Some(run)) => Ok(timeline::window_svg(&run.capture, &run.damage, wanted.range, &wanted.look)),
        (Panel::Compare, _) => beside(frame, shown, sources, wanted),
        _ => Ok(panel(frame, states, (shown, sources), wanted)),
    }
}

/// The run that is shown, then all ways that were compared with it.
fn beside(frame: &Frame<'_>, shown: &Shown, sources: Sources, wanted: &Wanted) -> Result<String, String> {
    let whole = Damage::default();
    let own = shown.runs(sources).map(|run| (&run.capture, &run.damage));
    let of_own = |way: &&Way| {
        let other = |run: &Run| run.plan_digest != way.run.plan_digest || run.source() != way.run.source();
        shown.runs(sources).all(|run| other(run))
    };
    let ways = frame.compared.iter().filter_map(|way| way.outcome.as_ref().ok()).filter(of_own);
    let runs: Vec<_> = own.chain(ways.map(|way| (&way.run.capture, &whole))).collect();
    if runs.is_empty() {
        return Err("there is no run to make a picture of".to_owned());
    }
    Ok(timeline::beside_svg(&runs, wanted.range, &wanted.look))
}

/// The line over a panel: what was planned and run, or what the many batches are.
fn title(frame: &Frame<'_>, shown: &Shown, sources: Sources, panel: Panel) -> String {
    match (panel, frame.replay, frame.sweep) {
        (Panel::Steps, Some(replay), _) => replay.title(),
        (Panel::Sweep, _, Some(sweep)) => sweep.title(),
        _ => shown.runs(sources).next().map_or_else(
            || format!("{} · {}", shown.planned.plan.scheduler, shown.planned.plan.strategy.name()),
            |run| timeline::title(&run.capture),
        ),
    }
}

/// Draws a panel into a page of its own, under the title of what it shows.
fn panel(frame: &Frame<'_>, states: &mut PanelStates, (shown, sources): (&Shown, Sources), wanted: &Wanted) -> String {
    let look = &wanted.look;
    let size = size(wanted.panel, look.width.units());
    let cut = (size.y >= TALLEST).then_some("It goes on; the tables of export --csv hold all rows.");
    let commands = RefCell::default();
    let frame = Frame {
        is_picture: true,
        ghost: None,
        hovered: Lit::default(),
        tokens: look.tokens(),
        commands: &commands,
        now: now(frame, shown, sources, wanted),
        ..frame.clone()
    };
    let title = title(&frame, shown, sources, wanted.panel);
    states.packs.range = wanted.range;
    let context = egui::Context::default();
    theme::install(&context);
    context.set_theme(if look.dark { Theme::Dark } else { Theme::Light });
    let page = Rect::from_min_size(egui::Pos2::ZERO, size);
    let mut painted = Vec::new();
    for pass in 0..PASSES {
        let input = egui::RawInput { screen_rect: Some(page), time: Some(pass as f64), ..Default::default() };
        let mut output = context.run_ui(input, |ui| {
            let margin = egui::Frame::new().inner_margin(MARGIN);
            egui::CentralPanel::default().frame(margin).show(ui, |ui| {
                ui.add(egui::Label::new(RichText::new(&title).size(14.0).strong()).wrap());
                ui.add(egui::Label::new(RichText::new(wanted.panel.title()).size(12.0)).wrap());
                ui.add_space(4.0);
                draw(ui, &frame, states, wanted.panel);
            });
        });
        // Letters are drawn by whoever reads the SVG.
        output.textures_delta.clear();
        painted = output.shapes;
    }
    states.packs.range = None;
    shapes::svg(&painted, page, look, cut)
}

/// The moment that is asked for; that of the grid of SMs is else where the stretch begins, else where playback stands, else the middle of the run.
fn now(frame: &Frame<'_>, shown: &Shown, sources: Sources, wanted: &Wanted) -> Option<Now> {
    if wanted.at.is_none() && wanted.panel != Panel::Playback {
        return None;
    }
    let run = shown.runs(sources).next()?;
    if let Some(at) = wanted.at {
        return Some(Now::of(at, shown, Some(run)));
    }
    let middle = || frame.now.as_ref().map_or(Moment::Time(run.lanes.end as f64 / 2.0), |now| now.at);
    let at = wanted.range.map_or_else(middle, |(from, _)| Moment::Time(from));
    Some(Now::of(at, shown, Some(run)))
}

/// The page of a panel: at least as wide as its columns, and as tall as all of its rows, or in a shape of its own where it
/// fills whatever it gets.
fn size(panel: Panel, units: f32) -> Vec2 {
    let (least, shape) = match panel {
        Panel::Tree | Panel::Playback => (400.0, Some(0.5)),
        Panel::Roofline => (400.0, Some(0.62)),
        Panel::Packs => (660.0, None),
        Panel::Decisions => (960.0, None),
        Panel::Differences => (780.0, None),
        Panel::Tiles => (600.0, None),
        _ => (420.0, None),
    };
    let width = units.max(least);
    // Title and margins come on top of what a panel fills.
    vec2(width, shape.map_or(TALLEST, |shape| (width * shape).max(240.0) + 70.0))
}
