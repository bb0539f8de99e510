//! Files of captures: whole, cut, damaged, of others.

use proptest::prelude::*;

use super::*;
use crate::plan::{
    CtaOrder, Launch, LaunchKind, LaunchPlan, MergePlan, MergeRound, PlannedPack, PrefillPlan, Strategy,
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
    let span = |kind, launch, cta, sm, begin| Span {
        kind,
        launch,
        cta,
        sm,
        slot: 0,
        begin: Nanos(begin),
        first_tile: Nanos(begin + 10),
        loop_end: Nanos(begin + 80),
        end: Nanos(begin + 100),
    };
    let (attention, merge) = (SpanKind::Attention, SpanKind::Merge);
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
            backend: "sim".to_owned(),
            source: Source::Simulated,
            device: "h200-sxm".to_owned(),
            device_name: "by hand".to_owned(),
            driver: None,
            sm_clock_khz: None,
            plan_crc: 7,
            command: "test".to_owned(),
            sm_count: 2,
            clock_step: Nanos(1),
            clock_error_ns: None,
            peak_bytes_per_s: 1,
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
    assert_eq!(read(&path).unwrap(), Loaded { capture, missing: Vec::new() });
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
    let capture = small();
    let mut bytes = to_bytes(&capture).unwrap();
    for at in 0..bytes.len() {
        for bit in [0x01, 0x80] {
            bytes[at] ^= bit;
            if let Ok(loaded) = from_bytes(&bytes) {
                let reserved = (12..16).contains(&at);
                assert!(reserved || !loaded.missing.is_empty(), "byte {at} flipped unnoticed");
                assert!(!reserved || loaded.capture == capture);
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
    assert!(says(&newer).contains("version 9") && says(&newer).contains("up to version 2"));
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
    assert!(broken(|c| c.plan.packs[0].node = NodeIdx(99)).is_err());
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
    assert_eq!(from_bytes(&to_bytes(&capture).unwrap()).unwrap(), Loaded { capture, missing: Vec::new() });
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
}

proptest! {
    #[test]
    fn any_capture_survives_its_file(
        times in prop::collection::vec((0_u32..3, 0_u32..2, 0_u32..4, 0_u64..1 << 39, 0_u64..1 << 20), 0..200),
        text in ".{0,40}",
        values in prop::collection::vec(-1e12_f64..1e12, 0..20),
        overhead in prop::option::of(0.0_f64..1.0),
    ) {
        let mut capture = small();
        let spans = times.into_iter().map(|(cta, sm, slot, begin, length)| Span {
            cta, sm, slot,
            begin: Nanos(begin), first_tile: Nanos(begin), loop_end: Nanos(begin + length), end: Nanos(begin + length),
            ..capture.spans.get(0)
        });
        capture.spans = Spans::from_unsorted(spans.collect());
        capture.provenance.command = text.clone();
        capture.batch.name = text;
        capture.counters[0].values = values;
        capture.probe_overhead = overhead;
        let loaded = from_bytes(&to_bytes(&capture).unwrap()).unwrap();
        prop_assert_eq!(loaded, Loaded { capture, missing: Vec::new() });
    }

    #[test]
    fn damage_anywhere_never_panics(at in 0_usize..4000, junk in prop::collection::vec(any::<u8>(), 1..64)) {
        let mut bytes = to_bytes(&small()).unwrap();
        let begin = at % bytes.len();
        let end = bytes.len().min(begin + junk.len());
        bytes[begin..end].copy_from_slice(&junk[..end - begin]);
        drop(from_bytes(&bytes));
    }
}

#[test]
fn prescribed_merges_come_back_and_a_plan_without_them_is_refused() {
    let mut capture = small();
    capture.plan.launches[1].kind = LaunchKind::MergeRound(0);
    capture.plan.merge.rounds = vec![MergeRound {
        starts: vec![0, 2, 4],
        slots: vec![0, 2, 1, 3],
        finishes: vec![true, true],
        ..MergeRound::default()
    }];
    let mut bytes = to_bytes(&capture).unwrap();
    assert_eq!(from_bytes(&bytes).unwrap().capture, capture);
    let rounds = (0..bytes.len() - 4).find(|&at| bytes[at..at + 4] == *b"RNDS").unwrap();
    bytes[rounds + 2] ^= 1;
    let error = from_bytes(&bytes).unwrap_err().to_string();
    assert!(error.contains("names a merge that is not there"), "{error}");
}
