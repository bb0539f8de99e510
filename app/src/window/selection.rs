//! The one selection that all views share, and the chain node → pack → CTA that links it.

use engine::capture::Capture;
use engine::units::{NodeIdx, PackIdx};
use engine::workload::PrefixTree;

use super::lanes::{Lanes, NO_PACK};

/// What is selected or hovered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// Nothing.
    #[default]
    None,
    /// A node of the prefix tree.
    Node(NodeIdx),
    /// A pack.
    Pack(PackIdx),
    /// A span of the capture: a CTA on its SM.
    Cta(usize),
}

/// What a selection lights up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lit {
    /// What is lit.
    pub what: Selection,
    /// The pack behind it, if it is one or a CTA of one.
    pub pack: Option<PackIdx>,
    /// The tree node behind it.
    pub node: Option<NodeIdx>,
}

impl Lit {
    /// Follows a selection up the chain.
    pub fn of(what: Selection, capture: Option<&Capture>, lanes: &Lanes, nodes_of_packs: &[NodeIdx]) -> Self {
        let pack = match what {
            Selection::Pack(pack) => Some(pack),
            Selection::Cta(span) if capture.is_some() => {
                lanes.pack_of.get(span).filter(|pack| **pack != NO_PACK).map(|pack| PackIdx(*pack))
            }
            _ => None,
        };
        let node = match what {
            Selection::Node(node) => Some(node),
            _ => pack.and_then(|pack| nodes_of_packs.get(pack.at()).copied()),
        };
        Self { what, pack, node }
    }

    /// Whether anything is lit.
    pub fn is_some(&self) -> bool {
        self.what != Selection::None
    }

    /// Whether a pack is lit: itself, or through its node.
    pub fn has_pack(&self, pack: PackIdx, node_of_pack: NodeIdx) -> bool {
        match self.pack {
            Some(lit) => lit == pack,
            None => self.node == Some(node_of_pack),
        }
    }

    /// Whether a node is lit.
    pub fn has_node(&self, node: NodeIdx) -> bool {
        self.node == Some(node)
    }
}

/// Name of a selection for people.
pub fn describe(what: Selection, tree: &PrefixTree, capture: Option<&Capture>) -> String {
    match what {
        Selection::None => "nothing selected".to_owned(),
        Selection::Node(node) => match tree.nodes.get(node.at()) {
            Some(found) => format!("node {} · {} tokens · {} requests", node.0, found.tokens, found.query_count()),
            None => format!("node {}", node.0),
        },
        Selection::Pack(pack) => format!("pack {}", pack.0),
        Selection::Cta(span) => match capture.filter(|capture| span < capture.spans.len()) {
            Some(capture) => {
                let span = capture.spans.get(span);
                format!("CTA {} of launch {} on SM {}", span.cta, span.launch, span.sm)
            }
            None => "CTA".to_owned(),
        },
    }
}
