//! Working in the timeline: what is looked at and selected holds over replans, and F frames in both directions.

use egui::{Key, Modifiers};
use egui_kittest::kittest::Queryable as _;
use engine::capture::Source;
use packscope::timeline::axis::NAMED;
use packscope::window::App;
use packscope::window::command::Command;
use packscope::window::commands::table::Action;
use packscope::window::selection::Selection;

use crate::window::{Window, app, batch, open_with, send, small};

fn open() -> Window {
    open_with(batch(small()), |ctx, opening| App::new(ctx, opening).unwrap())
}

fn act(window: &mut Window, action: Action) {
    send(window, Command::Act(action));
}

#[test]
fn zoom_range_and_selection_hold_over_a_replan() {
    let mut window = open();
    act(&mut window, Action::ZoomIn);
    act(&mut window, Action::Taller);
    send(&mut window, Command::Select(Selection::Cta(Source::Simulated, 3)));
    let before = *app(&mut window).axis();
    assert!(before.window.is_some() && before.lane_height.is_some());
    let named = |window: &mut Window| {
        let Selection::Cta(source, at) = app(window).selected() else { panic!("no CTA is selected") };
        let run = app(window).shown().unwrap().run(source).unwrap();
        (run.capture.spans.launch[at], run.capture.spans.cta[at])
    };
    let cta = named(&mut window);
    let mut longer = small();
    longer.roots[0].tokens *= 2;
    send(&mut window, Command::Edit(Box::new(longer)));
    assert_eq!(*app(&mut window).axis(), before);
    assert_eq!(named(&mut window), cta);
}

#[test]
fn f_frames_a_cta_in_time_and_sms_and_again_fits_all() {
    let mut window = open();
    let spans = &app(&mut window).shown().unwrap().simulated.as_ref().unwrap().capture.spans;
    let last = (0..spans.len()).max_by_key(|at| spans.sm[*at]).unwrap();
    let (begin, end) = (spans.begin[last] as f64, spans.end[last] as f64);
    send(&mut window, Command::Select(Selection::Cta(Source::Simulated, last)));
    act(&mut window, Action::Focus);
    let axis = *app(&mut window).axis();
    let (from, to) = axis.window.unwrap();
    assert!(from <= begin && end <= to && to - from < (end - begin) * 2.0, "{from} {to}: {begin} {end}");
    assert!(axis.lane_height.unwrap() >= NAMED && axis.scroll > 0.0, "{axis:?}");
    act(&mut window, Action::Focus);
    let axis = *app(&mut window).axis();
    assert_eq!((axis.window, axis.lane_height), (None, None));
}

#[test]
fn taller_lanes_bring_the_bar_of_sms_and_lower_ones_all_sms() {
    let mut window = open();
    let bars = |window: &Window| window.query_all_by_label_contains("SMs in sight").count();
    assert_eq!(bars(&window), 0, "all of them are");
    for _ in 0..12 {
        window.key_press_modifiers(Modifiers::SHIFT, Key::W);
        window.run_steps(2);
    }
    assert!(app(&mut window).axis().lane_height.unwrap() > 10.0);
    assert_eq!(bars(&window), 1);
    for _ in 0..20 {
        window.key_press_modifiers(Modifiers::SHIFT, Key::S);
        window.run_steps(2);
    }
    assert_eq!((app(&mut window).axis().lane_height, bars(&window)), (None, 0));
}
