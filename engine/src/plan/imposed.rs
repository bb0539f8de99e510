//! The launches of a system that prescribes them: phases of packs in series, and merges of its own
//! shape between or after them.
//!
//! ```text
//! two phases, gather      [64×32] ─► [16×32] ─► [merge]
//! levels, pairwise        [level 2] ─► [level 1] ─► [pairs] ─► [level 0] ─► [pairs]
//! one phase, halving      [pieces] ─► [pairs] ─► [pairs] ─► [pairs]
//! ```

use std::ops::Range;

use crate::pack::{Imposed, MergeShape};
use crate::plan::build::{merge_launch, tile_launches};
use crate::plan::{Launch, LaunchKind, MergePlan, MergeRound, PlannedPack};
use crate::units::{PackIdx, QueryIdx};
use crate::workload::PartialForm;

/// What a packing with prescribed launches becomes.
#[derive(Debug, Default)]
pub(super) struct Built {
    pub(super) order: Vec<PackIdx>,
    pub(super) launches: Vec<Launch>,
    pub(super) rounds: Vec<MergeRound>,
    /// Launches that whatever comes next has to wait for.
    barrier: Vec<u32>,
}

/// Builds the launches; with `own_streams`, the tile shapes of one phase stand on streams of their own.
pub(super) fn imposed_launches(
    packs: &[PlannedPack],
    queries: &[QueryIdx],
    merge: &MergePlan,
    imposed: &Imposed,
    own_streams: bool,
) -> Built {
    let mut built = Built::default();
    let mut joined = Joined::new(queries, merge);
    let mut begin = 0;
    for phase in &imposed.phases {
        let range = begin..(phase.packs_end as usize).min(packs.len());
        begin = range.end;
        if range.is_empty() {
            continue;
        }
        let first = built.launches.len();
        let after = std::mem::take(&mut built.barrier);
        let streams = own_streams && !imposed.one_stream;
        tile_launches(packs, range.clone(), phase.order, streams, &after, &mut built.order, &mut built.launches);
        built.barrier = (first as u32..built.launches.len() as u32).collect();
        if imposed.merge == MergeShape::Pairwise {
            joined.phase(slots_of(packs, range), &mut built);
        }
    }
    match imposed.merge {
        MergeShape::Pairwise => {}
        MergeShape::Gather => {
            if merge.max_partials() > 1 {
                built.merge(LaunchKind::Merge);
            }
        }
        MergeShape::GatherOf { form, always } => {
            let least = if always { 1 } else { 2 };
            let rows = (0..merge.starts.len() - 1).map(|at| merge.of(QueryIdx::from(at)));
            built.round(rows.filter(|row| row.len() >= least).map(|row| (row, true)), form, form);
        }
        MergeShape::Halving { form } => join_pairs(merge, form, usize::MAX, &mut built),
        MergeShape::Chain { form } => join_pairs(merge, form, 1, &mut built),
    }
    built
}

fn slots_of(packs: &[PlannedPack], range: Range<usize>) -> Range<u32> {
    let begin = packs[range.start].slots_begin;
    let last = &packs[range.end - 1];
    begin..last.slots_begin + last.queries_len
}

impl Built {
    fn merge(&mut self, kind: LaunchKind) {
        let after = std::mem::replace(&mut self.barrier, vec![self.launches.len() as u32]);
        self.launches.push(merge_launch(kind, self.order.len() as u32, after));
    }

    /// Adds a round of (slots, finishes) rows with its launch; no rows, no launch.
    fn round<R: AsRef<[u32]>>(
        &mut self,
        rows: impl Iterator<Item = (R, bool)>,
        reads: PartialForm,
        writes: PartialForm,
    ) {
        let mut round = MergeRound { starts: vec![0], reads, writes, ..MergeRound::default() };
        for (slots, finishes) in rows {
            round.slots.extend_from_slice(slots.as_ref());
            round.starts.push(round.slots.len() as u32);
            round.finishes.push(finishes);
        }
        if round.rows() > 0 {
            self.merge(LaunchKind::MergeRound(self.rounds.len() as u32));
            self.rounds.push(round);
        }
    }
}

/// Joins neighbours of each query, `most` pairs of it a round, until one is left.
fn join_pairs(merge: &MergePlan, form: PartialForm, most: usize, built: &mut Built) {
    let mut left: Vec<Vec<u32>> = (0..merge.starts.len() - 1).map(|at| merge.of(QueryIdx::from(at)).to_vec()).collect();
    while left.iter().any(|slots| slots.len() > 1) {
        let pairs = left.iter().flat_map(|slots| {
            let finishes = slots.len() == 2;
            slots.chunks_exact(2).take(most).map(move |pair| (pair, finishes))
        });
        built.round(pairs, form, form);
        for slots in &mut left {
            let pairs = (slots.len() / 2).min(most);
            let firsts = slots.iter().copied().take(2 * pairs).step_by(2);
            *slots = firsts.chain(slots.iter().copied().skip(2 * pairs)).collect();
        }
    }
}

/// Results of the phases so far, where each phase is joined to those before it.
struct Joined<'a> {
    queries: &'a [QueryIdx],
    /// Partials of each query that are still to come.
    to_come: Vec<u32>,
    /// Slot of what is joined already.
    running: Vec<Option<u32>>,
}

impl<'a> Joined<'a> {
    fn new(queries: &'a [QueryIdx], merge: &MergePlan) -> Self {
        let to_come: Vec<u32> = merge.starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        Self { queries, running: vec![None; to_come.len()], to_come }
    }

    /// Gathers split KV inside the phase, then joins the phase to what runs.
    fn phase(&mut self, slots: Range<u32>, built: &mut Built) {
        let mut of_query: Vec<(QueryIdx, u32)> = slots.map(|slot| (self.queries[slot as usize], slot)).collect();
        of_query.sort_unstable();
        let rows: Vec<&[(QueryIdx, u32)]> = of_query.chunk_by(|a, b| a.0 == b.0).collect();
        for row in &rows {
            self.to_come[row[0].0.at()] -= row.len() as u32;
        }
        if rows.iter().any(|row| row.len() > 1) {
            let inside = rows.iter().map(|row| {
                let query = row[0].0.at();
                let alone = self.to_come[query] == 0 && self.running[query].is_none();
                (row.iter().map(|(_, slot)| *slot).collect::<Vec<u32>>(), alone)
            });
            built.round(inside, PartialForm::Fp32, PartialForm::Native);
        }
        let pairs = rows.iter().filter_map(|row| {
            let query = row[0].0.at();
            self.running[query].map(|running| ([running, row[0].1], self.to_come[query] == 0))
        });
        built.round(pairs, PartialForm::Native, PartialForm::Native);
        for row in rows {
            self.running[row[0].0.at()].get_or_insert(row[0].1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::{CtaOrder, Phase};
    use crate::tile::Tile;
    use crate::units::{NodeIdx, Tokens};

    /// Packs of the given queries, a phase each; query q has its partials in the order of phases.
    fn built(phases: &[&[&[u32]]], shape: MergeShape) -> Built {
        let (mut packs, mut queries, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for phase in phases {
            for pack in *phase {
                packs.push(PlannedPack {
                    node: NodeIdx(0),
                    slots_begin: queries.len() as u32,
                    queries_len: pack.len() as u32,
                    blocks_begin: 0,
                    blocks_end: 1,
                    tokens: Tokens(16),
                    tile: Tile { m: 16, n: 16 },
                    heads: 1,
                });
                queries.extend(pack.iter().map(|query| QueryIdx(*query)));
            }
            ends.push(Phase { packs_end: packs.len() as u32, tile: None, order: CtaOrder::PackFastest });
        }
        let merge = crate::plan::build::merge_plan(&queries, 1 + queries.iter().map(|q| q.at()).max().unwrap_or(0));
        imposed_launches(&packs, &queries, &merge, &Imposed { phases: ends, merge: shape, one_stream: false }, false)
    }

    fn rows(round: &MergeRound) -> Vec<(Vec<u32>, bool)> {
        (0..round.rows()).map(|row| (round.row(row).to_vec(), round.finishes[row])).collect()
    }

    #[test]
    fn levels_join_pairwise_in_series() {
        // Slots 0, 1 of queries 0, 1; 2, 3 likewise; 4 of query 0 alone.
        let built = built(&[&[&[0, 1]], &[&[0, 1]], &[&[0]]], MergeShape::Pairwise);
        let kinds: Vec<bool> = built.launches.iter().map(|launch| launch.kind.is_merge()).collect();
        assert_eq!(kinds, [false, false, true, false, true]);
        assert_eq!(built.launches[4].after, [3]);
        assert_eq!(rows(&built.rounds[0]), [(vec![0, 2], false), (vec![1, 3], true)]);
        assert_eq!(rows(&built.rounds[1]), [(vec![0, 4], true)]);
    }

    #[test]
    fn kv_split_inside_a_level_is_gathered_in_fp32_first() {
        let built = built(&[&[&[0], &[0]], &[&[0]]], MergeShape::Pairwise);
        assert_eq!(rows(&built.rounds[0]), [(vec![0, 1], false)]);
        assert_eq!((built.rounds[0].reads, built.rounds[0].writes), (PartialForm::Fp32, PartialForm::Native));
        assert_eq!(rows(&built.rounds[1]), [(vec![0, 2], true)]);
    }

    #[test]
    fn halving_takes_the_logarithm_of_the_most_partials() {
        let phase: Vec<&[u32]> = vec![&[0, 1], &[0], &[0], &[0], &[0]];
        let built = built(&[&phase], MergeShape::Halving { form: PartialForm::Fp32MaxSum });
        // Five partials of query 0 take three rounds; query 1 writes its output itself.
        assert_eq!(built.rounds.len(), 3);
        assert_eq!(rows(&built.rounds[0]), [(vec![0, 2], false), (vec![3, 4], false)]);
        assert_eq!(rows(&built.rounds[2]), [(vec![0, 5], true)]);
    }

    #[test]
    fn a_chain_takes_in_one_partial_a_round() {
        let phase: Vec<&[u32]> = vec![&[0, 1], &[0], &[0, 1], &[0]];
        let built = built(&[&phase], MergeShape::Chain { form: PartialForm::Fp32MaxSum });
        assert_eq!(rows(&built.rounds[0]), [(vec![0, 2], false), (vec![1, 4], true)]);
        assert_eq!(rows(&built.rounds[1]), [(vec![0, 3], false)]);
        assert_eq!(rows(&built.rounds[2]), [(vec![0, 5], true)]);
        assert_eq!(built.rounds.len(), 3);
    }

    #[test]
    fn a_gather_of_all_copies_single_partials_too() {
        let all = MergeShape::GatherOf { form: PartialForm::Fp32, always: true };
        assert_eq!(rows(&built(&[&[&[0, 1]], &[&[0]]], all).rounds[0]), [(vec![0, 2], true), (vec![1], true)]);
        let some = MergeShape::GatherOf { form: PartialForm::Native, always: false };
        assert_eq!(rows(&built(&[&[&[0, 1]], &[&[0]]], some).rounds[0]), [(vec![0, 2], true)]);
    }
}
