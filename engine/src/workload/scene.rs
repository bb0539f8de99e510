//! How a batch file is shown, and what its text claims.
//!
//! A text that says "here `fused` ends soonest" is true of a device and a choice. Both stand in the file, so that
//! whoever opens it sees what the text speaks of; and the claim stands there as a figure within limits, so that a
//! test can hold it against the simulator. Names are text here: devices, schedulers and strategies lie above.

use serde::{Deserialize, Serialize};

/// Device, choice and claims of a batch file; every field may be left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scene {
    /// Name of the device that the text speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Name of the scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// Name of the strategy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
    /// What `look_for` says, in figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Claim>,
}

/// A figure within limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// What is measured.
    pub figure: Figure,
    /// Of which run; of the scene's where left out.
    #[serde(default, skip_serializing_if = "ClaimedWay::is_scene")]
    pub of: ClaimedWay,
    /// The run whose figure it is divided by; by none where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<ClaimedWay>,
    /// The least that it may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// The most that it may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
}

/// A run of the batch on the scene's device; what is left out is the scene's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimedWay {
    /// Scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// Strategy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
}

impl ClaimedWay {
    /// Whether it is the scene's own.
    pub fn is_scene(&self) -> bool {
        self.scheduler.is_none() && self.strategy.is_none()
    }
}

/// Figures of a plan and its run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Figure {
    /// Time of the run, ns.
    Makespan,
    /// Strategies that end sooner, of all that take the batch; 0 for the soonest.
    Rank,
    /// Share of the slot time in which a CTA was resident.
    Busy,
    /// Share of the slot time that a cause of bubbles, by its name, has.
    Bubble(String),
    /// Share of the peak bandwidth.
    Bandwidth,
    /// Share of the time of CTAs in tiles of so many rows that is not in their main loop.
    OutsideLoop(u32),
    /// KV tokens read, a KV head.
    KvRead,
    /// KV tokens read over unique ones.
    Redundancy,
    /// Readings of a node's tokens.
    Readings(u32),
    /// Largest number of partials of a query.
    Partials,
    /// Packs.
    Packs,
    /// Packs in tiles of so many rows.
    PacksOfRows(u32),
    /// Tile shapes.
    Tiles,
    /// Share of the choices between merging and splitting at a node that merged.
    Merged(u32),
    /// Share of all choices between merging and splitting that merged.
    MergedOfAll,
    /// Prefill CTAs an SM.
    PrefillCtas,
    /// Roots of the prefix tree.
    Roots,
    /// Nodes of the prefix tree.
    Nodes,
}
