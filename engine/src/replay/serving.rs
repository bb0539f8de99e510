//! Continuous batching with a token budget: which requests compute what in each step.
//!
//! ```text
//! arrived ─► waiting ──room for prompt and output──► prefill, in chunks ──last chunk──► decode ──last token──► done
//!                                                     what the budget leaves              one token a step
//! ```
//!
//! Blocks of the whole output are reserved when a request comes in, so that none is ever preempted. Blocks of generated
//! tokens are not shared: a trace does not tell what they hold.

use std::collections::VecDeque;

use crate::error::Result;
use crate::import::{Trace, prefix_keys};
use crate::replay::cache::{Key, PrefixCache};
use crate::units::{BlockIdx, Nanos, Tokens};
use crate::workload::{AttentionShape, Batch, BatchSpec, BlockTables, Change, Request, RequestKind, RequestSpec};

/// How an engine serves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServingOptions {
    /// Query tokens of a step: one for each decode, the rest for prefill chunks.
    pub token_budget: u64,
    /// Most requests that run at once.
    pub max_running: usize,
    /// Tokens for which the KV cache has room.
    pub cache_tokens: u64,
    /// Arrival times are multiplied by this; 0 lets all arrive at once.
    pub time_scale: f64,
}

impl Default for ServingOptions {
    fn default() -> Self {
        Self { token_budget: 2048, max_running: 256, cache_tokens: 400_000, time_scale: 1.0 }
    }
}

/// What one request does in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The request, by its place in the trace.
    pub request: u32,
    /// KV tokens at the end of the step.
    pub kv: u64,
    /// Query tokens of a prefill chunk; `None` for a decode.
    pub chunk: Option<u64>,
}

/// A request from its arrival on.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// When it arrived.
    pub arrival: Nanos,
    /// When its first token came.
    pub first: Option<Nanos>,
    /// When its last token came.
    pub last: Option<Nanos>,
    /// Tokens that came.
    pub generated: u64,
    /// Prompt tokens that were found in the cache.
    pub cached: u64,
    /// Its blocks in token order, from when it came in.
    pub row: Vec<BlockIdx>,
}

#[derive(Clone, Debug)]
struct Asked {
    prompt: u64,
    output: u64,
    keys: Vec<Key>,
}

#[derive(Clone, Copy, Debug)]
struct Prefill {
    request: u32,
    /// Prompt tokens whose KV is there.
    computed: u64,
}

/// The state of an engine between two steps.
#[derive(Clone, Debug)]
pub(super) struct Serving {
    shape: AttentionShape,
    options: ServingOptions,
    asked: Vec<Asked>,
    /// In order of arrival.
    to_come: VecDeque<u32>,
    waiting: VecDeque<u32>,
    prefilling: Vec<Prefill>,
    /// Requests that decode, in the order of the batch.
    decoding: Vec<u32>,
    cache: PrefixCache,
    pub(super) served: Vec<Served>,
    /// Requests that no cache of this size can hold.
    pub(super) refused: Vec<u32>,
    /// What changed among the decodes since [`Self::take_changes`].
    changes: Vec<Change>,
}

impl Serving {
    pub(super) fn new(trace: &Trace, shape: AttentionShape, options: ServingOptions) -> Self {
        let block = u64::from(shape.block_size);
        let keys = prefix_keys(&trace.requests, trace.block, block);
        let asked = trace.requests.iter().zip(keys);
        let asked: Vec<Asked> =
            asked.map(|(request, keys)| Asked { prompt: request.input, output: request.output.max(1), keys }).collect();
        let begin = trace.requests.iter().map(|request| request.arrival_ms).fold(f64::INFINITY, f64::min);
        let arrival = |ms: f64| Nanos(((ms - begin) * options.time_scale * 1e6).max(0.0) as u64);
        let served: Vec<Served> = trace
            .requests
            .iter()
            .map(|request| Served { arrival: arrival(request.arrival_ms), ..Served::default() })
            .collect();
        let mut order: Vec<u32> = (0..served.len() as u32).collect();
        order.sort_by_key(|request| served[*request as usize].arrival);
        let capacity = (options.cache_tokens / block).min(u64::from(u32::MAX)) as u32;
        Self {
            shape,
            options,
            asked,
            to_come: order.into(),
            waiting: VecDeque::new(),
            prefilling: Vec::new(),
            decoding: Vec::new(),
            cache: PrefixCache::new(capacity),
            served,
            refused: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// What is computed in a step that begins at `now`; `None` while there is nothing to do.
    pub(super) fn step(&mut self, now: Nanos) -> Option<Vec<Work>> {
        self.arrive(now);
        let decode = |request: &u32| {
            let kv = self.asked[*request as usize].prompt + self.served[*request as usize].generated;
            Work { request: *request, kv, chunk: None }
        };
        let mut work: Vec<Work> = self.decoding.iter().map(decode).collect();
        let mut left = self.options.token_budget.saturating_sub(work.len() as u64);
        let mut at = 0;
        while left > 0 {
            if at == self.prefilling.len() && !self.admit() {
                break;
            }
            let Prefill { request, computed } = self.prefilling[at];
            let chunk = left.min(self.asked[request as usize].prompt - computed);
            work.push(Work { request, kv: computed + chunk, chunk: Some(chunk) });
            left -= chunk;
            at += 1;
        }
        (!work.is_empty()).then_some(work)
    }

    /// When the next request arrives.
    pub(super) fn next_arrival(&self) -> Option<Nanos> {
        self.to_come.front().map(|request| self.served[*request as usize].arrival)
    }

    fn arrive(&mut self, now: Nanos) {
        while let Some(&request) = self.to_come.front()
            && self.served[request as usize].arrival <= now
        {
            self.to_come.pop_front();
            let asked = &self.asked[request as usize];
            if self.blocks_of(asked) as u64 > self.cache.capacity() {
                self.refused.push(request);
            } else {
                self.waiting.push_back(request);
            }
        }
    }

    fn blocks_of(&self, asked: &Asked) -> usize {
        (asked.prompt + asked.output).div_ceil(u64::from(self.shape.block_size)) as usize
    }

    /// Lets the first that waits come in, where there is room.
    fn admit(&mut self) -> bool {
        if self.prefilling.len() + self.decoding.len() >= self.options.max_running {
            return false;
        }
        let Some(&request) = self.waiting.front() else { return false };
        let asked = &self.asked[request as usize];
        let block = u64::from(self.shape.block_size);
        // The last prompt token is computed in any case: its output is the first token.
        let reusable = ((asked.prompt - 1) / block) as usize;
        let keys = &asked.keys[..asked.keys.len().min(reusable)];
        let Some((row, hits)) = self.cache.take(keys, self.blocks_of(asked)) else { return false };
        self.waiting.pop_front();
        let served = &mut self.served[request as usize];
        served.cached = hits as u64 * block;
        served.row = row;
        self.prefilling.push(Prefill { request, computed: served.cached });
        true
    }

    /// The step of this work has ended.
    pub(super) fn finish(&mut self, work: &[Work], end: Nanos) {
        let block = u64::from(self.shape.block_size);
        let decodes = self.decoding.len();
        let mut gone = 0;
        for (at, done) in work[..decodes].iter().enumerate() {
            if self.emit(done.request, end) {
                self.changes.push(Change::Leave { query: (at - gone).into() });
                self.decoding.remove(at - gone);
                gone += 1;
            } else {
                let served = &self.served[done.request as usize];
                let fresh = done.kv.is_multiple_of(block).then(|| served.row[(done.kv / block) as usize]);
                self.changes.push(Change::Append { query: (at - gone).into(), block: fresh });
            }
        }
        for done in &work[decodes..] {
            self.publish(done);
            if done.kv == self.asked[done.request as usize].prompt && !self.emit(done.request, end) {
                let row = &self.served[done.request as usize].row;
                // Its first decode step has the token that came now in the cache.
                let kv = done.kv + 1;
                let row = row[..kv.div_ceil(block) as usize].to_vec();
                self.changes.push(Change::Join { kv: Tokens(kv), row });
                self.decoding.push(done.request);
            }
        }
        for (prefill, done) in self.prefilling.iter_mut().zip(&work[decodes..]) {
            prefill.computed = done.kv;
        }
        let asked = &self.asked;
        self.prefilling.retain(|prefill| prefill.computed < asked[prefill.request as usize].prompt);
    }

    /// Others may share the blocks that a chunk has filled.
    fn publish(&mut self, done: &Work) {
        let block = u64::from(self.shape.block_size);
        let row = &self.served[done.request as usize].row;
        let before = (done.kv - done.chunk.unwrap_or(0)) / block;
        let keys = &self.asked[done.request as usize].keys;
        for at in before as usize..((done.kv / block) as usize).min(keys.len()) {
            self.cache.publish(row[at], keys[at]);
        }
    }

    /// A token of a request came; whether it was the last.
    fn emit(&mut self, request: u32, end: Nanos) -> bool {
        let served = &mut self.served[request as usize];
        served.generated += 1;
        served.first.get_or_insert(end);
        let last = served.generated == self.asked[request as usize].output;
        if last {
            served.last = Some(end);
            self.cache.release(&served.row);
        }
        last
    }

    /// What changed among the decodes since the last call.
    pub(super) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Blocks that requests hold, blocks in all, blocks that were evicted.
    pub(super) fn cache(&self) -> (u64, u64, u64) {
        (self.cache.held(), self.cache.capacity(), self.cache.evicted())
    }

    /// The batch of a step.
    pub(super) fn batch(&self, name: String, work: &[Work]) -> Result<Batch> {
        let mut tables = BlockTables::new();
        let mut requests = Vec::with_capacity(work.len());
        for one in work {
            tables.push(row_of(&self.served, one, self.shape).iter().copied());
            let kind = one.chunk.map_or(RequestKind::Decode, |chunk| RequestKind::Prefill { chunk: Tokens(chunk) });
            requests.push(Request { kind, kv: Tokens(one.kv) });
        }
        Batch::new(name, self.shape, requests, tables)
    }
}

/// The blocks that a request has filled at the end of a step.
fn row_of<'a>(served: &'a [Served], work: &Work, shape: AttentionShape) -> &'a [BlockIdx] {
    &served[work.request as usize].row[..work.kv.div_ceil(u64::from(shape.block_size)) as usize]
}

/// The batch of a step as a person edits it.
pub(super) fn spec_of(served: &[Served], work: &[Work], shape: AttentionShape, name: String) -> BatchSpec {
    let request = |one: &Work| {
        if let Some(chunk) = one.chunk {
            return RequestSpec::Prefill { chunk, kv: one.kv };
        }
        let blocks = row_of(served, one, shape).iter().map(|block| block.0).collect();
        RequestSpec::Blocks { kv: one.kv, blocks }
    };
    BatchSpec { name, requests: work.iter().map(request).collect(), ..BatchSpec::empty(shape) }
}
