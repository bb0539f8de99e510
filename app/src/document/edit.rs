//! One change of the document. Applying it gives the change that takes it back.

use std::mem::{discriminant, replace};
use std::sync::Arc;

use engine::capture::L2State;
use engine::hw::Device;
use engine::pack::Forced;
use engine::plan::Strategy;
use engine::plan::hybrid::PodChoice;
use engine::session::PlanOptions;
use engine::tile::Tile;
use engine::workload::{AttentionShape, BatchSpec, NodeSpec, RequestSpec};

use super::Document;

/// A change of the document.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// The batch is now this.
    Batch(Arc<BatchSpec>),
    /// The batch as a hand drew it, with what the stroke is called.
    Draw(Arc<BatchSpec>, String),
    /// Other options, such as a row of the comparison has them.
    Options(Box<PlanOptions>),
    /// Another scheduler, and whether it is only where the search for the fastest begins.
    Scheduler(String, bool),
    /// Another strategy, likewise.
    Strategy(Strategy, bool),
    /// Another way of POD's kernel.
    Pod(PodChoice),
    /// Another device.
    Device(Box<Device>),
    /// One tile for all packs, or the rule.
    Tile(Option<Tile>),
    /// Constant of `pat`'s rule.
    SplitConstant(f64),
    /// Choices against the rules.
    Forced(Vec<Forced>),
    /// State of L2 at the start of a run.
    L2(L2State),
    /// Another document, as opening a file brings one.
    Whole(Box<Document>),
}

impl Edit {
    /// Makes the change; gives the one that takes it back.
    #[must_use]
    pub fn apply(self, document: &mut Document) -> Self {
        let options = &mut document.options;
        match self {
            Self::Batch(spec) => Self::Batch(replace(&mut document.spec, spec)),
            Self::Draw(spec, name) => Self::Draw(replace(&mut document.spec, spec), name),
            Self::Options(all) => Self::Options(Box::new(replace(options, *all))),
            Self::Scheduler(name, auto) => {
                Self::Scheduler(replace(&mut options.scheduler, name), replace(&mut options.auto.scheduler, auto))
            }
            Self::Strategy(strategy, auto) => {
                Self::Strategy(replace(&mut options.strategy, strategy), replace(&mut options.auto.strategy, auto))
            }
            Self::Pod(choice) => Self::Pod(replace(&mut options.pod, choice)),
            Self::Device(device) => Self::Device(Box::new(replace(&mut options.device, *device))),
            Self::Tile(tile) => Self::Tile(replace(&mut options.tile, tile)),
            Self::SplitConstant(value) => Self::SplitConstant(replace(&mut options.pack.split_constant, value)),
            Self::Forced(all) => Self::Forced(replace(&mut options.pack.forced, all)),
            Self::L2(state) => Self::L2(replace(&mut document.l2, state)),
            Self::Whole(other) => Self::Whole(Box::new(replace(document, *other))),
        }
    }

    /// Whether both change the same part of the document.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        discriminant(self) == discriminant(other)
    }

    /// Whether the document has this already.
    pub fn changes_nothing(&self, document: &Document) -> bool {
        let options = &document.options;
        match self {
            Self::Batch(spec) | Self::Draw(spec, _) => *spec == document.spec,
            Self::Options(all) => **all == *options,
            Self::Scheduler(name, auto) => (name, *auto) == (&options.scheduler, options.auto.scheduler),
            Self::Strategy(strategy, auto) => (*strategy, *auto) == (options.strategy, options.auto.strategy),
            Self::Pod(choice) => *choice == options.pod,
            Self::Device(device) => **device == options.device,
            Self::Tile(tile) => *tile == options.tile,
            // By its bits, so that what comes back is what was there.
            Self::SplitConstant(value) => value.to_bits() == options.pack.split_constant.to_bits(),
            Self::Forced(all) => *all == options.pack.forced,
            Self::L2(state) => *state == document.l2,
            Self::Whole(other) => **other == *document,
        }
    }

    /// What it does to `before`, as it stands behind "Undo".
    pub fn name(&self, before: &Document) -> String {
        match self {
            Self::Batch(spec) => of_batch(&before.spec, spec),
            Self::Draw(_, name) => name.clone(),
            Self::Options(all) => {
                let elsewhere = all.device.key != before.options.device.key;
                let device = if elsewhere { format!(" on {}", all.device.name) } else { String::new() };
                format!("adopt {} · {}{device}", all.scheduler, all.strategy.name())
            }
            Self::Scheduler(_, true) => "scheduler auto".to_owned(),
            Self::Scheduler(name, false) => format!("scheduler {name}"),
            Self::Strategy(_, true) => "strategy auto".to_owned(),
            Self::Strategy(strategy, false) => format!("strategy {}", strategy.name()),
            Self::Pod(choice) => format!("POD {}", choice.name()),
            Self::Device(device) => format!("device {}", device.name),
            Self::Tile(Some(tile)) => format!("tile {tile}"),
            Self::Tile(None) => "tile by rule".to_owned(),
            Self::SplitConstant(value) => format!("split constant {value:.2}"),
            Self::Forced(all) => of_forced(&before.options.pack.forced, all),
            Self::L2(state) => format!("{} L2", state.name()),
            Self::Whole(other) => format!("opening of {}", named(&other.spec)),
        }
    }
}

fn named(spec: &BatchSpec) -> &str {
    if spec.name.is_empty() { "a batch without a name" } else { &spec.name }
}

/// The choice that is new, or that the rules have again.
fn of_forced(before: &[Forced], after: &[Forced]) -> String {
    let told = |forced: &Forced| match forced {
        Forced::Sharing { child, split: true } => format!("split node {} off", child.0),
        Forced::Sharing { child, split: false } => format!("merge node {} with its parent", child.0),
        Forced::Tile { pack, tile } => format!("tile {tile} for pack {}", pack.0),
    };
    match after.iter().find(|forced| !before.contains(forced)) {
        Some(new) => told(new),
        None => match before.iter().filter(|forced| !after.contains(forced)).collect::<Vec<_>>().as_slice() {
            [one] => format!("leave to the rule: {}", told(one)),
            _ => "leave all choices to the rules".to_owned(),
        },
    }
}

/// What of a batch is another.
fn of_batch(before: &BatchSpec, after: &BatchSpec) -> String {
    let (roots, requests) = (before.roots != after.roots, before.requests != after.requests);
    let parts = [before.name != after.name, before.shape != after.shape, roots, requests];
    if parts.iter().filter(|differs| **differs).count() != 1 {
        return "change of the batch".to_owned();
    }
    match parts {
        [true, ..] => "name of the batch".to_owned(),
        [_, true, ..] => of_shape(&before.shape, &after.shape).to_owned(),
        [_, _, true, _] => of_nodes(&before.roots, &after.roots).to_owned(),
        _ => of_requests(&before.requests, &after.requests).to_owned(),
    }
}

fn of_shape(before: &AttentionShape, after: &AttentionShape) -> &'static str {
    let parts = [
        (before.query_heads != after.query_heads, "query heads"),
        (before.kv_heads != after.kv_heads, "KV heads"),
        (before.head_dim != after.head_dim, "head dimension"),
        (before.block_size != after.block_size, "block size"),
        (before.dtype != after.dtype, "dtype"),
    ];
    let mut differ = parts.iter().filter(|(differs, _)| *differs);
    match (differ.next(), differ.next()) {
        (Some((_, name)), None) => name,
        _ => "attention shape",
    }
}

fn count(nodes: &[NodeSpec]) -> usize {
    nodes.iter().map(|node| 1 + count(&node.children)).sum()
}

fn of_nodes(before: &[NodeSpec], after: &[NodeSpec]) -> &'static str {
    match count(after).cmp(&count(before)) {
        std::cmp::Ordering::Greater => "new tree node",
        std::cmp::Ordering::Less => "removal of a tree node",
        std::cmp::Ordering::Equal => of_one_node(before, after).unwrap_or("change of the prefix tree"),
    }
}

/// What is another at the first node that differs; none where nodes lie elsewhere.
fn of_one_node(before: &[NodeSpec], after: &[NodeSpec]) -> Option<&'static str> {
    let (old, new) = before.iter().zip(after).find(|(old, new)| old != new)?;
    if old.children.len() != new.children.len() {
        return None;
    }
    match (old.tokens != new.tokens, old.repeat != new.repeat, old.requests != new.requests) {
        (true, false, false) => Some("tokens of a node"),
        (false, true, false) => Some("copies of a node"),
        (false, false, true) => Some("requests that end at a node"),
        (false, false, false) => of_one_node(&old.children, &new.children),
        _ => None,
    }
}

fn of_requests(before: &[RequestSpec], after: &[RequestSpec]) -> &'static str {
    match after.len().cmp(&before.len()) {
        std::cmp::Ordering::Greater => "new request",
        std::cmp::Ordering::Less => "removal of a request",
        std::cmp::Ordering::Equal => "change of a request",
    }
}
