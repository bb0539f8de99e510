//! From a checked plan to launches: kernels compiled and loaded, lists uploaded, parameters filled in.

use std::borrow::Cow;

use crate::cache::{KvCache, tensor_map};
use crate::call::{CallOptions, KernelInfo, Params, Ready};
use crate::compile::Compiler;
use crate::error::KernelError;
use crate::gpu::{DeviceBuffer, Function, Gpu};
use crate::lists::{
    entries, heads_per_item, items, merge_rows, one_each, owners, pack_queries, prefill_items, queued_prefill_items,
    spread,
};
use crate::marks::{Marks, Readers};
use crate::masks::MASK_TOKENS;
use crate::params::{DecodeParams, HybridParams, Item, MergeParams, PackQuery, PrefillItem, PrefillParams};
use crate::plan::{CtaRoles, DecodeShape, HybridWork, Launch, MergeRows, PackTask, PlanArrays, Tile, Work};
use crate::spec::{Folds, HybridSpec, KernelSpec, PrefillSpec, Roles, Sight};
use crate::tails::Tails;
use crate::trace::TraceBuffer;
use crate::watch::watch;

/// Tasks per CTA of a queue from which on they look as they are claimed for what they complete. On an H200 the trees of
/// PAT's Figure 10 with 2.4 to 4.9 tasks per CTA take 2 to 7 % less without, and those with 6.8 and more 7 to 25 % more.
/// To look as they end is worth 2 to 5 % to the first, and nothing to the others.
const FOLD_TASKS: u32 = 6;

/// KV bytes per SM from which on the first items are spread over the GPCs. On an H100 a long request in 96 items for 132
/// SMs takes 520 µs then and 557 to 573 without, and runs of 100 µs and more nothing to 10 % less. Shorter ones take from 3 %
/// less to 5 % more, so they stay as they are.
const SPREAD_BYTES: u64 = 2 << 20;

/// CTAs of a persistent kernel on an SM, nearly always.
const USUAL_RESIDENCY: u32 = 2;

/// Tasks of these packs.
fn tasks_of(plan: &PlanArrays<'_>, shape: &DecodeShape, packs: &[u32]) -> u32 {
    let tile = |pack: &u32| plan.tiles.get(plan.packs[*pack as usize].tile as usize);
    packs.iter().map(|pack| shape.kv_heads.div_ceil(tile(pack).map_or(1, Tile::heads_together))).sum()
}

/// Whether so many tasks are few for CTAs on so many SMs.
fn are_few(tasks: u32, sms: u32) -> bool {
    tasks < FOLD_TASKS * USUAL_RESIDENCY * sms
}

/// The tasks of a plan that is one queue with few of them.
fn short_queue(plan: &PlanArrays<'_>, shape: &DecodeShape, sms: u32) -> Option<u32> {
    let [Launch { work: Work::Queue(packs), beside: false, .. }] = plan.launches else { return None };
    let tasks = tasks_of(plan, shape, packs);
    are_few(tasks, sms).then_some(tasks)
}

/// What all launches of a call read and write.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) part_out: DeviceBuffer,
    pub(crate) part_lse: DeviceBuffer,
    /// Lists and counters.
    lists: Vec<DeviceBuffer>,
}

impl Shared {
    /// Keeps a buffer for as long as the call lives.
    fn keep(&mut self, buffer: DeviceBuffer) -> u64 {
        let address = buffer.address();
        self.lists.push(buffer);
        address
    }
}

/// Makes the launches of one call.
pub(crate) struct Builder<'a> {
    gpu: &'a Gpu,
    compiler: &'a Compiler,
    shape: &'a DecodeShape,
    cache: &'a KvCache,
    plan: &'a PlanArrays<'a>,
    options: &'a CallOptions,
    pub(crate) shared: Shared,
    decode: DecodeParams,
    /// Of each slot of the plan.
    owners: Vec<PackQuery>,
    /// Of each query of each pack, in the plan's order.
    pack_queries: Vec<PackQuery>,
    marks: Marks,
    /// Queries that CTAs without tasks merge.
    pub(crate) watched: Vec<u32>,
    /// As decode kernels read them.
    block_ids: Cow<'a, [u32]>,
    query_index: u64,
    merges: u32,
    merged_rows: u32,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(
        gpu: &'a Gpu,
        compiler: &'a Compiler,
        shape: &'a DecodeShape,
        cache: &'a KvCache,
        plan: &'a PlanArrays<'a>,
        options: &'a CallOptions,
    ) -> Result<Self, KernelError> {
        let owners = owners(plan);
        let mut pack_queries = pack_queries(plan, &owners);
        let readers = Readers::of(plan, shape);
        let marks = readers.marks(plan, &pack_queries);
        let sms = gpu.info().sms;
        let watched = short_queue(plan, shape, sms)
            .map_or_else(Vec::new, |tasks| watch(plan, shape, &mut pack_queries, (tasks, USUAL_RESIDENCY * sms)));
        let bulk = options.bulk_copies(&gpu.arch(), shape);
        let block_ids = readers.marked_blocks(plan, bulk);
        let tails = if bulk {
            Tails::of(plan, block_ids, (shape.block_size, shape.group()))
        } else {
            Tails { masks: plan.masks.into(), block_ids }
        };
        let slot_rows = (plan.num_slots + plan.prefill_slots) as usize * shape.q_heads as usize;
        let mut shared = Shared {
            part_out: gpu.allocate(slot_rows * shape.head_dim as usize * 4)?,
            part_lse: gpu.allocate(slot_rows * 4)?,
            lists: Vec::new(),
        };
        let [stride_block, stride_head, stride_token] = cache.strides(shape);
        let decode = DecodeParams {
            k: cache.k.address(),
            v: cache.v.address(),
            part_out: shared.part_out.address(),
            part_lse: shared.part_lse.address(),
            pack_queries: shared.keep(gpu.upload(&pack_queries)?),
            block_ids: shared.keep(gpu.upload(&tails.block_ids)?),
            masks: shared.keep(gpu.upload(&tails.masks)?),
            num_watched: watched.len() as u32,
            watched: shared.keep(gpu.upload(&watched)?),
            watch_trace: plan.watch_places(shape),
            arrivals: shared.keep(gpu.upload(&vec![0_u32; (plan.num_queries * shape.kv_heads) as usize])?),
            stride_block,
            stride_head,
            stride_token,
            q_heads: shape.q_heads,
            kv_heads: shape.kv_heads,
            group: shape.group(),
            group_by: shape.group_by(),
            block_shift: shape.block_size.trailing_zeros(),
            scale_log2: shape.scale * std::f32::consts::LOG2_E,
            ..DecodeParams::default()
        };
        let query_index = shared.keep(gpu.upload(plan.query_index)?);
        Ok(Self {
            gpu,
            compiler,
            shape,
            cache,
            plan,
            options,
            shared,
            decode,
            owners,
            pack_queries,
            marks,
            watched: watched.iter().map(|query| query.query).collect(),
            block_ids: tails.block_ids,
            query_index,
            merges: 0,
            merged_rows: 0,
        })
    }

    /// Where rows come from, and where they and the trace go.
    pub(crate) fn writes_to(
        &mut self,
        queries: &DeviceBuffer,
        (out, out_lse): (&DeviceBuffer, &DeviceBuffer),
        trace: &TraceBuffer,
    ) {
        self.decode.queries = queries.address();
        self.decode.out = out.address();
        self.decode.out_lse = out_lse.address();
        self.decode.trace = trace.address();
        self.decode.trace_capacity = trace.capacity();
    }

    /// One launch of the plan.
    pub(crate) fn launch(&mut self, launch: &Launch) -> Result<Ready, KernelError> {
        let mut ready = match &launch.work {
            Work::Packs(packs) => self.packs(packs, launch.pack_fastest),
            Work::Queue(packs) => self.queue(packs, launch),
            Work::Prefill(tasks) => self.prefill(tasks, launch),
            Work::Hybrid(hybrid) => self.hybrid(hybrid),
            Work::Merge(rows) => self.merge(rows),
        }?;
        ready.programmatic = launch.programmatic;
        Ok(ready)
    }

    fn traces(&self) -> bool {
        self.options.trace_capacity > 0
    }

    /// SMs that a persistent grid is for.
    fn sms(&self, wanted: Option<u32>) -> u32 {
        wanted.map_or(self.gpu.info().sms, |sms| sms.clamp(1, self.gpu.info().sms))
    }

    /// One CTA an item, all of one tile.
    fn packs(&mut self, packs: &[u32], pack_fastest: bool) -> Result<Ready, KernelError> {
        let tile = packs.first().and_then(|pack| self.plan.tiles.get(self.plan.packs[*pack as usize].tile as usize));
        let tiles: Vec<Tile> = tile.copied().into_iter().collect();
        let mut items = one_each(self.plan, packs, self.marks.of_packs(), self.shape.kv_heads, pack_fastest);
        let grid = items.len() as u32;
        let (spec, function) = self.decode_kernel(&tiles, (false, false), Folds::Never)?;
        self.marks.spare_first(&mut items, self.gpu.info().sms * function.ctas_per_sm()?.max(1));
        self.decode(&spec, function, &items, grid)
    }

    /// A persistent grid over a queue of items of the tiles that its packs have.
    fn queue(&mut self, packs: &[u32], launch: &Launch) -> Result<Ready, KernelError> {
        let plan = self.plan;
        let used = |tile: &usize| packs.iter().any(|pack| plan.packs[*pack as usize].tile as usize == *tile);
        let used: Vec<usize> = (0..plan.tiles.len()).filter(used).collect();
        let tiles: Vec<Tile> = used.iter().map(|tile| plan.tiles[*tile]).collect();
        let (spec, function) = self.decode_kernel(&tiles, (true, launch.beside), self.folds(packs, launch))?;
        let lanes = self.sms(launch.sms) * function.ctas_per_sm()?.max(1);
        let (kv_heads, wanted) = (self.shape.kv_heads, self.options.item_tokens);
        let heads =
            |tokens: u32, together: u32| heads_per_item(tokens, packs.len(), lanes, kv_heads, wanted).max(together);
        let number = |tile: u32| used.iter().position(|own| *own == tile as usize).unwrap_or(0) as u32;
        let items = items(plan, (packs, self.marks.of_packs()), kv_heads, number, heads);
        let mut items = if launch.beside { items } else { self.spread_over_gpcs(items, self.sms(launch.sms), lanes) };
        self.marks.spare_first(&mut items, lanes);
        let grid = (items.len() as u32).min(lanes);
        self.decode(&spec, function, &items, grid)
    }

    /// The items with the first of each CTA spread over the GPU, where they read enough for it. Beside prefill no CTA has
    /// a first item of its own.
    fn spread_over_gpcs(&self, items: Vec<Item>, sms: u32, lanes: u32) -> Vec<Item> {
        let tokens: u64 = items.iter().map(|item| u64::from(item.kv_tokens) * u64::from(item.head_count)).sum();
        let read = tokens * self.shape.token_bytes();
        if read < SPREAD_BYTES * u64::from(sms) { items } else { spread(items, sms, lanes) }
    }

    /// When tasks look for the partials that they complete. In a short queue nothing is there yet when they are claimed.
    fn folds(&self, packs: &[u32], launch: &Launch) -> Folds {
        if self.options.deterministic {
            return Folds::Never;
        }
        let tasks = tasks_of(self.plan, self.shape, packs);
        if are_few(tasks, self.sms(launch.sms)) { Folds::AtEnd } else { Folds::AsClaimed }
    }

    /// The decode kernel for these tiles, loaded.
    fn decode_kernel(
        &self,
        tiles: &[Tile],
        (fused, beside): (bool, bool),
        folds: Folds,
    ) -> Result<(KernelSpec, Function), KernelError> {
        let mut spec = KernelSpec::new(tiles, self.shape.head_dim, self.shape.dtype, fused, self.traces());
        spec.beside_prefill = beside;
        spec.folds = folds;
        spec.groups = self.shape.groups();
        if tiles.contains(&Tile::MASKED) && self.plan.packs.iter().any(|pack| pack.masks.is_some()) {
            spec.sight = Sight::Masked;
        } else if tiles == [Tile::TALL] && fused && self.few_are_apart() {
            spec.sight = Sight::Apart;
            // There are no registers for them, and its queries seldom have other partials.
            spec.folds = Folds::Never;
        }
        spec.copies = self.shape.copies(DecodeShape::BULK_BLOCK);
        spec.ctas_per_sm = self.options.ctas_per_sm.unwrap_or(spec.ctas_per_sm);
        spec.defines.clone_from(&self.options.defines);
        let function = self.gpu.load(&self.compiler.decode(&spec)?)?;
        Ok((spec, function))
    }

    /// Whether of all packs of 128 rows what few queries see is so little that a warpgroup of its own may take it.
    fn few_are_apart(&self) -> bool {
        let tall = |pack: &&PackTask| self.plan.tiles.get(pack.tile as usize) == Some(&Tile::TALL);
        self.plan.packs.iter().filter(tall).all(|pack| pack.leaves_few_apart(self.plan.masks))
    }

    fn decode(
        &mut self,
        spec: &KernelSpec,
        function: Function,
        items: &[Item],
        grid: u32,
    ) -> Result<Ready, KernelError> {
        let mut params = self.decode_params(&spec.tiles, spec.bulk_copies(&self.gpu.arch()), items)?;
        params.queue = self.shared.keep(self.gpu.upload(&[0_u32; 4])?);
        let info = KernelInfo::of(&function, spec.tiles.clone(), grid)?;
        Ok(Ready { function, params: Params::Decode(Box::new(params)), grid, info, programmatic: false })
    }

    /// Parameters of a decode kernel with these tiles, but for its queue.
    fn decode_params(&mut self, tiles: &[Tile], bulk: bool, items: &[Item]) -> Result<DecodeParams, KernelError> {
        let (gpu, shape, cache) = (self.gpu, self.shape, self.cache);
        let mut params = self.decode;
        if bulk {
            // One box serves all tiles of the kernel: it divides the block and every n, and what is taken apart.
            let shared = tiles.iter().filter(|t| t.heads_together() == 1);
            let tokens = shared.map(|t| if t.teams() > 1 { MASK_TOKENS } else { t.n }).fold(shape.block_size, u32::min);
            params.box_shift = tokens.trailing_zeros();
            params.k_map = tensor_map(&cache.k, shape, cache, tokens, 1)?;
            params.v_map = tensor_map(&cache.v, shape, cache, tokens, 1)?;
            params.k_map4 = tensor_map(&cache.k, shape, cache, 16, 4)?;
            params.v_map4 = tensor_map(&cache.v, shape, cache, 16, 4)?;
        }
        let wide = |tile: u32| tiles.get(tile as usize).is_some_and(|t| t.heads_together() > 1);
        let tokens = |tile| if wide(tile) { 16 } else { 1 << params.box_shift };
        let list = entries(items, &self.pack_queries, &self.block_ids, tokens, shape.block_size);
        params.entries = self.shared.keep(gpu.upload(&list)?);
        params.num_items = items.len() as u32;
        Ok(params)
    }

    fn merge(&mut self, merge: &MergeRows) -> Result<Ready, KernelError> {
        let (gpu, shape, base) = (self.gpu, self.shape, self.decode);
        let function = gpu.load(&self.compiler.merge(shape.head_dim, shape.dtype, self.traces())?)?;
        let (rows, slots) = merge_rows(merge, &self.owners);
        let params = MergeParams {
            part_out: base.part_out,
            part_lse: base.part_lse,
            rows: self.shared.keep(gpu.upload(&rows)?),
            row_slots: if slots.is_empty() { 0 } else { self.shared.keep(gpu.upload(&slots)?) },
            out: base.out,
            out_lse: base.out_lse,
            trace: base.trace,
            trace_capacity: base.trace_capacity,
            q_heads: shape.q_heads,
            number: self.merges,
            trace_begin: self.plan.merge_places(shape) + self.merged_rows,
            unused: [0; 2],
        };
        let grid = rows.len() as u32;
        self.merges += 1;
        self.merged_rows += grid;
        let info = KernelInfo::of(&function, Vec::new(), grid)?;
        Ok(Ready { function, params: Params::Merge(params), grid, info, programmatic: false })
    }

    fn prefill(&mut self, tasks: &[u32], launch: &Launch) -> Result<Ready, KernelError> {
        let (gpu, shape) = (self.gpu, self.shape);
        let spec = PrefillSpec {
            slim: launch.beside,
            copies: shape.copies(DecodeShape::PREFILL_BULK_BLOCK),
            defines: self.options.defines.clone(),
            ..PrefillSpec::new(shape.head_dim, shape.dtype, self.traces())
        };
        let function = gpu.load(&self.compiler.prefill(&spec)?)?;
        let (items, num_folded) = queued_prefill_items(self.plan, tasks);
        let listed = items.iter().filter(|item| item.kind & PrefillItem::LISTED != 0).count();
        let some = |of_items: usize| of_items > 0 && of_items < items.len();
        if launch.beside && (some(listed) || some(num_folded as usize)) {
            return Err(KernelError::Unsupported(
                "lists of some rows, or heads of some that are folded, in prefill beside decode".to_owned(),
            ));
        }
        let rows = if launch.beside && listed == 0 { 0 } else { self.query_index };
        let arch = self.compiler.arch();
        let tokens = spec.bulk_copies(arch).then(|| spec.box_tokens(arch, shape.block_size));
        let mut params = self.prefill_params(&items, rows, tokens)?;
        params.num_folded = num_folded;
        params.group_inverse = PrefillParams::inverse(params.group);
        params.queue = self.shared.keep(gpu.upload(&[0_u32; 4])?);
        let of_kv_head = (params.num_items - num_folded) * params.group + num_folded;
        let grid = (of_kv_head * shape.kv_heads).min(self.sms(launch.sms) * function.ctas_per_sm()?.max(1));
        let info = KernelInfo::of(&function, Vec::new(), grid)?;
        Ok(Ready { function, params: Params::Prefill(Box::new(params)), grid, info, programmatic: false })
    }

    /// Parameters of a prefill kernel, but for its queue: whose rows are listed from `rows` on, if any are, and whose tiles
    /// come in boxes of so many tokens, if they come by bulk copies.
    fn prefill_params(
        &mut self,
        items: &[PrefillItem],
        rows: u64,
        box_tokens: Option<u32>,
    ) -> Result<PrefillParams, KernelError> {
        let (gpu, shape, cache, base) = (self.gpu, self.shape, self.cache, self.decode);
        let all_merged: u32 = self.plan.launches.iter().map(Launch::merge_rows).sum();
        let mut params = PrefillParams {
            queries: base.queries,
            k: base.k,
            v: base.v,
            out: base.out,
            out_lse: base.out_lse,
            part_out: base.part_out,
            part_lse: base.part_lse,
            items: self.shared.keep(gpu.upload(items)?),
            rows,
            block_ids: base.block_ids,
            trace: base.trace,
            stride_block: base.stride_block,
            stride_head: base.stride_head,
            stride_token: base.stride_token,
            num_items: items.len() as u32,
            q_heads: shape.q_heads,
            group: shape.group(),
            block_shift: base.block_shift,
            scale_log2: base.scale_log2,
            trace_capacity: base.trace_capacity,
            trace_begin: self.plan.merge_places(shape) + all_merged,
            ..PrefillParams::default()
        };
        if let Some(tokens) = box_tokens {
            params.box_shift = tokens.trailing_zeros();
            params.k_map = tensor_map(&cache.k, shape, cache, tokens, 1)?;
            params.v_map = tensor_map(&cache.v, shape, cache, tokens, 1)?;
        }
        Ok(params)
    }

    /// Prefill tasks and packs by the CTAs of one launch.
    fn hybrid(&mut self, hybrid: &HybridWork) -> Result<Ready, KernelError> {
        let (gpu, shape, plan) = (self.gpu, self.shape, self.plan);
        let tile = hybrid.packs.first().and_then(|pack| plan.tiles.get(plan.packs[*pack as usize].tile as usize));
        let spec = HybridSpec {
            roles: Roles::from(hybrid.roles),
            tile: tile.copied().unwrap_or(Tile::LEAN),
            head_dim: shape.head_dim,
            dtype: shape.dtype,
            trace: self.traces(),
            copies: shape.copies(DecodeShape::BULK_BLOCK),
            groups: shape.groups(),
        };
        let function = gpu.load(&self.compiler.hybrid(&spec)?)?;
        let bulk = spec.bulk_copies();
        let tasks = prefill_items(plan, &hybrid.tasks);
        let packs = items(plan, (&hybrid.packs, self.marks.of_packs()), shape.kv_heads, |_| 0, |_, _| hybrid.heads);
        let prefill = self.prefill_params(&tasks, 0, bulk.then(|| spec.box_tokens(shape.block_size)))?;
        let decode = self.decode_params(&[spec.tile], bulk, &packs)?;
        let (prefill_items, decode_items) = (tasks.len() as u32 * shape.q_heads, packs.len() as u32);
        let sm_counters = gpu.info().sms;
        let (period, prefill_tickets) = match hybrid.roles {
            CtaRoles::Tickets { period, prefill } => (period, prefill),
            CtaRoles::Index | CtaRoles::Paired => (0, 0),
        };
        let grid = match hybrid.roles {
            CtaRoles::Paired => prefill_items.max(decode_items),
            CtaRoles::Index | CtaRoles::Tickets { .. } => prefill_items + decode_items,
        };
        let counters = vec![0_u32; (HybridParams::SMS + sm_counters) as usize];
        let params = HybridParams {
            prefill,
            decode,
            counters: self.shared.keep(gpu.upload(&counters)?),
            prefill_items,
            decode_items,
            period,
            prefill_tickets,
            sm_counters,
            ..HybridParams::default()
        };
        let info = KernelInfo::of(&function, vec![spec.tile], grid)?;
        Ok(Ready { function, params: Params::Hybrid(Box::new(params)), grid, info, programmatic: false })
    }
}
