//! The kinds of cases: how the input of each is drawn from a seed, written to a file, and tried.

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::batches::{self, BatchCase};
use crate::captures;
use crate::checks::Tried;
use crate::devices::{self, DeviceCase};
use crate::draw::Draw;
use crate::edits::{self, EditsCase};
use crate::forms::{self, FormsCase};
use crate::imports::{self, ImportCase};

/// What is handed to packscope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// A capture file, damaged.
    Capture,
    /// A batch file.
    Batch,
    /// A device file.
    Device,
    /// A trace for `import`.
    Import,
    /// Tree strings and the other forms that are typed.
    Form,
    /// Commands to the window.
    Edits,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] = [Self::Capture, Self::Batch, Self::Device, Self::Import, Self::Form, Self::Edits];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Capture => "capture",
            Self::Batch => "batch",
            Self::Device => "device",
            Self::Import => "import",
            Self::Form => "form",
            Self::Edits => "edits",
        }
    }

    /// The kind of the case that a soak of all kinds runs with this seed: half of them are captures.
    pub(crate) fn of(seed: u64) -> Self {
        match seed % 12 {
            1 | 7 => Self::Batch,
            3 | 9 => Self::Device,
            5 => Self::Import,
            8 => Self::Form,
            11 => Self::Edits,
            _ => Self::Capture,
        }
    }

    /// Ending of the files of its inputs.
    pub(crate) fn extension(self) -> &'static str {
        if self == Self::Capture { "pscope" } else { "ron" }
    }
}

/// The input of a case.
#[derive(Debug)]
pub(crate) enum Input {
    Capture(Vec<u8>),
    Batch(BatchCase),
    Device(DeviceCase),
    Import(ImportCase),
    Form(FormsCase),
    Edits(EditsCase),
}

impl Input {
    /// The input of a seed.
    pub(crate) fn draw(kind: Kind, seed: u64) -> Result<Self> {
        let draw = &mut Draw::new(seed);
        Ok(match kind {
            Kind::Capture => Self::Capture(captures::draw(draw)?),
            Kind::Batch => Self::Batch(batches::draw(draw)),
            Kind::Device => Self::Device(devices::draw(draw)?),
            Kind::Import => Self::Import(imports::draw(draw)),
            Kind::Form => Self::Form(forms::draw(draw)),
            Kind::Edits => Self::Edits(edits::draw(draw)),
        })
    }

    /// Tries it.
    pub(crate) fn try_out(&self) -> Tried {
        match self {
            Self::Capture(bytes) => captures::try_out(bytes),
            Self::Batch(case) => batches::try_out(case),
            Self::Device(case) => devices::try_out(case),
            Self::Import(case) => imports::try_out(case),
            Self::Form(case) => forms::try_out(case),
            Self::Edits(case) => edits::try_out(case),
        }
    }

    /// As the content of a file.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>> {
        match self {
            Self::Capture(bytes) => Ok(bytes.clone()),
            Self::Batch(case) => text(case),
            Self::Device(case) => text(case),
            Self::Import(case) => text(case),
            Self::Form(case) => text(case),
            Self::Edits(case) => text(case),
        }
    }

    /// From the content of a file.
    pub(crate) fn from_bytes(kind: Kind, bytes: Vec<u8>) -> Result<Self> {
        Ok(match kind {
            Kind::Capture => Self::Capture(bytes),
            Kind::Batch => Self::Batch(value(&bytes)?),
            Kind::Device => Self::Device(value(&bytes)?),
            Kind::Import => Self::Import(value(&bytes)?),
            Kind::Form => Self::Form(value(&bytes)?),
            Kind::Edits => Self::Edits(value(&bytes)?),
        })
    }
}

fn text(case: &impl Serialize) -> Result<Vec<u8>> {
    let pretty = ron::ser::PrettyConfig::new().escape_strings(true).struct_names(false);
    Ok(ron::ser::to_string_pretty(case, pretty).context("writing a case")?.into_bytes())
}

fn value<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    ron::de::from_bytes(bytes).context("reading a case")
}
