//! Attention in f64, straight from the definition.

use crate::numerics::check::CheckedRow;
use crate::numerics::input::{HeadKv, Input};
use crate::workload::Batch;

/// The output row of one query row and query head, `[d]`: softmax(q·Kᵀ/√d)·V over all the tokens
/// that it attends to, which for row r of a prefill chunk of c tokens are the first K − c + r + 1.
pub(super) fn attention_row(batch: &Batch, input: &Input, kv: &HeadKv, row: &CheckedRow) -> Vec<f64> {
    let shape = &batch.shape;
    let q: Vec<f64> = row.q(input).into_iter().map(f64::from).collect();
    let tokens = row.tokens(batch) as u32;
    let scale = 1.0 / f64::from(shape.head_dim).sqrt();
    let blocks = batch.tables().row(row.query);
    let place = |token: u32| (blocks[(token / shape.block_size) as usize], token % shape.block_size);
    let scores: Vec<f64> = (0..tokens)
        .map(|token| {
            let (block, at) = place(token);
            kv.key(block, at).iter().zip(&q).map(|(k, q)| f64::from(*k) * q).sum::<f64>() * scale
        })
        .collect();
    let high = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = scores.iter().map(|score| (score - high).exp()).sum();
    let mut out = vec![0.0; shape.head_dim as usize];
    for (token, score) in scores.iter().enumerate() {
        let weight = (score - high).exp() / sum;
        let (block, at) = place(token as u32);
        for (o, v) in out.iter_mut().zip(kv.value(block, at)) {
            *o += weight * f64::from(*v);
        }
    }
    out
}
