//! Traces for Perfetto, read back: every CTA where and when it ran, bubbles and phases that add up, the
//! counters of the capture, and what the format asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use engine::cancel::Cancel;
use engine::capture::{self, Capture, CounterSeries, Loaded, Losses, Pauses, Spans};
use engine::export::write_perfetto;
use engine::metrics::{self, BubbleCause};
use engine::plan::Strategy;
use engine::session::{RunOptions, simulate};
use engine::units::Nanos;
use engine::workload::{AttentionShape, BatchSpec, PrefixTree, parse_decode, parse_prefill};

use crate::common::{all_ways, figure_10_small, planned, planned_if_allowed};
use crate::perfetto_wire::{Arg, Slice, Trace};
use crate::program::{fixture, packscope_in};

const CTAS: [&str; 4] = ["attention", "prefill", "prefill+decode", "merge"];
const FIXTURES: [&str; 4] =
    ["capture-v1.pscope", "capture-v2-tail.pscope", "capture-v2-streams.pscope", "capture-h200-streams.pscope"];

fn read(name: &str) -> Capture {
    capture::read(fixture(name).as_ref()).unwrap().capture
}

fn trace(capture: &Capture) -> Trace {
    trace_of(&Loaded { capture: capture.clone(), missing: Vec::new(), losses: Losses::default() })
}

fn trace_of(loaded: &Loaded) -> Trace {
    let mut bytes = Vec::new();
    write_perfetto(&mut bytes, loaded).unwrap();
    Trace::of(&bytes)
}

fn simulated(spec: &BatchSpec, scheduler: &str, strategy: Strategy) -> Capture {
    let planned = planned(spec, scheduler, strategy, "h200-sxm");
    simulate(&planned, &RunOptions::default(), &Cancel::default()).unwrap()
}

fn hybrid() -> BatchSpec {
    let shape = AttentionShape { query_heads: 8, kv_heads: 2, ..AttentionShape::default() };
    let requests = vec![parse_prefill("300@512").unwrap(), parse_decode("9x512").unwrap()];
    BatchSpec { requests, ..BatchSpec::empty(shape) }
}

fn length(slice: &Slice) -> u64 {
    slice.end - slice.begin
}

/// What must hold of the trace of any sound capture.
fn holds(capture: &Capture) {
    let trace = trace(capture);
    tracks_hold(capture, &trace);
    ctas_hold(capture, &trace);
    lanes_add_up(capture, &trace);
    launches_hold(capture, &trace);
    counters_hold(capture, &trace);
    bytes_hold(capture, &trace);
    let source = capture.provenance.source.name();
    let run: Vec<&Slice> = trace.of_category(&["run"]).collect();
    assert_eq!((run.len(), run[0].begin, run[0].end), (1, 0, capture.makespan().0));
    assert_eq!((run[0].text("source"), run[0].number("lost_records")), (source, 0));
    if let Some(error) = &capture.provenance.expected_error {
        assert_eq!(run[0].text("expected_error"), error.words());
    }
    assert_eq!(run[0].text("device"), capture.provenance.device);
}

fn tracks_hold(capture: &Capture, trace: &Trace) {
    let processes: Vec<&String> = trace.tracks.values().filter_map(|track| track.process.as_ref()).collect();
    assert_eq!(processes.len(), 1);
    assert!(processes[0].ends_with(&format!("({})", capture.provenance.source.name())), "{processes:?}");
    let mut names = BTreeSet::new();
    let mut ranks = BTreeSet::new();
    for track in trace.tracks.values() {
        assert!(names.insert((track.parent, &track.name)), "{} twice under {}", track.name, track.parent);
        assert!(ranks.insert((track.parent, track.rank)), "{} has the rank of a sibling", track.name);
    }
    let lanes = trace.tracks.values().filter(|track| track.name.contains(" lane ")).count() as u64;
    assert_eq!(lanes, capture.slots());
}

/// Each span is one slice on the lane of its SM, and each CTA of the plan is there once.
fn ctas_hold(capture: &Capture, trace: &Trace) {
    let mut told = BTreeMap::new();
    for slice in trace.of_category(&CTAS) {
        let key = (slice.category.clone(), slice.number("launch"), slice.number("cta"));
        let track = &trace.tracks[&slice.track];
        let (sm, lane) = (slice.number("sm"), slice.number("lane"));
        assert_eq!(track.name, format!("SM {sm} lane {lane}"));
        assert_eq!(trace.tracks[&track.parent].name, format!("SM {sm}"));
        assert!(slice.begin < slice.end && slice.depth == 0, "{slice:?}");
        assert_eq!(slice.text("source"), capture.provenance.source.name());
        assert!(told.insert(key, (sm, lane, slice.begin, slice.end)).is_none(), "{slice:?} twice");
    }
    assert_eq!(told.len(), capture.spans.len());
    for span in capture.spans.iter() {
        let where_and_when = (u64::from(span.sm), u64::from(span.slot), span.begin.0, span.end.0);
        assert_eq!(told[&(span.role.name().to_owned(), span.launch.into(), span.cta.into())], where_and_when);
    }
    for (number, launch) in capture.plan.launches.iter().enumerate() {
        for cta in capture.plan.ctas(launch) {
            let role = capture.plan.role_of(launch, cta).name().to_owned();
            assert!(told.contains_key(&(role, number as u64, cta.into())), "CTA {cta} of launch {number}");
        }
    }
}

/// Busy and idle slices are the time of the lanes, and phases are within their CTA.
fn lanes_add_up(capture: &Capture, trace: &Trace) {
    let report = metrics::bubbles(&capture.plan, capture);
    let busy: u64 = trace.of_category(&CTAS).map(length).sum();
    let spans: u64 = capture.spans.iter().map(|span| (span.end - span.begin).0).sum();
    assert_eq!((busy, busy), (spans, report.busy_slot.0));
    for cause in BubbleCause::ALL {
        let idle: u64 = trace.of_category(&["bubble"]).filter(|slice| slice.name == cause.name()).map(length).sum();
        assert_eq!(idle, report.of(cause).0, "{}", cause.name());
    }
    let idle: u64 = trace.of_category(&["bubble"]).map(length).sum();
    assert_eq!(busy + idle, report.total_slot.0);
    let phases: BTreeMap<&str, u64> = trace.of_category(&["phase"]).fold(BTreeMap::new(), |mut sums, slice| {
        assert!(slice.depth == 1 && length(slice) > 0);
        *sums.entry(slice.name.as_str()).or_default() += length(slice);
        sums
    });
    let mut expected = BTreeMap::from([("load", 0), ("compute", 0), ("write", 0)]);
    for span in capture.spans.iter().filter(|span| span.first_tile > span.begin || span.loop_end < span.end) {
        *expected.get_mut("load").unwrap() += (span.first_tile - span.begin).0;
        *expected.get_mut("compute").unwrap() += (span.loop_end - span.first_tile).0;
        *expected.get_mut("write").unwrap() += (span.end - span.loop_end).0;
    }
    expected.retain(|_, sum| *sum > 0);
    assert_eq!(phases, expected);
}

fn launches_hold(capture: &Capture, trace: &Trace) {
    let mut told: Vec<(u64, u64, u64)> = Vec::new();
    for slice in trace.of_category(&["launch"]) {
        let launch = &capture.plan.launches[slice.number("launch") as usize];
        assert!(trace.tracks[&slice.track].name.starts_with(&format!("stream {}", launch.stream)));
        told.push((slice.number("launch"), slice.begin, slice.end));
    }
    let mut windows: Vec<(u64, u64, u64)> =
        capture.kernels.iter().map(|window| (window.launch.into(), window.ready.0, window.end.0)).collect();
    told.sort_unstable();
    windows.sort_unstable();
    assert_eq!(told, windows);
}

fn counters_hold(capture: &Capture, trace: &Trace) {
    let tracks: BTreeMap<&str, (u64, &str)> = trace
        .tracks
        .iter()
        .filter_map(|(uuid, track)| Some((track.name.as_str(), (*uuid, track.unit.as_deref()?))))
        .collect();
    assert_eq!(tracks.len(), capture.counters.len());
    for CounterSeries { name, unit, start, step, values } in &capture.counters {
        let (uuid, told) = tracks[name.as_str()];
        assert_eq!(told, unit);
        let expected: Vec<(u64, f64)> =
            values.iter().enumerate().map(|(at, value)| (start.0 + step.0 * at as u64, *value)).collect();
        assert_eq!(trace.samples[&uuid], expected, "{name}");
    }
}

/// The bytes of all CTAs are those of the traffic model.
fn bytes_hold(capture: &Capture, trace: &Trace) {
    let batch = capture.batch.build().unwrap();
    let traffic = metrics::traffic(&capture.plan, &batch, &PrefixTree::of(&batch));
    let ctas = || trace.of_category(&CTAS[..3]);
    assert_eq!(ctas().map(|slice| slice.number("kv_read_bytes")).sum::<u64>(), traffic.kv_read.0);
    assert_eq!(ctas().map(|slice| slice.number("q_read_bytes")).sum::<u64>(), traffic.q_read.0);
}

#[test]
fn measured_captures_come_back_whole() {
    for name in FIXTURES {
        holds(&read(name));
    }
}

#[test]
fn simulated_captures_come_back_whole_under_every_scheduler_and_strategy() {
    let spec = figure_10_small(10, AttentionShape { query_heads: 8, kv_heads: 2, ..AttentionShape::default() });
    let mut ways = 0;
    for (scheduler, strategy) in all_ways() {
        if let Some(planned) = planned_if_allowed(&spec, scheduler, strategy, "h200-sxm") {
            holds(&simulate(&planned, &RunOptions::default(), &Cancel::default()).unwrap());
            ways += 1;
        }
    }
    assert!(ways > 30, "{ways} ways");
}

#[test]
fn hybrid_captures_tell_prefill_and_decode_apart() {
    for strategy in Strategy::ALL {
        let capture = simulated(&hybrid(), "query-centric", strategy);
        holds(&capture);
        let trace = trace(&capture);
        let heads = |slice: &Slice| slice.number("query_heads");
        let prefill: u64 = trace.of_category(&["prefill", "prefill+decode"]).map(heads).sum();
        assert_eq!(prefill, capture.plan.prefill.tasks.len() as u64 * 8, "{strategy:?}");
        let both = trace.of_category(&["prefill+decode"]).count();
        assert_eq!(both > 0, strategy == Strategy::HFuse);
        let slice = trace.of_category(&["prefill", "prefill+decode"]).next().unwrap();
        assert!(slice.name.starts_with("prefill ") && slice.number("prefill_rows") > 0, "{slice:?}");
    }
}

#[test]
fn a_cta_tells_its_pack_tile_and_split() {
    let shape = AttentionShape { query_heads: 8, kv_heads: 2, ..AttentionShape::default() };
    let spec = BatchSpec { requests: vec![parse_decode("2x65536").unwrap()], ..BatchSpec::empty(shape) };
    let capture = simulated(&spec, "flashinfer-decode", Strategy::Streams);
    let trace = trace(&capture);
    let mut of_queries: BTreeMap<Vec<u32>, BTreeSet<(u64, u64)>> = BTreeMap::new();
    for slice in trace.of_category(&["attention"]) {
        let pack = &capture.plan.packs[slice.number("pack") as usize];
        assert_eq!(slice.name, format!("pack {} · {}×{}", slice.number("pack"), pack.tile.m, pack.tile.n));
        assert_eq!(slice.text("tile"), format!("{}×{}", pack.tile.m, pack.tile.n));
        assert_eq!(slice.number("kv_tokens"), pack.tokens.0);
        assert_eq!(slice.number("queries"), u64::from(pack.queries_len));
        assert_eq!(slice.number("node"), u64::from(pack.node.0));
        let queries = capture.plan.queries_of(engine::units::PackIdx(slice.number("pack") as u32));
        let place = (slice.number("split"), slice.number("splits"));
        of_queries.entry(queries.iter().map(|query| query.0).collect()).or_default().insert(place);
    }
    for places in of_queries.values() {
        let count = places.len() as u64;
        assert!(places.iter().copied().eq((0..count).map(|at| (at, count))), "{places:?}");
    }
    assert!(of_queries.values().any(|places| places.len() > 1), "no KV is split");
}

#[test]
fn the_run_tells_device_clock_alignment_counts_and_what_is_missing() {
    let mut capture = read(FIXTURES[2]);
    let (spans, first) = (capture.spans.len(), capture.spans.get(0));
    capture.spans = Spans::from_unsorted(capture.spans.iter().skip(1).collect());
    capture.warnings.push(capture::Warning { text: "1 trace records were lost".to_owned() });
    let loaded = Loaded { missing: vec!["its end".to_owned()], losses: Losses::default(), capture };
    let (trace, capture) = (trace_of(&loaded), &loaded.capture);
    assert_eq!(trace.of_category(&CTAS).count(), spans - 1);
    let gone = (u64::from(first.launch), u64::from(first.cta));
    assert!(trace.of_category(&CTAS).all(|slice| (slice.number("launch"), slice.number("cta")) != gone));
    let run = trace.of_category(&["run"]).next().unwrap();
    assert_eq!(run.number("lost_records"), 1);
    assert!(run.text("warnings").contains("1 trace records were lost"));
    assert_eq!((run.text("missing"), run.text("device_name")), ("its end", capture.provenance.device_name.as_str()));
    let counted = capture.counted.as_ref().unwrap();
    assert_eq!(run.number("alignment_error_ns"), counted.sampled.unwrap().alignment_error.0);
    for count in &counted.plan.0 {
        assert_eq!(run.args[count.counter.name()], Arg::Real(count.value));
    }
    for of in &counted.launches {
        let launch = trace.of_category(&["launch"]).find(|slice| slice.number("launch") == u64::from(of.launch));
        for count in &of.counts.0 {
            assert_eq!(launch.unwrap().args[count.counter.name()], Arg::Real(count.value));
        }
    }
}

/// As in the window and in pictures: what is lost makes figures untrue, and those are not told.
#[test]
fn a_run_that_lost_spans_or_kernel_windows_tells_no_bubbles() {
    let whole = capture::read(fixture(FIXTURES[2]).as_ref()).unwrap();
    for (losses, busy) in [
        (Losses::default(), true),
        (Losses { spans: 1, ..Losses::default() }, false),
        (Losses { kernels: true, ..Losses::default() }, true),
        (Losses { series: 1, counts: true, decisions: 3, ..Losses::default() }, true),
    ] {
        let trace = trace_of(&Loaded { losses, ..whole.clone() });
        let told = losses.spans == 0 && !losses.kernels;
        assert_eq!(trace.of_category(&["bubble"]).next().is_some(), told, "{losses:?}");
        let run = trace.of_category(&["run"]).next().unwrap();
        for key in ["slots", "busy_slot_ns", "total_slot_ns"] {
            assert_eq!(run.args.contains_key(key), busy, "{key}, {losses:?}");
        }
        assert_eq!(trace.of_category(&CTAS).count(), whole.capture.spans.len());
    }
}

#[test]
fn an_empty_run_is_a_trace_without_lanes() {
    let mut capture = simulated(&hybrid(), "query-centric", Strategy::Serial);
    (capture.spans, capture.kernels, capture.counters) = (Spans::default(), Vec::new(), Vec::new());
    let trace = trace(&capture);
    assert_eq!((trace.slices.len(), trace.samples.len()), (1, 0));
    assert_eq!((trace.slices[0].begin, trace.slices[0].end), (0, 0));
    assert!(trace.tracks.values().any(|track| track.process.as_ref().is_some_and(|name| name.contains("simulated"))));
}

#[test]
fn pauses_of_the_memory_have_a_track_where_the_run_had_any() {
    let mut capture = read(FIXTURES[3]);
    let told = |capture: &Capture| -> Vec<(u64, u64)> {
        let trace = trace(capture);
        let on_track = trace.tracks.values().filter(|track| track.name == "memory").count();
        let pauses = trace.of_category(&["pause"]).map(|slice| (slice.begin, slice.end));
        let pauses: Vec<(u64, u64)> = pauses.collect();
        assert_eq!(on_track, usize::from(!pauses.is_empty()));
        pauses
    };
    assert!(told(&capture).is_empty(), "nothing was looked for");
    let pauses = |begins: &[u64]| Pauses {
        period_ns: 100_148.1,
        length: Nanos(1216),
        of_repeats: vec![0],
        begins: begins.iter().copied().map(Nanos).collect(),
    };
    capture.pauses = Some(pauses(&[]));
    assert!(told(&capture).is_empty(), "none fell into the run");
    capture.pauses = Some(pauses(&[1_000, 101_148]));
    assert_eq!(told(&capture), [(1_000, 2_216), (101_148, 102_364)]);
    // Of a damaged file.
    capture.pauses = Some(pauses(&[5_000, 4_000, 5_500, u64::MAX]));
    assert_eq!(told(&capture), [(5_000, 6_216), (6_216, 6_216), (6_216, 6_716), (u64::MAX, u64::MAX)]);
}

#[test]
fn damaged_spans_leave_a_trace_whose_slices_still_nest() {
    let mut capture = read(FIXTURES[2]);
    let mut spans: Vec<capture::Span> = capture.spans.iter().collect();
    // One that overlaps its neighbour, three that are nowhere, phases out of order, and one without length.
    spans[0].end = spans[1].begin + Nanos(50);
    spans[2].sm = 4_000;
    spans[3].launch = 99;
    spans[4].cta = u32::MAX;
    (spans[5].first_tile, spans[5].loop_end) = (Nanos(u64::MAX), Nanos(0));
    spans[6].end = spans[6].begin;
    (spans[7].begin, spans[7].end) = (spans[7].end, spans[7].begin);
    capture.spans = Spans::from_unsorted(spans);
    capture.kernels[0].begin = Nanos(0);
    capture.kernels[1].ready = capture.kernels[1].end + Nanos(7);
    capture.counters.push(CounterSeries { values: vec![f64::NAN, 1.0], ..capture.counters[0].clone() });
    let trace = trace(&capture);
    let report = metrics::bubbles(&capture.plan, &capture);
    let busy: u64 = trace.of_category(&CTAS).chain(trace.of_category(&["damaged"])).map(length).sum();
    assert_eq!(busy, report.busy_slot.0);
    assert_eq!(trace.of_category(&["damaged"]).count(), 2);
    let (uuid, _) = trace.tracks.iter().find(|(_, track)| track.name == "dram_read (2)").unwrap();
    assert_eq!(trace.samples[uuid].len(), 1);
    assert!(trace.children(1).count() > 100);
}

#[test]
fn the_same_capture_gives_the_same_bytes() {
    let bytes = || {
        let mut bytes = Vec::new();
        write_perfetto(&mut bytes, &capture::read(fixture(FIXTURES[1]).as_ref()).unwrap()).unwrap();
        bytes
    };
    assert_eq!(bytes(), bytes());
}

#[test]
fn the_program_writes_a_trace_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let export = |path: &str| packscope_in(at, &["export", &fixture(FIXTURES[1]), "--perfetto", path, "--json"]);
    export("none/a.pftrace").fails(1, &["writing the trace", "none/a.pftrace"]);
    export(".").fails(1, &["writing the trace", "directory"]);
    if std::path::Path::new("/dev/full").exists() {
        export("/dev/full").fails(1, &["writing the trace", "No space left"]);
    }
    assert_eq!(fs::read_dir(at).unwrap().count(), 0);
    assert_eq!(export("a.pftrace").json()["files"], serde_json::json!(["a.pftrace"]));
    let written = Trace::of(&fs::read(at.join("a.pftrace")).unwrap());
    assert_eq!(written.of_category(&CTAS).count(), read(FIXTURES[1]).spans.len());
    assert_eq!(fs::read_dir(at).unwrap().count(), 1);
    let help = packscope_in(at, &["export", "--help"]);
    assert!(help.stdout.contains("--perfetto") && help.stdout.contains("ui.perfetto.dev"), "{}", help.stdout);
}
