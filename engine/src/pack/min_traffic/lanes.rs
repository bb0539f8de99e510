//! What packs take on a device, by a closed form: the time of a CTA, the load of a lane, the makespan.
//!
//! It knows what the simulator knows (the device table), but no order and no L2: KV comes from HBM
//! once and from L2 for every further reading.

use rustc_hash::FxHashMap;

use crate::hw::Device;
use crate::pack::{Pack, PackInput, Packing};
use crate::tile::{self, MERGE_IN_FLIGHT, TileRule, WARPS_FOR_FULL_TENSOR_RATE};

/// The CTAs of one tile shape; `alone` and `shared` are times of one KV token, ns.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// KV heads of a CTA.
    heads: u32,
    /// CTAs that an SM holds.
    per_sm: f64,
    /// Until its first tile has landed.
    latency: f64,
    /// With its bytes in flight, or with its warps on the tensor cores, whichever is longer.
    alone: f64,
    /// Through the port of the SM and through its tensor cores, whichever is longer: CTAs of an SM share them.
    shared: f64,
}

/// Packs that are alike: their tile, tokens and number of queries.
#[derive(Clone, Copy, Debug)]
struct Class {
    kind: Kind,
    tokens: f64,
    blocks: u32,
    packs: f64,
    queries: u32,
}

/// The closed form's view of a packing on a device.
#[derive(Debug)]
pub(super) struct Lanes<'a> {
    device: &'a Device,
    kv_heads: f64,
    kv_token: f64,
    query: f64,
    partial: f64,
    /// KV bytes that any packing reads.
    compulsory: f64,
    classes: Vec<Class>,
    class_of: Vec<u32>,
    /// Classes of the packs of a query, for each kind of query.
    paths: Vec<Vec<u32>>,
}

/// The parts of a makespan, ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Makespan {
    /// Load of a lane where all have the same.
    lane: f64,
    /// Time of the memory system for all bytes.
    memory: f64,
    /// The longest CTA.
    longest: f64,
    /// The merge, if there is one.
    merge: f64,
}

impl Makespan {
    /// All of it.
    pub(super) fn total(&self) -> f64 {
        self.lane.max(self.memory) + self.tail() + self.merge
    }

    /// What is left of the longest CTA when all other lanes are done.
    pub(super) fn tail(&self) -> f64 {
        (self.longest - self.lane).max(0.0)
    }
}

impl<'a> Lanes<'a> {
    pub(super) fn new(input: &PackInput<'a>, packing: &Packing) -> Self {
        let shape = &input.batch.shape;
        let mut lanes = Self {
            device: input.device,
            kv_heads: f64::from(shape.kv_heads),
            kv_token: shape.kv_bytes_per_token().as_f64(),
            query: shape.query_bytes().as_f64(),
            partial: shape.partial_bytes().as_f64(),
            compulsory: shape.kv_bytes_per_token().as_f64() * input.tree.unique_tokens().as_f64(),
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
        let mut known: FxHashMap<(u32, u64), u32> = FxHashMap::default();
        for pack in &packing.packs {
            let class = *known.entry((pack.queries_len, pack.tokens.0)).or_insert_with(|| {
                self.classes.push(Class {
                    kind: kind(input, pack),
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
        self.paths = vec![Vec::new(); known.len()];
        for (pack, class) in packing.packs.iter().zip(&self.class_of) {
            for query in packing.queries_of(pack) {
                if let Some(path) = self.paths.get_mut(first[query.at()]) {
                    path.push(*class);
                }
            }
        }
    }

    /// The candidate limit at which the longest packs are cut into `pieces`: KV time of a CTA on a full SM, ns.
    pub(super) fn limit(&self, pieces: u32) -> f64 {
        self.classes.iter().map(Class::kv_time).fold(0.0, f64::max) / f64::from(pieces)
    }

    /// Pieces of a pack of the packing, so that none has more KV time than `limit`; each has a block at least.
    pub(super) fn pieces(&self, pack: usize, limit: f64) -> u32 {
        self.classes[self.class_of[pack] as usize].pieces(limit)
    }

    /// Start and end of a CTA, ns.
    fn fixed(&self) -> f64 {
        (self.device.sim.cta_prologue + self.device.sim.cta_epilogue).as_f64()
    }

    /// The makespan of the packing with packs cut at `limit`.
    pub(super) fn makespan(&self, limit: f64) -> Makespan {
        let sms = f64::from(self.device.sm_count);
        let ctas = |class: &Class| {
            class.packs * f64::from(class.pieces(limit)) * (self.kv_heads / f64::from(class.kind.heads)).ceil()
        };
        // With fewer CTAs than lanes, an SM holds fewer, and each is faster.
        let resident = (self.classes.iter().map(ctas).sum::<f64>() / sms).ceil().max(1.0);
        let (mut lane, mut longest, mut slots, mut moved) = (0.0, 0.0_f64, 0.0, 0.0);
        for class in &self.classes {
            let pieces = f64::from(class.pieces(limit));
            let per_sm = class.kind.per_sm.min(resident);
            let of_token = class.kind.alone.max(class.kind.shared * per_sm);
            let main_loop = (of_token * class.tokens / pieces).max(class.kind.latency);
            let duration = self.fixed() + main_loop;
            lane += duration * ctas(class) / per_sm / sms;
            longest = longest.max(duration);
            slots += class.packs * pieces * f64::from(class.queries);
            moved += class.packs * class.tokens * self.kv_token;
        }
        let of_path = |path: &Vec<u32>| path.iter().map(|class| self.classes[*class as usize].pieces(limit)).sum();
        let most: u32 = self.paths.iter().map(of_path).max().unwrap_or(0);
        let sim = &self.device.sim;
        let l2 = sim.l2_bytes_per_s as f64 * 1e-9;
        let written = slots * if most > 1 { self.partial } else { self.query };
        let from_hbm = (self.compulsory + slots * self.query + written) / (self.device.reachable_bytes_per_s() * 1e-9);
        let from_l2 = (moved + slots * self.query + written) / l2;
        let of_query = (f64::from(most) * self.partial / MERGE_IN_FLIGHT).ceil() * sim.l2_latency.as_f64();
        let merge = sim.stream_join.as_f64() + self.fixed() + of_query.max(slots * self.partial / l2);
        Makespan { lane, memory: from_hbm.max(from_l2), longest, merge: if most > 1 { merge } else { 0.0 } }
    }
}

impl Class {
    /// KV time of a CTA on an SM full of its like, ns.
    fn kv_time(&self) -> f64 {
        self.kind.alone.max(self.kind.shared * self.kind.per_sm) * self.tokens
    }

    fn pieces(&self, limit: f64) -> u32 {
        // A hair below, so that the pack which gave the limit has as many pieces as were asked for.
        let pieces = ((self.kv_time() / limit - 1e-6).ceil() as u32).clamp(1, self.blocks);
        // Whole blocks: as many pieces as there will be.
        self.blocks.div_ceil(self.blocks.div_ceil(pieces))
    }
}

/// The kind of a pack's CTAs.
fn kind(input: &PackInput<'_>, pack: &Pack) -> Kind {
    let device = input.device;
    let shape = &input.batch.shape;
    let rule = input.fixed_tile.map_or(TileRule::Fitting, TileRule::Fixed);
    let tile = tile::select(input.tiles, rule, pack.rows(shape.group()), pack.tokens).tile;
    let kernel = tile::kernel(device, tile, shape.head_dim, shape.dtype);
    let bytes = shape.kv_bytes_per_token_head().as_f64() * f64::from(kernel.heads);
    let flop = 4.0 * f64::from(tile.m * shape.head_dim * kernel.heads);
    let of_sm = device.tensor_flops as f64 * device.sim.tensor_efficiency * 1e-9 / f64::from(device.sm_count);
    let tensor = flop / of_sm;
    let warps = f64::from(tile.m.div_ceil(16) * kernel.heads).min(WARPS_FOR_FULL_TENSOR_RATE);
    let compute = tensor * WARPS_FOR_FULL_TENSOR_RATE / warps + device.sim.tile_step.as_f64() / f64::from(tile.n);
    let latency = device.tile_latency((shape.head_bytes() * u64::from(tile.n * kernel.heads)).as_f64());
    let flight = bytes * latency / kernel.in_flight.as_f64();
    let port = bytes / (device.sim.sm_bytes_per_s as f64 * 1e-9);
    Kind {
        heads: kernel.heads,
        latency,
        per_sm: f64::from(tile::occupancy(device, tile, shape.head_dim, shape.dtype).max(1)),
        alone: flight.max(compute),
        shared: port.max(tensor),
    }
}
