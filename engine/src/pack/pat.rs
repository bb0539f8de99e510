//! PAT's pack scheduler as its paper gives it (section 5.1), with the long-KV split of section 6.
//!
//! ```text
//! pack(u, blocks):
//!     each child c:   4·s_c < len(blocks)  → split:  pack(c, blocks of c)
//!                     otherwise            → merge:  pack(c, blocks + blocks of c), c leaves u
//!     queries left at u: one pack over `blocks`
//! ```
//!
//! Why 4: merging a child re-reads the parent's `l` tokens once more; splitting it off costs each of
//! its `s_c` queries one more fp32 partial, written and read, which weighs four token loads. Worked
//! number: a child of 10 queries under 256 tokens, 4·10 = 40 < 256, is split; under 32 tokens it is
//! merged. With exact bytes the break-even is about `2.5·g·s_c`; the constant is open to the user.

use crate::decision::{Considered, Decision, RuleConstant, Subject};
use crate::error::Result;
use crate::pack::cut::Emitter;
use crate::pack::splits::split_above_mean;
use crate::pack::{PackInput, Packing, Scheduler};
use crate::units::{NodeIdx, Tokens};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pat;

impl Scheduler for Pat {
    fn name(&self) -> &'static str {
        "pat"
    }

    fn about(&self) -> &'static str {
        "PAT's tree heuristic as in the paper: merge a child where re-reading its parent is cheaper than one more partial; long KV is split at the mean."
    }

    fn pack(&self, input: &PackInput<'_>) -> Result<Packing> {
        let mut emitter = Emitter::new(input);
        // (node, first block of what it inherits); children wait behind their parent.
        let mut stack: Vec<(NodeIdx, u32)> =
            input.tree.roots.iter().rev().map(|root| (*root, input.tree.node(*root).blocks.start)).collect();
        let mut merged = Vec::new();
        while let Some((node, blocks_begin)) = stack.pop() {
            visit(input, &mut emitter, node, blocks_begin, &mut stack, &mut merged);
        }
        let mut packing = emitter.packing;
        split_above_mean(input, &mut packing);
        Ok(packing)
    }
}

fn visit(
    input: &PackInput<'_>,
    emitter: &mut Emitter<'_>,
    node: NodeIdx,
    blocks_begin: u32,
    stack: &mut Vec<(NodeIdx, u32)>,
    merged: &mut Vec<(NodeIdx, u32)>,
) {
    let tree = input.tree;
    let tokens = emitter.tokens_from(node, blocks_begin);
    let first = emitter.packing.queries.len();
    let own = tree.node(node);
    emitter.add(&tree.queries(node)[..own.ending as usize]);
    merged.clear();
    let split_from = stack.len();
    for child in tree.children(node) {
        let weight = input.options.split_constant * f64::from(tree.node(*child).query_count());
        let split = weight < tokens.as_f64();
        if input.explain {
            let decision = explain(node, *child, weight, tokens, split, input.options.split_constant);
            emitter.packing.decisions.push(decision);
        }
        if split {
            emitter.add(tree.queries(*child));
            stack.push((*child, tree.node(*child).blocks.start));
        } else {
            merged.push((*child, blocks_begin));
        }
    }
    emitter.emit(node, blocks_begin, first);
    // Split children come first, in order; so they go on the stack last, reversed.
    stack[split_from..].reverse();
    let at = split_from;
    stack.splice(at..at, merged.drain(..).rev());
}

fn explain(node: NodeIdx, child: NodeIdx, weight: f64, tokens: Tokens, split: bool, constant: f64) -> Decision {
    let queries = weight / constant.max(f64::MIN_POSITIVE);
    Decision {
        subject: Subject::Node(node),
        other: Some(child),
        considered: [Considered { what: "split", cost: weight }, Considered { what: "merge", cost: tokens.as_f64() }],
        chosen: u8::from(!split),
        unit: "KV token loads",
        rule: "a child is split off when its partials cost less than re-reading the parent (PAT 5.1)",
        constant: Some(RuleConstant {
            name: "split_constant",
            value: constant,
            flips_at: (queries > 0.0).then(|| tokens.as_f64() / queries),
        }),
    }
}
