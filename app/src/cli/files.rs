//! Input files: what each should be, and what it is instead.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use engine::Error;
use engine::import::{self, Importer};

use crate::cli::fault::{Fault, Outcome};

/// Largest text file; ten thousand requests with explicit blocks fit many times.
const TEXT_LIMIT: u64 = 256 << 20;
/// Bytes at the start of a file that tell what it is.
const START: usize = 256;

/// The form of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Ron,
    Json,
    JsonLines,
    Capture,
    /// What another program tells apart.
    Binary,
}

/// What an input file is meant to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    what: &'static str,
    form: Form,
    doing: &'static str,
    /// Where one gets such a file.
    remedy: &'static str,
}

/// A batch file.
pub(crate) const BATCH: Kind = Kind {
    what: "a batch file",
    form: Form::Ron,
    doing: "reading the batch",
    remedy: "'packscope import' writes batch files; sample_batches/ has examples",
};
/// A device file.
pub(crate) const DEVICE: Kind = Kind {
    what: "a device file",
    form: Form::Ron,
    doing: "reading the device",
    remedy: "'packscope calibrate' writes device files",
};
/// A sweep.
pub(crate) const SWEEP: Kind = Kind {
    what: "a sweep",
    form: Form::Ron,
    doing: "reading the sweep",
    remedy: "sample_batches/README.md documents sweeps",
};
/// Runs that were measured.
pub(crate) const RUNS: Kind = Kind {
    what: "a file of measured runs",
    form: Form::Json,
    doing: "reading the measured runs",
    remedy: "it should be what 'packscope bench --json' or 'packscope calibrate' wrote on a GPU",
};
/// Times of other systems.
pub(crate) const PEERS: Kind = Kind {
    what: "a file of peers' times",
    form: Form::Json,
    doing: "reading the peers",
    remedy: "it should be an object with rows of config, heads and NAME_us",
};
/// A capture.
pub(crate) const CAPTURE: Kind = Kind {
    what: "a capture",
    form: Form::Capture,
    doing: "reading the capture",
    remedy: "'packscope run BATCH -o FILE.pscope' writes captures",
};

impl Form {
    fn name(self) -> &'static str {
        match self {
            Self::Ron => "RON text",
            Self::Json => "a JSON object",
            Self::JsonLines => "lines of JSON",
            Self::Capture | Self::Binary => "a binary file",
        }
    }
}

/// The text of a file.
pub(crate) fn text(path: &Path, kind: &Kind) -> Outcome<String> {
    let file = open(path, kind)?;
    let mut bytes = Vec::new();
    file.take(TEXT_LIMIT + 1).read_to_end(&mut bytes).map_err(Error::io(kind.doing, path))?;
    if bytes.len() as u64 > TEXT_LIMIT {
        return Err(Fault::input(format!("{} is larger than 256 MiB", path.display()), "is it the right file?"));
    }
    check_start(path, &bytes, kind)?;
    String::from_utf8(bytes).map_err(|_| {
        Fault::input(
            format!("{} is not text, but {} is {}", path.display(), kind.what, kind.form.name()),
            "it is a file of another program; is it the right file?",
        )
    })
}

/// Refuses a file that is not what an importer reads; what is wrong inside one is the importer's to say.
pub(crate) fn check_import(path: &Path, importer: &Importer) -> Outcome<()> {
    let (form, remedy) = match importer.form {
        import::Form::JsonLines => {
            (Form::JsonLines, "it should have one JSON object a line; 'packscope list importers' says which")
        }
        import::Form::Json => (Form::Json, "it should be one JSON object; 'packscope list importers' says which"),
        import::Form::KvEvents => (Form::Binary, "'packscope record --kv-events ADDRESS -o FILE' writes them"),
        import::Form::Tensors => (Form::Binary, "the README shows how to save them"),
        // A folder, or a file that the importer tells apart.
        import::Form::Calls => return Ok(()),
    };
    let kind = Kind { what: importer.what, form, doing: "reading the file", remedy };
    // What can be read only once is left to the reader, and so is what it unpacks on the way.
    let packed = path.extension().is_some_and(|extension| extension == "gz");
    let once = std::fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir());
    if !once && !packed && form != Form::Binary {
        let mut start = Vec::new();
        open(path, &kind)?.take(START as u64).read_to_end(&mut start).map_err(Error::io(kind.doing, path))?;
        check_start(path, &start, &kind)?;
    }
    Ok(())
}

/// Refuses what is no capture by its name; what is wrong inside one is the reader's to say.
pub(crate) fn check_capture(path: &Path) -> Outcome<()> {
    let file = open(path, &CAPTURE)?;
    // What can be read only once is left to the reader.
    if file.metadata().is_ok_and(|there| there.is_file()) {
        let mut start = Vec::new();
        file.take(START as u64).read_to_end(&mut start).map_err(Error::io(CAPTURE.doing, path))?;
        check_start(path, &start, &CAPTURE)?;
    }
    Ok(())
}

fn open(path: &Path, kind: &Kind) -> Outcome<File> {
    if path.is_dir() {
        let problem = format!("{} is a directory, but {} is needed", path.display(), kind.what);
        return Err(Fault::input(problem, "give the name of a file in it"));
    }
    Ok(File::open(path).map_err(Error::io(kind.doing, path))?)
}

/// Refuses a file that starts as one of another kind.
fn check_start(path: &Path, start: &[u8], kind: &Kind) -> Outcome<()> {
    let name = path.display();
    let Some((found, remedy)) = stranger(start, kind) else { return Ok(()) };
    let problem = match found {
        "empty" => format!("{name} is empty"),
        _ => format!("{name} is {found}, not {}, which is {}", kind.what, kind.form.name()),
    };
    Err(Fault::input(problem, remedy.unwrap_or(kind.remedy)))
}

/// What a file is that is not of this kind, and what to do about it where that is known.
fn stranger(start: &[u8], kind: &Kind) -> Option<(&'static str, Option<&'static str>)> {
    const PACKED: [(&[u8], &str); 5] = [
        (b"\x1f\x8b", "compressed by gzip"),
        (b"\x28\xb5\x2f\xfd", "compressed by zstd"),
        (b"\xfd7zXZ\0", "compressed by xz"),
        (b"BZh", "compressed by bzip2"),
        (b"PK\x03\x04", "a zip archive"),
    ];
    if kind.form != Form::Capture && start.starts_with(b"\x89PSCOPE") {
        return Some(("a capture", Some("open it with 'packscope view'; 'packscope export' writes other forms of it")));
    }
    if let Some((_, found)) = PACKED.iter().find(|(magic, _)| start.starts_with(magic)) {
        return Some((found, Some("unpack it first")));
    }
    if start.starts_with(b"\xff\xfe") || start.starts_with(b"\xfe\xff") {
        return Some(("UTF-16 text", Some("save it as UTF-8 without a byte order mark")));
    }
    let text = start.strip_prefix(b"\xef\xbb\xbf");
    if text.is_some() && kind.form != Form::Capture {
        return Some(("text with a byte order mark (BOM)", Some("save it as UTF-8 without the mark")));
    }
    let first = text.unwrap_or(start).iter().find(|byte| !byte.is_ascii_whitespace());
    match (first, kind.form) {
        (None, _) => Some(("empty", None)),
        (Some(b'['), Form::JsonLines) => Some(("a JSON array", Some("write each element in a line: jq -c '.[]' FILE"))),
        (Some(b'['), _) => Some(("a JSON array", None)),
        (Some(b'{'), Form::Ron | Form::Capture) => Some(("a JSON object", None)),
        (Some(b'('), Form::Json | Form::JsonLines | Form::Capture) => Some(("RON text", None)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stranger_is_named_for_each_kind() {
        let found = |start: &[u8], kind: &Kind| stranger(start, kind).map(|(found, _)| found);
        for kind in [BATCH, DEVICE, RUNS, PEERS, CAPTURE] {
            assert_eq!(found(b"\x1f\x8b\x08", &kind), Some("compressed by gzip"));
            assert_eq!(found(b"\xff\xfe(\0", &kind), Some("UTF-16 text"));
            assert_eq!(found(b" \n[{}]", &kind), Some("a JSON array"));
            assert_eq!(found(b" \r\n", &kind), Some("empty"));
            let own = kind.form == Form::Capture;
            assert_eq!(found(b"\x89PSCOPE\n", &kind).is_none(), own);
            assert_eq!(found(b"\xef\xbb\xbf", &kind).is_some_and(|found| found.contains("BOM")), !own);
        }
        for (kind, start) in [(BATCH, "// mine\n(schema: 1)"), (DEVICE, "("), (RUNS, "{"), (PEERS, " {")] {
            assert_eq!(found(start.as_bytes(), &kind), None, "{}", kind.what);
        }
        assert_eq!(found(b"(schema: 1)", &CAPTURE), Some("RON text"));
    }
}
