//! A pack a node: PAT-naive of the paper's ablation (section 8.5), and `naive_schedule` of the code.

use crate::error::Result;
use crate::pack::cut::Emitter;
use crate::pack::{PackInput, Packing, Scheduler};
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

    fn pack(&self, input: &PackInput<'_>) -> Result<Packing> {
        let mut emitter = Emitter::new(input);
        for (position, node) in input.tree.nodes.iter().enumerate() {
            emitter.emit_all(NodeIdx::from(position), node.blocks.start);
        }
        Ok(emitter.packing)
    }
}
