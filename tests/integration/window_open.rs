//! Files opened in or dropped on the window: what is refused gives one message and leaves all as it was.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use egui_kittest::kittest::Queryable as _;
use engine::units::NodeIdx;
use engine::{capture, hw};
use packscope::window::command::Command;
use packscope::window::frame::Level;
use packscope::window::selection::Selection;
use packscope::window::{App, Opening};

use crate::program::fixture;
use crate::window::{Window, app, batch, open_with, send, settle, small};

fn open(opening: Opening) -> Window {
    open_with(opening, |ctx, opening| App::new(ctx, opening).unwrap())
}

fn errors(window: &mut Window) -> Vec<String> {
    let log = app(window).log().iter();
    log.filter(|(level, _)| *level == Level::Error).map(|(_, line)| line.clone()).collect()
}

#[derive(Debug)]
struct Dropped(PathBuf);

impl egui::DroppedFile for Dropped {
    fn path(&self) -> &Path {
        &self.0
    }

    fn bytes(&self) -> Result<Vec<u8>, String> {
        std::fs::read(&self.0).map_err(|error| error.to_string())
    }
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

#[test]
fn a_file_that_is_refused_gives_one_message_and_keeps_the_batch() {
    let folder = Folder(tempfile::tempdir().unwrap());
    let device = hw::to_ron(&hw::builtin()[0]).unwrap();
    assert!(device.contains("sm_count: 132"));
    let files = [
        (folder.file("no-sms.ron", device.replace("sm_count: 132", "sm_count: 0").as_bytes()), "not usable"),
        (folder.file("text-for-sms.ron", device.replace("sm_count: 132", "sm_count: \"x\"").as_bytes()), "line "),
        (folder.file("image.ron", b"\x89PNG\r\n\x1a\n\0\0"), "no text"),
        (folder.file("bad.ron", b"(name: 3"), "line 1"),
        (folder.file("a.pscope", b"MZ and so on and on"), "not a packscope capture"),
        (folder.0.path().join("none.ron"), "none.ron"),
        (folder.0.path().to_owned(), "directory"),
    ];
    for (path, says) in files {
        let mut window = open(batch(small()));
        let before = app(&mut window).shown().unwrap().plan_digest;
        send(&mut window, Command::OpenPath(path.clone()));
        let errors = errors(&mut window);
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].contains(says), "{says}: {errors:?}");
        assert!(errors[0].contains(path.file_name().unwrap().to_str().unwrap()), "it names the file: {errors:?}");
        assert_eq!(app(&mut window).problem(), Some(errors[0].as_str()));
        let shown = app(&mut window).shown().unwrap();
        assert_eq!((&*shown.planned.spec, shown.plan_digest), (&small(), before));
    }
}

#[test]
fn a_device_file_that_is_dropped_is_the_device() {
    let folder = Folder(tempfile::tempdir().unwrap());
    let device = hw::Device { name: "Half of it".to_owned(), key: "half".to_owned(), ..hw::builtin()[0].clone() };
    let half = hw::Device { sm_count: device.sm_count / 2, ..device };
    let path = folder.file("half.ron", hw::to_ron(&half).unwrap().as_bytes());
    let mut window = open(batch(small()));
    window.input_mut().dropped_files.push(Arc::new(Dropped(path)));
    window.step();
    settle(&mut window);
    let shown = app(&mut window).shown().unwrap();
    assert_eq!((shown.planned.options.device.key.as_str(), &*shown.planned.spec), ("half", &small()));
    assert_eq!(shown.simulated.as_ref().unwrap().capture.provenance.sm_count, half.sm_count);
}

/// Lines of the inspector that tell a rule.
fn rules(window: &Window) -> usize {
    window.query_all_by_label_contains("because ").count()
}

#[test]
fn a_capture_brings_its_decisions_into_the_window() {
    let mut planned = open(batch(small()));
    let select = Command::Select(Selection::Node(NodeIdx(0)));
    send(&mut planned, select.clone());
    let capture = app(&mut planned).shown().unwrap().simulated.as_ref().unwrap().capture.clone();
    assert!(rules(&planned) > 0);
    let bytes = capture::to_bytes(&capture).unwrap();
    let mut opened = open(Opening::Capture(Box::new(capture::from_bytes(&bytes).unwrap())));
    assert_eq!(opened.query_all_by_label_contains("No decision").count(), 0);
    send(&mut opened, select);
    assert_eq!(rules(&opened), rules(&planned));
}

#[test]
fn a_capture_without_decisions_says_why_it_has_none() {
    let older = capture::read(fixture("capture-v1.pscope").as_ref()).unwrap();
    assert!(older.capture.plan.decisions.is_empty());
    let window = open(Opening::Capture(Box::new(older)));
    assert!(window.query_all_by_label_contains("of a version that did not keep them").count() == 1);
}

#[test]
fn a_capture_is_known_by_what_is_in_it() {
    let folder = Folder(tempfile::tempdir().unwrap());
    let bytes = std::fs::read(fixture("capture-v1.pscope")).unwrap();
    let path = folder.file("without ending", &bytes);
    let mut window = open(batch(small()));
    send(&mut window, Command::OpenPath(path));
    assert_eq!(errors(&mut window), Vec::<String>::new());
    assert_eq!(app(&mut window).shown().unwrap().planned.spec.name, "Explicit block tables");
}
