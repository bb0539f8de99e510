//! FastTree: a cost model of wasted work decides which children a node merges, then nodes become
//! vnodes of two tile shapes that are launched one after the other.
//!
//! ```text
//! Cmm(q, k) = α·padQ(q)·g·k + β·padK(k)·q·g          padded rows, padded KV of one tile
//! split(v, l) = Cmm(q, k_v) + Cmm(q_l, k_l) + γ·q_l   merge(v, l) = Cmm(q − q_l, k_v) + Cmm(q_l, k_v + k_l)
//! merge l into v where split > merge, breadth first; then q shrinks and l inherits v's KV
//! ```
//!
//! No term of it prices reading KV again. Three rounds settle the KV split and the tiles by how many
//! CTAs there are; the thresholds are the SMs of the GPU it was tuned on, whatever the device.
//!
//! The system has one root; with several it is wrong. Here a forest is run as one tree under an empty
//! root that merges with nothing. That fix is ours, and the decisions say so.

use std::collections::VecDeque;

use crate::decision::{Choice, Considered, Decision, Price, RuleConstant, Subject};
use crate::error::{Error, Result};
use crate::pack::levels::{Phases, Run};
use crate::pack::{CtaOrder, MergeShape, PackInput, Packing, Scheduler, price};
use crate::tile::{self, Tile};
use crate::units::{NodeIdx, QueryIdx, Tokens};
use crate::workload::PartialForm;

/// Weights of padded rows, padded KV and reductions, as in the kernel benchmark.
const ALPHA: f64 = 0.66;
const BETA: f64 = 0.33;
const GAMMA: f64 = 0.1;
/// Rows of the two tiles, and KV tokens of both.
const ROWS: [u32; 2] = [64, 16];
const KV_STEP: u32 = 32;
/// KV tokens of a vnode at first, and where that gives too few CTAs.
const LONG: u32 = 1024;
const SHORT: u32 = 128;
/// CTAs of each phase below which its KV is cut shorter, and below which the tiles become one.
const CUT_BELOW: [u64; 2] = [132, 528];
const UNITE_BELOW: [u64; 2] = [132, 132];

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct FastTree;

impl Scheduler for FastTree {
    fn name(&self) -> &'static str {
        "fasttree"
    }

    fn about(&self) -> &'static str {
        "FastTree: a cost model of padding decides merges, then two tile shapes launched in series; forests by our fix of its single root."
    }

    fn pack(&self, input: &PackInput<'_>) -> Result<Packing> {
        let group = input.batch.shape.group();
        if ![1, 4, 16].contains(&group) {
            return Err(Error::Unsupported {
                who: self.name().to_owned(),
                limit: format!(
                    "its query tiles are given for 1, 4 and 16 query heads a KV head, and this shape has {group}"
                ),
            });
        }
        let mut phases = Phases::default();
        let (settled, vnodes) = Settled::of(input, &mut phases.packing);
        let tall = |queries: usize| queries as u32 > settled.queries[1];
        for (phase, own_rows) in ROWS.into_iter().enumerate() {
            let mine = |vnode: &&Vnode| tall(vnode.queries.len()) == (phase == 0);
            for vnode in vnodes.iter().filter(mine) {
                let piece = settled.split[phase] / input.batch.shape.block_size;
                phases.push(input, vnode.run, &vnode.queries, settled.queries[0], piece.max(1));
            }
            let rows = if settled.united() { settled.queries[0] * group } else { own_rows };
            phases.end(Some(input.tile_or(Tile { m: rows, n: KV_STEP })), CtaOrder::PackFastest);
        }
        if input.explain {
            explain_merges(input, settled.queries, &mut phases.packing);
        }
        Ok(phases.finish(MergeShape::GatherOf { form: PartialForm::Fp32, always: true }))
    }
}

/// Queries that stay at a node, and the KV that they read together.
#[derive(Clone, Debug)]
struct Vnode {
    run: Run,
    queries: Vec<QueryIdx>,
}

/// The two sides of one question: does the child merge?
#[derive(Clone, Copy, Debug)]
struct Question {
    node: NodeIdx,
    child: NodeIdx,
    queries: u32,
    child_queries: u32,
    tokens: f64,
    child_tokens: f64,
}

/// Padding of `queries` queries over `tokens` tokens.
fn padding(tiles: [u32; 2], group: u32, queries: u32, tokens: f64) -> f64 {
    if queries == 0 {
        return 0.0;
    }
    let tile = if queries > tiles[1] { tiles[0] } else { tiles[1] };
    let rows = tile - ((queries - 1) % tile + 1);
    let kv = (f64::from(KV_STEP) - tokens).max(0.0);
    let group = f64::from(group);
    ALPHA * f64::from(rows) * group * tokens + BETA * kv * f64::from(queries) * group
}

impl Question {
    /// (cost of splitting, cost of merging).
    fn costs(&self, tiles: [u32; 2], group: u32) -> (f64, f64) {
        let pad = |queries, tokens| padding(tiles, group, queries, tokens);
        let split = pad(self.queries, self.tokens)
            + pad(self.child_queries, self.child_tokens)
            + GAMMA * f64::from(self.child_queries);
        let merge = pad(self.queries - self.child_queries, self.tokens)
            + pad(self.child_queries, self.tokens + self.child_tokens);
        (split, merge)
    }
}

/// Walks the forest breadth first; tells each question with its answer, and what stays at each node.
fn walk(input: &PackInput<'_>, tiles: [u32; 2], mut asked: impl FnMut(Question, bool), mut stays: impl FnMut(Vnode)) {
    let (tree, group) = (input.tree, input.batch.shape.group());
    let block = u64::from(input.batch.shape.block_size);
    // (node, first block of what it inherits)
    let mut waiting: VecDeque<(NodeIdx, u32)> =
        tree.roots.iter().map(|root| (*root, tree.node(*root).blocks.start)).collect();
    while let Some((node, blocks_begin)) = waiting.pop_front() {
        let own = tree.node(node);
        let tokens = Tokens(u64::from(own.blocks.start - blocks_begin) * block) + own.tokens;
        let mut left = own.query_count();
        let mut queries = tree.queries(node)[..own.ending as usize].to_vec();
        for child in tree.children(node) {
            let below = tree.node(*child);
            let question = Question {
                node,
                child: *child,
                queries: left,
                child_queries: below.query_count(),
                tokens: tokens.as_f64(),
                child_tokens: below.tokens.as_f64(),
            };
            let (split, merge) = question.costs(tiles, group);
            let merges = split > merge;
            asked(question, merges);
            if merges {
                left -= below.query_count();
                waiting.push_back((*child, blocks_begin));
            } else {
                queries.extend_from_slice(tree.queries(*child));
                waiting.push_back((*child, below.blocks.start));
            }
        }
        if !queries.is_empty() {
            let run = Run { node, blocks_begin, blocks_end: own.blocks.end, tokens };
            stays(Vnode { run, queries });
        }
    }
}

fn vnodes(input: &PackInput<'_>, tiles: [u32; 2]) -> Vec<Vnode> {
    let mut all = Vec::with_capacity(input.tree.nodes.len());
    walk(input, tiles, |_, _| {}, |vnode| all.push(vnode));
    all
}

/// What the three rounds settle on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Settled {
    /// Queries of the two tiles.
    queries: [u32; 2],
    /// KV tokens of a vnode in each phase.
    split: [u32; 2],
}

impl Settled {
    fn united(&self) -> bool {
        self.queries[0] == self.queries[1]
    }

    /// With the vnodes of its tiles.
    fn of(input: &PackInput<'_>, packing: &mut Packing) -> (Self, Vec<Vnode>) {
        let group = input.batch.shape.group();
        let own = ROWS.map(|rows| (rows / group).max(1));
        let mut settled = Self { queries: own, split: [LONG, LONG] };
        let of_own = vnodes(input, own);
        let first = settled.ctas(input, &of_own);
        let mut cut = false;
        for phase in 0..2 {
            if (1..CUT_BELOW[phase]).contains(&first[phase]) {
                settled.split[phase] = SHORT;
                cut = true;
            }
            if input.explain {
                packing.decisions.push(explain_cut(input, phase, first[phase], settled.split[phase]));
            }
        }
        if !cut {
            return (settled, of_own);
        }
        let second = settled.ctas(input, &of_own);
        if (1..UNITE_BELOW[0]).contains(&second[0]) {
            settled.queries = [own[1]; 2];
        } else if (1..UNITE_BELOW[1]).contains(&second[1]) {
            settled.queries = [own[0]; 2];
        }
        if input.explain {
            packing.decisions.push(explain_unite(input, second, &settled, own));
        }
        let vnodes = if settled.queries == own { of_own } else { vnodes(input, settled.queries) };
        (settled, vnodes)
    }

    /// CTAs of each phase over all KV heads.
    fn ctas(&self, input: &PackInput<'_>, vnodes: &[Vnode]) -> [u64; 2] {
        let mut ctas = [0; 2];
        for vnode in vnodes {
            let queries = vnode.queries.len() as u32;
            let phase = usize::from(queries <= self.queries[1]);
            let pieces = vnode.run.tokens.0.div_ceil(u64::from(self.split[phase]));
            ctas[phase] += u64::from(queries.div_ceil(self.queries[phase])) * pieces;
        }
        ctas.map(|count| count * u64::from(input.batch.shape.kv_heads))
    }
}

fn explain_merges(input: &PackInput<'_>, tiles: [u32; 2], packing: &mut Packing) {
    if input.tree.roots.len() > 1 {
        let roots = input.tree.roots.len() as f64;
        packing.decisions.push(Decision {
            subject: Subject::Plan,
            other: None,
            choice: Choice::Sharing,
            considered: vec![
                Considered::new("an empty root above all (ours)", roots, Price::traffic(0.0)),
                Considered::new("refuse", roots, Price::traffic(0.0)),
            ],
            chosen: 0,
            unit: "roots".into(),
            rule: "the system has one root and gives wrong results with more; an empty root that merges with nothing is our fix, not FastTree's".into(),
            constant: None,
        });
    }
    let group = input.batch.shape.group();
    let mut log = Vec::new();
    walk(
        input,
        tiles,
        |question, merges| {
            let (split, merge) = question.costs(tiles, group);
            let inherited = Tokens(question.tokens as u64);
            // γ enters the cost of splitting alone, so it flips where both are equal.
            let flip = GAMMA + (merge - split) / f64::from(question.child_queries.max(1));
            log.push(Decision {
                subject: Subject::Node(question.node),
                other: Some(question.child),
                choice: Choice::Sharing,
                considered: vec![
                    Considered::new("split", split, price::partials(input, question.child_queries)),
                    Considered::new("merge", merge, price::kv(input, inherited)),
                ],
                chosen: usize::from(merges),
                unit: "weighted padding and reductions".into(),
                rule: "a child merges where splitting wastes more padded work and reductions; reading KV again has no price (FastTree)".into(),
                constant: Some(RuleConstant::new("γ", GAMMA, (flip >= 0.0).then_some(flip) )),
            });
        },
        |_| {},
    );
    packing.decisions.records.extend(log);
}

fn explain_cut(input: &PackInput<'_>, phase: usize, ctas: u64, split: u32) -> Decision {
    let shape = &input.batch.shape;
    let tile = Tile { m: ROWS[phase], n: KV_STEP };
    let way = |tokens: u32| {
        let time = tile::pack_time(input.device, tile, shape.head_dim, shape.dtype, Tokens(u64::from(tokens)));
        Considered::new(format!("KV in pieces of {tokens}"), f64::from(tokens), Price::one_cta(time))
    };
    Decision {
        // A phase need not be a launch of its own: fused has one, and prefill has others before it.
        subject: Subject::Plan,
        other: None,
        choice: Choice::Split,
        considered: vec![way(LONG), way(SHORT)],
        chosen: usize::from(split == SHORT),
        unit: "tokens of a piece".into(),
        rule: format!(
            "phase {phase} has {ctas} CTAs at first; KV is cut shorter where that is below its threshold (FastTree)"
        )
        .into(),
        constant: Some(RuleConstant::new(
            "CTAs of a phase that are enough",
            CUT_BELOW[phase] as f64,
            (ctas > 0).then_some(ctas as f64),
        )),
    }
}

fn explain_unite(input: &PackInput<'_>, ctas: [u64; 2], settled: &Settled, own: [u32; 2]) -> Decision {
    let sim = &input.device.sim;
    let gaps = |launches: f64| Price::overhead((launches - 1.0) * (sim.kernel_gap + sim.attention_gap).as_f64());
    let way = |what, launches: f64| Considered::new(what, launches, gaps(launches));
    let chosen = if !settled.united() {
        0
    } else if settled.queries[0] == own[1] {
        1
    } else {
        2
    };
    Decision {
        subject: Subject::Plan,
        other: None,
        choice: Choice::Launch,
        considered: vec![
            way("two phases", 2.0),
            way("the small tile for all", 1.0),
            way("the large tile for all", 1.0),
        ],
        chosen,
        unit: "launches".into(),
        rule: format!(
            "the phases have {} and {} CTAs after cutting; one with too few takes the other's tile (FastTree)",
            ctas[0], ctas[1]
        )
        .into(),
        constant: Some(RuleConstant::new(
            "CTAs of a phase that are enough",
            UNITE_BELOW[0] as f64,
            Some(ctas[0] as f64),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::testing::with_input;
    use crate::workload::{AttentionShape, PrefixTree, parse_tree};

    /// (tree, group, merged nodes, nodes), from a re-implementation of the system's heuristic.
    const MERGED: [(&str, u32, usize, usize); 11] = [
        ("1,4,256_32,256,32", 4, 4, 261),
        ("1,4,256_32,256,32", 1, 4, 261),
        ("1,256_256,32", 4, 0, 257),
        ("1,2,64_1024,256,256", 4, 2, 67),
        ("1,2,64_1024,256,256", 1, 0, 67),
        ("1,4,8,256_32,256,256,32", 4, 12, 269),
        ("1,4,8,256_32,256,256,32", 1, 4, 269),
        ("1,8,512_32,512,256", 4, 8, 521),
        ("1,8,512_32,512,256", 1, 8, 521),
        ("1,16,32,64,128,1024_256,128,64,32,32,32", 4, 112, 1265),
        ("1,16,32,64,128,1024_256,128,64,32,32,32", 1, 80, 1265),
    ];

    #[test]
    fn the_heuristic_merges_as_many_nodes_as_the_system() {
        for (text, group, merged, nodes) in MERGED {
            let shape = AttentionShape { query_heads: 8 * group, kv_heads: 8, ..AttentionShape::default() };
            let batch = parse_tree(text, shape).unwrap().build().unwrap();
            let tree = PrefixTree::of(&batch);
            let mut count = 0;
            with_input(&batch, &tree, ("h100-sxm", Some(64)), |input| {
                walk(input, ROWS.map(|rows| rows / group), |_, merges| count += usize::from(merges), |_| {});
            });
            assert_eq!((count, tree.nodes.len()), (merged, nodes), "{text} at group {group}");
        }
    }
}
