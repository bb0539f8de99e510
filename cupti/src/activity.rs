//! Kernel activity records: when each kernel ran, as the driver saw it.
//!
//! CUPTI asks for buffers and hands them back through two C callbacks without a place for our own
//! data, so the buffers in flight live in a static pool. The pool is bounded: beyond it CUPTI drops
//! records and counts them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use cupti_sys::{CUcontext, CUpti_Activity, CUpti_ActivityKernel9, CUpti_ActivityKind, CUptiResult};

use crate::error::{CuptiError, LaunchError, check};
use crate::session::{Session, text};
use crate::times::RecordTime;

/// Words of 8 bytes in a buffer: a mebibyte, some five thousand records.
const BUFFER_WORDS: usize = 1 << 17;
/// Buffers that may be in flight.
const MOST_BUFFERS: usize = 64;
/// Flush records that are not complete yet, too.
const FORCED: u32 = 1;

/// One run of one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelRecord {
    /// The function's name as the compiler mangled it.
    pub name: String,
    /// When the GPU began on it.
    pub start: RecordTime,
    /// When it was done.
    pub end: RecordTime,
    /// CTAs in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a CTA in x, y and z.
    pub block: [u32; 3],
    /// The stream, as CUPTI numbers them.
    pub stream: u32,
    /// Registers of a thread.
    pub registers: u16,
}

/// The kernels of a run, in the order of their start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelRecords {
    /// Those with times that can be.
    pub kernels: Vec<KernelRecord>,
    /// Records that CUPTI dropped for want of room.
    pub lost: usize,
    /// Records left out because a time was zero or the end came before the start.
    pub rejected: usize,
}

struct Buffer {
    words: Box<[u64]>,
    valid_bytes: usize,
}

#[derive(Default)]
struct Pool {
    /// Handed out, by address.
    out: Vec<Box<[u64]>>,
    /// Handed back.
    full: Vec<Buffer>,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { out: Vec::new(), full: Vec::new() });

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// CUPTI wants a buffer; null tells it that there is none.
unsafe extern "C" fn requested(buffer: *mut *mut u8, size: *mut usize, most_records: *mut usize) {
    let mut pool = pool();
    let (mut address, mut bytes) = (std::ptr::null_mut(), 0);
    if pool.out.len() + pool.full.len() < MOST_BUFFERS {
        let mut words = vec![0_u64; BUFFER_WORDS].into_boxed_slice();
        address = words.as_mut_ptr().cast::<u8>();
        bytes = size_of_val(&*words);
        pool.out.push(words);
    }
    // SAFETY: CUPTI passes places for all three; zero records means as many as fit.
    unsafe {
        *buffer = address;
        *size = bytes;
        *most_records = 0;
    }
}

/// CUPTI gives a buffer back with `valid` bytes of records in it.
unsafe extern "C" fn completed(_: CUcontext, _: u32, buffer: *mut u8, size: usize, valid: usize) {
    let mut pool = pool();
    if let Some(at) = pool.out.iter().position(|words| words.as_ptr().cast::<u8>() == buffer.cast_const()) {
        let words = pool.out.swap_remove(at);
        pool.full.push(Buffer { words, valid_bytes: valid.min(size) });
    }
}

impl Session {
    /// Records the kernels that `launch` launches, once. They run concurrently as without.
    pub fn kernel_records<E: Into<LaunchError>>(
        &mut self,
        mut launch: impl FnMut() -> Result<(), E>,
    ) -> Result<KernelRecords, CuptiError> {
        let api = self.api;
        // What an earlier, failed recording left.
        pool().full.clear();
        // SAFETY: both callbacks keep the contract of CUPTI's activity API and live forever.
        let result = unsafe { api.cuptiActivityRegisterCallbacks(Some(requested), Some(completed)) };
        check("cuptiActivityRegisterCallbacks", result)?;
        let kind = CUpti_ActivityKind::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
        // SAFETY: takes values only.
        check("cuptiActivityEnable", unsafe { api.cuptiActivityEnable(kind) })?;
        let launched = self.launch(&mut launch);
        // SAFETY: takes values only, as the one before.
        let flushed = check("cuptiActivityFlushAll", unsafe { api.cuptiActivityFlushAll(FORCED) });
        // SAFETY: see above.
        let disabled = check("cuptiActivityDisable", unsafe { api.cuptiActivityDisable(kind) });
        launched.and(flushed).and(disabled)?;
        self.read_records()
    }

    fn read_records(&self) -> Result<KernelRecords, CuptiError> {
        let mut records = KernelRecords::default();
        for buffer in std::mem::take(&mut pool().full) {
            self.read_buffer(buffer, &mut records)?;
        }
        // SAFETY: writes to a place of the right type; the null context stands for all.
        let result =
            unsafe { self.api.cuptiActivityGetNumDroppedRecords(std::ptr::null_mut(), 0, &raw mut records.lost) };
        check("cuptiActivityGetNumDroppedRecords", result)?;
        records.kernels.sort_by_key(|kernel| (kernel.start, kernel.end));
        Ok(records)
    }

    fn read_buffer(&self, mut buffer: Buffer, records: &mut KernelRecords) -> Result<(), CuptiError> {
        let mut record: *mut CUpti_Activity = std::ptr::null_mut();
        let bytes = buffer.words.as_mut_ptr().cast::<u8>();
        loop {
            // SAFETY: the buffer holds as many valid bytes; `record` is null or the last one in it.
            let result = unsafe { self.api.cuptiActivityGetNextRecord(bytes, buffer.valid_bytes, &raw mut record) };
            if result == CUptiResult::CUPTI_ERROR_MAX_LIMIT_REACHED {
                return Ok(());
            }
            check("cuptiActivityGetNextRecord", result)?;
            // SAFETY: CUPTI returned a record in the buffer, which begins with its kind.
            if unsafe { (*record).kind } == CUpti_ActivityKind::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL {
                // SAFETY: it is a kernel's, which since 12.0 has begun with these fields.
                match unsafe { kernel(record.cast()) } {
                    Some(kernel) => records.kernels.push(kernel),
                    None => records.rejected += 1,
                }
            }
        }
    }
}

/// A record whose times can be.
///
/// # Safety
/// `record` points to a kernel's record whose name is a C string.
unsafe fn kernel(record: *const CUpti_ActivityKernel9) -> Option<KernelRecord> {
    // SAFETY: the caller vouches for it; unaligned because CUPTI packs records.
    let record = unsafe { record.read_unaligned() };
    if record.start == 0 || record.end < record.start {
        return None;
    }
    let extent = |x: i32, y: i32, z: i32| [x, y, z].map(|count| u32::try_from(count).unwrap_or_default());
    Some(KernelRecord {
        // SAFETY: the caller vouches for it.
        name: unsafe { text(record.name) },
        start: RecordTime(record.start),
        end: RecordTime(record.end),
        grid: extent(record.gridX, record.gridY, record.gridZ),
        block: extent(record.blockX, record.blockY, record.blockZ),
        stream: record.streamId,
        registers: record.registersPerThread,
    })
}
