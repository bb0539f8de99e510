//! Times the twenty published decode configurations on the GPU that is here, checks sampled rows against f64, and
//! prints each time beside its floor and a peer's.
//!
//! `decode_bench PEERS.json [--sources DIR] [--heads 32/8] [--configs 1,2,3] [--check] [--compile] VARIANT...`, a
//! variant being `key=value` pairs joined by commas: strategy, n, rows, ctas, rounds, piece, small, order, mix, item,
//! layout, graph, scatter, reread, partial, def (preprocessor definitions joined by +, a colon for the equals sign).
//! `--compile` only compiles what the variants need on Hopper, without a GPU, into the cache that a run reads.

// A tool for whoever tunes the kernels: it stops where something is wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::neg_cmp_op_on_partial_ord)]
#![allow(clippy::format_push_string, clippy::type_complexity)]

#[path = "../../tests/forest/launches.rs"]
mod launches;
mod packer;

use crate::launches::{Way, launches};
use kernels::{
    Arch, Call, CallOptions, Compiler, DecodeShape, Dtype, Gpu, KernelSpec, KvCache, KvLayout, PlanArrays, Protocol,
    Stream, TraceRecord, fill_random, random_value,
};

struct Row {
    config: u64,
    tree: String,
    pat: f64,
    flashinfer: f64,
    floor: f64,
}

fn rows(path: &str, heads: &str) -> Vec<Row> {
    let json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let number = |r: &serde_json::Value, key: &str| r[key].as_f64().unwrap_or(f64::NAN);
    json["rows"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|r| r["heads"] == heads)
        .map(|r| Row {
            config: r["config"].as_u64().unwrap(),
            tree: r["tree"].as_str().unwrap().to_owned(),
            pat: number(r, "pat_us"),
            flashinfer: number(r, "flashinfer_decode_us"),
            floor: number(r, "read_floor_us").max(number(r, "mma_floor_us")),
        })
        .collect()
}

struct Variant {
    name: String,
    pairs: Vec<(String, String)>,
}

impl Variant {
    fn get(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }
    fn number<T: std::str::FromStr>(&self, key: &str, otherwise: T) -> T {
        self.get(key).and_then(|v| v.parse().ok()).unwrap_or(otherwise)
    }
}

struct Setup {
    gpu: Gpu,
    compiler: Compiler,
    stream: Stream,
    cold: Protocol,
    check: bool,
}

fn main() {
    let mut args = std::env::args().skip(1);
    let peers = args.next().expect("the peers' file");
    let (mut heads, mut only, mut check, mut sources) = ("32/8".to_owned(), Vec::new(), false, None);
    let mut compile = false;
    let mut variants = Vec::new();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--heads" => heads = args.next().unwrap(),
            "--configs" => only = args.next().unwrap().split(',').map(|c| c.parse::<u64>().unwrap()).collect(),
            "--check" => check = true,
            "--compile" => compile = true,
            "--sources" => sources = args.next(),
            _ => variants.push(Variant {
                pairs: arg
                    .split(',')
                    .filter_map(|p| p.split_once('='))
                    .map(|(k, v)| (k.to_owned(), v.to_owned()))
                    .collect(),
                name: arg,
            }),
        }
    }
    let cache = std::env::temp_dir().join("packscope-kernels");
    if compile {
        let compiler = compiler_from(Arch::SM_90A, cache, sources);
        return compile_only(&peers, &heads, &variants, compiler);
    }
    let gpu = match Gpu::open(0) {
        Ok(gpu) => gpu,
        Err(e) => return println!("skipped: {e}"),
    };
    let compiler = compiler_from(gpu.arch(), cache, sources);
    let stream = gpu.stream().unwrap();
    let cold = Protocol::cold(&gpu).unwrap();
    println!("{:?}", gpu.info());
    let setup = Setup { gpu, compiler, stream, cold, check };
    let mut table = Vec::new();
    for row in rows(&peers, &heads).iter().filter(|r| only.is_empty() || only.contains(&r.config)) {
        table.push(run_row(&setup, row, &heads, &variants));
    }
    summary(&table, &variants);
}

fn compiler_from(arch: Arch, cache: std::path::PathBuf, sources: Option<String>) -> Compiler {
    let compiler = Compiler::new(arch, Some(cache)).unwrap();
    match sources {
        Some(folder) => compiler.with_sources(folder.into()),
        None => compiler,
    }
}

/// SMs of the GPU that `--compile` plans for.
const HOPPER_SMS: u32 = 132;

fn compile_only(peers: &str, heads: &str, variants: &[Variant], compiler: Compiler) {
    let compiler = compiler.on_compile(|e| eprintln!("{} in {:.1} s", e.what, e.took.as_secs_f64()));
    for row in rows(peers, heads) {
        for variant in variants {
            let shape = shape_of(heads, variants);
            let tiles = plan_of(HOPPER_SMS, &row, &shape, variant).tiles;
            let options = options_of(variant);
            let mut spec = KernelSpec::new(&tiles, shape.head_dim, shape.dtype, true, options.trace_capacity > 0);
            spec.ctas_per_sm = options.ctas_per_sm.unwrap_or(spec.ctas_per_sm);
            spec.defines = options.defines;
            match compiler.decode(&spec) {
                Ok(kernel) => println!("{:2} {:?} {tiles:?} {}", row.config, kernel.resources, variant.name),
                Err(e) => println!("{:2} {}: {e}", row.config, variant.name),
            }
        }
    }
}

fn shape_of(heads: &str, variants: &[Variant]) -> DecodeShape {
    let (hq, hkv) = heads.split_once('/').unwrap();
    let bf16 = variants.iter().any(|v| v.get("dtype") == Some("bf16"));
    DecodeShape {
        q_heads: hq.parse().unwrap(),
        kv_heads: hkv.parse().unwrap(),
        head_dim: 128,
        dtype: if bf16 { Dtype::Bf16 } else { Dtype::F16 },
        block_size: 32,
        scale: 128.0_f32.sqrt().recip(),
    }
}

fn options_of(v: &Variant) -> CallOptions {
    let define = |d: &str| format!("-D{}", d.replace(':', "="));
    CallOptions {
        trace_capacity: v.number("trace", 0),
        ctas_per_sm: v.get("ctas").map(|c| c.parse().unwrap()),
        item_tokens: v.get("item").map(|c| c.parse().unwrap()),
        deterministic: v.get("deterministic").is_some(),
        defines: v.get("def").map(|d| d.split('+').map(define).collect()).unwrap_or_default(),
    }
}

fn run_row(setup: &Setup, row: &Row, heads: &str, variants: &[Variant]) -> (f64, f64, Vec<f64>) {
    let shape = shape_of(heads, variants);
    let gpu = &setup.gpu;
    let probe = plan_of(setup.gpu.info().sms, row, &shape, &variants[0]);
    let bytes = KvCache::bytes(&shape, probe.blocks);
    let seed = std::process::id() ^ (row.config as u32) << 20;
    let (k, v) = (gpu.allocate(bytes).unwrap(), gpu.allocate(bytes).unwrap());
    let queries = gpu.allocate((probe.num_queries * shape.q_heads * 128 * 2) as usize).unwrap();
    for (buffer, salt) in [(&k, 1), (&v, 2), (&queries, 3)] {
        fill_random(gpu, &setup.compiler, &setup.stream, buffer, shape.dtype, seed + salt).unwrap();
    }
    let mut cache = KvCache { k, v, layout: KvLayout::Hnd, blocks: probe.blocks };
    print!("{:2} {:44} floor {:6.1} pat {:6.1} fi {:6.1} |", row.config, row.tree, row.floor, row.pat, row.flashinfer);
    let mut times = Vec::new();
    for variant in variants {
        cache.layout = if variant.get("layout") == Some("nhd") { KvLayout::Nhd } else { KvLayout::Hnd };
        let us = run_variant(setup, row, &shape, &cache, &queries, variant, seed);
        print!(" {us:7.1}");
        times.push(us);
    }
    println!();
    (row.floor, row.pat, times)
}

fn plan_of(sms: u32, row: &Row, shape: &DecodeShape, v: &Variant) -> packer::OwnedPlan {
    let ctas = v.number("ctas", 2_u32);
    let knobs = packer::Knobs {
        max_rows: v.number("rows", 64),
        side_by_side: v.number("side", 1) == 1,
        n: v.number("n", 64),
        lanes: sms * ctas,
        rounds: v.number("rounds", 2),
        tree_order: v.get("order") == Some("tree"),
        mix: v.get("mix").and_then(|m| m.parse().ok()),
        small: v.number("small", 1),
        min_piece: v.number("piece", 512),
        reread: v.number("reread", 0.4),
        partial: v.number("partial", 0.6),
    };
    packer::plan(&row.tree, shape, &knobs, v.get("scatter").is_some())
}

fn run_variant(
    setup: &Setup,
    row: &Row,
    shape: &DecodeShape,
    cache: &KvCache,
    queries: &kernels::DeviceBuffer,
    v: &Variant,
    seed: u32,
) -> f64 {
    let owned = plan_of(setup.gpu.info().sms, row, shape, v);
    let plan = PlanArrays {
        tiles: &owned.tiles,
        packs: &owned.packs,
        query_index: &owned.query_index,
        block_ids: &owned.block_ids,
        merge_offsets: &owned.merge_offsets,
        merge_slots: &owned.merge_slots,
        num_queries: owned.num_queries,
        num_slots: owned.num_slots,
        ..PlanArrays::default()
    };
    let way = match v.get("strategy") {
        Some("serial") => Way::Serial,
        Some("streams") => Way::Streams,
        Some("beside") => Way::Beside,
        _ => Way::Fused,
    };
    let launched = launches(&plan, way);
    let plan = PlanArrays { launches: &launched, ..plan };
    let options = options_of(v);
    let decode = match Call::new(&setup.gpu, &setup.compiler, shape, cache, queries, &plan, &options) {
        Ok(decode) => decode,
        Err(e) => {
            println!("\n{}: {e}", v.name);
            return f64::NAN;
        }
    };
    if v.get("info").is_some() {
        println!("\n{} packs, {} slots, {:?}", plan.packs.len(), plan.num_slots, decode.kernels().collect::<Vec<_>>());
    }
    decode.poison(&setup.stream).unwrap();
    decode.launch(&setup.stream).unwrap();
    if let Err(e) = setup.stream.synchronize() {
        panic!("{}: {e}", v.name);
    }
    if v.get("compare").is_some() {
        let serial = launches(&plan, Way::Serial);
        let plan = PlanArrays { launches: &serial, ..plan };
        let plain = CallOptions::default();
        let other = Call::new(&setup.gpu, &setup.compiler, shape, cache, queries, &plan, &plain).unwrap();
        other.launch(&setup.stream).unwrap();
        setup.stream.synchronize().unwrap();
        compare(&decode, &other, shape, &owned);
    }
    if setup.check {
        check(&decode, &owned, shape, cache.layout, seed, &v.name);
    }
    if options.trace_capacity > 0 {
        stages(setup, &decode);
    }
    let protocol = Protocol { graph: v.get("graph").is_some(), ..Protocol { flush: None, ..Protocol::warm() } };
    let cold = Protocol { flush: None, ..protocol };
    let flush = setup.cold.flush.as_ref().unwrap();
    time_cold(setup, &decode, &cold, flush)
}

/// One cold run's trace: where the time of a CTA goes.
fn stages(setup: &Setup, decode: &Call) {
    setup.cold.flush.as_ref().unwrap().fill(1, &setup.stream).unwrap();
    decode.clear_trace(&setup.stream).unwrap();
    setup.stream.synchronize().unwrap();
    decode.launch(&setup.stream).unwrap();
    setup.stream.synchronize().unwrap();
    let (mut records, lost) = decode.trace().unwrap();
    records.sort_by_key(|r| r.begin_ns);
    let start = records[0].begin_ns;
    let end = records.iter().map(|r| r.end_ns).max().unwrap();
    println!("\n{} records, {lost} lost, {} ns from first begin to last end", records.len(), end - start);
    let mut ctas = std::collections::BTreeMap::<u32, Vec<TraceRecord>>::new();
    for r in &records {
        let list = ctas.entry(r.cta).or_default();
        // The four heads of a wide tile run side by side: the first stands for them.
        let beside = |l: &TraceRecord| l.task == r.task && l.kv_head != r.kv_head && r.begin_clock < l.main_done_clock;
        if !list.last().is_some_and(beside) {
            list.push(*r);
        }
    }
    let clocks: u64 = records.iter().map(|r| r.end_clock.saturating_sub(r.begin_clock)).sum();
    let nanos: u64 = records.iter().map(|r| r.end_ns.saturating_sub(r.begin_ns)).sum();
    let us = |from: u64, to: u64| to.saturating_sub(from) as f64 * nanos as f64 / (1e3 * clocks as f64);
    let mut parts = [0.0; 6];
    for list in ctas.values() {
        parts[0] += (list[0].begin_ns - start) as f64 / 1e3;
        parts[1] += list.windows(2).map(|w| us(w[0].end_clock, w[1].begin_clock)).sum::<f64>();
        parts[2] += list.iter().map(|r| us(r.begin_clock, r.first_tile_clock)).sum::<f64>();
        parts[3] += list.iter().map(|r| us(r.first_tile_clock, r.main_done_clock)).sum::<f64>();
        parts[4] += list.iter().map(|r| us(r.main_done_clock, r.end_clock)).sum::<f64>();
        parts[5] += (end - list.iter().map(|r| r.end_ns).max().unwrap()) as f64 / 1e3;
    }
    let tasks = ctas.values().map(Vec::len).sum::<usize>() as f64;
    print!("  {} CTAs, {:.1} tasks each; us a CTA (a task):", ctas.len(), tasks / ctas.len() as f64);
    for (part, what) in parts.iter().zip(["before", "between", "first tile", "tiles", "finish", "after"]) {
        print!(" {what} {:.1} ({:.2})", part / ctas.len() as f64, part / tasks);
    }
    println!();
}

/// The protocol with the flush buffer that all variants share.
fn time_cold(setup: &Setup, decode: &Call, protocol: &Protocol, _flush: &kernels::DeviceBuffer) -> f64 {
    let timing = if protocol.graph {
        let mut with = Protocol::cold(&setup.gpu).unwrap();
        with.graph = true;
        with.time(&setup.gpu, &setup.stream, |s| decode.launch(s))
    } else {
        setup.cold.time(&setup.gpu, &setup.stream, |s| decode.launch(s))
    };
    timing.unwrap().median()
}

/// Prints where two strategies differ by more than rounding.
fn compare(a: &Call, b: &Call, shape: &DecodeShape, plan: &packer::OwnedPlan) {
    let (x, y) = (a.output().unwrap(), b.output().unwrap());
    let mut bad = 0;
    for (row, (p, q)) in x.chunks(128).zip(y.chunks(128)).enumerate() {
        let f = |v: u16| half::f16::from_bits(v).to_f32();
        let dims: Vec<usize> = (0..128).filter(|&d| !((f(p[d]) - f(q[d])).abs() < 4e-3)).collect();
        if !dims.is_empty() {
            bad += 1;
            if bad <= 4 {
                let query = row / shape.q_heads as usize;
                let run = plan.merge_offsets[query] as usize..plan.merge_offsets[query + 1] as usize;
                println!(
                    "\n query {query} head {} dims {}..{} ({}) slots {:?} {} vs {}",
                    row % shape.q_heads as usize,
                    dims[0],
                    dims[dims.len() - 1],
                    dims.len(),
                    &plan.merge_slots[run],
                    f(p[dims[0]]),
                    f(q[dims[0]])
                );
            }
        }
    }
    println!("\n{bad} rows differ of {}", x.len() / 128);
}

fn check(decode: &Call, plan: &packer::OwnedPlan, shape: &DecodeShape, layout: KvLayout, seed: u32, name: &str) {
    use rand::{Rng, SeedableRng};
    let out = decode.output().unwrap();
    let unwritten = out.iter().filter(|&&x| x == 0xffff).count();
    let mut rng = rand::rngs::StdRng::seed_from_u64(u64::from(seed));
    let (mut error, mut norm) = (0.0, 0.0);
    for sample in 0..40 {
        let query = if sample == 0 { plan.num_queries - 1 } else { rng.random_range(0..plan.num_queries) };
        let head = rng.random_range(0..shape.q_heads);
        let row = (query * shape.q_heads + head) as usize * 128;
        for (d, expected) in reference(plan, shape, layout, seed, query, head).iter().enumerate() {
            let value = match shape.dtype {
                Dtype::F16 => f64::from(half::f16::from_bits(out[row + d]).to_f32()),
                Dtype::Bf16 => f64::from(half::bf16::from_bits(out[row + d]).to_f32()),
            };
            error += (value - expected).powi(2);
            norm += expected.powi(2);
        }
    }
    let relative = (error / norm).sqrt();
    let limit = if shape.dtype == Dtype::F16 { 1e-3 } else { 8e-3 };
    if unwritten > 0 || relative.is_nan() || relative > limit {
        println!("\nWRONG {name}: relative error {relative:.2e}, {unwritten} values unwritten");
    } else {
        print!(" ({relative:.1e})");
    }
}

fn reference(
    plan: &packer::OwnedPlan,
    shape: &DecodeShape,
    layout: KvLayout,
    seed: u32,
    query: u32,
    head: u32,
) -> Vec<f64> {
    let (d, bs, hkv) = (128_u64, u64::from(shape.block_size), u64::from(shape.kv_heads));
    let kv_head = u64::from(head / shape.group());
    let q: Vec<f64> =
        (0..d).map(|i| f64::from(random_value(seed + 3, u64::from(query * shape.q_heads + head) * d + i))).collect();
    let tokens = u64::from(plan.lengths[query as usize]);
    let at = |t: u64| {
        let block = u64::from(plan.tables[query as usize][(t / bs) as usize]);
        match layout {
            KvLayout::Hnd => ((block * hkv + kv_head) * bs + t % bs) * d,
            KvLayout::Nhd => ((block * bs + t % bs) * hkv + kv_head) * d,
        }
    };
    let scores: Vec<f64> = (0..tokens)
        .map(|t| (0..d).map(|i| q[i as usize] * f64::from(random_value(seed + 1, at(t) + i))).sum::<f64>())
        .map(|s| s * f64::from(shape.scale))
        .collect();
    let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|s| (s - top).exp()).collect();
    let sum: f64 = weights.iter().sum();
    let mut out = vec![0.0; d as usize];
    for (t, w) in weights.iter().enumerate() {
        for (i, o) in out.iter_mut().enumerate() {
            *o += w / sum * f64::from(random_value(seed + 2, at(t as u64) + i as u64));
        }
    }
    out
}

fn summary(table: &[(f64, f64, Vec<f64>)], variants: &[Variant]) {
    let mean = |f: &dyn Fn(&(f64, f64, Vec<f64>)) -> f64| {
        (table.iter().map(|r| f(r).ln()).sum::<f64>() / table.len() as f64).exp()
    };
    for (i, v) in variants.iter().enumerate() {
        println!("{:5.3}x pat {:5.3}x floor  {}", mean(&|r| r.2[i] / r.1), mean(&|r| r.2[i] / r.0), v.name);
    }
    let best = |r: &(f64, f64, Vec<f64>)| r.2.iter().copied().fold(f64::INFINITY, f64::min);
    println!("{:5.3}x pat {:5.3}x floor  best of each", mean(&|r| best(r) / r.1), mean(&|r| best(r) / r.0));
}
