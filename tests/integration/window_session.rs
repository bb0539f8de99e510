//! What is worked on is kept: a window that ended in any way begins where it was, a picture holds what is seen.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use engine::capture::{L2State, Source};
use packscope::window::command::Command;
use packscope::window::commands::table::Action;
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
    drop(window);
    let mut again = open(Opening::Example, &path, true);
    settle(&mut again);
    assert_eq!(text(&mut again), shown);
    assert!(app(&mut again).shown().unwrap().measured.is_some());
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
        send(window, Command::SavePicture(path.clone()));
        assert_eq!(app(window).problem(), None);
        std::fs::read(path).unwrap()
    };
    let whole = String::from_utf8(picture(&mut window, "whole.svg")).unwrap();
    for _ in 0..6 {
        send(&mut window, Command::Act(Action::ZoomIn));
    }
    let part = String::from_utf8(picture(&mut window, "part.svg")).unwrap();
    assert!(whole.contains(">0 ns<") && !part.contains(">0 ns<"), "the axis begins later");
    assert!(picture(&mut window, "part.png").starts_with(b"\x89PNG"));
}
