//! Times prefill alone on the GPU that is here: cold L2, median of 20, on normally distributed values of all mantissas,
//! since values with few bits flatter the clock. Sampled rows are checked against f64.
//!
//! `prefill_bench [--cases 1024@12288,...] [--heads 16/4] [--dim 128] [--block 16] [--rounds N] [VARIANT...]`, a variant
//! being `key=value` pairs joined by commas: name, sources (a folder), def (definitions joined by +, a colon for the
//! equals sign), sms, splits, trace. The variants take turns, so that a GPU that grows warm slows all alike.

// A tool for whoever tunes the kernels: it stops where something is wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use half::f16;
use kernels::{
    Call, CallOptions, Compiler, DecodeShape, DeviceBuffer, Dtype, Gpu, KvCache, KvLayout, Launch, MergeRows,
    PlanArrays, PrefillSpec, PrefillTask, Protocol, RowSlots, Stream, TaskRows, Work,
};

struct Variant(Vec<(String, String)>);

impl Variant {
    fn parse(arg: &str) -> Self {
        let pair = |p: &str| p.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned()));
        Self(arg.split(',').filter_map(pair).collect())
    }
    fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }
    fn number(&self, key: &str) -> Option<u32> {
        self.get(key).map(|v| v.parse().unwrap())
    }
    fn options(&self) -> CallOptions {
        let define = |d: &str| format!("-D{}", d.replace(':', "="));
        CallOptions {
            trace_capacity: self.number("trace").unwrap_or(0),
            defines: self.get("def").map(|d| d.split('+').map(define).collect()).unwrap_or_default(),
            ..CallOptions::default()
        }
    }
}

struct Settings {
    cases: Vec<(u32, u32)>,
    shape: DecodeShape,
    rounds: u32,
    variants: Vec<Variant>,
}

fn settings() -> Settings {
    let mut s = Settings {
        cases: vec![(1024, 12288), (12288, 12288), (16384, 16384)],
        shape: DecodeShape { q_heads: 16, kv_heads: 4, head_dim: 128, dtype: Dtype::F16, block_size: 16, scale: 0.0 },
        rounds: 1,
        variants: Vec::new(),
    };
    let mut args = std::env::args().skip(1);
    let two = |text: String, at: char| {
        let (a, b) = text.split_once(at).unwrap();
        (a.parse::<u32>().unwrap(), b.parse::<u32>().unwrap())
    };
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap();
        match arg.as_str() {
            "--cases" => s.cases = value().split(',').map(|c| two(c.to_owned(), '@')).collect(),
            "--heads" => (s.shape.q_heads, s.shape.kv_heads) = two(value(), '/'),
            "--dim" => s.shape.head_dim = value().parse().unwrap(),
            "--block" => s.shape.block_size = value().parse().unwrap(),
            "--rounds" => s.rounds = value().parse().unwrap(),
            _ => s.variants.push(Variant::parse(&arg)),
        }
    }
    if s.variants.is_empty() {
        s.variants.push(Variant(Vec::new()));
    }
    s.shape.scale = (s.shape.head_dim as f32).sqrt().recip();
    s
}

/// Values near the normal distribution: twelve uniform ones added. The host can compute any of them.
fn values(seed: u64, count: usize) -> Vec<u16> {
    let one = |i: u64| {
        let mut sum = 0;
        for part in 0..3 {
            let mut x =
                (i * 3 + part + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed.wrapping_mul(0xd6e8_feb8_6659_fd93);
            x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            x ^= x >> 31;
            sum += (x & 0xffff) + (x >> 16 & 0xffff) + (x >> 32 & 0xffff) + (x >> 48);
        }
        f16::from_f32((sum as f32 - 6.0 * 65535.0) / 65536.0).to_bits()
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut all = vec![0_u16; count];
    let share = count.div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        for (nth, part) in all.chunks_mut(share).enumerate() {
            scope.spawn(move || part.iter_mut().enumerate().for_each(|(i, x)| *x = one((nth * share + i) as u64)));
        }
    });
    all
}

struct Input {
    rows: u32,
    kv: u32,
    shape: DecodeShape,
    host: [Vec<u16>; 3],
    queries: DeviceBuffer,
    cache: KvCache,
    block_ids: Vec<u32>,
}

impl Input {
    fn new(gpu: &Gpu, shape: DecodeShape, (rows, kv): (u32, u32)) -> Self {
        let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_micros() as u64;
        let blocks = kv.div_ceil(shape.block_size);
        let size = KvCache::bytes(&shape, blocks) / 2;
        let host = [
            values(seed, (rows * shape.q_heads * shape.head_dim) as usize),
            values(seed + 1, size),
            values(seed + 2, size),
        ];
        let [queries, k, v] = [0, 1, 2].map(|i: usize| gpu.upload(&host[i]).unwrap());
        let cache = KvCache { k, v, layout: KvLayout::Nhd, blocks };
        // Blocks in an order of their own, as a cache in use has them.
        let step = if blocks.is_multiple_of(7) { 1 } else { 7 };
        let block_ids = (0..blocks).map(|b| (b * step + 3) % blocks).collect();
        Self { rows, kv, shape, host, queries, cache, block_ids }
    }

    fn prefill(&self, gpu: &Gpu, variant: &Variant) -> Call {
        let mut compiler = Compiler::new(gpu.arch(), Some(std::env::temp_dir().join("packscope-kernels"))).unwrap();
        if let Some(folder) = variant.get("sources") {
            compiler = compiler.with_sources(folder.into());
        }
        let splits = variant.number("splits").unwrap_or(1);
        let piece = self.kv.div_ceil(128).div_ceil(splits) * 128;
        let mut tasks = Vec::new();
        for split in 0..splits {
            for row in (0..self.rows).step_by(PrefillSpec::ROWS as usize) {
                let num_rows = (self.rows - row).min(PrefillSpec::ROWS);
                let position = self.kv - self.rows + row;
                let bound = position + num_rows;
                tasks.push(PrefillTask {
                    rows: TaskRows::From(row),
                    num_rows,
                    folded: false,
                    block_begin: 0,
                    kv_begin: (split * piece).min(bound),
                    kv_end: ((split + 1) * piece).min(bound),
                    position,
                    slots: (splits > 1).then_some(RowSlots { begin: row * splits + split, step: splits }),
                });
            }
        }
        let all = (0..tasks.len() as u32).collect();
        let mut launches = vec![Launch {
            sms: variant.number("sms"),
            beside: variant.number("slim") == Some(1),
            ..Launch::new(Work::Prefill(all))
        }];
        if splits > 1 {
            let mut merge = MergeRows::default();
            for row in 0..self.rows {
                let slots: Vec<u32> = (row * splits..(row + 1) * splits).collect();
                merge.push(&slots, row);
            }
            launches.push(Launch::new(Work::Merge(merge)));
        }
        let plan = PlanArrays {
            tasks: &tasks,
            block_ids: &self.block_ids,
            merge_offsets: &[0],
            prefill_rows: self.rows,
            prefill_slots: if splits > 1 { self.rows * splits } else { 0 },
            launches: &launches,
            ..PlanArrays::default()
        };
        Call::new(gpu, &compiler, &self.shape, &self.cache, &self.queries, &plan, &variant.options()).unwrap()
    }

    fn place(&self, token: u32, head: u32) -> usize {
        let (size, heads) = (self.shape.block_size, self.shape.kv_heads);
        let block = self.block_ids[(token / size) as usize];
        (((block * size + token % size) * heads + head) * self.shape.head_dim) as usize
    }

    fn reference(&self, row: u32, head: u32) -> Vec<f64> {
        let d = self.shape.head_dim as usize;
        let f = |bits: u16| f16::from_bits(bits).to_f64();
        let q = &self.host[0][((row * self.shape.q_heads + head) as usize) * d..][..d];
        let kv_head = head / self.shape.group();
        let tokens = 0..self.kv - self.rows + row + 1;
        let score = |token| {
            let k = &self.host[1][self.place(token, kv_head)..][..d];
            q.iter().zip(k).map(|(&q, &k)| f(q) * f(k)).sum::<f64>() * f64::from(self.shape.scale)
        };
        let scores: Vec<f64> = tokens.clone().map(score).collect();
        let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scores.iter().map(|s| (s - top).exp()).sum();
        let mut out = vec![0.0; d];
        for (token, s) in tokens.zip(scores) {
            let v = &self.host[2][self.place(token, kv_head)..][..d];
            out.iter_mut().zip(v).for_each(|(o, &v)| *o += (s - top).exp() / sum * f(v));
        }
        out
    }

    /// Relative error of some rows; NaN where a value was not written.
    fn error(&self, prefill: &Call) -> f64 {
        let out = prefill.output().unwrap();
        if out.iter().any(|&x| f16::from_bits(x).is_nan()) {
            return f64::NAN;
        }
        let (d, mut off, mut norm) = (self.shape.head_dim as usize, 0.0, 0.0);
        for nth in 0..12 {
            let (row, head) = ((self.rows - 1) * nth / 11, nth * 5 % self.shape.q_heads);
            let got = &out[((row * self.shape.q_heads + head) as usize) * d..][..d];
            for (&got, want) in got.iter().zip(self.reference(row, head)) {
                off += (f16::from_bits(got).to_f64() - want).powi(2);
                norm += want * want;
            }
        }
        (off / norm).sqrt()
    }

    /// FLOP of both products over what the rows see.
    fn flop(&self) -> f64 {
        let (rows, kv) = (f64::from(self.rows), f64::from(self.kv));
        let pairs = rows * (kv - rows) + rows * (rows + 1.0) / 2.0;
        pairs * f64::from(self.shape.q_heads) * 4.0 * f64::from(self.shape.head_dim)
    }
}

/// GHz of the SMs in a traced run, and how its CTAs spent their time.
fn traced(input: &Input, gpu: &Gpu, stream: &Stream, variant: &Variant, flush: &DeviceBuffer) {
    let mut pairs = variant.0.clone();
    pairs.push(("trace".to_owned(), "1000000".to_owned()));
    let prefill = input.prefill(gpu, &Variant(pairs));
    for run in 0..4 {
        flush.fill(run, stream).unwrap();
        prefill.clear_trace(stream).unwrap();
        prefill.launch(stream).unwrap();
    }
    stream.synchronize().unwrap();
    let (mut records, _) = prefill.trace().unwrap();
    records.retain(|r| r.task < u32::MAX - 1000);
    let clocks: u64 = records.iter().map(|r| r.end_clock - r.begin_clock).sum();
    let nanos: u64 = records.iter().map(|r| r.end_ns - r.begin_ns).sum();
    let mean = |f: &dyn Fn(&kernels::TraceRecord) -> u64| {
        records.iter().map(|r| f(r) as f64).sum::<f64>() / records.len() as f64 * nanos as f64 / clocks as f64 / 1e3
    };
    let (first, last) = (records.iter().map(|r| r.begin_ns).min(), records.iter().map(|r| r.end_ns).max());
    let mut ends: Vec<u64> = vec![0; 1024];
    for r in &records {
        let end = &mut ends[r.cta as usize % 1024];
        *end = r.end_ns.max(*end);
    }
    let soonest = ends.iter().filter(|e| **e > 0).min().unwrap();
    println!(
        "    {:.3} GHz, {} records in {:.1} us, first CTA idle {:.1} us before the end; mean us: first tile {:.2}, tiles {:.2}, finish {:.2}",
        clocks as f64 / nanos as f64,
        records.len(),
        (last.unwrap() - first.unwrap()) as f64 / 1e3,
        (last.unwrap() - soonest) as f64 / 1e3,
        mean(&|r| r.first_tile_clock - r.begin_clock),
        mean(&|r| r.main_done_clock - r.first_tile_clock),
        mean(&|r| r.end_clock - r.main_done_clock),
    );
}

fn main() {
    let s = settings();
    let gpu = match Gpu::open(0) {
        Ok(gpu) => gpu,
        Err(e) => return println!("skipped: {e}"),
    };
    println!("{:?}", gpu.info());
    let stream = gpu.stream().unwrap();
    let cold = Protocol::cold(&gpu).unwrap();
    for case in &s.cases {
        let input = Input::new(&gpu, s.shape, *case);
        let prefills: Vec<Call> = s.variants.iter().map(|v| input.prefill(&gpu, v)).collect();
        for prefill in &prefills {
            prefill.poison(&stream).unwrap();
            prefill.launch(&stream).unwrap();
            stream.synchronize().unwrap();
        }
        for round in 0..s.rounds {
            for (variant, prefill) in s.variants.iter().zip(&prefills) {
                let timing = cold.time(&gpu, &stream, |s| prefill.launch(s)).unwrap();
                let us = timing.median();
                let kernel = prefill.kernels().next().unwrap();
                let name = variant.get("name").unwrap_or("as it is");
                let rate = input.flop() / us * 1e-6;
                let error = if round == 0 { format!("error {:.1e}, ", input.error(prefill)) } else { String::new() };
                println!(
                    "{}@{} {name:24} {us:8.1} us {rate:6.1} TFLOP/s ({error}{} registers, {} CTAs)",
                    case.0, case.1, kernel.resources.registers, kernel.grid
                );
            }
        }
        for variant in &s.variants {
            traced(&input, &gpu, &stream, variant, cold.flush.as_ref().unwrap());
        }
    }
}
