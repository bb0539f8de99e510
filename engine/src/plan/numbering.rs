//! Numbers of CTAs, forward and inverse: what CTA i of a launch does, and which CTA does a piece of work.
//!
//! | launch | CTA (or task of a persistent launch) `i` |
//! |---|---|
//! | attention, persistent | one pack for one head, or for a run of heads where the pack says so; numbered by the launch's [`CtaOrder`] |
//! | prefill, one CTA each or from a queue | task `i mod tasks`, query head `i / tasks`, or KV head where tasks are folded |
//! | hybrid, static, by tickets or from a queue | first the prefill CTAs as above, then CTAs of `decodes_per_cta` decodes each |
//! | hybrid, paired | prefill CTA `i` and decode CTA `i`, while there are such |
//! | any merge | row `i` |
//!
//! A CTA that takes a run of heads has the number of the run's first head; the numbers of the others are
//! no CTAs. Everything that asks what a CTA does (simulator, GPU trace, capture, metrics, exports, views)
//! asks here, and a property test holds that the two directions undo each other.

use std::cmp::Reverse;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::pack::CtaOrder;
use crate::plan::{Dispatch, HybridKernel, Launch, LaunchKind, LaunchPlan, MergeRound, PrefillTask};
use crate::units::{PackIdx, Tokens};

/// What a CTA does.
///
/// Captures of versions 1 and 2 know the first two alone, by these numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CtaRole {
    /// It computes one decode pack, or several side by side.
    Decode,
    /// It merges partials: a CTA of a merge launch, or the last-arriving CTA of a persistent one.
    Merge,
    /// It computes a prefill task.
    Prefill,
    /// It computes a prefill task and decode packs, in warps of their own.
    Both,
}

impl CtaRole {
    /// Its name in tables, files and traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Decode => "attention",
            Self::Merge => "merge",
            Self::Prefill => "prefill",
            Self::Both => "prefill+decode",
        }
    }

    /// Whether it computes attention, rather than merging.
    pub fn computes(self) -> bool {
        self != Self::Merge
    }
}

/// A decode pack for one head, or for a run of KV heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DecodeWork {
    /// The pack's place in [`LaunchPlan::order`].
    pub place: u32,
    /// The pack.
    pub pack: PackIdx,
    /// The first head as the launch numbers them: a KV head, or a query head under
    /// [`CtaOrder::QueryHeads`].
    pub head: u32,
    /// The first KV head that it reads.
    pub kv_head: u32,
    /// KV heads that it reads.
    pub kv_heads: u32,
    /// Query heads that it computes.
    pub query_heads: u32,
}

/// A prefill task for one query head, or for those of one KV head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrefillWork {
    /// The task, by its place in [`crate::plan::PrefillPlan::tasks`].
    pub task: u32,
    /// The first query head.
    pub query_head: u32,
    /// Query heads: one, or those of a KV head where the launch folds them ([`LaunchKind::folds_heads`]).
    pub query_heads: u32,
}

/// One piece of the work of a launch. Each belongs to exactly one CTA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// A decode pack.
    Decode(DecodeWork),
    /// A prefill task.
    Prefill(PrefillWork),
    /// A row of a merge launch.
    Merge(u32),
}

/// All that one CTA does.
#[derive(Clone, Debug)]
pub struct CtaWork<'a> {
    plan: &'a LaunchPlan,
    launch: &'a Launch,
    /// The prefill task, where it computes one.
    pub prefill: Option<PrefillWork>,
    /// The row, where it merges.
    pub merge: Option<u32>,
    /// Its decodes, as numbers among those of the launch.
    decodes: Range<u32>,
}

impl CtaWork<'_> {
    /// What it does, in a word.
    pub fn role(&self) -> CtaRole {
        match (self.merge, self.prefill, self.decodes.is_empty()) {
            (Some(_), ..) => CtaRole::Merge,
            (None, Some(_), true) => CtaRole::Prefill,
            (None, Some(_), false) => CtaRole::Both,
            (None, None, _) => CtaRole::Decode,
        }
    }

    /// Its decodes: one, or the virtual CTAs that a CTA of a hybrid kernel hosts.
    pub fn decodes(&self) -> impl ExactSizeIterator<Item = DecodeWork> + '_ {
        self.decodes.clone().map(|number| self.plan.decode_at(self.launch, number))
    }

    /// The first of its decodes.
    pub fn first_decode(&self) -> Option<DecodeWork> {
        self.decodes().next()
    }

    /// Its prefill task.
    pub fn prefill_task(&self) -> Option<&PrefillTask> {
        self.prefill.map(|work| &self.plan.prefill.tasks[work.task as usize])
    }

    /// Every piece of it.
    pub fn pieces(&self) -> impl Iterator<Item = Work> + '_ {
        let prefill = self.prefill.map(Work::Prefill);
        prefill.into_iter().chain(self.decodes().map(Work::Decode)).chain(self.merge.map(Work::Merge))
    }

    /// KV tokens that it loads, each counted once for each KV head.
    pub fn kv_tokens(&self) -> Tokens {
        let prefill = self.prefill_task().map(PrefillTask::tokens);
        let decodes = self.decodes().map(|work| self.plan.pack(work.pack).tokens * u64::from(work.kv_heads));
        prefill.into_iter().chain(decodes).sum()
    }
}

/// The CTAs of one launch by number.
#[derive(Clone, Copy, Debug)]
pub struct CtaNumbers<'a> {
    plan: &'a LaunchPlan,
    launch: &'a Launch,
    count: u32,
}

impl<'a> CtaNumbers<'a> {
    /// The launch.
    pub fn launch(&self) -> &'a Launch {
        self.launch
    }

    /// What CTA (or task) `cta` does; `None` for a number that is no CTA of the launch.
    pub fn work(&self, cta: u32) -> Option<CtaWork<'a>> {
        (cta < self.count).then(|| self.plan.work_below_count(self.launch, cta)).flatten()
    }
}

impl LaunchPlan {
    /// CTAs (or, for a persistent launch, tasks) of a launch are numbered below this. A CTA that takes
    /// several KV heads has the number of its first, so numbers may be left out; see [`Self::ctas`].
    pub fn cta_count(&self, launch: &Launch) -> u32 {
        match launch.kind {
            LaunchKind::Merge => self.merge.merged_queries().count() as u32,
            LaunchKind::MergeRound(round) => self.merge.rounds.get(round as usize).map_or(0, MergeRound::rows) as u32,
            LaunchKind::Attention(_) | LaunchKind::Persistent(_) => self.decodes_of(launch),
            LaunchKind::Prefill(kernel) | LaunchKind::PrefillQueue(kernel) | LaunchKind::FoldedPrefill(kernel) => {
                (kernel.tasks_end - kernel.tasks_begin) * launch.kind.prefill_heads(&self.shape)
            }
            LaunchKind::MergePrefill => self.prefill.merged_rows() as u32,
            LaunchKind::Hybrid(kernel) => kernel.grid(&self.shape, self.decodes_of(launch)),
        }
    }

    /// Decode (pack, head) pairs of a launch.
    pub fn decodes_of(&self, launch: &Launch) -> u32 {
        (launch.packs_end - launch.packs_begin) * self.heads_of(launch)
    }

    /// What CTA (or task) `cta` of a launch does; `None` for a number that is no CTA of it.
    ///
    /// Who asks for many CTAs takes [`Self::numbers`] once: counting the rows of a merge takes a pass
    /// over all requests.
    pub fn work_of<'a>(&'a self, launch: &'a Launch, cta: u32) -> Option<CtaWork<'a>> {
        self.numbers(launch).work(cta)
    }

    /// The CTAs of one launch by number.
    pub fn numbers<'a>(&'a self, launch: &'a Launch) -> CtaNumbers<'a> {
        CtaNumbers { plan: self, launch, count: self.cta_count(launch) }
    }

    /// The CTAs of all launches by number, in the order of the launches.
    pub fn all_numbers(&self) -> Vec<CtaNumbers<'_>> {
        self.launches.iter().map(|launch| self.numbers(launch)).collect()
    }

    /// As [`Self::work_of`] for a number that is known to be below the launch's count.
    fn work_below_count<'a>(&'a self, launch: &'a Launch, cta: u32) -> Option<CtaWork<'a>> {
        let none = CtaWork { plan: self, launch, prefill: None, merge: None, decodes: 0..0 };
        Some(match launch.kind {
            LaunchKind::Attention(_) | LaunchKind::Persistent(_) => {
                let work = self.decode_at(launch, cta);
                let first_of_run = work.kv_head.is_multiple_of(self.run_of_heads(launch, work.pack));
                return first_of_run.then(|| CtaWork { decodes: cta..cta + 1, ..none });
            }
            LaunchKind::Prefill(_) | LaunchKind::PrefillQueue(_) | LaunchKind::FoldedPrefill(_) => {
                CtaWork { prefill: Some(self.prefill_at(launch, cta)), ..none }
            }
            LaunchKind::Hybrid(kernel) => {
                let prefill_ctas = kernel.prefill_ctas(&self.shape);
                CtaWork {
                    prefill: (cta < prefill_ctas).then(|| self.prefill_at(launch, cta)),
                    decodes: hosted(&kernel, prefill_ctas, self.decodes_of(launch), cta),
                    ..none
                }
            }
            LaunchKind::Merge | LaunchKind::MergeRound(_) | LaunchKind::MergePrefill => {
                CtaWork { merge: Some(cta), ..none }
            }
        })
    }

    /// The CTA (or task) of a launch that does a piece of work; `None` where the launch does not do it.
    pub fn cta_of(&self, launch: &Launch, work: Work) -> Option<u32> {
        let cta = match (launch.kind, work) {
            (LaunchKind::Attention(_) | LaunchKind::Persistent(_), Work::Decode(work)) => {
                let first = DecodeWork { head: self.first_of_run(launch, &work), ..work };
                self.decode_number(launch, &first)?
            }
            (LaunchKind::Hybrid(kernel), Work::Decode(work)) => {
                let host = self.decode_number(launch, &work)? / kernel.decodes_per_cta.max(1);
                match kernel.dispatch {
                    Dispatch::Paired => host,
                    Dispatch::Static | Dispatch::Tickets(_) | Dispatch::Queue | Dispatch::FoldedQueue => {
                        host + kernel.prefill_ctas(&self.shape)
                    }
                }
            }
            (
                LaunchKind::Prefill(_)
                | LaunchKind::PrefillQueue(_)
                | LaunchKind::FoldedPrefill(_)
                | LaunchKind::Hybrid(_),
                Work::Prefill(work),
            ) => self.prefill_number(launch, work)?,
            (LaunchKind::Merge | LaunchKind::MergeRound(_) | LaunchKind::MergePrefill, Work::Merge(row)) => row,
            _ => return None,
        };
        (cta < self.cta_count(launch)).then_some(cta)
    }

    /// The work of the pack at `place` of [`Self::order`] for a KV head, or its first query head where
    /// query heads are numbered.
    pub fn decode_work(&self, launch: &Launch, place: u32, kv_head: u32) -> Option<DecodeWork> {
        let there = (launch.packs_begin..launch.packs_end).contains(&place) && kv_head < self.shape.kv_heads;
        let by_query_head = launch.order == CtaOrder::QueryHeads;
        let head = if by_query_head { kv_head * self.shape.group() } else { kv_head };
        there.then(|| self.decode(launch, place, head))
    }

    /// The CTAs (or tasks) of a launch in launch order; the items of a queue that holds prefill in the order
    /// in which they are taken.
    pub fn ctas(&self, launch: &Launch) -> Vec<u32> {
        let numbers = 0..self.cta_count(launch);
        let mut ctas: Vec<u32> = numbers.filter(|cta| self.work_below_count(launch, *cta).is_some()).collect();
        if launch.kind.takes_from_queue() && !launch.kind.is_persistent() {
            ctas.sort_by_cached_key(|cta| self.queue_key(launch, *cta));
        }
        ctas
    }

    /// Where an item stands in a queue that holds prefill: KV head by KV head, so that what L2 must keep is the
    /// KV of few heads; in a head the longest first, since what starts last decides the tail; of equals the
    /// query heads of one task together, which read the same KV.
    fn queue_key(&self, launch: &Launch, cta: u32) -> (u32, Reverse<u64>, u32, u32) {
        let work = self.work_below_count(launch, cta);
        let prefill = work.as_ref().and_then(|work| work.prefill.zip(work.prefill_task()));
        if let Some((item, task)) = prefill {
            return (item.query_head / self.shape.group(), Reverse(task.tokens().0), item.task, item.query_head);
        }
        let decode = work.as_ref().and_then(CtaWork::first_decode);
        decode.map_or((u32::MAX, Reverse(0), u32::MAX, cta), |decode| {
            (decode.kv_head, Reverse(self.pack(decode.pack).tokens.0), u32::MAX, decode.place)
        })
    }

    /// CTAs over all heads, merge excluded.
    pub fn attention_ctas(&self) -> u64 {
        let runs = |launch: &Launch, pack: &PackIdx| self.heads_of(launch).div_ceil(self.run_of_heads(launch, *pack));
        let of_launch = |launch: &Launch| match launch.kind {
            LaunchKind::Attention(_) | LaunchKind::Persistent(_) => {
                self.packs_of(launch).iter().map(|pack| u64::from(runs(launch, pack))).sum()
            }
            _ => u64::from(self.cta_count(launch)),
        };
        self.launches.iter().filter(|launch| !launch.kind.is_merge()).map(of_launch).sum()
    }

    /// What CTA (or task) `cta` of a launch does, in a word. A number that is no CTA counts as its kind of
    /// launch does.
    pub fn role_of(&self, launch: &Launch, cta: u32) -> CtaRole {
        match launch.kind {
            LaunchKind::Merge | LaunchKind::MergeRound(_) | LaunchKind::MergePrefill => CtaRole::Merge,
            LaunchKind::Attention(_) | LaunchKind::Persistent(_) => CtaRole::Decode,
            LaunchKind::Prefill(_) | LaunchKind::PrefillQueue(_) | LaunchKind::FoldedPrefill(_) => CtaRole::Prefill,
            LaunchKind::Hybrid(_) => self.work_below_count(launch, cta).map_or(CtaRole::Both, |work| work.role()),
        }
    }

    /// Decode number `number` of an attention, persistent or hybrid launch, in the launch's order.
    pub fn decode_at(&self, launch: &Launch, number: u32) -> DecodeWork {
        let packs = launch.packs_end - launch.packs_begin;
        let (position, head) = match launch.order {
            CtaOrder::PackFastest | CtaOrder::QueryHeads => (number % packs, number / packs),
            CtaOrder::HeadFastest => (number / self.shape.kv_heads, number % self.shape.kv_heads),
        };
        self.decode(launch, launch.packs_begin + position, head)
    }

    fn decode(&self, launch: &Launch, place: u32, head: u32) -> DecodeWork {
        let pack = self.order[place as usize];
        let group = self.shape.group();
        if launch.order == CtaOrder::QueryHeads {
            return DecodeWork { place, pack, head, kv_head: head / group, kv_heads: 1, query_heads: 1 };
        }
        let kv_heads = self.run_of_heads(launch, pack).min((self.shape.kv_heads - head).max(1));
        DecodeWork { place, pack, head, kv_head: head, kv_heads, query_heads: kv_heads * group }
    }

    /// The inverse of [`Self::decode_at`].
    fn decode_number(&self, launch: &Launch, work: &DecodeWork) -> Option<u32> {
        let position = work.place.checked_sub(launch.packs_begin).filter(|_| work.place < launch.packs_end)?;
        let packs = launch.packs_end - launch.packs_begin;
        (work.head < self.heads_of(launch)).then(|| match launch.order {
            CtaOrder::PackFastest | CtaOrder::QueryHeads => position + packs * work.head,
            CtaOrder::HeadFastest => position * self.shape.kv_heads + work.head,
        })
    }

    /// The work of a launch's prefill CTA whose first query head is this.
    pub fn prefill_work(&self, launch: &Launch, task: u32, query_head: u32) -> PrefillWork {
        PrefillWork { task, query_head, query_heads: self.heads_of_prefill(launch) }
    }

    /// Query heads that a prefill CTA of a launch computes.
    pub fn heads_of_prefill(&self, launch: &Launch) -> u32 {
        if launch.kind.folds_heads() { self.shape.group().max(1) } else { 1 }
    }

    /// CTAs of each prefill task.
    pub fn ctas_of_prefill(&self) -> u32 {
        if self.folds_heads() { self.shape.kv_heads } else { self.shape.query_heads }
    }

    /// Whether its prefill tasks have the query heads of a KV head as rows.
    pub fn folds_heads(&self) -> bool {
        self.launches.iter().any(|launch| launch.kind.folds_heads())
    }

    /// Task and query head of prefill CTA `cta`: blocks fastest, then splits, chunks, heads.
    fn prefill_at(&self, launch: &Launch, cta: u32) -> PrefillWork {
        let (begin, end) = launch.kind.tasks();
        let tasks = (end - begin).max(1);
        self.prefill_work(launch, begin + cta % tasks, cta / tasks * self.heads_of_prefill(launch))
    }

    /// The inverse of [`Self::prefill_at`].
    fn prefill_number(&self, launch: &Launch, work: PrefillWork) -> Option<u32> {
        let ((begin, end), heads) = (launch.kind.tasks(), self.heads_of_prefill(launch));
        let there = (begin..end).contains(&work.task) && work.query_head < self.shape.query_heads;
        let first = work.query_head.is_multiple_of(heads);
        (there && first).then(|| work.task - begin + (end - begin) * (work.query_head / heads))
    }

    /// KV heads that a CTA of this pack computes side by side in this launch. Virtual CTAs of a hybrid
    /// launch, and launches that number query heads, take one each.
    pub fn run_of_heads(&self, launch: &Launch, pack: PackIdx) -> u32 {
        let by_run = matches!(launch.kind, LaunchKind::Attention(_) | LaunchKind::Persistent(_));
        if by_run && launch.order != CtaOrder::QueryHeads { self.pack(pack).heads.max(1) } else { 1 }
    }

    /// The first head of the run that a head belongs to.
    fn first_of_run(&self, launch: &Launch, work: &DecodeWork) -> u32 {
        let run = self.run_of_heads(launch, work.pack);
        work.head / run * run
    }
}

/// Decodes, of `decodes`, that CTA `cta` of a hybrid kernel hosts.
fn hosted(kernel: &HybridKernel, prefill_ctas: u32, decodes: u32, cta: u32) -> Range<u32> {
    let per_cta = kernel.decodes_per_cta.max(1);
    let slot = match kernel.dispatch {
        Dispatch::Paired => Some(cta),
        Dispatch::Static | Dispatch::Tickets(_) | Dispatch::Queue | Dispatch::FoldedQueue => {
            cta.checked_sub(prefill_ctas)
        }
    };
    let first = slot.map_or(decodes, |slot| slot.saturating_mul(per_cta).min(decodes));
    first..first.saturating_add(per_cta).min(decodes)
}
