//! What is measured, in its order.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use crossbeam_channel::{Receiver, Sender};
use egui::{Context, Key, Modifiers};
use engine::capture;
use engine::plan::Strategy;
use engine::session::PlanOptions;
use engine::units::{NodeIdx, counted, grouped};
use engine::workload::{AttentionShape, BatchSpec, parse_tree};
use packscope::samples;
use packscope::window::command::Command;
use packscope::window::commands::table::Action;
use packscope::window::panel::Panel;
use packscope::window::selection::Selection;

use crate::HEAP;
use crate::captures;
use crate::driver::{Answer, Ask};
use crate::report::{Report, Row};
use crate::watch::Watch;

/// Edits of which the median is taken, and those before that warm caches up.
const EDITS: usize = 11;
const WARM: usize = 2;
/// Frames of a view of which the median is taken.
const FRAMES: usize = 15;
/// Frames of a drag.
const DRAGGED: usize = 40;
/// Costliest views that are named.
const TOLD: usize = 4;
/// For how long nobody touches the window.
const REST: Duration = Duration::from_secs(3);
/// Ten thousand requests under five levels of prefixes.
const TEN_THOUSAND: &str = "1,10,100,1000,10000_512,256,128,64,256";

/// The window from the script's side.
#[derive(Debug)]
pub(crate) struct Window {
    asks: Sender<Ask>,
    answers: Receiver<Answer>,
    ctx: Context,
}

impl Window {
    /// The window at the other end of the channels, once it is there.
    ///
    /// # Errors
    /// Where it did not open.
    pub(crate) fn new(asks: Sender<Ask>, answers: Receiver<Answer>) -> anyhow::Result<Self> {
        asks.send(Ask::Context)?;
        let ctx = answers.recv().context("the window did not open")?.ctx;
        Ok(Self { asks, answers, ctx })
    }

    fn ask(&self, ask: Ask) -> anyhow::Result<Answer> {
        self.asks.send(ask)?;
        self.ctx.request_repaint();
        let answer = self.answers.recv().context("the window is closed")?;
        match answer.problem {
            Some(problem) => bail!("the window says: {problem}"),
            None => Ok(answer),
        }
    }

    fn tell(&self, command: Command) -> anyhow::Result<Answer> {
        self.ask(Ask::Do(command))
    }
}

/// Measures all.
///
/// # Errors
/// Where the window did not do what it was asked for.
pub(crate) fn run(window: &Window) -> anyhow::Result<Report> {
    let report = all(window);
    window.asks.send(Ask::Close)?;
    window.ctx.request_repaint();
    report
}

fn all(window: &Window) -> anyhow::Result<Report> {
    let mut report = Report::default();
    let sample = samples::find("pat-11").context("there is no sample pat-11")?;
    let config_11 = BatchSpec::from_ron(sample.text)?;
    let ten_thousand = parse_tree(TEN_THOUSAND, AttentionShape::default())?;
    // Large captures take a while to make: what is found is told at once.
    let mut add = |row: Row| {
        eprint!("{row}");
        report.rows.push(row);
    };
    for (spec, name, bar) in [(&config_11, "config 11", 100.0), (&ten_thousand, "10,000 requests", 400.0)] {
        for strategy in Strategy::ANY_BATCH {
            add(edits(window, spec, (strategy, name, bar))?);
        }
    }
    add(drag(window, &config_11)?);
    rest(window).into_iter().for_each(&mut add);
    for (slices, bar) in [(10_000_000, 16.0), (1_000_000, 8.0)] {
        large(window, &config_11, (slices, bar))?.into_iter().for_each(&mut add);
    }
    Ok(report)
}

fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// From the key of an edit to the new run on the screen.
fn edits(window: &Window, spec: &BatchSpec, (strategy, name, bar): (Strategy, &str, f64)) -> anyhow::Result<Row> {
    window.tell(Command::Edit(Box::new(spec.clone())))?;
    window.tell(Command::Strategy(strategy))?;
    window.tell(Command::Select(Selection::Node(NodeIdx(1))))?;
    let mut before = window.ask(Ask::Frames(2))?;
    let (mut times, mut frames) = (Vec::new(), 0);
    for edit in 0..WARM + EDITS {
        // One block more of the node, and back again.
        let key = if edit % 2 == 0 { Key::ArrowDown } else { Key::ArrowUp };
        let after = window.ask(Ask::Press(Modifiers::COMMAND, key))?;
        ensure!(after.plan != before.plan, "{name}: the key changed nothing");
        times.push(after.took);
        frames = after.frames.len();
        before = after;
    }
    let times = &times[WARM..];
    let (least, most) = (times.iter().min(), times.iter().max());
    let spread =
        least.zip(most).map_or_else(String::new, |(least, most)| format!("{:.0} to {:.0}", ms(*least), ms(*most)));
    Ok(Row {
        what: format!("{name} under {}: key to screen", strategy.name()),
        figure: Some(ms(median(times))),
        bar,
        unit: "ms",
        how: format!(
            "median of {EDITS}, {spread} ms; {} in {}",
            counted(before.slices as u64, "slice"),
            counted(frames as u64, "frame")
        ),
    })
}

/// Pictures of a drag on the canvas, while plan and timeline follow.
fn drag(window: &Window, spec: &BatchSpec) -> anyhow::Result<Row> {
    window.tell(Command::Edit(Box::new(spec.clone())))?;
    window.tell(Command::Show(Panel::Tree))?;
    let before = window.ask(Ask::Frames(2))?;
    let dragged = window.ask(Ask::Drag(DRAGGED))?;
    ensure!(dragged.plan != before.plan, "the drag drew nothing");
    let pictures = dragged.frames.len().max(1);
    Ok(Row {
        what: "1,024 requests: a picture of a drag on the tree".to_owned(),
        figure: Some(ms(dragged.took) / pictures as f64),
        bar: 100.0,
        unit: "ms",
        how: format!("{pictures} pictures in {:.1} s, to the last run on the screen", dragged.took.as_secs_f64()),
    })
}

/// CPU time of this process in milliseconds, to 10 of them; `None` where the system does not tell it in `/proc`.
fn cpu() -> Option<f64> {
    const TICK: f64 = 10.0;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name in brackets may hold anything; user and system time are the 12th and 13th fields after it.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<f64>().ok();
    Some((next()? + next()?) * TICK)
}

/// What a window costs that nobody touches.
fn rest(window: &Window) -> [Row; 2] {
    // Tooltips and hovers of what was measured before come to rest first.
    std::thread::sleep(REST / 2);
    let frames = || window.ctx.with_plugin(|watch: &mut Watch| watch.frames);
    let before = (cpu(), frames());
    std::thread::sleep(REST);
    let after = (cpu(), frames());
    let spent = after.0.zip(before.0).map(|(after, before)| after - before);
    let painted = after.1.zip(before.1).map(|(after, before)| (after - before) as f64);
    let how = format!("in {} s that nobody touched it", REST.as_secs());
    [
        Row { what: "idle: CPU".to_owned(), figure: spent, bar: 0.0, unit: "ms", how: how.clone() },
        Row { what: "idle: frames".to_owned(), figure: painted, bar: 0.0, unit: "", how },
    ]
}

/// Opening a capture of so many slices, its memory, and its frames.
fn large(window: &Window, spec: &BatchSpec, (slices, bar): (usize, f64)) -> anyhow::Result<Vec<Row>> {
    let device = engine::hw::builtin().first().context("there is no built-in device")?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("bars.pscope");
    capture::write(&captures::of(spec, &PlanOptions::new(device), slices)?, &path)?;
    let name = format!("{} M slices", slices / 1_000_000);
    // A small capture in the place of the large one before, so that its memory is let go.
    window.tell(Command::Edit(Box::new(spec.clone())))?;
    let before = HEAP.current_usage();
    let opened = window.tell(Command::OpenPath(path))?;
    ensure!(opened.slices >= slices, "{name}: {} are shown", grouped(opened.slices as u64));
    let held = HEAP.current_usage().saturating_sub(before) as f64 / opened.slices as f64;
    let views = frames(window)?;
    let worst = views.first().map_or(0.0, |(cost, _)| *cost);
    let told: Vec<String> = views.iter().take(TOLD).map(|(cost, name)| format!("{name} {cost:.1}")).collect();
    let how = format!("median of {FRAMES} frames of the costliest view of {}: {}", views.len(), told.join(", "));
    let moving = moves(window, &name)?;
    window.tell(Command::Show(Panel::Playback))?;
    window.ask(Ask::Play(true))?;
    let played = ms(median(&window.ask(Ask::Frames(FRAMES))?.frames));
    window.ask(Ask::Play(false))?;
    let playing = Row {
        what: format!("{name}: CPU of a frame of playback"),
        figure: Some(played),
        bar: 16.0,
        unit: "ms",
        how: format!("median of {FRAMES} frames with the grid of SMs"),
    };
    let mut rows = vec![
        playing,
        moving,
        Row { what: format!("{name}: CPU of a frame"), figure: Some(worst), bar, unit: "ms", how },
    ];
    if slices >= 10_000_000 {
        let opened = opened.took.as_secs_f64();
        rows.push(Row {
            what: format!("{name}: opened"),
            figure: Some(opened),
            bar: 3.0,
            unit: "s",
            how: String::new(),
        });
        let how = "heap, less what was held before".to_owned();
        rows.push(Row { what: format!("{name}: memory of a slice"), figure: Some(held), bar: 100.0, unit: "B", how });
    }
    Ok(rows)
}

/// Zooming in from the whole run and panning: nothing of the frame before is of use to the next.
fn moves(window: &Window, name: &str) -> anyhow::Result<Row> {
    window.tell(Command::Show(Panel::Timeline))?;
    let (mut worst, mut whole) = (Duration::ZERO, 0.0);
    for zoom in 0..=5 {
        window.tell(Command::Act(Action::Fit))?;
        for _ in 0..9 * zoom {
            window.ask(Ask::Press(Modifiers::NONE, Key::W))?;
        }
        // Once to the left and once to the right of it, and as often as a median wants.
        let mut costs = Vec::new();
        for step in 0..FRAMES {
            let key = [Key::W, Key::D, Key::A, Key::S][step % 4];
            costs.extend(window.ask(Ask::Press(Modifiers::NONE, key))?.frames);
        }
        let cost = median(&costs);
        if zoom == 0 {
            whole = ms(cost);
        }
        worst = worst.max(cost);
    }
    Ok(Row {
        what: format!("{name}: CPU of a frame of zooming and panning"),
        figure: Some(ms(worst)),
        bar: 16.0,
        unit: "ms",
        how: format!("median of {FRAMES} at the costliest of six zooms; {whole:.1} over the whole run"),
    })
}

/// The views of what is shown, costliest first: the median of its frames, and its name.
fn frames(window: &Window) -> anyhow::Result<Vec<(f64, String)>> {
    let mut views = Vec::new();
    let mut look = |name: String| -> anyhow::Result<()> {
        let frames = window.ask(Ask::Frames(FRAMES))?.frames;
        views.push((ms(median(&frames)), name));
        Ok(())
    };
    for panel in Panel::ALL {
        window.tell(Command::Show(panel))?;
        look(format!("the panel {}", panel.title()))?;
    }
    window.tell(Command::Show(Panel::Timeline))?;
    for zoom in 1..=5 {
        for _ in 0..9 {
            window.ask(Ask::Press(Modifiers::NONE, Key::W))?;
        }
        look(format!("the timeline, {} times as near", 10_u32.pow(zoom)))?;
    }
    for _ in 0..12 {
        window.ask(Ask::Press(Modifiers::SHIFT, Key::W))?;
    }
    look("the timeline with tall lanes".to_owned())?;
    views.sort_by(|a, b| b.0.total_cmp(&a.0));
    Ok(views)
}
