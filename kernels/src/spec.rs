//! What to compile: the options of one decode kernel, and the shared memory that follows from them.
//!
//! A ring stage holds one K or V tile: `n * d * 2` bytes; the rows of Q, `m * d * 2` bytes, have a place of their own.
//! The number of stages is what fits when the wanted number of CTAs share an SM, at least [`LEAST_STAGES`] and at most
//! [`MAX_STAGES`]. Worked: m = 64, n = 64, d = 128 gives 16 KiB for each; two CTAs on an SM of 228 KiB may take 113 KiB
//! each, so 5 stages.

mod hybrid;
mod prefill;
#[cfg(test)]
mod tests;

pub use hybrid::{HybridSpec, Roles};
pub use prefill::PrefillSpec;

use crate::error::KernelError;
use crate::plan::{DecodeShape, Dtype, Tile};

/// More stages than this bring nothing: the memory system is full.
const MAX_STAGES: u32 = 12;

/// K and V of one tile.
const LEAST_STAGES: u32 = 2;

/// Registers of a thread of a decode CTA that runs beside a slim prefill CTA, as it starts: its two warps in a quarter take 4,608, so
/// that 16,128 are taken.
const BESIDE_REGISTERS: u32 = 72;

/// Registers of a thread of a CTA with [`Tile::TALL`] as it starts: it has three warps in a quarter of an SM, or four with
/// [`Sight::Apart`].
const TALL_REGISTERS: u32 = 168;
const APART_REGISTERS: u32 = 128;

/// Likewise with [`Tile::DOUBLE`], at two CTAs per SM.
const DOUBLE_REGISTERS: u32 = 128;

/// Likewise where several warps copy tokens, at two CTAs per SM.
const COPIER_REGISTERS: u32 = 128;

/// Stages of the ring of what few queries see, and tokens of each (`few.cuh`).
const FEW_STAGES: u32 = 3;
const FEW_TOKENS: u32 = 64;

/// Shared memory of that decode CTA in bytes. What is left of an SM is for the prefill CTA, less 1 KiB that each CTA
/// costs: of 228 KiB, 130.
const BESIDE_SHARED: u32 = 96 << 10;

/// A compile target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arch {
    /// Compute capability times ten: 80, 90, 100.
    pub capability: u32,
    /// Shared memory of an SM in bytes.
    pub shared_per_sm: u32,
    /// Largest shared memory of a CTA in bytes.
    pub shared_per_cta: u32,
}

impl Arch {
    /// A100.
    pub const SM_80: Self = Self { capability: 80, shared_per_sm: 164 << 10, shared_per_cta: 163 << 10 };
    /// H100, H200.
    pub const SM_90A: Self = Self { capability: 90, shared_per_sm: 228 << 10, shared_per_cta: 227 << 10 };
    /// B200.
    pub const SM_100: Self = Self { capability: 100, shared_per_sm: 228 << 10, shared_per_cta: 227 << 10 };

    /// The name NVRTC takes: Hopper's own instructions need `sm_90a`.
    pub fn name(&self) -> String {
        if self.capability == 90 { "sm_90a".to_owned() } else { format!("sm_{}", self.capability) }
    }

    /// Whether it has Hopper's warpgroup instructions.
    pub fn warpgroups(&self) -> bool {
        self.capability == 90
    }

    /// Whether tiles arrive by bulk tensor copies.
    pub fn bulk_copies(&self) -> bool {
        self.capability >= 90
    }
}

/// How tiles of K and V come from the blocks of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Copies {
    /// By bulk tensor copies, on GPUs that have them.
    #[default]
    Bulk,
    /// Token by token, since the blocks are too small for that.
    Tokens,
}

impl Copies {
    /// The most tokens of a decode tile of 16 rows beside prefill: copies token by token leave no registers for 64.
    fn longest_beside_prefill(self) -> u32 {
        match self {
            Self::Bulk => 64,
            Self::Tokens => 32,
        }
    }

    /// Whether a decode tile fits beside prefill, in another kernel on the same SM or in the same kernel.
    fn runs_beside_prefill(self, tile: Tile) -> bool {
        tile == Tile::LEAN || (tile.m == 16 && (32..=self.longest_beside_prefill()).contains(&tile.n))
    }
}

/// Tokens of a bulk copy from blocks of `block` tokens for tiles of `tokens`: the most that divide both.
fn bulk_box(tokens: u32, block: u32) -> u32 {
    block.min(1 << tokens.trailing_zeros())
}

/// Query heads per KV head that a decode kernel takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Groups {
    /// 1, 2, 4, 8 or 16: divisions by them are shifts.
    #[default]
    PowersOfTwo,
    /// Any up to [`crate::DecodeShape::LARGEST_GROUP`].
    Any,
}

/// What the queries of a decode kernel's packs see of their tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sight {
    /// All of them.
    #[default]
    Whole,
    /// In some packs what masks say ([`crate::PackTask::masks`]).
    Masked,
    /// The same on [`Tile::TALL`] in a persistent kernel, where a warpgroup of its own takes what few queries see
    /// ([`crate::PackTask::leaves_few_apart`]).
    Apart,
}

/// One decode kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KernelSpec {
    /// Tiles that the kernel can run.
    pub tiles: Vec<Tile>,
    /// Head dimension, 64, 128 or 256.
    pub head_dim: u32,
    /// Element type.
    pub dtype: Dtype,
    /// Persistent, with the merge inside.
    pub fused: bool,
    /// Writes trace records.
    pub trace: bool,
    /// When a task of a persistent kernel joins the other partials of a query to its own rows.
    pub folds: Folds,
    /// Runs beside slim prefill CTAs (see [`PrefillSpec::slim`]), in what they leave of each SM; only where `fused`.
    pub beside_prefill: bool,
    /// How tiles of K and V come.
    pub copies: Copies,
    /// Groups of query heads that it takes.
    pub groups: Groups,
    /// What the queries of its packs see.
    pub sight: Sight,
    /// CTAs that are to share an SM.
    pub ctas_per_sm: u32,
    /// Ring stages, or 0 to take as many as fit.
    pub stages: u32,
    /// Warps that copy K and V, or 0 to take as many as it needs.
    pub copiers: u32,
    /// Extra preprocessor definitions, for experiments.
    pub defines: Vec<String>,
}

/// When a task of a persistent kernel looks whether the other partials of a query are there. If so, it joins them to its
/// own rows and writes the output; whoever comes last need not merge them from memory. Last bits vary from run to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Folds {
    /// Never: whoever comes last merges all partials as they were stored.
    Never = 0,
    /// As it ends, for tasks of several KV heads.
    AtEnd = 1,
    /// As it is claimed, so that they come with its K and V.
    AsClaimed = 2,
}

impl KernelSpec {
    /// The usual kernel for these tiles.
    pub fn new(tiles: &[Tile], head_dim: u32, dtype: Dtype, fused: bool, trace: bool) -> Self {
        let ctas_per_sm = Self::usual_residency(tiles, head_dim, fused);
        Self {
            tiles: tiles.to_vec(),
            head_dim,
            dtype,
            fused,
            trace,
            folds: if fused { Folds::AsClaimed } else { Folds::Never },
            beside_prefill: false,
            copies: Copies::Bulk,
            groups: Groups::PowersOfTwo,
            sight: if tiles.contains(&Tile::TALL) { Sight::Masked } else { Sight::Whole },
            ctas_per_sm,
            stages: 0,
            copiers: 0,
            defines: Vec::new(),
        }
    }

    /// The usual fused kernel for these tiles beside prefill.
    pub fn beside_prefill(tiles: &[Tile], head_dim: u32, dtype: Dtype, trace: bool) -> Self {
        Self { beside_prefill: true, ..Self::new(tiles, head_dim, dtype, true, trace) }
    }

    /// CTAs per SM that the registers allow without spilling: the output of 64 rows takes most of a thread's, and at head
    /// dimension 128 so do 32 rows with the scores of 64 tokens, and the merge inside a fused kernel. At 256 all but
    /// 16 rows of one head do.
    fn usual_residency(tiles: &[Tile], head_dim: u32, fused: bool) -> u32 {
        let wide = |t: &Tile| t.m >= 64 || t.heads_together() > 1 || (head_dim == 128 && (fused || t.m * t.n >= 2048));
        let large = |t: &Tile| head_dim > 128 && (t.m > 16 || t.heads_together() > 1);
        match tiles.iter().map(|t| t.n).max() {
            Some(128) => 1,
            _ if tiles.iter().any(large) => 1,
            _ if head_dim > 128 => 2,
            _ if tiles.iter().any(wide) => 2,
            _ => 3,
        }
    }

    /// Residency that `ptxas` must reach. Without warpgroup instructions the fragments of K and V take registers too,
    /// and 64 rows would spill at two CTAs per SM.
    pub(crate) fn least_residency(&self, arch: &Arch) -> u32 {
        let wide = self.tiles.iter().any(|t| t.m == 64 || t.heads_together() > 1);
        if !arch.warpgroups() && wide { 1 } else { self.ctas_per_sm }
    }

    /// Whether tiles arrive by bulk tensor copies.
    pub(crate) fn bulk_copies(&self, arch: &Arch) -> bool {
        arch.bulk_copies() && self.copies == Copies::Bulk
    }

    /// Warps that compute; others fetch.
    pub fn consumer_warps(&self) -> u32 {
        4 * self.tiles.iter().map(|tile| tile.teams()).max().unwrap_or(1)
    }

    /// Warps that copy K and V. Token by token one is too slow for Hopper's memory.
    fn copiers(&self, arch: &Arch) -> u32 {
        if self.copiers > 0 {
            return self.copiers;
        }
        let several = self.copies == Copies::Tokens && !self.beside_prefill && self.ctas_per_sm <= 2;
        if arch.warpgroups() && several { 2 } else { 1 }
    }

    /// Registers of a thread as the CTA starts, where its fetching warps give some of theirs to the consumers.
    fn registers_move(&self, arch: &Arch, residency: u32) -> Option<u32> {
        let registers = if self.sight == Sight::Apart { APART_REGISTERS } else { TALL_REGISTERS };
        let tall = self.tiles.contains(&Tile::TALL).then_some(registers);
        let copiers = (self.copiers(arch) > 1 && residency == 2).then_some(COPIER_REGISTERS);
        let double = self.tiles.contains(&Tile::DOUBLE).then_some(DOUBLE_REGISTERS);
        if self.beside_prefill { Some(BESIDE_REGISTERS) } else { tall.or(double).or(copiers) }
    }

    /// Threads of a CTA: the consumers, the producers, and in a persistent kernel the scout. Where these leave
    /// registers to the consumers, they are in a warpgroup of their own. So are those that take what few queries see apart.
    pub fn threads(&self, arch: &Arch) -> u32 {
        let warpgroup = self.copiers(arch) > 1 || self.registers_move(arch, self.ctas_per_sm).is_some();
        let fetchers = if warpgroup { 4 } else { 1 + u32::from(self.fused) };
        let few = if self.sight == Sight::Apart { 4 } else { 0 };
        (self.consumer_warps() + few + fetchers) * 32
    }

    /// Rows of Q in a stage.
    fn rows(&self) -> u32 {
        self.tiles.iter().map(|t| t.m * t.heads_together()).max().unwrap_or(16)
    }

    /// Rows of K or V in a stage.
    fn tokens(&self) -> u32 {
        self.tiles.iter().map(|t| t.n * t.heads_together()).max().unwrap_or(16)
    }

    fn stage_bytes(&self) -> u32 {
        self.tokens() * self.head_dim * 2
    }

    /// 16-bit values of P that pass through shared memory: those of tiles whose rows several warps share.
    fn p_halves(&self) -> u32 {
        let shared = |t: &&Tile| t.heads_together() == 1 && self.consumer_warps() > t.m / 16;
        self.tiles.iter().filter(shared).map(|t| t.m * (t.n + 8)).max().unwrap_or(0)
    }

    /// Rows of Q of one task.
    fn query_bytes(&self) -> u32 {
        self.rows() * self.head_dim * 2
    }

    fn scratch_bytes(&self, stages: u32) -> u32 {
        let barriers = stages * 16 + 64;
        let apart = self.sight == Sight::Apart;
        let orders = 2 * if apart { 192 } else { 176 };
        // What queries see of the first tiles is for tiles of 64 rows.
        let of_masks = match self.sight {
            Sight::Whole => 32,
            Sight::Masked if self.rows() <= Tile::MASKED.m => 48 + self.rows() * 8,
            Sight::Masked | Sight::Apart => 48,
        };
        let info = of_masks + self.rows() * 16;
        let exchange = self.consumer_warps() * 16 * 8;
        // Those of 128 rows have two units of 16 rows a warp, and the item at hand in shared memory.
        let (units, item) = if self.tiles.contains(&Tile::DOUBLE) {
            (2 * self.consumer_warps(), 32)
        } else {
            (self.consumer_warps(), 0)
        };
        let queries = 2 * self.rows() * 16 + units * 16 * 16 + item;
        let p = (self.p_halves() + 8) * 2;
        let tasks = units * 16 + self.consumer_warps() * 4;
        let times = 32 * if self.trace { self.consumer_warps() } else { 1 };
        // Barriers, the scores of 16 rows, and two factors of each.
        let few = if apart { 96 + 16 * 4 * (FEW_TOKENS + 4) + 128 } else { 0 };
        // Alignment of each part and of the whole to 1 KiB.
        (barriers + info + orders + exchange + queries + tasks + times + few + p + 64).next_multiple_of(1024)
    }

    /// K, V and weights of what few queries see, where it is taken apart.
    fn few_bytes(&self) -> u32 {
        let stages = FEW_STAGES * FEW_TOKENS * self.head_dim * 2;
        if self.sight == Sight::Apart { stages + 16 * FEW_TOKENS * 2 } else { 0 }
    }

    /// Ring stages on this architecture. Where the wanted residency leaves no room for the least ring, fewer CTAs
    /// share an SM.
    pub fn stages_on(&self, arch: &Arch) -> Result<u32, KernelError> {
        let stages = if self.stages > 0 {
            self.stages
        } else {
            (1..=self.ctas_per_sm.max(1))
                .rev()
                .map(|ctas| self.stages_at(arch, ctas))
                .find(|&s| s >= LEAST_STAGES)
                .unwrap_or(0)
        };
        if stages < LEAST_STAGES || self.shared_with(stages) > arch.shared_per_cta {
            return Err(KernelError::Unsupported(format!("tiles {:?} do not fit the shared memory", self.tiles)));
        }
        Ok(stages)
    }

    fn shared_with(&self, stages: u32) -> u32 {
        stages * self.stage_bytes() + self.query_bytes() + self.few_bytes() + self.scratch_bytes(stages)
    }

    /// Ring stages that fit when `ctas` CTAs share an SM.
    fn stages_at(&self, arch: &Arch, ctas: u32) -> u32 {
        let share = if self.beside_prefill { BESIDE_SHARED } else { (arch.shared_per_sm / ctas).saturating_sub(1024) };
        let budget = share.min(arch.shared_per_cta);
        let fits = |s: u32| self.shared_with(s) <= budget;
        (1..=MAX_STAGES).rev().find(|&s| fits(s)).unwrap_or(0)
    }

    /// Dynamic shared memory of a CTA in bytes.
    pub fn shared_bytes(&self, arch: &Arch) -> Result<u32, KernelError> {
        Ok(self.shared_with(self.stages_on(arch)?))
    }

    /// Refuses tiles that the kernel's four warps cannot divide.
    pub fn check(&self) -> Result<(), KernelError> {
        let rows_at_128 = match self.head_dim {
            64 => 64,
            128 => 32,
            _ => 16,
        };
        if let Some(t) = self.tiles.iter().find(|t| t.n == 128 && t.m > rows_at_128 && **t != Tile::TALL) {
            let (m, n, d) = (t.m, t.n, self.head_dim);
            return Err(KernelError::Unsupported(format!(
                "a tile of {m}x{n} at head dimension {d}: its registers spill"
            )));
        }
        let beside_masks = self.tiles.contains(&Tile::MASKED)
            && self.tiles.iter().all(|tile| tile.m != 32)
            && self.tiles.iter().filter(|tile| tile.m == 16).count() < 2;
        let tall = self.tiles == [Tile::TALL];
        let apart = tall && self.fused && self.folds == Folds::Never;
        let takes = if self.sight == Sight::Apart { apart } else { tall || beside_masks };
        let masks = self.head_dim <= Tile::MASKED_DIM && takes;
        if self.sight != Sight::Whole && !masks {
            return Err(KernelError::Unsupported(format!(
                "masks with tiles {:?} at head dimension {}: its registers spill",
                self.tiles, self.head_dim
            )));
        }
        if self.beside_prefill && self.head_dim > 128 {
            return Err(KernelError::Unsupported(format!("decode beside prefill at head dimension {}", self.head_dim)));
        }
        let double = self.tiles.contains(&Tile::DOUBLE);
        let beside = |tile: &Tile| matches!(*tile, Tile::DOUBLE | Tile::MASKED | Tile::LEAN);
        let beside_double = self.tiles.iter().all(beside) && self.copies == Copies::Bulk;
        if double && (self.head_dim > Tile::MASKED_DIM || !beside_double || self.sight != Sight::Whole) {
            return Err(KernelError::Unsupported(format!(
                "tiles {:?} with {:?} copies at head dimension {}: one of 128 rows by 64 tokens is for packs without masks, blocks of \
                 {} tokens or more and up to {} dimensions, beside 64x64 and 8x16",
                self.tiles,
                self.copies,
                self.head_dim,
                DecodeShape::BULK_BLOCK,
                Tile::MASKED_DIM
            )));
        }
        let alone = self.tiles.len() == 1 && self.copies == Copies::Bulk && self.sight != Sight::Whole;
        if self.tiles.contains(&Tile::TALL) && !alone {
            return Err(KernelError::Unsupported(format!(
                "tiles {:?} with {:?} copies: one of 128 rows is alone in its kernel, for packs with masks and blocks of {} \
                 tokens or more",
                self.tiles,
                self.copies,
                DecodeShape::BULK_BLOCK
            )));
        }
        let bad = |t: &&Tile| {
            **t != Tile::LEAN
                && **t != Tile::TALL
                && **t != Tile::DOUBLE
                && (!matches!(t.m, 16 | 32 | 64) || !matches!(t.n, 16 | 32 | 64 | 128))
        };
        if let Some(t) = self.tiles.iter().find(bad) {
            return Err(KernelError::Unsupported(format!("a tile of {} rows by {} tokens", t.m, t.n)));
        }
        let lean = |t: &Tile| self.copies.runs_beside_prefill(*t);
        if self.beside_prefill && !(self.fused && self.tiles.len() == 1 && self.tiles.iter().all(lean)) {
            return Err(KernelError::Unsupported(format!(
                "tiles {:?} beside prefill: one runs there, from a queue, of 8x16 or of 16 rows by 32 to {} tokens",
                self.tiles,
                self.copies.longest_beside_prefill()
            )));
        }
        if self.tiles.is_empty() || (self.tiles.len() > 1 && self.consumer_warps() < 4) {
            return Err(KernelError::Unsupported(
                "tile 16x16 runs alone: it has two warps, the others four".to_owned(),
            ));
        }
        Ok(())
    }

    /// Preprocessor definitions for this architecture, with registers for `residency` CTAs on an SM.
    pub(crate) fn options(&self, arch: &Arch, residency: u32) -> Result<Vec<String>, KernelError> {
        self.check()?;
        let registers = self.registers_move(arch, residency);
        if registers.is_some() && !arch.warpgroups() {
            let what = if self.beside_prefill { "decode beside prefill" } else { "a tile of 128 rows" };
            return Err(KernelError::Unsupported(format!("{what} on {}", arch.name())));
        }
        let list: Vec<String> = self.tiles.iter().enumerate().map(|(i, t)| format!("X({i},{},{})", t.m, t.n)).collect();
        let mut options = vec![
            format!("-DPS_D={}", self.head_dim),
            format!("-DPS_BF16={}", u32::from(self.dtype == Dtype::Bf16)),
            format!("-DPS_BESIDE={}", u32::from(self.beside_prefill)),
            format!("-DPS_COPIERS={}", self.copiers(arch)),
            format!("-DPS_FOLDS={}", self.folds as u32),
            format!("-DPS_ANY_GROUP={}", u32::from(self.groups == Groups::Any)),
            format!("-DPS_MASKS={}", u32::from(self.sight != Sight::Whole)),
            format!("-DPS_APART={}", u32::from(self.sight == Sight::Apart)),
            format!("-DPS_WARPS={}", self.consumer_warps()),
            format!("-DPS_STAGES={}", self.stages_on(arch)?),
            format!("-DPS_TOKENS={}", self.tokens()),
            format!("-DPS_ROWS={}", self.rows()),
            format!("-DPS_P_HALVES={}", self.p_halves()),
            format!("-DPS_TMA={}", u32::from(self.bulk_copies(arch))),
            format!("-DPS_WGMMA={}", u32::from(arch.warpgroups())),
            format!("-DPS_FUSED={}", u32::from(self.fused)),
            format!("-DPS_TRACE={}", u32::from(self.trace)),
            format!("-DPS_MIN_CTAS={}", if registers.is_some() { 0 } else { residency }),
            format!("-DPS_SHARED_BYTES={}", self.shared_bytes(arch)?),
            format!("-DPS_TILE_LIST(X)={}", list.join(" ")),
        ];
        if let Some(registers) = registers {
            options.push(format!("--maxrregcount={registers}"));
        }
        Ok(with_defines(options, &self.defines))
    }
}

/// `options` with an experiment's definitions in the place of ours.
fn with_defines(mut options: Vec<String>, defines: &[String]) -> Vec<String> {
    let name = |option: &String| option.split('=').next().unwrap_or_default().to_owned();
    options.retain(|option| !defines.iter().any(|d| name(d) == name(option)));
    options.extend(defines.iter().cloned());
    options
}
