//! Attention in f64, straight from the definition.

use crate::numerics::input::{HeadKv, Input};
use crate::units::QueryIdx;
use crate::workload::Batch;

/// The output row of one query and query head, `[d]`: softmax(q·Kᵀ/√d)·V over all its tokens.
pub(super) fn attention_row(batch: &Batch, input: &Input, kv: &HeadKv, query: QueryIdx, head: u32) -> Vec<f64> {
    let shape = &batch.shape;
    let q: Vec<f64> = input.query(query, head).into_iter().map(f64::from).collect();
    let scale = 1.0 / f64::from(shape.head_dim).sqrt();
    let row = batch.tables().row(query);
    let tokens = batch.request(query).kv.0 as u32;
    let place = |token: u32| (row[(token / shape.block_size) as usize], token % shape.block_size);
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
