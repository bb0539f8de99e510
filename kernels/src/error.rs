//! The crate's one error type. Every message says what is wrong with its numbers, and where there is one, the remedy.

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
    #[error("the GPU has {free} bytes free, and {wanted} more are needed: use fewer or shorter requests")]
    OutOfMemory {
        /// Bytes asked for.
        wanted: usize,
        /// Bytes free when the request failed.
        free: usize,
    },
    /// A driver call failed.
    #[error("{what} failed: {reason}")]
    Driver {
        /// What was tried.
        what: &'static str,
        /// The driver's reason.
        reason: String,
    },
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
        matches!(self, Self::NoDriver | Self::NoCompiler | Self::NoGpu { .. } | Self::TooOld { .. })
    }
}

/// Names the call that failed.
pub(crate) trait During<T> {
    fn during(self, what: &'static str) -> Result<T, KernelError>;
}

impl<T> During<T> for Result<T, cudarc::driver::DriverError> {
    fn during(self, what: &'static str) -> Result<T, KernelError> {
        self.map_err(|e| KernelError::Driver { what, reason: describe(e) })
    }
}

fn describe(e: cudarc::driver::DriverError) -> String {
    match (e.error_name(), e.error_string()) {
        (Ok(name), Ok(text)) => format!("{} ({})", text.to_string_lossy(), name.to_string_lossy()),
        _ => format!("driver error {:?}", e.0),
    }
}
