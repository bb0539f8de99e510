//! A page table as engines hold it, as a batch. Page ids stay who they are: equal ids are shared KV.

use rustc_hash::FxHashMap;

use crate::error::Result;
use crate::import::options::wrong;
use crate::import::{ImportOptions, Imported};
use crate::units::{counted, grouped};
use crate::workload::{AttentionShape, BatchSpec, RequestSpec};

/// What a request has in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PageRow {
    /// KV tokens.
    pub(super) kv: u64,
    /// Its pages in token order; those past the last token are not read.
    pub(super) pages: Vec<u64>,
    /// Query tokens, where it is a prefill chunk.
    pub(super) chunk: Option<u64>,
}

/// A page table.
#[derive(Clone, Debug, Default)]
pub(super) struct PageTable {
    pub(super) name: String,
    /// Attention shape, `block_size` being the tokens of a page.
    pub(super) shape: AttentionShape,
    pub(super) rows: Vec<PageRow>,
    pub(super) notes: Vec<String>,
    /// Records that were read for it.
    pub(super) records: u64,
}

impl PageTable {
    /// The batch of this table, in blocks of the size that was asked for.
    ///
    /// # Errors
    /// [`crate::Error::Form`] where no block of that size is whole pages; [`crate::Error::Batch`] for a page table that
    /// does not hold its tokens.
    pub(super) fn imported(mut self, options: &ImportOptions) -> Result<Imported> {
        let page = self.shape.block_size;
        self.shape.block_size = if options.block_size_asked { options.shape.block_size } else { page };
        self.shape.validate()?;
        let block = self.shape.block_size;
        if !block.is_multiple_of(page) {
            let problem =
                format!("pages have {}; a block is one or several whole pages", counted(u64::from(page), "token"));
            return Err(wrong(&format!("--block-size {block}"), problem));
        }
        self.leave_out_empty();
        let mut blocks = Blocks { per_block: (block / page) as usize, ..Blocks::default() };
        let mut requests = Vec::with_capacity(self.rows.len());
        for (number, row) in self.rows.iter().enumerate() {
            let pages = row.kv.div_ceil(u64::from(page));
            let held = row.pages.get(..pages as usize).ok_or_else(|| {
                crate::Error::Batch(format!(
                    "request {number} has {}, which fill {} of {page}, but the table lists {}",
                    counted(row.kv, "KV token"),
                    counted(pages, "page"),
                    grouped(row.pages.len() as u64)
                ))
            })?;
            requests.push(match row.chunk {
                Some(chunk) => RequestSpec::Prefill { chunk, kv: row.kv },
                None => RequestSpec::Blocks { kv: row.kv, blocks: blocks.of(held) },
            });
        }
        if block > page {
            self.notes
                .push(format!("{} pages make a block of {block}; what is shared in part of one is not", block / page));
        }
        if self.rows.iter().any(|row| row.chunk.is_some()) {
            self.notes.push("pages that prefill chunks share with others are not kept".to_owned());
        }
        let batch = BatchSpec { name: self.name, requests, ..BatchSpec::empty(self.shape) };
        Ok(Imported { batch, notes: self.notes, records: self.records })
    }

    /// Rows without tokens fill a batch up to the size of a CUDA graph.
    fn leave_out_empty(&mut self) {
        let before = self.rows.len();
        self.rows.retain(|row| row.kv > 0);
        let empty = (before - self.rows.len()) as u64;
        if empty > 0 {
            self.notes
                .push(format!("{} without KV tokens left out, as CUDA graphs pad with them", counted(empty, "row")));
        }
    }
}

/// Numbers pages, or runs of them, from 0 in the order of first use.
#[derive(Default)]
struct Blocks {
    per_block: usize,
    single: FxHashMap<u64, u32>,
    runs: FxHashMap<Vec<u64>, u32>,
}

impl Blocks {
    fn of(&mut self, pages: &[u64]) -> Vec<u32> {
        if self.per_block == 1 {
            let next = |map: &FxHashMap<u64, u32>| map.len() as u32;
            return pages
                .iter()
                .map(|page| {
                    let fresh = next(&self.single);
                    *self.single.entry(*page).or_insert(fresh)
                })
                .collect();
        }
        let runs = pages.chunks(self.per_block);
        runs.map(|run| {
            let fresh = self.runs.len() as u32;
            *self.runs.entry(run.to_vec()).or_insert(fresh)
        })
        .collect()
    }
}

/// Rows out of `indptr`, `indices` and lengths as FlashInfer lays them out: row r has the pages
/// `indices[indptr[r]..indptr[r + 1]]`, the last filled with `last_page_len[r]` tokens.
pub(super) fn rows_of_indptr(
    indptr: &[i64],
    indices: &[i64],
    last_page_len: Option<&[i64]>,
    page: u64,
) -> std::result::Result<Vec<PageRow>, String> {
    let count = indptr.len().checked_sub(1).ok_or("the indptr of KV pages is empty")?;
    if let Some(lengths) = last_page_len
        && lengths.len() != count
    {
        return Err(format!("{} requests by their indptr, but {} last page lengths", count, lengths.len()));
    }
    let row = |at: usize| {
        let (begin, end) = (indptr[at], indptr[at + 1]);
        let range = usize::try_from(begin).ok().zip(usize::try_from(end).ok());
        let pages = range.and_then(|(begin, end)| indices.get(begin..end)).ok_or_else(|| {
            format!("request {at} has pages {begin} to {end} of the indices, of which there are {}", indices.len())
        })?;
        let last = last_page_len.map_or(page.cast_signed(), |lengths| lengths[at]);
        let kv = match pages.len() as u64 {
            0 => 0,
            _ if last < 1 || last as u64 > page => {
                return Err(format!("request {at} has {last} tokens in its last page, but a page has 1 to {page}"));
            }
            count => (count - 1) * page + last as u64,
        };
        let pages = pages.iter().map(|id| u64::try_from(*id).map_err(|_| format!("request {at} has page {id}")));
        Ok(PageRow { kv, pages: pages.collect::<std::result::Result<_, _>>()?, chunk: None })
    };
    (0..count).map(row).collect()
}

/// Makes rows of more than one query token prefill chunks. `starts` has one entry more than rows.
pub(super) fn add_chunks(rows: &mut [PageRow], starts: &[i64]) -> std::result::Result<(), String> {
    if starts.len() != rows.len() + 1 {
        return Err(format!(
            "{} requests, but {} starts of queries, which should be one more",
            rows.len(),
            starts.len()
        ));
    }
    for (at, (row, pair)) in rows.iter_mut().zip(starts.windows(2)).enumerate() {
        let chunk = u64::try_from(pair[1] - pair[0])
            .map_err(|_| format!("request {at} has queries {} to {}", pair[0], pair[1]))?;
        match chunk {
            0 => row.kv = 0,
            1 => {}
            chunk if chunk > row.kv => {
                return Err(format!(
                    "request {at} has {} over {} KV tokens",
                    counted(chunk, "query token"),
                    grouped(row.kv)
                ));
            }
            chunk => row.chunk = Some(chunk),
        }
    }
    Ok(())
}
