//! Moments of playback for others: links and pictures; and going to one that came as a link.

use std::path::Path;

use egui::Context;
use engine::capture;

use crate::picture::look::Look;
use crate::picture::png;
use crate::runs::run::Run;
use crate::timeline::playback::Moment;
use crate::window::app::App;
use crate::window::commands::files::absolute;
use crate::window::frame::Level;
use crate::window::panel::Panel;
use crate::window::panels::playback;
use crate::window::picture::{self, Wanted};

impl App {
    /// Shows a moment, such as a link names; the whole run again where there is none.
    pub fn go_to(&mut self, at: Option<Moment>) {
        self.states.playback.playback.at = at;
        self.states.playback.playback.plays = false;
        if at.is_some() {
            self.bring_up(Panel::Playback);
        }
    }

    /// The file of the run that is played, where it is from one.
    pub(in crate::window) fn played_file(&self) -> Option<&Path> {
        let run = self.played()?;
        self.capture.as_deref().filter(|_| run.took.is_zero())
    }

    fn played(&self) -> Option<&Run> {
        let shown = self.shown.as_ref()?;
        playback::front(shown, self.states.timeline.sources).map(AsRef::as_ref)
    }

    /// Puts the link to the moment on the clipboard; with a path, of the run saved there.
    pub(in crate::window) fn copy_link(&mut self, ctx: &Context, save: Option<&Path>) {
        let Some((at, run)) = self.states.playback.playback.at.zip(self.played()) else { return };
        let path = match save {
            None => self.played_file().map(Path::to_owned),
            Some(path) => {
                let saved = capture::to_bytes(&run.capture)
                    .and_then(|bytes| capture::write_atomically(path, "writing the capture", &bytes));
                if let Err(error) = saved {
                    return self.fail(&error.to_string());
                }
                Some(absolute(path))
            }
        };
        let Some(path) = path else { return };
        let link = link(&path, at);
        self.log.push((Level::Info, format!("copied: {link}")));
        ctx.copy_text(link);
    }

    /// Writes the moment as a picture: PNG where the name ends so, SVG else.
    pub(in crate::window) fn save_moment(&mut self, path: &Path) {
        let (Some(at), Some(shown)) = (self.states.playback.playback.at, &self.shown) else {
            return self.fail("playback shows no moment");
        };
        // While choices are made nothing runs yet: the tree shows what they are about.
        let panel = if matches!(at, Moment::Choices(_)) { Panel::Tree } else { Panel::Timeline };
        let wanted = Wanted { panel, range: None, at: Some(at), look: Look::default() };
        let svg = match picture::of_shown(shown, &[], &wanted) {
            Ok(svg) => svg,
            Err(problem) => return self.fail(&problem),
        };
        let is_png = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("png"));
        let bytes = if is_png { png::png(&svg).map_err(|error| format!("{error:#}")) } else { Ok(svg.into_bytes()) };
        self.write_picture(path, bytes);
    }
}

/// The command that opens a file at a moment, as a shell takes it.
fn link(path: &Path, at: Moment) -> String {
    let text = path.display().to_string();
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+=:,@".contains(letter);
    let named = if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) };
    format!("packscope view {named} --at {at}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_one_command_whatever_the_file_is_called() {
        let told = |path: &str| link(Path::new(path), Moment::Time(12_300.0));
        assert_eq!(told("/tmp/run.pscope"), "packscope view /tmp/run.pscope --at 12.3us");
        assert_eq!(told("my run's.pscope"), "packscope view 'my run'\\''s.pscope' --at 12.3us");
    }
}
