//! Where CTAs go: resources and residency lanes of each SM, and the tickets of SM-aware kernels.

use crate::backend::sim::cost::Footprint;
use crate::hw::Device;
use crate::plan::{Dispatch, HybridKernel};
use crate::workload::AttentionShape;

/// One SM.
#[derive(Clone, Debug)]
struct Sm {
    shared_free: u64,
    registers_free: u32,
    warps_free: u32,
    ctas_free: u32,
    /// Lanes in use, one bit each.
    lanes: u64,
}

/// All SMs.
#[derive(Debug)]
pub(super) struct Sms {
    all: Vec<Sm>,
    /// No CTA of this footprint fits anywhere but on the SMs of `freed`.
    full_for: Option<Footprint>,
    /// SMs on which something was freed since `full_for` was found.
    freed: Vec<usize>,
}

impl Sms {
    pub(super) fn new(device: &Device) -> Self {
        let sm = Sm {
            shared_free: device.shared_per_sm.0,
            registers_free: device.registers_per_sm,
            warps_free: device.warps_per_sm,
            ctas_free: device.ctas_per_sm.min(u64::BITS),
            lanes: 0,
        };
        Self { all: vec![sm; device.sm_count as usize], full_for: None, freed: Vec::new() }
    }

    /// Takes room for a CTA on the SM with the most free warps, the lowest of equals, as the
    /// hardware spreads CTAs breadth first. Gives the SM and its lowest free lane.
    pub(super) fn place(&mut self, need: Footprint) -> Option<(usize, u32)> {
        let known_full = self.full_for == Some(need);
        let best = if known_full {
            self.freest(self.freed.iter().copied(), need)
        } else {
            self.freest(0..self.all.len(), need)
        };
        let Some(at) = best else {
            self.full_for = Some(need);
            self.freed.clear();
            return None;
        };
        let sm = &mut self.all[at];
        sm.shared_free -= need.shared;
        sm.registers_free -= need.registers;
        sm.warps_free -= need.warps;
        sm.ctas_free -= 1;
        let lane = sm.lanes.trailing_ones();
        sm.lanes |= 1 << lane;
        Some((at, lane))
    }

    /// Of `candidates` with room for `need`, the one with the most free warps.
    fn freest(&self, candidates: impl Iterator<Item = usize>, need: Footprint) -> Option<usize> {
        let fits = |sm: &Sm| {
            sm.shared_free >= need.shared
                && sm.registers_free >= need.registers
                && sm.warps_free >= need.warps
                && sm.ctas_free > 0
        };
        candidates.filter(|at| fits(&self.all[*at])).min_by_key(|at| (std::cmp::Reverse(self.all[*at].warps_free), *at))
    }

    /// Gives the room of a CTA back.
    pub(super) fn free(&mut self, sm: usize, lane: u32, had: Footprint) {
        self.freed.push(sm);
        let sm = &mut self.all[sm];
        sm.shared_free += had.shared;
        sm.registers_free += had.registers;
        sm.warps_free += had.warps;
        sm.ctas_free += 1;
        sm.lanes &= !(1 << lane);
    }
}

/// The counters of a launch whose CTAs choose by ticket: one an SM, and the next CTA of each kind.
#[derive(Debug)]
pub(super) struct TicketDesk {
    of_sm: Vec<u32>,
    next_prefill: u32,
    next_decode: u32,
}

impl TicketDesk {
    pub(super) fn new(sms: usize) -> Self {
        Self { of_sm: vec![0; sms], next_prefill: 0, next_decode: 0 }
    }

    /// What a CTA on `sm` takes, as an index of work: what the ticket says, or the other operation
    /// where that has run out.
    pub(super) fn take(&mut self, kernel: &HybridKernel, shape: &AttentionShape, ctas: u32, sm: usize) -> u32 {
        let Dispatch::Tickets(tickets) = kernel.dispatch else { return 0 };
        let prefills = kernel.prefill_ctas(shape);
        let ticket = self.of_sm[sm];
        self.of_sm[sm] += 1;
        let prefill_left = self.next_prefill < prefills;
        let decode_left = prefills + self.next_decode < ctas;
        if prefill_left && (tickets.is_prefill(ticket) || !decode_left) {
            self.next_prefill += 1;
            self.next_prefill - 1
        } else {
            self.next_decode += 1;
            prefills + self.next_decode - 1
        }
    }
}
