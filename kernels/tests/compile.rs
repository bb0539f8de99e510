//! Every kernel configuration compiles for three architectures without spilling. Needs NVRTC, not a GPU.
//!
//! NVRTC compiles one program at a time per process, so the test starts itself once per core, each with a share of the
//! list. Results are cached in the target folder by source hash: a second run with unchanged sources takes seconds.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::process::{Command, Stdio};

use kernels::{Arch, Compiler, Dtype, KernelSpec, Tile, nvrtc_version};

/// Set for the processes that do a share: `index/count`.
const SHARE: &str = "PACKSCOPE_KERNEL_SHARE";

/// Tile lists: each tile by itself, and every mixture that a fused plan may need.
fn tile_lists() -> Vec<Vec<Tile>> {
    let mut lists: Vec<Vec<Tile>> = Vec::new();
    for m in [16, 32, 64] {
        for n in [16, 32, 64, 128] {
            lists.push(vec![Tile { m, n }]);
        }
    }
    let mixed = [(64, 64), (32, 64), (16, 64), (16, 16)].map(|(m, n)| Tile { m, n });
    for chosen in 0_u32..1 << mixed.len() {
        let list = (0..mixed.len()).filter(|at| chosen >> at & 1 == 1).map(|at| mixed[at]);
        if chosen.count_ones() > 1 {
            lists.push(list.collect());
        }
    }
    lists
}

fn configurations() -> Vec<KernelSpec> {
    let mut specs = Vec::new();
    for tiles in tile_lists() {
        for (head_dim, dtype) in [(64, Dtype::F16), (64, Dtype::Bf16), (128, Dtype::F16), (128, Dtype::Bf16)] {
            for (fused, trace) in [(false, false), (false, true), (true, false), (true, true)] {
                // Only the fused kernel has several tiles in one launch.
                if fused || tiles.len() == 1 {
                    specs.push(KernelSpec::new(&tiles, head_dim, dtype, fused, trace));
                }
            }
        }
    }
    specs.retain(|s| s.check().is_ok());
    specs
}

/// Compiles every `count`-th kernel from `index` on and returns what is wrong with them.
fn compile_share(index: usize, count: usize) -> Vec<String> {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels");
    let mut bad = Vec::new();
    let mut nth = 0;
    for arch in [Arch::SM_80, Arch::SM_90A, Arch::SM_100] {
        let compiler = Compiler::new(arch, Some(cache.clone())).expect("NVRTC was there a moment ago");
        if index == 0
            && let Err(e) = compiler.limits("packscope_read")
        {
            bad.push(format!("{} limits: {e}", arch.name()));
        }
        for spec in configurations() {
            nth += 1;
            if nth % count != index {
                continue;
            }
            let name = format!("{} {spec:?}", arch.name());
            match compiler.decode(&spec) {
                Ok(kernel) if kernel.resources.spill_bytes > 0 => {
                    bad.push(format!("{name}: spills {} bytes", kernel.resources.spill_bytes));
                }
                Ok(kernel) if kernel.resources.registers == 0 => bad.push(format!("{name}: registers unknown")),
                Ok(_) => {}
                Err(e) => bad.push(format!("{name}: {e}")),
            }
            if !spec.fused {
                match compiler.merge(&spec) {
                    Ok(kernel) if kernel.resources.spill_bytes == 0 => {}
                    other => bad.push(format!("{} merge d{}: {other:?}", arch.name(), spec.head_dim)),
                }
            }
        }
    }
    bad
}

#[test]
fn every_configuration_compiles_without_spills() {
    if let Err(e) = nvrtc_version() {
        println!("skipped: {e}");
        return;
    }
    if let Ok(share) = std::env::var(SHARE) {
        let (index, count) = share.split_once('/').expect("index/count");
        let bad = compile_share(index.parse().unwrap(), count.parse().unwrap());
        assert!(bad.is_empty(), "{}", bad.join("\n"));
        return;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let start = |index: usize| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "every_configuration_compiles_without_spills", "--nocapture"])
            .env(SHARE, format!("{index}/{cores}"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let shares: Vec<_> = (0..cores).map(start).collect();
    let mut failed = String::new();
    for share in shares {
        let output = share.wait_with_output().unwrap();
        if !output.status.success() {
            failed += &String::from_utf8_lossy(&output.stderr);
        }
    }
    assert!(failed.is_empty(), "{failed}");
    println!("{} decode kernels, their merges and the limits for each of three architectures", configurations().len());
}

/// What the check above stands on: a kernel that is made to spill is seen to spill.
#[test]
fn a_spill_is_seen() {
    if let Err(e) = nvrtc_version() {
        println!("skipped: {e}");
        return;
    }
    let mut spec = KernelSpec::new(&[Tile { m: 64, n: 64 }], 128, Dtype::F16, true, false);
    spec.stages = 3;
    spec.defines = vec!["-DPS_MIN_CTAS=3".to_owned()];
    let kernel = Compiler::new(Arch::SM_90A, None).unwrap().decode(&spec).unwrap();
    assert!(kernel.resources.spill_bytes > 0, "{:?}", kernel.resources);
}
