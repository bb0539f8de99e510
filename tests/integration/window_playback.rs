//! Playback in the real window: to the last event and back, in all views at once.

use egui::Key;
use egui_kittest::kittest::Queryable as _;
use engine::plan::Strategy;
use engine::workload::{AttentionShape, BatchSpec, RequestSpec};
use packscope::timeline::playback::Moment;
use packscope::window::command::Command;
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
