//! The command line as clap reads it. Names are a contract: add to them, keep what stands.
#![expect(clippy::doc_markdown, reason = "clap shows these comments to a person as they are")]

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};

/// See how a batch of LLM attention becomes CTAs on a GPU, and where the time goes.
///
/// Without a command the window opens on a finished example.
#[derive(Debug, Parser)]
#[command(name = "packscope", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the default sample under the chosen scheduler and the baselines; writes packscope-out/.
    Demo(DemoArgs),
    /// Make packs and tiles of a batch, without running it.
    Plan(PlanArgs),
    /// Plan and run a batch, and write the capture.
    Run(RunArgs),
    /// Run a batch several ways and show one table.
    Compare(CompareArgs),
    /// Turn any form of batch into a batch file.
    Import(ImportArgs),
    /// Serve a trace step by step under several ways, and say what each does to time per output token.
    Replay(ReplayArgs),
    /// Run every combination of a grid of batches and ways on the simulator; may be broken off, and goes on.
    Sweep(SweepArgs),
    /// Keep what an engine publishes, for 'import'; until it is interrupted.
    Record(RecordArgs),
    /// Write a capture in other programs' formats.
    Export(ExportArgs),
    /// Check a capture's integrity and invariants.
    Verify(VerifyArgs),
    /// Open the window on a batch or capture.
    View(ViewArgs),
    /// Run the published configurations.
    Bench(BenchArgs),
    /// Fit the simulator to a GPU, and write a device file
    Calibrate(CalibrateArgs),
    /// Name what there is to choose from, one sentence each.
    List(ListArgs),
}

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

/// `demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,
    /// Print one JSON object instead of the table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) batch: BatchArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,
    /// Print the decision at each node.
    #[arg(long)]
    pub(crate) explain: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `run`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) batch: BatchArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,
    /// Where the capture goes.
    #[arg(short, long, value_name = "OUT.pscope")]
    pub(crate) output: Option<PathBuf>,
    /// Runs to take the median of; the simulator gives the same time each time.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) repeat: u32,
    /// Record each CTA. Every run does so, on a GPU in a pass of its own.
    #[arg(long)]
    pub(crate) trace: bool,
    /// Leave in L2 what the run before left there, instead of writing 512 MiB first.
    #[arg(long)]
    pub(crate) warm: bool,
    /// Replay the launches as a CUDA graph.
    #[arg(long)]
    pub(crate) graph: bool,
    /// Read the hardware counters of a GPU, in passes of their own.
    #[arg(long)]
    pub(crate) counters: bool,
    /// Compare the outputs with an f64 reference.
    #[arg(long)]
    pub(crate) check: bool,
    /// Of what is auto, run the three ways that are expected to take the least time on the GPU, and take the fastest.
    #[arg(long)]
    pub(crate) tune: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `compare`.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    pub(crate) batch: BatchArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    /// Schedulers, comma-separated [default: what auto takes, then pat].
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) schedulers: Vec<String>,
    /// Strategies, comma-separated [default: streams,serial,fused, and with prefill beside decode all that the
    /// device has kernels for].
    #[arg(long, value_name = "X,Y", value_delimiter = ',')]
    pub(crate) strategies: Vec<String>,
    #[command(flatten)]
    pub(crate) rules: RuleArgs,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    pub(crate) batch: BatchArgs,
    /// Where the batch file goes.
    #[arg(short, long, value_name = "FILE.ron")]
    pub(crate) output: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// A trace (.jsonl, .jsonl.gz or .json).
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,
    /// What wrote it; the importers of traces in 'packscope list importers'.
    #[arg(long, value_name = "NAME", default_value = "mooncake")]
    pub(crate) format: String,
    /// The requests to serve, such as 0:256 [default: all].
    #[arg(long, value_name = "START:COUNT")]
    pub(crate) window: Option<String>,
    /// Tokens of one hash id [default: 512 of a Mooncake trace, 16 of a Qwen-Bailian one].
    #[arg(long, value_name = "TOKENS")]
    pub(crate) trace_block: Option<u64>,
    /// The model; see 'packscope list models'.
    #[arg(long, value_name = "NAME", default_value = "llama-3-8b")]
    pub(crate) model: String,
    /// GPUs over which it is divided.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) tp: u32,
    /// Tokens of one KV block.
    #[arg(long, value_name = "TOKENS", default_value_t = 32)]
    pub(crate) block_size: u32,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    /// Schedulers, comma-separated; every other way is compared with the first.
    #[arg(long, value_name = "A,B", value_delimiter = ',', default_value = "query-centric,pat")]
    pub(crate) schedulers: Vec<String>,
    /// Strategies, comma-separated.
    #[arg(long, value_name = "X,Y", value_delimiter = ',', default_value = "streams")]
    pub(crate) strategies: Vec<String>,
    #[command(flatten)]
    pub(crate) rules: RuleArgs,
    /// Most steps.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) steps: u64,
    /// Arrival times are multiplied by this; 0.5 doubles the request rate, 0 lets all arrive at once.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub(crate) time_scale: f64,
    /// Query tokens of a step: one a decode, the rest for prefill chunks.
    #[arg(long, value_name = "TOKENS", default_value_t = 2048, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    pub(crate) token_budget: u64,
    /// Most requests that run at once.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) max_running: u32,
    /// Tokens for which the KV cache has room.
    #[arg(long, value_name = "TOKENS", default_value_t = 400_000)]
    pub(crate) cache_tokens: u64,
    /// On a GPU: measure every so many steps, and simulate the others; 1 measures all.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) measure_every: u64,
    /// Write the batch of a step of the last way, by number or 'worst': the one that loses most to the first way.
    #[arg(long, value_name = "N|worst", requires = "output")]
    pub(crate) batch_of: Option<String>,
    /// Where that batch goes.
    #[arg(short, long, value_name = "FILE.ron", requires = "batch_of")]
    pub(crate) output: Option<PathBuf>,
    /// Print one JSON object, steps included.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `sweep`.
#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// The grid (.ron); sample_batches/README.md documents it.
    #[arg(value_name = "SPEC.ron")]
    pub(crate) spec: PathBuf,
    /// The folder for rows and results.
    #[arg(short, long, value_name = "DIR", required_unless_present = "collect")]
    pub(crate) output: Option<PathBuf>,
    /// Run one of N shards, the first being 0; --collect joins them.
    #[arg(long, value_name = "I/N", conflicts_with_all = ["slurm", "collect"])]
    pub(crate) shard: Option<String>,
    /// Write a job array of so many shards for Slurm, and submit it.
    #[arg(long, value_name = "SHARDS", conflicts_with = "collect", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) slurm: Option<u32>,
    /// Join what came of the shards in a folder.
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    pub(crate) collect: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `record`.
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// Where vLLM or SGLang publishes its KV events, such as tcp://127.0.0.1:5557.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) kv_events: String,
    /// The file; a stream that breaks off leaves what came.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// End after so many messages.
    #[arg(long, value_name = "N")]
    pub(crate) messages: Option<u64>,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `export`.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("format").required(true).multiple(true).args(["csv", "svg", "png", "perfetto", "animation"])))]
pub(crate) struct ExportArgs {
    /// A capture.
    pub(crate) capture: PathBuf,
    /// A folder for spans.csv, kernels.csv, packs.csv, counters.csv (over time) and counts.csv.
    #[arg(long, value_name = "DIR")]
    pub(crate) csv: Option<PathBuf>,
    /// The timeline as an SVG picture.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// The timeline as a PNG picture.
    #[arg(long, value_name = "FILE")]
    pub(crate) png: Option<PathBuf>,
    /// The run as an animation of its timeline, an APNG.
    #[arg(long, value_name = "FILE")]
    pub(crate) animation: Option<PathBuf>,
    /// A trace for ui.perfetto.dev: CTAs on the lanes of their SMs with phases and bubbles, launches, counters.
    #[arg(long, value_name = "FILE")]
    pub(crate) perfetto: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// A capture.
    pub(crate) capture: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `view`.
#[derive(Debug, Args)]
pub(crate) struct ViewArgs {
    /// A batch file, the name of a sample, or a capture.
    pub(crate) file: PathBuf,
}

/// `bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Which configurations.
    #[arg(long, value_enum, default_value_t = BenchSet::PatFigure10)]
    pub(crate) set: BenchSet,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,
    /// Query heads / KV heads, where the set does not have its own.
    #[arg(long, value_name = "HQ/HKV", default_value = "32/8")]
    pub(crate) heads: String,
    /// On a GPU, and for hybrid batches: several schedulers, comma-separated, instead of the one.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) schedulers: Vec<String>,
    /// On a GPU: several strategies, comma-separated, instead of the one; for hybrid batches instead of all.
    #[arg(long, value_name = "X,Y", value_delimiter = ',')]
    pub(crate) strategies: Vec<String>,
    /// pat-figure-10, hybrid, trace, and any set on a GPU: times of other systems to stand beside ours (rows of config,
    /// or trace and window, heads, and NAME_us or us: {NAME}).
    #[arg(long, value_name = "FILE.json")]
    pub(crate) peers: Option<PathBuf>,
    /// On a GPU, and for hybrid batches: compare the outputs with an f64 reference.
    #[arg(long)]
    pub(crate) check: bool,
    /// random, random-hybrid and trace without --window: where the batches are drawn from.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// random, random-hybrid and trace without --window: how many.
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) count: u32,
    /// random and trace: of each batch so many pairs of scheduler and strategy, drawn from all that run it, and the three
    /// that auto expects to be fastest.
    #[arg(long, value_name = "N", conflicts_with_all = ["schedulers", "strategies"], value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) pairs: Option<u32>,
    /// Where the table and the plot of the comparison go.
    #[arg(short, long, value_name = "DIR", default_value = "packscope-out")]
    pub(crate) output: PathBuf,
    /// trace and lazy-update: a Mooncake trace (.jsonl).
    #[arg(long, value_name = "FILE")]
    pub(crate) mooncake: Option<PathBuf>,
    /// trace: requests that decode together, such as 1000:64; may be repeated. lazy-update: the requests that run at
    /// first; those behind them come in later.
    #[arg(long, value_name = "START:COUNT", requires = "mooncake")]
    pub(crate) window: Vec<String>,
    /// trace and lazy-update: how many tokens each request is into its output at first.
    #[arg(long, value_name = "TOKENS", requires = "mooncake", default_value_t = 1)]
    pub(crate) step: u64,
    /// lazy-update: decode steps.
    #[arg(long, value_name = "N", requires = "mooncake", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) steps: u32,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `calibrate`.
#[derive(Debug, Args)]
pub(crate) struct CalibrateArgs {
    /// Measured runs to fit to, as `bench --json` or an earlier calibration wrote them on the GPU, and captures;
    /// may be repeated. Without it the GPU here is measured.
    #[arg(long, value_name = "RUNS.json|RUN.pscope")]
    pub(crate) from: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    /// Schedulers whose plans are measured, comma-separated.
    #[arg(long, value_name = "A,B", value_delimiter = ',', default_value = "pat")]
    pub(crate) schedulers: Vec<String>,
    /// The device file to write (.ron). Runs that are measured are kept beside it as FILE.runs.json, for --from.
    #[arg(short, long, value_name = "FILE.ron")]
    pub(crate) output: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Published sets of configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchSet {
    /// The 20 trees of PAT's Figure 10.
    #[value(name = "pat-figure-10")]
    PatFigure10,
    /// PAT against its own parts left out, on the trees of Figure 10 that share.
    PatAblation,
    /// FlashForge's trees and its ablation.
    Flashforge,
    /// FastTree's trees at three head setups.
    Fasttree,
    /// Hydragen's micro-benchmark: prefixes, batches and suffixes.
    Hydragen,
    /// Prefill and decode together under every strategy, C0 to C2 of POD-Attention.
    Hybrid,
    /// Random decode batches under several schedulers and strategies, by --seed and --count.
    Random,
    /// Windows of a Mooncake trace under several schedulers and strategies; needs --mooncake.
    Trace,
    /// Random hybrid batches under every strategy, by --seed and --count.
    RandomHybrid,
    /// Planning cost of each decode step over a Mooncake window, with and without lazy update; needs
    /// --mooncake and --window.
    LazyUpdate,
    /// PAT's online serving, its section 8.4: time per output token over the request rate; by --seed and --count.
    PatServing,
    /// POD-Attention's offline and online serving, its sections 5.2 and 5.3; by --seed and --count.
    PodServing,
    /// The 64 hybrid batches of POD-Attention's Figure 6.
    #[value(name = "pod-figure-6")]
    PodFigure6,
    /// The 4,410 hybrid batches of POD-Attention's Figure 11; takes minutes.
    #[value(name = "pod-figure-11")]
    PodFigure11,
    /// Two or four CTAs an SM, POD-Attention's Figure 13.
    #[value(name = "pod-figure-13")]
    PodFigure13,
    /// Its scheduling policies, Figure 14.
    #[value(name = "pod-figure-14")]
    PodFigure14,
    /// Limited prefill splits, its Table 8.
    #[value(name = "pod-table-8")]
    PodTable8,
}

/// `list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Which list.
    pub(crate) what: Listing,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Listing {
    /// Ways of making packs.
    Schedulers,
    /// Ways of launching them.
    Strategies,
    /// GPUs that are known.
    Devices,
    /// Batches that come with packscope.
    Samples,
    /// Tile shapes of each GPU: which constraint decides, and what PAT reports.
    Tiles,
    /// Views of the window.
    Panels,
    /// Models whose attention '--model' takes.
    Models,
    /// What engines write that can be imported.
    Importers,
}

/// The command line as given, for the provenance of captures.
pub(crate) fn command_line() -> String {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    std::iter::once("packscope".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}
