//! Animations of a run from the command line: they hold every moment, and are small enough for slides.

use std::fs;

use crate::capture_file::VERSION_2;
use crate::program::{fixture, packscope_in};

#[test]
fn an_animation_is_an_apng_small_enough_for_slides() {
    let folder = tempfile::tempdir().unwrap();
    let capture = fixture(VERSION_2[1]);
    let made = packscope_in(folder.path(), &["export", &capture, "--animation", "a.apng"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let bytes = fs::read(folder.path().join("a.apng")).unwrap();
    assert!(bytes.starts_with(b"\x89PNG") && bytes.len() < 2 << 20, "{} bytes", bytes.len());
    let frames = bytes.windows(4).filter(|window| *window == b"fcTL").count();
    assert_eq!(frames, 73, "each moment is a frame");
    let refused = packscope_in(folder.path(), &["export", &capture, "--animation", "a.mp4"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains(".apng"), "{}", refused.stderr);
    assert!(!folder.path().join("a.mp4").exists());
}

#[test]
fn a_moment_is_a_picture_and_what_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let capture = fixture(VERSION_2[1]);
    let export = |args: &[&str]| packscope_in(folder.path(), &[&["export", &capture, "--svg", "m.svg"], args].concat());
    assert_eq!(export(&["--at", "2us"]).code, 0);
    let svg = fs::read_to_string(folder.path().join("m.svg")).unwrap();
    assert!(svg.contains("2000 ns measured"), "its time and source");
    export(&["--at", "choice:3"]).fails(1, &["a time of the run"]);
    assert_eq!(export(&["--at", "choice:3", "--view", "tree"]).code, 0);
    export(&["--at", "soon"]).fails(2, &["--at", "12.3us"]);
    let view = packscope_in(folder.path(), &["view", &capture, "--at", "never"]);
    view.fails(2, &["--at", "choice:5"]);
}
