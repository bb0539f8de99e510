//! What choices cost in bytes, over all heads: the exact model, whatever a system's own rule says.

use crate::decision::Price;
use crate::pack::PackInput;
use crate::units::Tokens;

/// Bytes of reading `tokens` once.
pub(super) fn kv(input: &PackInput<'_>, tokens: Tokens) -> Price {
    Price::traffic((input.batch.shape.kv_bytes_per_token() * tokens.0).as_f64())
}

/// Bytes of one more fp32 partial of each of `queries`, written and read, and of reading Q for it.
pub(super) fn partials(input: &PackInput<'_>, queries: u32) -> Price {
    let shape = &input.batch.shape;
    let one = shape.partial_bytes() * 2 + shape.query_bytes();
    Price::traffic((one * u64::from(queries)).as_f64())
}
