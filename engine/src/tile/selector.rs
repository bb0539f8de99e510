//! Which tile a pack gets.
//!
//! m: the smallest that holds the rows (round up), so that the pack reads its KV once and no tile
//! is taller than it must be. n: the largest that is not longer than the KV, since a larger n means
//! fewer CTAs an SM and a shorter tail (PAT Figure 9), while an n beyond the KV computes padding.
//!
//! Where the device table holds a sweep of n by KV length (`tile_steps`), that decides n instead, as the
//! paper's decision tree does.
//!
//! Where not PAT's rule is asked for but the least time, a taller tile is taken in the place of it whose steps take less on
//! the device, and for packs that are joined beyond the tallest of them the tile that is made for these.
//!
//! Worked number: 5 queries × group 4 = 20 rows → m = 32; 192 KV tokens → n = 128 on the list
//! {16, 32, 64, 128}. The released code has the same rule with its limits spelled out: n = 16 below
//! 32 tokens, 32 below 64, 64 below 128, else 128, and n at least 32 for m = 64.

use crate::tile::{Tile, TileSet};
use crate::units::Tokens;

/// How the tile of a pack is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TileRule {
    /// The best of the device's feasible shapes.
    Fitting,
    /// The same, or in its place a taller one whose steps take less time on the device.
    Quickest,
    /// The same of those whose CTAs take one KV head, and whose warps share its tokens.
    OneHead,
    /// The list of PAT's released code, the same on every device.
    Released,
    /// One shape for every pack.
    Fixed(Tile),
}

impl TileRule {
    /// Rows of the tallest tile under this rule: packs are cut to it.
    pub fn max_rows(self, set: &TileSet) -> u32 {
        match self {
            Self::Fitting | Self::Quickest | Self::OneHead => set.max_m(),
            Self::Released => 64,
            Self::Fixed(tile) => tile.m,
        }
    }
}

/// A chosen tile with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileChoice {
    /// The tile.
    pub tile: Tile,
    /// Why, in one sentence.
    pub reason: &'static str,
    /// The shape that was next in line.
    pub runner_up: Tile,
    /// KV tokens from which this n is taken instead of the next smaller one; for the smallest n those
    /// from which the next larger one is. `None` where n does not go by the KV.
    pub from_tokens: Option<u64>,
}

/// Chooses the tile of a pack of `rows` query rows and `tokens` KV tokens.
pub fn select(set: &TileSet, rule: TileRule, rows: u32, tokens: Tokens) -> TileChoice {
    match rule {
        TileRule::Fixed(tile) => TileChoice {
            tile,
            reason: "every pack has the one tile that was asked for or that the kernel has",
            runner_up: tile,
            from_tokens: None,
        },
        TileRule::Released => released(rows, tokens),
        TileRule::Fitting => measured(set, rows, tokens).unwrap_or_else(|| fitting(set.feasible(), rows, tokens)),
        TileRule::Quickest => {
            let choice = select(set, TileRule::Fitting, rows, tokens);
            if let Some(tile) = set.double().filter(|_| rows > choice.tile.m) {
                return TileChoice { tile, reason: JOINED, runner_up: choice.tile, from_tokens: None };
            }
            match set.quicker_than(choice.tile) {
                Some(tile) => TileChoice { tile, reason: QUICKER, runner_up: choice.tile, ..choice },
                None => choice,
            }
        }
        TileRule::OneHead => one_head(set, select(set, TileRule::Quickest, rows, tokens)),
    }
}

/// The n that the device's sweep gives, where there is one for the m that holds the rows.
fn measured(set: &TileSet, rows: u32, tokens: Tokens) -> Option<TileChoice> {
    let m = set.feasible().iter().map(|t| t.m).find(|m| *m >= rows).unwrap_or_else(|| set.max_m());
    let steps = || set.steps.iter().filter(move |step| step.m == m);
    let chosen = steps().filter(|step| step.from_tokens <= tokens.0).max_by_key(|step| step.from_tokens)?;
    let other = steps().find(|step| step.n != chosen.n).unwrap_or(chosen);
    let above = steps().map(|step| step.from_tokens).filter(|from| *from > chosen.from_tokens).min();
    let from_tokens = if chosen.from_tokens > 0 { Some(chosen.from_tokens) } else { above };
    let runner_up = Tile { m, n: other.n };
    Some(TileChoice { tile: Tile { m, n: chosen.n }, reason: MEASURED, runner_up, from_tokens })
}

/// In the place of a tile for several KV heads the one for one head that keeps most bytes in flight, whatever the KV: warps
/// that share tokens wait for each other at each step, and packs of all lengths stay in one launch.
fn one_head(set: &TileSet, fitting: TileChoice) -> TileChoice {
    let several = |tile: &Tile| set.cell(*tile).is_some_and(|cell| cell.heads > 1);
    let is_known = |tile: &&Tile| set.cell(**tile).is_some_and(|cell| !cell.registers_estimated);
    let of_m = set.feasible().iter().filter(|tile| tile.m == fitting.tile.m && !several(tile)).filter(is_known);
    match of_m.max_by_key(|tile| tile.n) {
        Some(tile) if several(&fitting.tile) => {
            TileChoice { tile: *tile, reason: ONE_HEAD, runner_up: fitting.tile, from_tokens: None }
        }
        _ => fitting,
    }
}

const ONE_HEAD: &str = "the smallest m that holds the rows, then the largest n of those whose CTAs take one KV head";
const MEASURED: &str =
    "the smallest m that holds the rows, then the n that was fastest on this device at that KV length";
const QUICKER: &str =
    "a taller tile in the place of the smallest that holds the rows: its steps take less time on this device";
const JOINED: &str = "joined packs have more rows than any other tile, and this one reads their KV once";
const FITTING: &str = "the smallest m that holds the rows, then the largest n that the KV fills";
const SHORT: &str = "the smallest m that holds the rows; the KV is shorter than every n of it, so the smallest";

fn fitting(feasible: &[Tile], rows: u32, tokens: Tokens) -> TileChoice {
    // Feasible shapes stand by m, then n; without any, the MMA minimum is all that is left.
    let minimum = Tile { m: 16, n: 16 };
    let m = feasible.iter().map(|t| t.m).find(|m| *m >= rows).or_else(|| feasible.last().map(|t| t.m));
    let of_m = || feasible.iter().copied().filter(|t| Some(t.m) == m);
    let smallest = of_m().next().unwrap_or(minimum);
    let mut chosen = None;
    let mut runner_up = smallest;
    for tile in of_m() {
        if u64::from(tile.n) <= tokens.0 {
            runner_up = chosen.unwrap_or(tile);
            chosen = Some(tile);
        }
    }
    let second = of_m().nth(1);
    let above_smallest = second.map(|tile| u64::from(tile.n));
    let Some(tile) = chosen else {
        let runner_up = second.unwrap_or(smallest);
        return TileChoice { tile: smallest, reason: SHORT, runner_up, from_tokens: above_smallest };
    };
    let from_tokens = if tile == smallest { above_smallest } else { Some(u64::from(tile.n)) };
    TileChoice { tile, reason: FITTING, runner_up, from_tokens }
}

fn released(rows: u32, tokens: Tokens) -> TileChoice {
    let m = match rows {
        33.. => 64,
        17..=32 => 32,
        _ => 16,
    };
    let n = match tokens.0 {
        128.. => 128,
        64..=127 => 64,
        32..=63 => 32,
        _ => 16,
    };
    let least = if m == 64 { 32 } else { 16 };
    let n = n.max(least);
    let (next, from_tokens) = if n > least { (n / 2, n) } else { (2 * n, 2 * n) };
    let reason = "PAT's released list: m by rows, n by KV tokens";
    TileChoice {
        tile: Tile { m, n },
        reason,
        runner_up: Tile { m, n: next },
        from_tokens: Some(u64::from(from_tokens)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hw;
    use crate::tile::{Constraint, DOUBLE, solve};
    use crate::units::Nanos;
    use crate::workload::Dtype;

    #[test]
    fn rows_round_up_and_kv_rounds_down() {
        let set = solve(hw::find("a100-sxm-80gb").unwrap(), 128, Dtype::F16);
        let pick = |rows, tokens| select(&set, TileRule::Fitting, rows, Tokens(tokens)).tile;
        assert_eq!(pick(20, 192), Tile { m: 32, n: 128 });
        assert_eq!(pick(64, 4096), Tile { m: 64, n: 128 });
        assert_eq!(pick(4, 40), Tile { m: 16, n: 32 });
        assert_eq!(pick(40, 20), Tile { m: 64, n: 32 }, "no n of m = 64 is short enough, so its smallest");
    }

    #[test]
    fn for_one_head_the_widest_kernel_takes_the_place_of_that_for_several() {
        let pick = |device, head_dim, rows| {
            let set = solve(hw::find(device).unwrap(), head_dim, Dtype::F16);
            [TileRule::Fitting, TileRule::OneHead].map(|rule| select(&set, rule, rows, Tokens(40)).tile)
        };
        let tile = |m, n| Tile { m, n };
        for (head_dim, n) in [(64, 64), (128, 64), (256, 128)] {
            assert_eq!(pick("h200-sxm", head_dim, 8), [tile(16, 16), tile(16, n)], "{head_dim}");
        }
        assert_eq!(pick("h200-sxm", 64, 32), [tile(32, 64), tile(64, 64)], "one head in any case, and quicker steps");
        assert_eq!(pick("a100-sxm-80gb", 128, 8), [tile(16, 32); 2], "no kernel takes several");
    }

    #[test]
    fn a_taller_tile_with_quicker_steps_takes_the_place_of_a_smaller_one() {
        let mut device = hw::find("h200-sxm").unwrap().clone();
        let pick = |device: &hw::Device, head_dim, rows| {
            let choice = select(&solve(device, head_dim, Dtype::F16), TileRule::Quickest, rows, Tokens(4096));
            (choice.tile.m, choice.tile.n, choice.reason == QUICKER)
        };
        assert_eq!(pick(&device, 128, 28), (64, 64, true), "619 and 500 ns a step beside 875 and 726");
        assert_eq!(pick(&device, 64, 28), (64, 64, true), "504 and 350 beside 653 and 511");
        assert_eq!(pick(&device, 128, 16), (16, 16, false), "which takes four heads");
        let tall = device.kernels.iter_mut().find(|kernel| (kernel.m, kernel.n) == (64, 64)).unwrap();
        tall.chain = Some(Nanos(900));
        assert_eq!(pick(&device, 128, 28), (32, 64, false), "slower by itself");
        assert_eq!(pick(hw::find("a100-sxm-80gb").unwrap(), 128, 28), (32, 128, false), "nobody timed its steps");
    }

    #[test]
    fn on_the_a100_the_rule_and_the_released_list_agree() {
        let set = solve(hw::find("a100-sxm-80gb").unwrap(), 128, Dtype::F16);
        for rows in 1..=64 {
            for tokens in 1..=300 {
                let fitting = select(&set, TileRule::Fitting, rows, Tokens(tokens)).tile;
                let released = select(&set, TileRule::Released, rows, Tokens(tokens)).tile;
                assert_eq!(fitting, released, "{rows} rows, {tokens} tokens");
            }
        }
    }

    /// Other rules cut packs to 64 rows, and so does this where there is no kernel of more.
    #[test]
    fn packs_of_more_rows_than_other_tiles_have_the_one_of_joined_packs() {
        let select_on = |device, head_dim, rule| {
            select(&solve(hw::find(device).unwrap(), head_dim, Dtype::F16), rule, 120, Tokens(4096)).tile
        };
        assert_eq!(select_on("h200-sxm", 128, TileRule::Quickest), DOUBLE);
        assert_eq!(select_on("h200-sxm", 128, TileRule::Fitting), Tile { m: 64, n: 64 });
        assert_eq!(select_on("h200-sxm", 64, TileRule::Quickest).m, 64);
        let set = solve(hw::find("h200-sxm").unwrap(), 128, Dtype::F16);
        assert_eq!((set.max_m(), set.feasible().contains(&DOUBLE)), (64, false));
        assert_eq!(set.cell(DOUBLE).unwrap().failed, [Constraint::Joined]);
    }
}
