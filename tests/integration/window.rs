//! The window's real state, driven through egui without a display.

use egui_kittest::Harness;
use egui_kittest::kittest::Queryable as _;
use engine::plan::Strategy;
use engine::units::{NodeIdx, PackIdx};
use engine::workload::{AttentionShape, BatchSpec, NodeSpec, RequestSpec};
use packscope::jobs::studies::Studying;
use packscope::picture::look::Look;
use packscope::timeline::lanes::Lanes;
use packscope::window::command::{Command, Target};
use packscope::window::commands::table::Action;
use packscope::window::panel::{Panel, Part};
use packscope::window::selection::Selection;
use packscope::window::{App, Opening};

pub(crate) type Window = Harness<'static, Option<App>>;

fn open(opening: Opening) -> Window {
    open_with(opening, |ctx, opening| App::new(ctx, opening).unwrap())
}

/// The window as `make` makes it, once the engine thread has answered.
pub(crate) fn open_with(opening: Opening, make: impl Fn(&egui::Context, Opening) -> App + 'static) -> Window {
    let mut opening = Some(opening);
    let mut window = Harness::builder().with_size([1600.0, 1000.0]).build_ui_state(
        move |ui: &mut egui::Ui, app: &mut Option<App>| {
            if let Some(opening) = opening.take() {
                *app = Some(make(ui.ctx(), opening));
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

/// Steps until the engine thread has answered.
pub(crate) fn settle(window: &mut Window) {
    for _ in 0..6_000 {
        window.step();
        if !window.state().as_ref().unwrap().is_running() {
            window.step();
            window.step();
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("the engine thread did not answer");
}

/// Steps until nothing is replayed and no sweep is read any more.
pub(crate) fn settle_study(window: &mut Window) {
    for _ in 0..6_000 {
        window.step();
        if matches!(app(window).studying(), Studying::Idle) {
            return window.run_steps(3);
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("the replay, or the reading of a sweep, does not end");
}

pub(crate) fn send(window: &mut Window, command: Command) {
    app(window).send(command);
    window.step();
    settle(window);
}

/// The picture of a panel as an SVG, or why there is none.
pub(crate) fn picture(window: &mut Window, panel: Panel) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("picture.svg");
    send(window, Command::Picture { panel, visible: true, look: Look::default(), to: Target::File(to.clone()) });
    match app(window).problem() {
        Some(problem) => Err(problem.to_owned()),
        None => Ok(std::fs::read_to_string(to).unwrap()),
    }
}

/// Presses and lets go of the mouse there.
pub(crate) fn click(window: &mut Window, at: egui::Pos2) {
    window.hover_at(at);
    window.step();
    window.drag_at(at);
    window.step();
    window.drop_at(at);
    window.run_steps(3);
}

pub(crate) fn app(window: &mut Window) -> &mut App {
    window.state_mut().as_mut().unwrap()
}

pub(crate) fn small() -> BatchSpec {
    let inner = NodeSpec { children: vec![NodeSpec { repeat: 16, ..NodeSpec::leaf(192) }], ..NodeSpec::leaf(512) };
    BatchSpec { roots: vec![inner], ..BatchSpec::empty(AttentionShape::default()) }
}

/// A batch under `pat` and `streams`, unless it says otherwise: figures of tests are theirs.
pub(crate) fn batch(mut spec: BatchSpec) -> Opening {
    let own = spec.scene.get_or_insert_default();
    own.scheduler.get_or_insert_with(|| "pat".to_owned());
    own.strategy.get_or_insert_with(|| "streams".to_owned());
    Opening::Batch(Box::new(spec))
}

#[test]
fn it_opens_on_a_finished_example() {
    let mut window = open(Opening::Example);
    assert_eq!(app(&mut window).problem(), None);
    let shown = app(&mut window).shown().unwrap();
    assert!(shown.simulated.is_some() && !shown.planned.plan.packs.is_empty());
    assert!(window.query_all_by_label_contains("makespan").count() >= 1);
    assert!(window.query_all_by_label_contains("SM 0:").count() >= 1);
}

#[test]
fn scheduler_strategy_and_length_change_plan_and_run() {
    let mut window = open(batch(small()));
    let facts = |window: &mut Window| {
        let shown = app(window).shown().unwrap();
        (shown.planned.plan.packs.len(), shown.planned.plan.launches.len(), shown.simulated.as_ref().unwrap().lanes.end)
    };
    let before = facts(&mut window);
    send(&mut window, Command::Scheduler("query-centric".to_owned()));
    let flat = facts(&mut window);
    assert_ne!(before.0, flat.0);
    send(&mut window, Command::Strategy(Strategy::Fused));
    assert_ne!(flat.1, facts(&mut window).1);
    let mut longer = small();
    longer.roots[0].tokens *= 8;
    let end = facts(&mut window).2;
    send(&mut window, Command::Edit(Box::new(longer)));
    assert!(facts(&mut window).2 > end);
    send(&mut window, Command::Act(Action::Undo));
    assert_eq!(facts(&mut window).2, end);
}

#[test]
fn one_selection_runs_through_the_chain() {
    let mut window = open(batch(small()));
    send(&mut window, Command::Select(Selection::Node(NodeIdx(0))));
    window.get_by_label("Node 0");
    send(&mut window, Command::Act(Action::Down));
    assert!(matches!(app(&mut window).selected(), Selection::Pack(_)));
    send(&mut window, Command::Act(Action::Down));
    assert!(matches!(app(&mut window).selected(), Selection::Cta(..)));
    window.get_by_label_contains("SM · slot");
    send(&mut window, Command::Act(Action::Up));
    assert!(matches!(app(&mut window).selected(), Selection::Pack(PackIdx(_))));
}

#[test]
fn a_bad_batch_leaves_a_banner_and_the_last_good_plan() {
    let mut window = open(batch(small()));
    let mut bad = small();
    bad.shape.kv_heads = 5;
    send(&mut window, Command::Edit(Box::new(bad)));
    assert!(app(&mut window).problem().unwrap().contains("divide"));
    assert!(app(&mut window).shown().is_some());
    window.get_by_label_contains("last batch that worked");
    send(&mut window, Command::Edit(Box::new(small())));
    assert_eq!(app(&mut window).problem(), None);
}

#[test]
fn every_panel_shows_small_huge_and_empty_batches() {
    let empty = BatchSpec::empty(AttentionShape::default());
    let huge = BatchSpec { requests: vec![RequestSpec::Decode { kv: 64, count: 5_000 }], ..empty.clone() };
    for spec in [empty, small(), huge] {
        let mut window = open(batch(spec));
        for panel in Panel::ALL {
            send(&mut window, Command::Show(panel));
        }
        assert_eq!(app(&mut window).problem(), None);
    }
}

#[test]
fn every_panel_shows_a_hybrid_batch_under_every_strategy() {
    for key in ["teach-10-hybrid", "pod-c0"] {
        let spec = BatchSpec::from_ron(packscope::samples::find(key).unwrap().text).unwrap();
        let mut window = open(batch(spec));
        for strategy in Strategy::ALL {
            send(&mut window, Command::Strategy(strategy));
            for panel in Panel::ALL.into_iter().filter(|panel| *panel != Panel::Compare) {
                send(&mut window, Command::Show(panel));
                assert_eq!(app(&mut window).failure(Part::Panel(panel)), None, "{key}, {strategy:?}");
            }
        }
    }
}

#[test]
fn an_empty_batch_says_what_to_do() {
    let window = open(batch(BatchSpec::empty(AttentionShape::default())));
    assert!(window.query_all_by_label_contains("batch is empty").count() >= 1);
}

#[test]
fn cancel_leaves_a_window_that_can_run_again() {
    let mut window = open(batch(small()));
    app(&mut window).send(Command::Act(Action::Run));
    app(&mut window).send(Command::Act(Action::Cancel));
    window.step();
    assert!(!app(&mut window).is_running());
    send(&mut window, Command::Act(Action::Run));
    assert!(app(&mut window).shown().unwrap().simulated.is_some());
}

#[test]
fn rectangles_stay_under_the_bound_and_hold_every_slice() {
    let mut window = open(Opening::Example);
    let shown = app(&mut window).shown().unwrap();
    let capture = &shown.simulated.as_ref().unwrap().capture;
    let lanes = Lanes::of(capture);
    for pixels in [30_u64, 300, 1_800] {
        let fold = (lanes.end * 3).div_ceil(pixels).max(1);
        for lane in &lanes.lanes {
            let (mut rectangles, mut held) = (0, 0);
            lanes.pieces(&capture.spans, lane, 0..lanes.end, fold, |piece| {
                rectangles += 1;
                held += piece.count as usize;
            });
            assert!(rectangles <= pixels / 3 + 2, "{rectangles} rectangles on {pixels} pixels");
            assert_eq!(held, lane.spans.len(), "nothing is dropped");
        }
    }
}

#[test]
fn every_widget_has_a_name() {
    let mut spec = small();
    spec.requests = vec![RequestSpec::Decode { kv: 64, count: 4 }];
    let mut window = open(batch(spec));
    for panel in Panel::ALL {
        send(&mut window, Command::Show(panel));
        window.check_accessibility();
    }
}

#[test]
fn the_palette_finds_and_does() {
    let mut window = open(batch(small()));
    let before = window.ctx.theme();
    send(&mut window, Command::Act(Action::Palette));
    window.event(egui::Event::Text("theme".to_owned()));
    window.step();
    window.key_press(egui::Key::Enter);
    window.run_steps(3);
    assert_ne!(before, window.ctx.theme());
}

#[test]
fn a_sample_opens_on_its_device_and_under_its_strategy() {
    let shown_with = |window: &mut Window| {
        let planned = &app(window).shown().unwrap().planned;
        (planned.options.device.key.clone(), planned.options.strategy)
    };
    let mut window = open(batch(small()));
    assert_eq!(shown_with(&mut window), ("h200-sxm".to_owned(), Strategy::Streams));
    send(&mut window, Command::Sample("teach-10-hybrid"));
    assert_eq!(shown_with(&mut window), ("a100-sxm-80gb".to_owned(), Strategy::Fused));
    send(&mut window, Command::Strategy(Strategy::Serial));
    assert_eq!(shown_with(&mut window).1, Strategy::Serial, "the strategy is a choice as ever");
}
