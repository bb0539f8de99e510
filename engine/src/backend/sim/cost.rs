//! What one CTA costs: bytes in flight, tensor time and fixed phases, from the device table.
//!
//! ```text
//! dispatch ──prologue──► main loop: max(memory, compute) at full rate ──epilogue──► done
//! ```
//!
//! Memory at full rate is Little's law: a CTA has one K or V tile of `n·d·b` bytes outstanding, so it
//! draws that much each round trip: the latency of an idle memory, and the landing of the tile at the
//! SM's port. A memory that is not idle stretches it by as much as it is asked for too much. Compute is
//! `ceil(tokens / n)` steps of `4·m·n·d` FLOP, padded rows included, plus the softmax of a step. Worked number,
//! (64, 128) on the A100 at d 128 in f16: 32 KiB every 406 + 364 ns are 43 GB/s a CTA; two CTAs on 108 SMs
//! ask for 9.2 TB/s, so HBM is full.
//!
//! Prefill is the other way round: a step of (128, 64) takes 4·128·64·128 FLOP and 64·128
//! exponentials for 32 KiB. On the A100 a CTA alone needs 2.2 µs of the SM's tensor cores for it,
//! 0.4 µs of its exponential units and 90 ns besides: it uses 83 % of the tensor cores, and two CTAs
//! share them.

use crate::backend::sim::limits::Limits;
use crate::backend::sim::memory::Pace;
use crate::backend::sim::runs_on::RunsOn;
use crate::backend::sim::sight::Sight;
use crate::hw::Device;
use crate::plan::{CtaOrder, HybridKernel, LaunchKind, LaunchPlan, PlannedPack, PrefillKernel, PrefillTask};
use crate::tile::{self, BULK_BLOCK, CtaShape, DOUBLE, Tile, WARPS_FOR_FULL_TENSOR_RATE};
use crate::units::{Bytes, Nanos};
use crate::workload::AttentionShape;

/// What a step takes more where the warps that share rows hand each other maxima, sums and weights through shared memory,
/// ns: 128 tokens of 16 rows took 0.82 µs on an H200 in CTAs of 7 to 53 thousand tokens.
const EXCHANGE: f64 = 120.0;

/// What a CTA takes of an SM while it is resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Footprint {
    pub(super) shared: u64,
    pub(super) registers: u32,
    pub(super) warps: u32,
}

/// How the warps that fetch bring K and V: blocks of 16 tokens and more by bulk copies of 64 dimensions, smaller ones 16
/// bytes a lane of two warps. A step of one CTA on an H200, ns, with blocks of 64 and of 16 tokens:
///
/// ```text
///         16×64        16×128       64×64
/// d 64    524   558    710   867    824   854
/// d 128   598   855    870 1,556    728 1,019
/// d 256   862 1,448  1,212 2,811  1,125 1,702
/// ```
///
/// The times of smaller blocks are fitted to 32 runs with blocks of one token, whose makespans they meet within 3 % in the
/// median and 17 % at worst.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fetch {
    /// Tokens that come together, and what that takes, ns.
    tokens: u64,
    copies: f64,
    /// What a step takes besides.
    step: f64,
}

impl Fetch {
    /// Of a kernel whose fetching was not measured.
    const UNKNOWN: Self = Self { tokens: 1, copies: 0.0, step: 0.0 };

    fn of(shape: &AttentionShape, tile: Tile, heads: u32) -> Self {
        const BULK_COPY: f64 = 40.0;
        const BULK_STEP: f64 = 150.0;
        const WARP_COPY: f64 = 8.0;
        const WARP_STEP: f64 = 650.0;
        /// Warpgroups need K of the next tile before V of this one.
        const WARPGROUP: f64 = 1.13;
        let slower = if tile.m == 64 { WARPGROUP } else { 1.0 };
        if shape.block_size >= BULK_BLOCK {
            let halves = 2 * shape.head_dim.div_ceil(64);
            let copies = slower * BULK_COPY * f64::from(halves);
            return Self { tokens: u64::from(shape.block_size.min(tile.n)), copies, step: slower * BULK_STEP };
        }
        let of_token = shape.kv_bytes_per_token_head().as_f64() * f64::from(heads.max(1)) / (16.0 * 32.0);
        Self { tokens: 1, copies: slower * WARP_COPY * of_token, step: slower * WARP_STEP }
    }

    /// The least time in which `tokens` come in so many steps, ns.
    fn time(&self, tokens: u64, steps: f64) -> f64 {
        tokens.div_ceil(self.tokens) as f64 * self.copies + steps * self.step
    }
}

/// Two times of which the longer one counts, and a little of the other where they are near: fetching and computing wait
/// for each other now and then.
fn longer(a: f64, b: f64) -> f64 {
    let (long, short) = (a.max(b), a.min(b));
    if long > 0.0 { long * (1.0 + (short / long).powi(6)).powf(1.0 / 6.0) } else { long }
}

/// Tokens of the least block whose copies cost an SM nothing, and what a token of a smaller one does, ns for 128
/// dimensions: 64×64 tiles take 0.63 µs of it with blocks of 16 and 0.52 with blocks of 32.
const LARGE_BLOCK: u32 = 32;
const SMALL_COPY: f64 = 1.1;

/// What a warp takes that copies K and V of a token of a head by itself, beside prefill, ns. Ten hybrids in blocks of 1 and 4 of
/// seven head setups, co-resident, are simulated 30 % too short without it and [`crate::hw::PrefillResources::by_token`], and
/// 6 % off with both (H200).
const TOKEN_COPY: f64 = 16.0;

/// Times and rates that do not depend on the pack.
#[derive(Clone, Copy, Debug)]
pub(super) struct CostModel<'a> {
    pub(super) device: &'a Device,
    pub(super) shape: &'a AttentionShape,
}

/// How a CTA computes a pack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct DecodeCta {
    /// The tile of its kernel.
    pub(super) tile: Tile,
    /// KV heads that it computes side by side.
    pub(super) heads: u32,
    /// Bytes that it keeps outstanding.
    pub(super) in_flight: f64,
    /// The least time of a step, ns.
    pub(super) chain: f64,
    /// How its tiles come.
    pub(super) fetch: Fetch,
    /// What a step takes of its SM whose KV is there, ns, where that was measured.
    pub(super) sm_step: Option<f64>,
    /// Whether its heads are KV heads or query heads.
    pub(super) order: CtaOrder,
    /// Whether its first tiles were fetched while the task before it on its worker ended.
    pub(super) ahead: bool,
    /// What its rows see.
    pub(super) sight: Sight,
}

/// The least time of a step of the lean kernel over that at head dimension 128: QK and PV have a product for every 16 dimensions, and the
/// softmax between them takes the same. Worked: 0.42 us at 64 where it is 0.6 at 128.
fn chain_at(head_dim: u32) -> f64 {
    (f64::from(head_dim) + 80.0) / (128.0 + 80.0)
}

/// The main loop of one CTA, running alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct MainLoop {
    /// Time at full rate, ns.
    pub(super) time: f64,
    /// The same were its steps not to wait for each other.
    pub(super) unchained: f64,
    /// Until the first tile has landed, ns.
    pub(super) first_tile: f64,
    /// Bytes read from HBM.
    pub(super) dram_read: f64,
    /// Bytes written, which reach HBM in the end.
    pub(super) dram_write: f64,
    /// Bytes between the SM and L2: all it loads and writes.
    pub(super) moved: f64,
    /// Time in which the tensor cores of the whole SM would do its work, ns.
    pub(super) tensor: f64,
    /// Of it, what prefill's wgmma takes: that draws the power that slows clocks and reads, mma.sync beside reads does not.
    pub(super) wgmma: f64,
    /// Warps that compete for them.
    pub(super) warps: f64,
    /// What memory it waits for, ns of `time`: that which L2 answers, and that which HBM does.
    pub(super) waits: Waits,
}

/// How long a main loop would take for memory alone, ns. Where that is less than its time, memory
/// may slow down by as much before the main loop does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Waits {
    /// For loads that hit L2, which a full HBM does not stretch.
    pub(super) l2: f64,
    /// For loads from HBM.
    pub(super) hbm: f64,
}

impl MainLoop {
    /// Decodes that HBM would hold up for less than half of their time hit L2 or compute, and go by that clock.
    pub(super) fn pace(&self) -> Pace {
        if 2.0 * (self.waits.hbm + self.waits.l2) < self.unchained { Pace::Computes } else { Pace::Streams }
    }

    /// Bytes that HBM could answer in the time that the memory system takes for this. What hits L2 takes the part of it that
    /// L2 is faster; prefill's hits were left to the tensor cores, which wait for them less.
    pub(super) fn fabric(&self, limits: &Limits) -> f64 {
        let dram = self.dram_read + self.dram_write;
        let hits = if self.wgmma > 0.0 { 0.0 } else { (self.moved - dram).max(0.0) };
        dram + hits * limits.hbm / limits.l2
    }

    /// Two main loops of one CTA side by side: virtual CTAs, which end with the longest.
    pub(super) fn beside(self, other: Self) -> Self {
        let time = self.time.max(other.time);
        Self {
            time,
            unchained: self.unchained.max(other.unchained),
            first_tile: self.first_tile.min(other.first_tile),
            dram_read: self.dram_read + other.dram_read,
            dram_write: self.dram_write + other.dram_write,
            moved: self.moved + other.moved,
            tensor: self.tensor + other.tensor,
            wgmma: self.wgmma + other.wgmma,
            warps: self.warps + other.warps,
            waits: Waits { l2: 0.0, hbm: time },
        }
    }
}

impl CostModel<'_> {
    /// What a CTA of a launch takes.
    pub(super) fn footprint_of_launch(&self, kind: LaunchKind, on: RunsOn) -> Footprint {
        let CtaShape { warps, registers, shared } = self.cta_of_launch(kind, on);
        let per_warp = (registers * 32).next_multiple_of(self.device.register_granule_per_warp);
        let shared = shared.0 + self.device.shared_reserved_per_cta.0;
        Footprint { shared, registers: per_warp * warps, warps }
    }

    /// CTAs of a launch that an SM holds by itself.
    pub(super) fn ctas_per_sm(&self, kind: LaunchKind, on: RunsOn) -> u32 {
        let most = self.device.queue_items.and_then(|items| items.workers_per_sm);
        let most = most.filter(|_| kind.is_persistent() && on != RunsOn::Lean && self.shape.head_dim == 128);
        tile::resident(self.device, &self.cta_of_launch(kind, on)).clamp(1, most.unwrap_or(u32::MAX))
    }

    fn cta_of_launch(&self, kind: LaunchKind, on: RunsOn) -> CtaShape {
        if let Some(kernel) = on.prefill() {
            return kernel.cta();
        }
        match kind {
            LaunchKind::Attention(tile) | LaunchKind::Persistent(tile) => {
                self.decode_kernel(self.compiled_launch(tile, on), on).cta()
            }
            LaunchKind::Merge | LaunchKind::MergeRound(_) | LaunchKind::MergePrefill => self.merge_kernel_cta(),
            LaunchKind::Prefill(PrefillKernel { cta, .. })
            | LaunchKind::PrefillQueue(PrefillKernel { cta, .. })
            | LaunchKind::FoldedPrefill(PrefillKernel { cta, .. })
            | LaunchKind::Hybrid(HybridKernel { cta, .. }) => cta,
        }
    }

    /// A CTA of the tile's own kernel, or of the lean one, that computes `heads` heads of a pack.
    pub(super) fn cta(&self, pack: &PlannedPack, heads: u32, order: CtaOrder, on: RunsOn) -> DecodeCta {
        let tile = self.compiled(pack.tile, heads, on);
        let kernel = self.decode_kernel(tile, on);
        if on == RunsOn::Lean {
            let chain = self.lean_chain(kernel.chain, tile.n, heads);
            let in_flight = kernel.in_flight.as_f64();
            return DecodeCta {
                tile,
                heads,
                in_flight,
                chain,
                fetch: Fetch::UNKNOWN,
                sm_step: None,
                order,
                ahead: false,
                sight: Sight::Whole,
            };
        }
        let (chain, fetch) = match kernel.chain {
            Some(chain) => (chain.as_f64(), Fetch::of(self.shape, tile, heads)),
            None => (0.0, Fetch::UNKNOWN),
        };
        let small = if self.shape.block_size < LARGE_BLOCK { SMALL_COPY } else { 0.0 };
        let copies = small * f64::from(tile.n * self.shape.head_dim) / 128.0;
        let sm_step = kernel.sm_step.map(|step| step.as_f64() + copies);
        let in_flight = on.ring().unwrap_or(kernel.in_flight).as_f64();
        DecodeCta { tile, heads, in_flight, chain, fetch, sm_step, order, ahead: false, sight: Sight::Whole }
    }

    /// A decode CTA inside a kernel that computes prefill too: one KV head, and FlashAttention's one
    /// K or V tile outstanding.
    pub(super) fn virtual_cta(&self, pack: &PlannedPack, kernel: &HybridKernel) -> DecodeCta {
        let own = self.device.prefill_kernel.filter(|_| self.in_one_launch(kernel)).map(|kernels| kernels.lean_decode);
        let alone = DecodeCta {
            tile: pack.tile,
            heads: 1,
            in_flight: 0.0,
            chain: 0.0,
            fetch: Fetch::UNKNOWN,
            sm_step: None,
            order: CtaOrder::HeadFastest,
            ahead: false,
            sight: Sight::Whole,
        };
        let Some(lean) = own else {
            return DecodeCta { in_flight: self.tile_bytes(pack.tile.n), chain: 0.0, ..alone };
        };
        // They share the ring of their CTA.
        let ring = lean.in_flight.map_or(0.0, Bytes::as_f64) / f64::from(kernel.decodes_per_cta.max(1));
        let chain = self.lean_chain(lean.chain, pack.tile.n, kernel.decodes_per_cta);
        DecodeCta { in_flight: ring.max(self.tile_bytes(pack.tile.n)), chain, ..alone }
    }

    /// A step of decode beside prefill, ns, where one warp copies for so many heads. Token by token it is slower than they
    /// compute.
    fn lean_chain(&self, chain: Option<Nanos>, n: u32, heads: u32) -> f64 {
        let by_token = self.shape.block_size < BULK_BLOCK;
        let copies = if by_token { TOKEN_COPY * f64::from(n * heads) } else { 0.0 };
        chain.map_or(0.0, Nanos::as_f64) * chain_at(self.shape.head_dim) + copies
    }

    /// Whether a hybrid kernel is our own whose CTAs compute prefill, decode or both.
    pub(super) fn in_one_launch(&self, kernel: &HybridKernel) -> bool {
        let kernels = self.device.prefill_kernel.iter().flat_map(|kernels| [kernels.either, kernels.both]);
        kernels.flatten().any(|own| own.cta() == kernel.cta)
    }

    /// A K or V tile of `n` tokens of one head.
    fn tile_bytes(&self, n: u32) -> f64 {
        (self.shape.head_bytes() * u64::from(n)).as_f64()
    }

    /// Warps that divide the tokens of a row among them: of packscope's own kernels, the four where a tile has 16 rows of one
    /// head.
    fn warps_per_row(&self, tile: Tile, heads: u32) -> u32 {
        if self.device.heads_side_by_side && tile.m == 16 && tile.n >= 32 && heads == 1 { 4 } else { 1 }
    }

    /// The main loop of a pack in a CTA, of whose KV the fraction `hit` is found in L2. Its queries write
    /// `written` bytes over all heads. Rows beyond the tile are further blocks of rows over the same KV
    /// step.
    pub(super) fn main_loop(&self, pack: &PlannedPack, cta: &DecodeCta, hit: f64, written: f64) -> MainLoop {
        let (all_heads, rows) = match cta.order {
            CtaOrder::QueryHeads => (self.shape.query_heads, pack.queries_len),
            _ => (self.shape.kv_heads, pack.queries_len * self.shape.group()),
        };
        let (sim, tile, heads, in_flight) = (&self.device.sim, cta.tile, cta.heads, cta.in_flight);
        let loaded = self.shape.kv_bytes_per_token_head().as_f64() * pack.tokens.as_f64() * f64::from(heads);
        let tile_bytes = self.tile_bytes(tile.n) * f64::from(heads);
        let latency = (1.0 - hit) * self.device.tile_latency(tile_bytes) + hit * sim.l2_latency.as_f64();
        let tiles = pack.tokens.0.div_ceil(u64::from(tile.n)).max(1) as f64;
        let steps = cta.sight.steps(tiles, tile.n, self.device.reachable_bytes_per_s());
        let row_blocks = rows.div_ceil(tile.m).max(1);
        let padded_rows = f64::from(row_blocks * tile.m);
        let step_flop = 4.0 * padded_rows * f64::from(tile.n) * f64::from(self.shape.head_dim);
        let tensor = steps * step_flop * f64::from(heads) / self.sm_flop_per_ns();
        let steps_of_rows = steps * f64::from(row_blocks);
        let (compute, tensor) = match cta.sm_step {
            Some(step) => {
                let of_sm = steps_of_rows * step;
                (of_sm, of_sm)
            }
            None => (self.compute(tile, heads, steps_of_rows, tensor), tensor),
        };
        // One K and one V tile are fetched a step, each a latency at least.
        let first_tile = if cta.ahead { 0.0 } else { latency };
        let further = (loaded / in_flight * latency - latency).max(0.0);
        let memory = first_tile + further;
        let unchained = memory.max(compute);
        let time = unchained.max(longer(steps_of_rows * cta.chain, cta.fetch.time(pack.tokens.0, steps)));
        // A ring of tiles is filled while tiles are computed, so memory is waited for only as far as it takes longer; with
        // one buffer each tile is. What was fetched ahead came through the same memory. Joined packs go by what others of them have
        // brought to L2, whatever HBM gives.
        let ring = in_flight > tile_bytes;
        let waited = if ring { (latency + further).min(time) } else { time };
        let waits = if tile == DOUBLE { Waits { l2: waited, hbm: 0.0 } } else { Waits { l2: 0.0, hbm: waited } };
        let share = f64::from(heads) / f64::from(all_heads);
        let q = self.shape.query_bytes().as_f64() * share * f64::from(pack.queries_len);
        let dram_write = written * share;
        MainLoop {
            time,
            unchained,
            first_tile: first_tile.min(time),
            dram_read: loaded * (1.0 - hit) + q,
            dram_write,
            moved: loaded + q + dram_write,
            tensor,
            wgmma: 0.0,
            warps: f64::from(tile.m.div_ceil(16) * heads),
            waits,
        }
    }

    /// Time of the steps of a CTA on an SM of its own by the rates of the device, of which the tensor cores of the whole SM
    /// would take `tensor`.
    fn compute(&self, tile: Tile, heads: u32, steps: f64, tensor: f64) -> f64 {
        let sim = &self.device.sim;
        let shared = self.warps_per_row(tile, heads);
        let warps = f64::from(tile.m.div_ceil(16) * heads * shared).min(WARPS_FOR_FULL_TENSOR_RATE);
        let tokens_of_warp = f64::from(tile.n) / f64::from(shared);
        let exchange = if shared > 1 { EXCHANGE } else { 0.0 };
        let apart = sim.tile_step.as_f64() + sim.softmax_step.as_f64() * tokens_of_warp / 64.0 + exchange;
        tensor * WARPS_FOR_FULL_TENSOR_RATE / warps + steps * apart
    }

    /// The main loop of a prefill task of one query head, in a CTA with `warps` of them, of whose KV
    /// the fraction `hit` is found in L2.
    pub(super) fn prefill_loop(&self, task: &PrefillTask, warps: u32, hit: f64) -> MainLoop {
        let (device, sim) = (self.device, &self.device.sim);
        let tile = task.tile;
        let row = self.shape.head_bytes().as_f64();
        let loaded = 2.0 * row * task.tokens().as_f64();
        let steps = task.tokens().0.div_ceil(u64::from(tile.n)) as f64;
        let scores = f64::from(tile.m) * f64::from(tile.n);
        let tensor = steps * scores * 4.0 * f64::from(self.shape.head_dim) / self.sm_prefill_flop_per_ns();
        // A warp reaches the tensor cores and exponential units of its quarter of the SM only.
        let quarters = WARPS_FOR_FULL_TENSOR_RATE / f64::from(warps).min(WARPS_FOR_FULL_TENSOR_RATE);
        let exponentials = steps * scores / (sim.exp_per_sm_per_s as f64 * 1e-9);
        let compute = (tensor + exponentials) * quarters + steps * sim.tile_step.as_f64();
        let tile_bytes = self.tile_bytes(tile.n);
        let turns = loaded / tile_bytes;
        let waits = Waits {
            l2: turns * hit * sim.l2_latency.as_f64(),
            hbm: turns * (1.0 - hit) * device.tile_latency(tile_bytes),
        };
        let time = (waits.l2 + waits.hbm).max(compute);
        let rows = f64::from(task.rows());
        let q = rows * row;
        let out = if task.slots_begin.is_some() {
            rows * self.shape.partial_bytes().as_f64() / f64::from(self.shape.query_heads)
        } else {
            rows * row
        };
        MainLoop {
            time,
            unchained: time,
            first_tile: sim.l2_latency.as_f64().min(time),
            dram_read: loaded * (1.0 - hit) + q,
            dram_write: out,
            moved: loaded + q + out,
            tensor,
            wgmma: tensor,
            warps: f64::from(warps),
            waits,
        }
    }

    /// Tensor rate of one SM in decode, FLOP per ns.
    fn sm_flop_per_ns(&self) -> f64 {
        let device = self.device;
        device.tensor_flops as f64 * device.sim.tensor_efficiency / f64::from(device.sm_count) * 1e-9
    }

    /// Tensor rate of one SM full of prefill, FLOP per ns.
    fn sm_prefill_flop_per_ns(&self) -> f64 {
        let device = self.device;
        device.tensor_flops as f64 * device.sim.prefill_efficiency / f64::from(device.sm_count) * 1e-9
    }

    /// From a CTA's place on an SM to its first load.
    pub(super) fn prologue(&self, kind: LaunchKind) -> Nanos {
        let sim = &self.device.sim;
        let worker = kind.is_persistent() && sim.worker_prologue > Nanos::ZERO;
        if worker { sim.worker_prologue } else { sim.cta_prologue }
    }

    /// From the end of a CTA to the beginning of the one in its place. Workers stay, and so do CTAs on the prefill kernel;
    /// CTAs of a merge have no work to look up before they begin.
    pub(super) fn turnover(&self, kind: LaunchKind, on: RunsOn) -> Nanos {
        let decodes = matches!(kind, LaunchKind::Attention(_)) && on.prefill().is_none();
        if decodes { self.device.sim.cta_turnover } else { Nanos::ZERO }
    }

    /// From a CTA's last tile to its end, ns: `written` bytes and what else there is to do.
    pub(super) fn epilogue(&self, written: f64) -> f64 {
        self.device.sim.cta_epilogue.as_f64() + self.store(written)
    }

    /// What a CTA still computes when its last tile has come, ns: nothing is fetched meanwhile.
    pub(super) fn last_step(&self, cta: &DecodeCta) -> f64 {
        self.device.sim.last_step * cta.chain
    }

    /// From a worker's last tile to the end of its task, ns. Where its queries have other partials it counts its own in.
    pub(super) fn worker_epilogue(&self, written: f64, arrives: bool) -> f64 {
        self.epilogue(written) + if arrives { self.device.sim.worker_arrival.as_f64() } else { 0.0 }
    }

    /// How much longer a worker counts its partials in while the part `busy` of all lanes has work, ns: the counter waits until
    /// what was written is seen, a way to a memory that is loaded. In traces of an H200 tasks of configurations 6 and 7 of PAT
    /// that count end 3 to 5 µs after their last tile then, and 1.1 to 2.6 otherwise.
    pub(super) fn counting(&self, busy: f64) -> f64 {
        busy * self.device.loaded_latency.as_f64()
    }

    /// Writing so many bytes, ns.
    pub(super) fn store(&self, written: f64) -> f64 {
        let rate = self.device.sim.store_bytes_per_s as f64 * 1e-9;
        if rate > 0.0 { written / rate } else { 0.0 }
    }
}

/// The time that a plan of one CTA takes, in closed form: launch, prologue, main loop, epilogue.
pub fn one_cta_time(device: &Device, plan: &LaunchPlan) -> Option<f64> {
    let model = CostModel { device, shape: &plan.shape };
    let pack = plan.packs.first()?;
    let launch = plan.launches.first()?;
    let written = plan.shape.query_bytes().as_f64() * f64::from(pack.queries_len);
    let cta = model.cta(pack, plan.decode_at(launch, 0).kv_heads, launch.order, model.runs_on(plan, launch));
    let alone = model.main_loop(pack, &cta, 0.0, written);
    let limit =
        (device.sim.sm_bytes_per_s as f64).min(device.reachable_bytes_per_s() * device.sim.tile_read_efficiency) * 1e-9;
    let sim = &device.sim;
    let end = model.last_step(&cta) + model.epilogue(alone.dram_write);
    let fixed = (sim.launch_latency + sim.cta_prologue).as_f64() + end;
    Some(fixed + alone.time.max(alone.moved / limit))
}
