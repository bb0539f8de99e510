//! The prefill kernels against f64 on the GPU that is here: every chunk length, context, block size and group of the
//! lists below in one case or another, fresh values each time, poisoned outputs, NaN wherever no token lies.
//! `PACKSCOPE_GPU_PREFILLS` sets how many cases run (120 when unset), `PACKSCOPE_GPU_SEED` repeats a run, and
//! `PACKSCOPE_GPU_SOURCES` reads the kernels from a folder. A machine without a GPU says why nothing ran.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use half::{bf16, f16};
use kernels::{
    Call, CallOptions, Compiler, DecodeShape, DeviceBuffer, Dtype, Gpu, KernelError, KvCache, KvLayout, Launch,
    MergeRows, PlanArrays, PrefillSpec, PrefillTask, RowSlots, Stream, TaskRows, TraceRecord, Work,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const CHUNKS: [u32; 9] = [1, 17, 64, 65, 127, 128, 129, 300, 1024];
const CONTEXTS: [u32; 7] = [0, 1, 95, 128, 1000, 4000, 11264];
const BLOCKS: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
const GROUPS: [u32; 9] = [1, 2, 3, 4, 5, 7, 8, 16, 24];
const SPLIT_UNIT: u32 = 128;

/// Definitions under which a Hopper GPU runs the code written for `sm_80`.
const AS_SM_80: &str = "-DPS_WGMMA=0";

struct Bench {
    gpu: Gpu,
    compiler: Compiler,
    stream: Stream,
}

/// One request: some rows at the end of its KV.
struct Chunk {
    rows: u32,
    kv: u32,
    splits: u32,
    blocks: Vec<u32>,
}

struct Case {
    shape: DecodeShape,
    layout: KvLayout,
    chunks: Vec<Chunk>,
    /// Rows see all of the KV, whatever their place.
    whole: bool,
    /// Rows of Q of the chunks, one after the other; shuffled where they are listed.
    rows: Vec<u32>,
    listed: bool,
    /// Tasks have the query heads of a KV head as rows.
    folded: bool,
    k: Vec<u16>,
    v: Vec<u16>,
    q: Vec<u16>,
    num_blocks: u32,
}

fn to_bits(dtype: Dtype, x: f32) -> u16 {
    match dtype {
        Dtype::F16 => f16::from_f32(x).to_bits(),
        Dtype::Bf16 => bf16::from_f32(x).to_bits(),
    }
}

fn from_bits(dtype: Dtype, bits: u16) -> f64 {
    match dtype {
        Dtype::F16 => f16::from_bits(bits).to_f64(),
        Dtype::Bf16 => bf16::from_bits(bits).to_f64(),
    }
}

fn pick<T: Copy>(rng: &mut StdRng, from: &[T]) -> T {
    from[rng.random_range(0..from.len())]
}

impl Case {
    fn random(rng: &mut StdRng) -> Self {
        let (group, head_dim) = (pick(rng, &GROUPS), pick(rng, &[64, 128, 256]));
        let kv_heads = if group > 8 { 1 } else { rng.random_range(1..=3) };
        let shape = DecodeShape {
            q_heads: kv_heads * group,
            kv_heads,
            head_dim,
            dtype: pick(rng, &[Dtype::F16, Dtype::Bf16]),
            block_size: pick(rng, &BLOCKS),
            scale: (head_dim as f32).sqrt().recip(),
        };
        let mut chunks = Vec::new();
        for _ in 0..pick(rng, &[1, 1, 2, 4]) {
            let rows = pick(rng, &CHUNKS);
            let (kv, splits) = (rows + pick(rng, &CONTEXTS), pick(rng, &[1, 1, 2, 3, 7]));
            chunks.push(Chunk { rows, kv, splits, blocks: Vec::new() });
        }
        let mut case = Self {
            shape,
            layout: pick(rng, &[KvLayout::Hnd, KvLayout::Nhd]),
            chunks,
            whole: rng.random_range(0..4) == 0,
            rows: Vec::new(),
            listed: rng.random_range(0..3) == 0,
            folded: rng.random(),
            k: Vec::new(),
            v: Vec::new(),
            q: Vec::new(),
            num_blocks: 0,
        };
        case.place_blocks(rng);
        case.fill(rng);
        case
    }

    /// Blocks in a random order, with some that nobody uses.
    fn place_blocks(&mut self, rng: &mut StdRng) {
        let used: u32 = self.chunks.iter().map(|c| c.kv.div_ceil(self.shape.block_size)).sum();
        self.num_blocks = used + 3;
        let mut free: Vec<u32> = (0..self.num_blocks).collect();
        for chunk in &mut self.chunks {
            let count = chunk.kv.div_ceil(self.shape.block_size);
            chunk.blocks = (0..count).map(|_| free.swap_remove(rng.random_range(0..free.len()))).collect();
        }
        let rows: u32 = self.chunks.iter().map(|c| c.rows).sum();
        let mut left: Vec<u32> = (0..rows).collect();
        if self.listed {
            left = (0..rows).map(|_| left.swap_remove(rng.random_range(0..left.len()))).collect();
        }
        self.rows = left;
    }

    /// Values of all mantissas; NaN where no token lies.
    fn fill(&mut self, rng: &mut StdRng) {
        let size = KvCache::bytes(&self.shape, self.num_blocks) / 2;
        let (mut k, mut v) = (vec![0x7fff_u16; size], vec![0x7fff_u16; size]);
        let (d, dtype) = (self.shape.head_dim as usize, self.shape.dtype);
        for chunk in &self.chunks {
            for token in 0..chunk.kv {
                for head in 0..self.shape.kv_heads {
                    let at = self.place(chunk, head, token);
                    for i in at..at + d {
                        k[i] = to_bits(dtype, rng.random_range(-2.0..2.0));
                        v[i] = to_bits(dtype, rng.random_range(-2.0..2.0));
                    }
                }
            }
        }
        (self.k, self.v) = (k, v);
        let values = self.rows.len() * self.shape.q_heads as usize * d;
        self.q = (0..values).map(|_| to_bits(dtype, rng.random_range(-2.0..2.0))).collect();
    }

    /// Index of the first value of a (KV head, token) of a chunk.
    fn place(&self, chunk: &Chunk, head: u32, token: u32) -> usize {
        let (size, heads) = (self.shape.block_size, self.shape.kv_heads);
        let (block, token) = (chunk.blocks[(token / size) as usize], token % size);
        let row = match self.layout {
            KvLayout::Hnd => (block * heads + head) * size + token,
            KvLayout::Nhd => (block * size + token) * heads + head,
        };
        (row * self.shape.head_dim) as usize
    }

    /// Query heads whose rows a task has.
    fn heads_of_task(&self) -> u32 {
        if self.folded { self.shape.group() } else { 1 }
    }

    fn tasks(&self) -> (Vec<PrefillTask>, Vec<u32>, MergeRows, u32) {
        let (mut tasks, mut blocks, mut merges, mut slots) = (Vec::new(), Vec::new(), MergeRows::default(), 0);
        let mut first = 0;
        for chunk in &self.chunks {
            let piece = chunk.kv.div_ceil(SPLIT_UNIT).div_ceil(chunk.splits) * SPLIT_UNIT;
            let heads = self.heads_of_task();
            for split in 0..chunk.splits {
                for row in (0..chunk.rows).step_by((PrefillSpec::ROWS / heads) as usize) {
                    let queries = (chunk.rows - row).min(PrefillSpec::ROWS / heads);
                    let position = if self.whole { chunk.kv } else { chunk.kv - chunk.rows + row };
                    let bound = (position + queries).min(chunk.kv);
                    let own = RowSlots { begin: slots + row * chunk.splits + split, step: chunk.splits };
                    tasks.push(PrefillTask {
                        rows: if self.listed { TaskRows::Listed(first + row) } else { TaskRows::From(first + row) },
                        num_rows: queries * heads,
                        folded: self.folded,
                        block_begin: blocks.len() as u32,
                        kv_begin: (split * piece).min(bound),
                        kv_end: ((split + 1) * piece).min(bound),
                        position,
                        slots: (chunk.splits > 1).then_some(own),
                    });
                }
            }
            if chunk.splits > 1 {
                for row in 0..chunk.rows {
                    let begin = slots + row * chunk.splits;
                    let own: Vec<u32> = (begin..begin + chunk.splits).collect();
                    merges.push(&own, self.rows[(first + row) as usize]);
                }
                slots += chunk.rows * chunk.splits;
            }
            first += chunk.rows;
            blocks.extend(&chunk.blocks);
        }
        (tasks, blocks, merges, slots)
    }

    /// What row `row` of a chunk should give for a query head, in f64, and its LSE.
    fn reference(&self, chunk: &Chunk, place: u32, row: u32, head: u32) -> (Vec<f64>, f64) {
        let (d, dtype) = (self.shape.head_dim as usize, self.shape.dtype);
        let seen = if self.whole { chunk.kv } else { chunk.kv - chunk.rows + row + 1 };
        let at = ((place * self.shape.q_heads + head) as usize) * d;
        let q: Vec<f64> = self.q[at..at + d].iter().map(|&x| from_bits(dtype, x)).collect();
        let kv_head = head / self.shape.group();
        let score = |token: u32| {
            let k = &self.k[self.place(chunk, kv_head, token)..][..d];
            let dot: f64 = q.iter().zip(k).map(|(q, &k)| q * from_bits(dtype, k)).sum();
            dot * f64::from(self.shape.scale)
        };
        let scores: Vec<f64> = (0..seen).map(score).collect();
        let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scores.iter().map(|s| (s - top).exp()).sum();
        let mut out = vec![0.0; d];
        for (token, s) in (0..seen).zip(&scores) {
            let weight = (s - top).exp() / sum;
            let v = &self.v[self.place(chunk, kv_head, token)..][..d];
            out.iter_mut().zip(v).for_each(|(o, &v)| *o += weight * from_bits(dtype, v));
        }
        (out, top + sum.ln())
    }

    /// What is wrong with the outputs, or the relative error.
    fn judge(&self, out: &[u16], lse: &[f32], rng: &mut StdRng) -> Result<f64, String> {
        if let Some(at) = out.iter().position(|&x| from_bits(self.shape.dtype, x).is_nan()) {
            let row = at as u32 / self.shape.head_dim / self.shape.q_heads;
            return Err(format!("NaN in row {row}, which no kernel wrote or which read where no token lies"));
        }
        let (mut error, mut norm, mut first) = (0.0, 0.0, 0);
        for chunk in &self.chunks {
            for row in sampled(chunk, rng) {
                let place = self.rows[(first + row) as usize];
                let head = rng.random_range(0..self.shape.q_heads);
                let (want, want_lse) = self.reference(chunk, place, row, head);
                let at = (place * self.shape.q_heads + head) as usize;
                let got = &out[at * want.len()..][..want.len()];
                let off: f64 = got.iter().zip(&want).map(|(&g, w)| (from_bits(self.shape.dtype, g) - w).powi(2)).sum();
                let size: f64 = want.iter().map(|w| w * w).sum();
                if off > 0.04 * size {
                    return Err(format!(
                        "row {row} of {} at {}, head {head}: {off:.2e} of {size:.2e}",
                        chunk.rows, chunk.kv
                    ));
                }
                (error, norm) = (error + off, norm + size);
                if (f64::from(lse[at]) - want_lse).abs() > 1e-3 * want_lse.abs().max(1.0) {
                    return Err(format!("LSE of row {row}, head {head}: {} instead of {want_lse}", lse[at]));
                }
            }
            first += chunk.rows;
        }
        let relative = (error / norm).sqrt();
        let limit = if self.shape.dtype == Dtype::F16 { 1e-3 } else { 8e-3 };
        if relative < limit { Ok(relative) } else { Err(format!("relative error {relative:.2e} over {limit:.0e}")) }
    }

    fn describe(&self) -> String {
        let chunks: Vec<String> = self.chunks.iter().map(|c| format!("{}@{}/{}", c.rows, c.kv, c.splits)).collect();
        let (whole, listed, folded) = (self.whole, self.listed, self.folded);
        let chunks = chunks.join(" ");
        format!("{chunks} {:?} {:?} whole {whole} listed {listed} folded {folded}", self.shape, self.layout)
    }
}

/// Rows of a chunk that are compared: the first and last of tasks and of halves of tasks, and some others.
fn sampled(chunk: &Chunk, rng: &mut StdRng) -> Vec<u32> {
    let edges = [0, 1, 15, 16, 63, 64, 127, 128, 191, 192, 255, 256].into_iter();
    let mut rows: Vec<u32> = edges.chain([chunk.rows - 1]).filter(|row| *row < chunk.rows).collect();
    rows.extend((0..4).map(|_| rng.random_range(0..chunk.rows)));
    rows
}

struct Way {
    options: CallOptions,
    sms: Option<u32>,
    slim: bool,
}

impl Way {
    fn new(options: CallOptions) -> Self {
        Self { options, sms: None, slim: false }
    }
}

fn prepare(bench: &Bench, case: &Case, way: &Way) -> (Call, [DeviceBuffer; 3]) {
    let upload = |values: &[u16]| bench.gpu.upload(values).unwrap();
    let queries = upload(&case.q);
    let cache = KvCache { k: upload(&case.k), v: upload(&case.v), layout: case.layout, blocks: case.num_blocks };
    let (tasks, blocks, merges, prefill_slots) = case.tasks();
    let all = (0..tasks.len() as u32).collect();
    let mut launches = vec![Launch { sms: way.sms, beside: way.slim, ..Launch::new(Work::Prefill(all)) }];
    if !merges.targets.is_empty() {
        launches.push(Launch::new(Work::Merge(merges)));
    }
    let plan = PlanArrays {
        tasks: &tasks,
        block_ids: &blocks,
        query_index: &case.rows,
        merge_offsets: &[0],
        prefill_rows: case.rows.len() as u32,
        prefill_slots,
        launches: &launches,
        ..PlanArrays::default()
    };
    let call = Call::new(&bench.gpu, &bench.compiler, &case.shape, &cache, &queries, &plan, &way.options).unwrap();
    (call, [queries, cache.k, cache.v])
}

fn run(bench: &Bench, case: &Case, way: &Way, rng: &mut StdRng) -> Result<f64, String> {
    let (prefill, _held) = prepare(bench, case, way);
    let mut worst = 0.0_f64;
    // Twice: the counters of the first launch must be back at zero for the second.
    for _ in 0..2 {
        prefill.poison(&bench.stream).unwrap();
        prefill.launch(&bench.stream).unwrap();
        bench.stream.synchronize().unwrap();
        worst = worst.max(case.judge(&prefill.output().unwrap(), &prefill.output_lse().unwrap(), rng)?);
    }
    Ok(worst)
}

/// The GPU that is here; where there is none, says why nothing runs.
fn open() -> Option<Bench> {
    let skip = |e: KernelError| {
        assert!(e.is_absence(), "{e}");
        println!("skipped: {e}");
    };
    let gpu = Gpu::open(0).map_err(skip).ok()?;
    let cache = std::env::var_os("PACKSCOPE_GPU_CACHE")
        .map_or_else(|| Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels"), Into::into);
    let mut compiler = Compiler::new(gpu.arch(), Some(cache)).map_err(skip).ok()?;
    if let Some(folder) = std::env::var_os("PACKSCOPE_GPU_SOURCES") {
        compiler = compiler.with_sources(folder.into());
    }
    let stream = gpu.stream().unwrap();
    Some(Bench { gpu, compiler, stream })
}

fn from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|n| n.parse().ok())
}

fn seed() -> u64 {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    from_env("PACKSCOPE_GPU_SEED").unwrap_or_else(now)
}

#[test]
fn random_chunks_agree_with_f64() {
    let Some(bench) = open() else { return };
    let (first, cases) = (seed(), from_env("PACKSCOPE_GPU_PREFILLS").unwrap_or(120));
    let mut worst = [0.0_f64; 2];
    let mut failed = Vec::new();
    for seed in first..first + cases {
        let mut rng = StdRng::seed_from_u64(seed);
        let case = Case::random(&mut rng);
        let traced = CallOptions { trace_capacity: 1 << 20, ..CallOptions::default() };
        let few = Way { sms: Some(5), ..Way::new(CallOptions::default()) };
        let plain = CallOptions { defines: vec![AS_SM_80.to_owned()], ..CallOptions::default() };
        let mut ways = vec![
            ("as it is", Way::new(CallOptions::default())),
            if rng.random() { ("traced", Way::new(traced)) } else { ("on five SMs", few) },
        ];
        if bench.gpu.arch().warpgroups() {
            if case.shape.head_dim <= 128 {
                let trace_capacity = if seed % 4 == 0 { 1 << 20 } else { 0 };
                let options = CallOptions { trace_capacity, ..CallOptions::default() };
                ways.push(("slim", Way { slim: true, ..Way::new(options) }));
            }
            if seed % 3 == 0 {
                ways.push(("as on sm_80", Way::new(plain)));
            }
        }
        for (name, way) in ways {
            match run(&bench, &case, &way, &mut rng) {
                Ok(error) => {
                    let worst = &mut worst[usize::from(case.shape.dtype == Dtype::Bf16)];
                    *worst = worst.max(error);
                }
                Err(e) => failed.push(format!("seed {seed}, {name}, {}: {e}", case.describe())),
            }
        }
    }
    println!("{cases} cases from seed {first}: worst relative error {:.1e} f16, {:.1e} bf16", worst[0], worst[1]);
    assert!(failed.is_empty(), "{} wrong:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn each_task_and_head_is_traced_in_its_place() {
    let Some(bench) = open() else { return };
    for seed in seed()..seed() + 5 {
        let case = Case::random(&mut StdRng::seed_from_u64(seed));
        let (tasks, _, merges, _) = case.tasks();
        let places = tasks.len() as u32 * case.shape.q_heads;
        let merged = merges.targets.len() as u32;
        let options = CallOptions { trace_capacity: places + merged, ..CallOptions::default() };
        let (prefill, _held) = prepare(&bench, &case, &Way::new(options));
        prefill.clear_trace(&bench.stream).unwrap();
        prefill.launch(&bench.stream).unwrap();
        bench.stream.synchronize().unwrap();
        let (records, lost) = prefill.trace().unwrap();
        let traced: Vec<u32> = (0..places).step_by(case.heads_of_task() as usize).collect();
        assert_eq!((records.len(), lost), (traced.len() + merged as usize, 0), "seed {seed}");
        let (of_rows, of_tasks) = records.split_at(merged as usize);
        for (place, r) in traced.into_iter().zip(of_tasks) {
            let (task, head) = (place / case.shape.q_heads, place % case.shape.q_heads);
            assert_eq!((r.task, r.kv_head), (TraceRecord::PREFILL + task, head), "seed {seed}");
            let clocks = [r.begin_clock, r.first_tile_clock, r.main_done_clock, r.end_clock];
            assert!(clocks.is_sorted() && r.begin_ns < r.end_ns, "seed {seed}: {r:?}");
        }
        assert!(of_rows.iter().all(|r| r.task == TraceRecord::MERGE), "seed {seed}");
    }
}
