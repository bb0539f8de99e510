//! The one selection that all views share, and the chain node → pack → CTA that links it.

use engine::capture::Source;
use engine::metrics::Twin;
use engine::units::{NodeIdx, PackIdx};
use serde::{Deserialize, Serialize};

use crate::runs::shown::Shown;

/// What is selected or hovered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Selection {
    /// Nothing.
    #[default]
    None,
    /// A node of the prefix tree.
    Node(NodeIdx),
    /// A pack.
    Pack(PackIdx),
    /// A span of a run: a CTA on its SM.
    Cta(Source, usize),
    /// A bubble of a run: an idle stretch of one lane.
    Gap(Source, usize),
}

impl Selection {
    /// Whether what is shown has it.
    pub fn is_in(self, shown: &Shown) -> bool {
        match self {
            Self::None => true,
            Self::Node(node) => node.at() < shown.planned.tree.nodes.len(),
            Self::Pack(pack) => pack.at() < shown.nodes_of_packs.len(),
            Self::Cta(source, at) => shown.run(source).is_some_and(|run| at < run.capture.spans.len()),
            Self::Gap(source, at) => shown.run(source).is_some_and(|run| at < run.gaps.len()),
        }
    }
}

/// What a selection lights up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lit {
    /// What is lit.
    pub what: Selection,
    /// The same CTA in the run of the other source.
    pub twin: Option<Twin>,
    /// The pack behind it, if it is one or a CTA of one.
    pub pack: Option<PackIdx>,
    /// The tree node behind it.
    pub node: Option<NodeIdx>,
}

impl Lit {
    /// Follows a selection up the chain.
    pub fn of(what: Selection, shown: &Shown) -> Self {
        let pack = match what {
            Selection::Pack(pack) => Some(pack),
            Selection::Cta(source, span) => {
                shown.run(source).and_then(|run| run.lanes.entities.get(span)).and_then(|entity| entity.pack())
            }
            _ => None,
        };
        let node = match what {
            Selection::Node(node) => Some(node),
            _ => pack.and_then(|pack| shown.nodes_of_packs.get(pack.at()).copied()),
        };
        let twin = match what {
            Selection::Cta(source, span) => shown.twin(source, span).copied(),
            _ => None,
        };
        Self { what, twin, pack, node }
    }

    /// The span that is lit in the run of `source`: the selected one, or the same CTA.
    pub fn span_in(&self, source: Source) -> Option<usize> {
        match (self.what, self.twin) {
            (Selection::Cta(of, span), _) if of == source => Some(span),
            (_, Some(twin)) if source == Source::Measured => Some(twin.measured),
            (_, Some(twin)) => Some(twin.simulated),
            _ => None,
        }
    }

    /// Whether anything is lit.
    pub fn is_some(&self) -> bool {
        self.what != Selection::None
    }

    /// Whether what is not lit is drawn back: a bubble lights nothing of the plan, so all of it stays as it is.
    pub fn draws_others_back(&self) -> bool {
        !matches!(self.what, Selection::None | Selection::Gap(..))
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
