//! Merges by the last arrivers of a persistent launch: which kind of CTAs they fall to.

use rustc_hash::FxHashMap;

use crate::backend::sim::cost::CostModel;
use crate::backend::sim::estimate::kinds::Kinds;
use crate::plan::{LaunchPlan, PlannedPack};
use crate::units::{PackIdx, QueryIdx};

/// Adds to each kind the merges that its CTAs do in the mean, given when its last CTA ends. Gives by how much the last
/// CTA of each kind that has any merges longer than that, ns; nothing where nothing is merged so.
pub(super) fn by_last_arrivers(plan: &LaunchPlan, model: &CostModel<'_>, kinds: &mut Kinds, ends: &[f64]) -> Vec<f64> {
    if kinds.of_pack.is_empty() || plan.merge.max_partials() < 2 {
        return Vec::new();
    }
    let pack_of_slot = plan.packs_of_slots();
    let fold = model.device.merge_kernel.map_or(0, |kernel| kernel.fold);
    let heads = f64::from(plan.shape.kv_heads);
    let (mut sums, mut most) = (vec![0.0; kinds.all.len()], vec![0.0_f64; kinds.all.len()]);
    let merging = |partials: usize, pack: &PlannedPack, queries: usize| {
        let heads = pack.heads.max(1);
        model.inline_merge(&vec![partials as u32; queries * heads as usize], (pack.tile, heads), 1.0).time
    };
    // What a whole pack of a kind takes to merge its queries of so many partials.
    let mut known: FxHashMap<(u32, usize), f64> = FxHashMap::default();
    for query in plan.merge.merged_queries() {
        let partials = plan.merge.of(query).len();
        let Some((last, before)) = last_two(plan, kinds, &pack_of_slot, ends, query) else { continue };
        let kind = kinds.of_pack[last.at()] as usize;
        if partials as u32 <= fold && before <= ends[kind] - kinds.all[kind].alone() {
            continue;
        }
        let pack = plan.pack(last);
        let whole =
            *known.entry((kind as u32, partials)).or_insert_with(|| merging(partials, pack, pack.queries_len as usize));
        let ctas = heads / f64::from(pack.heads.max(1));
        sums[kind] += whole / f64::from(pack.queries_len.max(1)) * ctas;
        most[kind] = most[kind].max(whole);
    }
    for ((kind, sum), most) in kinds.all.iter_mut().zip(sums).zip(&mut most) {
        let mean = sum / kind.ctas.max(1.0);
        kind.fixed += mean;
        *most = (*most - mean).max(0.0);
    }
    most
}

/// The pack of a query that ends last by its kind, of equals the one with the most queries; and when the one before it
/// ends.
fn last_two(
    plan: &LaunchPlan,
    kinds: &Kinds,
    pack_of_slot: &[PackIdx],
    ends: &[f64],
    query: QueryIdx,
) -> Option<(PackIdx, f64)> {
    let key = |pack: PackIdx| (ends[kinds.of_pack[pack.at()] as usize], plan.pack(pack).queries_len);
    let mut last: Option<PackIdx> = None;
    let mut before = 0.0_f64;
    for slot in plan.merge.of(query) {
        let pack = pack_of_slot[*slot as usize];
        match last {
            Some(other) if key(other) >= key(pack) => before = before.max(key(pack).0),
            _ => {
                before = last.map_or(before, |other| before.max(key(other).0));
                last = Some(pack);
            }
        }
    }
    last.map(|last| (last, before))
}
