//! The shape of one attention layer.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::units::{Bytes, counted, grouped};

/// Element type of Q, K, V and the output. Partials are fp32 always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// IEEE half precision.
    #[default]
    F16,
    /// bfloat16.
    Bf16,
}

impl Dtype {
    /// Both, in the order of menus.
    pub const ALL: [Self; 2] = [Self::F16, Self::Bf16];

    /// Bytes of one element.
    pub fn bytes(self) -> u64 {
        2
    }

    /// The value of 16 bits of this type.
    pub fn from_bits(self, bits: u16) -> f32 {
        match self {
            Self::F16 => half::f16::from_bits(bits).to_f32(),
            Self::Bf16 => half::bf16::from_bits(bits).to_f32(),
        }
    }

    /// A number as this type holds it.
    pub fn round(self, value: f32) -> f32 {
        match self {
            Self::F16 => half::f16::from_f32(value).to_f32(),
            Self::Bf16 => half::bf16::from_f32(value).to_f32(),
        }
    }

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }
}

impl std::str::FromStr for Dtype {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == text).ok_or_else(|| Error::UnknownName {
            kind: "dtype",
            name: text.to_owned(),
            known: "f16, bf16".to_owned(),
        })
    }
}

/// How a partial result is stored until it is merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PartialForm {
    /// Normalised output and log-sum-exp, all fp32.
    #[default]
    Fp32,
    /// Normalised output, maximum and sum apart, all fp32 (FlashForge's POR).
    Fp32MaxSum,
    /// Normalised output in the element type of the batch, log-sum-exp in fp32.
    Native,
}

/// Heads, head dimension, dtype and KV block size of one attention layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AttentionShape {
    /// Query heads, Hq.
    pub query_heads: u32,
    /// KV heads, Hkv; divides Hq.
    pub kv_heads: u32,
    /// Head dimension d: 64, 128 or 256.
    pub head_dim: u32,
    /// Element type of Q, K, V and O.
    pub dtype: Dtype,
    /// Tokens of one KV block (page): a power of two, at most 256.
    pub block_size: u32,
}

impl Default for AttentionShape {
    fn default() -> Self {
        Self { query_heads: 32, kv_heads: 8, head_dim: 128, dtype: Dtype::F16, block_size: 32 }
    }
}

impl AttentionShape {
    /// Most query heads that share a KV head.
    pub const LARGEST_GROUP: u32 = 64;
    /// Head dimensions that kernels are made for.
    pub const HEAD_DIMS: [u32; 3] = [64, 128, 256];
    /// Block sizes.
    pub const BLOCK_SIZES: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

    /// Query heads that share one KV head, g = Hq / Hkv.
    pub fn group(&self) -> u32 {
        self.query_heads / self.kv_heads.max(1)
    }

    /// Q, K or V of one head of one query or token: `d·b`.
    pub fn head_bytes(&self) -> Bytes {
        Bytes(u64::from(self.head_dim) * self.dtype.bytes())
    }

    /// K and V of one token over all KV heads: `2·Hkv·d·b`.
    pub fn kv_bytes_per_token(&self) -> Bytes {
        self.kv_bytes_per_token_head() * u64::from(self.kv_heads)
    }

    /// K and V of one token of one KV head: `2·d·b`.
    pub fn kv_bytes_per_token_head(&self) -> Bytes {
        self.head_bytes() * 2
    }

    /// One query, or one output row, over all query heads: `Hq·d·b`.
    pub fn query_bytes(&self) -> Bytes {
        self.head_bytes() * u64::from(self.query_heads)
    }

    /// One partial of one query over all query heads, fp32 O and LSE: `Hq·(4·d + 4)`.
    pub fn partial_bytes(&self) -> Bytes {
        Bytes(u64::from(self.query_heads) * (4 * u64::from(self.head_dim) + 4))
    }

    /// One partial of one query over all query heads in a given form.
    pub fn partial_bytes_as(&self, form: PartialForm) -> Bytes {
        let heads = u64::from(self.query_heads);
        match form {
            PartialForm::Fp32 => self.partial_bytes(),
            PartialForm::Fp32MaxSum => self.partial_bytes() + Bytes(4 * heads),
            PartialForm::Native => self.query_bytes() + Bytes(4 * heads),
        }
    }

    /// Refuses shapes that no kernel here computes.
    pub fn validate(&self) -> Result<()> {
        let wrong = |text: String| Err(Error::Batch(text));
        let Self { query_heads, kv_heads, head_dim, block_size, .. } = *self;
        if query_heads == 0 || kv_heads == 0 {
            return wrong(format!("heads are {query_heads}/{kv_heads}, but both must be at least 1"));
        }
        if query_heads > 1024 {
            return wrong(format!("{} query heads, but at most 1,024 are supported", grouped(u64::from(query_heads))));
        }
        if !query_heads.is_multiple_of(kv_heads) {
            return wrong(format!(
                "{} do not divide over {}; each KV head must serve the same number of query heads",
                counted(u64::from(query_heads), "query head"),
                counted(u64::from(kv_heads), "KV head")
            ));
        }
        let group = query_heads / kv_heads;
        if group > Self::LARGEST_GROUP {
            return wrong(format!(
                "{} query heads share a KV head, but at most {} are supported",
                grouped(u64::from(group)),
                Self::LARGEST_GROUP
            ));
        }
        if !Self::HEAD_DIMS.contains(&head_dim) {
            return wrong(format!("head dimension {head_dim}, but only 64, 128 and 256 are supported"));
        }
        if !Self::BLOCK_SIZES.contains(&block_size) {
            return wrong(format!("block size {block_size}, but it must be a power of two from 1 to 256"));
        }
        Ok(())
    }
}
