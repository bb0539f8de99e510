//! Launches of a batch with prefill, from those of its decodes.

use crate::pack::PackInput;
use crate::plan::hybrid::kernels::Grid;
use crate::plan::hybrid::pair::Pair;
use crate::plan::hybrid::sms::{self, Shares};
use crate::plan::hybrid::{Fusion, HybridFigures, Prepared};
use crate::plan::{CtaOrder, Dispatch, HybridKernel, Launch, LaunchKind, LaunchPlan, PrefillKernel};
use crate::units::PackIdx;

impl Prepared {
    /// Adds the prefill to a plan of the decodes: as launches beside theirs, or as one hybrid launch
    /// in their place.
    pub fn compose(self, input: &PackInput<'_>, plan: &mut LaunchPlan) {
        plan.decisions.splice(0..0, self.decisions.iter().cloned());
        plan.prefill = self.prefill.clone();
        if let Fusion::Beside { shares } = self.fusion {
            self.push_beside(input, plan, shares);
        } else if let Some(hybrid) = self.hybrid(plan) {
            self.retile(plan);
            plan.order = (0..plan.packs.len()).map(PackIdx::from).collect();
            let merge = plan.merge.max_partials() > 1;
            plan.launches = vec![launch(LaunchKind::Hybrid(hybrid), 0, (0, plan.order.len() as u32), Vec::new())];
            self.push_merges(plan, merge);
        } else {
            self.push_apart(plan);
        }
    }

    /// Gives the decode packs the tile of the kernel that computes them.
    fn retile(&self, plan: &mut LaunchPlan) {
        for pack in &mut plan.packs {
            pack.tile = self.kernel.decode_tile;
            pack.heads = self.kernel.decode_heads;
        }
    }

    /// Prefill as a persistent grid, and behind it on its stream the persistent decode launch of the plan, which
    /// starts as soon as all prefill CTAs have.
    fn push_beside(&self, input: &PackInput<'_>, plan: &mut LaunchPlan, shares: bool) {
        let mut prefill = launch(self.prefill_kind(), 0, (0, 0), Vec::new());
        let items = sms::items(input, &self.prefill, self.kernel.grid);
        let mut for_decode = None;
        if shares {
            let unique = input.tree.unique_tokens().as_f64() * plan.shape.kv_bytes_per_token().as_f64();
            let (k, why) = Shares::of(input.device, plan, items, unique).choose();
            prefill.sms = Some(k);
            for_decode = Some(input.device.sm_count.saturating_sub(k).max(1));
            plan.decisions.extend(input.explain.then_some(why));
        } else {
            self.retile(plan);
            let (k, why) = Pair::of(input, items).choose();
            prefill.sms = Some(k).filter(|k| *k < input.device.sm_count);
            plan.decisions.extend(input.explain.then_some(why));
        }
        for launch in &mut plan.launches {
            (launch.programmatic, launch.sms) = (true, for_decode);
            if let (LaunchKind::Persistent(tile), false) = (&mut launch.kind, shares) {
                *tile = self.kernel.decode_tile;
            }
        }
        plan.launches.insert(0, prefill);
        let end = plan.order.len() as u32;
        if self.prefill.merged_rows() > 0 {
            plan.launches.push(launch(LaunchKind::MergePrefill, 0, (end, end), vec![0]));
        }
    }

    /// A launch of prefill alone.
    fn prefill_kind(&self) -> LaunchKind {
        let kernel = PrefillKernel { tasks_begin: 0, tasks_end: self.prefill.tasks.len() as u32, cta: self.kernel.cta };
        match self.kernel.grid {
            Grid::Each => LaunchKind::Prefill(kernel),
            Grid::Queue => LaunchKind::PrefillQueue(kernel),
            Grid::FoldedQueue => LaunchKind::FoldedPrefill(kernel),
        }
    }

    /// Launches that compute the prefill alone: before those of the decodes, or behind them on a
    /// stream of its own.
    ///
    /// On streams the decodes go to the GPU first. Only so do POD's published times of streams come out
    /// (Figure 6: the same at 54 and at 55 decodes, and a gain where the decodes leave most of a wave
    /// empty): prefill in front leaves room for decodes on every SM, and would hide nearly all of them.
    fn push_apart(&self, plan: &mut LaunchPlan) {
        let streams = self.fusion == (Fusion::Apart { streams: true });
        let stream = if streams { plan.launches.iter().map(|l| l.stream + 1).max().unwrap_or(0) } else { 0 };
        let first = if streams { plan.launches.len() as u32 } else { 0 };
        let place = if streams { plan.order.len() as u32 } else { 0 };
        let mut own = vec![launch(self.prefill_kind(), stream, (place, place), Vec::new())];
        if self.prefill.merged_rows() > 0 {
            own.push(launch(LaunchKind::MergePrefill, stream, (place, place), vec![first]));
        }
        if !streams {
            let shift = own.len() as u32;
            for launch in &mut plan.launches {
                launch.after.iter_mut().for_each(|after| *after += shift);
            }
        }
        plan.launches.splice(first as usize..first as usize, own);
    }

    fn hybrid(&self, plan: &LaunchPlan) -> Option<HybridKernel> {
        let mut kernel = HybridKernel {
            tasks_begin: 0,
            tasks_end: self.prefill.tasks.len() as u32,
            cta: self.kernel.cta,
            prefill_warps: self.kernel.prefill_warps,
            decodes_per_cta: self.kernel.decodes_per_cta,
            dispatch: Dispatch::Static,
        };
        let slots = kernel.decode_slots(plan.packs.len() as u32 * plan.shape.kv_heads);
        kernel.dispatch = match self.fusion {
            Fusion::Apart { .. } | Fusion::Beside { .. } => return None,
            Fusion::Queue if self.kernel.grid == Grid::FoldedQueue => Dispatch::FoldedQueue,
            Fusion::Queue => Dispatch::Queue,
            Fusion::Static => Dispatch::Static,
            Fusion::Paired => Dispatch::Paired,
            Fusion::Tickets(policy) => Dispatch::Tickets(policy.tickets(kernel.prefill_ctas(&plan.shape), slots)),
        };
        Some(kernel)
    }

    /// FlashAttention's combine kernels, one after another behind the hybrid launch.
    fn push_merges(&self, plan: &mut LaunchPlan, decodes: bool) {
        let end = plan.order.len() as u32;
        if self.prefill.merged_rows() > 0 {
            plan.launches.push(launch(LaunchKind::MergePrefill, 0, (end, end), vec![0]));
        }
        if decodes {
            plan.launches.push(launch(LaunchKind::Merge, 0, (end, end), vec![0]));
        }
    }
}

/// A launch; decode CTAs go request by request, head by head, as FlashAttention's grid does.
fn launch(kind: LaunchKind, stream: u32, (packs_begin, packs_end): (u32, u32), after: Vec<u32>) -> Launch {
    Launch { kind, stream, packs_begin, packs_end, order: CtaOrder::HeadFastest, after, sms: None, programmatic: false }
}

impl LaunchPlan {
    /// The figures of the plan's hybrid launch, if it has one.
    pub fn hybrid_figures(&self) -> Option<HybridFigures> {
        self.launches.iter().find_map(|launch| {
            let LaunchKind::Hybrid(kernel) = launch.kind else { return None };
            let (prefill, decodes) = (kernel.prefill_ctas(&self.shape), self.decodes_of(launch));
            Some(HybridFigures {
                prefill_ctas: prefill,
                decode_ctas: decodes,
                prefill_slots: prefill,
                decode_slots: kernel.decode_slots(decodes),
                grid: kernel.grid(&self.shape, decodes),
                tickets: match kernel.dispatch {
                    Dispatch::Tickets(tickets) => Some(tickets),
                    Dispatch::Static | Dispatch::Paired | Dispatch::Queue | Dispatch::FoldedQueue => None,
                },
            })
        })
    }
}
