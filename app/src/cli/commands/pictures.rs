//! Pictures that commands write: of any view of a capture, in the form that a name ends in.

use std::path::Path;

use engine::cancel::Cancel;
use engine::capture::{Loaded, Outputs};
use engine::shown::quoted;

use crate::cli::args::{ExportArgs, Theme};
use crate::cli::fault::{Fault, Outcome};
use crate::cli::{interrupt, output};
use crate::jobs::planner;
use crate::picture::look::{self, Look, Width};
use crate::picture::{animation, png};
use crate::runs::compared::{Compared, Kind, Way};
use crate::runs::shown::Shown;
use crate::window::panel::Panel;
use crate::window::picture::{self, Wanted};

const DOING: &str = "writing the picture";

/// Adds the pictures that `export` is asked for.
pub(super) fn add(outputs: &mut Outputs, args: &ExportArgs, loaded: &Loaded) -> Outcome<()> {
    let (svg, png) = named(args)?;
    let wanted = wanted(args)?;
    if svg.is_empty() && png.is_empty() {
        return Ok(());
    }
    if wanted.range.is_some() && !wanted.panel.has_time() {
        let name = wanted.panel.key();
        output::note(&format!("--range does nothing to {name}, which is of the whole plan"));
    }
    let shown = Shown::of_capture(loaded.clone())?;
    let compared = if wanted.panel == Panel::Compare { ways(&shown)? } else { Vec::new() };
    let drawn = picture::of_shown(&shown, &compared, &wanted).map_err(Fault::failed)?;
    for path in svg {
        outputs.add(path, DOING, drawn.as_bytes())?;
    }
    for path in png {
        let bytes = png::png_of(&drawn, &wanted.look).map_err(ours)?;
        outputs.add(path, DOING, &bytes)?;
    }
    Ok(())
}

/// The files of each form; of `-o` by the end of its name.
fn named(args: &ExportArgs) -> Outcome<(Vec<&Path>, Vec<&Path>)> {
    let mut svg: Vec<&Path> = args.svg.as_deref().into_iter().collect();
    let mut png: Vec<&Path> = args.png.as_deref().into_iter().collect();
    let ending = |path: &Path| path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    if let Some(path) = args.output.as_deref() {
        match ending(path).as_deref() {
            Some("svg") => svg.push(path),
            Some("png") => png.push(path),
            _ if animation::is_wanted(path) => {}
            _ => {
                let name = path.display();
                return Err(Fault::input(
                    format!("-o {name}: its end does not say what to write"),
                    "end the name in .svg, .png or .apng; --perfetto and --csv write other forms",
                ));
            }
        }
    }
    Ok((svg, png))
}

fn is_of_run(panel: Panel) -> bool {
    panel.has_picture() && !panel.is_study()
}

fn wanted(args: &ExportArgs) -> Outcome<Wanted> {
    let known = || Panel::ALL.into_iter().filter(|panel| is_of_run(*panel)).map(Panel::key).collect::<Vec<_>>();
    let panel = Panel::find(&args.view).filter(|panel| is_of_run(*panel)).ok_or_else(|| {
        Fault::input(format!("--view is '{}'", quoted(&args.view)), format!("take one of {}", known().join(", ")))
    })?;
    let width = Width::parse(&args.width).ok_or_else(|| {
        Fault::input(
            format!("--width is '{}'", quoted(&args.width)),
            "write 320px to 6400px, or 40mm to 800mm for paper; one column of a paper is some 85mm",
        )
    })?;
    let range = args.range.as_deref().map(look::range).transpose();
    let range =
        range.map_err(|error| Fault::input(format!("--range: {error}"), "give begin and end, such as 10us:20us"))?;
    Ok(Wanted { panel, range, at: args.at, look: Look { dark: args.theme == Theme::Dark, width } })
}

/// The other ways of the capture's batch, simulated.
fn ways(shown: &Shown) -> Outcome<Vec<Compared>> {
    let (planned, cancel): (_, &Cancel) = (&shown.planned, interrupt::cancel());
    let l2 = shown.front().map(|run| run.capture.times.l2).unwrap_or_default();
    let mut found = Vec::new();
    for way in planner::ways(&planned.spec, &planned.options, &[]) {
        let name = format!("{} · {}", way.scheduler, way.strategy.name());
        let outcome = match planner::run(&planned.spec, &way, l2, cancel) {
            Ok((Shown { simulated: Some(run), traffic, .. }, None)) => Ok(Way { run, traffic }),
            Ok((_, problem)) => Err(problem.unwrap_or_else(|| "the batch is empty".to_owned())),
            Err(engine::Error::Cancelled) => return Err(engine::Error::Cancelled.into()),
            Err(error) => Err(error.to_string()),
        };
        found.push(Compared { kind: Kind::Way, name, outcome });
    }
    Ok(found)
}

/// Adds a picture of its own making in the forms that are asked for.
pub(crate) fn add_pictures(
    outputs: &mut Outputs,
    svg: &str,
    as_svg: Option<&Path>,
    as_png: Option<&Path>,
) -> Outcome<()> {
    if let Some(path) = as_svg {
        outputs.add(path, DOING, svg.as_bytes())?;
    }
    if let Some(path) = as_png {
        outputs.add(path, DOING, &png::png(svg).map_err(ours)?)?;
    }
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "it is handed to map_err")]
fn ours(error: anyhow::Error) -> Fault {
    Fault::input(format!("{error:#}"), "please report it")
}
