//! Damaged captures in the window and in pictures: what a loss makes untrue is not shown as a figure.

use std::fs;

use egui_kittest::kittest::Queryable as _;
use engine::capture::{self, Loaded};
use packscope::picture::timeline;
use packscope::runs::damage::Damage;
use packscope::window::command::Command;
use packscope::window::commands::table::Action;
use packscope::window::panel::{Panel, Part};
use packscope::window::{App, Opening};

use crate::capture_file::VERSION_2;
use crate::program::{fixture, packscope_in};
use crate::window::{Window, app, open_with, send, small};

/// A kept file of which the first chunk of each kind is not found any more.
fn without(name: &str, kinds: &[&[u8; 4]]) -> Vec<u8> {
    let mut bytes = fs::read(fixture(name)).unwrap();
    for kind in kinds {
        // The index at the end, which names it again, stays whole.
        let place = bytes.windows(4).position(|window| window == *kind).unwrap();
        bytes[place + 1] ^= 1;
    }
    bytes
}

fn damaged(name: &str, kinds: &[&[u8; 4]]) -> Loaded {
    let loaded = capture::from_bytes(&without(name, kinds)).unwrap();
    assert!(!loaded.missing.is_empty());
    loaded
}

fn open(loaded: &Loaded) -> Window {
    let loaded = loaded.clone();
    let opening = Opening::Capture(Box::new(loaded));
    open_with(opening, |ctx, opening| App::new(ctx, opening).unwrap())
}

fn shows(window: &Window, text: &str) -> bool {
    window.query_all_by_label_contains(text).count() > 0
}

#[test]
fn lost_spans_are_told_where_the_figures_are() {
    for name in ["capture-v1.pscope", "capture-h200-streams.pscope", VERSION_2[0], VERSION_2[1]] {
        let loaded = damaged(name, &[b"SPAN"]);
        assert!(loaded.losses.spans > 0 && loaded.capture.spans.is_empty());
        let mut window = open(&loaded);
        assert!(shows(&window, "This capture is damaged; it lacks"), "{name}: a banner");
        for panel in Panel::ALL {
            send(&mut window, Command::Show(panel));
            window.run_steps(2);
            assert_eq!(app(&mut window).failure(Part::Panel(panel)), None, "{name}");
            let source = loaded.capture.provenance.source.name();
            for untrue in ["busy 0.0 %", &format!("busy 0 % ({source})"), "0 CTAs on"] {
                assert!(!shows(&window, untrue), "{name}, {panel:?}: '{untrue}'");
            }
        }
        let reason = "spans are lost from the file";
        send(&mut window, Command::Show(Panel::Timeline));
        assert!(shows(&window, "busy time and bubbles by cause are not known"), "{name}: the legend");
        // With a simulated run beside it, the headline has the makespans alone.
        let alone = app(&mut window).shown().unwrap().differences.is_none();
        let headline = format!("slots busy — ({} of", loaded.losses.spans);
        assert!(!alone || shows(&window, &headline), "{name}: the headline");
        assert!(shows(&window, "what is empty here is not idle"), "{name}: the lanes");
        send(&mut window, Command::Show(Panel::Roofline));
        assert!(shows(&window, "How fast the plan computed is not known"), "{name}: the roofline");
        send(&mut window, Command::Show(Panel::Inspector));
        assert!(window.query_all_by_label_contains(reason).count() >= 3, "{name}: beside the figures");
    }
}

#[test]
fn the_makespan_of_the_repeats_outlives_the_spans() {
    let whole = capture::read(fixture(VERSION_2[1]).as_ref()).unwrap();
    let median = whole.capture.times.spread().median.to_string();
    let window = open(&damaged(VERSION_2[1], &[b"SPAN"]));
    assert!(shows(&window, &format!("makespan {median}")));
    assert!(shows(&window, "lanes: the traced run, —"));
}

#[test]
fn a_loss_costs_only_the_figures_that_rest_on_it() {
    let loaded = damaged(VERSION_2[1], &[b"KERN"]);
    assert!(loaded.losses.kernels && loaded.losses.spans == 0, "{:?}", loaded.missing);
    let window = open(&loaded);
    assert!(shows(&window, "bubbles by cause are not known: the kernels' windows are lost from the file"));
    assert!(!shows(&window, "slots busy —"), "the CTAs are all there");
    let mut window = open(&damaged(VERSION_2[1], &[b"HWCN", b"CNTR"]));
    send(&mut window, Command::Show(Panel::Memory));
    assert!(!shows(&window, "counted on"), "nothing is called counted");
    assert!(shows(&window, "This capture is damaged") && shows(&window, "And 1 more"));
}

#[test]
fn the_banner_goes_with_the_damaged_run() {
    let mut window = open(&damaged("capture-v1.pscope", &[b"SPAN"]));
    send(&mut window, Command::Edit(Box::new(small())));
    window.run_steps(2);
    assert!(!shows(&window, "This capture is damaged") && !shows(&window, "slots busy —"));
    send(&mut window, Command::Act(Action::Undo));
    assert!(app(&mut window).shown().unwrap().simulated.is_some(), "its batch was kept");
}

#[test]
fn a_picture_of_a_damaged_capture_says_so() {
    for name in ["capture-v1.pscope", VERSION_2[0]] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.pscope"), without(name, &[b"SPAN"])).unwrap();
        let made = packscope_in(folder.path(), &["export", "a.pscope", "--svg", "a.svg", "--png", "a.png"]);
        assert_eq!(made.code, 0, "{}", made.stderr);
        let svg = fs::read_to_string(folder.path().join("a.svg")).unwrap();
        assert!(svg.contains("the capture is damaged; it lacks") && svg.contains("busy —"), "{name}");
        assert!(svg.contains("spans are lost from the file") && !svg.contains("0.0 %"), "{name}");
    }
}

#[test]
fn measured_series_are_not_called_the_models_where_the_counts_are_lost() {
    let loaded = damaged(VERSION_2[1], &[b"HWCN"]);
    assert!(loaded.losses.counts && !loaded.capture.counters.is_empty());
    let svg = timeline::timeline_svg(&loaded.capture, &Damage::of(&loaded));
    assert!(!svg.contains("by the model") && svg.contains("how the samples were taken is not in the file"));
}

/// The end of the last span that is left is no end of the run; painted text has no label, so it is looked for in
/// what is painted.
#[test]
fn a_run_without_its_spans_ends_nowhere() {
    let window = open(&damaged("capture-h200-streams.pscope", &[b"SPAN"]));
    let painted = painted(&window);
    assert!(painted.contains("0 CTAs left on 132 SMs · slots busy —"), "{painted}");
    assert!(!painted.contains("ends at 0 ns") && !painted.contains("measured ends"), "{painted}");
    let whole = capture::read(fixture("capture-h200-streams.pscope").as_ref()).unwrap();
    assert!(self::painted(&open(&whole)).contains("measured ends"));
}

/// All texts of the last frame.
fn painted(window: &Window) -> String {
    fn add(shape: &egui::Shape, all: &mut String) {
        match shape {
            egui::Shape::Text(text) => all.extend([text.galley.text(), "\n"]),
            egui::Shape::Vec(shapes) => shapes.iter().for_each(|shape| add(shape, all)),
            _ => {}
        }
    }
    let mut all = String::new();
    window.output().shapes.iter().for_each(|clipped| add(&clipped.shape, &mut all));
    all
}

#[test]
fn a_picture_takes_any_name_and_any_series() {
    let Loaded { mut capture, .. } = capture::read(fixture(VERSION_2[1]).as_ref()).unwrap();
    capture.batch.name = "bell \u{7}, escape \u{1b}[31m, <tag> & nul \u{0}".to_owned();
    for (at, value) in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY].into_iter().enumerate() {
        capture.counters[0].values[at] = value;
    }
    let svg = timeline::timeline_svg(&capture, &Damage::default());
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
    assert!(!svg.chars().any(|char| char.is_control() && char != '\n'));
    assert!(packscope::picture::png::png(&svg).unwrap().starts_with(b"\x89PNG"));
}
