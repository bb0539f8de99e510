//! A safe session over NVIDIA CUPTI: kernel activity records, range counters and PM sampling.
//!
//! ```no_run
//! # fn flush() -> Result<(), std::io::Error> { Ok(()) }
//! # fn launch() -> Result<(), std::io::Error> { Ok(()) }
//! use cupti::{Quantity, Sampling, Session};
//!
//! // With a CUDA context current on this thread:
//! let mut session = Session::open()?;
//! let counted = session.count(&Quantity::COUNTED, || flush(), || launch())?;
//! println!("{:?} bytes read from DRAM", counted.get(Quantity::DramReadBytes));
//! let series = session.sample(&Quantity::SAMPLED, &Sampling::default(), || launch())?;
//! println!("{} samples", series.len());
//! # Ok::<(), cupti::CuptiError>(())
//! ```
//!
//! The hardware counts one thing at a time and for everybody, so one session is open in a process
//! at once, and each method finishes before the next begins. Counting slows the launches that it
//! covers: time them in a run of their own. Refusal is a normal state with a remedy in its message
//! ([`CuptiError`]); nothing here panics or stays half open.
//!
//! Three clocks appear, each with its type: [`GpuTime`] is the GPU's own, which kernels read as
//! `%globaltimer`; [`RecordTime`] and [`SampleTime`] are those that activity records and samples are
//! given in. [`clock`] puts them on the first and says how well.

mod activity;
pub mod clock;
mod driver;
mod error;
#[cfg(test)]
mod fake;
mod host;
mod metrics;
mod range;
mod sampling;
mod session;
#[cfg(test)]
mod tests;
mod times;

pub use activity::{KernelRecord, KernelRecords};
pub use error::{CuptiError, Full, LaunchError};
pub use metrics::{Metric, Mode, Named, Quantity};
pub use range::{Counted, RangeCounts};
pub use sampling::{Samples, Sampling, Series};
pub use session::Session;
pub use times::{GpuTime, RecordTime, SampleTime};
