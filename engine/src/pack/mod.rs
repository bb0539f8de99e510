//! Schedulers: from a prefix tree to packs, each with its decisions written down.
//!
//! [`schedulers`] is the one list; menus, help, tests and benchmarks read it. To add a scheduler,
//! write a file here and put it on the list.

mod coverage;
mod cut;
mod deft;
mod fasttree;
mod flashforge;
mod flashinfer;
mod hydragen;
mod levels;
mod min_traffic;
mod naive;
mod pat;
mod pat_released;
mod price;
mod query_centric;
mod relay;
mod splits;
mod subtree;
#[cfg(test)]
pub(crate) mod testing;
mod types;
mod vllm_cascade;

pub use coverage::coverage;
pub use splits::{Waves, cut_for_queue, cut_into, cut_rows};
pub use subtree::{SubtreeLayout, Turns};
pub use types::{
    CtaOrder, Forced, Imposed, MergeShape, Moved, Pack, PackInput, PackOptions, Packing, Phase, Scheduler,
};

use crate::error::{Error, Result};

/// Name of the scheduler that is used unless another is asked for.
pub const DEFAULT: &str = "pat";

/// Schedulers that `auto` tries: our `min-time`, which searches what `min-traffic` does, and of the modelled systems
/// those that a fresh batch may be best with. The others are variants of these, prescribe merges that cost them time, or
/// are there to be looked at. `pat-fixed` has one tile for all packs, and so one kernel of that tile, where packs of several
/// are given to one that takes 64 tokens a step whatever their rows.
pub const AUTO: [&str; 5] = ["min-time", "pat", "query-centric", "flashinfer-decode", "pat-fixed"];

/// What `auto` tries too where at most [`FEW`] requests run: their launches and merges decide there, which the others cut
/// differently, and packing takes microseconds. `fasttree` was the fastest of 3 in 34 such batches that an H200 ran, and of
/// none in 18 with more requests, where it is a tenth of the planning time.
pub const AUTO_OF_FEW: [&str; 5] = ["fasttree", "pat-released", "pat-compute", "cascade", "flashforge-neither"];

/// What `auto` tries too where more run: other cuts of the tree than `min-time` makes, whose packing takes little. `naive`
/// and `cascade` were among these, a fifth of the planning time: of 36 batches of more requests that an H200 ran, each
/// was the fastest of one, by 0.2 and 3.4 %, and without them `auto` takes another way in 3 of 45 others, which the
/// simulator gives 1, 3 and 7 % more.
pub const AUTO_OF_MANY: [&str; 1] = ["pat-released"];

/// What `auto` tries too where more than [`CROWD`] run. `flashforge-tree` gathers the rows of a node beyond a decode tile,
/// so that the prefill kernel reads it once for 128 of them: of 1,052 and 1,587 requests over some shared KV it took 465
/// and 4,285 µs on an H100, and the best of the others 490 and 4,688. To price it is a fifth of the planning of 128.
pub const AUTO_OF_CROWDS: [&str; 1] = ["flashforge-tree"];

/// Requests that are not yet a crowd.
pub const CROWD: usize = 256;

/// Requests of a small batch.
pub const FEW: usize = 64;

/// All schedulers, in the order of menus.
pub fn schedulers() -> &'static [&'static dyn Scheduler] {
    use {flashforge::FlashForge, pat::Pat, pat_released::PatReleased, relay::Relay};
    &[
        &Pat { ablation: pat::Ablation::None },
        &PatReleased { model: pat_released::Model::Profit },
        &naive::Naive,
        &query_centric::QueryCentric,
        &min_traffic::MinTraffic,
        &min_traffic::MinTime,
        &flashinfer::FlashInferDecode,
        &flashinfer::Cascade,
        &vllm_cascade::VllmCascadeRule,
        &Relay { shared_blocks: false },
        &Relay { shared_blocks: true },
        &hydragen::Hydragen,
        &deft::Deft,
        &fasttree::FastTree,
        &FlashForge { tree: true, division: true },
        &FlashForge { tree: true, division: false },
        &FlashForge { tree: false, division: true },
        &FlashForge { tree: false, division: false },
        &PatReleased { model: pat_released::Model::Compute },
        &Pat { ablation: pat::Ablation::FixedTile },
        &Pat { ablation: pat::Ablation::OneStream },
    ]
}

/// A scheduler by name.
///
/// # Errors
/// [`Error::UnknownName`] with the names that exist.
pub fn find(name: &str) -> Result<&'static dyn Scheduler> {
    schedulers().iter().copied().find(|scheduler| scheduler.name() == name).ok_or_else(|| Error::UnknownName {
        kind: "scheduler",
        name: name.to_owned(),
        known: schedulers().iter().map(|s| s.name()).collect::<Vec<_>>().join(", "),
    })
}
