//! What begins, ends and is counted on each track, and all of it in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::ops::Range;

use crate::capture::{Capture, CounterSeries, KernelWindow, Pauses, Span};
use crate::metrics::Gap;
use crate::units::Nanos;

/// Something on a track. What begins stands for a slice by its place in the capture or among the gaps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Event {
    /// A CTA begins: a span of the capture.
    Cta(u32),
    /// A phase of the CTA begins.
    Phase(&'static str),
    /// An idle stretch begins.
    Gap(u32),
    /// A kernel is on the GPU from here: a window of the capture.
    Launch(u32),
    /// It has no CTA yet.
    Wait,
    /// The memory gives nothing from here.
    Pause,
    /// The run begins.
    Run,
    /// The slice that began last ends.
    End,
    /// A counter has this value from here.
    Count(f64),
}

/// An event with its time; none fills up an array.
type Timed = Option<(Nanos, Event)>;

/// A track with its events in the order of time.
pub(super) struct Source<'a> {
    pub(super) track: u64,
    pub(super) events: Box<dyn Iterator<Item = (Nanos, Event)> + 'a>,
}

/// Visits the events of all sources by time; at one time by source, and within a source in its order.
pub(super) fn in_order(
    mut sources: Vec<Source<'_>>,
    mut visit: impl FnMut(Nanos, u64, Event) -> io::Result<()>,
) -> io::Result<()> {
    let mut heads: Vec<Timed> = sources.iter_mut().map(|source| source.events.next()).collect();
    let mut next: BinaryHeap<Reverse<(Nanos, usize)>> =
        heads.iter().enumerate().filter_map(|(at, head)| head.map(|(time, _)| Reverse((time, at)))).collect();
    while let Some(Reverse((_, at))) = next.pop() {
        if let Some((time, event)) = heads[at] {
            visit(time, sources[at].track, event)?;
        }
        heads[at] = sources[at].events.next();
        if let Some((time, _)) = heads[at] {
            next.push(Reverse((time, at)));
        }
    }
    Ok(())
}

/// The whole run.
pub(super) fn run(makespan: Nanos) -> impl Iterator<Item = (Nanos, Event)> {
    [(Nanos::ZERO, Event::Run), (makespan, Event::End)].into_iter()
}

/// Pauses of the memory. Of a damaged capture they may overlap, which slices may not: one begins where the one before ends.
pub(super) fn pauses(of: &Pauses) -> impl Iterator<Item = (Nanos, Event)> {
    let mut cursor = Nanos::ZERO;
    of.stretches().flat_map(move |(begin, end)| {
        let begin = begin.max(cursor);
        cursor = end.max(begin);
        [(begin, Event::Pause), (cursor, Event::End)]
    })
}

/// A series: each value at the begin of its step.
pub(super) fn counts(series: &CounterSeries) -> impl Iterator<Item = (Nanos, Event)> {
    let at = |step: usize| Nanos(series.start.0.saturating_add(series.step.0.saturating_mul(step as u64)));
    let values = series.values.iter().enumerate().filter(|(_, value)| value.is_finite());
    values.map(move |(step, value)| (at(step), Event::Count(*value)))
}

/// Kernels that follow each other: from the moment when each could have had a CTA, and within that the wait
/// for its first.
pub(super) fn launches(windows: &[KernelWindow], row: Vec<u32>) -> impl Iterator<Item = (Nanos, Event)> {
    let of = |at: u32| -> [Timed; 4] {
        let KernelWindow { ready, begin, end, .. } = windows[at as usize];
        let end = end.max(ready);
        let begin = begin.clamp(ready, end);
        let waits = ready < begin;
        [
            Some((ready, Event::Launch(at))),
            waits.then_some((ready, Event::Wait)),
            waits.then_some((begin, Event::End)),
            Some((end, Event::End)),
        ]
    };
    row.into_iter().flat_map(of).flatten()
}

/// The CTAs of one lane with what lies between them.
#[derive(Debug)]
pub(super) struct Lane<'a> {
    capture: &'a Capture,
    /// Spans on the lane by begin.
    spans: &'a [u32],
    gaps: &'a [Gap],
    /// Gaps of the lane by begin.
    here: Range<usize>,
    /// The lane is told of until here: a span that overlaps the one before it begins here, as in `metrics`.
    cursor: Nanos,
}

impl<'a> Lane<'a> {
    pub(super) fn new(capture: &'a Capture, spans: &'a [u32], gaps: &'a [Gap], here: Range<usize>) -> Self {
        Self { capture, spans, gaps, here, cursor: Nanos::ZERO }
    }

    pub(super) fn events(self) -> impl Iterator<Item = (Nanos, Event)> + use<'a> {
        self.flatten().flatten()
    }

    fn cta(&mut self, at: u32, span: &Span) -> [Timed; 8] {
        let begin = span.begin.max(self.cursor);
        let end = span.end.max(begin);
        self.cursor = end;
        let first_tile = span.first_tile.clamp(begin, end);
        let loop_end = span.loop_end.clamp(first_tile, end);
        // A phase that covers all of the CTA is one of which nothing is known.
        let known = first_tile > begin || loop_end < end;
        let phase = |name, from: Nanos, to: Nanos| {
            let there = known && from < to;
            (there.then_some((from, Event::Phase(name))), there.then_some((to, Event::End)))
        };
        let (load, loaded) = phase("load", begin, first_tile);
        let (compute, computed) = phase("compute", first_tile, loop_end);
        let (write, written) = phase("write", loop_end, end);
        let (cta, done) = (Some((begin, Event::Cta(at))), Some((end, Event::End)));
        [cta, load, loaded, compute, computed, write, written, done]
    }

    fn gap(&mut self, at: usize) -> [Timed; 8] {
        let Gap { begin, end, .. } = self.gaps[at];
        self.cursor = end;
        let mut events = [None; 8];
        (events[0], events[1]) = (Some((begin, Event::Gap(at as u32))), Some((end, Event::End)));
        events
    }
}

impl Iterator for Lane<'_> {
    type Item = [Timed; 8];

    fn next(&mut self) -> Option<[Timed; 8]> {
        let gap = (!self.here.is_empty()).then_some(self.here.start);
        let span = self.spans.split_first().map(|(at, rest)| (*at, self.capture.spans.get(*at as usize), rest));
        if let Some((at, span, rest)) = span
            && gap.is_none_or(|gap| (span.begin, span.end) < (self.gaps[gap].begin, self.gaps[gap].end))
        {
            self.spans = rest;
            return Some(self.cta(at, &span));
        }
        let gap = gap?;
        self.here.start += 1;
        Some(self.gap(gap))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_all_sources_come_by_time_and_keep_their_order_within_a_source() {
        let of = |track: u64, times: &'static [u64]| Source {
            track,
            events: Box::new(times.iter().enumerate().map(|(at, time)| (Nanos(*time), Event::Cta(at as u32)))),
        };
        let mut seen = Vec::new();
        in_order(vec![of(7, &[0, 5, 5, 9]), of(8, &[]), of(9, &[3, 5])], |time, track, event| {
            seen.push((time.0, track, event));
            Ok(())
        })
        .unwrap();
        let cta = Event::Cta;
        let by_hand = [(0, 7, cta(0)), (3, 9, cta(0)), (5, 7, cta(1)), (5, 7, cta(2)), (5, 9, cta(1)), (9, 7, cta(3))];
        assert_eq!(seen, by_hand);
    }
}
