//! A dump of FlashInfer's logging, level 10, with `FLASHINFER_DUMP_SAFETENSORS=1`.
//!
//! ```text
//! DIR/session.jsonl                                one line an event, two or more a call
//! DIR/<time>_pid<pid>_<function>_call<n>/
//!     metadata.jsonl                               function, signature, arguments that are no tensors
//!     inputs.safetensors                           arg_<i>, kwarg_<name>
//! ```
//!
//! Page tables stand in the calls of `plan`; those of `run` have Q and the cache. Argument i is parameter i of the
//! signature, `self` included.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{asked, no_such_call};
use crate::error::{Error, Result};
use crate::import::pages::{PageTable, add_chunks, rows_of_indptr};
use crate::import::tensors::Tensors;
use crate::import::{ImportOptions, Imported, Watch, lines};
use crate::shown::quoted;
use crate::workload::{AttentionShape, Dtype};

/// A line of `session.jsonl` or `metadata.jsonl`.
#[derive(Clone, Debug, Deserialize)]
struct Event {
    function_name: String,
    #[serde(default)]
    dump_dir: Option<String>,
    #[serde(default)]
    function_signature: String,
    #[serde(default)]
    input_metadata: Map<String, Value>,
}

/// Reads the call that is asked for.
pub(super) fn read(folder: &Path, options: &ImportOptions, watch: &mut Watch<'_>) -> Result<Imported> {
    let calls = calls(folder, watch)?;
    let number = asked(options);
    let Some((call, event)) = calls.get(number) else {
        if calls.is_empty() {
            let problem =
                "no call of a plan() with paged KV is in the dump; record them with FLASHINFER_DUMP_INCLUDE=\"*.plan\"";
            return Err(Error::Tensors { path: folder.to_owned(), problem: problem.to_owned() });
        }
        return Err(no_such_call(number, "call", calls.len() as u64));
    };
    let mut table = table_of(call, event, options)?;
    table.records = calls.len() as u64;
    if calls.len() > 1 {
        table.notes.push(format!("call {number} of {}: {}; --call N takes another", calls.len(), event.function_name));
    }
    table.imported(options)
}

/// The calls of `plan` with paged KV, in the order of the session: their folders and their metadata.
fn calls(folder: &Path, watch: &mut Watch<'_>) -> Result<Vec<(PathBuf, Event)>> {
    let session = folder.join("session.jsonl");
    let own = folder.join("metadata.jsonl");
    let what = "an event of a FlashInfer dump";
    let mut found: Vec<(PathBuf, Event)> = Vec::new();
    let mut add = |home: Option<PathBuf>, event: Event| {
        if event.function_name.ends_with(".plan") && event.function_name.contains("WithPagedKVCache") {
            // Each call has a line before and a line after it.
            if let Some(home) = home.filter(|home| found.iter().rev().take(64).all(|(known, _)| known != home)) {
                found.push((home, event));
            }
        }
        Ok(())
    };
    if session.exists() {
        lines::rows(&session, what, watch, |event: Event| {
            let home = event.dump_dir.as_deref().and_then(|told| home(folder, told));
            add(home, event)
        })
        .map_err(|error| lines::of_file(&session, error))?;
    } else if own.exists() {
        lines::rows(&own, what, watch, |event: Event| add(Some(folder.to_owned()), event))
            .map_err(|error| lines::of_file(&own, error))?;
    } else {
        let problem =
            "neither session.jsonl nor metadata.jsonl is in the folder; is it FLASHINFER_DUMP_DIR?".to_owned();
        return Err(Error::Tensors { path: folder.to_owned(), problem });
    }
    Ok(found)
}

/// Where the folder of a call is now: the session tells where it was on the machine that wrote it.
fn home(root: &Path, told: &str) -> Option<PathBuf> {
    let parts: Vec<&str> = told.split(['/', '\\']).filter(|part| !part.is_empty() && *part != "..").collect();
    // A snapshot of a CUDA graph stands two folders deeper.
    [1, 3].into_iter().filter_map(|depth| parts.get(parts.len().checked_sub(depth)?..)).find_map(|end| {
        let home = root.join(end.iter().collect::<PathBuf>());
        home.is_dir().then_some(home)
    })
}

fn table_of(call: &Path, event: &Event, options: &ImportOptions) -> Result<PageTable> {
    let path = call.join("inputs.safetensors");
    if !path.exists() && call.join("inputs.pt").exists() {
        let problem = "its tensors are in PyTorch's own form; dump them with FLASHINFER_DUMP_SAFETENSORS=1".to_owned();
        return Err(Error::Tensors { path: call.join("inputs.pt"), problem });
    }
    let mut tensors = Tensors::open(&path)?;
    let arguments = Arguments { names: parameters(&event.function_signature), event };
    let shape = arguments.shape(options).map_err(|problem| tensors.wrong(problem))?;
    let mut tensor = |names: &[&str]| {
        let keys = arguments.keys(names);
        tensors.ints(&keys.iter().map(String::as_str).collect::<Vec<_>>()).map(|tensor| tensor.values)
    };
    let indptr = tensor(&["paged_kv_indptr", "indptr"])?;
    let mut indices = tensor(&["paged_kv_indices", "indices"])?;
    let last = tensor(&["paged_kv_last_page_len", "last_page_len"])?;
    let prefill = event.function_name.contains("Prefill");
    let starts = if prefill { Some(tensor(&["qo_indptr"])?) } else { None };
    // Buffers are as large as the largest batch may need.
    indices.truncate(indptr.last().map_or(0, |end| usize::try_from(*end).unwrap_or(0)));
    let mut rows = rows_of_indptr(&indptr, &indices, Some(&last), u64::from(shape.block_size))
        .map_err(|problem| tensors.wrong(problem))?;
    let mut notes = arguments.notes(prefill);
    if let Some(starts) = starts {
        add_chunks(&mut rows, &starts).map_err(|problem| tensors.wrong(problem))?;
    }
    if arguments.value(&["q_data_type"]).is_none() {
        notes.push(format!("the element type is not in the call; {} is taken", shape.dtype.name()));
    }
    let name = call.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    Ok(PageTable { name, shape, rows, notes, records: 1 })
}

/// Arguments of a call that are no tensors.
struct Arguments<'a> {
    /// Parameters of the function, `self` first.
    names: Vec<String>,
    event: &'a Event,
}

impl Arguments<'_> {
    /// Keys under which a parameter of one of these names may stand.
    fn keys(&self, names: &[&str]) -> Vec<String> {
        let place = |name: &&str| self.names.iter().position(|one| one == *name).map(|at| format!("arg_{at}"));
        let by_place = names.iter().filter_map(place);
        by_place.chain(names.iter().map(|name| format!("kwarg_{name}"))).collect()
    }

    fn value(&self, names: &[&str]) -> Option<&Value> {
        let value = self.keys(names).iter().find_map(|key| self.event.input_metadata.get(key))?;
        Some(value).filter(|value| !value.is_null())
    }

    fn number(&self, names: &[&str]) -> std::result::Result<u32, String> {
        let value = self.value(names).and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok());
        value.ok_or_else(|| format!("the call's metadata lack the number {}", names[0]))
    }

    fn shape(&self, options: &ImportOptions) -> std::result::Result<AttentionShape, String> {
        let dtype = match self.value(&["q_data_type"]) {
            None => options.shape.dtype,
            Some(value) => {
                let told = value.as_str().or_else(|| value.get("value")?.as_str()).unwrap_or_default();
                match told.trim_start_matches("torch.") {
                    "float16" | "half" => Dtype::F16,
                    "bfloat16" => Dtype::Bf16,
                    other => {
                        return Err(format!(
                            "queries are of {}; only float16 and bfloat16 are modelled",
                            quoted(other)
                        ));
                    }
                }
            }
        };
        Ok(AttentionShape {
            query_heads: self.number(&["num_qo_heads"])?,
            kv_heads: self.number(&["num_kv_heads"])?,
            head_dim: self.number(&["head_dim", "head_dim_qk"])?,
            dtype,
            block_size: self.number(&["page_size"])?,
        })
    }

    fn notes(&self, prefill: bool) -> Vec<String> {
        let mut notes = Vec::new();
        if prefill && self.value(&["causal"]).and_then(Value::as_bool) != Some(true) {
            notes.push("the call is not causal; its prefill is taken as causal".to_owned());
        }
        let window = self.value(&["window_left"]).and_then(Value::as_i64).filter(|window| *window >= 0);
        if let Some(window) = window {
            notes.push(format!("a sliding window of {window} tokens is not modelled"));
        }
        notes
    }
}

/// Names of the parameters of a Python signature: `(self, indptr: torch.Tensor, page_size: int = 16)`.
fn parameters(signature: &str) -> Vec<String> {
    let inner = signature.split_once('(').map_or("", |(_, rest)| rest);
    let (mut depth, mut names, mut name) = (0_i32, Vec::new(), String::new());
    let mut in_name = true;
    for letter in inner.chars() {
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth > 0 => depth -= 1,
            ')' => break,
            ',' if depth == 0 => {
                names.push(std::mem::take(&mut name));
                in_name = true;
                continue;
            }
            ':' | '=' if depth == 0 => in_name = false,
            _ => {}
        }
        if in_name && depth == 0 && !letter.is_whitespace() {
            name.push(letter);
        }
    }
    names.push(name);
    // `/` and `*` stand between parameters and are none.
    names.retain(|name| !["", "/", "*"].contains(&name.as_str()));
    names
}

#[cfg(test)]
mod tests {
    use super::parameters;

    #[test]
    fn parameters_of_a_signature_are_found_in_their_order() {
        let signature =
            "(self, indptr: torch.Tensor, sizes: Union[int, Tuple[int, int]] = (1, 2), *, page_size: int = 16) -> None";
        assert_eq!(parameters(signature), ["self", "indptr", "sizes", "page_size"]);
        assert!(parameters("<unavailable>").is_empty());
    }
}
