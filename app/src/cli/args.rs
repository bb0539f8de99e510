//! The command line as clap reads it. Names are a contract: add to them, keep what stands.
#![expect(clippy::doc_markdown, reason = "clap shows these comments to a person as they are")]

mod bench;
mod shared;

pub(crate) use bench::{BenchArgs, BenchSet};
pub(crate) use shared::{Backend, BatchArgs, ChoiceArgs, DeviceArgs, FromArgs, RuleArgs};

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::timeline::playback::Moment;

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
#[command(group(clap::ArgGroup::new("format").required(true).multiple(true).args(["output", "csv", "svg", "png", "perfetto", "animation"])))]
pub(crate) struct ExportArgs {
    /// A capture.
    pub(crate) capture: PathBuf,
    /// A folder for spans.csv, kernels.csv, packs.csv, counters.csv (over time) and counts.csv.
    #[arg(long, value_name = "DIR")]
    pub(crate) csv: Option<PathBuf>,
    /// A picture, in the form that the end of its name says: .svg, .png or, of the timeline as it goes, .apng.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// An SVG picture.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// A PNG picture.
    #[arg(long, value_name = "FILE")]
    pub(crate) png: Option<PathBuf>,
    /// What pictures show: one of 'packscope list panels', or sm-grid.
    #[arg(long, value_name = "NAME", default_value = "timeline", help_heading = "Pictures")]
    pub(crate) view: String,
    /// The stretch of time that pictures show, such as 10us:20us [default: all].
    #[arg(long, value_name = "FROM:TO", help_heading = "Pictures")]
    pub(crate) range: Option<String>,
    /// The moment of playback that pictures show: a time of the run such as 12.3us, or choice:5.
    #[arg(long, value_name = "MOMENT", conflicts_with = "range", help_heading = "Pictures")]
    pub(crate) at: Option<Moment>,
    /// The ground of pictures.
    #[arg(long, value_enum, value_name = "THEME", default_value_t = Theme::Light, help_heading = "Pictures")]
    pub(crate) theme: Theme,
    /// How wide pictures are: 1200px on a screen, or on paper 85mm, at 300 dots an inch.
    #[arg(long, value_name = "WIDTH", default_value = "1200px", help_heading = "Pictures")]
    pub(crate) width: String,
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

/// The ground of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Theme {
    /// Dark letters on white, for paper.
    Light,
    /// Light letters on black.
    Dark,
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
    /// The moment that playback shows: a time of the run such as 12.3us, or choice:5.
    #[arg(long, value_name = "MOMENT")]
    pub(crate) at: Option<Moment>,
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
    /// What the window can be told to do, with groups and keys.
    Commands,
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
