//! What menus, run controls and palette offer beside the commands of the table: schedulers, strategies, devices, samples,
//! panels and recent files, each list in one place.

use engine::pack;
use engine::plan::Strategy;
use engine::plan::hybrid::has_kernels;
use engine::shown::quoted;
use engine::workload::BatchSpec;

use super::status::Status;
use crate::samples;
use crate::window::command::Command;
use crate::window::frame::Frame;
use crate::window::panel::Panel;

/// Something that can be chosen.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    /// Its name in a list.
    pub(super) name: String,
    /// What it is, in a sentence; may be empty.
    pub(super) about: String,
    /// Whether it is chosen now.
    pub(super) chosen: bool,
    /// What choosing it asks for.
    pub(super) command: Command,
}

/// What `auto` says of itself in a list.
const AUTO: &str = "the one that is expected to take the least time";

fn offer(name: &str, about: &str, chosen: bool, command: Command) -> Offer {
    Offer { name: name.to_owned(), about: about.to_owned(), chosen, command }
}

/// Auto, then every scheduler.
pub(super) fn schedulers(frame: &Frame<'_>) -> Vec<Offer> {
    let options = frame.options;
    let all = pack::schedulers().iter().map(|scheduler| {
        let chosen = !options.auto.scheduler && options.scheduler == scheduler.name();
        offer(scheduler.name(), scheduler.about(), chosen, Command::Scheduler(scheduler.name().to_owned()))
    });
    std::iter::once(offer("auto", AUTO, options.auto.scheduler, Command::AutoScheduler)).chain(all).collect()
}

/// Auto, then every strategy that takes the batch on the device.
pub(super) fn strategies(frame: &Frame<'_>) -> Vec<Offer> {
    let options = frame.options;
    let chosen = |strategy: Strategy| !options.auto.strategy && options.strategy == strategy;
    let takes = |strategy: &Strategy| {
        let beside = frame.spec.is_hybrid() && has_kernels(&options.device, *strategy);
        chosen(*strategy) || beside || Strategy::ANY_BATCH.contains(strategy)
    };
    let all = Strategy::ALL
        .into_iter()
        .filter(takes)
        .map(|strategy| offer(strategy.name(), strategy.about(), chosen(strategy), Command::Strategy(strategy)));
    std::iter::once(offer("auto", AUTO, options.auto.strategy, Command::AutoStrategy)).chain(all).collect()
}

/// The built-in devices, and the GPU of this machine where it is another.
pub(super) fn devices(frame: &Frame<'_>, status: &Status<'_>) -> Vec<Offer> {
    let found = status.gpu.and_then(|found| found.device.as_ref());
    let others = found.into_iter().filter(|device| engine::hw::find(&device.key).is_err());
    let all = engine::hw::builtin().iter().chain(others);
    all.map(|device| {
        let about = format!("{} SMs, {:.2} TB/s", device.sm_count, device.hbm_bytes_per_s as f64 / 1e12);
        offer(&device.name, &about, frame.options.device.key == device.key, Command::Device(device.key.clone()))
    })
    .collect()
}

/// The batches that come with packscope.
pub(super) fn samples() -> Vec<Offer> {
    let all = samples::samples().iter();
    all.map(|sample| {
        let about = BatchSpec::from_ron(sample.text).map_or_else(|_| String::new(), |spec| spec.name);
        offer(sample.key, &about, false, Command::Sample(sample.key))
    })
    .collect()
}

/// All panels.
pub(super) fn panels() -> Vec<Offer> {
    Panel::ALL.into_iter().map(|panel| offer(panel.title(), panel.about(), false, Command::Show(panel))).collect()
}

/// Files that were opened last; one that is gone says so.
pub(super) fn recent(status: &Status<'_>) -> Vec<Offer> {
    let all = status.recent.iter();
    all.map(|path| {
        let name = path.file_name().map_or_else(|| path.to_string_lossy(), |name| name.to_string_lossy());
        let gone = if path.exists() { "" } else { " · not there any more" };
        let name = format!("{}{gone}", quoted(&name));
        offer(&name, &path.display().to_string(), false, Command::OpenPath(path.clone()))
    })
    .collect()
}
