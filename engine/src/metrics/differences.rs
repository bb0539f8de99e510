//! Two runs of one plan, CTA by CTA: what the GPU did beside what the simulator said.
//!
//! Both runs count from their own start. A CTA is the same in both when kind, launch and number are. A
//! merge that the last arriver of a persistent launch does on the side belongs to no CTA of the plan, since
//! which task does it differs from run to run; it is counted as alone.

use crate::capture::{Capture, Spans};
use crate::plan::CtaRole;

/// One CTA of the plan in both runs. Differences are simulated − measured, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Twin {
    /// Its span in the measured run.
    pub measured: usize,
    /// Its span in the simulated run.
    pub simulated: usize,
    /// How much later it begins where simulated.
    pub begin: i64,
    /// How much longer it takes where simulated.
    pub duration: i64,
}

/// Every CTA that both runs have, by measured span.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// The CTAs.
    pub twins: Vec<Twin>,
    /// Spans of the measured run that the simulated one has not.
    pub only_measured: usize,
    /// Spans of the simulated run that the measured one has not.
    pub only_simulated: usize,
    /// Twins by simulated span.
    by_simulated: Vec<usize>,
}

impl Differences {
    /// Pairs the CTAs of two captures of one plan, in O(n log n).
    pub fn of(measured: &Capture, simulated: &Capture) -> Self {
        let (ours, theirs) = (keys(measured), keys(simulated));
        let mut twins = Vec::with_capacity(ours.len().min(theirs.len()));
        let mut at = 0;
        for (key, span) in ours {
            while theirs.get(at).is_some_and(|(other, _)| *other < key) {
                at += 1;
            }
            if let Some((_, other)) = theirs.get(at).filter(|(other, _)| *other == key) {
                twins.push(twin((&measured.spans, span), (&simulated.spans, *other)));
                at += 1;
            }
        }
        twins.sort_unstable_by_key(|twin| twin.measured);
        let mut by_simulated: Vec<usize> = (0..twins.len()).collect();
        by_simulated.sort_unstable_by_key(|at| twins[*at].simulated);
        Self {
            only_measured: measured.spans.len() - twins.len(),
            only_simulated: simulated.spans.len() - twins.len(),
            twins,
            by_simulated,
        }
    }

    /// The CTA of a measured span.
    pub fn of_measured(&self, span: usize) -> Option<&Twin> {
        let at = self.twins.binary_search_by_key(&span, |twin| twin.measured).ok()?;
        self.twins.get(at)
    }

    /// The CTA of a simulated span.
    pub fn of_simulated(&self, span: usize) -> Option<&Twin> {
        let at = self.by_simulated.binary_search_by_key(&span, |at| self.twins[*at].simulated).ok()?;
        self.twins.get(self.by_simulated[at])
    }

    /// Medians of begin and duration differences; `None` where no CTA is in both.
    pub fn medians(&self) -> Option<(i64, i64)> {
        let median = |value: fn(&Twin) -> i64| {
            let mut values: Vec<i64> = self.twins.iter().map(value).collect();
            values.sort_unstable();
            values.get(values.len() / 2).copied()
        };
        median(|twin| twin.begin).zip(median(|twin| twin.duration))
    }
}

type Key = (CtaRole, u32, u32);

/// CTAs of the plan with their spans, sorted.
fn keys(capture: &Capture) -> Vec<(Key, usize)> {
    let spans = &capture.spans;
    let aside = |at: usize| {
        let launch = capture.plan.launches.get(spans.launch[at] as usize);
        spans.role[at] == CtaRole::Merge && launch.is_none_or(|launch| !launch.kind.is_merge())
    };
    let all = (0..spans.len()).filter(|at| !aside(*at));
    let mut keys: Vec<(Key, usize)> = all.map(|at| ((spans.role[at], spans.launch[at], spans.cta[at]), at)).collect();
    keys.sort_unstable();
    keys
}

fn twin(measured: (&Spans, usize), simulated: (&Spans, usize)) -> Twin {
    let begin = |(spans, at): (&Spans, usize)| spans.begin[at].cast_signed();
    let duration = |(spans, at): (&Spans, usize)| spans.end[at].saturating_sub(spans.begin[at]).cast_signed();
    Twin {
        measured: measured.1,
        simulated: simulated.1,
        begin: begin(simulated) - begin(measured),
        duration: duration(simulated) - duration(measured),
    }
}
