//! FlashForge's division and placement (section 5): into how many pieces each node's KV is cut, so
//! that the block that ends last ends as early as possible.
//!
//! ```text
//! L      the least time with  Σ pieces · cost(piece) / blocks ≤ L,  pieces = cd(cost, L)      bisection
//! pieces ≤ cd(cost, L)        more cannot help, so the search goes downwards from there
//! blocks longest piece first to the block that is free first
//! ```
//!
//! The paper searches the remaining counts in a grid; that is a product over nodes. Here the counts
//! follow one number, the length that a piece should have, in a few steps up from L: nodes alike are
//! cut alike, and the division with the smallest predicted end is kept. The placement is ours too: the
//! paper does not say how pieces go to blocks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A node's work on one KV head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    /// Query rows.
    pub(super) rows: f64,
    /// KV blocks, which are the smallest pieces.
    pub(super) kv_blocks: u32,
    /// KV tokens.
    pub(super) tokens: f64,
}

/// What was decided.
#[derive(Clone, Debug)]
pub(super) struct Division {
    /// Pieces of each task.
    pub(super) pieces: Vec<u32>,
    /// Predicted end of the last block, µs.
    pub(super) end: f64,
    /// The lower bound, µs.
    pub(super) bound: f64,
    /// (length of a piece in L, predicted end) of each division that was tried.
    pub(super) tried: Vec<(f64, f64)>,
}

/// Lengths of a piece that are tried, in multiples of the lower bound.
const STRETCH: [f64; 8] = [1.0, 1.15, 1.35, 1.6, 2.0, 3.0, 5.0, f64::INFINITY];
/// Halvings of the bisection: below a nanosecond from any start.
const BISECTIONS: u32 = 40;

fn cost(task: &Task) -> f64 {
    super::cost::micros(task.rows, task.tokens)
}

fn piece_cost(task: &Task, pieces: u32) -> f64 {
    super::cost::micros(task.rows, task.tokens / f64::from(pieces))
}

fn pieces(task: &Task, length: f64) -> u32 {
    let wanted = (cost(task) / length).ceil().max(1.0);
    (wanted as u32).min(task.kv_blocks).max(1)
}

/// Average load of a block when no piece is to be longer than `length`.
fn average(tasks: &[Task], copies: f64, blocks: f64, length: f64) -> f64 {
    let sum: f64 = tasks
        .iter()
        .map(|task| {
            let count = pieces(task, length);
            f64::from(count) * piece_cost(task, count)
        })
        .sum();
    sum * copies / blocks
}

/// The lower bound of the end of the last block, µs: no division ends before the average load, and
/// finer division only raises that.
pub(super) fn lower_bound(tasks: &[Task], copies: u32, blocks: u32) -> f64 {
    let (copies, blocks) = (f64::from(copies), f64::from(blocks));
    let mut high = tasks.iter().map(cost).fold(0.0, f64::max).max(average(tasks, copies, blocks, f64::INFINITY));
    let mut low = 0.0;
    for _ in 0..BISECTIONS {
        let middle = f64::midpoint(low, high);
        if average(tasks, copies, blocks, middle) <= middle {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

/// Divides the tasks, each of which is there once a KV head.
pub(super) fn divide(tasks: &[Task], copies: u32, blocks: u32) -> Division {
    let bound = lower_bound(tasks, copies, blocks);
    let mut best: Option<Division> = None;
    let mut tried = Vec::new();
    for stretch in STRETCH {
        let counts: Vec<u32> = tasks.iter().map(|task| pieces(task, bound * stretch)).collect();
        let end = place(tasks, &counts, copies, blocks);
        tried.push((stretch, end));
        if best.as_ref().is_none_or(|best| end < best.end) {
            best = Some(Division { pieces: counts, end, bound, tried: Vec::new() });
        }
    }
    let mut best = best.unwrap_or(Division { pieces: Vec::new(), end: 0.0, bound, tried: Vec::new() });
    best.tried = tried;
    best
}

/// Predicted end when pieces go longest first to the block that is free first, µs.
pub(super) fn place(tasks: &[Task], counts: &[u32], copies: u32, blocks: u32) -> f64 {
    let mut pieces: Vec<(f64, u64)> = tasks
        .iter()
        .zip(counts)
        .map(|(task, count)| (piece_cost(task, *count), u64::from(*count) * u64::from(copies)))
        .collect();
    pieces.sort_by(|a, b| b.0.total_cmp(&a.0));
    // Nanoseconds, so that the heap orders whole numbers.
    let mut free: BinaryHeap<Reverse<u64>> = (0..blocks.max(1)).map(|_| Reverse(0)).collect();
    let mut end = 0;
    for (cost, count) in pieces {
        let nanos = (cost * 1e3).round() as u64;
        for _ in 0..count {
            let Some(Reverse(at)) = free.pop() else { break };
            end = end.max(at + nanos);
            free.push(Reverse(at + nanos));
        }
    }
    end as f64 * 1e-3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(rows: f64, tokens: f64) -> Task {
        Task { rows, kv_blocks: (tokens / 32.0) as u32, tokens }
    }

    #[test]
    fn nothing_ends_before_the_lower_bound() {
        for (tasks, blocks) in [
            (vec![task(2.0, 120_000.0), task(1.0, 4096.0), task(1.0, 4096.0)], 108),
            (vec![task(100.0, 512.0); 40], 16),
            (vec![task(5.0, 16_384.0)], 8),
        ] {
            let division = divide(&tasks, 8, blocks);
            assert!(division.end >= division.bound - 0.1, "{division:?}");
            assert!(division.tried.iter().all(|(_, end)| *end >= division.end));
        }
    }

    #[test]
    fn one_long_node_is_cut_and_many_short_ones_are_not() {
        let long = divide(&[task(2.0, 120_000.0), task(1.0, 1024.0)], 8, 108);
        assert!(long.pieces[0] >= 8 && long.pieces[1] == 1, "{:?}", long.pieces);
        let uncut = place(&[task(2.0, 120_000.0), task(1.0, 1024.0)], &[1, 1], 8, 108);
        assert!(long.end < uncut / 3.0, "{} µs against {uncut} uncut", long.end);
        let many = divide(&vec![task(1.0, 1024.0); 1000], 8, 108);
        assert!(many.pieces.iter().all(|count| *count == 1));
    }

    #[test]
    fn longest_first_is_within_a_third_of_the_best_placement() {
        // 7 pieces on 3 blocks, by trying every placement.
        let tasks: Vec<Task> = [4096.0, 3000.0, 2500.0, 2048.0, 1500.0, 1024.0, 700.0].map(|t| task(1.0, t)).to_vec();
        let costs: Vec<f64> = tasks.iter().map(cost).collect();
        let best = (0..3_u32.pow(7))
            .map(|code| {
                let mut load = [0.0; 3];
                for (at, cost) in costs.iter().enumerate() {
                    load[(code / 3_u32.pow(at as u32) % 3) as usize] += cost;
                }
                load.into_iter().fold(0.0, f64::max)
            })
            .fold(f64::INFINITY, f64::min);
        let greedy = place(&tasks, &[1; 7], 1, 3);
        assert!(greedy >= best - 0.01 && greedy <= best * (4.0 / 3.0), "greedy {greedy}, best {best}");
    }
}
