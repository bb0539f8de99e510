//! Run on the GPU from the window, without a display: on the GPU that is here, and on stand-ins that answer as
//! a GPU would, fail, or take their time, so that every outcome is seen on any machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use egui_kittest::kittest::Queryable as _;
use engine::cancel::Cancel;
use engine::capture::{self, Capture, Source};
use engine::hw::Device;
use engine::session::{Planned, RunOptions, Runner, Tell};
use engine::{Error, Result};
use packscope::jobs::machine::{Found, Machine, RunsPlans, ThisMachine};
use packscope::runs::shown::Shown;
use packscope::window::command::Command;
use packscope::window::commands::table::Action;
use packscope::window::frame::Level;
use packscope::window::panel::Panel;
use packscope::window::{App, Opening};

use crate::program::fixture;
use crate::window::{Window, app, batch, open_with, send, settle, small};

/// What a stand-in does when it is asked to run.
#[derive(Clone, Copy)]
enum Answer {
    /// A capture a quarter slower than the simulator's, called measured.
    Slower,
    /// Waits until it is cancelled.
    Waits,
    /// The driver library panics.
    Panics,
    /// Memory runs out after the run has begun, and closing what is broken panics; the next one is well.
    RunsOut,
}

struct StandIn {
    answer: Answer,
    /// The next run fails as a lost device does; then it is well again.
    fails: Arc<AtomicBool>,
    /// How often the GPU was opened.
    opened: Arc<AtomicUsize>,
}

struct Open {
    device: Device,
    answer: Answer,
    fails: Arc<AtomicBool>,
    /// It is the first that was opened.
    first: bool,
}

impl StandIn {
    fn new(answer: Answer) -> Self {
        Self { answer, fails: Arc::default(), opened: Arc::default() }
    }
}

impl Machine for StandIn {
    fn find(&self) -> Result<Found> {
        Ok(Found { name: "Stand-in".to_owned(), device: Some(engine::hw::find("h200-sxm")?.clone()) })
    }

    fn open(&self, _: Tell, _: &Cancel) -> Result<Box<dyn RunsPlans>> {
        let device = engine::hw::find("h200-sxm")?.clone();
        let first = self.opened.fetch_add(1, Ordering::Relaxed) == 0;
        Ok(Box::new(Open { device, answer: self.answer, fails: Arc::clone(&self.fails), first }))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        assert!(!(matches!(self.answer, Answer::RunsOut) && self.first), "closing what is broken");
    }
}

impl RunsPlans for Open {
    fn device(&self) -> Option<&Device> {
        Some(&self.device)
    }

    fn run(&mut self, planned: &Planned, how: &RunOptions, cancel: &Cancel) -> Result<Capture> {
        if matches!(self.answer, Answer::RunsOut) {
            if !self.fails.swap(true, Ordering::Relaxed) {
                return Err(Error::Gpu("out of memory: 3.1 GiB were asked for, 1.2 GiB are free".to_owned()));
            }
        } else if self.fails.swap(false, Ordering::Relaxed) {
            return Err(Error::Gpu("the device was lost".to_owned()));
        }
        match self.answer {
            Answer::Slower | Answer::RunsOut => {}
            Answer::Panics => panic!("a driver call"),
            Answer::Waits => loop {
                cancel.check()?;
                std::thread::sleep(Duration::from_millis(1));
            },
        }
        let mut capture = Runner::simulator().run(planned, how, cancel)?;
        capture.provenance.source = Source::Measured;
        for time in capture.spans.begin.iter_mut().chain(&mut capture.spans.end) {
            *time = *time * 5 / 4;
        }
        for time in &mut capture.times.makespans {
            time.0 = time.0 * 5 / 4;
        }
        Ok(capture)
    }
}

/// A stand-in that answers each run with a slower one.
pub(crate) fn slower() -> Box<dyn Machine> {
    Box::new(StandIn::new(Answer::Slower))
}

fn open_on(machine: impl Fn() -> Box<dyn Machine> + 'static) -> Window {
    let mut window = open_with(batch(small()), move |ctx, opening| App::on(ctx, opening, machine()).unwrap());
    find_gpu(&mut window);
    window
}

/// Steps until the window knows whether there is a GPU.
pub(crate) fn find_gpu(window: &mut Window) {
    for _ in 0..2_000 {
        if app(window).gpu_blocked().is_none_or(|reason| !reason.contains("looking")) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
        window.step();
    }
}

fn stand_in(answer: Answer) -> Window {
    let mut window = open_on(move || Box::new(StandIn::new(answer)));
    send(&mut window, Command::Device("h200-sxm".to_owned()));
    window
}

/// Asks for a run and steps until it has ended and stands beside the simulated one.
pub(crate) fn measure(window: &mut Window) {
    app(window).send(Command::Act(Action::RunGpu));
    window.step();
    for _ in 0..12_000 {
        if !app(window).is_measuring() {
            return settle(window);
        }
        std::thread::sleep(Duration::from_millis(10));
        window.step();
    }
    panic!("the run on the GPU did not end");
}

fn shown(window: &mut Window) -> &Shown {
    app(window).shown().unwrap()
}

/// Measured and simulated run stand over each other, CTA by CTA.
fn assert_measured(window: &mut Window) {
    let shown = shown(window);
    let measured = shown.measured.as_ref().unwrap();
    assert_eq!(measured.source(), Source::Measured);
    let differences = shown.differences.as_ref().unwrap();
    let merges_aside = differences.only_measured;
    assert!(!differences.twins.is_empty());
    assert_eq!(differences.twins.len() + merges_aside, measured.capture.spans.len());
    let panels = [Panel::Timeline, Panel::Differences, Panel::Compare];
    for panel in panels {
        send(window, Command::Show(panel));
        window.run_steps(2);
        assert!(window.query_all_by_label_contains("measured").count() >= 1, "{panel:?}");
    }
}

#[test]
fn run_shows_the_measured_timeline_of_the_gpu_that_is_here() {
    let _alone = crate::gpu::alone();
    let mut window = open_on(|| Box::new(ThisMachine { cache: None }));
    if let Err(reason) = Runner::find_gpu() {
        println!("skipped: the window's Run on a real GPU: {reason}");
        assert!(app(&mut window).gpu_blocked().unwrap().contains("there is no GPU"));
        return;
    }
    let (_, device) = Runner::find_gpu().unwrap();
    if let Some(device) = device {
        send(&mut window, Command::Device(device.key.clone()));
    }
    measure(&mut window);
    assert_eq!(app(&mut window).gpu_problem(), None);
    assert_measured(&mut window);
    assert!(shown(&mut window).measured.as_ref().unwrap().capture.provenance.clock_step.0 > 0);
}

#[test]
fn a_capture_of_another_machines_gpu_opens_with_its_simulated_run_beside_it() {
    let loaded = capture::read(fixture("capture-h200-streams.pscope").as_ref()).unwrap();
    assert_eq!(capture::verify(&loaded.capture), Vec::new());
    let mut window = open_with(Opening::Capture(Box::new(loaded)), |ctx, opening| {
        App::on(ctx, opening, Box::new(StandIn::new(Answer::Slower))).unwrap()
    });
    assert_measured(&mut window);
    let made = shown(&mut window).measured.as_ref().unwrap().capture.provenance.clone();
    assert_eq!((made.device_name.as_str(), made.backend.as_str()), ("NVIDIA H200", "cuda"));
}

#[test]
fn measured_and_simulated_runs_stand_over_each_other() {
    let mut window = stand_in(Answer::Slower);
    measure(&mut window);
    assert_eq!(app(&mut window).gpu_problem(), None);
    assert_measured(&mut window);
    let differences = shown(&mut window).differences.clone().unwrap();
    let (begin, takes) = differences.medians().unwrap();
    assert!(begin < 0 && takes < 0, "the simulated run is the faster: {begin} {takes}");
}

#[test]
fn a_measured_run_outlives_an_edit_and_comes_back_with_its_plan() {
    let mut window = stand_in(Answer::Slower);
    measure(&mut window);
    let mut longer = small();
    longer.roots[0].tokens *= 2;
    send(&mut window, Command::Edit(Box::new(longer)));
    assert!(shown(&mut window).measured.is_none());
    assert_eq!(app(&mut window).measurements().len(), 1);
    send(&mut window, Command::Act(Action::Undo));
    assert!(shown(&mut window).measured.is_some());
}

#[test]
fn a_failing_run_keeps_the_work_and_the_next_one_runs() {
    let (fails, opened) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
    let (switch, count) = (Arc::clone(&fails), Arc::clone(&opened));
    let mut window = open_on(move || {
        Box::new(StandIn { answer: Answer::Slower, fails: Arc::clone(&switch), opened: Arc::clone(&count) })
    });
    send(&mut window, Command::Device("h200-sxm".to_owned()));
    measure(&mut window);
    assert!(app(&mut window).gpu_problem().unwrap().contains("device was lost"));
    assert!(shown(&mut window).simulated.is_some());
    window.run_steps(2);
    assert!(window.query_all_by_label_contains("device was lost").count() >= 1);
    assert_eq!(errors(&mut window), 1, "one message");
    measure(&mut window);
    assert_eq!(app(&mut window).gpu_problem(), None);
    assert!(shown(&mut window).measured.is_some());
    assert_eq!(opened.load(Ordering::Relaxed), 2, "a lost device is opened anew");
    measure(&mut window);
    assert_eq!(opened.load(Ordering::Relaxed), 2, "one that is well stays open");
}

fn errors(window: &mut Window) -> usize {
    app(window).log().iter().filter(|(level, _)| *level == Level::Error).count()
}

#[test]
fn memory_that_runs_out_gives_one_message_and_the_thread_goes_on() {
    let mut window = stand_in(Answer::RunsOut);
    let plan = shown(&mut window).plan_digest;
    measure(&mut window);
    assert!(app(&mut window).gpu_problem().unwrap().contains("out of memory: 3.1 GiB"));
    assert_eq!((errors(&mut window), app(&mut window).gpu_blocked()), (1, None));
    let shown_now = shown(&mut window);
    assert!(shown_now.plan_digest == plan && shown_now.simulated.is_some() && shown_now.measured.is_none());
    measure(&mut window);
    assert_eq!(app(&mut window).gpu_problem(), None);
    assert!(shown(&mut window).measured.is_some());
}

/// A machine whose driver panics when it is asked what there is.
struct NoDriver;

impl Machine for NoDriver {
    fn find(&self) -> Result<Found> {
        panic!("a symbol that the library lacks")
    }

    fn open(&self, _: Tell, _: &Cancel) -> Result<Box<dyn RunsPlans>> {
        panic!("a symbol that the library lacks")
    }
}

#[test]
fn a_driver_that_panics_when_it_is_looked_for_leaves_the_window_and_the_reason() {
    let mut window = open_on(|| Box::new(NoDriver));
    let reason = app(&mut window).gpu_blocked().unwrap();
    assert!(reason.contains("a symbol that the library lacks"), "{reason}");
    assert!(shown(&mut window).simulated.is_some());
}

#[test]
fn a_run_can_be_cancelled() {
    let mut window = stand_in(Answer::Waits);
    app(&mut window).send(Command::Act(Action::RunGpu));
    window.run_steps(5);
    assert!(app(&mut window).is_measuring());
    app(&mut window).send(Command::Act(Action::Cancel));
    for _ in 0..500 {
        window.step();
        if !app(&mut window).is_measuring() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!app(&mut window).is_measuring());
    assert!(app(&mut window).log().iter().any(|(_, line)| line.contains("cancelled")));
    assert_eq!(app(&mut window).gpu_blocked(), None);
}

#[test]
fn a_panic_of_the_driver_is_an_error_in_the_window() {
    let mut window = stand_in(Answer::Panics);
    measure(&mut window);
    assert!(app(&mut window).gpu_problem().unwrap().contains("panicked"));
    assert!(shown(&mut window).simulated.is_some());
}

#[test]
fn a_plan_for_another_gpu_is_not_run() {
    let mut window = stand_in(Answer::Slower);
    send(&mut window, Command::Device("a100-sxm-80gb".to_owned()));
    app(&mut window).send(Command::Act(Action::RunGpu));
    window.run_steps(3);
    assert!(!app(&mut window).is_measuring());
    assert!(app(&mut window).gpu_blocked().unwrap().contains("choose it as the device"));
}
