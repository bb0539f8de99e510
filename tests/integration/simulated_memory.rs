//! What simulated runs take of HBM and L2.

use std::collections::BTreeSet;

use engine::hw::Device;
use engine::plan::Strategy as Launching;
use engine::workload::{AttentionShape, BatchSpec, RequestSpec, parse_tree};

use crate::simulation::{decodes, h200, makespan, plan, run, tree};

/// SMs share HBM about alike, so those with more workers than others end later: on an H200 144 workers of requests of one length
/// read 8 to 11 % slower than 128, and 192 5 to 9.
#[test]
fn hbm_gives_less_where_some_sms_hold_more_workers_than_others() {
    // Each request has two workers, of four KV heads; 132 SMs hold two each.
    let time = |requests: u32, short: u32| {
        let mut spec = decodes(requests, 16_384);
        spec.requests.push(RequestSpec::Decode { kv: 64, count: short });
        makespan(&spec, "naive", Launching::Fused, h200()) / f64::from(requests)
    };
    let even = time(64, 0);
    for (requests, longer) in [(72, 1.08..1.12), (96, 1.04..1.08), (128, 0.98..1.01), (132, 0.98..1.01)] {
        let ratio = time(requests, 0) / even;
        assert!(longer.contains(&ratio), "{requests}: {ratio}");
    }
    let beside_short = time(64, 4) / even;
    assert!((0.99..1.01).contains(&beside_short), "what the fullest have more is little: {beside_short}");
}

/// What L2 held before goes back to HBM with what comes, and little of it with what is marked to leave first: KV that one
/// pack alone reads, where the plan reads little.
#[test]
fn marked_reads_leave_in_l2_most_of_what_was_there_before() {
    // Slow enough that nothing but memory takes time.
    let device = Device { hbm_bytes_per_s: 1_000_000_000_000, ..h200().clone() };
    let gained = |spec: &BatchSpec, scheduler: &str, least: f64, most: f64| {
        let unmarked = Device { marked_reads: None, ..device.clone() };
        let [without, with] = [&unmarked, &device].map(|device| makespan(spec, scheduler, Launching::Fused, device));
        assert!((least..=most).contains(&(without - with)), "{scheduler}: {without} without, {with} with");
    };
    let marks = device.marked_reads.unwrap();
    let token = AttentionShape::default().kv_bytes_per_token();
    let tokens = marks.kv_bytes.0 / token.0;
    // An eighth of what may be marked, of which not all that L2 held is driven out.
    let back = |part: f64| {
        let back = marks.kv_bytes.as_f64() / 8.0 * device.sim.cold_write_back * part;
        assert!(back < device.dirty_bytes(), "{back} of {}", device.dirty_bytes());
        back / (device.reachable_bytes_per_s() * 1e-9)
    };
    let expected = back(1.0) - back(marks.written_back);
    gained(&decodes(132, tokens / 8 / 132), "naive", 0.8 * expected, 1.2 * expected);
    gained(&decodes(132, tokens / 132 + 16), "naive", 0.0, 0.0);
    // Each request's path in one pack: others read part of it too.
    let shared = tree("1,64_512,64");
    gained(&shared, "query-centric", 0.0, 0.0);
    gained(&shared, "min-time", 100.0, expected);
    // Tokens of small blocks do not come by copies that mark.
    let mut small = decodes(132, tokens / 8 / 132);
    small.shape.block_size = 8;
    gained(&small, "naive", 0.0, 0.0);
}

/// Packs that are read head by head write their partials all along the run, so that L2 holds no more of them at its end
/// than it has room for.
#[test]
fn a_merge_finds_in_l2_what_was_written_last_and_reads_the_rest_from_hbm() {
    let shape = AttentionShape { query_heads: 48, kv_heads: 8, ..AttentionShape::default() };
    let spec = BatchSpec { requests: vec![RequestSpec::Decode { kv: 12_000, count: 100 }], ..BatchSpec::empty(shape) };
    let planned = plan(&spec, "deft", Launching::Serial, h200(), None);
    let capture = run(&planned);
    let merge = capture.kernels.iter().find(|window| planned.plan.launches[window.launch as usize].kind.is_merge());
    let begin = merge.unwrap().begin.0;
    let reads = capture.counters.iter().find(|series| series.name == "dram_read").unwrap();
    let at = |step: usize| reads.start.0 + step as u64 * reads.step.0;
    let of_merge = (0..reads.values.len()).filter(|step| at(*step) >= begin).map(|step| reads.values[step]);
    let read = of_merge.sum::<f64>() * reads.step.as_f64() * 1e-9;
    let slots: u32 = planned.plan.packs.iter().map(|pack| pack.queries_len).sum();
    let partials = f64::from(slots) * shape.partial_bytes().as_f64();
    let (l2, least) = (h200().l2.as_f64(), partials - 2.0 * h200().l2.as_f64());
    assert!(partials > 3.0 * l2 && read >= least, "{read} of {partials} bytes, L2 holds {l2}");
}

/// 20 requests of 7 rows each are packs of 9, 9 and 2, and those of two are cut at other places.
#[test]
fn kv_that_a_pack_of_another_cut_has_read_is_found_in_l2() {
    let shape = AttentionShape { query_heads: 28, kv_heads: 4, ..AttentionShape::default() };
    let planned = plan(&parse_tree("1,20_5984,500", shape).unwrap(), "min-time", Launching::Fused, h200(), None);
    let shared = planned.plan.packs.iter().filter(|pack| pack.queries_len > 1);
    let cuts: BTreeSet<(u32, u32)> =
        shared.map(|pack| (pack.queries_len, pack.blocks_end - pack.blocks_begin)).collect();
    assert!(cuts.len() > 2, "{cuts:?}");
    let capture = run(&planned);
    let reads = capture.counters.iter().find(|series| series.name == "dram_read").unwrap();
    let read = reads.values.iter().sum::<f64>() * reads.step.as_f64() * 1e-9;
    let kv = (shape.kv_bytes_per_token() * (5984 + 20 * 500)).as_f64();
    assert!(read > kv && read < 1.1 * kv, "{read} of {kv} bytes");
}
