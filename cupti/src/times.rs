//! Points in time, one type for each clock.

/// Nanoseconds on the GPU's clock, which kernels read as `%globaltimer`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuTime(pub u64);

/// Nanoseconds on the clock of CUPTI's activity records, near the host's wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordTime(pub u64);

/// Nanoseconds on the clock of PM samples. Seen on an H200 with CUPTI 13.0: some tens of microseconds
/// from `%globaltimer`, drifting by some microseconds a second, so align each series by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SampleTime(pub u64);
