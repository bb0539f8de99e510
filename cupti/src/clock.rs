//! Clocks on one axis, with the error stated.
//!
//! Every kernel that both clocks saw bounds the offset between them. Launch a few short kernels that
//! read `%globaltimer` at their start and end ([`Mark`]) and see them on the other clock as well:
//!
//! * an activity record begins before the kernel's first instruction and ends after its last, so
//!   `record.start - mark.start <= offset <= record.end - mark.end`;
//! * in a sampled activity the kernel begins within the first sample that is not idle, so
//!   `sample.start - mark.start <= offset <= sample.end - mark.start`, and likewise its end.
//!
//! All bounds hold at once; the offset is the middle of where they overlap and its error half of the
//! width. Bounds that exclude each other (a timer that ticks coarsely, a drift) are met halfway, with
//! the gap in the error. Worked: bounds 100..140 and 120..170 give 130 ± 10; 100..110 and 130..140
//! give 120 ± 10.

use crate::activity::KernelRecord;
use crate::sampling::Samples;
use crate::times::GpuTime;

/// A kernel's own view of when it ran: first CTA's start and last CTA's end by `%globaltimer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Before the first work.
    pub start: GpuTime,
    /// After the last.
    pub end: GpuTime,
}

/// How far another clock is ahead of `%globaltimer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alignment {
    /// Nanoseconds to add to `%globaltimer`.
    pub offset: i64,
    /// The offset is right to within this many nanoseconds.
    pub error: u64,
    /// Kernels that it rests on.
    pub marks: usize,
}

impl Alignment {
    /// A moment of the other clock as `%globaltimer` would have shown it.
    pub fn on_gpu(&self, other: u64) -> GpuTime {
        GpuTime(other.wrapping_add_signed(self.offset.wrapping_neg()))
    }
}

/// Offset of the activity records' clock. `kernels[i]` is the record of `marks[i]`; none where the
/// counts differ or are zero.
pub fn of_records(marks: &[Mark], kernels: &[KernelRecord]) -> Option<Alignment> {
    if marks.len() != kernels.len() {
        return None;
    }
    let bounds = marks
        .iter()
        .zip(kernels)
        .map(|(mark, kernel)| (difference(kernel.start.0, mark.start.0), difference(kernel.end.0, mark.end.0)));
    overlap(bounds, marks.len())
}

/// Offset of the samples' clock. `before` are marks of the first kernels that were sampled and `after` those
/// of the last; what ran between them is passed over. `metric` is the place of a metric that is zero when the
/// GPU is idle. None where the samples show fewer separate stretches of activity than there are marks.
pub fn of_samples(before: &[Mark], after: &[Mark], samples: &Samples, metric: usize) -> Option<Alignment> {
    let stretches = active_stretches(samples, metric);
    let marks = before.len() + after.len();
    if stretches.len() < marks {
        return None;
    }
    let last = &stretches[stretches.len() - after.len()..];
    let pairs = before.iter().zip(&stretches).chain(after.iter().zip(last));
    let bounds = pairs.flat_map(|(mark, &(first, last))| {
        [(first, mark.start), (last, mark.end)]
            .map(|(sample, at)| (difference(samples.starts[sample].0, at.0), difference(samples.ends[sample].0, at.0)))
    });
    overlap(bounds, marks)
}

/// First and last sample of each stretch without an idle sample.
fn active_stretches(samples: &Samples, metric: usize) -> Vec<(usize, usize)> {
    let active = |at: usize| samples.values[at].get(metric).copied().flatten().is_some_and(|value| value > 0.0);
    let mut stretches: Vec<(usize, usize)> = Vec::new();
    for at in (0..samples.len()).filter(|&at| active(at)) {
        match stretches.last_mut() {
            Some((_, last)) if *last + 1 == at => *last = at,
            _ => stretches.push((at, at)),
        }
    }
    stretches
}

fn difference(other: u64, gpu: u64) -> i64 {
    // Both are near 2^60 ns; their difference wraps into place.
    other.wrapping_sub(gpu).cast_signed()
}

fn overlap(bounds: impl Iterator<Item = (i64, i64)>, marks: usize) -> Option<Alignment> {
    let (low, high) = bounds.reduce(|(low, high), (from, to)| (low.max(from), high.min(to)))?;
    let (from, to) = (low.min(high), low.max(high));
    let width = to.abs_diff(from);
    // Rounded up, so that the bound holds.
    Some(Alignment { offset: from + (width / 2).cast_signed(), error: width.div_ceil(2), marks })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::times::{RecordTime, SampleTime};

    fn mark(start: u64, end: u64) -> Mark {
        Mark { start: GpuTime(start), end: GpuTime(end) }
    }

    fn record(start: u64, end: u64) -> KernelRecord {
        let (start, end) = (RecordTime(start), RecordTime(end));
        KernelRecord { name: String::new(), start, end, grid: [1; 3], block: [1; 3], stream: 0, registers: 0 }
    }

    #[test]
    fn the_worked_numbers() {
        let of = |bounds: &[(i64, i64)]| overlap(bounds.iter().copied(), bounds.len()).map(|a| (a.offset, a.error));
        assert_eq!(of(&[(100, 140), (120, 170)]), Some((130, 10)));
        assert_eq!(of(&[(100, 110), (130, 140)]), Some((120, 10)));
        assert_eq!(of(&[(-5, 0)]), Some((-3, 3)));
        assert_eq!(of(&[]), None);
        assert_eq!(of_records(&[mark(0, 1)], &[]), None);
        let behind = Alignment { offset: -30, error: 1, marks: 1 };
        assert_eq!(behind.on_gpu(1000), GpuTime(1030));
    }

    proptest! {
        #[test]
        fn the_true_offset_of_records_lies_within_the_error(
            offset in -1_000_000_000_i64..1_000_000_000,
            kernels in prop::collection::vec((0_u64..1_000_000, 1_u64..5_000, 0_u64..3_000, 0_u64..2_000), 1..20),
        ) {
            let base = 1_u64 << 60;
            let marks: Vec<Mark> = kernels.iter().map(|k| mark(base + k.0, base + k.0 + k.1)).collect();
            let records: Vec<KernelRecord> = kernels.iter().map(|k| {
                let shifted = |at: u64| base.wrapping_add_signed(offset) + at;
                // Offsets are taken at least the lead before zero.
                record(shifted(k.0) - k.2, shifted(k.0 + k.1) + k.3)
            }).collect();
            let found = of_records(&marks, &records).unwrap();
            prop_assert!(found.offset.abs_diff(offset) <= found.error, "{found:?} against {offset}");
        }

        #[test]
        fn the_true_offset_of_samples_lies_within_the_error_and_that_within_half_a_sample(
            offset in 0_u64..100_000, step in 500_u64..3_000, phase in 0_u64..3_000,
            lengths in prop::collection::vec(3_000_u64..9_000, 1..12),
        ) {
            // Kernels with gaps of five samples, seen by a clock that is `offset` ahead.
            let mut at = 20_000;
            let mut marks = Vec::new();
            for length in lengths {
                marks.push(mark(at, at + length));
                at += length + 5 * step;
            }
            let mut samples = Samples::default();
            for index in 0..(at + 40_000) / step {
                let (start, end) = (offset + phase + index * step, offset + phase + (index + 1) * step);
                let busy = marks.iter().any(|m| m.start.0 + offset < end && m.end.0 + offset > start);
                samples.starts.push(SampleTime(start));
                samples.ends.push(SampleTime(end));
                samples.values.push(vec![Some(f64::from(u8::from(busy)))]);
            }
            // What runs between the marks before and those after is passed over.
            let (before, after) = (&marks[..marks.len() / 3], &marks[marks.len() - marks.len() / 3..]);
            for (before, after) in [(&marks[..], &marks[..0]), (before, after)].into_iter().filter(|m| !m.0.is_empty()) {
                let found = of_samples(before, after, &samples, 0).unwrap();
                prop_assert!(found.offset.unsigned_abs().abs_diff(offset) <= found.error, "{found:?} against {offset}");
                prop_assert!(found.error <= step.div_ceil(2));
            }
        }
    }
}
