//! Capture files through the real program, and the kept file of each version.

use std::fs;

use engine::capture::{self, Counter};
use engine::metrics;
use engine::plan::CtaRole;
use engine::units::Nanos;
use engine::workload::PrefixTree;

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

/// Files of version 2, measured on an H200 with counters: long KV with a tail bubble, and launches on streams.
pub(crate) const VERSION_2: [&str; 2] = ["capture-v2-tail.pscope", "capture-v2-streams.pscope"];

#[test]
fn measured_files_of_version_2_hold_counts_and_series_that_agree() {
    for name in VERSION_2 {
        let loaded = capture::read(fixture(name).as_ref()).unwrap();
        assert_eq!(loaded.missing, Vec::<String>::new());
        let capture = &loaded.capture;
        assert_eq!(capture::verify(capture), Vec::new());
        let counted = capture.counted.as_ref().unwrap();
        let how = counted.sampled.unwrap();
        assert!(how.alignment_error.0 < 1000 && how.repeats >= 3, "{how:?}");
        let read = counted.plan.get(Counter::DramRead).unwrap();
        let batch = capture.batch.build().unwrap();
        let traffic = metrics::traffic(&capture.plan, &batch, &PrefixTree::of(&batch));
        // The outputs are written, not read.
        let least = traffic.compulsory.saturating_sub(traffic.output_write).as_f64();
        assert!(read > 0.998 * least && read < 1.002 * traffic.issued().as_f64(), "{read} of {traffic:?}");
        let series = capture.counters.iter().find(|series| series.name == "dram_read").unwrap();
        let sampled = metrics::bytes_within(series, Nanos::ZERO, Nanos(u64::MAX)).as_f64();
        assert!((sampled / read - 1.0).abs() < 0.03, "{sampled} B sampled, {read} B counted");
        let launches: Vec<u32> = counted.launches.iter().map(|of| of.launch).collect();
        let several = capture.plan.launches.len() > 1;
        assert_eq!(launches.len(), if several { capture.plan.launches.len() } else { 0 });
    }
}

/// A hybrid batch measured on an H200 with counters: prefill and decode on the same SMs.
const VERSION_3: &str = "capture-v3-hybrid.pscope";

#[test]
fn the_measured_hybrid_of_version_3_is_whole() {
    let loaded = capture::read(fixture(VERSION_3).as_ref()).unwrap();
    assert_eq!(loaded.missing, Vec::<String>::new());
    let (capture, made) = (&loaded.capture, &loaded.capture.provenance);
    assert_eq!(capture::verify(capture), Vec::new());
    assert_eq!((made.backend.as_str(), made.plan.is_of(&capture.plan)), ("cuda", Some(true)));
    assert!(!made.command.contains('/'), "{}", made.command);
    let [prefill, decode] = [CtaRole::Prefill, CtaRole::Decode].map(|role| {
        let of_role = capture.spans.iter().filter(|span| span.role == role);
        of_role.count() as u64
    });
    let prefill_ctas: u64 = capture.plan.launches.iter().map(|l| capture.plan.tasks_of(l).len() as u64).sum();
    assert_eq!(prefill, prefill_ctas * u64::from(capture.plan.shape.query_heads));
    assert!(decode > 0 && capture.plan.launches[1].programmatic);
    assert!(metrics::side_by_side(&capture.spans, made.sm_count).unwrap() > 0.0);
    let counted = capture.counted.as_ref().unwrap();
    assert!(counted.plan.get(Counter::TensorActive).unwrap() > 0.0);
    assert_eq!(packscope(&["verify", &fixture(VERSION_3)]).code, 0);
}

#[test]
fn throughput_falls_where_the_lanes_empty() {
    let capture = capture::read(fixture(VERSION_2[0]).as_ref()).unwrap().capture;
    let end = capture.makespan().0;
    let (spans, series) = (&capture.spans, capture.counters.iter().find(|series| series.name == "dram_read").unwrap());
    let resident = |at: u64| (0..spans.len()).filter(|s| spans.begin[*s] <= at && spans.end[*s] > at).count();
    let rate = |from: u64, to: u64| {
        metrics::bytes_within(series, Nanos(from), Nanos(to)).as_f64() / ((to - from) as f64 * 1e-9)
    };
    let (full, tail) = ((end / 10, end / 4), (end / 2, end * 9 / 10));
    assert!(resident(full.0) > 200 && resident(tail.0) < 120, "{} then {}", resident(full.0), resident(tail.0));
    assert!(rate(full.0, full.1) > 4e12 && rate(tail.0, tail.1) < 3.2e12);
}

#[test]
fn counters_reach_the_tables_and_the_picture() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let made = packscope_in(at, &["export", &fixture(VERSION_2[1]), "--csv", ".", "--svg", "a.svg"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let counts = fs::read_to_string(at.join("counts.csv")).unwrap();
    assert!(counts.starts_with("launch,counter,unit,value\nall,dram_read_bytes,B,"), "{counts}");
    assert!(counts.contains("\n0,dram_read_bytes,B,") && counts.contains("\nall,sm_active,share,0."), "{counts}");
    let series = fs::read_to_string(at.join("counters.csv")).unwrap();
    assert!(series.contains("\ndram_read,B/s,0,") && series.contains("\ntensor_active,share,0,"));
    let svg = fs::read_to_string(at.join("a.svg")).unwrap();
    assert!(svg.contains("tensor active") && svg.contains("axis to within"));
    packscope_in(at, &["export", &fixture(VERSION_1), "--csv", "."]);
    assert_eq!(fs::read_to_string(at.join("counts.csv")).unwrap(), "launch,counter,unit,value\n");
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
    newer[8] = 4;
    write("newer.pscope", &newer);
    packscope_in(at, &["verify", "newer.pscope"]).fails(2, &["version 4", "up to version 3", "update packscope"]);
}

/// What was considered goes with the plan, so that a capture opened anywhere says why it looks as it does.
#[test]
fn a_capture_keeps_the_decisions_of_its_plan() {
    let folder = tempfile::tempdir().unwrap();
    let ran = packscope_in(folder.path(), &["run", "teach-2-two-levels", "-o", "a.pscope"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let loaded = capture::read(&folder.path().join("a.pscope")).unwrap();
    assert_eq!(loaded.missing, Vec::<String>::new());
    let decisions = &loaded.capture.plan.decisions;
    assert!(decisions.iter().any(|decision| decision.sentence().contains("rather than")), "{decisions:?}");
    assert_eq!(capture::verify(&loaded.capture), Vec::new());
}

/// A file whose header says version 1 and whose end says 2 is read as what its end says, counts included.
#[test]
fn a_header_of_another_version_than_the_end_loses_no_counts() {
    let mut bytes = fs::read(fixture(VERSION_2[0])).unwrap();
    bytes[8] = 1;
    let loaded = capture::from_bytes(&bytes).unwrap();
    assert!(loaded.capture.counted.is_some());
    assert_eq!(loaded.missing.len(), 1, "{:?}", loaded.missing);
    assert!(loaded.missing[0].contains("it says version 1"), "{:?}", loaded.missing);
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
