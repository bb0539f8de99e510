//! The hybrid batches of POD-Attention's Figures 6, 11, 13 and 14 and of its Table 8.
//!
//! A request of `context` tokens is prefilled in chunks, one a batch, beside decodes of the same
//! context: chunk i of c tokens ends at KV length (i + 1) · c. In Figure 11 the decodes hold one
//! token less than the context, and their number is 90, 95 or 100 % of what fits the GPU's memory:
//!
//! ```text
//! most = ⌊ 0.9 · (80 GiB − weights / TP) / (Hkv · 128 · 2 · 2 B · 32 layers · context) ⌋
//! ```
//!
//! Worked number, Llama-3-8B on one GPU (8 KV heads, 16 GiB), 4,096 tokens: 0.5 GiB a request, so
//! ⌊0.9 · 64 / 0.5⌋ = 115, and 103, 109 and 115 decodes.

use crate::workload::{AttentionShape, BatchSpec, RequestSpec};

/// Blocks as large as POD's paged kernels want them.
const BLOCK_SIZE: u32 = 256;
const GIB: u64 = 1 << 30;

/// A model on a number of GPUs: name, query and KV heads of one GPU, weights of one GPU in bytes.
const MODELS: [(&str, u32, u32, u64); 7] = [
    ("llama-3-8b TP1", 32, 8, 16 * GIB),
    ("llama-3-8b TP2", 16, 4, 8 * GIB),
    ("llama-3-8b TP4", 8, 2, 4 * GIB),
    ("llama-3-8b TP8", 4, 1, 2 * GIB),
    ("yi-6b TP1", 32, 4, 12 * GIB),
    ("yi-6b TP2", 16, 2, 6 * GIB),
    ("yi-6b TP4", 8, 1, 3 * GIB),
];

/// One hybrid batch of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodRow {
    /// Model and tensor parallelism.
    pub model: &'static str,
    /// Query heads of one GPU.
    pub query_heads: u32,
    /// KV heads of one GPU.
    pub kv_heads: u32,
    /// Tokens of the prompt that is prefilled.
    pub context: u64,
    /// Query tokens of a chunk.
    pub chunk: u64,
    /// Which chunk of the prompt it is, from 0.
    pub index: u64,
    /// Decode requests.
    pub decodes: u32,
    /// KV tokens of each.
    pub decode_kv: u64,
}

impl PodRow {
    /// The batch.
    pub fn spec(&self) -> BatchSpec {
        let shape = AttentionShape {
            query_heads: self.query_heads,
            kv_heads: self.kv_heads,
            block_size: BLOCK_SIZE,
            ..AttentionShape::default()
        };
        let prefill = RequestSpec::Prefill { chunk: self.chunk, kv: self.chunk * (self.index + 1) };
        let decode = RequestSpec::Decode { kv: self.decode_kv, count: self.decodes };
        let name = format!(
            "{} {}K, chunk {} of {}, {} decodes",
            self.model,
            self.context / 1024,
            self.index,
            self.chunk,
            self.decodes
        );
        BatchSpec { name, requests: vec![prefill, decode], ..BatchSpec::empty(shape) }
    }
}

/// Figure 6: all 32 chunks of 512 tokens of a 16K prompt on Yi-6B, beside 54 and then 55 decodes.
pub fn figure_6() -> Vec<PodRow> {
    let row = |decodes: u32, index: u64| PodRow {
        model: "yi-6b TP1",
        query_heads: 32,
        kv_heads: 4,
        context: 16_384,
        chunk: 512,
        index,
        decodes,
        decode_kv: 16_384,
    };
    [54, 55].into_iter().flat_map(|decodes| (0..32).map(move |index| row(decodes, index))).collect()
}

/// Figure 11: seven models, five contexts, three numbers of decodes, three chunk sizes, every chunk:
/// 4,410 batches.
pub fn figure_11() -> Vec<PodRow> {
    let mut rows = Vec::new();
    for (model, query_heads, kv_heads, weights) in MODELS {
        for context in [4096, 8192, 12_288, 16_384, 20_480] {
            let request = u64::from(kv_heads) * 128 * 2 * 2 * 32 * context;
            let most = (80 * GIB - weights) * 9 / 10 / request;
            for percent in [90, 95, 100] {
                for chunk in [512, 1024, 2048] {
                    rows.extend((0..context / chunk).map(|index| PodRow {
                        model,
                        query_heads,
                        kv_heads,
                        context,
                        chunk,
                        index,
                        decodes: (most * percent / 100) as u32,
                        decode_kv: context - 1,
                    }));
                }
            }
        }
    }
    rows
}

/// Figure 13: whole prompts of 1K to 16K on Llama-3-8B, beside 8 to 128 decodes of the same length; by decodes.
pub fn figure_13() -> Vec<PodRow> {
    let row = |decodes, context| PodRow { decodes, ..whole(MODELS[0], context) };
    let contexts = [1024, 2048, 4096, 8192, 16_384];
    [8, 16, 32, 64, 128].into_iter().flat_map(|decodes| contexts.map(|context| row(decodes, context))).collect()
}

/// Figure 14: prompts of 8K on Llama-3-8B and then Yi-6B, beside 32 to 192 decodes of 8K.
pub fn figure_14() -> Vec<PodRow> {
    let decodes = [32, 64, 96, 128, 192];
    let rows = |model| decodes.map(|decodes| PodRow { decodes, ..whole(model, 8192) });
    [MODELS[0], MODELS[4]].into_iter().flat_map(rows).collect()
}

/// Table 8: the last four chunks of 512 tokens of a 16K prompt on Llama-3-8B, beside 64 decodes of 16K.
///
/// On two GPUs, as in the rest of the paper, though the table does not say so: on one the KV of the decodes is 4.3 GB,
/// which an A100 reads in no less than 2.1 ms, and the table has 1.45 ms.
pub fn table_8() -> Vec<PodRow> {
    let of = whole(MODELS[1], 16_384);
    (28..32).map(|index| PodRow { chunk: 512, index, decodes: 64, ..of }).collect()
}

/// A prompt that is prefilled at once, and decodes as long as it is.
fn whole((model, query_heads, kv_heads, _): (&'static str, u32, u32, u64), context: u64) -> PodRow {
    PodRow { model, query_heads, kv_heads, context, chunk: context, index: 0, decodes: 0, decode_kv: context }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes at 90, 95 and 100 % for 4K to 20K, as POD's scripts compute them.
    const DECODES: [[[u32; 3]; 5]; 7] = [
        [[103, 109, 115], [51, 54, 57], [34, 36, 38], [25, 26, 28], [20, 21, 23]],
        [[233, 246, 259], [116, 122, 129], [77, 81, 86], [57, 60, 64], [45, 48, 51]],
        [[492, 519, 547], [245, 259, 273], [163, 172, 182], [122, 129, 136], [98, 103, 109]],
        [[1010, 1066, 1123], [504, 532, 561], [336, 355, 374], [252, 266, 280], [201, 212, 224]],
        [[219, 231, 244], [109, 115, 122], [72, 76, 81], [54, 57, 61], [43, 45, 48]],
        [[478, 505, 532], [239, 252, 266], [159, 168, 177], [119, 126, 133], [95, 100, 106]],
        [[997, 1052, 1108], [498, 526, 554], [332, 350, 369], [249, 263, 277], [198, 209, 221]],
    ];

    #[test]
    fn the_sweep_has_the_rows_of_the_paper() {
        let rows = figure_11();
        assert_eq!(rows.len(), 4410);
        for (model, by_context) in MODELS.into_iter().zip(DECODES) {
            for (context, decodes) in [4096, 8192, 12_288, 16_384, 20_480].into_iter().zip(by_context) {
                let of = |row: &&PodRow| (row.model, row.context) == (model.0, context);
                let mut found: Vec<u32> = rows.iter().filter(of).map(|row| row.decodes).collect();
                found.dedup();
                assert_eq!(found, decodes, "{} at {context}", model.0);
                let chunks = rows.iter().filter(of).filter(|row| row.chunk == 512).count() as u64;
                assert_eq!(chunks, 3 * context / 512);
            }
        }
        assert!(rows.iter().all(|row| row.chunk * (row.index + 1) <= row.context));
        assert_eq!(figure_6().len(), 64);
    }

    #[test]
    fn the_sensitivity_studies_have_the_batches_of_the_paper() {
        let (contexts, policies, splits) = (figure_13(), figure_14(), table_8());
        assert_eq!((contexts.len(), policies.len(), splits.len()), (25, 10, 4));
        assert!(contexts.iter().chain(&policies).all(|row| row.chunk == row.context && row.decode_kv == row.context));
        assert_eq!((policies[0].kv_heads, policies[9].kv_heads, policies[9].decodes), (8, 4, 192));
        assert_eq!((splits[3].chunk * (splits[3].index + 1), splits[3].decodes), (16_384, 64));
        assert_eq!((splits[0].query_heads, splits[0].kv_heads), (16, 4));
        assert!(splits.iter().all(|row| row.spec().build().is_ok()));
    }
}
