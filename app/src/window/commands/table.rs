//! Everything a person can make the window do: one table for menus, palette, keys and help.

use egui::{Key, KeyboardShortcut, Modifiers};

/// A command without data: one line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Zoom in at the middle.
    ZoomIn,
    /// Zoom out.
    ZoomOut,
    /// Earlier.
    PanLeft,
    /// Later.
    PanRight,
    /// Taller lanes.
    Taller,
    /// Lower lanes.
    Lower,
    /// Show all.
    Fit,
    /// Zoom to the selection; again: fit.
    Focus,
    /// Mark the selection, the range or the pointer's time.
    Mark,
    /// Previous slice of the lane.
    Previous,
    /// Next slice of the lane.
    Next,
    /// Up the chain.
    Up,
    /// Down the chain.
    Down,
    /// A new root in the tree.
    NewRoot,
    /// A new child of what is picked in the tree.
    NewChild,
    /// A new prefill chunk.
    NewChunk,
    /// Type the figures of what is picked.
    Type,
    /// Remove what is picked.
    Remove,
    /// Once more what is picked.
    Duplicate,
    /// A common prefix for what is picked.
    Group,
    /// Join what is picked.
    Join,
    /// Split the picked node in its middle.
    Split,
    /// One copy becomes a node of its own.
    Part,
    /// One block more.
    Longer,
    /// One block less.
    Shorter,
    /// One copy more.
    MoreCopies,
    /// One copy less.
    FewerCopies,
    /// Under the sibling before.
    Indent,
    /// Beside the parent.
    Outdent,
    /// The picked subtree fills the canvas.
    ZoomTree,
    /// The parent of that does.
    ZoomTreeOut,
    /// Up in the tree.
    ArrowUp,
    /// Down in the tree.
    ArrowDown,
    /// The sibling before in the tree.
    ArrowLeft,
    /// The sibling after in the tree.
    ArrowRight,
    /// Play or stop.
    Play,
    /// A wave on.
    WaveOn,
    /// A wave back.
    WaveBack,
    /// Run again.
    Run,
    /// Run on the GPU.
    RunGpu,
    /// Stop.
    Cancel,
    /// Take an edit back.
    Undo,
    /// Do it again.
    Redo,
    /// Open a file.
    Open,
    /// Save the batch.
    Save,
    /// Export the timeline as a picture.
    Picture,
    /// Empty batch.
    Clear,
    /// Dark or light.
    Appearance,
    /// Measured runs, simulated ones or both on the timeline.
    Sources,
    /// Lane colours by pack or by tile.
    Colour,
    /// The palette.
    Palette,
    /// The key list.
    Keys,
    /// Panels back in place.
    Layout,
    /// Deselect.
    Deselect,
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// What it does.
    pub action: Action,
    /// Menu it stands in.
    pub group: &'static str,
    /// Name.
    pub name: &'static str,
    /// Keys.
    pub keys: Option<(Modifiers, Key)>,
}

const fn entry(action: Action, group: &'static str, name: &'static str, keys: Option<(Modifiers, Key)>) -> Entry {
    Entry { action, group, name, keys }
}

const PLAIN: Modifiers = Modifiers::NONE;
const SHIFT: Modifiers = Modifiers::SHIFT;
const CTRL: Modifiers = Modifiers::COMMAND;
const CTRL_SHIFT: Modifiers = Modifiers::COMMAND.plus(Modifiers::SHIFT);

/// Name of the command that measures; a button has the same.
pub const RUN_GPU: &str = "Run on the GPU";

/// All commands.
pub const COMMANDS: &[Entry] = &[
    entry(Action::Open, "File", "Open a batch or capture…", Some((CTRL, Key::O))),
    entry(Action::Save, "File", "Save the batch…", Some((CTRL, Key::S))),
    entry(Action::Picture, "File", "Export the timeline as a picture…", Some((CTRL, Key::E))),
    entry(Action::Clear, "File", "New empty batch", None),
    entry(Action::Redo, "Edit", "Redo", Some((CTRL_SHIFT, Key::Z))),
    entry(Action::Undo, "Edit", "Undo", Some((CTRL, Key::Z))),
    entry(Action::Deselect, "Edit", "Cancel, then deselect", Some((PLAIN, Key::Escape))),
    entry(Action::Run, "Run", "Plan and simulate again", Some((CTRL, Key::Enter))),
    entry(Action::RunGpu, "Run", RUN_GPU, Some((CTRL_SHIFT, Key::Enter))),
    entry(Action::Cancel, "Run", "Cancel", None),
    entry(Action::NewRoot, "Tree", "New root", Some((SHIFT, Key::N))),
    entry(Action::NewChild, "Tree", "New child", Some((PLAIN, Key::N))),
    entry(Action::NewChunk, "Tree", "New prefill chunk", Some((SHIFT, Key::C))),
    entry(Action::Type, "Tree", "Type tokens, copies, requests", Some((PLAIN, Key::Enter))),
    entry(Action::Longer, "Tree", "One block more", Some((CTRL, Key::ArrowDown))),
    entry(Action::Shorter, "Tree", "One block less", Some((CTRL, Key::ArrowUp))),
    entry(Action::MoreCopies, "Tree", "One copy more", Some((CTRL, Key::ArrowRight))),
    entry(Action::FewerCopies, "Tree", "One copy less", Some((CTRL, Key::ArrowLeft))),
    entry(Action::Split, "Tree", "Split in the middle", Some((PLAIN, Key::K))),
    entry(Action::Join, "Tree", "Join neighbours, copies, or a node with its only child", Some((PLAIN, Key::J))),
    entry(Action::Group, "Tree", "Group under a new prefix", Some((CTRL, Key::G))),
    entry(Action::Part, "Tree", "Part this copy from the others", Some((PLAIN, Key::U))),
    entry(Action::Indent, "Tree", "Move under the sibling before", Some((SHIFT, Key::ArrowRight))),
    entry(Action::Outdent, "Tree", "Move beside the parent", Some((SHIFT, Key::ArrowLeft))),
    entry(Action::Duplicate, "Tree", "Duplicate", Some((CTRL, Key::D))),
    entry(Action::Remove, "Tree", "Remove", Some((PLAIN, Key::Delete))),
    entry(Action::ZoomTree, "Tree", "Zoom to the subtree", Some((PLAIN, Key::Z))),
    entry(Action::ZoomTreeOut, "Tree", "Zoom out", Some((SHIFT, Key::Z))),
    entry(Action::ArrowUp, "Tree", "To the parent, with the canvas clicked", Some((PLAIN, Key::ArrowUp))),
    entry(Action::ArrowDown, "Tree", "To the first child", Some((PLAIN, Key::ArrowDown))),
    entry(
        Action::ArrowLeft,
        "Tree",
        "To the sibling before; without the canvas, a step of playback back",
        Some((PLAIN, Key::ArrowLeft)),
    ),
    entry(
        Action::ArrowRight,
        "Tree",
        "To the sibling after; without the canvas, a step of playback on",
        Some((PLAIN, Key::ArrowRight)),
    ),
    entry(Action::ZoomIn, "Timeline", "Zoom in", Some((PLAIN, Key::W))),
    entry(Action::ZoomOut, "Timeline", "Zoom out", Some((PLAIN, Key::S))),
    entry(Action::PanLeft, "Timeline", "Earlier", Some((PLAIN, Key::A))),
    entry(Action::PanRight, "Timeline", "Later", Some((PLAIN, Key::D))),
    entry(Action::Taller, "Timeline", "Taller lanes", Some((Modifiers::SHIFT, Key::W))),
    entry(Action::Lower, "Timeline", "Lower lanes", Some((Modifiers::SHIFT, Key::S))),
    entry(Action::Focus, "Timeline", "Focus the selection, again to fit", Some((PLAIN, Key::F))),
    entry(Action::Fit, "Timeline", "Show all", Some((CTRL, Key::Num0))),
    entry(
        Action::Mark,
        "Timeline",
        "Mark the selection or the pointer's time, again to take it away",
        Some((PLAIN, Key::M)),
    ),
    entry(Action::Previous, "Timeline", "Previous CTA of the lane", Some((PLAIN, Key::Comma))),
    entry(Action::Next, "Timeline", "Next CTA of the lane", Some((PLAIN, Key::Period))),
    entry(Action::Up, "Timeline", "Up the chain: CTA, pack, node", Some((PLAIN, Key::OpenBracket))),
    entry(Action::Down, "Timeline", "Down the chain: node, pack, CTA", Some((PLAIN, Key::CloseBracket))),
    entry(Action::Play, "Playback", "Play or pause", Some((PLAIN, Key::Space))),
    entry(Action::WaveOn, "Playback", "A wave on", Some((PLAIN, Key::PageDown))),
    entry(Action::WaveBack, "Playback", "A wave back", Some((PLAIN, Key::PageUp))),
    entry(Action::Sources, "View", "Timeline: measured, simulated or both", Some((PLAIN, Key::O))),
    entry(Action::Colour, "View", "Colour CTAs by pack or by tile", Some((PLAIN, Key::C))),
    entry(Action::Appearance, "View", "Theme: dark or light", None),
    entry(Action::Layout, "View", "Put all panels back", None),
    entry(Action::Palette, "Help", "Command palette", Some((CTRL_SHIFT, Key::P))),
    entry(Action::Keys, "Help", "All keys", Some((Modifiers::SHIFT, Key::Slash))),
];

/// Names of the menus in order.
pub const GROUPS: [&str; 8] = ["File", "Edit", "Run", "Tree", "Timeline", "Playback", "View", "Help"];

impl Entry {
    /// Keys as text, or nothing.
    pub fn keys_text(&self, ctx: &egui::Context) -> String {
        match self.keys {
            Some((_, Key::Slash)) => "?".to_owned(),
            Some((modifiers, key)) => {
                let text = ctx.format_shortcut(&KeyboardShortcut::new(modifiers, key));
                // As the key is labelled: `[`, not `OpenBracket`.
                match printed(key).and_then(|sign| Some(format!("{}{sign}", text.strip_suffix(key.name())?))) {
                    Some(labelled) => labelled,
                    None => text,
                }
            }
            None => String::new(),
        }
    }
}

/// The sign on a key whose name is a word for it.
fn printed(key: Key) -> Option<&'static str> {
    match key {
        Key::OpenBracket => Some("["),
        Key::CloseBracket => Some("]"),
        Key::Comma => Some(","),
        Key::Period => Some("."),
        Key::Plus => Some("+"),
        Key::Minus => Some("-"),
        _ => None,
    }
}

/// Commands whose keys were pressed; none while a text field has the focus.
pub fn pressed(ctx: &egui::Context) -> Vec<Action> {
    let typing = ctx.text_edit_focused();
    let mut actions = Vec::new();
    ctx.input_mut(|input| {
        input.events.retain(|event| {
            let egui::Event::Key { key, physical_key, pressed: true, modifiers, .. } = event else {
                return true;
            };
            let found = COMMANDS.iter().find(|entry| match entry.keys {
                Some((_, Key::Slash)) => *key == Key::Questionmark || (*key == Key::Slash && modifiers.shift),
                Some((wanted, by)) if wanted == PLAIN => modifiers.is_none() && physical_key.unwrap_or(*key) == by,
                Some((wanted, by)) => modifiers.matches_exact(wanted) && *key == by,
                None => false,
            });
            match found {
                Some(entry) if !typing || entry.keys.is_some_and(|(modifiers, _)| modifiers == CTRL_SHIFT) => {
                    actions.push(entry.action);
                    false
                }
                _ => true,
            }
        });
    });
    actions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_named_as_they_are_labelled() {
        let ctx = egui::Context::default();
        for entry in COMMANDS {
            let text = entry.keys_text(&ctx);
            assert!(!text.contains("Bracket") && !text.contains("Comma") && !text.contains("Period"), "{text}");
        }
        assert!(COMMANDS.iter().any(|entry| entry.keys_text(&ctx) == "["));
    }
}
