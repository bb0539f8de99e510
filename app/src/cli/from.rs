//! Batches from what engines write: the importers of the engine, with options, progress and messages of the command
//! line.

use std::path::Path;

use engine::import::{self, ImportOptions, Importer, Part, Progress, Trace, Watch};
use engine::workload::{self, AttentionShape, BatchSpec};

use crate::cli::args::{BatchArgs, FromArgs};
use crate::cli::fault::{Fault, Outcome};
use crate::cli::shape::shape;
use crate::cli::{files, interrupt, output};

/// The batch of a file, and what the file did not tell.
pub(crate) fn imported(name: &str, file: &Path, args: &BatchArgs) -> Outcome<(BatchSpec, Vec<String>)> {
    let importer = import::find(name)?;
    let default = shape(args, AttentionShape::default())?;
    let options = options(&args.from, default, args.block_size.is_some())?;
    files::check_import(file, importer)?;
    let imported = watched(importer, |watch| importer.read(file, &options, watch));
    let imported = imported.map_err(|error| Fault::about(file, None, error))?;
    let mut batch = imported.batch;
    // What is asked for goes before what a file tells; blocks were made by the importer.
    let block_size = batch.shape.block_size;
    batch.shape = AttentionShape { block_size, ..shape(args, batch.shape)? };
    batch.build().map_err(|error| Fault::about(file, None, error))?;
    Ok((batch, imported.notes))
}

fn options(args: &FromArgs, shape: AttentionShape, block_size_asked: bool) -> Outcome<ImportOptions> {
    let window = args.window.as_deref().map(workload::parse_window).transpose()?;
    let window = window.map(|(start, count)| Part::Window { start, count });
    Ok(ImportOptions {
        shape,
        block_size_asked,
        part: window.or(args.at.map(Part::At)).or(args.call.map(Part::Call)),
        step: args.step,
        trace_block: args.trace_block,
        requests: args.requests.clone(),
    })
}

/// Reads with a bar of the bytes that were read, where there is a terminal to show it on.
fn watched<T>(importer: &Importer, read: impl FnOnce(&mut Watch<'_>) -> engine::Result<T>) -> engine::Result<T> {
    let bar = output::progress_of_bytes(importer.name);
    let mut show = |read: u64, size: Option<u64>| {
        bar.set_length(size.unwrap_or(read));
        bar.set_position(read);
    };
    let outcome = read(&mut Watch { cancel: interrupt::cancel(), progress: Progress(&mut show) });
    bar.finish_and_clear();
    outcome
}

/// All requests of a trace of Mooncake's own.
pub(crate) fn mooncake(file: &Path) -> Outcome<Trace> {
    trace(import::find("mooncake")?, file, &ImportOptions::default())
}

/// The requests of a trace, all where no part is asked for.
pub(crate) fn trace(importer: &Importer, file: &Path, options: &ImportOptions) -> Outcome<Trace> {
    files::check_import(file, importer)?;
    watched(importer, |watch| importer.read_trace(file, options, watch))
        .map_err(|error| Fault::about(file, None, error))
}
