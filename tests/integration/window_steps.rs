//! A replay in the real window: it runs beside everything else, and each of its steps opens as a batch.

use std::path::PathBuf;

use egui::Key;
use egui_kittest::kittest::Queryable as _;
use engine::import::Trace;
use engine::plan::Strategy;
use engine::replay::{ReplayOptions, ServingOptions};
use engine::session::PlanOptions;
use engine::workload::{Model, RequestSpec};
use packscope::runs::replay::{Asked, At};
use packscope::window::App;
use packscope::window::command::Command;
use packscope::window::commands::table::Action;
use packscope::window::panel::{Panel, Part};

use crate::program::fixture;
use crate::window::{Window, app, batch, open_with, picture, send, settle, settle_study, small};

fn open() -> Window {
    let mut window = open_with(batch(small()), |ctx, opening| App::new(ctx, opening).unwrap());
    // All of the panel is in sight.
    window.set_size([1600.0, 1400.0].into());
    send(&mut window, Command::Show(Panel::Steps));
    window
}

fn asked(max_steps: u64) -> Asked {
    let device = engine::hw::find("h200-sxm").unwrap();
    let way = |scheduler: &str| PlanOptions { scheduler: scheduler.to_owned(), ..PlanOptions::new(device) };
    Asked {
        path: PathBuf::from(fixture("small-trace.jsonl")),
        format: "mooncake",
        window: Some((0, 12)),
        options: ReplayOptions {
            model: Model::find("llama-3-8b").unwrap(),
            gpus: 1,
            block_size: 32,
            serving: ServingOptions { time_scale: 0.0, ..ServingOptions::default() },
            max_steps,
        },
        ways: vec![way("query-centric"), way("pat")],
    }
}

fn replayed(max_steps: u64) -> Window {
    let mut window = open();
    app(&mut window).send(Command::Replay(Box::new(asked(max_steps))));
    settle_study(&mut window);
    assert_eq!(app(&mut window).problem(), None);
    window
}

#[test]
fn a_step_that_is_clicked_or_walked_to_opens_as_a_batch_in_one_step_of_the_history() {
    let mut window = replayed(24);
    window.get_by_label("steps of query-centric · streams: 24");
    window.get_by_label("steps of pat · streams: 24").click();
    window.run_steps(2);
    settle(&mut window);
    let first = app(&mut window).steps().opened().unwrap();
    assert!(first.way == 1 && (8..16).contains(&first.step), "the middle: {first:?}");
    let step = app(&mut window).undoes().unwrap().to_owned();
    assert_eq!(step, format!("opening of step {} of a replay", first.step));
    assert_eq!(app(&mut window).document().options.scheduler, "pat");
    window.key_press(Key::ArrowRight);
    window.step();
    settle(&mut window);
    assert_eq!(app(&mut window).steps().opened(), Some(At { step: first.step + 1, ..first }));
    window.key_press(Key::ArrowUp);
    window.step();
    settle(&mut window);
    assert_eq!(app(&mut window).document().options.scheduler, "query-centric");
    for _ in 0..3 {
        send(&mut window, Command::Act(Action::Undo));
    }
    assert_eq!(*app(&mut window).document().spec, small());
}

#[test]
fn the_strip_is_a_picture_once_there_is_one() {
    let mut window = open();
    assert!(picture(&mut window, Panel::Steps).unwrap_err().contains("no replay"));
    let mut window = replayed(24);
    let drawn = picture(&mut window, Panel::Steps).unwrap();
    for text in
        ["12 requests of small-trace.jsonl", "query-centric · streams", "pat · streams", "TTFT p50", "simulated"]
    {
        assert!(drawn.contains(text), "{text}");
    }
    assert!(!drawn.contains("Worst step") && !drawn.contains("NaN"), "no button, no number that is none");
}

#[test]
fn an_opened_step_takes_about_the_time_that_the_replay_gave_it() {
    let mut window = replayed(24);
    for way in 0..2 {
        let steps = &app(&mut window).replay().unwrap().ways[way].steps;
        // The first decodes alone were planned from scratch, as the window plans.
        let plain = |step: &engine::replay::Step| step.how.is_none() && step.work.iter().all(|one| one.chunk.is_none());
        let step = steps.iter().position(plain).expect("a step without prefill");
        let (simulated, requests) = (steps[step].attention.simulated, steps[step].work.len());
        send(&mut window, Command::OpenStep(At { way, step }));
        let shown = app(&mut window).shown().unwrap();
        assert_eq!(shown.planned.batch.requests().len(), requests);
        // In the order of the tree, where the replay has that of arrival.
        let off = shown.simulated.as_ref().unwrap().times().median.as_f64() / simulated.as_f64() - 1.0;
        assert!(off.abs() < 0.03, "way {way}: {off}");
        assert!(!shown.planned.spec.roots.is_empty(), "the canvas has all of it");
    }
    let chunks = app(&mut window).replay().unwrap().ways[1].steps.iter().position(|step| step.work.len() == 2);
    if let Some(step) = chunks {
        send(&mut window, Command::OpenStep(At { way: 1, step }));
        let spec = app(&mut window).document().spec.clone();
        assert!(spec.requests.iter().any(|request| matches!(request, RequestSpec::Prefill { .. })));
    }
}

#[test]
fn the_worst_step_is_one_command_away() {
    let mut window = open();
    send(&mut window, Command::Act(Action::WorstStep));
    assert_eq!(app(&mut window).steps().opened(), None, "there is no replay yet");
    let mut window = replayed(40);
    send(&mut window, Command::Act(Action::WorstStep));
    let (worst, opened) = (app(&mut window).replay().unwrap().worst(), app(&mut window).steps().opened());
    assert_eq!(worst, opened);
    let replay = app(&mut window).replay().unwrap();
    let lost = |step: &engine::replay::Step| step.attention.time.0.saturating_sub(step.first_way().time.0);
    let most = replay.ways.iter().flat_map(|way| &way.steps).map(lost).max().unwrap();
    assert_eq!(worst.map_or(0, |at| lost(&replay.ways[at.way].steps[at.step])), most);
}

#[test]
fn the_window_goes_on_while_a_replay_runs_and_cancels_it() {
    let mut window = open();
    let long = Asked { window: None, ..asked(1_000_000) };
    app(&mut window).send(Command::Replay(Box::new(long)));
    window.step();
    let progress = |window: &mut Window| app(window).studying().progress();
    assert!(progress(&mut window).is_some());
    send(&mut window, Command::Strategy(Strategy::Fused));
    assert_eq!(app(&mut window).shown().unwrap().planned.plan.strategy, Strategy::Fused);
    assert!(progress(&mut window).is_some(), "an edit leaves the replay alone");
    window.get_all_by_label("Cancel").last().unwrap().click();
    window.run_steps(2);
    settle_study(&mut window);
    assert!(progress(&mut window).is_none() && app(&mut window).replay().is_none());
    assert_eq!(app(&mut window).problem(), None);
}

#[test]
fn a_trace_that_is_opened_fills_the_form_and_a_bad_one_says_where_it_is_bad() {
    let folder = tempfile::tempdir().unwrap();
    let mut window = open();
    send(&mut window, Command::OpenPath(fixture("small-trace.jsonl").into()));
    assert_eq!(app(&mut window).problem(), None);
    window.get_by_label("on NVIDIA H200 SXM, simulated");
    for (name, text, says) in [
        ("empty.jsonl", "", "no requests"),
        ("broken.jsonl", "{\"timestamp\": 0, \"input_length\": \"x\"}", "line 1"),
        ("none.jsonl", "{\"a\": 1}", "line 1"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        app(&mut window).send(Command::Replay(Box::new(Asked { path, window: None, ..asked(3) })));
        window.step();
        settle_study(&mut window);
        let problem = app(&mut window).problem().unwrap().to_owned();
        assert!(problem.contains(name) && problem.contains(says), "{says}: {problem}");
        assert_eq!(app(&mut window).failure(Part::Panel(Panel::Steps)), None);
    }
    let past = Asked { window: Some((30, 8)), ..asked(3) };
    app(&mut window).send(Command::Replay(Box::new(past)));
    window.step();
    settle_study(&mut window);
    let problem = app(&mut window).problem().unwrap().to_owned();
    assert!(problem.contains("30:8") && problem.contains("32 requests"), "{problem}");
    let trace: Option<&Trace> = app(&mut window).replay().map(|replay| &replay.trace);
    assert!(trace.is_none(), "nothing was replayed");
}
