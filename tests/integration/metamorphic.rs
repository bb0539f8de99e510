//! Relations between runs that must hold whatever a run itself should give: all schedulers and strategies over
//! random small batches.
//!
//! The batches are drawn from a fixed seed, so that the bounds below are figures and not luck.

use std::sync::{Arc, LazyLock};

use engine::cancel::Cancel;
use engine::capture::L2State;
use engine::hw::{self, Device};
use engine::plan::Strategy as Launching;
use engine::session::{PlanOptions, Planned, RunOptions, plan_spec, simulate};
use engine::units::BlockIdx;
use engine::workload::{AttentionShape, BatchSpec, NodeSpec, RequestSpec};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// Batches of each test.
const BATCHES: usize = 12;

fn node(depth: u32) -> BoxedStrategy<NodeSpec> {
    let leaf = (1_u64..1500, 1_u32..9).prop_map(|(tokens, repeat)| NodeSpec { repeat, ..NodeSpec::leaf(tokens) });
    if depth == 0 {
        return leaf.boxed();
    }
    let inner = (1_u64..60, 1_u32..3, 0_u32..2, prop::collection::vec(node(depth - 1), 1..5)).prop_map(
        |(blocks, repeat, ending, children)| NodeSpec { tokens: 32 * blocks, repeat, requests: Some(ending), children },
    );
    prop_oneof![1 => leaf, 2 => inner].boxed()
}

fn batch() -> impl Strategy<Value = BatchSpec> {
    let heads = prop::sample::select(vec![(32, 8), (8, 8), (16, 4), (8, 1)]);
    let beside = (1_u64..8000, 1_u32..7).prop_map(|(kv, count)| RequestSpec::Decode { kv, count });
    (heads, prop::collection::vec(node(3), 1..4), prop::collection::vec(beside, 0..2)).prop_map(
        |((query_heads, kv_heads), roots, requests)| BatchSpec {
            roots,
            requests,
            ..BatchSpec::empty(AttentionShape { query_heads, kv_heads, ..AttentionShape::default() })
        },
    )
}

/// The batches with a shuffled order of the requests of each.
static SPECS: LazyLock<Vec<(BatchSpec, Vec<usize>)>> = LazyLock::new(|| {
    let mut runner = TestRunner::deterministic();
    let mut drawn = |_| {
        let spec = batch().new_tree(&mut runner).unwrap().current();
        let order: Vec<usize> = (0..spec.build().unwrap().requests().len()).collect();
        let order = Just(order).prop_shuffle().new_tree(&mut runner).unwrap().current();
        (spec, order)
    };
    (0..BATCHES).map(&mut drawn).collect()
});

/// A plan, where the system takes the batch.
fn plan(spec: &BatchSpec, scheduler: &str, strategy: Launching, device: &Device) -> Option<Planned> {
    let options = PlanOptions { scheduler: scheduler.to_owned(), strategy, explain: false, ..PlanOptions::new(device) };
    match plan_spec(spec, &options) {
        Ok(planned) => Some(planned),
        Err(engine::Error::Unsupported { .. }) => None,
        Err(error) => panic!("{scheduler} {strategy:?}: {error}"),
    }
}

fn time_in(planned: &Planned, l2: L2State) -> f64 {
    let capture = simulate(planned, &RunOptions { l2, ..RunOptions::default() }, &Cancel::default()).unwrap();
    capture.makespan().as_f64()
}

fn time(planned: &Planned) -> f64 {
    time_in(planned, L2State::Cold)
}

/// The same plan on another device.
fn on(planned: &Planned, change: impl FnOnce(&mut Device)) -> Planned {
    let mut options = (*planned.options).clone();
    change(&mut options.device);
    Planned { options: Arc::new(options), ..planned.clone() }
}

/// All repeats of a node and below it written out.
fn written_out(node: &NodeSpec) -> Vec<NodeSpec> {
    let children = node.children.iter().flat_map(written_out).collect();
    vec![NodeSpec { repeat: 1, children, ..node.clone() }; node.repeat as usize]
}

fn unrolled(spec: &BatchSpec) -> BatchSpec {
    let one = |request: &RequestSpec| match request {
        RequestSpec::Decode { kv, count } => vec![RequestSpec::Decode { kv: *kv, count: 1 }; *count as usize],
        other => vec![other.clone()],
    };
    BatchSpec {
        roots: spec.roots.iter().flat_map(written_out).collect(),
        requests: spec.requests.iter().flat_map(one).collect(),
        ..spec.clone()
    }
}

/// Every request with its block table, and blocks of other numbers.
fn as_tables(spec: &BatchSpec, rename: impl Fn(u32) -> u32) -> BatchSpec {
    let batch = spec.build().unwrap();
    let table = |row: &[BlockIdx]| row.iter().map(|block| rename(block.0)).collect();
    let requests = batch
        .decodes()
        .map(|(query, request)| RequestSpec::Blocks { kv: request.kv.0, blocks: table(batch.tables().row(query)) })
        .collect();
    BatchSpec { roots: Vec::new(), requests, ..spec.clone() }
}

fn permuted(spec: &BatchSpec, order: &[usize]) -> BatchSpec {
    let tables = as_tables(spec, |block| block);
    let requests = order.iter().map(|at| tables.requests[*at].clone()).collect();
    BatchSpec { requests, ..tables }
}

fn with_one_more(spec: &BatchSpec) -> BatchSpec {
    let mut more = spec.clone();
    more.requests.push(RequestSpec::Decode { kv: 700, count: 1 });
    more
}

/// One way of one batch.
struct Base {
    batch: usize,
    scheduler: &'static str,
    strategy: Launching,
    planned: Planned,
    time: f64,
}

static BASES: LazyLock<Vec<Base>> = LazyLock::new(|| {
    let mut bases = Vec::new();
    for (batch, (spec, _)) in SPECS.iter().enumerate() {
        for (scheduler, strategy) in crate::common::all_ways() {
            let device = hw::find(["h200-sxm", "a100-sxm-80gb"][batch % 2]).unwrap();
            if let Some(planned) = plan(spec, scheduler, strategy, device) {
                let time = time(&planned);
                bases.push(Base { batch, scheduler, strategy, planned, time });
            }
        }
    }
    bases
});

impl Base {
    /// The same way of another batch.
    fn of(&self, spec: &BatchSpec) -> Option<Planned> {
        plan(spec, self.scheduler, self.strategy, &self.planned.options.device)
    }

    fn name(&self) -> String {
        format!("{} {} on {}", self.scheduler, self.strategy.name(), self.planned.options.device.key)
    }
}

/// Holds a ratio of each way against its bounds, and tells all that are outside.
fn assert_within(what: &str, ratios: impl Iterator<Item = (&'static Base, f64)>, bounds: impl Fn(&Base) -> [f64; 2]) {
    let outside: Vec<String> = ratios
        .filter_map(|(base, ratio)| {
            let [least, most] = bounds(base);
            let told = format!("{ratio:.3}, but {least} to {most}: batch {}, {}", base.batch, base.name());
            (!(least..=most).contains(&ratio)).then_some(told)
        })
        .collect();
    assert!(outside.is_empty(), "{what}:\n{}", outside.join("\n"));
}

fn fused(base: &Base) -> bool {
    base.strategy == Launching::Fused
}

#[test]
fn repeats_written_out_block_tables_and_other_block_numbers_are_the_same_batch() {
    for base in BASES.iter() {
        let spec = &SPECS[base.batch].0;
        let renamed = |block: u32| block.wrapping_mul(2_654_435_761) % (1 << 30);
        for other in [unrolled(spec), as_tables(spec, |block| block), as_tables(spec, renamed)] {
            let other = base.of(&other).unwrap();
            assert_eq!((&base.planned.plan, &base.planned.tree), (&other.plan, &other.tree), "{}", base.name());
        }
    }
}

/// Kernels in a row: none is slower, but for a few hundredths where CTAs begin in another order. One persistent kernel: what ends sooner changes who comes last, and the last to
/// come merges, for a pack of many queries one after another.
#[test]
fn more_bandwidth_slows_no_kernels_in_a_row_and_a_persistent_one_by_whoever_comes_last() {
    let faster: [fn(&mut Device); 4] = [
        |device| device.hbm_bytes_per_s *= 2,
        |device| device.sim.l2_bytes_per_s *= 2,
        |device| device.sim.l2_peak_bytes_per_s *= 2,
        |device| device.sim.sm_bytes_per_s *= 2,
    ];
    let ratios = BASES
        .iter()
        .flat_map(|base| faster.iter().map(move |change| (base, time(&on(&base.planned, change)) / base.time)));
    assert_within("more bandwidth", ratios, |base| [0.4, if fused(base) { 1.4 } else { 1.04 }]);
}

/// A larger L2 holds more of the batch. But a cold run begins with an L2 full of what was written before, so the larger
/// one has more to write back first; it is slower by that time at most.
#[test]
fn a_larger_l2_slows_a_run_by_no_more_than_it_has_to_write_back() {
    let larger = |planned: &Planned| on(planned, |device| device.l2.0 *= 4);
    let clean = BASES.iter().map(|base| {
        let clean = on(&base.planned, |device| device.sim.cold_write_back = 0.0);
        (base, time(&larger(&clean)) / time(&clean))
    });
    assert_within("a larger L2 that is clean", clean, |base| [0.4, if fused(base) { 1.05 } else { 1.01 }]);
    let dirty = BASES.iter().map(|base| {
        let device = &base.planned.options.device;
        let written_before = 3.0 * device.l2.as_f64() * device.sim.l2_useful_fraction;
        let rate = device.reachable_bytes_per_s() * device.sim.tile_read_efficiency * 1e-9;
        let back = if device.sim.cold_write_back > 0.0 { written_before / rate } else { 0.0 };
        (base, time(&larger(&base.planned)) / (base.time + back))
    });
    assert_within("a larger L2 with lines to write back", dirty, |base| [0.1, if fused(base) { 1.03 } else { 1.01 }]);
}

/// What a request more may save, by the way in which a scheduler cuts long KV.
fn least_with_one_more(base: &Base) -> f64 {
    match base.scheduler {
        // A short request lowers the mean above which KV is cut.
        "pat" | "pat-fixed" | "pat-serial" => 0.6,
        // More packs change what is halved until the waves are full, and the chunk that still fits the grid.
        "pat-released" | "pat-compute" => 0.8,
        "flashinfer-decode" => 0.85,
        // Another number of splits for all: see the test of query-centric.
        "query-centric" | "vllm-cascade-rule" => 0.5,
        "cascade" if fused(base) => 0.65,
        _ if fused(base) => 0.94,
        // The smallest chunk of a level that fits may be a shorter one.
        "cascade" => 0.93,
        // Packs with more rows than their tile take turns on one CTA per SM, and one more moves the turns.
        "deft" => 0.94,
        // Cut for one kernel for all, packs fill the waves of kernels in a row better or worse as they come.
        "min-time" => 0.92,
        _ => 0.98,
    }
}

#[test]
fn a_request_more_takes_no_longer_than_both_apart_and_saves_time_only_where_long_kv_is_then_cut() {
    let more = BASES.iter().filter_map(|base| {
        let more = base.of(&with_one_more(&SPECS[base.batch].0))?;
        Some((base, time(&more)))
    });
    let more: Vec<(&Base, f64)> = more.collect();
    let saved = more.iter().map(|(base, more)| (*base, more / base.time));
    assert_within("a request more", saved, |base| [least_with_one_more(base), f64::INFINITY]);
    let apart = more.iter().filter_map(|(base, more)| {
        let alone = base.of(&with_one_more(&BatchSpec::empty(SPECS[base.batch].0.shape)))?;
        Some((*base, more / (base.time + time(&alone))))
    });
    assert_within("a request more against both apart", apart, |base| [0.0, if fused(base) { 1.8 } else { 1.02 }]);
}

/// FlashAttention's rule counts all requests as if they were as long as the longest, in whole waves, so that its number
/// of splits jumps. Beside one long request, a short one more can shorten a run, and does so by cutting the long one
/// into more pieces.
#[test]
fn a_request_more_shortens_query_centric_only_by_more_splits() {
    let mut least = 1.0_f64;
    let mut before: Option<(f64, u32)> = None;
    for count in 1..60 {
        let requests = vec![RequestSpec::Decode { kv: 32_768, count: 1 }, RequestSpec::Decode { kv: 64, count }];
        let spec = BatchSpec { requests, ..BatchSpec::empty(AttentionShape::default()) };
        let planned = plan(&spec, "query-centric", Launching::Serial, hw::find("h200-sxm").unwrap()).unwrap();
        let (time, splits) = (time(&planned), planned.plan.packs.len() as u32 - count);
        if let Some((last, last_splits)) = before.filter(|(last, _)| time < 0.98 * last) {
            least = least.min(time / last);
            assert!(splits > last_splits, "{count} requests: {last} → {time} ns with {last_splits} → {splits} splits");
        }
        before = Some((time, splits));
    }
    println!("a request more shortens query-centric to {least:.2}");
    assert!((0.4..0.8).contains(&least), "a request more shortens a run to {least}");
    let about = engine::pack::find("query-centric").unwrap().about();
    assert!(about.contains("one request more can change the splits of all"), "{about}");
}

/// What another order of the same requests may change. Packs are laid out as requests come; that moves who finds a
/// prefix in L2, what stands at the end of a queue, and under `fused` who comes last and merges.
fn order_bounds(base: &Base) -> [f64; 2] {
    match (base.scheduler, base.strategy) {
        ("cascade", Launching::Fused) => [0.65, 1.15],
        // Few long packs of one tile, in the order in which their nodes come.
        ("pat-fixed", Launching::Fused) => [0.75, 1.3],
        // Two CTAs share an SM, so a long request that comes last runs with others waiting no more: a tail.
        ("query-centric" | "vllm-cascade-rule", _) => [0.7, 1.45],
        // Requests in the order of the batch: a long one at the end makes a tail.
        ("flashinfer-decode" | "flashforge-division" | "flashforge-neither", _) => [0.7, 1.4],
        // The first of the longest packs is halved.
        ("pat-released" | "pat-compute", _) => [0.85, 1.2],
        _ => [0.88, 1.15],
    }
}

#[test]
fn permuted_requests_make_the_same_packs_and_move_a_run_within_what_order_decides() {
    let mut ratios = Vec::new();
    for base in BASES.iter() {
        let (spec, order) = &SPECS[base.batch];
        let other = base.of(&permuted(spec, order)).unwrap();
        assert_same_packs(base, &other);
        ratios.push((base, time(&other) / base.time));
    }
    assert_within("permuted requests", ratios.into_iter(), order_bounds);
}

/// The packs are the same but for their order; where ties decide, they move the same bytes.
fn assert_same_packs(base: &Base, other: &Planned) {
    let packs = |planned: &Planned| {
        let of = |pack: &engine::plan::PlannedPack| (pack.tokens, pack.queries_len, pack.blocks_begin, pack.tile);
        let mut all: Vec<_> = planned.plan.packs.iter().map(of).collect();
        all.sort_unstable();
        all
    };
    let bytes = |planned: &Planned| engine::metrics::traffic(&planned.plan, &planned.batch, &planned.tree).issued();
    match base.scheduler {
        "min-traffic" => assert_eq!(bytes(&base.planned), bytes(other), "{}", base.name()),
        // Children are taken one after another, and each answer changes the next question.
        "fasttree" | "min-time" | "pat-compute" | "pat-released" => {}
        _ => assert_eq!(packs(&base.planned), packs(other), "{}", base.name()),
    }
}

/// Ten requests of one prefix: the closed form gave sharing and one pack a query 10.7 µs each, and the order of the
/// requests decided. Shared, a pack of eight queries came last and merged for 17 µs.
#[test]
fn the_order_of_requests_does_not_decide_whether_min_time_shares() {
    let leaf = |tokens, repeat| NodeSpec { repeat, ..NodeSpec::leaf(tokens) };
    let shared = NodeSpec { children: vec![leaf(810, 3), leaf(908, 1), leaf(529, 6)], ..NodeSpec::leaf(672) };
    let shape = AttentionShape { query_heads: 8, kv_heads: 1, ..AttentionShape::default() };
    let spec = BatchSpec { roots: vec![leaf(1063, 5), leaf(318, 4), shared], ..BatchSpec::empty(shape) };
    let order: Vec<usize> = (0..19).rev().collect();
    let device = hw::find("h200-sxm").unwrap();
    for strategy in Launching::ANY_BATCH {
        let of = |spec: &BatchSpec| time(&plan(spec, "min-time", strategy, device).unwrap());
        let (there, back) = (of(&spec), of(&permuted(&spec, &order)));
        assert!((there / back - 1.0).abs() < 0.1, "{strategy:?}: {there} ns, backwards {back} ns");
    }
}
