//! What several commands take: a batch, a device, a choice of scheduler and strategy.
#![expect(clippy::doc_markdown, reason = "clap shows these comments to a person as they are")]

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

/// A batch in any of its forms.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Batch")]
pub(crate) struct BatchArgs {
    /// A batch file (.ron) or the name of a sample.
    #[arg(value_name = "BATCH")]
    pub(crate) file: Option<PathBuf>,
    /// A tree: nodes per level '_' tokens per node, such as 1,4,256_32,256,32.
    #[arg(long, value_name = "NODES_TOKENS")]
    pub(crate) tree: Option<String>,
    /// Decode requests that share nothing, such as 80x12288; may be repeated.
    #[arg(long, value_name = "COUNTxKV")]
    pub(crate) decode: Vec<String>,
    /// A prefill chunk, such as 1024@12288: 1,024 query tokens ending at KV length 12,288; may be repeated.
    #[arg(long, value_name = "CHUNK@KV")]
    pub(crate) prefill: Vec<String>,
    #[command(flatten)]
    pub(crate) from: FromArgs,
    /// A random batch as 'bench --set random' draws it: the first of a seed, or batch NUMBER of it.
    #[arg(long, value_name = "SEED[:NUMBER]")]
    pub(crate) random: Option<String>,
    /// The heads, head dimension and element type of a model; see 'packscope list models'.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["heads", "head_dim", "dtype"])]
    pub(crate) model: Option<String>,
    /// GPUs over which the model's heads are divided; the batch is that of one of them.
    #[arg(long, value_name = "N", requires = "model", default_value_t = 1)]
    pub(crate) tp: u32,
    /// Query heads / KV heads [default: 32/8, or the batch file's].
    #[arg(long, value_name = "HQ/HKV")]
    pub(crate) heads: Option<String>,
    /// Head dimension, 64, 128 or 256 [default: 128, or the batch file's].
    #[arg(long, value_name = "D")]
    pub(crate) head_dim: Option<u32>,
    /// Element type, f16 or bf16 [default: f16, or the batch file's].
    #[arg(long, value_name = "TYPE")]
    pub(crate) dtype: Option<String>,
    /// Tokens of one KV block, a power of two up to 256 [default: 32, or the batch file's].
    #[arg(long, value_name = "TOKENS")]
    pub(crate) block_size: Option<u32>,
}

/// What engines write; see 'packscope list importers'.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct FromArgs {
    /// A folder that FlashInfer dumped its calls to, or a workload file of flashinfer-bench (.jsonl).
    #[arg(long, value_name = "DIR|FILE.jsonl")]
    pub(crate) flashinfer: Option<PathBuf>,
    /// KV events of vLLM or SGLang, as 'packscope record' keeps them.
    #[arg(long, value_name = "FILE")]
    pub(crate) kv_events: Option<PathBuf>,
    /// A Dynamo request trace (.jsonl or .jsonl.gz); needs --window or --at.
    #[arg(long, value_name = "FILE")]
    pub(crate) dynamo: Option<PathBuf>,
    /// A Mooncake trace (.jsonl or .jsonl.gz); needs --window.
    #[arg(long, value_name = "FILE")]
    pub(crate) mooncake: Option<PathBuf>,
    /// A Qwen-Bailian usage trace (.jsonl or .jsonl.gz); needs --window.
    #[arg(long, value_name = "FILE")]
    pub(crate) bailian: Option<PathBuf>,
    /// A Weka agentic trace (.json); needs --window.
    #[arg(long, value_name = "FILE")]
    pub(crate) weka: Option<PathBuf>,
    /// An engine's own block_table and seq_lens.
    #[arg(long, value_name = "FILE.safetensors|FILE.npz")]
    pub(crate) tables: Option<PathBuf>,
    /// The requests of a trace to take, such as 0:256.
    #[arg(long, value_name = "START:COUNT", conflicts_with = "at")]
    pub(crate) window: Option<String>,
    /// The moment to take, of what tells time: ms after its first record.
    #[arg(long, value_name = "MS")]
    pub(crate) at: Option<f64>,
    /// The call to take, of what has several; the first is 0.
    #[arg(long, value_name = "N", requires = "flashinfer")]
    pub(crate) call: Option<usize>,
    /// How many tokens each request of a trace is into its output.
    #[arg(long, value_name = "TOKENS", default_value_t = 1)]
    pub(crate) step: u64,
    /// Tokens of one hash id [default: 512 of a Mooncake trace, 16 of a Qwen-Bailian one].
    #[arg(long, value_name = "TOKENS")]
    pub(crate) trace_block: Option<u64>,
    /// Which requests run, for KV events: lines of {"block_hashes": [...], "kv": TOKENS}.
    #[arg(long, value_name = "FILE.jsonl", requires = "kv_events")]
    pub(crate) requests: Option<PathBuf>,
}

impl FromArgs {
    /// Names of importers with the files that are given for them.
    pub(crate) fn given(&self) -> Vec<(&'static str, &Path)> {
        let all = [
            ("flashinfer", &self.flashinfer),
            ("kv-events", &self.kv_events),
            ("dynamo", &self.dynamo),
            ("mooncake", &self.mooncake),
            ("bailian", &self.bailian),
            ("weka", &self.weka),
            ("tables", &self.tables),
        ];
        all.into_iter().filter_map(|(name, file)| Some((name, file.as_deref()?))).collect()
    }
}

/// The device and how to get it.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Device")]
pub(crate) struct DeviceArgs {
    /// A device by name, a device file (.ron), or 'detect' for the GPU that is here [default: the batch
    /// file's, else the GPU that is here, else h200-sxm].
    #[arg(long, value_name = "NAME|FILE.ron|detect")]
    pub(crate) device: Option<PathBuf>,
    /// What runs the plan.
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    pub(crate) backend: Backend,
    /// Have a GPU give the same bits in every run: its fastest kernels round in the order in which results come.
    #[arg(long)]
    pub(crate) deterministic: bool,
}

/// What runs a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// A GPU where there is one, else the simulator.
    Auto,
    /// The simulator.
    Sim,
    /// The GPU.
    Cuda,
}

/// Scheduler, strategy, tile.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Choice")]
pub(crate) struct ChoiceArgs {
    /// How packs are made; see 'packscope list schedulers', or auto for the one that is expected to take the least time
    /// [default: the batch file's, else auto].
    #[arg(long, value_name = "NAME")]
    pub(crate) scheduler: Option<String>,
    /// How CTAs reach the GPU; see 'packscope list strategies', or auto for the one that is expected to take the least
    /// time [default: the batch file's, else auto].
    #[arg(long, value_name = "NAME")]
    pub(crate) strategy: Option<String>,
    #[command(flatten)]
    pub(crate) rules: RuleArgs,
}

impl ChoiceArgs {
    /// The scheduler's name for a bench, whose published rows are PAT's.
    pub(crate) fn scheduler(&self) -> &str {
        self.scheduler.as_deref().unwrap_or(engine::pack::DEFAULT)
    }

    /// The strategy's name for a bench.
    pub(crate) fn strategy(&self) -> &str {
        self.strategy.as_deref().unwrap_or(engine::plan::Strategy::Streams.name())
    }
}

/// Constants of the rules.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RuleArgs {
    /// One tile for every pack, such as 64x128, instead of the scheduler's rule.
    #[arg(long, value_name = "MxN")]
    pub(crate) tile: Option<String>,
    /// Which way of POD-Attention's kernel 'fused' takes where the batch has prefill: auto, released,
    /// 2-equal, 2-proportional, 4-equal or 4-proportional (CTAs an SM, policy) [default: auto].
    #[arg(long, value_name = "WAY")]
    pub(crate) pod: Option<String>,
    /// Constant of the profit rule of 'pat' [default: 4].
    #[arg(long, value_name = "FACTOR")]
    pub(crate) split_constant: Option<f64>,
}
