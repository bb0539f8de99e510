//! A batch that has been checked: requests and their paged block tables.

use crate::error::{Error, Result};
use crate::units::{BlockIdx, QueryIdx, Tokens, counted};
use crate::workload::AttentionShape;

/// What a request asks for in this step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// One query token over the whole KV.
    Decode,
    /// A causal chunk of query tokens that ends at the KV length.
    Prefill {
        /// Query tokens of the chunk.
        chunk: Tokens,
    },
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Decode or prefill.
    pub kind: RequestKind,
    /// KV tokens, the query's own included.
    pub kv: Tokens,
}

impl Request {
    /// Whether this is a decode request.
    pub fn is_decode(&self) -> bool {
        self.kind == RequestKind::Decode
    }
}

/// Physical KV blocks of each request, one row a request, all rows in one array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockTables {
    blocks: Vec<BlockIdx>,
    /// Row r is `blocks[starts[r]..starts[r + 1]]`.
    starts: Vec<u32>,
}

impl BlockTables {
    /// No rows yet.
    pub fn new() -> Self {
        Self { blocks: Vec::new(), starts: vec![0] }
    }

    /// Adds the row of the next request.
    pub fn push(&mut self, row: impl IntoIterator<Item = BlockIdx>) {
        self.blocks.extend(row);
        self.starts.push(self.blocks.len() as u32);
    }

    /// Block ids of one request in token order.
    pub fn row(&self, request: QueryIdx) -> &[BlockIdx] {
        &self.blocks[self.starts[request.at()] as usize..self.starts[request.at() + 1] as usize]
    }

    /// All rows one after another.
    pub fn all(&self) -> &[BlockIdx] {
        &self.blocks
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The largest batch that packscope takes.
#[derive(Clone, Copy, Debug)]
pub struct Limits;

impl Limits {
    /// Requests of one batch.
    pub const REQUESTS: usize = 10_000;
    /// KV tokens of one request.
    pub const TOKENS: u64 = 1 << 20;
    /// Nodes below one another, as many turns as a conversation may have. Bounded, so that no batch exhausts
    /// the stack of whoever walks down its nodes.
    pub const DEPTH: usize = 1000;
    /// Entries of all block tables together (512 MiB of ids).
    pub const TABLE_ENTRIES: u64 = 1 << 27;
}

/// A batch that can be planned: every invariant below holds.
///
/// * the shape is one that kernels compute;
/// * 1 to 10,000 requests (none only in the empty batch of the window), each of 1 to 1 Mi tokens;
/// * row r of the tables has `ceil(kv / block_size)` ids, none twice.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Name for lists and titles.
    pub name: String,
    /// Attention shape.
    pub shape: AttentionShape,
    requests: Vec<Request>,
    tables: BlockTables,
}

impl Batch {
    /// Checks requests and tables against each other.
    ///
    /// # Errors
    /// [`Error::Batch`] names the request and the figure that is wrong.
    pub fn new(name: String, shape: AttentionShape, requests: Vec<Request>, tables: BlockTables) -> Result<Self> {
        shape.validate()?;
        if requests.len() > Limits::REQUESTS {
            return Err(Error::Batch(format!(
                "{} requests, but at most {} are supported",
                Tokens(requests.len() as u64),
                Tokens(Limits::REQUESTS as u64)
            )));
        }
        if requests.len() != tables.len() {
            return Err(Error::Batch(format!(
                "{} but {}",
                counted(requests.len() as u64, "request"),
                counted(tables.len() as u64, "block table row")
            )));
        }
        let mut seen = SeenBlocks::new(&tables);
        for (position, request) in requests.iter().enumerate() {
            let row = tables.row(QueryIdx::from(position));
            check_request(position, request, row, shape.block_size)?;
            if let Some(block) = seen.first_repeat(row) {
                return Err(Error::Batch(format!("request {position} has block {} twice", block.0)));
            }
        }
        Ok(Self { name, shape, requests, tables })
    }

    /// A request has one token more. Tables follow with [`Self::set_tables`], as for all changes here.
    pub(super) fn grow(&mut self, query: QueryIdx) {
        self.requests[query.at()].kv += Tokens(1);
    }

    /// A request is gone.
    pub(super) fn remove(&mut self, query: QueryIdx) {
        self.requests.remove(query.at());
    }

    /// A request comes in as the last, if it and its row are right.
    pub(super) fn push(&mut self, request: Request, row: &[BlockIdx]) -> Result<()> {
        let position = self.requests.len();
        if position >= Limits::REQUESTS {
            return Err(Error::Batch(format!("at most {} requests are supported", Tokens(Limits::REQUESTS as u64))));
        }
        check_request(position, &request, row, self.shape.block_size)?;
        let mut seen = rustc_hash::FxHashSet::default();
        if let Some(block) = row.iter().find(|block| !seen.insert(**block)) {
            return Err(Error::Batch(format!("request {position} has block {} twice", block.0)));
        }
        self.requests.push(request);
        Ok(())
    }

    /// The tables after changes that were checked.
    pub(super) fn set_tables(&mut self, tables: BlockTables) {
        self.tables = tables;
    }

    /// All requests.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// One request.
    pub fn request(&self, query: QueryIdx) -> &Request {
        &self.requests[query.at()]
    }

    /// The block tables.
    pub fn tables(&self) -> &BlockTables {
        &self.tables
    }

    /// The decode requests in order.
    pub fn decodes(&self) -> impl Iterator<Item = (QueryIdx, &Request)> {
        self.requests.iter().enumerate().filter(|(_, r)| r.is_decode()).map(|(i, r)| (QueryIdx::from(i), r))
    }

    /// The prefill chunks in order.
    pub fn prefills(&self) -> impl Iterator<Item = (QueryIdx, &Request)> {
        self.requests.iter().enumerate().filter(|(_, r)| !r.is_decode()).map(|(i, r)| (QueryIdx::from(i), r))
    }

    /// KV tokens of all decode requests, shared ones counted once a request.
    pub fn decode_tokens(&self) -> Tokens {
        self.decodes().map(|(_, request)| request.kv).sum()
    }

    /// The same batch with block ids from 0 without holes, in the order of first use.
    ///
    /// # Errors
    /// As [`Self::new`]; none for a batch that stands.
    pub fn renumbered(&self) -> Result<Self> {
        let mut number = rustc_hash::FxHashMap::default();
        let mut tables = BlockTables::new();
        for request in 0..self.requests.len() {
            let row = self.tables.row(QueryIdx::from(request)).iter().map(|block| {
                let next = BlockIdx::from(number.len());
                *number.entry(*block).or_insert(next)
            });
            let row: Vec<BlockIdx> = row.collect();
            tables.push(row);
        }
        Self::new(self.name.clone(), self.shape, self.requests.clone(), tables)
    }

    /// Refuses prefill, for a backend that runs decodes only.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if there is a prefill chunk.
    pub fn require_decode_only(&self, who: &str) -> Result<()> {
        match self.prefills().count() {
            0 => Ok(()),
            count => Err(Error::Unsupported {
                who: who.to_owned(),
                limit: format!(
                    "it has {}, which it does not run; run the batch on the simulator (--backend sim), or remove them to run the decode requests",
                    counted(count as u64, "prefill chunk")
                ),
            }),
        }
    }
}

fn check_request(position: usize, request: &Request, row: &[BlockIdx], block_size: u32) -> Result<()> {
    let wrong = |text: String| Err(Error::Batch(format!("request {position} {text}")));
    if request.kv.0 == 0 {
        return wrong("has 0 KV tokens, but every request has at least its own token".to_owned());
    }
    if request.kv.0 > Limits::TOKENS {
        return wrong(format!("has {} KV tokens, but at most {} are supported", request.kv, Tokens(Limits::TOKENS)));
    }
    if let RequestKind::Prefill { chunk } = request.kind
        && (chunk.0 == 0 || chunk > request.kv)
    {
        return wrong(format!(
            "is a prefill chunk of {} ending at {}; the chunk must be 1 to the KV length",
            counted(chunk.0, "token"),
            request.kv
        ));
    }
    let blocks = request.kv.0.div_ceil(u64::from(block_size));
    if row.len() as u64 != blocks {
        return wrong(format!(
            "has {}, which fill {} of {block_size}, but lists {}",
            counted(request.kv.0, "KV token"),
            counted(blocks, "block"),
            counted(row.len() as u64, "block")
        ));
    }
    Ok(())
}

/// Finds a block that stands twice in one row, in time linear in the rows.
struct SeenBlocks {
    /// Last row in which a block was seen, by block id; or a map where ids are sparse.
    stamp: Vec<u32>,
    sparse: Option<rustc_hash::FxHashSet<u32>>,
    row: u32,
}

impl SeenBlocks {
    fn new(tables: &BlockTables) -> Self {
        let largest = tables.all().iter().map(|block| block.0 as usize).max().unwrap_or(0);
        let dense = largest <= 4 * tables.all().len() + 1024;
        Self {
            stamp: if dense { vec![0; largest + 1] } else { Vec::new() },
            sparse: (!dense).then(rustc_hash::FxHashSet::default),
            row: 0,
        }
    }

    fn first_repeat(&mut self, row: &[BlockIdx]) -> Option<BlockIdx> {
        self.row += 1;
        if let Some(seen) = &mut self.sparse {
            seen.clear();
            return row.iter().copied().find(|block| !seen.insert(block.0));
        }
        row.iter().copied().find(|block| std::mem::replace(&mut self.stamp[block.at()], self.row) == self.row)
    }
}
