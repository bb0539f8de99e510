//! Models that people serve: the shape of their attention on one GPU of a tensor-parallel group, and the sizes of the
//! rest of a layer.
//!
//! Tensor parallelism of degree t gives each GPU 1/t of the query heads and of the KV heads. With more GPUs than KV heads
//! each GPU holds one, several GPUs the same.
//!
//! Worked number: Qwen2.5 7B has 28 query heads over 4 KV heads; on 2 GPUs each computes 14 over 2, and on 7 nothing
//! divides. Llama 3 8B on 16 GPUs: 2 query heads each, over a KV head that two GPUs hold.

use serde::Serialize;

use crate::error::{Error, Result};
use crate::units::{counted, grouped};
use crate::workload::{AttentionShape, Dtype};

/// Experts of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Experts {
    /// All of them.
    pub total: u32,
    /// Those that a token goes through.
    pub active: u32,
}

/// A model as its `config.json` describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Model {
    /// Name on the command line.
    pub name: &'static str,
    /// Name for people.
    pub title: &'static str,
    /// Query heads of a layer.
    pub query_heads: u32,
    /// KV heads of a layer.
    pub kv_heads: u32,
    /// Elements of a head.
    pub head_dim: u32,
    /// Layers.
    pub layers: u32,
    /// Elements of a token between layers.
    pub hidden_size: u32,
    /// Inner elements of the feed-forward part, of one expert where there are several.
    pub intermediate_size: u32,
    /// Where the feed-forward part is a mixture of experts.
    pub experts: Option<Experts>,
    /// Element type of the weights of attention, and of its KV cache.
    pub dtype: Dtype,
    /// What of its attention packscope does not model; empty where it models all of it.
    pub not_modelled: &'static str,
    /// Where the figures stand.
    pub source: &'static str,
}

/// A dense model without peculiarities, to begin an entry with.
const DENSE: Model = Model {
    name: "",
    title: "",
    query_heads: 32,
    kv_heads: 8,
    head_dim: 128,
    layers: 32,
    hidden_size: 4096,
    intermediate_size: 14_336,
    experts: None,
    dtype: Dtype::Bf16,
    not_modelled: "",
    source: "",
};

/// What the gpt-oss models have in common.
const GPT_OSS: Model = Model {
    query_heads: 64,
    head_dim: 64,
    hidden_size: 2880,
    intermediate_size: 2880,
    not_modelled: "sliding windows of 128 tokens in every second layer and attention sinks",
    ..DENSE
};

/// All models, by family.
const MODELS: [Model; 16] = [
    Model {
        name: "llama-2-7b",
        title: "Llama 2 7B",
        kv_heads: 32,
        intermediate_size: 11_008,
        dtype: Dtype::F16,
        source: "https://huggingface.co/meta-llama/Llama-2-7b-hf/blob/main/config.json",
        ..DENSE
    },
    Model {
        name: "llama-3-8b",
        title: "Llama 3 8B",
        source: "https://huggingface.co/meta-llama/Meta-Llama-3-8B/blob/main/config.json",
        ..DENSE
    },
    Model {
        name: "llama-3-70b",
        title: "Llama 3 70B",
        query_heads: 64,
        layers: 80,
        hidden_size: 8192,
        intermediate_size: 28_672,
        source: "https://huggingface.co/meta-llama/Meta-Llama-3-70B/blob/main/config.json",
        ..DENSE
    },
    Model {
        name: "llama-3.2-3b",
        title: "Llama 3.2 3B",
        query_heads: 24,
        layers: 28,
        hidden_size: 3072,
        intermediate_size: 8192,
        source: "https://huggingface.co/meta-llama/Llama-3.2-3B/blob/main/config.json",
        ..DENSE
    },
    Model {
        name: "qwen2.5-7b",
        title: "Qwen2.5 7B",
        query_heads: 28,
        kv_heads: 4,
        layers: 28,
        hidden_size: 3584,
        intermediate_size: 18_944,
        source: "https://huggingface.co/Qwen/Qwen2.5-7B/blob/main/config.json",
        ..DENSE
    },
    Model {
        name: "qwen2.5-14b",
        title: "Qwen2.5 14B",
        query_heads: 40,
        layers: 48,
        hidden_size: 5120,
        intermediate_size: 13_824,
        source: "https://huggingface.co/Qwen/Qwen2.5-14B/blob/main/config.json",
        ..DENSE
    },
    Model {
        name: "qwen2.5-32b",
        title: "Qwen2.5 32B",
        query_heads: 40,
        layers: 64,
        hidden_size: 5120,
        intermediate_size: 27_648,
        source: "https://huggingface.co/Qwen/Qwen2.5-32B/blob/main/config.json",
        ..DENSE
    },
    Model {
        name: "qwen3-8b",
        title: "Qwen3 8B",
        layers: 36,
        intermediate_size: 12_288,
        source: "https://huggingface.co/Qwen/Qwen3-8B/blob/main/config.json",
        ..DENSE
    },
    Model {
        name: "qwen3-30b-a3b",
        title: "Qwen3 30B-A3B",
        kv_heads: 4,
        layers: 48,
        hidden_size: 2048,
        intermediate_size: 768,
        experts: Some(Experts { total: 128, active: 8 }),
        source: "https://huggingface.co/Qwen/Qwen3-30B-A3B/blob/main/config.json",
        ..DENSE
    },
    Model {
        name: "yi-6b",
        title: "Yi 6B",
        kv_heads: 4,
        intermediate_size: 11_008,
        source: "https://huggingface.co/01-ai/Yi-6B/blob/main/config.json",
        ..DENSE
    },
    Model {
        name: "gemma-2-9b",
        title: "Gemma 2 9B",
        query_heads: 16,
        head_dim: 256,
        layers: 42,
        hidden_size: 3584,
        not_modelled: "sliding windows of 4,096 tokens in every second layer and soft-capping of the scores",
        source: "https://huggingface.co/google/gemma-2-9b/blob/main/config.json",
        ..DENSE
    },
    Model {
        name: "gemma-3-27b",
        title: "Gemma 3 27B",
        kv_heads: 16,
        layers: 62,
        hidden_size: 5376,
        intermediate_size: 21_504,
        not_modelled: "sliding windows of 1,024 tokens in five of six layers",
        source: "https://huggingface.co/google/gemma-3-27b-pt/blob/main/config.json",
        ..DENSE
    },
    Model {
        name: "mistral-nemo",
        title: "Mistral Nemo 12B",
        layers: 40,
        hidden_size: 5120,
        source: "https://huggingface.co/mistralai/Mistral-Nemo-Base-2407/blob/main/config.json",
        ..DENSE
    },
    Model {
        name: "phi-4",
        title: "Phi-4",
        query_heads: 40,
        kv_heads: 10,
        layers: 40,
        hidden_size: 5120,
        intermediate_size: 17_920,
        source: "https://huggingface.co/microsoft/phi-4/blob/main/config.json",
        ..DENSE
    },
    Model {
        name: "gpt-oss-20b",
        title: "gpt-oss 20B",
        layers: 24,
        experts: Some(Experts { total: 32, active: 4 }),
        source: "https://huggingface.co/openai/gpt-oss-20b/blob/main/config.json",
        ..GPT_OSS
    },
    Model {
        name: "gpt-oss-120b",
        title: "gpt-oss 120B",
        layers: 36,
        experts: Some(Experts { total: 128, active: 4 }),
        source: "https://huggingface.co/openai/gpt-oss-120b/blob/main/config.json",
        ..GPT_OSS
    },
];

impl Model {
    /// All models, by family.
    pub fn all() -> &'static [Self] {
        &MODELS
    }

    /// The model of a name.
    ///
    /// # Errors
    /// [`Error::UnknownName`] with the names that exist.
    pub fn find(name: &str) -> Result<&'static Self> {
        MODELS.iter().find(|model| model.name == name).ok_or_else(|| Error::UnknownName {
            kind: "model",
            name: name.to_owned(),
            known: MODELS.map(|model| model.name).join(", "),
        })
    }

    /// Attention of one GPU of `gpus`, in blocks of `block_size` tokens.
    ///
    /// # Errors
    /// [`Error::Batch`] where the heads do not divide over the GPUs.
    pub fn shape(&self, gpus: u32, block_size: u32) -> Result<AttentionShape> {
        let shared = gpus.is_multiple_of(self.kv_heads.max(1));
        if gpus == 0 || !self.query_heads.is_multiple_of(gpus) || !(self.kv_heads.is_multiple_of(gpus) || shared) {
            let degrees: Vec<String> = self.degrees().map(|degree| degree.to_string()).collect();
            return Err(Error::Batch(format!(
                "{} has {} over {}, which do not divide over {}; take a tensor-parallel degree of {}",
                self.title,
                counted(u64::from(self.query_heads), "query head"),
                counted(u64::from(self.kv_heads), "KV head"),
                counted(u64::from(gpus), "GPU"),
                degrees.join(", ")
            )));
        }
        Ok(AttentionShape {
            query_heads: self.query_heads / gpus,
            kv_heads: (self.kv_heads / gpus).max(1),
            head_dim: self.head_dim,
            dtype: self.dtype,
            block_size,
        })
    }

    /// Tensor-parallel degrees over which its heads divide.
    pub fn degrees(&self) -> impl Iterator<Item = u32> {
        let (query_heads, kv_heads) = (self.query_heads, self.kv_heads.max(1));
        let divides = move |gpus: u32| kv_heads.is_multiple_of(gpus) || gpus.is_multiple_of(kv_heads);
        (1..=query_heads).filter(move |gpus| query_heads.is_multiple_of(*gpus) && divides(*gpus))
    }

    /// What it is, in one or two sentences.
    pub fn about(&self) -> String {
        let Self { title, query_heads, kv_heads, head_dim, layers, .. } = self;
        let inner = match self.experts {
            None => grouped(u64::from(self.intermediate_size)),
            Some(Experts { total, active }) => {
                format!("{} in each of {total} experts, {active} of them active", self.intermediate_size)
            }
        };
        let heads = format!("{query_heads}/{kv_heads} heads of {head_dim}, {}", self.dtype.name());
        let sizes = format!("{layers} layers of {}, inner {inner}", grouped(u64::from(self.hidden_size)));
        let missing = match self.not_modelled {
            "" => String::new(),
            what => format!(" Not modelled: {what}."),
        };
        format!("{title}: {heads}; {sizes}.{missing}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_model_has_a_shape_and_a_source() {
        for (at, model) in Model::all().iter().enumerate() {
            assert!(MODELS[..at].iter().all(|other| other.name != model.name), "{}", model.name);
            model.shape(1, 16).unwrap().validate().unwrap();
            assert!(model.source.starts_with("https://") && model.hidden_size > 0, "{}", model.name);
            assert_eq!(Model::find(model.name).unwrap(), model);
        }
        let unknown = Model::find("gpt-5").unwrap_err().to_string();
        assert!(unknown.contains("gpt-5") && unknown.contains("qwen2.5-7b"), "{unknown}");
    }

    #[test]
    fn every_degree_gives_each_gpu_whole_heads_and_together_all_of_them() {
        for model in Model::all() {
            for gpus in 0..=model.query_heads + 1 {
                let Ok(shape) = model.shape(gpus, 16) else {
                    assert!(model.degrees().all(|degree| degree != gpus), "{} on {gpus}", model.name);
                    continue;
                };
                assert!(model.degrees().any(|degree| degree == gpus), "{} on {gpus}", model.name);
                shape.validate().unwrap();
                assert_eq!(shape.query_heads * gpus, model.query_heads);
                assert_eq!(shape.kv_heads, (model.kv_heads / gpus).max(1));
                // The heads of a GPU are those of whole KV heads, or of a part of one.
                let group = model.query_heads / model.kv_heads;
                assert!(shape.query_heads.is_multiple_of(group) || group.is_multiple_of(shape.query_heads));
            }
        }
    }

    #[test]
    fn the_worked_numbers_hold() {
        let heads = |name: &str, gpus| {
            let shape = Model::find(name).unwrap().shape(gpus, 16);
            shape.map(|shape| (shape.query_heads, shape.kv_heads))
        };
        assert_eq!(heads("qwen2.5-7b", 2).unwrap(), (14, 2));
        assert_eq!(heads("llama-3-8b", 16).unwrap(), (2, 1));
        let refused = heads("qwen2.5-7b", 7).unwrap_err().to_string();
        assert!(refused.contains("do not divide over 7 GPUs") && refused.contains("1, 2, 4, 28"), "{refused}");
    }
}
