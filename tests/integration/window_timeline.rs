//! Working in the timeline: what is looked at and selected holds over replans, and F frames in both directions.

use egui::{Key, Modifiers, vec2};
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use engine::capture::{Pauses, Source};
use engine::metrics::BubbleCause;
use engine::units::Nanos;
use packscope::picture::timeline;
use packscope::runs::damage::Damage;
use packscope::timeline::axis::NAMED;
use packscope::window::command::Command;
use packscope::window::commands::table::Action;
use packscope::window::panel::Panel;
use packscope::window::selection::Selection;
use packscope::window::{App, Opening};

use crate::program::fixture;
use crate::window::{Window, app, batch, click, open_with, send, small};

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

/// The gap that is selected, with its run.
fn gap(window: &mut Window) -> (engine::metrics::Gap, Vec<usize>) {
    let Selection::Gap(source, at) = app(window).selected() else { panic!("no bubble is selected") };
    let run = app(window).shown().unwrap().run(source).unwrap();
    let gap = run.gaps.get(at).unwrap();
    (gap, engine::metrics::bounded_by(&run.capture.plan, &run.capture, &gap))
}

#[test]
fn show_me_goes_to_the_longest_bubble_of_the_cause_with_the_most_slot_time() {
    let mut window = open();
    send(&mut window, Command::Show(Panel::Bubbles));
    window.get_all_by_label("show me").next().unwrap().click();
    window.run_steps(4);
    let (found, bounds) = gap(&mut window);
    let run = app(&mut window).shown().unwrap().simulated.clone().unwrap();
    assert_eq!(found.cause, run.bubbles.largest().unwrap().cause);
    let longest = run.gaps.iter().filter(|gap| gap.cause == found.cause).map(|gap| gap.length()).max();
    assert_eq!(Some(found.end - found.begin), longest);
    let (from, to) = app(&mut window).axis().window.unwrap();
    assert!(from <= found.begin.as_f64() && found.end.as_f64() <= to);
    assert!(!bounds.is_empty());
    send(&mut window, Command::Show(Panel::Inspector));
    window.get_by_label_contains("Bubble:");
    let cta = run.capture.spans.get(bounds[0]);
    window.get_by_label(&format!("CTA {} of launch {}", cta.cta, cta.launch)).click();
    window.run_steps(4);
    assert_eq!(app(&mut window).selected(), Selection::Cta(Source::Simulated, bounds[0]));
}

#[test]
fn a_click_on_idle_time_selects_the_bubble_that_is_there() {
    let mut window = open();
    let lane = window.get_by_label_contains("SM 100:").rect();
    let at = lane.left_center() + vec2(lane.width() * 0.9, 0.0);
    click(&mut window, at);
    assert_eq!(gap(&mut window).0.sm, 100);
    let before = app(&mut window).selected();
    send(&mut window, Command::Act(Action::Run));
    assert_eq!(app(&mut window).selected(), before, "the same run has the same bubble");
}

#[test]
fn a_bubble_is_bounded_by_what_it_waits_for() {
    let mut window = open();
    let run = app(&mut window).shown().unwrap().simulated.clone().unwrap();
    for gap in run.gaps.iter() {
        let bounds = engine::metrics::bounded_by(&run.capture.plan, &run.capture, &gap);
        assert!(!bounds.is_empty(), "{gap:?}");
        let spans: Vec<_> = bounds.iter().map(|at| run.capture.spans.get(*at)).collect();
        match gap.cause {
            // The first CTA of its launch: until then the GPU had none of it.
            BubbleCause::LaunchRamp => {
                let all = &run.capture.spans;
                let earlier = |at: usize| all.launch[at] == spans[0].launch && all.begin[at] < spans[0].begin.0;
                assert!(spans.len() == 1 && !(0..all.len()).any(earlier), "{gap:?}");
            }
            BubbleCause::TailImbalance => assert!(spans.iter().any(|span| span.end >= gap.end), "{gap:?}"),
            _ => {}
        }
    }
}

#[test]
fn a_step_down_from_a_bubble_brings_the_cta_that_bounds_it_into_sight() {
    let mut window = open();
    act(&mut window, Action::LongestBubble);
    act(&mut window, Action::Taller);
    let before = *app(&mut window).axis();
    let bounds = gap(&mut window).1;
    act(&mut window, Action::Down);
    let selected = app(&mut window).selected();
    assert_eq!(selected, Selection::Cta(Source::Simulated, bounds[0]));
    let spans = &app(&mut window).shown().unwrap().simulated.as_ref().unwrap().capture.spans;
    let cta = spans.get(bounds[0]);
    assert_eq!(window.query_all_by_label_contains(&format!("SM {}:", cta.sm)).count(), 1, "its lane is on the screen");
    let after = *app(&mut window).axis();
    assert_eq!(after.lane_height, before.lane_height, "no nearer than before");
    let width = |window: Option<(f64, f64)>| window.map(|(from, to)| to - from);
    assert_eq!(width(after.window), width(before.window));
    let (from, to) = after.window.unwrap_or((0.0, f64::INFINITY));
    assert!(from < cta.end.as_f64() && cta.begin.as_f64() < to);
    // What is there stays where it is.
    act(&mut window, Action::Up);
    act(&mut window, Action::Down);
    assert_eq!(*app(&mut window).axis(), after);
}

/// Titles, counters and legends give way to lanes.
#[test]
fn both_runs_have_lanes_in_the_smallest_window() {
    let loaded = engine::capture::read(fixture("capture-v3-hybrid.pscope").as_ref()).unwrap();
    let mut window = open_with(Opening::Capture(Box::new(loaded)), |ctx, opening| App::new(ctx, opening).unwrap());
    for (size, least) in [([900.0, 600.0], 34.0), ([1600.0, 1000.0], 70.0)] {
        window.set_size(size.into());
        window.run_steps(3);
        for source in ["(measured)", "(simulated)"] {
            let lanes = window.get_all_by_label_contains(source).filter(|node| {
                let label = node.accesskit_node().label().unwrap_or_default();
                label.starts_with("SM ") && label.contains("CTA") && !label.contains("slot")
            });
            let height: f32 = lanes.map(|node| node.rect().height()).sum();
            assert!(height >= least, "{height} pixels of lanes {source} at {size:?}");
        }
    }
}

/// A band over the lanes of the run that had them, with its length, in the window and in a picture alike.
#[test]
fn pauses_of_the_memory_lie_over_the_measured_lanes() {
    let words = "the HBM pauses for 768 ns";
    let mut loaded = engine::capture::read(fixture("capture-h200-streams.pscope").as_ref()).unwrap();
    let count = |loaded: &engine::capture::Loaded| {
        let opening = Opening::Capture(Box::new(loaded.clone()));
        let mut window = open_with(opening, |ctx, opening| App::new(ctx, opening).unwrap());
        window.set_size([1600.0, 1000.0].into());
        window.run_steps(3);
        let picture = timeline::timeline_svg(&loaded.capture, &Damage::default());
        (window.query_all_by_label(words).count(), picture.matches(words).count())
    };
    assert_eq!(count(&loaded), (0, 0));
    // The third would begin after the end of what is seen.
    let (end, makespans) = (loaded.capture.makespan().0, loaded.capture.times.makespans.len());
    let begins = [end / 3, end / 2, end * 4].map(Nanos).to_vec();
    let of_repeats = vec![2; makespans];
    loaded.capture.pauses = Some(Pauses { period_ns: 100_148.1, length: Nanos(768), of_repeats, begins });
    assert_eq!(count(&loaded), (2, 2));
}
