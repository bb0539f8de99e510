//! One quantity has one number: the window, its axis, its tables and the pictures agree, and where two runs differ
//! both are named.

use std::fmt::Write as _;

use egui_kittest::kittest::Queryable as _;
use engine::capture::{self, Loaded, Pauses, Source};
use engine::metrics;
use engine::plan::{CtaRole, Strategy};
use engine::units::{Nanos, counted};
use packscope::picture::timeline;
use packscope::runs::damage::Damage;
use packscope::runs::headline;
use packscope::timeline::lanes::Lanes;
use packscope::window::command::Command;
use packscope::window::panel::Panel;
use packscope::window::{App, Opening};

use crate::capture_file::VERSION_2;
use crate::program::fixture;
use crate::window::{Window, app, batch, open_with, send, small};

fn open(opening: Opening) -> Window {
    open_with(opening, |ctx, opening| App::new(ctx, opening).unwrap())
}

fn shows(window: &Window, text: &str) -> bool {
    window.query_all_by_label_contains(text).count() > 0
}

fn measured() -> Vec<Loaded> {
    let files = ["capture-h200-streams.pscope", VERSION_2[0], VERSION_2[1]];
    files.into_iter().map(|name| capture::read(fixture(name).as_ref()).unwrap()).collect()
}

#[test]
fn window_tables_and_picture_name_one_makespan_and_the_traced_run_beside_it() {
    for loaded in measured() {
        let capture = loaded.capture.clone();
        let (median, traced) = (capture.times.spread().median, capture.makespan());
        assert_ne!(median, traced, "this file is one in which they differ");
        let said = format!("the traced run, {traced} (");
        let svg = timeline::timeline_svg(&capture, &Damage::default());
        assert!(svg.contains(&format!("{median} measured (median of ")), "the picture's title");
        assert!(svg.contains(&said), "the picture's lanes");
        assert_eq!(svg.matches(&traced.to_string()).count(), svg.matches(&said).count(), "nowhere without its name");
        let mut window = open(Opening::Capture(Box::new(loaded)));
        for panel in [Panel::Timeline, Panel::Compare, Panel::Differences, Panel::Inspector, Panel::Roofline] {
            send(&mut window, Command::Show(panel));
            assert!(shows(&window, &median.to_string()) && shows(&window, &said), "{panel:?}");
        }
    }
}

/// What `--tune` and a replay's samples compare: as the traced run would have it, the run with less to trace wins.
#[test]
fn a_capture_takes_as_long_as_its_repeats_without_tracing() {
    for Loaded { mut capture, .. } in measured() {
        let (median, traced) = (capture.times.spread().median, capture.makespan());
        assert_ne!(median, traced, "this file is one in which they differ");
        assert_eq!(capture.time(), median);
        capture.times.makespans.clear();
        assert_eq!(capture.time(), traced, "with no repeat there is but the traced run");
    }
}

#[test]
fn a_simulated_run_has_one_length() {
    let mut window = open(batch(small()));
    let capture = app(&mut window).shown().unwrap().simulated.as_ref().unwrap().capture.clone();
    assert_eq!(headline::traced(&capture, &Damage::default()), None);
    let makespan = headline::makespan(&capture);
    assert_eq!(makespan, capture.makespan().to_string());
    assert!(shows(&window, &format!("makespan {makespan}")) && !shows(&window, "traced run"));
    let svg = timeline::timeline_svg(&capture, &Damage::default());
    assert!(svg.contains(&format!("{makespan} simulated (cold L2, nine of ten within ")));
    assert!(timeline::compare_svg(&[capture]).contains(&makespan));
}

#[test]
fn bandwidth_is_over_the_makespan_that_is_told() {
    for Loaded { capture, .. } in measured() {
        let batch = capture.batch.build().unwrap();
        let traffic = metrics::traffic(&capture.plan, &batch, &engine::workload::PrefixTree::of(&batch));
        let achieved = metrics::bandwidth(&traffic, &capture).achieved_bytes_per_s as f64;
        let bytes = achieved * capture.times.spread().median.as_f64() * 1e-9;
        assert!((bytes / traffic.issued().as_f64() - 1.0).abs() < 1e-6, "{bytes} B of {}", traffic.issued());
    }
}

#[test]
fn ctas_are_counted_as_what_they_are() {
    for strategy in Strategy::ANY_BATCH {
        let mut window = open(batch(small()));
        send(&mut window, Command::Strategy(strategy));
        let shown = app(&mut window).shown().unwrap();
        let spans = &shown.simulated.as_ref().unwrap().capture.spans;
        let merges = spans.role.iter().filter(|role| **role == CtaRole::Merge).count();
        let attention = counted(shown.planned.plan.attention_ctas(), "attention CTA");
        assert_eq!((spans.len() - merges) as u64, shown.planned.plan.attention_ctas(), "{strategy:?}");
        let mut all = counted(spans.len() as u64, "CTA");
        if merges > 0 {
            let _ = write!(all, ", {merges} of them merging");
        }
        assert!(shows(&window, &format!("{all} on ")), "{strategy:?}: {all}");
        assert!(shows(&window, &attention), "{strategy:?}: the packs");
    }
}

#[test]
fn bytes_written_say_which_are_the_plans() {
    let mut window = open(batch(small()));
    send(&mut window, Command::Show(Panel::Memory));
    let shown = app(&mut window).shown().unwrap();
    let plan = shown.traffic.partial_write + shown.traffic.output_write;
    let run = shown.simulated.as_ref().unwrap();
    let flow = metrics::MemoryFlow::of(&shown.traffic, &run.capture).unwrap();
    assert_eq!(flow.source, Source::Simulated);
    let rest = flow.dram_written.unwrap().saturating_sub(plan);
    assert!(rest.0 > 0, "a run from a cleared L2 writes its dirty lines back");
    assert!(shows(&window, &format!("CTAs write {plan} of partial results and outputs")));
    assert!(shows(&window, &format!("writes {rest} more: lines that clearing L2 before it had left there")));
}

/// A line that is too long lies over its own name, and pushes what stands beside it out of the window.
#[test]
fn what_is_told_of_pauses_fits_the_inspector() {
    let mut loaded = measured().remove(0);
    let makespans = loaded.capture.times.makespans.len();
    let of_repeats = (0..).map(|repeat| repeat % 4).take(makespans).collect();
    let pauses = Pauses { period_ns: 100_148.1, length: Nanos(1216), of_repeats, begins: Vec::new() };
    loaded.capture.pauses = Some(pauses);
    let told = engine::export::pauses_json(&loaded.capture).unwrap();
    let mut lines = vec![("pauses of the HBM".to_owned(), told.rhythm())];
    lines.extend(told.groups.iter().map(|group| (group.name(), Nanos(group.makespan_ns).to_string())));
    assert_eq!(lines.len(), 5);
    let mut window = open(Opening::Capture(Box::new(loaded)));
    send(&mut window, Command::Show(Panel::Inspector));
    for (name, value) in lines {
        let name = window.get_by_label(&name).rect();
        let beside = |rect: &egui::Rect| (rect.center().y - name.center().y).abs() < 4.0;
        let mut values = window.query_all_by_label(&value).map(|node| node.rect()).filter(beside);
        let found = values.next().unwrap_or_else(|| panic!("{value} at {name}"));
        assert!(name.right() <= found.left() && found.right() < 1600.0, "{value}: {name} and {found}");
    }
}

#[test]
fn a_range_over_the_whole_run_asks_for_what_the_plan_issues() {
    for Loaded { capture, .. } in measured() {
        let batch = capture.batch.build().unwrap();
        let traffic = metrics::traffic(&capture.plan, &batch, &engine::workload::PrefixTree::of(&batch));
        let lanes = Lanes::of(&capture);
        let (_, _, bytes) = lanes.within(&capture.spans, 0..lanes.end + 1);
        assert!((bytes / traffic.kv_read.as_f64() - 1.0).abs() < 1e-6, "{bytes} B of {}", traffic.kv_read);
    }
}

#[test]
fn a_range_says_what_its_bytes_are() {
    let mut window = open(Opening::Capture(Box::new(measured().remove(2))));
    send(&mut window, Command::Show(Panel::Timeline));
    let lane = window.query_all_by_label_contains("SM 0:").next().unwrap().rect();
    let at = |share: f32| lane.left_center() + egui::vec2(lane.width() * share, 0.0);
    window.hover_at(at(0.3));
    window.run_steps(2);
    window.drag_at(at(0.3));
    window.run_steps(2);
    window.hover_at(at(0.32));
    window.run_steps(2);
    window.hover_at(at(0.6));
    window.run_steps(2);
    window.drop_at(at(0.6));
    window.run_steps(3);
    // The line of the drawer is there before and after; a click opens all figures.
    let line = window.get_by_label_contains("range ");
    let said = format!("{line:?}");
    assert!(said.contains("measured") && said.contains("of a plain read"), "{said}");
    let place = line.rect();
    window.get_by_label_contains("figures").click();
    window.run_steps(3);
    window.get_by_label("KV asked for by CTAs");
    assert!(window.query_all_by_label_contains("mean ").count() > 0);
    assert!(window.query_by_label("tail imbalance").is_some() || window.query_by_label("launch ramp").is_some());
    let after = window.get_by_label_contains("of a plain read").rect();
    assert!((after.left() - place.left()).abs() < 0.1, "{after} and {place}");
}
