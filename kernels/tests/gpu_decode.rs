//! The decode kernels against f64 on random ragged forests, on the GPU that is here. `PACKSCOPE_GPU_FORESTS` sets how
//! many (200 when unset). `PACKSCOPE_GPU_DEFINES` names preprocessor definitions, separated by spaces, under which only
//! the fused kernel runs: it proves an experiment right before it is timed. `PACKSCOPE_GPU_SEED` repeats a run. A machine
//! without a GPU says why nothing ran.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod forest;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use forest::Forest;
use forest::launches::{Way, launches};
use half::{bf16, f16};
use kernels::{
    Call, CallOptions, Compiler, DecodeShape, DeviceBuffer, Dtype, Gpu, KernelError, KvCache, KvLayout, PlanArrays,
    Protocol, Stream, Tile,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Tile sets of the forests; three kernels of one tile come with each set of three.
const TILE_SETS: [&[Tile]; 16] = [
    &[Tile::TALL],
    &[Tile::DOUBLE],
    &[Tile::DOUBLE, Tile::LEAN],
    &[Tile::DOUBLE, Tile { m: 64, n: 64 }, Tile::LEAN],
    &[Tile::DOUBLE, Tile { m: 64, n: 64 }],
    &[Tile { m: 64, n: 64 }, Tile { m: 32, n: 64 }, Tile { m: 16, n: 16 }],
    &[Tile { m: 64, n: 64 }, Tile { m: 16, n: 16 }],
    &[Tile { m: 16, n: 32 }],
    &[Tile { m: 16, n: 64 }],
    &[Tile::LEAN],
    &[Tile { m: 64, n: 64 }, Tile::LEAN],
    &[Tile { m: 64, n: 64 }],
    &[Tile { m: 64, n: 64 }, Tile { m: 16, n: 64 }],
    &[Tile { m: 64, n: 16 }, Tile { m: 32, n: 32 }],
    &[Tile { m: 64, n: 64 }, Tile { m: 32, n: 64 }],
    &[Tile { m: 64, n: 32 }, Tile { m: 32, n: 32 }, Tile { m: 16, n: 64 }],
];

/// Definitions under which a Hopper GPU runs the code written for `sm_80`.
const AS_SM_80: [&str; 2] = ["-DPS_TMA=0", "-DPS_WGMMA=0"];

/// Tasks join the partials that they find as they are claimed, as they do where there are many.
const FOLDING: [&str; 1] = ["-DPS_FOLDS=2"];

/// The same as they end, as they do where there are few.
const FOLDING_AT_END: [&str; 1] = ["-DPS_FOLDS=1"];

struct Bench {
    gpu: Gpu,
    compiler: Compiler,
    stream: Stream,
}

/// One forest on the device, and what it should give.
struct Case {
    forest: Forest,
    shape: DecodeShape,
    cache: KvCache,
    queries: DeviceBuffer,
    expected: Vec<f64>,
    expected_lse: Vec<f64>,
}

fn to_bits(dtype: Dtype, x: f64) -> u16 {
    match dtype {
        Dtype::F16 => f16::from_f64(x).to_bits(),
        Dtype::Bf16 => bf16::from_f64(x).to_bits(),
    }
}

fn from_bits(dtype: Dtype, bits: u16) -> f64 {
    match dtype {
        Dtype::F16 => f16::from_bits(bits).to_f64(),
        Dtype::Bf16 => bf16::from_bits(bits).to_f64(),
    }
}

/// Whether some tile has 128 rows, which is for Hopper's own instructions.
fn has_128_rows(tiles: &[Tile]) -> bool {
    tiles.iter().any(|tile| tile.m == 128)
}

/// A shape of which the rows of a query fit every tile.
fn random_shape(rng: &mut StdRng, tiles: &[Tile]) -> DecodeShape {
    let kv_heads = [1, 2, 3, 4, 5][rng.random_range(0..5)];
    let rows = tiles.iter().map(|tile| tile.m).min().unwrap().min(DecodeShape::LARGEST_GROUP);
    let tall = has_128_rows(tiles);
    let largest = if tall { 2 } else { 3 };
    // Those that most models have, and any other.
    let usual: Vec<u32> = [1, 2, 4, 5, 7, 8, 16].into_iter().filter(|group| *group <= rows).collect();
    let group = if rng.random() { usual[rng.random_range(0..usual.len())] } else { rng.random_range(1..=rows) };
    let head_dim = [64, 128, 256][rng.random_range(0..largest)];
    DecodeShape {
        q_heads: kv_heads * group,
        kv_heads,
        head_dim,
        dtype: [Dtype::F16, Dtype::Bf16][rng.random_range(0..2)],
        block_size: 1 << rng.random_range(if tall { 4 } else { 0 }..9),
        scale: f64::from(head_dim).sqrt().recip() as f32,
    }
}

/// Random K and V in the blocks of the forest; every place that no token uses holds NaN.
fn caches(rng: &mut StdRng, forest: &Forest, shape: &DecodeShape, layout: KvLayout) -> (Vec<u16>, Vec<u16>) {
    let size = KvCache::bytes(shape, forest.blocks) / 2;
    let (mut k, mut v) = (vec![0x7fff_u16; size], vec![0x7fff_u16; size]);
    for (block, &filled) in forest.filled.iter().enumerate() {
        for head in 0..shape.kv_heads {
            for token in 0..filled {
                let at = place(shape, layout, block as u32, head, token);
                for d in 0..shape.head_dim as usize {
                    k[at + d] = to_bits(shape.dtype, rng.random_range(-2.0..2.0));
                    v[at + d] = to_bits(shape.dtype, rng.random_range(-2.0..2.0));
                }
            }
        }
    }
    (k, v)
}

/// Index of the first value of a (block, KV head, token).
fn place(shape: &DecodeShape, layout: KvLayout, block: u32, head: u32, token: u32) -> usize {
    let row = match layout {
        KvLayout::Hnd => (block * shape.kv_heads + head) * shape.block_size + token,
        KvLayout::Nhd => (block * shape.block_size + token) * shape.kv_heads + head,
    };
    (row * shape.head_dim) as usize
}

fn make_case(bench: &Bench, rng: &mut StdRng) -> Case {
    let tiles = TILE_SETS[rng.random_range(0..TILE_SETS.len())];
    let shape = random_shape(rng, tiles);
    let apart = tiles == [Tile::TALL] && rng.random();
    let forest = if apart { Forest::apart(rng, &shape) } else { Forest::random(rng, &shape, tiles) };
    let layout = if rng.random() { KvLayout::Hnd } else { KvLayout::Nhd };
    let (k_host, v_host) = caches(rng, &forest, &shape, layout);
    let values = (forest.num_queries() * shape.q_heads * shape.head_dim) as usize;
    let q_host: Vec<u16> = (0..values).map(|_| to_bits(shape.dtype, rng.random_range(-2.0..2.0))).collect();
    let upload = |values: &[u16]| {
        let buffer = bench.gpu.allocate(values.len() * 2).unwrap();
        buffer.write(0, values).unwrap();
        buffer
    };
    let cache = KvCache { k: upload(&k_host), v: upload(&v_host), layout, blocks: forest.blocks };
    let queries = upload(&q_host);
    let d = shape.head_dim as usize;
    let decode = |bits: &[u16]| -> Vec<f64> { bits.iter().map(|&b| from_bits(shape.dtype, b)).collect() };
    let (mut expected, mut expected_lse) = (Vec::with_capacity(values), Vec::new());
    for query in 0..forest.num_queries() {
        for head in 0..shape.q_heads {
            let row = (query * shape.q_heads + head) as usize * d;
            let q = decode(&q_host[row..row + d]);
            let tokens: Vec<usize> = forest
                .tokens_of(query)
                .map(|(block, token)| place(&shape, layout, block, head / shape.group(), token))
                .collect();
            let keys = tokens.iter().map(|&at| decode(&k_host[at..at + d]));
            let scores: Vec<f64> =
                keys.map(|k| q.iter().zip(&k).map(|(a, b)| a * b).sum::<f64>() * f64::from(shape.scale)).collect();
            let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = scores.iter().map(|s| (s - top).exp()).sum();
            let mut out = vec![0.0; d];
            for (&at, s) in tokens.iter().zip(&scores) {
                let weight = (s - top).exp() / sum;
                out.iter_mut().zip(decode(&v_host[at..at + d])).for_each(|(o, v)| *o += weight * v);
            }
            expected.extend(out);
            expected_lse.push(if tokens.is_empty() { f64::NEG_INFINITY } else { top + sum.ln() });
        }
    }
    Case { forest, shape, cache, queries, expected, expected_lse }
}

/// What is wrong with the outputs, or the relative error.
fn judge(case: &Case, decode: &Call) -> Result<f64, String> {
    let (out, lse) = (decode.output().unwrap(), decode.output_lse().unwrap());
    let (mut error, mut norm) = (0.0, 0.0);
    for (&bits, want) in out.iter().zip(&case.expected) {
        let got = from_bits(case.shape.dtype, bits);
        error += (got - want).powi(2);
        norm += want * want;
    }
    let relative = if norm > 0.0 { (error / norm).sqrt() } else { error.sqrt() };
    let limit = if case.shape.dtype == Dtype::F16 { 1e-3 } else { 8e-3 };
    if relative.is_nan() || relative > limit {
        return Err(format!("relative error {relative:.2e} over {limit:.0e}"));
    }
    for (row, (&got, &want)) in lse.iter().zip(&case.expected_lse).enumerate() {
        let got = f64::from(got);
        let close = (got.is_infinite() && want.is_infinite()) || (got - want).abs() <= 1e-3 * want.abs().max(1.0);
        if !close {
            return Err(format!("LSE of row {row}: {got} instead of {want}"));
        }
    }
    Ok(relative)
}

fn call(bench: &Bench, case: &Case, way: Way, options: &CallOptions) -> Call {
    let plan = case.forest.plan();
    let launches = launches(&plan, way);
    let plan = PlanArrays { launches: &launches, ..plan };
    Call::new(&bench.gpu, &bench.compiler, &case.shape, &case.cache, &case.queries, &plan, options).unwrap()
}

fn run(bench: &Bench, case: &Case, way: Way, graph: bool, defines: &[&str]) -> Result<f64, String> {
    let options = CallOptions { defines: defines.iter().map(|d| (*d).to_owned()).collect(), ..CallOptions::default() };
    let decode = call(bench, case, way, &options);
    // Twice: the first launch must leave its counters at zero for the second, and partials that CTAs wait for as not there.
    for _ in 0..2 {
        decode.poison(&bench.stream).unwrap();
        if graph {
            let once = Protocol { warm_ups: 0, repeats: 1, graph: true, ..Protocol::warm() };
            once.time(&bench.gpu, &bench.stream, |s| decode.launch(s)).unwrap();
        } else {
            decode.launch(&bench.stream).unwrap();
        }
        bench.stream.synchronize().unwrap();
        judge(case, &decode)?;
    }
    judge(case, &decode)
}

/// The GPU that is here; where there is none, says why nothing runs.
fn open() -> Option<Bench> {
    let skip = |e: KernelError| {
        assert!(e.is_absence(), "{e}");
        println!("skipped: {e}");
    };
    let gpu = Gpu::open(0).map_err(skip).ok()?;
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels");
    let compiler = Compiler::new(gpu.arch(), Some(cache)).map_err(skip).ok()?;
    let stream = gpu.stream().unwrap();
    Some(Bench { gpu, compiler, stream })
}

/// Traces a case; the records' (task, head or row), and how many were lost.
fn trace(bench: &Bench, case: &Case, way: Way, capacity: u32) -> (Vec<(u32, u32)>, u32) {
    let decode = call(bench, case, way, &CallOptions { trace_capacity: capacity, ..CallOptions::default() });
    // Twice: what the first run leaves must be gone.
    for _ in 0..2 {
        decode.clear_trace(&bench.stream).unwrap();
        decode.launch(&bench.stream).unwrap();
    }
    bench.stream.synchronize().unwrap();
    let (records, lost) = decode.trace().unwrap();
    assert!(records.iter().all(|r| r.begin_ns < r.end_ns && r.begin_clock < r.end_clock));
    (records.iter().map(|r| (r.task, r.kv_head)).collect(), lost)
}

#[test]
fn records_that_the_trace_has_no_place_for_are_counted() {
    let Some(bench) = open() else { return };
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    for seed in seed..seed + 5 {
        let case = make_case(&bench, &mut StdRng::seed_from_u64(seed));
        for way in [Way::Serial, Way::Fused] {
            let (all, lost) = trace(&bench, &case, way, 1 << 20);
            let different: BTreeSet<_> = all.iter().collect();
            assert_eq!((different.len(), lost), (all.len(), 0), "seed {seed}, {way:?}");
            let packs = case.forest.plan().packs.len() as u32;
            let places = packs * case.shape.kv_heads;
            let of_packs = all.iter().filter(|(task, _)| *task < packs).count();
            assert_eq!(of_packs as u32, places, "seed {seed}, {way:?}");
            let (kept, lost) = trace(&bench, &case, way, places / 3);
            assert_eq!(
                (kept.len() as u32, kept.len() + lost as usize),
                (places / 3, all.len()),
                "seed {seed}, {way:?}"
            );
        }
    }
}

#[test]
fn random_forests_agree_with_f64() {
    let Some(bench) = open() else { return };
    let forests = std::env::var("PACKSCOPE_GPU_FORESTS").ok().and_then(|n| n.parse().ok()).unwrap_or(200_u64);
    // Fresh input each time; a failure names its seed.
    let defines = std::env::var("PACKSCOPE_GPU_DEFINES").unwrap_or_default();
    let defines: Vec<&str> = defines.split_whitespace().collect();
    let seed = std::env::var("PACKSCOPE_GPU_SEED").ok().and_then(|n| n.parse().ok());
    let first = seed.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs());
    let mut worst = [0.0_f64; 2];
    let mut failed = Vec::new();
    for seed in first..first + forests {
        let mut rng = StdRng::seed_from_u64(seed);
        let case = make_case(&bench, &mut rng);
        let plain: &[&str] = &[];
        let mut runs = vec![
            ("serial", Way::Serial, false, plain),
            ("streams", Way::Streams, false, plain),
            ("streams in a graph", Way::Streams, true, plain),
            ("fused", Way::Fused, false, plain),
            ("fused on two SMs", Way::OnTwoSms, false, &FOLDING_AT_END),
            ("fused with folds", Way::OnTwoSms, false, &FOLDING),
        ];
        if !defines.is_empty() {
            runs = vec![("fused", Way::Fused, false, defines.as_slice())];
        } else if bench.gpu.arch().bulk_copies() && seed % 5 == 0 && !has_128_rows(case.forest.plan().tiles) {
            runs.push(("fused as on sm_80", Way::Fused, false, &AS_SM_80));
            runs.push(("serial as on sm_80", Way::Serial, false, &AS_SM_80));
        }
        let beside = |tile: &Tile| tile.m <= 16 && (case.shape.block_size >= 16 || tile.n <= 32);
        let has_room = bench.gpu.arch().warpgroups() && case.shape.head_dim <= 128;
        if has_room && case.forest.plan().tiles.iter().all(beside) {
            runs.push(("as beside prefill", Way::Beside, false, plain));
        }
        for (name, way, graph, defines) in runs {
            match run(&bench, &case, way, graph, defines) {
                Ok(error) => {
                    let worst = &mut worst[usize::from(case.shape.dtype == Dtype::Bf16)];
                    *worst = worst.max(error);
                }
                Err(e) => failed.push(format!("seed {seed}, {name}, {:?}: {e}", case.shape)),
            }
        }
    }
    println!("{forests} forests from seed {first}: worst relative error {:.1e} f16, {:.1e} bf16", worst[0], worst[1]);
    assert!(failed.is_empty(), "{} wrong:\n{}", failed.len(), failed.join("\n"));
}

/// Which task ends a query changes from run to run, and the fast kernel's last bits with it.
#[test]
fn deterministic_kernels_give_the_same_bits_in_every_run() {
    let Some(bench) = open() else { return };
    let first = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let mut varied = 0;
    for seed in first..first + 8 {
        let case = make_case(&bench, &mut StdRng::seed_from_u64(seed));
        let different = |deterministic| {
            let decode = call(&bench, &case, Way::Fused, &CallOptions { deterministic, ..CallOptions::default() });
            let outputs = (0..10).map(|_| {
                decode.launch(&bench.stream).unwrap();
                bench.stream.synchronize().unwrap();
                judge(&case, &decode).unwrap();
                decode.output().unwrap()
            });
            outputs.collect::<BTreeSet<_>>().len()
        };
        assert_eq!(different(true), 1, "seed {seed}, {:?}", case.shape);
        varied += usize::from(different(false) > 1);
    }
    println!("8 forests: the same bits in 10 runs each; the fast kernel's varied on {varied}");
}
