//! Every importer: a file of its form in, the expected batch out; what is cut or wrong is told with its place.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use engine::import::{self, Importer};
use engine::units::QueryIdx;
use engine::workload::{Batch, BatchSpec, PrefixTree};
use serde_json::Value;

use crate::program::{fixture, packscope, packscope_in};
use crate::written::{self, Style};

/// Two requests of 96 and 70 tokens that share 64, and one of 33 alone, in blocks of 32.
const TABLE: [(u64, &[i32]); 3] = [(96, &[4, 9, 7]), (70, &[4, 9, 5]), (33, &[2, 3])];

/// Imports in a folder: the batch and the notes.
fn import(folder: &Path, args: &[&str]) -> (Batch, Vec<String>) {
    let all = [&["import", "-o", "made.ron", "--json"], args].concat();
    let json: Value = packscope_in(folder, &all).json();
    let spec = BatchSpec::from_ron(&fs::read_to_string(folder.join("made.ron")).unwrap()).unwrap();
    let notes = json["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap().to_owned()).collect();
    (spec.build().unwrap(), notes)
}

fn lengths(batch: &Batch) -> Vec<u64> {
    batch.requests().iter().map(|request| request.kv.0).collect()
}

/// How many first blocks two requests share.
fn shared(batch: &Batch, a: u32, b: u32) -> usize {
    let (a, b) = (batch.tables().row(QueryIdx(a)), batch.tables().row(QueryIdx(b)));
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

fn noted(notes: &[String], words: &str) -> bool {
    notes.iter().any(|note| note.contains(words))
}

/// [`TABLE`] as FlashInfer's `indptr`, `indices` and `last_page_len`.
fn indptr() -> (Vec<i32>, Vec<i32>, Vec<i32>) {
    let (mut indptr, mut indices, mut last) = (vec![0], Vec::new(), Vec::new());
    for (kv, blocks) in TABLE {
        indices.extend(blocks);
        indptr.push(i32::try_from(indices.len()).unwrap());
        last.push(((kv - 1) % 32 + 1) as i32);
    }
    // The buffer is larger than what it holds.
    indices.extend([77; 5]);
    (indptr, indices, last)
}

/// [`TABLE`] as an engine's tensors, padded with what was there before.
fn tensors(path: &Path) {
    let table: Vec<i32> =
        TABLE.iter().flat_map(|(_, row)| (0..4).map(|at| row.get(at).copied().unwrap_or(-1))).collect();
    let lengths = TABLE.map(|(kv, _)| kv as i32);
    let all: [(&str, &[usize], &[i32]); 2] = [("block_table", &[3, 4], &table), ("seq_lens", &[3], &lengths)];
    if path.extension().is_some_and(|end| end == "npz") {
        written::npz(path, &all);
    } else {
        written::safetensors(path, &all);
    }
}

/// [`TABLE`] as KV events and the requests over them; one block is evicted, and one message lost.
fn events(folder: &Path, style: Style) {
    let stored = |hashes: &[u64], parent| written::stored(style, hashes, parent, 32);
    let messages = [
        written::message(style, 0, 10.0, vec![stored(&[104, 109], None), stored(&[107], Some(109))]),
        written::message(style, 1, 10.5, vec![stored(&[102], None), stored(&[150], None)]),
        written::message(style, 3, 11.0, vec![written::removed(style, &[150])]),
    ];
    written::kv_events(&folder.join("events.kvr"), &messages);
    let rows = [
        r#"{"block_hashes": [104, 109, 107], "kv": 96}"#,
        r#"{"block_hashes": [104, 109], "kv": 70}"#,
        r#"{"block_hashes": [102], "kv": 33}"#,
    ];
    fs::write(folder.join("running.jsonl"), rows.join("\n")).unwrap();
}

/// [`TABLE`] as a Mooncake trace of 32-token hash blocks.
fn mooncake(path: &Path) {
    let rows = [(96, "[4, 9, 7]"), (70, "[4, 9, 5]"), (33, "[2, 3]")].map(|(kv, ids)| {
        format!("{{\"timestamp\": 0, \"input_length\": {kv}, \"output_length\": 5, \"hash_ids\": {ids}}}\n")
    });
    fs::write(path, rows.concat()).unwrap();
}

#[test]
fn one_batch_by_four_ways_and_more_has_one_tree() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let rows = TABLE.map(|(kv, blocks)| format!("Blocks(kv: {kv}, blocks: {blocks:?})")).join(", ");
    fs::write(at.join("explicit.ron"), format!("(schema: 1, requests: [{rows}])")).unwrap();
    let explicit = BatchSpec::from_ron(&fs::read_to_string(at.join("explicit.ron")).unwrap()).unwrap().build().unwrap();
    let tree = PrefixTree::of(&explicit);
    assert_eq!(tree.roots.len(), 2, "one that shares, and one alone");
    let (starts, indices, last) = indptr();
    written::flashinfer_dump(at, &starts, &indices, &last, 32);
    tensors(&at.join("tables.npz"));
    tensors(&at.join("tables.safetensors"));
    mooncake(&at.join("trace.jsonl"));
    let here = at.to_str().unwrap();
    let block = ["--block-size", "32"];
    let events_args = ["--kv-events", "events.kvr", "--requests", "running.jsonl"];
    let ways: [Vec<&str>; 6] = [
        vec!["explicit.ron"],
        vec!["--flashinfer", here],
        [&["--tables", "tables.npz"], &block[..]].concat(),
        [&["--tables", "tables.safetensors"], &block[..]].concat(),
        vec!["--mooncake", "trace.jsonl", "--trace-block", "32", "--window", "0:3", "--step", "0"],
        events_args.to_vec(),
    ];
    for style in [Style::Places, Style::Names] {
        events(at, style);
        for way in &ways {
            let (batch, notes) = import(at, way);
            assert_eq!(PrefixTree::of(&batch), tree, "{way:?}: {notes:?}");
            assert_eq!(lengths(&batch), [96, 70, 33]);
        }
    }
}

#[test]
fn flashinfer_pages_of_one_token_can_be_put_together() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    // 40 shared tokens, then 3 and 5 alone.
    let row = |own: std::ops::Range<i32>| (100..140).chain(own).collect::<Vec<i32>>();
    let (a, b) = (row(0..3), row(50..55));
    let indices = [&a[..], &b[..]].concat();
    written::flashinfer_dump(at, &[0, 43, 88], &indices, &[1, 1], 1);
    let here = at.to_str().unwrap();
    let (batch, _) = import(at, &["--flashinfer", here]);
    assert_eq!((lengths(&batch), shared(&batch, 0, 1), batch.shape.block_size), (vec![43, 45], 40, 1));
    let (batch, notes) = import(at, &["--flashinfer", here, "--block-size", "16"]);
    assert_eq!((shared(&batch, 0, 1), noted(&notes, "16 pages make a block")), (2, true));
    packscope_in(at, &["plan", "--flashinfer", here, "--call", "1"]).fails(2, &["--call 1", "1 call"]);
    packscope_in(at, &["plan", "--flashinfer", here, "--window", "0:1"]).fails(2, &["--window", "FlashInfer"]);
}

#[test]
fn a_workload_of_flashinfer_bench_is_its_page_table() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::create_dir_all(at.join("workloads/gqa")).unwrap();
    fs::create_dir(at.join("blob")).unwrap();
    let file = at.join("blob/a.safetensors");
    written::safetensors(
        &file,
        &[("indptr", &[3], &[0, 2, 4]), ("pages", &[4], &[8, 1, 8, 2]), ("qo", &[3], &[0, 1, 65])],
    );
    let stored =
        |key: &str| serde_json::json!({ "type": "safetensors", "path": "./blob/a.safetensors", "tensor_key": key });
    let row = |definition: &str, indptr: Value| {
        let inputs = serde_json::json!({ "q": { "type": "random" }, "sm_scale": { "type": "scalar", "value": 0.1 },
            "kv_indptr": indptr, "kv_indices": stored("pages"), "qo_indptr": stored("qo") });
        serde_json::json!({ "definition": definition, "workload": { "uuid": "u", "axes": {}, "inputs": inputs } })
    };
    let rows = [
        row("gqa_paged_decode_h32_kv4_d128_ps64", stored("indptr")),
        row("gqa_paged_prefill_causal_h32_kv8_d128_ps64", stored("indptr")),
        row("gqa_paged_decode_h32_kv4_d128_ps64", serde_json::json!({ "type": "random" })),
    ];
    fs::write(at.join("workloads/gqa/w.jsonl"), rows.map(|row| row.to_string()).join("\n")).unwrap();
    let (batch, notes) = import(at, &["--flashinfer", "workloads/gqa/w.jsonl"]);
    assert_eq!((lengths(&batch), shared(&batch, 0, 1)), (vec![128, 128], 1));
    assert_eq!((batch.shape.query_heads, batch.shape.kv_heads, batch.shape.block_size), (32, 4, 64));
    assert!(noted(&notes, "taken as full") && noted(&notes, "workload 0 of 3"), "{notes:?}");
    let (batch, notes) = import(at, &["--flashinfer", "workloads/gqa/w.jsonl", "--call", "1"]);
    assert_eq!((batch.decodes().count(), batch.prefills().count()), (1, 1), "one query token is a decode");
    assert!(noted(&notes, "prefill chunks share"), "{notes:?}");
    let third = packscope_in(at, &["plan", "--flashinfer", "workloads/gqa/w.jsonl", "--call", "2"]);
    third.fails(2, &["line 3", "kv_indptr is not kept"]);
}

#[test]
fn kv_events_tell_the_cached_tree_and_what_was_lost() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    events(at, Style::Places);
    let (batch, notes) = import(at, &["--kv-events", "events.kvr"]);
    assert_eq!((lengths(&batch), shared(&batch, 0, 1)), (vec![96, 32], 0), "two leaves at the end");
    assert!(noted(&notes, "1 message lost") && noted(&notes, "one at each leaf"), "{notes:?}");
    let (batch, _) = import(at, &["--kv-events", "events.kvr", "--at", "600"]);
    assert_eq!(lengths(&batch), [96, 32, 32], "before the eviction there are three");
    let (batch, notes) = import(at, &["--kv-events", "events.kvr", "--at", "0", "--requests", "running.jsonl"]);
    assert_eq!(lengths(&batch), [96, 70, 33]);
    assert!(noted(&notes, "1 block of the requests not in the cache"), "{notes:?}");
    fs::write(at.join("running.jsonl"), "{\"block_hashes\": [1, 2, 3], \"kv\": 70}\n").unwrap();
    packscope_in(at, &["plan", "--kv-events", "events.kvr", "--requests", "running.jsonl"])
        .fails(2, &["running.jsonl: line 1", "3 full blocks listed", "fill 2 of 32"]);
}

#[test]
fn a_dynamo_trace_tells_who_decodes_together() {
    let folder = tempfile::tempdir().unwrap();
    let trace = fixture("import/dynamo.jsonl");
    let at = |ms: &str| import(folder.path(), &["--dynamo", &trace, "--at", ms]);
    // a from 500 to 1,500 ms, b from 800 to 2,000, c from 1,500 to 3,000.
    let (batch, notes) = at("1000");
    assert_eq!((lengths(&batch), shared(&batch, 0, 1)), (vec![160 + 51, 128 + 9], 4));
    assert!(noted(&notes, "1 request waiting or in prefill") && noted(&notes, "1 row of other events"), "{notes:?}");
    assert_eq!(lengths(&at("2500").0), [70 + 1 + 6]);
    packscope(&["plan", "--dynamo", &trace, "--at", "9999"])
        .fails(2, &["--at 9999", "no request of the trace decodes"]);
    packscope(&["plan", "--dynamo", &trace]).fails(2, &["--window START:COUNT"]);
    let (batch, notes) = import(folder.path(), &["--dynamo", &trace, "--window", "1:2"]);
    assert_eq!(lengths(&batch), [129, 71]);
    assert!(noted(&notes, "1 request without replay hashes"), "{notes:?}");
}

#[test]
fn a_bailian_trace_is_compared_from_the_root() {
    let folder = tempfile::tempdir().unwrap();
    let trace = fixture("import/bailian.jsonl");
    let (batch, _) = import(folder.path(), &["--bailian", &trace, "--window", "0:3", "--block-size", "16"]);
    let mut sorted = lengths(&batch);
    sorted.sort_unstable();
    assert_eq!((sorted, shared(&batch, 0, 1)), (vec![65, 65, 71], 4));
    assert_eq!(PrefixTree::of(&batch).roots.len(), 2, "the third has the same ids but for its first");
}

#[test]
fn a_weka_trace_is_read_in_order_of_time_with_its_subagents() {
    let folder = tempfile::tempdir().unwrap();
    let (batch, notes) = import(folder.path(), &["--weka", &fixture("import/weka.json"), "--window", "0:3"]);
    let mut sorted = lengths(&batch);
    sorted.sort_unstable();
    assert_eq!((sorted, shared(&batch, 0, 1)), (vec![141, 201, 257], 6));
    assert!(noted(&notes, "1 request of subagents"), "{notes:?}");
    let text = fs::read_to_string(fixture("import/weka.json")).unwrap().replace("\"out\": 5", "\"out\": \"five\"");
    fs::write(folder.path().join("bad.json"), text).unwrap();
    packscope_in(folder.path(), &["plan", "--weka", "bad.json", "--window", "0:1"]).fails(2, &["bad.json, line"]);
}

#[test]
fn packed_traces_are_unpacked_on_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let file = fs::File::create(folder.path().join("t.jsonl.gz")).unwrap();
    let mut packed = flate2::write::GzEncoder::new(file, flate2::Compression::default());
    packed.write_all(&fs::read(fixture("small-trace.jsonl")).unwrap()).unwrap();
    packed.finish().unwrap();
    let window = ["--window", "3:9"];
    let (gz, _) = import(folder.path(), &[&["--mooncake", "t.jsonl.gz"], &window[..]].concat());
    let (plain, _) = import(folder.path(), &[&["--mooncake", &fixture("small-trace.jsonl")], &window[..]].concat());
    assert_eq!(gz, plain);
}

/// Arguments that import `file` with an importer, and the file's bytes.
fn written_for(importer: &Importer, folder: &Path) -> (String, Vec<&'static str>) {
    let (name, rest): (&str, Vec<&str>) = match importer.name {
        "kv-events" => {
            events(folder, Style::Names);
            ("events.kvr", Vec::new())
        }
        "tables" => {
            tensors(&folder.join("t.safetensors"));
            ("t.safetensors", vec!["--block-size", "32"])
        }
        "flashinfer" => {
            let (starts, indices, last) = indptr();
            written::flashinfer_dump(folder, &starts, &indices, &last, 32);
            ("session.jsonl", Vec::new())
        }
        name => {
            let from = match name {
                "mooncake" => "small-trace.jsonl".to_owned(),
                "weka" => "import/weka.json".to_owned(),
                name => format!("import/{name}.jsonl"),
            };
            let to = if name == "weka" { "t.json" } else { "t.jsonl" };
            fs::copy(fixture(&from), folder.join(to)).unwrap();
            (to, vec!["--window", "0:2"])
        }
    };
    (name.to_owned(), rest)
}

#[test]
fn every_importer_tells_the_place_where_its_file_is_cut() {
    for importer in import::importers() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let (name, rest) = written_for(importer, at);
        let option = format!("--{}", importer.name);
        let plan = || packscope_in(at, &[&["plan", &option, &name][..], &rest].concat());
        assert_eq!(plan().code, 0, "{}: {}", importer.name, plan().stderr);
        let whole = fs::read(at.join(&name)).unwrap();
        fs::write(at.join(&name), &whole[..whole.len() - 12]).unwrap();
        // Tensors are one record; their file is the place.
        let place = match importer.name {
            "kv-events" => "message 2, at byte",
            "tables" => "t.safetensors",
            _ => "line",
        };
        plan().fails(2, &[place]);
    }
}

#[test]
fn a_file_that_ends_between_records_loads_and_says_how_many() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    events(at, Style::Names);
    let whole = fs::read(at.join("events.kvr")).unwrap();
    let first = 8 + 4 + u32::from_le_bytes(whole[8..12].try_into().unwrap()) as usize;
    fs::write(at.join("events.kvr"), &whole[..first]).unwrap();
    let (_, notes) = import(at, &["--kv-events", "events.kvr"]);
    assert!(noted(&notes, "1 message of 3 stored blocks"), "{notes:?}");
    let trace = fs::read_to_string(fixture("small-trace.jsonl")).unwrap();
    let lines: Vec<&str> = trace.lines().take(5).collect();
    fs::write(at.join("t.jsonl"), lines.join("\n")).unwrap();
    packscope_in(at, &["plan", "--mooncake", "t.jsonl", "--window", "0:6"]).fails(2, &["the trace has 5 requests"]);
    import(at, &["--mooncake", "t.jsonl", "--window", "0:5"]);
}

#[test]
fn the_list_of_importers_names_options_that_there_are() {
    let json = packscope(&["list", "importers", "--json"]).json();
    let listed: Vec<&str> =
        json["importers"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    let help = packscope(&["import", "--help"]).stdout;
    assert_eq!(listed.len(), import::importers().len());
    for name in listed {
        assert!(help.contains(&format!("--{name} ")), "{name}");
    }
}
