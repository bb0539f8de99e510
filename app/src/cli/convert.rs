//! `import` and `export`: other forms in, other formats out.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use engine::capture::{self, Loaded};
use engine::export::{SCHEMA, csv_tables, write_perfetto};
use engine::units::counted;
use serde_json::json;

use super::args::{ExportArgs, ImportArgs};
use super::fault::{Fault, Outcome};
use super::{input, output};
use crate::picture;

/// `import`: any batch form to a batch file.
pub(crate) fn import(args: &ImportArgs) -> Outcome<ExitCode> {
    let spec = input::batch(&args.batch)?;
    let batch = spec.build()?;
    capture::write_atomically(&args.output, "writing the batch file", spec.to_ron()?.as_bytes())?;
    let requests = batch.requests().len();
    if args.json {
        output::print_json(&json!({ "schema": SCHEMA, "file": args.output, "requests": requests }))?;
    } else {
        output::print(&format!("wrote {} with {}", args.output.display(), counted(requests as u64, "request")))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `export`: a capture in other programs' formats.
pub(crate) fn export(args: &ExportArgs) -> Outcome<ExitCode> {
    let loaded = load(&args.capture)?;
    let mut files = Vec::new();
    if let Some(folder) = &args.csv {
        files.extend(write_csv(&loaded.capture, folder)?);
    }
    if args.svg.is_some() || args.png.is_some() {
        let svg = picture::timeline_svg(&loaded.capture);
        files.extend(write_pictures(&svg, args.svg.as_deref(), args.png.as_deref())?);
    }
    if let Some(path) = &args.perfetto {
        write_perfetto(path, &loaded.capture, &loaded.missing)?;
        files.push(path.clone());
    }
    if args.json {
        output::print_json(&json!({ "schema": SCHEMA, "files": files, "missing": loaded.missing }))?;
    } else {
        for file in files {
            output::print(&format!("wrote {}", file.display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a picture in the forms that are asked for; says which files there are now.
pub(super) fn write_pictures(svg: &str, as_svg: Option<&Path>, as_png: Option<&Path>) -> Outcome<Vec<PathBuf>> {
    let mut files = Vec::new();
    if let Some(path) = as_svg {
        capture::write_atomically(path, "writing the picture", svg.as_bytes())?;
        files.push(path.to_owned());
    }
    if let Some(path) = as_png {
        match picture::png(svg, path).map_err(anyhow::Error::downcast::<engine::Error>) {
            Ok(()) => files.push(path.to_owned()),
            Err(Ok(error)) => return Err(error.into()),
            Err(Err(other)) => return Err(Fault::input(format!("{other:#}"), "please report it")),
        }
    }
    Ok(files)
}

fn write_csv(capture: &capture::Capture, folder: &Path) -> Outcome<Vec<PathBuf>> {
    std::fs::create_dir_all(folder).map_err(engine::Error::io("writing the tables' folder", folder))?;
    let mut files = Vec::new();
    for (name, text) in csv_tables(capture) {
        let path = folder.join(name);
        capture::write_atomically(&path, "writing a table", text.as_bytes())?;
        files.push(path);
    }
    Ok(files)
}

/// Reads a capture, saying on stderr what it lost.
pub(crate) fn load(path: &Path) -> Outcome<Loaded> {
    let loaded = capture::read(path).map_err(|error| Fault::about(path, None, error))?;
    for missing in &loaded.missing {
        output::note(&format!("{}: missing {missing}", path.display()));
    }
    Ok(loaded)
}
