//! Structures that the kernels read, laid out as in `cuda/params.cuh`. Sizes and offsets are asserted on both sides.

use std::mem::{align_of, offset_of, size_of};

/// A piece of work: a pack of queries over a run of KV blocks, for some KV heads in a row.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) query_begin: u32,
    pub(crate) num_queries: u32,
    pub(crate) block_begin: u32,
    pub(crate) kv_tokens: u32,
    pub(crate) task: u32,
    pub(crate) tile: u32,
    pub(crate) head_begin: u16,
    pub(crate) head_count: u16,
    /// [`Item::MARKED`]; from bit 1 on [`Item::masked`].
    pub(crate) marked: u32,
}

impl Item {
    /// Bit of `marked` of an item whose KV is to leave L2 first.
    pub(crate) const MARKED: u32 = 1;

    /// Bits of `marked` for masks that begin at this entry of the list, and of which some leave `gaps`: tokens that no
    /// query sees.
    pub(crate) fn masked(begin: u32, gaps: bool) -> u32 {
        (begin + 1) << 1 | u32::from(gaps) << 31
    }
}

/// One query of a pack: the slot of its partial, and all partials of the query, whose slots follow each other in merge
/// order.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PackQuery {
    pub(crate) query: u32,
    pub(crate) slot: u32,
    pub(crate) first: u32,
    /// With [`PackQuery::WATCHED`].
    pub(crate) count: u32,
}

impl PackQuery {
    /// Bit of `count` of a query that CTAs without tasks merge.
    pub(crate) const WATCHED: u32 = 1 << 27;
}

/// An item with what a CTA needs to begin it: the blocks of its first boxes and the first of its queries.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) item: Item,
    pub(crate) blocks: [u32; Entry::BLOCKS],
    pub(crate) queries: [PackQuery; Entry::QUERIES],
}

impl Entry {
    pub(crate) const BLOCKS: usize = 32;
    pub(crate) const QUERIES: usize = 22;
}

/// An encoded tensor map; opaque to us.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TensorMap(pub(crate) [u64; 16]);

/// Parameters of `packscope_decode`; pointers are device addresses.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DecodeParams {
    pub(crate) k_map: TensorMap,
    pub(crate) v_map: TensorMap,
    pub(crate) k_map4: TensorMap,
    pub(crate) v_map4: TensorMap,
    pub(crate) queries: u64,
    pub(crate) k: u64,
    pub(crate) v: u64,
    pub(crate) out: u64,
    pub(crate) out_lse: u64,
    pub(crate) part_out: u64,
    pub(crate) part_lse: u64,
    pub(crate) pack_queries: u64,
    pub(crate) block_ids: u64,
    pub(crate) entries: u64,
    pub(crate) arrivals: u64,
    pub(crate) queue: u64,
    pub(crate) trace: u64,
    pub(crate) stride_block: u64,
    pub(crate) stride_head: u64,
    pub(crate) stride_token: u64,
    pub(crate) num_items: u32,
    pub(crate) q_heads: u32,
    pub(crate) kv_heads: u32,
    pub(crate) group: u32,
    pub(crate) block_shift: u32,
    pub(crate) box_shift: u32,
    pub(crate) scale_log2: f32,
    pub(crate) trace_capacity: u32,
    pub(crate) group_by: u32,
    pub(crate) masks: u64,
    pub(crate) watched: u64,
    pub(crate) num_watched: u32,
    pub(crate) watch_trace: u32,
}

/// One row of a merge: partials of one query, joined in order.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MergeRow {
    /// First slot, or first entry of the slot list where there is one.
    pub(crate) first: u32,
    pub(crate) count: u32,
    /// The query whose output this is, or the slot that gets the result.
    pub(crate) target: u32,
    /// 1 for a slot.
    pub(crate) to_slot: u32,
}

/// Parameters of `packscope_merge`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MergeParams {
    pub(crate) part_out: u64,
    pub(crate) part_lse: u64,
    pub(crate) rows: u64,
    pub(crate) row_slots: u64,
    pub(crate) out: u64,
    pub(crate) out_lse: u64,
    pub(crate) trace: u64,
    pub(crate) trace_capacity: u32,
    pub(crate) q_heads: u32,
    pub(crate) number: u32,
    pub(crate) trace_begin: u32,
    pub(crate) unused: [u32; 2],
}

/// Some query rows of a prefill chunk over a range of KV, for every query head.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PrefillItem {
    pub(crate) row_begin: u32,
    pub(crate) num_rows: u32,
    pub(crate) block_begin: u32,
    pub(crate) kv_begin: u32,
    pub(crate) kv_end: u32,
    pub(crate) position: u32,
    /// [`Self::NO_SLOT`] where the rows are output.
    pub(crate) slot_begin: u32,
    pub(crate) slot_step: u32,
    pub(crate) task: u32,
    /// [`Self::LISTED`], [`Self::FOLDED`].
    pub(crate) kind: u32,
    pub(crate) unused: [u32; 2],
}

impl PrefillItem {
    pub(crate) const NO_SLOT: u32 = u32::MAX;
    /// `row_begin` is an entry of the row list.
    pub(crate) const LISTED: u32 = 1;
    /// Rows are the query heads of a KV head of each query; computed once a KV head.
    pub(crate) const FOLDED: u32 = 2;
}

/// Parameters of `packscope_prefill`; pointers are device addresses.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PrefillParams {
    pub(crate) k_map: TensorMap,
    pub(crate) v_map: TensorMap,
    pub(crate) queries: u64,
    pub(crate) k: u64,
    pub(crate) v: u64,
    pub(crate) out: u64,
    pub(crate) out_lse: u64,
    pub(crate) part_out: u64,
    pub(crate) part_lse: u64,
    pub(crate) items: u64,
    pub(crate) rows: u64,
    pub(crate) block_ids: u64,
    pub(crate) queue: u64,
    pub(crate) trace: u64,
    pub(crate) stride_block: u64,
    pub(crate) stride_head: u64,
    pub(crate) stride_token: u64,
    pub(crate) num_items: u32,
    pub(crate) q_heads: u32,
    pub(crate) group: u32,
    pub(crate) block_shift: u32,
    pub(crate) box_shift: u32,
    pub(crate) scale_log2: f32,
    pub(crate) trace_capacity: u32,
    pub(crate) trace_begin: u32,
    pub(crate) num_folded: u32,
    pub(crate) group_inverse: u32,
    pub(crate) unused: [u32; 14],
}

impl PrefillParams {
    /// What rows of a task, multiplied by it and shifted by 16 bits, are divided by `group`: its error, below the group, for
    /// 128 rows is less than 2^16.
    pub(crate) fn inverse(group: u32) -> u32 {
        (1_u32 << 16).div_ceil(group.max(1))
    }
}

/// Parameters of `packscope_hybrid`; pointers are device addresses.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HybridParams {
    pub(crate) prefill: PrefillParams,
    pub(crate) decode: DecodeParams,
    /// Next prefill item, next decode item, CTAs that have their item, one unused, then tickets of each SM.
    pub(crate) counters: u64,
    /// (task, query head) pairs.
    pub(crate) prefill_items: u32,
    pub(crate) decode_items: u32,
    /// Tickets after which the pattern begins again; 0 where the index of a CTA says what it does.
    pub(crate) period: u32,
    /// How many of them, from the first, are prefill.
    pub(crate) prefill_tickets: u32,
    /// SMs that have a counter.
    pub(crate) sm_counters: u32,
    pub(crate) unused: [u32; 9],
}

impl HybridParams {
    /// Counters before those of the SMs.
    pub(crate) const SMS: u32 = 4;
}

/// What one CTA did for one (pack, KV head) or one (prefill task, query head), or a merge launch for one row, as the
/// kernel wrote it.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceRecord {
    /// Bits 0..15 `%smid`; 16..23 and 24..31 how far the two clocks were read apart at the begin and at the end,
    /// in [`Self::WIDTH_UNIT`] cycles, at most 255.
    pub(crate) sm_and_widths: u32,
    /// Index of the pack in the plan; [`Self::PREFILL`] and that of the prefill task; [`Self::MERGE`] for the first merge launch, one less for each later one.
    pub task: u32,
    /// KV head; the query head, for prefill; the row, for a merge.
    pub kv_head: u32,
    /// `blockIdx.x` in its launch.
    pub cta: u32,
    /// `%globaltimer` at the start, nanoseconds; see [`Self::readings`] for its moment on this SM's own clock.
    pub begin_ns: u64,
    /// `%globaltimer` after the result was written, nanoseconds.
    pub end_ns: u64,
    /// `%clock64` of this SM at the start.
    pub begin_clock: u64,
    /// `%clock64` when the first K tile had landed.
    pub first_tile_clock: u64,
    /// `%clock64` after the last tile.
    pub main_done_clock: u64,
    /// `%clock64` at the end.
    pub end_clock: u64,
}

impl TraceRecord {
    /// `task` of the records of the first merge launch.
    pub const MERGE: u32 = u32::MAX;
    /// Added to the index of a prefill task.
    pub const PREFILL: u32 = 1 << 30;
    /// Cycles in a step of [`ClockReading::width`].
    pub const WIDTH_UNIT: u32 = 16;
    /// A [`ClockReading::width`] that is this or more, cycles.
    pub const MOST_WIDTH: u32 = 255 * Self::WIDTH_UNIT;

    /// `%smid`.
    #[must_use]
    pub fn sm(&self) -> u32 {
        self.sm_and_widths & 0xffff
    }

    /// Both clocks, as read at the begin and at the end.
    #[must_use]
    pub fn readings(&self) -> [ClockReading; 2] {
        let width = |shift: u32| (self.sm_and_widths >> shift & 0xff) * Self::WIDTH_UNIT;
        [
            ClockReading { clock: self.begin_clock, ns: self.begin_ns, width: width(16) },
            ClockReading { clock: self.end_clock, ns: self.end_ns, width: width(24) },
        ]
    }
}

/// Both clocks of one moment: the timer showed `ns` at some time from cycle `clock` until `width` cycles later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// `%clock64`.
    pub clock: u64,
    /// `%globaltimer`, nanoseconds.
    pub ns: u64,
    /// Cycles, rounded down to [`TraceRecord::WIDTH_UNIT`] and cut at [`TraceRecord::MOST_WIDTH`].
    pub width: u32,
}

const _: () = {
    assert!(size_of::<Item>() == 32 && align_of::<Item>() == 16);
    assert!(offset_of!(Item, head_begin) == 24);
    assert!(size_of::<Entry>() == 512 && offset_of!(Entry, queries) == 160);
    assert!(size_of::<TensorMap>() == 128);
    assert!(size_of::<DecodeParams>() == 704 && align_of::<DecodeParams>() == 64);
    assert!(offset_of!(DecodeParams, queries) == 512);
    assert!(offset_of!(DecodeParams, stride_block) == 616);
    assert!(offset_of!(DecodeParams, num_items) == 640);
    assert!(offset_of!(DecodeParams, group_by) == 672);
    assert!(offset_of!(DecodeParams, masks) == 680);
    assert!(size_of::<PrefillItem>() == 48 && align_of::<PrefillItem>() == 16);
    assert!(size_of::<PrefillParams>() == 512 && align_of::<PrefillParams>() == 64);
    assert!(offset_of!(PrefillParams, queries) == 256);
    assert!(offset_of!(PrefillParams, num_items) == 376);
    assert!(offset_of!(PrefillParams, num_folded) == 408);
    assert!(offset_of!(PrefillItem, kind) == 36);
    assert!(size_of::<HybridParams>() == 1280 && align_of::<HybridParams>() == 64);
    assert!(offset_of!(HybridParams, decode) == 512 && offset_of!(HybridParams, counters) == 1216);
    assert!(size_of::<MergeRow>() == 16 && size_of::<MergeParams>() == 80);
    assert!(size_of::<TraceRecord>() == 64 && offset_of!(TraceRecord, begin_ns) == 16);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_task_are_divided_by_every_group() {
        for group in 1..=64 {
            let inverse = PrefillParams::inverse(group);
            assert!((0..128).all(|row| (row * inverse) >> 16 == row / group), "{group}");
        }
    }

    #[test]
    fn the_first_word_of_a_record_holds_the_sm_and_both_widths() {
        let record = TraceRecord {
            sm_and_widths: 0xff12_0083,
            begin_ns: 1_000,
            end_ns: 2_000,
            begin_clock: 30,
            end_clock: 40,
            ..TraceRecord::default()
        };
        assert_eq!(record.sm(), 131);
        let begin = ClockReading { clock: 30, ns: 1_000, width: 0x12 * 16 };
        let end = ClockReading { clock: 40, ns: 2_000, width: TraceRecord::MOST_WIDTH };
        assert_eq!(record.readings(), [begin, end]);
    }
}
