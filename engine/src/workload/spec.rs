//! The batch as a person writes and edits it, and the schema of batch files (version 1).
//!
//! Prefix structure is nested nodes; a node may repeat, and says how many requests end at it.
//! Requests may also be listed with explicit block ids, and prefill chunks stand beside them.
//! `sample_batches/README.md` documents every field.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::workload::{AttentionShape, Batch, Request, Scene, ron_text};

/// Version of the batch file schema that this build writes and reads.
pub const SCHEMA: u32 = 1;

/// A batch file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchSpec {
    /// Always [`SCHEMA`].
    pub schema: u32,
    /// Name for lists and titles.
    #[serde(default)]
    pub name: String,
    /// What a person should look for in this batch.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub look_for: String,
    /// How the file is shown and what its text claims. Whoever opens a file takes it out, so that captures and
    /// edited batches have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scene: Option<Box<Scene>>,
    /// Attention shape.
    #[serde(default)]
    pub shape: AttentionShape,
    /// Prefix trees; several roots make a forest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<NodeSpec>,
    /// Requests beside the trees: prefill chunks, unshared decodes, or decodes with explicit blocks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<RequestSpec>,
}

/// A node of a prefix tree: tokens shared by every request below it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    /// KV tokens of this node alone; whole blocks unless it is a leaf.
    pub tokens: u64,
    /// The node stands this many times, each with its own blocks and its own copy of what is below.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub repeat: u32,
    /// Requests that end at this node; 1 for a leaf and 0 for an inner node unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u32>,
    /// What continues from here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<NodeSpec>,
}

/// A request beside the trees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum RequestSpec {
    /// `count` decode requests of `kv` tokens each that share nothing.
    Decode {
        /// KV tokens of each.
        kv: u64,
        /// How many.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        count: u32,
    },
    /// One decode request over the given physical blocks.
    Blocks {
        /// KV tokens.
        kv: u64,
        /// Block ids in token order, `ceil(kv / block_size)` of them.
        blocks: Vec<u32>,
    },
    /// A causal prefill chunk of `chunk` query tokens that ends at KV length `kv`.
    Prefill {
        /// Query tokens.
        chunk: u64,
        /// KV length at the end of the chunk.
        kv: u64,
    },
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's skip_serializing_if passes a reference")]
fn is_one(count: &u32) -> bool {
    *count == 1
}

impl NodeSpec {
    /// A leaf of `tokens` tokens with one request.
    pub fn leaf(tokens: u64) -> Self {
        Self { tokens, repeat: 1, requests: None, children: Vec::new() }
    }

    /// Requests that end at one copy of this node.
    pub fn ending(&self) -> u32 {
        self.requests.unwrap_or(u32::from(self.children.is_empty()))
    }

    /// Requests at and below all copies of this node, saturating.
    pub fn request_count(&self) -> u64 {
        let below =
            self.children.iter().fold(u64::from(self.ending()), |sum, child| sum.saturating_add(child.request_count()));
        below.saturating_mul(u64::from(self.repeat))
    }
}

impl BatchSpec {
    /// Whether it has prefill chunks and decode requests.
    pub fn is_hybrid(&self) -> bool {
        let prefill = |request: &RequestSpec| matches!(request, RequestSpec::Prefill { .. });
        let decodes = !self.roots.is_empty() || self.requests.iter().any(|request| !prefill(request));
        decodes && self.requests.iter().any(prefill)
    }

    /// Most nodes below one another.
    pub fn depth(&self) -> usize {
        let mut waiting: Vec<(&NodeSpec, usize)> = self.roots.iter().map(|root| (root, 1)).collect();
        let mut most = 0;
        while let Some((node, depth)) = waiting.pop() {
            most = most.max(depth);
            waiting.extend(node.children.iter().map(|child| (child, depth + 1)));
        }
        most
    }

    /// A batch without requests.
    pub fn empty(shape: AttentionShape) -> Self {
        Self {
            schema: SCHEMA,
            name: "empty".to_owned(),
            look_for: String::new(),
            scene: None,
            shape,
            roots: Vec::new(),
            requests: Vec::new(),
        }
    }

    /// Lays out block tables and checks everything.
    ///
    /// Requests come in tree order (depth first), then the listed ones. Blocks are numbered in the
    /// same order.
    ///
    /// # Errors
    /// [`Error::Batch`] with the node or request and the figure that is wrong.
    pub fn build(&self) -> Result<Batch> {
        super::build::build(self)
    }

    /// The requests alone, in the order of [`Self::build`]; takes memory for them and none for their blocks.
    ///
    /// # Errors
    /// As [`Self::build`], but for faults of explicit block lists.
    pub fn outline(&self) -> Result<Vec<Request>> {
        super::build::outline(self)
    }

    /// Reads a batch file.
    ///
    /// # Errors
    /// [`Error::File`] with the line and column of what does not fit the schema.
    pub fn from_ron(text: &str) -> Result<Self> {
        let spec: Self = ron_text::read(text)?;
        if spec.schema != SCHEMA {
            return Err(Error::Batch(format!(
                "the file has schema {}, but this build reads schema {SCHEMA}{}",
                spec.schema,
                if spec.schema > SCHEMA { "; update packscope" } else { "" }
            )));
        }
        Ok(spec)
    }

    /// The file text of this batch.
    ///
    /// # Errors
    /// [`Error::Batch`] where the nodes nest more deeply than [`Self::build`] allows.
    pub fn to_ron(&self) -> Result<String> {
        ron_text::write(self, self.depth()).map_err(|error| Error::Batch(error.to_string()))
    }
}
