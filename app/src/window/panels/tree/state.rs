//! What is in the hand from frame to frame, and what keys do with it.

use egui::Rect;
use engine::units::NodeIdx;
use engine::workload::BatchSpec;

use super::colour::Colour;
use super::figures::Figures;
use super::hands::Drag;
use super::keys::{self, Step};
use crate::document::drawing::{self, Numbers, Path, Pick, Stroke};
use crate::document::history::Gesture;
use crate::window::command::Command;
use crate::window::commands::table::Action;
use crate::window::frame::Frame;
use crate::window::selection::Selection;

/// Seconds after its last notch that the wheel is at rest: notches before are one step of the history.
pub(super) const WHEEL_RESTS: f64 = 0.5;

/// What is in the hand.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// What strokes act on.
    pub(super) picked: Vec<Pick>,
    /// Which copy of the first was picked.
    pub(super) copy: u32,
    /// The node that fills the canvas; all where there is none.
    pub(super) top: Option<Path>,
    pub(super) colour: Colour,
    pub(super) drag: Option<(Drag, Option<Stroke>)>,
    pub(super) figures: Option<Figures>,
    pub(super) told: Option<Told>,
    pub(super) wheel: Option<(Gesture, f64)>,
    /// The node that the window had selected in the frame before.
    pub(super) followed: Option<NodeIdx>,
    /// The canvas has the keyboard.
    pub(super) focused: bool,
    /// Where it was drawn last.
    pub(super) place: Option<Rect>,
}

/// What was said of the last stroke.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) text: String,
    pub(super) refused: bool,
}

/// What a key did.
#[derive(Debug)]
pub enum Acted {
    /// It is none of the tree's.
    No,
    /// Nothing that the document knows of.
    Done,
    /// A stroke.
    Drew(Command),
}

/// What a node is called.
pub(super) fn label(spec: &BatchSpec, path: &Path) -> String {
    Numbers::of(spec).number(spec, path).map_or_else(|| "a node".to_owned(), |node| format!("node {}", node.0))
}

impl State {
    /// Where the canvas was drawn last; nowhere until then.
    pub fn place(&self) -> Rect {
        self.place.unwrap_or(Rect::NOTHING)
    }

    /// Whether the canvas has the keyboard, so that arrows walk the tree.
    pub fn has_focus(&self) -> bool {
        self.focused
    }

    /// What is picked.
    pub fn picked(&self) -> &[Pick] {
        &self.picked
    }

    /// What was said of the last stroke, and whether it was refused.
    pub fn told(&self) -> Option<(&str, bool)> {
        self.told.as_ref().map(|told| (told.text.as_str(), told.refused))
    }

    /// The gesture of the wheel, while it turns.
    pub fn gesture(&self, time: f64) -> Option<Gesture> {
        self.wheel.filter(|(_, last)| time - last < WHEEL_RESTS).map(|(gesture, _)| gesture)
    }

    /// Makes a stroke on a batch; the command that puts it into the document, where it can be made.
    pub(super) fn make(&mut self, spec: &BatchSpec, stroke: &Stroke) -> Option<Command> {
        match drawing::draw(spec, stroke) {
            Ok(drawn) => {
                self.told = drawn.note.map(|text| Told { text, refused: false });
                self.picked = drawn.picked;
                let number = |pick: &Pick| Numbers::of(&drawn.spec).number(&drawn.spec, pick.path()?);
                let node = self.picked.first().and_then(number);
                self.followed = node;
                let name = stroke.name(&|path| label(spec, path));
                Some(Command::Draw { spec: Box::new(drawn.spec), name, node })
            }
            Err(reason) => {
                if let Some(figures) = &mut self.figures {
                    figures.refuse(&reason);
                }
                self.told = Some(Told { text: reason, refused: true });
                None
            }
        }
    }

    /// Handles a command of the table.
    pub fn act(&mut self, action: Action, spec: &BatchSpec) -> Acted {
        self.picked.retain(|pick| pick.is_in(spec));
        if let Some(stroke) = keys::stroke(action, spec, &self.picked, self.copy) {
            return self.make(spec, &stroke).map_or(Acted::Done, Acted::Drew);
        }
        let step = match action {
            Action::ArrowUp => Step::Up,
            Action::ArrowDown => Step::Down,
            Action::ArrowLeft => Step::Left,
            Action::ArrowRight => Step::Right,
            Action::Type => {
                self.figures = self.picked.first().and_then(|pick| Figures::of(spec, pick));
                return Acted::Done;
            }
            Action::ZoomTree => {
                self.top = self.picked.first().and_then(|pick| pick.path().cloned());
                return Acted::Done;
            }
            Action::ZoomTreeOut => {
                self.top = self.top.as_ref().and_then(Path::parent);
                return Acted::Done;
            }
            _ => return Acted::No,
        };
        if !self.focused {
            return Acted::No;
        }
        if let Some(pick) = keys::walk(spec, self.picked.first(), step) {
            self.pick(spec, pick);
        }
        Acted::Drew(self.select(spec))
    }

    fn pick(&mut self, spec: &BatchSpec, pick: Pick) {
        self.picked = vec![pick];
        self.copy = 0;
        self.told = None;
        self.followed = self.number(spec);
    }

    fn number(&self, spec: &BatchSpec) -> Option<NodeIdx> {
        self.picked.first().and_then(|pick| Numbers::of(spec).number(spec, pick.path()?))
    }

    fn select(&self, spec: &BatchSpec) -> Command {
        Command::Select(self.number(spec).map_or(Selection::None, Selection::Node))
    }

    /// Whether a drag goes on.
    pub fn is_drawing(&self) -> bool {
        self.drag.is_some()
    }

    /// Gives up the drag that goes on; the command that takes back what it did.
    pub fn cancel(&mut self) -> Option<Command> {
        let (drag, _) = self.drag.take()?;
        let spec = Box::new((*drag.spec).clone());
        Some(Command::Draw { spec, name: "drawing".to_owned(), node: None })
    }

    /// Picks what another view has selected.
    pub(super) fn follow(&mut self, frame: &Frame<'_>, numbers: &Numbers) {
        self.picked.retain(|pick| pick.is_in(frame.spec));
        self.top = self.top.take().filter(|top| top.node(frame.spec).is_some());
        if frame.selected.node == self.followed || self.drag.is_some() {
            return;
        }
        self.followed = frame.selected.node;
        if let Some((pick, copy)) = frame.selected.node.and_then(|node| numbers.pick(frame.spec, node)) {
            (self.picked, self.copy) = (vec![pick], copy);
        }
    }
}
