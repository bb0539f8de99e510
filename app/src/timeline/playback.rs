//! Playback: one moment for all views. First the scheduler's choices in their order, then the hardware's time.
//!
//! Event times of a run are sorted once; after that a moment costs a binary search a lane, whatever the run.

use engine::capture::Spans;

use super::lanes::{Entity, Lanes};

/// Seconds in which all choices of a scheduler pass.
const CHOICES_TAKE: f64 = 6.0;
/// Fewest choices of a second, so that a small plan does not drag.
const CHOICES_A_SECOND: f64 = 4.0;

/// How many times slower than the hardware playback can run.
pub const SLOWER: [f64; 9] = [0.25, 1.0, 10.0, 100.0, 1e3, 1e4, 3e4, 1e5, 1e6];

/// A moment of playback.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moment {
    /// So many choices of the scheduler are made.
    Choices(f64),
    /// Nanoseconds from the start of the run.
    Time(f64),
}

/// What a step goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next choice, or the next CTA that is dispatched.
    Event,
    /// The first CTA of the next wave: as many CTAs as there are slots.
    Wave,
    /// A hundredth of the run.
    Time,
}

/// When the CTAs of a run are dispatched.
#[derive(Clone, Debug, Default)]
pub struct Events {
    /// In order.
    begins: Vec<u64>,
    slots: usize,
    end: u64,
}

impl Events {
    /// Of a run.
    pub fn of(spans: &Spans, lanes: &Lanes) -> Self {
        let mut begins = spans.begin.clone();
        begins.sort_unstable();
        Self { begins, slots: lanes.lanes.len().max(1), end: lanes.end }
    }

    fn next(&self, time: f64, forward: bool, every: usize) -> f64 {
        let waves = self.begins.iter().step_by(every);
        let found = if forward {
            let first = self.begins.partition_point(|at| *at as f64 <= time).div_ceil(every) * every;
            self.begins.get(first).copied()
        } else if every == 1 {
            let before = self.begins.partition_point(|at| (*at as f64) < time);
            before.checked_sub(1).map(|at| self.begins[at])
        } else {
            waves.copied().take_while(|at| (*at as f64) < time).last()
        };
        found.map_or(if forward { self.end as f64 } else { 0.0 }, |at| at as f64)
    }
}

/// Where playback stands and how it runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Playback {
    /// The moment, while playback is on.
    pub at: Option<Moment>,
    /// Whether it runs.
    pub plays: bool,
    /// How many times slower than the hardware.
    pub slower: f64,
    /// It begins again at the end, of the range where one is selected.
    pub repeats: bool,
}

impl Default for Playback {
    fn default() -> Self {
        Self { at: None, plays: false, slower: 3e4, repeats: false }
    }
}

/// What is played: choices, the end of the run, and the range that is selected.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Choices of the scheduler.
    pub choices: usize,
    /// End of the run in nanoseconds.
    pub end: u64,
    /// Part of the run that is looped over.
    pub range: Option<(f64, f64)>,
}

impl Playback {
    /// Goes on by seconds of the person's time.
    pub fn advance(&mut self, seconds: f64, extent: Extent) {
        let Some(at) = self.at.filter(|_| self.plays) else { return };
        let (from, to) = extent.range.filter(|_| self.repeats).unwrap_or((0.0, extent.end as f64));
        self.at = Some(match at {
            Moment::Choices(made) => {
                let rate = (extent.choices as f64 / CHOICES_TAKE).max(CHOICES_A_SECOND);
                let made = made + seconds * rate;
                if made > extent.choices as f64 { Moment::Time(from) } else { Moment::Choices(made) }
            }
            Moment::Time(time) => {
                let time = time + seconds * 1e9 / self.slower;
                match (time >= to, self.repeats) {
                    (false, _) => Moment::Time(time.max(from)),
                    (true, true) => Moment::Time(from),
                    (true, false) => {
                        self.plays = false;
                        Moment::Time(to)
                    }
                }
            }
        });
    }

    /// Plays from where it stands, from the start where it is at the end; or stops.
    pub fn toggle(&mut self, extent: Extent) {
        self.plays = !self.plays;
        let ended = matches!(self.at, Some(Moment::Time(time)) if time >= extent.end as f64);
        if self.at.is_none() || (self.plays && ended) {
            self.at = Some(Moment::Choices(0.0));
        }
    }

    /// One step on or back; the scheduler's last choice and the run's first CTA are neighbours.
    pub fn step(&mut self, by: Step, forward: bool, events: &Events, extent: Extent) {
        self.plays = false;
        let hundredth = extent.end as f64 / 100.0;
        self.at = Some(match self.at.unwrap_or(Moment::Choices(0.0)) {
            Moment::Choices(made) if forward => {
                let next = made.floor() + 1.0;
                if next > extent.choices as f64 { Moment::Time(0.0) } else { Moment::Choices(next) }
            }
            Moment::Choices(made) => Moment::Choices((made.ceil() - 1.0).max(0.0)),
            Moment::Time(time) if !forward && time <= 0.0 => Moment::Choices(extent.choices as f64),
            Moment::Time(time) => Moment::Time(match by {
                Step::Event => events.next(time, forward, 1),
                Step::Wave => events.next(time, forward, events.slots),
                Step::Time => (time + if forward { hundredth } else { -hundredth }).clamp(0.0, extent.end as f64),
            }),
        });
    }
}

/// What a slot does at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Nothing.
    Idle,
    /// Waits for its first tile of KV.
    Loads(Entity, usize),
    /// Runs its main loop.
    Computes(Entity, usize),
    /// Writes its result.
    Writes(Entity, usize),
}

impl Doing {
    /// The span, where there is one.
    pub fn span(self) -> Option<(Entity, usize)> {
        match self {
            Self::Idle => None,
            Self::Loads(entity, span) | Self::Computes(entity, span) | Self::Writes(entity, span) => {
                Some((entity, span))
            }
        }
    }

    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "free",
            Self::Loads(..) => "loads its first tile",
            Self::Computes(..) => "main loop",
            Self::Writes(..) => "writes its result",
        }
    }
}

/// What each slot does at a time, in the order of the lanes; O(lanes · log n).
pub fn slots(lanes: &Lanes, spans: &Spans, time: f64) -> Vec<Doing> {
    let at = time.max(0.0) as u64;
    let doing = |lane| match lanes.hit(spans, lane, at) {
        None => Doing::Idle,
        Some(span) => {
            let entity = lanes.entities[span];
            match () {
                () if at < spans.first_tile[span] => Doing::Loads(entity, span),
                () if at >= spans.loop_end[span] && spans.loop_end[span] < spans.end[span] => {
                    Doing::Writes(entity, span)
                }
                () => Doing::Computes(entity, span),
            }
        }
    };
    lanes.lanes.iter().map(doing).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use engine::cancel::Cancel;
    use engine::capture::Capture;
    use engine::session::{self, PlanOptions, RunOptions};
    use engine::workload::BatchSpec;

    use super::*;

    fn run() -> (Capture, Lanes) {
        let spec = BatchSpec::from_ron(crate::samples::find("pat-05").unwrap().text).unwrap();
        let planned = session::plan_spec(&spec, &PlanOptions::new(&engine::hw::builtin()[0])).unwrap();
        let capture = session::simulate(&planned, &RunOptions::default(), &Cancel::default()).unwrap();
        let lanes = Lanes::of(&capture);
        (capture, lanes)
    }

    #[test]
    fn steps_go_through_every_choice_and_cta_to_the_end_and_back() {
        let (capture, lanes) = run();
        let events = Events::of(&capture.spans, &lanes);
        let extent = Extent { choices: 5, end: lanes.end, range: None };
        let mut playback = Playback::default();
        let mut seen = vec![];
        while playback.at != Some(Moment::Time(lanes.end as f64)) {
            playback.step(Step::Event, true, &events, extent);
            seen.push(playback.at.unwrap());
        }
        assert!(matches!(seen[4], Moment::Choices(made) if (made - 5.0).abs() < 1e-9) && seen[5] == Moment::Time(0.0));
        let mut begins = capture.spans.begin.clone();
        begins.sort_unstable();
        begins.dedup();
        let steps = begins.iter().filter(|begin| **begin > 0).count();
        assert_eq!(seen.len(), 6 + steps + 1, "each time at which a CTA begins, and the end");
        assert_eq!(lanes.begun(&capture.spans, lanes.end).0, capture.spans.len());
        for _ in 0..seen.len() + 2 {
            playback.step(Step::Event, false, &events, extent);
        }
        assert_eq!(playback.at, Some(Moment::Choices(0.0)));
        playback.at = Some(Moment::Time(0.0));
        let mut waves = 0;
        while playback.at != Some(Moment::Time(lanes.end as f64)) {
            playback.step(Step::Wave, true, &events, extent);
            waves += 1;
        }
        assert!(waves <= capture.spans.len().div_ceil(lanes.lanes.len()) + 1, "{waves}");
    }

    #[test]
    fn it_plays_choices_then_the_run_and_ends_or_repeats_its_range() {
        let extent = Extent { choices: 10, end: 1_000, range: Some((200.0, 400.0)) };
        let mut playback = Playback { slower: 1e6, ..Playback::default() };
        playback.toggle(extent);
        assert_eq!((playback.at, playback.plays), (Some(Moment::Choices(0.0)), true));
        playback.advance(1.0, extent);
        assert!(matches!(playback.at, Some(Moment::Choices(made)) if made > 1.0));
        playback.advance(9.0, extent);
        assert_eq!(playback.at, Some(Moment::Time(0.0)));
        playback.advance(0.5, extent);
        assert_eq!(playback.at, Some(Moment::Time(500.0)));
        playback.advance(0.6, extent);
        assert_eq!((playback.at, playback.plays), (Some(Moment::Time(1_000.0)), false));
        playback.toggle(extent);
        assert_eq!(playback.at, Some(Moment::Choices(0.0)), "from the start again");
        (playback.at, playback.repeats) = (Some(Moment::Time(390.0)), true);
        playback.advance(0.02, extent);
        assert_eq!((playback.at, playback.plays), (Some(Moment::Time(200.0)), true));
    }

    #[test]
    fn slots_do_what_a_plain_scan_finds() {
        let (capture, lanes) = run();
        for share in [0.0, 0.13, 0.5, 0.77, 0.999, 1.0] {
            let time = lanes.end as f64 * share;
            let found = slots(&lanes, &capture.spans, time);
            assert_eq!(found.len(), lanes.lanes.len());
            for (doing, lane) in found.iter().zip(&lanes.lanes) {
                let runs =
                    |at: &usize| capture.spans.begin[*at] <= time as u64 && (time as u64) < capture.spans.end[*at];
                assert_eq!(doing.span().map(|(_, span)| span), lane.spans.clone().find(runs));
            }
        }
    }

    #[test]
    fn a_moment_of_a_million_ctas_is_a_few_searches() {
        let (capture, _) = run();
        let mut spans = Vec::new();
        for copy in 0..=1_000_000 / capture.spans.len() as u64 {
            let by = engine::units::Nanos(copy * capture.makespan().0);
            spans.extend(capture.spans.iter().map(|span| engine::capture::Span {
                begin: span.begin + by,
                first_tile: span.first_tile + by,
                loop_end: span.loop_end + by,
                end: span.end + by,
                ..span
            }));
        }
        let capture = Capture { spans: Spans::from_unsorted(spans), ..capture };
        let lanes = Lanes::of(&capture);
        assert!(capture.spans.len() >= 1_000_000);
        let begin = Instant::now();
        let frames = 100;
        for frame in 0..frames {
            let time = lanes.end as f64 * f64::from(frame) / f64::from(frames);
            let busy = slots(&lanes, &capture.spans, time).iter().filter(|doing| doing.span().is_some()).count();
            let (begun, last) = lanes.begun(&capture.spans, time as u64);
            let (_, _, bytes) = lanes.within(&capture.spans, 0..time as u64);
            assert!(begun >= busy && last.is_some() == (begun > 0) && bytes >= 0.0);
        }
        let frame = begin.elapsed() / frames as u32;
        eprintln!("a moment of {} CTAs takes {frame:?}", capture.spans.len());
        assert!(frame.as_millis() < 16, "{frame:?}");
    }
}
