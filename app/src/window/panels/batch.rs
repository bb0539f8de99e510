//! The batch: shape, tree, listed requests, samples, files. Every edit replans at once.

use egui::{DragValue, RichText, ScrollArea, Ui};
use engine::units::{NodeIdx, grouped};
use engine::workload::{AttentionShape, BatchSpec, Dtype, Model, NodeSpec, RequestSpec, random_forest, random_hybrid};

use crate::document::drawing::{Numbers, is_one_with_child};
use crate::samples;
use crate::window::command::Command;
use crate::window::commands::table::Action;
use crate::window::frame::Frame;
use crate::window::selection::{Lit, Selection};

/// Most lines of a list that can be edited here.
const MOST: usize = 200;

/// Draws the panel.
pub fn show(ui: &mut Ui, frame: &Frame<'_>) {
    let mut spec = frame.spec.clone();
    let numbers = Numbers::of(&spec);
    ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
        header(ui, frame, &mut spec);
        ui.separator();
        shape(ui, &mut spec.shape);
        ui.separator();
        roots(ui, frame, &mut spec, &numbers);
        ui.separator();
        requests(ui, frame, &mut spec, &numbers);
    });
    if spec != *frame.spec {
        frame.send(Command::Edit(Box::new(spec)));
    }
}

fn header(ui: &mut Ui, frame: &Frame<'_>, spec: &mut BatchSpec) {
    ui.horizontal_wrapped(|ui| {
        let combo = egui::ComboBox::from_id_salt("sample").selected_text("Samples").height(420.0);
        let shown = combo.show_ui(ui, |ui| {
            for sample in samples::samples() {
                if ui.selectable_label(false, sample.key).clicked() {
                    frame.send(Command::Sample(sample.key));
                }
            }
        });
        shown.response.on_hover_text("open a sample");
        random(ui, frame);
        if ui.button("Open…").clicked() {
            frame.send(Command::Act(Action::Open));
        }
        if ui.button("Save…").clicked() {
            frame.send(Command::Act(Action::Save));
        }
        if ui.button("Clear").clicked() {
            frame.send(Command::Act(Action::Clear));
        }
    });
    ui.add(egui::TextEdit::singleline(&mut spec.name).hint_text("name").desired_width(f32::INFINITY));
    if !spec.look_for.is_empty() {
        ui.add(egui::Label::new(RichText::new(&spec.look_for).italics().color(frame.tokens.faint)).wrap());
    }
    // A batch file can ask for more than there are numbers.
    let counts = spec.roots.iter().map(NodeSpec::request_count).chain(spec.requests.iter().map(counted));
    let count = counts.fold(0, u64::saturating_add);
    if count == 0 {
        ui.label("This batch is empty. Add a tree or a request below, or pick a sample above.");
    } else {
        ui.label(RichText::new(engine::units::counted(count, "request")).strong());
    }
}

/// A batch from a seed and a number.
type Make = fn(u64, u32) -> BatchSpec;

/// Random batches by seed and number: the same pair gives the same batch everywhere.
fn random(ui: &mut Ui, frame: &Frame<'_>) {
    let memory = egui::Id::unique("seed of random batches");
    let mut seed: u64 = ui.data(|data| data.get_temp(memory)).unwrap_or(1);
    ui.menu_button("Random", |ui| {
        ui.horizontal(|ui| {
            let label = ui.label("seed").id;
            ui.add(DragValue::new(&mut seed)).labelled_by(label);
        });
        let kinds: [(&str, Make); 2] =
            [("Decodes over prefix trees", random_forest), ("Prefill beside decodes", random_hybrid)];
        for (name, make) in kinds {
            if ui.button(name).clicked() {
                let spec = Box::new(make(seed, 0));
                frame.send(Command::Draw { spec, name: format!("random batch of seed {seed}"), node: None });
                // The next click draws another one.
                seed = seed.wrapping_add(1);
                ui.close();
            }
        }
    })
    .response
    .on_hover_text("a batch that nobody chose, by its seed");
    ui.data_mut(|data| data.insert_temp(memory, seed));
}

fn counted(request: &RequestSpec) -> u64 {
    match request {
        RequestSpec::Decode { count, .. } => u64::from(*count),
        _ => 1,
    }
}

/// Which model was taken, and for how many GPUs.
#[derive(Clone, Copy)]
struct Taken {
    model: &'static Model,
    gpus: u32,
}

/// A menu of models and one of tensor-parallel degrees, which set the shape.
fn models(ui: &mut Ui, shape: &mut AttentionShape) {
    let memory = egui::Id::unique("model of the batch");
    let is = |taken: &Taken| taken.model.shape(taken.gpus, shape.block_size).is_ok_and(|own| own == *shape);
    let taken: Option<Taken> = ui.data(|data| data.get_temp(memory)).filter(is);
    let mut chosen = taken;
    ui.horizontal(|ui| {
        let label = ui.label("model").id;
        let shown = taken.map_or("none", |taken| taken.model.title);
        let combo = egui::ComboBox::from_id_salt("model").selected_text(shown).height(420.0);
        let shown = combo.show_ui(ui, |ui| {
            for model in Model::all() {
                let own = taken.is_some_and(|taken| taken.model == model);
                if ui.selectable_label(own, model.title).on_hover_text(model.about()).clicked() {
                    chosen = Some(Taken { model, gpus: 1 });
                }
            }
        });
        shown.response.labelled_by(label);
        let Some(taken) = taken else { return };
        let label = ui.label("on").id;
        let combo = egui::ComboBox::from_id_salt("gpus").selected_text(counted_gpus(taken.gpus)).width(60.0);
        let shown = combo.show_ui(ui, |ui| {
            for gpus in taken.model.degrees() {
                if ui.selectable_label(gpus == taken.gpus, counted_gpus(gpus)).clicked() {
                    chosen = Some(Taken { gpus, ..taken });
                }
            }
        });
        shown.response.labelled_by(label).on_hover_text("tensor parallelism: the batch is that of one GPU");
    });
    let Some(chosen) = chosen else { return };
    if !chosen.model.not_modelled.is_empty() {
        ui.label(RichText::new(format!("Not modelled: {}.", chosen.model.not_modelled)).italics());
    }
    if let Ok(own) = chosen.model.shape(chosen.gpus, shape.block_size) {
        *shape = own;
        ui.data_mut(|data| data.insert_temp(memory, chosen));
    }
}

fn counted_gpus(gpus: u32) -> String {
    engine::units::counted(u64::from(gpus), "GPU")
}

fn shape(ui: &mut Ui, shape: &mut AttentionShape) {
    models(ui, shape);
    egui::Grid::new("shape").num_columns(4).spacing([8.0, 4.0]).show(ui, |ui| {
        heads(ui, "query heads", &mut shape.query_heads);
        heads(ui, "KV heads", &mut shape.kv_heads);
        ui.end_row();
        pick(ui, "head dim", &mut shape.head_dim, &AttentionShape::HEAD_DIMS);
        pick(ui, "block size", &mut shape.block_size, &AttentionShape::BLOCK_SIZES);
        ui.end_row();
        let name = ui.label("dtype").id;
        let combo = egui::ComboBox::from_id_salt("dtype").width(60.0).selected_text(shape.dtype.name());
        let shown = combo.show_ui(ui, |ui| {
            for dtype in Dtype::ALL {
                ui.selectable_value(&mut shape.dtype, dtype, dtype.name());
            }
        });
        shown.response.labelled_by(name);
        ui.end_row();
    });
}

/// A field of a number. What a file brought stays as it is until a person changes it: drawing edits nothing.
fn field<Num: egui::emath::Numeric>(value: &mut Num) -> DragValue<'_> {
    DragValue::new(value).clamp_existing_to_range(false)
}

fn heads(ui: &mut Ui, name: &str, value: &mut u32) {
    let label = ui.label(name).id;
    ui.add(field(value).range(1..=1024).speed(0.1)).labelled_by(label);
}

fn pick(ui: &mut Ui, name: &str, value: &mut u32, of: &[u32]) {
    let label = ui.label(name).id;
    let combo = egui::ComboBox::from_id_salt(name).width(60.0).selected_text(value.to_string());
    let shown = combo.show_ui(ui, |ui| {
        for choice in of {
            ui.selectable_value(value, *choice, choice.to_string());
        }
    });
    shown.response.labelled_by(label);
}

/// A row of the list: what it is on the canvas, by number, lights up there and here; one without a number lights nothing.
fn lit(ui: &mut Ui, frame: &Frame<'_>, node: Option<NodeIdx>, row: impl FnOnce(&mut Ui)) {
    let is = |lit: &Lit| node.is_some_and(|node| lit.has_node(node));
    let fill = match (is(&frame.selected), is(&frame.hovered)) {
        (true, _) => ui.visuals().selection.bg_fill,
        (_, true) => ui.visuals().faint_bg_color,
        _ => egui::Color32::TRANSPARENT,
    };
    let drawn = egui::Frame::new().fill(fill).show(ui, |ui| ui.horizontal(row)).response;
    if let Some(node) = node.filter(|_| drawn.contains_pointer()) {
        frame.send(Command::Hover(Selection::Node(node)));
    }
}

/// Width of the fields under the headings of the list of nodes.
const FIELDS: [(&str, f32); 3] = [("copies", 48.0), ("tokens", 58.0), ("end here", 44.0)];

fn headings(ui: &mut Ui, frame: &Frame<'_>) {
    ui.horizontal(|ui| {
        ui.add_space(22.0);
        for (name, width) in FIELDS {
            let text = RichText::new(name).small().color(frame.tokens.faint);
            ui.add_sized([width, 12.0], egui::Label::new(text));
        }
    });
}

fn roots(ui: &mut Ui, frame: &Frame<'_>, spec: &mut BatchSpec, numbers: &Numbers) {
    ui.label(RichText::new("Prefix trees").strong());
    if !spec.roots.is_empty() {
        headings(ui, frame);
    }
    let mut left = MOST;
    let block = u64::from(spec.shape.block_size);
    let at = At { depth: 0, block, index: 0, number: 0 };
    nodes(ui, frame, &mut spec.roots, numbers, at, &mut left);
    if left == 0 {
        ui.label(
            RichText::new(format!("The first {MOST} nodes; edit the rest in the file.")).color(frame.tokens.faint),
        );
    }
    if ui.button("+ tree").clicked() {
        spec.roots.push(NodeSpec {
            repeat: 1,
            requests: None,
            tokens: block * 16,
            children: vec![NodeSpec { repeat: 8, ..NodeSpec::leaf(block * 4) }],
        });
    }
}

/// Where the first node of a list stands.
#[derive(Clone, Copy)]
struct At {
    depth: usize,
    /// Tokens of a block.
    block: u64,
    /// Position among all nodes.
    index: usize,
    /// Number in the tree of the plan.
    number: u64,
}

fn nodes(ui: &mut Ui, frame: &Frame<'_>, list: &mut Vec<NodeSpec>, numbers: &Numbers, mut place: At, left: &mut usize) {
    let At { depth, block, .. } = place;
    let mut remove = None;
    for (at, node) in list.iter_mut().enumerate() {
        if *left == 0 {
            return;
        }
        *left -= 1;
        let own = numbers.all.get(place.index).copied().unwrap_or_default();
        let number = NodeIdx(place.number.min(u64::from(u32::MAX)) as u32);
        let below = place.number.saturating_add(u64::from(!is_one_with_child(node)));
        let (next_index, next_number) = (
            place.index.saturating_add(own.nodes),
            place.number.saturating_add(own.numbers.saturating_mul(u64::from(node.repeat))),
        );
        lit(ui, frame, Some(number), |ui| {
            ui.add_space(12.0 * depth.min(12) as f32);
            let (swatch, dot) = ui.allocate_exact_size(egui::vec2(10.0, 14.0), egui::Sense::click());
            ui.painter().rect_filled(
                swatch.shrink2(egui::vec2(1.0, 2.0)),
                2.0,
                frame.tokens.node(depth as u32, number.0),
            );
            dot.widget_info(|| {
                egui::WidgetInfo::labeled(egui::Role::Button, true, format!("select node {}", number.0))
            });
            frame.link(&dot, Selection::Node(number));
            let copies = field(&mut node.repeat).range(1..=10_000).suffix(" ×").speed(0.1);
            ui.add_sized([FIELDS[0].1, 18.0], copies).on_hover_text("copies");
            let step = if node.children.is_empty() { 1 } else { block };
            let mut units = node.tokens / step.max(1);
            let value = field(&mut units).range(1..=(1 << 20) / step.max(1)).speed(1.0);
            let value = value.custom_formatter(move |v, _| grouped((v as u64).saturating_mul(step))).custom_parser(
                move |text| text.replace(',', "").parse::<f64>().ok().map(|tokens| (tokens / step as f64).round()),
            );
            let tokens = ui.add_sized([FIELDS[1].1, 18.0], value);
            if tokens.on_hover_text("tokens of this node; whole blocks above a leaf").changed() {
                node.tokens = units.saturating_mul(step);
            }
            let mut ending = node.ending();
            let ends = ui.add_sized([FIELDS[2].1, 18.0], field(&mut ending).range(0..=10_000).speed(0.1));
            if ends.on_hover_text("requests that end here").changed() {
                node.requests = Some(ending);
            }
            if ui.small_button("+").on_hover_text("add a child").clicked() {
                node.tokens = node.tokens.next_multiple_of(block.max(1));
                node.requests = node.requests.filter(|_| !node.children.is_empty());
                node.children.push(NodeSpec::leaf(block * 4));
            }
            if ui.small_button("−").on_hover_text("remove with everything below").clicked() {
                remove = Some(at);
            }
        });
        let first = At { depth: depth + 1, block, index: place.index.saturating_add(1), number: below };
        nodes(ui, frame, &mut node.children, numbers, first, left);
        (place.index, place.number) = (next_index, next_number);
    }
    if let Some(at) = remove {
        list.remove(at);
    }
}

fn requests(ui: &mut Ui, frame: &Frame<'_>, spec: &mut BatchSpec, numbers: &Numbers) {
    ui.label(RichText::new("Other requests").strong());
    let mut remove = None;
    let own = numbers.of_requests(spec);
    let list = &mut spec.requests;
    for (at, request) in list.iter_mut().enumerate().take(MOST) {
        lit(ui, frame, own.get(at).copied().flatten(), |ui| {
            match request {
                RequestSpec::Decode { kv, count } => {
                    ui.label("decode");
                    ui.add(field(count).range(1..=10_000).suffix(" ×").speed(0.1)).on_hover_text("requests");
                    ui.add(field(kv).range(1..=1 << 20).suffix(" KV tokens")).on_hover_text("KV tokens of each");
                }
                RequestSpec::Blocks { kv, blocks } => {
                    _ = ui.label(format!("decode {kv} KV tokens in {} listed blocks", blocks.len()));
                }
                RequestSpec::Prefill { chunk, kv } => {
                    ui.label(RichText::new("prefill").color(frame.tokens.prefill));
                    let most = *kv;
                    ui.add(field(chunk).range(1..=most)).on_hover_text("query tokens of the chunk");
                    ui.label("ending at");
                    let least = *chunk;
                    ui.add(field(kv).range(least..=1 << 20)).on_hover_text("KV tokens at its end");
                }
            }
            if ui.small_button("−").on_hover_text("remove").clicked() {
                remove = Some(at);
            }
        });
    }
    if list.len() > MOST {
        ui.label(RichText::new(format!("… and {} more", list.len() - MOST)).color(frame.tokens.faint));
    }
    if let Some(at) = remove {
        list.remove(at);
    }
    ui.horizontal(|ui| {
        if ui.button("+ unshared decodes").clicked() {
            list.push(RequestSpec::Decode { kv: 1024, count: 8 });
        }
        if ui.button("+ prefill chunk").on_hover_text("a causal chunk beside the decodes: a hybrid batch").clicked() {
            list.push(RequestSpec::Prefill { chunk: 512, kv: 4096 });
        }
    });
}
