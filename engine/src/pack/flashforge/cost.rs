//! FlashForge's cost estimator: the time of one PAC on one thread block, interpolated between the
//! points of a profiled grid.
//!
//! Between points it is linear in both directions; outside, the line of the nearest two points goes
//! on, and the time is never below that of no work at all. Worked number: 5 rows over 3,072 tokens
//! lie half-way between .059 and .093 ms, so 76 µs.

/// Rows of the grid: KV tokens.
const TOKENS: [f64; 6] = [512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16_384.0];
/// Columns of the grid: query rows.
const ROWS: [f64; 7] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];
/// Table 2 of the paper: microseconds on one block, head dimension 128, measured on an `A100 PCIe`.
const MICROS: [[f64; 7]; 6] = [
    [36.0, 35.0, 36.0, 43.0, 48.0, 74.0, 112.0],
    [43.0, 43.0, 44.0, 54.0, 62.0, 109.0, 122.0],
    [60.0, 59.0, 59.0, 79.0, 94.0, 124.0, 145.0],
    [92.0, 92.0, 93.0, 126.0, 147.0, 156.0, 183.0],
    [156.0, 157.0, 156.0, 199.0, 189.0, 195.0, 266.0],
    [283.0, 282.0, 283.0, 301.0, 303.0, 471.0, 746.0],
];
/// Head dimension of the grid.
pub(super) const HEAD_DIM: u32 = 128;
/// No piece takes less: launch and first tile.
const LEAST: f64 = 20.0;

/// Time of one PAC of `rows` query rows (queries × group) over `tokens` KV tokens, µs.
pub(super) fn micros(rows: f64, tokens: f64) -> f64 {
    let (at, along) = place(&TOKENS, tokens);
    let below = in_row(&MICROS[at], rows);
    let above = in_row(&MICROS[at + 1], rows);
    (below + (above - below) * along).max(LEAST)
}

fn in_row(row: &[f64; 7], rows: f64) -> f64 {
    let (at, along) = place(&ROWS, rows);
    row[at] + (row[at + 1] - row[at]) * along
}

/// The interval of a grid for a value, and how far along it lies; past 0 and 1 outside the grid.
fn place(grid: &[f64], value: f64) -> (usize, f64) {
    let at = grid.partition_point(|point| *point <= value).saturating_sub(1).min(grid.len() - 2);
    (at, (value - grid[at]) / (grid[at + 1] - grid[at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_s_table_is_reproduced_at_its_points() {
        for (tokens, row) in TOKENS.iter().zip(&MICROS) {
            for (rows, expected) in ROWS.iter().zip(row) {
                let got = micros(*rows, *tokens);
                assert!((got - expected).abs() < 1e-9, "{rows} rows, {tokens} tokens: {got} µs");
            }
        }
    }

    #[test]
    fn between_points_it_is_linear_and_outside_the_line_goes_on() {
        assert!((micros(5.0, 3072.0) - 76.0).abs() < 1e-9);
        assert!((micros(75.0, 512.0) - 93.0).abs() < 1e-9);
        assert!((micros(1.0, 32_768.0) - 537.0).abs() < 1e-9, "twice 16,384 tokens: 283 + 2 · 127");
        assert!(micros(1.0, 16.0) >= 20.0);
    }
}
