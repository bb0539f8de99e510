//! Strokes on nodes.

use engine::units::Tokens;
use engine::workload::{BatchSpec, NodeSpec};

use super::drawn::Drawn;
use super::path::{Path, Pick};

/// Blocks of a new common prefix.
const GROUP_BLOCKS: u64 = 8;

const GONE: &str = "the node is not there any more";

/// Tokens of a KV block.
pub fn block(spec: &BatchSpec) -> u64 {
    u64::from(spec.shape.block_size).max(1)
}

/// Tokens of whole blocks, at least one, as near to `tokens` as can be.
pub fn whole(tokens: u64, block: u64) -> u64 {
    (tokens.saturating_add(block / 2) / block).max(1).saturating_mul(block)
}

pub(super) fn set_ending(node: &mut NodeSpec, ending: u32) {
    let plain = u32::from(node.children.is_empty());
    node.requests = (ending != plain).then_some(ending);
}

/// A node that lost its last child ends with a request of its own: a node without any cannot be.
fn end_somewhere(node: &mut NodeSpec) {
    if node.children.is_empty() && node.ending() == 0 {
        node.requests = None;
    }
}

/// Makes a node fit to have children: whole blocks, with a note where it was not.
fn share(node: &mut NodeSpec, block: u64, note: &mut Option<String>) {
    if !node.tokens.is_multiple_of(block) {
        let (before, after) = (Tokens(node.tokens), Tokens(node.tokens.next_multiple_of(block)));
        *note =
            Some(format!("only whole blocks of {block} can be shared: the node grows from {before} to {after} tokens"));
        node.tokens = after.0;
    }
}

pub(super) fn add(
    drawn: &mut Drawn,
    under: Option<&Path>,
    tokens: u64,
    (width, copies): (u32, bool),
) -> Result<(), String> {
    let (block, width) = (block(&drawn.spec), width.max(1));
    let mut node = NodeSpec::leaf(whole(tokens, block));
    if copies {
        node.repeat = width;
    } else {
        set_ending(&mut node, width);
    }
    let ended = under.and_then(|path| path.node(&drawn.spec)).map_or(0, NodeSpec::ending);
    put(drawn, under, node)?;
    if let Some(parent) = under.and_then(|path| path.node_mut(&mut drawn.spec)) {
        set_ending(parent, ended.saturating_sub(width));
    }
    Ok(())
}

/// Puts a subtree under a node or at the top.
pub(super) fn put(drawn: &mut Drawn, under: Option<&Path>, node: NodeSpec) -> Result<(), String> {
    let block = block(&drawn.spec);
    let path = match under {
        None => {
            drawn.spec.roots.push(node);
            Path::root(drawn.spec.roots.len() - 1)
        }
        Some(path) => {
            let parent = path.node_mut(&mut drawn.spec).ok_or(GONE)?;
            let ended = parent.ending();
            share(parent, block, &mut drawn.note);
            parent.children.push(node);
            set_ending(parent, ended);
            path.child(parent.children.len() - 1)
        }
    };
    drawn.picked.push(Pick::Node(path));
    Ok(())
}

pub(super) fn set(
    drawn: &mut Drawn,
    path: &Path,
    tokens: Option<u64>,
    copies: Option<u32>,
    requests: Option<u32>,
) -> Result<(), String> {
    let block = block(&drawn.spec);
    let node = path.node_mut(&mut drawn.spec).ok_or(GONE)?;
    if let Some(asked) = tokens {
        node.tokens = if node.children.is_empty() { asked.max(1) } else { whole(asked, block) };
        if node.tokens != asked {
            let (asked, made) = (Tokens(asked), Tokens(node.tokens));
            drawn.note = Some(if node.children.is_empty() {
                "a node has at least 1 token".to_owned()
            } else {
                format!("{asked} tokens cannot be shared, only whole blocks of {block}: {made}")
            });
        }
    }
    if let Some(copies) = copies {
        node.repeat = copies.max(1);
    }
    if let Some(ending) = requests {
        if ending == 0 && node.children.is_empty() {
            drawn.note = Some("a node without children has at least 1 request".to_owned());
        }
        set_ending(node, ending.max(u32::from(node.children.is_empty())));
    }
    drawn.picked = vec![Pick::Node(path.clone())];
    Ok(())
}

/// The topmost of the nodes, in order: what stands below another of them goes with it.
fn topmost(what: &[Path]) -> Vec<Path> {
    let mut sorted = what.to_vec();
    sorted.sort();
    sorted.dedup();
    let mut kept: Vec<Path> = Vec::new();
    for path in sorted {
        if !kept.last().is_some_and(|above| above.holds(&path)) {
            kept.push(path);
        }
    }
    kept
}

fn take_out(spec: &mut BatchSpec, path: &Path) -> Result<NodeSpec, String> {
    let siblings = path.siblings(spec).filter(|list| path.last() < list.len()).ok_or(GONE)?;
    let node = siblings.remove(path.last());
    if let Some(parent) = path.parent().and_then(|path| path.node_mut(spec)) {
        end_somewhere(parent);
    }
    Ok(node)
}

pub(super) fn relocate(drawn: &mut Drawn, what: &[Path], under: Option<&Path>, copy: bool) -> Result<(), String> {
    let what = topmost(what);
    let mut target = under.cloned();
    if !copy && target.as_ref().is_some_and(|target| what.iter().any(|path| path.holds(target))) {
        return Err("a node cannot stand under itself or under what is below it".to_owned());
    }
    let mut moved = Vec::new();
    // From the last to the first, so that the paths of those before stay right.
    for path in what.iter().rev() {
        if copy {
            moved.push(path.node(&drawn.spec).ok_or(GONE)?.clone());
        } else {
            moved.push(take_out(&mut drawn.spec, path)?);
            target = target.map(|target| target.without(path));
        }
    }
    moved.into_iter().rev().try_for_each(|node| put(drawn, target.as_ref(), node))
}

pub(super) fn split(drawn: &mut Drawn, path: &Path, at: u64) -> Result<(), String> {
    let block = block(&drawn.spec);
    let node = path.node_mut(&mut drawn.spec).ok_or(GONE)?;
    if node.tokens <= block {
        return Err(format!(
            "a node of {} tokens has no place to split: only whole blocks of {block} can be shared",
            node.tokens
        ));
    }
    let most = (node.tokens - 1) / block * block;
    let upper = whole(at, block).min(most);
    let lower = NodeSpec {
        tokens: node.tokens - upper,
        repeat: 1,
        requests: node.requests,
        children: std::mem::take(&mut node.children),
    };
    (node.tokens, node.requests, node.children) = (upper, None, vec![lower]);
    drawn.picked = vec![Pick::Node(path.child(0))];
    Ok(())
}

pub(super) fn join(drawn: &mut Drawn, what: &[Path]) -> Result<(), String> {
    let mut what = what.to_vec();
    what.sort();
    what.dedup();
    match what.as_slice() {
        [] => Err("pick the nodes to join".to_owned()),
        [above, below] if below.parent().as_ref() == Some(above) => join_with_child(drawn, above),
        [one] if one.node(&drawn.spec).is_some_and(|node| node.repeat == 1) => join_with_child(drawn, one),
        many if many.iter().all(|path| path.parent() == many[0].parent()) => join_siblings(drawn, many),
        _ => Err("only neighbours with one parent can be joined".to_owned()),
    }
}

/// The other way round of a split.
fn join_with_child(drawn: &mut Drawn, path: &Path) -> Result<(), String> {
    let node = path.node_mut(&mut drawn.spec).ok_or(GONE)?;
    let only = matches!(node.children.as_slice(), [child] if child.repeat == 1) && node.ending() == 0;
    let Some(child) = node.children.pop_if(|_| only) else {
        return Err("a node is joined with its child where it has one, which stands once, and no request ends between"
            .to_owned());
    };
    node.tokens = node.tokens.saturating_add(child.tokens);
    (node.requests, node.children) = (child.requests, child.children);
    drawn.picked = vec![Pick::Node(path.clone())];
    Ok(())
}

/// All copies of the siblings share the tokens of the shortest, in whole blocks; what is left of longer ones stands below.
fn join_siblings(drawn: &mut Drawn, what: &[Path]) -> Result<(), String> {
    let block = block(&drawn.spec);
    let mut parts = Vec::new();
    for path in what.iter().rev() {
        parts.push(take_out(&mut drawn.spec, path)?);
    }
    parts.reverse();
    let shortest = parts.iter().map(|part| part.tokens).min().unwrap_or(0);
    let same = parts.iter().all(|part| part.tokens == shortest && part.children.is_empty());
    let shared = if same { shortest } else { shortest / block * block };
    if shared == 0 {
        return Err(format!("the shortest has {shortest} tokens, and only whole blocks of {block} can be shared"));
    }
    let mut joined = NodeSpec { tokens: shared, repeat: 1, requests: None, children: Vec::new() };
    let mut ending = 0_u32;
    for part in parts {
        if part.tokens > shared {
            joined.children.push(NodeSpec { tokens: part.tokens - shared, ..part });
            continue;
        }
        ending = ending.saturating_add(part.ending().saturating_mul(part.repeat));
        let copies = part.repeat;
        joined.children.extend(part.children.into_iter().map(|mut child| {
            child.repeat = child.repeat.saturating_mul(copies);
            child
        }));
    }
    set_ending(&mut joined, ending);
    let siblings = what[0].siblings(&mut drawn.spec).ok_or(GONE)?;
    siblings.insert(what[0].last().min(siblings.len()), joined);
    drawn.picked = vec![Pick::Node(what[0].clone())];
    Ok(())
}

fn paths(what: &[Pick]) -> Vec<Path> {
    what.iter().filter_map(|pick| pick.path().cloned()).collect()
}

fn listed(what: &[Pick]) -> Vec<usize> {
    let mut listed: Vec<usize> =
        what.iter().filter_map(|pick| if let Pick::Request(at) = pick { Some(*at) } else { None }).collect();
    listed.sort_unstable();
    listed.dedup();
    listed
}

pub(super) fn remove(drawn: &mut Drawn, what: &[Pick]) -> Result<(), String> {
    for path in topmost(&paths(what)).iter().rev() {
        take_out(&mut drawn.spec, path)?;
    }
    for at in listed(what).into_iter().rev().filter(|at| *at < drawn.spec.requests.len()).collect::<Vec<_>>() {
        drawn.spec.requests.remove(at);
    }
    Ok(())
}

pub(super) fn duplicate(drawn: &mut Drawn, what: &[Pick]) -> Result<(), String> {
    for path in topmost(&paths(what)).iter().rev() {
        let node = path.node(&drawn.spec).ok_or(GONE)?.clone();
        let siblings = path.siblings(&mut drawn.spec).ok_or(GONE)?;
        siblings.insert(path.last() + 1, node);
        drawn.picked = vec![Pick::Node(path.sibling(path.last() + 1))];
    }
    for at in listed(what).into_iter().rev() {
        let request = drawn.spec.requests.get(at).ok_or(GONE)?.clone();
        drawn.spec.requests.insert(at + 1, request);
        drawn.picked = vec![Pick::Request(at + 1)];
    }
    Ok(())
}

pub(super) fn group(drawn: &mut Drawn, what: &[Path]) -> Result<(), String> {
    let what = topmost(what);
    let Some(first) = what.first().cloned() else { return Err("pick the nodes to group".to_owned()) };
    if what.iter().any(|path| path.parent() != first.parent()) {
        return Err("only nodes with one parent can get a common prefix".to_owned());
    }
    let tokens = block(&drawn.spec) * GROUP_BLOCKS;
    let mut parts = Vec::new();
    for path in what.iter().rev() {
        let siblings = path.siblings(&mut drawn.spec).filter(|list| path.last() < list.len()).ok_or(GONE)?;
        parts.push(siblings.remove(path.last()));
    }
    parts.reverse();
    let made = NodeSpec { children: parts, ..NodeSpec::leaf(tokens) };
    let siblings = first.siblings(&mut drawn.spec).ok_or(GONE)?;
    siblings.insert(first.last().min(siblings.len()), made);
    drawn.picked = vec![Pick::Node(first)];
    Ok(())
}

pub(super) fn part(drawn: &mut Drawn, path: &Path, copy: u32) -> Result<(), String> {
    let node = path.node(&drawn.spec).ok_or(GONE)?.clone();
    if node.repeat < 2 {
        return Err("the node stands once: there is no copy to part".to_owned());
    }
    let copy = copy.min(node.repeat - 1);
    let runs = [(copy, false), (1, true), (node.repeat - 1 - copy, false)];
    let siblings = path.siblings(&mut drawn.spec).ok_or(GONE)?;
    siblings.remove(path.last());
    let runs = runs.into_iter().filter(|(repeat, _)| *repeat > 0);
    for (at, (repeat, is_it)) in (path.last()..).zip(runs) {
        siblings.insert(at, NodeSpec { repeat, ..node.clone() });
        if is_it {
            drawn.picked = vec![Pick::Node(path.sibling(at))];
        }
    }
    Ok(())
}
