//! From options to what the engine takes: batch, device, choice.

use std::path::Path;

use engine::hw::{self, Device};
use engine::session::{self, Auto, PlanOptions, Runner};
use engine::shown::quoted;
use engine::tile::Tile;
use engine::workload::{self, AttentionShape, BatchSpec, Model};
use engine::{Error, pack};

use crate::cli::args::{Backend, BatchArgs, ChoiceArgs, DeviceArgs, RuleArgs};
use crate::cli::fault::{Fault, Outcome};
use crate::cli::shape::shape;
use crate::cli::{files, from, interrupt, output};
use crate::{paths, samples};

/// The batch that the options describe, not yet built. What its file did not tell is told.
pub(crate) fn batch(args: &BatchArgs) -> Outcome<BatchSpec> {
    let (spec, notes) = batch_and_notes(args)?;
    for note in &notes {
        output::note(note);
    }
    Ok(spec)
}

/// The batch that the options describe, not yet built, and what its file did not tell.
pub(crate) fn batch_and_notes(args: &BatchArgs) -> Outcome<(BatchSpec, Vec<String>)> {
    let written = args.from.given();
    let bases = [args.file.is_some(), args.tree.is_some(), args.random.is_some()];
    if bases.into_iter().filter(|given| *given).count() + written.len() > 1 {
        return Err(Fault::input(
            "more than one batch is given",
            "give one of BATCH, --tree, --random and the files of engines; --decode and --prefill add requests to it",
        ));
    }
    if let Some(model) = args.model.as_deref().map(Model::find).transpose()?.filter(|m| !m.not_modelled.is_empty()) {
        output::note(&format!(
            "{}: {} are not modelled; every layer is taken as plain attention",
            model.title, model.not_modelled
        ));
    }
    let (mut spec, notes) = match written.first() {
        Some((name, file)) => from::imported(name, file, args)?,
        None => (base(args)?, Vec::new()),
    };
    for text in &args.decode {
        spec.requests.push(workload::parse_decode(text)?);
    }
    for text in &args.prefill {
        spec.requests.push(workload::parse_prefill(text)?);
    }
    Ok((spec, notes))
}

/// The batch without the scene of its file. Where device and choice are not asked for, the scene's are taken and told.
pub(crate) fn shown(args: &BatchArgs, device: &mut DeviceArgs, choice: Option<&mut ChoiceArgs>) -> Outcome<BatchSpec> {
    let mut spec = batch(args)?;
    let Some(scene) = spec.scene.take() else { return Ok(spec) };
    let mut told = Vec::new();
    // Whoever asks for the GPU wants the one that is here.
    if device.backend != Backend::Cuda {
        take(&mut told, "device", &mut device.device, scene.device);
    }
    if let Some(choice) = choice {
        take(&mut told, "scheduler", &mut choice.scheduler, scene.scheduler);
        take(&mut told, "strategy", &mut choice.strategy, scene.strategy);
    }
    if !told.is_empty() {
        output::note(&format!("{}: shown with {}, as its file says", quoted(&spec.name), told.join(" ")));
    }
    Ok(spec)
}

/// Takes a scene's own value for an option that was not given.
fn take<T: From<String>>(told: &mut Vec<String>, option: &str, asked: &mut Option<T>, own: Option<String>) {
    if let (None, Some(own)) = (&asked, own) {
        told.push(format!("--{option} {}", quoted(&own)));
        *asked = Some(T::from(own));
    }
}

fn base(args: &BatchArgs) -> Outcome<BatchSpec> {
    let default = shape(args, AttentionShape::default())?;
    if let Some(file) = &args.file {
        let mut spec = batch_file(file)?;
        spec.shape = shape(args, spec.shape)?;
        return Ok(spec);
    }
    if let Some(random) = &args.random {
        let mut spec = self::random(random)?;
        spec.shape = shape(args, spec.shape)?;
        return Ok(spec);
    }
    if let Some(tree) = &args.tree {
        return Ok(workload::parse_tree(tree, default)?);
    }
    if args.decode.is_empty() && args.prefill.is_empty() {
        return Err(Fault::input(
            "no batch is given",
            "give a batch file, a sample such as pat-11, --tree, --decode, --prefill, --random, or a file of an engine such as --mooncake",
        ));
    }
    let name = args.decode.iter().chain(&args.prefill).map(String::as_str).collect::<Vec<_>>().join(" + ");
    Ok(BatchSpec { name, ..BatchSpec::empty(default) })
}

/// A batch file, or a sample by its name.
pub(crate) fn batch_file(path: &Path) -> Outcome<BatchSpec> {
    let sample = path.to_str().and_then(samples::find);
    if let Some(sample) = sample.filter(|_| !path.exists()) {
        return BatchSpec::from_ron(sample.text).map_err(|error| Fault::about(path, Some(sample.text), error));
    }
    let text = files::text(path, &files::BATCH).map_err(|fault| {
        if path.exists() {
            fault
        } else {
            fault.or_try("there is neither such a file nor such a sample; 'packscope list samples' names the samples")
        }
    })?;
    let spec = BatchSpec::from_ron(&text).map_err(|error| Fault::about(path, Some(&text), error))?;
    // What is wrong with the figures is told with the name of the file.
    spec.build().map_err(|error| Fault::about(path, None, error))?;
    Ok(spec)
}

/// The batch of `SEED` or `SEED:NUMBER`, as `bench --set random` draws it.
fn random(text: &str) -> Outcome<BatchSpec> {
    let (seed, number) = text.split_once(':').unwrap_or((text, "0"));
    match (seed.parse(), number.parse()) {
        (Ok(seed), Ok(number)) => Ok(workload::random_forest(seed, number)),
        _ => Err(Fault::input(
            format!("--random is '{}'", quoted(text)),
            "write a seed such as 7, or 7:3 for batch 3 of bench --set random --seed 7; both are whole numbers",
        )),
    }
}

/// The device that plans are for, and what runs them.
///
/// | `--backend` | `--device` | runs on |
/// |---|---|---|
/// | `sim` | any, or none | the simulator of that device |
/// | `cuda` | none, `detect`, the GPU's own name or a device file of it | the GPU |
/// | `auto` | none or `detect` | the GPU; where there is none and nothing was asked for, the simulator |
/// | `auto` | a name or file | the GPU if it is that one, else the simulator |
pub(crate) fn setup(args: &DeviceArgs) -> Outcome<(Device, Runner)> {
    let detect = args.device.as_deref() == Some(Path::new(DETECT));
    let asked = args.device.as_deref().filter(|_| !detect);
    let simulate =
        |name: Option<&Path>| Ok((named_device(name.unwrap_or(Path::new(DEFAULT_DEVICE)))?, Runner::simulator()));
    if args.backend == Backend::Sim {
        return if detect { Ok((gpu(args)?.0, Runner::simulator())) } else { simulate(asked) };
    }
    let must = args.backend == Backend::Cuda || detect;
    let Some(name) = asked else {
        return match gpu(args) {
            Err(fault) if must || !fault.is_hardware() => Err(fault),
            Err(_) => simulate(None),
            found => found,
        };
    };
    let device = named_device(name)?;
    match gpu(args) {
        Ok((found, runner)) if found.key == device.key && found.sm_count == device.sm_count => Ok((device, runner)),
        Ok((found, _)) if must => Err(Fault::input(
            format!("the device '{}' was asked for, but the GPU here is {}", device.key, found.name),
            "leave --device out to run on the GPU, or use --backend sim",
        )),
        Err(fault) if must => Err(fault),
        _ => Ok((device, Runner::simulator())),
    }
}

/// The device that plans are for, where nothing is run.
pub(crate) fn device(args: &DeviceArgs) -> Outcome<Device> {
    Ok(setup(args)?.0)
}

/// The device without a GPU and without any wish.
const DEFAULT_DEVICE: &str = "h200-sxm";
/// `--device` for the GPU that is here.
const DETECT: &str = "detect";

fn gpu(args: &DeviceArgs) -> Outcome<(Device, Runner)> {
    let refused = |error: Error| match error {
        Error::Hardware(text) => Fault::hardware(
            if args.device.as_deref() == Some(Path::new(DETECT)) {
                format!("no GPU can be detected here: {text}")
            } else {
                format!("there is no GPU to run on here: {text}")
            },
            "use --backend sim with --device h200-sxm, or another that 'packscope list devices' names",
        ),
        other => other.into(),
    };
    let runner = Runner::gpu(paths::kernel_cache(), Box::new(output::note), interrupt::cancel()).map_err(refused)?;
    runner.set_deterministic(args.deterministic);
    match runner.device().cloned() {
        Some(device) => Ok((device, runner)),
        None => Err(Fault::failed("the GPU has no description")),
    }
}

/// A device by its name, or of a file.
pub(crate) fn named_device(path: &Path) -> Outcome<Device> {
    if path.extension().is_none_or(|extension| extension != "ron") {
        return Ok(hw::find(&output::path(path))?.clone());
    }
    let text = files::text(path, &files::DEVICE)?;
    hw::from_ron(&text).map_err(|error| Fault::about(path, Some(&text), error))
}

/// `--scheduler` and `--strategy` for those that are expected to take the least time.
pub(crate) const AUTO: &str = "auto";

/// Everything that planning takes; what is not named is found.
pub(crate) fn options(device: &Device, choice: &ChoiceArgs, explain: bool) -> Outcome<PlanOptions> {
    let [scheduler, strategy] = [&choice.scheduler, &choice.strategy].map(|name| name.as_deref().unwrap_or(AUTO));
    options_of(device, scheduler, strategy, &choice.rules, explain)
}

/// [`options`] with what auto takes of them for a batch, where there is anything to find.
pub(crate) fn resolved(spec: &BatchSpec, options: PlanOptions) -> Outcome<PlanOptions> {
    if !options.auto.any() {
        return Ok(options);
    }
    Ok(match session::ranking(spec, &options)?.into_iter().next() {
        Some((best, _)) => PlanOptions { explain: options.explain, ..best },
        None => options,
    })
}

/// Everything that planning takes in a bench.
pub(crate) fn bench_options(device: &Device, choice: &ChoiceArgs) -> Outcome<PlanOptions> {
    options_of(device, choice.scheduler(), choice.strategy(), &choice.rules, false)
}

/// [`options`] from single names.
pub(crate) fn options_of(
    device: &Device,
    scheduler: &str,
    strategy: &str,
    rules: &RuleArgs,
    explain: bool,
) -> Outcome<PlanOptions> {
    let mut options = PlanOptions::new(device);
    options.auto = Auto { scheduler: scheduler == AUTO, strategy: strategy == AUTO };
    if !options.auto.scheduler {
        pack::find(scheduler).map_err(or_auto)?.name().clone_into(&mut options.scheduler);
    }
    if !options.auto.strategy {
        options.strategy = strategy.parse().map_err(or_auto)?;
    }
    options.tile = rules.tile.as_deref().map(tile).transpose()?;
    if let Some(pod) = &rules.pod {
        options.pod = pod.parse()?;
    }
    options.explain = explain;
    if let Some(constant) = rules.split_constant {
        if !(constant.is_finite() && constant >= 0.0) {
            return Err(Fault::input(format!("--split-constant is {constant}"), "it must be a number of at least 0"));
        }
        options.pack.split_constant = constant;
    }
    Ok(options)
}

/// An unknown name, where [`AUTO`] is one too.
fn or_auto(error: Error) -> Error {
    match error {
        Error::UnknownName { kind, name, known } => {
            Error::UnknownName { kind, name, known: format!("{AUTO}, {known}") }
        }
        other => other,
    }
}

/// [`options`] of every scheduler under every strategy.
pub(crate) fn ways(
    device: &Device,
    schedulers: &[String],
    strategies: &[String],
    rules: &RuleArgs,
) -> Outcome<Vec<PlanOptions>> {
    let pairs = schedulers.iter().flat_map(|scheduler| strategies.iter().map(move |strategy| (scheduler, strategy)));
    pairs.map(|(scheduler, strategy)| options_of(device, scheduler, strategy, rules, false)).collect()
}

fn tile(text: &str) -> Outcome<Tile> {
    Tile::parse(text).ok_or_else(|| {
        Fault::input(format!("--tile is '{}'", quoted(text)), "write it like 64x128: query rows, 'x', KV tokens")
    })
}
