//! What `bench` takes, and its sets.
#![expect(clippy::doc_markdown, reason = "clap shows these comments to a person as they are")]

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::shared::{ChoiceArgs, DeviceArgs};

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
    /// On a GPU, of a set of named configurations: runs of each to take the median of, and reads of each size.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) repeat: u32,
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
    /// that auto expects to be fastest. Pairs that launch the same are one.
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
