//! Bad input: one clear message with the place, the right exit code, no panic, nothing half-written.

use std::fs;
use std::path::Path;

use crate::program::{Ran, fixture, packscope, packscope_in};

/// `plan` of a batch file with this text.
fn plan_file(text: &[u8]) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("bad.ron"), text).unwrap();
    packscope_in(folder.path(), &["plan", "bad.ron", "--json"])
}

fn files_in(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

#[test]
fn a_wrong_field_names_file_line_and_column() {
    let ran = plan_file(b"(\n    schema: 1,\n    rots: [],\n)\n");
    ran.fails(2, &["bad.ron, line 3, column 5", "rots", "roots"]);
}

#[test]
fn text_that_is_no_ron_names_its_place() {
    plan_file(b"(\n    schema: 1,\n    roots: [(tokens: 32]\n)\n").fails(2, &["bad.ron, line 3"]);
    plan_file(b"hello").fails(2, &["bad.ron, line 1"]);
}

#[test]
fn another_schema_is_refused_with_both_versions() {
    plan_file(b"(schema: 7)").fails(2, &["bad.ron", "schema 7", "schema 1", "update packscope"]);
}

#[test]
fn a_length_of_zero_names_the_node() {
    plan_file(b"(schema: 1, roots: [(tokens: 64, children: [(tokens: 0)])])")
        .fails(2, &["bad.ron", "root 0, child 0", "0 tokens"]);
    packscope(&["plan", "--decode", "8x0"]).fails(2, &["--decode 8x0", "is 0", "at least 1"]);
    packscope(&["plan", "--tree", "1,4_0,32"]).fails(2, &["--tree", "is 0", "at least 1"]);
}

#[test]
fn heads_that_do_not_divide_are_refused() {
    packscope(&["plan", "pat-11", "--heads", "32/7"]).fails(2, &["32 query heads", "7 KV heads"]);
    packscope(&["plan", "pat-11", "--heads", "32"]).fails(2, &["--heads 32", "32/8"]);
    plan_file(b"(schema: 1, shape: (query_heads: 32, kv_heads: 5))").fails(2, &["bad.ron", "do not divide"]);
}

#[test]
fn a_block_twice_in_one_request_names_both() {
    plan_file(b"(schema: 1, requests: [Blocks(kv: 64, blocks: [1, 2]), Blocks(kv: 96, blocks: [7, 3, 7])])")
        .fails(2, &["bad.ron", "request 1", "block 7 twice"]);
}

#[test]
fn a_tree_that_does_not_multiply_points_at_the_level() {
    let ran = packscope(&["plan", "--tree", "1,4,255_32,256,32"]);
    ran.fails(2, &["--tree 1,4,255_32,256,32", "255", "multiple of 4", "252 or 256", "1:5"]);
}

#[test]
fn twenty_thousand_requests_are_refused_by_count() {
    packscope(&["plan", "--decode", "20000x64"]).fails(2, &["20,000 requests"]);
    packscope(&["plan", "--tree", "1,20000_32,32"]).fails(2, &["20,000 requests"]);
    packscope(&["plan", "--decode", "4294967295x1048576"]).fails(2, &["requests"]);
    let many = b"(schema: 1, roots: [(tokens: 32, repeat: 20000)])";
    plan_file(many).fails(2, &["bad.ron", "20,000 requests"]);
}

#[test]
fn no_batch_or_two_batches_are_wrong_usage() {
    packscope(&["plan"]).fails(2, &["no batch", "--tree"]);
    packscope(&["plan", "pat-11", "--tree", "1,4_32,32"]).fails(2, &["more than one batch"]);
    packscope(&["plan", "no-such-thing"]).fails(2, &["no-such-thing", "packscope list samples"]);
    packscope(&["frobnicate"]).fails(2, &["frobnicate"]);
    packscope(&["plan", "pat-11", "--scheduler", "best"]).fails(2, &["'best'", "pat, pat-released"]);
    packscope(&["plan", "pat-11", "--strategy", "best"]).fails(2, &["'best'", "serial, streams, fused"]);
    packscope(&["plan", "pat-11", "--device", "b300"]).fails(2, &["'b300'", "h200-sxm"]);
    packscope(&["plan", "pat-11", "--tile", "64"]).fails(2, &["--tile", "64x128"]);
    packscope(&["plan", "pat-11", "--tile", "4096x4096"]).fails(2, &["4096"]);
    packscope(&["plan", "pat-11", "--split-constant", "NaN"]).fails(2, &["--split-constant"]);
}

#[test]
fn hardware_that_is_not_there_has_its_own_code_and_a_remedy() {
    packscope(&["run", "pat-01", "--backend", "cuda"]).fails(3, &["GPU", "--backend sim"]);
    packscope(&["run", "pat-01", "--device", "detect"]).fails(3, &["GPU", "--device h200-sxm"]);
    packscope(&["view", "pat-01"]).fails(3, &["display", "packscope plan"]);
}

#[test]
fn an_empty_file_a_directory_and_a_strangers_file_are_told_apart() {
    plan_file(b"").fails(2, &["bad.ron is empty", "packscope import"]);
    plan_file(b"\x7fELF\xff\xfe\x00").fails(2, &["bad.ron is not text", "another program"]);
    plan_file(b"\x89PSCOPE\n\x01\0\0\0").fails(2, &["is a capture", "packscope view"]);
    packscope(&["plan", "fixtures"]).fails(2, &["directory", "fixtures"]);
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("empty.pscope"), b"").unwrap();
    fs::write(at.join("other.pscope"), b"GIF89a, and so on").unwrap();
    packscope_in(at, &["verify", "empty.pscope"]).fails(2, &["empty.pscope", "is empty"]);
    packscope_in(at, &["verify", "other.pscope"]).fails(2, &["other.pscope", "not a packscope capture"]);
    packscope_in(at, &["verify", "."]).fails(2, &["directory"]);
    packscope_in(at, &["verify", "none.pscope"]).fails(2, &["none.pscope", "No such file"]);
    packscope_in(at, &["view", "empty.pscope"]).fails(2, &["is empty"]);
}

#[test]
fn a_device_file_with_a_wrong_figure_names_it() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("gpu.ron"), b"(\n  key: \"mine\",\n  sms: 4,\n)").unwrap();
    packscope_in(folder.path(), &["plan", "pat-01", "--device", "gpu.ron"]).fails(2, &["gpu.ron, line 3", "sms"]);
}

#[test]
fn a_trace_whose_ids_do_not_fit_names_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let line = "{\"timestamp\": 0, \"input_length\": 600, \"output_length\": 9, \"hash_ids\": [0, 1]}\n";
    fs::write(folder.path().join("t.jsonl"), format!("{line}{}", line.replace("600", "6000"))).unwrap();
    let plan = |window: &str| packscope_in(folder.path(), &["plan", "--mooncake", "t.jsonl", "--window", window]);
    plan("0:1").fails(2, &["t.jsonl, line 2", "needs 12 hash ids", "has 2"]);
    let trace = fixture("small-trace.jsonl");
    packscope(&["plan", "--mooncake", &trace, "--window", "30:9"]).fails(2, &["window 30:9", "requests"]);
    packscope(&["plan", "--mooncake", &trace, "--window", "0-9"]).fails(2, &["--window 0-9", "100:256"]);
    packscope(&["plan", "--mooncake", &trace]).fails(2, &["--window"]);
}

#[test]
fn an_output_that_cannot_be_written_fails_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::create_dir(at.join("taken")).unwrap();
    let import = |output: &str| packscope_in(at, &["import", "--tree", "1,4_32,32", "-o", output]);
    import("no/such/folder.ron").fails(1, &["writing the batch file", "no/such/folder.ron"]);
    import("taken").fails(1, &["writing the batch file", "directory"]);
    assert_eq!((files_in(at), files_in(&at.join("taken"))), (1, 0));
    if Path::new("/dev/full").exists() {
        import("/dev/full").fails(1, &["No space left"]);
    }
}

#[test]
fn a_bad_batch_leaves_an_older_output_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("out.ron"), b"older").unwrap();
    packscope_in(folder.path(), &["import", "--tree", "1,4_33,32", "-o", "out.ron"]).fails(2, &["whole blocks"]);
    assert_eq!(fs::read(folder.path().join("out.ron")).unwrap(), b"older");
    assert_eq!(files_in(folder.path()), 1);
}
