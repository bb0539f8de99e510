//! A pack a node: PAT-naive of the paper's ablation (section 8.5), and `naive_schedule` of the code.

use crate::decision::{Choice, Considered, Decision, Subject};
use crate::error::Result;
use crate::pack::cut::Emitter;
use crate::pack::{PackInput, Packing, Scheduler, price};
use crate::units::NodeIdx;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Naive;

impl Scheduler for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn about(&self) -> &'static str {
        "One pack a tree node, never merged or split: reads each node once, but writes the most partials."
    }

    fn keeps_packs(&self) -> bool {
        true
    }

    fn pack(&self, input: &PackInput<'_>) -> Result<Packing> {
        let mut emitter = Emitter::new(input);
        for (position, node) in input.tree.nodes.iter().enumerate() {
            let at = NodeIdx::from(position);
            emitter.emit_all(at, node.blocks.start);
            if let (true, Some(parent)) = (input.explain, node.parent) {
                emitter.packing.decisions.push(explain(input, parent, at));
            }
        }
        Ok(emitter.packing)
    }
}

/// What a pack a node costs at one child, and what merging it would have.
fn explain(input: &PackInput<'_>, parent: NodeIdx, child: NodeIdx) -> Decision {
    let (tokens, queries) = (input.tree.node(parent).tokens, input.tree.node(child).query_count());
    Decision {
        subject: Subject::Node(parent),
        other: Some(child),
        choice: Choice::Sharing,
        considered: vec![
            Considered::new("split", f64::from(queries), price::partials(input, queries)),
            Considered::new("merge", 0.0, price::kv(input, tokens)),
        ],
        chosen: 0,
        unit: "more partials".into(),
        rule: "a child is always split off, whatever it costs (PAT-naive)".into(),
        constant: None,
    }
}
