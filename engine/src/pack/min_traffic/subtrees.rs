//! Packs of shared KV that go on to the ends of their requests.
//!
//! Where what follows on shared KV is short, a CTA for each of its readers begins and ends more than it reads, and every
//! reader has a partial more. A subtree pack ([`Pack`]) takes all of it along: its CTA goes through the tokens of all of
//! its queries, of which a row sees its own, so it computes more products than count and no partials are left.
//!
//! Worked number, H200 at 32/8, configuration 3 of PAT: 16 queries share 2,048 tokens and have 32 each. As 16 packs for
//! four KV heads a CTA the ends take 8 · 16 / 4 times 4.3 µs of a lane, 138 µs; as 512 tokens more of eight CTAs 8 · 8 times
//! 1.28, 82 µs.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::decision::{Choice, Considered, Decision, Price, Subject};
use crate::pack::min_traffic::lanes::{lane_time, tile_of};
use crate::pack::{Pack, PackInput, Packing, SubtreeLayout};
use crate::tile::{self, FEW_ROWS, LaneTime};
use crate::units::{Bytes, NodeIdx, PackIdx, QueryIdx, Tokens};

/// The largest head dimension at which kernels have masks.
const MOST_DIMENSIONS: u32 = 128;
/// Rows of the tile that spills registers in one persistent kernel with masks.
const SPILLS: u32 = 32;

/// The most that packs may take of the lanes along with others, in times of what they take apart, to be priced as runs: where
/// HBM binds, lanes have time left. Leaves of 128 tokens behind 512 or 1,024 have 1.13 at 32/8, those of 256 have 1.33: of
/// those, whose runs are priced within 3 % of each other, most took longer along (H100).
pub(super) const AS_RUNS: f64 = 1.2;

/// The packing with packs that take along what lies below them where that takes less of the lanes than `most` times what it
/// takes apart; `None` where it is so nowhere.
pub(super) fn with_subtrees(input: &PackInput<'_>, packing: &Packing, most: f64) -> Option<Packing> {
    let shape = &input.batch.shape;
    let has_tile = input.fixed_tile.is_none() && input.tiles.feasible().contains(&SubtreeLayout::TILE);
    if !has_tile || shape.head_dim > MOST_DIMENSIONS || packing.imposed.is_some() {
        return None;
    }
    let mut wide: Vec<usize> = (0..packing.packs.len()).filter(|at| packing.packs[*at].queries_len > 1).collect();
    let mut times = Times { input, most, of: FxHashMap::default() };
    let token = times.token_along();
    if wide.is_empty() || !packing.packs.iter().any(|pack| times.may_gain(token, pack)) {
        return None;
    }
    let mut taking = Taking::new(input, packing, (token, times));
    // From the root down: who takes the most along comes first.
    wide.sort_by_key(|at| packing.packs[*at].blocks_begin);
    for at in wide {
        taking.consider(at);
    }
    let taken = taking.taken.iter().any(Option::is_some);
    (taken && run_beside(input, taking.left())).then(|| taking.packing())
}

/// Whether packs run beside such with masks in one persistent kernel without spills: none has a tile that spills there, nor
/// those of 16 rows two tiles, unless the lean one is in the place of 16×16.
fn run_beside<'a>(input: &PackInput<'_>, packs: impl Iterator<Item = &'a Pack>) -> bool {
    let (mut four_heads, mut one_head) = (false, false);
    for pack in packs {
        let tile = tile_of(input, pack, false);
        if tile.m == SPILLS {
            return false;
        }
        if tile.m < SPILLS {
            let several = LaneTime::of(input.device, tile, &input.batch.shape).heads > 1;
            four_heads |= several && pack.rows(input.batch.shape.group()) > FEW_ROWS.m;
            one_head |= !several;
        }
    }
    !(four_heads && one_head)
}

/// Subtree packs of twice the rows, whose CTAs read once what two read before; `None` where there is no kernel for them, or
/// where not all packs become such: one persistent kernel takes no others beside them.
pub(super) fn with_tall_packs(input: &PackInput<'_>, packing: &Packing) -> Option<Packing> {
    let shape = &input.batch.shape;
    let subtrees = packing.packs.iter().all(|pack| pack.is_subtree(shape.block_size));
    let has_kernel = tile::has_kernel(input.device, SubtreeLayout::TALL, shape.head_dim);
    if !subtrees || !has_kernel || shape.block_size < tile::BULK_BLOCK {
        return None;
    }
    // The packs of a node, and their queries.
    let mut of_node: BTreeMap<(NodeIdx, u32), (Pack, u64, Vec<QueryIdx>)> = BTreeMap::new();
    for pack in &packing.packs {
        let (_, read, queries) = of_node.entry((pack.node, pack.blocks_begin)).or_insert((*pack, 0, Vec::new()));
        *read += pack.tokens.0;
        queries.extend_from_slice(packing.queries_of(pack));
    }
    let most = (SubtreeLayout::TALL.m / shape.group()) as usize;
    let mut packs = Vec::new();
    for (pack, read, queries) in of_node.values() {
        let count = queries.len().div_ceil(most);
        for own in even_parts(queries, count) {
            let shared = u64::from(pack.block_count()) * u64::from(shape.block_size);
            let tokens = Tokens(shared) + tokens_below(input, pack.node, own);
            packs.push((Pack { queries_len: own.len() as u32, tokens, ..*pack }, own, read / count as u64));
        }
    }
    if packs.iter().any(|(pack, ..)| SubtreeLayout::tile(pack.rows(shape.group())) != SubtreeLayout::TALL) {
        return None;
    }
    packs.sort_by_key(|(pack, ..)| Reverse((pack.tokens, pack.queries_len)));
    let mut tall = Packing { decisions: packing.decisions.clone(), ..Packing::default() };
    tall.decisions.records.retain(|decision| !matches!(decision.subject, Subject::Pack(_)));
    for (at, (pack, queries, before)) in packs.into_iter().enumerate() {
        if input.explain {
            let rule = "where all packs are subtrees, CTAs of twice the rows read once what two read before";
            let read = (pack.tokens, Tokens(before));
            tall.decisions.records.push(explain_rows(PackIdx::from(at), read, shape.kv_bytes_per_token(), rule));
        }
        tall.packs.push(Pack { queries_begin: tall.queries.len() as u32, ..pack });
        tall.queries.extend_from_slice(queries);
    }
    Some(tall)
}

/// Tokens of the blocks below a node that some of its queries have.
fn tokens_below(input: &PackInput<'_>, node: NodeIdx, queries: &[QueryIdx]) -> Tokens {
    let tree = input.tree;
    let blocks: u64 = tree.below(node, queries).iter().map(|below| tree.node(*below).blocks.len() as u64).sum();
    Tokens(blocks * u64::from(input.batch.shape.block_size))
}

/// What packs take of the lanes.
struct Times<'a> {
    input: &'a PackInput<'a>,
    /// What packs may take along with others, in times of what they take apart.
    most: f64,
    /// Of packs of so many queries and tokens, ns.
    of: FxHashMap<(u32, Tokens), f64>,
}

impl Times<'_> {
    /// As a pack of its own, ns.
    fn apart(&mut self, pack: &Pack) -> f64 {
        let input = self.input;
        *self.of.entry((pack.queries_len, pack.tokens)).or_insert_with(|| {
            let time = lane_time(input, pack, false);
            let ctas = f64::from(input.batch.shape.kv_heads.div_ceil(time.heads));
            ctas * time.cta(pack.tokens.as_f64(), time.per_sm)
        })
    }

    /// A token in a subtree pack, ns.
    fn token_along(&self) -> f64 {
        let tall = LaneTime::of(self.input.device, SubtreeLayout::TILE, &self.input.batch.shape);
        f64::from(self.input.batch.shape.kv_heads) * tall.token(tall.per_sm)
    }

    /// Whether a pack may take less of the lanes along with another. Where none does by itself, none do together.
    fn may_gain(&mut self, token: f64, pack: &Pack) -> bool {
        pack.blocks_begin > 0 && token * alone(self.input, pack).as_f64() < self.most * self.apart(pack)
    }
}

/// Tokens that a pack reads of a node that one request has.
fn alone(input: &PackInput<'_>, pack: &Pack) -> Tokens {
    let node = input.tree.node(pack.node);
    if node.query_count() == 1 { pack.tokens.min(node.tokens) } else { Tokens::ZERO }
}

/// What a pack takes along.
#[derive(Clone, Copy)]
struct Taken {
    /// Tokens of the pack then.
    tokens: Tokens,
    /// Of the lanes, ns: taken along, and as packs of their own.
    along: f64,
    apart: f64,
}

/// Which packs take which others along.
struct Taking<'a> {
    input: &'a PackInput<'a>,
    packing: &'a Packing,
    /// What a token takes of the lanes along with others, ns.
    token: f64,
    /// Packs of request q are `packs[starts[q]..starts[q + 1]]`.
    starts: Vec<u32>,
    packs: Vec<u32>,
    /// How many of the queries at hand read each pack.
    readers: Vec<u32>,
    times: Times<'a>,
    /// Whether another pack has taken it along.
    gone: Vec<bool>,
    /// Those that are subtree packs now.
    taken: Vec<Option<Taken>>,
}

impl<'a> Taking<'a> {
    fn new(input: &'a PackInput<'a>, packing: &'a Packing, (token, times): (f64, Times<'a>)) -> Self {
        let (starts, packs) = packs_of_requests(input, packing);
        let count = packing.packs.len();
        Self {
            input,
            packing,
            token,
            starts,
            packs,
            readers: vec![0; count],
            times,
            gone: vec![false; count],
            taken: vec![None; count],
        }
    }

    /// Lets a pack take along all behind it, where its rows fit, nobody else reads there and it gains time.
    fn consider(&mut self, at: usize) {
        let shape = &self.input.batch.shape;
        let pack = &self.packing.packs[at];
        let whole = pack.tokens.0 == u64::from(pack.block_count()) * u64::from(shape.block_size);
        let ends = pack.blocks_end == self.input.tree.node(pack.node).blocks.end;
        let queries = self.packing.queries_of(pack);
        if self.gone[at] || !whole || !ends || pack.rows(shape.group()) > SubtreeLayout::TILE.m {
            return;
        }
        let Some(behind) = self.behind(pack, queries) else { return };
        let packing = self.packing;
        let apart: f64 = behind.iter().map(|other| self.times.apart(&packing.packs[*other as usize])).sum();
        let most = self.times.most * apart;
        // Most are told by the tokens that each has alone.
        if behind.is_empty() || self.token * self.tokens_alone(&behind).as_f64() >= most {
            return;
        }
        let below = tokens_below(self.input, pack.node, queries);
        let along = self.token * below.as_f64();
        if along >= most {
            return;
        }
        for other in &behind {
            self.gone[*other as usize] = true;
        }
        self.taken[at] = Some(Taken { tokens: pack.tokens + below, along, apart });
    }

    /// The packs behind one on the way to the ends of its queries; `None` where they are of other queries too.
    fn behind(&mut self, pack: &Pack, queries: &[QueryIdx]) -> Option<Vec<u32>> {
        let packs = &self.packing.packs;
        let mut behind = Vec::new();
        for query in queries {
            let of_query = self.starts[query.at()] as usize..self.starts[query.at() + 1] as usize;
            for other in &self.packs[of_query] {
                if packs[*other as usize].blocks_begin >= pack.blocks_end {
                    let readers = &mut self.readers[*other as usize];
                    if *readers == 0 {
                        behind.push(*other);
                    }
                    *readers += 1;
                }
            }
        }
        let mut own = true;
        for other in &behind {
            own &= std::mem::take(&mut self.readers[*other as usize]) == packs[*other as usize].queries_len;
        }
        own.then_some(behind)
    }

    /// Of what packs read the tokens of nodes that one request has.
    fn tokens_alone(&self, packs: &[u32]) -> Tokens {
        packs.iter().map(|number| alone(self.input, &self.packing.packs[*number as usize])).sum()
    }

    /// The packs that no other has taken along, as they were.
    fn left(&self) -> impl Iterator<Item = &'a Pack> + '_ {
        self.packing.packs.iter().zip(&self.gone).filter_map(|(pack, gone)| (!gone).then_some(pack))
    }

    /// The packs that are left, the longest first.
    fn packing(&self) -> Packing {
        let mut packs: Vec<(usize, Pack)> = Vec::with_capacity(self.packing.packs.len());
        for (at, pack) in self.packing.packs.iter().enumerate().filter(|(at, _)| !self.gone[*at]) {
            let tokens = self.taken[at].map_or(pack.tokens, |taken| taken.tokens);
            packs.push((at, Pack { tokens, ..*pack }));
        }
        packs.sort_by_key(|(_, pack)| Reverse((pack.tokens, pack.queries_len)));
        let mut decisions = self.packing.decisions.clone();
        if self.input.explain {
            let places: FxHashMap<u32, usize> =
                packs.iter().enumerate().map(|(to, (at, _))| (*at as u32, to)).collect();
            decisions.records.retain_mut(|decision| match &mut decision.subject {
                Subject::Pack(pack) => places.get(&pack.0).map(|to| *pack = PackIdx::from(*to)).is_some(),
                _ => true,
            });
            let taken = packs.iter().enumerate().filter_map(|(to, (at, _))| Some((to, self.taken[*at]?)));
            decisions.records.extend(taken.map(|(to, taken)| explain(to, taken)));
        }
        let packs = packs.into_iter().map(|(_, pack)| pack).collect();
        Packing { packs, queries: self.packing.queries.clone(), decisions, ..Packing::default() }
    }
}

/// The packs of each request, by counting.
fn packs_of_requests(input: &PackInput<'_>, packing: &Packing) -> (Vec<u32>, Vec<u32>) {
    let mut starts = vec![0_u32; input.batch.requests().len() + 1];
    for query in packing.packs.iter().flat_map(|pack| packing.queries_of(pack)) {
        starts[query.at() + 1] += 1;
    }
    for at in 1..starts.len() {
        starts[at] += starts[at - 1];
    }
    let (mut next, mut packs) = (starts.clone(), vec![0; starts.last().copied().unwrap_or(0) as usize]);
    for (number, pack) in (0..).zip(&packing.packs) {
        for query in packing.queries_of(pack) {
            packs[next[query.at()] as usize] = number;
            next[query.at()] += 1;
        }
    }
    (starts, packs)
}

fn explain(at: usize, taken: Taken) -> Decision {
    let way = |what, time: f64| Considered::new(what, time * 1e-3, Price::one_cta(time));
    Decision {
        subject: Subject::Pack(PackIdx::from(at)),
        other: None,
        choice: Choice::Sharing,
        considered: vec![way("take along what is below", taken.along), way("packs of their own", taken.apart)],
        chosen: 0,
        unit: "µs of a lane".into(),
        rule:
            "a CTA goes on to the ends of its requests where that takes less of the lanes than CTAs for what is there, or little more and the run is shorter"
                .into(),
        constant: None,
    }
}

/// Queries in so many parts, as even as can be.
pub(super) fn even_parts(queries: &[QueryIdx], count: usize) -> impl Iterator<Item = &[QueryIdx]> {
    (0..count).map(move |at| &queries[queries.len() * at / count..queries.len() * (at + 1) / count])
}

/// Why a pack has twice the rows: what is read now and was before.
pub(super) fn explain_rows(
    at: PackIdx,
    (tokens, before): (Tokens, Tokens),
    of_token: Bytes,
    rule: &'static str,
) -> Decision {
    let way =
        |what, read: Tokens| Considered::new(what, read.as_f64(), Price::traffic(read.as_f64() * of_token.as_f64()));
    Decision {
        subject: Subject::Pack(at),
        other: None,
        choice: Choice::Sharing,
        considered: vec![way("at most 128 rows", tokens), way("at most 64 rows", before)],
        chosen: 0,
        unit: "KV tokens read".into(),
        rule: rule.into(),
        constant: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hw;
    use crate::pack::min_traffic::time::MinTime;
    use crate::pack::testing::with_input;
    use crate::pack::{Scheduler as _, coverage};
    use crate::workload::{AttentionShape, Batch, PrefixTree, parse_tree, random_forest};

    fn tree(text: &str, heads: (u32, u32)) -> Batch {
        let shape = AttentionShape { query_heads: heads.0, kv_heads: heads.1, block_size: 32, ..Default::default() };
        parse_tree(text, shape).unwrap().build().unwrap()
    }

    /// Subtree packs of the first cut of `min-time`, and all packs there are then.
    fn taken(batch: &Batch, most: f64) -> Option<(usize, usize)> {
        with_input(batch, &PrefixTree::of(batch), ("h200-sxm", None), |input| {
            let packing = with_subtrees(input, &MinTime.pack(input).unwrap(), most)?;
            coverage(batch, &packing).unwrap();
            let subtrees = packing.packs.iter().filter(|pack| pack.is_subtree(batch.shape.block_size)).count();
            Some((subtrees, packing.packs.len()))
        })
    }

    #[test]
    fn short_leaves_of_long_prefixes_come_along_and_long_ones_do_not() {
        assert_eq!(taken(&tree("1,1024_2048,32", (32, 8)), 1.0), Some((64, 64)), "the worked number");
        assert_eq!(taken(&tree("1,8,512_32,2048,256", (32, 8)), AS_RUNS), None);
        assert_eq!(taken(&tree("1,512_1024,96", (64, 8)), 1.0), None);
        assert_eq!(taken(&tree("1,512_1024,96", (64, 8)), AS_RUNS), Some((64, 64)), "a run of those is shorter");
        assert_eq!(taken(&tree("64_2048", (32, 8)), AS_RUNS), None, "nothing is shared");
    }

    #[test]
    fn beside_tiles_of_32_rows_there_are_none() {
        let beside = |heads| {
            let mut spec = parse_tree("1,1024_2048,32", AttentionShape::default()).unwrap();
            (spec.shape.query_heads, spec.shape.kv_heads, spec.shape.block_size) = heads;
            spec.requests.push(crate::workload::parse_decode("1x20000").unwrap());
            taken(&spec.build().unwrap(), 1.0).is_some()
        };
        assert!(beside((32, 8, 32)), "one of four rows runs on the lean tile");
        assert!(beside((48, 4, 32)), "one of twelve on that of 16");
        assert!(beside((80, 4, 32)), "one of twenty on that of 64, whose steps take less");
        let batch = tree("1,40_256,16", (80, 4));
        let mut device = hw::find("h200-sxm").unwrap().clone();
        device.kernels.iter_mut().find(|kernel| (kernel.m, kernel.n) == (64, 64)).unwrap().chain = None;
        let tiles = crate::tile::solve(&device, batch.shape.head_dim, batch.shape.dtype);
        with_input(&batch, &PrefixTree::of(&batch), ("h200-sxm", None), |input| {
            let input = PackInput { device: &device, tiles: &tiles, ..*input };
            let pack = Pack { queries_len: 1, ..MinTime.pack(&input).unwrap().packs[0] };
            assert!(
                !run_beside(&input, [pack].iter()),
                "where nobody timed those, one of twenty has none beside masks"
            );
        });
    }

    #[test]
    fn beside_masks_packs_of_16_rows_have_one_tile() {
        let batch = tree("1,40_256,16", (48, 4));
        // By the paper's rule, which GPUs have that nobody timed, long KV has a tile of one head and short KV one of four.
        let mut device = hw::find("h200-sxm").unwrap().clone();
        device.tile_steps.clear();
        let tiles = crate::tile::solve(&device, batch.shape.head_dim, batch.shape.dtype);
        with_input(&batch, &PrefixTree::of(&batch), ("h200-sxm", None), |input| {
            let input = PackInput { device: &device, tiles: &tiles, ..*input };
            let of = |tokens| {
                let mut pack = MinTime.pack(&input).unwrap().packs[0];
                (pack.queries_len, pack.tokens) = (1, Tokens(tokens));
                pack
            };
            let run =
                |tokens: &[u64]| run_beside(&input, tokens.iter().map(|tokens| of(*tokens)).collect::<Vec<_>>().iter());
            assert!(run(&[4096, 4096]) && run(&[16, 16]));
            assert!(!run(&[4096, 16]), "16x64 and 16x16");
        });
    }

    #[test]
    fn every_packing_of_min_time_computes_each_token_once() {
        let device = hw::find("h200-sxm").unwrap();
        let mut some = 0;
        for number in 0..60 {
            let batch = random_forest(20_319_000, number).build().unwrap();
            with_input(&batch, &PrefixTree::of(&batch), (&device.key, None), |input| {
                for packing in MinTime.packings(input).unwrap() {
                    coverage(&batch, &packing).unwrap();
                    some += packing.packs.iter().filter(|pack| pack.is_subtree(batch.shape.block_size)).count();
                }
            });
        }
        assert!(some > 10, "{some} subtree packs");
    }

    #[test]
    fn where_all_packs_are_subtrees_they_may_have_twice_the_rows() {
        let tall = |text: &str, (query_heads, kv_heads, block_size), device| {
            let shape = AttentionShape { query_heads, kv_heads, block_size, ..AttentionShape::default() };
            let batch = parse_tree(text, shape).unwrap().build().unwrap();
            with_input(&batch, &PrefixTree::of(&batch), (device, None), |input| {
                let packing = with_subtrees(input, &MinTime.pack(input).unwrap(), 1.0)?;
                let tall = with_tall_packs(&PackInput { explain: true, ..*input }, &packing)?;
                coverage(&batch, &tall).unwrap();
                let rows = tall.packs.iter().map(|pack| pack.rows(batch.shape.group()));
                assert!(rows.clone().all(|rows| rows > 64 && rows <= 128), "{:?}", rows.collect::<Vec<_>>());
                let explained = |decision: &&Decision| matches!(decision.subject, Subject::Pack(_));
                assert_eq!(tall.decisions.records.iter().filter(explained).count(), tall.packs.len());
                Some(tall.packs.len())
            })
        };
        assert_eq!(tall("1,1024_2048,32", (32, 8, 32), "h200-sxm"), Some(32), "half as many");
        assert_eq!(
            tall("1,1000_2048,32", (24, 8, 16), "h200-sxm"),
            Some(24),
            "42 of three rows in one, as even as can be"
        );
        assert_eq!(tall("1,1024_2048,32", (32, 8, 8), "h200-sxm"), None, "small blocks come without bulk copies");
        assert_eq!(tall("1,1024_2048,32", (32, 8, 32), "a100-sxm-80gb"), None, "no kernel");
    }

    #[test]
    fn decisions_follow_their_packs() {
        let batch = tree("1,1024_2048,32", (32, 8));
        with_input(&batch, &PrefixTree::of(&batch), ("h200-sxm", None), |input| {
            let packing = with_subtrees(input, &MinTime.pack(input).unwrap(), 1.0).unwrap();
            let of_packs = packing.decisions.records.iter().filter_map(|decision| match decision.subject {
                Subject::Pack(pack) => Some(pack.at()),
                _ => None,
            });
            let of_packs: Vec<usize> = of_packs.collect();
            assert!(of_packs.len() >= 64 && of_packs.iter().all(|pack| *pack < packing.packs.len()), "{of_packs:?}");
        });
    }
}
