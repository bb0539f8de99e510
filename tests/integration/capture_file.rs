//! Capture files through the real program, and the kept file of each version.

use std::fs;

use engine::capture;

use crate::program::{fixture, packscope, packscope_in};

/// The file of version 1, from before the hardware counted; it reads as it stands.
const VERSION_1: &str = "capture-v1.pscope";

#[test]
fn the_kept_file_of_version_1_still_reads() {
    let loaded = capture::read(fixture(VERSION_1).as_ref()).unwrap();
    assert_eq!(loaded.missing, Vec::<String>::new());
    let capture = &loaded.capture;
    assert_eq!(capture.batch.name, "Explicit block tables");
    assert_eq!(capture.plan.scheduler, "pat");
    assert_eq!(capture.provenance.device, "h200-sxm");
    assert_eq!(capture.counted, None);
    assert_eq!(capture::verify(capture), Vec::new());
    assert_eq!(packscope(&["verify", &fixture(VERSION_1)]).code, 0);
}

#[test]
fn a_real_file_cut_at_any_byte_is_refused_or_says_what_is_missing() {
    let bytes = fs::read(fixture(VERSION_1)).unwrap();
    for cut in 0..bytes.len() {
        match capture::from_bytes(&bytes[..cut]) {
            Ok(loaded) => assert!(!loaded.missing.is_empty(), "cut at {cut} went unnoticed"),
            Err(error) => assert!(error.to_string().contains("capture"), "cut at {cut}: {error}"),
        }
    }
}

#[test]
fn the_program_opens_what_is_left_of_a_cut_file() {
    let bytes = fs::read(fixture(VERSION_1)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let write = |name: &str, bytes: &[u8]| fs::write(at.join(name), bytes).unwrap();
    write("early.pscope", &bytes[..40]);
    packscope_in(at, &["verify", "early.pscope"]).fails(2, &["early.pscope", "damaged past use"]);
    write("late.pscope", &bytes[..bytes.len() - 9]);
    let late = packscope_in(at, &["verify", "late.pscope"]);
    assert_eq!(late.code, 1, "{}", late.stderr);
    assert!(late.stderr.contains("missing the end of the file"), "{}", late.stderr);
    assert!(late.stdout.contains("not sound"), "{}", late.stdout);
    let mut newer = bytes.clone();
    newer[8] = 3;
    write("newer.pscope", &newer);
    packscope_in(at, &["verify", "newer.pscope"]).fails(2, &["version 3", "up to version 2", "update packscope"]);
}

#[test]
fn a_capture_becomes_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let made = packscope_in(at, &["export", &fixture(VERSION_1), "--svg", "a.svg", "--png", "a.png"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let svg = fs::read_to_string(at.join("a.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("Explicit block tables") && svg.contains("busy"));
    assert!(fs::read(at.join("a.png")).unwrap().starts_with(b"\x89PNG"));
    packscope_in(at, &["export", &fixture(VERSION_1), "--png", "none/a.png"]).fails(1, &["none/a.png"]);
}

#[test]
fn the_demo_leaves_a_capture_and_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let made = packscope_in(folder.path(), &["demo"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let files = folder.path().join("packscope-out");
    for name in ["demo.pscope", "timeline.svg", "timeline.png", "compare.svg", "compare.png"] {
        assert!(fs::metadata(files.join(name)).unwrap().len() > 100, "{name}");
    }
}
