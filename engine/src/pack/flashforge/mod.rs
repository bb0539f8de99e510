//! FlashForge: partial attention (PAC) a tree node, cut along the KV so that all thread blocks end
//! together, then partial reductions (POR) in log depth.
//!
//! ```text
//! [PAC pieces, longest first] ─► [POR of pairs] ─► [POR of pairs] ─► …
//! ```
//!
//! A PAC reads its node's KV once for all queries that need it (queries are never cut, section 5): rows
//! beyond the tile pass over the KV that is in shared memory. Partials keep maximum and sum apart. Beside
//! it stands the paper's ablation (section 6.2) of its three parts, nodes read once, cutting, and reductions
//! in parallel: `flashforge-tree` has the first alone, `flashforge-division` the second, `flashforge-neither`
//! none. Without the third, each query's partials are reduced one launch after another.

mod cost;
mod divide;

use crate::decision::{Choice, Considered, Decision, Price, RuleConstant, Subject};
use crate::error::{Error, Result};
use crate::pack::levels::{Phases, Run};
use crate::pack::query_centric::leaf_of_each_request;
use crate::pack::{CtaOrder, MergeShape, Moved, PackInput, Packing, Scheduler};
use crate::tile::{self, Tile, TileRule};
use crate::units::{NodeIdx, QueryIdx, Tokens};
use crate::workload::PartialForm;
use divide::{Division, Task, divide};

/// The one tile; the paper does not give it.
const TILE: Tile = Tile { m: 64, n: 128 };

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlashForge {
    /// Whether nodes are read once for all their queries.
    pub(super) tree: bool,
    /// Whether KV is cut and placed by the cost estimator.
    pub(super) division: bool,
}

impl Scheduler for FlashForge {
    fn name(&self) -> &'static str {
        match (self.tree, self.division) {
            (true, true) => "flashforge",
            (true, false) => "flashforge-tree",
            (false, true) => "flashforge-division",
            (false, false) => "flashforge-neither",
        }
    }

    fn about(&self) -> &'static str {
        match (self.tree, self.division) {
            (true, true) => {
                "FlashForge: a partial attention a node, cut by a profiled cost grid so that all blocks end together, reduced in log depth."
            }
            (true, false) => "FlashForge's ablation: nodes shared, but never cut, and reduced one after another.",
            (false, true) => {
                "FlashForge's ablation: requests cut by its cost grid, but nothing shared, and reduced one after another."
            }
            (false, false) => "FlashForge's ablation: a block a request and KV head, nothing shared, nothing cut.",
        }
    }

    fn tile_rule(&self) -> TileRule {
        TileRule::Fixed(TILE)
    }

    /// A node that is read once has one pack of all its queries.
    fn least_moved(&self, input: &PackInput<'_>) -> Option<Moved> {
        let slots = input.tree.nodes.iter().map(|node| u64::from(node.query_count())).sum();
        let takes = self.tree && !self.division && input.batch.shape.head_dim == cost::HEAD_DIM;
        takes.then(|| Moved { tokens: input.tree.unique_tokens(), slots })
    }

    fn pack(&self, input: &PackInput<'_>) -> Result<Packing> {
        let shape = &input.batch.shape;
        if shape.head_dim != cost::HEAD_DIM {
            return Err(Error::Unsupported {
                who: self.name().to_owned(),
                limit: format!(
                    "its cost grid was profiled at head dimension {}, and this shape has {}",
                    cost::HEAD_DIM,
                    shape.head_dim
                ),
            });
        }
        let works = self.works(input);
        let tasks: Vec<Task> = works
            .iter()
            .map(|work| Task {
                rows: f64::from(work.queries.len() as u32 * shape.group()),
                kv_blocks: work.run.blocks_end - work.run.blocks_begin,
                tokens: work.run.tokens.as_f64(),
            })
            .collect();
        let occupancy = tile::occupancy(input.device, input.tile_or(TILE), shape.head_dim, shape.dtype).max(1);
        let blocks = occupancy * input.device.sm_count;
        let division = self.division.then(|| divide(&tasks, shape.kv_heads, blocks));
        let pieces = |at: usize| division.as_ref().map_or(1, |division| division.pieces[at]);
        // Longest piece first, so that the hardware's dispatch is the placement that was predicted.
        let mut order: Vec<usize> = (0..works.len()).collect();
        let time = |at: usize| cost::micros(tasks[at].rows, tasks[at].tokens / f64::from(pieces(at)));
        let times: Vec<f64> = order.iter().map(|at| time(*at)).collect();
        order.sort_by(|a, b| times[*b].total_cmp(&times[*a]));
        let mut phases = Phases::default();
        for at in order {
            let work = &works[at];
            let first = phases.packing.packs.len();
            let cut = tasks[at].kv_blocks.div_ceil(pieces(at));
            phases.push(input, work.run, &work.queries, u32::MAX, cut);
            if input.explain {
                let decision = explain_pieces(first, &tasks[at], pieces(at), division.as_ref());
                phases.packing.decisions.push(decision);
            }
        }
        phases.end(None, CtaOrder::HeadFastest);
        if let Some(division) = division.filter(|_| input.explain) {
            phases.packing.decisions.push(explain_division(&division, blocks));
        }
        let form = PartialForm::Fp32MaxSum;
        let merge = if self.tree && self.division { MergeShape::Halving { form } } else { MergeShape::Chain { form } };
        Ok(phases.finish(merge))
    }
}

/// Queries with the KV that they read together.
struct Work {
    run: Run,
    queries: Vec<QueryIdx>,
}

impl FlashForge {
    /// A node each with all its queries, or a request each with all its KV.
    fn works(self, input: &PackInput<'_>) -> Vec<Work> {
        if self.tree {
            let nodes = (0..input.tree.nodes.len()).map(NodeIdx::from);
            return nodes
                .map(|node| Work { run: Run::of_node(input, node), queries: input.tree.queries(node).to_vec() })
                .collect();
        }
        let leaves = leaf_of_each_request(input);
        let work = |(query, tokens): (QueryIdx, Tokens)| {
            let blocks_end = input.batch.tables().row(query).len() as u32;
            let run = Run { node: leaves[query.at()], blocks_begin: 0, blocks_end, tokens };
            Work { run, queries: vec![query] }
        };
        input.batch.decodes().map(|(query, request)| work((query, request.kv))).collect()
    }
}

fn explain_pieces(first: usize, task: &Task, pieces: u32, division: Option<&Division>) -> Decision {
    let way = |count: u32| {
        let micros = cost::micros(task.rows, task.tokens / f64::from(count));
        Considered::new(format!("{count} pieces"), micros, Price::one_cta(micros * 1e3))
    };
    let most = division.map_or(1, |division| {
        ((cost::micros(task.rows, task.tokens) / division.bound.max(1e-9)).ceil() as u32).min(task.kv_blocks).max(1)
    });
    let mut counts = vec![1, pieces, most, pieces + 1];
    counts.retain(|count| *count <= task.kv_blocks.max(1));
    counts.sort_unstable();
    counts.dedup();
    Decision {
        subject: Subject::Pack(crate::units::PackIdx::from(first)),
        other: None,
        choice: Choice::Split,
        chosen: counts.iter().position(|count| *count == pieces).unwrap_or(0),
        considered: counts.into_iter().map(way).collect(),
        unit: "µs a piece by the cost grid".into(),
        rule: "as many pieces as keep one within the length that gave the earliest predicted end, never more than the lower bound allows (FlashForge 5)".into(),
        constant: division.map(|division| RuleConstant::new("lower bound, µs", division.bound, Some(cost::micros(task.rows, task.tokens)))),
    }
}

fn explain_division(division: &Division, blocks: u32) -> Decision {
    let way = |(stretch, end): &(f64, f64)| {
        let what = if stretch.is_finite() { format!("pieces of {stretch:.2} bounds") } else { "no cutting".to_owned() };
        Considered::new(what, *end, Price::one_kernel(end * 1e3))
    };
    let taken = division.tried.iter().position(|(_, end)| *end <= division.end).unwrap_or(0);
    Decision {
        subject: Subject::Plan,
        other: None,
        choice: Choice::Split,
        considered: division.tried.iter().map(way).collect(),
        chosen: taken,
        unit: "µs to the predicted end".into(),
        rule: format!("the division whose last of {blocks} thread blocks ends first, pieces placed longest first (FlashForge 5; search and placement ours)").into(),
        constant: Some(RuleConstant::new("lower bound, µs", division.bound, None )),
    }
}
