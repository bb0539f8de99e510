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
use crate::pack::cut::{Parting, walk};
use crate::pack::splits::split_above_mean;
use crate::pack::{PackInput, Packing, Scheduler};

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
        let constant = input.options.split_constant;
        let weight = |parting: &Parting| constant * f64::from(parting.queries);
        let mut packing = walk(
            input,
            |parting| weight(parting) < parting.tokens.as_f64(),
            |parting, split| explain(parting, weight(parting), split, constant),
        );
        split_above_mean(input, &mut packing);
        Ok(packing)
    }
}

fn explain(parting: &Parting, weight: f64, split: bool, constant: f64) -> Decision {
    let tokens = parting.tokens.as_f64();
    Decision {
        subject: Subject::Node(parting.node),
        other: Some(parting.child),
        considered: [Considered { what: "split", cost: weight }, Considered { what: "merge", cost: tokens }],
        chosen: u8::from(!split),
        unit: "KV token loads",
        rule: "a child is split off when its partials cost less than re-reading the parent (PAT 5.1)",
        constant: Some(RuleConstant {
            name: "split_constant",
            value: constant,
            flips_at: Some(tokens / f64::from(parting.queries.max(1))),
        }),
    }
}
