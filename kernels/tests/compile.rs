//! Every kernel configuration compiles for each architecture without spilling. Needs NVRTC, not a GPU.

use kernels::{Arch, Compiler, Dtype, KernelSpec, Tile, nvrtc_version};

fn configurations() -> Vec<KernelSpec> {
    let mut lists: Vec<Vec<Tile>> = Vec::new();
    for m in [16, 32, 64] {
        for n in [16, 32, 64, 128] {
            lists.push(vec![Tile { m, n }]);
        }
    }
    // What fused plans mix.
    lists.push(vec![Tile { m: 64, n: 64 }, Tile { m: 16, n: 16 }]);
    lists.push(vec![Tile { m: 64, n: 64 }, Tile { m: 32, n: 64 }, Tile { m: 16, n: 16 }]);
    let mut specs = Vec::new();
    for tiles in &lists {
        for head_dim in [64, 128] {
            for dtype in [Dtype::F16, Dtype::Bf16] {
                for fused in [false, true] {
                    specs.push(KernelSpec::new(tiles, head_dim, dtype, fused, false));
                }
            }
        }
        specs.push(KernelSpec::new(tiles, 128, Dtype::F16, true, true));
    }
    specs.retain(|s| s.check().is_ok());
    specs
}

#[test]
fn every_configuration_compiles_without_spills() {
    if let Err(e) = nvrtc_version() {
        println!("skipped: {e}");
        return;
    }
    let quick = std::env::var_os("PACKSCOPE_ALL_KERNELS").is_none();
    let mut bad = Vec::new();
    for arch in [Arch::SM_80, Arch::SM_90A, Arch::SM_100] {
        let compiler = Compiler::new(arch, None).unwrap();
        for (i, spec) in configurations().iter().enumerate() {
            // All of them take minutes; a seventh of them, spread over the list, is the everyday check.
            if quick && i % 7 != 0 {
                continue;
            }
            let name = format!("{} {:?} d{} fused {}", arch.name(), spec.tiles, spec.head_dim, spec.fused);
            match compiler.decode(spec) {
                Ok(kernel) if kernel.resources.spill_bytes == 0 => {}
                Ok(kernel) => bad.push(format!("{name}: spills {} bytes", kernel.resources.spill_bytes)),
                Err(e) => bad.push(format!("{name}: {e}")),
            }
        }
        for spec in configurations().iter().take(4) {
            assert_eq!(compiler.merge(spec).unwrap().resources.spill_bytes, 0);
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
