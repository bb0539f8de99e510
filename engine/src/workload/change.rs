//! What changes in a batch from one decode step to the next.

use crate::units::{BlockIdx, QueryIdx, Tokens};

/// One change of a batch. Requests are numbered as they stand after the changes before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A request has one token more.
    Append {
        /// The request.
        query: QueryIdx,
        /// The block that begins with the token, where the last one is full.
        block: Option<BlockIdx>,
    },
    /// A request is done; those behind it move up by one.
    Leave {
        /// The request.
        query: QueryIdx,
    },
    /// A request comes in as the last.
    Join {
        /// Its KV tokens.
        kv: Tokens,
        /// Its block table row.
        row: Vec<BlockIdx>,
    },
}

/// How far changes reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// Leaves got longer; nodes and who shares them are as before.
    Lengths,
    /// Nodes came, went or were cut, and the tree was changed in place.
    Tree,
    /// The tree was built anew.
    Anew,
}
