//! The published sets of configurations as cases and the ways to run them.
//!
//! Where a paper does not give a size, the size is ours, and the case says so.

use engine::hw::{self, Device};
use engine::plan::Strategy;
use engine::workload::{self, AttentionShape, BatchSpec, NodeSpec};

use crate::cli::args::BenchSet;
use crate::cli::fault::Outcome;
use crate::cli::published::{Apart, Claim, Measure, Published};
use crate::samples;

/// A configuration.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// Name in tables.
    pub(crate) name: String,
    /// The batch.
    pub(crate) spec: BatchSpec,
}

/// A way to run it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    /// Scheduler.
    pub(crate) scheduler: &'static str,
    /// Strategy.
    pub(crate) strategy: Strategy,
}

/// A published set.
#[derive(Clone, Debug)]
pub(crate) struct Set {
    /// Name on the command line.
    pub(crate) key: &'static str,
    /// Configurations.
    pub(crate) cases: Vec<Case>,
    /// Ways, the first being what the others are compared with.
    pub(crate) ways: Vec<Way>,
    /// What the paper reports.
    pub(crate) claims: Vec<Claim>,
    /// What it reports of things that are not here.
    pub(crate) apart: Vec<Apart>,
    /// Cases of a device of their own, whatever is asked for: the paper compares it with others.
    pub(crate) on: Vec<(usize, &'static str)>,
}

impl Set {
    /// The device of a case, where the others have `asked`.
    pub(crate) fn device_of<'a>(&self, case: usize, asked: &'a Device) -> engine::Result<&'a Device> {
        self.on.iter().find(|(at, _)| *at == case).map_or(Ok(asked), |(_, key)| hw::find(key))
    }

    /// A case on a device of its own, told in its name.
    fn push_on(&mut self, case: Case, key: &'static str) -> Outcome<usize> {
        let fitted = if hw::find(key)?.calibrated { "" } else { ", not calibrated" };
        self.on.push((self.cases.len(), key));
        self.cases.push(Case { name: format!("{} on {key}{fitted}", case.name), ..case });
        Ok(self.cases.len() - 1)
    }
}

const SERIAL: Strategy = Strategy::Serial;

fn serial(schedulers: &[&'static str]) -> Vec<Way> {
    schedulers.iter().map(|scheduler| Way { scheduler, strategy: SERIAL }).collect()
}

/// PAT as its paper measured it, then others one launch after another.
fn pat_and(schedulers: &[&'static str]) -> Vec<Way> {
    let mut ways = vec![Way { scheduler: "pat-released", strategy: Strategy::Streams }];
    ways.extend(serial(schedulers));
    ways
}

/// The comparison of a set; `None` for hybrid batches, which are compared by strategies.
pub(crate) fn set(which: BenchSet, heads: (u32, u32)) -> Outcome<Option<Set>> {
    Ok(match which {
        BenchSet::PatFigure10 => Some(pat_figure_10(heads)?),
        BenchSet::PatAblation => Some(pat_ablation(heads)?),
        BenchSet::Flashforge => Some(flashforge()?),
        BenchSet::Fasttree => Some(fasttree()?),
        BenchSet::Hydragen => Some(hydragen()?),
        // None of these compares ways of packing.
        BenchSet::Hybrid
        | BenchSet::Random
        | BenchSet::PatServing
        | BenchSet::PodServing
        | BenchSet::Trace
        | BenchSet::RandomHybrid
        | BenchSet::PodFigure6
        | BenchSet::PodFigure11
        | BenchSet::PodFigure13
        | BenchSet::PodFigure14
        | BenchSet::PodTable8
        | BenchSet::LazyUpdate => None,
    })
}

/// The trees of PAT's Figure 10, from the samples.
pub(crate) fn figure_10(heads: (u32, u32)) -> Outcome<Vec<Case>> {
    let mut cases = sampled("pat-")?;
    for case in &mut cases {
        (case.spec.shape.query_heads, case.spec.shape.kv_heads) = heads;
    }
    Ok(cases)
}

/// Decodes that share nothing, most of them done long before the rest: what a few CTAs draw from the memory alone.
pub(crate) fn long_tail() -> Outcome<Case> {
    let requests = ["96x6144", "24x49152"].into_iter().map(workload::parse_decode).collect::<engine::Result<_>>()?;
    let spec = BatchSpec { requests, ..BatchSpec::empty(AttentionShape::default()) };
    Ok(Case { name: "long-tail".to_owned(), spec })
}

/// Prefill and decode together, from the samples.
pub(crate) fn hybrid() -> Outcome<Vec<Case>> {
    sampled("pod-")
}

fn sampled(prefix: &str) -> Outcome<Vec<Case>> {
    let samples = samples::samples().iter().filter(|sample| sample.key.starts_with(prefix));
    // A set has a device and ways of its own.
    let case = |sample: &samples::Sample| {
        let spec = BatchSpec { scene: None, ..BatchSpec::from_ron(sample.text)? };
        Ok(Case { name: sample.key.to_owned(), spec })
    };
    samples.map(case).collect()
}

fn pat_figure_10(heads: (u32, u32)) -> Outcome<Set> {
    let ways = pat_and(&[
        "query-centric",
        "flashinfer-decode",
        "fasttree",
        "relay",
        "relay-plus-plus",
        "cascade",
        "deft",
        "min-time",
    ]);
    let claim = |what, number, measure| Claim { published: Published::Number(number), what, measure, cases: Some(18) };
    let claims = vec![
        claim("mean time below FlashAttention", 0.678, Measure::MeanBelow(1)),
        claim("mean time below FlashInfer", 0.521, Measure::MeanBelow(2)),
        claim("most over FlashAttention", 21.5, Measure::Most(1)),
        claim("most over FlashInfer", 11.7, Measure::Most(2)),
        claim("most over FastTree", 3.2, Measure::Most(3)),
        claim("most over RelayAttention", 11.9, Measure::Most(4)),
        claim("most over Relay++", 5.7, Measure::Most(5)),
    ];
    Ok(Set { key: "pat-figure-10", cases: figure_10(heads)?, ways, claims, apart: Vec::new(), on: Vec::new() })
}

fn pat_ablation(heads: (u32, u32)) -> Outcome<Set> {
    let streams = |scheduler| Way { scheduler, strategy: Strategy::Streams };
    let ways = ["pat", "pat-released", "pat-compute", "naive", "pat-fixed", "pat-serial"].map(streams).to_vec();
    let claim = |what, number, measure| Claim { published: Published::Number(number), what, measure, cases: Some(18) };
    let claims = vec![
        claim("PAT-compute over PAT's release", 1.046, Measure::MeanOver { way: 2, base: 1 }),
        claim("PAT-naive over PAT's release", 1.104, Measure::MeanOver { way: 3, base: 1 }),
        claim("PAT-fixed over PAT", 1.39, Measure::MeanOver { way: 4, base: 0 }),
        claim("PAT-serial over PAT", 1.048, Measure::MeanOver { way: 5, base: 0 }),
    ];
    let mut cases = figure_10(heads)?;
    cases.truncate(18);
    Ok(Set { key: "pat-ablation", cases, ways, claims, apart: Vec::new(), on: Vec::new() })
}

fn shape(query_heads: u32, kv_heads: u32) -> AttentionShape {
    AttentionShape { query_heads, kv_heads, ..AttentionShape::default() }
}

fn tree(name: impl Into<String>, text: &str, shape: AttentionShape) -> Outcome<Case> {
    Ok(Case { name: name.into(), spec: workload::parse_tree(text, shape)? })
}

/// A full tree of `levels` levels in which each node has `fan` children and `tokens` tokens.
fn full(fan: u32, levels: u32, tokens: u64) -> String {
    let nodes: Vec<String> = (0..levels).map(|level| fan.pow(level).to_string()).collect();
    let tokens: Vec<String> = (0..levels).map(|_| tokens.to_string()).collect();
    format!("{}_{}", nodes.join(","), tokens.join(","))
}

/// A tree in which only the left node of each level has two children.
pub(crate) fn degenerate(levels: u32, tokens: u64, shape: AttentionShape) -> BatchSpec {
    let leaf = || NodeSpec::leaf(tokens);
    let left =
        (1..levels).fold(leaf(), |below, _| NodeSpec { children: vec![below, leaf()], ..NodeSpec::leaf(tokens) });
    BatchSpec { roots: vec![left], ..BatchSpec::empty(shape) }
}

/// FlashForge's sweeps at 32/32 heads. The paper gives the 120K root, the 512 to 8,192 tokens and the
/// 200K contexts of the ablation; numbers of requests and own lengths elsewhere are ours.
fn flashforge() -> Outcome<Set> {
    let shape = shape(32, 32);
    let mut cases = Vec::new();
    for own in [512, 1024, 2048, 4096, 8192] {
        cases.push(tree(format!("own {own}"), &format!("1,2_120000,{own}"), shape)?);
    }
    for requests in [4, 8, 16, 32] {
        cases.push(tree(format!("batch {requests}"), &format!("1,{requests}_120000,1024"), shape)?);
    }
    for levels in 3..=6_u32 {
        cases.push(tree(format!("depth {levels}"), &full(2, levels, 120_000 / u64::from(levels) / 32 * 32), shape)?);
    }
    for percent in [50, 75, 90] {
        let shared = 120_000 * percent / 100 / 32 * 32;
        let own = (120_000 - shared) / 2 / 32 * 32;
        cases.push(tree(format!("shared {percent}%"), &format!("1,2_{shared},{own}"), shape)?);
    }
    for fan in 2..=5_u32 {
        let nodes = u64::from(1 + fan + fan * fan);
        cases.push(tree(format!("{fan}T"), &full(fan, 3, 120_000 / nodes / 32 * 32), shape)?);
    }
    cases.push(Case { name: "DT".to_owned(), spec: degenerate(4, 17_120, shape) });
    let balanced = tree("balanced", &full(2, 5, 40_000), shape)?;
    let unbalanced = Case { name: "degenerate".to_owned(), spec: degenerate(5, 40_000, shape) };
    cases.extend([balanced, unbalanced]);
    let ways = serial(&["flashforge", "query-centric", "flashforge-neither", "flashforge-tree", "flashforge-division"]);
    let (balanced, unbalanced) = (cases.len() - 2, cases.len() - 1);
    let mut set = Set { key: "flashforge", cases, ways, claims: Vec::new(), apart: flashforge_apart(), on: Vec::new() };
    // The H800 has the SMs and the HBM of an H100; of the paper's five GPUs the RTX 4090 is the nearest to its A6000 here.
    let cards = |set: &mut Set, key| set.push_on(tree("50K", "1,16_49984,1024", shape)?, key);
    let (h100, ada) = (cards(&mut set, "h100-sxm-pat")?, cards(&mut set, "rtx-4090")?);
    let claim =
        |what, number, measure| Claim { published: Published::Number(number), what, measure, cases: Some(balanced) };
    let of = |what, number, case, way| claim(what, number, Measure::Case { case, way });
    set.claims = vec![
        claim("mean over FlashDecoding", 1.9, Measure::MeanOver { way: 1, base: 0 }),
        claim("most over FlashDecoding", 3.6, Measure::Most(1)),
        of("balanced: nothing over both", 578.0 / 22.2, balanced, 2),
        of("balanced: tree alone over both", 109.2 / 22.2, balanced, 3),
        of("balanced: division alone over both", 34.9 / 22.2, balanced, 4),
        of("degenerate: nothing over both", 38.0 / 3.5, unbalanced, 2),
        of("degenerate: tree alone over both", 16.7 / 3.5, unbalanced, 3),
        of("degenerate: division alone over both", 5.9 / 3.5, unbalanced, 4),
        claim("memory access of FlashDecoding over ours, mean", 120.85, Measure::MeanBytes(1)),
        claim("the same, least", 14.66, Measure::LeastBytes(1)),
        claim("the same, most", 409.8, Measure::MostBytes(1)),
        claim("no division over ours, mean (Figure 9)", 3.8, Measure::MeanOver { way: 3, base: 0 }),
        of("FlashDecoding over ours on an H800, 50K (Figure 10)", 9.9 / 2.094, h100, 1),
        claim(
            "the same on an A6000, over that",
            43.048 / 2.869 / (9.9 / 2.094),
            Measure::CaseOver { way: 1, case: ada, base: h100 },
        ),
    ];
    Ok(set)
}

fn flashforge_apart() -> Vec<Apart> {
    vec![
        Apart {
            what: "memory access and times in absolute numbers (Figures 5, 6 and 10)",
            why: "the paper does not give the numbers of requests, on which every factor above rests, nor what it counts \
                  as memory access; ours are the bytes that CTAs issue",
        },
        Apart {
            what: "1.02 to 1.04× over the best fixed division (Figure 9)",
            why: "no scheduler here divides every node into the same number of pieces",
        },
        Apart {
            what: "an A30 and an RTX A6000 (Figure 10)",
            why: "they are not in the device table; the RTX 4090 stands for the A6000, and an H100 for the H800",
        },
        Apart {
            what: "3.8× time per output token",
            why: "it is of a whole model in PyTorch; here attention runs alone",
        },
    ]
}

/// The trees of FastTree's kernel benchmark.
const FASTTREE: [&str; 13] = [
    "1,2,64_8,256,32",
    "1,4,256_8,256,32",
    "1,4,8,256_8,256,256,32",
    "1,256_256,32",
    "1,1024_2048,32",
    "1,16,64_1024,256,32",
    "1,4,16,512_1024,256,128,32",
    "1,4,16,64,256,1024_256,8,256,64,32,256",
    "1,10_4000,400",
    "1,8,16,32,64,128,1024_256,128,64,16,16,16,16",
    "1,8,16,32,64,256,1024_256,128,64,16,16,16,16",
    "1,16,32,64,128,1024_256,128,64,16,16,16",
    "1,16,32,64,256,1024_256,128,64,16,16,16",
];

/// Blocks of 16, the smallest here; nodes of 8 tokens, which the original holds in pages of one, become one block.
fn fasttree() -> Outcome<Set> {
    let mut cases = Vec::new();
    for (query_heads, kv_heads) in [(16, 1), (32, 8), (32, 32)] {
        for (at, text) in FASTTREE.iter().enumerate() {
            let shape = AttentionShape { block_size: 16, ..shape(query_heads, kv_heads) };
            let (nodes, tokens) = text.split_once('_').unwrap_or((text, ""));
            let tokens: Vec<&str> = tokens.split(',').map(|t| if t == "8" { "16" } else { t }).collect();
            let name = format!("{query_heads}/{kv_heads} #{}", at + 1);
            cases.push(tree(name, &format!("{nodes}_{}", tokens.join(",")), shape)?);
        }
    }
    let ways = serial(&["fasttree", "query-centric", "flashinfer-decode", "deft", "cascade"]);
    let apart = vec![
        Apart {
            what: "kernel times normalised to FastTree's (its kernel benchmark, on an H100)",
            why: "the artifact gives them as a picture without numbers; the table above has the same trees and baselines",
        },
        Apart {
            what: "up to 1.9× the throughput of SGLang",
            why: "it is of a whole server; here attention runs alone. PAT's factor over FastTree is in pat-figure-10",
        },
    ];
    Ok(Set { key: "fasttree", cases, ways, claims: Vec::new(), apart, on: Vec::new() })
}

/// Prefix × batch pairs of Hydragen's micro-benchmark at 8/1 heads, with four of its suffix lengths.
fn hydragen() -> Outcome<Set> {
    let shape = AttentionShape { block_size: 16, ..shape(8, 1) };
    let mut cases = Vec::new();
    for (prefix, batch) in [(512, 1024), (1024, 2048), (2048, 4096), (4096, 8192)] {
        for suffix in [16, 128, 256, 512] {
            let name = format!("{prefix}×{batch}+{suffix}");
            cases.push(tree(name, &format!("1,{batch}_{prefix},{suffix}"), shape)?);
        }
    }
    let mut ways = serial(&["hydragen", "query-centric", "cascade", "relay-plus-plus"]);
    ways.push(Way { scheduler: "pat", strategy: Strategy::Streams });
    let (all, last) = (cases.len(), cases.len() - 4);
    let longest = cases[last].clone();
    let apart = vec![
        Apart {
            what: "the speed-ups of Figures 4 and 7 in numbers",
            why: "the paper shows them as pictures, without numbers in text or tables",
        },
        Apart {
            what: "up to 32× throughput, −18 % and −55 % of evaluation time with two levels",
            why: "these are of whole models; here attention runs alone",
        },
    ];
    let mut set = Set { key: "hydragen", cases, ways, claims: Vec::new(), apart, on: Vec::new() };
    let mut card = |key| set.push_on(longest.clone(), key);
    let (a100, l40s, h100) = (card("a100-sxm-40gb")?, card("l40s")?, card("h100-sxm-pat")?);
    let claim = |what, published, measure| Claim { what, published, measure, cases: Some(all) };
    let over = |case, base| Measure::CaseOver { way: 1, case, base };
    set.claims = vec![
        claim("FlashAttention over Hydragen, least", Published::More("faster in all cases"), Measure::Least(1)),
        claim("4096×8192+16 over 512×1024+16", Published::More("grows with both"), over(last, 0)),
        claim("4096×8192+512 over 4096×8192+16", Published::Less("shrinks with suffix"), over(all - 1, last)),
        claim("on an L40S over on an A100", Published::More("larger gains"), over(l40s, a100)),
        claim("on an H100 over on an A100", Published::Same("similar"), over(h100, a100)),
    ];
    Ok(set)
}
