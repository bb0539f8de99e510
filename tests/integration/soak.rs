//! A short soak: every case that ever failed, and some new ones from a fixed seed.

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn a_short_soak_finds_no_fault() {
    let folder = tempfile::tempdir().unwrap();
    let mut soak = Command::new(env!("CARGO_BIN_EXE_soak"));
    let ran = soak.args(["--count", "240", "--from", "5000", "--out"]).arg(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    // Damage that nothing gets through would try the first check of the reader alone.
    let taken = |kind: &str| -> u64 {
        let row = said.lines().find(|line| line.starts_with(kind)).unwrap();
        row.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    for (kind, least) in [("capture", 40), ("batch", 5), ("device", 5), ("import", 3), ("form", 3), ("edits", 3)] {
        assert!(taken(kind) >= least, "too little of {kind} was taken: {said}");
    }
}

#[test]
fn every_kept_input_is_on_the_list() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("soak/kept");
    let list = fs::read_to_string(folder.join("list.ron")).unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some((kind, seed)) = name.split_once('.').and_then(|(name, _)| name.split_once('-')) else { continue };
        assert!(list.contains(&format!("(kind: {kind}, seed: {seed},")), "{name} is not on the list");
    }
}
