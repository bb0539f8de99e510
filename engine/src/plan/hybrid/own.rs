//! Hybrid batches on devices for which packscope's own prefill kernels are compiled.
//!
//! ```text
//! serial        [prefill items] [merge rows] [decode …] [merge]
//! streams       stream 0…: [decode …] [merge]        stream k: [prefill items] [merge rows]
//! spatial       [prefill items on k SMs] ‖ [decode workers on the others]
//! batched       [prefill and decode items of one grid] [merge rows] [merge]
//! co-resident   [slim prefill items, one CTA an SM] ‖ [lean decode workers, where there is room]
//! ```
//!
//! Every prefill launch is a persistent grid whose CTAs take (task, head) items, KV head by KV head, in
//! it longest first. Under `‖` the decode launch starts programmatically: once all prefill CTAs are on their
//! SMs. On a stream of its own it could come first, fill the SMs, and the two would run one after the other.
//!
//! Whose rows an item has is in `items`, into how many pieces the KV of a chunk is cut in `splits`.

use crate::decision::{Choice, Considered, Decision, Price, RuleConstant, Subject};
use crate::error::{Error, Result};
use crate::hw::{Device, PrefillKernels};
use crate::pack::{PackInput, Packing, cut_for_queue, cut_into, cut_rows};
use crate::plan::Strategy;
use crate::plan::hybrid::explain::{decision, timed};
use crate::plan::hybrid::items::Items;
use crate::plan::hybrid::kernels::{self, Grid, Kernel};
use crate::plan::hybrid::splits::Splits;
use crate::plan::hybrid::{Fusion, Prepared, tasks};
use crate::tile::Tile;
use crate::workload::AttentionShape;

/// The decode tile beside prefill of a query with more heads a KV head than the lean one has rows.
const TALL: Tile = Tile { m: 16, n: 64 };
/// Long pieces of decodes for each worker, and their least and most KV tokens.
const PIECES: u64 = 4;
const LEAST_DECODE: u64 = 256;
const MOST_DECODE: u64 = 2048;
/// KV tokens of the last pieces.
const LAST_DECODE: u32 = 128;
/// KV heads that a decode CTA of few rows takes side by side.
const HEADS_TOGETHER: u32 = 4;

/// Whether a strategy is made of the device's own prefill kernels, rather than of FlashAttention's and POD's.
pub(super) fn takes(strategy: Strategy, has_decodes: bool) -> bool {
    match strategy {
        Strategy::Serial | Strategy::Streams | Strategy::Spatial | Strategy::Batched | Strategy::CoResident => true,
        // Prefill alone is the plain kernel, under `fused` too.
        Strategy::Fused => !has_decodes,
        Strategy::HFuse | Strategy::CtaParallel => false,
    }
}

/// The tile of decode packs that a strategy prescribes at so many query heads a KV head; none where the scheduler's rule
/// holds.
pub(super) fn decode_tile(kernels: &PrefillKernels, group: u32, strategy: Strategy) -> Option<Tile> {
    match strategy {
        Strategy::Batched => Some(kernels.full.tile()),
        Strategy::CoResident => Some(beside_tile(kernels, group)),
        _ => None,
    }
}

/// The decode tile of kernels that leave most registers to prefill.
pub(super) fn beside_tile(kernels: &PrefillKernels, group: u32) -> Tile {
    let lean = Tile { m: kernels.lean_decode.m, n: kernels.lean_decode.n };
    if group <= lean.m { lean } else { TALL }
}

/// Refuses a shape that no prefill and lean decode on one SM can hold.
///
/// # Errors
/// [`Error::Unsupported`] with what is too large.
pub(super) fn check_shape(shape: &AttentionShape, strategy: Strategy) -> Result<()> {
    let limit = match (shape.head_dim, shape.group()) {
        _ if !shares_sms(strategy) => return Ok(()),
        (256.., _) => format!("at head dimension {} prefill leaves no registers for decode", shape.head_dim),
        (_, group) if group > TALL.m => format!(
            "its decode tile has {} rows, and one query has {group}, one for each query head of a KV head",
            TALL.m
        ),
        _ => return Ok(()),
    };
    Err(Error::Unsupported { who: strategy.name().to_owned(), limit: format!("{limit}; use another strategy") })
}

/// Whether the shape is one that the kernels of a strategy take; others' kernels, which stand for those that a device has
/// not, take any.
pub(super) fn takes_shape(device: &Device, shape: &AttentionShape, strategy: Strategy) -> bool {
    let own = strategy == Strategy::CoResident || kernels::is_own(device, shape, strategy);
    !own || check_shape(shape, strategy).is_ok()
}

/// Whether prefill and lean decode are on the same SMs.
fn shares_sms(strategy: Strategy) -> bool {
    matches!(strategy, Strategy::CoResident | Strategy::Fused | Strategy::HFuse | Strategy::CtaParallel)
}

/// Decides kernel and splits, and cuts the packs to the rows that the decode tile holds.
///
/// # Errors
/// [`Error::Unsupported`] where the strategy has no kernels for the shape.
pub(super) fn prepare(
    input: &PackInput<'_>,
    packing: &mut Packing,
    strategy: Strategy,
    kernels: &PrefillKernels,
) -> Result<Prepared> {
    check_shape(&input.batch.shape, strategy)?;
    let prefill = if strategy == Strategy::CoResident { &kernels.slim } else { &kernels.full };
    let mut decisions = Vec::new();
    let decode_tile = decode_tile(kernels, input.batch.shape.group(), strategy);
    if let Some(tile) = decode_tile {
        let before = packing.packs.len();
        cut_rows(packing, tile.m / input.batch.shape.group());
        if input.explain {
            decisions.push(explain_rows(input, packing, tile, before));
        }
    }
    if matches!(strategy, Strategy::Spatial | Strategy::CoResident) {
        cut_decodes(input, packing);
    }
    let alone = matches!(strategy, Strategy::Serial | Strategy::Fused);
    let beside = if alone { 0.0 } else { decode_ns(input, packing) };
    let items = Items::of(input, prefill);
    let splits = Splits::of(input, (prefill, items), beside);
    if input.explain {
        decisions.extend(items.explain(input, prefill));
        decisions.push(splits.explain());
        if strategy == Strategy::Serial && !packing.packs.is_empty() {
            decisions.push(explain_serial(input, packing, &splits));
        }
    }
    let fusion = match strategy {
        Strategy::Streams => Fusion::Apart { streams: true },
        Strategy::Spatial => Fusion::Beside { shares: true },
        Strategy::CoResident => Fusion::Beside { shares: false },
        Strategy::Batched => Fusion::Queue,
        _ => Fusion::Apart { streams: false },
    };
    let kernel = Kernel {
        prefill_tile: prefill.tile(),
        prefill_warps: prefill.warps,
        decode_tile: decode_tile.unwrap_or(prefill.tile()),
        decode_heads: match decode_tile {
            Some(tile) if strategy == Strategy::CoResident && tile != TALL => kernels.lean_decode.heads,
            _ => 1,
        },
        decodes_per_cta: 1,
        cta: prefill.cta(),
        grid: if items.folded { Grid::FoldedQueue } else { Grid::Queue },
    };
    let prefill =
        tasks::build_with(input.batch, (kernel.prefill_tile, items.tokens), |request| splits.of_request(request));
    Ok(Prepared { prefill, kernel, fusion, decisions })
}

/// Cuts the decodes for workers that take them one after another.
pub(super) fn cut_decodes(input: &PackInput<'_>, packing: &mut Packing) {
    let block = input.batch.shape.block_size;
    let pieces = (piece_tokens(input, packing).div_ceil(block), LAST_DECODE.div_ceil(block));
    cut_for_queue(packing, pieces, block);
}

/// Cuts the decodes into as many items as there are of prefill, since each CTA has one of both, or into more where those
/// would outlast the prefill. `heads` is how many KV heads an item takes.
pub(super) fn cut_decodes_to_match(input: &PackInput<'_>, packing: &mut Packing, (items, heads): (u64, u32)) {
    let shape = &input.batch.shape;
    let tokens: u64 = packing.packs.iter().map(|pack| pack.tokens.0).sum();
    let all = tokens * u64::from(shape.kv_heads.div_ceil(heads.max(1)));
    let piece = all.div_ceil(items.max(1)).clamp(LEAST_DECODE, u64::from(piece_tokens(input, packing))) as u32;
    cut_into(packing, piece.div_ceil(shape.block_size), shape.block_size);
}

/// KV tokens of the long pieces of a decode queue: four or more for each of two workers an SM. A piece is long enough
/// that its begin, its end and its share of a merge are hidden, and short enough that the last ones end together.
///
/// Worked number, C0 on the H200: 80 decodes of 12,288 over four KV heads side by side are 3,724 tokens a worker, so 931.
fn piece_tokens(input: &PackInput<'_>, packing: &Packing) -> u32 {
    let tokens: u64 = packing.packs.iter().map(|pack| pack.tokens.0).sum();
    let workers = 2 * u64::from(input.device.sm_count);
    let heads = u64::from(input.batch.shape.kv_heads.div_ceil(HEADS_TOGETHER));
    (tokens * heads / workers / PIECES).clamp(LEAST_DECODE, MOST_DECODE) as u32
}

/// KV of all decode packs at the rate of HBM, each token counted once, ns.
fn decode_ns(input: &PackInput<'_>, packing: &Packing) -> f64 {
    if packing.packs.is_empty() {
        return 0.0;
    }
    let bytes = input.tree.unique_tokens().as_f64() * input.batch.shape.kv_bytes_per_token().as_f64();
    bytes / (input.device.reachable_bytes_per_s() * 1e-9)
}

pub(super) fn explain_rows(input: &PackInput<'_>, packing: &Packing, tile: Tile, before: usize) -> Decision {
    let read: f64 = packing.packs.iter().map(|pack| pack.tokens.as_f64()).sum();
    let bytes = |tokens: f64| Price::traffic(tokens * input.batch.shape.kv_bytes_per_token().as_f64());
    let after = packing.packs.len();
    let mut considered = vec![Considered::new(format!("packs of at most {} rows", tile.m), after as f64, bytes(read))];
    if after > before {
        let least = input.tree.unique_tokens().as_f64();
        considered.push(Considered::new("the scheduler's packs", before as f64, bytes(least)));
    }
    Decision {
        subject: Subject::Plan,
        other: None,
        choice: Choice::Tile,
        considered,
        chosen: 0,
        unit: "packs".into(),
        rule: "the decode tile of this kernel holds so many rows; a pack of more is cut, and each piece reads the KV again".into(),
        constant: Some(RuleConstant::new("rows of the decode tile", f64::from(tile.m), None)),
    }
}

/// One kernel after the other.
fn explain_serial(input: &PackInput<'_>, packing: &Packing, splits: &Splits) -> Decision {
    let read: f64 = packing.packs.iter().map(|pack| pack.tokens.as_f64()).sum();
    let bytes = read.min(input.tree.unique_tokens().as_f64()) * input.batch.shape.kv_bytes_per_token().as_f64();
    let decode = bytes / (input.device.reachable_bytes_per_s() * 1e-9);
    let considered = vec![
        timed("serial", Price::run(splits.time() + decode)),
        timed("side by side", Price::lower_bound(splits.time().max(decode))),
    ];
    let rule = "serial was asked for: one kernel after the other, each with its own tail";
    decision(Choice::Fusion, (considered, 0), rule, None)
}
