//! The KV of a batch by who reads it: packs cut the same node at different places.
//!
//! ```text
//! packs of 64 rows    |----------------|----------------|
//! the rows left       |------|------|------|------|-----|
//! segments            |------|------|--|---|------|-----|     between two places all tokens have the same readers
//! ```

use std::ops::Range;

use crate::plan::LaunchPlan;
use crate::units::NodeIdx;
use crate::workload::PrefixTree;

/// Segments of a reading, in the mean over those of a node, beyond which places of the node are left out: requests of all
/// lengths that share it would have as many as there are packs. A segment is then met in part, and found whole.
const MEAN_SEGMENTS: usize = 16;

/// Tokens of a node, counted from the root, that a pack reads.
type Reading = (NodeIdx, Range<u64>);

/// The segments of all nodes.
#[derive(Debug)]
pub(super) struct Segments {
    /// The places of node n are `places[first[n]..first[n + 1]]`. A segment has the number of the place where it begins; none
    /// begins at the last place of a node.
    first: Vec<u32>,
    places: Vec<u64>,
}

impl Segments {
    /// Of what the packs of a plan read.
    pub(super) fn of(plan: &LaunchPlan, tree: &PrefixTree) -> Self {
        let mut readings: Vec<Reading> = Vec::with_capacity(plan.packs.len());
        for pack in &plan.packs {
            readings.extend(plan.reach(pack, tree).filter(|(_, tokens)| !tokens.is_empty()));
        }
        Self::of_readings(tree.nodes.len(), &readings)
    }

    fn of_readings(nodes: usize, readings: &[Reading]) -> Self {
        let mut ends: Vec<(NodeIdx, u64)> = Vec::with_capacity(2 * readings.len());
        let mut times = vec![0; nodes];
        for (at, (node, tokens)) in readings.iter().enumerate() {
            times[node.at()] += 1;
            // Packs of one node and cut follow each other.
            if at == 0 || readings[at - 1] != readings[at] {
                ends.extend([(*node, tokens.start), (*node, tokens.end)]);
            }
        }
        ends.sort_unstable();
        ends.dedup();
        let mut segments = Self { first: vec![0; nodes + 1], places: ends.iter().map(|(_, place)| *place).collect() };
        for (node, _) in &ends {
            segments.first[node.at() + 1] += 1;
        }
        for node in 0..nodes {
            segments.first[node + 1] += segments.first[node];
        }
        segments.thinned(readings, &times)
    }

    /// How many numbers the segments have.
    pub(super) fn count(&self) -> u32 {
        self.places.len() as u32
    }

    /// The segments of tokens of a node that some pack reads: their numbers, and how much of each.
    pub(super) fn within(&self, node: NodeIdx, tokens: Range<u64>) -> impl Iterator<Item = (u32, u64)> + use<'_> {
        let of_node = self.of_node(node.at());
        let places = &self.places[of_node.clone()];
        let at = places.partition_point(|place| *place <= tokens.start).saturating_sub(1);
        let segments = places[at..].windows(2).enumerate().take_while(move |(_, ends)| ends[0] < tokens.end);
        segments.map(move |(nth, ends)| {
            ((of_node.start + at + nth) as u32, tokens.end.min(ends[1]) - tokens.start.max(ends[0]))
        })
    }

    fn of_node(&self, node: usize) -> Range<usize> {
        self.first[node] as usize..self.first[node + 1] as usize
    }

    /// The same with fewer places where readings, so many `times` of each node, have too many segments.
    fn thinned(self, readings: &[Reading], times: &[usize]) -> Self {
        // A reading has no more segments than its node.
        let may = |node: usize| self.of_node(node).len() > MEAN_SEGMENTS;
        if !(0..times.len()).any(may) {
            return self;
        }
        let mut met = vec![0; times.len()];
        for (node, tokens) in readings.iter().filter(|(node, _)| may(node.at())) {
            met[node.at()] += self.within(*node, tokens.clone()).count();
        }
        let mut thinned = Self { first: vec![0], places: Vec::with_capacity(self.places.len()) };
        for (node, times) in times.iter().enumerate() {
            let step = met[node].div_ceil(MEAN_SEGMENTS * times.max(&1)).max(1);
            let places = &self.places[self.of_node(node)];
            let stays = |at: usize| at.is_multiple_of(step) || at + 1 == places.len();
            thinned.places.extend(places.iter().enumerate().filter(|(at, _)| stays(*at)).map(|(_, place)| place));
            thinned.first.push(thinned.places.len() as u32);
        }
        thinned
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NODES: u32 = 3;
    const TOKENS: u64 = 40;

    fn readings(most: usize) -> impl Strategy<Value = Vec<Reading>> {
        let reading = (0..NODES, 0..TOKENS, 1..=TOKENS)
            .prop_map(|(node, begin, tokens)| (NodeIdx(node), begin..(begin + tokens).min(TOKENS)));
        prop::collection::vec(reading, 1..most)
    }

    proptest! {
        #[test]
        fn tokens_of_a_segment_have_the_same_readers(readings in readings(9)) {
            let segments = Segments::of_readings(NODES as usize, &readings);
            let mut readers: Vec<Vec<usize>> = vec![Vec::new(); segments.count() as usize];
            for (reader, (node, tokens)) in readings.iter().enumerate() {
                let within: Vec<(u32, u64)> = segments.within(*node, tokens.clone()).collect();
                prop_assert_eq!(within.iter().map(|(_, tokens)| tokens).sum::<u64>(), tokens.end - tokens.start);
                for (segment, _) in within {
                    readers[segment as usize].push(reader);
                }
            }
            // Token by token.
            for node in 0..NODES {
                for token in 0..TOKENS {
                    let reads = |(of, tokens): &Reading| of.0 == node && tokens.contains(&token);
                    let expected: Vec<usize> = (0..readings.len()).filter(|at| reads(&readings[*at])).collect();
                    let Some((first, _)) = expected.first().map(|at| &readings[*at]) else { continue };
                    let found: Vec<(u32, u64)> = segments.within(*first, token..token + 1).collect();
                    prop_assert_eq!(found.len(), 1);
                    prop_assert_eq!(&readers[found[0].0 as usize], &expected);
                }
            }
        }

        #[test]
        fn readings_at_all_places_have_few_segments_and_all_of_their_tokens(begins in prop::collection::vec(0..900_u64, 200)) {
            let readings: Vec<Reading> = begins.iter().map(|begin| (NodeIdx(0), *begin..1000 - begin / 9)).collect();
            let segments = Segments::of_readings(1, &readings);
            let mut all = 0;
            for (node, tokens) in &readings {
                let within: Vec<u64> = segments.within(*node, tokens.clone()).map(|(_, tokens)| tokens).collect();
                prop_assert_eq!(within.iter().sum::<u64>(), tokens.end - tokens.start);
                all += within.len();
            }
            prop_assert!(all <= (MEAN_SEGMENTS + 2) * readings.len(), "{all}");
        }
    }
}
