//! The cases of `bench --set trace`: windows of a Mooncake trace, each one decode step of so many requests at once.

use std::path::Path;

use engine::import::{self, Trace};
use engine::workload::{self, AttentionShape};

use super::peers::Peers;
use crate::cli::args::BenchArgs;
use crate::cli::fault::{Fault, Outcome};
use crate::cli::from;
use crate::cli::sets::Case;

/// Windows as they are asked for, else as many as asked for, drawn by the seed; and the times of peers for them.
pub(crate) fn cases(args: &BenchArgs) -> Outcome<(Vec<Case>, Peers)> {
    let Some(file) = &args.mooncake else {
        return Err(Fault::input(
            "--set trace needs a trace",
            "add --mooncake FILE.jsonl, and --window START:COUNT for windows that are not to be drawn",
        ));
    };
    let trace = from::mooncake(file)?;
    let windows = if args.window.is_empty() {
        (0..args.count).map(|number| workload::random_window(args.seed, number, trace.requests.len())).collect()
    } else {
        args.window.iter().map(|window| workload::parse_window(window)).collect::<engine::Result<Vec<_>>>()?
    };
    let cases = windows.iter().map(|window| case(args, file, &trace, *window)).collect::<Outcome<Vec<Case>>>()?;
    let peers = Peers::read(args.peers.as_deref(), "trace", &cases)?;
    Ok((cases, peers))
}

fn case(args: &BenchArgs, file: &Path, trace: &Trace, (start, count): (usize, usize)) -> Outcome<Case> {
    let (query_heads, kv_heads) = workload::parse_heads(&args.heads)?;
    let shape = AttentionShape { query_heads, kv_heads, ..AttentionShape::default() };
    let spec = import::spec_from_window(trace, shape, start, count, args.step)?;
    // Rows of peers name the file without its folder.
    let file = file.file_name().unwrap_or_default().to_string_lossy();
    Ok(Case { name: format!("{file} {start}:{count}"), spec })
}
