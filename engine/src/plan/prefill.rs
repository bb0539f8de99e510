//! Prefill in the launch plan: which CTA computes which query rows of a chunk over which KV.
//!
//! ```text
//! chunk of 4 blocks of rows at the end of its KV, two splits        causal bound
//!            KV ─────────────────────────────────────────────►      of each row
//! rows 0     │ task 0 (block 0, split 0)  │ task 4 (…, split 1) ╲
//!      │     │ task 1                     │ task 5               ╲
//!      ▼     │ task 2                     │ task 6                ╲
//!            │ task 3                     │ task 7                 ╲
//! ```
//!
//! A task is computed once a query head, or once a KV head where its launch folds that one's query heads into rows
//! ([`crate::plan::LaunchKind::folds_heads`]): the rows of a plan are query tokens either way.
//! Row r of a chunk of c tokens that ends at KV length K sees the tokens `0..=K − c + r`.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::tile::Tile;
use crate::units::{QueryIdx, Tokens};
use crate::workload::{Request, RequestKind};

/// One block of query rows over one range of KV.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrefillTask {
    /// The request.
    pub query: QueryIdx,
    /// First query token of the chunk that it computes.
    pub rows_begin: u32,
    /// Past the last one.
    pub rows_end: u32,
    /// First KV token that it reads, by position in the request.
    pub kv_begin: u32,
    /// Past the last one; never past the causal bound of its last row. Equal to `kv_begin` where a
    /// split lies wholly behind that bound: such a CTA leaves at once.
    pub kv_end: u32,
    /// KV tokens before row `rows_begin`: row r sees `position + (r − rows_begin) + 1` tokens.
    pub position: u32,
    /// Slot of the partial of its first row, the other rows behind it; `None` where the task has
    /// all KV of its rows and writes their output.
    pub slots_begin: Option<u32>,
    /// Tile that computes it.
    pub tile: Tile,
}

impl PrefillTask {
    /// Query rows.
    pub fn rows(&self) -> u32 {
        self.rows_end - self.rows_begin
    }

    /// KV tokens that its CTA loads.
    pub fn tokens(&self) -> Tokens {
        Tokens(u64::from(self.kv_end - self.kv_begin))
    }

    /// (row, KV token) pairs of its rows: below the causal bound, within its KV range.
    pub fn attended(&self) -> u64 {
        let seen = |row: u32| self.seen_by(row).len() as u64;
        // The bound of the rows climbs by a token a row until it leaves the range.
        let climbing = (self.rows_begin..self.rows_end).take_while(|row| seen(*row) < self.tokens().0);
        let climbed = climbing.clone().count() as u64;
        climbing.map(seen).sum::<u64>() + (u64::from(self.rows()) - climbed) * self.tokens().0
    }

    /// KV tokens of the task that row `row` of the chunk attends to, as a range of positions.
    pub fn seen_by(&self, row: u32) -> std::ops::Range<u32> {
        let bound = self.position + (row - self.rows_begin) + 1;
        self.kv_begin..self.kv_end.min(bound).max(self.kv_begin)
    }
}

/// One prefill request of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrefillChunk {
    /// The request.
    pub query: QueryIdx,
    /// Query tokens.
    pub rows: u32,
    /// KV tokens at its end.
    pub kv: u32,
    /// Ranges that its KV is cut into.
    pub splits: u32,
    /// First of its tasks.
    pub tasks_begin: u32,
    /// Past the last one.
    pub tasks_end: u32,
    /// Slot of the partial of row 0 in split 0; row r of split s has `slots_begin + s · rows + r`.
    /// Without splits there are no partials.
    pub slots_begin: u32,
}

impl PrefillChunk {
    /// Slots of one row's partials; none where the chunk is not split.
    pub fn slots_of(&self, row: u32) -> impl Iterator<Item = u32> + use<> {
        let (begin, rows) = (self.slots_begin + row, self.rows);
        (0..if self.splits > 1 { self.splits } else { 0 }).map(move |split| begin + split * rows)
    }
}

/// All prefill chunks of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrefillPlan {
    /// The chunks, in the order of the batch.
    pub chunks: Vec<PrefillChunk>,
    /// Their tasks: of each chunk split by split, in a split block by block.
    pub tasks: Vec<PrefillTask>,
    /// Slots of partials, one a (row, split) of the chunks that are split; each over all heads.
    pub slots: u32,
}

impl PrefillPlan {
    /// Whether there is no prefill.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Query tokens of all chunks.
    pub fn rows(&self) -> u64 {
        self.chunks.iter().map(|chunk| u64::from(chunk.rows)).sum()
    }

    /// Rows that are merged from several partials.
    pub fn merged_rows(&self) -> u64 {
        self.chunks.iter().filter(|chunk| chunk.splits > 1).map(|chunk| u64::from(chunk.rows)).sum()
    }

    /// Partials of the merged row at `index`, counted over the rows of all split chunks.
    pub fn partials_of_merged(&self, index: u32) -> u32 {
        let mut left = index;
        for chunk in self.chunks.iter().filter(|chunk| chunk.splits > 1) {
            if left < chunk.rows {
                return chunk.splits;
            }
            left -= chunk.rows;
        }
        0
    }

    /// KV tokens that the CTAs of one head load, re-reads counted.
    pub fn tokens_read(&self) -> Tokens {
        self.tasks.iter().map(PrefillTask::tokens).sum()
    }

    /// (row, KV token) pairs of all chunks: `Σ c·(K − c) + c·(c + 1)/2`.
    pub fn attended(&self) -> u64 {
        let pairs = |chunk: &PrefillChunk| {
            let (rows, kv) = (u64::from(chunk.rows), u64::from(chunk.kv));
            rows * (kv - rows) + rows * (rows + 1) / 2
        };
        self.chunks.iter().map(pairs).sum()
    }

    /// Proves that every row of every chunk of the batch attends to each of its tokens exactly once.
    ///
    /// # Errors
    /// [`Error::Plan`] naming the chunk, the row and the tokens.
    pub fn coverage(&self, requests: &[Request]) -> Result<()> {
        let wrong = |text: String| Err(Error::Plan(text));
        let prefills = || (0..).map(QueryIdx).zip(requests).filter(|(_, request)| !request.is_decode());
        if prefills().count() != self.chunks.len() {
            return wrong(format!("{} prefill chunks are planned of {}", self.chunks.len(), prefills().count()));
        }
        for ((query, request), chunk) in prefills().zip(&self.chunks) {
            let same = RequestKind::Prefill { chunk: Tokens(u64::from(chunk.rows)) } == request.kind;
            if chunk.query != query || !same || u64::from(chunk.kv) != request.kv.0 {
                return wrong(format!("request {} is planned as another prefill chunk", query.0));
            }
            self.chunk_coverage(chunk).map_err(|text| Error::Plan(format!("request {}: {text}", query.0)))?;
        }
        Ok(())
    }

    /// Blocks of rows follow one another, and of each block the KV ranges do, to its causal bound.
    fn chunk_coverage(&self, chunk: &PrefillChunk) -> std::result::Result<(), String> {
        let mut tasks: Vec<&PrefillTask> =
            self.tasks[chunk.tasks_begin as usize..chunk.tasks_end as usize].iter().collect();
        tasks.sort_by_key(|task| (task.rows_begin, task.kv_begin, task.kv_end));
        let mut row = 0;
        for block in tasks.chunk_by(|a, b| a.rows_begin == b.rows_begin) {
            let (first, bound) = (block[0], chunk.kv - chunk.rows + block[0].rows_end);
            if first.rows_begin != row || first.rows_end <= row || first.rows_end > chunk.rows {
                return Err(format!("rows up to {row} are computed, the next task begins at {}", first.rows_begin));
            }
            let mut done = 0;
            for task in block {
                if task.rows_end != first.rows_end || task.position != chunk.kv - chunk.rows + row {
                    return Err(format!("the tasks of row {row} do not agree on its rows or its causal bound"));
                }
                if task.kv_begin != done && task.kv_begin != task.kv_end {
                    return Err(format!(
                        "row {row}: tokens up to {done} are computed, the next task begins at {}",
                        task.kv_begin
                    ));
                }
                done = done.max(task.kv_end);
            }
            if done != bound {
                return Err(format!("row {row}: {done} of {bound} tokens are computed"));
            }
            row = first.rows_end;
        }
        if row == chunk.rows { Ok(()) } else { Err(format!("{row} of {} rows are computed", chunk.rows)) }
    }
}
