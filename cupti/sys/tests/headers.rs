//! The committed bindings against the C headers.
//!
//! `bindings.rs` states each size and offset, and the compiler checks those against the Rust types.
//! Here the same numbers become `static_assert`s over the headers themselves. Give the folders in
//! `CUPTI_INCLUDE` and `CUDA_INCLUDE` (several, parted by `:`), or have a toolkit in `/usr/local/cuda`.
//! Headers newer than 12.6 may have longer structs, never other offsets.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails by panicking")]

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

const BINDINGS: &str = include_str!("../src/bindings.rs");
const HEADERS: &str = include_str!("../headers.h");

/// `(what, number)` of every line such as `["Size of X"][... - 48usize];`, which rustfmt may have
/// broken after the first bracket.
fn stated(kind: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for part in BINDINGS.split(&format!("[\"{kind}")).skip(1) {
        let what = part.split('"').next().unwrap().to_owned();
        let number = part.split("usize]").next().unwrap().rsplit(' ').next().unwrap();
        found.push((what, number.parse().unwrap()));
    }
    found
}

/// One that C++ cannot name, and that nothing reads.
fn unnamed(what: &str) -> bool {
    what.contains("bindgen")
}

/// A C++ source that compiles if the headers agree.
fn assertions(sizes: &[(String, usize)], offsets: &[(String, usize)], exact: bool) -> String {
    let mut source = format!("#include <stddef.h>\n{HEADERS}\n");
    let same = if exact { "==" } else { ">=" };
    for (name, size) in sizes.iter().filter(|(name, _)| !unnamed(name)) {
        writeln!(source, "static_assert(sizeof({name}) {same} {size}, \"size of {name}\");").unwrap();
    }
    for (place, offset) in offsets.iter().filter(|(place, _)| !unnamed(place) && !place.ends_with("::cacheConfig")) {
        let (name, field) = place.split_once("::").unwrap();
        writeln!(source, "static_assert(offsetof({name}, {field}) == {offset}, \"{place}\");").unwrap();
    }
    source
}

fn include_folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = ["CUPTI_INCLUDE", "CUDA_INCLUDE"]
        .iter()
        .filter_map(std::env::var_os)
        .flat_map(|value| std::env::split_paths(&value).collect::<Vec<_>>())
        .collect();
    if folders.is_empty() {
        folders = ["/usr/local/cuda/extras/CUPTI/include", "/usr/local/cuda/include"].map(Into::into).to_vec();
    }
    folders
}

fn compiles(source: &str, folders: &[PathBuf]) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("layout.cpp");
    std::fs::write(&file, source).unwrap();
    let mut command = Command::new("c++");
    command.args(["-std=c++14", "-fsyntax-only", "-Wno-invalid-offsetof"]).arg(&file);
    for folder in folders {
        command.arg("-I").arg(folder);
    }
    let output = command.output().expect("a C++ compiler, since headers are given");
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

#[test]
fn every_struct_states_its_size_and_offsets() {
    let sizes = stated("Size of ");
    let offsets = stated("Offset of field: ");
    let params = sizes.iter().filter(|(name, _)| name.ends_with("_Params")).count();
    assert_eq!(params, BINDINGS.matches("_Params_SIZE: usize").count(), "each parameter block has a stated size");
    assert!(offsets.len() > 5 * params, "{} offsets", offsets.len());
    assert!(offsets.contains(&("CUpti_ActivityKernel9::start".to_owned(), 16)));
}

#[test]
fn the_headers_have_the_same_layout() {
    let folders = include_folders();
    if !folders.iter().any(|folder| folder.join("cupti_pmsampling.h").is_file()) {
        eprintln!("no CUPTI headers given: only the compiler's check of the stated numbers ran");
        return;
    }
    let (sizes, mut offsets) = (stated("Size of "), stated("Offset of field: "));
    // The kernel record has a new name with each field that it gains; 12.6 has the ninth.
    let exact =
        compiles("#include <cupti_version.h>\nstatic_assert(CUPTI_API_VERSION == 24, \"\");\n", &folders).is_ok();
    compiles(&assertions(&sizes, &offsets, exact), &folders).unwrap();

    // The check can fail.
    offsets[1].1 += 1;
    compiles(&assertions(&sizes, &offsets, exact), &folders).unwrap_err();
}
