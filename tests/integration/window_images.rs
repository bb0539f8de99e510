//! Pictures of single panels, against the kept ones in `snapshots/`. `UPDATE_SNAPSHOTS=force` writes them anew.
//!
//! A software renderer (Mesa) is enough; with no adapter at all the test says so and ends.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use egui_kittest::wgpu::WgpuTestRenderer;
use egui_kittest::{Harness, SnapshotOptions, SnapshotResults};
use engine::capture;
use engine::session::{self, PlanOptions};
use engine::units::NodeIdx;
use packscope::picture::look::{Look, Width};
use packscope::runs::shown::Shown;
use packscope::window::frame::Frame;
use packscope::window::panel::Panel;
use packscope::window::panels::{inspector, memory, packs, roofline, timeline, tree};
use packscope::window::picture::{self, Wanted};
use packscope::window::selection::{Lit, Selection};

use crate::capture_file::VERSION_2;
use crate::program::fixture;
use crate::window::small;

const SNAPSHOTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/integration/snapshots");

/// A renderer, or why there is none.
fn renderer() -> Option<WgpuTestRenderer> {
    let found = catch_unwind(AssertUnwindSafe(WgpuTestRenderer::new));
    if found.is_err() {
        eprintln!("skipped: no wgpu adapter was found here; Debian's libegl1 and libgl1-mesa-dri bring one");
    }
    found.ok()
}

/// How a panel is drawn: dark or light, and how large.
#[derive(Clone, Copy)]
struct Page {
    name: &'static str,
    dark: bool,
    size: [f32; 2],
}

const fn dark(name: &'static str, size: [f32; 2]) -> Page {
    Page { name, dark: true, size }
}

const fn light(name: &'static str, size: [f32; 2]) -> Page {
    Page { name, dark: false, size }
}

/// Draws a panel and compares it with its kept picture.
fn looks_as_kept(
    all: &mut SnapshotResults,
    page: Page,
    (shown, selected): (&Shown, Lit),
    mut draw: impl FnMut(&mut egui::Ui, &Frame<'_>),
) {
    let Some(renderer) = renderer() else { return };
    let commands = RefCell::default();
    let tokens = packscope::theme::tokens(page.dark);
    let theme = if page.dark { egui::Theme::Dark } else { egui::Theme::Light };
    let mut panel = Harness::builder().with_size(page.size).with_theme(theme).renderer(renderer).build_ui(|ui| {
        packscope::theme::install(ui.ctx());
        let frame = Frame { selected, ..Frame::of(shown, tokens, &commands) };
        egui::Frame::new().fill(tokens.panel).inner_margin(6).show(ui, |ui| draw(ui, &frame));
    });
    panel.run_steps(3);
    // Renderers round edges and letters apart; a panel that is wrong differs in thousands of pixels.
    let options = SnapshotOptions::new().output_path(SNAPSHOTS).threshold(2.0).max_failed_pixels(400);
    panel.snapshot_options(page.name, &options);
    all.extend(panel.take_snapshot_results());
}

fn small_plan() -> Shown {
    Shown::new(session::plan_spec(&small(), &PlanOptions::new(&engine::hw::builtin()[0])).unwrap(), None)
}

/// A kept capture, so that its pictures stand when the simulator learns.
fn kept(name: &str) -> Shown {
    Shown::of_capture(capture::read(fixture(name).as_ref()).unwrap()).unwrap()
}

#[test]
fn the_prefix_tree_looks_as_kept() {
    let mut all = SnapshotResults::default();
    for page in [dark("tree", [460.0, 260.0]), light("tree_light", [300.0, 200.0])] {
        let mut state = tree::State::default();
        looks_as_kept(&mut all, page, (&small_plan(), Lit::default()), move |ui, frame| {
            tree::show(ui, frame, &mut state);
        });
    }
}

#[test]
fn the_timeline_looks_as_kept() {
    let mut all = SnapshotResults::default();
    for page in [dark("timeline", [720.0, 420.0]), light("timeline_light", [480.0, 300.0])] {
        let mut state = timeline::State::default();
        let shown = kept("capture-v1.pscope");
        looks_as_kept(&mut all, page, (&shown, Lit::default()), move |ui, frame| timeline::show(ui, frame, &mut state));
    }
}

/// A node with what was decided at it: every way with its price, the rule, and where its constant flips.
#[test]
fn the_decisions_at_a_node_look_as_kept() {
    let shown = small_plan();
    let lit = Lit::of(Selection::Node(NodeIdx(0)), &shown);
    let mut all = SnapshotResults::default();
    for page in [dark("decisions", [460.0, 520.0]), light("decisions_light", [320.0, 520.0])] {
        looks_as_kept(&mut all, page, (&shown, lit), inspector::show);
    }
}

#[test]
fn the_packs_look_as_kept() {
    let mut all = SnapshotResults::default();
    for page in [dark("packs", [700.0, 240.0]), light("packs_light", [420.0, 240.0])] {
        let mut state = packs::State::default();
        looks_as_kept(&mut all, page, (&small_plan(), Lit::default()), move |ui, frame| {
            packs::show(ui, frame, &mut state);
        });
    }
}

#[test]
fn the_timeline_with_counters_looks_as_kept() {
    let mut all = SnapshotResults::default();
    for page in [dark("timeline_counters", [900.0, 520.0]), light("timeline_counters_light", [620.0, 420.0])] {
        let mut state = timeline::State::default();
        state.axis.range = Some((1_000_000.0, 2_000_000.0));
        let shown = kept(VERSION_2[0]);
        looks_as_kept(&mut all, page, (&shown, Lit::default()), move |ui, frame| timeline::show(ui, frame, &mut state));
    }
}

#[test]
fn the_memory_chart_looks_as_kept() {
    let mut all = SnapshotResults::default();
    for page in [dark("memory", [430.0, 560.0]), light("memory_light", [330.0, 480.0])] {
        looks_as_kept(&mut all, page, (&kept(VERSION_2[1]), Lit::default()), memory::show);
    }
}

#[test]
fn the_roofline_looks_as_kept() {
    let mut all = SnapshotResults::default();
    for page in [dark("roofline", [520.0, 360.0]), light("roofline_light", [360.0, 260.0])] {
        looks_as_kept(&mut all, page, (&kept(VERSION_2[1]), Lit::default()), |ui, frame| {
            roofline::show(ui, frame, &mut roofline::State::default());
        });
    }
}

/// Exported pictures are the same bytes everywhere: their letters are drawn by whoever opens them.
#[test]
fn exported_pictures_are_as_kept() {
    let width = |text: &str| Width::parse(text).unwrap();
    for (name, panel, look) in [
        ("export_timeline", Panel::Timeline, Look { dark: false, width: width("180mm") }),
        ("export_timeline_dark", Panel::Timeline, Look { dark: true, width: width("700px") }),
        ("export_roofline", Panel::Roofline, Look { dark: false, width: width("85mm") }),
        ("export_bubbles_dark", Panel::Bubbles, Look { dark: true, width: width("600px") }),
    ] {
        let made = picture::of_shown(&kept(VERSION_2[1]), &[], &Wanted { panel, range: None, at: None, look }).unwrap();
        let path = format!("{SNAPSHOTS}/{name}.svg");
        if std::env::var("UPDATE_SNAPSHOTS").is_ok_and(|how| how == "force") {
            std::fs::write(&path, &made).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap();
        let differs = made.lines().zip(kept.lines()).position(|(made, kept)| made != kept);
        assert!(made == kept, "{name} differs from its kept picture, first in line {differs:?}");
    }
}
