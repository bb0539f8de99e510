//! The buffer that traced kernels write to: a header of [`HEADER_WORDS`] words, the first of which counts the records
//! that found no place, then the records, each in its own place.

use crate::error::KernelError;
use crate::gpu::{DeviceBuffer, FILLED_BY_A_KERNEL, Gpu};
use crate::params::TraceRecord;
use crate::stream::Stream;

const HEADER_WORDS: usize = 16;

#[derive(Debug)]
pub(crate) struct TraceBuffer {
    buffer: DeviceBuffer,
    capacity: u32,
}

impl TraceBuffer {
    /// Room for `capacity` records; with 0 nothing is traced.
    pub(crate) fn new(gpu: &Gpu, capacity: u32) -> Result<Self, KernelError> {
        let bytes = HEADER_WORDS * 4 + capacity as usize * size_of::<TraceRecord>();
        // A fill of a few KiB is a launch or none, and those of timed streams are counted.
        let buffer = gpu.allocate(bytes.next_multiple_of(FILLED_BY_A_KERNEL))?;
        Ok(Self { buffer, capacity })
    }

    /// Where kernels write, 0 for nowhere.
    pub(crate) fn address(&self) -> u64 {
        if self.capacity > 0 { self.buffer.address() } else { 0 }
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Empties the buffer, in stream order.
    pub(crate) fn clear(&self, stream: &Stream) -> Result<(), KernelError> {
        self.buffer.fill(0, stream)
    }

    /// The records in the order of their places, and how many were lost.
    pub(crate) fn read(&self) -> Result<(Vec<TraceRecord>, u32), KernelError> {
        let lost: Vec<u32> = self.buffer.read(0, 1)?;
        let mut records: Vec<TraceRecord> = self.buffer.read(HEADER_WORDS * 4, self.capacity as usize)?;
        records.retain(|record| record.end_ns != 0);
        Ok((records, lost[0]))
    }
}
