//! What all views show of a moment of playback.

use std::sync::Arc;

use engine::decision::Subject;
use engine::units::{NodeIdx, PackIdx};

use super::run::Run;
use super::shown::Shown;
use crate::timeline::playback::{Doing, Moment, slots};

/// What all views show of the moment.
#[derive(Clone, Debug)]
pub struct Now {
    /// The moment.
    pub at: Moment,
    /// What each slot does, in the order of the lanes; empty while choices are made.
    pub slots: Vec<Doing>,
    /// For each tree node: it has been decided about, or a CTA of it runs.
    nodes: Vec<bool>,
    /// For each pack: a CTA of it runs.
    packs: Vec<bool>,
}

impl Now {
    /// Of a moment of what is shown.
    pub fn of(at: Moment, shown: &Shown, run: Option<&Arc<Run>>) -> Self {
        let plan = &shown.planned.plan;
        let mut now = Self {
            at,
            slots: Vec::new(),
            nodes: vec![false; shown.planned.tree.nodes.len()],
            packs: vec![false; plan.packs.len()],
        };
        match (at, run) {
            (Moment::Choices(made), _) => {
                for decision in plan.decisions.iter().take(made as usize) {
                    match decision.subject {
                        Subject::Node(node) => now.light(Some(node), decision.other),
                        Subject::Pack(pack) => {
                            now.light_pack(shown, pack);
                        }
                        Subject::Launch(_) | Subject::Plan => {}
                    }
                }
            }
            (Moment::Time(time), Some(run)) => {
                now.slots = slots(&run.lanes, &run.capture.spans, time);
                let packs: Vec<_> =
                    now.slots.iter().filter_map(|doing| doing.span().and_then(|(entity, _)| entity.pack())).collect();
                for pack in packs {
                    now.light_pack(shown, pack);
                }
            }
            (Moment::Time(_), None) => {}
        }
        now
    }

    /// A pack with the nodes that it reads but for those above its own.
    fn light_pack(&mut self, shown: &Shown, pack: PackIdx) {
        self.packs.get_mut(pack.at()).into_iter().for_each(|lit| *lit = true);
        self.light(shown.nodes_of_packs.get(pack.at()).copied(), None);
        for node in shown.below_packs.get(pack.at()).into_iter().flatten() {
            self.light(Some(*node), None);
        }
    }

    fn light(&mut self, one: Option<NodeIdx>, other: Option<NodeIdx>) {
        for node in one.into_iter().chain(other) {
            self.nodes.get_mut(node.at()).into_iter().for_each(|lit| *lit = true);
        }
    }

    /// Whether the moment has to do with a node.
    pub fn has_node(&self, node: NodeIdx) -> bool {
        self.nodes.get(node.at()).copied().unwrap_or(false)
    }

    /// Whether the moment has to do with a pack.
    pub fn has_pack(&self, pack: PackIdx) -> bool {
        self.packs.get(pack.at()).copied().unwrap_or(false)
    }

    /// The time, while the run is played.
    pub fn time(&self) -> Option<f64> {
        if let Moment::Time(time) = self.at { Some(time) } else { None }
    }
}
