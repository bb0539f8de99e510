//! The rest of a transformer layer, by a roofline: projections and the feed-forward part, at the peak of the tensor
//! cores or at the bandwidth that a plain read reaches, whichever takes longer. It is the least that they can take.
//!
//! Not in it: the all-reduce of tensor parallelism, norms, the embedding, the output head, sampling and the host.
//!
//! Worked: Llama 3 8B has 218 M weights a layer, 436 MB; a read of them at 4 TB/s takes 109 µs, and 256 tokens are
//! 112 GFLOP, 113 µs at 989 TFLOP/s.

use crate::hw::Device;
use crate::units::Nanos;
use crate::workload::{Experts, Model};

/// Time of the rest of one layer for so many tokens, on one GPU of `gpus`.
pub(super) fn rest_of_layer(model: &Model, gpus: u32, device: &Device, tokens: u64) -> Nanos {
    let hidden = f64::from(model.hidden_size);
    let head = f64::from(model.head_dim);
    let (query, kv) = (f64::from(model.query_heads) * head, f64::from(model.kv_heads) * head);
    let projections = hidden * (query + 2.0 * kv) + query * hidden;
    let expert = 3.0 * hidden * f64::from(model.intermediate_size);
    let (active, touched) = match model.experts {
        None => (1.0, 1.0),
        Some(Experts { total, active }) => {
            let (total, active) = (f64::from(total), f64::from(active));
            // Experts that at least one of the tokens goes to, drawn evenly.
            (active, total * (1.0 - (1.0 - active / total).powf(tokens as f64)))
        }
    };
    let gpus = f64::from(gpus.max(1));
    let flop = 2.0 * tokens as f64 * (projections + active * expert) / gpus;
    let bytes = model.dtype.bytes() as f64 * (projections + touched * expert) / gpus;
    let seconds = (flop / device.tensor_flops as f64).max(bytes / device.reachable_bytes_per_s());
    Nanos((seconds * 1e9).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_tokens_cost_the_weights_and_many_the_arithmetic() {
        let device = crate::hw::find("h200-sxm").unwrap();
        let model = Model::find("llama-3-8b").unwrap();
        let time = |tokens| rest_of_layer(model, 1, device, tokens).as_f64();
        assert!((time(1) - time(8)).abs() < 1.0);
        let weights = 4096.0 * (6144.0 + 4096.0) + 3.0 * 4096.0 * 14336.0;
        assert!((time(1) - 2.0 * weights / device.reachable_bytes_per_s() * 1e9).abs() <= 1.0);
        assert!((time(8192) / time(4096) - 2.0).abs() < 1e-3);
        assert!((rest_of_layer(model, 2, device, 4096).as_f64() / time(4096) - 0.5).abs() < 1e-3);
    }

    #[test]
    fn tokens_touch_more_experts_but_each_only_its_own() {
        let device = crate::hw::find("h200-sxm").unwrap();
        let model = Model::find("qwen3-30b-a3b").unwrap();
        let time = |tokens| rest_of_layer(model, 1, device, tokens).as_f64();
        assert!(time(64) > 4.0 * time(1), "64 tokens go to nearly all of 128 experts");
        assert!(time(512) < 1.2 * time(64), "and no more than all");
    }
}
