//! Prefill and decode of one batch at the same time, a CTA of each on every SM.
//!
//! ```text
//! stream   slim prefill, a CTA an SM ─────────────────────────────┐
//!            └─ all have begun ──► decode, a CTA an SM ───────────┴─► prefill merge, what follows
//!                                    └─ where a prefill CTA ends ──► another decode CTA in its place
//! ```
//!
//! Prefill lives on the tensor cores and decode on the memory, so that each uses what the other leaves. A full prefill
//! CTA leaves no room for any other; a slim one has shorter tiles, and beside it fits one lean decode CTA. Prefill comes
//! first, because two decode CTAs that came first would keep it out for as long as they run: decode is launched as its
//! programmatic dependent, which the hardware starts when every prefill CTA has said that it may. The decode grid is
//! larger than what fits then. Its other CTAs start where prefill CTAs end, and since items belong to whoever claims
//! them, they find what is left to do, or nothing.
//!
//! How many SMs prefill takes ([`crate::Launch::sms`]) decides which of the two ends first. Where prefill computes, its
//! tensor instructions come before those of decode: on an H200 a decode CTA reads some 19 GB/s beside it, the two of an
//! SM that prefill leaves alone 75 GB/s, and prefill computes 4.0 TFLOP/s an SM. The best number is where both end
//! together: 108 of 132 for 12,288 rows beside 220 decodes of 12,288 tokens, where 132 take 17 % longer. Prefill that
//! takes few tasks a CTA wants a number that shares them evenly.

use crate::compile::Resources;
use crate::error::KernelError;
use crate::gpu::GpuInfo;

/// Registers are given to warps in units of so many.
const REGISTER_UNIT: u32 = 256;

/// Shared memory that a CTA costs besides its own, bytes.
const RESERVED_SHARED: u32 = 1024;

/// An SM's schedulers; each has its share of the registers, and every fourth warp of a CTA.
const QUARTERS: u32 = 4;

/// Whether an SM holds a CTA of each kernel. Worked: of 12 warps of slim prefill a quarter of the SM has three, of 120 *
/// 32 = 3,840 registers, and of 8 warps of lean decode two of 2,304, together 16,128 of 16,384. Six warps of 96 would be
/// no more on the whole SM, but two quarters would have two of them, and those do not fit: decode then waited for prefill
/// to end (seen on an H200).
pub(crate) fn fits(gpu: &GpuInfo, kernels: &[Resources]) -> Result<(), KernelError> {
    let warps = |r: &Resources| r.threads.div_ceil(32);
    let registers = |r: &Resources| warps(r).div_ceil(QUARTERS) * (r.registers * 32).next_multiple_of(REGISTER_UNIT);
    let sum = |part: &dyn Fn(&Resources) -> u32| kernels.iter().map(part).sum::<u32>();
    let needs = [
        ("registers a quarter of the SM", sum(&registers), gpu.registers_per_sm / QUARTERS),
        ("bytes of shared memory", sum(&|r| r.shared_bytes + RESERVED_SHARED), gpu.shared_per_sm),
        ("warps", sum(&warps), gpu.warps_per_sm),
    ];
    match needs.into_iter().find(|(_, needed, there)| needed > there) {
        Some((what, needed, there)) => Err(KernelError::Unsupported(format!(
            "prefill and decode on the same SM: their CTAs take {needed} {what} of {there}"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hopper() -> GpuInfo {
        GpuInfo {
            name: String::new(),
            capability: (9, 0),
            sms: 132,
            shared_per_sm: 228 << 10,
            shared_per_cta: 227 << 10,
            registers_per_sm: 65_536,
            warps_per_sm: 64,
            ctas_per_sm: 32,
            l2_bytes: 50 << 20,
            clock_khz: 1_980_000,
            memory_bytes: 80 << 30,
            driver_version: 13_000,
        }
    }

    #[test]
    fn a_slim_and_a_lean_cta_fit_and_a_full_one_leaves_no_room() {
        let cta = |threads, registers, kib: u32| Resources {
            threads,
            registers,
            shared_bytes: kib << 10,
            ..Resources::default()
        };
        let (slim, full, lean) = (cta(384, 120, 130), cta(384, 168, 225), cta(256, 72, 96));
        assert!(fits(&hopper(), &[slim, lean]).is_ok());
        let error = fits(&hopper(), &[full, lean]).unwrap_err().to_string();
        assert!(error.contains("20736 registers a quarter of the SM of 16384"), "{error}");
        let error = fits(&hopper(), &[slim, cta(256, 72, 97)]).unwrap_err().to_string();
        assert!(error.contains("shared memory"), "{error}");
        assert!(fits(&hopper(), &[slim, cta(256, 73, 96)]).is_err(), "registers come in steps of eight a thread");
        assert!(fits(&hopper(), &[slim, cta(192, 96, 96)]).is_err(), "two quarters have two of six warps");
    }
}
