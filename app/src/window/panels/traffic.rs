//! Bytes as issued and as compulsory, by kind and by tree node, sorted by waste.

use egui::{Rect, RichText, Sense, Ui, vec2};
use egui_extras::{Column, TableBuilder};
use engine::units::Bytes;

use crate::window::frame::Frame;
use crate::window::panels::parts::{empty, figure, no_run};
use crate::window::selection::Selection;

/// Draws the panel.
pub fn show(ui: &mut Ui, frame: &Frame<'_>) {
    let Some(shown) = frame.shown.filter(|shown| !shown.planned.plan.packs.is_empty()) else {
        empty(ui, frame.tokens, no_run(frame));
        return;
    };
    let traffic = &shown.traffic;
    let issued = traffic.issued();
    let ratio = issued.as_f64() / traffic.compulsory.as_f64().max(1.0);
    figure(ui, frame.tokens, "issued by CTAs", &issued.to_string(), "derived");
    figure(ui, frame.tokens, "compulsory", &traffic.compulsory.to_string(), "derived");
    figure(ui, frame.tokens, "issued / compulsory", &format!("{ratio:.2}×"), "derived");
    for (index, (name, bytes)) in traffic.kinds().into_iter().enumerate() {
        bar(ui, frame, index as u32, name, bytes, issued);
    }
    ui.separator();
    nodes(ui, frame);
}

fn bar(ui: &mut Ui, frame: &Frame<'_>, index: u32, name: &str, bytes: Bytes, of: Bytes) {
    ui.horizontal(|ui| {
        let (rect, _) = ui.allocate_exact_size(vec2(90.0, 10.0), Sense::hover());
        ui.painter().rect_filled(rect, 2.0, frame.tokens.canvas);
        let share = (bytes.as_f64() / of.as_f64().max(1.0)) as f32;
        let filled = Rect::from_min_size(rect.min, vec2(rect.width() * share, rect.height()));
        ui.painter().rect_filled(filled, 2.0, frame.tokens.entity(index));
        ui.label(format!("{name}  {bytes}"));
        ui.label(RichText::new(format!("{:.1} %", share * 100.0)).color(frame.tokens.faint));
    });
}

fn nodes(ui: &mut Ui, frame: &Frame<'_>) {
    let Some(shown) = frame.shown else { return };
    let per_token = shown.planned.batch.shape.kv_bytes_per_token();
    let mut table = TableBuilder::new(ui)
        .id_salt("traffic")
        .striped(true)
        .sense(Sense::click())
        .cell_layout(egui::Layout::left_to_right(egui::Align::Center));
    for width in [52.0, 74.0, 74.0, 52.0] {
        table = table.column(Column::initial(width).at_least(36.0));
    }
    table = table.column(Column::remainder().at_least(60.0));
    table
        .header(18.0, |mut header| {
            for title in ["node", "tokens", "read", "times", "wasted"] {
                header.col(|ui| _ = ui.label(RichText::new(title).color(frame.tokens.faint)));
            }
        })
        .body(|body| {
            body.rows(18.0, shown.by_waste.len(), |mut row| {
                let idx = shown.by_waste[row.index()];
                let node = &shown.nodes[idx.at()];
                row.set_selected(frame.selected.has_node(idx));
                row.set_hovered(frame.hovered.has_node(idx));
                row.col(|ui| _ = ui.label(idx.0.to_string()));
                row.col(|ui| _ = ui.label(node.tokens.to_string()));
                row.col(|ui| _ = ui.label(node.tokens_read.to_string()));
                row.col(|ui| _ = ui.label(format!("{:.1}×", node.redundancy())));
                row.col(|ui| _ = ui.label((per_token * node.wasted().0).to_string()));
                frame.link(&row.response(), Selection::Node(idx));
            });
        });
}
