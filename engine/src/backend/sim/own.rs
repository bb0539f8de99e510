//! What an item of packscope's own prefill kernels costs: a block of prefill rows, or under `batched` a decode
//! pack, over its KV.
//!
//! ```text
//! time      steps · step             step: the rate at which the kernel's main loop runs, softmax included
//! waits     loaded / in flight · latency, of L2 or of HBM: a ring of tiles is filled while others are computed
//! tensor    the part of the step in which tensor cores work at the data sheet's rate
//! ```
//!
//! Rows of a tile that an item does not have are computed all the same: that is what `batched` pays.

use crate::backend::sim::cost::{CostModel, MainLoop, Waits};
use crate::hw::PrefillResources;
use crate::plan::{CtaOrder, Launch, LaunchPlan, PlannedPack, PrefillTask};
use crate::tile::Tile;

/// What an item reads and writes.
struct Item {
    tokens: u64,
    /// Part of its KV that is found in L2.
    hit: f64,
    /// Query bytes that it reads, and what it writes.
    q: f64,
    written: f64,
}

impl CostModel<'_> {
    /// The device's own prefill kernel of a tile.
    pub(super) fn own_prefill(&self, tile: Tile) -> Option<PrefillResources> {
        self.device.prefill_kernel.as_ref().and_then(|kernels| kernels.of_tile(tile)).copied()
    }

    /// A prefill task of so many query heads.
    pub(super) fn prefill_item(&self, task: &PrefillTask, heads: u32, kernel: &PrefillResources, hit: f64) -> MainLoop {
        let row = self.shape.head_bytes().as_f64();
        let rows = f64::from(task.rows()) * f64::from(heads);
        let written = if task.slots_begin.is_some() {
            rows * self.shape.partial_bytes().as_f64() / f64::from(self.shape.query_heads)
        } else {
            rows * row
        };
        self.item(kernel, &Item { tokens: task.tokens().0, hit, q: rows * row, written })
    }

    /// A decode pack of one head as an item; its queries write `written` bytes over all heads.
    pub(super) fn decode_item(
        &self,
        pack: &PlannedPack,
        kernel: &PrefillResources,
        hit: f64,
        (written, order): (f64, CtaOrder),
    ) -> MainLoop {
        let heads = f64::from(match order {
            CtaOrder::QueryHeads => self.shape.query_heads,
            _ => self.shape.kv_heads,
        });
        let q = self.shape.query_bytes().as_f64() / heads * f64::from(pack.queries_len);
        self.item(kernel, &Item { tokens: pack.tokens.0, hit, q, written: written / heads })
    }

    /// Packs with more rows than an item are further items, which go to whoever is free, so each CTA of the launch bears
    /// its share of them: how long that is, ns.
    pub(super) fn further_items(&self, plan: &LaunchPlan, launch: &Launch, kernel: &PrefillResources) -> f64 {
        let (mut all, mut ctas) = (0.0, 0);
        for pack in plan.packs_of(launch).iter().map(|pack| plan.pack(*pack)) {
            let rows = if launch.order == CtaOrder::QueryHeads { 1 } else { self.shape.group() } * pack.queries_len;
            let further = f64::from(rows.div_ceil(kernel.m).saturating_sub(1));
            if further > 0.0 {
                let one =
                    self.decode_item(pack, kernel, 1.0, (0.0, launch.order)).time + kernel.item_of_pack().as_f64();
                all += further * one * f64::from(plan.heads_of(launch));
            }
            ctas += plan.heads_of(launch);
        }
        all / f64::from(ctas.max(self.device.sm_count))
    }

    fn item(&self, kernel: &PrefillResources, item: &Item) -> MainLoop {
        let (device, sim) = (self.device, &self.device.sim);
        let steps = item.tokens.div_ceil(u64::from(kernel.n)) as f64;
        let flop = 4.0 * f64::from(kernel.m) * f64::from(kernel.n) * f64::from(self.shape.head_dim) * steps;
        let loaded = self.shape.kv_bytes_per_token_head().as_f64() * item.tokens as f64;
        let trips = loaded / kernel.in_flight.as_f64();
        let tile_bytes = self.shape.head_bytes().as_f64() * f64::from(kernel.n);
        let latency = device.tile_latency(tile_bytes);
        let waits = Waits { l2: trips * item.hit * sim.l2_latency.as_f64(), hbm: trips * (1.0 - item.hit) * latency };
        let time = (steps * kernel.step_ns(device, self.shape)).max(waits.l2 + waits.hbm);
        let full_rate = device.tensor_flops as f64 * 1e-9 / f64::from(device.sm_count);
        MainLoop {
            time,
            unchained: time,
            first_tile: latency.min(time),
            dram_read: loaded * (1.0 - item.hit) + item.q,
            dram_write: item.written,
            moved: loaded + item.q + item.written,
            tensor: flop / full_rate,
            wgmma: flop / full_rate,
            warps: f64::from(kernel.warps),
            waits,
        }
    }
}
