//! Prefill on the GPU: blocks of query rows over ranges of paged KV, checked, uploaded and compiled once, then launched
//! as often as wanted.
//!
//! ```text
//! tasks × query heads ──► one persistent launch, longest first ─┬─► rows of one task ──► output
//!                                                               └─► partials ──► merge launch, a CTA a row
//! ```
//!
//! Row r of a task sees the tokens of its KV range before `position + r + 1`. Rows without a causal mask are rows whose
//! position lies behind their KV, and rows that several requests share a KV range with are named by a list.

use crate::cache::{KvCache, tensor_map};
use crate::compile::{Compiler, Resources};
use crate::error::KernelError;
use crate::gpu::{DeviceBuffer, Function, Gpu, Stream};
use crate::params::{MergeParams, MergeRow, PrefillItem, PrefillParams, TraceRecord};
use crate::plan::DecodeShape;
use crate::spec::PrefillSpec;
use crate::trace::TraceBuffer;

/// Some query rows over a range of KV; computed once a query head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefillTask {
    /// First row in Q and in the output, or first entry of [`PrefillArrays::rows`] where there is such a list.
    pub row_begin: u32,
    /// Rows, at most [`PrefillSpec::ROWS`].
    pub num_rows: u32,
    /// Entry in [`PrefillArrays::block_ids`] of the block that holds the request's first token.
    pub block_begin: u32,
    /// First KV token, counted from the request's first: a multiple of the smaller of 128 and the block, unless the
    /// range is empty.
    pub kv_begin: u32,
    /// Past the last one. Equal to `kv_begin` where there is nothing to read.
    pub kv_end: u32,
    /// Row r of the task sees the tokens before `position + r + 1`.
    pub position: u32,
    /// Where the partials of its rows go; `None` where it has all that its rows see, and writes their output.
    pub slots: Option<RowSlots>,
}

/// Slots of the partials of a task's rows: row r has `begin + r * step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowSlots {
    /// Slot of the first row.
    pub begin: u32,
    /// From one row's slot to the next one's.
    pub step: u32,
}

/// Partials of one row, whose slots follow each other in merge order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefillMerge {
    /// The row.
    pub row: u32,
    /// Its first slot.
    pub slot_begin: u32,
    /// Its slots.
    pub count: u32,
}

/// A prefill call as arrays.
#[derive(Clone, Copy, Debug)]
pub struct PrefillArrays<'a> {
    /// The tasks, in any order: the longest are started first.
    pub tasks: &'a [PrefillTask],
    /// KV block numbers of the requests, one run per request, from its first token on.
    pub block_ids: &'a [u32],
    /// Rows of the tasks, where those of a task do not follow each other.
    pub rows: Option<&'a [u32]>,
    /// Rows of Q and of the output.
    pub num_rows: u32,
    /// Partial slots.
    pub num_slots: u32,
    /// Rows that have partials.
    pub merges: &'a [PrefillMerge],
}

impl PrefillArrays<'_> {
    /// Checks every index against the array it points into, and that each row is written once: by one task, or by a
    /// merge of partials that are all its own.
    ///
    /// # Errors
    /// [`KernelError::Plan`] with what is wrong.
    pub fn check(&self, shape: &DecodeShape, blocks_in_cache: u32) -> Result<(), KernelError> {
        let mut written = vec![false; self.num_rows as usize];
        let mut owner = vec![None; self.num_slots as usize];
        for (number, task) in self.tasks.iter().enumerate() {
            let bad = |what: String| Err(KernelError::Plan(format!("prefill task {number} {what}")));
            if task.num_rows == 0 || task.num_rows > PrefillSpec::ROWS {
                return bad(format!("has {} rows; 1 to {} fit", task.num_rows, PrefillSpec::ROWS));
            }
            self.check_kv(task, shape, blocks_in_cache).or_else(bad)?;
            for nth in 0..task.num_rows {
                let Some(row) = self.row(task, nth).filter(|row| *row < self.num_rows) else {
                    return bad(format!("has a row past the {} there are", self.num_rows));
                };
                let slot = task.slots.map(|slots| u64::from(slots.begin) + u64::from(nth) * u64::from(slots.step));
                let free = match slot {
                    None => !std::mem::replace(&mut written[row as usize], true),
                    Some(slot) => owner.get_mut(slot as usize).is_some_and(|o| o.replace(row).is_none()),
                };
                if !free {
                    return bad(format!(
                        "writes row {row} where something else is written, or to a slot past the last"
                    ));
                }
            }
        }
        self.check_merges(&owner, &mut written)?;
        match written.iter().position(|w| !w) {
            Some(row) => Err(KernelError::Plan(format!("nothing computes prefill row {row}"))),
            None => Ok(()),
        }
    }

    fn check_kv(&self, task: &PrefillTask, shape: &DecodeShape, blocks_in_cache: u32) -> Result<(), String> {
        let unit = shape.block_size.min(LARGEST_TILE);
        if task.kv_begin > task.kv_end || (task.kv_begin < task.kv_end && !task.kv_begin.is_multiple_of(unit)) {
            return Err(format!("reads tokens {}..{}; they begin at a multiple of {unit}", task.kv_begin, task.kv_end));
        }
        if task.kv_end.max(task.position) > LARGEST_POSITION {
            return Err(format!("reaches token {}; {LARGEST_POSITION} is the last", task.kv_end.max(task.position)));
        }
        let end = task.block_begin as usize + task.kv_end.div_ceil(shape.block_size) as usize;
        let begin = task.block_begin as usize + (task.kv_begin / shape.block_size) as usize;
        match self.block_ids.get(begin.min(end)..end) {
            None => Err("runs past the block list".to_owned()),
            Some(blocks) => match blocks.iter().find(|block| **block >= blocks_in_cache) {
                Some(block) => Err(format!("reads block {block} of {blocks_in_cache}")),
                None => Ok(()),
            },
        }
    }

    /// Row `nth` of a task.
    fn row(&self, task: &PrefillTask, nth: u32) -> Option<u32> {
        let at = task.row_begin.checked_add(nth)?;
        self.rows.map_or(Some(at), |rows| rows.get(at as usize).copied())
    }

    fn check_merges(&self, owner: &[Option<u32>], written: &mut [bool]) -> Result<(), KernelError> {
        let mut merged = 0;
        for merge in self.merges {
            let slots = owner.get(merge.slot_begin as usize..(merge.slot_begin as usize) + merge.count as usize);
            let own = slots.is_some_and(|slots| !slots.is_empty() && slots.iter().all(|o| *o == Some(merge.row)));
            let free = written.get_mut(merge.row as usize).is_some_and(|w| !std::mem::replace(w, true));
            if !own || !free {
                return Err(KernelError::Plan(format!(
                    "the merge of prefill row {} joins what is not its own, or the row is written twice",
                    merge.row
                )));
            }
            merged += merge.count;
        }
        if merged != self.num_slots {
            return Err(KernelError::Plan(format!("{merged} of {} prefill partials are merged", self.num_slots)));
        }
        Ok(())
    }

    /// The tasks as the kernel reads them, the longest first.
    fn items(&self) -> Vec<PrefillItem> {
        let mut items: Vec<PrefillItem> = (0..)
            .zip(self.tasks)
            .map(|(number, task)| PrefillItem {
                row_begin: task.row_begin,
                num_rows: task.num_rows,
                block_begin: task.block_begin,
                kv_begin: task.kv_begin,
                kv_end: task.kv_end,
                position: task.position,
                slot_begin: task.slots.map_or(PrefillItem::NO_SLOT, |slots| slots.begin),
                slot_step: task.slots.map_or(0, |slots| slots.step),
                task: number,
                unused: [0; 3],
            })
            .collect();
        items.sort_by_key(|item| std::cmp::Reverse(item.kv_end - item.kv_begin));
        items
    }
}

/// No kernel takes more tokens at a time.
const LARGEST_TILE: u32 = 128;

/// So that sums of positions stay within 32 bits.
const LARGEST_POSITION: u32 = 1 << 30;

/// Choices for a run that do not change its result.
#[derive(Clone, Debug, Default)]
pub struct PrefillOptions {
    /// Trace records to keep; 0 compiles tracing away. A task has one a query head, a merged row one.
    pub trace_capacity: u32,
    /// SMs to run on instead of all.
    pub sms: Option<u32>,
    /// Extra preprocessor definitions, for experiments.
    pub defines: Vec<String>,
}

/// A prepared prefill call. Launching it allocates nothing and can be captured as a CUDA graph.
#[derive(Debug)]
pub struct Prefill {
    function: Function,
    params: PrefillParams,
    grid: u32,
    merge: Option<(Function, MergeParams, u32)>,
    out: DeviceBuffer,
    out_lse: DeviceBuffer,
    trace: TraceBuffer,
    rows: usize,
    values: usize,
    /// The arrays and the partials, the partials first.
    held: Vec<DeviceBuffer>,
}

impl Prefill {
    /// Checks the call, compiles its kernels and uploads its arrays. `queries` holds `[num_rows, q_heads, head_dim]`
    /// 16-bit values; it and `cache` must outlive the launches, as for [`crate::Decode::new`].
    pub fn new(
        gpu: &Gpu,
        compiler: &Compiler,
        shape: &DecodeShape,
        cache: &KvCache,
        queries: &DeviceBuffer,
        plan: &PrefillArrays<'_>,
        options: &PrefillOptions,
    ) -> Result<Self, KernelError> {
        shape.check_cache()?;
        plan.check(shape, cache.blocks)?;
        let rows = plan.num_rows as usize * shape.q_heads as usize;
        let values = rows * shape.head_dim as usize;
        let needed = KvCache::bytes(shape, cache.blocks);
        if queries.bytes() < values * 2 || cache.k.bytes() < needed || cache.v.bytes() < needed {
            return Err(KernelError::Plan("the query or KV buffers are smaller than the plan needs".to_owned()));
        }
        let spec = PrefillSpec {
            defines: options.defines.clone(),
            ..PrefillSpec::new(shape.head_dim, shape.dtype, options.trace_capacity > 0)
        };
        let function = gpu.load(&compiler.prefill(&spec)?)?;
        let (out, out_lse) = (gpu.allocate(values * 2)?, gpu.allocate(rows * 4)?);
        let trace = TraceBuffer::new(gpu, options.trace_capacity)?;
        let mut held = Vec::new();
        let mut params = Self::params(gpu, shape, cache, plan, &mut held)?;
        params.queries = queries.address();
        params.out = out.address();
        params.out_lse = out_lse.address();
        params.trace = trace.address();
        params.trace_capacity = trace.capacity();
        if compiler.arch().warpgroups() {
            let tokens = shape.block_size.min(spec.tokens(compiler.arch()));
            params.box_shift = tokens.trailing_zeros();
            params.k_map = tensor_map(&cache.k, shape, cache, tokens, 1)?;
            params.v_map = tensor_map(&cache.v, shape, cache, tokens, 1)?;
        }
        let merge = Self::merge(gpu, compiler, shape, plan, &params, &mut held)?;
        let lanes = options.sms.unwrap_or(gpu.info().sms).min(gpu.info().sms) * function.ctas_per_sm()?.max(1);
        let grid = (params.num_items * shape.q_heads).min(lanes);
        // Copies from pageable memory may still be on their way, and streams do not wait for them.
        gpu.synchronize()?;
        Ok(Self { function, params, grid, merge, out, out_lse, trace, rows, values, held })
    }

    fn params(
        gpu: &Gpu,
        shape: &DecodeShape,
        cache: &KvCache,
        plan: &PrefillArrays<'_>,
        held: &mut Vec<DeviceBuffer>,
    ) -> Result<PrefillParams, KernelError> {
        let mut keep = |buffer: DeviceBuffer| {
            let address = buffer.address();
            held.push(buffer);
            address
        };
        let slot_rows = plan.num_slots as usize * shape.q_heads as usize;
        let [stride_block, stride_head, stride_token] = cache.strides(shape);
        Ok(PrefillParams {
            part_out: keep(gpu.allocate(slot_rows * shape.head_dim as usize * 4)?),
            part_lse: keep(gpu.allocate(slot_rows * 4)?),
            k: cache.k.address(),
            v: cache.v.address(),
            items: keep(gpu.upload(&plan.items())?),
            rows: match plan.rows {
                Some(rows) => keep(gpu.upload(rows)?),
                None => 0,
            },
            block_ids: keep(gpu.upload(plan.block_ids)?),
            queue: keep(gpu.upload(&[0_u32; 4])?),
            stride_block,
            stride_head,
            stride_token,
            num_items: plan.tasks.len() as u32,
            q_heads: shape.q_heads,
            group: shape.group(),
            block_shift: shape.block_size.trailing_zeros(),
            scale_log2: shape.scale * std::f32::consts::LOG2_E,
            ..PrefillParams::default()
        })
    }

    fn merge(
        gpu: &Gpu,
        compiler: &Compiler,
        shape: &DecodeShape,
        plan: &PrefillArrays<'_>,
        base: &PrefillParams,
        held: &mut Vec<DeviceBuffer>,
    ) -> Result<Option<(Function, MergeParams, u32)>, KernelError> {
        if plan.merges.is_empty() {
            return Ok(None);
        }
        let row = |m: &PrefillMerge| MergeRow { first: m.slot_begin, count: m.count, target: m.row, to_slot: 0 };
        let rows = gpu.upload(&plan.merges.iter().map(row).collect::<Vec<_>>())?;
        let params = MergeParams {
            part_out: base.part_out,
            part_lse: base.part_lse,
            rows: rows.address(),
            out: base.out,
            out_lse: base.out_lse,
            trace: base.trace,
            trace_capacity: base.trace_capacity,
            q_heads: shape.q_heads,
            trace_begin: base.trace_begin + base.num_items * shape.q_heads,
            ..MergeParams::default()
        };
        held.push(rows);
        let function = gpu.load(&compiler.merge(shape.head_dim, shape.dtype, base.trace != 0)?)?;
        Ok(Some((function, params, plan.merges.len() as u32)))
    }

    /// Queues the call on `stream` and returns; the work before it on `stream` comes first.
    pub fn launch(&self, stream: &Stream) -> Result<(), KernelError> {
        if self.grid == 0 {
            return Ok(());
        }
        // SAFETY: the structure is the kernel's only parameter; the plan was checked against its buffers in `new`, and
        // `self` holds those buffers.
        unsafe { self.function.launch(self.grid, self.function.resources().threads, stream, &self.params)? };
        match &self.merge {
            // SAFETY: likewise.
            Some((function, params, grid)) => unsafe {
                function.launch(*grid, function.resources().threads, stream, params)
            },
            None => Ok(()),
        }
    }

    /// Fills the outputs and the partials with a pattern that is NaN in f16, bf16 and f32, so that a value that no
    /// kernel wrote shows.
    pub fn poison(&self, stream: &Stream) -> Result<(), KernelError> {
        for partial in &self.held[..2] {
            partial.fill(0xff, stream)?;
        }
        self.out.fill(0xff, stream)?;
        self.out_lse.fill(0xff, stream)
    }

    /// The outputs, `[num_rows, q_heads, head_dim]` 16-bit values.
    pub fn output(&self) -> Result<Vec<u16>, KernelError> {
        self.out.read(0, self.values)
    }

    /// The log-sum-exps, natural logarithm, `[num_rows, q_heads]`.
    pub fn output_lse(&self) -> Result<Vec<f32>, KernelError> {
        self.out_lse.read(0, self.rows)
    }

    /// Empties the trace buffer, in stream order; call it before the launch that is to be read.
    pub fn clear_trace(&self, stream: &Stream) -> Result<(), KernelError> {
        self.trace.clear(stream)
    }

    /// The trace of the launches since [`Self::clear_trace`], task by task and head by head, then the merged rows, and
    /// the records lost because the buffer had no place for them.
    pub fn trace(&self) -> Result<(Vec<TraceRecord>, u32), KernelError> {
        self.trace.read()
    }

    /// What the prefill kernel takes, and its CTAs.
    pub fn kernel(&self) -> (Resources, u32) {
        (self.function.resources(), self.grid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Dtype;

    const SHAPE: DecodeShape =
        DecodeShape { q_heads: 6, kv_heads: 2, head_dim: 64, dtype: Dtype::F16, block_size: 32, scale: 0.125 };

    fn plan(tasks: &[PrefillTask]) -> PrefillArrays<'_> {
        PrefillArrays { tasks, block_ids: &[0, 3], rows: None, num_rows: 20, num_slots: 0, merges: &[] }
    }

    /// 20 rows at the end of 60 tokens.
    const WHOLE: PrefillTask =
        PrefillTask { row_begin: 0, num_rows: 20, block_begin: 0, kv_begin: 0, kv_end: 60, position: 40, slots: None };

    #[test]
    fn a_sound_call_passes_and_damaged_ones_do_not() {
        let check = |task: PrefillTask| plan(&[task]).check(&SHAPE, 4).map_err(|e| e.to_string());
        assert_eq!(check(WHOLE), Ok(()));
        assert_eq!(
            plan(&[WHOLE]).check(&SHAPE, 3).unwrap_err().to_string(),
            "the plan cannot be run: prefill task 0 reads block 3 of 3"
        );
        let damages = [
            (PrefillTask { num_rows: 0, ..WHOLE }, "has 0 rows"),
            (PrefillTask { num_rows: 129, ..WHOLE }, "has 129 rows"),
            (PrefillTask { kv_end: 65, ..WHOLE }, "past the block list"),
            (PrefillTask { kv_begin: 16, ..WHOLE }, "a multiple of 32"),
            (PrefillTask { kv_begin: 61, ..WHOLE }, "tokens 61..60"),
            (PrefillTask { position: u32::MAX, ..WHOLE }, "reaches token"),
            (PrefillTask { row_begin: 1, ..WHOLE }, "a row past the 20"),
            (PrefillTask { num_rows: 19, ..WHOLE }, "nothing computes prefill row 19"),
            (PrefillTask { slots: Some(RowSlots { begin: 0, step: 1 }), ..WHOLE }, "to a slot past the last"),
        ];
        for (task, says) in damages {
            let error = check(task).unwrap_err();
            assert!(error.contains(says), "{error} does not say '{says}'");
        }
        assert!(plan(&[WHOLE, WHOLE]).check(&SHAPE, 4).is_err(), "rows written twice");
    }

    #[test]
    fn partials_are_merged_once_at_their_own_row() {
        let split = |begin, (kv_begin, kv_end)| PrefillTask {
            kv_begin,
            kv_end,
            slots: Some(RowSlots { begin, step: 2 }),
            ..WHOLE
        };
        let tasks = [split(0, (0, 32)), split(1, (32, 60))];
        let merges: Vec<_> = (0..20).map(|row| PrefillMerge { row, slot_begin: row * 2, count: 2 }).collect();
        let check = |merges: &[PrefillMerge]| {
            PrefillArrays { num_slots: 40, merges, ..plan(&tasks) }.check(&SHAPE, 4).map_err(|e| e.to_string())
        };
        assert_eq!(check(&merges), Ok(()));
        assert!(check(&merges[1..]).is_err(), "a row without its merge");
        let mut other = merges.clone();
        other[3].row = 4;
        assert!(check(&other).is_err(), "another row's partials");
        other[3] = PrefillMerge { count: 1, ..merges[3] };
        assert!(check(&other).is_err(), "a partial that is lost");
    }

    #[test]
    fn the_longest_tasks_start_first_and_keep_their_numbers() {
        let task = |kv_end| PrefillTask { kv_end, ..WHOLE };
        let items = plan(&[task(10), task(60), task(30)]).items();
        assert_eq!(items.iter().map(|i| (i.task, i.kv_end)).collect::<Vec<_>>(), [(1, 60), (2, 30), (0, 10)]);
    }
}
