//! What is said of a CTA, a launch and the whole run: names, and keys with values. A key with a unit ends in
//! it (`_ns`, `_bytes`), as in JSON.

use std::fmt::Write as _;

use rustc_hash::FxHashMap;

use super::writer::Told;
use crate::capture::{Capture, KernelWindow, Loaded, Span};
use crate::metrics::{BubbleReport, bubbles};
use crate::plan::{CtaNumbers, CtaRole, CtaWork, DecodeWork, Launch, LaunchKind, LaunchPlan, PrefillWork};
use crate::units::{Bytes, PackIdx, QueryIdx};

/// What the facts of single CTAs are drawn from.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    capture: &'a Capture,
    /// The CTAs of each launch by number.
    numbers: Vec<CtaNumbers<'a>>,
    /// Of each pack: which it is of those that share the KV of its queries, and of how many.
    splits: Vec<(u32, u32)>,
    /// The queries that the merge has to do with, in the order of its CTAs.
    merged: Vec<QueryIdx>,
}

impl<'a> Facts<'a> {
    pub(super) fn of(capture: &'a Capture) -> Self {
        let plan = &capture.plan;
        Self {
            capture,
            numbers: plan.all_numbers(),
            splits: splits(plan),
            merged: plan.merge.merged_queries().collect(),
        }
    }

    /// A CTA, or a task of a persistent worker.
    pub(super) fn cta(&self, span: &Span) -> Told {
        let numbers = self.numbers.get(span.launch as usize);
        let mut told = match numbers.and_then(|numbers| Some((numbers.launch(), numbers.work(span.cta)?))) {
            None => Told::new("CTA that the plan has not", "damaged"),
            Some((launch, work)) if span.role == CtaRole::Merge => self.merge(launch, &work),
            Some((_, work)) => self.attention(&work),
        };
        told.add("launch", span.launch);
        told.add("cta", span.cta);
        told.add("sm", span.sm);
        told.add("lane", span.slot);
        told.add("source", self.capture.provenance.source_words());
        told
    }

    fn attention(&self, work: &CtaWork<'_>) -> Told {
        let name = match (work.prefill, work.role()) {
            (Some(prefill), CtaRole::Both) => format!("prefill {} + ", prefill.task),
            (Some(prefill), _) => format!("prefill {}", prefill.task),
            (None, _) => String::new(),
        };
        let mut told = Told::new(name, work.role().name());
        let (mut kv, mut q) = (Bytes::ZERO, Bytes::ZERO);
        if let Some(prefill) = work.prefill {
            let read = self.prefill(prefill, &mut told);
            (kv, q) = (kv + read.0, q + read.1);
        }
        let decodes = work.decodes();
        let hosted = decodes.len();
        for (place, decode) in decodes.enumerate() {
            if place == 0 {
                self.pack(&decode, hosted, &mut told);
            }
            let read = self.decode_reads(&decode);
            (kv, q) = (kv + read.0, q + read.1);
        }
        told.add("kv_read_bytes", kv.0);
        told.add("q_read_bytes", q.0);
        told
    }

    /// KV and Q that a CTA loads of one (pack, head); see the traffic model in `metrics`.
    fn decode_reads(&self, decode: &DecodeWork) -> (Bytes, Bytes) {
        let (plan, shape) = (&self.capture.plan, &self.capture.plan.shape);
        let planned = plan.pack(decode.pack);
        let kv = shape.kv_bytes_per_token_head() * (planned.tokens.0 * u64::from(decode.kv_heads));
        (kv, shape.head_bytes() * (u64::from(planned.queries_len) * u64::from(decode.query_heads)))
    }

    /// The pack that a CTA computes; of several, which a hybrid kernel computes side by side, the first.
    fn pack(&self, decode: &DecodeWork, decodes: usize, told: &mut Told) {
        let pack = decode.pack;
        let Some(planned) = self.capture.plan.packs.get(pack.at()) else { return };
        // Writing to a string cannot fail.
        let _ = write!(told.name, "pack {} · {}", pack.0, planned.tile);
        if decodes > 1 {
            let _ = write!(told.name, " and {} more", decodes - 1);
            told.add("decodes", decodes as u64);
        }
        told.add("pack", pack.0);
        told.add("node", planned.node.0);
        told.add("kv_head", decode.kv_head);
        told.add("tile", planned.tile.to_string());
        told.add("queries", planned.queries_len);
        told.add("kv_tokens", planned.tokens.0);
        let (split, splits) = self.splits.get(pack.at()).copied().unwrap_or((0, 1));
        told.add("split", split);
        told.add("splits", splits);
    }

    /// A prefill task of some query heads; gives the KV and Q that its CTA loads.
    fn prefill(&self, work: PrefillWork, told: &mut Told) -> (Bytes, Bytes) {
        let PrefillWork { task, query_head, query_heads } = work;
        let (shape, prefill) = (&self.capture.plan.shape, &self.capture.plan.prefill);
        let Some(of) = prefill.tasks.get(task as usize) else { return (Bytes::ZERO, Bytes::ZERO) };
        told.add("prefill_task", task);
        told.add("query_head", query_head);
        told.add("query_heads", query_heads);
        told.add("request", of.query.0);
        told.add("prefill_tile", of.tile.to_string());
        told.add("prefill_rows", of.rows());
        told.add("prefill_kv_tokens", of.tokens().0);
        let chunk = prefill.chunks.partition_point(|chunk| chunk.tasks_end <= task);
        if let Some(chunk) = prefill.chunks.get(chunk) {
            let blocks = ((chunk.tasks_end - chunk.tasks_begin) / chunk.splits.max(1)).max(1);
            told.add("prefill_split", (task - chunk.tasks_begin) / blocks);
            told.add("prefill_splits", chunk.splits);
        }
        (
            shape.kv_bytes_per_token_head() * of.tokens().0,
            shape.head_bytes() * (u64::from(of.rows()) * u64::from(query_heads)),
        )
    }

    /// A merge: of a kernel of its own, or by the last-arriving CTA of a persistent one.
    fn merge(&self, launch: &Launch, work: &CtaWork<'_>) -> Told {
        let cta = work.merge.unwrap_or_default();
        let plan = &self.capture.plan;
        let mut told = Told::new("merge", "merge");
        match launch.kind {
            LaunchKind::Merge => {
                if let Some(query) = self.merged.get(cta as usize) {
                    told.add("request", query.0);
                    told.add("partials", plan.merge.of(*query).len() as u64);
                }
            }
            LaunchKind::MergeRound(round) => {
                if let Some(round) = plan.merge.rounds.get(round as usize) {
                    told.add("partials", round.row(cta as usize).len() as u64);
                }
            }
            LaunchKind::MergePrefill => told.add("partials", plan.prefill.partials_of_merged(cta)),
            LaunchKind::Attention(_) | LaunchKind::Persistent(_) => {
                if let Some(after) = work.first_decode() {
                    told.add("after_pack", after.pack.0);
                    told.add("kv_head", after.kv_head);
                }
            }
            LaunchKind::Prefill(_)
            | LaunchKind::PrefillQueue(_)
            | LaunchKind::FoldedPrefill(_)
            | LaunchKind::Hybrid(_) => {}
        }
        told
    }

    /// A launch, while it is on the GPU.
    pub(super) fn launch(&self, window: &KernelWindow) -> Told {
        let plan = &self.capture.plan;
        let Some(launch) = plan.launches.get(window.launch as usize) else {
            return Told::new("launch that the plan has not", "damaged");
        };
        let mut told = Told::new(format!("{} (launch {})", launch.kind, window.launch), "launch");
        told.add("launch", window.launch);
        told.add("stream", launch.stream);
        told.add("ctas", plan.ctas(launch).len() as u64);
        told.add("packs", plan.packs_of(launch).len() as u64);
        told.add("ready_ns", window.ready.0);
        told.add("begin_ns", window.begin.0);
        told.add("end_ns", window.end.0);
        told.add("source", self.capture.provenance.source_words());
        let counted = self.capture.counted.iter().flat_map(|counted| &counted.launches);
        for count in counted.filter(|of| of.launch == window.launch).flat_map(|of| &of.counts.0) {
            told.add(count.counter.name(), count.value);
        }
        told
    }

    /// CTAs that the plan has and the capture has not.
    fn lost(&self) -> u64 {
        let plan = &self.capture.plan;
        let planned: usize = plan.launches.iter().map(|launch| plan.ctas(launch).len()).sum();
        let own = |at: &usize| {
            let spans = &self.capture.spans;
            let launch = plan.launches.get(spans.launch[*at] as usize);
            spans.role[*at].computes() || launch.is_some_and(|launch| launch.kind.is_merge())
        };
        (planned as u64).saturating_sub((0..self.capture.spans.len()).filter(own).count() as u64)
    }

    /// The whole run, with what a person must know of it.
    pub(super) fn run(&self, loaded: &Loaded) -> Told {
        let capture = self.capture;
        let mut told = Told::new(format!("run ({})", capture.provenance.source_words()), "run");
        self.provenance(&mut told);
        told.add("lost_records", self.lost());
        if let Some(how) = capture.counted.as_ref().and_then(|counted| counted.sampled) {
            told.add("alignment_error_ns", how.alignment_error.0);
            told.add("sample_interval_ns", how.interval.0);
            told.add("sampled_runs", how.repeats);
            told.add("samples_rejected", how.rejected);
        }
        let counts = capture.counted.iter().flat_map(|counted| &counted.plan.0);
        counts.for_each(|count| told.add(count.counter.name(), count.value));
        let report: BubbleReport = bubbles(&capture.plan, capture);
        if loaded.losses.spans == 0 {
            told.add("slots", report.slots);
            told.add("busy_slot_ns", report.busy_slot.0);
            told.add("total_slot_ns", report.total_slot.0);
        }
        let warnings = capture.warnings.iter().map(|warning| warning.text.as_str());
        let warnings = warnings.chain(report.warnings.iter().map(String::as_str));
        told.add_some("warnings", joined(warnings));
        told.add_some("missing", joined(loaded.missing.iter().map(String::as_str)));
        told
    }

    fn provenance(&self, told: &mut Told) {
        let (capture, made) = (self.capture, &self.capture.provenance);
        told.add("source", made.source_words());
        if let Some(error) = &made.expected_error {
            told.add("expected_error", error.words());
        }
        told.add("backend", made.backend.clone());
        told.add("device", made.device.clone());
        told.add("device_name", made.device_name.clone());
        told.add_some("driver", made.driver.clone());
        told.add_some("sm_clock_khz", made.sm_clock_khz);
        told.add("peak_bytes_per_s", made.peak_bytes_per_s);
        told.add("batch", capture.batch.name.clone());
        told.add("scheduler", capture.plan.scheduler.clone());
        told.add("strategy", capture.plan.strategy.name());
        told.add("command", made.command.clone());
        told.add("packscope", made.packscope.clone());
        told.add("plan_crc", made.plan.crc);
        told.add("plan_digest_version", made.plan.version);
        let spread = capture.times.spread();
        told.add("repeats", spread.count as u64);
        told.add("makespan_median_ns", spread.median.0);
        told.add("l2", capture.times.l2.name());
        told.add("clock_step_ns", made.clock_step.0);
        told.add_some("clock_error_ns", made.clock_error_ns);
        told.add_some("probe_overhead", capture.probe_overhead);
    }
}

/// Sentences as one value: a key stands once.
fn joined<'a>(sentences: impl Iterator<Item = &'a str>) -> Option<String> {
    let all: Vec<&str> = sentences.collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Packs of the same queries share out these queries' KV: each pack's place among them by its first block,
/// and how many they are.
fn splits(plan: &LaunchPlan) -> Vec<(u32, u32)> {
    let mut by_queries: FxHashMap<&[QueryIdx], Vec<PackIdx>> = FxHashMap::default();
    for pack in (0..plan.packs.len()).map(PackIdx::from) {
        by_queries.entry(plan.queries_of(pack)).or_default().push(pack);
    }
    let mut splits = vec![(0, 1); plan.packs.len()];
    // The order of the map does not reach the result: each pack is in one entry.
    for packs in by_queries.values_mut() {
        packs.sort_by_key(|pack| (plan.pack(*pack).blocks_begin, *pack));
        for (place, pack) in packs.iter().enumerate() {
            splits[pack.at()] = (place as u32, packs.len() as u32);
        }
    }
    splits
}
