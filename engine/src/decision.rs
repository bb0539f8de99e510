//! Why a plan looks as it does: one record per choice, the same for every scheduler.
//!
//! A record says what was considered, what each way costs by the rule that chose and in bytes or
//! time by the model here, the rule with its constant, and the value of the constant at which the
//! choice flips. The sentence for a person is made only when somebody asks; planning without
//! explanation makes no record at all.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::units::{Bytes, Nanos, NodeIdx, PackIdx};

/// What a choice was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A node of the prefix tree.
    Node(NodeIdx),
    /// A pack.
    Pack(PackIdx),
    /// A launch, by its place in the plan.
    Launch(u32),
    /// The plan as a whole.
    Plan,
}

/// What kind of choice it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Choice {
    /// Which queries read which KV together.
    Sharing,
    /// Into how many pieces KV is cut.
    Split,
    /// The tile of a pack.
    Tile,
    /// How and in which order CTAs reach the GPU.
    Launch,
    /// What runs beside what.
    Fusion,
}

impl Choice {
    /// Name in lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sharing => "sharing",
            Self::Split => "KV split",
            Self::Tile => "tile",
            Self::Launch => "launch",
            Self::Fusion => "fusion",
        }
    }
}

/// What a way costs by the model here, whatever the unit of the rule that chose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Price {
    /// Bytes that it moves.
    Bytes(f64),
    /// Time that it takes, ns.
    Time(f64),
}

impl std::fmt::Display for Price {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::Bytes(bytes) => write!(f, "{}", Bytes(bytes.max(0.0).round() as u64)),
            Self::Time(time) => write!(f, "{}", Nanos(time.max(0.0).round() as u64)),
        }
    }
}

/// One way that was considered, with its costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Considered {
    /// The way, in a word or two: `merge`, `split`, `64×128`.
    pub what: Cow<'static, str>,
    /// Its cost by the rule, in `Decision::unit`.
    pub cost: f64,
    /// Its cost in bytes or time.
    pub price: Price,
}

impl Considered {
    /// A way with its cost by the rule and in bytes or time.
    pub fn new(what: impl Into<Cow<'static, str>>, cost: f64, price: Price) -> Self {
        Self { what: what.into(), cost, price }
    }
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

impl std::fmt::Display for RuleConstant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} = {}", self.name, short(self.value))?;
        self.flips_at.map_or(Ok(()), |flip| write!(f, ", flips at {}", short(flip)))
    }
}

/// One choice: what was weighed, what each would cost, the rule that chose.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What the choice was about.
    pub subject: Subject,
    /// The other party, where two are joined or parted (the child of a merge).
    pub other: Option<NodeIdx>,
    /// What kind of choice it was.
    pub choice: Choice,
    /// The ways considered, one or more.
    pub considered: Vec<Considered>,
    /// Position of the way that was taken.
    pub chosen: usize,
    /// Unit of the rule's costs: `KV token loads`, `waves`, `padded rows`.
    pub unit: &'static str,
    /// The rule in one sentence, with its source.
    pub rule: Cow<'static, str>,
    /// The constant in the rule, if it has one.
    pub constant: Option<RuleConstant>,
}

impl Decision {
    /// The way that was taken.
    pub fn taken(&self) -> Option<&Considered> {
        self.considered.get(self.chosen)
    }

    /// The ways that were left, in the order in which they were considered.
    pub fn left(&self) -> impl Iterator<Item = &Considered> {
        self.considered.iter().enumerate().filter(|(at, _)| *at != self.chosen).map(|(_, way)| way)
    }

    /// What it was about, in a few words.
    pub fn title(&self) -> String {
        let subject = match self.subject {
            Subject::Node(node) => format!("node {}", node.0),
            Subject::Pack(pack) => format!("pack {}", pack.0),
            Subject::Launch(launch) => format!("launch {launch}"),
            Subject::Plan => "plan".to_owned(),
        };
        self.other.map_or(subject.clone(), |node| format!("{subject} with node {}", node.0))
    }

    /// What a way costs by the rule that chose, with its unit.
    pub fn rule_cost(&self, way: &Considered) -> String {
        format!("{} {}", short(way.cost), self.unit)
    }

    /// The whole record as one line for a person.
    pub fn sentence(&self) -> String {
        let told = |way: &Considered| format!("{} ({}; {})", way.what, way.price, self.rule_cost(way));
        let mut line = format!("{}: {}", self.title(), self.taken().map_or_else(|| "nothing".to_owned(), told));
        let left: Vec<String> = self.left().map(told).collect();
        if !left.is_empty() {
            let _ = write!(line, " rather than {}", left.join(" or "));
        }
        // Writing to a string cannot fail.
        let _ = write!(line, ", because {}", self.rule);
        if let Some(constant) = self.constant {
            let _ = write!(line, "; {constant}");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_as_one_sentence_with_every_way_and_the_flip() {
        let way = |what: &'static str, cost| Considered::new(what, cost, Price::Bytes(cost * 4096.0));
        let decision = Decision {
            subject: Subject::Node(NodeIdx(3)),
            other: Some(NodeIdx(5)),
            choice: Choice::Sharing,
            considered: vec![way("split", 40.0), way("merge", 256.0), way("copy", 2.5)],
            chosen: 0,
            unit: "KV token loads",
            rule: Cow::Borrowed("it is so"),
            constant: Some(RuleConstant { name: "split_constant", value: 4.0, flips_at: Some(25.6) }),
        };
        assert_eq!(
            decision.sentence(),
            "node 3 with node 5: split (160.0 KiB; 40 KV token loads) rather than merge (1.0 MiB; 256 KV token loads) \
             or copy (10.0 KiB; 2.50 KV token loads), because it is so; split_constant = 4, flips at 25.60"
        );
    }
}
