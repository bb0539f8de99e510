//! The command palette: everything that menus hold, found by typing, chosen with arrows and Enter.

use egui::{Align, Align2, Context, Key, Modifiers, RichText, ScrollArea};

use super::offers::{self, Offer};
use super::status::Status;
use crate::theme;
use crate::window::command::Command;
use crate::window::commands::table::COMMANDS;
use crate::window::frame::Frame;

/// Most lines that are shown; typing finds the others.
const MOST: usize = 60;

/// What was typed, and which line is chosen.
#[derive(Debug, Default)]
pub(super) struct State {
    text: String,
    at: usize,
}

/// A line: what it is found by, its keys, and what it does.
struct Line {
    name: String,
    keys: String,
    about: String,
    command: Command,
}

impl State {
    /// Draws it; false when it is done with.
    pub(super) fn show(&mut self, ctx: &Context, frame: &Frame<'_>, status: &Status<'_>) -> bool {
        let mut open = true;
        egui::Window::new(theme::title("Command"))
            .anchor(Align2::CENTER_TOP, [0.0, 90.0])
            .fixed_size([460.0, 360.0])
            .collapsible(false)
            .show(ctx, |ui| {
                let hint = "type a command, panel, scheduler, strategy, device, sample or recent file";
                let edit = egui::TextEdit::singleline(&mut self.text).hint_text(hint).desired_width(f32::INFINITY);
                // Arrows choose a line, wherever the cursor is in the text.
                let keys = ui.input_mut(|input| {
                    let mut key = |key| input.consume_key(Modifiers::NONE, key);
                    (key(Key::ArrowUp), key(Key::ArrowDown), key(Key::Enter), key(Key::Escape))
                });
                let edit = ui.add(edit);
                edit.request_focus();
                if edit.changed() {
                    self.at = 0;
                }
                let (up, down, enter, escape) = keys;
                let found = self.found(ctx, frame, status);
                let last = found.len().min(MOST).saturating_sub(1);
                self.at = if up { self.at.saturating_sub(1) } else { self.at + usize::from(down) }.min(last);
                open = !escape;
                ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
                    if found.is_empty() {
                        ui.label(RichText::new("Nothing is called so.").color(frame.tokens.faint));
                    }
                    let more = found.len().saturating_sub(MOST);
                    for (at, line) in found.into_iter().take(MOST).enumerate() {
                        let button = egui::Button::new(line.name)
                            .shortcut_text(line.keys)
                            .selected(at == self.at)
                            .min_size(egui::vec2(430.0, 0.0));
                        let button = ui.add(button);
                        if at == self.at && (up || down) {
                            button.scroll_to_me(Some(Align::Center));
                        }
                        let button = if line.about.is_empty() { button } else { button.on_hover_text(line.about) };
                        if button.clicked() || (enter && at == self.at) {
                            frame.send(line.command);
                            open = false;
                        }
                    }
                    if more > 0 {
                        ui.label(RichText::new(format!("and {more} more; type on")).color(frame.tokens.faint));
                    }
                });
            });
        open
    }

    /// Lines that have all words that were typed.
    fn found(&self, ctx: &Context, frame: &Frame<'_>, status: &Status<'_>) -> Vec<Line> {
        let wanted = self.text.to_lowercase();
        let fits = |name: &str| {
            let name = name.to_lowercase();
            wanted.split_whitespace().all(|word| name.contains(word))
        };
        let commands = COMMANDS.iter().filter(|entry| fits(&format!("{} {}", entry.group, entry.name)));
        let commands = commands.map(|entry| Line {
            name: entry.name.to_owned(),
            keys: entry.keys_text(ctx),
            about: String::new(),
            command: Command::Act(entry.action),
        });
        let lists: [(&str, Vec<Offer>); 6] = [
            ("Show", offers::panels()),
            ("Scheduler", offers::schedulers(frame)),
            ("Strategy", offers::strategies(frame)),
            ("Device", offers::devices(frame, status)),
            ("Open recent", offers::recent(status)),
            ("Sample", offers::samples()),
        ];
        let offers = lists.into_iter().flat_map(|(kind, all)| all.into_iter().map(move |offer| (kind, offer)));
        let offers = offers.map(|(kind, offer)| Line {
            name: format!("{kind}: {}", offer.name),
            keys: if offer.chosen { "chosen".to_owned() } else { String::new() },
            about: offer.about,
            command: offer.command,
        });
        let offers = offers.filter(|line| fits(&format!("{} {}", line.name, line.about)));
        let mut all: Vec<Line> = commands.chain(offers).collect();
        all.sort_by_key(|line| rank(&line.name, &wanted));
        all
    }
}

/// What is called as what was typed comes first, then what begins so, then what only holds the words.
fn rank(name: &str, wanted: &str) -> u8 {
    let name = name.to_lowercase();
    // A line of a list begins with what the list is of.
    let title = name.split_once(": ").map_or(name.as_str(), |(_, title)| title);
    let whole = name.replace(": ", " ");
    match wanted.trim() {
        "" => 0,
        wanted if title == wanted || whole == wanted => 0,
        wanted if title.starts_with(wanted) || whole.starts_with(wanted) => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panel_comes_before_commands_that_speak_of_it() {
        let mut names = ["Search nodes, packs, CTAs, bubbles; also with /", "Bubbles of a kind", "Show: Bubbles"];
        names.sort_by_key(|name| rank(name, "bubbles"));
        assert_eq!(names, ["Show: Bubbles", "Bubbles of a kind", "Search nodes, packs, CTAs, bubbles; also with /"]);
        assert_eq!(rank("Show: Bubbles", "show bubbles"), 0);
        assert!(names.iter().all(|name| rank(name, "") == 0), "with nothing typed their order stays");
    }
}
