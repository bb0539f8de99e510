//! A plan on the GPU: checked, uploaded and compiled once, then launched as often as wanted.
//!
//! ```text
//! serial:   tile A ──► tile B ──► merges                     one stream
//! streams:  fork ─┬─► tile A ─┬─ join ──► merges             one stream per tile, events made once
//!                 └─► tile B ─┘
//! phases:   as either, one phase after the other
//! fused:    one persistent launch; a queue in the plan's order; a task joins the other partials of the queries
//!           that it completes, and what is complete only at its end is merged by the last to arrive
//! ```

use std::ops::Range;

use crate::cache::{KvCache, tensor_map};
use crate::compile::{Compiler, Resources};
use crate::error::KernelError;
use crate::gpu::{DeviceBuffer, Event, Function, Gpu, Stream};
use crate::lists::{entries, heads_per_item, items, mark_joined, merge_rows, owners, pack_queries};
use crate::params::{DecodeParams, Item, MergeParams, PackQuery, TraceRecord};
use crate::plan::{DecodeShape, MergeRows, Phase, PlanArrays, Tile};
use crate::spec::KernelSpec;
use crate::trace::TraceBuffer;

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
    _entries: DeviceBuffer,
}

/// A merge as its own launch: one CTA a row.
#[derive(Debug)]
struct MergeLaunch {
    function: Function,
    params: MergeParams,
    grid: u32,
}

/// Launches of a phase, by their places.
#[derive(Clone, Debug)]
struct Group {
    launches: Range<usize>,
    merges: Range<usize>,
}

/// A prepared decode call. Launching it allocates nothing and can be captured as a CUDA graph.
#[derive(Debug)]
pub struct Decode {
    launches: Vec<Launch>,
    merges: Vec<MergeLaunch>,
    groups: Vec<Group>,
    streams: Vec<Stream>,
    fork: Option<Event>,
    joins: Vec<Event>,
    out: DeviceBuffer,
    out_lse: DeviceBuffer,
    trace: TraceBuffer,
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
    /// Of each slot of the plan.
    owners: &'a [PackQuery],
    /// Of each query of each pack, in the plan's order.
    pack_queries: &'a [PackQuery],
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
        let trace = TraceBuffer::new(gpu, options.trace_capacity)?;
        let phases = if options.strategy == Strategy::Fused { Vec::new() } else { plan.phases().into_owned() };
        let mut owners = owners(plan);
        if options.strategy != Strategy::Fused {
            mark_joined(&mut owners, &phases);
        }
        let mut held = Vec::new();
        let pack_queries = pack_queries(plan, &owners);
        let mut base = Self::base_params(gpu, shape, cache, plan, &pack_queries, &mut held)?;
        base.queries = queries.address();
        base.out = out.address();
        base.out_lse = out_lse.address();
        base.trace = trace.address();
        base.trace_capacity = options.trace_capacity;
        let mut decode = Self {
            launches: Vec::new(),
            merges: Vec::new(),
            groups: Vec::new(),
            streams: Vec::new(),
            fork: None,
            joins: Vec::new(),
            out,
            out_lse,
            trace,
            out_values: values,
            out_rows: rows,
            kernels: Vec::new(),
            held,
        };
        let call =
            Call { gpu, compiler, shape, cache, plan, options, base, owners: &owners, pack_queries: &pack_queries };
        if options.strategy == Strategy::Fused {
            decode.add_fused(&call)?;
        } else {
            decode.add_phases(&call, &phases)?;
        }
        // Copies from pageable memory may still be on their way, and streams do not wait for them.
        gpu.synchronize()?;
        Ok(decode)
    }

    fn base_params(
        gpu: &Gpu,
        shape: &DecodeShape,
        cache: &KvCache,
        plan: &PlanArrays<'_>,
        queries: &[PackQuery],
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
            pack_queries: keep(gpu.upload(queries)?),
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
            // Marking costs 3 % of the bandwidth and keeps partials in L2: only where there are some.
            read_once: u32::from(queries.iter().any(|query| query.count > 1)),
            ..DecodeParams::default()
        })
    }

    fn add_fused(&mut self, call: &Call<'_>) -> Result<(), KernelError> {
        let Call { gpu, shape, plan, options, .. } = *call;
        let (spec, function, residency) = call.kernel(plan.tiles)?;
        let lanes = gpu.info().sms * residency.max(1);
        let heads = |tokens: u32| heads_per_item(tokens, plan.packs.len(), lanes, shape.kv_heads, options.item_tokens);
        let items = items(plan, &(0..plan.packs.len()), shape.kv_heads, |_| true, |tile| tile, heads);
        let grid = (items.len() as u32).min(lanes);
        self.groups.push(Group { launches: 0..1, merges: 0..0 });
        self.push(call, &spec, function, residency, &items, grid)
    }

    fn add_phases(&mut self, call: &Call<'_>, phases: &[Phase]) -> Result<(), KernelError> {
        let mut begin = 0;
        for phase in phases {
            let (launches, merges) = (self.launches.len(), self.merges.len());
            let packs = begin..phase.packs_end as usize;
            begin = packs.end;
            self.add_tiles(call, &packs)?;
            for rows in &phase.merges {
                self.add_merge(call, rows)?;
            }
            self.groups.push(Group { launches: launches..self.launches.len(), merges: merges..self.merges.len() });
        }
        let most = self.groups.iter().map(|group| group.launches.len()).max().unwrap_or(0);
        if call.options.strategy == Strategy::Streams && most > 1 {
            self.fork = Some(call.gpu.event()?);
            for _ in 1..most {
                self.streams.push(call.gpu.stream()?);
                self.joins.push(call.gpu.event()?);
            }
        }
        Ok(())
    }

    /// One launch a tile of some packs.
    fn add_tiles(&mut self, call: &Call<'_>, packs: &Range<usize>) -> Result<(), KernelError> {
        for (index, tile) in call.plan.tiles.iter().enumerate() {
            let items = items(call.plan, packs, call.shape.kv_heads, |t| t == index as u32, |_| 0, |_| 1);
            if items.is_empty() {
                continue;
            }
            let (spec, function, residency) = call.kernel(&[*tile])?;
            self.push(call, &spec, function, residency, &items, items.len() as u32)?;
        }
        Ok(())
    }

    fn add_merge(&mut self, call: &Call<'_>, merge: &MergeRows) -> Result<(), KernelError> {
        let Call { gpu, shape, base, .. } = call;
        let function =
            gpu.load(&call.compiler.merge(shape.head_dim, shape.dtype, call.options.trace_capacity > 0)?)?;
        let (rows, slots) = merge_rows(merge, call.owners);
        let mut keep = |buffer: DeviceBuffer| {
            let address = buffer.address();
            self.held.push(buffer);
            address
        };
        let params = MergeParams {
            part_out: base.part_out,
            part_lse: base.part_lse,
            rows: keep(gpu.upload(&rows)?),
            row_slots: if slots.is_empty() { 0 } else { keep(gpu.upload(&slots)?) },
            out: base.out,
            out_lse: base.out_lse,
            trace: base.trace,
            trace_capacity: base.trace_capacity,
            q_heads: shape.q_heads,
            group_shift: shape.group().trailing_zeros(),
            number: self.merges.len() as u32,
            trace_begin: base.kv_heads * call.plan.packs.len() as u32
                + self.merges.iter().map(|merge| merge.grid).sum::<u32>(),
            unused: 0,
        };
        self.merges.push(MergeLaunch { function, params, grid: rows.len() as u32 });
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
        let wide = |tile: u32| spec.tiles.get(tile as usize).is_some_and(|t| t.heads_together() > 1);
        let tokens = |tile| if wide(tile) { 16 } else { 1 << params.box_shift };
        let buffer = gpu.upload(&entries(items, call.pack_queries, call.plan.block_ids, tokens, shape.block_size))?;
        params.entries = buffer.address();
        params.num_items = items.len() as u32;
        self.kernels.push((spec.tiles.clone(), function.resources(), residency));
        self.launches.push(Launch { function, params, grid, _entries: buffer });
        Ok(())
    }

    /// Queues the whole call on `stream` and returns; the work before it on `stream` comes first.
    pub fn launch(&self, stream: &Stream) -> Result<(), KernelError> {
        self.groups.iter().try_for_each(|group| self.launch_group(group, stream))
    }

    fn launch_group(&self, group: &Group, stream: &Stream) -> Result<(), KernelError> {
        let launches = &self.launches[group.launches.clone()];
        if let Some(fork) = self.fork.as_ref().filter(|_| launches.len() > 1) {
            fork.record(stream)?;
        }
        for (i, launch) in launches.iter().enumerate() {
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
        for join in self.joins.iter().take(launches.len().saturating_sub(1)) {
            stream.wait(join)?;
        }
        self.merges[group.merges.clone()].iter().try_for_each(|merge| Self::launch_merge(merge, stream))
    }

    fn launch_merge(merge: &MergeLaunch, stream: &Stream) -> Result<(), KernelError> {
        let threads = merge.function.resources().threads;
        // SAFETY: as in `launch_group`.
        unsafe { merge.function.launch(merge.grid, threads, stream, &merge.params) }
    }

    /// Kernels of this call, merges included.
    pub fn parts(&self) -> usize {
        self.launches.len() + self.merges.len()
    }

    /// Queues one kernel of the call alone, in the order of [`Self::launch`]; those before it must have run, since a
    /// merge reads their partials. Nothing for a number past the last.
    pub fn launch_part(&self, part: usize, stream: &Stream) -> Result<(), KernelError> {
        let mut left = part;
        for group in &self.groups {
            if let Some(launch) = self.launches[group.launches.clone()].get(left) {
                let threads = launch.function.resources().threads;
                // SAFETY: as in `launch_group`.
                return unsafe { launch.function.launch(launch.grid, threads, stream, &launch.params) };
            }
            left -= group.launches.len();
            if let Some(merge) = self.merges[group.merges.clone()].get(left) {
                return Self::launch_merge(merge, stream);
            }
            left -= group.merges.len();
        }
        Ok(())
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

    /// Empties the trace buffer, in stream order; call it before the launch that is to be read.
    pub fn clear_trace(&self, stream: &Stream) -> Result<(), KernelError> {
        self.trace.clear(stream)
    }

    /// The trace of the launches since [`Self::clear_trace`], pack by pack and head by head, and the records lost
    /// because the buffer had no place for them.
    pub fn trace(&self) -> Result<(Vec<TraceRecord>, u32), KernelError> {
        self.trace.read()
    }

    /// The kernels of this call: their tiles, resources, and CTAs per SM from the compiled code.
    pub fn kernels(&self) -> &[(Vec<Tile>, Resources, u32)] {
        &self.kernels
    }
}
