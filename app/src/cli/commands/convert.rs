//! `import` and `export`: other forms in, other formats out.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use engine::capture::{self, Loaded, Outputs};
use engine::export::{SCHEMA, csv_tables, write_perfetto};
use engine::units::counted;
use serde_json::json;

use crate::cli::args::{ExportArgs, ImportArgs};
use crate::cli::commands::pictures;
use crate::cli::fault::{Fault, Outcome};
use crate::cli::{files, input, output};
use crate::picture::animation;
use crate::runs::damage::Damage;

/// `import`: any batch form to a batch file.
pub(crate) fn import(args: &ImportArgs) -> Outcome<ExitCode> {
    let (spec, notes) = input::batch_and_notes(&args.batch)?;
    let batch = spec.build()?;
    capture::write_atomically(&args.output, "writing the batch file", spec.to_ron()?.as_bytes())?;
    let requests = batch.requests().len();
    if args.json {
        let file = output::path(&args.output);
        output::print_json(&json!({ "schema": SCHEMA, "file": file, "requests": requests, "notes": notes }))?;
    } else {
        for note in &notes {
            output::note(note);
        }
        output::print(&format!("wrote {} with {}", args.output.display(), counted(requests as u64, "request")))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `export`: a capture in other programs' formats, all of them or none.
pub(crate) fn export(args: &ExportArgs) -> Outcome<ExitCode> {
    let loaded = load(&args.capture)?;
    let mut outputs = Outputs::default();
    if let Some(folder) = &args.csv {
        outputs.folder(folder, "writing the tables' folder")?;
        for (name, text) in csv_tables(&loaded.capture) {
            outputs.add(&folder.join(name), "writing a table", text.as_bytes())?;
        }
    }
    let animated = args.output.as_deref().filter(|path| animation::is_wanted(path));
    for path in args.animation.as_deref().into_iter().chain(animated) {
        add_animation(&mut outputs, &loaded, path)?;
    }
    pictures::add(&mut outputs, args, &loaded)?;
    if let Some(path) = &args.perfetto {
        let trace = |out: &mut dyn Write| write_perfetto(out, &loaded);
        outputs.add_with(path, "writing the trace", trace)?;
    }
    let files = outputs.commit()?;
    if args.json {
        let files: Vec<String> = files.iter().map(|file| output::path(file)).collect();
        output::print_json(&json!({ "schema": SCHEMA, "files": files, "missing": loaded.missing }))?;
    } else {
        for file in files {
            output::print(&format!("wrote {}", file.display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn add_animation(outputs: &mut Outputs, loaded: &Loaded, path: &Path) -> Outcome<()> {
    if !animation::is_wanted(path) {
        let name = path.display();
        return Err(Fault::input(format!("--animation {name}: only APNG is written"), "end the name in .apng"));
    }
    let bytes = animation::animation(&loaded.capture, &Damage::of(loaded))
        .map_err(|error| Fault::input(format!("{error:#}"), "please report it"))?;
    outputs.add(path, "writing the animation", &bytes)?;
    Ok(())
}

/// Reads a capture, saying on stderr what it lost.
pub(crate) fn load(path: &Path) -> Outcome<Loaded> {
    files::check_capture(path)?;
    let loaded = capture::read(path).map_err(|error| Fault::about(path, None, error))?;
    for missing in &loaded.missing {
        output::note(&format!("{}: missing {missing}", path.display()));
    }
    Ok(loaded)
}
