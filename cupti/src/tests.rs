//! Sessions over the fake: what goes right, and every way of failing that needs no GPU.

use std::io::Error as IoError;

use cupti_sys::CUptiResult;

use crate::fake::Fake;
use crate::{CuptiError, Full, Metric, Sampling};

const PRIVILEGES: CUptiResult = CUptiResult::CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;

fn known() -> Vec<Metric> {
    vec![Metric::new("known__a.sum"), Metric::new("known__b.sum")]
}

#[expect(clippy::unnecessary_wraps, reason = "a launch returns a result")]
fn nothing() -> Result<(), IoError> {
    Ok(())
}

#[test]
fn one_session_a_process_and_the_place_comes_back() {
    let fake = Fake::new();
    let first = fake.open().unwrap();
    assert_eq!(first.chip(), "FAKE100");
    assert!(matches!(fake.open(), Err(CuptiError::AlreadyOpen)));
    drop(first);
    assert_eq!(fake.count("cuptiUnsubscribe"), 1);
    fake.open().unwrap();
}

#[test]
fn a_session_that_does_not_open_leaves_nothing_behind() {
    for call in ["cuptiProfilerInitialize", "cuptiProfilerDeviceSupported", "cuptiDeviceGetChipName"] {
        let fake = Fake::refusing(call, CUptiResult::CUPTI_ERROR_UNKNOWN);
        assert!(matches!(fake.open(), Err(CuptiError::Call { call: failed, code: 999 }) if failed == call));
        assert_eq!(fake.count("cuptiUnsubscribe"), 1, "{call}");
        fake.set(|state| state.refuse.clear());
        fake.open().unwrap();
    }
}

#[test]
fn another_profiler_is_named_as_the_reason() {
    let fake = Fake::refusing("cuptiSubscribe", CUptiResult::CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
    assert!(matches!(fake.open(), Err(CuptiError::AnotherProfiler { call: "cuptiSubscribe" })));
    assert_eq!(fake.count("cuptiUnsubscribe"), 0, "there was nothing to undo");
}

#[test]
fn an_old_driver_is_refused_before_anything_else() {
    let mut fake = Fake::new();
    fake.driver = 12040;
    assert!(matches!(fake.open(), Err(CuptiError::DriverTooOld { driver: 12040, needed: 12060 })));
    // A library of CUDA 13 wants a driver of CUDA 13.
    fake.driver = 12080;
    fake.set(|state| state.version = 130_001);
    assert!(matches!(fake.open(), Err(CuptiError::DriverTooOld { driver: 12080, needed: 13000 })));
    fake.set(|state| state.version = 26);
    fake.open().unwrap();
}

#[test]
fn an_unsupported_configuration_says_which() {
    let fake = Fake::refusing("vgpu", CUptiResult(1));
    let error = fake.open().unwrap_err();
    assert!(error.to_string().contains("virtual GPU"), "{error}");
}

#[test]
fn refused_permission_is_typed_wherever_it_comes() {
    for call in ["cuptiProfilerGetCounterAvailability", "cuptiRangeProfilerEnable"] {
        let fake = Fake::refusing(call, PRIVILEGES);
        let refused = fake.open().unwrap().range(&known(), nothing, nothing);
        assert!(matches!(refused, Err(CuptiError::PermissionDenied { call: named }) if named == call));
    }
    for call in ["cuptiPmSamplingGetCounterAvailability", "cuptiPmSamplingEnable"] {
        let fake = Fake::refusing(call, PRIVILEGES);
        let refused = fake.open().unwrap().pm_sampling(&known(), &Sampling::default(), nothing);
        assert!(matches!(refused, Err(CuptiError::PermissionDenied { call: named }) if named == call));
    }
}

#[test]
fn the_launches_run_once_a_pass() {
    let fake = Fake::new();
    fake.set(|state| (state.passes, state.passes_taken) = (3, 3));
    let mut launches = 0;
    let counts = fake.open().unwrap().range(&known(), nothing, || {
        launches += 1;
        nothing()
    });
    let counts = counts.unwrap();
    assert_eq!((counts.passes, launches), (3, 3));
    assert_eq!(counts.get(&known()[1]), Some(7.0));
    assert_eq!(fake.count("cuptiRangeProfilerDisable"), 1);
}

#[test]
fn passes_without_end_are_an_error() {
    let fake = Fake::new();
    fake.set(|state| state.passes_taken = usize::MAX);
    let endless = fake.open().unwrap().range(&known(), nothing, nothing);
    assert!(matches!(endless, Err(CuptiError::EndlessPasses { passes: 9, planned: 1 })));
}

#[test]
fn an_unknown_metric_is_named_among_known_ones() {
    let fake = Fake::new();
    let metrics = [known(), vec![Metric::new("unknown__c.sum")]].concat();
    let mut session = fake.open().unwrap();
    for error in [
        session.range(&metrics, nothing, nothing).unwrap_err(),
        session.pm_sampling(&metrics, &Sampling::default(), nothing).unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(matches!(error, CuptiError::UnknownMetric { .. }), "{text}");
        assert!(text.contains("unknown__c.sum") && text.contains("FAKE100"), "{text}");
    }
    // The session is still good.
    session.range(&known(), nothing, nothing).unwrap();
}

#[test]
fn a_failed_launch_closes_the_profiler_and_comes_through() {
    let fake = Fake::new();
    let mut session = fake.open().unwrap();
    let fail = || Err(IoError::other("no such kernel"));
    let error = session.range(&known(), nothing, fail).unwrap_err();
    assert_eq!(error.to_string(), "the launch failed while it was counted: no such kernel");
    assert_eq!(fake.count("cuptiRangeProfilerDisable"), 1);
    assert!(matches!(session.pm_sampling(&known(), &Sampling::default(), fail), Err(CuptiError::Launch(_))));
    assert_eq!((fake.count("cuptiPmSamplingStop"), fake.count("cuptiPmSamplingDisable")), (1, 1));
    assert!(matches!(session.kernel_records(fail), Err(CuptiError::Launch(_))));
    assert_eq!(fake.count("cuptiActivityDisable"), 1);
}

#[test]
fn dropped_ranges_are_an_error() {
    let fake = Fake::new();
    fake.set(|state| state.dropped_ranges = 1);
    let dropped = fake.open().unwrap().range(&known(), nothing, nothing);
    assert!(matches!(dropped, Err(CuptiError::BufferOverflow { full: Full::Ranges, capacity: 1 })));
}

fn sampled(samples: Vec<(u64, u64)>, sampling: &Sampling) -> Result<crate::Samples, CuptiError> {
    let fake = Fake::new();
    fake.set(|state| state.samples = samples);
    fake.open().unwrap().pm_sampling(&known(), sampling, nothing)
}

#[test]
fn all_samples_are_read() {
    let times: Vec<(u64, u64)> = (1..=2500).map(|at| (at * 1000, at * 1000 + 1000)).collect();
    let samples = sampled(times, &Sampling::default()).unwrap();
    assert_eq!((samples.len(), samples.rejected), (2500, 0));
    assert_eq!((samples.starts[2499].0, samples.ends[2499].0), (2_500_000, 2_501_000));
    assert_eq!(samples.values[0], [Some(7.0), Some(7.0)]);
}

#[test]
fn a_one_sample_buffer_overflows_with_a_clear_message() {
    let one = Sampling { max_samples: 1, ..Sampling::default() };
    let error = sampled(vec![(1000, 2000), (2000, 3000)], &one).unwrap_err();
    assert!(matches!(error, CuptiError::BufferOverflow { full: Full::Samples, capacity: 1 }), "{error}");
    assert!(error.to_string().contains("keep more samples or widen the interval"), "{error}");
    // With room for one more there is an end to see.
    let two = Sampling { max_samples: 2, ..Sampling::default() };
    assert_eq!(sampled(vec![(1000, 2000)], &two).unwrap().len(), 1);
}

#[test]
fn the_hardware_buffer_overflows_by_flag_and_by_code() {
    let fake = Fake::new();
    fake.set(|state| state.overflow = true);
    let by_flag = fake.open().unwrap().pm_sampling(&known(), &Sampling::default(), nothing);
    drop(fake);
    let fake = Fake::refusing("cuptiPmSamplingDecodeData", CUptiResult::CUPTI_ERROR_OUT_OF_MEMORY);
    let by_code = fake.open().unwrap().pm_sampling(&known(), &Sampling::default(), nothing);
    for overflow in [by_flag, by_code] {
        assert!(matches!(overflow, Err(CuptiError::BufferOverflow { full: Full::Hardware, .. })));
    }
}

#[test]
fn samples_without_time_or_order_are_counted_and_left_out() {
    let samples = sampled(vec![(0, 500), (1000, 2000), (1500, 2500), (2000, 2000), (2000, 3000)], &Sampling::default());
    let samples = samples.unwrap();
    assert_eq!((samples.len(), samples.rejected), (2, 3));
}

#[test]
fn a_first_sample_from_before_the_sampling_is_left_out() {
    let samples = sampled(vec![(1000, 900_000), (900_000, 902_000)], &Sampling::default()).unwrap();
    assert_eq!((samples.starts[0].0, samples.len(), samples.rejected), (900_000, 1, 1));
}

#[test]
fn what_runs_before_a_pass_runs_before_each_and_outside_the_range() {
    let fake = Fake::new();
    fake.set(|state| (state.passes, state.passes_taken) = (2, 2));
    let mut seen = Vec::new();
    let before = || {
        seen.push(fake.count("cuptiRangeProfilerPushRange") - fake.count("cuptiRangeProfilerPopRange"));
        nothing()
    };
    fake.open().unwrap().range(&known(), before, nothing).unwrap();
    assert_eq!(seen, [0, 0]);
}

#[test]
fn metrics_of_two_passes_cannot_be_sampled() {
    let fake = Fake::new();
    fake.set(|state| state.passes = 2);
    let refused = fake.open().unwrap().pm_sampling(&known(), &Sampling::default(), nothing);
    assert!(matches!(refused, Err(CuptiError::TooManyPasses { metrics: 2, passes: 2 })));
}

#[test]
fn records_come_in_order_and_impossible_ones_are_counted() {
    let fake = Fake::new();
    fake.set(|state| {
        state.kernels = vec![(500, 700), (100, 300), (0, 300), (400, 350)];
        state.dropped_records = 5;
    });
    let records = fake.open().unwrap().kernel_records(nothing).unwrap();
    let times: Vec<(u64, u64)> = records.kernels.iter().map(|kernel| (kernel.start.0, kernel.end.0)).collect();
    assert_eq!(times, [(100, 300), (500, 700)]);
    assert_eq!((records.rejected, records.lost), (2, 5));
    assert_eq!((records.kernels[0].name.as_str(), records.kernels[0].grid), ("FAKE100", [132, 0, 0]));
}
