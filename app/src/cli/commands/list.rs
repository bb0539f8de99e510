//! `list`: what there is to choose from, one sentence each.

use std::process::ExitCode;

use engine::export::SCHEMA;
use engine::import::importers;
use engine::plan::Strategy;
use engine::tile::{self, Feasibility};
use engine::units::counted;
use engine::workload::{BatchSpec, Dtype, Model};
use engine::{hw, pack};
use serde_json::{Value, json};

use crate::cli::args::{ListArgs, Listing};
use crate::cli::fault::Outcome;
use crate::cli::output;
use crate::cli::table::Table;
use crate::samples;
use crate::window::commands::table::{COMMANDS, Entry};
use crate::window::panel::Panel;

/// The command.
pub(crate) fn list(args: &ListArgs) -> Outcome<ExitCode> {
    let (kind, entries) = entries(args.what);
    if args.json {
        let mut entries: Vec<_> = entries.iter().map(|(name, about)| json!({ "name": name, "about": about })).collect();
        match args.what {
            Listing::Models => {
                entries.iter_mut().zip(Model::all()).for_each(|(entry, model)| add_figures(entry, model));
            }
            Listing::Commands => entries.iter_mut().zip(COMMANDS).for_each(|(entry, command)| add_keys(entry, command)),
            _ => {}
        }
        output::print_json(&json!({ "schema": SCHEMA, kind: entries }))?;
    } else {
        output::print(&text(args.what, entries))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(what: Listing, entries: Vec<(String, String)>) -> String {
    if what == Listing::Commands {
        let mut table = Table::new(4, &["name", "what", "menu", "keys"]);
        for ((name, about), command) in entries.into_iter().zip(COMMANDS) {
            table.row(vec![name, about, command.group.to_owned(), command.keys_named().unwrap_or_default()]);
        }
        return table.text();
    }
    let mut table = Table::new(2, &["name", "what"]);
    for (name, about) in entries {
        table.row(vec![name, about]);
    }
    table.text()
}

/// The plural of the list's kind, and its (name, sentence) pairs.
fn entries(what: Listing) -> (&'static str, Vec<(String, String)>) {
    let owned = |name: &str, about: &str| (name.to_owned(), about.to_owned());
    match what {
        Listing::Schedulers => ("schedulers", pack::schedulers().iter().map(|s| owned(s.name(), s.about())).collect()),
        Listing::Strategies => ("strategies", Strategy::ALL.iter().map(|s| owned(s.name(), s.about())).collect()),
        Listing::Devices => ("devices", hw::builtin().iter().map(device).collect()),
        Listing::Samples => ("samples", samples::samples().iter().map(sample).collect()),
        Listing::Tiles => ("tiles", hw::builtin().iter().flat_map(tiles).collect()),
        Listing::Panels => ("panels", Panel::ALL.iter().map(|panel| owned(panel.key(), panel.about())).collect()),
        Listing::Commands => ("commands", COMMANDS.iter().map(|entry| owned(&entry.key(), entry.name)).collect()),
        Listing::Importers => ("importers", importers().iter().map(|one| owned(one.name, one.about)).collect()),
        Listing::Models => ("models", Model::all().iter().map(|model| owned(model.name, &model.about())).collect()),
    }
}

/// The command's menu and keys beside its name; no keys are null.
fn add_keys(entry: &mut Value, command: &Entry) {
    if let Some(entry) = entry.as_object_mut() {
        entry.insert("group".to_owned(), command.group.into());
        entry.insert("keys".to_owned(), command.keys_named().into());
    }
}

/// The model's figures beside its name.
fn add_figures(entry: &mut Value, model: &Model) {
    if let (Some(entry), Ok(Value::Object(figures))) = (entry.as_object_mut(), serde_json::to_value(model)) {
        entry.extend(figures);
    }
}

fn device(device: &hw::Device) -> (String, String) {
    let (major, minor) = device.compute_capability;
    let bandwidth = device.hbm_bytes_per_s as f64 / 1e12;
    let fitted = if device.calibrated { "" } else { " The simulator is not calibrated on it." };
    let about = format!(
        "{}: {} SMs, compute capability {major}.{minor}, {bandwidth:.2} TB/s.{fitted}",
        device.name, device.sm_count
    );
    (device.key.clone(), about)
}

/// The grid of tiles of a device at head dimension 128: what the constraints give, and the paper.
fn tiles(device: &hw::Device) -> Vec<(String, String)> {
    let set = tile::solve(device, 128, Dtype::F16);
    let reported = tile::reported(&device.key);
    let differences = tile::differences(&device.key, &set);
    let entry = |cell: &Feasibility| {
        let verdict = match cell.failed.first() {
            None => "feasible".to_owned(),
            Some(constraint) => format!("fails {}", constraint.about()),
        };
        let paper = match &reported {
            None => "PAT has no list for this GPU".to_owned(),
            Some(tiles) if tiles.contains(&cell.tile) => "PAT keeps it".to_owned(),
            Some(_) => "PAT leaves it out".to_owned(),
        };
        let why = differences.iter().find(|d| d.tile == cell.tile).map(|d| format!(": {}", d.why));
        let about = format!(
            "{verdict}; {} shared, {} registers{}, {} an SM, {} of {} in flight; {paper}{}.",
            cell.shared,
            cell.registers,
            if cell.registers_estimated { " (estimated)" } else { "" },
            counted(u64::from(cell.ctas_per_sm), "CTA"),
            cell.in_flight,
            cell.in_flight_needed,
            why.unwrap_or_default(),
        );
        (format!("{} {}", device.key, cell.tile), about)
    };
    set.cells.iter().map(entry).collect()
}

fn sample(sample: &samples::Sample) -> (String, String) {
    let about = BatchSpec::from_ron(sample.text).map_or_else(
        |error| error.to_string(),
        |spec| {
            let count = spec.build().map_or(0, |batch| batch.requests().len() as u64);
            format!("{} ({}). {}", spec.name, counted(count, "request"), spec.look_for)
        },
    );
    (sample.key.to_owned(), about)
}
