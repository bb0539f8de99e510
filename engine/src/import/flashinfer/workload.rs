//! Workload files of flashinfer-bench: lines of JSON `{definition, workload: {uuid, axes, inputs}, …}`. Heads, head
//! dimension and page size stand in the definition's name, `gqa_paged_decode_h32_kv8_d128_ps1`; `kv_indptr` and
//! `kv_indices` in a file of tensors beside it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{asked, no_such_call};
use crate::error::{Error, Result};
use crate::import::pages::{PageTable, add_chunks, rows_of_indptr};
use crate::import::tensors::Tensors;
use crate::import::{ImportOptions, Imported, Watch, lines};
use crate::shown::quoted;
use crate::workload::{AttentionShape, Dtype};

#[derive(Debug, Deserialize)]
struct Row {
    definition: String,
    workload: Workload,
}

#[derive(Debug, Deserialize)]
struct Workload {
    #[serde(default)]
    uuid: String,
    inputs: BTreeMap<String, Input>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Input {
    Random,
    Scalar {},
    Safetensors { path: String, tensor_key: String },
}

/// Reads the line that is asked for.
pub(super) fn read(path: &Path, options: &ImportOptions, watch: &mut Watch<'_>) -> Result<Imported> {
    let number = asked(options);
    let (mut seen, mut taken) = (0, None);
    let rows = lines::rows(path, "a workload of flashinfer-bench", watch, |row: Row| {
        shape(&row.definition)?;
        if seen == number {
            taken = Some(row);
        }
        seen += 1;
        Ok(())
    })?;
    let row = taken.ok_or_else(|| no_such_call(number, "workload", rows))?;
    let line = |problem: String| Error::File { problem, line: number + 1, column: 1, offset: 0 };
    let mut shape = shape(&row.definition).map_err(line)?;
    shape.dtype = if options.shape == AttentionShape::default() { Dtype::Bf16 } else { options.shape.dtype };
    let ints = |name: &str| -> Result<Option<Vec<i64>>> {
        let Some(input) = row.workload.inputs.get(name) else { return Ok(None) };
        let Input::Safetensors { path: told, tensor_key } = input else {
            return Err(line(format!(
                "{name} is not kept in a file, but made anew at each run; no page table is known"
            )));
        };
        let file =
            find(path, told).ok_or_else(|| line(format!("the file of {name} is not there: {}", quoted(told))))?;
        Ok(Some(Tensors::open(&file)?.ints(&[tensor_key])?.values))
    };
    let needed = |name: &str| ints(name)?.ok_or_else(|| line(format!("the workload has no input {name}")));
    let (indptr, mut indices) = (needed("kv_indptr")?, needed("kv_indices")?);
    indices.truncate(indptr.last().map_or(0, |end| usize::try_from(*end).unwrap_or(0)));
    let last = ints("kv_last_page_len")?;
    let mut notes = vec![format!("the element type is not in the workload; {} is taken", shape.dtype.name())];
    if last.is_none() && shape.block_size > 1 {
        notes.push("how full last pages are is not in the workload; they are taken as full".to_owned());
    }
    let mut rows_of = rows_of_indptr(&indptr, &indices, last.as_deref(), u64::from(shape.block_size)).map_err(line)?;
    if row.definition.contains("prefill") {
        add_chunks(&mut rows_of, &needed("qo_indptr")?).map_err(line)?;
    }
    if rows > 1 {
        notes.push(format!("workload {number} of {rows}; --call N takes another"));
    }
    let name = format!("{} {}", row.definition, row.workload.uuid);
    PageTable { name: name.trim_end().to_owned(), shape, rows: rows_of, notes, records: rows }.imported(options)
}

/// A file that a workload names: beside it, or in one of the folders above, as paths count from the data set's root.
fn find(workload: &Path, told: &str) -> Option<PathBuf> {
    let told = told.trim_start_matches("./");
    workload.ancestors().skip(1).take(8).map(|folder| folder.join(told)).find(|file| file.is_file())
}

/// What a definition's name tells.
fn shape(definition: &str) -> std::result::Result<AttentionShape, String> {
    if !definition.starts_with("gqa_paged") {
        let shown = quoted(definition);
        return Err(format!(
            "the definition is {shown}; only those of paged attention, gqa_paged_…, have a page table"
        ));
    }
    let part = |prefix: &str| {
        let of = |part: &str| part.strip_prefix(prefix)?.parse::<u32>().ok();
        definition.split('_').find_map(of).ok_or_else(|| format!("the definition's name has no {prefix}NUMBER"))
    };
    Ok(AttentionShape {
        query_heads: part("h")?,
        kv_heads: part("kv")?,
        head_dim: part("d")?,
        block_size: part("ps")?,
        dtype: Dtype::Bf16,
    })
}

#[cfg(test)]
mod tests {
    use super::shape;

    #[test]
    fn a_definition_names_its_shape() {
        let made = shape("gqa_paged_prefill_causal_h28_kv4_d128_ps64").unwrap();
        assert_eq!((made.query_heads, made.kv_heads, made.head_dim, made.block_size), (28, 4, 128, 64));
        assert!(shape("gqa_paged_decode_h32_kv8_ps1").unwrap_err().contains("dNUMBER"));
        assert!(shape("gemm_n128").unwrap_err().contains("gqa_paged"));
    }
}
