//! The GPU that is here as a device of the table.

use kernels::{Compiler, GpuInfo, KernelSpec, Tile as KernelTile};

use crate::backend::cuda::translate;
use crate::error::Result;
use crate::hw::{self, Device, KernelResources};
use crate::units::Bytes;

/// More registers than a thread may have.
const NO_KERNEL: u32 = 256;

/// The built-in device of the same name, capability and SMs. Otherwise the built-in one of the nearest
/// capability, with the driver's limits and our kernels' resources in place of its own; its bandwidths and
/// simulator constants stay a guess until `packscope calibrate` has measured them.
pub(super) fn describe(info: &GpuInfo, compiler: &Compiler) -> Result<Device> {
    if let Some(device) = built_in(info) {
        return Ok(device.clone());
    }
    let distance = |device: &&Device| {
        let (major, minor) = device.compute_capability;
        (u32::from(major).abs_diff(info.capability.0), u32::from(minor).abs_diff(info.capability.1))
    };
    let Some(nearest) = hw::builtin().iter().min_by_key(distance) else {
        return Err(crate::Error::Device("there is no built-in device to start from".to_owned()));
    };
    let mut device = Device {
        key: key_of(&info.name),
        name: info.name.clone(),
        calibrated: false,
        compute_capability: (info.capability.0 as u8, info.capability.1 as u8),
        sm_count: info.sms,
        gpcs: Vec::new(),
        shared_per_sm: Bytes(u64::from(info.shared_per_sm)),
        shared_per_cta: Bytes(u64::from(info.shared_per_cta)),
        registers_per_sm: info.registers_per_sm,
        warps_per_sm: info.warps_per_sm,
        ctas_per_sm: info.ctas_per_sm,
        l2: Bytes(u64::from(info.l2_bytes)),
        kernels: compiled(compiler, 128)?,
        kernels_d64: compiled(compiler, 64)?,
        kernels_d256: compiled(compiler, 256)?,
        ..nearest.clone()
    };
    let from = format!("taken from '{}' until `packscope calibrate` has measured it", nearest.key);
    for field in ["hbm_bytes_per_s", "tensor_flops", "loaded_latency", "sim", "tile_steps"] {
        device.sources.insert(field.to_owned(), from.clone());
    }
    for field in ["sm_count", "l2"] {
        device.sources.insert(field.to_owned(), "the driver".to_owned());
    }
    device.sources.insert("kernels".to_owned(), "packscope's kernels, compiled here by NVRTC".to_owned());
    device.validate()?;
    Ok(device)
}

/// The built-in device of the same name, capability and SMs: of several, that with the most words of its key in the
/// name, such as the memory of an A100.
pub(super) fn built_in(info: &GpuInfo) -> Option<&'static Device> {
    let name = info.name.to_lowercase();
    let same = |device: &&Device| {
        let (major, minor) = device.compute_capability;
        let model = device.key.split('-').next().unwrap_or_default();
        name.contains(model) && (u32::from(major), u32::from(minor)) == info.capability && device.sm_count == info.sms
    };
    // The first of equals.
    hw::builtin()
        .iter()
        .rev()
        .filter(same)
        .max_by_key(|device| device.key.split('-').filter(|w| name.contains(w)).count())
}

/// `NVIDIA H200` → `nvidia-h200`.
fn key_of(name: &str) -> String {
    let dashed: String = name.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    dashed.split('-').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

/// Resources of every kernel at a head dimension, from the compiler.
pub(super) fn compiled(compiler: &Compiler, head_dim: u32) -> Result<Vec<KernelResources>> {
    let mut kernels = Vec::new();
    let sizes = [16, 32, 64].into_iter().flat_map(|m| [16, 32, 64, 128].map(|n| KernelTile { m, n }));
    // No registers are left for the lean one at larger head dimensions.
    let lean = (head_dim <= 128).then_some(KernelTile::LEAN);
    for tile in lean.into_iter().chain(sizes) {
        let KernelTile { m, n } = tile;
        let spec = KernelSpec::new(&[tile], head_dim, kernels::Dtype::F16, false, false);
        let heads = tile.heads_together();
        // No kernel is made of some tiles, which a device file says by more registers than a thread may have.
        let none =
            KernelResources { heads, ..KernelResources::new(m, n, spec.threads(compiler.arch()) / 32, NO_KERNEL) };
        let Ok(stages) = spec.check().and_then(|()| spec.stages_on(compiler.arch())) else {
            kernels.push(none);
            continue;
        };
        let resources = compiler.decode(&spec).map_err(translate)?.resources;
        kernels.push(KernelResources {
            warps: resources.threads / 32,
            registers: resources.registers,
            shared: Some(Bytes(u64::from(resources.shared_bytes))),
            in_flight: Some(Bytes(u64::from(stages * n * heads * head_dim * 2))),
            ..none
        });
    }
    Ok(kernels)
}
