//! What is replayed: the trace, how it is served, and under which ways.

use std::path::PathBuf;

use egui::{ComboBox, DragValue, RichText, TextEdit, Ui};
use engine::import;
use engine::pack;
use engine::plan::Strategy;
use engine::replay::{ReplayOptions, ServingOptions};
use engine::session::{Auto, PlanOptions};
use engine::units::counted;
use engine::workload::{AttentionShape, Model, parse_window};

use crate::runs::replay::Asked;
use crate::window::command::Command;
use crate::window::frame::Frame;

/// Steps that are served unless asked otherwise: some seconds of simulating.
const STEPS: u64 = 200;
/// Most ways side by side.
const MOST: usize = 6;

/// The fields.
#[derive(Clone, Debug)]
pub(super) struct Form {
    pub(super) path: String,
    pub(super) format: &'static str,
    window: String,
    model: &'static Model,
    gpus: u32,
    block_size: u32,
    steps: u64,
    serving: ServingOptions,
    /// None until a person changes them: then the usual one and what the document has.
    ways: Option<Vec<(String, Strategy)>>,
}

impl Default for Form {
    fn default() -> Self {
        Self {
            path: String::new(),
            format: "mooncake",
            window: String::new(),
            // As the command line has it; the list of models is never empty.
            model: Model::find("llama-3-8b").unwrap_or(&Model::all()[0]),
            gpus: 1,
            block_size: AttentionShape::default().block_size,
            steps: STEPS,
            serving: ServingOptions::default(),
            ways: None,
        }
    }
}

impl Form {
    fn ways(&self, options: &PlanOptions) -> Vec<(String, Strategy)> {
        self.ways.clone().unwrap_or_else(|| {
            let mut ways = vec![("query-centric".to_owned(), Strategy::default())];
            let own = (options.scheduler.clone(), options.strategy);
            let own = if ways.contains(&own) { (pack::DEFAULT.to_owned(), Strategy::default()) } else { own };
            ways.push(own);
            ways
        })
    }

    /// What the fields ask for, or what is wrong with them.
    pub(super) fn asked(&self, options: &PlanOptions) -> Result<Asked, String> {
        let path = self.path.trim();
        if path.is_empty() {
            return Err("name a trace".to_owned());
        }
        let window = match self.window.trim() {
            "" => None,
            text => Some(parse_window(text).map_err(|error| error.to_string())?),
        };
        // Choices by hand and a tile for all packs are of one batch; a replay has many.
        let mut pack = options.pack.clone();
        pack.forced.clear();
        let of = PlanOptions { auto: Auto::default(), tile: None, explain: false, pack, ..options.clone() };
        let way = |(scheduler, strategy)| PlanOptions { scheduler, strategy, ..of.clone() };
        Ok(Asked {
            path: PathBuf::from(path),
            format: self.format,
            window,
            options: ReplayOptions {
                model: self.model,
                gpus: self.gpus,
                block_size: self.block_size,
                serving: self.serving,
                max_steps: self.steps,
            },
            ways: self.ways(options).into_iter().map(way).collect(),
        })
    }

    /// Draws the fields, and what goes on.
    pub(super) fn show(&mut self, ui: &mut Ui, frame: &Frame<'_>) {
        ui.horizontal_wrapped(|ui| self.trace(ui));
        ui.horizontal_wrapped(|ui| self.served(ui));
        ui.horizontal_wrapped(|ui| self.way_list(ui, frame));
        ui.horizontal_wrapped(|ui| self.go(ui, frame));
    }

    fn trace(&mut self, ui: &mut Ui) {
        let label = ui.label("trace").id;
        ui.add(TextEdit::singleline(&mut self.path).hint_text("path").desired_width(240.0)).labelled_by(label);
        if ui.button("Browse…").on_hover_text("the desktop's own dialog, where it has one").clicked()
            && let Some(path) = rfd::FileDialog::new().pick_file()
        {
            self.path = path.display().to_string();
        }
        let combo = ComboBox::from_id_salt("format of the trace").width(90.0).selected_text(self.format);
        let combo = combo.show_ui(ui, |ui| {
            for importer in import::importers().iter().filter(|importer| importer.is_trace()) {
                ui.selectable_value(&mut self.format, importer.name, importer.name).on_hover_text(importer.about);
            }
        });
        combo.response.labelled_by(label).on_hover_text("what wrote the trace");
        let label = ui.label("requests").id;
        let window = TextEdit::singleline(&mut self.window).hint_text("all, or 0:256").desired_width(84.0);
        ui.add(window).labelled_by(label).on_hover_text("the first, and how many");
    }

    fn served(&mut self, ui: &mut Ui) {
        let label = ui.label("model").id;
        let combo = ComboBox::from_id_salt("model of the replay").selected_text(self.model.title).height(420.0);
        let combo = combo.show_ui(ui, |ui| {
            for model in Model::all() {
                if ui.selectable_label(self.model == model, model.title).on_hover_text(model.about()).clicked() {
                    (self.model, self.gpus) = (model, 1);
                }
            }
        });
        combo.response.labelled_by(label);
        let gpus = |gpus: u32| counted(u64::from(gpus), "GPU");
        let combo = ComboBox::from_id_salt("GPUs of the replay").width(64.0).selected_text(gpus(self.gpus));
        let combo = combo.show_ui(ui, |ui| {
            for degree in self.model.degrees() {
                ui.selectable_value(&mut self.gpus, degree, gpus(degree));
            }
        });
        combo.response.labelled_by(label);
        let combo = ComboBox::from_id_salt("block size of the replay").width(96.0);
        let combo = combo.selected_text(format!("blocks of {}", self.block_size)).show_ui(ui, |ui| {
            for size in AttentionShape::BLOCK_SIZES {
                ui.selectable_value(&mut self.block_size, size, size.to_string());
            }
        });
        combo.response.labelled_by(label).on_hover_text("tokens of a KV block");
        ui.add(DragValue::new(&mut self.steps).range(1..=1_000_000).prefix("at most ").suffix(" steps"));
        ui.menu_button("Serving", |ui| serving(ui, &mut self.serving)).response.on_hover_text("how the engine serves");
    }

    fn way_list(&mut self, ui: &mut Ui, frame: &Frame<'_>) {
        let mut ways = self.ways(frame.options);
        let before = ways.clone();
        let mut gone = None;
        let many = ways.len() > 1;
        for (at, (scheduler, strategy)) in ways.iter_mut().enumerate() {
            ui.push_id(("way", at), |ui| {
                let text = if at == 0 { "compare with" } else { "and" };
                let label = ui.label(RichText::new(text).color(frame.tokens.faint)).id;
                let combo = ComboBox::from_id_salt("scheduler").width(110.0).selected_text(scheduler.clone());
                let combo = combo.show_ui(ui, |ui| {
                    for other in pack::schedulers() {
                        ui.selectable_value(scheduler, other.name().to_owned(), other.name())
                            .on_hover_text(other.about());
                    }
                });
                combo.response.labelled_by(label);
                let combo = ComboBox::from_id_salt("strategy").width(74.0).selected_text(strategy.name());
                let combo = combo.show_ui(ui, |ui| {
                    for other in Strategy::ALL {
                        ui.selectable_value(strategy, other, other.name()).on_hover_text(other.about());
                    }
                });
                combo.response.labelled_by(label);
                if ui.add_enabled(many, egui::Button::new("−").small()).on_hover_text("leave this way out").clicked()
                {
                    gone = Some(at);
                }
            });
        }
        if let Some(at) = gone {
            ways.remove(at);
        }
        if ui.add_enabled(ways.len() < MOST, egui::Button::new("+ way").small()).clicked() {
            ways.push((pack::DEFAULT.to_owned(), Strategy::default()));
        }
        if ways != before {
            self.ways = Some(ways);
        }
    }

    fn go(&self, ui: &mut Ui, frame: &Frame<'_>) {
        if let Some((done, of)) = frame.studying.progress() {
            let share = of.map_or(0.0, |of| done as f32 / of.max(1) as f32);
            ui.add(egui::ProgressBar::new(share).desired_width(180.0).text(counted(done, "step")));
            if ui.button("Cancel").clicked() {
                frame.send(Command::StopStudy);
            }
            ui.ctx().request_repaint_after(std::time::Duration::from_millis(100));
            return;
        }
        let asked = self.asked(frame.options);
        let reason = asked.as_ref().err().cloned().unwrap_or_default();
        if ui.add_enabled(asked.is_ok(), egui::Button::new("Replay")).on_disabled_hover_text(&reason).clicked()
            && let Ok(asked) = asked
        {
            frame.send(Command::Replay(Box::new(asked)));
        }
        let device = &frame.options.device.name;
        let text = if reason.is_empty() { format!("on {device}, simulated") } else { reason };
        ui.label(RichText::new(text).color(frame.tokens.faint));
    }
}

fn serving(ui: &mut Ui, options: &mut ServingOptions) {
    let mut field = |name: &str, about: &str, add: &mut dyn FnMut(&mut Ui) -> egui::Response| {
        ui.horizontal(|ui| {
            let label = ui.label(name).id;
            add(ui).labelled_by(label).on_hover_text(about);
        });
    };
    field("query tokens a step", "one for each decode, the rest for prefill chunks", &mut |ui| {
        ui.add(DragValue::new(&mut options.token_budget).range(1..=1_048_576))
    });
    field("requests at once", "most that run", &mut |ui| {
        ui.add(DragValue::new(&mut options.max_running).range(1..=10_000))
    });
    field("KV tokens of the cache", "room of the prefix cache", &mut |ui| {
        ui.add(DragValue::new(&mut options.cache_tokens).range(1024..=1_u64 << 34))
    });
    field("arrival times ×", "0.5 doubles the request rate, 0 lets all arrive at once", &mut |ui| {
        ui.add(DragValue::new(&mut options.time_scale).range(0.0..=1e6).speed(0.01))
    });
}
