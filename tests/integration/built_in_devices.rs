//! The built-in devices: each plans and simulates whatever it offers, no run is faster than its floor, and where nobody
//! calibrated the simulator every figure says so.

use engine::Error;
use engine::cancel::Cancel;
use engine::capture::verify;
use engine::hw::{self, Device};
use engine::plan::Strategy;
use engine::plan::hybrid::offered;
use engine::session::{PlanOptions, RunOptions, oracle_ns, plan_spec, simulate};
use engine::workload::{AttentionShape, BatchSpec, RequestSpec, parse_tree};

/// Small, large and hybrid batches, at every head dimension.
fn batches() -> Vec<(&'static str, BatchSpec)> {
    let shape = AttentionShape::default();
    let tree = |text, shape| parse_tree(text, shape).unwrap();
    let hybrid = |decodes: u32, kv: u64, chunk: u64| {
        let mut spec = BatchSpec::empty(AttentionShape { query_heads: 16, kv_heads: 4, ..shape });
        spec.requests = vec![RequestSpec::Decode { kv, count: decodes }, RequestSpec::Prefill { kv, chunk }];
        spec
    };
    vec![
        ("tiny", tree("1,2_64,32", shape)),
        ("large", tree("1,4,16,512_1024,256,128,512", shape)),
        ("d 64", tree("1,8_512,96", AttentionShape { head_dim: 64, ..shape })),
        ("d 256", tree("1,8_512,96", AttentionShape { head_dim: 256, block_size: 16, ..shape })),
        ("MQA, blocks of 1", tree("1,8_512,96", AttentionShape { kv_heads: 1, block_size: 1, ..shape })),
        ("small hybrid", hybrid(4, 512, 128)),
        ("large hybrid", hybrid(80, 12_288, 1024)),
    ]
}

/// Runs a batch on a device: the makespan beside its floor, in ns; or why the device refuses it.
fn run(device: &Device, spec: &BatchSpec, scheduler: &str, strategy: Strategy) -> Result<(f64, f64), String> {
    let options = PlanOptions { scheduler: scheduler.to_owned(), strategy, explain: false, ..PlanOptions::new(device) };
    let told = |error: Error| match error {
        Error::Unsupported { .. } | Error::Device(_) => Err(error.to_string()),
        other => panic!("{}, {scheduler} under {}: {other}", device.key, strategy.name()),
    };
    let planned = match plan_spec(spec, &options) {
        Ok(planned) => planned,
        Err(error) => return told(error),
    };
    match simulate(&planned, &RunOptions::default(), &Cancel::default()) {
        Ok(capture) => {
            assert_eq!(verify(&capture), [], "{}, {scheduler} under {}", device.key, strategy.name());
            assert_eq!(capture.provenance.calibrated, device.calibrated);
            Ok((capture.makespan().as_f64(), oracle_ns(&planned)))
        }
        Err(error) => told(error),
    }
}

#[test]
fn every_device_runs_every_batch_under_every_strategy_that_it_offers() {
    for device in hw::builtin() {
        let mut refused = Vec::new();
        for (name, spec) in batches() {
            for strategy in offered(device, &spec.build().unwrap()) {
                for scheduler in ["pat", "min-time", "query-centric"] {
                    match run(device, &spec, scheduler, strategy) {
                        Ok((took, floor)) => {
                            let what = format!("{}, {name}, {scheduler} under {}", device.key, strategy.name());
                            assert!(took >= floor && floor > 0.0, "{what}: {took} ns, floor {floor}");
                            assert!(took < 1e9, "{what}: {took} ns");
                        }
                        Err(why) => refused.push(format!("{name}, {scheduler} under {}: {why}", strategy.name())),
                    }
                }
            }
        }
        println!("{}: {refused:#?}", device.key);
        assert_eq!(refused, [] as [String; 0], "{}", device.key);
    }
}
