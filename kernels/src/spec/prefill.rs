//! What to compile: the options of one prefill kernel.

use super::{Arch, BESIDE_SHARED, Copies, bulk_box, with_defines};
use crate::error::KernelError;
use crate::plan::Dtype;

/// Registers of a thread of a slim prefill CTA as it starts. Each quarter of an SM has 16,384, and the CTA's three warps
/// there take 11,520.
const SLIM_REGISTERS: u32 = 120;

/// One prefill kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PrefillSpec {
    /// Head dimension, 64, 128 or 256.
    pub head_dim: u32,
    /// Element type.
    pub dtype: Dtype,
    /// Writes trace records.
    pub trace: bool,
    /// How tiles of K and V come.
    pub copies: Copies,
    /// Leaves room on each SM for a decode CTA (see [`beside_prefill`](super::KernelSpec::beside_prefill)), by shorter tiles and fewer
    /// registers; only with warpgroup instructions.
    pub slim: bool,
    /// Extra preprocessor definitions, for experiments.
    pub defines: Vec<String>,
}

impl PrefillSpec {
    /// The usual kernel.
    pub fn new(head_dim: u32, dtype: Dtype, trace: bool) -> Self {
        Self { head_dim, dtype, trace, copies: Copies::Bulk, slim: false, defines: Vec::new() }
    }

    /// The kernel that decode may run beside.
    pub fn slim(head_dim: u32, dtype: Dtype, trace: bool) -> Self {
        Self { slim: true, ..Self::new(head_dim, dtype, trace) }
    }

    /// Whether it is the kernel of warpgroup instructions. An experiment may run the other one on a GPU that has them.
    fn warpgroups(&self, arch: &Arch) -> bool {
        arch.warpgroups() && !self.defines.iter().any(|d| d == "-DPS_WGMMA=0")
    }

    /// Rows of a task.
    pub const ROWS: u32 = 128;

    /// KV tokens that a CTA computes at a time. Without warpgroup instructions the fragments of K and V take registers
    /// too; so do copies token by token of the few that a slim CTA has; and at head dimension 256 half of the registers
    /// hold the output.
    pub fn tokens(&self, arch: &Arch) -> u32 {
        let tokens = match (self.warpgroups(arch), self.slim) {
            (true, true) if self.copies == Copies::Tokens => 64,
            (true, true) => 96,
            (true, false) => 128,
            (false, _) => 64,
        };
        if self.head_dim > 128 { tokens / 2 } else { tokens }
    }

    /// Whether tiles arrive by bulk tensor copies.
    pub(crate) fn bulk_copies(&self, arch: &Arch) -> bool {
        self.warpgroups(arch) && self.copies == Copies::Bulk
    }

    /// Tokens of a bulk copy from blocks of `block` tokens: it divides the block and the tile.
    pub fn box_tokens(&self, arch: &Arch, block: u32) -> u32 {
        bulk_box(self.tokens(arch), block)
    }

    /// Two warpgroups that compute and one that fetches, or eight warps that do both.
    pub fn threads(&self, arch: &Arch) -> u32 {
        if self.warpgroups(arch) { 384 } else { 256 }
    }

    /// Tiles of K and V that shared memory holds beside the rows of Q: as many as fit.
    fn tiles_held(&self, arch: &Arch) -> u32 {
        let most = if self.warpgroups(arch) { 6 } else { 4 };
        let whole = if self.slim { arch.shared_per_sm - BESIDE_SHARED - 2048 } else { arch.shared_per_cta };
        let room = whole.saturating_sub(self.query_bytes() + Self::SCRATCH);
        most.min(room / self.tile_bytes(arch))
    }

    /// Barriers, tasks and times, and the alignment of the whole.
    pub(super) const SCRATCH: u32 = 1024;

    fn query_bytes(&self) -> u32 {
        Self::ROWS * self.head_dim * 2
    }

    fn tile_bytes(&self, arch: &Arch) -> u32 {
        self.tokens(arch) * self.head_dim * 2
    }

    /// Dynamic shared memory of a CTA in bytes.
    pub fn shared_bytes(&self, arch: &Arch) -> Result<u32, KernelError> {
        let tiles = self.tiles_held(arch);
        if tiles < 4 {
            let kib = arch.shared_per_cta >> 10;
            return Err(KernelError::Unsupported(format!("prefill with {kib} KiB of shared memory")));
        }
        Ok(tiles * self.tile_bytes(arch) + self.query_bytes() + Self::SCRATCH)
    }

    /// Preprocessor definitions for this architecture.
    pub(crate) fn options(&self, arch: &Arch) -> Result<Vec<String>, KernelError> {
        if self.slim && self.head_dim > 128 {
            return Err(KernelError::Unsupported(format!(
                "prefill that leaves room for decode at head dimension {}",
                self.head_dim
            )));
        }
        if self.slim && !self.warpgroups(arch) {
            return Err(KernelError::Unsupported(format!("prefill that leaves room for decode on {}", arch.name())));
        }
        let tiles = self.tiles_held(arch);
        let mut options = vec![
            format!("-DPS_D={}", self.head_dim),
            format!("-DPS_BF16={}", u32::from(self.dtype == Dtype::Bf16)),
            format!("-DPS_TRACE={}", u32::from(self.trace)),
            format!("-DPS_WGMMA={}", u32::from(self.warpgroups(arch))),
            format!("-DPS_TMA={}", u32::from(self.bulk_copies(arch))),
            format!("-DPS_SLIM={}", u32::from(self.slim)),
            "-DPS_ROLES=0".to_owned(),
            format!("-DPS_PREFILL_ROWS={}", Self::ROWS),
            format!("-DPS_PREFILL_TOKENS={}", self.tokens(arch)),
            // A stage holds one tile for warpgroups, else a K and a V tile.
            format!("-DPS_PREFILL_STAGES={}", if self.warpgroups(arch) { tiles } else { tiles / 2 }),
            format!("-DPS_PREFILL_BYTES={}", self.shared_bytes(arch)?),
        ];
        if self.slim {
            options.push(format!("--maxrregcount={SLIM_REGISTERS}"));
        }
        Ok(with_defines(options, &self.defines))
    }
}
