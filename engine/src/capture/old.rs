//! What captures of versions 1 and 2 hold in another form.

use serde::Deserialize;

use super::budget::{Fields, Why};
use super::file::Meta;
use crate::capture::{Provenance, RunTimes, Source, Spans};
use crate::plan::{CtaRole, LaunchPlan, MergePlan, PlanDigest, PrefillPlan};
use crate::units::Nanos;

/// `META`: a plan digest of the first version, and no decisions.
#[derive(Debug, Deserialize)]
pub(super) struct OldMeta {
    provenance: OldProvenance,
    times: RunTimes,
    probe_overhead: Option<f64>,
    spans: u64,
    kernels: u32,
    counters: u32,
    warnings: u32,
}

#[derive(Debug, Deserialize)]
struct OldProvenance {
    packscope: String,
    backend: String,
    source: Source,
    device: String,
    device_name: String,
    driver: Option<String>,
    sm_clock_khz: Option<u32>,
    plan_crc: u32,
    command: String,
    sm_count: u32,
    clock_step: Nanos,
    clock_error_ns: Option<f64>,
    peak_bytes_per_s: u64,
}

impl From<OldMeta> for Meta {
    fn from(old: OldMeta) -> Self {
        let made = old.provenance;
        Self {
            provenance: Provenance {
                packscope: made.packscope,
                backend: made.backend,
                source: made.source,
                device: made.device,
                device_name: made.device_name,
                driver: made.driver,
                sm_clock_khz: made.sm_clock_khz,
                plan: PlanDigest::first(made.plan_crc),
                command: made.command,
                sm_count: made.sm_count,
                clock_step: made.clock_step,
                clock_error_ns: made.clock_error_ns,
                peak_bytes_per_s: made.peak_bytes_per_s,
                calibrated: true,
                expected_error: None,
                gpcs: Vec::new(),
                deterministic: false,
            },
            times: old.times,
            probe_overhead: old.probe_overhead,
            spans: old.spans,
            kernels: old.kernels,
            counters: old.counters,
            warnings: old.warnings,
            decisions: 0,
        }
    }
}

/// `PLAN`: merge rounds and prefill stand in chunks of their own.
pub(super) fn plan(fields: &mut Fields<'_>) -> Result<LaunchPlan, Why> {
    Ok(LaunchPlan {
        scheduler: fields.text()?,
        strategy: fields.value()?,
        device: fields.text()?,
        shape: fields.value()?,
        packs: fields.list()?,
        queries: fields.list()?,
        order: fields.list()?,
        launches: fields.list()?,
        merge: MergePlan { starts: fields.list()?, slots: fields.list()?, rounds: Vec::new() },
        prefill: PrefillPlan::default(),
        decisions: Vec::new(),
    })
}

/// `SPAN`: what computes is told from what merges, and prefill only by the plan.
pub(super) fn tell_roles(spans: &mut Spans, plan: &LaunchPlan) {
    if plan.prefill.is_empty() {
        return;
    }
    let numbers = plan.all_numbers();
    for at in 0..spans.len() {
        let work = numbers.get(spans.launch[at] as usize).and_then(|launch| launch.work(spans.cta[at]));
        if let Some(work) = work.filter(|_| spans.role[at] == CtaRole::Decode) {
            spans.role[at] = work.role();
        }
    }
}
