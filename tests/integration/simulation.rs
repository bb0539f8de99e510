//! Laws that the simulator and the bubble metrics must obey on any batch, and the directions of the
//! papers' own experiments on the A100 model.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use engine::cancel::Cancel;
use engine::capture::Capture;
use engine::hw::{self, Device, SimConstants};
use engine::metrics::{self, BubbleCause};
use engine::plan::Strategy as Launching;
use engine::session::{PlanOptions, Planned, RunOptions, plan_spec, report_of, simulate};
use engine::tile::Tile;
use engine::units::Nanos;
use engine::workload::{AttentionShape, BatchSpec, NodeSpec, RequestSpec, parse_tree};
use proptest::prelude::*;

/// Rows of the decode kernel for packs of few of them.
const FEW_ROWS: u32 = 8;

/// PAT's Figure 10, configurations 1 to 18: those with a shared prefix.
const SHARED: [&str; 18] = [
    "1,10_4096,416",
    "1,256_256,32",
    "1,1024_2048,32",
    "1,2,64_1024,256,256",
    "1,4,256_32,256,32",
    "1,8,512_32,512,256",
    "1,8,512_32,2048,256",
    "1,8,512_512,512,256",
    "1,4,8,256_32,256,256,32",
    "1,4,16,512_1024,256,128,32",
    "1,4,16,64,256,1024_256,32,256,64,32,256",
    "1,16,32,64,128,1024_256,128,64,32,32,32",
    "1,16,32,64,256,1024_256,128,64,32,32,32",
    "1,8,16,32,64,128,1024_256,128,64,32,32,32,32",
    "1,8,16,32,64,256,1024_256,128,64,32,32,32,32",
    "2,8,16,256_256,256,32,32",
    "4,16,256,512_512,32,128,32",
    "8,16,32,256_512,512,256,32",
];

pub(crate) fn tree(text: &str) -> BatchSpec {
    parse_tree(text, AttentionShape::default()).unwrap()
}

pub(crate) fn decodes(count: u32, kv: u64) -> BatchSpec {
    let requests = vec![RequestSpec::Decode { kv, count }];
    BatchSpec { requests, ..BatchSpec::empty(AttentionShape::default()) }
}

pub(crate) fn plan(
    spec: &BatchSpec,
    scheduler: &str,
    strategy: Launching,
    device: &Device,
    tile: Option<Tile>,
) -> Planned {
    let options = PlanOptions { scheduler: scheduler.to_owned(), strategy, tile, ..PlanOptions::new(device) };
    plan_spec(spec, &options).unwrap()
}

pub(crate) fn run(planned: &Planned) -> Capture {
    simulate(planned, &RunOptions::default(), &Cancel::default()).unwrap()
}

pub(crate) fn makespan(spec: &BatchSpec, scheduler: &str, strategy: Launching, device: &Device) -> f64 {
    run(&plan(spec, scheduler, strategy, device, None)).makespan().as_f64()
}

fn a100() -> &'static Device {
    hw::find("a100-sxm-80gb").unwrap()
}

pub(crate) fn h200() -> &'static Device {
    hw::find("h200-sxm").unwrap()
}

/// Everything that must hold of any run.
fn assert_lawful(planned: &Planned, capture: &Capture, device: &Device) {
    let report = report_of(&planned.batch, &planned.tree, capture);
    let seconds = capture.makespan().as_f64() * 1e-9;
    let least = report.traffic.compulsory.as_f64() / device.hbm_bytes_per_s as f64;
    assert!(seconds >= least, "{seconds} s is faster than the bandwidth allows, {least} s");
    let flop: f64 = planned.plan.packs.iter().map(|p| p.tokens.as_f64() * f64::from(p.queries_len)).sum::<f64>()
        * f64::from(planned.plan.shape.query_heads)
        * f64::from(planned.plan.shape.head_dim)
        * 4.0;
    assert!(seconds >= flop / device.tensor_flops as f64, "faster than the tensor cores allow");

    let mut seen: Vec<(u32, u32)> = Vec::new();
    for span in capture.spans.iter() {
        assert!(span.begin <= span.first_tile && span.first_tile <= span.loop_end && span.loop_end <= span.end);
        assert!(span.begin < span.end);
        let merge_kernel = planned.plan.launches[span.launch as usize].kind.is_merge();
        if span.role.computes() || merge_kernel {
            seen.push((span.launch, span.cta));
        }
    }
    seen.sort_unstable();
    let all: Vec<(u32, u32)> = planned
        .plan
        .launches
        .iter()
        .enumerate()
        .flat_map(|(at, launch)| planned.plan.ctas(launch).into_iter().map(move |cta| (at as u32, cta)))
        .collect();
    assert_eq!(seen, all, "every CTA once");

    if let Some(dram) = report.bandwidth.dram_read {
        // A series is stored as rates, so its integral is exact but for rounding.
        // Partials come from there where L2 has lost them.
        let asked = (report.traffic.kv_read + report.traffic.q_read + report.traffic.partial_read).as_f64();
        let unique = (planned.plan.shape.kv_bytes_per_token() * planned.tree.unique_tokens().0).as_f64();
        assert!(dram.as_f64() <= asked * 1.001 + 1024.0, "{dram} from DRAM, but only {asked} B were asked for");
        assert!(dram.as_f64() >= unique * 0.999 - 1024.0, "{dram} from DRAM, but {unique} B of KV are unique");
    }
    assert_identity(planned, capture);
}

/// busy + bubbles = slots × makespan, by the report and by the drawn gaps.
fn assert_identity(planned: &Planned, capture: &Capture) {
    let report = metrics::bubbles(&planned.plan, capture);
    let idle: u64 = report.bubbles.iter().map(|b| b.slot_time.0).sum();
    assert_eq!(report.busy_slot.0 + idle, report.slots * report.makespan.0);
    let drawn: u64 = metrics::gaps(&planned.plan, capture).iter().map(|gap| (gap.end - gap.begin).0).sum();
    assert_eq!(drawn, idle, "the gaps that are drawn are the bubbles");
}

#[test]
fn no_wave_bubble_where_the_paper_has_none() {
    let wave = |requests| {
        let planned = plan(&decodes(requests, 1024), "pat", Launching::Streams, a100(), None);
        let report = metrics::bubbles(&planned.plan, &run(&planned));
        report.share(report.of(BubbleCause::WaveQuantisation))
    };
    assert!(wave(1134) < 1e-9, "1,134 requests are 42 full waves");
    assert!(wave(1135) > 0.005, "one more begins a 43rd");
}

#[test]
fn streams_beat_serial_where_tiles_differ() {
    let mut gain = Vec::new();
    for text in SHARED {
        let spec = tree(text);
        if plan(&spec, "pat", Launching::Streams, a100(), None).plan.tiles().len() > 1 {
            let time = |strategy| makespan(&spec, "pat", strategy, a100());
            gain.push(time(Launching::Serial) / time(Launching::Streams));
        }
    }
    let mean = gain.iter().sum::<f64>() / gain.len() as f64;
    assert!(gain.len() >= 10 && mean > 1.0, "serial / streams is {mean:.3} over {} configurations", gain.len());
}

#[test]
fn one_fixed_tile_is_slower_than_many() {
    let mut ratio = 0.0;
    for text in SHARED {
        let spec = tree(text);
        let time = |tile| run(&plan(&spec, "pat", Launching::Streams, a100(), tile)).makespan().as_f64();
        ratio += time(Some(Tile { m: 64, n: 128 })) / time(None) / SHARED.len() as f64;
    }
    assert!(ratio > 1.0, "fixed / multi-tile is {ratio:.3}");
}

#[test]
fn splitting_a_long_kv_shortens_the_tail() {
    let mut spec = decodes(64, 1024);
    spec.requests.push(RequestSpec::Decode { kv: 65_536, count: 1 });
    let whole = makespan(&spec, "naive", Launching::Streams, a100());
    let split = makespan(&spec, "pat", Launching::Streams, a100());
    assert!(split < 0.6 * whole, "split {split} ns, whole {whole} ns");
}

#[test]
fn the_same_input_gives_the_same_bytes_and_a_cancelled_run_stops() {
    let planned = plan(&tree(SHARED[10]), "pat", Launching::Fused, h200(), None);
    assert_eq!(run(&planned), run(&planned));
    let cancel = Cancel::default();
    cancel.cancel();
    assert!(matches!(simulate(&planned, &RunOptions::default(), &cancel), Err(engine::Error::Cancelled)));
}

#[test]
fn one_cta_takes_the_time_of_the_cost_model() {
    for kv in [1_u64, 16, 100, 1000, 4096, 65_536] {
        let shape = AttentionShape { query_heads: 4, kv_heads: 1, ..AttentionShape::default() };
        let requests = vec![RequestSpec::Decode { kv, count: 1 }];
        let spec = BatchSpec { requests, ..BatchSpec::empty(shape) };
        let planned = plan(&spec, "naive", Launching::Serial, h200(), None);
        assert_eq!(planned.plan.attention_ctas(), 1, "{kv} tokens");
        let simulated = run(&planned).makespan().as_f64();
        let closed = engine::backend::sim::one_cta_time(h200(), &planned.plan).unwrap();
        assert!((simulated - closed).abs() <= 3.0, "{kv} tokens: simulated {simulated} ns, closed form {closed} ns");
    }
}

/// What is between launches: of one stream less before a merge than before attention, and of several a fork and a join for
/// each stream but the first.
#[test]
fn launches_wait_for_what_is_before_them() {
    const MORE: u64 = 10_000;
    let spec = tree(SHARED[4]);
    let longer = |strategy: Launching, change: fn(&mut SimConstants)| {
        let mut device = a100().clone();
        let before = run(&plan(&spec, "pat", strategy, &device, None)).makespan();
        change(&mut device.sim);
        run(&plan(&spec, "pat", strategy, &device, None)).makespan().0 - before.0
    };
    let launches = plan(&spec, "pat", Launching::Serial, a100(), None).plan.launches.clone();
    let merges = launches.iter().filter(|launch| launch.kind.is_merge()).count() as u64;
    let further = launches.len() as u64 - merges - 1;
    assert!(further > 0 && merges == 1, "{further} {merges}");
    assert_eq!(longer(Launching::Serial, |sim| sim.attention_gap.0 += MORE), further * MORE);
    assert_eq!(longer(Launching::Serial, |sim| sim.kernel_gap.0 += MORE), (further + merges) * MORE);
    assert_eq!(longer(Launching::Serial, |sim| (sim.stream_fork.0, sim.stream_join.0) = (MORE, MORE)), 0);
    // Each tile has a stream of its own.
    assert_eq!(longer(Launching::Streams, |sim| sim.stream_fork.0 += MORE), further * MORE);
    assert_eq!(longer(Launching::Streams, |sim| sim.stream_join.0 += MORE), further * MORE);
    assert_eq!(longer(Launching::Streams, |sim| sim.attention_gap.0 += MORE), 0);
}

/// A CTA whose steps were measured takes a part of one longer, and another does not.
#[test]
fn a_cta_computes_part_of_a_step_when_its_last_tile_has_come() {
    let spec = decodes(1, 200);
    let longer = |device: &Device| {
        let with = |last_step: f64| {
            let mut device = device.clone();
            device.sim.last_step = last_step;
            let planned = plan(&spec, "pat", Launching::Serial, &device, None);
            assert_eq!(planned.plan.launches.len(), 1, "no merge behind it");
            let tile = planned.plan.packs[0].tile;
            let of = |m: u32| device.kernels.iter().find(|kernel| (kernel.m, kernel.n) == (m, tile.n));
            // Packs of four rows run on the kernel of eight where a device has one.
            let kernel = of(FEW_ROWS).or_else(|| of(tile.m)).unwrap();
            (run(&planned).makespan().as_f64(), kernel.chain.map_or(0.0, Nanos::as_f64))
        };
        let ((before, chain), (after, _)) = (with(0.0), with(0.5));
        (after - before, 0.5 * chain)
    };
    for device in ["h100-sxm", "h200-sxm"] {
        let (longer, half) = longer(hw::find(device).unwrap());
        assert!(half > 0.0 && (longer - half).abs() <= 2.0, "{longer} ns longer on {device}, half a step is {half}");
    }
    assert_eq!(longer(a100()), (0.0, 0.0));
}

/// Nine rows need the kernel of sixteen, which takes longer for a step, and then all packs of the tile run on it.
#[test]
fn packs_of_few_rows_run_on_their_own_kernel_where_none_of_their_tile_has_more() {
    const STEPS: u64 = 500;
    let chain = |m: u32| {
        let kernel = h200().kernels.iter().find(|kernel| (kernel.m, kernel.n) == (m, 16)).unwrap();
        kernel.chain.unwrap().as_f64()
    };
    let time = |query_heads: u32, nodes: Vec<NodeSpec>| {
        let shape = AttentionShape { query_heads, kv_heads: 8, ..AttentionShape::default() };
        let spec = BatchSpec { roots: nodes, ..BatchSpec::empty(shape) };
        let planned = plan(&spec, "naive", Launching::Fused, h200(), None);
        assert!(planned.plan.packs.iter().all(|pack| pack.tile == Tile { m: 16, n: 16 }));
        run(&planned).makespan().as_f64()
    };
    let node = |tokens: u64, requests: u32| NodeSpec { tokens, repeat: 1, requests: Some(requests), children: vec![] };
    let (eight, nine) = (time(64, vec![node(STEPS * 16, 1)]), time(72, vec![node(STEPS * 16, 1)]));
    let more = STEPS as f64 * (chain(16) - chain(FEW_ROWS));
    assert!(more > 0.0 && ((nine - eight) / more - 1.0).abs() < 0.08, "{eight} {nine}, steps are {more} longer");
    // What else there is to fetch and compute hides a little of it. Three queries of four heads each beside a long one of one.
    let (alone, beside) = (time(32, vec![node(STEPS * 16, 1)]), time(32, vec![node(STEPS * 16, 1), node(16, 3)]));
    assert!(((beside - alone) / more - 1.0).abs() < 0.08, "{alone} {beside}");
}

/// The place of a CTA is free for the next one a while after its end; a worker takes its next task at once.
#[test]
fn the_next_cta_begins_a_turnover_after_the_one_before_it_has_ended() {
    const TURNOVER: Nanos = Nanos(7_000);
    let mut device = h200().clone();
    device.sim.cta_turnover = TURNOVER;
    let gaps = |strategy: Launching| {
        let capture = run(&plan(&decodes(600, 500), "naive", strategy, &device, None));
        let mut places: BTreeMap<(u32, u32), Vec<(Nanos, Nanos)>> = BTreeMap::new();
        for span in capture.spans.iter() {
            places.entry((span.sm, span.slot)).or_default().push((span.begin, span.end));
        }
        let mut gaps = Vec::new();
        for spans in places.values_mut() {
            spans.sort_unstable();
            gaps.extend(spans.windows(2).map(|two| two[1].0.0 - two[0].1.0));
        }
        assert!(gaps.len() > 300, "{} CTAs follow others", gaps.len());
        gaps
    };
    let serial = gaps(Launching::Serial);
    // Rounded to whole nanoseconds at both ends.
    assert!(serial.iter().all(|gap| gap + 1 >= TURNOVER.0), "{:?}", serial.iter().min());
    let fused = gaps(Launching::Fused);
    assert!(fused.iter().all(|gap| *gap <= 2), "{:?}", fused.iter().max());
}

/// The prefill kernel claims items KV head by KV head, and of a head the longest first, whatever the plan's order.
#[test]
fn packs_on_the_prefill_kernel_begin_head_by_head_and_the_longest_first() {
    let planned = plan(&tree("1,600_128,2000"), "deft", Launching::Serial, h200(), None);
    let launch = &planned.plan.launches[0];
    assert!(planned.plan.is_gathered(launch));
    let mut turns: Vec<(Nanos, u32, Reverse<u64>)> = Vec::new();
    for span in run(&planned).spans.iter().filter(|span| span.launch == 0) {
        let decode = planned.plan.decode_at(launch, span.cta);
        turns.push((span.begin, decode.kv_head, Reverse(planned.plan.pack(decode.pack).tokens.0)));
    }
    turns.sort_unstable();
    assert!(turns.is_sorted_by_key(|(_, head, tokens)| (*head, *tokens)), "{turns:?}");
    assert!(turns.first().map(|turn| turn.2) < turns.last().map(|turn| turn.2), "of several lengths");
}

/// What a merge writes is behind it: of heads that its warps take at once, more take no longer, and those of a further round
/// do.
#[test]
fn a_merge_takes_rounds_and_not_the_bytes_that_it_writes() {
    let merge = |query_heads: u32| {
        let shape = AttentionShape { query_heads, kv_heads: 8, ..AttentionShape::default() };
        let spec = BatchSpec { requests: vec![RequestSpec::Decode { kv: 64, count: 1 }], ..BatchSpec::empty(shape) };
        let capture = run(&plan(&spec, "flashforge", Launching::Serial, h200(), None));
        let last = capture.spans.iter().max_by_key(|span| span.end).unwrap();
        assert!(capture.spans.len() > 8, "{query_heads}");
        last.end.0 - last.begin.0
    };
    let at_once = h200().merge_kernel.map(|kernel| kernel.heads * kernel.warps).unwrap();
    assert_eq!(at_once, 32);
    assert_eq!(merge(16), merge(32));
    assert!(merge(48) > merge(32) && merge(48) == merge(64));
}

#[test]
fn damaged_spans_keep_the_identity() {
    let planned = plan(&tree(SHARED[3]), "pat", Launching::Streams, h200(), None);
    let mut capture = run(&planned);
    let count = capture.spans.len();
    for at in (0..count).step_by(7) {
        capture.spans.begin[at] = capture.spans.begin[at].saturating_sub(20_000);
    }
    capture.spans.begin[count / 2] = u64::MAX;
    capture.spans.sm[count / 3] = 9_999;
    capture.spans.launch[count / 4] = 77;
    capture.spans.begin.swap(0, count - 1);
    assert_identity(&planned, &capture);
    let report = metrics::bubbles(&planned.plan, &capture);
    assert_eq!(report.warnings.len(), 2, "{:?}", report.warnings);
    // What the bubbles left out reaches whoever reads the run.
    let figures = report_of(&planned.batch, &planned.tree, &capture);
    let plan = engine::export::plan_json(&planned.batch, &planned.tree, &planned.plan, None);
    let told = engine::export::run_json(plan, &capture, &figures.bubbles, &figures.bandwidth, None);
    assert_eq!(told.warnings, report.warnings);
}

fn forest() -> impl Strategy<Value = BatchSpec> {
    let leaf = (1_u64..700, 1_u32..6).prop_map(|(tokens, repeat)| NodeSpec { repeat, ..NodeSpec::leaf(tokens) });
    let root = (1_u64..40, 0_u32..3, prop::collection::vec(leaf, 1..5)).prop_map(|(blocks, ending, children)| {
        NodeSpec { tokens: 32 * blocks, repeat: 1, requests: Some(ending), children }
    });
    let heads = prop::sample::select(vec![(4, 1), (8, 8), (32, 8), (16, 1)]);
    (prop::collection::vec(root, 1..4), heads).prop_map(|(roots, (query_heads, kv_heads))| BatchSpec {
        roots,
        ..BatchSpec::empty(AttentionShape { query_heads, kv_heads, ..AttentionShape::default() })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_run_is_lawful(spec in forest(), on_a100 in any::<bool>()) {
        let device = if on_a100 { a100() } else { h200() };
        for (scheduler, strategy) in crate::common::all_ways() {
            if let Some(planned) = crate::common::planned_if_allowed(&spec, scheduler, strategy, &device.key) {
                assert_lawful(&planned, &run(&planned), device);
            }
        }
    }

    #[test]
    fn residency_stays_within_occupancy(count in 1_u32..300, kv in 1_u64..2000) {
        let planned = plan(&decodes(count, kv), "naive", Launching::Serial, h200(), None);
        let capture = run(&planned);
        for span in capture.spans.iter() {
            let kind = planned.plan.launches[span.launch as usize].kind;
            if let engine::plan::LaunchKind::Attention(tile) = kind {
                let occupancy = engine::tile::occupancy(h200(), tile, 128, planned.plan.shape.dtype);
                prop_assert!(span.slot < occupancy, "lane {} of a tile {tile} that fits {occupancy} times", span.slot);
            }
        }
    }

    /// While no bandwidth and no tensor time is shared, N equal CTAs take `ceil(N / lanes)` turns, and more SMs are
    /// never worse. Where HBM binds the law does not hold in general, nor on a real GPU: five CTAs
    /// that fill the bandwidth, twice, end before eight at once that share it and two more that
    /// leave most of it idle.
    #[test]
    fn more_sms_never_slow_equal_ctas_that_share_no_bandwidth(
        count in 1_u32..400, blocks in 1_u64..94, more in 1_u32..100,
    ) {
        let mut device = h200().clone();
        device.hbm_bytes_per_s *= 1000;
        device.sim.l2_bytes_per_s *= 300;
        device.sim.l2_peak_bytes_per_s *= 300;
        device.sim.sm_bytes_per_s *= 1000;
        device.tensor_flops *= 1000;
        // The latency is kept; bytes in flight then look too few for such a memory, so the tile is given.
        let time = |device: &Device| {
            let options = PlanOptions { scheduler: "query-centric".to_owned(), strategy: Launching::Serial, ..PlanOptions::new(device) };
            run(&plan_spec(&decodes(count, 32 * blocks), &options).unwrap()).makespan().as_f64()
        };
        let mut wide = device.clone();
        wide.sm_count += more;
        // FlashDecoding splits by the number of SMs; only unsplit plans compare like with like.
        prop_assume!(count * 8 >= 2 * wide.sm_count);
        let (base, wider) = (time(&device), time(&wide));
        prop_assert!(wider <= base + 2.0, "{wider} ns on more SMs against {base} ns");
    }

    #[test]
    fn more_bandwidth_never_slows_equal_ctas(count in 1_u32..200, blocks in 1_u64..94, more in 1_u32..60) {
        // Whole blocks: a partly filled one may become a pack of its own, and the CTAs unequal.
        let spec = decodes(count, 32 * blocks);
        let time = |device: &Device| {
            makespan(&spec, "naive", Launching::Serial, device)
        };
        let base = time(h200());
        let mut wide = h200().clone();
        wide.hbm_bytes_per_s += u64::from(more) * 100_000_000_000;
        prop_assert!(time(&wide) <= base + 2.0, "bandwidth: {} against {base}", time(&wide));
    }
}
