//! Where the parts of a batch stand that a hand can take.

use engine::workload::{BatchSpec, NodeSpec};

/// A node: its position among the roots, then among the children of each node on the way down.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(Vec<usize>);

impl Path {
    /// A root.
    pub fn root(at: usize) -> Self {
        Self(vec![at])
    }

    /// The positions from the top.
    pub fn steps(&self) -> &[usize] {
        &self.0
    }

    /// The path of the positions from the top.
    pub fn of_steps(steps: &[usize]) -> Self {
        Self(steps.to_vec())
    }

    /// Its child at a position.
    #[must_use]
    pub fn child(&self, at: usize) -> Self {
        let mut steps = self.0.clone();
        steps.push(at);
        Self(steps)
    }

    /// The node above; none above a root.
    pub fn parent(&self) -> Option<Self> {
        (self.0.len() > 1).then(|| Self(self.0[..self.0.len() - 1].to_vec()))
    }

    /// Its sibling at a position.
    #[must_use]
    pub fn sibling(&self, at: usize) -> Self {
        self.parent().map_or_else(|| Self::root(at), |parent| parent.child(at))
    }

    /// Position among its siblings.
    pub fn last(&self) -> usize {
        self.0.last().copied().unwrap_or(0)
    }

    /// Whether `other` is this node or stands below it.
    pub fn holds(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }

    /// The node, where the batch has it.
    pub fn node<'a>(&self, spec: &'a BatchSpec) -> Option<&'a NodeSpec> {
        let (first, rest) = self.0.split_first()?;
        rest.iter().try_fold(spec.roots.get(*first)?, |node, at| node.children.get(*at))
    }

    pub(super) fn node_mut<'a>(&self, spec: &'a mut BatchSpec) -> Option<&'a mut NodeSpec> {
        let (first, rest) = self.0.split_first()?;
        rest.iter().try_fold(spec.roots.get_mut(*first)?, |node, at| node.children.get_mut(*at))
    }

    /// The list that it stands in.
    pub(super) fn siblings<'a>(&self, spec: &'a mut BatchSpec) -> Option<&'a mut Vec<NodeSpec>> {
        match self.parent() {
            None => Some(&mut spec.roots),
            Some(parent) => parent.node_mut(spec).map(|node| &mut node.children),
        }
    }

    /// The path of the same node once `gone`, which it is not below, was taken out.
    #[must_use]
    pub(super) fn without(&self, gone: &Self) -> Self {
        let depth = gone.0.len() - 1;
        let mut steps = self.0.clone();
        if steps.len() > depth && steps[..depth] == gone.0[..depth] && steps[depth] > gone.0[depth] {
            steps[depth] -= 1;
        }
        Self(steps)
    }
}

/// What a hand can take.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pick {
    /// A node of a prefix tree.
    Node(Path),
    /// A listed request, by its position: decodes that share nothing, or a prefill chunk.
    Request(usize),
}

impl Pick {
    /// Whether the batch has it.
    pub fn is_in(&self, spec: &BatchSpec) -> bool {
        match self {
            Self::Node(path) => path.node(spec).is_some(),
            Self::Request(at) => *at < spec.requests.len(),
        }
    }

    /// The path, where it is a node.
    pub fn path(&self) -> Option<&Path> {
        if let Self::Node(path) = self { Some(path) } else { None }
    }
}
