//! The prefix tree as a canvas: width = requests, height = tokens, colour = pack.

use egui::{Align2, FontId, Pos2, Rect, Sense, Stroke, StrokeKind, Ui, pos2};
use engine::units::{NodeIdx, counted};
use engine::workload::PrefixTree;

use crate::theme::mix;
use crate::window::frame::Frame;
use crate::window::panels::parts::{empty, no_run};
use crate::window::selection::Selection;

/// Where nodes lie: pure geometry.
#[derive(Clone, Debug, Default)]
struct Layout {
    /// Node, its rectangle and how many nodes were folded into it.
    boxes: Vec<(NodeIdx, Rect, u32)>,
}

/// Height of a node: square root of its tokens, so that a short one beside a long one stays visible.
fn weight(tokens: u64) -> f32 {
    (tokens as f32).sqrt().max(4.0)
}

fn layout(tree: &PrefixTree, rect: Rect) -> Layout {
    let total = tree.order.len().max(1) as f32;
    let mut depth = vec![0.0_f32; tree.nodes.len()];
    let mut deepest = 1.0_f32;
    for (at, node) in tree.nodes.iter().enumerate() {
        let above = node.parent.map_or(0.0, |parent| depth[parent.at()]);
        depth[at] = above + weight(node.tokens.0);
        deepest = deepest.max(depth[at]);
    }
    let mut boxes: Vec<(NodeIdx, Rect, u32)> = Vec::new();
    let mut last_at_depth: Vec<Option<usize>> = Vec::new();
    for (at, node) in tree.nodes.iter().enumerate() {
        let left = rect.left() + rect.width() * node.queries.start as f32 / total;
        let right = rect.left() + rect.width() * node.queries.end as f32 / total;
        let top = rect.top() + rect.height() * (depth[at] - weight(node.tokens.0)) / deepest;
        let bottom = rect.top() + rect.height() * depth[at] / deepest;
        let place = Rect::from_min_max(pos2(left, top), pos2(right, bottom));
        last_at_depth.resize(last_at_depth.len().max(node.depth as usize + 1), None);
        let before = last_at_depth[node.depth as usize];
        // A node under three pixels joins the one before it on its level, which then counts both.
        if let Some(index) = before.filter(|index| place.right() - boxes[*index].1.left() < 3.0) {
            boxes[index].1 = boxes[index].1.union(place);
            boxes[index].2 += 1;
            continue;
        }
        last_at_depth[node.depth as usize] = Some(boxes.len());
        boxes.push((NodeIdx::from(at), place, 1));
    }
    Layout { boxes }
}

/// Draws the canvas.
pub fn show(ui: &mut Ui, frame: &Frame<'_>) {
    let Some(shown) = frame.shown.filter(|shown| !shown.planned.tree.nodes.is_empty()) else {
        empty(ui, frame.tokens, no_run(frame));
        return;
    };
    let tree = &shown.planned.tree;
    let (outer, response) = ui.allocate_exact_size(ui.available_size(), Sense::click());
    let painter = ui.painter_at(outer);
    painter.rect_filled(outer, 0.0, frame.tokens.canvas);
    let found = layout(tree, outer.shrink2(egui::vec2(8.0, 8.0)).with_max_y(outer.bottom() - 22.0));
    let pointer = response.hover_pos();
    let at = |pos: Pos2| found.boxes.iter().find(|(_, place, _)| place.contains(pos));
    for (node, place, folded) in &found.boxes {
        paint_node(&painter, frame, *node, *place, *folded);
    }
    let caption = format!(
        "width: requests, height: √tokens, colour: pack · {}, {} tokens",
        counted(tree.nodes.len() as u64, "node"),
        tree.unique_tokens()
    );
    painter.text(
        outer.left_bottom() + egui::vec2(8.0, -5.0),
        Align2::LEFT_BOTTOM,
        caption,
        FontId::proportional(11.0),
        frame.tokens.faint,
    );
    if let Some((node, _, folded)) = pointer.and_then(at) {
        frame.link(&response, Selection::Node(*node));
        let found = tree.node(*node);
        let text = if *folded > 1 {
            format!("{folded} nodes too narrow to draw apart, from node {}", node.0)
        } else {
            format!(
                "node {} · {} tokens · {}, of which {} end here",
                node.0,
                found.tokens,
                counted(u64::from(found.query_count()), "request"),
                found.ending
            )
        };
        response.on_hover_text_at_pointer(text);
    } else if response.clicked() {
        frame.send(crate::window::command::Command::Select(Selection::None));
    }
}

fn paint_node(painter: &egui::Painter, frame: &Frame<'_>, node: NodeIdx, place: Rect, folded: u32) {
    let Some(shown) = frame.shown else { return };
    let tokens = frame.tokens;
    let mut fill = tokens.entity(node.0);
    let lit = frame.selected.has_node(node) || frame.hovered.has_node(node);
    if frame.selected.draws_others_back() && !lit {
        fill = tokens.dimmed(fill);
    }
    if folded > 1 {
        fill = mix(fill, tokens.idle, 0.4);
    }
    let inner = if place.width() > 5.0 { place.shrink(0.75) } else { place };
    painter.rect_filled(inner, if place.width() > 12.0 { 3.0 } else { 0.0 }, fill);
    if lit {
        painter.rect_stroke(inner, 3.0, Stroke::new(2.0, tokens.text), StrokeKind::Inside);
    }
    let found = shown.planned.tree.node(node);
    if inner.height() < 15.0 || inner.width() < 26.0 {
        return;
    }
    let full = format!("{} tokens × {}", found.tokens, found.query_count());
    let short = found.tokens.to_string();
    for text in [full, short] {
        let galley = painter.layout_no_wrap(text, FontId::proportional(11.5), tokens.on(fill));
        if galley.size().x < inner.width() - 6.0 {
            painter.galley(inner.center() - galley.size() / 2.0, galley, tokens.text);
            return;
        }
    }
}
