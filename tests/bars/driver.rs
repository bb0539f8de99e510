//! The real window with a script at its keyboard.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use egui::{Context, Event, Key, Modifiers, PointerButton, RawInput, Rect, Ui, ViewportCommand, pos2, vec2};
use engine::plan::PlanDigest;
use packscope::timeline::playback::Moment;
use packscope::window::command::Command;
use packscope::window::commands::table::Action;
use packscope::window::{App, Opening};

use crate::watch::Watch;

/// What the script asks.
#[derive(Debug)]
pub(crate) enum Ask {
    /// The context, to wake the window with.
    Context,
    /// A command, until all that comes of it is on the screen.
    Do(Command),
    /// A key, until all that comes of it is on the screen.
    Press(Modifiers, Key),
    /// So many frames, with the pointer on its way over the timeline.
    Frames(usize),
    /// So many frames of a drag over the canvas of the prefix tree, which draws a new root.
    Drag(usize),
    /// Playback from the start of the run, or no playback.
    Play(bool),
    /// The window closes.
    Close,
}

/// What the window answers.
#[derive(Debug)]
pub(crate) struct Answer {
    /// See [`Ask::Context`].
    pub(crate) ctx: Context,
    /// From the input's arrival until the frame that shows what came of it was painted.
    pub(crate) took: Duration,
    /// Our CPU time of each frame on the way.
    pub(crate) frames: Vec<Duration>,
    /// The plan that is shown, and slices of its runs.
    pub(crate) plan: Option<PlanDigest>,
    pub(crate) slices: usize,
    /// What the window complains of.
    pub(crate) problem: Option<String>,
}

/// What goes on.
#[derive(Debug)]
struct Doing {
    ask: Ask,
    begun: Instant,
    frames: Vec<Duration>,
    /// What was asked for is drawn; it is on the screen when the next frame begins.
    drawn: bool,
}

/// The window's own state, and the script's wishes.
#[derive(Debug)]
pub(crate) struct Driver {
    app: App,
    asks: Receiver<Ask>,
    answers: Sender<Answer>,
    doing: Option<Doing>,
}

impl Driver {
    /// The window on a finished example.
    ///
    /// # Errors
    /// As [`App::new`].
    pub(crate) fn new(ctx: &Context, asks: Receiver<Ask>, answers: Sender<Answer>) -> anyhow::Result<Self> {
        ctx.add_plugin(Watch::default());
        Ok(Self { app: App::new(ctx, Opening::Example)?, asks, answers, doing: None })
    }

    /// Answers what was drawn in the frame before, which is on the screen now.
    fn answer(&mut self, ctx: &Context) {
        let Some(Doing { begun, frames, .. }) = self.doing.take_if(|doing| doing.drawn) else { return };
        let shown = self.app.shown();
        let runs = shown.into_iter().flat_map(|shown| shown.simulated.iter().chain(&shown.measured));
        let answer = Answer {
            ctx: ctx.clone(),
            took: begun.elapsed(),
            frames,
            plan: shown.map(|shown| shown.plan_digest),
            slices: runs.map(|run| run.capture.spans.len()).sum(),
            problem: self.app.problem().map(str::to_owned),
        };
        // Without a script there is nothing left to do.
        if self.answers.send(answer).is_err() {
            ctx.send_viewport_cmd(ViewportCommand::Close);
        }
    }

    fn begin(&mut self, ctx: &Context, ask: Ask, input: &mut RawInput) {
        match &ask {
            Ask::Do(command) => self.app.send(command.clone()),
            Ask::Press(modifiers, key) => input.events.push(press(*modifiers, *key)),
            Ask::Close => ctx.send_viewport_cmd(ViewportCommand::Close),
            Ask::Play(false) => self.app.go_to(None),
            Ask::Play(true) => {
                self.app.go_to(Some(Moment::Time(0.0)));
                self.app.send(Command::Act(Action::Play));
            }
            Ask::Context | Ask::Frames(_) | Ask::Drag(_) => {}
        }
        self.doing = Some(Doing { ask, begun: Instant::now(), frames: Vec::new(), drawn: false });
    }
}

/// Our CPU time of the frame before.
fn last(ctx: &Context) -> Duration {
    ctx.with_plugin(|watch: &mut Watch| watch.last).unwrap_or_default()
}

fn press(modifiers: Modifiers, key: Key) -> Event {
    Event::Key { key, physical_key: Some(key), pressed: true, repeat: false, modifiers }
}

/// The events of one frame of a drag from the free edge of the canvas downwards, each a little farther.
fn drag(canvas: Rect, (frame, count): (usize, usize), events: &mut Vec<Event>) {
    let from = pos2(canvas.right() - canvas.width() * 0.05, canvas.top() + canvas.height() * 0.1);
    let share = frame.min(count) as f32 / count.max(1) as f32;
    let pos = from + vec2(-0.03 * canvas.width() * share, 0.5 * canvas.height() * share);
    let button =
        |pressed| Event::PointerButton { pos, button: PointerButton::Primary, pressed, modifiers: Modifiers::NONE };
    events.push(Event::PointerMoved(pos));
    match frame {
        0 => events.push(button(true)),
        _ if frame == count => events.push(button(false)),
        _ => {}
    }
}

impl eframe::App for Driver {
    fn raw_input_hook(&mut self, ctx: &Context, input: &mut RawInput) {
        if let Some(doing) = &mut self.doing {
            doing.frames.push(last(ctx));
        }
        self.answer(ctx);
        if self.doing.is_none()
            && let Ok(ask) = self.asks.try_recv()
        {
            self.begin(ctx, ask, input);
        }
        if let Some(Doing { ask: Ask::Frames(_), frames, .. }) = &self.doing {
            // Over half of the timeline, which stands in the lower middle of the window.
            let x = 480.0 + (frames.len() * 37 % 640) as f32;
            input.events.push(Event::PointerMoved(pos2(x, 720.0)));
        }
        if let Some(Doing { ask: Ask::Drag(count), frames, .. }) = &self.doing {
            drag(self.app.canvas().place(), (frames.len(), *count), &mut input.events);
        }
    }

    fn logic(&mut self, ctx: &Context, _: &mut eframe::Frame) {
        self.app.logic_pass(ctx);
    }

    fn ui(&mut self, ui: &mut Ui, _: &mut eframe::Frame) {
        self.app.ui_pass(ui);
        let settled = self.app.is_current() && !self.app.is_running();
        let Some(doing) = &mut self.doing else { return };
        doing.drawn = match doing.ask {
            Ask::Frames(count) => doing.frames.len() >= count,
            Ask::Drag(count) => doing.frames.len() > count && settled,
            Ask::Play(_) => true,
            _ => settled,
        };
        if doing.drawn || matches!(doing.ask, Ask::Frames(_) | Ask::Drag(_)) {
            ui.ctx().request_repaint();
        }
    }
}
