//! The crate's one error type. Every message says what is wrong with its numbers, and where there is one, the remedy.

use cudarc::driver::{DriverError, sys};

/// Everything that can go wrong between a plan and its result on the GPU.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// `libcuda` could not be loaded.
    #[error("no NVIDIA driver was found: install the driver for this GPU (libcuda.so.1 must be loadable)")]
    NoDriver,
    /// `libnvrtc` could not be loaded.
    #[error(
        "the CUDA run-time compiler was not found: install NVRTC of CUDA 12 or 13 (the pip package \
         nvidia-cuda-nvrtc is enough) and put its folder on LD_LIBRARY_PATH"
    )]
    NoCompiler,
    /// The driver reports no such device.
    #[error("GPU {ordinal} was asked for, but the driver shows {found}: check nvidia-smi and CUDA_VISIBLE_DEVICES")]
    NoGpu {
        /// The device number asked for.
        ordinal: usize,
        /// Devices the driver shows.
        found: usize,
    },
    /// The driver is there but does not come up.
    #[error("the NVIDIA driver does not start: {reason}; check nvidia-smi")]
    NoStart {
        /// The driver's reason.
        reason: String,
    },
    /// The GPU is older than the kernels.
    #[error("{name} has compute capability {major}.{minor}; the kernels need 8.0 or later")]
    TooOld {
        /// Name of the device.
        name: String,
        /// Compute capability, major part.
        major: u32,
        /// Compute capability, minor part.
        minor: u32,
    },
    /// A kernel did not compile: a defect of this program or an NVRTC too old for the architecture.
    #[error("NVRTC could not compile {kernel} for {arch}: {log}")]
    Compile {
        /// What was compiled.
        kernel: String,
        /// Target architecture.
        arch: String,
        /// NVRTC's messages.
        log: String,
    },
    /// The plan's arrays do not fit together.
    #[error("the plan cannot be run: {0}")]
    Plan(String),
    /// No kernel configuration exists for what was asked.
    #[error("no kernel for this: {0}")]
    Unsupported(String),
    /// The device has too little free memory.
    #[error("{wanted} bytes were asked of the GPU's memory, and it has {free} bytes free{}", MEMORY_REMEDY)]
    OutOfMemory {
        /// Bytes asked for.
        wanted: usize,
        /// Bytes free when the request failed.
        free: usize,
    },
    /// A driver call failed.
    #[error("{what} failed: {reason}{remedy}")]
    Driver {
        /// What was tried.
        what: &'static str,
        /// The driver's reason.
        reason: String,
        /// What to do about it, as the end of the sentence; empty where nothing is known.
        remedy: &'static str,
    },
    /// Nobody wants the result any more; see [`crate::Gpu::stop_when`].
    #[error("it was stopped")]
    Stopped,
    /// The kernel cache on disk could not be used.
    #[error("the kernel cache {path}: {source}")]
    Cache {
        /// File or folder.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl KernelError {
    /// Whether there is nothing to run on, rather than something wrong with it.
    pub fn is_absence(&self) -> bool {
        matches!(
            self,
            Self::NoDriver | Self::NoStart { .. } | Self::NoCompiler | Self::NoGpu { .. } | Self::TooOld { .. }
        )
    }
}

/// What to do where memory ran out.
const MEMORY_REMEDY: &str =
    ": use fewer or shorter requests, or end other programs that hold its memory (`nvidia-smi` lists them)";

/// Names the call that failed.
pub(crate) trait During<T> {
    fn during(self, what: &'static str) -> Result<T, KernelError>;
}

impl<T> During<T> for Result<T, DriverError> {
    fn during(self, what: &'static str) -> Result<T, KernelError> {
        self.map_err(|e| KernelError::Driver { what, reason: describe(e), remedy: Trouble::of(e.0).remedy() })
    }
}

/// The driver's words and name for an error. They are its own tables: they are there also when the device is not.
pub(crate) fn describe(e: DriverError) -> String {
    match (e.error_name(), e.error_string()) {
        (Ok(name), Ok(text)) => format!("{} ({})", text.to_string_lossy(), name.to_string_lossy()),
        _ => format!("driver error {:?}", e.0),
    }
}

/// What kind of trouble a driver's error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// A kernel did what it must not; the context is of no use any more.
    Kernel,
    /// The device or the driver broke down; neither is the context.
    Device,
    /// The driver ended a kernel that ran too long; nor is it then.
    Watchdog,
    /// Too little memory for something other than a buffer.
    Memory,
    /// Somebody else has the device.
    Taken,
    /// Anything else.
    Call,
}

impl Trouble {
    /// By the table of `CUresult` in the driver's documentation.
    pub(crate) fn of(code: sys::CUresult) -> Self {
        use sys::CUresult as R;
        match code {
            R::CUDA_ERROR_ILLEGAL_ADDRESS
            | R::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | R::CUDA_ERROR_MISALIGNED_ADDRESS
            | R::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | R::CUDA_ERROR_INVALID_PC
            | R::CUDA_ERROR_HARDWARE_STACK_ERROR
            | R::CUDA_ERROR_ASSERT
            | R::CUDA_ERROR_LAUNCH_FAILED => Self::Kernel,
            R::CUDA_ERROR_ECC_UNCORRECTABLE
            | R::CUDA_ERROR_NVLINK_UNCORRECTABLE
            | R::CUDA_ERROR_EXTERNAL_DEVICE
            | R::CUDA_ERROR_CONTEXT_IS_DESTROYED
            | R::CUDA_ERROR_DEINITIALIZED
            | R::CUDA_ERROR_SYSTEM_NOT_READY
            | R::CUDA_ERROR_INVALID_CONTEXT
            | R::CUDA_ERROR_CONTAINED
            | R::CUDA_ERROR_UNKNOWN => Self::Device,
            R::CUDA_ERROR_LAUNCH_TIMEOUT => Self::Watchdog,
            R::CUDA_ERROR_OUT_OF_MEMORY => Self::Memory,
            R::CUDA_ERROR_DEVICE_UNAVAILABLE | R::CUDA_ERROR_CONTEXT_ALREADY_IN_USE => Self::Taken,
            _ => Self::Call,
        }
    }

    /// Whether nothing on the context works after it.
    pub(crate) fn is_final(self) -> bool {
        matches!(self, Self::Kernel | Self::Device | Self::Watchdog)
    }

    /// What to do, as the end of a sentence.
    fn remedy(self) -> &'static str {
        match self {
            Self::Kernel => "; this is a fault of packscope's kernels, please report it with the batch",
            Self::Device => {
                "; the GPU or its driver broke down: look at `nvidia-smi` and at the kernel log (Xid), and run again \
                 once the GPU answers"
            }
            Self::Watchdog => {
                "; on a GPU with a display the driver ends kernels that run too long: use a smaller batch or another GPU"
            }
            Self::Memory => MEMORY_REMEDY,
            Self::Taken => "; another program has the GPU for itself: end it (`nvidia-smi` lists them), or wait for it",
            Self::Call => "",
        }
    }
}
