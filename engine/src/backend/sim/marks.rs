//! What of a plan's KV its kernels mark to leave L2 first (`hw::MarkedReads`).

use std::borrow::Borrow;

use crate::backend::sim::cost::CostModel;
use crate::backend::sim::estimate::Alike;
use crate::backend::sim::runs_on::RunsOn;
use crate::plan::LaunchPlan;
use crate::tile::BULK_BLOCK;
use crate::units::Tokens;

/// The part of what comes from HBM that is marked, of a plan whose KV is `unique` tokens. Which packs are alike is asked for
/// where some may be.
pub(super) fn part<A: Borrow<Alike>>(
    model: &CostModel<'_>,
    plan: &LaunchPlan,
    unique: Tokens,
    alike: impl FnOnce() -> A,
) -> f64 {
    let Some(marks) = model.device.marked_reads.filter(|_| plan.shape.block_size >= BULK_BLOCK) else {
        return 0.0;
    };
    let token_bytes = plan.shape.kv_bytes_per_token().as_f64();
    let in_hbm = unique.as_f64() * token_bytes;
    let short =
        |tokens: Tokens| tokens.as_f64() * token_bytes / f64::from(plan.shape.kv_heads) <= marks.short_bytes.as_f64();
    let reads_little = in_hbm <= marks.kv_bytes.as_f64();
    let has_partials = plan.merge.merged_queries().next().is_some() || !plan.merge.rounds.is_empty();
    if !reads_little && !has_partials {
        return 0.0;
    }
    let alike = alike();
    let (mut marked, mut all) = (0.0, 0.0);
    for launch in &plan.launches {
        let kernels = !launch.kind.is_merge() && matches!(model.runs_on(plan, launch), RunsOn::Tiles { .. });
        for at in plan.packs_of(launch) {
            let (pack, class) = (plan.pack(*at), alike.borrow().class(*at));
            let from_hbm = pack.tokens.as_f64() * class.unique;
            let few_rows = pack.tile.m <= 16 && pack.tile.n == 16;
            let makes_room = has_partials && few_rows && (short(pack.tokens) || !class.once);
            all += from_hbm;
            if kernels && (makes_room || (class.once && reads_little)) {
                marked += from_hbm;
            } else if kernels && reads_little && pack.is_subtree(plan.shape.block_size) {
                // What lies below no other pack reads; what is shared is not marked.
                let shared = f64::from((pack.blocks_end - pack.blocks_begin) * plan.shape.block_size);
                marked += (pack.tokens.as_f64() - shared).min(from_hbm);
            }
        }
    }
    if all > 0.0 { marked / all } else { 0.0 }
}
