//! Golden packing results of PAT's released scheduler on its Figure 10.

use engine::plan::Strategy;

use crate::common::{assert_packs, figure_10, planned};

/// (unique KV tokens, query-centric KV tokens, packs, KV tokens read, slots, largest split,
/// tiles as (m, n, packs) from the largest), 32/8 heads, block 32.
type Row = (u64, u64, usize, u64, usize, u32, &'static [(u32, u32, u32)]);

const HEADS_32_8: [Row; 20] = [
    (8256, 45120, 27, 8256, 135, 14, &[(64, 128, 12), (16, 128, 15)]),
    (8448, 73728, 272, 12288, 512, 2, &[(64, 128, 16), (16, 32, 256)]),
    (34816, 2129920, 1088, 163840, 2048, 2, &[(64, 128, 64), (16, 32, 1024)]),
    (17920, 98304, 68, 21504, 128, 2, &[(64, 128, 4), (16, 128, 64)]),
    (9248, 81920, 272, 12800, 512, 2, &[(64, 128, 16), (16, 32, 256)]),
    (135200, 409600, 544, 148480, 1024, 2, &[(64, 128, 32), (16, 128, 512)]),
    (147488, 1196032, 704, 197632, 3584, 7, &[(64, 128, 192), (16, 128, 512)]),
    (135680, 655360, 544, 163840, 1024, 2, &[(64, 128, 32), (16, 128, 512)]),
    (11296, 147456, 272, 16896, 512, 2, &[(64, 128, 16), (16, 32, 256)]),
    (20480, 737280, 544, 61440, 1024, 2, &[(64, 128, 32), (16, 32, 512)]),
    (278912, 917504, 1344, 309248, 3072, 3, &[(64, 128, 64), (16, 128, 1024), (16, 32, 256)]),
    (43264, 557056, 1216, 67584, 3072, 3, &[(64, 128, 64), (32, 32, 128), (16, 32, 1024)]),
    (47360, 557056, 1344, 71680, 3072, 3, &[(64, 128, 64), (16, 32, 1280)]),
    (42240, 589824, 1216, 69632, 3072, 3, &[(64, 128, 64), (32, 32, 128), (16, 32, 1024)]),
    (46336, 589824, 1344, 73728, 3072, 3, &[(64, 128, 64), (16, 32, 1280)]),
    (11264, 147456, 272, 16896, 512, 2, &[(64, 128, 16), (16, 32, 256)]),
    (51712, 360448, 800, 66560, 1536, 3, &[(64, 128, 32), (16, 128, 256), (16, 32, 512)]),
    (28672, 335872, 304, 32768, 768, 3, &[(64, 128, 16), (32, 128, 32), (16, 32, 256)]),
    (262144, 262144, 256, 262144, 256, 1, &[(16, 128, 256)]),
    (1048576, 1048576, 256, 1048576, 256, 1, &[(16, 128, 256)]),
];

/// (packs, KV tokens read, largest split), 32/32 heads.
const HEADS_32_32: [(usize, u64, u32); 20] = [
    (16, 8256, 7),
    (260, 9216, 2),
    (1040, 65536, 2),
    (67, 17920, 3),
    (260, 9344, 2),
    (520, 135424, 2),
    (584, 147712, 10),
    (520, 139264, 2),
    (268, 11392, 3),
    (536, 28672, 3),
    (1360, 283136, 4),
    (1232, 49152, 4),
    (1360, 53248, 4),
    (1232, 48128, 4),
    (1360, 52224, 4),
    (284, 11776, 4),
    (792, 53760, 4),
    (312, 28672, 4),
    (256, 262144, 1),
    (256, 1048576, 1),
];

#[test]
fn pat_released_equals_the_golden_table_at_32_8() {
    for (at, (unique, _, packs, read, slots, split, tiles)) in HEADS_32_8.into_iter().enumerate() {
        let planned = planned(&figure_10(at + 1, 32, 8), "pat-released", Strategy::Streams, "a100-sxm-80gb");
        let plan = &planned.plan;
        let number = at + 1;
        assert_eq!(planned.tree.unique_tokens().0, unique, "unique KV tokens of configuration {number}");
        assert_eq!(plan.packs.len(), packs, "packs of configuration {number}");
        assert_eq!(plan.kv_tokens_read().0, read, "KV tokens of configuration {number}");
        assert_eq!(plan.queries.len(), slots, "slots of configuration {number}");
        assert_eq!(plan.merge.max_partials(), split, "largest split of configuration {number}");
        let got: Vec<_> = plan.tiles().into_iter().map(|(tile, count)| (tile.m, tile.n, count)).collect();
        assert_eq!(got, tiles, "tiles of configuration {number}");
    }
}

#[test]
fn pat_released_equals_the_golden_table_at_32_32() {
    for (at, (packs, read, split)) in HEADS_32_32.into_iter().enumerate() {
        let planned = planned(&figure_10(at + 1, 32, 32), "pat-released", Strategy::Streams, "h200-sxm");
        let got = (planned.plan.packs.len(), planned.plan.kv_tokens_read().0, planned.plan.merge.max_partials());
        assert_eq!(got, (packs, read, split), "configuration {}", at + 1);
    }
}

#[test]
fn query_centric_reads_what_flash_attention_reads() {
    for (at, row) in HEADS_32_8.into_iter().enumerate() {
        let planned = planned(&figure_10(at + 1, 32, 8), "query-centric", Strategy::Serial, "a100-sxm-80gb");
        assert_eq!(planned.plan.kv_tokens_read().0, row.1, "configuration {}", at + 1);
        let splits = |heads, device| {
            let spec = figure_10(at + 1, 32, heads);
            super::common::planned(&spec, "query-centric", Strategy::Serial, device).plan.merge.max_partials()
        };
        let first = |splits| if at == 0 { splits } else { 1 };
        assert_eq!(planned.plan.merge.max_partials(), first(5), "configuration {} on 108 SMs", at + 1);
        assert_eq!(splits(8, "h200-sxm"), first(3), "configuration {} on 132 SMs", at + 1);
        assert_eq!(splits(32, "a100-sxm-80gb"), 1, "configuration {} at 32/32", at + 1);
    }
}

#[test]
fn naive_packs_and_slots_are_those_of_the_ablation() {
    for (number, packs, slots, kv) in [
        (1, 11, 20, None),
        (4, 72, 192, None),
        (5, 288, 768, None),
        (9, 304, 1024, None),
        (10, 608, 2048, None),
        (11, 1536, 6144, Some(309_248)),
        (13, 1536, 6144, Some(71_680)),
        (15, 1600, 7168, Some(73_728)),
        (16, 304, 1024, Some(16_896)),
        (18, 320, 1024, Some(32_768)),
    ] {
        assert_packs(
            &planned(&figure_10(number, 32, 8), "naive", Strategy::Serial, "a100-sxm-80gb").plan,
            number,
            (packs, slots, kv),
        );
    }
}

#[test]
fn bytes_of_three_configurations_are_those_of_the_traffic_model() {
    let expected = [
        (9, 69_206_016, 46_268_416, 4_194_304, 8_454_144, 2_097_152),
        (2, 50_331_648, 34_603_008, 4_194_304, 8_454_144, 2_097_152),
        (3, 671_088_640, 142_606_336, 16_777_216, 33_816_576, 8_388_608),
    ];
    for (number, kv, unique_kv, q, partials, output) in expected {
        let planned = planned(&figure_10(number, 32, 8), "pat-released", Strategy::Streams, "a100-sxm-80gb");
        let traffic = engine::metrics::traffic(&planned.plan, &planned.batch, &planned.tree);
        assert_eq!(traffic.kv_read.0, kv, "KV of configuration {number}");
        assert_eq!(traffic.q_read.0, q, "Q of configuration {number}");
        assert_eq!(traffic.partial_write.0, partials, "partials of configuration {number}");
        assert_eq!(traffic.partial_read, traffic.partial_write);
        assert_eq!(traffic.output_write.0, output, "output of configuration {number}");
        assert_eq!(traffic.compulsory.0, unique_kv + 2 * output, "compulsory bytes of configuration {number}");
    }
}
