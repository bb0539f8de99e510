//! What the kernels leave behind: the trace, and the readings of the GPU's timer.
//!
//! The parameters are the real ones, read as the real kernels read them.

use std::ffi::c_void;

use crate::params::{DecodeParams, Entry, MergeParams, TraceRecord};
use crate::state::{Code, SUCCESS, State};

/// Nanoseconds from one launch to the next, and of one CTA.
const LAUNCH: u64 = 20_000;
const CTA: u64 = 6_000;
/// Cycles a nanosecond.
const RATE: u64 = 2;
/// Bytes before the first trace record.
const TRACE_HEADER: u64 = 64;
const SMS: u32 = 132;

/// Does what the kernel of this name does; its parameters lie at `params`.
///
/// # Safety
/// `params` points to the structure that the kernel takes.
pub(crate) unsafe fn run(state: &mut State, name: &str, grid: u32, params: *const c_void) -> Code {
    state.clock += LAUNCH;
    let now = state.clock;
    let done = match name {
        "packscope_clock_step" => {
            // SAFETY: the kernel takes an address.
            let to = unsafe { params.cast::<u64>().read() };
            write(state, to, &32_u64.to_le_bytes())
        }
        "packscope_stamp" => {
            // SAFETY: the kernel takes an address.
            let to = unsafe { params.cast::<u64>().read() };
            write(state, to, &now.to_le_bytes())
        }
        // SAFETY: the kernel takes these.
        "packscope_decode" => decode(state, unsafe { &*params.cast::<DecodeParams>() }),
        // SAFETY: the kernel takes these.
        "packscope_merge" => merge(state, grid, unsafe { &*params.cast::<MergeParams>() }),
        _ => Some(()),
    };
    if done.is_some() { SUCCESS } else { state.fault() }
}

fn write(state: &mut State, to: u64, bytes: &[u8]) -> Option<()> {
    let place = state.bytes(to, bytes.len() as u64)?;
    place.copy_from_slice(bytes);
    Some(())
}

fn decode(state: &mut State, params: &DecodeParams) -> Option<()> {
    for nth in 0..params.num_items {
        let entry = state.bytes(params.entries + u64::from(nth) * size_of::<Entry>() as u64, 32)?;
        let word = |at: usize| u32::from_le_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]]);
        // `Item`: the task, and first head and number of heads in halves of a word.
        let (task, heads) = (word(16), word(24));
        for head in heads & 0xffff..(heads & 0xffff) + (heads >> 16) {
            let place = task * params.kv_heads + head;
            keep(state, (params.trace, params.trace_capacity), place, (task, head, nth))?;
        }
    }
    Some(())
}

fn merge(state: &mut State, grid: u32, params: &MergeParams) -> Option<()> {
    let task = TraceRecord::MERGE - params.number;
    let trace = (params.trace, params.trace_capacity);
    (0..grid).try_for_each(|row| keep(state, trace, params.trace_begin + row, (task, row, row)))
}

/// Keeps the record of a CTA in its place.
fn keep(
    state: &mut State,
    (trace, capacity): (u64, u32),
    place: u32,
    (task, kv_head, cta): (u32, u32, u32),
) -> Option<()> {
    if trace == 0 || place >= capacity {
        return Some(());
    }
    let begin = state.clock + u64::from(cta / SMS) * CTA;
    let clocks = [begin, begin + CTA / 4, begin + CTA / 2, begin + CTA - 1_000].map(|ns| ns * RATE);
    let words = [cta % SMS, task, kv_head, cta].into_iter().flat_map(u32::to_le_bytes);
    let times = [begin, begin + CTA - 1_000].into_iter().chain(clocks).flat_map(u64::to_le_bytes);
    let record: Vec<u8> = words.chain(times).collect();
    write(state, trace + TRACE_HEADER + u64::from(place) * size_of::<TraceRecord>() as u64, &record)
}
