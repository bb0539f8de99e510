//! Main loops of CTAs: what each computes, when it begins, and when its CTA goes on to its epilogue.

use super::{Cta, Event, Simulation};
use crate::backend::sim::cost::{DecodeCta, MainLoop};
use crate::backend::sim::memory::Pace;
use crate::backend::sim::runs_on::RunsOn;
use crate::plan::{CtaWork, DecodeWork, Launch, LaunchKind};
use crate::units::Nanos;

impl Simulation<'_> {
    pub(super) fn start_main_loop(&mut self, slot: u32) {
        let Cta { span, sm, follows, .. } = self.ctas[slot as usize];
        let launch = &self.plan.launches[span.launch as usize];
        let works = if let Some(merging) = self.merge_loop(launch.kind, span.cta) {
            [Some((Pace::Streams, merging)), None]
        } else {
            let work = self.plan.work_of(launch, span.cta);
            let prefill = work.as_ref().and_then(|work| self.prefill_loop(launch, work));
            let on = self.runs_on[span.launch as usize];
            let decode = work.as_ref().and_then(|work| self.decode_loop(launch, work, (on, follows)));
            let is_joined = |decode: DecodeWork| self.plan.pack(decode.pack).is_joined();
            let joined = work.is_some_and(|work| work.decodes().any(is_joined));
            [prefill.map(|work| (Pace::Computes, work)), decode.map(|work| (self.pace(&work, joined), work))]
        };
        let first = works.iter().flatten().map(|(_, work)| work.first_tile).fold(f64::INFINITY, f64::min);
        let cta = &mut self.ctas[slot as usize];
        cta.first_tile = self.now + if first.is_finite() { first } else { 0.0 };
        cta.running = works.iter().flatten().count() as u32;
        cta.written = works.iter().flatten().map(|(_, work)| work.dram_write).sum();
        if cta.running == 0 {
            // A CTA without work, such as that of an empty split, leaves at once.
            self.ctas[slot as usize].running = 1;
            return self.main_loop_done(slot);
        }
        if launch.kind.is_persistent() && self.asks_early(launch, span.cta) {
            self.take_item(span.launch, (sm, span.slot), 0);
        }
        self.settle();
        for (pace, work) in works.into_iter().flatten() {
            self.fluid.start(sm, slot, &work, pace);
        }
    }

    /// The prefill of a CTA, unless its KV range is empty.
    fn prefill_loop(&mut self, launch: &Launch, work: &CtaWork<'_>) -> Option<MainLoop> {
        let (at, task) = (work.prefill?, *work.prefill_task()?);
        let warps = match launch.kind {
            LaunchKind::Hybrid(kernel) => kernel.prefill_warps,
            LaunchKind::Prefill(kernel) | LaunchKind::PrefillQueue(kernel) | LaunchKind::FoldedPrefill(kernel) => {
                kernel.cta.warps
            }
            _ => return None,
        };
        if task.kv_begin == task.kv_end {
            return None;
        }
        let read = self.dram_bytes + self.fluid.unsettled_read(self.now);
        let kv_head = at.query_head / self.plan.shape.group();
        let hit = self.l2.touch(self.plan.packs.len() + at.task as usize, kv_head, read);
        Some(match self.own_kernel(launch, task.tile) {
            Some(kernel) => self.model.prefill_item(&task, self.plan.heads_of_prefill(launch), &kernel, hit),
            None => self.model.prefill_loop(&task, warps, hit),
        })
    }

    /// The decodes of a CTA together.
    fn decode_loop(&mut self, launch: &Launch, work: &CtaWork<'_>, (on, follows): (RunsOn, bool)) -> Option<MainLoop> {
        let mut all: Option<MainLoop> = None;
        for decode in work.decodes() {
            let pack = self.plan.pack(decode.pack);
            let read = self.dram_bytes + self.fluid.unsettled_read(self.now);
            let heads = decode.kv_head..decode.kv_head + decode.kv_heads;
            let hits: f64 = heads.map(|head| self.l2.touch(decode.pack.at(), head, read)).sum();
            let cta = if let LaunchKind::Hybrid(kernel) = launch.kind {
                self.model.virtual_cta(pack, &kernel)
            } else {
                let ahead = follows && launch.kind.is_persistent();
                let sight = self.sight[decode.pack.at()];
                DecodeCta { ahead, sight, ..self.model.cta(pack, decode.kv_heads, launch.order, on) }
            };
            let hit = hits / f64::from(decode.kv_heads);
            let written = self.written[decode.pack.at()];
            let one = match on.prefill().or_else(|| self.own_kernel(launch, pack.tile)) {
                Some(kernel) => self.model.decode_item(pack, &kernel, hit, (written, launch.order)),
                None => self.model.main_loop(pack, &cta, hit, written),
            };
            all = Some(all.map_or(one, |before| before.beside(one)));
        }
        all
    }

    pub(super) fn main_loop_done(&mut self, slot: u32) {
        let now = self.now;
        let cta = &mut self.ctas[slot as usize];
        cta.running -= 1;
        if cta.running > 0 {
            return;
        }
        if cta.merging {
            self.merge_done(slot);
            return;
        }
        cta.span.first_tile = Nanos(cta.first_tile.min(now).round() as u64);
        cta.span.loop_end = Nanos(now.round() as u64);
        let (span, written) = (cta.span, cta.written);
        let epilogue = self.epilogue(&span, written);
        if self.plan.launches[span.launch as usize].kind.is_persistent() {
            self.take_item(span.launch, (span.sm as usize, span.slot), 0);
        }
        self.at(now + epilogue, Event::Done(slot));
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use crate::backend::sim;
    use crate::cancel::Cancel;
    use crate::capture::{L2State, Span};
    use crate::plan::CtaRole;
    use crate::plan::testing::with_preferred_plan;
    use crate::tile::DOUBLE;
    use crate::workload::{AttentionShape, parse_tree};

    /// 96 CTAs of joined packs beside leaves that keep HBM full, and 192 of which some share an SM: on an H200 64 tokens took
    /// 1,490 to 1,660 ns beside a leaf, and 1,740 to 1,870 beside another of their kind.
    #[test]
    fn joined_packs_go_at_their_own_pace_whatever_hbm_gives() {
        for (tree, query_heads, paces) in [("1,384_7776,1067", 32, [96, 0]), ("1,384_6528,491", 64, [72, 120])] {
            let shape = AttentionShape { query_heads, kv_heads: 8, ..AttentionShape::default() };
            let spec = parse_tree(tree, shape).unwrap();
            with_preferred_plan(&spec, ("min-time", "h200-sxm"), |input, plan| {
                let run =
                    sim::run(&spec, plan, input.tree, input.device, L2State::Cold, "", &Cancel::default()).unwrap();
                let pace = |span: &Span| {
                    let pack = plan.pack(plan.decode_at(&plan.launches[0], span.cta).pack);
                    let time = (span.loop_end - span.first_tile).as_f64();
                    pack.is_joined().then(|| time / (pack.tokens.as_f64() / f64::from(DOUBLE.n)))
                };
                let tasks = run.spans.iter().filter(|span| span.role == CtaRole::Decode);
                let all: Vec<f64> = tasks.filter_map(|span| pace(&span)).collect();
                let within = |range: Range<f64>| all.iter().filter(|pace| range.contains(pace)).count();
                assert_eq!([within(1490.0..1660.0), within(1740.0..1870.0)], paces, "{tree}: {all:?}");
            });
        }
    }
}
