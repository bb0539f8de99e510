//! A plan on the GPU: checked, uploaded and compiled once, then launched as often as wanted.
//!
//! ```text
//! serial:   tile A ──► tile B ──► merge                      one stream
//! streams:  fork ─┬─► tile A ─┬─ join ──► merge              one stream per tile, events made once
//!                 └─► tile B ─┘
//! fused:    one persistent launch; a queue in the plan's order; a task begins with the other partials of the queries
//!           that it completes, and what is complete only later is merged by the last to arrive
//! ```

use cudarc::driver::sys;

use crate::compile::{Compiler, Resources};
use crate::error::KernelError;
use crate::gpu::{DeviceBuffer, Event, Function, Gpu, Stream};
use crate::params::{DecodeParams, Item, MergeParams, PackQuery, TensorMap, TraceRecord};
use crate::plan::{DecodeShape, Dtype, PlanArrays, Tile};
use crate::spec::KernelSpec;

/// How the launches of a plan follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// One launch per tile, one after the other, then the merge.
    Serial,
    /// One stream per tile, joined before the merge.
    Streams,
    /// One persistent launch with the merge inside.
    Fused,
}

/// How the KV cache lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KvLayout {
    /// `[block, kv_head, token, d]`: the tokens of a block and head are contiguous.
    Hnd,
    /// `[block, token, kv_head, d]`, as vLLM has it.
    Nhd,
}

/// A paged K and V cache on the device, 16-bit values.
#[derive(Debug)]
pub struct KvCache {
    /// K.
    pub k: DeviceBuffer,
    /// V, in the same layout.
    pub v: DeviceBuffer,
    /// Order of the dimensions.
    pub layout: KvLayout,
    /// Blocks in the cache.
    pub blocks: u32,
}

impl KvCache {
    /// Bytes of K (or of V) for so many blocks.
    pub fn bytes(shape: &DecodeShape, blocks: u32) -> usize {
        blocks as usize * (shape.block_size * shape.kv_heads * shape.head_dim * 2) as usize
    }

    /// Elements from one (block, KV head, token) to the next.
    fn strides(&self, shape: &DecodeShape) -> [u64; 3] {
        let (d, heads, tokens) = (u64::from(shape.head_dim), u64::from(shape.kv_heads), u64::from(shape.block_size));
        match self.layout {
            KvLayout::Hnd => [heads * tokens * d, tokens * d, d],
            KvLayout::Nhd => [heads * tokens * d, d, heads * d],
        }
    }
}

/// Choices for a run that do not change its result.
#[derive(Clone, Debug)]
pub struct DecodeOptions {
    /// How the launches follow each other.
    pub strategy: Strategy,
    /// Trace records to keep; 0 compiles tracing away.
    pub trace_capacity: u32,
    /// CTAs per SM instead of the usual number.
    pub ctas_per_sm: Option<u32>,
    /// Tokens that an entry of the fused queue should hold at least, by taking several KV heads at once. `None` lets
    /// the number of packs decide.
    pub item_tokens: Option<u32>,
    /// Extra preprocessor definitions, for experiments.
    pub defines: Vec<String>,
}

impl DecodeOptions {
    /// A plain run with this strategy.
    pub fn new(strategy: Strategy) -> Self {
        Self { strategy, trace_capacity: 0, ctas_per_sm: None, item_tokens: None, defines: Vec::new() }
    }
}

/// One launch: a kernel and its work list.
#[derive(Debug)]
struct Launch {
    function: Function,
    params: DecodeParams,
    grid: u32,
    _items: DeviceBuffer,
}

/// The merge as its own launch: one CTA a query with two or more partials.
#[derive(Debug)]
struct MergeLaunch {
    function: Function,
    params: MergeParams,
    grid: u32,
    _queries: DeviceBuffer,
}

/// A prepared decode call. Launching it allocates nothing and can be captured as a CUDA graph.
#[derive(Debug)]
pub struct Decode {
    launches: Vec<Launch>,
    merge: Option<MergeLaunch>,
    streams: Vec<Stream>,
    fork: Option<Event>,
    joins: Vec<Event>,
    out: DeviceBuffer,
    out_lse: DeviceBuffer,
    trace: DeviceBuffer,
    trace_capacity: u32,
    out_values: usize,
    out_rows: usize,
    kernels: Vec<(Vec<Tile>, Resources, u32)>,
    /// The plan's arrays and the partials, the partials first.
    held: Vec<DeviceBuffer>,
}

/// What a decode call is made from.
struct Call<'a> {
    gpu: &'a Gpu,
    compiler: &'a Compiler,
    shape: &'a DecodeShape,
    cache: &'a KvCache,
    plan: &'a PlanArrays<'a>,
    options: &'a DecodeOptions,
    base: DecodeParams,
}

impl Call<'_> {
    fn spec(&self, tiles: &[Tile]) -> KernelSpec {
        let fused = self.options.strategy == Strategy::Fused;
        let trace = self.options.trace_capacity > 0;
        let mut spec = KernelSpec::new(tiles, self.shape.head_dim, self.shape.dtype, fused, trace);
        if let Some(n) = self.options.ctas_per_sm {
            spec.ctas_per_sm = n;
        }
        spec.defines.clone_from(&self.options.defines);
        spec
    }

    /// The kernel for these tiles, loaded, and its CTAs per SM.
    fn kernel(&self, tiles: &[Tile]) -> Result<(KernelSpec, Function, u32), KernelError> {
        let spec = self.spec(tiles);
        let function = self.gpu.load(&self.compiler.decode(&spec)?)?;
        let residency = function.ctas_per_sm()?;
        Ok((spec, function, residency))
    }
}

/// Words before the first trace record.
const TRACE_HEADER_WORDS: usize = 16;

impl Decode {
    /// Checks the plan, compiles the kernels that it uses, and uploads its arrays. `queries` holds `[num_queries,
    /// q_heads, head_dim]` 16-bit values; it and `cache` must outlive the launches, which borrowing cannot express
    /// across repeated asynchronous calls, so both are taken by reference here and by the caller's care after that:
    /// dropping a buffer waits for the device first.
    pub fn new(
        gpu: &Gpu,
        compiler: &Compiler,
        shape: &DecodeShape,
        cache: &KvCache,
        queries: &DeviceBuffer,
        plan: &PlanArrays<'_>,
        options: &DecodeOptions,
    ) -> Result<Self, KernelError> {
        shape.check()?;
        plan.check(shape, cache.blocks)?;
        let rows = plan.num_queries as usize * shape.q_heads as usize;
        let values = rows * shape.head_dim as usize;
        let needed = KvCache::bytes(shape, cache.blocks);
        if queries.bytes() < values * 2 || cache.k.bytes() < needed || cache.v.bytes() < needed {
            return Err(KernelError::Plan("the query or KV buffers are smaller than the plan needs".to_owned()));
        }
        let out = gpu.allocate(values * 2)?;
        let out_lse = gpu.allocate(rows * 4)?;
        let trace =
            gpu.allocate(TRACE_HEADER_WORDS * 4 + options.trace_capacity as usize * size_of::<TraceRecord>())?;
        let mut held = Vec::new();
        let mut base = Self::base_params(gpu, shape, cache, plan, &mut held)?;
        base.queries = queries.address();
        base.out = out.address();
        base.out_lse = out_lse.address();
        base.trace = if options.trace_capacity > 0 { trace.address() } else { 0 };
        base.trace_capacity = options.trace_capacity;
        let mut decode = Self {
            launches: Vec::new(),
            merge: None,
            streams: Vec::new(),
            fork: None,
            joins: Vec::new(),
            out,
            out_lse,
            trace,
            trace_capacity: options.trace_capacity,
            out_values: values,
            out_rows: rows,
            kernels: Vec::new(),
            held,
        };
        let call = Call { gpu, compiler, shape, cache, plan, options, base };
        if options.strategy == Strategy::Fused {
            decode.add_fused(&call)?;
        } else {
            decode.add_tiles(&call)?;
        }
        decode.clear_trace()?;
        // Copies from pageable memory may still be on their way, and streams do not wait for them.
        gpu.synchronize()?;
        Ok(decode)
    }

    fn base_params(
        gpu: &Gpu,
        shape: &DecodeShape,
        cache: &KvCache,
        plan: &PlanArrays<'_>,
        held: &mut Vec<DeviceBuffer>,
    ) -> Result<DecodeParams, KernelError> {
        let mut keep = |buffer: DeviceBuffer| {
            let address = buffer.address();
            held.push(buffer);
            address
        };
        let slot_rows = plan.num_slots as usize * shape.q_heads as usize;
        let [stride_block, stride_head, stride_token] = cache.strides(shape);
        Ok(DecodeParams {
            k: cache.k.address(),
            v: cache.v.address(),
            part_out: keep(gpu.allocate(slot_rows * shape.head_dim as usize * 4)?),
            part_lse: keep(gpu.allocate(slot_rows * 4)?),
            pack_queries: keep(gpu.upload(&pack_queries(plan))?),
            block_ids: keep(gpu.upload(plan.block_ids)?),
            arrivals: keep(gpu.upload(&vec![0_u32; (plan.num_queries * shape.kv_heads) as usize])?),
            queue: keep(gpu.upload(&[0_u32; 4])?),
            stride_block,
            stride_head,
            stride_token,
            q_heads: shape.q_heads,
            kv_heads: shape.kv_heads,
            group_shift: shape.group().trailing_zeros(),
            block_shift: shape.block_size.trailing_zeros(),
            scale_log2: shape.scale * std::f32::consts::LOG2_E,
            ..DecodeParams::default()
        })
    }

    fn add_fused(&mut self, call: &Call<'_>) -> Result<(), KernelError> {
        let Call { gpu, shape, plan, options, .. } = *call;
        let (spec, function, residency) = call.kernel(plan.tiles)?;
        let lanes = gpu.info().sms * residency.max(1);
        let heads = |tokens: u32| heads_per_item(tokens, plan.packs.len(), lanes, shape.kv_heads, options.item_tokens);
        let items = items(plan, shape.kv_heads, |_| true, |tile| tile, heads);
        let grid = (items.len() as u32).min(lanes);
        self.push(call, &spec, function, residency, &items, grid)
    }

    fn add_tiles(&mut self, call: &Call<'_>) -> Result<(), KernelError> {
        let Call { gpu, compiler, shape, plan, base, .. } = call;
        for (index, tile) in plan.tiles.iter().enumerate() {
            let items = items(plan, shape.kv_heads, |t| t == index as u32, |_| 0, |_| 1);
            if items.is_empty() {
                continue;
            }
            let (spec, function, residency) = call.kernel(&[*tile])?;
            self.push(call, &spec, function, residency, &items, items.len() as u32)?;
        }
        let merged: Vec<u32> = (0..plan.num_queries)
            .zip(plan.merge_offsets.windows(2))
            .filter(|(_, run)| run[1] - run[0] > 1)
            .map(|(q, _)| q)
            .collect();
        if !merged.is_empty() {
            let function = gpu.load(&compiler.merge(&call.spec(plan.tiles))?)?;
            let queries = gpu.upload(&merged)?;
            let offsets = gpu.upload(plan.merge_offsets)?;
            let params = MergeParams {
                part_out: base.part_out,
                part_lse: base.part_lse,
                merge_offsets: offsets.address(),
                out: base.out,
                out_lse: base.out_lse,
                queries: queries.address(),
                trace: base.trace,
                trace_capacity: base.trace_capacity,
                q_heads: shape.q_heads,
                group_shift: shape.group().trailing_zeros(),
                unused: 0,
            };
            self.held.push(offsets);
            self.merge = Some(MergeLaunch { function, params, grid: merged.len() as u32, _queries: queries });
        }
        if call.options.strategy == Strategy::Streams && self.launches.len() > 1 {
            self.fork = Some(gpu.event()?);
            for _ in 1..self.launches.len() {
                self.streams.push(gpu.stream()?);
                self.joins.push(gpu.event()?);
            }
        }
        Ok(())
    }

    fn push(
        &mut self,
        call: &Call<'_>,
        spec: &KernelSpec,
        function: Function,
        residency: u32,
        items: &[Item],
        grid: u32,
    ) -> Result<(), KernelError> {
        let Call { gpu, shape, cache, .. } = call;
        let mut params = call.base;
        if gpu.arch().bulk_copies() {
            // One box serves all tiles of the kernel: it divides the block and every n.
            let shared = spec.tiles.iter().filter(|t| t.heads_together() == 1);
            let tokens = shared.map(|t| t.n).fold(shape.block_size, u32::min);
            params.box_shift = tokens.trailing_zeros();
            params.k_map = tensor_map(&cache.k, shape, cache, tokens, 1)?;
            params.v_map = tensor_map(&cache.v, shape, cache, tokens, 1)?;
            params.k_map4 = tensor_map(&cache.k, shape, cache, 16, 4)?;
            params.v_map4 = tensor_map(&cache.v, shape, cache, 16, 4)?;
        }
        let buffer = gpu.upload(items)?;
        params.items = buffer.address();
        params.num_items = items.len() as u32;
        self.kernels.push((spec.tiles.clone(), function.resources(), residency));
        self.launches.push(Launch { function, params, grid, _items: buffer });
        Ok(())
    }

    /// Queues the whole call on `stream` and returns; the work before it on `stream` comes first.
    pub fn launch(&self, stream: &Stream) -> Result<(), KernelError> {
        if let Some(fork) = &self.fork {
            fork.record(stream)?;
        }
        for (i, launch) in self.launches.iter().enumerate() {
            let own = if i > 0 { self.streams.get(i - 1) } else { None };
            if let (Some(own), Some(fork)) = (own, &self.fork) {
                own.wait(fork)?;
            }
            let threads = launch.function.resources().threads;
            // SAFETY: the structure is the kernel's only parameter; the plan was checked against its buffers in `new`,
            // and `self` holds those buffers.
            unsafe { launch.function.launch(launch.grid, threads, own.unwrap_or(stream), &launch.params)? };
            if let (Some(own), Some(join)) = (own, self.joins.get(i.wrapping_sub(1))) {
                join.record(own)?;
            }
        }
        for join in &self.joins {
            stream.wait(join)?;
        }
        self.launch_merge(stream)
    }

    fn launch_merge(&self, stream: &Stream) -> Result<(), KernelError> {
        if let Some(merge) = &self.merge {
            let threads = merge.function.resources().threads;
            // SAFETY: as in `launch`.
            unsafe { merge.function.launch(merge.grid, threads, stream, &merge.params)? };
        }
        Ok(())
    }

    /// Kernels of this call, the merge included.
    pub fn parts(&self) -> usize {
        self.launches.len() + usize::from(self.merge.is_some())
    }

    /// Queues one kernel of the call alone, in the order of [`Self::launch`]; those before it must have run, since the
    /// merge reads their partials. Nothing for a number past the last.
    pub fn launch_part(&self, part: usize, stream: &Stream) -> Result<(), KernelError> {
        match self.launches.get(part) {
            Some(launch) => {
                let threads = launch.function.resources().threads;
                // SAFETY: as in `launch`.
                unsafe { launch.function.launch(launch.grid, threads, stream, &launch.params) }
            }
            None if part == self.launches.len() => self.launch_merge(stream),
            None => Ok(()),
        }
    }

    /// Fills the outputs and the partials with a pattern that is NaN in f16, bf16 and f32, so that a value that no kernel wrote shows.
    pub fn poison(&self, stream: &Stream) -> Result<(), KernelError> {
        for partial in &self.held[..2] {
            partial.fill(0xff, stream)?;
        }
        self.out.fill(0xff, stream)?;
        self.out_lse.fill(0xff, stream)
    }

    /// The outputs, `[num_queries, q_heads, head_dim]` 16-bit values.
    pub fn output(&self) -> Result<Vec<u16>, KernelError> {
        self.out.read(0, self.out_values)
    }

    /// The log-sum-exps, natural logarithm, `[num_queries, q_heads]`. Complete only where the kernels merge.
    pub fn output_lse(&self) -> Result<Vec<f32>, KernelError> {
        self.out_lse.read(0, self.out_rows)
    }

    /// Empties the trace buffer; call it before the launch that is to be read.
    pub fn clear_trace(&self) -> Result<(), KernelError> {
        self.trace.write(0, &[0_u32; TRACE_HEADER_WORDS])
    }

    /// The trace of the launches since [`Self::clear_trace`], in the order of their ends, and the records lost because
    /// the buffer was full.
    pub fn trace(&self) -> Result<(Vec<TraceRecord>, u32), KernelError> {
        let header: Vec<u32> = self.trace.read(0, TRACE_HEADER_WORDS)?;
        let kept = header[0].min(self.trace_capacity) as usize;
        Ok((self.trace.read(TRACE_HEADER_WORDS * 4, kept)?, header[1]))
    }

    /// The kernels of this call: their tiles, resources, and CTAs per SM from the compiled code.
    pub fn kernels(&self) -> &[(Vec<Tile>, Resources, u32)] {
        &self.kernels
    }
}

/// The queries of the packs, pack after pack. The partials of a query get slots that follow each other in merge order,
/// whatever numbers the plan gave them, so that merging them needs no list.
fn pack_queries(plan: &PlanArrays<'_>) -> Vec<PackQuery> {
    let mut owners = vec![PackQuery::default(); plan.num_slots as usize];
    for (query, run) in plan.merge_offsets.windows(2).enumerate() {
        for at in run[0]..run[1] {
            let slot = plan.merge_slots[at as usize] as usize;
            owners[slot] = PackQuery { query: query as u32, slot: at, first: run[0], count: run[1] - run[0] };
        }
    }
    let slots = plan.packs.iter().flat_map(|p| p.slot_begin..p.slot_begin + p.num_queries);
    slots.map(|slot| owners[slot as usize]).collect()
}

/// KV heads that one entry of the fused queue takes. Short packs are grouped so that fetching an entry does not cost
/// more than its data, as long as every CTA still gets several entries.
fn heads_per_item(tokens: u32, packs: usize, lanes: u32, kv_heads: u32, target: Option<u32>) -> u32 {
    let target = target.unwrap_or(if packs as u32 * kv_heads > lanes * 16 { 128 } else { 0 });
    let mut heads = 1;
    while heads * 2 <= kv_heads && kv_heads.is_multiple_of(heads * 2) && heads * tokens.max(1) < target {
        heads *= 2;
    }
    heads
}

/// The work list of the packs whose tile `wanted` accepts, in the plan's order, all KV heads of a pack together.
fn items(
    plan: &PlanArrays<'_>,
    kv_heads: u32,
    wanted: impl Fn(u32) -> bool,
    tile: impl Fn(u32) -> u32,
    heads: impl Fn(u32) -> u32,
) -> Vec<Item> {
    let mut items = Vec::new();
    let mut query_begin = 0;
    for (task, pack) in plan.packs.iter().enumerate() {
        let first = query_begin;
        query_begin += pack.num_queries;
        if !wanted(pack.tile) {
            continue;
        }
        let together = plan.tiles.get(pack.tile as usize).map_or(1, Tile::heads_together);
        let count = heads(pack.kv_tokens).max(together).min(kv_heads);
        for head in (0..kv_heads).step_by(count as usize) {
            items.push(Item {
                query_begin: first,
                num_queries: pack.num_queries,
                block_begin: pack.block_begin,
                kv_tokens: pack.kv_tokens,
                task: task as u32,
                tile: tile(pack.tile),
                head_begin: head as u16,
                head_count: count.min(kv_heads - head) as u16,
                unused: 0,
            });
        }
    }
    items
}

/// The cache as `[block, kv_head, token, d]` for bulk copies of `box_heads` heads by `box_tokens` tokens by 64
/// dimensions. Heads past the last arrive as zeros.
fn tensor_map(
    buffer: &DeviceBuffer,
    shape: &DecodeShape,
    cache: &KvCache,
    box_tokens: u32,
    box_heads: u32,
) -> Result<TensorMap, KernelError> {
    let [block, head, token] = cache.strides(shape);
    let sizes =
        [u64::from(shape.head_dim), u64::from(shape.block_size), u64::from(shape.kv_heads), u64::from(cache.blocks)];
    let strides = [token * 2, head * 2, block * 2];
    let boxes = [64, box_tokens, box_heads, 1];
    let steps = [1_u32; 4];
    let kind = match shape.dtype {
        Dtype::F16 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        Dtype::Bf16 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
    };
    let mut map = TensorMap::default();
    // SAFETY: `map` has the size and alignment of a CUtensorMap, all arrays have four (strides: three) entries, and
    // the sizes and strides describe memory inside `buffer`, as `Decode::new` checked.
    let status = unsafe {
        sys::cuTensorMapEncodeTiled(
            (&raw mut map).cast(),
            kind,
            4,
            buffer.address() as *mut _,
            sizes.as_ptr(),
            strides.as_ptr(),
            boxes.as_ptr(),
            steps.as_ptr(),
            sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
            sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    };
    if status == sys::CUresult::CUDA_SUCCESS {
        Ok(map)
    } else {
        Err(KernelError::Driver { what: "describing the KV cache to the copy engine", reason: format!("{status:?}") })
    }
}
