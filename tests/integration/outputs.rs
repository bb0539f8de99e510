//! What is written: whole groups, kept modes and links, paths that are not Unicode, limits of the system.

use std::fs;
use std::path::Path;

use crate::program::{fixture, packscope_in};

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn an_export_that_fails_half_way_leaves_none_of_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("old.svg"), "older").unwrap();
    let capture = fixture("capture-v2-streams.pscope");
    let export = ["export", &capture, "--csv", "csv/deep", "--svg", "old.svg", "--png", "new.png", "--perfetto"];
    let with = |last: &str| packscope_in(at, &export.into_iter().chain([last]).collect::<Vec<_>>());
    with("none/a.pftrace").fails(1, &["writing the trace", "none/a.pftrace", "make the folder none"]);
    with("old.svg").fails(1, &["old.svg", "one file"]);
    if Path::new("/dev/full").exists() {
        with("/dev/full").fails(1, &["No space left", "free some space"]);
    }
    assert_eq!((names(at), fs::read(at.join("old.svg")).unwrap()), (vec!["old.svg".into()], b"older".to_vec()));
    assert_eq!(with("a.pftrace").code, 0);
    assert_eq!(names(at), ["a.pftrace", "csv", "new.png", "old.svg"]);
}

#[test]
fn a_demo_that_cannot_write_its_last_picture_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::create_dir_all(at.join("packscope-out/compare.png")).unwrap();
    packscope_in(at, &["demo", "--backend", "sim"]).fails(1, &["compare.png", "directory"]);
    assert_eq!(names(&at.join("packscope-out")), ["compare.png"]);
    fs::write(at.join("file"), "x").unwrap();
    let bench = ["bench", "--set", "flashforge", "--backend", "sim", "-o", "file/out"];
    packscope_in(at, &bench).fails(1, &["writing the benchmark's folder", "file"]);
    assert_eq!(names(at), ["file", "packscope-out"]);
}

#[cfg(unix)]
#[test]
fn a_replaced_output_keeps_its_mode_and_a_dangling_link_stays_a_link() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("private.ron"), "older").unwrap();
    fs::set_permissions(at.join("private.ron"), fs::Permissions::from_mode(0o600)).unwrap();
    symlink("target.ron", at.join("link.ron")).unwrap();
    for output in ["private.ron", "link.ron"] {
        assert_eq!(packscope_in(at, &["import", "--tree", "1,4_32,32", "-o", output]).code, 0);
        assert_eq!(packscope_in(at, &["plan", output]).code, 0);
    }
    assert_eq!(fs::metadata(at.join("private.ron")).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fs::symlink_metadata(at.join("link.ron")).unwrap().is_symlink());
    assert_eq!(names(at), ["link.ron", "private.ron", "target.ron"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_file_size_limit_is_an_error_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let script = "ulimit -f 8; exec \"$@\"";
    let args = ["run", "pat-11", "--backend", "sim", "-o", "out.pscope"];
    let ran = crate::program::shell_in(folder.path(), script, &args);
    ran.fails(1, &["writing the capture", "out.pscope", "ulimit -f"]);
    assert!(names(folder.path()).is_empty());
}

#[cfg(target_os = "linux")]
#[test]
fn paths_that_are_not_unicode_are_told_as_nearly_as_text_can() {
    use std::ffi::{OsStr, OsString};
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let odd = |ending: &str| OsString::from(OsStr::from_bytes(&[b"caf\xe9", ending.as_bytes()].concat()));
    let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    let with = |head: &[&str], path: OsString, tail: &[&str]| [words(head), vec![path], words(tail)].concat();
    let ran = packscope_in(at, &with(&["import", "--tree", "1,4_32,32", "-o"], odd(".ron"), &["--json"]));
    assert_eq!(ran.json()["file"], "caf\u{fffd}.ron");
    assert_eq!(packscope_in(at, &with(&["plan"], odd(".ron"), &["--json"])).json()["batch"]["requests"], 4);
    let device = fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../engine/src/hw/devices/h200-sxm.ron")).unwrap();
    fs::write(at.join(odd("-gpu.ron")), device).unwrap();
    let plan = with(&["plan", "pat-01", "--device"], odd("-gpu.ron"), &["--json"]);
    assert_eq!(packscope_in(at, &plan).json()["device"], "h200-sxm");
    let run = with(&["run", "pat-01", "--backend", "sim", "-o"], odd(".pscope"), &["--json"]);
    assert_eq!(packscope_in(at, &run).json()["schema"], 1);
    let mut export = with(&["export"], odd(".pscope"), &["--svg"]);
    export.extend([odd(".svg"), "--csv".into(), odd(""), "--json".into()]);
    let files = packscope_in(at, &export).json()["files"].clone();
    assert!(files.as_array().unwrap().contains(&"caf\u{fffd}.svg".into()), "{files}");
    let verified = packscope_in(at, &with(&["verify"], odd(".pscope"), &[]));
    assert_eq!((verified.code, verified.stdout.contains("caf\u{fffd}.pscope")), (0, true), "{}", verified.stderr);
    packscope_in(at, &with(&["plan"], odd("-none.ron"), &["--json"])).fails(2, &["caf\u{fffd}-none.ron"]);
}

#[cfg(unix)]
#[test]
fn a_folder_that_cannot_be_written_names_the_remedy() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let locked = folder.path().join("locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o555)).unwrap();
    // Nothing is locked for root, whose folders without write permission are those of the kernel.
    let (place, words) = if fs::write(locked.join("probe"), "").is_ok() {
        ("/proc/out.ron".to_owned(), ["writing the batch file", "/proc"])
    } else {
        (locked.join("out.ron").display().to_string(), ["writing the batch file", "choose a folder"])
    };
    packscope_in(folder.path(), &["import", "--tree", "1,4_32,32", "-o", &place]).fails(1, &words);
}
