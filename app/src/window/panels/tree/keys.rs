//! The tree by keyboard: walking it, and strokes on what is picked.

use engine::workload::BatchSpec;

use crate::document::drawing::{self, Path, Pick, Stroke};
use crate::window::commands::table::Action;

/// Tokens of a node that the keyboard makes, in blocks.
const NEW_BLOCKS: u64 = 8;

/// The stroke of a key; none where the key is none of these, or nothing is picked for it.
pub(super) fn stroke(action: Action, spec: &BatchSpec, picked: &[Pick], copy: u32) -> Option<Stroke> {
    let block = drawing::block(spec);
    let paths: Vec<Path> = picked.iter().filter_map(|pick| pick.path().cloned()).collect();
    let first = paths.first().cloned();
    let add = |under| Stroke::Add { under, tokens: block * NEW_BLOCKS, width: 1, copies: false };
    let set = |tokens, copies, requests| {
        picked.first().map(|pick| Stroke::Set { of: pick.clone(), tokens, copies, requests })
    };
    let (tokens, copies) = picked.first().and_then(|pick| figures(spec, pick)).unwrap_or((block, 1));
    match action {
        Action::NewRoot => Some(add(None)),
        Action::NewChild => Some(add(first)),
        Action::Remove => (!picked.is_empty()).then(|| Stroke::Remove(picked.to_vec())),
        Action::Duplicate => (!picked.is_empty()).then(|| Stroke::Duplicate(picked.to_vec())),
        Action::Group => (!paths.is_empty()).then_some(Stroke::Group(paths)),
        Action::Join => (!paths.is_empty()).then_some(Stroke::Join(paths)),
        Action::Split => first.map(|of| Stroke::Split { of, at: tokens / 2 }),
        Action::Part => first.map(|of| Stroke::Part { of, copy }),
        Action::Longer => set(Some((tokens / block + 1) * block), None, None),
        Action::Shorter => set(Some((tokens.div_ceil(block).max(2) - 1) * block), None, None),
        Action::MoreCopies => set(None, Some(copies.saturating_add(1)), None),
        Action::FewerCopies => set(None, Some(copies.saturating_sub(1).max(1)), None),
        Action::NewChunk => {
            Some(Stroke::Chunk { at: None, context: block * NEW_BLOCKS * 8, chunk: block * NEW_BLOCKS * 2 })
        }
        Action::Outdent => {
            let under = first.as_ref()?.parent()?.parent();
            Some(Stroke::Move { what: paths, under, copy: false })
        }
        Action::Indent => {
            let path = first.as_ref()?;
            let before = path.sibling(path.last().checked_sub(1)?);
            Some(Stroke::Move { what: paths, under: Some(before), copy: false })
        }
        _ => None,
    }
}

fn figures(spec: &BatchSpec, pick: &Pick) -> Option<(u64, u32)> {
    use engine::workload::RequestSpec;
    match pick {
        Pick::Node(path) => path.node(spec).map(|node| (node.tokens, node.repeat)),
        Pick::Request(at) => match spec.requests.get(*at)? {
            RequestSpec::Decode { kv, count } => Some((*kv, *count)),
            _ => None,
        },
    }
}

/// A way to walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// To the parent.
    Up,
    /// To the first child.
    Down,
    /// To the sibling before.
    Left,
    /// To the sibling after; from the last root to the listed requests.
    Right,
}

/// What is picked after a step.
pub(super) fn walk(spec: &BatchSpec, from: Option<&Pick>, step: Step) -> Option<Pick> {
    let Some(from) = from else {
        return if spec.roots.is_empty() { Some(Pick::Request(0)) } else { Some(Pick::Node(Path::root(0))) }
            .filter(|pick| pick.is_in(spec));
    };
    let to = match (from, step) {
        (Pick::Node(path), Step::Up) => Pick::Node(path.parent()?),
        (Pick::Node(path), Step::Down) => Pick::Node(path.child(0)),
        (Pick::Node(path), Step::Left | Step::Right) => {
            let at = if step == Step::Left { path.last().checked_sub(1)? } else { path.last() + 1 };
            let beside = Pick::Node(path.sibling(at));
            if !beside.is_in(spec) && path.parent().is_none() { Pick::Request(0) } else { beside }
        }
        (Pick::Request(0), Step::Left) => Pick::Node(Path::root(spec.roots.len().checked_sub(1)?)),
        (Pick::Request(at), Step::Left) => Pick::Request(at - 1),
        (Pick::Request(at), Step::Right) => Pick::Request(at + 1),
        (Pick::Request(_), Step::Up | Step::Down) => return None,
    };
    to.is_in(spec).then_some(to)
}
