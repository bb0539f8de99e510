//! Measured runs outlive the window, by a capture each beside the session: as they were, or told to be gone.

use std::path::{Path, PathBuf};
use std::time::Duration;

use egui_kittest::kittest::Queryable as _;
use engine::capture::Source;
use engine::plan::PlanDigest;
use packscope::runs::measurement::Filed;
use packscope::runs::shown::Sources;
use packscope::window::command::Command;
use packscope::window::commands::table::Action;
use packscope::window::frame::Level;
use packscope::window::panel::Panel;
use packscope::window::selection::Selection;
use packscope::window::{App, Opening};

use crate::program::fixture;
use crate::window::{Window, app, batch, open_with, send, settle, small};
use crate::window_gpu::{find_gpu, measure, slower};

/// A window that keeps a session, on a machine with a stand-in for a GPU.
fn open(opening: Opening, path: &Path, restore: bool) -> Window {
    let path = path.to_owned();
    let mut window = open_with(opening, move |ctx, opening| {
        let mut app = App::on(ctx, opening, slower()).unwrap();
        app.keep_session(ctx, path.clone(), restore).unwrap();
        app
    });
    find_gpu(&mut window);
    window
}

/// One on a batch for the stand-in.
fn open_first(path: &Path) -> Window {
    let mut window = open(batch(small()), path, false);
    send(&mut window, Command::Device("h200-sxm".to_owned()));
    window
}

/// The next window, once all that the last one measured is read or told to be gone.
fn open_next(path: &Path, runs: usize) -> Window {
    let mut window = open(Opening::Example, path, true);
    wait(&mut window, |app| app.measurements().len() == runs);
    settle(&mut window);
    window
}

fn wait(window: &mut Window, is_so: impl Fn(&App) -> bool) {
    for _ in 0..2_000 {
        window.step();
        if is_so(app(window)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it never came: {:?}", app(window).log());
}

/// Steps until each run is in its file and the session, which is written once a second, names it.
fn wait_kept(window: &mut Window, path: &Path) {
    wait(window, |app| {
        let session = std::fs::read_to_string(path).unwrap_or_default();
        let is_named = |file: &PathBuf| session.contains(&*file.file_name().unwrap().to_string_lossy());
        app.measurements().iter().all(|kept| matches!(&kept.filed, Filed::At(file) if is_named(file)))
    });
}

fn captures(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(path.with_extension("runs")) else { return Vec::new() };
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    all.retain(|path| path.extension().is_some_and(|own| own == "pscope"));
    all.sort();
    all
}

fn warnings(window: &mut Window, text: &str) -> Vec<String> {
    let is_one = |(level, line): &&(Level, String)| *level == Level::Warning && line.contains(text);
    app(window).log().iter().filter(is_one).map(|(_, line)| line.clone()).collect()
}

fn digests(window: &mut Window) -> Vec<PlanDigest> {
    app(window).measurements().iter().map(|kept| kept.way.run.plan_digest).collect()
}

/// Measures the batch under each of some schedulers.
fn measure_under(window: &mut Window, schedulers: &[&str]) {
    for scheduler in schedulers {
        send(window, Command::Scheduler((*scheduler).to_owned()));
        measure(window);
    }
}

#[test]
fn a_measured_run_comes_back_in_its_document_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.ron");
    let mut window = open_first(&path);
    measure_under(&mut window, &["query-centric", "pat"]);
    send(&mut window, Command::Select(Selection::Cta(Source::Measured, 3)));
    wait_kept(&mut window, &path);
    std::thread::sleep(Duration::from_millis(1_100));
    window.run_steps(3);
    std::thread::sleep(Duration::from_millis(300));
    let (plans, names) = (digests(&mut window), captures(&path));
    let before = app(&mut window).shown().unwrap().measured.clone().unwrap();
    // As a kill leaves it: nothing is told to the window.
    std::mem::forget(window);
    let mut again = open_next(&path, 2);
    assert_eq!(digests(&mut again), plans);
    let after = app(&mut again).shown().unwrap().measured.clone().expect("the run of the document");
    assert_eq!(after.capture, before.capture);
    assert!(app(&mut again).shown().unwrap().differences.is_some(), "its simulated run is beside it");
    assert_eq!(app(&mut again).selected(), Selection::Cta(Source::Measured, 3));
    send(&mut again, Command::Show(Panel::Compare));
    assert!(again.query_all_by_label_contains("measured").count() >= 2, "both are rows of Compare");
    assert_eq!(captures(&path), names, "they are not written again");
    send(&mut again, Command::Scheduler("query-centric".to_owned()));
    assert!(app(&mut again).shown().unwrap().measured.is_some(), "the other comes back with its plan");
}

#[test]
fn which_run_is_looked_at_comes_back_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.ron");
    let mut window = open_first(&path);
    measure(&mut window);
    let ends = |window: &mut Window, source| app(window).shown().unwrap().end(Sources::Only(source));
    assert!(ends(&mut window, Source::Simulated) < ends(&mut window, Source::Measured));
    send(&mut window, Command::Act(Action::Sources));
    wait_kept(&mut window, &path);
    std::thread::sleep(Duration::from_millis(1_100));
    window.run_steps(3);
    let lanes = |window: &Window| window.query_all_by_label_contains("SM 0:").count();
    let seen = lanes(&window);
    drop(window);
    assert_eq!(lanes(&open_next(&path, 1)), seen);
}

#[test]
fn a_cut_and_a_missing_run_are_told_and_cost_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.ron");
    let mut window = open_first(&path);
    measure_under(&mut window, &["query-centric", "naive", "pat"]);
    wait_kept(&mut window, &path);
    let (plans, files) = (digests(&mut window), captures(&path));
    assert_eq!(files.len(), 3);
    drop(window);
    let whole = std::fs::read(&files[0]).unwrap();
    std::fs::write(&files[0], &whole[..whole.len() / 2]).unwrap();
    std::fs::remove_file(&files[1]).unwrap();
    let mut again = open_next(&path, 1);
    wait(&mut again, |app| app.log().iter().filter(|(_, line)| line.contains("is gone")).count() == 2);
    for file in &files[..2] {
        let told = warnings(&mut again, &file.display().to_string());
        assert!(told.len() == 1 && told[0].starts_with("a measured run of the last session is gone"), "{told:?}");
    }
    assert_eq!(digests(&mut again), plans[2..]);
    assert!(app(&mut again).shown().unwrap().measured.is_some());
    assert_eq!(std::fs::read(files[0].with_extension("pscope.unread")).unwrap().len(), whole.len() / 2);
    // The next window has no more of them to tell.
    wait(&mut again, |_| {
        !std::fs::read_to_string(&path).unwrap().contains(&*files[0].file_stem().unwrap().to_string_lossy())
    });
    drop(again);
    let mut third = open_next(&path, 1);
    assert_eq!(warnings(&mut third, "is gone"), Vec::<String>::new());
}

#[test]
fn a_run_that_cannot_be_written_says_so_and_is_written_with_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.ron");
    let in_the_way = path.with_extension("runs");
    std::fs::write(&in_the_way, "no folder").unwrap();
    let mut window = open_first(&path);
    measure(&mut window);
    wait(&mut window, |app| app.measurements()[0].filed == Filed::Refused);
    let told = warnings(&mut window, "a measured run ends with this window");
    assert!(told.len() == 1 && told[0].contains("session.runs"), "{told:?}");
    assert!(app(&mut window).shown().unwrap().measured.is_some());
    window.run_steps(20);
    assert_eq!(warnings(&mut window, "a measured run ends with this window").len(), 1, "it is told once");
    std::fs::remove_file(&in_the_way).unwrap();
    measure_under(&mut window, &["query-centric"]);
    wait_kept(&mut window, &path);
    assert_eq!(captures(&path).len(), 2);
}

#[test]
fn a_run_that_is_let_go_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.ron");
    let mut window = open_first(&path);
    measure(&mut window);
    wait_kept(&mut window, &path);
    let first = captures(&path);
    for _ in 0..24 {
        measure(&mut window);
    }
    wait_kept(&mut window, &path);
    wait(&mut window, |_| captures(&path).len() == 24);
    assert!(!captures(&path).contains(&first[0]));
    drop(window);
    open_next(&path, 24);
}

#[test]
fn a_window_on_a_file_hands_the_runs_on_to_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.ron");
    let mut window = open_first(&path);
    measure_under(&mut window, &["query-centric", "pat"]);
    wait_kept(&mut window, &path);
    let plans = digests(&mut window);
    drop(window);
    let mut other = open_first(&path);
    assert!(app(&mut other).measurements().is_empty());
    measure_under(&mut other, &["naive"]);
    wait_kept(&mut other, &path);
    let newest = digests(&mut other);
    drop(other);
    assert_eq!(digests(&mut open_next(&path, 3)), [plans, newest].concat());
}

#[test]
fn runs_outlive_a_session_that_has_no_word_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.ron");
    let mut window = open_first(&path);
    measure(&mut window);
    wait_kept(&mut window, &path);
    drop(window);
    // A kill between the run's file and the session that names it.
    let unnamed = path.with_extension("runs").join("measured-9.pscope");
    std::fs::copy(fixture("capture-h200-streams.pscope"), &unnamed).unwrap();
    let mut again = open_next(&path, 2);
    wait_kept(&mut again, &path);
    drop(again);
    std::fs::write(&path, "(version: 1, docu").unwrap();
    let mut third = open_next(&path, 2);
    assert_eq!(warnings(&mut third, "could not be read").len(), 1);
    wait_kept(&mut third, &path);
    assert_eq!(captures(&path).len(), 2);
}
