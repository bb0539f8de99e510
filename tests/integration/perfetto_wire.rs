//! A reader of Perfetto's trace format, written from its protos and not from the writer: bytes to fields,
//! fields to tracks, slices and samples. What the format forbids is a failure here.

use std::collections::BTreeMap;
use std::io::Read;

/// A field of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Field<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message by number, in the order of the bytes.
struct Message<'a>(Vec<(u64, Field<'a>)>);

fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let (first, rest) = bytes.split_first().expect("a varint ends before its file");
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return value;
        }
        shift += 7;
    }
}

impl<'a> Message<'a> {
    fn of(mut bytes: &'a [u8]) -> Self {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let mut take = |count: usize| {
                let (taken, rest) = bytes.split_at(count);
                bytes = rest;
                taken
            };
            let field = match key & 7 {
                1 => Field::Fixed64(u64::from_le_bytes(take(8).try_into().unwrap())),
                0 => Field::Varint(varint(&mut bytes)),
                2 => {
                    let length = varint(&mut bytes) as usize;
                    let (taken, rest) = bytes.split_at(length);
                    bytes = rest;
                    Field::Bytes(taken)
                }
                other => panic!("wire type {other} of field {}", key >> 3),
            };
            fields.push((key >> 3, field));
        }
        Self(fields)
    }

    fn all(&self, number: u64) -> impl Iterator<Item = Field<'a>> + '_ {
        self.0.iter().filter(move |field| field.0 == number).map(|field| field.1)
    }

    fn messages(&self, number: u64) -> impl Iterator<Item = Message<'a>> + '_ {
        self.all(number).map(move |field| match field {
            Field::Bytes(bytes) => Message::of(bytes),
            other => panic!("field {number} is no message but {other:?}"),
        })
    }

    fn number(&self, number: u64) -> Option<u64> {
        self.all(number).last().map(|field| match field {
            Field::Varint(value) => value,
            other => panic!("field {number} is no number but {other:?}"),
        })
    }

    fn double(&self, number: u64) -> Option<f64> {
        self.all(number).last().map(|field| match field {
            Field::Fixed64(bits) => f64::from_bits(bits),
            other => panic!("field {number} is no double but {other:?}"),
        })
    }

    fn bytes(&self, number: u64) -> Option<&'a [u8]> {
        self.all(number).last().map(|field| match field {
            Field::Bytes(bytes) => bytes,
            other => panic!("field {number} is no text but {other:?}"),
        })
    }

    fn text(&self, number: u64) -> Option<String> {
        self.bytes(number).map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
    }
}

/// A value beside a key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Arg {
    Number(u64),
    Real(f64),
    Text(String),
}

/// A track as described.
#[derive(Clone, Debug, Default)]
pub(crate) struct Track {
    pub(crate) parent: u64,
    pub(crate) name: String,
    pub(crate) process: Option<String>,
    pub(crate) unit: Option<String>,
    pub(crate) rank: Option<u64>,
}

/// A slice with its end.
#[derive(Clone, Debug)]
pub(crate) struct Slice {
    pub(crate) track: u64,
    /// Slices of its track around it.
    pub(crate) depth: usize,
    pub(crate) name: String,
    pub(crate) category: String,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) args: BTreeMap<String, Arg>,
}

impl Slice {
    pub(crate) fn number(&self, key: &str) -> u64 {
        match self.args.get(key) {
            Some(Arg::Number(number)) => *number,
            other => panic!("{key} of {} is {other:?}", self.name),
        }
    }

    pub(crate) fn text(&self, key: &str) -> &str {
        match self.args.get(key) {
            Some(Arg::Text(text)) => text,
            other => panic!("{key} of {} is {other:?}", self.name),
        }
    }
}

/// A trace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    pub(crate) tracks: BTreeMap<u64, Track>,
    /// By begin.
    pub(crate) slices: Vec<Slice>,
    /// By counter track.
    pub(crate) samples: BTreeMap<u64, Vec<(u64, f64)>>,
    interned: [BTreeMap<u64, String>; 4],
    open: BTreeMap<u64, Vec<usize>>,
    time: u64,
}

const CATEGORIES: usize = 0;
const NAMES: usize = 1;
const KEYS: usize = 2;
const TEXTS: usize = 3;

impl Trace {
    /// Reads a whole file.
    pub(crate) fn of(file: &[u8]) -> Self {
        let mut trace = Self::default();
        let mut first = true;
        for packet in Message::of(file).messages(1) {
            if let Some(deflated) = packet.bytes(50) {
                assert!(deflated.len() < 512 << 10, "a block of {} bytes", deflated.len());
                let mut block = Vec::new();
                flate2::read::ZlibDecoder::new(deflated).read_to_end(&mut block).unwrap();
                Message::of(&block).messages(1).for_each(|packet| trace.packet(&packet));
            } else {
                assert!(!first || packet.number(13) == Some(1), "interning does not begin anew");
                trace.packet(&packet);
            }
            first = false;
        }
        assert!(trace.open.values().all(Vec::is_empty), "slices are open at the end");
        trace
    }

    fn packet(&mut self, packet: &Message<'_>) {
        assert_eq!(packet.number(10), Some(1), "a packet of another writer");
        for track in packet.messages(60) {
            self.track(&track);
        }
        for data in packet.messages(12) {
            for (place, field) in [(CATEGORIES, 1), (NAMES, 2), (KEYS, 3), (TEXTS, 29)] {
                for text in data.messages(field) {
                    let (number, text) = (text.number(1).unwrap(), text.text(2).unwrap());
                    assert!(number > 0 && self.interned[place].insert(number, text).is_none(), "{number} twice");
                }
            }
        }
        for event in packet.messages(11) {
            let needs = packet.number(13).unwrap_or(0) & 2 != 0;
            self.event(packet.number(8).unwrap(), needs, &event);
        }
    }

    fn track(&mut self, track: &Message<'_>) {
        let process = track.messages(3).next().map(|process| {
            assert!(process.number(1).unwrap() > 0);
            process.text(6).unwrap()
        });
        let described = Track {
            parent: track.number(5).unwrap_or(0),
            name: track.text(2).unwrap_or_default(),
            process,
            unit: track.messages(8).next().map(|counter| counter.text(6).unwrap()),
            rank: track.number(12),
        };
        assert!(described.parent == 0 || self.tracks.contains_key(&described.parent), "a child before its parent");
        let uuid = track.number(1).unwrap();
        assert!(uuid > 0 && self.tracks.insert(uuid, described).is_none(), "track {uuid} twice");
    }

    fn event(&mut self, at: u64, needs: bool, event: &Message<'_>) {
        assert!(at >= self.time, "{at} after {}", self.time);
        self.time = at;
        let uuid = event.number(11).unwrap();
        let track = self.tracks.get(&uuid).expect("an event on a track that is not described");
        match event.number(9).unwrap() {
            1 => {
                assert!(needs && track.unit.is_none());
                let slice = self.slice(uuid, at, event);
                let open = self.open.entry(uuid).or_default();
                open.push(self.slices.len());
                self.slices.push(Slice { depth: open.len() - 1, ..slice });
            }
            2 => {
                let ended = self.open.entry(uuid).or_default().pop().expect("an end without a begin");
                self.slices[ended].end = at;
            }
            4 => {
                assert!(track.unit.is_some(), "a value on a track that is no counter");
                self.samples.entry(uuid).or_default().push((at, event.double(44).unwrap()));
            }
            other => panic!("an event of type {other}"),
        }
    }

    fn slice(&self, track: u64, begin: u64, event: &Message<'_>) -> Slice {
        let told = |place: usize, number: u64| self.interned[place].get(&number).expect("a text not told").clone();
        let mut args = BTreeMap::new();
        for annotation in event.messages(4) {
            let value = match (annotation.number(3), annotation.double(5), annotation.number(17)) {
                (Some(number), None, None) => Arg::Number(number),
                (None, Some(real), None) => Arg::Real(real),
                (None, None, Some(text)) => Arg::Text(told(TEXTS, text)),
                other => panic!("an annotation with {other:?}"),
            };
            let key = told(KEYS, annotation.number(1).unwrap());
            assert!(args.insert(key.clone(), value).is_none(), "{key} twice on a slice");
        }
        let name = told(NAMES, event.number(10).unwrap());
        let category = told(CATEGORIES, event.number(3).unwrap());
        Slice { track, depth: 0, name, category, begin, end: begin, args }
    }

    /// Slices of these categories.
    pub(crate) fn of_category<'a>(&'a self, categories: &'a [&str]) -> impl Iterator<Item = &'a Slice> {
        self.slices.iter().filter(|slice| categories.contains(&slice.category.as_str()))
    }

    /// Tracks below one.
    pub(crate) fn children(&self, parent: u64) -> impl Iterator<Item = (u64, &Track)> {
        self.tracks.iter().filter(move |(_, track)| track.parent == parent).map(|(uuid, track)| (*uuid, track))
    }
}
