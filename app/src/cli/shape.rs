//! The shape of a batch with what the options change in it.

use engine::workload::{self, AttentionShape, Model};

use crate::cli::args::BatchArgs;
use crate::cli::fault::Outcome;

/// The shape with what the options change in it.
pub(crate) fn shape(args: &BatchArgs, mut shape: AttentionShape) -> Outcome<AttentionShape> {
    if let Some(name) = &args.model {
        shape = Model::find(name)?.shape(args.tp, shape.block_size)?;
    }
    if let Some(heads) = &args.heads {
        (shape.query_heads, shape.kv_heads) = workload::parse_heads(heads)?;
    }
    if let Some(head_dim) = args.head_dim {
        shape.head_dim = head_dim;
    }
    if let Some(dtype) = &args.dtype {
        shape.dtype = dtype.parse()?;
    }
    if let Some(block_size) = args.block_size {
        shape.block_size = block_size;
    }
    Ok(shape)
}
