//! Random sequences of steps: what lazy update gives equals planning from scratch.

use proptest::prelude::*;

use super::{How, PlanningThread, Replanner, plan_anew};
use crate::hw;
use crate::pack::schedulers;
use crate::plan::Strategy as LaunchStrategy;
use crate::session::PlanOptions;
use crate::units::{BlockIdx, QueryIdx, Tokens};
use crate::workload::{AttentionShape, Batch, BlockTables, Change, PrefixTree, Request, RequestKind};

const BLOCK: u64 = 16;

fn shape() -> AttentionShape {
    AttentionShape { query_heads: 4, kv_heads: 1, block_size: BLOCK as u32, ..AttentionShape::default() }
}

/// What a random number makes of a batch: most often tokens, at times a request that leaves or comes.
#[derive(Clone, Copy, Debug)]
enum Wish {
    Token(u32),
    /// A token in a block that somebody else has as well.
    SharedToken(u32, u32),
    Leave(u32),
    /// Shares the first blocks of a request, has more of its own.
    Join {
        like: u32,
        shared: u32,
        own: u32,
        fill: u64,
    },
}

fn wish() -> impl Strategy<Value = Wish> {
    prop_oneof![
        12 => any::<u32>().prop_map(Wish::Token),
        1 => (any::<u32>(), any::<u32>()).prop_map(|(a, b)| Wish::SharedToken(a, b)),
        2 => any::<u32>().prop_map(Wish::Leave),
        3 => (any::<u32>(), 0_u32..7, 0_u32..4, 0..BLOCK).prop_map(|(like, shared, own, fill)| Wish::Join { like, shared, own, fill }),
    ]
}

struct Model {
    rows: Vec<Vec<u32>>,
    kv: Vec<u64>,
    next_block: u32,
}

impl Model {
    fn new() -> Self {
        Self { rows: vec![vec![1, 2, 3]], kv: vec![3 * BLOCK - 2], next_block: 10 }
    }

    fn fresh(&mut self) -> u32 {
        self.next_block += 1;
        self.next_block
    }

    fn change(&mut self, wish: Wish) -> Option<Change> {
        let running = self.rows.len();
        let pick = move |number: u32| (number as usize).checked_rem(running);
        match wish {
            Wish::Token(number) => Some(self.token(pick(number)?, None)),
            Wish::SharedToken(number, other) => {
                let (query, other) = (pick(number)?, pick(other)?);
                let theirs = self.rows[other].last().copied().filter(|block| !self.rows[query].contains(block));
                Some(self.token(query, theirs))
            }
            Wish::Leave(number) => {
                let query = pick(number)?;
                self.rows.remove(query);
                self.kv.remove(query);
                Some(Change::Leave { query: QueryIdx::from(query) })
            }
            Wish::Join { like, shared, own, fill } => {
                let mut row: Vec<u32> = pick(like).map_or_else(Vec::new, |like| self.rows[like].clone());
                row.truncate(shared as usize);
                let own = if row.is_empty() { own.max(1) } else { own };
                for _ in 0..own {
                    let fresh = self.fresh();
                    row.push(fresh);
                }
                let kv = row.len() as u64 * BLOCK - fill;
                self.kv.push(kv);
                self.rows.push(row.clone());
                Some(Change::Join { kv: Tokens(kv), row: row.into_iter().map(BlockIdx).collect() })
            }
        }
    }

    fn token(&mut self, query: usize, block: Option<u32>) -> Change {
        let full = self.kv[query].is_multiple_of(BLOCK);
        let block = full.then(|| block.unwrap_or_else(|| self.fresh()));
        self.rows[query].extend(block);
        self.kv[query] += 1;
        Change::Append { query: QueryIdx::from(query), block: block.map(BlockIdx) }
    }

    fn batch(&self) -> Batch {
        let mut tables = BlockTables::new();
        for row in &self.rows {
            tables.push(row.iter().copied().map(BlockIdx));
        }
        let requests = self.kv.iter().map(|kv| Request { kind: RequestKind::Decode, kv: Tokens(*kv) }).collect();
        Batch::new(String::new(), shape(), requests, tables).unwrap()
    }
}

fn options(scheduler: &str, strategy: LaunchStrategy) -> PlanOptions {
    let device = hw::find("h200-sxm").unwrap();
    PlanOptions { scheduler: scheduler.to_owned(), strategy, explain: false, ..PlanOptions::new(device) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_step_equals_planning_from_scratch(steps in prop::collection::vec(prop::collection::vec(wish(), 1..4), 1..40)) {
        let mut model = Model::new();
        let mut lazy: Vec<Replanner> = Vec::new();
        for (number, scheduler) in schedulers().iter().enumerate() {
            let strategy = LaunchStrategy::ANY_BATCH[number % LaunchStrategy::ANY_BATCH.len()];
            if let Ok(replanner) = Replanner::new(model.batch(), &options(scheduler.name(), strategy)) {
                lazy.push(replanner);
            }
        }
        for wishes in steps {
            let changes: Vec<Change> = wishes.into_iter().filter_map(|wish| model.change(wish)).collect();
            let batch = model.batch();
            let tree = PrefixTree::of(&batch);
            for replanner in &mut lazy {
                let options = replanner.options.clone();
                let stepped = replanner.step(&changes);
                prop_assert_eq!(replanner.tree(), &tree, "after {:?}", changes);
                prop_assert_eq!(replanner.batch(), &batch);
                match (stepped, plan_anew(&batch, &options)) {
                    (Ok(lazy), Ok(anew)) => prop_assert_eq!(lazy.plan, anew.plan, "after {:?}", changes),
                    (lazy, anew) => prop_assert_eq!(lazy.is_err(), anew.is_err()),
                }
            }
        }
    }
}

fn pair() -> Batch {
    let mut tables = BlockTables::new();
    tables.push([1, 2, 3].map(BlockIdx));
    tables.push([1, 2, 4].map(BlockIdx));
    let requests = vec![Request { kind: RequestKind::Decode, kv: Tokens(40) }; 2];
    Batch::new(String::new(), shape(), requests, tables).unwrap()
}

fn append(query: u32, block: Option<u32>) -> Change {
    Change::Append { query: QueryIdx(query), block: block.map(BlockIdx) }
}

#[test]
fn each_kind_of_step_is_made_the_cheapest_way() {
    let mut replanner = Replanner::new(pair(), &options("min-traffic", LaunchStrategy::Fused)).unwrap();
    let mut step = |changes: &[Change]| replanner.step(changes).unwrap().how;
    assert_eq!(step(&[append(0, None), append(1, None)]), How::Lengthened);
    for _ in 0..7 {
        assert_eq!(step(&[append(0, None)]), How::Lengthened);
    }
    assert_eq!(step(&[append(0, Some(5))]), How::Lengthened, "a block of its own makes the leaf longer");
    assert_eq!(step(&[Change::Join { kv: Tokens(32), row: vec![BlockIdx(1), BlockIdx(2)] }]), How::Repacked);
    assert_eq!(step(&[Change::Leave { query: QueryIdx(0) }]), How::Repacked);
    assert_eq!(step(&[append(1, Some(4))]), How::Anew, "block 4 is another request's");
}

#[test]
fn a_change_that_cannot_be_is_refused_by_name_and_the_rest_stays_right() {
    let mut replanner = Replanner::new(pair(), &options("pat", LaunchStrategy::Streams)).unwrap();
    for (change, says) in [
        (append(7, None), "no such request"),
        (append(0, Some(9)), "has room in its last block"),
        (Change::Leave { query: QueryIdx(2) }, "cannot leave"),
        (Change::Join { kv: Tokens(32), row: vec![BlockIdx(1)] }, "fill 2 blocks"),
        (Change::Join { kv: Tokens(32), row: vec![BlockIdx(1), BlockIdx(1)] }, "twice"),
    ] {
        let text = replanner.step(&[change]).unwrap_err().to_string();
        assert!(text.contains(says), "{text} does not say '{says}'");
        assert_eq!(replanner.batch(), &pair());
        assert_eq!(replanner.tree(), &PrefixTree::of(&pair()));
    }
}

#[test]
fn the_planning_thread_gives_one_plan_a_step_in_order() {
    let options = options("min-traffic", LaunchStrategy::Fused);
    let mut here = Replanner::new(pair(), &options).unwrap();
    let thread = PlanningThread::start(here.clone()).unwrap();
    let steps: Vec<Vec<Change>> = (0..6).map(|_| vec![append(0, None), append(1, None)]).collect();
    for changes in &steps {
        thread.send(changes.clone()).unwrap();
    }
    thread.send(vec![append(9, None)]).unwrap();
    for changes in &steps {
        assert_eq!(thread.wait().unwrap().plan, here.step(changes).unwrap().plan);
    }
    assert!(thread.wait().unwrap_err().to_string().contains("no such request"));
    assert!(thread.try_next().is_none());
}
