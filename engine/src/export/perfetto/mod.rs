//! A capture as a trace for Perfetto (<https://ui.perfetto.dev>), in its protobuf format.
//!
//! ```text
//! process   batch · scheduler · strategy on device (simulated)
//!   run                 one slice over all: source, device, clocks, errors, lost records, warnings
//!   launches            a track a stream: a slice a kernel, first of it the wait for its first CTA
//!   memory              a slice a pause of it, in a run that was measured where there are such
//!   counters            a track a series, in its unit
//!   SM 0
//!     SM 0 lane 0       a slice a CTA, in it load, compute and write; between them the bubbles
//!     SM 0 lane 1
//!   SM 1 …
//! ```
//!
//! Categories to filter by: `attention`, `prefill`, `prefill+decode` and `merge` for CTAs, `phase` for what is
//! in them, `bubble` for idle stretches, which are named by their cause, `launch`, `wait`, `pause` and `run`.
//! Siblings have names of their own, since Perfetto shows those of one name as one track.
//!
//! Events go out in the order of their time, drawn from all tracks at once, so that nothing but the capture
//! is held in memory.

mod events;
mod facts;
mod proto;
mod tracks;
mod writer;

use std::io::{self, Write};

use events::Event;
use facts::Facts;
use tracks::Tracks;
use writer::{Told, Writer};

use crate::capture::Loaded;
use crate::metrics::{Gap, gaps, on_lanes};

/// Writes a capture as a trace to `out`. What its file should have had and had not is told in the trace, which then has
/// no figure that is summed over what is lost: no bubbles where spans or kernel windows are, no busy time where spans
/// are.
///
/// # Errors
/// Those of `out`.
pub fn write_perfetto(out: &mut dyn Write, loaded: &Loaded) -> io::Result<()> {
    let mut writer = Writer::new(out);
    let capture = &loaded.capture;
    let causes = loaded.losses.spans == 0 && !loaded.losses.kernels;
    let gaps = if causes { gaps(&capture.plan, capture) } else { Vec::new() };
    let (facts, spans) = (Facts::of(capture), on_lanes(capture));
    let tracks = Tracks::of(capture, &spans);
    tracks.all.iter().try_for_each(|track| writer.track(track.clone()))?;
    let mut told = Teller { facts, loaded, gaps: &gaps };
    events::in_order(tracks.sources(capture, &spans, &gaps), |at, track, event| match event {
        Event::End => writer.end(track, at),
        Event::Count(value) => writer.count(track, at, value),
        begin => writer.begin(track, at, &told.of(begin)),
    })?;
    writer.finish()?.flush()
}

/// What is said of each slice that begins.
struct Teller<'a> {
    facts: Facts<'a>,
    loaded: &'a Loaded,
    gaps: &'a [Gap],
}

impl Teller<'_> {
    fn of(&mut self, begin: Event) -> Told {
        let capture = &self.loaded.capture;
        match begin {
            Event::Cta(at) => self.facts.cta(&capture.spans.get(at as usize)),
            Event::Phase(name) => Told::new(name, "phase"),
            Event::Gap(at) => {
                let cause = self.gaps[at as usize].cause;
                let mut told = Told::new(cause.name(), "bubble");
                told.add("cause", cause.about());
                told.add("source", capture.provenance.source_words());
                told
            }
            Event::Launch(at) => self.facts.launch(&capture.kernels[at as usize]),
            Event::Wait => Told::new("no CTA yet", "wait"),
            Event::Pause => Told::new("HBM pauses", "pause"),
            Event::Run => self.facts.run(self.loaded),
            Event::End | Event::Count(_) => Told::default(),
        }
    }
}
