//! Whole-number tensors out of `.safetensors` and `.npz` files. Only what is asked for is read: a dump may hold
//! gigabytes of KV cache beside its page table.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, Metadata};

use crate::error::{Error, Result};
use crate::shown::quoted;
use crate::units::{counted, grouped};

/// Largest header of a safetensors file, as its description allows.
const HEADER: u64 = 100_000_000;
/// Most elements of a tensor that is read: a page table of the largest batch, in pages of one token.
const ELEMENTS: u64 = 1 << 28;

/// A tensor of whole numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IntTensor {
    pub(super) shape: Vec<usize>,
    /// In row-major order.
    pub(super) values: Vec<i64>,
}

/// A file of tensors.
#[derive(Debug)]
pub(super) struct Tensors {
    path: PathBuf,
    file: Container,
}

#[derive(Debug)]
enum Container {
    Safetensors { file: File, begin: u64, header: Metadata },
    Npz(zip::ZipArchive<File>),
}

impl Tensors {
    /// Opens a file by what it begins with.
    ///
    /// # Errors
    /// [`Error::Tensors`] for what is neither form, or cut; [`Error::Io`].
    pub(super) fn open(path: &Path) -> Result<Self> {
        let failed = || Error::io("reading the tensors", path);
        let mut file = File::open(path).map_err(failed())?;
        let size = file.metadata().map_err(failed())?.len();
        let mut start = Vec::new();
        file.by_ref().take(8).read_to_end(&mut start).map_err(failed())?;
        let wrong = |problem: String| wrong(path, problem);
        if start.starts_with(b"PK") {
            let archive = zip::ZipArchive::new(file);
            let archive = archive.map_err(|error| wrong(format!("the .npz archive is damaged or cut: {error}")))?;
            return Ok(Self { path: path.to_owned(), file: Container::Npz(archive) });
        }
        let length: [u8; 8] = start.try_into().map_err(|_| {
            wrong(format!("neither .safetensors nor .npz, which begin with 8 bytes; the file has {}", grouped(size)))
        })?;
        let length = u64::from_le_bytes(length);
        if length > HEADER || length > size.saturating_sub(8) {
            return Err(wrong(format!(
                "neither .npz nor whole .safetensors: its header would have {} bytes, the file has {}",
                grouped(length),
                grouped(size)
            )));
        }
        let mut text = Vec::new();
        file.by_ref().take(length).read_to_end(&mut text).map_err(failed())?;
        let header: Metadata = serde_json::from_slice(&text)
            .map_err(|error| wrong(format!("the header is no table of tensors: {}", super::lines::reason(&error))))?;
        let (begin, needed) = (8 + length, header.data_len() as u64);
        if size - begin != needed {
            let there = grouped(size - begin);
            return Err(wrong(format!("its header tells {} bytes of tensors, the file has {there}", grouped(needed))));
        }
        Ok(Self { path: path.to_owned(), file: Container::Safetensors { file, begin, header } })
    }

    /// Names of the tensors.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = match &self.file {
            Container::Safetensors { header, .. } => header.offset_keys(),
            Container::Npz(archive) => {
                archive.file_names().map(|name| name.strip_suffix(".npy").unwrap_or(name).to_owned()).collect()
            }
        };
        names.sort_unstable();
        names
    }

    /// The first of several names that is there, as whole numbers.
    ///
    /// # Errors
    /// [`Error::Tensors`] where none is, or it is not of whole numbers; [`Error::Io`].
    pub(super) fn ints(&mut self, names: &[&str]) -> Result<IntTensor> {
        match self.find(names)? {
            Some(tensor) => Ok(tensor),
            None => Err(self.lacks(names)),
        }
    }

    /// The same; `None` where no such tensor is there.
    pub(super) fn find(&mut self, names: &[&str]) -> Result<Option<IntTensor>> {
        let there = self.names();
        let Some(name) = names.iter().find(|name| there.iter().any(|one| one == *name)) else { return Ok(None) };
        match &mut self.file {
            Container::Safetensors { file, begin, header } => read_safetensors(&self.path, file, *begin, header, name),
            Container::Npz(archive) => read_npy(&self.path, archive, name),
        }
        .map(Some)
    }

    fn lacks(&self, names: &[&str]) -> Error {
        let there = self.names();
        let told: Vec<String> = there.iter().take(12).map(|name| quoted(name)).collect();
        wrong(&self.path, format!("there is no tensor {}; it has {}", names.join(" or "), told.join(", ")))
    }

    /// A fault of what a tensor holds.
    pub(super) fn wrong(&self, problem: String) -> Error {
        wrong(&self.path, problem)
    }
}

fn wrong(path: &Path, problem: String) -> Error {
    Error::Tensors { path: path.to_owned(), problem }
}

fn read_safetensors(path: &Path, file: &mut File, begin: u64, header: &Metadata, name: &str) -> Result<IntTensor> {
    let info = header.info(name).ok_or_else(|| wrong(path, format!("there is no tensor {name}")))?;
    let (from, to) = info.data_offsets;
    let bytes = (to - from) as u64;
    if bytes / 8 > ELEMENTS {
        return Err(wrong(path, format!("tensor {name} has {} bytes, too many for a page table", grouped(bytes))));
    }
    let failed = || Error::io("reading the tensors", path);
    file.seek(SeekFrom::Start(begin + from as u64)).map_err(failed())?;
    let mut data = Vec::new();
    file.take(bytes).read_to_end(&mut data).map_err(failed())?;
    let values = match info.dtype {
        Dtype::I32 => ints(&data, |bytes| i64::from(i32::from_le_bytes(bytes))),
        Dtype::I64 => ints(&data, i64::from_le_bytes),
        Dtype::U32 => ints(&data, |bytes| i64::from(u32::from_le_bytes(bytes))),
        Dtype::U64 => ints(&data, |bytes| i64::try_from(u64::from_le_bytes(bytes)).unwrap_or(i64::MAX)),
        Dtype::I16 => ints(&data, |bytes| i64::from(i16::from_le_bytes(bytes))),
        other => return Err(wrong(path, format!("tensor {name} is of {other:?}, but whole numbers are needed"))),
    };
    Ok(IntTensor { shape: info.shape.clone(), values })
}

fn ints<const N: usize>(data: &[u8], number: impl Fn([u8; N]) -> i64) -> Vec<i64> {
    data.as_chunks::<N>().0.iter().map(|bytes| number(*bytes)).collect()
}

fn read_npy(path: &Path, archive: &mut zip::ZipArchive<File>, name: &str) -> Result<IntTensor> {
    let damaged = |error: &dyn std::fmt::Display| wrong(path, format!("tensor {name} is damaged or cut: {error}"));
    let entry = match archive.index_for_name(&format!("{name}.npy")) {
        Some(_) => archive.by_name(&format!("{name}.npy")),
        None => archive.by_name(name),
    };
    let entry = entry.map_err(|error| damaged(&error))?;
    let array = npyz::NpyFile::new(entry).map_err(|error| damaged(&error))?;
    if array.len() > ELEMENTS {
        return Err(wrong(path, format!("tensor {name} has {}", counted(array.len(), "element"))));
    }
    if array.order() != npyz::Order::C && array.shape().len() > 1 {
        return Err(wrong(path, format!("tensor {name} is in Fortran order; save numpy.ascontiguousarray of it")));
    }
    let shape = array.shape().iter().map(|size| *size as usize).collect();
    let told = array.dtype().descr();
    let values = match told.trim_matches('\'') {
        "<i8" => all::<i64, _>(array),
        "<i4" => all::<i32, _>(array),
        _ => return Err(wrong(path, format!("tensor {name} is of {told}, but int32 or int64 is needed"))),
    };
    Ok(IntTensor { shape, values: values.map_err(|error| damaged(&error))? })
}

/// All elements of an array of `T`.
fn all<T: npyz::Deserialize + Into<i64>, R: Read>(array: npyz::NpyFile<R>) -> std::io::Result<Vec<i64>> {
    array.into_vec::<T>().map(|values| values.into_iter().map(Into::into).collect())
}
