//! Which SMs the hardware gives to the CTAs of one cluster: always those of one GPC.

use crate::compile::Compiler;
use crate::error::KernelError;
use crate::gpu::{DeviceBuffer, Function, Gpu};
use crate::stream::Stream;

#[repr(C)]
struct PlaceParams {
    sms: u64,
    nanos: u64,
}

/// The shortest stay of a CTA, ns: some launches' worth of the time between two CTAs.
const STAY: u64 = 2_000;
/// CTAs of a launch for each SM, so that most clusters begin where others have ended.
const TURNS: u32 = 4;

/// Launches of clusters that tell where they ran.
#[derive(Debug)]
pub struct Places {
    function: Function,
    sms: DeviceBuffer,
    most: u32,
}

impl Places {
    /// Room for launches on all SMs.
    ///
    /// # Errors
    /// [`KernelError::Unsupported`] where the GPU has no clusters, which are those from Hopper on.
    pub fn new(gpu: &Gpu, compiler: &Compiler) -> Result<Self, KernelError> {
        if gpu.info().capability.0 < 9 {
            return Err(KernelError::Unsupported(format!("clusters of CTAs on {}", gpu.arch().name())));
        }
        let mut kernel = compiler.limits("packscope_places")?;
        kernel.resources.threads = 32;
        // One CTA has all of its SM, or two of a cluster could share one.
        kernel.resources.shared_bytes = gpu.info().shared_per_cta;
        let most = gpu.info().sms * TURNS;
        Ok(Self { function: gpu.load(&kernel)?, sms: gpu.upload(&vec![0_u32; most as usize])?, most })
    }

    /// The SMs of each cluster of `size` CTAs in one launch.
    ///
    /// # Errors
    /// The driver's, such as where it makes no clusters of that size.
    pub fn clusters(&self, size: u32, stream: &Stream) -> Result<Vec<Vec<u32>>, KernelError> {
        let grid = self.most / size.max(1) * size;
        let params = PlaceParams { sms: self.sms.address(), nanos: STAY };
        // SAFETY: the structure is the kernel's only parameter; each of the `grid` CTAs, of which there are no more than
        // the buffer has values, writes one of them.
        unsafe { self.function.launch_clusters(grid, (32, size), stream, &params)? };
        stream.synchronize()?;
        let sms: Vec<u32> = self.sms.read(0, grid as usize)?;
        Ok(sms.chunks_exact(size as usize).map(<[u32]>::to_vec).collect())
    }
}
