//! The few messages of Perfetto's trace format that are written, with the fields that are set.
//!
//! Field numbers are those of `protos/perfetto/trace/` in Perfetto's repository, of the file that stands at
//! each message. The format is proto2 and its `oneof`s are optional fields here: the bytes are the same.

use prost::Message;

/// `trace_packet.proto`: the unit of the stream; a file is `Trace.packet` (field 1) over and over.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TracePacket {
    /// Nanoseconds.
    #[prost(uint64, optional, tag = "8")]
    pub(super) timestamp: Option<u64>,
    /// The writer; interned data are those of its own packets.
    #[prost(uint32, optional, tag = "10")]
    pub(super) trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    pub(super) track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    pub(super) interned_data: Option<InternedData>,
    /// [`STATE_CLEARED`] or [`NEEDS_STATE`].
    #[prost(uint32, optional, tag = "13")]
    pub(super) sequence_flags: Option<u32>,
    /// Packets under zlib's deflate, less than 512 KB.
    #[prost(bytes = "vec", optional, tag = "50")]
    pub(super) compressed_packets: Option<Vec<u8>>,
    #[prost(message, optional, tag = "60")]
    pub(super) track_descriptor: Option<TrackDescriptor>,
}

/// `SEQ_INCREMENTAL_STATE_CLEARED`: interning begins anew.
pub(super) const STATE_CLEARED: u32 = 1;
/// `SEQ_NEEDS_INCREMENTAL_STATE`: this packet names interned data.
pub(super) const NEEDS_STATE: u32 = 2;

/// `track_event/track_descriptor.proto`: a row of the timeline.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackDescriptor {
    /// Not 0.
    #[prost(uint64, optional, tag = "1")]
    pub(super) uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(super) name: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub(super) process: Option<ProcessDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    pub(super) parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    pub(super) counter: Option<CounterDescriptor>,
    /// [`EXPLICIT`], or by name.
    #[prost(int32, optional, tag = "11")]
    pub(super) child_ordering: Option<i32>,
    /// Place among its siblings, where their parent orders explicitly.
    #[prost(int32, optional, tag = "12")]
    pub(super) sibling_order_rank: Option<i32>,
    #[prost(string, optional, tag = "14")]
    pub(super) description: Option<String>,
}

/// `TrackDescriptor.ChildTracksOrdering.EXPLICIT`.
pub(super) const EXPLICIT: i32 = 3;

/// `track_event/process_descriptor.proto`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub(super) pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    pub(super) process_name: Option<String>,
}

/// `track_event/counter_descriptor.proto`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct CounterDescriptor {
    #[prost(string, optional, tag = "6")]
    pub(super) unit_name: Option<String>,
    /// Tracks of one key are drawn to one scale.
    #[prost(string, optional, tag = "7")]
    pub(super) y_axis_share_key: Option<String>,
}

/// `track_event/track_event.proto`: something on a track.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackEvent {
    // Not packed: proto2 packs only where it says so.
    #[prost(uint64, repeated, packed = "false", tag = "3")]
    pub(super) category_iids: Vec<u64>,
    #[prost(message, repeated, tag = "4")]
    pub(super) debug_annotations: Vec<DebugAnnotation>,
    /// [`SLICE_BEGIN`], [`SLICE_END`] or [`COUNTER`].
    #[prost(int32, optional, tag = "9")]
    pub(super) kind: Option<i32>,
    #[prost(uint64, optional, tag = "10")]
    pub(super) name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    pub(super) track_uuid: Option<u64>,
    #[prost(double, optional, tag = "44")]
    pub(super) double_counter_value: Option<f64>,
}

/// `TrackEvent.Type.TYPE_SLICE_BEGIN`.
pub(super) const SLICE_BEGIN: i32 = 1;
/// `TrackEvent.Type.TYPE_SLICE_END`: of the slice that began last on the track.
pub(super) const SLICE_END: i32 = 2;
/// `TrackEvent.Type.TYPE_COUNTER`.
pub(super) const COUNTER: i32 = 4;

/// `track_event/debug_annotation.proto`: a key with one value.
#[derive(Clone, PartialEq, Message)]
pub(super) struct DebugAnnotation {
    #[prost(uint64, optional, tag = "1")]
    pub(super) name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    pub(super) uint_value: Option<u64>,
    #[prost(double, optional, tag = "5")]
    pub(super) double_value: Option<f64>,
    #[prost(uint64, optional, tag = "17")]
    pub(super) string_value_iid: Option<u64>,
}

/// `interned_data/interned_data.proto`: texts that later packets name by number.
#[derive(Clone, PartialEq, Message)]
pub(super) struct InternedData {
    #[prost(message, repeated, tag = "1")]
    pub(super) event_categories: Vec<Text>,
    #[prost(message, repeated, tag = "2")]
    pub(super) event_names: Vec<Text>,
    #[prost(message, repeated, tag = "3")]
    pub(super) debug_annotation_names: Vec<Text>,
    #[prost(message, repeated, tag = "29")]
    pub(super) debug_annotation_string_values: Vec<Text>,
}

/// `EventCategory`, `EventName`, `DebugAnnotationName` and `InternedString`, which are all of one form.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Text {
    /// Not 0.
    #[prost(uint64, optional, tag = "1")]
    pub(super) iid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(super) text: Option<String>,
}
