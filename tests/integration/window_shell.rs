//! Around the panels: menus, palette, keys, banners, the log's badge, presentation and the scale of text.

use egui::{Key, Modifiers};
use egui_kittest::kittest::Queryable as _;
use engine::plan::Strategy;
use engine::workload::{AttentionShape, BatchSpec, RequestSpec};
use packscope::window::command::{Banner, Command};
use packscope::window::commands::table::Action;
use packscope::window::panel::{Panel, Part};
use packscope::window::selection::Selection;
use packscope::window::{App, Opening};

use crate::capture_file::VERSION_2;
use crate::program::fixture;
use crate::window::{Window, app, batch, open_with, send, settle, small};

fn open(opening: Opening) -> Window {
    open_with(opening, |ctx, opening| App::new(ctx, opening).unwrap())
}

fn type_in(window: &mut Window, text: &str) {
    window.event(egui::Event::Text(text.to_owned()));
    window.run_steps(2);
}

#[test]
fn the_window_begins_with_the_fastest_way_and_says_so() {
    let mut window = open(Opening::Batch(Box::new(small())));
    let shown = |window: &mut Window| {
        let options = &app(window).shown().unwrap().planned.options;
        (options.auto.scheduler, options.auto.strategy, options.scheduler.clone(), options.strategy)
    };
    let (auto_scheduler, auto_strategy, scheduler, strategy) = shown(&mut window);
    assert!(auto_scheduler && auto_strategy);
    assert!(window.query_all_by_label_contains(&format!("{scheduler} · {}", strategy.name())).count() >= 1);
    send(&mut window, Command::Strategy(Strategy::Serial));
    assert_eq!((shown(&mut window).1, shown(&mut window).3), (false, Strategy::Serial));
    send(&mut window, Command::AutoStrategy);
    assert!(shown(&mut window).1);
    assert_eq!(app(&mut window).undoes(), Some("strategy auto"));
    // The comparison has each way once, and as it is named.
    send(&mut window, Command::Compare);
    assert!(app(&mut window).problem().is_none());
}

#[test]
fn the_palette_holds_everything_and_obeys_arrows() {
    let mut window = open(batch(small()));
    for (typed, name) in [
        ("scheduler min", "Scheduler: min-traffic"),
        ("strategy fused", "Strategy: fused"),
        ("device a100", "Device: "),
        ("sample wave", "Sample: teach-8-wave"),
        ("show roofline", "Show: Roofline"),
        ("perfetto", "Export a trace for Perfetto…"),
    ] {
        send(&mut window, Command::Act(Action::Palette));
        type_in(&mut window, typed);
        assert!(window.query_all_by_label_contains(name).count() >= 1, "{typed}");
        window.key_press(Key::Escape);
        window.run_steps(2);
        assert_eq!(window.query_all_by_label("Command").count(), 0, "Esc closes it");
    }
    send(&mut window, Command::Act(Action::Palette));
    type_in(&mut window, "strategy: ");
    window.key_press(Key::ArrowDown);
    window.run_steps(1);
    window.key_press(Key::ArrowDown);
    window.run_steps(1);
    window.key_press(Key::ArrowUp);
    window.run_steps(1);
    window.key_press(Key::Enter);
    window.run_steps(2);
    settle(&mut window);
    // Auto, then the strategies in their order.
    assert_eq!(app(&mut window).document().options.strategy, Strategy::ALL[0]);
    assert!(!app(&mut window).document().options.auto.strategy);
}

#[test]
fn menus_open_close_with_escape_and_hold_the_lists() {
    let mut window = open(batch(small()));
    // The menu comes before the button of the same name.
    window.get_all_by_label("Run").next().unwrap().click();
    window.run_steps(3);
    let in_menu = |window: &Window| window.query_all_by_label_contains("Plan and simulate again").count();
    assert_eq!(in_menu(&window), 1);
    for list in ["Scheduler", "Strategy", "Device"] {
        assert!(window.query_all_by_label_contains(list).count() >= 1, "{list}");
    }
    let before = app(&mut window).document().clone();
    window.key_press(Key::Escape);
    window.run_steps(3);
    assert_eq!(in_menu(&window), 0, "Esc closes the menu");
    assert_eq!(*app(&mut window).document(), before);
}

#[test]
fn prompts_take_what_is_typed_at_once_and_close_with_escape() {
    let mut window = open(batch(small()));
    send(&mut window, Command::Act(Action::Open));
    window.run_steps(2);
    type_in(&mut window, "none.ron");
    window.key_press(Key::Enter);
    window.run_steps(3);
    assert!(app(&mut window).problem().unwrap().contains("none.ron"));
    for action in [Action::Save, Action::Picture, Action::Perfetto, Action::Csv, Action::Json, Action::Import] {
        send(&mut window, Command::Act(action));
        window.run_steps(2);
        let path = |window: &Window| window.query_all_by_label("path").count();
        assert!(path(&window) >= 1, "{action:?}");
        window.check_accessibility();
        window.key_press(Key::Escape);
        window.run_steps(3);
        assert_eq!(path(&window), 0, "Esc closes it: {action:?}");
    }
}

#[test]
fn an_import_is_looked_at_before_it_is_taken() {
    let mut window = open(batch(small()));
    send(&mut window, Command::Act(Action::Import));
    window.run_steps(2);
    type_in(&mut window, &fixture("small-trace.jsonl"));
    window.get_by_label("Look").click();
    for _ in 0..500 {
        window.step();
        if window.query_all_by_label_contains("shortest").count() > 0 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // The dialog has grown, and stands in the middle again.
    window.run_steps(3);
    assert_eq!(window.query_all_by_label_contains("% shared").count(), 1, "sharing is told");
    assert_eq!(app(&mut window).document().spec.roots, small().roots, "nothing is taken yet");
    window.get_by_label("Take this batch").click();
    window.run_steps(2);
    settle(&mut window);
    assert!(app(&mut window).undoes().unwrap().contains("Mooncake"));
    assert!(app(&mut window).document().spec.build().unwrap().requests().len() > 1);
}

#[test]
fn a_banner_goes_when_it_is_read_and_the_badge_counts_what_was_not() {
    let mut window = open(batch(small()));
    let mut bad = small();
    bad.shape.kv_heads = 5;
    send(&mut window, Command::Edit(Box::new(bad)));
    assert!(app(&mut window).unread() >= 1);
    assert!(window.query_all_by_label_contains("log: ").count() == 1);
    send(&mut window, Command::Dismiss(Banner::Problem));
    assert_eq!(window.query_all_by_label_contains("last batch that worked").count(), 0);
    send(&mut window, Command::Show(Panel::Log));
    window.run_steps(2);
    assert_eq!(app(&mut window).unread(), 0);
    assert_eq!(window.query_all_by_label_contains("log: ").count(), 0);
}

#[test]
fn text_scales_within_bounds_and_one_panel_is_presented() {
    let mut window = open(batch(small()));
    for _ in 0..20 {
        window.key_press_modifiers(Modifiers::COMMAND, Key::Plus);
        window.step();
    }
    assert!((window.ctx.zoom_factor() - 2.0).abs() < 1e-3, "{}", window.ctx.zoom_factor());
    for _ in 0..30 {
        window.key_press_modifiers(Modifiers::COMMAND, Key::Minus);
        window.step();
    }
    assert!((window.ctx.zoom_factor() - 0.8).abs() < 1e-3, "{}", window.ctx.zoom_factor());
    send(&mut window, Command::Act(Action::Present));
    window.run_steps(2);
    assert!(window.ctx.zoom_factor() > 1.0);
    assert_eq!(window.query_all_by_label("File").count(), 0, "no chrome");
    send(&mut window, Command::Show(Panel::Roofline));
    window.run_steps(2);
    assert!(window.query_all_by_label_contains("of its roof").count() >= 1, "the palette takes another panel");
    window.key_press(Key::Escape);
    window.run_steps(3);
    assert_eq!(window.query_all_by_label("File").count(), 1);
}

#[test]
fn a_control_with_the_focus_has_the_keys_that_work_it() {
    let mut window = open(batch(small()));
    window.get_by_label("warm").focus();
    window.run_steps(2);
    window.key_press(Key::Enter);
    window.run_steps(2);
    settle(&mut window);
    assert_eq!(app(&mut window).document().l2, engine::capture::L2State::Warm);
}

#[test]
fn the_longest_bubble_and_what_bounds_it_are_a_key_each() {
    let bytes = std::fs::read(fixture(VERSION_2[0])).unwrap();
    let mut window = open(Opening::Capture(Box::new(engine::capture::from_bytes(&bytes).unwrap())));
    send(&mut window, Command::Act(Action::LongestBubble));
    let run = app(&mut window).shown().unwrap().measured.clone().unwrap();
    let Selection::Gap(source, at) = app(&mut window).selected() else { panic!("no bubble") };
    let length = |gap: engine::metrics::Gap| gap.end.saturating_sub(gap.begin);
    let longest = run.gaps.iter().map(length).max();
    assert_eq!((source, run.gaps.get(at).map(length)), (run.source(), longest));
    send(&mut window, Command::Act(Action::Down));
    let bounds = engine::metrics::bounded_by(&run.capture.plan, &run.capture, &run.gaps.get(at).unwrap());
    assert_eq!(app(&mut window).selected(), Selection::Cta(source, bounds[0]));
}

/// Every panel with an empty, a small, a hybrid, a large, a measured and a damaged document, at three sizes of the
/// window: nothing fails, and what can be pressed lies within it.
#[test]
fn every_panel_draws_every_document_at_every_size() {
    let empty = BatchSpec::empty(AttentionShape::default());
    let many = BatchSpec { requests: vec![RequestSpec::Decode { kv: 64, count: 10_000 }], ..empty.clone() };
    let hybrid = BatchSpec::from_ron(packscope::samples::find("teach-10-hybrid").unwrap().text).unwrap();
    let capture = |bytes: &[u8]| Opening::Capture(Box::new(engine::capture::from_bytes(bytes).unwrap()));
    let bytes = std::fs::read(fixture(VERSION_2[0])).unwrap();
    let documents = [
        ("empty", batch(empty)),
        ("small", batch(small())),
        ("hybrid", batch(hybrid)),
        ("many", batch(many)),
        ("measured", capture(&bytes)),
        ("damaged", capture(&bytes[..bytes.len() * 4 / 5])),
    ];
    for (name, opening) in documents {
        let mut window = open(opening);
        // All ways of 10,000 requests take minutes in a build for tests.
        let is_drawn = |panel: &Panel| name != "many" || *panel != Panel::Compare;
        for size in [[900.0, 600.0], [1600.0, 1000.0], [3840.0, 2160.0]] {
            window.set_size(size.into());
            for panel in Panel::ALL.into_iter().filter(is_drawn) {
                app(&mut window).send(Command::Show(panel));
                window.step();
                settle(&mut window);
                assert_eq!(app(&mut window).failure(Part::Panel(panel)), None, "{name} {size:?} {panel:?}");
            }
            let menus = ["File", "Edit", "Run", "Tree", "Timeline", "Playback", "View", "Help"];
            for menu in menus {
                let place = window.get_all_by_label(menu).next().unwrap().rect();
                assert!(place.right() <= size[0] && place.bottom() <= size[1], "{name} {size:?} {menu}");
            }
        }
    }
}
