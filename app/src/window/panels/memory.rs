//! The memory chart: what the CTAs issue, what L2 serves of it, what comes from DRAM; and each kind of bytes as
//! modelled beside what the hardware counted.

use egui::{Align2, FontId, Painter, Rect, RichText, Sense, Shape, Stroke, Ui, pos2, vec2};
use egui_extras::{Column, TableBuilder};
use engine::capture::{Counter, Source};
use engine::metrics::{LEAST_POSSIBLE, MemoryFlow, bytes_beside};
use engine::units::Bytes;

use crate::runs::run::Run;
use crate::runs::shown::Shown;
use crate::theme::mix;
use crate::timeline::counters::rate;
use crate::window::frame::Frame;
use crate::window::panels::parts::{empty, figure, no_run};

/// Height of the chart.
const CHART: f32 = 136.0;
/// Widest arrow.
const WIDEST: f32 = 40.0;

/// Draws the panel.
pub fn show(ui: &mut Ui, frame: &Frame<'_>) {
    let Some(shown) = frame.shown.filter(|shown| !shown.planned.plan.packs.is_empty()) else {
        empty(ui, frame.tokens, no_run(frame));
        return;
    };
    let measured = shown.measured.as_ref().and_then(|run| run.flow(&shown.traffic));
    let measured = measured.filter(|flow| flow.source == Source::Measured);
    let simulated = shown.simulated.as_ref().and_then(|run| run.flow(&shown.traffic));
    egui::ScrollArea::vertical().auto_shrink([false, false]).show(ui, |ui| {
        match measured.or(simulated) {
            Some(flow) => chart(ui, frame, shown, flow),
            None => nothing(ui, frame, shown),
        }
        for (run, flow) in [(&shown.measured, measured), (&shown.simulated, simulated)] {
            if let (Some(run), Some(flow)) = (run, flow) {
                utilisation(ui, frame, shown, run, flow);
            }
        }
        ui.separator();
        table(ui, frame, shown, (simulated, measured));
        if let Some(run) = &shown.measured {
            counted(ui, frame, run);
        }
    });
}

/// Why there are no bytes by level.
fn nothing(ui: &mut Ui, frame: &Frame<'_>, shown: &Shown) {
    let text = match shown.front().and_then(|run| run.damage.of_bytes()) {
        Some(reason) => format!("What came from where is not known: {reason}."),
        None => "This run has no counters. Run it on a GPU again to count.".to_owned(),
    };
    empty(ui, frame.tokens, &text);
}

/// Issued by the CTAs → L2 → DRAM, each arrow as wide as its bytes.
fn chart(ui: &mut Ui, frame: &Frame<'_>, shown: &Shown, flow: &MemoryFlow) {
    let traffic = &shown.traffic;
    let issued = traffic.kv_read + traffic.q_read + traffic.partial_read;
    let (area, response) = ui.allocate_exact_size(vec2(ui.available_width().max(260.0), CHART), Sense::hover());
    let painter = ui.painter_at(area);
    painter.rect_filled(area, 3.0, frame.tokens.canvas);
    let source = shown.run(flow.source).map_or(flow.source.name(), |run| run.words());
    let (dram, to_sms) = (flow.dram_read, flow.to_sms);
    let most = issued.max(to_sms.unwrap_or_default()).max(dram.unwrap_or_default()).as_f64().max(1.0);
    let width = |bytes: Option<Bytes>| bytes.map_or(2.0, |bytes| (bytes.as_f64() / most) as f32 * WIDEST).max(2.0);
    let boxes = ["CTAs", "L2", "DRAM"];
    let box_width = 58.0;
    let between = (area.width() - 16.0 - box_width * 3.0) / 2.0;
    let place = |at: usize| {
        let left = area.left() + 8.0 + (box_width + between) * at as f32;
        Rect::from_min_size(pos2(left, area.top() + 42.0), vec2(box_width, 58.0))
    };
    for (at, name) in boxes.into_iter().enumerate() {
        painter.rect_filled(place(at), 4.0, mix(frame.tokens.panel, frame.tokens.line, 0.6));
        let font = FontId::proportional(13.0);
        painter.text(place(at).center(), Align2::CENTER_CENTER, name, font, frame.tokens.text);
    }
    let told = |bytes: Option<Bytes>| bytes.map_or_else(|| "not counted".to_owned(), |bytes| bytes.to_string());
    // The model has no bytes between L2 and the SMs of its own: all that is issued passes there.
    let from = if flow.source == Source::Simulated { "as issued, derived" } else { source };
    arrow(&painter, frame, (place(1), place(0)), width(to_sms), 4, [told(to_sms), from.to_owned()]);
    arrow(&painter, frame, (place(2), place(1)), width(dram), 0, [told(dram), source.to_owned()]);
    let font = FontId::proportional(11.0);
    let issue = format!("issued reads {issued} (derived)");
    painter.text(area.left_top() + vec2(8.0, 6.0), Align2::LEFT_TOP, issue, font.clone(), frame.tokens.faint);
    if let (Some(absorbed), Some(share)) = (flow.absorbed(), flow.absorbed_share()) {
        let text = format!("L2 absorbed {absorbed}, {:.1} % ({source})", share * 100.0);
        painter.text(pos2(area.center().x, area.bottom() - 6.0), Align2::CENTER_BOTTOM, text, font, frame.tokens.text);
    }
    response.on_hover_text(
        "What went to the SMs less what came from DRAM is what L2 had: shared prefixes that CTAs read at about the same \
         time, and partial results that the merge reads back.",
    );
}

/// An arrow from the right box to the left one, its bytes above and their source below.
fn arrow(
    painter: &Painter,
    frame: &Frame<'_>,
    (from, to): (Rect, Rect),
    width: f32,
    colour: u32,
    [above, below]: [String; 2],
) {
    let colour = frame.tokens.entity(colour);
    let (right, left, y) = (from.left() - 4.0, to.right() + 4.0, to.center().y);
    let head = 10.0;
    painter.rect_filled(Rect::from_x_y_ranges(left + head..=right, y - width / 2.0..=y + width / 2.0), 0.0, colour);
    let half = width / 2.0 + 4.0;
    let points = vec![pos2(left, y), pos2(left + head, y - half), pos2(left + head, y + half)];
    painter.add(Shape::convex_polygon(points, colour, Stroke::NONE));
    let middle = f32::midpoint(left + head, right);
    let font = FontId::proportional(12.0);
    painter.text(pos2(middle, to.top() - 1.0), Align2::CENTER_BOTTOM, above, font, frame.tokens.text);
    let font = FontId::proportional(10.5);
    painter.text(pos2(middle, to.bottom() + 1.0), Align2::CENTER_TOP, below, font, frame.tokens.faint);
}

/// What DRAM delivered over the makespan, of the data sheet and of what a plain read reaches.
fn utilisation(ui: &mut Ui, frame: &Frame<'_>, shown: &Shown, run: &Run, flow: &MemoryFlow) {
    let seconds = run.times().median.as_f64() * 1e-9;
    let Some(read) = flow.dram_read.filter(|_| seconds > 0.0) else { return };
    let (reached, source) = (read.as_f64() / seconds, run.words());
    figure(ui, frame.tokens, "DRAM reads over the makespan", &rate(reached), source);
    let peak = run.capture.provenance.peak_bytes_per_s as f64;
    let plain = shown.planned.options.device.reachable_bytes_per_s();
    for (name, of) in [("of a plain read", plain), ("of the data sheet", peak)] {
        let share = if of > 0.0 { reached / of } else { 0.0 };
        figure(ui, frame.tokens, &format!("{name} ({})", rate(of)), &format!("{:.1} %", share * 100.0), source);
    }
}

/// Kinds of bytes as modelled and as measured, with the difference.
fn table(
    ui: &mut Ui,
    frame: &Frame<'_>,
    shown: &Shown,
    (simulated, measured): (Option<&MemoryFlow>, Option<&MemoryFlow>),
) {
    let rows = bytes_beside(&shown.traffic, simulated, measured);
    let mut table = TableBuilder::new(ui).id_salt("bytes beside").striped(true).vscroll(false);
    for width in [102.0, 72.0, 72.0] {
        table = table.column(Column::initial(width).at_least(40.0));
    }
    table
        .column(Column::remainder().at_least(44.0))
        .header(18.0, |mut header| {
            for title in ["bytes", "modelled", "measured", "off by"] {
                header.col(|ui| _ = ui.label(RichText::new(title).color(frame.tokens.faint)));
            }
        })
        .body(|body| {
            body.rows(18.0, rows.len(), |mut row| {
                let beside = &rows[row.index()];
                let told = |bytes: Option<Bytes>| bytes.map_or_else(|| "–".to_owned(), |bytes| bytes.to_string());
                let least = if beside.model == LEAST_POSSIBLE && beside.modelled.is_some() { "≥ " } else { "" };
                row.col(|ui| _ = ui.label(beside.kind));
                row.col(|ui| _ = ui.label(format!("{least}{}", told(beside.modelled))).on_hover_text(beside.model));
                row.col(|ui| _ = ui.label(told(beside.measured)));
                let off = beside.difference().map_or_else(|| "–".to_owned(), |off| format!("{:+.1} %", off * 100.0));
                row.col(|ui| _ = ui.label(off));
            });
        });
    let how = if rows.iter().any(|row| row.model == LEAST_POSSIBLE) {
        "modelled: what the plan issues (derived), ≥ the least that it can be"
    } else {
        "modelled: L2 to SMs as the plan issues it (derived), the rest simulated"
    };
    ui.label(RichText::new(how).small().color(frame.tokens.faint));
    written(ui, frame, shown, (simulated, measured));
}

/// What of the bytes written to DRAM the plan's CTAs write, and where the rest comes from.
fn written(
    ui: &mut Ui,
    frame: &Frame<'_>,
    shown: &Shown,
    (simulated, measured): (Option<&MemoryFlow>, Option<&MemoryFlow>),
) {
    let plan = shown.traffic.partial_write + shown.traffic.output_write;
    let mut text = format!("CTAs write {plan} of partial results and outputs (derived).");
    if let Some(rest) = simulated.and_then(|flow| flow.dram_written).map(|all| all.saturating_sub(plan))
        && rest > Bytes::ZERO
    {
        let more = format!(" The simulated run writes {rest} more: lines that clearing L2 before it had left there.");
        text.push_str(&more);
    }
    if measured.is_some_and(|flow| flow.dram_written.is_some()) {
        text.push_str(" The counted run began with a clean L2, and what it left in L2 at its end is not counted.");
    }
    ui.add(egui::Label::new(RichText::new(text).small().color(frame.tokens.faint)).wrap());
}

/// All that the hardware counted over the plan.
fn counted(ui: &mut Ui, frame: &Frame<'_>, run: &Run) {
    let Some(counted) = &run.capture.counted else { return };
    ui.separator();
    let text = format!(
        "counted on {} in {} over all launches",
        counted.chip,
        engine::units::counted(u64::from(counted.passes), "pass")
    );
    ui.label(RichText::new(text).color(frame.tokens.faint));
    for count in Counter::ALL.into_iter().filter_map(|counter| Some((counter, counted.plan.get(counter)?))) {
        let (counter, value) = count;
        let text = if counter.is_bytes() {
            Bytes(value.round() as u64).to_string()
        } else {
            format!("{:.1} %", value * 100.0)
        };
        figure(ui, frame.tokens, counter.title(), &text, "measured");
    }
}
