//! What packs take on a device, by a closed form: the time of a CTA, the load of a lane, the makespan.
//!
//! It knows what the simulator knows (the device table), but only packs of one kind at a time and no L2: KV comes
//! from HBM once and from L2 for every further reading.

use rustc_hash::FxHashMap;

use crate::hw::{Device, SharedMerges};
use crate::pack::min_traffic::queue::{Tasks, last_task, queue, stretched};
use crate::pack::{Pack, PackInput, Packing};
use crate::tile::{self, LaneTime, Tile, TileRule};

/// How much later than by their times packs above leaves may arrive. Leaves that end 7 % later still arrive last on an
/// H200 (configuration 1 of PAT in pieces of 512 and 224 tokens: 23.3 µs, and 29.0 in 608 and 224).
const SPREAD: f64 = 1.05;

/// How packs read KV that others read too, which tells where it comes from when L2 does not hold all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// Together: packs of one node are alike, so they follow each other in the queue. All but the first find it in L2.
    Together,
    /// Apart: packs that begin at a root for requests of any lengths. Each reads HBM.
    Apart,
}

/// Packs that are alike: their tile, tokens and number of queries, and whether requests end with them.
#[derive(Clone, Copy, Debug)]
struct Class {
    time: LaneTime,
    ends: bool,
    tokens: f64,
    blocks: u32,
    packs: f64,
    queries: u32,
}

/// Queries whose packs are of the same classes.
#[derive(Clone, Debug, Default)]
struct Path {
    classes: Vec<u32>,
    queries: f64,
}

/// The closed form's view of a packing on a device.
#[derive(Debug)]
pub(super) struct Lanes<'a> {
    device: &'a Device,
    kv_heads: f64,
    group: u32,
    head_dim: u32,
    kv_token: f64,
    query: f64,
    partial: f64,
    /// KV bytes that any packing reads.
    compulsory: f64,
    again: Again,
    classes: Vec<Class>,
    class_of: Vec<u32>,
    paths: Vec<Path>,
}

/// The most KV time of a CTA, ns, and how many times that the packs at the ends of requests may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    time: f64,
    ends: f64,
}

/// The parts of a makespan, ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Makespan {
    /// Load of a lane where all have the same.
    lane: f64,
    /// When the last lane is done.
    end: f64,
    /// Time of the memory system for all bytes.
    memory: f64,
    /// The merges: a lane's share, and the last one.
    merge: f64,
    /// The same where CTAs without tasks share what the last ones merge.
    shared_merge: f64,
    /// The most partials of a query.
    partials: u32,
    /// CTAs of a lane.
    waves: f64,
}

impl Makespan {
    /// All of it.
    pub(super) fn total(&self) -> f64 {
        self.end + self.merge
    }

    /// All of it where CTAs without tasks share merges.
    pub(super) fn total_shared(&self) -> f64 {
        self.end + self.shared_merge
    }

    /// The most partials of a query.
    pub(super) fn partials(&self) -> u32 {
        self.partials
    }

    /// Whether each lane has one CTA at most.
    pub(super) fn is_one_wave(&self) -> bool {
        self.waves <= 1.0
    }

    /// CTAs of a lane, in the mean over all.
    pub(super) fn waves(&self) -> f64 {
        self.waves
    }

    /// Whether better cuts could gain a fiftieth: the last lane ends that much later than with all lanes and the
    /// memory system busy throughout.
    pub(super) fn has_tail(&self) -> bool {
        self.total() > 1.02 * self.lane.max(self.memory)
    }
}

impl<'a> Lanes<'a> {
    pub(super) fn new(input: &PackInput<'a>, packing: &Packing, again: Again) -> Self {
        let shape = &input.batch.shape;
        let mut lanes = Self {
            device: input.device,
            kv_heads: f64::from(shape.kv_heads),
            group: shape.group(),
            head_dim: shape.head_dim,
            kv_token: shape.kv_bytes_per_token().as_f64(),
            query: shape.query_bytes().as_f64(),
            partial: shape.partial_bytes().as_f64(),
            compulsory: shape.kv_bytes_per_token().as_f64() * input.tree.unique_tokens().as_f64(),
            again,
            classes: Vec::new(),
            class_of: Vec::with_capacity(packing.packs.len()),
            paths: Vec::new(),
        };
        lanes.sort_packs(input, packing);
        lanes.sort_queries(input, packing);
        lanes
    }

    /// Finds the classes of packs.
    fn sort_packs(&mut self, input: &PackInput<'_>, packing: &Packing) {
        let mut known: FxHashMap<(u32, u64, bool), u32> = FxHashMap::default();
        for pack in &packing.packs {
            let ends = input.tree.node(pack.node).is_leaf();
            let class = *known.entry((pack.queries_len, pack.tokens.0, ends)).or_insert_with(|| {
                self.classes.push(Class {
                    time: lane_time(input, pack, packing.one_head),
                    ends,
                    tokens: pack.tokens.as_f64(),
                    blocks: pack.block_count(),
                    packs: 0.0,
                    queries: pack.queries_len,
                });
                self.classes.len() as u32 - 1
            });
            self.classes[class as usize].packs += 1.0;
            self.class_of.push(class);
        }
    }

    /// Finds the paths: queries whose packs are of the same classes have as many partials, however packs are cut.
    fn sort_queries(&mut self, input: &PackInput<'_>, packing: &Packing) {
        let mut of_query: Vec<u64> = vec![0; input.batch.requests().len()];
        for (pack, class) in packing.packs.iter().zip(&self.class_of) {
            // Sums of mixed class numbers tell apart what is not the same.
            let mixed = (u64::from(*class) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29) | 1;
            for query in packing.queries_of(pack) {
                of_query[query.at()] = of_query[query.at()].wrapping_add(mixed.wrapping_mul(mixed));
            }
        }
        let mut known: FxHashMap<u64, usize> = FxHashMap::default();
        let mut first = vec![usize::MAX; of_query.len()];
        for (query, sum) in of_query.iter().enumerate().filter(|(_, sum)| **sum != 0) {
            let next = known.len();
            if *known.entry(*sum).or_insert(next) == next {
                first[query] = next;
            }
        }
        self.paths = vec![Path::default(); known.len()];
        for sum in of_query.iter().filter(|sum| **sum != 0) {
            self.paths[known[sum]].queries += 1.0;
        }
        for (pack, class) in packing.packs.iter().zip(&self.class_of) {
            for query in packing.queries_of(pack) {
                if let Some(path) = self.paths.get_mut(first[query.at()]) {
                    path.classes.push(*class);
                }
            }
        }
    }

    /// The candidate at which the longest packs are cut into `pieces`, and those at the ends of requests may be
    /// `ends` times as long.
    pub(super) fn limit(&self, pieces: u32, ends: f64) -> Limit {
        Limit { time: self.classes.iter().map(Class::kv_time).fold(0.0, f64::max) / f64::from(pieces), ends }
    }

    /// Pieces of a pack of the packing, so that none has more KV time than `limit`; each has a block at least.
    pub(super) fn pieces(&self, pack: usize, limit: Limit) -> u32 {
        self.classes[self.class_of[pack] as usize].pieces(limit)
    }

    /// Whether CTAs of any pack take several KV heads side by side.
    pub(super) fn takes_several_heads(&self) -> bool {
        self.classes.iter().any(|class| class.time.heads > 1)
    }

    /// How KV that is read again is come by.
    pub(super) fn again(&self) -> Again {
        self.again
    }

    /// Whether CTAs that have no more tasks may share merges.
    pub(super) fn shares_merges(&self) -> bool {
        self.device.merge_kernel.is_some()
    }

    /// Whether cutting can change anything for packs at the ends of requests alone.
    pub(super) fn has_two_kinds(&self) -> bool {
        self.classes.iter().any(|class| class.ends) && self.classes.iter().any(|class| !class.ends)
    }

    /// The makespan of the packing with packs cut at `limit`.
    pub(super) fn makespan(&self, limit: Limit) -> Makespan {
        let sms = f64::from(self.device.sm_count);
        let ctas_of = |class: &Class| {
            class.packs * f64::from(class.pieces(limit)) * (self.kv_heads / f64::from(class.time.heads)).ceil()
        };
        // With fewer CTAs than lanes, an SM holds fewer, and each is faster. Workers hold every tile of the plan.
        let per_sm = self.classes.iter().map(|class| class.time.per_sm).fold(f64::INFINITY, f64::min);
        let ctas: f64 = self.classes.iter().map(ctas_of).sum();
        let resident = (ctas / sms).ceil().clamp(1.0, per_sm);
        let mut tasks: Vec<Tasks> = Vec::with_capacity(self.classes.len());
        let (mut slots, mut moved) = (0.0, 0.0);
        for (number, class) in self.classes.iter().enumerate() {
            let whole = class.pieces(limit);
            let pieces = f64::from(whole);
            // The longest piece, in whole blocks.
            let tokens = class.tokens * f64::from(class.blocks.div_ceil(whole)) / f64::from(class.blocks);
            let time = class.time.cta(tokens, resident);
            tasks.push(Tasks { class: number, tokens, time, ctas: ctas_of(class), end: 0.0 });
            slots += class.packs * pieces * f64::from(class.queries);
            moved += class.packs * class.tokens * self.kv_token;
        }
        // In the order of the queue; of equals by what they are, since classes are numbered as requests come.
        let key = |tasks: &Tasks| (tasks.tokens, self.classes[tasks.class].queries, self.classes[tasks.class].tokens);
        tasks.sort_by(|a, b| by_size(key(b), key(a)).then(self.classes[a.class].ends.cmp(&self.classes[b.class].ends)));
        let lanes = sms * resident;
        let loads = queue(&mut tasks, lanes);
        let lane = tasks.iter().map(|tasks| tasks.time * tasks.ctas).sum::<f64>() / lanes;
        let (most, last) = self.merges(limit, &tasks);
        let one_wave = ctas <= lanes;
        let shared = if one_wave { self.shared_merge(limit, ctas).min(last) } else { last };
        let sim = &self.device.sim;
        let l2 = sim.l2_bytes_per_s as f64 * 1e-9;
        let written = slots * if most > 1 { self.partial } else { self.query };
        let from_hbm = self.hbm(self.cold(moved) + slots * self.query + written);
        let from_l2 = (moved + slots * self.query + written) / l2;
        let merging = LaneTime::merge(self.device, slots * self.partial) / lanes;
        let fixed = self.classes.iter().map(|class| class.time.fixed).fold(0.0, f64::max);
        let memory = fixed + from_hbm.max(from_l2);
        Makespan {
            lane,
            end: stretched(&loads, memory / lane, last_task(&tasks, &loads)),
            memory,
            merge: if most > 1 { merging + last } else { 0.0 },
            shared_merge: if most > 1 { merging + shared } else { 0.0 },
            partials: most,
            waves: ctas / lanes,
        }
    }

    /// KV bytes of `moved` that come from HBM.
    fn cold(&self, moved: f64) -> f64 {
        let fits = self.compulsory <= self.device.l2.as_f64();
        if fits || self.again == Again::Together { self.compulsory } else { moved }
    }

    /// Time of HBM for `bytes`.
    fn hbm(&self, bytes: f64) -> f64 {
        let rate = self.device.reachable_bytes_per_s() * 1e-9;
        let first = bytes.min(self.device.l2.as_f64());
        let first_rate = self.device.worker.map_or(rate, |worker| worker.first_bytes_per_s as f64 * 1e-9);
        first / first_rate + (bytes - first) / rate
    }

    fn partials_of(&self, path: &Path, limit: Limit) -> u32 {
        path.classes.iter().map(|class| self.classes[*class as usize].pieces(limit)).sum()
    }

    /// The last merges where they are for those of `ctas` CTAs that have no more tasks (`kernels/src/watch.rs`), ns: to see that a
    /// query is complete and to join its parts take a trip to L2 each. Infinite where nobody does that, or partials are few.
    fn shared_merge(&self, limit: Limit, ctas: f64) -> f64 {
        let Some(kernel) = self.device.merge_kernel else { return f64::INFINITY };
        let many = self.paths.iter().map(|path| (self.partials_of(path, limit), path.queries));
        let (partials, queries) = many
            .filter(|(partials, _)| *partials > kernel.fold)
            .fold((0, 0.0), |(most, sum), (partials, queries)| (partials.max(most), sum + queries));
        if partials == 0 {
            return f64::INFINITY;
        }
        let merges = (self.kv_heads * queries) as u32;
        let merging = SharedMerges::new(merges, ctas as u32);
        let rounds = merging.turns(merges) * kernel.rounds(self.group, merging.warps, partials, self.head_dim);
        self.device.worker_merge_trip().as_f64() * (2.0 + f64::from(rounds))
    }

    /// The most partials of a query, and the longest merge of one of the CTAs that end last: a CTA merges the queries
    /// whose other partials are there already, one after another.
    fn merges(&self, limit: Limit, tasks: &[Tasks]) -> (u32, f64) {
        let mut ends = vec![0.0; self.classes.len()];
        for tasks in tasks {
            ends[tasks.class] = tasks.end;
        }
        let (mut most, mut latest, mut longest) = (0, 0.0, 0.0_f64);
        for path in &self.paths {
            let partials = self.partials_of(path, limit);
            most = most.max(partials);
            // Packs above count as later than they are by the spread of the times of like CTAs.
            let arrives =
                |class: u32| ends[class as usize] * if self.classes[class as usize].ends { 1.0 } else { SPREAD };
            // Of those that arrive together any may be the last, so that is the one with the most to merge.
            let key = |class: u32| (arrives(class), self.classes[class as usize].queries, 0.0);
            let last = path.classes.iter().copied().max_by(|a, b| by_size(key(*a), key(*b)));
            let Some(last) = last else { continue };
            let class = &self.classes[last as usize];
            let share = (f64::from(class.time.heads) / self.kv_heads).min(1.0);
            let bytes = f64::from(class.queries) * f64::from(partials) * self.partial * share;
            let end = ends[last as usize] + LaneTime::merge(self.device, bytes);
            if end > latest {
                (latest, longest) = (end, end - ends[last as usize]);
            }
        }
        (most, longest)
    }
}

/// Compares by the first figure, then by the others.
fn by_size(a: (f64, u32, f64), b: (f64, u32, f64)) -> std::cmp::Ordering {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).then(a.2.total_cmp(&b.2))
}

impl Class {
    /// KV time of a CTA on an SM full of its like, ns.
    fn kv_time(&self) -> f64 {
        self.time.token(self.time.per_sm) * self.tokens
    }

    fn pieces(&self, limit: Limit) -> u32 {
        let limit = limit.time * if self.ends { limit.ends } else { 1.0 };
        // A hair below, so that the pack which gave the limit has as many pieces as were asked for.
        let pieces = ((self.kv_time() / limit - 1e-6).ceil() as u32).clamp(1, self.blocks);
        // Whole blocks: as many pieces as there will be.
        self.blocks.div_ceil(self.blocks.div_ceil(pieces))
    }
}

/// The times of a pack's CTAs, which take one KV head each where that is asked for.
pub(super) fn lane_time(input: &PackInput<'_>, pack: &Pack, one_head: bool) -> LaneTime {
    LaneTime::of(input.device, tile_of(input, pack, one_head), &input.batch.shape)
}

/// The tile that `pack` gets.
pub(super) fn tile_of(input: &PackInput<'_>, pack: &Pack, one_head: bool) -> Tile {
    let rule = input.fixed_tile.map_or_else(|| input.rule_for_heads(TileRule::Quickest, one_head), TileRule::Fixed);
    tile::select(input.tiles, rule, pack.rows(input.batch.shape.group()), pack.tokens).tile
}
