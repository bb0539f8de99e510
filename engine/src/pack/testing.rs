//! What a scheduler is given, for tests of parts of schedulers.

use crate::hw;
use crate::pack::{PackInput, PackOptions};
use crate::tile;
use crate::workload::{Batch, PrefixTree};

/// Calls `run` with a batch on a built-in device; packs have at most `max_rows` rows, or those of its tallest tile.
pub(crate) fn with_input<T>(
    batch: &Batch,
    tree: &PrefixTree,
    (device, max_rows): (&str, Option<u32>),
    run: impl FnOnce(&PackInput<'_>) -> T,
) -> T {
    let device = hw::find(device).unwrap();
    let tiles = tile::solve(device, batch.shape.head_dim, batch.shape.dtype);
    run(&PackInput {
        batch,
        tree,
        device,
        tiles: &tiles,
        max_rows: max_rows.unwrap_or_else(|| tiles.max_m()),
        fixed_tile: None,
        options: &PackOptions::default(),
        explain: true,
    })
}
