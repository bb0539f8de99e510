//! Pictures of single panels, against the kept ones in `snapshots/`. `UPDATE_SNAPSHOTS=force` writes them anew.
//!
//! A software renderer (Mesa) is enough; with no adapter at all the test says so and ends.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use egui_kittest::wgpu::WgpuTestRenderer;
use egui_kittest::{Harness, SnapshotOptions};
use engine::capture;
use engine::session::{self, PlanOptions};
use engine::units::NodeIdx;
use packscope::jobs::studies::Studying;
use packscope::runs::compared::Rows;
use packscope::runs::shown::Shown;
use packscope::theme;
use packscope::window::frame::Frame;
use packscope::window::panels::{inspector, memory, roofline, timeline, tree};
use packscope::window::selection::{Lit, Selection};

use crate::capture_file::VERSION_2;
use crate::program::fixture;
use crate::window::small;

/// A renderer, or why there is none.
fn renderer() -> Option<WgpuTestRenderer> {
    let found = catch_unwind(AssertUnwindSafe(WgpuTestRenderer::new));
    if found.is_err() {
        eprintln!("skipped: no wgpu adapter was found here; Debian's libegl1 and libgl1-mesa-dri bring one");
    }
    found.ok()
}

/// Draws a panel in dark and compares it with its kept picture.
fn picture(
    name: &str,
    (shown, selected): (&Shown, Lit),
    size: [f32; 2],
    mut draw: impl FnMut(&mut egui::Ui, &Frame<'_>),
) {
    let Some(renderer) = renderer() else { return };
    let options = PlanOptions::new(&engine::hw::builtin()[0]);
    let spec = (*shown.planned.spec).clone();
    let commands = RefCell::default();
    let tokens = theme::tokens(true);
    let mut panel =
        Harness::builder().with_size(size).with_theme(egui::Theme::Dark).renderer(renderer).build_ui(|ui| {
            theme::install(ui.ctx());
            let frame = Frame {
                spec: &spec,
                options: &options,
                shown: Some(shown),
                stale: false,
                ghost: None,
                now: None,
                compared: &[],
                rows: &Rows::default(),
                kept: &[],
                replay: None,
                sweep: None,
                studying: &Studying::Idle,
                is_in_file: false,
                selected,
                hovered: Lit::default(),
                ctas: &[],
                by_tile: false,
                is_picture: false,
                unread: 0,
                log: &[],
                tokens,
                commands: &commands,
            };
            egui::Frame::new().fill(tokens.panel).inner_margin(6).show(ui, |ui| draw(ui, &frame));
        });
    panel.run_steps(3);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/integration/snapshots");
    // Renderers round edges and letters apart; a panel that is wrong differs in thousands of pixels.
    let options = SnapshotOptions::new().output_path(folder).threshold(2.0).max_failed_pixels(400);
    panel.snapshot_options(name, &options);
}

#[test]
fn the_prefix_tree_looks_as_kept() {
    let planned = session::plan_spec(&small(), &PlanOptions::new(&engine::hw::builtin()[0])).unwrap();
    let shown = Shown::new(planned, None);
    let mut state = tree::State::default();
    picture("tree", (&shown, Lit::default()), [460.0, 260.0], move |ui, frame| tree::show(ui, frame, &mut state));
}

#[test]
fn the_timeline_looks_as_kept() {
    let mut state = timeline::State::default();
    // The kept capture, so that the picture stands when the simulator learns.
    let loaded = capture::read(fixture("capture-v1.pscope").as_ref()).unwrap();
    let shown = Shown::of_capture(loaded).unwrap();
    picture("timeline", (&shown, Lit::default()), [720.0, 420.0], move |ui, frame| {
        timeline::show(ui, frame, &mut state);
    });
}

/// A node with what was decided at it: every way with its price, the rule, and where its constant flips.
#[test]
fn the_decisions_at_a_node_look_as_kept() {
    let planned = session::plan_spec(&small(), &PlanOptions::new(&engine::hw::builtin()[0])).unwrap();
    let shown = Shown::new(planned, None);
    let lit = Lit::of(Selection::Node(NodeIdx(0)), &shown);
    picture("decisions", (&shown, lit), [460.0, 520.0], inspector::show);
}

fn measured(at: usize) -> Shown {
    Shown::of_capture(capture::read(fixture(VERSION_2[at]).as_ref()).unwrap()).unwrap()
}

#[test]
fn the_timeline_with_counters_looks_as_kept() {
    let mut state = timeline::State::default();
    state.axis.range = Some((1_000_000.0, 2_000_000.0));
    picture("timeline_counters", (&measured(0), Lit::default()), [900.0, 520.0], move |ui, frame| {
        timeline::show(ui, frame, &mut state);
    });
}

#[test]
fn the_memory_chart_looks_as_kept() {
    picture("memory", (&measured(1), Lit::default()), [430.0, 560.0], memory::show);
}

#[test]
fn the_roofline_looks_as_kept() {
    picture("roofline", (&measured(1), Lit::default()), [520.0, 360.0], |ui, frame| {
        roofline::show(ui, frame, &mut roofline::State::default());
    });
}
