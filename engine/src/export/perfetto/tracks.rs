//! The tracks of a trace, and the events that each has.

use super::events::{Lane, Source, counts, launches, pauses, run};
use super::proto::{CounterDescriptor, EXPLICIT, ProcessDescriptor, TrackDescriptor};
use crate::capture::{Capture, CounterSeries};
use crate::metrics::Gap;
use crate::units::Nanos;

/// The only process; 0 would be the idle one.
const PID: i32 = 1;
/// Number of the process's track; those of the others follow.
const PROCESS: u64 = 1;

/// All tracks, those without a parent first.
#[derive(Debug)]
pub(super) struct Tracks {
    /// Parents stand before their children.
    pub(super) all: Vec<TrackDescriptor>,
    run: u64,
    /// Kernels that follow each other on a stream, by their place among the windows.
    rows: Vec<(u64, Vec<u32>)>,
    /// Of pauses of the memory, where the run had any.
    memory: Option<u64>,
    counters: Vec<u64>,
    /// By SM and slot.
    lanes: Vec<(u32, u32, u64)>,
}

impl Tracks {
    /// The tracks of a capture whose usable spans are `spans`.
    pub(super) fn of(capture: &Capture, spans: &[u32]) -> Self {
        let mut tracks = Self {
            all: vec![process(capture)],
            run: 0,
            rows: Vec::new(),
            memory: None,
            counters: Vec::new(),
            lanes: Vec::new(),
        };
        tracks.run = tracks.add(PROCESS, "run".to_owned(), None);
        tracks.add_launches(capture);
        if capture.pauses.as_ref().is_some_and(|pauses| !pauses.begins.is_empty()) {
            tracks.memory = Some(tracks.add(PROCESS, "memory".to_owned(), None));
        }
        tracks.add_counters(capture);
        tracks.add_lanes(capture, spans);
        tracks
    }

    /// A track behind its siblings so far; gives its number.
    fn add(&mut self, parent: u64, name: String, counter: Option<CounterDescriptor>) -> u64 {
        let uuid = self.all.len() as u64 + 1;
        self.all.push(TrackDescriptor {
            uuid: Some(uuid),
            name: Some(name),
            parent_uuid: Some(parent),
            child_ordering: counter.is_none().then_some(EXPLICIT),
            // Numbers grow, so siblings keep the order in which they were added.
            sibling_order_rank: Some(uuid as i32),
            counter,
            ..TrackDescriptor::default()
        });
        uuid
    }

    /// A row a stream; a further one where two windows of a stream overlap, which slices of a row may not.
    fn add_launches(&mut self, capture: &Capture) {
        let windows = &capture.kernels;
        if windows.is_empty() {
            return;
        }
        let parent = self.add(PROCESS, "launches".to_owned(), None);
        let stream = |at: u32| {
            let launch = capture.plan.launches.get(windows[at as usize].launch as usize);
            launch.map_or(u32::MAX, |launch| launch.stream)
        };
        let mut order: Vec<u32> = (0..windows.len() as u32).collect();
        order.sort_by_key(|at| (stream(*at), windows[*at as usize].ready, *at));
        let mut rows: Vec<(u32, Nanos, Vec<u32>)> = Vec::new();
        for at in order {
            let window = &windows[at as usize];
            match rows.iter_mut().find(|(of, end, _)| *of == stream(at) && *end <= window.ready) {
                Some((_, end, row)) => {
                    *end = window.end.max(window.ready);
                    row.push(at);
                }
                None => rows.push((stream(at), window.end.max(window.ready), vec![at])),
            }
        }
        let (mut before, mut nth) = (u32::MAX, 1);
        for (stream, _, row) in rows {
            nth = if stream == before { nth + 1 } else { 1 };
            before = stream;
            let more = if nth > 1 { format!(" ({nth})") } else { String::new() };
            let track = self.add(parent, format!("stream {stream}{more}"), None);
            self.rows.push((track, row));
        }
    }

    fn add_counters(&mut self, capture: &Capture) {
        if capture.counters.is_empty() {
            return;
        }
        let source = capture.provenance.source_words();
        let parent = self.add(PROCESS, format!("counters ({source})"), None);
        for (place, series) in capture.counters.iter().enumerate() {
            let same = capture.counters[..place].iter().filter(|other| other.name == series.name).count();
            let name = if same > 0 { format!("{} ({})", series.name, same + 1) } else { series.name.clone() };
            let track = self.add(parent, name, Some(counter(series)));
            self.counters.push(track);
            if let Some(described) = self.all.last_mut() {
                described.description = Some(about(capture));
            }
        }
    }

    fn add_lanes(&mut self, capture: &Capture, spans: &[u32]) {
        let slots = spans.iter().map(|at| capture.spans.slot[*at as usize] + 1).max().unwrap_or(0);
        if slots == 0 {
            return;
        }
        for sm in 0..capture.provenance.sm_count {
            let parent = self.add(PROCESS, format!("SM {sm}"), None);
            for slot in 0..slots {
                let track = self.add(parent, format!("SM {sm} lane {slot}"), None);
                self.lanes.push((sm, slot, track));
            }
        }
    }

    /// The events of all tracks that have any.
    pub(super) fn sources<'a>(&self, capture: &'a Capture, spans: &'a [u32], gaps: &'a [Gap]) -> Vec<Source<'a>> {
        let mut sources = vec![Source { track: self.run, events: Box::new(run(capture.makespan())) }];
        for (track, row) in &self.rows {
            let row = row.clone();
            sources.push(Source { track: *track, events: Box::new(launches(&capture.kernels, row)) });
        }
        if let Some((track, of)) = self.memory.zip(capture.pauses.as_ref()) {
            sources.push(Source { track, events: Box::new(pauses(of)) });
        }
        for (track, series) in self.counters.iter().zip(&capture.counters) {
            sources.push(Source { track: *track, events: Box::new(counts(series)) });
        }
        let (mut spans, mut gap) = (spans, 0);
        for (sm, slot, track) in &self.lanes {
            let here = (*sm, *slot);
            let of = |at: &u32| (capture.spans.sm[*at as usize], capture.spans.slot[*at as usize]);
            let (on_lane, rest) = spans.split_at(spans.partition_point(|at| of(at) <= here));
            let past = gap + gaps[gap..].partition_point(|gap| (gap.sm, gap.slot) <= here);
            let lane = Lane::new(capture, on_lane, gaps, gap..past);
            sources.push(Source { track: *track, events: Box::new(lane.events()) });
            (spans, gap) = (rest, past);
        }
        sources
    }
}

/// The process of a capture. A simulated one says so in its name, where it is seen with every figure.
fn process(capture: &Capture) -> TrackDescriptor {
    let (plan, made) = (&capture.plan, &capture.provenance);
    let batch = if capture.batch.name.is_empty() { "batch" } else { &capture.batch.name };
    let way = format!("{} · {} on {}", plan.scheduler, plan.strategy.name(), made.device_name);
    let name = format!("{batch} · {way} ({})", made.source_words());
    TrackDescriptor {
        uuid: Some(PROCESS),
        process: Some(ProcessDescriptor { pid: Some(PID), process_name: Some(name) }),
        child_ordering: Some(EXPLICIT),
        ..TrackDescriptor::default()
    }
}

fn counter(series: &CounterSeries) -> CounterDescriptor {
    CounterDescriptor { unit_name: Some(series.unit.clone()), y_axis_share_key: Some(series.unit.clone()) }
}

/// Where the series come from, and how well they lie on the axis of the CTAs.
fn about(capture: &Capture) -> String {
    match capture.counted.as_ref().and_then(|counted| counted.sampled) {
        Some(how) => format!(
            "measured: mean of {} runs, sampled every {}, on the CTAs' axis to within {}",
            how.repeats, how.interval, how.alignment_error
        ),
        None => format!("{}: by the model, no hardware counters", capture.provenance.source_words()),
    }
}
