//! Figures of what is picked, typed in place: one undo entry for all of them.

use egui::{Area, Frame as Box, Key, Order, Pos2, RichText, TextEdit, Ui};
use engine::workload::{BatchSpec, RequestSpec};

use crate::document::drawing::{Pick, Stroke};
use crate::window::frame::Frame;

/// The fields of one node, decode or chunk.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    of: Pick,
    fields: Vec<(&'static str, String)>,
    begun: bool,
    wrong: Option<String>,
}

/// What came of a frame.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Typed {
    /// Nothing yet.
    Open,
    /// The fields are closed.
    Closed,
    /// The figures are to be taken.
    Taken(Stroke),
}

impl Figures {
    /// The fields of what is picked, with its figures in them.
    pub(super) fn of(spec: &BatchSpec, of: &Pick) -> Option<Self> {
        let fields = match of {
            Pick::Node(path) => {
                let node = path.node(spec)?;
                let named = |name, value: u64| (name, value.to_string());
                vec![
                    named("tokens", node.tokens),
                    named("copies", u64::from(node.repeat)),
                    named("requests that end here", u64::from(node.ending())),
                ]
            }
            Pick::Request(at) => match spec.requests.get(*at)? {
                RequestSpec::Decode { kv, count } => {
                    vec![("KV tokens", kv.to_string()), ("requests", count.to_string())]
                }
                RequestSpec::Prefill { chunk, kv } => {
                    vec![("query tokens", chunk.to_string()), ("context before", kv.saturating_sub(*chunk).to_string())]
                }
                RequestSpec::Blocks { .. } => return None,
            },
        };
        Some(Self { of: of.clone(), fields, begun: false, wrong: None })
    }

    /// Refused, with the reason: the fields stay open.
    pub(super) fn refuse(&mut self, reason: &str) {
        self.wrong = Some(reason.to_owned());
    }

    fn stroke(&self, spec: &BatchSpec) -> Result<Stroke, String> {
        let mut values = Vec::new();
        for (name, text) in &self.fields {
            let plain = text.trim().replace([',', ' '], "");
            let value: u64 =
                plain.parse().map_err(|_| format!("{name}: '{}' is no whole number", engine::shown::quoted(text)))?;
            values.push(value);
        }
        let small = |value: u64| u32::try_from(value).map_err(|_| format!("{value} is too large"));
        if let Pick::Request(at) = &self.of
            && matches!(spec.requests.get(*at), Some(RequestSpec::Prefill { .. }))
        {
            return Ok(Stroke::Chunk { at: Some(*at), context: values[1], chunk: values[0] });
        }
        Ok(Stroke::Set {
            of: self.of.clone(),
            tokens: Some(values[0]),
            copies: Some(small(values[1])?),
            requests: values.get(2).map(|value| small(*value)).transpose()?,
        })
    }

    /// Draws the fields; Enter takes them, Escape closes them.
    pub(super) fn show(&mut self, ui: &Ui, frame: &Frame<'_>, place: Pos2) -> Typed {
        let mut typed = Typed::Open;
        let area = Area::new(ui.scope_id().with("figures")).order(Order::Foreground).fixed_pos(place).constrain(true);
        area.show(ui.ctx(), |ui| {
            Box::popup(ui.style()).show(ui, |ui| {
                let begun = std::mem::replace(&mut self.begun, true);
                for (at, (name, text)) in self.fields.iter_mut().enumerate() {
                    ui.horizontal(|ui| {
                        let field = ui.add(TextEdit::singleline(text).desired_width(80.0));
                        let label = ui.label(*name);
                        let field = field.labelled_by(label.id);
                        if at == 0 && !begun {
                            field.request_focus();
                        }
                    });
                }
                if let Some(reason) = &self.wrong {
                    ui.add(egui::Label::new(RichText::new(reason).color(frame.tokens.warn)).wrap());
                }
                let (enter, escape) = ui.input(|input| (input.key_pressed(Key::Enter), input.key_pressed(Key::Escape)));
                ui.horizontal(|ui| {
                    if ui.button("Set").clicked() || (enter && begun) {
                        match self.stroke(frame.spec) {
                            Ok(stroke) => typed = Typed::Taken(stroke),
                            Err(reason) => self.wrong = Some(reason),
                        }
                    }
                    if ui.button("Close").clicked() || escape {
                        typed = Typed::Closed;
                    }
                });
            });
        });
        typed
    }
}
