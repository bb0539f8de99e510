//! `--check`: a plan's outputs against the f64 reference on fresh random input.

use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};
use rayon::prelude::*;

use crate::cancel::Cancel;
use crate::error::Result;
use crate::numerics::bound::{Arithmetic, error_bound};
use crate::numerics::execute::{SlotOwners, plan_row};
use crate::numerics::input::{HeadKv, Input};
use crate::numerics::reference::attention_row;
use crate::plan::LaunchPlan;
use crate::units::QueryIdx;
use crate::workload::{Batch, Request, RequestKind};

/// Tokens of all checked rows together: what a CPU core does in about a second.
const TOKEN_BUDGET: u64 = 1 << 21;
/// Most rows of prefill chunks beyond one of each, of a batch that is sampled.
const MORE_PREFILL_ROWS: usize = 4096;

/// What a check found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CheckReport {
    /// Output rows (query, query head) compared.
    pub rows: u64,
    /// Output rows of the batch; more than `rows` where the check sampled.
    pub rows_total: u64,
    /// Largest ‖o − reference‖ / ‖reference‖ over the rows; not a number if any output is.
    pub max_rel_err: f64,
    /// The largest that a right run of this plan shows; see [`error_bound`].
    pub bound: f64,
}

impl CheckReport {
    /// Whether the outputs are as near to the reference as the plan's arithmetic brings them. What is not
    /// a number is not.
    pub fn is_right(&self) -> bool {
        self.max_rel_err <= self.bound
    }
}

/// One row of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedRow {
    /// The request.
    pub query: QueryIdx,
    /// Row of its prefill chunk; none for a decode, which has one.
    pub row: Option<u32>,
    /// Query head.
    pub head: u32,
}

impl CheckedRow {
    /// Its query.
    pub(super) fn q(&self, input: &Input) -> Vec<f32> {
        match self.row {
            Some(row) => input.prefill_query(self.query, row, self.head),
            None => input.query(self.query, self.head),
        }
    }

    /// KV tokens that it attends to.
    pub(super) fn tokens(&self, batch: &Batch) -> u64 {
        let request = batch.request(self.query);
        match (request.kind, self.row) {
            (RequestKind::Prefill { chunk }, Some(row)) => request.kv.0 - chunk.0 + u64::from(row) + 1,
            _ => request.kv.0,
        }
    }
}

/// Runs the plan on the CPU and compares. All rows of a small batch; of a large one a random
/// sample, spread over queries, rows and heads, that stays within about a second of work.
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
    let rows =
        |kv: &HeadKv, row: &CheckedRow| owners.iter().map(|owners| plan_row(batch, owners, &input, kv, row)).collect();
    let bounds: Vec<f64> = plans.iter().map(|plan| error_bound(plan, Arithmetic::Cpu)).collect();
    check_rows(batch, (seed, &bounds), cancel, rows)
}

/// Compares rows that plans computed from [`Input`] of `seed` with one reference, as [`check`] does. `bounds` has
/// what each plan may err by, `outputs` gives one row as each computed it, `[d]`. One report a plan.
///
/// # Errors
/// [`crate::Error::Cancelled`].
pub fn check_rows(
    batch: &Batch,
    (seed, bounds): (u64, &[f64]),
    cancel: &Cancel,
    outputs: impl Fn(&HeadKv, &CheckedRow) -> Vec<Vec<f32>> + Sync,
) -> Result<Vec<CheckReport>> {
    let count = bounds.len();
    let input = Input::new(seed, batch.shape);
    let by_head = sample(batch, seed);
    let rows = by_head.iter().map(|rows| rows.len() as u64).sum();
    // With fewer KV heads than cores the rows of a head are shared out, though each part draws its own KV.
    let parts = rayon::current_num_threads().div_ceil(by_head.len().max(1));
    let tasks: Vec<(u32, &[CheckedRow])> = by_head
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
    let rows_total = batch.requests().iter().map(rows_of).sum::<u64>() * u64::from(batch.shape.query_heads);
    let worst = |plan: usize| errors.iter().map(|of_head| of_head[plan]).fold(0.0, larger);
    let report =
        |(plan, bound): (usize, &f64)| CheckReport { rows, rows_total, max_rel_err: worst(plan), bound: *bound };
    Ok(bounds.iter().enumerate().map(report).collect())
}

/// Query rows of a request.
fn rows_of(request: &Request) -> u64 {
    match request.kind {
        RequestKind::Decode => 1,
        RequestKind::Prefill { chunk } => chunk.0,
    }
}

/// Rows to check by KV head. Where not all can be, each request in turn gives one row, decodes and
/// prefill chunks in random order, until the work is enough.
fn sample(batch: &Batch, seed: u64) -> Vec<Vec<CheckedRow>> {
    let shape = &batch.shape;
    let mut rng = StdRng::seed_from_u64(seed);
    let mut by_head = vec![Vec::new(); shape.kv_heads as usize];
    let mut put = |row: CheckedRow| by_head[(row.head / shape.group()) as usize].push(row);
    let row = |query: QueryIdx, row: u64, head: u32| {
        let row = (!batch.request(query).is_decode()).then_some(row as u32);
        CheckedRow { query, row, head }
    };
    let mut queries: Vec<QueryIdx> = (0..batch.requests().len()).map(QueryIdx::from).collect();
    let everything: u64 = batch.requests().iter().map(|request| rows_of(request) * request.kv.0).sum();
    if everything * u64::from(shape.query_heads) <= TOKEN_BUDGET {
        for head in 0..shape.query_heads {
            for query in &queries {
                (0..rows_of(batch.request(*query))).for_each(|at| put(row(*query, at, head)));
            }
        }
        return by_head;
    }
    queries.shuffle(&mut rng);
    // Prefill rows beyond the first of each chunk come after every request had one.
    let more: Vec<QueryIdx> = batch.prefills().map(|(query, _)| query).collect();
    let mut turns = queries.into_iter().chain(more.into_iter().cycle().take(MORE_PREFILL_ROWS));
    let mut left = TOKEN_BUDGET;
    while let Some(query) = turns.next().filter(|_| left > 0) {
        let head = rng.random_range(0..shape.query_heads);
        let chosen = row(query, rng.random_range(0..rows_of(batch.request(query))), head);
        left = left.saturating_sub(chosen.tokens(batch));
        put(chosen);
    }
    by_head
}

/// The largest error of each plan over rows of one KV head.
fn head_errors(
    batch: &Batch,
    (input, count): (&Input, usize),
    (kv_head, rows): (u32, &[CheckedRow]),
    cancel: &Cancel,
    outputs: &(impl Fn(&HeadKv, &CheckedRow) -> Vec<Vec<f32>> + Sync),
) -> Result<Vec<f64>> {
    let mut kv = HeadKv::new(*input, kv_head);
    let mut worst = vec![0.0; count];
    for row in rows {
        cancel.check()?;
        for block in batch.tables().row(row.query) {
            kv.draw(*block);
        }
        let reference = attention_row(batch, input, &kv, row);
        for (worst, output) in worst.iter_mut().zip(outputs(&kv, row)) {
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
