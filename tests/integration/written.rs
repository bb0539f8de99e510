//! Files as engines write them, made from the descriptions of their formats: for the tests of importers.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use engine::import::KvEventsWriter;
use rmpv::Value;
use safetensors::tensor::{Dtype, TensorView};
use zip::write::SimpleFileOptions;

/// Writes whole-number tensors: name, shape, values.
pub(crate) fn safetensors(path: &Path, tensors: &[(&str, &[usize], &[i32])]) {
    let bytes: Vec<Vec<u8>> =
        tensors.iter().map(|(_, _, values)| values.iter().flat_map(|value| value.to_le_bytes()).collect()).collect();
    let views = tensors
        .iter()
        .zip(&bytes)
        .map(|((name, shape, _), bytes)| (*name, TensorView::new(Dtype::I32, shape.to_vec(), bytes).unwrap()));
    safetensors::serialize_to_file(views.collect::<HashMap<_, _>>(), None, path).unwrap();
}

/// Writes the same as `numpy.savez` does: an archive with a `.npy` for each.
pub(crate) fn npz(path: &Path, tensors: &[(&str, &[usize], &[i32])]) {
    let mut archive = zip::ZipWriter::new(File::create(path).unwrap());
    for (name, shape, values) in tensors {
        archive.start_file(format!("{name}.npy"), SimpleFileOptions::default()).unwrap();
        let shape = shape.iter().map(|size| format!("{size},")).collect::<Vec<String>>().concat();
        let mut header = format!("{{'descr': '<i4', 'fortran_order': False, 'shape': ({shape}), }}");
        // Magic, version and length are 10 bytes; the data begin at a multiple of 64.
        header.push_str(&" ".repeat(63 - (10 + header.len()) % 64));
        header.push('\n');
        archive.write_all(b"\x93NUMPY\x01\x00").unwrap();
        archive.write_all(&(header.len() as u16).to_le_bytes()).unwrap();
        archive.write_all(header.as_bytes()).unwrap();
        values.iter().for_each(|value| archive.write_all(&value.to_le_bytes()).unwrap());
    }
    archive.finish().unwrap();
}

/// A dump of one FlashInfer call of decode over pages of `page` tokens.
pub(crate) fn flashinfer_dump(folder: &Path, indptr: &[i32], indices: &[i32], last: &[i32], page: u32) {
    let call = "20260108_143216_802_pid12345_BatchDecodeWithPagedKVCacheWrapper.plan_call0001";
    let home = folder.join(call);
    fs::create_dir_all(&home).unwrap();
    let tensors: [(&str, &[usize], &[i32]); 3] =
        [("arg_1", &[indptr.len()], indptr), ("arg_2", &[indices.len()], indices), ("arg_3", &[last.len()], last)];
    safetensors(&home.join("inputs.safetensors"), &tensors);
    let event = serde_json::json!({
        "function_name": "BatchDecodeWithPagedKVCacheWrapper.plan",
        "dump_dir": format!("/srv/dumps/{call}"),
        "function_signature": "(self, indptr: torch.Tensor, indices: torch.Tensor, last_page_len: torch.Tensor, \
            num_qo_heads: int, num_kv_heads: int, head_dim: int, page_size: int, q_data_type: Union[str, \
            torch.dtype, NoneType] = 'float16') -> None",
        "input_metadata": {
            "arg_0": { "type": "BatchDecodeWithPagedKVCacheWrapper", "repr": "<...>" },
            "arg_4": 32, "arg_5": 8, "arg_6": 128, "arg_7": page,
            "kwarg_q_data_type": { "type": "torch.dtype", "value": "torch.float16" },
        },
        "execution_status": "inputs_saved",
    });
    let run = serde_json::json!({ "function_name": "BatchDecodeWithPagedKVCacheWrapper.run", "dump_dir": "/srv/x" });
    let mut done = event.clone();
    done["execution_status"] = "completed".into();
    fs::write(home.join("metadata.jsonl"), format!("{event}\n{done}\n")).unwrap();
    fs::write(folder.join("session.jsonl"), format!("{event}\n{done}\n{run}\n")).unwrap();
}

/// How events are written: by place, as older versions do, or by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Places,
    Names,
}

/// `BlockStored`.
pub(crate) fn stored(style: Style, hashes: &[u64], parent: Option<u64>, block_size: u64) -> Value {
    let hashes = Value::Array(hashes.iter().map(|hash| Value::from(*hash)).collect());
    let parent = parent.map_or(Value::Nil, Value::from);
    let tokens = Value::Array(vec![Value::from(7); block_size as usize]);
    match style {
        Style::Places => Value::Array(vec![
            "BlockStored".into(),
            hashes,
            parent,
            tokens,
            block_size.into(),
            Value::Nil,
            "GPU".into(),
        ]),
        Style::Names => Value::Map(vec![
            ("type".into(), "BlockStored".into()),
            ("block_hashes".into(), hashes),
            ("parent_block_hash".into(), parent),
            ("token_ids".into(), tokens),
            ("block_size".into(), block_size.into()),
        ]),
    }
}

/// `BlockRemoved`.
pub(crate) fn removed(style: Style, hashes: &[u64]) -> Value {
    let hashes = Value::Array(hashes.iter().map(|hash| Value::from(*hash)).collect());
    match style {
        Style::Places => Value::Array(vec!["BlockRemoved".into(), hashes]),
        Style::Names => Value::Map(vec![("type".into(), "BlockRemoved".into()), ("block_hashes".into(), hashes)]),
    }
}

/// The frames of a message.
pub(crate) fn message(style: Style, sequence: u64, ts: f64, events: Vec<Value>) -> [Vec<u8>; 3] {
    let batch = match style {
        Style::Places => Value::Array(vec![ts.into(), Value::Array(events), 0.into()]),
        Style::Names => Value::Map(vec![("ts".into(), ts.into()), ("events".into(), Value::Array(events))]),
    };
    let mut payload = Vec::new();
    rmpv::encode::write_value(&mut payload, &batch).unwrap();
    [b"kv-events".to_vec(), sequence.to_be_bytes().to_vec(), payload]
}

/// A file of messages.
pub(crate) fn kv_events(path: &Path, messages: &[[Vec<u8>; 3]]) {
    let mut writer = KvEventsWriter::new(File::create(path).unwrap()).unwrap();
    for frames in messages {
        writer.add(frames).unwrap();
    }
}
