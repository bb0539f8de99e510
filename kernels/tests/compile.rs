//! Kernels compile for three architectures without spilling. Needs NVRTC, not a GPU.
//!
//! A sample is compiled always: one build of each kind for each architecture, head dimension and type, always the same.
//! All of them take minutes: `cargo test -p kernels --test compile -- --ignored`.
//!
//! NVRTC compiles one program at a time per process, so the test starts itself once per core, each with a share of the
//! list. Results are cached in the target folder by source hash: a second run with unchanged sources takes seconds.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use kernels::{
    Arch, CompiledKernel, Compiler, Copies, Dtype, Folds, Groups, HybridSpec, KernelError, KernelSpec, PrefillSpec,
    Roles, Sight, Tile, nvrtc_version,
};

/// Decode kernels of groups that are a power of two, and of all others.
const GROUPS: [Groups; 2] = [Groups::PowersOfTwo, Groups::Any];

/// Set for the processes that do a share: `index/count`.
const SHARE: &str = "PACKSCOPE_KERNEL_SHARE";

/// Tiles that a fused plan may mix.
const MIXED: [Tile; 4] = [Tile { m: 64, n: 64 }, Tile { m: 32, n: 64 }, Tile { m: 16, n: 64 }, Tile { m: 16, n: 16 }];

/// Tile lists: each tile by itself, and every mixture that a fused plan may need. In place of 16 x 16 packs of few rows
/// have the lean one.
fn tile_lists() -> Vec<Vec<Tile>> {
    let mut lists: Vec<Vec<Tile>> = vec![vec![Tile::LEAN], vec![Tile::TALL], vec![Tile::DOUBLE]];
    for m in [16, 32, 64] {
        for n in [16, 32, 64, 128] {
            lists.push(vec![Tile { m, n }]);
        }
    }
    for chosen in 0_u32..1 << MIXED.len() {
        let list: Vec<Tile> = (0..MIXED.len()).filter(|at| chosen >> at & 1 == 1).map(|at| MIXED[at]).collect();
        for list in [list.clone(), [&[Tile::DOUBLE], &list[..]].concat()] {
            if list.len() < 2 {
                continue;
            }
            if let [others @ .., Tile { m: 16, n: 16 }] = &list[..] {
                lists.push([others, &[Tile::LEAN]].concat());
            }
            lists.push(list);
        }
    }
    lists
}

/// One kernel to compile.
#[derive(Debug)]
enum Build {
    Decode(KernelSpec),
    Merge(u32, Dtype, bool),
    Prefill(PrefillSpec),
    Hybrid(HybridSpec),
    Limits,
    CoRun,
}

impl Build {
    /// Builds of one kind differ in their tiles, and but for fused decode kernels, which have the fewest registers to spare, in
    /// whether they are traced.
    fn kind(&self) -> String {
        match self {
            Self::Decode(s) => {
                let of = if s.beside_prefill { "beside prefill" } else { "decode" };
                let sight = if s.sight == Sight::Whole { String::new() } else { format!(" {:?}", s.sight) };
                let traced = if s.fused && s.trace { " traced" } else { "" };
                format!("{of} {} {:?} fused {} copies {:?}{sight}{traced}", s.head_dim, s.dtype, s.fused, s.copies)
            }
            Self::Merge(head_dim, dtype, _) => format!("merge {head_dim} {dtype:?}"),
            Self::Prefill(s) => {
                format!("prefill {} {:?} slim {} copies {:?}", s.head_dim, s.dtype, s.slim, s.copies)
            }
            Self::Hybrid(s) => format!("{:?} {} {:?} copies {:?}", s.roles, s.head_dim, s.dtype, s.copies),
            Self::Limits => "limits".to_owned(),
            Self::CoRun => "co-run".to_owned(),
        }
    }

    fn compile(&self, compiler: &Compiler) -> Result<CompiledKernel, KernelError> {
        match self {
            Self::Decode(spec) => compiler.decode(spec),
            Self::Merge(head_dim, dtype, trace) => compiler.merge(*head_dim, *dtype, *trace),
            Self::Prefill(spec) => compiler.prefill(spec),
            Self::Hybrid(spec) => compiler.hybrid(spec),
            Self::Limits => compiler.limits("packscope_read"),
            Self::CoRun => compiler.co_run("packscope_co_tensor"),
        }
    }
}

fn of_one_architecture(arch: Arch) -> Vec<Build> {
    let mut builds = vec![Build::Limits];
    builds.extend(arch.warpgroups().then_some(Build::CoRun));
    let dims = [64, 128, 256];
    for (head_dim, dtype) in dims.into_iter().flat_map(|dim| [(dim, Dtype::F16), (dim, Dtype::Bf16)]) {
        for trace in [false, true] {
            builds.push(Build::Merge(head_dim, dtype, trace));
            // Where there are no bulk copies, all blocks are fetched alike.
            let ways: &[Copies] = if arch.bulk_copies() { &[Copies::Bulk, Copies::Tokens] } else { &[Copies::Bulk] };
            builds.extend(ways.iter().flat_map(|copies| copied_so(&arch, (head_dim, dtype), trace, *copies)));
        }
    }
    builds
}

/// Builds whose tiles come in this way.
fn copied_so(arch: &Arch, (head_dim, dtype): (u32, Dtype), trace: bool, copies: Copies) -> Vec<Build> {
    let mut builds = vec![PrefillSpec::new(head_dim, dtype, trace)];
    let (mut decodes, mut hybrids) = (Vec::new(), Vec::new());
    if arch.warpgroups() && head_dim <= 128 {
        builds.push(PrefillSpec::slim(head_dim, dtype, trace));
        for tile in [Tile::LEAN, Tile { m: 16, n: 32 }, Tile { m: 16, n: 64 }] {
            decodes.push(KernelSpec::beside_prefill(&[tile], head_dim, dtype, trace));
            let of = |roles| {
                GROUPS.map(|groups| Build::Hybrid(HybridSpec { roles, tile, head_dim, dtype, trace, copies, groups }))
            };
            if copies == Copies::Bulk || tile.n < 64 {
                hybrids.extend([Roles::Either, Roles::Both].into_iter().flat_map(of));
            }
        }
    }
    // The lean tile has no registers for more dimensions.
    let fits = |tiles: &Vec<Tile>| {
        (head_dim <= 128 || !tiles.contains(&Tile::LEAN))
            && (arch.warpgroups() || tiles.iter().all(|tile| tile.m <= 64))
    };
    for tiles in tile_lists().into_iter().filter(fits) {
        // Only the fused kernel has several tiles in one launch.
        let fused: &[bool] = if tiles.len() == 1 { &[false, true] } else { &[true] };
        let of = |fused: bool| KernelSpec::new(&tiles, head_dim, dtype, fused, trace);
        decodes.extend(fused.iter().map(|fused| of(*fused)));
        // Without them only what is there anyway is left.
        if tiles.iter().any(|tile| tile.heads_together() > 1) {
            decodes.push(KernelSpec { folds: Folds::AtEnd, ..of(true) });
        }
        if tiles.len() == MIXED.len() || tiles.contains(&Tile::DOUBLE) {
            decodes.push(KernelSpec { folds: Folds::Never, ..of(true) });
        }
    }
    let prefills = builds.into_iter().map(|spec| Build::Prefill(PrefillSpec { copies, ..spec }));
    let masked = |spec: &&KernelSpec| head_dim <= Tile::MASKED_DIM && spec.tiles.contains(&Tile::MASKED);
    let masked: Vec<KernelSpec> =
        decodes.iter().filter(masked).map(|spec| KernelSpec { sight: Sight::Masked, ..spec.clone() }).collect();
    decodes.extend(masked);
    let tall: Vec<KernelSpec> =
        decodes.iter().filter(|spec| spec.tiles == [Tile::TALL] && spec.fused).cloned().collect();
    decodes.extend(tall.into_iter().map(|spec| KernelSpec { sight: Sight::Apart, folds: Folds::Never, ..spec }));
    let of_groups = |spec: KernelSpec| GROUPS.map(|groups| KernelSpec { copies, groups, ..spec.clone() });
    let decodes = decodes.into_iter().flat_map(of_groups);
    prefills.chain(decodes.filter(|spec| spec.check().is_ok()).map(Build::Decode)).chain(hybrids).collect()
}

fn every_build() -> Vec<(Arch, Build)> {
    let of = |arch| of_one_architecture(arch).into_iter().map(move |build| (arch, build));
    [Arch::SM_80, Arch::SM_90A, Arch::SM_100].into_iter().flat_map(of).collect()
}

/// One build of each kind and architecture, in each kind another one.
fn sample() -> Vec<(Arch, Build)> {
    let mut kinds: BTreeMap<(u32, String), Vec<(Arch, Build)>> = BTreeMap::new();
    for (arch, build) in every_build() {
        kinds.entry((arch.capability, build.kind())).or_default().push((arch, build));
    }
    (0..).zip(kinds.into_values()).map(|(nth, mut kind): (usize, _)| kind.swap_remove(nth * 7 % kind.len())).collect()
}

/// Compiles every `count`-th of `builds` from `index` on and returns what is wrong with them.
fn compile_share(builds: &[(Arch, Build)], index: usize, count: usize) -> Vec<String> {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels");
    let mut bad = Vec::new();
    for (arch, build) in builds.iter().skip(index).step_by(count) {
        let compiler = Compiler::new(*arch, Some(cache.clone())).expect("NVRTC was there a moment ago");
        let wrong = match build.compile(&compiler) {
            Ok(kernel) => match kernel.resources {
                r if r.spill_bytes > 0 => format!("spills {} bytes", r.spill_bytes),
                r if r.hindered => "ptxas serialises its warpgroup instructions or ignores setmaxnreg".to_owned(),
                r if r.registers == 0 => "registers unknown".to_owned(),
                _ => continue,
            },
            Err(e) => e.to_string(),
        };
        bad.push(format!("{} {build:?}: {wrong}", arch.name()));
    }
    bad
}

/// Compiles `builds` in one process per core; `test` is the name of the test that calls.
fn compile_all(test: &str, builds: &[(Arch, Build)]) {
    if let Err(e) = nvrtc_version() {
        println!("skipped: {e}");
        return;
    }
    if let Ok(share) = std::env::var(SHARE) {
        let (index, count) = share.split_once('/').expect("index/count");
        let bad = compile_share(builds, index.parse().unwrap(), count.parse().unwrap());
        assert!(bad.is_empty(), "{}", bad.join("\n"));
        return;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let start = |index: usize| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--include-ignored"])
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
    println!("{} of {} kernels compile for three architectures", builds.len(), every_build().len());
}

#[test]
fn a_sample_of_the_kernels_compiles_without_spills() {
    compile_all("a_sample_of_the_kernels_compiles_without_spills", &sample());
}

#[test]
#[ignore = "takes minutes; the sample covers every source, type, head dimension and architecture"]
fn every_kernel_compiles_without_spills() {
    compile_all("every_kernel_compiles_without_spills", &every_build());
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
