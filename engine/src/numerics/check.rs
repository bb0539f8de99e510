//! `--check`: a plan's outputs against the f64 reference on fresh random input.

use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};
use rayon::prelude::*;

use crate::cancel::Cancel;
use crate::error::Result;
use crate::numerics::execute::{SlotOwners, plan_row};
use crate::numerics::input::{HeadKv, Input};
use crate::numerics::reference::attention_row;
use crate::plan::LaunchPlan;
use crate::units::QueryIdx;
use crate::workload::Batch;

/// Tokens of all checked rows together: what a CPU core does in about a second.
const TOKEN_BUDGET: u64 = 1 << 21;

/// What a check found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CheckReport {
    /// Output rows (query, query head) compared.
    pub rows: u64,
    /// Output rows of the batch; more than `rows` where the check sampled.
    pub rows_total: u64,
    /// Largest ‖o − reference‖ / ‖reference‖ over the rows; not a number if any output is.
    pub max_rel_err: f64,
}

/// Runs the plan on the CPU and compares. All rows of a small batch; of a large one a random
/// sample, spread over queries and heads, that stays within about a second of work.
///
/// # Errors
/// [`crate::Error::Cancelled`].
pub fn check(batch: &Batch, plan: &LaunchPlan, seed: u64, cancel: &Cancel) -> Result<CheckReport> {
    let mut reports = check_all(batch, &[plan], seed, cancel)?;
    Ok(reports.swap_remove(0))
}

/// As [`check`], for several plans of one batch: input and reference are made once. One report a plan.
///
/// # Errors
/// [`crate::Error::Cancelled`].
pub fn check_all(batch: &Batch, plans: &[&LaunchPlan], seed: u64, cancel: &Cancel) -> Result<Vec<CheckReport>> {
    let input = Input::new(seed, batch.shape);
    let owners: Vec<SlotOwners<'_>> = plans.iter().map(|plan| SlotOwners::new(plan)).collect();
    let rows = |kv: &HeadKv, query: QueryIdx, head: u32| {
        owners.iter().map(|owners| plan_row(batch, owners, &input, kv, query, head)).collect()
    };
    check_rows(batch, (seed, plans.len()), cancel, rows)
}

/// Compares rows that `count` plans computed from [`Input`] of `seed` with one reference, as [`check`] does.
/// `outputs` gives the row of one query and query head as each computed it, `[d]`. One report a plan.
///
/// # Errors
/// [`crate::Error::Cancelled`].
pub fn check_rows(
    batch: &Batch,
    (seed, count): (u64, usize),
    cancel: &Cancel,
    outputs: impl Fn(&HeadKv, QueryIdx, u32) -> Vec<Vec<f32>> + Sync,
) -> Result<Vec<CheckReport>> {
    let input = Input::new(seed, batch.shape);
    let by_head = sample(batch, seed);
    let rows = by_head.iter().map(|rows| rows.len() as u64).sum();
    // With fewer KV heads than cores the rows of a head are shared out, though each part draws its own KV.
    let parts = rayon::current_num_threads().div_ceil(by_head.len().max(1));
    let tasks: Vec<(u32, &[(QueryIdx, u32)])> = by_head
        .iter()
        .enumerate()
        .flat_map(|(kv_head, rows)| {
            rows.chunks(rows.len().div_ceil(parts).max(1)).map(move |rows| (kv_head as u32, rows))
        })
        .collect();
    let errors: Vec<Vec<f64>> = tasks
        .into_par_iter()
        .map(|rows| head_errors(batch, (&input, count), rows, cancel, &outputs))
        .collect::<Result<_>>()?;
    let rows_total = batch.decodes().count() as u64 * u64::from(batch.shape.query_heads);
    let worst = |plan: usize| errors.iter().map(|of_head| of_head[plan]).fold(0.0, larger);
    Ok((0..count).map(|plan| CheckReport { rows, rows_total, max_rel_err: worst(plan) }).collect())
}

/// Rows to check, (query, query head), by KV head.
fn sample(batch: &Batch, seed: u64) -> Vec<Vec<(QueryIdx, u32)>> {
    let shape = &batch.shape;
    let mut rng = StdRng::seed_from_u64(seed);
    let mut queries: Vec<QueryIdx> = batch.decodes().map(|(query, _)| query).collect();
    let mut by_head = vec![Vec::new(); shape.kv_heads as usize];
    let everything = batch.decode_tokens().0 * u64::from(shape.query_heads);
    if everything <= TOKEN_BUDGET {
        for head in 0..shape.query_heads {
            by_head[(head / shape.group()) as usize].extend(queries.iter().map(|query| (*query, head)));
        }
        return by_head;
    }
    queries.shuffle(&mut rng);
    let mut left = TOKEN_BUDGET;
    for query in queries {
        let head = rng.random_range(0..shape.query_heads);
        by_head[(head / shape.group()) as usize].push((query, head));
        left = left.saturating_sub(batch.request(query).kv.0);
        if left == 0 {
            break;
        }
    }
    by_head
}

/// The largest error of each plan over rows of one KV head.
fn head_errors(
    batch: &Batch,
    (input, count): (&Input, usize),
    (kv_head, rows): (u32, &[(QueryIdx, u32)]),
    cancel: &Cancel,
    outputs: &(impl Fn(&HeadKv, QueryIdx, u32) -> Vec<Vec<f32>> + Sync),
) -> Result<Vec<f64>> {
    let mut kv = HeadKv::new(*input, kv_head);
    let mut worst = vec![0.0; count];
    for (query, head) in rows {
        cancel.check()?;
        for block in batch.tables().row(*query) {
            kv.draw(*block);
        }
        let reference = attention_row(batch, input, &kv, *query, *head);
        for (worst, output) in worst.iter_mut().zip(outputs(&kv, *query, *head)) {
            *worst = larger(*worst, relative_error(&output, &reference));
        }
    }
    Ok(worst)
}

fn relative_error(output: &[f32], reference: &[f64]) -> f64 {
    let difference: f64 = output.iter().zip(reference).map(|(o, r)| (f64::from(*o) - r).powi(2)).sum();
    let norm: f64 = reference.iter().map(|r| r * r).sum();
    difference.sqrt() / norm.sqrt().max(f64::MIN_POSITIVE)
}

/// The larger of two, where not-a-number is larger than all.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}
