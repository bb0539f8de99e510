//! Strokes: every way in which a hand changes a batch.

use engine::units::{Tokens, counted};
use engine::workload::{BatchSpec, NodeSpec, RequestSpec};

use super::drawn::Drawn;
use super::path::{Path, Pick};
use super::{chunks, nodes};

/// A change of a batch by hand.
#[derive(Clone, Debug, PartialEq)]
pub enum Stroke {
    /// A new node: a root, or a child that takes over requests which ended at its parent.
    Add {
        /// The parent.
        under: Option<Path>,
        /// KV tokens; snapped to whole blocks.
        tokens: u64,
        /// Requests.
        width: u32,
        /// Each request has a copy of its own; else they share the node.
        copies: bool,
    },
    /// Other figures of one node, or of listed decodes.
    Set {
        /// What.
        of: Pick,
        /// KV tokens.
        tokens: Option<u64>,
        /// Copies; of listed decodes their number.
        copies: Option<u32>,
        /// Requests that end here.
        requests: Option<u32>,
    },
    /// Subtrees stand under another node, or at the top.
    Move {
        /// The subtrees.
        what: Vec<Path>,
        /// Their parent from now on.
        under: Option<Path>,
        /// They stay where they are, and copies of them go.
        copy: bool,
    },
    /// A node ends after so many tokens, and goes on in a child.
    Split {
        /// The node.
        of: Path,
        /// Tokens of the upper part; snapped to whole blocks.
        at: u64,
    },
    /// Siblings share what they can: the shortest of them. Or a node and its only child become one, or the copies of one
    /// node.
    Join(Vec<Path>),
    /// They are gone, with all below them.
    Remove(Vec<Pick>),
    /// Each stands once more.
    Duplicate(Vec<Pick>),
    /// Siblings get a new common prefix.
    Group(Vec<Path>),
    /// One copy of a node becomes a node of its own.
    Part {
        /// The node.
        of: Path,
        /// Which copy.
        copy: u32,
    },
    /// A subtree from the clipboard.
    Paste {
        /// Its parent.
        under: Option<Path>,
        /// The subtree.
        node: NodeSpec,
    },
    /// A prefill chunk: a new one, or the one at this position of the list.
    Chunk {
        /// Position in the list of requests.
        at: Option<usize>,
        /// KV tokens before it.
        context: u64,
        /// Query tokens.
        chunk: u64,
    },
}

/// Makes a stroke.
///
/// # Errors
/// A sentence for the person, where it cannot be made: no batch that [`BatchSpec::build`] would refuse comes out of
/// one that it takes.
pub fn draw(spec: &BatchSpec, stroke: &Stroke) -> Result<Drawn, String> {
    let mut drawn = Drawn { spec: spec.clone(), picked: Vec::new(), note: None };
    apply(&mut drawn, stroke)?;
    match drawn.spec.outline() {
        // A batch from a file may be wrong already; it can be drawn right.
        Err(error) if spec.outline().is_ok() => Err(error.to_string()),
        _ => Ok(drawn),
    }
}

fn apply(drawn: &mut Drawn, stroke: &Stroke) -> Result<(), String> {
    match stroke {
        Stroke::Add { under, tokens, width, copies } => nodes::add(drawn, under.as_ref(), *tokens, (*width, *copies)),
        Stroke::Set { of: Pick::Node(path), tokens, copies, requests } => {
            nodes::set(drawn, path, *tokens, *copies, *requests)
        }
        Stroke::Set { of: Pick::Request(at), tokens, copies, .. } => listed(drawn, *at, *tokens, *copies),
        Stroke::Move { what, under, copy } => nodes::relocate(drawn, what, under.as_ref(), *copy),
        Stroke::Split { of, at } => nodes::split(drawn, of, *at),
        Stroke::Join(what) => nodes::join(drawn, what),
        Stroke::Remove(what) => nodes::remove(drawn, what),
        Stroke::Duplicate(what) => nodes::duplicate(drawn, what),
        Stroke::Group(what) => nodes::group(drawn, what),
        Stroke::Part { of, copy } => nodes::part(drawn, of, *copy),
        Stroke::Paste { under, node } => nodes::put(drawn, under.as_ref(), node.clone()),
        Stroke::Chunk { at, context, chunk } => {
            let at = chunks::set(&mut drawn.spec, *at, *context, *chunk)?;
            drawn.picked = vec![Pick::Request(at)];
            Ok(())
        }
    }
}

/// Other figures of listed decodes.
fn listed(drawn: &mut Drawn, at: usize, tokens: Option<u64>, copies: Option<u32>) -> Result<(), String> {
    let Some(RequestSpec::Decode { kv, count }) = drawn.spec.requests.get_mut(at) else {
        return Err("only decodes that share nothing have tokens and copies to draw".to_owned());
    };
    *kv = tokens.unwrap_or(*kv).max(1);
    *count = copies.unwrap_or(*count).max(1);
    drawn.picked = vec![Pick::Request(at)];
    Ok(())
}

impl Stroke {
    /// What it does, as it stands behind "Undo"; `label` names a node.
    pub fn name(&self, label: &dyn Fn(&Path) -> String) -> String {
        let all = |what: &[Path]| match what {
            [one] => label(one),
            many => counted(many.len() as u64, "node"),
        };
        let picks = |what: &[Pick]| match what {
            [Pick::Node(path)] => label(path),
            [Pick::Request(_)] => "listed requests".to_owned(),
            many => format!("{} parts", many.len()),
        };
        let under =
            |path: &Option<Path>| path.as_ref().map_or("at the top".to_owned(), |at| format!("under {}", label(at)));
        match self {
            Self::Add { under: None, .. } => "draw a root".to_owned(),
            Self::Add { under: at, .. } => format!("draw a node {}", under(at)),
            Self::Set { of, tokens, copies, requests } => {
                let what = match (tokens, copies, requests) {
                    (Some(tokens), None, None) => format!("{} tokens", Tokens(*tokens)),
                    (None, Some(copies), None) => counted(u64::from(*copies), "copy"),
                    (None, None, Some(requests)) => format!("{} that end", counted(u64::from(*requests), "request")),
                    _ => "figures".to_owned(),
                };
                format!("{what} of {}", picks(std::slice::from_ref(of)))
            }
            Self::Move { what, under: at, copy } => {
                format!("{} {} {}", if *copy { "copy" } else { "move" }, all(what), under(at))
            }
            Self::Split { of, at } => format!("split {} after {} tokens", label(of), Tokens(*at)),
            Self::Join(what) => format!("join {}", all(what)),
            Self::Remove(what) => format!("remove {}", picks(what)),
            Self::Duplicate(what) => format!("duplicate {}", picks(what)),
            Self::Group(what) => format!("group {} under a new prefix", all(what)),
            Self::Part { of, copy } => format!("part copy {copy} of {}", label(of)),
            Self::Paste { under: at, .. } => format!("paste a subtree {}", under(at)),
            Self::Chunk { at, context, chunk } => {
                let verb = if at.is_some() { "prefill chunk of" } else { "draw a prefill chunk of" };
                format!("{verb} {} tokens after {}", Tokens(*chunk), Tokens(*context))
            }
        }
    }
}
