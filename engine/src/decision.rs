//! Why a plan looks as it does: one record per choice, the same for every scheduler.
//!
//! A record says what was considered, what the rule that chose weighed of each way, a price in bytes
//! or time by the model here with the name of what it covers, the rule with its constant, and the value
//! of the constant at which the choice flips. Few prices cover a whole run: the time of one CTA, or the
//! overhead beside all CTAs, ranks ways of one choice and says nothing about makespans. The one that
//! does stands beside the run's own figure wherever there is one ([`Decision::beside`]).
//!
//! Plain data, so that a capture can keep it. The sentence for a person is made only when somebody
//! asks; planning without explanation makes no record at all.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Nanos, NodeIdx, PackIdx};

/// How the rule of a choice begins that a person took against it.
pub const BY_HAND: &str = "it was chosen by hand";

/// What a choice was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Subject {
    /// A node of the prefix tree.
    Node(NodeIdx),
    /// A pack.
    Pack(PackIdx),
    /// A launch, by its place in the plan. No scheduler decides about one now; captures tell their decisions by the
    /// place in this list, and some hold it.
    Launch(u32),
    /// The plan as a whole.
    Plan,
}

/// What kind of choice it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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

/// What a price covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Covers {
    /// Bytes that what the choice is about moves, over all heads.
    Traffic,
    /// Time of one CTA, ns: the longest of what the choice is about.
    OneCta,
    /// Time of one kernel by itself, ns.
    OneKernel,
    /// Time spent beside all CTAs: gaps, joins, taking tasks, ns.
    Overhead,
    /// Time that no run can stay below by the rates of the device, ns.
    LowerBound,
    /// Estimated time of the whole run, ns.
    Run,
}

impl Covers {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Traffic, Self::OneCta, Self::OneKernel, Self::Overhead, Self::LowerBound, Self::Run];

    /// Name in lists and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Traffic => "bytes moved",
            Self::OneCta => "one CTA",
            Self::OneKernel => "one kernel",
            Self::Overhead => "overhead only",
            Self::LowerBound => "lower bound",
            Self::Run => "estimate of the run",
        }
    }
}

/// What a way costs by the model here, whatever the unit of the rule that chose.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// What of the run it covers, which also gives its unit.
    pub covers: Covers,
    /// Bytes for [`Covers::Traffic`], ns for all others.
    pub amount: f64,
}

impl Price {
    /// A price in bytes that are moved.
    pub fn traffic(bytes: f64) -> Self {
        Self { covers: Covers::Traffic, amount: bytes }
    }

    /// Time of the longest CTA, ns.
    pub fn one_cta(time: f64) -> Self {
        Self { covers: Covers::OneCta, amount: time }
    }

    /// Time of one kernel, ns.
    pub fn one_kernel(time: f64) -> Self {
        Self { covers: Covers::OneKernel, amount: time }
    }

    /// Time beside all CTAs, ns.
    pub fn overhead(time: f64) -> Self {
        Self { covers: Covers::Overhead, amount: time }
    }

    /// Time that no run can stay below, ns.
    pub fn lower_bound(time: f64) -> Self {
        Self { covers: Covers::LowerBound, amount: time }
    }

    /// Time of the whole run, ns.
    pub fn run(time: f64) -> Self {
        Self { covers: Covers::Run, amount: time }
    }

    /// The bytes, where it covers those.
    pub fn bytes(self) -> Option<Bytes> {
        (self.covers == Covers::Traffic).then(|| Bytes(self.whole()))
    }

    /// The time, where it covers that.
    pub fn time(self) -> Option<Nanos> {
        (self.covers != Covers::Traffic).then(|| Nanos(self.whole()))
    }

    fn whole(self) -> u64 {
        self.amount.max(0.0).round() as u64
    }
}

impl std::fmt::Display for Price {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.time() {
            None => write!(f, "moves {}", Bytes(self.whole())),
            Some(time) => write!(f, "{} {time}", self.covers.name()),
        }
    }
}

/// One way that was considered, with its costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Considered {
    /// The way, in a word or two: `merge`, `split`, `64×128`.
    pub what: Cow<'static, str>,
    /// What the rule weighed, in `Decision::unit`.
    pub cost: f64,
    /// Bytes or time by the model here, with what it covers.
    pub price: Price,
}

impl Considered {
    /// A way with what the rule weighed and its price.
    pub fn new(what: impl Into<Cow<'static, str>>, cost: f64, price: Price) -> Self {
        Self { what: what.into(), cost, price }
    }
}

/// A number that a rule compares with, and where its value would turn the choice around.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuleConstant {
    /// Its name, as in the options.
    pub name: Cow<'static, str>,
    /// The value that was used.
    pub value: f64,
    /// The choice flips when the constant passes this value; `None` where no value flips it.
    pub flips_at: Option<f64>,
}

impl RuleConstant {
    /// A constant with the value that was used and where the choice flips.
    pub fn new(name: impl Into<Cow<'static, str>>, value: f64, flips_at: Option<f64>) -> Self {
        Self { name: name.into(), value, flips_at }
    }
}

impl std::fmt::Display for RuleConstant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} = {}", self.name, short(self.value))?;
        self.flips_at.map_or(Ok(()), |flip| write!(f, ", flips at {}", short(flip)))
    }
}

/// One choice: what was weighed, what each would cost, the rule that chose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    pub unit: Cow<'static, str>,
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

    /// Whether a person took it against the rule.
    pub fn is_forced(&self) -> bool {
        self.rule.starts_with(BY_HAND)
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

    /// The estimate of the whole run under the way that was taken, where the rule made one.
    pub fn run_estimate(&self) -> Option<Nanos> {
        self.taken().filter(|way| way.price.covers == Covers::Run).and_then(|way| way.price.time())
    }

    /// The estimate of the whole run beside what a run took, as a clause for a person; `None` where the
    /// record estimates no run.
    pub fn beside(&self, source: &str, run: Nanos) -> Option<String> {
        let estimate = self.run_estimate()?;
        let off = 100.0 * (estimate.as_f64() / run.as_f64().max(1.0) - 1.0);
        Some(format!("the run took {run} ({source}), the estimate is {off:+.0} % off"))
    }

    /// The whole record as one line for a person.
    pub fn sentence(&self) -> String {
        let told = |way: &Considered| format!("{} ({}; {})", way.what, self.rule_cost(way), way.price);
        let mut line = format!("{}: {}", self.title(), self.taken().map_or_else(|| "nothing".to_owned(), told));
        let left: Vec<String> = self.left().map(told).collect();
        if !left.is_empty() {
            let _ = write!(line, " rather than {}", left.join(" or "));
        }
        // Writing to a string cannot fail.
        let _ = write!(line, ", because {}", self.rule);
        if let Some(constant) = &self.constant {
            let _ = write!(line, "; {constant}");
        }
        line
    }
}

/// The first estimate of the whole run among the choices of a plan, with its record.
pub fn run_estimate(decisions: &[Decision]) -> Option<(&Decision, Nanos)> {
    decisions.iter().find_map(|decision| decision.run_estimate().map(|time| (decision, time)))
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
        let way = |what: &'static str, cost| Considered::new(what, cost, Price::traffic(cost * 4096.0));
        let decision = Decision {
            subject: Subject::Node(NodeIdx(3)),
            other: Some(NodeIdx(5)),
            choice: Choice::Sharing,
            considered: vec![way("split", 40.0), way("merge", 256.0), way("copy", 2.5)],
            chosen: 0,
            unit: "KV token loads".into(),
            rule: Cow::Borrowed("it is so"),
            constant: Some(RuleConstant::new("split_constant", 4.0, Some(25.6))),
        };
        assert_eq!(
            decision.sentence(),
            "node 3 with node 5: split (40 KV token loads; moves 160.0 KiB) rather than merge (256 KV token loads; moves 1.0 MiB) \
             or copy (2.50 KV token loads; moves 10.0 KiB), because it is so; split_constant = 4, flips at 25.60"
        );
    }

    fn launch(price: Price) -> Decision {
        Decision {
            subject: Subject::Plan,
            other: None,
            choice: Choice::Launch,
            considered: vec![Considered::new("serial", 3.0, price)],
            chosen: 0,
            unit: "launches".into(),
            rule: "it was asked for".into(),
            constant: Some(RuleConstant::new("means", 5.0, None)),
        }
    }

    #[test]
    fn every_price_says_what_it_covers() {
        let told = Covers::ALL.map(|covers| Price { covers, amount: 2048.0 }.to_string());
        assert_eq!(
            told,
            [
                "moves 2.0 KiB",
                "one CTA 2048 ns",
                "one kernel 2048 ns",
                "overhead only 2048 ns",
                "lower bound 2048 ns",
                "estimate of the run 2048 ns"
            ]
        );
    }

    #[test]
    fn only_an_estimate_of_the_run_stands_beside_a_run() {
        for covers in Covers::ALL {
            let told = launch(Price { covers, amount: 415_000.0 }).beside("simulated", Nanos(637_000));
            let expected = "the run took 637.0 µs (simulated), the estimate is -35 % off";
            assert_eq!(told.as_deref(), (covers == Covers::Run).then_some(expected), "{covers:?}");
        }
    }

    #[test]
    fn a_record_comes_back_from_a_file_as_it_went() {
        let decision = launch(Price::overhead(1500.0));
        let bytes = postcard::to_stdvec(&decision).unwrap();
        assert_eq!(postcard::from_bytes::<Decision>(&bytes).unwrap(), decision);
    }
}
