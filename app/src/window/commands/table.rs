//! Everything a person can make the window do: one table for menus, palette, keys and help.

use egui::{Key, KeyboardShortcut, ModifierNames, Modifiers};

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
    /// Make the selection the range.
    Range,
    /// Fold or unfold the SM of the selection.
    Fold,
    /// Fold SMs into their GPCs, or all of these into their SMs again.
    Gpcs,
    /// Search nodes, packs, CTAs and bubbles.
    Search,
    /// Find an SM.
    FindSm,
    /// Where one looked before.
    LookBack,
    /// Where one looked after.
    LookAhead,
    /// The longest bubble.
    LongestBubble,
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
    /// The step of the replay that loses most.
    WorstStep,
    /// Take an edit back.
    Undo,
    /// Do it again.
    Redo,
    /// Open a file.
    Open,
    /// Save the batch.
    Save,
    /// Export a view as a picture.
    Picture,
    /// A picture of the view under the pointer on the clipboard.
    CopyPicture,
    /// Save the run.
    SaveCapture,
    /// Export the run for Perfetto.
    Perfetto,
    /// Export the run as tables.
    Csv,
    /// Export the figures of the run.
    Json,
    /// A batch of what an engine writes.
    Import,
    /// Empty batch.
    Clear,
    /// Dark or light.
    Appearance,
    /// Measured runs, simulated ones or both on the timeline.
    Sources,
    /// Lane colours by pack or by tile.
    Colour,
    /// Larger letters and controls.
    Larger,
    /// Smaller ones.
    Smaller,
    /// One panel over all of the window.
    Present,
    /// Batch and tree beside the other panels, or not.
    Rail,
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
    entry(Action::Import, "File", "Import what an engine writes…", Some((CTRL, Key::I))),
    entry(Action::SaveCapture, "File", "Save the run as a capture…", Some((CTRL_SHIFT, Key::S))),
    entry(Action::Picture, "File", "Export a picture…", Some((CTRL, Key::E))),
    entry(Action::CopyPicture, "File", "Copy a picture of the view under the pointer", Some((CTRL_SHIFT, Key::E))),
    entry(Action::Perfetto, "File", "Export a trace for Perfetto…", None),
    entry(Action::Csv, "File", "Export tables (CSV)…", None),
    entry(Action::Json, "File", "Export the figures as JSON…", None),
    entry(Action::Clear, "File", "New empty batch", None),
    entry(Action::Redo, "Edit", "Redo", Some((CTRL_SHIFT, Key::Z))),
    entry(Action::Undo, "Edit", "Undo", Some((CTRL, Key::Z))),
    entry(Action::Deselect, "Edit", "Cancel, then deselect", Some((PLAIN, Key::Escape))),
    entry(Action::Run, "Run", "Plan and simulate again", Some((CTRL, Key::Enter))),
    entry(Action::RunGpu, "Run", RUN_GPU, Some((CTRL_SHIFT, Key::Enter))),
    entry(Action::Cancel, "Run", "Cancel", None),
    entry(Action::WorstStep, "Run", "Open the worst step of the replay", None),
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
    entry(Action::Range, "Timeline", "Make the selection the range", Some((PLAIN, Key::R))),
    entry(Action::Fold, "Timeline", "Fold or unfold the SM of the selection", Some((SHIFT, Key::F))),
    entry(Action::Gpcs, "Timeline", "Fold SMs into their GPCs, or unfold all", Some((SHIFT, Key::G))),
    entry(Action::Search, "Timeline", "Search nodes, packs, CTAs, bubbles; also with /", Some((CTRL, Key::F))),
    entry(Action::FindSm, "Timeline", "Find an SM", Some((CTRL, Key::P))),
    entry(Action::LookBack, "Timeline", "Where I looked before", Some((Modifiers::ALT, Key::ArrowLeft))),
    entry(Action::LookAhead, "Timeline", "Where I looked after", Some((Modifiers::ALT, Key::ArrowRight))),
    entry(Action::LongestBubble, "Timeline", "Go to the longest bubble", Some((PLAIN, Key::B))),
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
    entry(Action::Larger, "View", "Larger text and controls", Some((CTRL, Key::Plus))),
    entry(Action::Smaller, "View", "Smaller text and controls", Some((CTRL, Key::Minus))),
    entry(Action::Present, "View", "Present one panel, or all again", Some((PLAIN, Key::F11))),
    entry(Action::Rail, "View", "Batch and prefix tree: show or hide", Some((CTRL, Key::B))),
    entry(Action::Layout, "View", "Put all panels back", None),
    entry(Action::Palette, "Help", "Command palette", Some((CTRL_SHIFT, Key::P))),
    entry(Action::Keys, "Help", "All keys", Some((Modifiers::SHIFT, Key::Slash))),
];

/// Names of the menus in order.
pub const GROUPS: [&str; 8] = ["File", "Edit", "Run", "Tree", "Timeline", "Playback", "View", "Help"];

impl Entry {
    /// Name for scripts: `zoom-in`.
    pub fn key(&self) -> String {
        let mut name = String::new();
        for letter in format!("{:?}", self.action).chars() {
            if letter.is_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }

    /// Keys as they are labelled on a keyboard for this system, or nothing.
    pub fn keys_text(&self, ctx: &egui::Context) -> String {
        self.labelled(|shortcut| ctx.format_shortcut(shortcut)).unwrap_or_default()
    }

    /// Keys as they are labelled on a keyboard, where there is no window.
    pub fn keys_named(&self) -> Option<String> {
        self.labelled(|shortcut| shortcut.format(&ModifierNames::NAMES, cfg!(target_os = "macos")))
    }

    fn labelled(&self, format: impl Fn(&KeyboardShortcut) -> String) -> Option<String> {
        let (modifiers, key) = self.keys?;
        if key == Key::Slash {
            return Some("?".to_owned());
        }
        let text = format(&KeyboardShortcut::new(modifiers, key));
        // As the key is labelled: `[`, not `OpenBracket`.
        let sign = printed(key).and_then(|sign| Some(format!("{}{sign}", text.strip_suffix(key.name())?)));
        Some(sign.unwrap_or(text))
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

/// Keys that press, open or leave a control that has the focus, or walk to the one beside it.
const OF_CONTROLS: [Key; 6] = [Key::Enter, Key::Space, Key::ArrowUp, Key::ArrowDown, Key::ArrowLeft, Key::ArrowRight];

/// Whether a key is that of an entry.
fn is_of(keys: (Modifiers, Key), key: Key, physical: Option<Key>, modifiers: Modifiers) -> bool {
    match keys {
        (_, Key::Slash) => key == Key::Questionmark || (key == Key::Slash && modifiers.shift),
        // On many keyboards the sign takes Shift, or shares its key with another.
        (CTRL, Key::Plus) => modifiers.command && !modifiers.alt && matches!(key, Key::Plus | Key::Equals),
        (wanted, by) if wanted == PLAIN => modifiers.is_none() && physical.unwrap_or(key) == by,
        (wanted, by) => modifiers.matches_exact(wanted) && key == by,
    }
}

/// Commands whose keys were pressed; none while a text field has the focus or a menu is open. While a control is `held`
/// by the focus, the keys that work it are left to it.
pub fn pressed(ctx: &egui::Context, held: bool) -> Vec<Action> {
    if egui::Popup::is_any_open(ctx) {
        return Vec::new();
    }
    let typing = ctx.text_edit_focused();
    let mut actions = Vec::new();
    ctx.input_mut(|input| {
        input.events.retain(|event| {
            let egui::Event::Key { key, physical_key, pressed: true, modifiers, .. } = event else {
                return true;
            };
            if *key == Key::Slash && modifiers.is_none() && !typing {
                actions.push(Action::Search);
                return false;
            }
            if held && modifiers.is_none() && OF_CONTROLS.contains(key) {
                return true;
            }
            let found = COMMANDS
                .iter()
                .find(|entry| entry.keys.is_some_and(|keys| is_of(keys, *key, *physical_key, *modifiers)));
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
