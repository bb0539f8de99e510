//! How far from the f64 reference the outputs of a right plan may lie.
//!
//! The error of a row is ‖o − reference‖ / ‖reference‖. Each rounding on its way adds an independent
//! error, and the squares add up. Partials need no more room for being many: those of n of a row's N
//! tokens are longer than what they add up to by √(N/n), but have a weight of n/N, so the squares of
//! their errors, `Σ (n/N)² · (N/n) · r²`, come to r² again: a step of rounding counts once a row.
//!
//! | what errs | its relative error r, root of the mean square |
//! |---|---|
//! | a value stored in 16 bits | `0.38 · u`, with u = 2⁻¹¹ (f16) or 2⁻⁸ (bf16): a mantissa in [1, 2) errs by up to u, evenly |
//! | scores and weights in f32 | `16 · v`, with v = 2⁻²⁴: a dot product of d terms, its scale, the exponent and a product |
//! | a sum of n terms in f32 | `v · √(5n/18)`: the sum grows with k, its squared errors to n³/9 v² of n²; the output, a random walk, to n²/6 v² of n |
//! | a merge in f32 | `v · √43`: LSE is at most 16, and its rounding shifts the weights of the two sides |
//! | the tensor cores' sum of n terms | `2⁻²⁵ · n/16`: each step of 16 terms cuts off instead of rounding, half a unit of the last place on average, of what is there by then; these add up themselves |
//!
//! The steps of 16 bits in series are those that a partial is stored with ([`LaunchPlan::slot_forms`]
//! and the rounds' forms) on the longest way to the output; on a GPU the weights that enter the second
//! product and the output as well. The bound is four times the root of the sum of squares, since rows are
//! many and one of few dimensions can be shorter than its parts; what was cut off has no such spread and is
//! added as it is.
//!
//! Worked numbers. One unsplit pack of 1,048,576 tokens on the CPU: 5n/18 is 291,271, with 16² for the
//! scores √291,527 = 540 v = 3.2·10⁻⁵, so the bound is 1.3·10⁻⁴. Cascade in f16 with two levels: both
//! partials are stored in f16 and the merge writes the output, one step, 0.38 · 2⁻¹¹ = 1.9·10⁻⁴, bound
//! 7.4·10⁻⁴ on the CPU. On a GPU, three steps: 1.3·10⁻³, as in a persistent kernel, which keeps partials in f16. Fp32 partials on a GPU, two: 1.05·10⁻³, where
//! an H200 shows 3·10⁻⁴. The unsplit pack there: 65,536 steps cut off 2.0·10⁻³, so 3.0·10⁻³, and it shows
//! 1.1·10⁻³ (2.5·10⁻⁴ with 65,536 tokens, 3.5·10⁻⁴ with 262,144).

use crate::plan::LaunchPlan;
use crate::workload::{Dtype, PartialForm};

/// What computed the outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// The executor here: f32 throughout, but for partials that a plan stores in 16 bits.
    Cpu,
    /// Tensor cores: weights and outputs in 16 bits too.
    Gpu,
}

/// Root of the mean square of an evenly spread rounding error, in units of the largest: `1 / √3` over
/// 1.53, the root of the mean square of a mantissa.
const EVEN: f64 = 0.38;
/// Relative error of scores and weights, in units of f32's.
const SCORES: f64 = 16.0;
/// Squared relative error of one merge, in units of f32's: a sixth of the square of the largest LSE.
const MERGE: f64 = 43.0;
/// Roots of the mean square in a bound.
const MARGIN: f64 = 4.0;
/// Half a unit in the last place of f32.
const SINGLE: f64 = 1.0 / (1 << 24) as f64;

/// What of a plan decides how exact it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Way {
    /// Roundings of a partial to 16 bits, one after another.
    steps: u32,
    /// Merges, one after another.
    merges: u32,
    /// Terms of the longest f32 sum.
    longest: u64,
}

/// The largest relative error that a right run of a plan shows.
pub fn error_bound(plan: &LaunchPlan, arithmetic: Arithmetic) -> f64 {
    let way = Way::of(plan);
    let half = match plan.shape.dtype {
        Dtype::F16 => 1.0 / 2048.0,
        Dtype::Bf16 => 1.0 / 256.0,
    };
    let terms = way.longest as f64;
    // The weights of the second product and the output.
    let (more, cut) = match arithmetic {
        Arithmetic::Cpu => (0, 0.0),
        Arithmetic::Gpu => (2, terms / 16.0 * SINGLE / 2.0),
    };
    let halves = f64::from(way.steps + more) * (EVEN * half).powi(2);
    let singles = SCORES * SCORES + terms * 5.0 / 18.0 + MERGE * f64::from(way.merges);
    MARGIN * (halves + singles * SINGLE * SINGLE).sqrt() + cut
}

impl Way {
    /// The worst of all rows.
    fn of(plan: &LaunchPlan) -> Self {
        let packs = plan.packs.iter().map(|pack| pack.tokens.0);
        let tasks = plan.prefill.tasks.iter().map(|task| task.tokens().0);
        let longest = packs.chain(tasks).max().unwrap_or(0);
        let splits = plan.prefill.chunks.iter().map(|chunk| chunk.splits).max().unwrap_or(1);
        let at_once = plan.merge.max_partials().max(splits).saturating_sub(1);
        let (steps, merges) = if plan.merge.rounds.is_empty() {
            let stored = plan.merge.max_partials() > 1 && plan.partial_form() == PartialForm::Native;
            (u32::from(stored), at_once)
        } else {
            rounds(plan)
        };
        Self { steps, merges: merges.max(splits.saturating_sub(1)), longest }
    }
}

/// Steps of 16 bits and merges of the longest ways through prescribed rounds.
fn rounds(plan: &LaunchPlan) -> (u32, u32) {
    let half = |form: PartialForm| u32::from(form == PartialForm::Native);
    // (steps, merges) of what each slot holds.
    let mut held: Vec<(u32, u32)> = plan.slot_forms().iter().map(|form| (form.map_or(0, half), 0)).collect();
    for round in &plan.merge.rounds {
        for row in 0..round.rows() {
            let slots = round.row(row);
            let Some(first) = slots.first().filter(|first| (**first as usize) < held.len()) else { continue };
            let of = slots.iter().filter_map(|slot| held.get(*slot as usize));
            let (steps, merges) = of.fold((0, 0), |most, slot| (most.0.max(slot.0), most.1.max(slot.1)));
            let written = if round.finishes[row] { 0 } else { half(round.writes) };
            held[*first as usize] = (steps + written, merges + slots.len() as u32 - 1);
        }
    }
    held.iter().fold((0, 0), |most, slot| (most.0.max(slot.0), most.1.max(slot.1)))
}
