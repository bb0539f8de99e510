//! The numbers that the nodes of a batch have in the prefix tree of its plan, before it is planned.
//!
//! The tree numbers its nodes depth first, one number a copy. A node at which no request ends, with one child that
//! stands once, is one node with that child: block tables cannot tell them apart.

use engine::units::NodeIdx;
use engine::workload::{BatchSpec, NodeSpec, RequestSpec};

use super::path::{Path, Pick};

/// What is known of a node, all the same for each of its copies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Numbered {
    /// Requests at and below one copy.
    pub requests: u64,
    /// Numbers that one copy takes, with all below it.
    pub numbers: u64,
    /// Nodes of the batch at and below it, copies not counted: where the next sibling stands in the list.
    pub nodes: usize,
    /// Square roots of the tokens from it down to the deepest node below, added up.
    pub depth: f32,
}

/// All nodes of a batch, depth first.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    /// One entry a node, parents before their children.
    pub all: Vec<Numbered>,
}

/// Whether the only child is one node with its parent.
pub fn is_one_with_child(node: &NodeSpec) -> bool {
    node.ending() == 0 && matches!(node.children.as_slice(), [only] if only.repeat == 1)
}

/// Height of a node on a canvas, before scaling: so that a short one beside a long one stays visible.
fn weight(tokens: u64) -> f32 {
    (tokens as f32).sqrt()
}

impl Numbers {
    /// Of a batch.
    pub fn of(spec: &BatchSpec) -> Self {
        let mut numbers = Self::default();
        for root in &spec.roots {
            numbers.add(root);
        }
        numbers
    }

    fn add(&mut self, node: &NodeSpec) -> Numbered {
        let at = self.all.len();
        self.all.push(Numbered::default());
        let mut sum = Numbered { requests: u64::from(node.ending()), numbers: 1, nodes: 1, depth: 0.0 };
        for child in &node.children {
            let below = self.add(child);
            let copies = u64::from(child.repeat);
            sum.requests = sum.requests.saturating_add(below.requests.saturating_mul(copies));
            sum.numbers = sum.numbers.saturating_add(below.numbers.saturating_mul(copies));
            sum.nodes += below.nodes;
            sum.depth = sum.depth.max(below.depth);
        }
        if is_one_with_child(node) {
            sum.numbers -= 1;
        }
        sum.depth += weight(node.tokens);
        self.all[at] = sum;
        sum
    }

    /// The number of the first copy of a node, where the batch has it.
    pub fn number(&self, spec: &BatchSpec, path: &Path) -> Option<NodeIdx> {
        let (mut siblings, mut at, mut number) = (&spec.roots, 0, 0_u64);
        let mut found: Option<&NodeSpec> = None;
        for step in path.steps() {
            if let Some(parent) = found {
                number += u64::from(!is_one_with_child(parent));
                at += 1;
                siblings = &parent.children;
            }
            for before in siblings.get(..*step)? {
                let own = self.all.get(at)?;
                number = number.saturating_add(own.numbers.saturating_mul(u64::from(before.repeat)));
                at += own.nodes;
            }
            found = Some(siblings.get(*step)?);
        }
        found.and_then(|_| u32::try_from(number).ok()).map(NodeIdx)
    }

    /// What has a number, and which copy of it; of several nodes that are one, the deepest.
    pub fn pick(&self, spec: &BatchSpec, number: NodeIdx) -> Option<(Pick, u32)> {
        let (mut left, mut at, mut steps) = (u64::from(number.0), 0, Vec::new());
        let mut siblings = &spec.roots;
        loop {
            let mut found = None;
            for (position, node) in siblings.iter().enumerate() {
                let own = self.all.get(at)?;
                let all = own.numbers.saturating_mul(u64::from(node.repeat));
                if left < all {
                    found = Some((position, node, left / own.numbers));
                    left %= own.numbers;
                    break;
                }
                left -= all;
                at += own.nodes;
            }
            let Some((position, node, copy)) = found else { break };
            steps.push(position);
            let deeper = is_one_with_child(node);
            if left == 0 && !deeper {
                return Some((Pick::Node(Path::of_steps(&steps)), copy as u32));
            }
            left -= u64::from(!deeper);
            at += 1;
            siblings = &node.children;
        }
        self.listed(spec, number)
    }

    /// The number of the first of the decodes at each position of the list. A prefill chunk has none, and neither has what
    /// stands at or behind listed blocks: there the tree alone knows who shares what.
    pub fn of_requests(&self, spec: &BatchSpec) -> Vec<Option<NodeIdx>> {
        let mut next = Some(self.of_roots(&spec.roots));
        let number = |request: &RequestSpec| match request {
            RequestSpec::Decode { count, .. } => {
                let own = next?;
                next = Some(own.saturating_add(u64::from(*count)));
                u32::try_from(own).ok().map(NodeIdx)
            }
            RequestSpec::Prefill { .. } => None,
            RequestSpec::Blocks { .. } => {
                next = None;
                None
            }
        };
        spec.requests.iter().map(number).collect()
    }

    fn listed(&self, spec: &BatchSpec, number: NodeIdx) -> Option<(Pick, u32)> {
        let mut left = u64::from(number.0).checked_sub(self.of_roots(&spec.roots))?;
        for (at, request) in spec.requests.iter().enumerate() {
            match request {
                RequestSpec::Decode { count, .. } if left < u64::from(*count) => {
                    return Some((Pick::Request(at), left as u32));
                }
                RequestSpec::Decode { count, .. } => left -= u64::from(*count),
                RequestSpec::Prefill { .. } => {}
                // From here on the tree alone knows who shares what.
                RequestSpec::Blocks { .. } => return None,
            }
        }
        None
    }

    /// Numbers that the trees take: the first listed decode has the one after.
    pub fn of_roots(&self, roots: &[NodeSpec]) -> u64 {
        let mut at = 0;
        roots.iter().fold(0, |sum, root| {
            let own = self.all.get(at).copied().unwrap_or_default();
            at += own.nodes;
            sum.saturating_add(own.numbers.saturating_mul(u64::from(root.repeat)))
        })
    }
}
