//! The search for the cheapest packing, from the leaves to the roots.
//!
//! At each node the open packs of its children are either *kept* (they go on through the node) or
//! *pooled* (they begin below it, and their queries join those that end at the node). What is pooled
//! becomes full packs, which are free from here on, and one open pack of the rest (two, where splitting it
//! costs less than the slots that this can save). So all that the
//! nodes above need to know of a subtree is the multiset of sizes of its open packs and its price:
//! a [`State`]. `super` derives this form and says why nothing is lost by it.
//!
//! Prices are in bytes × M relative to the cheapest state of the node, in the form of `super`: an
//! open pack of x queries wastes `tokens · kv1 · (M − x)`, a pooled query costs `M · slot`.
//!
//! What keeps the lists of states short, each by proof:
//!
//! * **Equal copies.** Of open packs of one size x, `M / gcd(x, M)` together can change their fate at
//!   a fixed price, because the rests of all pools stay as they are. Fates other than the cheapest
//!   therefore hold fewer than that many; pooling here is always cheaper than pooling above.
//! * **Dominance.** A state X can act as Y from the parent on by pooling there the packs in which they
//!   differ, or by leading its own ones on to the root. So Y is dropped where X and the cheaper of
//!   these cost less than Y: less, not as much, for then nothing that begins as Y is the best, and
//!   two ways cannot drop each other. The same holds among the choices for some of a node's children.
//!
//! Nodes with the same tokens, ancestors and children share one search. For a tile of fixed height the
//! states of a node are bounded whatever the number of requests, so the time is linear in nodes. Near
//! ties can make the lists long all the same, so the whole search has a budget: in large trees lists
//! are cut to the most promising, and [`Search::cut`] says that the least is no longer proved.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::pack::min_traffic::sizes::Sizes;
use crate::units::NodeIdx;
use crate::workload::PrefixTree;

/// States of all nodes together, and choices while children are folded in. Each node has its share,
/// within the bounds.
const STATES: usize = 4096;
const STATES_OF_NODE: (usize, usize) = (4, 256);
const CHOICES: usize = 16_384;
const CHOICES_OF_NODE: (usize, usize) = (12, 4096);
/// Ways for children of one menu, which are as many as the product over the sizes of their packs.
const WAYS: usize = 65_536;
const WAYS_OF_NODE: (usize, usize) = (128, 4096);
/// A choice is compared with this many of the cheapest ones.
const COMPARED: usize = 12;

/// What things cost, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Price {
    /// K and V of one token over all heads.
    pub(super) kv_token: u64,
    /// One more pack of one query: its Q, and its partial written and read.
    pub(super) slot: u64,
    /// Most queries of a pack, M.
    pub(super) most: u32,
}

/// One way to pack a subtree.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// Open packs: those that cover the node and are not full.
    sizes: Sizes,
    /// Price, bytes × M above the cheapest state.
    cost: u64,
    /// Last step that led here.
    step: u32,
}

/// A choice for some of the children of a node.
#[derive(Clone, Debug)]
pub(super) struct Step {
    before: u32,
    /// Children it is about.
    pub(super) children: u32,
    /// Their state.
    pub(super) state: u32,
    /// Of their open packs, those that are kept.
    pub(super) kept: Sizes,
}

/// The steps of a state: a few as a rule.
pub(super) type Steps<'a> = SmallVec<[&'a Step; 8]>;

const NO_STEP: u32 = u32::MAX;

/// Nodes that look the same to the search.
#[derive(Debug)]
struct Class {
    states: Vec<State>,
    steps: Vec<Step>,
    menu: u32,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    tokens: u64,
    ending: u32,
    root: bool,
    /// Tokens of all nodes above.
    above: u64,
    /// (menu, children with it), ascending.
    children: SmallVec<[(u32, u32); 2]>,
}

/// A partial choice: some children are folded in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Choice {
    kept: Sizes,
    /// Pooled queries modulo M.
    rest: u32,
    /// Price below the node and of the pooled queries, without readings of the node.
    base: u64,
    cost: u64,
    step: u32,
}

/// What is known of a node beside its children.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// KV bytes of the node.
    bytes: u64,
    root: bool,
    /// KV bytes of all nodes above.
    above: u64,
}

/// The search over a whole tree, done.
#[derive(Debug)]
pub(super) struct Search<'a> {
    tree: &'a PrefixTree,
    price: Price,
    block_size: u64,
    depth: u32,
    classes: Vec<Class>,
    class_of: Vec<u32>,
    /// Children of all nodes as in the tree, but those with equal menus side by side.
    children: Vec<NodeIdx>,
    /// Whether a list of states had to be cut, so that the result may not be the least.
    pub(super) cut: bool,
}

impl<'a> Search<'a> {
    /// Searches the tree.
    pub(super) fn new(tree: &'a PrefixTree, price: Price, block_size: u32) -> Self {
        let nodes = tree.nodes.len();
        let mut search = Self {
            tree,
            price,
            block_size: u64::from(block_size),
            depth: tree.depth(),
            classes: Vec::new(),
            class_of: vec![0; nodes],
            children: tree.child_list.clone(),
            cut: false,
        };
        let mut by_key: FxHashMap<Key, u32> = FxHashMap::default();
        let mut menus: FxHashMap<Vec<(Sizes, u64)>, u32> = FxHashMap::default();
        for node in (0..nodes).rev().map(NodeIdx::from) {
            let key = search.key(node);
            let class = by_key.get(&key).copied().unwrap_or_else(|| {
                let mut class = search.solve(&key);
                let offered: Vec<(Sizes, u64)> = class.states.iter().map(|s| (s.sizes.clone(), s.cost)).collect();
                let number = search.classes.len() as u32;
                class.menu = *menus.entry(offered).or_insert(number);
                search.classes.push(class);
                by_key.insert(key, number);
                number
            });
            search.class_of[node.at()] = class;
        }
        search
    }

    /// Children of a node in the order of its steps.
    pub(super) fn children(&self, node: NodeIdx) -> &[NodeIdx] {
        let range = &self.tree.node(node).children;
        &self.children[range.start as usize..range.end as usize]
    }

    /// The steps of one state of a node, in the order of its children.
    pub(super) fn steps(&self, node: NodeIdx, state: u32) -> Steps<'_> {
        let class = &self.classes[self.class_of[node.at()] as usize];
        let mut steps = Steps::new();
        let mut at = class.states[state as usize].step;
        while at != NO_STEP {
            let step = &class.steps[at as usize];
            steps.push(step);
            at = step.before;
        }
        steps.reverse();
        steps
    }

    /// Sizes of the open packs that end at a node in one of its states, ascending.
    pub(super) fn own_open(&self, node: NodeIdx, state: u32) -> SmallVec<[u32; 4]> {
        let class = &self.classes[self.class_of[node.at()] as usize];
        let of = &class.states[state as usize];
        let all = |sizes: &Sizes| {
            let pairs = sizes.pairs().iter();
            pairs.flat_map(|(size, count)| std::iter::repeat_n(*size, *count as usize)).collect()
        };
        if of.step == NO_STEP {
            return all(&of.sizes);
        }
        let mut left = of.sizes.clone();
        let mut at = of.step;
        while at != NO_STEP {
            left.remove(&class.steps[at as usize].kept);
            at = class.steps[at as usize].before;
        }
        all(&left)
    }

    fn menu(&self, node: NodeIdx) -> u32 {
        self.classes[self.class_of[node.at()] as usize].menu
    }

    fn key(&mut self, node: NodeIdx) -> Key {
        let of = self.tree.node(node);
        let range = of.children.start as usize..of.children.end as usize;
        let mut list = std::mem::take(&mut self.children);
        list[range.clone()].sort_by_key(|child| self.menu(*child));
        self.children = list;
        let mut children: SmallVec<[(u32, u32); 2]> = SmallVec::new();
        for child in &self.children[range] {
            let menu = self.menu(*child);
            match children.last_mut() {
                Some(last) if last.0 == menu => last.1 += 1,
                _ => children.push((menu, 1)),
            }
        }
        let ending = of.ending % self.price.most;
        // The tokens of a leaf cost the same whatever is chosen, unless its open pack may be split.
        let (tokens, above) = if of.is_leaf() && !self.may_split(of.tokens.0 * self.price.kv_token, ending) {
            (0, 0)
        } else {
            (of.tokens.0, u64::from(of.blocks.start) * self.block_size)
        };
        Key { tokens, ending, root: of.parent.is_none(), above, children }
    }

    /// Whether an open pack of `rest` queries that ends at a node of `bytes` may be better as two. As one
    /// pack it can be pooled where the first part would be; the other part then pays a slot a query more.
    fn may_split(&self, bytes: u64, rest: u32) -> bool {
        rest > 1 && bytes < self.price.slot * u64::from(rest - 1)
    }

    fn solve(&mut self, key: &Key) -> Class {
        let mut steps = Vec::new();
        let mut choices = vec![Choice { kept: Sizes::default(), rest: key.ending, base: 0, cost: 0, step: NO_STEP }];
        let kv_token = self.price.kv_token;
        let place = Place { bytes: key.tokens * kv_token, root: key.root, above: key.above * kv_token };
        for (menu, count) in &key.children {
            let alone = self.classes[*menu as usize].states.len() == 1;
            let (times, copies) = if alone { (1, *count) } else { (*count, 1) };
            for _ in 0..times {
                choices = self.fold(place, &choices, (*menu, copies), &mut steps);
                choices.sort_unstable();
                choices.dedup_by(|a, b| a.kept == b.kept && a.rest == b.rest);
                let promise = |c: &Choice| c.cost + self.ahead(place, &c.kept);
                let dominates = |x: &Choice, y: &Choice| self.dominates(place, x, y);
                self.cut |= keep_best(&mut choices, promise, dominates, self.share(CHOICES, CHOICES_OF_NODE));
            }
        }
        let states = self.finish(place, choices);
        Class { states, steps, menu: 0 }
    }

    /// Adds `copies` children of one menu to every choice, in every way that can be the best.
    fn fold(
        &mut self,
        place: Place,
        choices: &[Choice],
        (menu, copies): (u32, u32),
        steps: &mut Vec<Step>,
    ) -> Vec<Choice> {
        let (mut out, mut any_cut) = (Vec::new(), false);
        for (state, number) in self.classes[menu as usize].states.iter().zip(0..) {
            let (ways, cut) = self.ways(place, &state.sizes, copies);
            any_cut |= cut;
            for (kept, pooled) in ways {
                let waste = self.waste(place, &kept);
                let base = state.cost + u64::from(self.price.most) * self.price.slot * pooled;
                for choice in choices {
                    let mut next = choice.clone();
                    kept.pairs().iter().for_each(|(size, count)| next.kept.add(*size, *count));
                    next.rest = ((u64::from(choice.rest) + pooled) % u64::from(self.price.most)) as u32;
                    next.base += base;
                    next.cost += base + waste;
                    next.step = steps.len() as u32;
                    steps.push(Step { before: choice.step, children: copies, state: number, kept: kept.clone() });
                    out.push(next);
                }
            }
        }
        self.cut |= any_cut;
        out
    }

    /// Which of `copies` times the packs `sizes` are kept, with the queries pooled then, and whether the list had to be cut.
    fn ways(&self, place: Place, sizes: &Sizes, copies: u32) -> (Vec<(Sizes, u64)>, bool) {
        let Price { slot, most, .. } = self.price;
        let promise = |(kept, pooled): &(Sizes, u64)| {
            u64::from(most) * slot * pooled + self.waste(place, kept) + self.ahead(place, kept)
        };
        let (mut cut, most_ways) = (false, self.share(WAYS, WAYS_OF_NODE));
        let mut ways = vec![(Sizes::default(), 0)];
        for (size, count) in sizes.pairs() {
            let all = count * copies;
            let before = std::mem::take(&mut ways);
            for kept in self.kept_counts(place.bytes, *size, all) {
                for (others, pooled) in &before {
                    let mut these = others.clone();
                    these.add(*size, kept);
                    ways.push((these, pooled + u64::from(*size) * u64::from(all - kept)));
                }
            }
            if ways.len() > most_ways {
                cut |= keep_best(&mut ways, promise, |_, _| false, most_ways);
            }
        }
        (ways, cut)
    }

    /// What packs of fewer than M queries waste by their readings of a node, bytes × M.
    fn waste(&self, place: Place, packs: &Sizes) -> u64 {
        let of = |(size, count): &(u32, u32)| u64::from(*count) * place.bytes * u64::from(self.price.most - size);
        packs.pairs().iter().map(of).sum()
    }

    /// How many of `all` open packs of one size may be kept in a cheapest packing: few or nearly all,
    /// see the module.
    fn kept_counts(&self, bytes: u64, size: u32, all: u32) -> impl Iterator<Item = u32> + use<> {
        let Price { slot, most, .. } = self.price;
        let period = most / gcd(size, most);
        let (mut few, mut pooled) = ((period - 1) * self.depth.max(1), period - 1);
        // Where each kept pack wastes more than keeping it can ever save, `margin` bounds them.
        let waste = bytes * u64::from(most - size);
        let saved = u64::from(most) * 2 * slot * u64::from(size);
        if waste > saved {
            let once = u64::from(most) * (bytes + slot * u64::from(most));
            few = few.min(u32::try_from(once / (waste - saved) + 1).unwrap_or(u32::MAX));
            pooled = 0;
        }
        (0..=all).filter(move |kept| *kept <= few || all - kept <= pooled && pooled > 0)
    }

    /// A node's share of a budget.
    fn share(&self, budget: usize, (least, most): (usize, usize)) -> usize {
        (budget / self.class_of.len().max(1)).clamp(least, most)
    }

    /// What open packs cost at least from the parent on: each is pooled once, or wastes its part of
    /// every reading up to the root.
    fn ahead(&self, place: Place, sizes: &Sizes) -> u64 {
        let Price { slot, most, .. } = self.price;
        let of = |(size, count): &(u32, u32)| {
            let pooled = u64::from(most) * slot * u64::from(*size);
            u64::from(*count) * pooled.min(place.above * u64::from(most - size))
        };
        if place.root { 0 } else { sizes.pairs().iter().map(of).sum() }
    }

    /// Whether `y` cannot lead to less than `x`, whatever the children that are still to come.
    fn dominates(&self, place: Place, x: &Choice, y: &Choice) -> bool {
        let Price { slot, most, .. } = self.price;
        let most = u64::from(most);
        // With one reading more here at most, X would have to cost less even if it became Y for nothing.
        let last_pack = most * place.bytes;
        if x.base >= y.base && x.cost + last_pack >= y.cost {
            return false;
        }
        let (x_only, y_only) = x.kept.differences(&y.kept);
        // Here: X pools what it keeps beyond Y, and forms Y's packs from its pool.
        if x.base + most * slot * x_only.queries < y.base {
            return true;
        }
        // Later: X goes on as it is, with at most one reading more here, and becomes Y at the parent.
        if place.root {
            return x.cost + last_pack < y.cost;
        }
        let pooled = x_only.queries.max(y_only.queries) + most;
        let at_parent = most * slot * pooled;
        let extra_full = y_only.queries.saturating_sub(x_only.queries) / most + 1;
        let to_root = most * place.above * (x_only.packs + 1 + extra_full);
        x.cost + last_pack + at_parent.min(to_root) < y.cost
    }

    /// Pools what is left and drops states that cannot be the best.
    fn finish(&mut self, place: Place, choices: Vec<Choice>) -> Vec<State> {
        let most = self.price.most;
        let mut states: Vec<State> = Vec::with_capacity(choices.len());
        for Choice { kept, rest, cost, step, .. } in choices {
            let mut push = |parts: [u32; 2]| {
                let (mut sizes, mut cost) = (kept.clone(), cost);
                for part in parts.into_iter().filter(|part| *part > 0) {
                    sizes.add(part, 1);
                    cost += place.bytes * u64::from(most - part);
                }
                states.push(State { sizes, cost, step });
            };
            push([0, rest]);
            // Zero bytes stand for a leaf that is too long for it.
            if !place.root && place.bytes > 0 && self.may_split(place.bytes, rest) {
                let worth = |part: &u32| place.bytes < self.price.slot * u64::from(rest - part);
                (1..=rest / 2).filter(worth).for_each(|part| push([part, rest - part]));
            }
        }
        states.sort_unstable_by(|a, b| (&a.sizes, a.cost, a.step).cmp(&(&b.sizes, b.cost, b.step)));
        states.dedup_by(|a, b| a.sizes == b.sizes);
        let promise = |s: &State| s.cost + self.ahead(place, &s.sizes);
        let dominates =
            |x: &State, y: &State| x.cost < y.cost && x.cost + self.margin(place, &x.sizes, &y.sizes) < y.cost;
        let most_states = if place.root { usize::MAX } else { self.share(STATES, STATES_OF_NODE) };
        let cut = keep_best(&mut states, promise, dominates, most_states);
        self.cut |= cut;
        if place.root {
            states.truncate(1);
        }
        let least = states.iter().map(|s| s.cost).min().unwrap_or(0);
        for state in &mut states {
            state.cost -= least;
        }
        states
    }

    /// What it costs at most to make open packs `x` do as `y` from the parent on.
    fn margin(&self, place: Place, x: &Sizes, y: &Sizes) -> u64 {
        let Price { slot, most, .. } = self.price;
        let most = u64::from(most);
        if place.root {
            return 0;
        }
        let (x_only, y_only) = x.differences(y);
        let mut pooled = x_only.queries.max(y_only.queries);
        let extra_full = y_only.queries.saturating_sub(x_only.queries) / most;
        if x_only.packs + extra_full <= y_only.packs {
            // X waits until Y pools one of these, which then costs Y as well.
            pooled -= y_only.smallest;
        }
        let at_parent = most * slot * pooled;
        let to_root = most * place.above * (x_only.packs + extra_full);
        at_parent.min(to_root)
    }
}

/// Sorts by promise, drops what a better one dominates, and cuts the list at `most`. Tells whether it
/// cut. The first is the cheapest where nothing is ahead.
fn keep_best<T>(
    list: &mut Vec<T>,
    promise: impl Fn(&T) -> u64,
    dominates: impl Fn(&T, &T) -> bool,
    most: usize,
) -> bool {
    list.sort_by_cached_key(|item| promise(item));
    let mut kept: Vec<T> = Vec::with_capacity(list.len());
    let mut cut = false;
    for item in list.drain(..) {
        if kept.iter().take(COMPARED).any(|x| dominates(x, &item)) {
            continue;
        }
        if kept.len() == most {
            cut = true;
            continue;
        }
        kept.push(item);
    }
    *list = kept;
    cut
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::random_forest;

    /// Packs of many sizes below one node, which can be kept and pooled in 74,100 ways: 1.5 million steps if all were taken.
    #[test]
    fn packs_of_many_sizes_are_not_tried_in_every_way() {
        let batch = random_forest(20_319_174, 0).build().unwrap();
        let shape = &batch.shape;
        let slot = shape.query_bytes().0 + 2 * shape.partial_bytes().0;
        let price = Price { kv_token: shape.kv_bytes_per_token().0, slot, most: 64 / shape.group() };
        let tree = PrefixTree::of(&batch);
        let search = Search::new(&tree, price, shape.block_size);
        let steps: usize = search.classes.iter().map(|class| class.steps.len()).sum();
        assert!(search.cut && steps < 200_000, "{steps} steps");
    }
}
