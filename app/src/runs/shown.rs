//! A plan with its runs: what is on the screen.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use engine::capture::{Loaded, Source};
use engine::metrics::{self, Differences, NodeTraffic, Traffic, Twin};
use engine::plan::PlanDigest;
use engine::session::{self, Planned};
use engine::tile::Tile;
use engine::units::{NodeIdx, PackIdx, Tokens};
use serde::{Deserialize, Serialize};

use super::damage::Damage;
use super::run::Run;
use crate::timeline::colour::Levels;

/// Which runs a view shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sources {
    /// All that are there.
    #[default]
    Both,
    /// That one, where it is there.
    Only(Source),
}

/// A plan and its runs; all that views draw.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Batch, tree and plan.
    pub planned: Planned,
    /// Digest of the plan; see [`Run::plan_digest`].
    pub plan_digest: PlanDigest,
    /// Its run on the simulator, if there is one.
    pub simulated: Option<Arc<Run>>,
    /// Its run on a GPU, if there is one.
    pub measured: Option<Arc<Run>>,
    /// Those two CTA by CTA, once compared.
    pub differences: Option<Arc<Differences>>,
    /// Bytes by kind.
    pub traffic: Traffic,
    /// What is told of the whole plan.
    pub told: Told,
    /// Tokens read of each node.
    pub nodes: Vec<NodeTraffic>,
    /// Nodes by tokens that are read more than once, most first.
    pub by_waste: Vec<NodeIdx>,
    /// Tree node of each pack.
    pub nodes_of_packs: Vec<NodeIdx>,
    /// Nodes below that, of packs that go on there.
    pub below_packs: Vec<Vec<NodeIdx>>,
    /// The first pack of each tree node.
    pub first_packs: Vec<Option<PackIdx>>,
    /// Levels of the tree nodes, for their colours.
    pub levels: Levels,
}

/// Sums over a whole plan, taken once: views tell them in each frame, and a trace of many layers has thousands of
/// launches.
#[derive(Clone, Debug)]
pub struct Told {
    /// See [`engine::plan::LaunchPlan::attention_ctas`].
    pub attention_ctas: u64,
    /// KV tokens that its packs read.
    pub kv_tokens_read: Tokens,
    /// KV tokens that the prefix tree holds.
    pub unique_tokens: Tokens,
    /// Its tiles with how many packs take each.
    pub tiles: Vec<(Tile, u32)>,
}

impl Told {
    fn of(planned: &Planned) -> Self {
        Self {
            attention_ctas: planned.plan.attention_ctas(),
            kv_tokens_read: planned.plan.kv_tokens_read(),
            unique_tokens: planned.tree.unique_tokens(),
            tiles: planned.plan.tiles(),
        }
    }
}

impl Shown {
    /// Derives everything that views need.
    pub fn new(planned: Planned, run: Option<Run>) -> Self {
        let run = run.map(Arc::new);
        let (simulated, measured) = match run.clone() {
            Some(run) if run.source() == Source::Measured => (None, Some(run)),
            run => (run, None),
        };
        let nodes = metrics::node_traffic(&planned.plan, &planned.tree);
        let mut by_waste: Vec<NodeIdx> = (0..nodes.len()).map(NodeIdx::from).collect();
        by_waste.sort_by_key(|node| (Reverse(nodes[node.at()].wasted()), *node));
        let nodes_of_packs: Vec<NodeIdx> = planned.plan.packs.iter().map(|pack| pack.node).collect();
        let below_packs: Vec<Vec<NodeIdx>> =
            planned.plan.packs.iter().map(|pack| planned.plan.below(pack, &planned.tree)).collect();
        let mut first_packs = vec![None; nodes.len()];
        let reads = nodes_of_packs.iter().zip(&below_packs).map(|(node, below)| std::iter::once(node).chain(below));
        for (at, node) in reads.enumerate().flat_map(|(at, nodes)| nodes.map(move |node| (at, node))) {
            if let Some(first) = first_packs.get_mut(node.at()) {
                first.get_or_insert(PackIdx::from(at));
            }
        }
        Self {
            plan_digest: run.as_ref().map_or_else(|| planned.plan.digest(), |run| run.plan_digest),
            levels: Levels::of(&planned.tree),
            traffic: metrics::traffic(&planned.plan, &planned.batch, &planned.tree),
            told: Told::of(&planned),
            simulated,
            measured,
            differences: None,
            nodes,
            by_waste,
            nodes_of_packs,
            below_packs,
            first_packs,
            planned,
        }
    }

    /// A capture from a file, with the plan that is in it.
    ///
    /// # Errors
    /// Whatever is wrong with the batch in the capture.
    pub fn of_capture(loaded: Loaded) -> engine::Result<Self> {
        let damage = Damage::of(&loaded);
        let capture = loaded.capture;
        let device =
            engine::hw::find(&capture.provenance.device).or_else(|error| engine::hw::builtin().first().ok_or(error))?;
        let planned = session::planned_of(&capture, device)?;
        Ok(Self::new(planned, Some(Run::damaged(capture, damage, Duration::ZERO))))
    }

    /// The run of a source.
    pub fn run(&self, source: Source) -> Option<&Arc<Run>> {
        match source {
            Source::Simulated => self.simulated.as_ref(),
            Source::Measured => self.measured.as_ref(),
        }
    }

    /// The runs to show, measured first; a source that is not there gives way to the other.
    pub fn runs(&self, sources: Sources) -> impl Iterator<Item = &Arc<Run>> {
        let wanted = move |run: &&Arc<Run>| match sources {
            Sources::Only(source) if self.run(source).is_some() => run.source() == source,
            _ => true,
        };
        self.measured.iter().chain(&self.simulated).filter(wanted)
    }

    /// End of the last span of the runs to show.
    pub fn end(&self, sources: Sources) -> u64 {
        self.runs(sources).map(|run| run.lanes.end).max().unwrap_or(0)
    }

    /// The run that figures of one run are taken from: the measured one where there is one.
    pub fn front(&self) -> Option<&Arc<Run>> {
        self.runs(Sources::Both).next()
    }

    /// The CTA of a span in both runs.
    pub fn twin(&self, source: Source, span: usize) -> Option<&Twin> {
        let differences = self.differences.as_ref()?;
        match source {
            Source::Measured => differences.of_measured(span),
            Source::Simulated => differences.of_simulated(span),
        }
    }
}
