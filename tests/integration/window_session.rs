//! What is worked on is kept: a window that ended in any way begins where it was, a picture holds what is seen.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use egui_kittest::kittest::Queryable as _;
use engine::capture::{L2State, Source};
use packscope::document::Document;
use packscope::picture::look::Look;
use packscope::window::command::{Command, Format, Target};
use packscope::window::commands::table::Action;
use packscope::window::panel::Panel;
use packscope::window::selection::Selection;
use packscope::window::{App, Opening};

use crate::program::fixture;
use crate::window::{Window, app, batch, open_with, send, settle, small};

fn open(opening: Opening, path: &Path, restore: bool) -> Window {
    let path = path.to_owned();
    open_with(opening, move |ctx, opening| {
        let mut app = App::new(ctx, opening).unwrap();
        app.keep_session(ctx, path.clone(), restore).unwrap();
        app
    })
}

fn text(window: &mut Window) -> String {
    app(window).document().to_ron().unwrap()
}

/// Steps until the file has changed and rests; says how long that took.
fn kept(window: &mut Window, path: &Path, before: &[u8]) -> Duration {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(20) {
        window.step();
        if std::fs::read(path).is_ok_and(|now| now != before) {
            return start.elapsed();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("nothing was written");
}

#[test]
fn a_window_begins_where_the_last_one_ended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.ron");
    let mut window = open(batch(small()), &path, false);
    kept(&mut window, &path, b"");
    let before = std::fs::read(&path).unwrap();
    send(&mut window, Command::Scheduler("min-traffic".to_owned()));
    send(&mut window, Command::L2(L2State::Warm));
    send(&mut window, Command::Act(Action::ZoomIn));
    send(&mut window, Command::Act(Action::Colour));
    send(&mut window, Command::Select(Selection::Cta(Source::Simulated, 2)));
    send(&mut window, Command::Act(Action::Mark));
    let took = kept(&mut window, &path, &before);
    assert!(took < Duration::from_secs(2), "{took:?}");
    // What came after the last write of that second is in the next one.
    let (edited, axis) = (text(&mut window), *app(&mut window).axis());
    std::thread::sleep(Duration::from_millis(1_100));
    window.run_steps(3);
    std::thread::sleep(Duration::from_millis(300));
    // As a kill leaves it: nothing is told to the window.
    std::mem::forget(window);
    let mut again = open(Opening::Example, &path, true);
    assert_eq!(text(&mut again), edited);
    assert_eq!(*app(&mut again).axis(), axis);
    let marks: Vec<String> = app(&mut again).marks().all().iter().map(|mark| mark.name.clone()).collect();
    assert!(marks.len() == 1 && marks[0].starts_with("CTA "), "{marks:?}");
    assert_eq!(app(&mut again).shown().unwrap().planned.options.scheduler, "min-traffic");
    assert_eq!(app(&mut again).undoes(), None);
    assert_eq!(app(&mut again).selected(), Selection::Cta(Source::Simulated, 2));
}

#[test]
fn layout_scale_and_recent_files_come_back_and_one_that_is_gone_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.ron");
    let gone = folder.path().join("gone.ron");
    std::fs::write(&gone, small().to_ron().unwrap()).unwrap();
    let mut window = open(batch(small()), &path, false);
    kept(&mut window, &path, b"");
    let rail = |window: &Window| window.query_all_by_label("prefix tree canvas").count();
    assert_eq!(rail(&window), 1);
    send(&mut window, Command::OpenPath(gone.clone()));
    for action in [Action::Rail, Action::Larger, Action::Larger] {
        send(&mut window, Command::Act(action));
    }
    assert_eq!(rail(&window), 0);
    std::thread::sleep(Duration::from_millis(1_100));
    let before = std::fs::read(&path).unwrap();
    window.run_steps(3);
    kept(&mut window, &path, &before);
    drop(window);
    std::fs::remove_file(&gone).unwrap();
    let mut again = open(Opening::Example, &path, true);
    assert_eq!((rail(&again), again.ctx.zoom_factor()), (0, 1.2));
    send(&mut again, Command::Act(Action::Palette));
    again.event(egui::Event::Text("recent".to_owned()));
    again.run_steps(3);
    again.get_by_label_contains("gone.ron · not there any more");
}

#[test]
fn rows_of_the_comparison_come_back_but_for_a_capture_that_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.ron");
    let captures = ["stays.pscope", "goes.pscope"].map(|name| folder.path().join(name));
    for capture in &captures {
        std::fs::copy(fixture("capture-v1.pscope"), capture).unwrap();
    }
    let mut window = open(batch(small()), &path, false);
    kept(&mut window, &path, b"");
    send(&mut window, Command::RowOfDevice("h20-sxm".to_owned()));
    for capture in &captures {
        send(&mut window, Command::AddRow(capture.clone()));
    }
    std::thread::sleep(Duration::from_millis(1_100));
    let before = std::fs::read(&path).unwrap();
    send(&mut window, Command::Act(Action::Colour));
    kept(&mut window, &path, &before);
    drop(window);
    std::fs::remove_file(&captures[1]).unwrap();
    let mut again = open(Opening::Example, &path, true);
    send(&mut again, Command::Show(Panel::Compare));
    assert!(again.query_all_by_label_contains("stays.pscope: ").count() > 0);
    assert!(again.query_all_by_label_contains("H20").count() > 0);
    assert_eq!(again.query_all_by_label_contains("goes.pscope: ").count(), 0);
    send(&mut again, Command::Show(Panel::Log));
    again.get_by_label_contains("a row of the comparison is gone");
}

#[test]
fn the_run_is_handed_on_in_every_format_and_a_picture_to_the_clipboard() {
    let folder = tempfile::tempdir().unwrap();
    let mut window = open(batch(small()), &folder.path().join("session.ron"), false);
    for (format, name) in [
        (Format::Capture, "a.pscope"),
        (Format::Perfetto, "a.pftrace"),
        (Format::Csv, "tables"),
        (Format::Json, "a.json"),
    ] {
        send(&mut window, Command::Export(format, folder.path().join(name)));
        assert_eq!(app(&mut window).problem(), None, "{name}");
    }
    let run = app(&mut window).shown().unwrap().simulated.clone().unwrap();
    let back = engine::capture::read(&folder.path().join("a.pscope")).unwrap();
    assert!(back.missing.is_empty() && back.capture.spans == run.capture.spans);
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(folder.path().join("a.json")).unwrap()).unwrap();
    assert_eq!(json["makespan_ns"], run.times().median.0);
    assert!(folder.path().join("tables").join("spans.csv").exists());
    assert!(std::fs::metadata(folder.path().join("a.pftrace")).unwrap().len() > 1_000);
    for panel in Panel::ALL.into_iter().filter(|panel| panel.has_picture() && !panel.is_study()) {
        app(&mut window).send(Command::Picture { panel, visible: true, look: Look::default(), to: Target::Clipboard });
        window.step();
        let commands = &window.output().platform_output.commands;
        let copied =
            commands.iter().any(|one| matches!(one, egui::OutputCommand::CopyImage(image) if image.width() >= 1200));
        assert!(copied, "{panel:?}: {:?}", app(&mut window).problem());
    }
}

/// A session that was killed at any moment of a write is the one before or the one after.
#[test]
fn a_kill_at_any_moment_leaves_a_session_that_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.ron");
    let mut window = open(batch(small()), &path, false);
    kept(&mut window, &path, b"");
    drop(window);
    let whole = std::fs::read(&path).unwrap();
    for part in 0..100 {
        // What a writer leaves that is killed before it renames: its own file, cut anywhere, beside the session.
        let cut = whole.len() * part / 100;
        std::fs::write(folder.path().join(format!(".session.ron.{part}")), &whole[..cut]).unwrap();
    }
    let mut again = open(Opening::Example, &path, true);
    assert_eq!(text(&mut again), Document::from_ron(&text(&mut again)).unwrap().to_ron().unwrap());
    assert!(app(&mut again).log().iter().any(|(_, line)| line.contains("the last session is back")));
    assert_eq!(app(&mut again).document().spec.roots, small().roots);
}

#[test]
fn a_capture_comes_back_with_its_measured_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.ron");
    let mut window = open(batch(small()), &path, false);
    kept(&mut window, &path, b"");
    let before = std::fs::read(&path).unwrap();
    send(&mut window, Command::OpenPath(PathBuf::from(fixture("capture-h200-streams.pscope"))));
    kept(&mut window, &path, &before);
    let shown = text(&mut window);
    let before = std::fs::read(&path).unwrap();
    let bubble = Selection::Gap(Source::Measured, 3);
    send(&mut window, Command::Select(bubble));
    kept(&mut window, &path, &before);
    drop(window);
    let mut again = open(Opening::Example, &path, true);
    settle(&mut again);
    assert_eq!(text(&mut again), shown);
    assert!(app(&mut again).shown().unwrap().measured.is_some());
    assert_eq!(app(&mut again).selected(), bubble);
}

#[test]
fn a_session_that_cannot_be_read_is_told_and_left_aside() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.ron");
    std::fs::write(&path, "(version: 1, docu").unwrap();
    let mut window = open(Opening::Example, &path, true);
    assert!(app(&mut window).log().iter().any(|(_, line)| line.contains("could not be read")));
    assert!(app(&mut window).shown().is_some());
    let aside = folder.path().join("session.ron.unread");
    assert_eq!(std::fs::read_to_string(aside).unwrap(), "(version: 1, docu");
}

#[test]
fn the_picture_of_the_timeline_holds_the_time_that_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let mut window = open(batch(small()), &folder.path().join("session.ron"), false);
    let picture = |window: &mut Window, name: &str| {
        let path = folder.path().join(name);
        let to = Target::File(path.clone());
        send(window, Command::Picture { panel: Panel::Timeline, visible: true, look: Look::default(), to });
        assert_eq!(app(window).problem(), None);
        std::fs::read(path).unwrap()
    };
    let whole = String::from_utf8(picture(&mut window, "whole.svg")).unwrap();
    for _ in 0..6 {
        send(&mut window, Command::Act(Action::ZoomIn));
    }
    let part = String::from_utf8(picture(&mut window, "part.svg")).unwrap();
    let from_zero = |svg: &str| svg.contains(">0 ns<") || svg.contains(">0 µs<");
    assert!(from_zero(&whole) && !from_zero(&part), "the axis begins later");
    assert!(picture(&mut window, "part.png").starts_with(b"\x89PNG"));
}
