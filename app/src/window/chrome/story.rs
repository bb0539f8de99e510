//! The story of the run in large type: how long it took, how busy the slots were, and the largest bubble with its cure,
//! beside the run that it is compared with.

use egui::{Color32, RichText, Ui};
use engine::units::Nanos;

use super::status::Status;
use crate::runs::headline;
use crate::runs::run::Run;
use crate::theme::LARGE;
use crate::window::chip;
use crate::window::command::Command;
use crate::window::frame::Frame;
use crate::window::panel::Panel;
use crate::window::selection::Selection;

/// Height of a line of large type with a chip in it and one of text.
const HEIGHT: f32 = LARGE + 28.0;

/// Draws the line.
pub(crate) fn story(ui: &mut Ui, frame: &Frame<'_>, status: &Status<'_>) {
    let margin = egui::Frame::new().fill(frame.tokens.panel).inner_margin(egui::Margin::symmetric(8, 4));
    egui::Panel::top("story").frame(margin).show(ui, |ui| {
        // One line of large and one of small type, whatever there is to tell: nothing below it moves.
        ui.set_min_height(HEIGHT);
        let Some(run) = frame.shown.and_then(|shown| shown.front()) else {
            let text = match frame.shown {
                _ if status.problem.is_some() => "No run",
                Some(shown) if shown.planned.batch.requests().is_empty() => "Nothing to run yet",
                _ => "Planning…",
            };
            _ = ui.label(RichText::new(text).size(LARGE).color(frame.tokens.faint));
            return;
        };
        ui.horizontal_wrapped(|ui| {
            large(ui, frame, run);
            if status.unread > 0 {
                let name = format!("log: {}", status.unread);
                let button = egui::Button::new(RichText::new(name).color(frame.tokens.warn)).small();
                if ui.add(button).on_hover_text("warnings and errors that were not looked at").clicked() {
                    frame.send(Command::Show(Panel::Log));
                }
            }
        });
        cure(ui, frame, run);
    });
}

fn large(ui: &mut Ui, frame: &Frame<'_>, run: &Run) {
    let t = frame.tokens;
    let big = |text: String| RichText::new(text).size(LARGE).strong();
    ui.label(big(headline::makespan(&run.capture))).on_hover_text(headline::sentence(&run.capture));
    chip::show(ui, t, run);
    ui.label(big(format!("{} busy", run.busy(0))));
    let (scheduler, strategy) = (&run.capture.plan.scheduler, run.capture.plan.strategy.name());
    ui.label(RichText::new(format!("{scheduler} · {strategy}")).color(t.faint));
    if let Some((text, colour)) = against(frame, run) {
        ui.label(RichText::new(text).color(colour));
    }
}

/// The change against the first run of the comparison, where that is another run of the same source.
fn against(frame: &Frame<'_>, run: &Run) -> Option<(String, Color32)> {
    let (base, way) = frame.compared.iter().find_map(|way| Some((way, way.outcome.as_ref().ok()?)))?;
    let (own, other) = (run.times().median.as_f64(), way.run.times().median.as_f64());
    if way.run.plan_digest == run.plan_digest || way.run.source() != run.source() || other <= 0.0 {
        return None;
    }
    let change = (own / other - 1.0) * 100.0;
    let (word, colour) = if change <= 0.0 { ("faster", frame.tokens.better) } else { ("slower", frame.tokens.worse) };
    Some((format!("{:.1} % {word} than {}", change.abs(), base.name), colour))
}

/// The largest bubble with its time on each slot, and what it would take to close it.
fn cure(ui: &mut Ui, frame: &Frame<'_>, run: &Run) {
    let t = frame.tokens;
    if let Some(reason) = run.damage.of_causes() {
        ui.label(RichText::new(format!("bubbles are not known: {reason}")).color(t.warn));
        return;
    }
    let report = &run.bubbles;
    let largest = report.bubbles.iter().max_by_key(|bubble| bubble.slot_time).filter(|bubble| bubble.slot_time.0 > 0);
    let Some(largest) = largest else {
        ui.label(RichText::new("no slot was idle").color(t.faint));
        return;
    };
    let each = Nanos(largest.slot_time.0 / report.slots.max(1));
    let share = report.share(largest.slot_time) * 100.0;
    let cause = largest.cause.name().replace('-', " ");
    let text = format!("largest bubble: {cause}, {each} of each slot ({share:.1} %) · {}", largest.close);
    let button = ui.add(egui::Button::new(RichText::new(&text).color(t.text)).frame(false).truncate());
    if button
        .on_hover_text(format!("{text}\n{}\nA click goes to the longest of them.", largest.cause.about()))
        .clicked()
        && let Some(at) = run.gaps.longest(Some(largest.cause), 1).first()
    {
        frame.send(Command::Reveal(Selection::Gap(run.source(), *at)));
    }
}
