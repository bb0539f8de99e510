//! The launches that plans of decodes usually have, and the arrays of a plan with room for them.

use kernels::{Launch, MergeRows, PlanArrays, Work};

/// How the packs of a plan are launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// One launch a tile, one after the other, then the merge.
    Serial,
    /// One stream a tile, joined before the merge.
    Streams,
    /// One persistent launch with the merge inside.
    Fused,
    /// Likewise on two SMs: each CTA has many tasks, and finds what earlier ones have left.
    OnTwoSms,
    /// Likewise, in what prefill leaves of each SM.
    Beside,
}

/// The launches of a plan's packs.
pub(crate) fn launches(plan: &PlanArrays<'_>, way: Way) -> Vec<Launch> {
    let packs = || 0..plan.packs.len() as u32;
    if matches!(way, Way::Fused | Way::OnTwoSms | Way::Beside) {
        let (beside, sms) = (way == Way::Beside, (way == Way::OnTwoSms).then_some(2));
        return vec![Launch { beside, sms, ..Launch::new(Work::Queue(packs().collect())) }];
    }
    let mut launches: Vec<Launch> = Vec::new();
    for tile in 0..plan.tiles.len() as u32 {
        let own: Vec<u32> = packs().filter(|pack| plan.packs[*pack as usize].tile == tile).collect();
        if !own.is_empty() {
            let stream = if way == Way::Streams { launches.len() as u32 } else { 0 };
            launches.push(Launch { stream, ..Launch::new(Work::Packs(own)) });
        }
    }
    let mut merge = MergeRows::default();
    for (query, run) in (0..).zip(plan.merge_offsets.windows(2)).filter(|(_, run)| run[1] - run[0] > 1) {
        merge.push(&plan.merge_slots[run[0] as usize..run[1] as usize], query);
    }
    if !merge.targets.is_empty() {
        let after = (0..launches.len() as u32).collect();
        launches.push(Launch { after, ..Launch::new(Work::Merge(merge)) });
    }
    launches
}
