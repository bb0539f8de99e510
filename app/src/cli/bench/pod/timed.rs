//! Batches of a set simulated under every way, and the plot of their times.

use engine::hw::Device;
use engine::session::{self, PlanOptions};
use engine::units::Nanos;
use engine::workload::{BatchSpec, PodRow};
use rayon::prelude::*;

use super::row::{FLASH, Timed, WAYS, Way};
use crate::cli::fault::Outcome;
use crate::cli::{figures, interrupt, output};
use crate::picture::plot::{Plot, Series};

/// Times of a way in ms, over the number of the batch.
pub(super) fn times_by_batch(rows: &[Timed], way: usize) -> Vec<(f64, f64)> {
    rows.iter().enumerate().map(|(at, row)| (at as f64, row.times[way].as_f64() * 1e-6)).collect()
}

pub(super) fn specs(rows: &[PodRow]) -> Vec<BatchSpec> {
    rows.iter().map(PodRow::spec).collect()
}

pub(super) fn plot(what: &str, device: &Device, across: &str, upward: &str, series: Vec<Series>) -> Plot {
    Plot {
        title: format!("{what} · {} ({})", device.name, figures::simulated(device)),
        across: across.to_owned(),
        upward: upward.to_owned(),
        series,
    }
}

/// Every batch under every way, on as many threads as there are cores; the order does not depend on
/// them.
pub(super) fn timed(
    set: &'static str,
    specs: &[BatchSpec],
    device: &Device,
    ways: &[Way; WAYS.len()],
) -> Outcome<Vec<Timed>> {
    let bar = output::progress(specs.len() as u64, set);
    let rows = specs.par_iter().map(|spec| {
        let row = one(spec, device, ways);
        bar.inc(1);
        row
    });
    let rows = rows.collect();
    bar.finish_and_clear();
    rows
}

fn one(spec: &BatchSpec, device: &Device, ways: &[Way; WAYS.len()]) -> Outcome<Timed> {
    let mut times = [Nanos::ZERO; WAYS.len()];
    let mut oracle = 0.0;
    for (time, way) in times.iter_mut().zip(ways) {
        let options = PlanOptions {
            scheduler: FLASH.to_owned(),
            strategy: way.strategy,
            pod: way.pod,
            explain: false,
            ..PlanOptions::new(device)
        };
        let planned = session::plan_spec(spec, &options)?;
        *time = session::simulate(&planned, &figures::cold(1), interrupt::cancel())?.makespan();
        oracle = session::oracle_ns(&planned);
    }
    Ok(Timed { name: spec.name.clone(), times, oracle })
}
