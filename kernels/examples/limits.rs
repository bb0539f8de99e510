//! Measures what this GPU can do at best, cold reads and tensor rate, and prints it beside an earlier measurement:
//! `limits LIMITS.json`.

// A tool for whoever tunes the kernels: it stops where something is wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kernels::{Compiler, Dtype, Gpu, Protocol, co_run, fill_random, mma_rate, read_time};

fn main() {
    let path = std::env::args().nth(1).expect("the file of an earlier measurement");
    let json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let gpu = match Gpu::open(0) {
        Ok(gpu) => gpu,
        Err(e) => return println!("skipped: {e}"),
    };
    let compiler = Compiler::new(gpu.arch(), None).unwrap();
    let stream = gpu.stream().unwrap();
    let cold = Protocol::cold(&gpu).unwrap();
    let points = json["cold_read"]["points"].as_array().unwrap();
    let mib = |p: &serde_json::Value| p["mib"].as_f64().unwrap();
    let largest = points.iter().map(mib).fold(0.0, f64::max);
    let source = gpu.allocate((largest as usize) << 20).unwrap();
    fill_random(&gpu, &compiler, &stream, &source, Dtype::F16, 1).unwrap();
    for point in points {
        let times = read_time(&gpu, &compiler, &cold, &stream, &source, (mib(point) as usize) << 20).unwrap();
        let us = times.median();
        println!("cold read {:6.0} MiB: {us:8.2} us, earlier {:8.2}", mib(point), point["us"].as_f64().unwrap());
    }
    let tflops = mma_rate(&gpu, &compiler, &stream).unwrap() * 1e-12;
    match co_run(&gpu, &compiler, &stream) {
        Ok(rates) => println!("{rates:#.4?}"),
        Err(e) => println!("{e}"),
    }
    println!("mma.sync: {tflops:.0} TFLOP/s, earlier {}", json["mma_sync_f16_f32acc_tflops"]);
}
