//! Reading capture files, whole, cut or damaged.
//!
//! ```text
//! bytes ─► magic, version ─► chunk places (index, else one after another) ─► CRC ─► zstd ─► parts
//!                                                                                            │
//!                         Loaded { capture, missing } ◄── counts of META, ids against PLAN ◄─┘
//! ```
//!
//! A file is input from outside: no length in it is trusted before it is checked, and every index
//! that a view would follow is checked against the plan here.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::budget::{Fields, Why};
use super::chunks::{Chunks, Footer, number};
use super::file::{
    BATCH, COUNTED, COUNTER, DECISIONS, DECISIONS_PER_CHUNK, DETERMINISTIC, EXPECTED_ERROR, GPCS, HEADER, KERNELS,
    MAGIC, META, Meta, NOT_CALIBRATED, PAUSES, PLACEMENTS, PLAN, PREFILL, ROUNDS, SPANS, SPANS_PER_CHUNK, VERSION,
    WARNINGS, WITH_COUNTS, WITH_ROLES,
};
use super::fit::{
    batch_fits, counts_fit, decisions_fit, meta_fits, placements_fit, plan_fits, series_fits, spans_fit, windows_fit,
};
use super::old::{self, OldMeta};
use crate::capture::{Capture, Counted, CounterSeries, Pauses, Provenance, Spans};
use crate::decision::{Considered, Decision};
use crate::error::{Error, Result};
use crate::hw::ExpectedError;
use crate::plan::{LaunchPlan, MergePlan, Placement, PrefillPlan};
use crate::units::grouped;
use crate::workload::BatchSpec;

/// A capture with what its file should have had but had not.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// What could be read.
    pub capture: Capture,
    /// What is missing, one sentence each; empty for a whole file.
    pub missing: Vec<String>,
    /// The same by kind, for those who must know which figures it makes untrue.
    pub losses: Losses,
}

/// What of a capture could not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Spans.
    pub spans: u64,
    /// The kernel windows.
    pub kernels: bool,
    /// Counter series.
    pub series: u64,
    /// What the hardware counted.
    pub counts: bool,
    /// Decisions of the planning.
    pub decisions: u64,
}

/// Reads a capture file.
///
/// # Errors
/// [`Error::Io`] where it cannot be read; [`Error::Capture`] where it is no capture, is newer than
/// this build, or lost what every view needs.
pub fn read(path: &Path) -> Result<Loaded> {
    let failed = || Error::io("reading the capture", path);
    let mut file = File::open(path).map_err(failed())?;
    if file.metadata().map_err(failed())?.is_dir() {
        return Err(failed()(std::io::Error::from(std::io::ErrorKind::IsADirectory)));
    }
    // A large file of another program is refused by its first bytes.
    let mut bytes = Vec::new();
    file.by_ref().take(HEADER as u64).read_to_end(&mut bytes).map_err(failed())?;
    check_header(&bytes)?;
    file.read_to_end(&mut bytes).map_err(failed())?;
    from_bytes(&bytes)
}

/// Reads a capture from the bytes of its file.
///
/// Takes at most 48 MiB of memory and 48 bytes for each byte of the file.
///
/// # Errors
/// [`Error::Capture`] as [`read`].
pub fn from_bytes(bytes: &[u8]) -> Result<Loaded> {
    let header = check_header(bytes)?;
    let footer = Footer::of(bytes);
    let mut chunks = Chunks::find(bytes, footer);
    let version = version(header, footer, &mut chunks.missing)?;
    let meta = read_meta(&mut chunks, version).map_err(|why| useless("what made it", &why))?;
    let batch = read_batch(&mut chunks)?;
    let mut plan = read_plan(&mut chunks, version).map_err(|why| useless("its plan", &why))?;
    plan_fits(&plan).and_then(|()| batch_fits(&plan, &batch)).map_err(|why| useless("its plan", &why))?;
    read_placements(&mut chunks, &mut plan);
    let mut losses = Losses { decisions: read_decisions(&mut chunks, &meta, &mut plan), ..Losses::default() };
    let before = chunks.missing.len();
    let kernels = chunks.or_missing(KERNELS, &format!("{} kernel windows", meta.kernels), |fields| {
        let windows = fields.list_of(meta.kernels.into())?;
        windows_fit(&windows, &plan).map(|()| windows)
    });
    losses.kernels = chunks.missing.len() > before;
    let warnings = chunks
        .or_missing(WARNINGS, &format!("{} warnings", meta.warnings), |fields| fields.list_of(meta.warnings.into()));
    // What damage leaves of the chunk says as much as the whole.
    let calibrated = !chunks.promises(NOT_CALIBRATED);
    let deterministic = chunks.promises(DETERMINISTIC);
    let gpcs = read_gpcs(&mut chunks, meta.provenance.sm_count);
    let expected_error = read_expected_error(&mut chunks);
    let pauses = read_pauses(&mut chunks, &meta);
    let mut capture = Capture {
        provenance: Provenance { calibrated, expected_error, gpcs, deterministic, ..meta.provenance.clone() },
        batch,
        plan,
        times: meta.times.clone(),
        kernels,
        spans: Spans::default(),
        counters: Vec::new(),
        counted: None,
        pauses,
        probe_overhead: meta.probe_overhead,
        warnings,
    };
    losses.spans = read_spans(&mut chunks, &meta, version, &mut capture);
    losses.series = read_counters(&mut chunks, &meta, &mut capture);
    if version >= WITH_COUNTS {
        let before = chunks.missing.len();
        capture.counted = chunks.or_missing(COUNTED, "what the hardware counted", |fields| {
            let counted: Option<Counted> = fields.value()?;
            counted.iter().try_for_each(|counted| counts_fit(counted, &capture.plan)).map(|()| counted)
        });
        losses.counts = chunks.missing.len() > before;
    }
    Ok(Loaded { capture, missing: chunks.missing, losses })
}

/// The version that the header tells; `None` where its CRC, which versions from 3 on have, is wrong.
fn check_header(bytes: &[u8]) -> Result<Option<u32>> {
    let wrong = |text: &str| Err(Error::Capture(text.to_owned()));
    if bytes.is_empty() {
        return wrong("the file is empty; a capture is written by 'packscope run BATCH -o FILE'");
    }
    let seen = bytes.len().min(MAGIC.len());
    if bytes[..seen] != MAGIC[..seen] {
        return wrong("this is not a packscope capture; it is a file of another program");
    }
    let Some((version, crc)) = number(bytes, 8).zip(number(bytes, 12)) else {
        return wrong("the capture is cut inside its first 16 bytes; nothing of it can be read");
    };
    let right = if version < WITH_ROLES { crc == 0 } else { crc == crc32fast::hash(&bytes[..12]) };
    if !right && version <= VERSION {
        return Ok(None);
    }
    if version > VERSION {
        return Err(Error::Capture(format!(
            "the capture has version {version}, but this build reads up to version {VERSION}; update packscope"
        )));
    }
    if version == 0 {
        return wrong("the capture has version 0, which never was; its header is damaged");
    }
    Ok(Some(version))
}

/// The version by header and footer. Where they differ the footer is right, which has had its CRC always.
fn version(header: Option<u32>, footer: Option<Footer>, missing: &mut Vec<String>) -> Result<u32> {
    let footer = footer.map(|footer| footer.version).filter(|version| (1..=VERSION).contains(version));
    match (header, footer) {
        (Some(header), None) => Ok(header),
        (Some(header), Some(footer)) if header == footer => Ok(header),
        (header, Some(footer)) => {
            let says =
                header.map_or("its checksum is wrong".to_owned(), |version| format!("it says version {version}"));
            missing.push(format!("the header: {says}; the file is read as version {footer}, as its end says"));
            Ok(footer)
        }
        (None, None) => Err(useless("its version", "the header is damaged, and the end of the file too")),
    }
}

fn useless(what: &str, why: &str) -> Error {
    Error::Capture(format!("the capture is damaged past use: {what} cannot be read ({why})"))
}

fn read_meta(chunks: &mut Chunks<'_>, version: u32) -> Result<Meta, Why> {
    let mut meta: Meta =
        if version < WITH_ROLES { chunks.value::<OldMeta>(META, 0)?.into() } else { chunks.value(META, 0)? };
    chunks.missing.extend(meta_fits(&mut meta)?);
    Ok(meta)
}

fn read_batch(chunks: &mut Chunks<'_>) -> Result<BatchSpec> {
    /// A node of 11 letters, `(tokens:1),`, takes 56 bytes.
    const PER_LETTER: u64 = 6;
    let failed = |why: Why| useless("its batch", &why);
    let text = chunks.raw(BATCH, 0).map_err(failed)?;
    chunks.budget.take_growing(PER_LETTER * text.len() as u64).map_err(failed)?;
    let text = String::from_utf8(text).map_err(|_| failed("it is not text".to_owned()))?;
    BatchSpec::from_ron(&text).map_err(|error| failed(error.to_string()))
}

fn read_plan(chunks: &mut Chunks<'_>, version: u32) -> Result<LaunchPlan, Why> {
    if version >= WITH_ROLES {
        return chunks.fields(PLAN, 0, whole_plan);
    }
    let mut plan = chunks.fields(PLAN, 0, old::plan)?;
    // A plan whose launches name rounds or prefill that are not there does not fit.
    if chunks.has(ROUNDS) {
        plan.merge.rounds = chunks.list(ROUNDS, 0)?;
    }
    if chunks.has(PREFILL) {
        plan.prefill = chunks.fields(PREFILL, 0, prefill)?;
    }
    Ok(plan)
}

/// Shares of the SMs and programmatic starts; a plan without them has no such chunk.
fn read_placements(chunks: &mut Chunks<'_>, plan: &mut LaunchPlan) {
    if !chunks.promises(PLACEMENTS) {
        return;
    }
    let placements: Vec<Placement> =
        chunks.or_missing(PLACEMENTS, "the SM shares and programmatic starts of launches", |fields| {
            let placements: Vec<Placement> = fields.list()?;
            placements_fit(&placements, plan).map(|()| placements)
        });
    plan.place(&placements);
}

/// How far off the simulator may be expected to be, where the file tells it.
fn read_expected_error(chunks: &mut Chunks<'_>) -> Option<ExpectedError> {
    if !chunks.promises(EXPECTED_ERROR) {
        return None;
    }
    chunks.or_missing(EXPECTED_ERROR, "the expected error of the simulator", |fields| {
        let error: ExpectedError = fields.value()?;
        if error.holds() { Ok(Some(error)) } else { Err("its figures are none".to_owned()) }
    })
}

/// The GPC of each SM, where the file tells it.
fn read_gpcs(chunks: &mut Chunks<'_>, sms: u32) -> Vec<u8> {
    if !chunks.promises(GPCS) {
        return Vec::new();
    }
    chunks.or_missing(GPCS, "the GPC of each SM", |fields| {
        let gpcs: Vec<u8> = fields.list_of(sms.into())?;
        Ok(gpcs)
    })
}

/// The pauses of the memory, where the file tells them.
fn read_pauses(chunks: &mut Chunks<'_>, meta: &Meta) -> Option<Pauses> {
    if !chunks.promises(PAUSES) {
        return None;
    }
    chunks.or_missing(PAUSES, "the pauses of the memory", |fields| {
        let repeats = meta.times.makespans.len() as u64;
        let pauses = Pauses {
            period_ns: fields.value()?,
            length: fields.value()?,
            of_repeats: fields.list_of(repeats)?,
            begins: fields.list()?,
        };
        if pauses.hold() { Ok(Some(pauses)) } else { Err("its figures are none".to_owned()) }
    })
}

/// The fields of a plan in the order of its type.
fn whole_plan(fields: &mut Fields<'_>) -> Result<LaunchPlan, Why> {
    Ok(LaunchPlan {
        scheduler: fields.text()?,
        strategy: fields.value()?,
        device: fields.text()?,
        shape: fields.value()?,
        packs: fields.list()?,
        queries: fields.list()?,
        order: fields.list()?,
        launches: fields.list()?,
        merge: MergePlan { starts: fields.list()?, slots: fields.list()?, rounds: fields.list()? },
        prefill: prefill(fields)?,
        decisions: Vec::new(),
    })
}

fn prefill(fields: &mut Fields<'_>) -> Result<PrefillPlan, Why> {
    Ok(PrefillPlan { chunks: fields.list()?, tasks: fields.list()?, slots: fields.value()? })
}

/// What is kept of a list that lies in chunks of `per_chunk` elements.
fn in_chunks(total: u64, per_chunk: usize) -> impl Iterator<Item = (u32, std::ops::Range<u64>)> {
    (0..total)
        .step_by(per_chunk)
        .zip(0_u32..)
        .map(move |(first, number)| (number, first..total.min(first + per_chunk as u64)))
}

/// Gives how many were lost, as the others below.
fn read_decisions(chunks: &mut Chunks<'_>, meta: &Meta, plan: &mut LaunchPlan) -> u64 {
    let mut lost = Lost::default();
    for (number, range) in in_chunks(meta.decisions.into(), DECISIONS_PER_CHUNK) {
        let part = chunks.fields(DECISIONS, number, |fields| fields.list_holding(range.end - range.start, inside));
        match part.and_then(|part| decisions_fit(&part, plan).map(|()| part)) {
            Ok(part) => plan.decisions.extend(part),
            Err(why) => lost.add(range, &why),
        }
    }
    chunks.missing.extend(lost.sentence("decision", meta.decisions.into()));
    lost.count
}

/// What a decision holds beside itself, in bytes.
fn inside(decision: &Decision) -> u64 {
    let ways = decision.considered.capacity() * size_of::<Considered>();
    let words = decision.considered.iter().map(|way| way.what.len()).sum::<usize>();
    let name = decision.constant.as_ref().map_or(0, |constant| constant.name.len());
    (ways + words + decision.unit.len() + decision.rule.len() + name) as u64
}

fn read_spans(chunks: &mut Chunks<'_>, meta: &Meta, version: u32, capture: &mut Capture) -> u64 {
    let mut lost = Lost::default();
    for (number, range) in in_chunks(meta.spans, SPANS_PER_CHUNK) {
        let part =
            chunks.fields(SPANS, number, |fields| spans(fields, range.end - range.start)).and_then(|mut part| {
                if version < WITH_ROLES {
                    old::tell_roles(&mut part, &capture.plan);
                }
                spans_fit(&part, &capture.plan, &capture.provenance).map(|()| part)
            });
        match part {
            Ok(part) => append(&mut capture.spans, part),
            Err(why) => lost.add(range, &why),
        }
    }
    // They are most of a large capture, and are kept for as long as it is shown.
    capture.spans.shrink_to_fit();
    chunks.missing.extend(lost.sentence("span", meta.spans));
    lost.count
}

/// The columns of a run of spans, each as long as promised.
fn spans(fields: &mut Fields<'_>, promised: u64) -> Result<Spans, Why> {
    Ok(Spans {
        role: fields.list_of(promised)?,
        launch: fields.list_of(promised)?,
        cta: fields.list_of(promised)?,
        sm: fields.list_of(promised)?,
        slot: fields.list_of(promised)?,
        begin: fields.list_of(promised)?,
        first_tile: fields.list_of(promised)?,
        loop_end: fields.list_of(promised)?,
        end: fields.list_of(promised)?,
    })
}

fn read_counters(chunks: &mut Chunks<'_>, meta: &Meta, capture: &mut Capture) -> u64 {
    let mut lost = Lost::default();
    for (number, range) in in_chunks(meta.counters.into(), 1) {
        let series = chunks.fields(COUNTER, number, |fields| {
            Ok(CounterSeries {
                name: fields.text()?,
                unit: fields.text()?,
                start: fields.value()?,
                step: fields.value()?,
                values: fields.list()?,
            })
        });
        match series.and_then(|series| series_fits(&series).map(|()| series)) {
            Ok(series) => capture.counters.push(series),
            Err(why) => lost.add(range, &why),
        }
    }
    chunks.missing.extend(lost.sentence("counter series", meta.counters.into()));
    lost.count
}

/// Elements of a list that could not be read.
#[derive(Default)]
struct Lost {
    count: u64,
    first: Option<u64>,
    last: u64,
    why: String,
}

impl Lost {
    fn add(&mut self, range: std::ops::Range<u64>, why: &str) {
        self.count += range.end - range.start;
        self.first.get_or_insert(range.start);
        self.last = range.end - 1;
        if self.why.is_empty() {
            why.clone_into(&mut self.why);
        }
    }

    fn sentence(&self, what: &str, of: u64) -> Option<String> {
        let first = self.first?;
        let plural = if what.ends_with('s') { what.to_owned() } else { format!("{what}s") };
        let (count, of, last, why) = (grouped(self.count), grouped(of), grouped(self.last), &self.why);
        Some(format!("{count} of {of} {plural}, between {what} {} and {what} {last}: {why}", grouped(first)))
    }
}

fn append(all: &mut Spans, part: Spans) {
    all.role.extend(part.role);
    all.launch.extend(part.launch);
    all.cta.extend(part.cta);
    all.sm.extend(part.sm);
    all.slot.extend(part.slot);
    all.begin.extend(part.begin);
    all.first_tile.extend(part.first_tile);
    all.loop_end.extend(part.loop_end);
    all.end.extend(part.end);
}
