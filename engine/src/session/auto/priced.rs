//! Ways of decodes alone, priced by cohorts as far as they may be among the best.
//!
//! ```text
//! scheduler ── pack ──► bytes alone ──► tiles, slots ──┬─ serial ──┐
//!                        take longer?                  ├─ streams ─┼─► CTAs and bytes take longer? ──► queue, cohorts
//!                                                      └─ fused ───┘
//! ```
//!
//! Packs, tiles and slots are the same under each strategy, and most ways are told by what they take at least: only those
//! that may still be among the best are run by cohorts, and these end as soon as they are too late.

use std::hash::{Hash as _, Hasher as _};

use rustc_hash::FxHasher;

use crate::backend::sim::{Alike, Pricing, least_of_reading};
use crate::error::Result;
use crate::hw::Device;
use crate::pack::{self, Pack, Packing};
use crate::plan::{LaunchPlan, Strategy};
use crate::session::auto::{LAST, Pair, Way, Ways, pairs, schedulers};
use crate::session::{Packed, PlanOptions, pack_batch};
use crate::tile::TileRule;
use crate::units::{Bytes, Nanos};
use crate::workload::{Batch, PartialForm, PrefixTree};

/// The packs of the best way and its plan.
pub(super) type Made = (Packing, LaunchPlan);

/// What a way takes.
enum Priced {
    Time(Nanos),
    /// Too long to be among the best.
    Slower,
    /// The same, and so do these packs under the strategies that come behind.
    OthersToo,
}

impl Ways {
    /// Prices ways of decodes alone.
    pub(super) fn priced(&mut self, batch: &Batch, options: &PlanOptions) -> Result<()> {
        let (tree, tiles) = (self.tree.clone(), self.tiles.clone());
        let mut alike = options.clone();
        (alike.auto, alike.explain) = (super::Auto::default(), false);
        // Packs that read too much, whatever their tiles: whose they are, and the rows of the tallest tile.
        let mut too_much: Vec<(&str, u32)> = Vec::new();
        // Packs that were priced, and the rule of their tiles.
        let mut seen: Vec<(u64, TileRule)> = Vec::new();
        for scheduler in schedulers(batch, options) {
            let pairs = pairs(batch, options, &[scheduler])?;
            let of = pack::find(scheduler)?;
            let packs = (of.packs_as(), of.tile_rule().max_rows(&tiles));
            if too_much.contains(&packs) || !of.shares() && self.reads_too_much(batch, &options.device) {
                self.slower.extend(pairs);
                continue;
            }
            scheduler.clone_into(&mut alike.scheduler);
            let packed = match pack_batch(batch, (&tree, &tiles), &alike) {
                Ok(packed) => packed,
                Err(error) => {
                    self.refuse(error, pairs)?;
                    continue;
                }
            };
            if reading(&packed) > self.latest() {
                too_much.push(packs);
                self.slower.extend(pairs);
                continue;
            }
            if let Some(packs) = digest(&packed.packing).map(|packs| (packs, of.tile_rule())) {
                if seen.contains(&packs) {
                    self.same.extend(pairs);
                    continue;
                }
                seen.push(packs);
            }
            let best = self.of_packs(&packed, &tree, pairs)?;
            self.made = best.map(|plan| (packed.packing, plan)).or(self.made.take());
        }
        Ok(())
    }

    /// Prices the strategies of a packing; gives the plan of one that is better than all before.
    fn of_packs(&mut self, packed: &Packed<'_>, tree: &PrefixTree, pairs: Vec<Pair>) -> Result<Option<LaunchPlan>> {
        let mut plan = packed.draft();
        let (mut best, mut in_series, mut alike) = (None, None, None);
        // One kernel for all is the fastest of most large batches, and the others are told by what they take at least.
        let (fused, others): (Vec<Pair>, Vec<Pair>) =
            pairs.into_iter().partition(|pair| pair.strategy == Strategy::Fused);
        let mut pairs = fused.into_iter().chain(others);
        while let Some(pair) = pairs.next() {
            if let Err(error) = packed.launch(&mut plan, pair.strategy) {
                self.refuse(error, [pair])?;
                continue;
            }
            // One launch is on one stream, whatever the strategy.
            if in_series.as_ref() == Some(&plan.launches) {
                self.same.push(pair);
                continue;
            }
            let alike = alike.get_or_insert_with(|| Alike::of(&plan, tree));
            match self.price(packed, &mut plan, alike) {
                Priced::Time(time) => {
                    if self.timed.iter().all(|way| time < way.time) {
                        best = Some(plan.clone());
                    }
                    self.timed.push(Way { time, pair });
                }
                Priced::Slower => self.slower.push(pair),
                Priced::OthersToo => {
                    self.slower.push(pair);
                    self.slower.extend(pairs);
                    break;
                }
            }
            in_series.get_or_insert_with(|| plan.launches.clone());
        }
        Ok(best)
    }

    /// The time of a plan whose queue is still to be put in order, as far as it can be among the best.
    fn price(&self, packed: &Packed<'_>, plan: &mut LaunchPlan, alike: &Alike) -> Priced {
        let device = packed.input.device;
        let latest = self.latest();
        let Some(pricing) = Pricing::of(plan, alike, device) else { return Priced::Time(LAST) };
        let least = pricing.least();
        if least.of_others > latest {
            return Priced::OthersToo;
        }
        if least.time > latest {
            return Priced::Slower;
        }
        let time = if plan.launches.iter().any(|launch| launch.kind.is_persistent()) {
            let kinds = pricing.into_kinds();
            packed.order_queue(plan);
            Pricing::of_order(plan, kinds, device).time(latest)
        } else {
            pricing.time(latest)
        };
        time.map_or(Priced::Slower, Priced::Time)
    }

    /// The latest time that is still among the best.
    fn latest(&self) -> Nanos {
        let mut times: Vec<Nanos> = self.timed.iter().map(|way| way.time).collect();
        if times.len() < self.best {
            return LAST;
        }
        *times.select_nth_unstable(self.best - 1).1
    }

    /// Whether reading each request alone takes too long, whatever the packs.
    fn reads_too_much(&self, batch: &Batch, device: &Device) -> bool {
        let kv = batch.shape.kv_bytes_per_token();
        let (unique, read) = (kv * self.tree.unique_tokens().0, kv * batch.decode_tokens().0);
        least_of_reading(device, unique, read, Bytes(0)) > self.latest()
    }
}

/// What packs are whatever their order; nothing where the system prescribes their launches.
fn digest(packing: &Packing) -> Option<u64> {
    let of = |pack: &Pack| {
        let mut hasher = FxHasher::default();
        (pack.node, pack.blocks_begin, pack.blocks_end, packing.queries_of(pack)).hash(&mut hasher);
        hasher.finish()
    };
    packing.imposed.is_none().then(|| packing.packs.iter().map(of).fold(0, u64::wrapping_add))
}

/// The least that packs take for their bytes.
fn reading(packed: &Packed<'_>) -> Nanos {
    let (input, packs) = (&packed.input, &packed.packing.packs);
    let shape = &input.batch.shape;
    let read: u64 = packs.iter().map(|pack| pack.tokens.0).sum();
    let slots: u64 = packs.iter().map(|pack| u64::from(pack.queries_len)).sum();
    // Where requests have several partials, each has one more than there would be without.
    let more = slots.saturating_sub(input.tree.order.len() as u64);
    let kv = shape.kv_bytes_per_token();
    let queries = shape.query_bytes() * slots;
    least_of_reading(
        input.device,
        kv * input.tree.unique_tokens().0,
        kv * read,
        queries + shape.partial_bytes_as(PartialForm::Native) * more,
    )
}
