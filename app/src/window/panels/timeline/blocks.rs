//! The runs of the timeline one under another on one time axis, each with its lanes and its title.
//!
//! A CTA runs on another SM in the simulator than on the GPU, since both hand CTAs out as SMs fall free. So
//! the runs are not laid into the same lanes: they lie in two blocks, and the CTA under the pointer is lit
//! in both.

use std::sync::Arc;

use egui::{Rect, pos2};
use engine::capture::Source;
use engine::units::counted;

use crate::runs::damage;
use crate::runs::run::Run;
use crate::timeline::folds::Folds;
use crate::timeline::layout::{Layout, View};

/// Height of a title.
const TITLE: f32 = 17.0;
/// Free pixels between two blocks.
const BETWEEN: f32 = 6.0;

/// A run in its place.
#[derive(Debug)]
pub(super) struct Block<'a> {
    /// The run.
    pub(super) run: &'a Arc<Run>,
    /// Where its title goes; none where it is the only one.
    pub(super) title: Option<Rect>,
    /// Its lanes.
    pub(super) layout: Layout,
}

impl Block<'_> {
    pub(super) fn source(&self) -> Source {
        self.run.source()
    }
}

/// Parts `area` between the runs, whose SMs are folded by hand, or into GPCs where those of a run are known.
pub(super) fn part<'a>(
    runs: &[&'a Arc<Run>],
    view: View,
    area: Rect,
    (folds, by_gpc): (&Folds, bool),
) -> Vec<Block<'a>> {
    let layout = |run: &Run, place: Rect| match run.gpcs.as_ref().filter(|_| by_gpc) {
        Some(gpcs) => Layout::by_gpc(&run.lanes, view, place, gpcs),
        None => Layout::folded(&run.lanes, view, place, folds),
    };
    let [run] = runs else {
        let height = (area.height() - BETWEEN * runs.len().saturating_sub(1) as f32) / runs.len().max(1) as f32;
        let place = |at: usize, run: &&'a Arc<Run>| {
            let top = area.top() + (height + BETWEEN) * at as f32;
            let title = Rect::from_min_max(pos2(area.left(), top), pos2(area.right(), top + TITLE));
            let lanes = Rect::from_min_max(title.left_bottom(), pos2(area.right(), top + height));
            Block { run, title: Some(title), layout: layout(run, lanes) }
        };
        return runs.iter().enumerate().map(|(at, run)| place(at, run)).collect();
    };
    vec![Block { run, title: None, layout: layout(run, area) }]
}

/// The block at a height.
pub(super) fn at<'a, 'b>(blocks: &'b [Block<'a>], y: f32) -> Option<&'b Block<'a>> {
    blocks.iter().find(|block| block.layout.rect.y_range().contains(y))
}

/// CTAs, SMs and how busy they are; of a damaged run what is left, and why the rest is not known.
pub(super) fn content(run: &Run) -> String {
    let (ctas, sms) = (&run.told.ctas, run.capture.provenance.sm_count);
    if let Some(reason) = run.damage.of_spans() {
        return format!("{ctas} on {sms} SMs · slots busy {} ({reason})", damage::UNKNOWN);
    }
    let slots = counted(u64::from(run.told.slots_per_sm), "slot");
    format!("{ctas} on {sms} SMs × {slots} · slots busy {}", run.busy(1))
}
