//! Comparing in the real window: many rows on one axis, sorted, taken apart, adopted.

use egui_kittest::kittest::Queryable as _;
use engine::workload::BatchSpec;
use packscope::window::App;
use packscope::window::command::Command;
use packscope::window::commands::table::Action;
use packscope::window::panel::{Panel, Part};

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
