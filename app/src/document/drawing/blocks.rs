//! Requests whose blocks are listed, as nodes that a hand can take.

use engine::units::NodeIdx;
use engine::workload::{BatchSpec, NodeSpec, PrefixTree, RequestSpec};

use super::nodes::set_ending;

/// The same batch with nodes for the requests whose blocks are listed, so that a hand can take them; `tree` is that of
/// the batch.
pub fn nodes_of_blocks(spec: &BatchSpec, tree: &PrefixTree) -> BatchSpec {
    let in_trees: u64 = spec.roots.iter().map(NodeSpec::request_count).fold(0, u64::saturating_add);
    let mut is_listed = vec![false; in_trees as usize];
    for request in &spec.requests {
        match request {
            RequestSpec::Decode { count, .. } => is_listed.extend((0..*count).map(|_| false)),
            RequestSpec::Prefill { .. } => is_listed.push(false),
            RequestSpec::Blocks { .. } => is_listed.push(true),
        }
    }
    let of_blocks = |root: &&NodeIdx| {
        tree.queries(**root).first().is_some_and(|query| is_listed.get(query.at()).copied().unwrap_or(false))
    };
    let mut made = spec.clone();
    made.requests.retain(|request| !matches!(request, RequestSpec::Blocks { .. }));
    made.roots.extend(tree.roots.iter().filter(of_blocks).map(|root| node_of(tree, *root)));
    made
}

fn node_of(tree: &PrefixTree, at: NodeIdx) -> NodeSpec {
    let node = tree.node(at);
    let children: Vec<NodeSpec> = tree.children(at).iter().map(|child| node_of(tree, *child)).collect();
    let mut made = NodeSpec { tokens: node.tokens.0, repeat: 1, requests: None, children };
    set_ending(&mut made, node.ending);
    made
}
