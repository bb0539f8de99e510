//! The kernels that compute prefill and decode in one launch.
//!
//! ```text
//! either   256 threads, two CTAs to an SM: prefill of 64 rows, or a decode item       113 KiB for whichever it is
//! both     512 threads, one CTA to an SM: prefill of 128 rows beside a decode item    130 + 96 KiB
//! ```
//!
//! Two equal CTAs cannot hold 128 rows each: output, scores and weights of 128 by 64 take 28,700 of the 32,768 registers
//! that are half of an SM.

use super::{Arch, BESIDE_SHARED, Copies, Groups, KernelSpec, MAX_STAGES, PrefillSpec, bulk_box};
use crate::error::KernelError;
use crate::plan::{CtaRoles, Dtype, Tile};

/// What the CTAs of a hybrid kernel have room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Roles {
    /// A prefill item or one of decode, two CTAs to an SM.
    Either,
    /// A prefill item and one of decode, in warps of their own, one CTA to an SM.
    Both,
}

impl From<CtaRoles> for Roles {
    /// What the CTAs of a launch must have room for.
    fn from(roles: CtaRoles) -> Self {
        if roles == CtaRoles::Paired { Self::Both } else { Self::Either }
    }
}

/// One kernel that computes prefill and decode of a launch; only with warpgroup instructions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HybridSpec {
    /// What its CTAs compute.
    pub roles: Roles,
    /// The decode tile: [`Tile::LEAN`], or 16 rows by 32 to 64 tokens.
    pub tile: Tile,
    /// Head dimension, 64 or 128.
    pub head_dim: u32,
    /// Element type.
    pub dtype: Dtype,
    /// Writes trace records.
    pub trace: bool,
    /// How tiles of K and V come.
    pub copies: Copies,
    /// Groups of query heads that it takes.
    pub groups: Groups,
}

impl HybridSpec {
    /// Rows of a prefill task.
    pub fn rows_of(roles: Roles) -> u32 {
        match roles {
            Roles::Either => 64,
            Roles::Both => 128,
        }
    }

    fn rows(&self) -> u32 {
        Self::rows_of(self.roles)
    }

    /// KV tokens that prefill computes at a time: what registers for 64 rows of output and scores allow.
    pub fn tokens(&self) -> u32 {
        if self.copies == Copies::Tokens { 64 } else { 96 }
    }

    /// Threads of a CTA: a warpgroup that fetches, and one, or one of decode and two of prefill, that compute.
    pub fn threads(&self) -> u32 {
        match self.roles {
            Roles::Either => 256,
            Roles::Both => 512,
        }
    }

    /// CTAs that are to share an SM.
    pub fn ctas_per_sm(&self) -> u32 {
        match self.roles {
            Roles::Either => 2,
            Roles::Both => 1,
        }
    }

    /// Whether tiles arrive by bulk tensor copies.
    pub(crate) fn bulk_copies(&self) -> bool {
        self.copies == Copies::Bulk
    }

    /// Tokens of a bulk copy of prefill from blocks of `block` tokens.
    pub(crate) fn box_tokens(&self, block: u32) -> u32 {
        bulk_box(self.tokens(), block)
    }

    /// Shared memory for prefill and for decode, bytes: the same for both, or each its own.
    fn shares(&self, arch: &Arch) -> (u32, u32) {
        match self.roles {
            Roles::Either => {
                let all = arch.shared_per_sm / 2 - 1024;
                (all, all)
            }
            Roles::Both => (arch.shared_per_cta.saturating_sub(BESIDE_SHARED), BESIDE_SHARED),
        }
    }

    /// Ring stages of prefill, each a tile of K or V.
    fn prefill_stages(&self, arch: &Arch) -> u32 {
        let room = self.shares(arch).0.saturating_sub(self.rows() * self.head_dim * 2 + PrefillSpec::SCRATCH);
        (room / (self.tokens() * self.head_dim * 2)).min(6)
    }

    fn prefill_bytes(&self, arch: &Arch) -> u32 {
        let tiles = self.prefill_stages(arch) * self.tokens();
        (tiles + self.rows()) * self.head_dim * 2 + PrefillSpec::SCRATCH
    }

    /// The decode half, an item of its own for each CTA.
    fn decode(&self, arch: &Arch) -> KernelSpec {
        let spec = KernelSpec {
            copies: self.copies,
            groups: self.groups,
            // In its warpgroup that fetches decode has one warp.
            copiers: 1,
            ..KernelSpec::new(&[self.tile], self.head_dim, self.dtype, false, self.trace)
        };
        let most = self.shares(arch).1;
        let stages = (1..=MAX_STAGES).rev().find(|stages| spec.shared_with(*stages) <= most).unwrap_or(0);
        KernelSpec { stages, ..spec }
    }

    /// Dynamic shared memory of a CTA in bytes.
    pub fn shared_bytes(&self, arch: &Arch) -> Result<u32, KernelError> {
        let (prefill, decode) = (self.prefill_bytes(arch), self.decode(arch).shared_bytes(arch)?);
        Ok(match self.roles {
            Roles::Either => prefill.max(decode),
            // Each half begins at a multiple of 1 KiB.
            Roles::Both => prefill.next_multiple_of(1024) + decode.next_multiple_of(1024),
        })
    }

    fn check(&self, arch: &Arch) -> Result<(), KernelError> {
        let bad = |what: String| Err(KernelError::Unsupported(what));
        if !arch.warpgroups() {
            return bad(format!("prefill and decode in one kernel on {}", arch.name()));
        }
        if self.head_dim > 128 {
            return bad(format!("prefill and decode in one kernel at head dimension {}", self.head_dim));
        }
        if !self.copies.runs_beside_prefill(self.tile) {
            return bad(format!("decode tile {}x{} in one kernel with prefill", self.tile.m, self.tile.n));
        }
        if self.prefill_stages(arch) < 4 {
            return bad(format!(
                "prefill and decode in one kernel with {} bytes of shared memory",
                arch.shared_per_cta
            ));
        }
        Ok(())
    }

    /// Preprocessor definitions for this architecture.
    pub(crate) fn options(&self, arch: &Arch) -> Result<Vec<String>, KernelError> {
        self.check(arch)?;
        let mut options = self.decode(arch).options(arch, self.ctas_per_sm())?;
        options.extend([
            "-DPS_SLIM=0".to_owned(),
            format!("-DPS_ROLES={}", if self.roles == Roles::Either { 1 } else { 2 }),
            format!("-DPS_PREFILL_ROWS={}", self.rows()),
            format!("-DPS_PREFILL_TOKENS={}", self.tokens()),
            format!("-DPS_PREFILL_STAGES={}", self.prefill_stages(arch)),
            format!("-DPS_PREFILL_BYTES={}", self.prefill_bytes(arch)),
            format!("-DPS_HYBRID_BYTES={}", self.shared_bytes(arch)?),
        ]);
        Ok(options)
    }
}
