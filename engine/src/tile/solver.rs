//! Which tiles a device runs well: the constraints of PAT section 5.2, each shown for each shape.
//!
//! ```text
//! ① shared memory   max((m + 2n)·d·b, 2·m·d·b), or the kernel's own figure, ≤ shared memory of a CTA
//!   registers       R_thread ≤ 255 without spills, C·R_CTA ≤ registers of an SM
//! ② in flight       C·n·d·b ≥ L·B / SMs          one K or V tile outstanding a CTA, or a ring of them
//! ③ MMA             m, n powers of two, at least 16
//! ④ overlap         C ≥ 2, or at head dimension 256 a ring of tiles
//! ⑤ joined packs    not the tile of packs that `min-time` joins
//! ```
//!
//! ①–③ are the paper's. ④ is ours: a CTA alone on its SM leaves the memory system idle through its
//! prologue, its softmax and its epilogue, which is why the paper's A100 list stops at m = 64 though
//! (128, 128) meets ①–③ there (one resident CTA, 32 KiB in flight, 18.4 KiB needed). At head dimension 256 the output of
//! 32 rows takes most of an SM's registers; there a CTA alone will do whose ring reads on through the softmax. ⑤ is a tile of
//! ours that packs have only where two of them are joined ([`DOUBLE`]).
//!
//! Worked number, (64, 128) on the A100 at d 128 in f16: shared memory 80 KiB + 1 KiB reserved fits
//! twice into 164 KiB; 236 registers round to 240 × 128 threads = 30,720, twice into 65,536; so
//! C = 2 and 2 · 128 · 128 · 2 B = 64 KiB are in flight against 1 µs · 2.039 TB/s / 108 = 18.4 KiB.

use serde::{Deserialize, Serialize};

use crate::hw::{Device, KernelResources, TileStep};
use crate::tile::Tile;
use crate::units::{Bytes, Nanos};
use crate::workload::Dtype;

/// Warps cover this many query rows each (one row block of the MMA).
const ROWS_PER_WARP: u32 = 16;

/// A constraint that a tile can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Constraint {
    /// ① More shared memory than a CTA may have.
    SharedMemory,
    /// ① More registers than a thread may have, or than the SM has.
    Registers,
    /// ② Too few bytes in flight to cover the memory latency.
    BytesInFlight,
    /// ③ Smaller than the MMA instruction, or no power of two.
    MmaMinimum,
    /// ④ Only one CTA fits on an SM.
    Overlap,
    /// ⑤ Only packs that `min-time` joins have it.
    Joined,
}

impl Constraint {
    /// The constraint in a few words.
    pub fn about(self) -> &'static str {
        match self {
            Self::SharedMemory => "① shared memory: the tile does not fit into one CTA",
            Self::Registers => "① registers: a thread would spill, or the CTA does not fit",
            Self::BytesInFlight => "② bytes in flight: too few to cover the memory latency",
            Self::MmaMinimum => "③ MMA: m and n must be powers of two of at least 16",
            Self::Overlap => "④ overlap: a single resident CTA leaves memory idle between its phases",
            Self::Joined => "⑤ joined packs: no rule takes it, but min-time joins packs of the same KV for it",
        }
    }
}

/// One shape with everything that decides about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feasibility {
    /// The shape.
    pub tile: Tile,
    /// Warps of the CTA.
    pub warps: u32,
    /// Dynamic shared memory of the CTA.
    pub shared: Bytes,
    /// Registers of a thread.
    pub registers: u32,
    /// Whether `registers` is a bound of ours and not the compiler's figure.
    pub registers_estimated: bool,
    /// Resident CTAs of an SM, C.
    pub ctas_per_sm: u32,
    /// KV heads that a CTA computes side by side.
    pub heads: u32,
    /// Bytes in flight of an SM.
    pub in_flight: Bytes,
    /// Bytes in flight of an SM that cover the latency.
    pub in_flight_needed: Bytes,
    /// Constraints that it fails; feasible if none.
    pub failed: Vec<Constraint>,
}

impl Feasibility {
    /// Whether every constraint holds.
    pub fn is_feasible(&self) -> bool {
        self.failed.is_empty()
    }
}

/// All shapes of a device at one head dimension, and those that are feasible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileSet {
    /// Every shape that was looked at, by m and then n.
    pub cells: Vec<Feasibility>,
    feasible: Vec<Tile>,
    /// The n of each m by KV tokens, where measured.
    pub(super) steps: Vec<TileStep>,
    /// Tiles in whose place a taller one is taken, whose steps take less.
    quicker: Vec<(Tile, Tile)>,
    /// [`DOUBLE`], where the device has a kernel of it.
    double: Option<Tile>,
}

impl TileSet {
    /// Feasible shapes, by m and then n.
    pub fn feasible(&self) -> &[Tile] {
        &self.feasible
    }

    /// The cell of a shape.
    pub fn cell(&self, tile: Tile) -> Option<&Feasibility> {
        self.cells.iter().find(|cell| cell.tile == tile)
    }

    /// The tile that is taken in the place of one.
    pub(super) fn quicker_than(&self, tile: Tile) -> Option<Tile> {
        self.quicker.iter().find(|(slower, _)| *slower == tile).map(|(_, quicker)| *quicker)
    }

    /// The tile of packs that are joined, where the device has a kernel of it.
    pub fn double(&self) -> Option<Tile> {
        self.double
    }

    /// Query rows of the tallest feasible shape.
    pub fn max_m(&self) -> u32 {
        self.feasible.iter().map(|tile| tile.m).max().unwrap_or(ROWS_PER_WARP)
    }
}

/// Derives the feasible shapes of `device` at head dimension `head_dim`.
pub fn solve(device: &Device, head_dim: u32, dtype: Dtype) -> TileSet {
    let mut cells = Vec::new();
    for m in [16, 32, 64, 128] {
        for n in [16, 32, 64, 128, 256] {
            cells.push(judge(device, Tile { m, n }, head_dim, dtype));
        }
    }
    let feasible: Vec<Tile> = cells.iter().filter(|cell| cell.is_feasible()).map(|cell| cell.tile).collect();
    let of_feasible = |step: &TileStep| {
        cells.iter().any(|c: &Feasibility| c.is_feasible() && c.tile == Tile { m: step.m, n: step.n })
    };
    let steps = device.tile_steps.iter().copied().filter(of_feasible).collect();
    let quicker = quicker(device, &feasible, head_dim, dtype);
    let double = cells.iter().find(|cell| cell.failed == [Constraint::Joined]).map(|cell| cell.tile);
    TileSet { cells, feasible, steps, quicker, double }
}

/// Tiles with a taller one of as many tokens whose steps were measured to take less, by themselves and of an SM:
/// warpgroup instructions take 64 rows in less time than warps take 32 (H200, 64×64 and 32×64).
fn quicker(device: &Device, feasible: &[Tile], head_dim: u32, dtype: Dtype) -> Vec<(Tile, Tile)> {
    let timed = |tile: &Tile| {
        let kernel = kernel(device, *tile, head_dim, dtype);
        Some((*tile, kernel.heads, kernel.chain?, kernel.sm_step?))
    };
    let timed: Vec<_> = feasible.iter().filter_map(timed).collect();
    let taller_than = |(tile, heads, chain, sm_step): &(Tile, u32, Nanos, Nanos)| {
        let mut taller = timed.iter().rev().filter(|(other, ..)| other.n == tile.n && other.m > tile.m);
        let (taller, ..) = taller.find(|other| other.1 == *heads && other.2 <= *chain && other.3 <= *sm_step)?;
        Some((*tile, *taller))
    };
    timed.iter().filter_map(taller_than).collect()
}

/// What a CTA of a tile takes and does on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileKernel {
    /// Warps.
    pub warps: u32,
    /// Registers of a thread.
    pub registers: u32,
    /// Whether `registers` is a bound of ours and not the compiler's figure.
    pub registers_estimated: bool,
    /// Dynamic shared memory.
    pub shared: Bytes,
    /// Bytes that it keeps outstanding.
    pub in_flight: Bytes,
    /// KV heads that it computes side by side.
    pub heads: u32,
    /// Measured time of one step of its main loop.
    pub step: Option<Nanos>,
    /// The least time of one.
    pub chain: Option<Nanos>,
    /// What one takes of its SM whose KV is there.
    pub sm_step: Option<Nanos>,
}

impl TileKernel {
    /// What a CTA takes of an SM.
    pub fn cta(&self) -> CtaShape {
        CtaShape { warps: self.warps, registers: self.registers, shared: self.shared }
    }
}

/// What a CTA of `tile` takes and does at head dimension `head_dim`.
pub fn kernel(device: &Device, tile: Tile, head_dim: u32, dtype: Dtype) -> TileKernel {
    let (resources, registers_estimated) = resources(device, tile, head_dim);
    let one_tile = Bytes(u64::from(tile.n) * u64::from(head_dim) * dtype.bytes());
    TileKernel {
        warps: resources.warps,
        registers: resources.registers,
        registers_estimated,
        shared: resources.shared.unwrap_or_else(|| one_buffer_bytes(tile, head_dim, dtype)),
        in_flight: resources.in_flight.unwrap_or(one_tile),
        heads: resources.heads,
        step: resources.step,
        chain: resources.chain,
        sm_step: resources.sm_step,
    }
}

/// Heads that a CTA of a 16×16 kernel takes side by side, where the kernels do that.
pub const SIDE_BY_SIDE: u32 = 4;

/// The kernel that takes the place of 16×16 where no pack has more rows: half the products.
pub const FEW_ROWS: Tile = Tile { m: 8, n: 16 };

/// The tile of joined packs: a warpgroup takes its rows in two blocks of 64, in turn, from one reading of K and V.
pub const DOUBLE: Tile = Tile { m: 128, n: 64 };

/// The tile whose kernel runs packs of `tile`: where the device table names more registers than a thread may have, so
/// that none of packscope's kernels is made of it, the one of half the tokens.
pub fn compiled(device: &Device, tile: Tile, head_dim: u32) -> Tile {
    let mut compiled = tile;
    let spills = |tile| resources(device, tile, head_dim).0.registers > device.registers_per_thread;
    while device.heads_side_by_side && compiled.n > 16 && spills(compiled) {
        compiled.n /= 2;
    }
    compiled
}

/// Dynamic shared memory of PAT's and of FlashAttention's kernels: Q, one K and one V buffer, or the fp32 output staging that
/// takes their place at the end.
pub fn one_buffer_bytes(tile: Tile, head_dim: u32, dtype: Dtype) -> Bytes {
    let row = u64::from(head_dim) * dtype.bytes();
    let (m, n) = (u64::from(tile.m), u64::from(tile.n));
    Bytes(((m + 2 * n) * row).max(2 * m * row))
}

/// Resident CTAs of an SM for a tile, 0 if not even one fits.
pub fn occupancy(device: &Device, tile: Tile, head_dim: u32, dtype: Dtype) -> u32 {
    occupancy_of(device, &kernel(device, tile, head_dim, dtype))
}

fn occupancy_of(device: &Device, kernel: &TileKernel) -> u32 {
    resident(device, &kernel.cta())
}

/// What a CTA takes of an SM, for kernels whose CTAs are not one tile of the solver's grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CtaShape {
    /// Warps.
    pub warps: u32,
    /// Registers of a thread.
    pub registers: u32,
    /// Dynamic shared memory.
    pub shared: Bytes,
}

/// Resident CTAs of an SM for a CTA of a given shape, 0 if not even one fits.
pub fn resident(device: &Device, cta: &CtaShape) -> u32 {
    let by_shared = device.shared_per_sm.0 / (cta.shared + device.shared_reserved_per_cta).0.max(1);
    let registers_per_warp = (cta.registers * 32).next_multiple_of(device.register_granule_per_warp);
    let by_registers = device.registers_per_sm / (registers_per_warp * cta.warps).max(1);
    let by_warps = device.warps_per_sm / cta.warps.max(1);
    (by_shared as u32).min(by_registers).min(by_warps).min(device.ctas_per_sm)
}

/// What a device names at a head dimension, or else at 128.
fn kernels_at(device: &Device, head_dim: u32) -> &[KernelResources] {
    let own = match head_dim {
        0..=64 => &device.kernels_d64,
        65..=128 => &device.kernels,
        _ => &device.kernels_d256,
    };
    if own.is_empty() { &device.kernels } else { own }
}

/// Tokens of the least block that comes by bulk copies.
pub const BULK_BLOCK: u32 = 16;

/// Whether a device names a kernel of a tile at a head dimension.
pub fn has_kernel(device: &Device, tile: Tile, head_dim: u32) -> bool {
    kernels_at(device, head_dim).iter().any(|kernel| (kernel.m, kernel.n) == (tile.m, tile.n))
}

/// The compiler's figures, or a lower bound for a shape that nobody compiled: the registers of the
/// same n at another m (a warp's work does not depend on m), and never less than the accumulators,
/// fp32 S and O fragments and P in 16 bit. Where a device names none at head dimension 256, those at 128 and the
/// accumulators of the further dimensions.
fn resources(device: &Device, tile: Tile, head_dim: u32) -> (KernelResources, bool) {
    let large = head_dim > 128;
    let kernels = kernels_at(device, head_dim);
    let further = if large && device.kernels_d256.is_empty() { ROWS_PER_WARP * (head_dim - 128) / 32 } else { 0 };
    if let Some(kernel) = kernels.iter().find(|k| k.m == tile.m && k.n == tile.n) {
        return match further {
            0 => (*kernel, false),
            _ => (KernelResources { registers: kernel.registers + further, shared: None, ..*kernel }, true),
        };
    }
    let same_n = kernels.iter().filter(|k| k.n == tile.n).map(|k| k.registers).max().unwrap_or(0) + further;
    let accumulators = (ROWS_PER_WARP * (tile.n + head_dim) + ROWS_PER_WARP * tile.n / 2) / 32;
    let warps = tile.m.div_ceil(ROWS_PER_WARP);
    (KernelResources::new(tile.m, tile.n, warps, same_n.max(accumulators)), true)
}

fn judge(device: &Device, tile: Tile, head_dim: u32, dtype: Dtype) -> Feasibility {
    let kernel = kernel(device, tile, head_dim, dtype);
    let shared = kernel.shared;
    let ctas_per_sm = occupancy_of(device, &kernel);
    let in_flight = Bytes(u64::from(ctas_per_sm) * kernel.in_flight.0);
    let needed = device.loaded_latency.as_f64() * 1e-9 * device.hbm_bytes_per_s as f64 / f64::from(device.sm_count);
    let in_flight_needed = Bytes(needed.ceil() as u64);
    let mut failed = Vec::new();
    if shared > device.shared_per_cta {
        failed.push(Constraint::SharedMemory);
    }
    if kernel.registers > device.registers_per_thread || (ctas_per_sm == 0 && shared <= device.shared_per_cta) {
        failed.push(Constraint::Registers);
    }
    if failed.is_empty() && in_flight < in_flight_needed {
        failed.push(Constraint::BytesInFlight);
    }
    if tile.m < 16 || tile.n < 16 || !tile.m.is_power_of_two() || !tile.n.is_power_of_two() {
        failed.push(Constraint::MmaMinimum);
    }
    let ring = kernel.in_flight.0 > u64::from(tile.n * kernel.heads * head_dim) * dtype.bytes();
    if failed.is_empty() && ctas_per_sm < 2 && !(head_dim > 128 && ring) {
        failed.push(Constraint::Overlap);
    }
    if failed.is_empty() && tile == DOUBLE && has_kernel(device, tile, head_dim) {
        failed.push(Constraint::Joined);
    }
    Feasibility {
        tile,
        warps: kernel.warps,
        shared,
        registers: kernel.registers,
        registers_estimated: kernel.registers_estimated,
        ctas_per_sm,
        heads: kernel.heads,
        in_flight,
        in_flight_needed,
        failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hw;

    fn feasible(key: &str) -> Vec<(u32, u32)> {
        let device = hw::find(key).unwrap();
        solve(device, 128, Dtype::F16).feasible().iter().map(|t| (t.m, t.n)).collect()
    }

    #[test]
    fn the_a100_gives_the_eleven_shapes_of_the_paper() {
        let expected = [
            (16, 16),
            (16, 32),
            (16, 64),
            (16, 128),
            (32, 16),
            (32, 32),
            (32, 64),
            (32, 128),
            (64, 32),
            (64, 64),
            (64, 128),
        ];
        assert_eq!(feasible("a100-sxm-80gb"), expected);
    }

    #[test]
    fn each_shape_left_out_on_the_a100_says_which_constraint_it_fails() {
        let device = hw::find("a100-sxm-80gb").unwrap();
        let set = solve(device, 128, Dtype::F16);
        let failed = |m, n| set.cell(Tile { m, n }).unwrap().failed.clone();
        assert_eq!(failed(64, 16), [Constraint::BytesInFlight]);
        assert_eq!(failed(128, 128), [Constraint::Overlap]);
        assert_eq!(failed(16, 256), [Constraint::Registers]);
    }

    #[test]
    fn the_h100_loses_64_32_for_want_of_bytes_in_flight() {
        let tiles = feasible("h100-sxm-pat");
        assert!(!tiles.contains(&(64, 32)), "{tiles:?}");
        // The paper also drops (64, 64). With the registers that nvcc 13 gives (166, three CTAs,
        // 48 KiB in flight of 24.8 KiB needed) no constraint explains that; see the tile view.
        assert!(tiles.contains(&(64, 64)), "{tiles:?}");
    }

    #[test]
    fn occupancy_is_that_of_the_compiled_kernels() {
        let a100 = hw::find("a100-sxm-80gb").unwrap();
        let h100 = hw::find("h100-sxm-pat").unwrap();
        let at = |device, m, n| occupancy(device, Tile { m, n }, 128, Dtype::F16);
        for (m, n, a, h) in [
            (64, 128, 2, 2),
            (64, 64, 3, 3),
            (64, 32, 3, 3),
            (64, 16, 4, 4),
            (32, 128, 2, 3),
            (32, 64, 4, 5),
            (32, 32, 6, 7),
            (32, 16, 8, 8),
            (16, 128, 2, 3),
            (16, 64, 4, 6),
            (16, 32, 7, 10),
            (16, 16, 12, 16),
        ] {
            assert_eq!((at(a100, m, n), at(h100, m, n)), (a, h), "({m}, {n})");
        }
    }
}
