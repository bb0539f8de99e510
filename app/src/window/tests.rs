//! The window survives what panics in it.

use std::time::Duration;

use egui_kittest::Harness;
use egui_kittest::kittest::Queryable as _;
use engine::workload::{AttentionShape, BatchSpec, RequestSpec};

use crate::window::Opening;
use crate::window::app::App;
use crate::window::command::Command;
use crate::window::commands::table::Action;
use crate::window::frame::Level;
use crate::window::panel::{Panel, Part};

type Window = Harness<'static, Option<App>>;

fn named(name: &str) -> BatchSpec {
    let requests = vec![RequestSpec::Decode { kv: 640, count: 8 }];
    BatchSpec { requests, name: name.to_owned(), ..BatchSpec::empty(AttentionShape::default()) }
}

fn open() -> Window {
    let mut opening = Some(Opening::Batch(Box::new(named("good"))));
    let mut window = Harness::builder().with_size([1600.0, 1000.0]).build_ui_state(
        move |ui: &mut egui::Ui, app: &mut Option<App>| {
            if let Some(opening) = opening.take() {
                *app = Some(App::new(ui.ctx(), opening).unwrap());
            }
            let app = app.as_mut().unwrap();
            app.logic_pass(ui.ctx());
            app.ui_pass(ui);
        },
        None,
    );
    settle(&mut window);
    window
}

fn app(window: &mut Window) -> &mut App {
    window.state_mut().as_mut().unwrap()
}

fn settle(window: &mut Window) {
    for _ in 0..6_000 {
        window.step();
        if !app(window).is_running() {
            return window.run_steps(3);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the engine thread did not answer");
}

fn send(window: &mut Window, command: Command) {
    app(window).send(command);
    window.step();
    settle(window);
}

fn errors(window: &mut Window, text: &str) -> usize {
    let error = |(level, line): &&(Level, String)| *level == Level::Error && line.contains(text);
    app(window).log().iter().filter(error).count()
}

#[test]
fn a_panel_that_panics_says_so_in_its_place_and_the_rest_lives() {
    for panel in Panel::ALL {
        let mut window = open();
        send(&mut window, Command::Show(panel));
        send(&mut window, Command::Edit(Box::new(named(panel.title()))));
        let part = Part::Panel(panel);
        assert!(app(&mut window).failure(part).unwrap().to_string().contains("tripped over"), "{panel:?}");
        assert_eq!(errors(&mut window, "failed to draw"), 1, "told once, not in each frame: {panel:?}");
        window.get_by_label(&format!("{} failed to draw", panel.title()));
        assert!(window.query_all_by_label_contains("The rest goes on; save your batch.").count() >= 1);
        let others = Panel::ALL.into_iter().filter(|other| *other != panel);
        assert!(others.clone().all(|other| app(&mut window).failure(Part::Panel(other)).is_none()));
        for other in others {
            send(&mut window, Command::Show(other));
        }
        assert_eq!(app(&mut window).document.spec.name, panel.title(), "the batch is kept");
        assert!(app(&mut window).shown().unwrap().simulated.is_some());
    }
}

#[test]
fn a_failed_panel_is_drawn_again_when_asked_to_and_when_another_run_is_shown() {
    let mut window = open();
    let part = Part::Panel(Panel::Inspector);
    send(&mut window, Command::Edit(Box::new(named("Inspector"))));
    window.get_by_label("Try again").click();
    // The click, the drawing that fails, the line about it: on a busy machine a run may come between.
    for _ in 0..50 {
        window.step();
        if errors(&mut window, "failed to draw") > 1 {
            break;
        }
    }
    assert!(app(&mut window).failure(part).is_some(), "it failed again");
    assert_eq!(errors(&mut window, "failed to draw"), 2);
    send(&mut window, Command::Act(Action::Undo));
    assert!(app(&mut window).failure(part).is_none());
    assert!(window.query_all_by_label_contains("requests").count() >= 1);
}

#[test]
fn a_job_that_panics_keeps_the_batch_and_the_last_good_run_and_the_thread() {
    let mut window = open();
    let scheduler = app(&mut window).document.options.scheduler.clone();
    let before = app(&mut window).shown().unwrap().plan_digest;
    send(&mut window, Command::Edit(Box::new(named(&scheduler))));
    assert!(!app(&mut window).is_running());
    let problem = app(&mut window).problem().unwrap().to_owned();
    assert!(problem.contains("fault of packscope") && problem.contains("tripped over"), "{problem}");
    assert!(problem.contains("mishap.rs:"), "it says where: {problem}");
    assert_eq!(errors(&mut window, "tripped over"), 1);
    window.get_by_label_contains("last batch that worked");
    assert_eq!(app(&mut window).document.spec.name, scheduler);
    assert_eq!(app(&mut window).shown().unwrap().plan_digest, before);
    send(&mut window, Command::Edit(Box::new(named("good again"))));
    assert_eq!(app(&mut window).problem(), None);
    assert_eq!(app(&mut window).shown().unwrap().planned.spec.name, "good again");
}

#[test]
fn a_way_that_panics_leaves_the_other_ways_of_the_comparison() {
    let mut window = open();
    send(&mut window, Command::Edit(Box::new(named("query-centric"))));
    send(&mut window, Command::Compare);
    let compared = &app(&mut window).compared;
    let failed: Vec<_> = compared.iter().filter_map(|way| way.outcome.as_ref().err()).collect();
    assert!(failed.iter().any(|problem| problem.contains("tripped over query-centric")), "{failed:?}");
    assert!(compared.iter().filter(|way| way.outcome.is_ok()).count() > 5);
    let document = app(&mut window).document().clone();
    let ways = crate::jobs::planner::ways(&document.spec, &document.options, &[]).len();
    assert_eq!(app(&mut window).compared.len(), ways);
}
