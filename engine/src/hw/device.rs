//! What packscope knows of one GPU.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::hw::{ExpectedError, HybridLimits, MergeKernel, PrefillKernels};
use crate::shown::quoted;
use crate::units::{Bytes, Nanos};

/// One GPU: limits that shape tiles and occupancy, and the constants of the simulator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Key on the command line, such as `h200-sxm`.
    pub key: String,
    /// Name for people.
    pub name: String,
    /// Whether the constants of the simulator are fitted to runs that were measured on this GPU; where they are not,
    /// every figure that it gives says so.
    #[serde(default)]
    pub calibrated: bool,
    /// How far off its figures may be expected to be; nothing where nobody measured it.
    #[serde(default)]
    pub expected_error: Option<ExpectedError>,
    /// Compute capability, major and minor.
    pub compute_capability: (u8, u8),
    /// Streaming multiprocessors.
    pub sm_count: u32,
    /// The GPC of each SM, by SM, where that is a matter of the model: of a real GPU it is one of each piece, which has
    /// SMs of its own switched off, and is found where it runs. Empty where it is unknown.
    #[serde(default)]
    pub gpcs: Vec<u8>,
    /// Shared memory of one SM.
    pub shared_per_sm: Bytes,
    /// Largest dynamic shared memory of one CTA.
    pub shared_per_cta: Bytes,
    /// Shared memory that the system takes from each resident CTA.
    pub shared_reserved_per_cta: Bytes,
    /// 32-bit registers of one SM.
    pub registers_per_sm: u32,
    /// Registers are handed to warps in multiples of this.
    pub register_granule_per_warp: u32,
    /// Most registers of one thread.
    pub registers_per_thread: u32,
    /// Most resident warps of one SM.
    pub warps_per_sm: u32,
    /// Most resident CTAs of one SM.
    pub ctas_per_sm: u32,
    /// L2 cache.
    pub l2: Bytes,
    /// HBM bandwidth by the data sheet, bytes per second.
    pub hbm_bytes_per_s: u64,
    /// Dense 16-bit tensor rate with fp32 accumulation by the data sheet, FLOP per second.
    pub tensor_flops: u64,
    /// Time from asking for bytes to having them in shared memory, under load (PAT §5.2, `L`).
    pub loaded_latency: Nanos,
    /// Constants of the simulator.
    pub sim: SimConstants,
    /// Registers of the attention kernels, per tile, for this architecture.
    pub kernels: Vec<KernelResources>,
    /// The same at head dimension 64; without any, `kernels` hold there.
    #[serde(default)]
    pub kernels_d64: Vec<KernelResources>,
    /// The same at head dimension 256; what it does not name is estimated from `kernels`.
    #[serde(default)]
    pub kernels_d256: Vec<KernelResources>,
    /// Times of a persistent worker, where it was traced.
    #[serde(default)]
    pub worker: Option<WorkerTimes>,
    /// Whether those kernels number the KV heads of a pack side by side; if not, the packs of a head, as PAT's do.
    #[serde(default)]
    pub heads_side_by_side: bool,
    /// How a persistent kernel's queue joins short tasks; where nothing is said, it does not.
    #[serde(default)]
    pub queue_items: Option<QueueItems>,
    /// Which reads its kernels mark to leave L2 first; none where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marked_reads: Option<MarkedReads>,
    /// Which runs packs of the same KV are joined for; none where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined_packs: Option<JoinedPacks>,
    /// The merge kernel, where it is known.
    #[serde(default)]
    pub merge_kernel: Option<MergeKernel>,
    /// The kernels that put prefill beside decode, where packscope's own are compiled for the device. Without
    /// them prefill has the shapes of FlashAttention 2 and of POD-Attention's release.
    #[serde(default)]
    pub prefill_kernel: Option<PrefillKernels>,
    /// What tensor cores and reads reach alone and together, where it was measured.
    #[serde(default)]
    pub hybrid_limits: Option<HybridLimits>,
    /// The n of each m by KV tokens, as measured; empty where nobody measured.
    #[serde(default)]
    pub tile_steps: Vec<TileStep>,
    /// Where each figure comes from: field name to source.
    pub sources: BTreeMap<String, String>,
}

/// Constants of the discrete-event model of the GPU (`backend::sim`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimConstants {
    /// Bandwidth that a plain read kernel reaches, as a fraction of the data sheet's.
    pub hbm_efficiency: f64,
    /// Part of that which kernels reach that fetch tiles of scattered blocks.
    #[serde(default = "whole")]
    pub tile_read_efficiency: f64,
    /// From asking for a byte in HBM to having it, while nothing else is asked for. Load stretches it.
    pub idle_latency: Nanos,
    /// Most that one SM can draw from the memory system, bytes per second.
    pub sm_bytes_per_s: u64,
    /// Rate at which hits in L2 take the time in which HBM could answer, bytes per second: L2's bandwidth over all SMs,
    /// or what was found beside HBM where `l2_peak_bytes_per_s` is known.
    pub l2_bytes_per_s: u64,
    /// Most that L2 gives all SMs together, hits and what comes from HBM, bytes per second; 0 where that is
    /// `l2_bytes_per_s`.
    #[serde(default)]
    pub l2_peak_bytes_per_s: u64,
    /// Part of L2 in which re-read KV is still found.
    pub l2_useful_fraction: f64,
    /// Latency of an L2 hit under load.
    pub l2_latency: Nanos,
    /// Tensor rate that an attention kernel reaches, as a fraction of the data sheet's.
    pub tensor_efficiency: f64,
    /// Tensor rate that a GPU full of prefill reaches with `mma.sync` (FlashAttention 2), as a
    /// fraction of the data sheet's; packscope's own kernels have rates of their own (`prefill_kernel`).
    pub prefill_efficiency: f64,
    /// Exponentials of one SM per second.
    pub exp_per_sm_per_s: u64,
    /// From the start of a launch on an idle stream to the first CTA's first instruction, and from the end of the last CTA to
    /// that of the run, which are told together.
    pub launch_latency: Nanos,
    /// From the end of one kernel to the start of the next on the same stream, a merge.
    pub kernel_gap: Nanos,
    /// The same where the next is a kernel of attention: what it takes more.
    #[serde(default)]
    pub attention_gap: Nanos,
    /// Between two launches of one thread on streams of their own: the second one's first CTA is that much later.
    pub host_launch_interval: Nanos,
    /// From a CTA's dispatch to its first load: prologue, block table and Q.
    pub cta_prologue: Nanos,
    /// From a CTA's last tile to its end: scaling and writing the partial.
    pub cta_epilogue: Nanos,
    /// Part of the least time of a step that a CTA still takes when its last tile has come.
    #[serde(default)]
    pub last_step: f64,
    /// From the end of a CTA that decodes to the beginning of the one that takes its place: it leaves its SM, and the next
    /// one is launched and looks its work up. The first CTAs of a launch have that behind them.
    #[serde(default)]
    pub cta_turnover: Nanos,
    /// Time in which the CTA scheduler places one CTA, over the whole GPU.
    pub dispatch_interval: Nanos,
    /// Work per tile step that does not overlap with the tensor cores, whatever the tile.
    pub tile_step: Nanos,
    /// The same for each 64 KV tokens of a step: softmax, and moving P between the two products.
    #[serde(default)]
    pub softmax_step: Nanos,
    /// Rate at which one CTA writes its results after its last tile, bytes per second; 0 where that is
    /// part of `cta_epilogue`.
    #[serde(default)]
    pub store_bytes_per_s: u64,
    /// From asking for the partials of one trip to having them added up, where `merge_kernel` is known.
    #[serde(default)]
    pub merge_trip: Nanos,
    /// The same in a persistent worker by itself, which has fewer warps and registers for it; 0 where it takes as long. While
    /// all lanes are busy, a trip takes `loaded_latency` instead of `sim.idle_latency`.
    #[serde(default)]
    pub worker_merge_trip: Nanos,
    /// What a persistent worker's task takes longer where its queries have other partials, whether it merges or not: a
    /// barrier, the count of those that arrived, and another barrier.
    #[serde(default)]
    pub worker_arrival: Nanos,
    /// From a persistent worker's place on an SM to its first load; 0 where it is as for other CTAs.
    #[serde(default)]
    pub worker_prologue: Nanos,
    /// Bytes written back to HBM for each byte read, while L2 is full of what was written before a cold run.
    #[serde(default)]
    pub cold_write_back: f64,
    /// What is written back in all, with reads and while HBM is idle; where it was not measured, what `l2_useful_fraction` of
    /// L2 holds, with reads alone.
    #[serde(default)]
    pub cold_dirty: Option<Bytes>,
    /// From the end of a persistent worker's task to the first tile of its next one, which came while that ended.
    pub queue_pop: Nanos,
    /// What the first launch waits longer for each further stream of its call, which an event sets off.
    #[serde(default)]
    pub stream_fork: Nanos,
    /// Joining another stream with an event before the merge: what that takes more.
    pub stream_join: Nanos,
}

/// What a worker of the persistent kernel takes for a task beside its tiles, and for a merge: for closed forms that
/// compare plans. The time of a tile stands with its kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerTimes {
    /// From the end of one task to the first tile of the next in shared memory.
    pub begin: Nanos,
    /// From the last tile to the end: writing the results and telling that they have arrived.
    pub end: Nanos,
    /// Rate at which the worker that arrives last reads the partials that it merges, bytes per second.
    pub merge_bytes_per_s: u64,
    /// Rate at which HBM gives as many bytes as L2 holds after a kernel that wrote more than that: written lines go out first.
    pub first_bytes_per_s: u64,
}

/// KV that leaves L2 first because no other pack reads it, or because partials are to stay: it takes the place of its like, and
/// little of what L2 held before has to go back to HBM for it. In plans that read more than `kv_bytes`, and little of it again,
/// the tasks that begin with the run do not mark.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarkedReads {
    /// KV bytes in HBM up to which a plan reads little.
    pub kv_bytes: Bytes,
    /// How many times its KV in HBM a plan reads that reads much again. Files from before it was named have that of the
    /// kernels.
    #[serde(default = "read_again")]
    pub read_again: f64,
    /// Part of `sim.cold_write_back` that goes back nevertheless.
    pub written_back: f64,
    /// Of files from a time when it counted how long a pack is; nothing reads it.
    #[serde(default, skip_serializing, rename = "short_bytes")]
    pub outdated: IgnoredAny,
}

/// Runs that are shorter where packs of the same KV are joined: those of which L2 takes much for reading it again, that end after
/// the CTAs of joined packs do, and that HBM keeps busy beside them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinedPacks {
    /// They take so long at least.
    pub least_run: Nanos,
    /// The largest part of one that the longest CTA takes.
    pub longest: f64,
    /// The least part of one that L2 would take for what is no longer read.
    pub saved: f64,
    /// The least part of one that HBM takes for what has to be read.
    #[serde(default)]
    pub hbm: f64,
}

/// What is much for packscope's kernels.
fn read_again() -> f64 {
    1.3
}

/// What a worker of a persistent kernel takes from the queue at once, where there are more than `tasks_per_lane` tasks
/// for each of them: KV heads of a pack, one after another, until `tokens` KV tokens are together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueItems {
    /// KV tokens that an item holds at least, over its heads.
    pub tokens: u64,
    /// Tasks for each worker above which items are joined.
    pub tasks_per_lane: u32,
    /// The most workers of an SM at head dimension 128, where those of the tile's own kernel are more: merging takes
    /// registers too.
    #[serde(default)]
    pub workers_per_sm: Option<u32>,
}

impl QueueItems {
    /// KV heads of a pack of `tokens` that are one item, of `kv_heads`.
    pub fn heads(&self, tokens: u64, kv_heads: u32) -> u32 {
        let mut heads = 1;
        while heads * 2 <= kv_heads
            && kv_heads.is_multiple_of(heads * 2)
            && u64::from(heads) * tokens.max(1) < self.tokens
        {
            heads *= 2;
        }
        heads
    }
}

/// What the compiler gave one tile of the attention kernel at head dimension 128, 64 or 256.
///
/// PAT's kernel holds Q, one K and one V buffer, so its shared memory follows from the tile. A kernel
/// with a ring of buffers takes what `shared` says and keeps `in_flight` outstanding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelResources {
    /// Query rows of the tile.
    pub m: u32,
    /// KV tokens of the tile.
    pub n: u32,
    /// Warps of the CTA.
    pub warps: u32,
    /// Registers of one thread.
    pub registers: u32,
    /// Dynamic shared memory of the CTA, where it does not follow from the tile.
    #[serde(default)]
    pub shared: Option<Bytes>,
    /// Bytes that a CTA keeps outstanding, where that is not one K or V tile.
    #[serde(default)]
    pub in_flight: Option<Bytes>,
    /// KV heads that a CTA computes side by side.
    #[serde(default = "one")]
    pub heads: u32,
    /// Time of one step of `n` KV tokens while the memory system is idle, where it was traced.
    #[serde(default)]
    pub step: Option<Nanos>,
    /// The least time of a step, in a CTA that has the GPU to itself: products, softmax and products again, each waiting
    /// for the one before. Where it is not known, it is less than what else a step takes.
    #[serde(default)]
    pub chain: Option<Nanos>,
    /// What a step takes of its SM whose KV is there: with several CTAs on the SM, each gets its share of that. Where it
    /// was not measured, it follows from the rates of the device.
    #[serde(default)]
    pub sm_step: Option<Nanos>,
}

impl KernelResources {
    /// Of a tile of one head of which nothing else is known.
    pub fn new(m: u32, n: u32, warps: u32, registers: u32) -> Self {
        Self {
            m,
            n,
            warps,
            registers,
            shared: None,
            in_flight: None,
            heads: one(),
            step: None,
            chain: None,
            sm_step: None,
        }
    }
}

fn one() -> u32 {
    1
}

fn whole() -> f64 {
    1.0
}

/// One step of the rule that chooses n: the tile of `m` rows takes `n` KV tokens a step for packs of
/// `from_tokens` KV tokens and more (PAT section 5.2: found by a sweep, kept as a decision tree).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TileStep {
    /// Query rows of the tile.
    pub m: u32,
    /// KV tokens of the tile.
    pub n: u32,
    /// Shortest pack that takes it.
    pub from_tokens: u64,
}

/// Longest key or name of a device, in bytes.
const LONGEST_NAME: usize = 200;

impl Device {
    /// Bandwidth that a plain read reaches, bytes per second.
    pub fn reachable_bytes_per_s(&self) -> f64 {
        self.hbm_bytes_per_s as f64 * self.sim.hbm_efficiency
    }

    /// Most that L2 gives all SMs together, bytes per second.
    pub fn l2_peak(&self) -> f64 {
        let SimConstants { l2_bytes_per_s, l2_peak_bytes_per_s, .. } = self.sim;
        if l2_peak_bytes_per_s > 0 { l2_peak_bytes_per_s as f64 } else { l2_bytes_per_s as f64 }
    }

    /// One trip to L2 of a merge.
    pub fn merge_trip(&self) -> Nanos {
        if self.merge_kernel.is_some() { self.sim.merge_trip } else { self.sim.l2_latency }
    }

    /// The same of a worker that merges while other lanes are idle.
    pub fn worker_merge_trip(&self) -> Nanos {
        if self.sim.worker_merge_trip > Nanos::ZERO { self.sim.worker_merge_trip } else { self.merge_trip() }
    }

    /// What L2 usefully holds, bytes.
    pub fn useful_l2_bytes(&self) -> f64 {
        self.l2.as_f64() * self.sim.l2_useful_fraction
    }

    /// Bytes that are written back to HBM in a cold run before L2 holds nothing of what was written before.
    pub fn dirty_bytes(&self) -> f64 {
        self.sim.cold_dirty.map_or(self.useful_l2_bytes(), Bytes::as_f64)
    }

    /// From asking for a tile of `bytes` to having all of it in shared memory, ns, while nothing else is
    /// asked for: the latency, and the landing at the SM's port.
    pub fn tile_latency(&self, bytes: f64) -> f64 {
        self.sim.idle_latency.as_f64() + bytes / (self.sim.sm_bytes_per_s as f64 * 1e-9)
    }

    /// Refuses figures that would make a plan or a simulation meaningless.
    ///
    /// # Errors
    /// [`Error::Device`] with the field, its value and its range ([`super::figures`]).
    pub fn validate(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::Device(format!("{what} (device '{}')", quoted(&self.key))));
        for (field, text) in [("key", &self.key), ("name", &self.name)] {
            if text.is_empty() || text.len() > LONGEST_NAME || text.chars().any(char::is_control) {
                let (shown, bytes) = (quoted(text), text.len());
                return wrong(format!(
                    "{field} is '{shown}' of {bytes} bytes, but must be 1 to {LONGEST_NAME} bytes without control characters"
                ));
            }
        }
        if let Some(figure) = super::figures(self).into_iter().find(|figure| !figure.holds()) {
            return wrong(figure.to_string());
        }
        if !self.gpcs.is_empty() && self.gpcs.len() != self.sm_count as usize {
            return wrong(format!("gpcs names {} SMs, but there are {}", self.gpcs.len(), self.sm_count));
        }
        if self.kernels.is_empty() {
            return wrong("kernels is empty, but must name at least one".to_owned());
        }
        if let Some(step) = self.tile_steps.iter().find(|s| !self.kernels.iter().any(|k| (k.m, k.n) == (s.m, s.n))) {
            return wrong(format!("tile_steps names {}×{}, which is not among its kernels", step.m, step.n));
        }
        Ok(())
    }
}
