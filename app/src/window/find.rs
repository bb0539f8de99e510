//! Finding by name: nodes, packs, CTAs and bubbles, or an SM. What was found is a list; Enter goes to one of it.

use std::sync::Arc;

use egui::{Align2, Key, Modifiers, RichText, ScrollArea, TextEdit, Ui};
use engine::metrics::BubbleCause;
use engine::plan::LaunchPlan;
use engine::units::{NodeIdx, PackIdx};

use crate::runs::run::Run;
use crate::runs::shown::{Shown, Sources};
use crate::theme;
use crate::timeline::lanes::Entity;
use crate::window::command::Command;
use crate::window::frame::Frame;
use crate::window::panel::Panel;
use crate::window::selection::Selection;

/// Most of one kind that are listed.
const MOST: usize = 24;

/// What is looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Of {
    /// Nodes, packs, CTAs and bubbles.
    #[default]
    Anything,
    /// An SM.
    Sm,
}

/// The field and the list under it, while they are open.
#[derive(Debug, Default)]
pub(super) struct State {
    open: Option<Open>,
}

#[derive(Debug, Default)]
struct Open {
    of: Of,
    text: String,
    /// The hit that Enter takes.
    at: usize,
    /// What was found for a text in a plan and its run.
    found: Option<(String, Arc<LaunchPlan>, Vec<Hit>)>,
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq)]
struct Hit {
    name: String,
    /// What goes there.
    to: Vec<Go>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Go {
    Select(Selection),
    Reveal(Selection),
    Show(Panel),
    Sm(u32),
}

impl From<Go> for Command {
    fn from(go: Go) -> Self {
        match go {
            Go::Select(what) => Self::Select(what),
            Go::Reveal(what) => Self::Reveal(what),
            Go::Show(panel) => Self::Show(panel),
            Go::Sm(sm) => Self::RevealSm(sm),
        }
    }
}

impl State {
    /// Opens the field, or closes it.
    pub(super) fn toggle(&mut self, of: Of) {
        let is_open = self.open.as_ref().is_some_and(|open| open.of == of);
        self.open = (!is_open).then(|| Open { of, ..Open::default() });
    }

    /// Closes the field; false if it was not open.
    pub(super) fn close(&mut self) -> bool {
        self.open.take().is_some()
    }
}

/// Draws the field with what it found.
pub(super) fn show(ui: &Ui, frame: &Frame<'_>, state: &mut State) {
    let Some(open) = &mut state.open else { return };
    let title = if open.of == Of::Sm { "Find an SM" } else { "Search" };
    let mut done = false;
    egui::Window::new(theme::title(title))
        .anchor(Align2::CENTER_TOP, [0.0, 90.0])
        .fixed_size([420.0, 300.0])
        .collapsible(false)
        .show(ui.ctx(), |ui| done = list(ui, frame, open));
    if done {
        state.open = None;
    }
}

/// The field and the list; gives whether one is done with it.
fn list(ui: &mut Ui, frame: &Frame<'_>, open: &mut Open) -> bool {
    let key = |ui: &Ui, key: Key| ui.input_mut(|input| input.consume_key(Modifiers::NONE, key));
    let (up, down) = (key(ui, Key::ArrowUp), key(ui, Key::ArrowDown));
    let (enter, escape) = ui.input(|input| (input.key_pressed(Key::Enter), input.key_pressed(Key::Escape)));
    let hint = match open.of {
        Of::Anything => "node 3 · pack 12 · cta 40 · merge · tail imbalance · 64×128",
        Of::Sm => "number of an SM",
    };
    let edit = ui.add(TextEdit::singleline(&mut open.text).hint_text(hint).desired_width(f32::INFINITY));
    edit.request_focus();
    let Some(shown) = frame.shown else { return escape };
    let own = |(text, plan, _): &(String, Arc<LaunchPlan>, Vec<Hit>)| {
        *text == open.text && Arc::ptr_eq(plan, &shown.planned.plan)
    };
    if !open.found.as_ref().is_some_and(own) {
        let found = if open.of == Of::Sm { sms(shown, &open.text) } else { hits(shown, &open.text) };
        open.found = Some((open.text.clone(), Arc::clone(&shown.planned.plan), found));
        open.at = 0;
    }
    let Some((_, _, found)) = &open.found else { return escape };
    let last = found.len().saturating_sub(1);
    open.at = (open.at + usize::from(down)).saturating_sub(usize::from(up)).min(last);
    if found.is_empty() && !open.text.trim().is_empty() {
        ui.label(RichText::new("Nothing has this name or number.").color(frame.tokens.faint));
    }
    let mut taken = None;
    ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
        for (at, hit) in found.iter().enumerate() {
            let button = egui::Button::new(&hit.name).selected(at == open.at).min_size(egui::vec2(400.0, 0.0));
            let response = ui.add(button);
            if at == open.at && (up || down) {
                response.scroll_to_me(None);
            }
            if response.clicked() || (enter && at == open.at) {
                taken = Some(hit);
            }
        }
    });
    if let Some(hit) = taken {
        hit.to.iter().for_each(|go| frame.send((*go).into()));
    }
    escape || taken.is_some()
}

/// SMs whose number begins with a text.
fn sms(shown: &Shown, text: &str) -> Vec<Hit> {
    let wanted = text.trim().trim_start_matches(|letter: char| !letter.is_ascii_digit());
    let count = shown.front().map_or(0, |run| run.capture.provenance.sm_count);
    let fits = (0..count).filter(|sm| sm.to_string().starts_with(wanted));
    fits.map(|sm| Hit { name: format!("SM {sm}"), to: vec![Go::Sm(sm)] }).collect()
}

/// Nodes, packs, CTAs and bubbles that a text names: by a word for their kind, a number, or both.
fn hits(shown: &Shown, text: &str) -> Vec<Hit> {
    let text = text.trim().to_lowercase().replace('x', "×");
    if text.is_empty() {
        return Vec::new();
    }
    let numbers: Vec<u32> =
        text.split(|letter: char| !letter.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect();
    // Letters alone, so that `cta40` is as good as `CTA 40`.
    let words = text.split(|letter: char| !letter.is_alphabetic() && letter != '-').filter(|word| !word.is_empty());
    let words: Vec<&str> = words.filter(|word| !["of", "×"].contains(word)).collect();
    let is = |kind: &str| words.is_empty() || words.iter().any(|word| kind.starts_with(word));
    let mut hits = Vec::new();
    if let Some(tile) = text.contains('×').then_some(numbers.as_slice()).filter(|numbers| numbers.len() == 2) {
        return packs(shown, |pack| (pack.tile.m, pack.tile.n) == (tile[0], tile[1]));
    }
    if let Some(number) = numbers.first().copied() {
        if is("node") && (number as usize) < shown.planned.tree.nodes.len() {
            let to = vec![Go::Select(Selection::Node(NodeIdx(number))), Go::Show(Panel::Tree)];
            hits.push(Hit { name: format!("node {number}"), to });
        }
        if is("pack") {
            hits.extend(pack(shown, number as usize));
        }
        if is("cta") {
            hits.extend(ctas(shown, |run, span| {
                run.capture.spans.cta[span] == number && of_launch(run, span, &numbers)
            }));
        }
        return hits;
    }
    for (kind, role) in [("merge", Entity::Merge), ("prefill", Entity::Prefill)] {
        if is(kind) {
            hits.extend(ctas(shown, |run, span| run.lanes.entities[span] == role));
        }
    }
    let named = |cause: &BubbleCause| words.iter().all(|word| cause.words().contains(word));
    for run in shown.runs(Sources::Both) {
        for cause in BubbleCause::ALL.into_iter().filter(named) {
            hits.extend(bubbles(run, Some(cause)));
        }
        if is("bubble") {
            hits.extend(bubbles(run, None));
        }
    }
    hits
}

/// Whether a span is of the launch that a second number names, where there is one.
fn of_launch(run: &Run, span: usize, numbers: &[u32]) -> bool {
    numbers.get(1).is_none_or(|launch| run.capture.spans.launch[span] == *launch)
}

fn pack(shown: &Shown, at: usize) -> Option<Hit> {
    let found = shown.planned.plan.packs.get(at)?;
    let to = vec![Go::Select(Selection::Pack(PackIdx::from(at))), Go::Show(Panel::Packs)];
    Some(Hit { name: format!("pack {at} · tile {} · node {}", found.tile, found.node.0), to })
}

fn packs(shown: &Shown, fits: impl Fn(&engine::plan::PlannedPack) -> bool) -> Vec<Hit> {
    let all = shown.planned.plan.packs.iter().enumerate().filter(|(_, pack)| fits(pack)).take(MOST);
    all.filter_map(|(at, _)| pack(shown, at)).collect()
}

fn ctas(shown: &Shown, fits: impl Fn(&Run, usize) -> bool) -> Vec<Hit> {
    let of_run = |run: &Arc<Run>| {
        let hit = |at: usize| {
            let span = run.capture.spans.get(at);
            let what = if span.role.computes() { "CTA" } else { "merge CTA" };
            let place = format!("SM {} at {} ({})", span.sm, span.begin, run.words());
            let name = format!("{what} {} of launch {} · {place}", span.cta, span.launch);
            Hit { name, to: vec![Go::Reveal(Selection::Cta(run.source(), at))] }
        };
        (0..run.capture.spans.len()).filter(|at| fits(run, *at)).take(MOST).map(hit).collect::<Vec<_>>()
    };
    shown.runs(Sources::Both).flat_map(of_run).collect()
}

/// The longest bubbles of a run, of one cause or of all.
fn bubbles(run: &Run, cause: Option<BubbleCause>) -> Vec<Hit> {
    if run.damage.of_causes().is_some() {
        return Vec::new();
    }
    let hit = |at: usize| {
        let gap = run.gaps.get(at)?;
        let name = format!("{} of {} · SM {} ({})", gap.cause.words(), gap.length(), gap.sm, run.words());
        Some(Hit { name, to: vec![Go::Reveal(Selection::Gap(run.source(), at))] })
    };
    run.gaps.longest(cause, MOST).into_iter().filter_map(hit).collect()
}

#[cfg(test)]
mod tests {
    use engine::cancel::Cancel;
    use engine::capture::L2State;
    use engine::session::PlanOptions;
    use engine::workload::BatchSpec;

    use super::*;
    use crate::jobs::planner;

    #[test]
    fn a_text_finds_what_it_names_and_nothing_else() {
        let spec = BatchSpec::from_ron(crate::samples::find("pat-11").unwrap().text).unwrap();
        let options = PlanOptions::new(&engine::hw::builtin()[0]);
        let (shown, _) = planner::run(&spec, &options, L2State::Cold, &Cancel::default()).unwrap();
        let names = |text: &str| hits(&shown, text).into_iter().map(|hit| hit.name).collect::<Vec<_>>();
        assert_eq!(names("node 3"), ["node 3"]);
        assert!(names("PACK7").len() == 1 && names("pack 7")[0].starts_with("pack 7 · tile"));
        let cta = names("cta 40");
        assert!(
            !cta.is_empty() && cta.iter().all(|name| name.starts_with("CTA 40 ") || name.starts_with("merge CTA 40 "))
        );
        assert!(names("cta 40 of launch 0").iter().all(|name| name.contains("of launch 0")));
        assert!(names("merge").iter().any(|name| name.starts_with("merge CTA")));
        assert!(names("tail").iter().all(|name| name.starts_with("tail imbalance of")) && !names("tail").is_empty());
        let tile = shown.planned.plan.packs[0].tile;
        assert!(names(&format!("{}x{}", tile.m, tile.n)).iter().all(|name| name.contains(&tile.to_string())));
        let seven = names("7");
        assert!(["node 7", "pack 7", "CTA 7"].iter().all(|name| seven.iter().any(|hit| hit.starts_with(name))));
        assert_eq!((names("node 999999"), names("")), (vec![], vec![]));
        assert_eq!(sms(&shown, "SM 131").len(), 1);
        assert_eq!(
            sms(&shown, "13").iter().map(|hit| hit.name.as_str()).collect::<Vec<_>>(),
            ["SM 13", "SM 130", "SM 131"]
        );
    }
}
