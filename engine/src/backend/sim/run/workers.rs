//! Persistent workers: what they take from the queue, and what the last of them to arrive merges.

use super::Simulation;
use super::last::Widest;
use crate::backend::sim::cost::MainLoop;
use crate::capture::Span;
use crate::plan::Launch;

impl Simulation<'_> {
    /// A worker that holds no more than `held` tasks takes the next item of the queue.
    pub(super) fn take_item(&mut self, launch: u32, place: (usize, u32), held: usize) {
        let desk = self.desks.entry(place).or_default();
        let progress = &mut self.progress[launch as usize];
        let begin = progress.taken as usize;
        if desk.len() > held || begin >= progress.ctas.len() {
            return;
        }
        let of_launch = &self.plan.launches[launch as usize];
        let first = self.plan.decode_at(of_launch, progress.ctas[begin]);
        let heads = match self.model.device.queue_items {
            Some(items) if progress.joined => {
                items.heads(self.plan.pack(first.pack).tokens.0, self.plan.shape.kv_heads)
            }
            _ => 1,
        };
        // The tasks of a pack stand side by side, one a head or run of heads.
        let of_item = |cta: &&u32| {
            let other = self.plan.decode_at(of_launch, **cta);
            other.pack == first.pack && other.kv_head < (first.kv_head / heads + 1) * heads
        };
        let ctas: Vec<u32> = progress.ctas[begin..].iter().take_while(of_item).copied().collect();
        progress.taken += ctas.len().max(1) as u32;
        desk.extend(ctas);
    }

    /// Whether a persistent worker asks for its next item when it begins a task: those of a few tiles are fetched
    /// whole by then.
    pub(super) fn asks_early(&self, launch: &Launch, cta: u32) -> bool {
        let pack = self.plan.pack(self.plan.decode_at(launch, cta).pack);
        pack.tokens.0 <= 2 * u64::from(pack.tile.n)
    }

    /// The part of the lanes for which tasks are left: when there are none, lanes fall idle while the last of them merge.
    pub(super) fn busy(&self, launch: u32) -> f64 {
        let progress = &self.progress[launch as usize];
        let left = progress.ctas.len() as u32 - progress.taken;
        (f64::from(left) / f64::from(progress.lanes)).min(1.0)
    }

    /// Counts the partials of a task in; gives the merging of the queries that are complete.
    pub(super) fn complete_partials(&mut self, span: &Span) -> Option<MainLoop> {
        let work = self.plan.decode_at(&self.plan.launches[span.launch as usize], span.cta);
        let heads = self.plan.shape.kv_heads as usize;
        let folds = self.progress[span.launch as usize].folds;
        let while_at_work = (span.begin.as_f64(), span.loop_end.as_f64());
        let (mut merged, mut hits) = (Vec::new(), 0.0);
        let mut later: Option<(Widest, u32)> = None;
        let mut watched = 0;
        for query in self.plan.queries_of(work.pack) {
            let partials = self.plan.merge.of(*query).len() as u32;
            let first = query.at() * heads + work.kv_head as usize;
            let before = merged.len();
            let is_watched = self.watched.has(*query);
            for at in first..first + work.kv_heads as usize {
                self.missing[at] -= 1;
                let joined = folds.joins(partials, work.kv_heads, self.arrived[at], while_at_work);
                self.arrived[at] = self.now;
                if is_watched {
                    watched = watched.max(if self.missing[at] == 0 { partials } else { 0 });
                    continue;
                }
                if self.missing[at] == 0 && partials > 1 && !joined {
                    merged.push(partials);
                }
                if let Some(wider) = self.wider(at, work.pack, while_at_work.0).filter(|_| self.missing[at] == 0) {
                    later = Some((wider, partials));
                }
            }
            if merged.len() > before {
                let heads = work.kv_head..work.kv_head + work.kv_heads;
                hits += self.partials_in_l2(self.plan.merge.of(*query), heads) * (merged.len() - before) as f64;
            }
        }
        let pack = self.plan.pack(work.pack);
        let tile = self.model.compiled(pack.tile, pack.heads, self.runs_on[span.launch as usize]);
        let busy = self.busy(span.launch);
        let merge = |merged: &[u32], cta, hit| self.model.inline_merge(merged, cta, (hit, busy));
        let own = (!merged.is_empty()).then(|| merge(&merged, (tile, work.kv_heads), hits / merged.len() as f64));
        let by_wider = later.map(|(wider, partials)| {
            let (pack, heads) = (self.plan.pack(wider.pack), self.plan.pack(wider.pack).heads.max(1));
            merge(&vec![partials; (pack.queries_len * heads) as usize], (pack.tile, heads), 1.0)
        });
        // While there are tasks, their merges take nothing from the worker.
        let by_watchers = (watched > 0 && busy <= 0.0).then(|| self.watched.merge(&self.model, watched)).flatten();
        own.into_iter().chain(by_wider).chain(by_watchers).max_by(|a, b| a.time.total_cmp(&b.time))
    }
}
