//! Bubbles.
use crate::capture::Capture;
use crate::plan::LaunchPlan;
/// To come.
#[derive(Clone, Debug, PartialEq)]
pub struct BubbleReport;
/// To come.
pub fn bubbles(_plan: &LaunchPlan, _capture: &Capture) -> BubbleReport {
    BubbleReport
}
