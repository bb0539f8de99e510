//! Packets on their way to the file: texts become numbers, packets become blocks, blocks are deflated.
//!
//! ```text
//! event ─► texts interned ─► packet ─► block of up to 256 KB ─► deflate ─► one packet of the file
//! ```
//!
//! One packet of the file holds one block, so that memory stays that of a block whatever the capture.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use prost::Message;
use rustc_hash::FxHashMap;

use super::proto::{
    COUNTER, DebugAnnotation, InternedData, NEEDS_STATE, SLICE_BEGIN, SLICE_END, STATE_CLEARED, Text, TracePacket,
    TrackDescriptor, TrackEvent,
};
use crate::units::Nanos;

/// All packets are of one writer.
const SEQUENCE: u32 = 1;
/// `Trace.packet` in `trace.proto`: field 1, of a length that follows.
const PACKET: u8 = (1 << 3) | 2;
/// Bytes of a block before it is deflated; a reader takes less than 512 KB after.
const BLOCK: usize = 256 << 10;

/// What stands beside a key.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// A count, bytes or nanoseconds; the key says which.
    Number(u64),
    /// A share or another figure with a fraction.
    Real(f64),
    /// A text.
    Text(String),
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// What is said of a slice.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Told {
    /// What it is called.
    pub(super) name: String,
    /// What a person filters by.
    pub(super) category: &'static str,
    /// Keys with their values.
    pub(super) facts: Vec<(&'static str, Value)>,
}

impl Told {
    pub(super) fn new(name: impl Into<String>, category: &'static str) -> Self {
        Self { name: name.into(), category, facts: Vec::new() }
    }

    pub(super) fn add(&mut self, key: &'static str, value: impl Into<Value>) {
        self.facts.push((key, value.into()));
    }

    /// As [`Self::add`], where there is a value.
    pub(super) fn add_some(&mut self, key: &'static str, value: Option<impl Into<Value>>) {
        self.facts.extend(value.map(|value| (key, value.into())));
    }
}

/// Texts by number, from 1.
#[derive(Debug, Default)]
struct Texts {
    numbers: FxHashMap<String, u64>,
    fresh: Vec<Text>,
}

impl Texts {
    fn number(&mut self, text: &str) -> u64 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.numbers.len() as u64 + 1;
        self.numbers.insert(text.to_owned(), number);
        self.fresh.push(Text { iid: Some(number), text: Some(text.to_owned()) });
        number
    }
}

/// Writes packets; [`Self::finish`] writes the last of them.
#[derive(Debug)]
pub(super) struct Writer<W> {
    out: W,
    block: Vec<u8>,
    began: bool,
    categories: Texts,
    names: Texts,
    keys: Texts,
    values: Texts,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(out: W) -> Self {
        Self {
            out,
            block: Vec::with_capacity(BLOCK + (4 << 10)),
            began: false,
            categories: Texts::default(),
            names: Texts::default(),
            keys: Texts::default(),
            values: Texts::default(),
        }
    }

    /// A track, before the first event on it. The first one of all stands as it is, before the deflated
    /// blocks, so that who looks at the first bytes sees a trace.
    pub(super) fn track(&mut self, track: TrackDescriptor) -> io::Result<()> {
        let first = !std::mem::replace(&mut self.began, true);
        let packet = TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            sequence_flags: first.then_some(STATE_CLEARED),
            track_descriptor: Some(track),
            ..TracePacket::default()
        };
        if first {
            let mut bytes = Vec::new();
            frame(&packet, &mut bytes);
            return self.out.write_all(&bytes);
        }
        self.put(&packet)
    }

    /// A slice begins on a track; those on one track begin and end like brackets.
    pub(super) fn begin(&mut self, track: u64, at: Nanos, told: &Told) -> io::Result<()> {
        let debug_annotations = told.facts.iter().map(|(key, value)| self.annotation(key, value)).collect();
        let event = TrackEvent {
            category_iids: vec![self.categories.number(told.category)],
            debug_annotations,
            kind: Some(SLICE_BEGIN),
            name_iid: Some(self.names.number(&told.name)),
            track_uuid: Some(track),
            double_counter_value: None,
        };
        self.event(at, event)
    }

    /// The slice that began last on a track ends.
    pub(super) fn end(&mut self, track: u64, at: Nanos) -> io::Result<()> {
        self.event(at, TrackEvent { kind: Some(SLICE_END), track_uuid: Some(track), ..TrackEvent::default() })
    }

    /// A counter has this value from here on.
    pub(super) fn count(&mut self, track: u64, at: Nanos, value: f64) -> io::Result<()> {
        self.event(
            at,
            TrackEvent {
                kind: Some(COUNTER),
                track_uuid: Some(track),
                double_counter_value: Some(value),
                ..TrackEvent::default()
            },
        )
    }

    /// Writes what is left, and gives the file back.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.flush_block()?;
        Ok(self.out)
    }

    fn annotation(&mut self, key: &str, value: &Value) -> DebugAnnotation {
        let mut annotation = DebugAnnotation { name_iid: Some(self.keys.number(key)), ..DebugAnnotation::default() };
        match value {
            Value::Number(number) => annotation.uint_value = Some(*number),
            Value::Real(real) => annotation.double_value = Some(*real),
            Value::Text(text) => annotation.string_value_iid = Some(self.values.number(text)),
        }
        annotation
    }

    fn event(&mut self, at: Nanos, event: TrackEvent) -> io::Result<()> {
        let named = event.name_iid.is_some();
        let packet = TracePacket {
            timestamp: Some(at.0),
            trusted_packet_sequence_id: Some(SEQUENCE),
            track_event: Some(event),
            interned_data: if named { self.fresh() } else { None },
            sequence_flags: named.then_some(NEEDS_STATE),
            ..TracePacket::default()
        };
        self.put(&packet)
    }

    /// Texts that no packet has told yet.
    fn fresh(&mut self) -> Option<InternedData> {
        let all = [&mut self.categories, &mut self.names, &mut self.keys, &mut self.values];
        let [event_categories, event_names, debug_annotation_names, debug_annotation_string_values] =
            all.map(|texts| std::mem::take(&mut texts.fresh));
        let data =
            InternedData { event_categories, event_names, debug_annotation_names, debug_annotation_string_values };
        (data != InternedData::default()).then_some(data)
    }

    fn put(&mut self, packet: &TracePacket) -> io::Result<()> {
        frame(packet, &mut self.block);
        if self.block.len() >= BLOCK { self.flush_block() } else { Ok(()) }
    }

    fn flush_block(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let mut deflated = ZlibEncoder::new(Vec::new(), Compression::fast());
        deflated.write_all(&self.block)?;
        self.block.clear();
        let packet = TracePacket { compressed_packets: Some(deflated.finish()?), ..TracePacket::default() };
        let mut bytes = Vec::new();
        frame(&packet, &mut bytes);
        self.out.write_all(&bytes)
    }
}

/// A packet as a field of the trace.
fn frame(packet: &TracePacket, out: &mut Vec<u8>) {
    out.push(PACKET);
    out.extend_from_slice(&packet.encode_length_delimited_to_vec());
}
