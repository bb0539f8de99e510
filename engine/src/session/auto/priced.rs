//! Ways of decodes alone, priced by cohorts as far as they may be among the best.
//!
//! ```text
//! scheduler ── pack ──► bytes alone ──► tiles, slots ──┬─ serial ──┐
//!                        take longer?                  ├─ streams ─┼─► CTAs and bytes take longer? ──► queue, cohorts
//!                                                      └─ fused ───┘
//! ```
//!
//! A scheduler that tells what it moves at least ([`pack::Scheduler::least_moved`]) is asked for its bytes before it packs.
//! Packs, tiles and slots are the same under each strategy, and most ways are told by what they take at least: only those
//! that may still be among the best are run by cohorts, and these end as soon as they are too late.

use std::hash::{Hash as _, Hasher as _};

use rustc_hash::FxHasher;

use crate::backend::sim::{Alike, Pricing, least_of_reading};
use crate::error::Result;
use crate::hw::Device;
use crate::pack::{self, Moved, Pack, PackInput, Packing};
use crate::plan::{LaunchPlan, Strategy};
use crate::session::PlanOptions;
use crate::session::auto::{FEW_CTAS, LAST, Pair, TRIED, WORTH, Way, Ways, near, pairs, schedulers};
use crate::session::packed::{Asked, Packed, Run, Taken, gaining};
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

/// What is told of a way over its packings: the last that holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    /// Launches what another does, or has its packs.
    #[default]
    Same,
    Slower,
    Refused,
    Timed,
}

/// What was found of a way over its packings.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    verdict: Verdict,
    /// What the first packing takes, once it was priced: that or more.
    first: Option<Nanos>,
    /// Another that is taken instead, if any.
    other: Taken,
}

impl Found {
    fn is(&mut self, verdict: Verdict) {
        self.verdict = self.verdict.max(verdict);
    }

    /// Takes a run of other packs in place of those of before, if any, unless these take as long with fewer partials; says
    /// whether it does. The others must gain on what would be taken up to `worth`.
    fn takes(&mut self, run: Run, worth: Nanos) -> bool {
        if self.first.is_none() {
            self.first = Some(run.time.min(worth));
            return true;
        }
        self.other.takes(run)
    }

    /// A packing takes longer than is of use; of the first, all that is known is that it takes more than `latest`.
    fn falls_behind(&mut self, latest: Nanos) {
        self.is(Verdict::Slower);
        self.first.get_or_insert(latest);
    }

    /// What packs may take; `None` for the first.
    fn most(&self, packed: &Packed<'_>) -> Option<Nanos> {
        let most = gaining(self.first?, &packed.packing, packed.input.batch.shape.block_size);
        Some(self.other.most().map_or(most, |other| most.min(other)))
    }
}

impl Ways {
    /// Prices ways of decodes alone.
    pub(super) fn priced(&mut self, batch: &Batch, options: &PlanOptions) -> Result<()> {
        let (tree, tiles) = (self.tree.clone(), self.tiles.clone());
        let mut alike = options.clone();
        (alike.auto, alike.explain) = (super::Auto::default(), false);
        // Packs that read too much, whatever their tiles: whose they are, and the rows of the tallest tile.
        let mut too_much: Vec<(&str, u32)> = Vec::new();
        // Packs that were priced, the rule of their tiles, and whether their CTAs take one KV head.
        let mut seen: Vec<(u64, TileRule, bool)> = Vec::new();
        for scheduler in schedulers(batch, options) {
            let pairs = pairs(batch, options, &[scheduler])?;
            let of = pack::find(scheduler)?;
            let packs = (of.packs_as(), of.tile_rule().max_rows(&tiles));
            if too_much.contains(&packs) || !of.shares() && self.reads_too_much(batch, &options.device) {
                self.slower.extend(pairs);
                continue;
            }
            scheduler.clone_into(&mut alike.scheduler);
            let asked = Asked::of(batch, (&tree, &tiles), &alike)?;
            if asked.scheduler.least_moved(&asked.input).is_some_and(|moved| self.moves_too_much(&asked.input, moved)) {
                self.slower.extend(pairs);
                continue;
            }
            let ways = match asked.every_way() {
                Ok(ways) => ways,
                Err(error) => {
                    self.refuse(error, pairs)?;
                    continue;
                }
            };
            let mut found: Vec<Found> = pairs.iter().map(|_| Found::default()).collect();
            let several = ways.len() > 1;
            for (nth, packed) in ways.into_iter().enumerate() {
                let taken = pairs.iter().any(|pair| self.is_first(pair));
                if !taken && self.moves_too_much(&packed.input, packed.packing.moved()) {
                    too_much.push(packs);
                    for found in &mut found {
                        found.falls_behind(self.latest());
                    }
                    continue;
                }
                let one_head = packed.packing.one_head;
                if let Some(packs) = digest(&packed.packing).map(|packs| (packs, of.tile_rule(), one_head)) {
                    if seen.contains(&packs) {
                        if nth == 0 && several {
                            price_first(&packed, &tree, &pairs, &mut found);
                        }
                        continue;
                    }
                    seen.push(packs);
                }
                let best = self.of_packs(&packed, &tree, &pairs, &mut found)?;
                self.made = best.map(|plan| (packed.packing, plan)).or(self.made.take());
            }
            self.note(pairs, found);
        }
        Ok(())
    }

    /// Keeps those that have no time, by why.
    fn note(&mut self, pairs: Vec<Pair>, found: Vec<Found>) {
        for (pair, found) in pairs.into_iter().zip(found) {
            match found.verdict {
                Verdict::Same => self.same.push(pair),
                Verdict::Slower => self.slower.push(pair),
                Verdict::Refused => self.refused.push(pair),
                Verdict::Timed => {}
            }
        }
    }

    /// Prices the strategies of a packing; gives the plan of one that is better than all before.
    fn of_packs(
        &mut self,
        packed: &Packed<'_>,
        tree: &PrefixTree,
        pairs: &[Pair],
        found: &mut [Found],
    ) -> Result<Option<LaunchPlan>> {
        let mut plan = packed.draft();
        let (mut best, mut alike, mut launched) = (None, None, Vec::new());
        // One kernel for all is the fastest of most large batches, and the others are told by what they take at least.
        let mut order: Vec<usize> = (0..pairs.len()).collect();
        order.sort_by_key(|at| pairs[*at].strategy != Strategy::Fused);
        for at in order {
            if let Err(error) = packed.launch(&mut plan, pairs[at].strategy) {
                self.refuse(error, [])?;
                found[at].is(Verdict::Refused);
                continue;
            }
            // One launch is on one stream, whatever the strategy.
            if let Some((_, run)) = launched.iter().find(|(launches, _)| *launches == plan.launches) {
                self.is_as_another(packed, &pairs[at], &mut found[at], *run);
                continue;
            }
            let alike = alike.get_or_insert_with(|| Alike::of(&plan, tree, packed.input.device));
            // Of a way that is taken the packs are those that it has by itself, however little they gain on its others.
            let taken = self.is_first(&pairs[at]);
            let latest = if taken { LAST } else { self.latest() };
            let most = found[at].most(packed).unwrap_or(LAST).min(latest);
            let run = match price(packed, &mut plan, alike, (most, latest)) {
                Priced::Time(time) => {
                    let run = Run { time, partials: plan.merge.max_partials() };
                    if found[at].takes(run, self.worth_to_all()) {
                        if taken || time < self.worth() {
                            best = Some(plan.clone());
                            self.first = Some((pairs[at].clone(), time));
                        }
                        self.time(time, &pairs[at], &plan);
                        found[at].is(Verdict::Timed);
                    }
                    Some(run)
                }
                Priced::Slower => {
                    found[at].falls_behind(latest);
                    None
                }
                Priced::OthersToo => {
                    for found in found.iter_mut() {
                        found.falls_behind(latest);
                    }
                    break;
                }
            };
            launched.push((plan.launches.clone(), run));
        }
        Ok(best)
    }

    /// Notes that packs launch the same under another strategy, which has a time where they are of use to it.
    fn is_as_another(&mut self, packed: &Packed<'_>, pair: &Pair, found: &mut Found, run: Option<Run>) {
        match run {
            Some(run) if found.most(packed).is_none_or(|most| run.time <= most) => {
                if found.takes(run, self.worth_to_all()) {
                    // What it had by other packs is not what it would take now.
                    self.timed.retain(|way| way.pair != *pair);
                    found.verdict = Verdict::Same;
                }
            }
            Some(_) => {}
            None => {
                found.first.get_or_insert(self.latest());
            }
        }
    }

    /// Gives a way the time of its packing that is taken.
    fn time(&mut self, time: Nanos, pair: &Pair, plan: &LaunchPlan) {
        let few = self.few && plan.attention_ctas() <= FEW_CTAS;
        let way = Way { time, pair: pair.clone(), plan: few.then(|| plan.clone()) };
        match self.timed.iter_mut().find(|way| way.pair == *pair) {
            Some(other) => *other = way,
            None => self.timed.push(way),
        }
    }

    /// Whether a way is the one that is taken of those that were priced so far.
    fn is_first(&self, pair: &Pair) -> bool {
        self.first.as_ref().is_some_and(|(first, _)| first == pair)
    }

    /// The time below which a way is taken instead of the first one.
    fn worth(&self) -> Nanos {
        self.first.as_ref().map_or(LAST, |(_, first)| Nanos((first.as_f64() * WORTH) as u64))
    }

    /// The same for further packs of a way, which are not looked at beyond it where nobody asks for more than the first
    /// way. Where others are asked for too, it is the same that is first.
    fn worth_to_all(&self) -> Nanos {
        if self.few { LAST } else { self.worth() }
    }

    /// The latest time that is still among the best: of those that are simulated after all, what cohorts may be off by.
    fn latest(&self) -> Nanos {
        let Some((_, first)) = &self.first else { return LAST };
        let (best, reach) = match self.best {
            best if self.few && best < TRIED => (TRIED, near(*first)),
            1 => return self.worth(),
            best => (best, LAST),
        };
        let mut times: Vec<Nanos> = self.timed.iter().map(|way| way.time).collect();
        if times.len() < best {
            return reach;
        }
        (*times.select_nth_unstable(best - 1).1).min(reach)
    }

    /// Whether packs take too long for their bytes alone.
    fn moves_too_much(&self, input: &PackInput<'_>, moved: Moved) -> bool {
        let shape = &input.batch.shape;
        // Where requests have several partials, each has one more than there would be without.
        let more = moved.slots.saturating_sub(input.tree.order.len() as u64);
        let kv = shape.kv_bytes_per_token();
        let least = least_of_reading(
            input.device,
            kv * input.tree.unique_tokens().0,
            kv * moved.tokens.0,
            shape.query_bytes() * moved.slots + shape.partial_bytes_as(PartialForm::Native) * more,
        );
        least > self.latest()
    }

    /// Whether reading each request alone takes too long, whatever the packs.
    fn reads_too_much(&self, batch: &Batch, device: &Device) -> bool {
        let kv = batch.shape.kv_bytes_per_token();
        let (unique, read) = (kv * self.tree.unique_tokens().0, kv * batch.decode_tokens().0);
        least_of_reading(device, unique, read, Bytes(0)) > self.latest()
    }
}

/// Finds what the first packs of a way take that were priced as those of another: what its others must gain on.
fn price_first(packed: &Packed<'_>, tree: &PrefixTree, pairs: &[Pair], found: &mut [Found]) {
    let mut plan = packed.draft();
    let mut alike = None;
    for (pair, found) in pairs.iter().zip(found) {
        if packed.launch(&mut plan, pair.strategy).is_err() {
            continue;
        }
        let alike = alike.get_or_insert_with(|| Alike::of(&plan, tree, packed.input.device));
        if let Priced::Time(time) = price(packed, &mut plan, alike, (LAST, LAST)) {
            found.first = Some(time);
        }
    }
}

/// The time of a plan whose queue is still to be put in order, as far as it is no more than `most`; other strategies are of
/// use up to `latest`.
fn price(packed: &Packed<'_>, plan: &mut LaunchPlan, alike: &Alike, (most, latest): (Nanos, Nanos)) -> Priced {
    let device = packed.input.device;
    let Some(pricing) = Pricing::of(plan, alike, device) else { return Priced::Time(LAST) };
    let least = pricing.least();
    if least.of_others > latest {
        return Priced::OthersToo;
    }
    if least.time > most {
        return Priced::Slower;
    }
    let time = if plan.has_queue() {
        let kinds = pricing.into_kinds();
        packed.order_queue(plan);
        Pricing::of_order(plan, kinds, device).time(most)
    } else {
        pricing.time(most)
    };
    // Merges by last arrivers may lead beyond.
    time.filter(|time| *time <= most).map_or(Priced::Slower, Priced::Time)
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
