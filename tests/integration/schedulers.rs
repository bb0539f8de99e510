//! The systems of the papers as schedulers: the bytes that they move by their formulas, what they
//! choose on published trees, and what they refuse.

use engine::decision::{Choice, Decision};
use engine::metrics::{Traffic, traffic};
use engine::plan::{LaunchKind, Strategy};
use engine::session::{PlanOptions, Planned, plan_spec};
use engine::units::NodeIdx;
use engine::workload::{AttentionShape, BatchSpec, NodeSpec, PartialForm, PrefixTree, RequestSpec};

use crate::common::{assert_packs, figure_10, planned, uniform};

const A100: &str = "a100-sxm-80gb";
const SMS: u64 = 108;

/// A plan of a configuration of PAT's Figure 10 at 32/8 heads on the A100.
fn of(number: usize, scheduler: &str) -> Planned {
    planned(&figure_10(number, 32, 8), scheduler, Strategy::Serial, A100)
}

fn bytes(planned: &Planned) -> Traffic {
    traffic(&planned.plan, &planned.batch, &planned.tree)
}

/// The building blocks of the traffic model.
struct Unit {
    kv: u64,
    q: u64,
    fp32: u64,
    max_sum: u64,
    native: u64,
    group: u64,
    requests: u64,
}

impl Unit {
    fn of(planned: &Planned) -> Self {
        let s = planned.batch.shape;
        let (hq, hkv, d) = (u64::from(s.query_heads), u64::from(s.kv_heads), u64::from(s.head_dim));
        Self {
            kv: 2 * hkv * d * 2,
            q: hq * d * 2,
            fp32: hq * (4 * d + 4),
            max_sum: hq * (4 * d + 8),
            native: hq * (2 * d + 4),
            group: hq / hkv,
            requests: planned.batch.requests().len() as u64,
        }
    }
}

/// (tokens, requests) of each node by level.
fn levels(tree: &PrefixTree) -> Vec<Vec<(u64, u64)>> {
    let mut levels = vec![Vec::new(); tree.depth() as usize];
    for node in &tree.nodes {
        levels[node.depth as usize].push((node.tokens.0, u64::from(node.query_count())));
    }
    levels
}

/// The smallest chunk in blocks, tried one after another, for which all fit; `None` for no cutting.
fn chunk(units: &[(u64, u64)], grid: u64, block: u64) -> Option<u64> {
    let longest = units.iter().map(|(_, tokens)| tokens.div_ceil(block)).max().unwrap();
    let count =
        |chunk: u64| units.iter().map(|(tiles, tokens)| tiles * tokens.div_ceil(block).div_ceil(chunk)).sum::<u64>();
    if count(longest) >= grid {
        return None;
    }
    (128_u64.div_ceil(block).min(longest)..=longest).find(|chunk| count(*chunk) <= grid)
}

#[test]
fn flashinfer_decode_moves_what_its_formula_says() {
    for number in 1..=20 {
        let planned = of(number, "flashinfer-decode");
        let (got, unit) = (bytes(&planned), Unit::of(&planned));
        let lengths: Vec<u64> = planned.batch.requests().iter().map(|request| request.kv.0).collect();
        let units: Vec<(u64, u64)> = lengths.iter().map(|length| (1, *length)).collect();
        // Two CTAs of 16×128 fit on an SM.
        let chunks = match chunk(&units, 2 * SMS / 8, 32) {
            None => unit.requests,
            Some(chunk) => lengths.iter().map(|length| length.div_ceil(32 * chunk)).sum(),
        };
        assert_eq!(got.kv_read.0, lengths.iter().sum::<u64>() * unit.kv, "configuration {number}");
        assert_eq!(got.q_read.0, chunks * unit.q, "configuration {number}");
        let partials = if chunks > unit.requests { chunks * unit.fp32 } else { 0 };
        assert_eq!((got.partial_write.0, got.partial_read.0), (partials, partials), "configuration {number}");
        assert_eq!(got.output_write.0, unit.requests * unit.q);
    }
}

#[test]
fn cascade_moves_what_its_formula_says() {
    for number in 1..=20 {
        let planned = of(number, "cascade");
        let (got, unit) = (bytes(&planned), Unit::of(&planned));
        let (mut kv, mut q, mut inner) = (0, 0, 0);
        let levels = levels(&planned.tree);
        for level in &levels {
            let average = level.iter().map(|(_, n)| n * unit.group).sum::<u64>() / level.len() as u64;
            let tile = if average > 64 {
                128
            } else if average > 16 {
                64
            } else {
                16
            };
            let tiles = |n: u64| (n * unit.group).div_ceil(tile);
            let units: Vec<(u64, u64)> = level.iter().map(|(tokens, n)| (tiles(*n), *tokens)).collect();
            let chunk = chunk(&units, 2 * SMS / 8, 32);
            let pieces = |tokens: u64| chunk.map_or(1, |chunk| tokens.div_ceil(32 * chunk));
            kv += level.iter().map(|(tokens, n)| tokens * tiles(*n)).sum::<u64>();
            let slots: u64 = level.iter().map(|(tokens, n)| n * pieces(*tokens)).sum();
            q += slots;
            if slots > unit.requests {
                inner += slots;
            }
        }
        assert_eq!(got.kv_read.0, kv * unit.kv, "configuration {number}");
        assert_eq!(got.q_read.0, q * unit.q, "configuration {number}");
        let depth = levels.len() as u64;
        // Level outputs L and merge outputs L − 1, of which the last is the output; merges read 2(L − 1).
        let written = if depth == 1 { 0 } else { (2 * depth - 2) * unit.requests * unit.native };
        let read = 2 * (depth - 1) * unit.requests * unit.native;
        // One level alone writes the output from its inner gather.
        assert_eq!(got.partial_write.0, written + inner * unit.fp32, "configuration {number}");
        assert_eq!(got.partial_read.0, read + inner * unit.fp32, "configuration {number}");
        let launches = planned.plan.launches.iter();
        let rounds = launches.filter(|launch| matches!(launch.kind, LaunchKind::MergeRound(_))).count() as u64;
        assert!(rounds >= depth - 1, "{rounds} merges of {depth} levels");
    }
}

#[test]
fn relay_moves_what_its_formula_says() {
    for number in 1..=15 {
        for scheduler in ["relay", "relay-plus-plus"] {
            let planned = of(number, scheduler);
            let (got, unit) = (bytes(&planned), Unit::of(&planned));
            let prefix = planned.tree.node(NodeIdx(0)).tokens.0;
            let rest: u64 = planned.batch.requests().iter().map(|request| request.kv.0 - prefix).sum();
            let readings = unit.requests.div_ceil(64) * unit.group;
            assert_eq!(got.kv_read.0, (prefix * readings + rest) * unit.kv, "configuration {number}");
            let slots = planned.plan.queries.len() as u64;
            assert_eq!(got.q_read.0, slots * unit.q);
            assert!(slots >= 2 * unit.requests && slots.is_multiple_of(unit.requests));
            let splits_of = |prefix: bool| {
                let packs =
                    planned.plan.packs.iter().filter(|pack| (pack.blocks_begin < prefix_blocks(&planned)) == prefix);
                packs.map(|pack| u64::from(pack.queries_len)).sum::<u64>() / unit.requests
            };
            let inner: u64 = [true, false].into_iter().map(splits_of).filter(|splits| *splits > 1).sum();
            let fuse = unit.requests * unit.native;
            assert_eq!(got.partial_write.0, 2 * fuse + inner * unit.requests * unit.fp32, "configuration {number}");
            assert_eq!(got.partial_read.0, 2 * fuse + inner * unit.requests * unit.fp32, "configuration {number}");
        }
    }
}

fn prefix_blocks(planned: &Planned) -> u32 {
    planned.tree.node(NodeIdx(0)).blocks.end
}

#[test]
fn hydragen_moves_what_its_formula_says() {
    for number in 1..=18 {
        let planned = of(number, "hydragen");
        let (got, unit) = (bytes(&planned), Unit::of(&planned));
        let levels = levels(&planned.tree);
        let depth = levels.len();
        let prefixes: u64 = levels[..depth - 1].iter().flatten().map(|(l, n)| l * n.div_ceil(128) * unit.group).sum();
        let suffixes: u64 = levels[depth - 1].iter().map(|(l, _)| l).sum();
        assert_eq!(got.kv_read.0, (prefixes + suffixes) * unit.kv, "configuration {number}");
        let parts = depth as u64 * unit.requests;
        assert_eq!(got.q_read.0, parts * unit.q);
        assert_eq!((got.partial_write.0, got.partial_read.0), (parts * unit.native, parts * unit.native));
        assert_eq!(
            planned.plan.launches.len(),
            depth + 1,
            "a launch a level, the suffixes among them, and one combine"
        );
    }
}

#[test]
fn fasttree_moves_what_its_formula_says() {
    for number in 1..=20 {
        let planned = of(number, "fasttree");
        let (got, unit) = (bytes(&planned), Unit::of(&planned));
        let slots = planned.plan.queries.len() as u64;
        let kv: u64 = planned.plan.packs.iter().map(|pack| pack.tokens.0).sum();
        assert_eq!(got.kv_read.0, kv * unit.kv, "configuration {number}");
        assert_eq!(got.q_read.0, slots * unit.q);
        assert_eq!((got.partial_write.0, got.partial_read.0), (slots * unit.fp32, slots * unit.fp32), "always merged");
        assert!(planned.plan.launches.len() <= 3, "two phases and the merge");
    }
}

#[test]
fn flashforge_reads_kv_once_and_reduces_in_log_depth() {
    for number in 1..=20 {
        let planned = of(number, "flashforge");
        let (got, unit) = (bytes(&planned), Unit::of(&planned));
        let plan = &planned.plan;
        assert_eq!(got.kv_read.0, planned.tree.unique_tokens().0 * unit.kv, "configuration {number}");
        assert_eq!(got.q_read.0, plan.queries.len() as u64 * unit.q);
        // k partials of a query take k − 1 reductions, each of which reads two and writes one.
        let counts = plan.merge.starts.windows(2).map(|pair| u64::from(pair[1] - pair[0]));
        let counts: Vec<u64> = counts.filter(|count| *count > 1).collect();
        let written: u64 = counts.iter().map(|k| k + k - 2).sum();
        let read: u64 = counts.iter().map(|k| 2 * (k - 1)).sum();
        assert_eq!(got.partial_write.0, written * unit.max_sum, "configuration {number}");
        assert_eq!(got.partial_read.0, read * unit.max_sum, "configuration {number}");
        let rounds = u32::BITS - plan.merge.max_partials().saturating_sub(1).leading_zeros();
        assert_eq!(plan.merge.rounds.len(), rounds as usize, "the logarithm of the most partials");
    }
}

#[test]
fn deft_reads_a_node_once_for_64_queries() {
    for number in 1..=20 {
        let planned = of(number, "deft");
        let (got, unit) = (bytes(&planned), Unit::of(&planned));
        let kv: u64 = levels(&planned.tree).iter().flatten().map(|(l, n)| l * n.div_ceil(64)).sum();
        assert_eq!(got.kv_read.0, kv * unit.kv, "configuration {number}");
        let slots: u64 = levels(&planned.tree).iter().flatten().map(|(l, n)| l.div_ceil(128) * n).sum();
        assert_eq!(planned.plan.queries.len() as u64, slots, "chunks of 128 tokens");
    }
}

#[test]
fn pat_compute_packs_are_those_of_the_ablation() {
    for (number, packs, slots, kv) in [
        (1, 27, 135, None),
        (4, 72, 192, None),
        (5, 272, 512, None),
        (9, 288, 768, None),
        (10, 576, 1536, None),
        (11, 1408, 3840, Some(313_344)),
        (13, 1472, 4864, Some(73_728)),
        (15, 1472, 4864, Some(75_776)),
        (16, 304, 1008, Some(17_408)),
        (18, 304, 768, Some(40_960)),
    ] {
        assert_packs(&of(number, "pat-compute").plan, number, (packs, slots, kv));
    }
}

#[test]
fn the_ablations_of_pat_differ_in_what_they_leave_out_alone() {
    for number in [1, 4, 11, 17] {
        let plan = |scheduler| planned(&figure_10(number, 32, 8), scheduler, Strategy::Streams, A100).plan;
        let (pat, fixed, serial) = (plan("pat"), plan("pat-fixed"), plan("pat-serial"));
        assert_eq!(fixed.tiles().len(), 1, "configuration {number}");
        assert_eq!(fixed.kv_tokens_read(), pat.kv_tokens_read());
        assert_eq!((&serial.packs, &serial.order), (&pat.packs, &pat.order));
        assert!(serial.launches.iter().all(|launch| launch.stream == 0));
        assert!(pat.tiles().len() == 1 || pat.launches.iter().any(|launch| launch.stream > 0));
    }
}

/// `requests` requests with a common prefix and 32 tokens of their own.
fn sharing(prefix: u64, requests: u32, heads: (u32, u32)) -> BatchSpec {
    let shape = AttentionShape { query_heads: heads.0, kv_heads: heads.1, ..AttentionShape::default() };
    uniform(&[1, requests], &[prefix, 32], shape)
}

#[test]
fn vllm_takes_cascade_where_its_rule_says_so() {
    let taken = |spec: &BatchSpec| {
        let planned = planned(spec, "vllm-cascade-rule", Strategy::Serial, "h200-sxm");
        let cascade = planned.plan.launches.iter().any(|launch| launch.order == engine::plan::CtaOrder::QueryHeads);
        let decision = planned.plan.decisions.iter().find(|decision| decision.choice == Choice::Sharing).unwrap();
        assert_eq!(decision.chosen == 0, cascade, "the record says what was done");
        assert!(decision.rule.contains("vLLM 0.26, while 0.33 has no cascade attention"), "{}", decision.rule);
        if cascade {
            let (got, unit) = (bytes(&planned), Unit::of(&planned));
            let prefix = planned.tree.node(NodeIdx(0)).tokens.0;
            let readings = unit.requests.div_ceil(128) * unit.group;
            assert_eq!(got.kv_read.0, (prefix * readings + 32 * unit.requests) * unit.kv);
        }
        cascade
    };
    assert!(taken(&sharing(512, 64, (32, 8))), "4 waves against 16");
    assert!(!taken(&sharing(512, 8, (32, 8))), "4 waves against 2");
    assert!(!taken(&sharing(224, 64, (32, 8))), "too short");
    assert!(!taken(&sharing(4096, 7, (32, 8))), "too few requests");
    assert!(taken(&sharing(256, 8, (8, 8))), "no flash-decoding at group 1");
    assert!(!taken(&uniform(&[2, 64], &[4096, 32], AttentionShape::default())), "two prefixes");
    let about = engine::pack::find("vllm-cascade-rule").unwrap().about();
    assert!(about.contains("0.26 has it, 0.33 no longer"), "{about}");
}

fn refusal(spec: &BatchSpec, scheduler: &str, strategy: Strategy) -> String {
    let device = engine::hw::find("h200-sxm").unwrap();
    let options = PlanOptions { scheduler: scheduler.to_owned(), strategy, ..PlanOptions::new(device) };
    match plan_spec(spec, &options) {
        Err(error @ engine::Error::Unsupported { .. }) => error.to_string(),
        other => panic!("{scheduler} did not refuse: {other:?}"),
    }
}

#[test]
fn what_a_system_cannot_take_is_refused_with_its_limit() {
    let shape = AttentionShape::default();
    let heads = |query_heads, kv_heads| AttentionShape { query_heads, kv_heads, ..shape };
    let two_roots = uniform(&[2, 8], &[64, 32], shape);
    let one = BatchSpec { requests: vec![RequestSpec::Decode { kv: 100, count: 1 }], ..BatchSpec::empty(shape) };
    let apart = BatchSpec { requests: vec![RequestSpec::Decode { kv: 100, count: 5 }], ..BatchSpec::empty(shape) };
    let leaf = |tokens, repeat| NodeSpec { repeat, ..NodeSpec::leaf(tokens) };
    let node = |children| NodeSpec { children, ..NodeSpec::leaf(64) };
    let unequal = BatchSpec {
        roots: vec![node(vec![node(vec![leaf(32, 2)]), node(vec![leaf(32, 3)])])],
        ..BatchSpec::empty(shape)
    };
    let ends_early =
        BatchSpec { roots: vec![NodeSpec { requests: Some(1), ..node(vec![leaf(32, 3)]) }], ..BatchSpec::empty(shape) };
    let many = {
        // One path of 60 nodes at each of which a request ends: most are packs of their own.
        let above = |below, _| NodeSpec { requests: Some(1), children: vec![below], ..NodeSpec::leaf(1024) };
        let chain = (0..59).fold(NodeSpec::leaf(1024), above);
        BatchSpec { roots: vec![chain], ..BatchSpec::empty(heads(8, 1)) }
    };
    let small_head = BatchSpec { shape: AttentionShape { head_dim: 64, ..shape }, ..two_roots.clone() };
    let group = |query_heads, kv_heads| BatchSpec { shape: heads(query_heads, kv_heads), ..two_roots.clone() };
    let serial = Strategy::Serial;
    for (spec, scheduler, strategy, says) in [
        (&two_roots, "relay", serial, "2 roots"),
        (&two_roots, "relay-plus-plus", serial, "2 roots"),
        (&one, "relay", serial, "this batch is one request"),
        (&apart, "relay-plus-plus", serial, "5 roots"),
        (&apart, "hydragen", serial, "this batch has none"),
        (&unequal, "hydragen", serial, "groups of 2 to 3 requests"),
        (&ends_early, "hydragen", serial, "some end at level 0"),
        (&many, "pat-released", serial, "at most 32 partials"),
        (&group(16, 1), "pat-released", serial, "this shape has 16"),
        (&group(16, 1), "pat-compute", serial, "this shape has 16"),
        (&group(16, 8), "fasttree", serial, "this shape has 2"),
        (&small_head, "flashforge", serial, "head dimension 128, and this shape has 64"),
        (&sharing(512, 64, (32, 8)), "relay", Strategy::Fused, "use serial or streams"),
        (&sharing(512, 64, (32, 8)), "hydragen", Strategy::Fused, "use serial or streams"),
        (&sharing(512, 64, (32, 8)), "vllm-cascade-rule", Strategy::Fused, "use serial or streams"),
    ] {
        let text = refusal(spec, scheduler, strategy);
        assert!(text.starts_with(scheduler) && text.contains(says), "{scheduler}: '{text}' does not say '{says}'");
    }
}

#[test]
fn a_forest_under_fasttree_says_that_the_fix_is_ours() {
    let planned = planned(&uniform(&[2, 8], &[64, 32], AttentionShape::default()), "fasttree", Strategy::Serial, A100);
    assert!(planned.plan.decisions.iter().any(|decision| decision.sentence().contains("(ours)")));
}

/// Each scheduler writes down its choices: what was open, a price of each, and a taken one.
#[test]
fn every_scheduler_records_its_choices() {
    for number in [1, 4, 10] {
        for scheduler in engine::pack::schedulers() {
            let planned = of(number, scheduler.name());
            let plan = &planned.plan;
            assert_eq!(
                plan.decisions.iter().filter(|d| d.choice == Choice::Tile && d.unit == "padded rows").count(),
                plan.packs.len()
            );
            let launches = |d: &&Decision| d.choice == Choice::Launch && d.considered[0].what == "serial";
            assert_eq!(plan.decisions.iter().filter(launches).count(), 1);
            let own = plan.decisions.iter().filter(|d| matches!(d.choice, Choice::Sharing | Choice::Split));
            // One pack a node is no choice.
            assert!(scheduler.name().starts_with("naive") || own.count() > 0, "{} says nothing", scheduler.name());
            for decision in &plan.decisions {
                assert!(decision.taken().is_some(), "{}: {decision:?}", scheduler.name());
                assert!(decision.considered.iter().all(|way| way.cost.is_finite()), "{decision:?}");
            }
        }
    }
}

#[test]
fn partials_are_stored_in_the_form_of_the_system() {
    for (scheduler, form) in [
        ("hydragen", PartialForm::Native),
        ("flashforge", PartialForm::Fp32MaxSum),
        ("fasttree", PartialForm::Fp32),
        ("pat", PartialForm::Fp32),
    ] {
        let planned = of(4, scheduler);
        assert!(planned.plan.slot_forms().iter().all(|own| *own == Some(form)), "{scheduler}");
    }
}
