//! Why a plan looks as it does: one record per choice, the same for every scheduler.
//!
//! A record is plain data with fixed size, because a plan of ten thousand packs writes as many of
//! them inside the planning time; the sentence for a person is made only when somebody asks.

use std::fmt::Write as _;

use crate::units::{NodeIdx, PackIdx};

/// What a choice was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A node of the prefix tree.
    Node(NodeIdx),
    /// A pack.
    Pack(PackIdx),
    /// The plan as a whole.
    Plan,
}

/// One way that was considered, with its price.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Considered {
    /// The way, in a word or two: `merge`, `split`, `64×128`.
    pub what: &'static str,
    /// Its cost, in `Decision::unit`; lower is better.
    pub cost: f64,
}

/// A number that a rule compares with, and where its value would turn the choice around.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RuleConstant {
    /// Its name, as in the options.
    pub name: &'static str,
    /// The value that was used.
    pub value: f64,
    /// The choice flips when the constant passes this value; `None` where no value flips it.
    pub flips_at: Option<f64>,
}

/// One choice: what was weighed, what each would cost, the rule that chose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// What the choice was about.
    pub subject: Subject,
    /// The other party, where two are joined or parted (the child of a merge).
    pub other: Option<NodeIdx>,
    /// The ways considered.
    pub considered: [Considered; 2],
    /// Which of them was taken: 0 or 1.
    pub chosen: u8,
    /// Unit of the costs: `KV tokens`, `blocks`, `rows`.
    pub unit: &'static str,
    /// The rule in one sentence, with its source.
    pub rule: &'static str,
    /// The constant in the rule, if it has one.
    pub constant: Option<RuleConstant>,
}

impl Decision {
    /// The way that was taken.
    pub fn taken(&self) -> Considered {
        self.considered[usize::from(self.chosen.min(1))]
    }

    /// The way that was left.
    pub fn left(&self) -> Considered {
        self.considered[usize::from(self.chosen == 0)]
    }

    /// The whole record as one line for a person.
    pub fn sentence(&self) -> String {
        let subject = match self.subject {
            Subject::Node(node) => format!("node {}", node.0),
            Subject::Pack(pack) => format!("pack {}", pack.0),
            Subject::Plan => "plan".to_owned(),
        };
        let other = self.other.map_or_else(String::new, |node| format!(" with node {}", node.0));
        let (taken, left) = (self.taken(), self.left());
        let mut line = format!(
            "{subject}{other}: {} ({} {unit}) rather than {} ({} {unit}), because {}",
            taken.what,
            short(taken.cost),
            left.what,
            short(left.cost),
            self.rule,
            unit = self.unit,
        );
        if let Some(constant) = self.constant {
            let _ = write!(line, "; {} = {}", constant.name, short(constant.value));
            if let Some(flip) = constant.flips_at {
                let _ = write!(line, ", flips at {}", short(flip));
            }
        }
        line
    }
}

/// Whole numbers without a fraction, others with two places.
fn short(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// Where schedulers and selectors leave their decisions. Recording can be off, so that a caller
/// who wants only the plan does not pay for the log.
#[derive(Clone, Debug, Default)]
pub struct DecisionLog {
    /// The records, in the order in which the choices were made.
    pub records: Vec<Decision>,
}

impl DecisionLog {
    /// Adds one record.
    pub fn push(&mut self, decision: Decision) {
        self.records.push(decision);
    }
}
