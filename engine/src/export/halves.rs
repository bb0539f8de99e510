//! The two halves of a hybrid run in `--json`.

use serde::Serialize;

use crate::capture::Capture;
use crate::metrics;
use crate::plan::LaunchPlan;

/// How prefill and decode went beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CoRunJson {
    /// End of the last prefill CTA.
    pub prefill_end_ns: u64,
    /// End of the last decode CTA.
    pub decode_end_ns: u64,
    /// Share of the SMs' time in which both ran on one of them.
    pub co_resident_share: f64,
    /// Products of prefill over its time.
    pub prefill_flops_per_s: f64,
    /// KV that decode CTAs load over their time.
    pub decode_bytes_per_s: f64,
}

pub(super) fn co_run_json(capture: &Capture) -> Option<CoRunJson> {
    let both = metrics::co_run(&capture.plan, &capture.spans, capture.provenance.sm_count)?;
    Some(CoRunJson {
        prefill_end_ns: both.prefill_end.0,
        decode_end_ns: both.decode_end.0,
        co_resident_share: both.share,
        prefill_flops_per_s: both.prefill_flops_per_s,
        decode_bytes_per_s: both.decode_bytes_per_s,
    })
}

/// SMs that the prefill launches of a plan were given.
pub(super) fn prefill_sms(plan: &LaunchPlan) -> Option<u32> {
    plan.launches.iter().find(|launch| launch.kind.is_prefill_queue()).and_then(|launch| launch.sms)
}
