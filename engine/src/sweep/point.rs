//! One point: its batch planned and simulated, as a row.

use serde::{Deserialize, Serialize};

use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::hw::Device;
use crate::metrics::{BubbleCause, bubbles, traffic};
use crate::pack;
use crate::session::{self, PlanOptions, Planned, RunOptions};
use crate::sweep::grid::tile_of;
use crate::sweep::{Point, WayOf};

/// What a point gave. Figures are 0 where the way refuses the batch, which `refused` then says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Place in the grid.
    pub number: u64,
    /// Key of the point.
    pub key: u64,
    /// Name of the batch.
    pub batch: String,
    /// The batch as a file.
    pub batch_ron: String,
    /// Device.
    pub device: String,
    /// Scheduler.
    pub scheduler: String,
    /// Strategy.
    pub strategy: String,
    /// Tile, or `auto`.
    pub tile: String,
    /// Constant of the profit rule of `pat`.
    pub split_constant: f64,
    /// Requests.
    pub requests: u64,
    /// KV tokens of all requests.
    pub kv_tokens: u64,
    /// Whether the simulator is calibrated on the device.
    pub calibrated: bool,
    /// Simulated time.
    pub makespan_ns: u64,
    /// The least time that any plan can take.
    pub floor_ns: u64,
    /// Thread blocks over all heads, merge excluded.
    pub ctas: u64,
    /// Bytes that the CTAs issue.
    pub issued_bytes: u64,
    /// The least that any plan moves.
    pub compulsory_bytes: u64,
    /// Slots × makespan.
    pub total_slot_ns: u64,
    /// Slot time in which a CTA ran.
    pub busy_slot_ns: u64,
    /// Idle slot time, in the order of [`BubbleCause::ALL`].
    pub bubbles_ns: Vec<u64>,
    /// Why the way does not take the batch.
    pub refused: Option<String>,
}

/// Runs a point on the simulator. What its way cannot do is a row too.
///
/// # Errors
/// [`Error::Cancelled`]; [`Error::Plan`], which is a fault of ours.
pub(super) fn run_point(point: &Point, cancel: &Cancel) -> Result<Row> {
    let spec = &point.batch.spec;
    let requests = spec.outline().unwrap_or_default();
    let mut row = Row {
        number: point.number,
        key: point.key,
        batch: point.batch.name.clone(),
        batch_ron: spec.to_ron()?,
        device: point.way.device.clone(),
        scheduler: point.way.scheduler.clone(),
        strategy: point.way.strategy.clone(),
        tile: point.way.tile.clone(),
        split_constant: point.way.split_constant,
        requests: requests.len() as u64,
        kv_tokens: requests.iter().map(|request| request.kv.0).sum(),
        calibrated: point.device.calibrated,
        makespan_ns: 0,
        floor_ns: 0,
        ctas: 0,
        issued_bytes: 0,
        compulsory_bytes: 0,
        total_slot_ns: 0,
        busy_slot_ns: 0,
        bubbles_ns: vec![0; BubbleCause::ALL.len()],
        refused: None,
    };
    let planned = point.way.options(&point.device).and_then(|options| session::plan_spec(spec, &options));
    match planned.and_then(|planned| fill(&mut row, &planned, cancel)) {
        Err(error @ (Error::Cancelled | Error::Plan(_))) => Err(error),
        Err(error) => Ok(Row { refused: Some(error.to_string()), ..row }),
        Ok(()) => Ok(row),
    }
}

impl Row {
    /// The way that it is of.
    pub fn way(&self) -> WayOf {
        WayOf {
            device: self.device.clone(),
            scheduler: self.scheduler.clone(),
            strategy: self.strategy.clone(),
            tile: self.tile.clone(),
            split_constant: self.split_constant,
        }
    }
}

impl WayOf {
    /// What a batch is planned with, on the device that its word stands for.
    ///
    /// # Errors
    /// [`Error::UnknownName`] or [`Error::Batch`] for a word that is none.
    pub fn options(&self, device: &Device) -> Result<PlanOptions> {
        let mut options = PlanOptions { explain: false, ..PlanOptions::new(device) };
        pack::find(&self.scheduler)?.name().clone_into(&mut options.scheduler);
        options.strategy = self.strategy.parse()?;
        options.pack.split_constant = self.split_constant;
        options.tile = tile_of(&self.tile)?;
        Ok(options)
    }
}

fn fill(row: &mut Row, planned: &Planned, cancel: &Cancel) -> Result<()> {
    let capture = session::simulate(planned, &RunOptions::default(), cancel)?;
    let report = bubbles(&planned.plan, &capture);
    let plan = &planned.plan;
    let bytes = traffic(plan, &planned.batch, &planned.tree);
    row.makespan_ns = capture.makespan().0;
    row.floor_ns = session::oracle_ns(planned).ceil() as u64;
    row.ctas = plan.attention_ctas();
    row.issued_bytes = bytes.issued().0;
    row.compulsory_bytes = bytes.compulsory.0;
    row.total_slot_ns = report.total_slot.0;
    row.busy_slot_ns = report.busy_slot.0;
    row.bubbles_ns = BubbleCause::ALL.iter().map(|cause| report.of(*cause).0).collect();
    Ok(())
}
