//! From the edited form to a checked batch: numbers the blocks and writes the tables.

use crate::error::{Error, Result};
use crate::units::{BlockIdx, Tokens, counted, grouped};
use crate::workload::{Batch, BatchSpec, BlockTables, Limits, NodeSpec, Request, RequestKind, RequestSpec};

/// Builds the batch of `spec`; see [`BatchSpec::build`].
pub(super) fn build(spec: &BatchSpec) -> Result<Batch> {
    let built = walk(spec, Some(BlockTables::new()))?;
    Batch::new(spec.name.clone(), spec.shape, built.requests, built.tables.unwrap_or_default())
}

/// The requests of `spec` without their block tables; see [`BatchSpec::outline`].
pub(super) fn outline(spec: &BatchSpec) -> Result<Vec<Request>> {
    walk(spec, None).map(|built| built.requests)
}

/// Walks the trees and the list, and fills `tables` where there are any.
fn walk(spec: &BatchSpec, tables: Option<BlockTables>) -> Result<Builder> {
    spec.shape.validate()?;
    check_size(spec)?;
    let mut builder = Builder {
        block_size: u64::from(spec.shape.block_size),
        next_block: first_free_block(spec)?,
        path: Vec::new(),
        path_tokens: 0,
        requests: Vec::new(),
        entries: 0,
        tables,
    };
    for (position, root) in spec.roots.iter().enumerate() {
        builder.node(root, &format!("root {position}"))?;
    }
    for request in &spec.requests {
        builder.request(request)?;
    }
    Ok(builder)
}

/// Refuses by counting alone what would be too large to lay out.
fn check_size(spec: &BatchSpec) -> Result<()> {
    let depth = spec.depth();
    if depth > Limits::DEPTH {
        return Err(Error::Batch(format!(
            "{} nodes stand below one another, but at most {} are supported",
            grouped(depth as u64),
            grouped(Limits::DEPTH as u64)
        )));
    }
    let listed = spec.requests.iter().map(|request| match request {
        RequestSpec::Decode { count, .. } => u64::from(*count),
        RequestSpec::Blocks { .. } | RequestSpec::Prefill { .. } => 1,
    });
    let total = spec.roots.iter().map(NodeSpec::request_count).chain(listed).fold(0_u64, u64::saturating_add);
    if total > Limits::REQUESTS as u64 {
        return Err(Error::Batch(format!(
            "{} requests, but at most {} are supported",
            Tokens(total),
            Tokens(Limits::REQUESTS as u64)
        )));
    }
    Ok(())
}

/// Explicit blocks keep their ids; ours are numbered above them.
fn first_free_block(spec: &BatchSpec) -> Result<u64> {
    let largest = spec.requests.iter().filter_map(|request| match request {
        RequestSpec::Blocks { blocks, .. } => blocks.iter().copied().max(),
        RequestSpec::Decode { .. } | RequestSpec::Prefill { .. } => None,
    });
    match largest.max() {
        Some(block) if block >= 1 << 30 => {
            Err(Error::Batch(format!("block id {block} is too large; ids go up to {}", (1_u32 << 30) - 1)))
        }
        Some(block) => Ok(u64::from(block) + 1),
        None => Ok(0),
    }
}

struct Builder {
    block_size: u64,
    next_block: u64,
    /// Blocks from the root to the node at hand.
    path: Vec<BlockIdx>,
    path_tokens: u64,
    requests: Vec<Request>,
    /// Entries of all rows so far.
    entries: u64,
    /// The rows, unless only the requests are asked for.
    tables: Option<BlockTables>,
}

impl Builder {
    fn node(&mut self, node: &NodeSpec, place: &str) -> Result<()> {
        self.check_node(node, place)?;
        for _ in 0..node.repeat {
            let (blocks_above, tokens_above) = (self.path.len(), self.path_tokens);
            self.extend_path(node.tokens, place)?;
            for _ in 0..node.ending() {
                let (tokens, row) = (self.path_tokens, self.path.clone());
                self.push(RequestKind::Decode, tokens, row)?;
            }
            for (position, child) in node.children.iter().enumerate() {
                self.node(child, &format!("{place}, child {position}"))?;
            }
            self.path.truncate(blocks_above);
            self.path_tokens = tokens_above;
        }
        Ok(())
    }

    fn check_node(&self, node: &NodeSpec, place: &str) -> Result<()> {
        let wrong = |text: String| Err(Error::Batch(format!("{place}: {text}")));
        if node.tokens == 0 {
            return wrong("0 tokens, but a node has at least 1".to_owned());
        }
        if node.tokens > Limits::TOKENS {
            return wrong(format!(
                "{} tokens, but a request has at most {}",
                Tokens(node.tokens),
                Tokens(Limits::TOKENS)
            ));
        }
        if node.repeat == 0 {
            return wrong("repeat is 0; remove the node instead".to_owned());
        }
        if !node.children.is_empty() && !node.tokens.is_multiple_of(self.block_size) {
            return wrong(format!(
                "{} shared below, but only whole blocks can be shared; use a multiple of {}",
                counted(node.tokens, "token"),
                self.block_size
            ));
        }
        if node.request_count() == 0 {
            return wrong("no request ends here or below; give it requests or remove it".to_owned());
        }
        Ok(())
    }

    fn extend_path(&mut self, tokens: u64, place: &str) -> Result<()> {
        self.path_tokens += tokens;
        if self.path_tokens > Limits::TOKENS {
            return Err(Error::Batch(format!(
                "{place}: the requests here have {} tokens, but at most {} are supported",
                Tokens(self.path_tokens),
                Tokens(Limits::TOKENS)
            )));
        }
        let fresh = self.take_blocks(tokens)?;
        if self.tables.is_some() {
            self.path.extend(fresh);
        }
        Ok(())
    }

    fn take_blocks(&mut self, tokens: u64) -> Result<impl Iterator<Item = BlockIdx> + use<>> {
        let first = self.next_block;
        self.next_block += tokens.div_ceil(self.block_size);
        if self.next_block >= u64::from(u32::MAX) {
            return Err(Error::Batch("the batch needs more than 4 billion KV blocks".to_owned()));
        }
        Ok((first..self.next_block).map(|id| BlockIdx(id as u32)))
    }

    fn push(&mut self, kind: RequestKind, tokens: u64, row: impl IntoIterator<Item = BlockIdx>) -> Result<()> {
        self.entries += tokens.div_ceil(self.block_size);
        if self.entries > Limits::TABLE_ENTRIES {
            return Err(Error::Batch(format!(
                "the block tables have more than {} entries; use larger blocks or fewer tokens",
                Tokens(Limits::TABLE_ENTRIES)
            )));
        }
        self.requests.push(Request { kind, kv: Tokens(tokens) });
        if let Some(tables) = &mut self.tables {
            tables.push(row);
        }
        Ok(())
    }

    fn request(&mut self, request: &RequestSpec) -> Result<()> {
        let check = |kv: u64| {
            if kv == 0 || kv > Limits::TOKENS {
                return Err(Error::Batch(format!(
                    "a listed request has {} KV tokens, but it must have 1 to {}",
                    Tokens(kv),
                    Tokens(Limits::TOKENS)
                )));
            }
            Ok(())
        };
        match request {
            RequestSpec::Decode { kv, count } => {
                check(*kv)?;
                for _ in 0..*count {
                    let row = self.take_blocks(*kv)?;
                    self.push(RequestKind::Decode, *kv, row)?;
                }
            }
            RequestSpec::Blocks { kv, blocks } => {
                check(*kv)?;
                self.push(RequestKind::Decode, *kv, blocks.iter().copied().map(BlockIdx))?;
            }
            RequestSpec::Prefill { chunk, kv } => {
                check(*kv)?;
                let row = self.take_blocks(*kv)?;
                self.push(RequestKind::Prefill { chunk: Tokens(*chunk) }, *kv, row)?;
            }
        }
        Ok(())
    }
}
