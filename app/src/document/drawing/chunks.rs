//! Strokes in the prefill strip.

use engine::workload::{BatchSpec, Limits, RequestSpec};

/// Makes a chunk, or gives the one at `at` another place: `chunk` query tokens after `context`. Gives its position.
pub(super) fn set(spec: &mut BatchSpec, at: Option<usize>, context: u64, chunk: u64) -> Result<usize, String> {
    if chunk == 0 {
        return Err("a prefill chunk has at least 1 query token".to_owned());
    }
    let kv = context.saturating_add(chunk);
    if kv > Limits::TOKENS {
        return Err(format!("the chunk ends at {kv} KV tokens, but a request has at most {}", Limits::TOKENS));
    }
    let made = RequestSpec::Prefill { chunk, kv };
    match at {
        None => {
            spec.requests.push(made);
            Ok(spec.requests.len() - 1)
        }
        Some(at) => match spec.requests.get_mut(at) {
            Some(request @ RequestSpec::Prefill { .. }) => {
                *request = made;
                Ok(at)
            }
            _ => Err("there is no prefill chunk at this place any more".to_owned()),
        },
    }
}
