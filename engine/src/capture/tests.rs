//! Files of captures: whole, cut, damaged, of others.

mod chunks;

use proptest::prelude::*;

use super::*;
use crate::decision::{Choice, Considered, Decision, Price, Subject};
use crate::hw::ExpectedError;
use crate::plan::{
    CtaOrder, CtaRole, Launch, LaunchKind, LaunchPlan, MergePlan, MergeRound, PlannedPack, PrefillPlan, Strategy,
};
use crate::tile::Tile;
use crate::units::{Nanos, NodeIdx, PackIdx, QueryIdx, Tokens};
use crate::workload::{AttentionShape, parse_tree};

/// Two requests under one shared node, run by hand on two SMs.
fn small() -> Capture {
    let shape = AttentionShape { query_heads: 2, kv_heads: 1, ..AttentionShape::default() };
    let pack = |node, slots_begin, queries_len, blocks_begin| PlannedPack {
        heads: 1,
        node: NodeIdx(node),
        slots_begin,
        queries_len,
        blocks_begin,
        blocks_end: blocks_begin + 1,
        tokens: Tokens(32),
        tile: Tile { m: 16, n: 32 },
    };
    let launch = |kind, packs_end, after| Launch {
        kind,
        stream: 0,
        packs_begin: 0,
        packs_end,
        order: CtaOrder::PackFastest,
        after,
        sms: None,
        programmatic: false,
    };
    let plan = LaunchPlan {
        scheduler: "naive".to_owned(),
        strategy: Strategy::Serial,
        device: "h200-sxm".to_owned(),
        shape,
        packs: vec![pack(0, 0, 2, 0), pack(1, 2, 1, 1), pack(2, 3, 1, 1)],
        queries: [0, 1, 0, 1].map(QueryIdx).to_vec(),
        order: [0, 1, 2].map(PackIdx).to_vec(),
        launches: vec![
            launch(LaunchKind::Attention(Tile { m: 16, n: 32 }), 3, vec![]),
            launch(LaunchKind::Merge, 0, vec![0]),
        ],
        merge: MergePlan { starts: vec![0, 2, 4], slots: vec![0, 2, 1, 3], rounds: Vec::new() },
        prefill: PrefillPlan::default(),
        decisions: Vec::new(),
    };
    let span = |role, launch, cta, sm, begin| Span {
        role,
        launch,
        cta,
        sm,
        slot: 0,
        begin: Nanos(begin),
        first_tile: Nanos(begin + 10),
        loop_end: Nanos(begin + 80),
        end: Nanos(begin + 100),
    };
    let (attention, merge) = (CtaRole::Decode, CtaRole::Merge);
    let spans = vec![
        span(attention, 0, 0, 0, 1000),
        span(attention, 0, 1, 1, 1002),
        span(attention, 0, 2, 0, 1100),
        span(merge, 1, 0, 0, 1500),
        span(merge, 1, 1, 1, 1500),
    ];
    let window =
        |launch, begin, end| KernelWindow { launch, ready: Nanos(begin - 5), begin: Nanos(begin), end: Nanos(end) };
    Capture {
        provenance: Provenance {
            packscope: "0.1.0".to_owned(),
            backend: "cuda".to_owned(),
            source: Source::Measured,
            device: "h200-sxm".to_owned(),
            device_name: "by hand".to_owned(),
            driver: None,
            sm_clock_khz: None,
            plan: plan.digest(),
            command: "test".to_owned(),
            sm_count: 2,
            clock_step: Nanos(1),
            clock_error_ns: None,
            peak_bytes_per_s: 1,
            calibrated: true,
            expected_error: None,
            gpcs: Vec::new(),
            deterministic: false,
        },
        batch: parse_tree("1,2_32,32", shape).unwrap(),
        plan,
        times: RunTimes { makespans: vec![Nanos(1600)], l2: L2State::Cold, upload: None },
        kernels: vec![window(0, 1000, 1200), window(1, 1500, 1600)],
        spans: Spans::from_unsorted(spans),
        counters: vec![CounterSeries {
            name: "dram_read".to_owned(),
            unit: "B/s".to_owned(),
            start: Nanos(0),
            step: Nanos(100),
            values: vec![0.0, 1.5],
        }],
        counted: Some(Counted {
            chip: "GH100".to_owned(),
            plan: Counts(vec![Count { counter: Counter::DramRead, value: 8192.0 }]),
            passes: 2,
            launches: vec![LaunchCounts { launch: 1, counts: Counts::default() }],
            sampled: Some(Sampled {
                interval: Nanos(1000),
                repeats: 4,
                samples: 8,
                rejected: 1,
                alignment_error: Nanos(51),
            }),
        }),
        pauses: Some(Pauses {
            period_ns: 100_148.1,
            length: Nanos(768),
            of_repeats: vec![1],
            begins: vec![Nanos(1200)],
        }),
        probe_overhead: None,
        warnings: vec![Warning { text: "made by hand".to_owned() }],
    }
}

#[test]
fn a_file_gives_back_what_was_written() {
    let capture = small();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pscope");
    write(&capture, &path).unwrap();
    assert_eq!(read(&path).unwrap(), Loaded { capture, missing: Vec::new(), losses: Losses::default() });
}

#[test]
fn a_file_cut_anywhere_is_refused_or_says_what_is_missing() {
    let bytes = to_bytes(&small()).unwrap();
    let mut opened = 0;
    for cut in 0..bytes.len() {
        match from_bytes(&bytes[..cut]) {
            Ok(loaded) => {
                opened += 1;
                assert!(!loaded.missing.is_empty(), "cut at {cut} of {} went unnoticed", bytes.len());
                assert!(verify(&loaded.capture).len() <= 20);
            }
            Err(error) => assert!(error.to_string().len() > 20, "cut at {cut}: {error}"),
        }
    }
    assert!(opened > 100, "only {opened} cuts opened");
}

#[test]
fn each_flipped_byte_is_noticed() {
    let mut bytes = to_bytes(&small()).unwrap();
    for at in 0..bytes.len() {
        for bit in [0x01, 0x80] {
            bytes[at] ^= bit;
            if let Ok(loaded) = from_bytes(&bytes) {
                assert!(!loaded.missing.is_empty(), "byte {at} flipped unnoticed");
            }
            bytes[at] ^= bit;
        }
    }
}

#[test]
fn a_damaged_block_of_spans_costs_only_itself() {
    let mut capture = small();
    let first = capture.spans.get(0);
    let many = 2 * file::SPANS_PER_CHUNK + 5;
    capture.spans = Spans::from_unsorted(vec![first; many]);
    let mut bytes = to_bytes(&capture).unwrap();
    let second = (0..bytes.len() - 8).find(|&at| bytes[at..at + 8] == *b"SPAN\x01\0\0\0").unwrap();
    bytes[second + 2] ^= 1;
    let loaded = from_bytes(&bytes).unwrap();
    assert_eq!(loaded.capture.spans.len(), many - file::SPANS_PER_CHUNK);
    assert_eq!(loaded.missing.len(), 1, "{:?}", loaded.missing);
    assert_eq!(loaded.losses, Losses { spans: 65_536, ..Losses::default() });
    assert!(loaded.missing[0].starts_with("65,536 of 131,077 spans"), "{}", loaded.missing[0]);
}

#[test]
fn what_is_no_capture_is_told_apart() {
    let says = |bytes: &[u8]| from_bytes(bytes).unwrap_err().to_string();
    assert!(says(b"").contains("empty"));
    assert!(says(b"\x7fELF and so on and so forth").contains("another program"));
    assert!(says(b"\x89PSC").contains("cut inside its first 16 bytes"));
    let mut newer = to_bytes(&small()).unwrap();
    newer[8] = 9;
    assert!(says(&newer).contains("version 9") && says(&newer).contains("up to version 3"));
    let folder = tempfile::tempdir().unwrap();
    assert!(read(folder.path()).unwrap_err().to_string().contains("directory"));
    assert!(read(&folder.path().join("none")).unwrap_err().to_string().contains("none"));
}

#[test]
fn ids_that_point_nowhere_are_not_followed() {
    let broken = |change: fn(&mut Capture)| {
        let mut capture = small();
        change(&mut capture);
        from_bytes(&to_bytes(&capture).unwrap())
    };
    assert!(broken(|c| c.plan.packs[0].queries_len = 99).is_err());
    assert!(broken(|c| c.plan.packs[0].blocks_end = 99).is_err());
    assert!(broken(|c| c.plan.order[0] = PackIdx(99)).is_err());
    assert!(broken(|c| c.plan.queries[0] = QueryIdx(99)).is_err());
    assert!(broken(|c| c.plan.merge.slots[0] = 99).is_err());
    assert!(broken(|c| c.plan.merge.starts = vec![0, 9, 3]).is_err());
    assert!(broken(|c| c.plan.launches[1].after = vec![99]).is_err());
    for loaded in [
        broken(|c| c.spans.cta[0] = 99),
        broken(|c| c.spans.launch[0] = 99),
        broken(|c| c.spans.sm[0] = u32::MAX),
        broken(|c| c.spans.slot[0] = u32::MAX),
    ] {
        let loaded = loaded.unwrap();
        assert!(loaded.capture.spans.is_empty() && loaded.missing.len() == 1);
    }
}

#[test]
fn counts_that_cannot_be_are_left_out_and_missed() {
    let strange: [fn(&mut Counted); 3] =
        [|c| c.launches[0].launch = 99, |c| c.plan.0[0].value = f64::NAN, |c| c.plan.0[0].value = -1.0];
    for change in strange {
        let mut capture = small();
        capture.counted.iter_mut().for_each(change);
        let loaded = from_bytes(&to_bytes(&capture).unwrap()).unwrap();
        assert_eq!((loaded.capture.counted, loaded.missing.len()), (None, 1), "{:?}", loaded.missing);
        assert!(loaded.missing[0].starts_with("what the hardware counted"), "{:?}", loaded.missing);
    }
}

#[test]
fn a_capture_without_counts_misses_nothing() {
    let capture = Capture { counted: None, ..small() };
    assert_eq!(
        from_bytes(&to_bytes(&capture).unwrap()).unwrap(),
        Loaded { capture, missing: Vec::new(), losses: Losses::default() }
    );
}

#[test]
fn verify_finds_each_kind_of_fault() {
    assert_eq!(verify(&small()), Vec::new());
    let rules = |change: fn(&mut Capture)| {
        let mut capture = small();
        change(&mut capture);
        verify(&capture).into_iter().map(|finding| finding.rule).collect::<Vec<_>>()
    };
    assert!(rules(|c| c.spans.sm[0] = 77).contains(&"ids"));
    assert!(rules(|c| c.spans.launch[0] = 77).contains(&"ids"));
    assert!(rules(|c| c.spans.end[0] = 1000).contains(&"times"));
    assert!(rules(|c| c.spans.begin[1] = 1099).contains(&"lanes"));
    assert!(rules(|c| c.spans.slot[4] = 99).contains(&"lanes"));
    assert!(rules(|c| c.spans.cta[0] = 1).contains(&"once"));
    assert!(rules(|c| c.kernels[0].end = Nanos(1100)).contains(&"windows"));
    assert!(rules(|c| c.kernels.truncate(1)).contains(&"windows"));
    assert!(rules(|c| c.times.makespans.clear()).contains(&"figures"));
    assert!(rules(|c| c.counters[0].values[0] = f64::NAN).contains(&"figures"));
    let share = Count { counter: Counter::SmActive, value: 1.5 };
    assert!(rules(|c| c.counted.as_mut().unwrap().plan.0[0].value = f64::INFINITY).contains(&"figures"));
    let mut capture = small();
    capture.counted.as_mut().unwrap().plan.0.push(share);
    assert_eq!(verify(&capture)[0].rule, "figures", "a share above 1");
    assert!(rules(|c| c.provenance.plan.crc ^= 1).contains(&"plan"));
    assert!(rules(|c| c.provenance.plan.version = 77).contains(&"plan"));
    assert!(rules(|c| c.plan.packs[0].tile.m = 64).contains(&"plan"), "another plan than the one that ran");
    assert!(rules(|c| c.provenance.source = Source::Simulated).contains(&"source"), "counts of no hardware");
}

#[test]
fn what_is_no_number_is_left_out_and_missed() {
    let mut capture = small();
    capture.counters[0].values[1] = f64::NAN;
    capture.probe_overhead = Some(f64::INFINITY);
    capture.provenance.clock_error_ns = Some(f64::NAN);
    let loaded = from_bytes(&to_bytes(&capture).unwrap()).unwrap();
    assert!(loaded.capture.counters.is_empty());
    assert_eq!((loaded.capture.probe_overhead, loaded.capture.provenance.clock_error_ns), (None, None));
    assert_eq!(loaded.missing.len(), 3, "{:?}", loaded.missing);
}

/// The header has a checksum since version 3; where it is wrong, or says another version than the end of
/// the file, the end is right and the file is read as what it is.
#[test]
fn a_damaged_version_in_the_header_loses_nothing_in_silence() {
    let capture = small();
    let mut bytes = to_bytes(&capture).unwrap();
    bytes[8] = 1;
    let loaded = from_bytes(&bytes).unwrap();
    assert_eq!(loaded.capture, capture);
    assert_eq!(loaded.missing.len(), 1, "{:?}", loaded.missing);
    assert!(loaded.missing[0].starts_with("the header: "), "{:?}", loaded.missing);
    bytes.truncate(bytes.len() - 1);
    assert!(from_bytes(&bytes).unwrap_err().to_string().contains("the header is damaged"));
}

/// Chunks whose checksums are right and whose content grows out of all proportion: each is refused before
/// it does, and costs only itself or, where nothing can be shown without it, the file.
#[test]
fn chunks_that_unpack_to_gigabytes_are_refused() {
    let zeros = vec![0; 64 << 20];
    let honest = to_bytes(&small()).unwrap();
    for kind in
        [file::META, file::BATCH, file::PLAN, file::KERNELS, file::WARNINGS, file::SPANS, file::COUNTER, file::COUNTED]
    {
        let mut bomb = file::Writer::new();
        bomb.copy(&honest, kind);
        bomb.chunk(kind, 0, &zeros).unwrap();
        let bytes = bomb.finish().unwrap();
        assert!(bytes.len() < 64 << 10, "{} bytes", bytes.len());
        let told = match from_bytes(&bytes) {
            Ok(loaded) => loaded.missing.join("; "),
            Err(error) => error.to_string(),
        };
        assert!(told.contains("more than a file of this length can hold"), "{kind:?}: {told}");
    }
}

/// What a list holds while it grows counts: just past a doubling, the old place lies beside one of twice its size.
#[test]
fn a_list_that_fits_but_cannot_grow_to_its_length_is_refused() {
    let (mut whole, honest) = (small(), to_bytes(&small()).unwrap());
    let read = |length: usize| {
        whole.counters[0].name = "a".repeat(length);
        let mut forged = file::Writer::new();
        forged.copy(&honest, file::COUNTER);
        forged.value(file::COUNTER, 0, &whole.counters[0]).unwrap();
        from_bytes(&forged.finish().unwrap()).unwrap().missing.join("; ")
    };
    let told = [8 << 20, (16 << 20) + 1].map(read);
    assert!(!told[0].contains("unpacks") && told[1].contains("more than a file of this length can hold"), "{told:?}");
}

#[test]
fn percentiles_of_repeats_are_the_nearest_ranks() {
    let of = |times: std::ops::RangeInclusive<u64>| Spread::of(times.rev().map(Nanos).collect());
    let all = of(1..=200);
    assert_eq!((all.least, all.low, all.high, all.most), (Nanos(1), Nanos(10), Nanos(190), Nanos(200)));
    assert!((all.share() - 180.0 / all.median.as_f64()).abs() < 1e-12, "{all:?}");
    let few = of(7..=9);
    assert_eq!((few.low, few.median, few.high), (Nanos(7), Nanos(8), Nanos(9)));
    let none = Spread::of(Vec::new());
    assert!(none.count == 0 && none.high == Nanos::ZERO && none.share().abs() < f64::EPSILON);
}
