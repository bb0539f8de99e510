//! Batches from what engines write: importer, file and part, and a look at lengths and sharing before the batch is taken.

use std::path::PathBuf;

use crossbeam_channel::{Receiver, bounded};
use egui::{Align2, ComboBox, Context, RichText, Sense, TextEdit, Ui, vec2};
use engine::cancel::Cancel;
use engine::import::{self, Heeds, ImportOptions, Importer, Part, Progress, Watch};
use engine::units::{Tokens, counted};
use engine::workload::{self, BatchSpec, PrefixTree};

use crate::theme;
use crate::window::command::Command;
use crate::window::frame::Frame;

/// Bars of the picture of lengths.
const BARS: usize = 32;

/// What a file would bring.
#[derive(Debug)]
struct Preview {
    spec: BatchSpec,
    /// KV tokens of each request, the shortest first.
    lengths: Vec<u64>,
    unique: Tokens,
    nodes: u64,
    notes: Vec<String>,
}

impl Preview {
    fn read(
        importer: &Importer,
        path: &std::path::Path,
        options: &ImportOptions,
        cancel: &Cancel,
    ) -> Result<Self, String> {
        let told = |error: engine::Error| format!("{}: {error}", path.display());
        let mut watch = Watch { cancel, progress: Progress(&mut |_, _| ()) };
        let imported = importer.read(path, options, &mut watch).map_err(told)?;
        let batch = imported.batch.build().map_err(told)?;
        let tree = PrefixTree::of(&batch);
        let mut lengths: Vec<u64> = batch.requests().iter().map(|request| request.kv.0).collect();
        lengths.sort_unstable();
        let (unique, nodes) = (tree.unique_tokens(), tree.nodes.len() as u64);
        Ok(Self { spec: imported.batch, lengths, unique, nodes, notes: imported.notes })
    }

    fn total(&self) -> u64 {
        self.lengths.iter().sum()
    }

    /// Lengths and sharing in figures, and the lengths as bars.
    fn show(&self, ui: &mut Ui, frame: &Frame<'_>) {
        let at = |part: usize| Tokens(self.lengths.get(self.lengths.len() * part / 4).copied().unwrap_or(0));
        let most = self.lengths.last().copied().unwrap_or(0);
        let requests = counted(self.lengths.len() as u64, "request");
        ui.label(
            RichText::new(format!(
                "{requests} · KV tokens: {} shortest, {} median, {} longest",
                at(0),
                at(2),
                Tokens(most)
            ))
            .strong(),
        );
        let (total, unique) = (self.total(), self.unique.0);
        let shared = 100.0 * (1.0 - unique as f64 / total.max(1) as f64);
        let nodes = counted(self.nodes, "tree node");
        ui.label(format!(
            "{} KV tokens, {} of them unique: {shared:.1} % shared, in {nodes}",
            Tokens(total),
            self.unique
        ));
        let (area, bars) = ui.allocate_exact_size(vec2(460.0, 48.0), Sense::hover());
        let mut counts = [0_usize; BARS];
        for length in &self.lengths {
            counts[(*length as usize * (BARS - 1)).checked_div(most as usize).unwrap_or(0).min(BARS - 1)] += 1;
        }
        let tallest = counts.iter().copied().max().unwrap_or(1).max(1) as f32;
        ui.painter().rect_filled(area, 2.0, frame.tokens.canvas);
        for (at, count) in counts.into_iter().enumerate() {
            let size = vec2(area.width() / BARS as f32 - 1.0, area.height() * count as f32 / tallest);
            let left = area.left() + area.width() * at as f32 / BARS as f32;
            let bar = egui::Rect::from_min_size(egui::pos2(left, area.bottom() - size.y), size);
            ui.painter().rect_filled(bar, 0.0, frame.tokens.decode);
        }
        bars.on_hover_text(format!("requests by KV tokens, 0 to {}", Tokens(most)));
        for note in &self.notes {
            ui.add(egui::Label::new(RichText::new(note).color(frame.tokens.faint)).wrap());
        }
    }
}

/// The dialog.
#[derive(Debug)]
pub(super) struct State {
    importer: &'static Importer,
    path: String,
    part: String,
    fresh: bool,
    found: Option<Result<Preview, String>>,
    reading: Option<(Receiver<Result<Preview, String>>, Cancel)>,
}

impl Default for State {
    fn default() -> Self {
        let importer = import::find("mooncake").unwrap_or(&import::importers()[0]);
        Self { importer, path: String::new(), part: "0:32".to_owned(), fresh: true, found: None, reading: None }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.reading.iter().for_each(|(_, cancel)| cancel.cancel());
    }
}

impl State {
    /// Draws it; false when it is done with.
    pub(super) fn show(&mut self, ctx: &Context, frame: &Frame<'_>) -> bool {
        if let Some(found) = self.reading.as_ref().and_then(|(answers, _)| answers.try_recv().ok()) {
            (self.found, self.reading) = (Some(found), None);
        }
        let mut open = true;
        egui::Window::new(theme::title("Import a batch from what an engine writes"))
            .anchor(Align2::CENTER_CENTER, [0.0, 0.0])
            .collapsible(false)
            .resizable(false)
            .show(ctx, |ui| {
                let escape = ui.input(|input| input.key_pressed(egui::Key::Escape));
                if self.fields(ui) {
                    self.begin(ctx, frame);
                }
                match &self.found {
                    Some(Ok(preview)) => preview.show(ui, frame),
                    Some(Err(problem)) => {
                        _ = ui.add(egui::Label::new(RichText::new(problem).color(frame.tokens.error)).wrap());
                    }
                    None => {}
                }
                open = self.buttons(ui, ctx, frame) && !escape;
            });
        open
    }

    /// Importer, file and part; true where Enter asks for a look.
    fn fields(&mut self, ui: &mut Ui) -> bool {
        ui.set_max_width(480.0);
        let before = (self.importer.name, self.path.clone(), self.part.clone());
        let label = ui.label("written by").id;
        let combo = ComboBox::from_id_salt("importer").selected_text(self.importer.name).width(160.0);
        let combo = combo.show_ui(ui, |ui| {
            for importer in import::importers() {
                let chosen = self.importer.name == importer.name;
                if ui.selectable_label(chosen, importer.name).on_hover_text(importer.about).clicked() {
                    self.importer = importer;
                }
            }
        });
        combo.response.labelled_by(label);
        ui.add(egui::Label::new(RichText::new(self.importer.about).small()).wrap());
        let label = ui.label("path").id;
        let edit = ui.add(TextEdit::singleline(&mut self.path).desired_width(460.0)).labelled_by(label);
        if std::mem::take(&mut self.fresh) {
            edit.request_focus();
        }
        let mut entered = edit.lost_focus() && ui.input(|input| input.key_pressed(egui::Key::Enter));
        if let Some((name, hint)) = self.part_name() {
            let label = ui.label(name).id;
            let edit = TextEdit::singleline(&mut self.part).hint_text(hint).desired_width(160.0);
            let edit = ui.add(edit).labelled_by(label);
            entered |= edit.lost_focus() && ui.input(|input| input.key_pressed(egui::Key::Enter));
        }
        if before != (self.importer.name, self.path.clone(), self.part.clone()) {
            (self.found, self.reading) = (None, None);
        }
        entered
    }

    /// What the part is called, and how it is written.
    fn part_name(&self) -> Option<(&'static str, &'static str)> {
        let heeds = |what| self.importer.heeds.contains(&what);
        match (heeds(Heeds::Window), heeds(Heeds::At), heeds(Heeds::Call)) {
            (true, true, _) => Some(("rows START:COUNT, or the moment in ms", "0:64 or 30000")),
            (true, false, _) => Some(("rows START:COUNT", "0:64")),
            (false, true, _) => Some(("the moment in ms", "60000")),
            (false, false, true) => Some(("which call, the first being 0", "0")),
            (false, false, false) => None,
        }
    }

    fn options(&self, frame: &Frame<'_>) -> Result<ImportOptions, String> {
        let heeds = |what| self.importer.heeds.contains(&what);
        let text = self.part.trim();
        let wrong = || format!("'{text}' is none; write it like {}", self.part_name().map_or("0:64", |(_, hint)| hint));
        let part = match text {
            _ if self.part_name().is_none() => None,
            "" => None,
            window if window.contains(':') && heeds(Heeds::Window) => {
                let (start, count) = workload::parse_window(window).map_err(|error| error.to_string())?;
                Some(Part::Window { start, count })
            }
            moment if heeds(Heeds::At) => Some(Part::At(moment.parse().map_err(|_| wrong())?)),
            call if heeds(Heeds::Call) => Some(Part::Call(call.parse().map_err(|_| wrong())?)),
            _ => return Err(wrong()),
        };
        Ok(ImportOptions { shape: frame.spec.shape, part, step: 1, ..ImportOptions::default() })
    }

    /// Reads on a thread of its own: a trace may be large.
    fn begin(&mut self, ctx: &Context, frame: &Frame<'_>) {
        self.found = None;
        self.reading.iter().for_each(|(_, cancel)| cancel.cancel());
        let options = match self.options(frame) {
            Ok(options) => options,
            Err(problem) => return self.found = Some(Err(problem)),
        };
        let (importer, path, wake) = (self.importer, PathBuf::from(self.path.trim()), ctx.clone());
        let (answer, answers) = bounded(1);
        let cancel = Cancel::default();
        let stop = cancel.clone();
        let thread = std::thread::Builder::new().name("import".to_owned()).spawn(move || {
            // Nobody may wait any more.
            let _ = answer.send(Preview::read(importer, &path, &options, &stop));
            wake.request_repaint();
        });
        match thread {
            Ok(_) => self.reading = Some((answers, cancel)),
            Err(error) => self.found = Some(Err(format!("the system gives no thread to read with: {error}"))),
        }
    }

    /// Look, take, close; false where it is done with.
    fn buttons(&mut self, ui: &mut Ui, ctx: &Context, frame: &Frame<'_>) -> bool {
        let mut open = true;
        ui.horizontal(|ui| {
            let some = !self.path.trim().is_empty() && self.reading.is_none();
            if ui.add_enabled(some, egui::Button::new("Look")).on_hover_text("read it, and say what is in it").clicked()
            {
                self.begin(ctx, frame);
            }
            if ui.button("Browse…").clicked()
                && let Some(path) = rfd::FileDialog::new().pick_file()
            {
                self.path = path.display().to_string();
                self.found = None;
            }
            let found = self.found.as_ref().and_then(|found| found.as_ref().ok());
            let take = ui.add_enabled(found.is_some(), egui::Button::new("Take this batch"));
            if let Some(preview) = found.filter(|_| take.clicked()) {
                let name = format!("import of {}", self.importer.what);
                frame.send(Command::Draw { spec: Box::new(preview.spec.clone()), name, node: None });
                open = false;
            }
            if ui.button("Close").clicked() {
                open = false;
            }
            if self.reading.is_some() {
                ui.spinner();
            }
        });
        open
    }
}
