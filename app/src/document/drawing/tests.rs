//! Any strokes give a batch that can be built; what a stroke says of requests and tokens is so.

use engine::session::{PlanOptions, plan_spec};
use engine::units::NodeIdx;
use engine::workload::{AttentionShape, BatchSpec, NodeSpec, PrefixTree, RequestSpec, random_forest};
use proptest::prelude::*;

use super::*;

fn tree() -> BatchSpec {
    let leaf = |tokens, repeat| NodeSpec { repeat, ..NodeSpec::leaf(tokens) };
    let inner = NodeSpec { requests: Some(2), children: vec![leaf(40, 3), leaf(100, 1)], ..NodeSpec::leaf(64) };
    let root = NodeSpec { children: vec![inner, leaf(7, 2)], ..NodeSpec::leaf(96) };
    let requests = vec![RequestSpec::Decode { kv: 50, count: 2 }, RequestSpec::Prefill { chunk: 64, kv: 128 }];
    BatchSpec { roots: vec![root, leaf(33, 1)], requests, ..BatchSpec::empty(AttentionShape::default()) }
}

/// All nodes of a batch.
fn paths(spec: &BatchSpec) -> Vec<Path> {
    fn below(nodes: &[NodeSpec], above: Option<&Path>, all: &mut Vec<Path>) {
        for (at, node) in nodes.iter().enumerate() {
            let path = above.map_or_else(|| Path::root(at), |above| above.child(at));
            below(&node.children, Some(&path), all);
            all.push(path);
        }
    }
    let mut all = Vec::new();
    below(&spec.roots, None, &mut all);
    all.sort();
    all
}

/// A stroke by numbers, on whatever the batch has then.
fn stroke(spec: &BatchSpec, (kind, a, b, value): (u8, usize, usize, u64)) -> Stroke {
    let all = paths(spec);
    let pick = |at: usize| if all.is_empty() { Path::root(0) } else { all[at % all.len()].clone() };
    let under = (!a.is_multiple_of(5)).then(|| pick(a));
    let several = vec![pick(a), pick(a + 1), pick(b)];
    let width = (value % 9) as u32;
    match kind % 12 {
        0 => Stroke::Add { under, tokens: value, width, copies: b.is_multiple_of(2) },
        1 => Stroke::Set { of: Pick::Node(pick(a)), tokens: Some(value), copies: None, requests: None },
        2 => Stroke::Set { of: Pick::Node(pick(a)), tokens: None, copies: Some(width), requests: Some(b as u32 % 4) },
        3 => Stroke::Move { what: several, under, copy: b.is_multiple_of(2) },
        4 => Stroke::Split { of: pick(a), at: value },
        5 => Stroke::Join(if b.is_multiple_of(2) { several } else { vec![pick(a)] }),
        6 => Stroke::Remove(vec![Pick::Node(pick(a)), Pick::Request(b % 4)]),
        7 => Stroke::Duplicate(vec![Pick::Node(pick(a)), Pick::Node(pick(b))]),
        8 => Stroke::Group(several),
        9 => Stroke::Part { of: pick(a), copy: width },
        10 => Stroke::Chunk { at: b.is_multiple_of(3).then_some(b % 5), context: value, chunk: b as u64 },
        _ => Stroke::Paste { under, node: NodeSpec::leaf(value) },
    }
}

fn strokes() -> impl Strategy<Value = Vec<(u8, usize, usize, u64)>> {
    let one = (any::<u8>(), 0..40_usize, 0..40_usize, prop_oneof![0..600_u64, 0..(2_u64 << 20)]);
    prop::collection::vec(one, 1..30)
}

proptest! {
    #[test]
    fn any_strokes_give_a_batch_that_can_be_built_and_its_file_gives_the_same_plan(all in strokes()) {
        let mut spec = tree();
        for one in all {
            match draw(&spec, &stroke(&spec, one)) {
                Ok(drawn) => {
                    prop_assert!(drawn.picked.iter().all(|pick| pick.is_in(&drawn.spec)), "{:?}", drawn.picked);
                    spec = drawn.spec;
                }
                Err(reason) => prop_assert!(!reason.is_empty()),
            }
        }
        let batch = spec.build().unwrap();
        let again = BatchSpec::from_ron(&spec.to_ron().unwrap()).unwrap();
        prop_assert_eq!(&again, &spec);
        if batch.requests().len() <= 200 && batch.decode_tokens().0 < 1 << 22 {
            let options = PlanOptions::new(engine::hw::find("h200-sxm").unwrap());
            let plan = |spec: &BatchSpec| plan_spec(spec, &options).map(|planned| planned.plan).map_err(|e| e.to_string());
            prop_assert_eq!(plan(&again), plan(&spec));
        }
    }

    #[test]
    fn nodes_are_numbered_as_in_the_tree_of_their_plan(number in 0..400_u32, all in strokes()) {
        let mut spec = if number.is_multiple_of(2) { random_forest(5, number) } else { tree() };
        for one in all.into_iter().filter(|_| !number.is_multiple_of(2)) {
            spec = draw(&spec, &stroke(&spec, one)).map_or(spec, |drawn| drawn.spec);
        }
        let batch = spec.build().unwrap();
        prop_assume!(batch.requests().len() <= 2_000);
        let (tree, numbers) = (PrefixTree::of(&batch), Numbers::of(&spec));
        let decodes = spec.requests.iter().map(|request| match request {
            RequestSpec::Decode { count, .. } => u64::from(*count),
            _ => 0,
        });
        prop_assert_eq!(numbers.of_roots(&spec.roots) + decodes.sum::<u64>(), tree.nodes.len() as u64);
        for path in paths(&spec) {
            let number = numbers.number(&spec, &path).unwrap();
            let (found, copy) = numbers.pick(&spec, number).unwrap();
            prop_assert!(copy == 0 && path.holds(found.path().unwrap()), "{:?} is {:?}", path, found);
            // Requests of the tree's node are those of the batch's.
            let requests = tree.node(number).query_count();
            let node = path.node(&spec).unwrap();
            prop_assert_eq!(node.request_count(), u64::from(requests) * u64::from(node.repeat), "{:?}", path);
        }
    }
}

fn drawn(spec: &BatchSpec, stroke: &Stroke) -> Drawn {
    draw(spec, stroke).unwrap()
}

fn requests(spec: &BatchSpec) -> usize {
    spec.build().unwrap().requests().len()
}

#[test]
fn a_child_takes_over_requests_that_ended_at_its_parent() {
    let empty = BatchSpec::empty(AttentionShape::default());
    let root = drawn(&empty, &Stroke::Add { under: None, tokens: 500, width: 8, copies: false }).spec;
    assert_eq!((root.roots[0].tokens, requests(&root)), (512, 8));
    let under = Some(Path::root(0));
    let shared = drawn(&root, &Stroke::Add { under: under.clone(), tokens: 64, width: 3, copies: false }).spec;
    assert_eq!((requests(&shared), shared.roots[0].ending()), (8, 5));
    let apart = drawn(&root, &Stroke::Add { under, tokens: 64, width: 12, copies: true }).spec;
    assert_eq!((requests(&apart), apart.roots[0].ending(), apart.roots[0].children[0].repeat), (12, 0, 12));
}

#[test]
fn a_shared_node_snaps_to_whole_blocks_and_says_why() {
    let of = Pick::Node(Path::root(0));
    let set = |tokens| Stroke::Set { of: of.clone(), tokens: Some(tokens), copies: None, requests: None };
    let made = drawn(&tree(), &set(33));
    assert_eq!(made.spec.roots[0].tokens, 32);
    assert!(made.note.unwrap().contains("33 tokens cannot be shared"), "told");
    assert_eq!(drawn(&tree(), &set(64)).note, None);
    let refused = draw(&tree(), &set(2 << 20)).unwrap_err();
    assert!(refused.contains("at most"), "{refused}");
}

#[test]
fn a_split_is_taken_back_by_a_join_and_keeps_the_plan() {
    let path = Path::root(0);
    let split = drawn(&tree(), &Stroke::Split { of: path.clone(), at: 50 });
    assert_eq!((split.spec.roots[0].tokens, split.spec.roots[0].children[0].tokens), (64, 32));
    assert_eq!(split.picked, [Pick::Node(path.child(0))]);
    let tables = |spec: &BatchSpec| spec.build().unwrap().tables().clone();
    assert_eq!(tables(&split.spec), tables(&tree()), "the same blocks");
    assert_eq!(drawn(&split.spec, &Stroke::Join(vec![path])).spec, tree());
    let short = draw(&tree(), &Stroke::Split { of: Path::root(0).child(1), at: 3 }).unwrap_err();
    assert!(short.contains("no place to split"), "{short}");
}

#[test]
fn siblings_join_over_what_they_share_and_lose_no_request() {
    let inner = Path::root(0).child(0);
    let joined = drawn(&tree(), &Stroke::Join(vec![inner.child(0), inner.child(1)])).spec;
    let node = inner.child(0).node(&joined).unwrap();
    assert_eq!((node.tokens, node.children.len(), requests(&joined)), (32, 2, requests(&tree())));
    let copies = drawn(&tree(), &Stroke::Join(vec![inner.child(0)])).spec;
    assert_eq!((requests(&copies), inner.child(0).node(&copies).unwrap().ending()), (requests(&tree()), 3));
    let far = draw(&tree(), &Stroke::Join(vec![inner.child(0), Path::root(1)])).unwrap_err();
    assert!(far.contains("one parent"), "{far}");
}

#[test]
fn a_subtree_moves_with_its_requests_and_never_under_itself() {
    let what = vec![Path::root(1)];
    let moved = drawn(&tree(), &Stroke::Move { what: what.clone(), under: Some(Path::root(0).child(1)), copy: false });
    assert_eq!(moved.spec.roots.len(), 1);
    assert_eq!(moved.picked, [Pick::Node(Path::root(0).child(1).child(0))]);
    assert!(moved.note.unwrap().contains("grows from 7 to 32"), "its new parent shares whole blocks");
    let up = Stroke::Move { what: vec![Path::root(0).child(0)], under: None, copy: false };
    assert_eq!(requests(&drawn(&tree(), &up).spec), requests(&tree()));
    let copied = drawn(&tree(), &Stroke::Move { what, under: None, copy: true }).spec;
    assert_eq!(requests(&copied), requests(&tree()) + 1);
    let itself = Stroke::Move { what: vec![Path::root(0)], under: Some(Path::root(0).child(0)), copy: false };
    assert!(draw(&tree(), &itself).unwrap_err().contains("under itself"));
}

#[test]
fn a_group_is_a_new_prefix_and_a_part_is_one_copy() {
    let inner = Path::root(0).child(0);
    let group = drawn(&tree(), &Stroke::Group(vec![inner.child(0), inner.child(1)]));
    let made = group.picked[0].path().unwrap().node(&group.spec).unwrap();
    assert_eq!((made.tokens, made.children.len(), requests(&group.spec)), (256, 2, requests(&tree())));
    let part = drawn(&tree(), &Stroke::Part { of: inner.child(0), copy: 1 });
    let copies: Vec<u32> = inner.node(&part.spec).unwrap().children.iter().map(|child| child.repeat).collect();
    assert_eq!((copies, part.picked), (vec![1, 1, 1, 1], vec![Pick::Node(inner.child(1))]));
}

#[test]
fn listed_blocks_become_nodes_that_share_as_before() {
    let blocks = |kv, blocks: &[u32]| RequestSpec::Blocks { kv, blocks: blocks.to_vec() };
    let mut spec = tree();
    spec.requests.extend([blocks(70, &[1, 2, 3]), blocks(96, &[1, 2, 4]), blocks(10, &[9])]);
    let tree = PrefixTree::of(&spec.build().unwrap());
    let made = nodes_of_blocks(&spec, &tree);
    let after = PrefixTree::of(&made.build().unwrap());
    assert_eq!((made.roots.len(), made.requests.len()), (4, 2));
    assert_eq!((after.nodes.len(), after.unique_tokens()), (tree.nodes.len(), tree.unique_tokens()));
}

#[test]
fn only_decodes_before_listed_blocks_have_a_number() {
    let mut spec = tree();
    let decode = |count| RequestSpec::Decode { kv: 50, count };
    spec.requests.extend([decode(3), RequestSpec::Blocks { kv: 70, blocks: vec![1, 2, 3] }, decode(1)]);
    let numbers = Numbers::of(&spec);
    let own = numbers.of_requests(&spec);
    assert_eq!(own, [Some(NodeIdx(9)), None, Some(NodeIdx(11)), None, None]);
    for (at, node) in own.iter().enumerate().filter_map(|(at, node)| Some((at, (*node)?))) {
        assert_eq!(numbers.pick(&spec, node), Some((Pick::Request(at), 0)));
    }
}

#[test]
fn what_is_one_node_of_the_tree_is_found_by_its_number() {
    let spec = tree();
    let numbers = Numbers::of(&spec);
    assert_eq!(numbers.number(&spec, &Path::root(0).child(0)), Some(NodeIdx(1)));
    assert_eq!(numbers.pick(&spec, NodeIdx(3)), Some((Pick::Node(Path::root(0).child(0).child(0)), 1)));
    assert_eq!(numbers.pick(&spec, NodeIdx(9)), Some((Pick::Request(0), 0)));
    assert_eq!(numbers.pick(&spec, NodeIdx(99)), None);
}
