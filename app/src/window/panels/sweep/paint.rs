//! The map: a cell as strong as its winner's margin, with the winner's letter, labels on both sides, and a legend.

use egui::text::{LayoutJob, TextFormat};
use egui::{Align2, Color32, FontId, Painter, Rect, RichText, ScrollArea, Sense, Stroke, StrokeKind, Ui, pos2, vec2};
use engine::units::{Nanos, counted};

use super::model::{Cell, Map};
use crate::runs::sweep::Sweep;
use crate::theme::{Tokens, mix};
use crate::window::command::Command;
use crate::window::frame::Frame;

/// Pixels for the labels of lines and of columns.
const LEFT: f32 = 150.0;
const HEAD: f32 = 18.0;
/// Least and largest size of a cell.
const LEAST: egui::Vec2 = vec2(4.0, 4.0);
const MOST: egui::Vec2 = vec2(110.0, 30.0);
/// Size from which a cell carries its winner's letter, and its margin beside that.
const LETTER: egui::Vec2 = vec2(14.0, 13.0);
const MARGIN: f32 = 62.0;
/// Margin at which a cell has its winner's full colour.
const FULL: f64 = 0.5;
/// Most ways that the pointer tells the times of, and most cells with an accessibility node.
const TOLD: usize = 8;
const NAMED: usize = 400;

/// A letter for a way: A to Z, then with a number.
fn letter(way: usize) -> String {
    let letter = char::from(b'A' + (way % 26) as u8);
    if way < 26 { letter.to_string() } else { format!("{letter}{}", way / 26) }
}

/// `+12 %`.
fn percent(margin: f64) -> String {
    format!("+{:.0} %", margin * 100.0)
}

fn colour(t: &Tokens, cell: &Cell) -> Color32 {
    match (cell.winner(), cell.contests) {
        (_, 0) => t.panel,
        (None, _) => mix(t.canvas, t.idle, 0.35),
        (Some(way), _) => {
            let strength = cell.margin().map_or(1.0, |margin| (margin / FULL).clamp(0.0, 1.0));
            mix(t.canvas, t.entity(way as u32), 0.3 + 0.7 * strength as f32)
        }
    }
}

/// Letter, colour and wins of each way.
pub(super) fn legend(ui: &mut Ui, frame: &Frame<'_>, map: &Map) {
    let t = frame.tokens;
    let wins = map.wins();
    let mut order: Vec<usize> = (0..map.ways.len()).filter(|way| wins[*way] > 0).collect();
    order.sort_by_key(|way| std::cmp::Reverse(wins[*way]));
    ui.horizontal_wrapped(|ui| {
        for way in &order {
            let (fill, font_id) = (t.entity(*way as u32), FontId::proportional(12.5));
            let text = format!("{}: {}", map.ways[*way], counted(wins[*way] as u64, "cell"));
            // One text, so that a letter never stands in another line than its name.
            let mut job = LayoutJob::default();
            let head =
                TextFormat { font_id: font_id.clone(), color: t.on(fill), background: fill, ..Default::default() };
            job.append(&format!(" {} ", letter(*way)), 0.0, head);
            job.append(&text, 5.0, TextFormat { font_id, color: t.text, ..Default::default() });
            ui.add(egui::Label::new(job).extend());
        }
        let losers = map.ways.len() - order.len();
        if losers > 0 {
            ui.label(RichText::new(format!("{} win nowhere", counted(losers as u64, "way"))).color(t.faint));
        }
        let text = if map.ways.len() > 1 {
            "the stronger the colour, the longer the second takes"
        } else {
            "nothing competes: all that varies of the ways is on the axes"
        };
        ui.label(RichText::new(text).color(t.faint));
    });
}

/// Draws the map; gives the cell that was picked in this frame.
pub(super) fn map(
    ui: &mut Ui,
    frame: &Frame<'_>,
    sweep: &Sweep,
    map: &Map,
    picked: Option<(usize, usize)>,
) -> Option<(usize, usize)> {
    let room = ui.available_size() - vec2(LEFT + 16.0, HEAD + 16.0);
    let (columns, lines) = (map.across.len().max(1) as f32, map.down.len().max(1) as f32);
    let cell = vec2(room.x / columns, room.y / lines).clamp(LEAST, MOST);
    let mut now = None;
    ScrollArea::both().auto_shrink(false).show(ui, |ui| {
        let size = vec2(LEFT + cell.x * columns, HEAD + cell.y * lines);
        let (outer, response) = ui.allocate_exact_size(size, Sense::click());
        let label = format!("sweep map: {} by {} cells", map.across.len(), map.down.len());
        response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Canvas, true, label.clone()));
        let painter = ui.painter_at(ui.clip_rect());
        let origin = outer.min + vec2(LEFT, HEAD);
        let grid = Grid { map, origin, cell };
        grid.cells(&painter, frame.tokens);
        grid.labels(&painter, frame.tokens, outer);
        if let Some(at) = picked {
            painter.rect_stroke(grid.place(at), 0.0, Stroke::new(2.0, frame.tokens.accent), StrokeKind::Outside);
        }
        now = grid.pointer(frame, sweep, &response, &painter);
        grid.names(ui);
    });
    now
}

struct Grid<'a> {
    map: &'a Map,
    origin: egui::Pos2,
    cell: egui::Vec2,
}

impl Grid<'_> {
    fn place(&self, (column, line): (usize, usize)) -> Rect {
        let corner = self.origin + vec2(column as f32 * self.cell.x, line as f32 * self.cell.y);
        let between = if self.cell.x.min(self.cell.y) > 6.0 { 1.0 } else { 0.0 };
        Rect::from_min_size(corner, self.cell - vec2(between, between))
    }

    /// All cells with what is in them.
    fn all(&self) -> impl Iterator<Item = ((usize, usize), &Cell)> {
        let width = self.map.across.len().max(1);
        self.map.cells.iter().enumerate().map(move |(at, cell)| ((at % width, at / width), cell))
    }

    fn cells(&self, painter: &Painter, t: &Tokens) {
        let mut mesh = egui::Mesh::default();
        for (at, cell) in self.all() {
            let place = self.place(at);
            if !painter.clip_rect().intersects(place) {
                continue;
            }
            let fill = colour(t, cell);
            mesh.add_colored_rect(place, fill);
        }
        painter.add(mesh);
        if self.cell.x < LETTER.x || self.cell.y < LETTER.y {
            return;
        }
        for (at, cell) in self.all().filter(|(_, cell)| cell.contests > 0) {
            let place = self.place(at);
            if !painter.clip_rect().intersects(place) {
                continue;
            }
            let text = match (cell.winner(), cell.margin()) {
                (None, _) => "×".to_owned(),
                (Some(way), Some(margin)) if self.cell.x >= MARGIN => format!("{} {}", letter(way), percent(margin)),
                (Some(way), _) => letter(way),
            };
            let ink = t.on(colour(t, cell));
            painter.text(place.center(), Align2::CENTER_CENTER, text, FontId::proportional(11.0), ink);
        }
    }

    /// As many labels of each side as have room.
    fn labels(&self, painter: &Painter, t: &Tokens, outer: Rect) {
        let font = FontId::proportional(11.0);
        let mut free = f32::NEG_INFINITY;
        for (line, label) in self.map.down.iter().enumerate() {
            let y = self.place((0, line)).center().y;
            if y - 6.0 < free {
                continue;
            }
            free = y + 6.0;
            let mut job = LayoutJob::simple_singleline(label.clone(), font.clone(), t.text);
            job.wrap = egui::text::TextWrapping::truncate_at_width(LEFT - 10.0);
            let galley = painter.layout_job(job);
            let at = pos2(outer.left() + LEFT - 6.0 - galley.size().x, y - galley.size().y / 2.0);
            painter.galley(at, galley, t.text);
        }
        let mut free = f32::NEG_INFINITY;
        for (column, label) in self.map.across.iter().enumerate() {
            let x = self.place((column, 0)).left() + 2.0;
            let galley = painter.layout_no_wrap(label.clone(), font.clone(), t.text);
            if x < free {
                continue;
            }
            free = x + galley.size().x + 8.0;
            painter.galley(pos2(x, outer.top() + 2.0), galley, t.text);
        }
    }

    fn pointer(
        &self,
        frame: &Frame<'_>,
        sweep: &Sweep,
        response: &egui::Response,
        painter: &Painter,
    ) -> Option<(usize, usize)> {
        let place = response.hover_pos().or(response.interact_pointer_pos())?;
        let inside = place - self.origin;
        if inside.x < 0.0 || inside.y < 0.0 {
            return None;
        }
        let at = ((inside.x / self.cell.x) as usize, (inside.y / self.cell.y) as usize);
        let cell = self.map.cell(at).filter(|cell| cell.contests > 0)?;
        painter.rect_stroke(self.place(at), 0.0, Stroke::new(1.0, frame.tokens.text), StrokeKind::Outside);
        response.clone().on_hover_text_at_pointer(self.told(sweep, at, cell));
        if !response.clicked() {
            return None;
        }
        if let Some(row) = cell.row {
            frame.send(Command::OpenPoint(row));
        }
        Some(at)
    }

    /// The figures of a cell, a line each.
    fn told(&self, sweep: &Sweep, (column, line): (usize, usize), cell: &Cell) -> String {
        let mut lines = vec![format!("{} × {}", self.map.down[line], self.map.across[column])];
        match (cell.winner(), cell.margin()) {
            (None, _) => lines.push("no way takes it".to_owned()),
            (Some(way), Some(margin)) => {
                lines.push(format!("{} wins, the second takes {} (simulated)", self.map.ways[way], percent(margin)));
            }
            (Some(way), None) => lines.push(format!("{} alone takes all of it (simulated)", self.map.ways[way])),
        }
        for standing in cell.standings.iter().take(TOLD) {
            let name = &self.map.ways[standing.way];
            lines.push(match standing.time {
                Some(time) => format!("{}  {name}: {}", letter(standing.way), Nanos(time)),
                None => format!(
                    "{}  {name}: {:.2}× the best, {} of {}",
                    letter(standing.way),
                    standing.factor,
                    standing.contests,
                    counted(cell.contests as u64, "batch")
                ),
            });
        }
        if cell.standings.len() > TOLD {
            lines.push(format!("and {} more", cell.standings.len() - TOLD));
        }
        if let Some(reason) = &cell.reason {
            lines.push(format!("{} refused, the first: {reason}", counted(cell.refused as u64, "row")));
        }
        if let Some(row) = cell.row.and_then(|row| sweep.rows.get(row)) {
            lines.push(format!("click: open {} under {} · {}", row.batch, row.scheduler, row.strategy));
        }
        lines.join("\n")
    }

    /// Accessibility nodes of the cells, as many as a person can go through.
    fn names(&self, ui: &Ui) {
        if self.map.cells.len() > NAMED {
            return;
        }
        for (at, cell) in self.all().filter(|(_, cell)| cell.contests > 0) {
            let response = ui.interact(self.place(at), ui.scope_id().with(("cell", at)), Sense::hover());
            let winner = cell.winner().map_or("no way takes it", |way| self.map.ways[way].as_str());
            let text = format!("cell {} × {}: {winner}", self.map.down[at.1], self.map.across[at.0]);
            response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Group, true, text.clone()));
        }
    }
}
