//! An engine's own tensors: `block_table` \[requests, blocks\], `seq_lens` \[requests\] and, where prefill stands beside
//! decode, `query_start_loc` [requests + 1], in `.safetensors` or `.npz`.

use std::path::Path;

use crate::error::Result;
use crate::import::pages::{PageRow, PageTable, add_chunks};
use crate::import::tensors::Tensors;
use crate::import::{ImportOptions, Imported, Watch};
use crate::workload::AttentionShape;

/// Tokens of a block where nobody says, as vLLM has it by default.
const BLOCK: u32 = 16;

/// Reads the tensors.
pub(super) fn read(path: &Path, options: &ImportOptions, watch: &mut Watch<'_>) -> Result<Imported> {
    watch.cancel.check()?;
    let mut file = Tensors::open(path)?;
    let table = file.ints(&["block_table", "block_tables"])?;
    let lengths = file.ints(&["seq_lens"])?;
    let starts = file.find(&["query_start_loc"])?;
    let [requests, width] = table.shape[..] else {
        return Err(file.wrong(format!("block_table has {} dimensions, but needs 2", table.shape.len())));
    };
    // Both are made for the largest batch that the engine takes; the shorter one is the batch at hand.
    let count = lengths.values.len().min(requests);
    let mut rows = Vec::with_capacity(count);
    for (at, length) in lengths.values.iter().take(count).enumerate() {
        let kv = u64::try_from(*length).map_err(|_| file.wrong(format!("seq_lens[{at}] is {length}")))?;
        // Blocks past the end are whatever was there before, -1 among them.
        let block = u64::from(if options.block_size_asked { options.shape.block_size } else { BLOCK });
        let held = &table.values[at * width..(at + 1) * width];
        let held = &held[..held.len().min(kv.div_ceil(block) as usize)];
        let pages = held.iter().map(|id| u64::try_from(*id));
        let pages = pages.collect::<std::result::Result<Vec<u64>, _>>();
        let pages =
            pages.map_err(|_| file.wrong(format!("block_table[{at}] has a negative id within its {kv} tokens")))?;
        rows.push(PageRow { kv, pages, chunk: None });
    }
    if let Some(starts) = starts {
        let starts = starts.values.get(..=rows.len()).unwrap_or(&starts.values);
        add_chunks(&mut rows, starts).map_err(|problem| file.wrong(problem))?;
    }
    let mut notes = Vec::new();
    if !options.block_size_asked {
        notes.push(format!("the block size is not in the file; {BLOCK} is taken, say --block-size for another"));
    }
    if lengths.values.len() != requests {
        notes.push(format!(
            "block_table has {requests} rows, seq_lens {}; the first {count} are taken",
            lengths.values.len()
        ));
    }
    notes.push("heads, head dimension and element type are not in the file; say --model or --heads".to_owned());
    let shape =
        if options.block_size_asked { options.shape } else { AttentionShape { block_size: BLOCK, ..options.shape } };
    let name = path.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let records = rows.len() as u64;
    PageTable { name, shape, rows, notes, records }.imported(options)
}
