//! Plans of every system and strategy on their way down: launches, slots, merges and rows are the plan's.

use kernels::TaskRows;

use super::*;
use crate::backend::cuda;
use crate::numerics::CheckedRow;
use crate::pack::{self, PackInput, PackOptions};
use crate::plan::hybrid::PodChoice;
use crate::plan::{self, Launch, PlanChoice, Strategy};
use crate::tile::TileRule;
use crate::workload::{PrefixTree, RequestSpec, parse_tree};
use crate::{hw, tile};

/// A batch as `session` plans it.
fn plan_of(batch: &Batch, scheduler: &str, strategy: Strategy) -> Result<LaunchPlan> {
    let tree = PrefixTree::of(batch);
    let device = hw::find("h200-sxm").unwrap();
    let tiles = tile::solve(device, batch.shape.head_dim, batch.shape.dtype);
    let scheduler = pack::find(scheduler).unwrap();
    let rule: TileRule = scheduler.tile_rule();
    let input = PackInput {
        batch,
        tree: &tree,
        device,
        tiles: &tiles,
        max_rows: rule.max_rows(&tiles),
        fixed_tile: plan::hybrid::decode_tile(device, batch, strategy),
        options: &PackOptions::default(),
        explain: false,
    };
    let choice = PlanChoice { scheduler: scheduler.name(), strategy, rule, explain: false };
    let mut packing = scheduler.pack(&input)?;
    let prepared = plan::hybrid::prepare(&input, &mut packing, strategy, PodChoice::default())?;
    let mut plan = plan::build(&input, &packing, &choice)?;
    if let Some(prepared) = prepared {
        prepared.compose(&input, &mut plan);
    }
    Ok(plan)
}

fn planned(
    text: &str,
    (query_heads, kv_heads): (u32, u32),
    scheduler: &str,
    strategy: Strategy,
) -> (Batch, Result<LaunchPlan>) {
    let shape = AttentionShape { query_heads, kv_heads, block_size: 16, ..AttentionShape::default() };
    let batch = parse_tree(text, shape).unwrap().build().unwrap();
    let plan = plan_of(&batch, scheduler, strategy);
    (batch, plan)
}

/// A tree with prefill chunks (rows at the end of so many KV tokens).
fn hybrid(text: &str, chunks: &[(u64, u64)], strategy: Strategy) -> (Batch, Result<LaunchPlan>) {
    let shape = AttentionShape { query_heads: 16, kv_heads: 4, block_size: 16, ..AttentionShape::default() };
    let mut spec = parse_tree(text, shape).unwrap();
    spec.requests.extend(chunks.iter().map(|(chunk, kv)| RequestSpec::Prefill { chunk: *chunk, kv: *kv }));
    let batch = spec.build().unwrap();
    let plan = plan_of(&batch, "min-time", strategy);
    (batch, plan)
}

#[test]
fn prefill_rows_lie_behind_the_queries_and_their_slots_behind_theirs() {
    // One chunk that is split, and one of more rows than a task has.
    for strategy in Strategy::ALL {
        let (batch, plan) = hybrid("1,4_256,64", &[(40, 9000), (300, 1000)], strategy);
        let plan = plan.unwrap();
        let lowered = lower(&batch, &plan).unwrap();
        let blocks = batch.tables().all().iter().map(|block| block.0 + 1).max().unwrap();
        lowered.arrays().check(&shape(&batch.shape), blocks).unwrap();
        assert_eq!(lowered.launches.len(), plan.launches.len());
        assert_eq!((lowered.prefill_rows, lowered.prefill_slots), (340, plan.prefill.slots));
        let rows = cuda::Rows::of(&batch);
        let of_packs = lowered.task_of.iter().filter(|of| matches!(of, TaskOf::Pack(_))).count();
        assert_eq!(of_packs > 0, strategy == Strategy::Batched);
        assert_eq!(lowered.task_of.len() - of_packs, plan.prefill.tasks.len());
        for (task, of) in lowered.tasks.iter().zip(&lowered.task_of) {
            let TaskOf::Prefill(number) = *of else { continue };
            let planned = &plan.prefill.tasks[number as usize];
            let first = CheckedRow { query: planned.query, row: Some(planned.rows_begin), head: 0 };
            assert_eq!(
                task.rows,
                TaskRows::From(rows.place(&first) as u32),
                "where Q is made and outputs are looked for"
            );
            assert_eq!(
                (task.kv_begin, task.kv_end, task.position),
                (planned.kv_begin, planned.kv_end, planned.position)
            );
            assert_eq!(task.slots.is_some(), planned.slots_begin.is_some());
        }
    }
}

#[test]
fn folded_tasks_have_the_rows_of_all_query_heads_of_a_kv_head() {
    for strategy in [Strategy::Serial, Strategy::Batched, Strategy::CoResident] {
        let (batch, plan) = hybrid("1,4_256,64", &[(40, 9000), (3, 500)], strategy);
        let plan = plan.unwrap();
        let lowered = lower(&batch, &plan).unwrap();
        let blocks = batch.tables().all().iter().map(|block| block.0 + 1).max().unwrap();
        lowered.arrays().check(&shape(&batch.shape), blocks).unwrap();
        let (group, mut rows) = (batch.shape.group(), 0);
        for (task, of) in lowered.tasks.iter().zip(&lowered.task_of) {
            let TaskOf::Prefill(number) = *of else { continue };
            let planned = &plan.prefill.tasks[number as usize];
            assert!(task.folded && task.num_rows == group * planned.rows(), "{strategy:?}: {task:?}");
            let launch = plan.launches.iter().find(|launch| launch.kind.folds_heads()).unwrap();
            let work = plan.prefill_work(launch, number, group);
            assert_eq!(work.query_heads, group);
            assert!(plan.cta_of(launch, crate::plan::Work::Prefill(work)).is_some(), "as the trace has it");
            rows += planned.rows() * u32::from(planned.kv_begin == 0);
        }
        assert_eq!(rows, 43, "{strategy:?}");
    }
}

#[test]
fn ctas_of_a_hybrid_launch_have_the_same_numbers_in_the_plan_and_on_the_gpu() {
    for (strategy, roles) in [(Strategy::CtaParallel, CtaRoles::Index), (Strategy::HFuse, CtaRoles::Paired)] {
        let (batch, plan) = hybrid("1,4_256,64", &[(300, 1000)], strategy);
        let plan = plan.unwrap();
        let lowered = lower(&batch, &plan).unwrap();
        let KernelWork::Hybrid(work) = &lowered.launches[0].work else { panic!("{:?}", lowered.launches[0].work) };
        assert_eq!((work.roles, work.heads), (roles, 4));
        let launch = &plan.launches[0];
        let (tasks, heads) = (work.tasks.len() as u32, batch.shape.query_heads);
        for (nth, task) in (0_u32..).zip(&work.tasks) {
            let TaskOf::Prefill(task) = lowered.task_of[*task as usize] else { panic!("a gathered task") };
            let of = crate::plan::PrefillWork { task, query_head: 3, query_heads: 1 };
            assert_eq!(plan.cta_of(launch, crate::plan::Work::Prefill(of)), Some(3 * tasks + nth));
        }
        let first = if roles == CtaRoles::Index { tasks * heads } else { 0 };
        for (nth, pack) in (0_u32..).zip(&work.packs) {
            let of = plan.decode_work(launch, lowered.place_of[*pack as usize], 2).unwrap();
            let cta = plan.cta_of(launch, crate::plan::Work::Decode(of));
            assert_eq!(cta, Some(first + nth), "four KV heads, which one CTA takes");
        }
    }
}

#[test]
fn hybrid_launches_of_others_shapes_are_refused_by_what_differs() {
    let (batch, plan) = hybrid("1,4_256,64", &[(300, 1000)], Strategy::CtaParallel);
    let plan = plan.unwrap();
    let says = |change: &dyn Fn(&mut LaunchPlan)| {
        let mut plan = plan.clone();
        change(&mut plan);
        lower(&batch, &plan).unwrap_err().to_string()
    };
    let merged = says(&|plan| plan.prefill.tasks[0].rows_end += 64);
    assert!(merged.contains("ours takes 64 rows"), "{merged}");
    let narrow = says(&|plan| {
        if let LaunchKind::Hybrid(kernel) = &mut plan.launches[0].kind {
            kernel.prefill_warps = 2;
        }
    });
    assert!(narrow.contains("2 warps for prefill"), "{narrow}");
    let tall = says(&|plan| plan.packs[0].tile = Tile { m: 64, n: 128 });
    assert!(tall.contains("decode of tile 64×128 shares CTAs"), "{tall}");
    let many = says(&|plan| {
        if let LaunchKind::Hybrid(kernel) = &mut plan.launches[0].kind {
            kernel.decodes_per_cta = 8;
        }
    });
    assert!(many.contains("8 decodes share a CTA"), "{many}");
}

fn small() -> (Batch, LaunchPlan) {
    let (batch, plan) = planned("1,8,64_256,512,64", (32, 8), "pat", Strategy::Serial);
    (batch, plan.unwrap())
}

/// As [`small`], the first launch cut in two: its first pack in tiles of 64×128, which run on the kernel of
/// 64×64 as the others do.
fn sharing() -> (Batch, LaunchPlan) {
    let (batch, mut plan) = small();
    let (wide, first) = (Tile { m: 64, n: 128 }, plan.launches[0].clone());
    assert_eq!(first.kind, LaunchKind::Attention(Tile { m: 64, n: 64 }));
    assert!(first.packs_end - first.packs_begin > 1);
    let cut = first.packs_begin + 1;
    plan.packs[plan.order[first.packs_begin as usize].at()].tile = wide;
    plan.launches[0].packs_begin = cut;
    plan.launches.insert(0, Launch { kind: LaunchKind::Attention(wide), packs_end: cut, ..first });
    for launch in plan.launches.iter_mut().filter(|launch| !launch.after.is_empty()) {
        launch.after.iter_mut().for_each(|after| *after += 1);
        launch.after.insert(0, 0);
    }
    (batch, plan)
}

#[test]
fn leaves_of_no_more_rows_than_the_lean_kernel_has_run_on_it() {
    let wide = Tile { m: 16, n: 16 };
    for (heads, kernel) in [
        ((32, 32), KernelTile::LEAN),
        ((28, 4), KernelTile::LEAN),
        ((64, 8), KernelTile::LEAN),
        ((64, 4), KernelTile { m: 16, n: 16 }),
    ] {
        let (_, plan) = planned("1,64_512,32", heads, "min-time", Strategy::Fused);
        assert_eq!(kernel_tiles(&plan.unwrap()).unwrap().get(&wide), Some(&kernel), "{heads:?}");
    }
    assert_eq!(kernel_tile(wide, (true, true), true, 256), KernelTile { m: 16, n: 16 }, "no registers for it");
}

/// Refused as it is planned, and not when it is to run: vLLM's cascade has a tile of 128 rows beside one of 16.
#[test]
fn tiles_that_no_kernel_has_together_are_refused() {
    let of = |strategy| planned("1,40_512,30", (32, 8), "cascade", strategy).1.unwrap();
    let refused = check(&of(Strategy::Fused)).unwrap_err().to_string();
    assert!(refused.contains("beside 64x64 and 8x16"), "{refused}");
    let mut serial = of(Strategy::Serial);
    check(&serial).unwrap();
    serial.shape.block_size = 8;
    assert!(
        check(&serial).unwrap_err().to_string().contains("blocks of 16 tokens or more"),
        "a tile of 128 rows alone"
    );
}

#[test]
fn ctas_go_through_packs_and_heads_in_the_order_of_the_plan() {
    let batch = sharing().0;
    for (scheduler, order) in [("flashinfer-decode", CtaOrder::PackFastest), ("pat", CtaOrder::HeadFastest)] {
        let plan = plan_of(&batch, scheduler, Strategy::Serial).unwrap();
        let lowered = lower(&batch, &plan).unwrap();
        let (own, launch) = (&lowered.launches[0], &plan.launches[0]);
        assert_eq!(launch.order, order, "{scheduler}");
        assert_eq!(own.pack_fastest, order == CtaOrder::PackFastest, "{scheduler}");
    }
}

#[test]
fn launch_i_of_the_plan_is_launch_i_on_the_gpu_also_where_two_share_a_kernel() {
    let (batch, plan) = sharing();
    let lowered = lower(&batch, &plan).unwrap();
    assert_eq!(lowered.launches.len(), plan.launches.len());
    for (own, launch) in lowered.launches.iter().zip(&plan.launches) {
        assert_eq!((own.stream, &own.after), (launch.stream, &launch.after));
        let KernelWork::Packs(packs) = &own.work else {
            assert!(launch.kind.is_merge());
            continue;
        };
        let places: Vec<u32> = packs.iter().map(|pack| lowered.place_of[*pack as usize]).collect();
        assert_eq!(places, (launch.packs_begin..launch.packs_end).collect::<Vec<_>>());
        assert!(packs.iter().all(|pack| lowered.packs[*pack as usize].tile == lowered.packs[packs[0] as usize].tile));
    }
    let tile = |launch: usize| match &lowered.launches[launch].work {
        KernelWork::Packs(packs) => lowered.packs[packs[0] as usize].tile,
        work => panic!("{work:?}"),
    };
    assert_eq!(tile(0), tile(1), "both run on the kernel of 64×64");
}

#[test]
fn plans_of_the_same_shapes_share_a_persistent_kernel_whichever_comes_first() {
    let (batch, plan) = planned("1,8,64_256,512,64", (32, 8), "min-traffic", Strategy::Fused);
    let mut plan = plan.unwrap();
    let forward = lower(&batch, &plan).unwrap();
    plan.order.reverse();
    let backward = lower(&batch, &plan).unwrap();
    assert!(forward.tiles.len() > 1 && forward.packs[0].tile != backward.packs[0].tile, "{:?}", forward.tiles);
    assert_eq!(forward.tiles, backward.tiles);
}

/// Follows the merges without numbers: which partials have gone into which slot, and into each output.
fn assert_all_merged(plan: &LaunchPlan, lowered: &Lowered) {
    let mut holds: Vec<Vec<u32>> = (0..plan.queries.len() as u32).map(|slot| vec![slot]).collect();
    let mut outputs: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let merge =
        |launch: &KernelLaunch| if let KernelWork::Merge(rows) = &launch.work { Some(rows.clone()) } else { None };
    for rows in lowered.launches.iter().filter_map(merge) {
        for (run, target) in rows.offsets.windows(2).zip(&rows.targets) {
            let slots = &rows.slots[run[0] as usize..run[1] as usize];
            let joined: Vec<u32> = slots.iter().flat_map(|slot| holds[*slot as usize].clone()).collect();
            if target & MergeRows::TO_SLOT == 0 {
                assert!(outputs.insert(*target, joined).is_none(), "query {target} has two outputs");
            } else {
                holds[(target & !MergeRows::TO_SLOT) as usize] = joined;
            }
        }
    }
    for query in 0..plan.merge.starts.len() - 1 {
        let mut wanted = plan.merge.of(crate::units::QueryIdx::from(query)).to_vec();
        let mut got = outputs.remove(&(query as u32)).unwrap_or_else(|| {
            assert_eq!(wanted.len(), 1, "{}: the partials of query {query} are not joined", plan.scheduler);
            wanted.clone()
        });
        wanted.sort_unstable();
        got.sort_unstable();
        assert_eq!(got, wanted, "query {query}");
    }
}

#[test]
fn subtree_packs_go_down_with_masks_and_others_without() {
    let shape = AttentionShape { query_heads: 32, kv_heads: 8, block_size: 16, ..AttentionShape::default() };
    // Two packs of 64 rows; and many of 64 or half as many of 128, of groups of four and of three, of which a query has rows
    // in both halves.
    for (text, query_heads, tiles) in [("1,32_1024,40", 32, 1), ("1,1024_2048,32", 32, 2), ("1,1024_2048,32", 24, 2)] {
        let batch = parse_tree(text, AttentionShape { query_heads, ..shape }).unwrap().build().unwrap();
        let tree = PrefixTree::of(&batch);
        let blocks = batch.tables().all().iter().map(|block| block.0 + 1).max().unwrap();
        crate::pack::testing::with_input(&batch, &tree, ("h200-sxm", None), |input| {
            let mut seen = std::collections::BTreeSet::new();
            let packings = pack::find("min-time").unwrap().packings(input).unwrap();
            let ways = [Strategy::Fused, Strategy::Serial].into_iter().flat_map(|strategy| {
                let choice = PlanChoice { scheduler: "min-time", strategy, rule: TileRule::Quickest, explain: false };
                packings.iter().map(move |packing| plan::build(input, packing, &choice).unwrap())
            });
            for plan in ways.filter(|plan| plan.subtree_packs() > 0) {
                let lowered = lower(&batch, &plan).unwrap();
                let arrays = lowered.arrays();
                arrays.check(&super::shape(&batch.shape), blocks).unwrap();
                assert!(lowered.warnings.is_empty(), "{:?}", lowered.warnings);
                assert!(lowered.tasks.is_empty(), "no pack of 128 rows runs as prefill");
                for (pack, task) in lowered.place_of.iter().map(|place| plan.order[*place as usize]).zip(arrays.packs) {
                    assert_eq!(task.masks.is_some(), plan.pack(pack).is_subtree(16), "pack {}", pack.0);
                }
                seen.extend(plan.packs.iter().filter(|pack| pack.is_subtree(16)).map(|pack| pack.tile));
                let mut short = plan.clone();
                short.packs.iter_mut().find(|pack| pack.is_subtree(16)).unwrap().tokens.0 -= 16;
                assert!(lower(&batch, &short).unwrap_err().to_string().contains("goes through"));
            }
            assert_eq!(seen.len(), tiles, "{text}: {seen:?}");
        });
    }
}

/// The kernels judge by the masks what the packer has judged by the tree.
#[test]
fn what_few_have_is_taken_apart_in_queues_where_it_is_little() {
    let shape = AttentionShape { query_heads: 32, kv_heads: 8, block_size: 16, ..AttentionShape::default() };
    for (text, query_heads, little) in [
        ("1,1024_2048,32", 32, true),
        ("1,1024_2048,20", 64, true),
        ("1,1020_2048,32", 32, true),
        ("1,1024_2080,32", 32, false),
        ("1,1024_2048,64", 32, false),
        ("1,1024_4096,32", 128, true),
    ] {
        let batch = parse_tree(text, AttentionShape { query_heads, ..shape }).unwrap().build().unwrap();
        let tree = PrefixTree::of(&batch);
        crate::pack::testing::with_input(&batch, &tree, ("h200-sxm", None), |input| {
            let packings = pack::find("min-time").unwrap().packings(input).unwrap();
            let mut tall = 0;
            let choice = PlanChoice {
                scheduler: "min-time",
                strategy: Strategy::Fused,
                rule: TileRule::Quickest,
                explain: false,
            };
            for plan in packings.iter().map(|packing| plan::build(input, packing, &choice).unwrap()) {
                let lowered = lower(&batch, &plan).unwrap();
                let arrays = lowered.arrays();
                for task in arrays.packs.iter().filter(|task| arrays.tiles[task.tile as usize] == KernelTile::TALL) {
                    assert_eq!(task.leaves_few_apart(arrays.masks), little, "{text}");
                    tall += 1;
                }
            }
            assert!(tall > 0, "{text}: no pack of 128 rows");
        });
    }
}

#[test]
fn every_system_is_lowered_whole_or_refused_by_name() {
    let mut ran = std::collections::BTreeSet::new();
    for (text, heads) in [
        ("1,4,16_256,64,48", (8, 8)),
        ("1,4,16_4096,64,48", (32, 8)),
        ("2,6_64,2000", (4, 4)),
        ("1,32_1024,32", (32, 8)),
    ] {
        for scheduler in pack::schedulers().iter().map(|scheduler| scheduler.name()) {
            for strategy in Strategy::ANY_BATCH {
                let (batch, Ok(plan)) = planned(text, heads, scheduler, strategy) else { continue };
                let lowered = match lower(&batch, &plan) {
                    Ok(lowered) => lowered,
                    Err(Error::Unsupported { limit, .. }) => {
                        assert!(!limit.is_empty());
                        continue;
                    }
                    Err(error) => panic!("{scheduler}: {error}"),
                };
                let blocks = batch.tables().all().iter().map(|block| block.0 + 1).max().unwrap();
                lowered.arrays().check(&shape(&batch.shape), blocks).unwrap();
                assert_eq!(lowered.launches.len(), plan.launches.len(), "{scheduler}");
                if strategy != Strategy::Fused {
                    assert_all_merged(&plan, &lowered);
                    ran.insert(scheduler);
                }
            }
        }
    }
    let refused: Vec<&str> = pack::schedulers().iter().map(|s| s.name()).filter(|name| !ran.contains(name)).collect();
    assert!(refused.is_empty(), "{refused:?} do not run on the GPU under any strategy");
}
