//! Where a CTA or a bubble lies, and what it is called.

use engine::capture::Source;

use crate::runs::shown::Shown;
use crate::window::selection::Selection;

/// Where something lies in a run.
pub(super) struct Place {
    pub(super) begin: f64,
    pub(super) end: f64,
    pub(super) sm: usize,
    pub(super) slot: usize,
    pub(super) name: String,
}

pub(super) fn place_of(shown: &Shown, what: Selection) -> Option<(Source, Place)> {
    let (source, begin, end, (sm, slot), name) = match what {
        Selection::Cta(source, at) => {
            let run = shown.run(source).filter(|run| at < run.capture.spans.len())?;
            let span = run.capture.spans.get(at);
            (source, span.begin, span.end, (span.sm, span.slot), format!("CTA {} of launch {}", span.cta, span.launch))
        }
        Selection::Gap(source, at) => {
            let gap = shown.run(source)?.gaps.get(at)?;
            (source, gap.begin, gap.end, (gap.sm, gap.slot), format!("{} on SM {}", gap.cause.words(), gap.sm))
        }
        Selection::None | Selection::Node(_) | Selection::Pack(_) => return None,
    };
    Some((source, Place { begin: begin.as_f64(), end: end.as_f64(), sm: sm as usize, slot: slot as usize, name }))
}
