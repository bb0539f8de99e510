//! Chunks that not every capture has: they come back, damage costs no more than it must, and without them a file has the
//! bytes of before.

use super::*;

/// Decisions go with their plan, in as many chunks as they need; one that fits no plan costs its chunk.
#[test]
fn decisions_come_back() {
    let decision = |pack: u32| Decision {
        subject: Subject::Pack(PackIdx(pack)),
        other: None,
        choice: Choice::Tile,
        considered: vec![Considered::new("16×32", 1.0, Price::traffic(4096.0))],
        chosen: 0,
        unit: "padded rows".into(),
        rule: "it is so".into(),
        constant: None,
    };
    let mut capture = small();
    capture.plan.decisions = (0..2500).map(|at| decision(at % 3)).collect();
    let bytes = to_bytes(&capture).unwrap();
    assert_eq!(
        from_bytes(&bytes).unwrap(),
        Loaded { capture: capture.clone(), missing: Vec::new(), losses: Losses::default() }
    );
    capture.plan.decisions[1500] = decision(99);
    capture.plan.decisions[2400].chosen = 7;
    let loaded = from_bytes(&to_bytes(&capture).unwrap()).unwrap();
    assert_eq!(loaded.capture.plan.decisions.len(), 1024);
    assert!(
        loaded.missing[0].starts_with("1,476 of 2,500 decisions, between decision 1,024 and"),
        "{:?}",
        loaded.missing
    );
}

/// A batch of ten thousand requests has more than forty thousand decisions, which pack well: what each holds counts, not
/// what it could.
#[test]
fn decisions_of_the_largest_batches_come_back() {
    let decision = |pack: u32| Decision {
        subject: Subject::Pack(PackIdx(pack % 3)),
        other: None,
        choice: Choice::Tile,
        considered: ["16×32", "16×64"].map(|tile| Considered::new(tile, 1.0, Price::traffic(4096.0))).to_vec(),
        chosen: 0,
        unit: "padded rows".into(),
        rule: "the smallest m that holds its rows wastes the least of the tensor cores, and n fits its tokens".into(),
        constant: None,
    };
    let mut capture = small();
    capture.plan.decisions = (0..60_000).map(decision).collect();
    let loaded = from_bytes(&to_bytes(&capture).unwrap()).unwrap();
    assert_eq!((loaded.missing, loaded.capture.plan.decisions.len()), (Vec::<String>::new(), 60_000));
}

/// A list that says how long it is must be as long as the file's META says.
#[test]
fn lists_of_another_length_than_promised_are_refused() {
    let honest = to_bytes(&small()).unwrap();
    let windows = vec![small().kernels[0]; 100_000];
    let mut forged = file::Writer::new();
    forged.copy(&honest, file::KERNELS);
    forged.value(file::KERNELS, 0, &windows).unwrap();
    let loaded = from_bytes(&forged.finish().unwrap()).unwrap();
    assert_eq!(loaded.missing, ["2 kernel windows: it holds 100000 where 2 are promised"]);
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
        prop_assert_eq!(loaded, Loaded { capture, missing: Vec::new(), losses: Losses::default() });
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
    assert_eq!(from_bytes(&to_bytes(&capture).unwrap()).unwrap().capture, capture);
    capture.plan.merge.rounds.clear();
    let error = from_bytes(&to_bytes(&capture).unwrap()).unwrap_err().to_string();
    assert!(error.contains("names a merge that is not there"), "{error}");
}

/// SM shares and programmatic starts have a chunk of their own, so that plans without them have the bytes
/// and the digest of before.
#[test]
fn placements_come_back_and_change_the_digest() {
    let plain = to_bytes(&small()).unwrap();
    let has_chunk = |bytes: &[u8]| bytes.windows(4).any(|kind| kind == file::PLACEMENTS);
    assert!(!has_chunk(&plain));
    let mut capture = placed();
    assert!(has_chunk(&to_bytes(&capture).unwrap()));
    assert_ne!(capture.plan.digest(), small().plan.digest());
    capture.provenance.plan = capture.plan.digest();
    let loaded = from_bytes(&to_bytes(&capture).unwrap()).unwrap();
    assert_eq!(loaded, Loaded { capture, missing: Vec::new(), losses: Losses::default() });
}

/// A simulator that nobody fitted to its device has a chunk that says so; other captures have the bytes of before.
#[test]
fn a_capture_keeps_that_nobody_calibrated_its_simulator() {
    let has_chunk = |bytes: &[u8]| bytes.windows(4).any(|kind| kind == file::NOT_CALIBRATED);
    assert!(!has_chunk(&to_bytes(&small()).unwrap()));
    let mut capture = small();
    capture.provenance.calibrated = false;
    let mut bytes = to_bytes(&capture).unwrap();
    let loaded = from_bytes(&bytes).unwrap();
    assert_eq!(loaded, Loaded { capture, missing: Vec::new(), losses: Losses::default() });
    let at = bytes.windows(4).position(|kind| kind == file::NOT_CALIBRATED).unwrap();
    bytes[at + 24] ^= 1;
    assert!(!from_bytes(&bytes).unwrap().capture.provenance.calibrated, "damage makes no figure better");
}

/// How far off the simulator may be has a chunk where it is known; damage makes it unknown, never another figure.
#[test]
fn a_capture_keeps_how_far_off_its_simulator_may_be() {
    let chunk = |bytes: &[u8]| bytes.windows(4).position(|kind| kind == file::EXPECTED_ERROR);
    assert_eq!(chunk(&to_bytes(&small()).unwrap()), None, "other captures have the bytes of before");
    let mut capture = small();
    let error = ExpectedError { runs: 688, median: 0.038, nine_of_ten: 0.103, worst: 0.36 };
    capture.provenance.expected_error = Some(error);
    let mut bytes = to_bytes(&capture).unwrap();
    assert_eq!(from_bytes(&bytes).unwrap(), Loaded { capture, missing: Vec::new(), losses: Losses::default() });
    let at = chunk(&bytes).unwrap();
    bytes[at + 24] ^= 1;
    let loaded = from_bytes(&bytes).unwrap();
    assert_eq!((loaded.capture.provenance.expected_error, loaded.missing.len()), (None, 1), "{:?}", loaded.missing);
    let mut capture = small();
    capture.provenance.expected_error = Some(ExpectedError { worst: 0.01, ..error });
    let loaded = from_bytes(&to_bytes(&capture).unwrap()).unwrap();
    assert_eq!((loaded.capture.provenance.expected_error, loaded.missing.len()), (None, 1), "{:?}", loaded.missing);
}

/// Which SMs are of one GPC has a chunk where it is known; other captures have the bytes of before.
#[test]
fn a_capture_keeps_the_gpc_of_each_sm() {
    let chunk = |bytes: &[u8]| bytes.windows(4).position(|kind| kind == file::GPCS);
    assert_eq!(chunk(&to_bytes(&small()).unwrap()), None);
    let mut capture = small();
    capture.provenance.gpcs = (0..capture.provenance.sm_count).map(|sm| sm as u8 % 2).collect();
    let mut bytes = to_bytes(&capture).unwrap();
    assert_eq!(from_bytes(&bytes).unwrap(), Loaded { capture, missing: Vec::new(), losses: Losses::default() });
    let at = chunk(&bytes).unwrap();
    bytes[at + 24] ^= 1;
    let loaded = from_bytes(&bytes).unwrap();
    assert!(loaded.capture.provenance.gpcs.is_empty() && loaded.missing.len() == 1, "{:?}", loaded.missing);
}

#[test]
fn a_capture_keeps_that_its_kernels_give_the_same_bits() {
    let mut capture = small();
    let plain = to_bytes(&capture).unwrap();
    assert!(!plain.windows(4).any(|kind| kind == file::DETERMINISTIC), "other captures have the bytes of before");
    capture.provenance.deterministic = true;
    let loaded = from_bytes(&to_bytes(&capture).unwrap()).unwrap();
    assert_eq!(loaded, Loaded { capture, missing: Vec::new(), losses: Losses::default() });
}

/// [`small`] with a share of the SMs, and a merge that starts beside the launch before it.
fn placed() -> Capture {
    let mut capture = small();
    capture.plan.launches[0].stream = 0;
    capture.plan.launches[0].sms = Some(1);
    capture.plan.launches[1].programmatic = true;
    capture
}

#[test]
fn placements_that_cannot_be_are_left_out_and_missed() {
    type Damage = fn(&mut LaunchPlan);
    let strange: [(Damage, &str); 3] = [
        (|plan| plan.launches[0].sms = Some(0), "has 0 SMs"),
        (|plan| plan.launches[0].sms = Some(1 << 20), "SMs"),
        (|plan| plan.launches[0].programmatic = true, "there is none"),
    ];
    for (change, says) in strange {
        let mut capture = placed();
        change(&mut capture.plan);
        let loaded = from_bytes(&to_bytes(&capture).unwrap()).unwrap();
        assert_eq!((loaded.capture.plan.placements().len(), loaded.missing.len()), (0, 1), "{:?}", loaded.missing);
        assert!(loaded.missing[0].contains(says), "{:?}", loaded.missing);
    }
}

#[test]
fn each_flipped_byte_of_placements_is_noticed() {
    let mut bytes = to_bytes(&placed()).unwrap();
    let at = bytes.windows(4).position(|kind| kind == file::PLACEMENTS).unwrap();
    for at in at..at + 24 {
        bytes[at] ^= 1;
        let loaded = from_bytes(&bytes).unwrap();
        assert!(!loaded.missing.is_empty(), "byte {at} flipped unnoticed");
        bytes[at] ^= 1;
    }
}

#[test]
fn pauses_that_cannot_be_are_left_out_and_said_to_be() {
    let mut capture = super::small();
    let whole = capture.pauses.clone().unwrap();
    let forged = [
        Pauses { period_ns: f64::NAN, ..whole.clone() },
        Pauses { period_ns: 700.0, ..whole.clone() },
        // One repeat more than there was.
        Pauses { of_repeats: vec![0, 1], ..whole.clone() },
    ];
    for pauses in forged {
        capture.pauses = Some(pauses);
        let loaded = from_bytes(&to_bytes(&capture).unwrap()).unwrap();
        assert_eq!((&loaded.capture.pauses, loaded.missing.len()), (&None, 1), "{:?}", loaded.missing);
        assert!(loaded.missing[0].contains("the pauses of the memory"), "{:?}", loaded.missing);
    }
    // A file that tells of none is whole.
    capture.pauses = None;
    assert_eq!(from_bytes(&to_bytes(&capture).unwrap()).unwrap().missing, Vec::<String>::new());
}
