//! The msgpack of a message. A batch of events is an array `[ts, events, rank?]`, or a map of these names in newer
//! versions; an event likewise is an array that begins with its tag, or a map with `type`. Fields that are not needed
//! are passed over, so that a later version's are no fault.

use rmpv::Value;

/// Hash of a block: a whole number, or bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Hash {
    /// As both vLLM's `int` and SGLang's are sent; signed ones by their bits.
    Number(u64),
    /// As newer versions of vLLM send them.
    Bytes(Vec<u8>),
}

impl Hash {
    fn of(value: &Value) -> Option<Self> {
        if let Some(number) = value.as_u64() {
            return Some(Self::Number(number));
        }
        if let Some(number) = value.as_i64() {
            return Some(Self::Number(number as u64));
        }
        value.as_slice().map(|bytes| Self::Bytes(bytes.to_vec()))
    }

    /// A hash as lines of JSON have it: a whole number, or hexadecimal text.
    pub(super) fn of_json(value: &serde_json::Value) -> Option<Self> {
        if let Some(number) = value.as_u64().or_else(|| value.as_i64().map(|number| number as u64)) {
            return Some(Self::Number(number));
        }
        let text = value.as_str()?;
        let bytes = (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok());
        (!text.is_empty()).then(|| bytes.collect::<Option<_>>().map(Self::Bytes))?
    }
}

/// An event that the cache heeds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Event {
    /// Blocks came in, each continuing the one before it.
    Stored { hashes: Vec<Hash>, parent: Option<Hash>, block_size: u32, elsewhere: bool, group: u64 },
    /// Blocks were evicted.
    Removed { hashes: Vec<Hash>, elsewhere: bool, group: u64 },
    /// The cache is empty.
    Cleared,
    /// One that this version does not know.
    Unknown,
}

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct EventBatch {
    /// Seconds.
    pub(super) ts: f64,
    pub(super) events: Vec<Event>,
    /// Which of several data-parallel engines.
    pub(super) rank: i64,
}

/// Reads the payload of a message.
///
/// # Errors
/// What is wrong with it.
pub(super) fn decode(mut payload: &[u8]) -> Result<EventBatch, String> {
    let value = rmpv::decode::read_value(&mut payload).map_err(|error| format!("its msgpack is damaged: {error}"))?;
    let fields = Fields::new(&value, 0).ok_or("its payload is neither an array nor a map")?;
    let ts = fields.get(0, "ts").and_then(Value::as_f64).filter(|ts| ts.is_finite());
    let events = fields.get(1, "events").and_then(Value::as_array).ok_or("it has no list of events")?;
    let events = events
        .iter()
        .enumerate()
        .map(|(at, event)| event_of(event).map_err(|problem| format!("event {at}: {problem}")));
    Ok(EventBatch {
        ts: ts.ok_or("its time is no number")?,
        events: events.collect::<Result<_, _>>()?,
        rank: fields.get(2, "data_parallel_rank").and_then(Value::as_i64).unwrap_or(0),
    })
}

/// Fields by place or by name.
enum Fields<'a> {
    Places(&'a [Value]),
    Names(&'a [(Value, Value)]),
}

impl<'a> Fields<'a> {
    fn new(value: &'a Value, skipped: usize) -> Option<Self> {
        match value {
            Value::Array(values) => Some(Self::Places(values.get(skipped..).unwrap_or_default())),
            Value::Map(pairs) => Some(Self::Names(pairs)),
            _ => None,
        }
    }

    fn get(&self, place: usize, name: &str) -> Option<&'a Value> {
        let found = match self {
            Self::Places(values) => values.get(place),
            Self::Names(pairs) => pairs.iter().find(|(key, _)| key.as_str() == Some(name)).map(|(_, value)| value),
        };
        found.filter(|value| !value.is_nil())
    }
}

fn event_of(value: &Value) -> Result<Event, String> {
    let tag = match value {
        Value::Array(values) => values.first().and_then(Value::as_str),
        _ => Fields::new(value, 0).and_then(|fields| fields.get(0, "type")).and_then(Value::as_str),
    };
    let tag = tag.ok_or("it has no type")?;
    let fields = Fields::new(value, 1).ok_or("it is neither an array nor a map")?;
    // Blocks in host memory or on disk are no part of what attention reads.
    let elsewhere = |place| {
        let medium = fields.get(place, "medium").and_then(Value::as_str);
        medium.is_some_and(|medium| !medium.eq_ignore_ascii_case("gpu"))
    };
    let group = |place| fields.get(place, "group_idx").and_then(Value::as_u64).unwrap_or(0);
    match tag {
        "BlockStored" => {
            let size = fields.get(3, "block_size").and_then(Value::as_u64).and_then(|size| u32::try_from(size).ok());
            let parent = fields.get(1, "parent_block_hash");
            Ok(Event::Stored {
                hashes: hashes(&fields)?,
                parent: parent.map(|parent| Hash::of(parent).ok_or("parent_block_hash is no hash")).transpose()?,
                block_size: size.filter(|size| *size > 0).ok_or("block_size is no number above 0")?,
                elsewhere: elsewhere(5),
                group: group(8),
            })
        }
        "BlockRemoved" => Ok(Event::Removed { hashes: hashes(&fields)?, elsewhere: elsewhere(1), group: group(2) }),
        "AllBlocksCleared" => Ok(Event::Cleared),
        _ => Ok(Event::Unknown),
    }
}

fn hashes(fields: &Fields<'_>) -> Result<Vec<Hash>, String> {
    let list = fields.get(0, "block_hashes").and_then(Value::as_array).ok_or("it has no block_hashes")?;
    let list =
        list.iter().map(|hash| Hash::of(hash).ok_or_else(|| "a block hash is neither number nor bytes".to_owned()));
    list.collect()
}
