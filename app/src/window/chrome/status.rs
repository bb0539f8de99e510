//! What the chrome is told of the window.

use std::path::PathBuf;

use engine::capture::L2State;

use crate::jobs::machine::Found;
use crate::jobs::state::Work;
use crate::window::commands::table::{Action, Entry};

/// What the top bar, the banners and the menus say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Status<'a> {
    /// What the engine thread is at, and whether it has been for long.
    pub(crate) work: Work,
    pub(crate) slow: bool,
    pub(crate) problem: Option<&'a str>,
    /// Whether the person has read what the file of the capture lost.
    pub(crate) damage_is_told: bool,
    /// Names of the steps that undo and redo travel over.
    pub(crate) undoes: Option<&'a str>,
    pub(crate) redoes: Option<&'a str>,
    /// Why nothing can run on the GPU.
    pub(crate) blocked: Option<&'a str>,
    /// What a run on the GPU is at.
    pub(crate) measuring: Option<&'a str>,
    pub(crate) gpu_problem: Option<&'a str>,
    pub(crate) gpu: Option<&'a Found>,
    pub(crate) repeats: u32,
    pub(crate) l2: L2State,
    /// Files that were opened last, the newest first.
    pub(crate) recent: &'a [PathBuf],
    /// Warnings and errors that the person has not seen.
    pub(crate) unread: usize,
}

impl Status<'_> {
    /// The name of an entry, undo and redo with what they travel over, and whether it can be chosen.
    pub(super) fn entry(&self, entry: &Entry) -> (String, bool) {
        let step = match entry.action {
            Action::Undo => self.undoes,
            Action::Redo => self.redoes,
            _ => return (entry.name.to_owned(), true),
        };
        (step.map_or_else(|| entry.name.to_owned(), |step| format!("{} {step}", entry.name)), step.is_some())
    }
}
