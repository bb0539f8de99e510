//! Comparing in the real window: many rows on one axis, sorted, taken apart, adopted.

use egui_kittest::kittest::Queryable as _;
use engine::workload::BatchSpec;
use packscope::window::App;
use packscope::window::command::Command;
use packscope::window::commands::table::Action;
use packscope::window::panel::{Panel, Part};

use crate::program::fixture;
use crate::window::{Window, app, batch, open_with, send, settle, small};

fn open(spec: BatchSpec) -> Window {
    let mut window = open_with(batch(spec), |ctx, opening| App::new(ctx, opening).unwrap());
    send(&mut window, Command::Show(Panel::Compare));
    window
}

#[test]
fn all_ways_of_a_hybrid_batch_stand_on_one_axis_and_sort() {
    let text = packscope::samples::find("teach-10-hybrid").unwrap().text;
    let mut window = open(BatchSpec::from_ron(text).unwrap());
    assert!(window.query_all_by_label("adopt").count() > 8);
    window.get_by_label("most first").click();
    window.run_steps(3);
    assert_eq!(app(&mut window).failure(Part::Panel(Panel::Compare)), None);
}

#[test]
fn a_row_is_adopted_in_one_step_and_its_differences_are_shown() {
    let mut window = open(small());
    let before = app(&mut window).document().options.clone();
    window.get_all_by_label("differences").last().unwrap().click();
    window.run_steps(3);
    // The row of what is chosen already has nothing to adopt.
    for row in 0..window.get_all_by_label("adopt").count() {
        if app(&mut window).document().options == before {
            window.get_all_by_label("adopt").nth(row).unwrap().click();
            window.run_steps(3);
            settle(&mut window);
        }
    }
    assert_ne!(app(&mut window).document().options, before);
    let step = app(&mut window).undoes().unwrap().to_owned();
    assert!(step.starts_with("adopt "), "{step}");
    send(&mut window, Command::Act(Action::Undo));
    assert_eq!(app(&mut window).document().options, before);
}

/// The place of a row's name.
fn row(window: &Window, name: &str) -> egui::Rect {
    window.get_by_label(name).rect()
}

#[test]
fn a_device_is_a_row_simulated_there_and_adopting_it_takes_the_device() {
    let mut window = open(small());
    send(&mut window, Command::RowOfDevice("teaching-8sm".to_owned()));
    let device = engine::hw::find("teaching-8sm").unwrap();
    let name = format!("pat · streams on {}", device.name);
    row(&window, &name);
    assert_eq!(window.query_all_by_label("simulated, not calibrated").count(), 1, "its chip, beside the calibrated");
    send(
        &mut window,
        Command::Adopt {
            scheduler: "pat".to_owned(),
            strategy: engine::plan::Strategy::Streams,
            device: Some("teaching-8sm".to_owned()),
        },
    );
    assert_eq!(app(&mut window).undoes(), Some(format!("adopt {name}").as_str()));
    assert_eq!(app(&mut window).document().options.device, *device);
    send(&mut window, Command::Act(Action::Undo));
    send(&mut window, Command::Show(Panel::Compare));
    row(&window, &name);
    send(&mut window, Command::RowOfDevice("teaching-8sm".to_owned()));
    assert_eq!(window.query_all_by_label(&name).count(), 0, "the same command takes it away");
}

#[test]
fn a_capture_is_a_row_that_says_what_it_is_of_and_is_not_subtracted_in_silence() {
    let mut window = open(small());
    let rows = |window: &mut Window| window.query_all_by_label_contains("a capture of another batch").count();
    for name in ["capture-v2-streams.pscope", "capture-v3-hybrid.pscope"] {
        send(&mut window, Command::AddRow(fixture(name).into()));
        assert_eq!(app(&mut window).problem(), None);
    }
    window.run_steps(3);
    assert_eq!(rows(&mut window), 2);
    let text = std::fs::read_to_string(fixture("small-trace.jsonl")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.ron");
    std::fs::write(&path, text).unwrap();
    send(&mut window, Command::AddRow(path.clone()));
    assert!(app(&mut window).problem().unwrap().contains("trace.ron"), "{:?}", app(&mut window).problem());
    send(&mut window, Command::DropRow(fixture("capture-v3-hybrid.pscope").into()));
    window.run_steps(3);
    assert_eq!(rows(&mut window), 1);
    // The measured capture as baseline: each simulated row says that it is compared across sources.
    let measured = app(&mut window).shown().unwrap().measured.is_some();
    assert!(!measured);
    // Its name; its lanes have it in theirs.
    window.get_all_by_label_contains("capture-v2-streams.pscope:").next().unwrap().click();
    window.run_steps(3);
    let across = window.query_all_by_label_contains("against measured").count();
    let same =
        window.query_all_by_label_contains("% slower").count() + window.query_all_by_label_contains("% faster").count();
    assert!(across > 8 || same > 8, "{across} rows of another source, {same} in all");
    assert_eq!(app(&mut window).failure(Part::Panel(Panel::Compare)), None);
}

#[test]
fn thirty_rows_stay_legible() {
    let text = packscope::samples::find("teach-10-hybrid").unwrap().text;
    let mut window = open(BatchSpec::from_ron(text).unwrap());
    for device in engine::hw::builtin() {
        app(&mut window).send(Command::RowOfDevice(device.key.clone()));
        window.step();
    }
    settle(&mut window);
    window.run_steps(3);
    let mut names: Vec<egui::Rect> = window.get_all_by_label("differences").map(|node| node.rect()).collect();
    assert!(names.len() + window.query_all_by_label_contains("refuse").count() >= 20, "{}", names.len());
    names.sort_by(|a, b| a.top().total_cmp(&b.top()));
    for pair in names.windows(2) {
        assert!(pair[1].top() >= pair[0].bottom(), "rows overlap: {pair:?}");
    }
    assert!(names.iter().all(|name| name.height() >= 10.0 && name.width() >= 30.0));
    let lanes: Vec<egui::Rect> = window.get_all_by_label_contains("lanes of ").map(|node| node.rect()).collect();
    let first = lanes[0];
    assert!(lanes.len() >= 20 && lanes.iter().all(|lane| lane.x_range() == first.x_range()), "{lanes:?}");
    assert_eq!(app(&mut window).failure(Part::Panel(Panel::Compare)), None);
}

#[test]
fn an_empty_batch_has_one_sentence_and_no_row() {
    let mut window = open(BatchSpec::empty(small().shape));
    assert!(window.query_all_by_label_contains("The batch is empty.").count() >= 1);
    assert_eq!(window.query_all_by_label_contains("the batch is empty").count(), 0, "not once a way");
    send(&mut window, Command::AddRow(fixture("capture-v2-streams.pscope").into()));
    window.run_steps(3);
    assert!(
        window.query_all_by_label_contains("capture-v2-streams.pscope:").count() >= 1,
        "captures are rows even then"
    );
}
