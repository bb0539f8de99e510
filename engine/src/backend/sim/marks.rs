//! What of a plan's KV its kernels mark to leave L2 first (`hw::MarkedReads`).

use std::borrow::Borrow;

use crate::backend::sim::cost::CostModel;
use crate::backend::sim::estimate::Alike;
use crate::backend::sim::runs_on::RunsOn;
use crate::plan::LaunchPlan;
use crate::tile::BULK_BLOCK;
use crate::units::Tokens;

/// The part of what comes from HBM that is marked so that what L2 held stays there, of a plan whose KV is `unique` tokens:
/// nothing where the first tasks do not mark. Which packs are alike is asked for where some may be.
pub(super) fn part<A: Borrow<Alike>>(
    model: &CostModel<'_>,
    plan: &LaunchPlan,
    unique: Tokens,
    alike: impl FnOnce() -> A,
) -> f64 {
    let Some(marks) = model.device.marked_reads.filter(|_| plan.shape.block_size >= BULK_BLOCK) else {
        return 0.0;
    };
    let in_hbm = unique.as_f64() * plan.shape.kv_bytes_per_token().as_f64();
    let reads_little = in_hbm <= marks.kv_bytes.as_f64();
    let read: u64 = plan.packs.iter().map(|pack| pack.tokens.0).sum();
    if !reads_little && (read as f64) < marks.read_again * unique.as_f64() {
        return 0.0;
    }
    let has_partials = plan.merge.merged_queries().next().is_some() || !plan.merge.rounds.is_empty();
    let alike = alike();
    let (mut marked, mut all) = (0.0, 0.0);
    for launch in &plan.launches {
        let kernels = !launch.kind.is_merge() && matches!(model.runs_on(plan, launch), RunsOn::Tiles { .. });
        for at in plan.packs_of(launch) {
            let (pack, class) = (plan.pack(*at), alike.borrow().class(*at));
            let from_hbm = pack.tokens.as_f64() * class.unique;
            let few_rows = pack.tile.m <= 16 && pack.tile.n == 16;
            all += from_hbm;
            if kernels && (class.once || (has_partials && few_rows)) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hw::{Device, MarkedReads};
    use crate::plan::testing::with_fused_plan;
    use crate::workload::{AttentionShape, parse_tree};

    /// [`part`] of what `pat` plans under `fused` of a tree at 32/8 on an H200 where so many times is much.
    fn of(tree: &str, read_again: f64) -> f64 {
        let shape = AttentionShape { query_heads: 32, kv_heads: 8, ..AttentionShape::default() };
        with_fused_plan(&parse_tree(tree, shape).unwrap(), ("pat", "h200-sxm"), |input, plan| {
            let marked_reads = input.device.marked_reads.map(|marks| MarkedReads { read_again, ..marks });
            let device = Device { marked_reads, ..input.device.clone() };
            let model = CostModel { device: &device, shape: &plan.shape };
            part(&model, plan, input.tree.unique_tokens(), || Alike::of(plan, input.tree, &device))
        })
    }

    /// Configurations 6 and 7 of PAT read 554 and 604 MB from HBM, and in all 1.1 and 1.34 times as much.
    #[test]
    fn long_runs_spare_what_l2_held_where_they_read_much_again() {
        let [sixth, seventh] = ["1,8,512_32,512,256", "1,8,512_32,2048,256"];
        assert!(of(sixth, 1.3) < 1e-9, "its first tasks do not mark");
        assert!(of(sixth, 1.05) > 0.9 && of(seventh, 1.3) > 0.8, "leaves are most of both");
        assert!(of(seventh, 1.4) < 1e-9);
        assert!(of("1,64_2048,256", 1.3) > 0.8, "little is marked from the start, whatever is read again");
    }
}
