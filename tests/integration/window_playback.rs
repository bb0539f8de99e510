//! Playback in the real window: to the last event and back, in all views at once.

use egui::Key;
use egui_kittest::kittest::Queryable as _;
use engine::plan::Strategy;
use engine::workload::{AttentionShape, BatchSpec, NodeSpec, RequestSpec};
use packscope::timeline::playback::Moment;
use packscope::window::command::Command;
use packscope::window::commands::table::Action;
use packscope::window::panel::{Panel, Part};
use packscope::window::{App, Opening};

use crate::window::{Window, app, batch, open_with, send, small};

fn open(opening: Opening) -> Window {
    let mut window = open_with(opening, |ctx, opening| App::new(ctx, opening).unwrap());
    send(&mut window, Command::Show(Panel::Playback));
    window
}

fn at(window: &mut Window) -> Moment {
    app(window).playback().at.unwrap()
}

#[test]
fn it_steps_through_choices_and_ctas_to_the_end_and_back() {
    let mut window = open(batch(small()));
    let shown = app(&mut window).shown().unwrap();
    let choices = shown.planned.plan.decisions.len() as f64;
    let end = shown.simulated.as_ref().unwrap().lanes.end as f64;
    for _ in 0..choices as usize {
        window.key_press(Key::ArrowRight);
        window.step();
    }
    assert_eq!(at(&mut window), Moment::Choices(choices));
    window.key_press(Key::ArrowRight);
    window.step();
    assert_eq!(at(&mut window), Moment::Time(0.0));
    let mut steps = 0;
    while at(&mut window) != Moment::Time(end) {
        window.key_press(Key::ArrowRight);
        window.step();
        steps += 1;
        assert!(steps < 10_000, "{:?}", at(&mut window));
    }
    window.run_steps(2);
    window.get_by_label_contains("SM 0 now: 0 of");
    for _ in 0..=steps {
        window.key_press(Key::ArrowLeft);
        window.step();
    }
    assert_eq!(at(&mut window), Moment::Choices(choices));
    window.key_press(Key::PageDown);
    window.step();
    assert_eq!(app(&mut window).failure(Part::Panel(Panel::Playback)), None);
}

#[test]
fn space_plays_and_pauses_and_off_shows_the_whole_run() {
    let mut window = open(batch(small()));
    window.key_press(Key::Space);
    window.run_steps(3);
    assert!(app(&mut window).playback().plays && matches!(at(&mut window), Moment::Choices(made) if made > 0.0));
    window.key_press(Key::Space);
    window.run_steps(2);
    let stands = at(&mut window);
    window.run_steps(3);
    assert_eq!((at(&mut window), app(&mut window).playback().plays), (stands, false));
    window.get_by_label("to the run").click();
    window.run_steps(2);
    assert_eq!(at(&mut window), Moment::Time(0.0));
    window.get_by_label("Off").click();
    window.run_steps(2);
    assert_eq!(app(&mut window).playback().at, None);
}

#[test]
fn every_batch_plays_in_every_view() {
    let hybrid = packscope::samples::find("teach-10-hybrid").unwrap().text;
    let empty = BatchSpec::empty(AttentionShape::default());
    let huge = BatchSpec { requests: vec![RequestSpec::Decode { kv: 64, count: 5_000 }], ..empty.clone() };
    for spec in [small(), BatchSpec::from_ron(hybrid).unwrap(), huge, empty] {
        let mut window = open(batch(spec));
        for strategy in [Strategy::Streams, Strategy::Fused] {
            send(&mut window, Command::Strategy(strategy));
            for key in [Key::ArrowRight, Key::PageDown, Key::PageDown] {
                window.key_press(key);
                window.step();
                for panel in [Panel::Tree, Panel::Decisions, Panel::Packs, Panel::Timeline, Panel::Playback] {
                    app(&mut window).send(Command::Show(panel));
                    window.run_steps(2);
                    assert_eq!(app(&mut window).failure(Part::Panel(panel)), None, "{panel:?}");
                }
            }
        }
    }
}

#[test]
fn a_replan_to_a_shorter_run_leaves_a_moment_past_its_end() {
    let mut long = small();
    long.roots[0].children[0].repeat = 400;
    let mut window = open(batch(long));
    app(&mut window).send(Command::Act(Action::Play));
    window.run_steps(2);
    window.get_by_label("Pause").click();
    window.get_by_label("to the run").click();
    window.run_steps(2);
    for _ in 0..3 {
        window.key_press(Key::PageDown);
        window.step();
    }
    let Moment::Time(late) = at(&mut window) else { panic!("{:?}", at(&mut window)) };
    let mut short = small();
    short.roots = vec![NodeSpec::leaf(32)];
    send(&mut window, Command::Edit(Box::new(short)));
    let end = app(&mut window).shown().unwrap().simulated.as_ref().unwrap().lanes.end;
    assert!(late > end as f64, "the moment was to lie past the end: {late} and {end}");
    assert_eq!(app(&mut window).failure(Part::Panel(Panel::Playback)), None);
    window.get_by_label_contains("last dispatched");
}

#[test]
fn a_moment_is_a_link_that_opens_there_again_and_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    let (run, picture) = (folder.path().join("my run.pscope"), folder.path().join("moment.svg"));
    let mut window = open(batch(small()));
    app(&mut window).go_to(Some(Moment::Time(4_321.0)));
    window.run_steps(2);
    app(&mut window).send(Command::CopyLink(Some(run.clone())));
    window.run_steps(2);
    assert_eq!(app(&mut window).problem(), None);
    let (_, told) = app(&mut window).log().last().unwrap().clone();
    assert!(told.contains("packscope view '") && told.ends_with("my run.pscope' --at 4.321us"), "{told}");
    let at: Moment = told.rsplit(' ').next().unwrap().parse().unwrap();
    // What it names opens there again: the same run at the same moment, and now the link needs no other file.
    let loaded = Box::new(engine::capture::read(&run).unwrap());
    let kept = run.clone();
    let mut again = open_with(Opening::Capture(loaded), move |ctx, opening| {
        let mut app = App::new(ctx, opening).unwrap();
        app.came_from(Some(kept.clone()));
        app.go_to(Some(at));
        app
    });
    assert_eq!(again.state().as_ref().unwrap().playback().at, Some(Moment::Time(4_321.0)));
    assert!(again.query_all_by_label_contains("4321 ns").count() >= 1, "the moment in words");
    app(&mut again).send(Command::CopyLink(None));
    again.run_steps(2);
    assert!(told.ends_with(&app(&mut again).log().last().unwrap().1));
    app(&mut again).send(Command::SaveMoment(picture.clone()));
    again.run_steps(2);
    let svg = std::fs::read_to_string(&picture).unwrap();
    assert!(svg.contains("4321 ns simulated") && svg.contains("fill-opacity"), "the moment, and what is to come");
    app(&mut again).go_to(Some(Moment::Choices(2.0)));
    app(&mut again).send(Command::SaveMoment(picture.clone()));
    again.run_steps(2);
    assert_eq!(app(&mut again).problem(), None);
    let tree = std::fs::read_to_string(&picture).unwrap();
    assert!(tree.contains("Prefix tree") && tree != svg, "what is chosen so far is about the tree");
}

#[test]
fn what_a_damaged_capture_has_lost_is_said_where_it_would_be_played() {
    let mut window = open(batch(small()));
    let capture = app(&mut window).shown().unwrap().simulated.as_ref().unwrap().capture.clone();
    let bytes = engine::capture::to_bytes(&capture).unwrap();
    let mut told = 0;
    // Cut at each tenth: what is whole is played, what is lost is named, and nothing panics.
    for tenth in 1..10 {
        let Ok(loaded) = engine::capture::from_bytes(&bytes[..bytes.len() * tenth / 10]) else { continue };
        let mut window = open(Opening::Capture(Box::new(loaded)));
        app(&mut window).go_to(Some(Moment::Time(1_000.0)));
        window.run_steps(3);
        assert_eq!(app(&mut window).failure(Part::Panel(Panel::Playback)), None);
        told += window.query_all_by_label_contains("What is left is played:").count();
    }
    assert!(told > 0, "no cut has lost spans");
}
