//! Every way in which counting can fail, said so that a person can act on it.

use cupti_sys::{CUptiResult, LoadError};

/// What a caller's launch failed with.
pub type LaunchError = Box<dyn std::error::Error + Send + Sync>;

/// A buffer that can fill up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The samples that the caller asked to keep at most.
    Samples,
    /// The memory that the GPU writes raw samples to.
    Hardware,
    /// The ranges that one pass may hold.
    Ranges,
}

/// Why nothing was counted.
#[derive(Debug, thiserror::Error)]
pub enum CuptiError {
    /// No CUDA driver on this machine.
    #[error("hardware counters need an NVIDIA driver, and this machine has none (libcuda.so is not there)")]
    NoDriver,
    /// No context is current on this thread.
    #[error("no CUDA context is current on this thread; open the GPU before the counters")]
    NoContext,
    /// A session is open already.
    #[error("a counter session is open in this process; close it first, since the hardware counts for one at a time")]
    AlreadyOpen,
    /// The library is not there, or does not serve.
    #[error(
        "{0}. Install CUPTI 12.6 or later (`pip install nvidia-cuda-cupti`, or the CUDA toolkit), or name it in {var}",
        var = cupti_sys::LIBRARY_VARIABLE
    )]
    Library(#[from] LoadError),
    /// The driver is older than this CUPTI needs.
    #[error("the NVIDIA driver serves CUDA {}, the counters need {}; update the driver", version(*driver), version(*needed))]
    DriverTooOld {
        /// CUDA version of the driver, major * 1000 + minor * 10.
        driver: i32,
        /// The lowest that serves.
        needed: i32,
    },
    /// Only administrators may read counters here.
    #[error(
        "reading hardware counters was refused ({call}). Run as root, give the container CAP_SYS_ADMIN \
         (`docker run --cap-add=SYS_ADMIN`), or allow everyone: put \
         `options nvidia NVreg_RestrictProfilingToAdminUsers=0` into /etc/modprobe.d/nvidia-profiler.conf and reboot"
    )]
    PermissionDenied {
        /// The function that was refused.
        call: &'static str,
    },
    /// Another tool holds CUPTI or the counters.
    #[error(
        "another profiler holds the hardware counters ({call}). Close Nsight Compute, Nsight Systems, cuda-gdb, DCGM \
         profiling or whatever else counts on this GPU, and run again without it"
    )]
    AnotherProfiler {
        /// The function that was refused.
        call: &'static str,
    },
    /// The GPU or its configuration has no counters to read.
    #[error("this GPU does not offer {what}")]
    NotSupported {
        /// What was wanted, with the reason where CUPTI gives one.
        what: String,
    },
    /// No such metric.
    #[error("metric {metric} is unknown on chip {chip}; ask for the list of this chip's metrics")]
    UnknownMetric {
        /// Its name as given.
        metric: String,
        /// The chip as CUPTI calls it.
        chip: String,
    },
    /// PM sampling watches a running kernel once, so all metrics must fit one pass.
    #[error("these {metrics} metrics need {passes} passes, and a time series has only one; sample fewer at once")]
    TooManyPasses {
        /// How many metrics were asked.
        metrics: usize,
        /// How many passes they need.
        passes: usize,
    },
    /// More came than fits.
    #[error("{}", overflow(*full, *capacity))]
    BufferOverflow {
        /// Which buffer.
        full: Full,
        /// Its size: samples, bytes or ranges.
        capacity: u64,
    },
    /// Passes went on without end.
    #[error("the counters wanted more than {passes} passes, where {planned} were planned; this is a fault of CUPTI's")]
    EndlessPasses {
        /// Passes made.
        passes: usize,
        /// Passes that the metrics need.
        planned: usize,
    },
    /// A launch under the counters failed.
    #[error("the launch failed while it was counted: {0}")]
    Launch(#[source] LaunchError),
    /// The driver reported an error of the work that was counted.
    #[error("the GPU reported CUDA error {code} while it was counted")]
    Gpu {
        /// `CUresult`.
        code: u32,
    },
    /// Nobody wants the counts any more; see [`crate::Session::stop_when`].
    #[error("counting was stopped")]
    Stopped,
    /// Anything else that CUPTI refused.
    #[error("{call} failed with CUPTI error {code}{}", name_of(*code))]
    Call {
        /// The function.
        call: &'static str,
        /// `CUptiResult`.
        code: u32,
    },
}

fn version(cuda: i32) -> String {
    format!("{}.{}", cuda / 1000, cuda % 1000 / 10)
}

fn overflow(full: Full, capacity: u64) -> String {
    match full {
        Full::Samples => format!(
            "the run filled the {capacity} samples that there is room for; keep more samples or widen the interval"
        ),
        Full::Hardware => format!(
            "the GPU's sample buffer of {capacity} bytes overflowed; make it larger, widen the interval or sample fewer metrics"
        ),
        Full::Ranges => format!("counts of some launches were dropped: a pass holds {capacity} range"),
    }
}

/// What the headers call the codes that a person may meet.
fn name_of(code: u32) -> &'static str {
    match CUptiResult(code) {
        CUptiResult::CUPTI_ERROR_INVALID_PARAMETER => " (invalid parameter)",
        CUptiResult::CUPTI_ERROR_INVALID_DEVICE => " (invalid device)",
        CUptiResult::CUPTI_ERROR_INVALID_CONTEXT => " (invalid context)",
        CUptiResult::CUPTI_ERROR_INVALID_OPERATION => " (invalid operation)",
        CUptiResult::CUPTI_ERROR_OUT_OF_MEMORY => {
            " (out of memory; end other programs on the GPU, or run without the counters)"
        }
        CUptiResult::CUPTI_ERROR_HARDWARE => " (hardware)",
        CUptiResult::CUPTI_ERROR_NOT_READY => " (not ready)",
        CUptiResult::CUPTI_ERROR_NOT_INITIALIZED => {
            " (not initialized: libcuda.so, or libnvperf_host.so beside CUPTI, did not load)"
        }
        CUptiResult::CUPTI_ERROR_UNKNOWN => " (unknown)",
        _ => "",
    }
}

/// The error of a result that is not success.
pub(crate) fn check(call: &'static str, result: CUptiResult) -> Result<(), CuptiError> {
    Err(match result {
        CUptiResult::CUPTI_SUCCESS => return Ok(()),
        CUptiResult::CUPTI_ERROR_INSUFFICIENT_PRIVILEGES
        | CUptiResult::CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES => CuptiError::PermissionDenied { call },
        CUptiResult::CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
        | CUptiResult::CUPTI_ERROR_HARDWARE_BUSY
        | CUptiResult::CUPTI_ERROR_OLD_PROFILER_API_INITIALIZED => CuptiError::AnotherProfiler { call },
        CUptiResult::CUPTI_ERROR_NOT_SUPPORTED => CuptiError::NotSupported { what: format!("what {call} asks for") },
        CUptiResult::CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED
        | CUptiResult::CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED => {
            CuptiError::NotSupported { what: "counters in this virtual machine".to_owned() }
        }
        CUptiResult::CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED => {
            CuptiError::NotSupported { what: "counters under confidential computing".to_owned() }
        }
        CUptiResult::CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED => {
            CuptiError::NotSupported { what: "counters, being a mining processor".to_owned() }
        }
        CUptiResult(code) => CuptiError::Call { call, code },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_its_remedies() {
        for code in [35, 40] {
            let error = check("cuptiPmSamplingEnable", CUptiResult(code)).unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, CuptiError::PermissionDenied { .. }), "{text}");
            assert!(text.contains("NVreg_RestrictProfilingToAdminUsers=0") && text.contains("SYS_ADMIN"), "{text}");
        }
    }

    #[test]
    fn each_code_has_its_own_error() {
        let of = |code| check("call", CUptiResult(code)).unwrap_err();
        assert!(check("call", CUptiResult(0)).is_ok());
        assert!(matches!(of(39), CuptiError::AnotherProfiler { .. }));
        assert!(matches!(of(26), CuptiError::AnotherProfiler { .. }));
        assert!(matches!(of(27), CuptiError::NotSupported { .. }));
        assert!(matches!(of(41), CuptiError::NotSupported { .. }));
        assert!(matches!(of(999), CuptiError::Call { code: 999, .. }));
        assert_eq!(of(7).to_string(), "call failed with CUPTI error 7 (invalid operation)");
    }

    #[test]
    fn versions_read_as_people_write_them() {
        let error = CuptiError::DriverTooOld { driver: 12040, needed: 12060 };
        let text = "the NVIDIA driver serves CUDA 12.4, the counters need 12.6; update the driver";
        assert_eq!(error.to_string(), text);
    }
}
