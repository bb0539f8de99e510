//! `bench` of hybrid batches: POD-Attention's Figures 6, 11, 13 and 14 and its Tables 1 and 8, under every strategy,
//! with what the paper reports beside what the simulator gives.
//!
//! Serial, streams, HFuse and CTA-parallel are FlashAttention's kernels (scheduler `query-centric`),
//! as in the paper; `fused` is POD as released and by our choice.

mod claims;
mod report;
mod row;
mod sensitivity;
mod timed;

use std::process::ExitCode;

use engine::hw::Device;
use engine::workload::{BatchSpec, pod_figure_6, pod_figure_11};

use crate::cli::args::{BenchArgs, BenchSet};
use crate::cli::bench::hybrid::Hybrids;
use crate::cli::fault::Outcome;
use crate::cli::sets;
use crate::picture::plot::Series;
use claims::{claims_of_6, claims_of_11};
use report::{Set, every_row, finish, spread};
use row::{HFUSE, RELEASED, SERIAL, STREAMS, WAYS, sorted_gains};
use timed::{plot, specs, timed, times_by_batch};

/// One of the hybrid sets; `hybrids` are the same batches under packscope's own kernels, where that was asked for.
///
/// The sets are of POD's release, so every device runs FlashAttention 2's and POD's kernels here, whatever
/// kernels of packscope it has.
pub(crate) fn bench(device: &Device, args: &BenchArgs, hybrids: Option<&Hybrids>) -> Outcome<ExitCode> {
    let own = device;
    let device = &Device { prefill_kernel: None, ..device.clone() };
    let set = match args.set {
        BenchSet::PodFigure6 => figure_6(device)?,
        BenchSet::PodFigure11 => figure_11(device)?,
        BenchSet::PodFigure13 => sensitivity::figure_13(device)?,
        BenchSet::PodFigure14 => sensitivity::figure_14(device)?,
        BenchSet::PodTable8 => sensitivity::table_8(device)?,
        _ => table_1(device)?,
    };
    finish(&set, own, args, hybrids)
}

/// `--set pod-figure-6`.
fn figure_6(device: &Device) -> Outcome<Set> {
    let rows = timed("pod-figure-6", &specs(&pod_figure_6()), device, &WAYS)?;
    let (few, many) = rows.split_at(rows.len() / 2);
    let series = [(few, 54), (many, 55)].into_iter().flat_map(|(rows, decodes)| {
        [SERIAL, STREAMS, HFUSE, RELEASED].map(|way| Series {
            name: format!("{} {decodes}", WAYS[way].name),
            look: (way, usize::from(decodes == 55)),
            points: times_by_batch(rows, way),
        })
    });
    let plot =
        plot("POD Figure 6: Yi-6B, chunks of 512 of 16K, 54 and 55 decodes", device, "chunk", "ms", series.collect());
    let claims = claims_of_6(few, many);
    let summary = every_row(&rows, &WAYS);
    Ok(Set { key: "pod-figure-6", ways: &WAYS, summary, claims, apart: Vec::new(), plot, rows })
}

/// `--set pod-figure-11`.
fn figure_11(device: &Device) -> Outcome<Set> {
    let rows = timed("pod-figure-11", &specs(&pod_figure_11()), device, &WAYS)?;
    let series = (STREAMS..WAYS.len()).map(|way| {
        let gains = sorted_gains(&rows, way);
        let share = |at: usize| 100.0 * at as f64 / gains.len() as f64;
        // A point each half per cent is as fine as the picture shows.
        let points = (0..gains.len()).step_by((gains.len() / 200).max(1)).map(|at| (share(at), gains[at]));
        Series { name: WAYS[way].name.to_owned(), look: (way, way), points: points.collect() }
    });
    let title = "POD Figure 11: speed-up over serial, 4,410 batches sorted";
    let plot = plot(title, device, "% of batches", "speed-up over serial", series.collect());
    let claims = claims_of_11(&rows);
    let summary = spread(&rows);
    Ok(Set { key: "pod-figure-11", ways: &WAYS, summary, claims, apart: Vec::new(), plot, rows })
}

/// `--set hybrid`.
fn table_1(device: &Device) -> Outcome<Set> {
    let specs: Vec<BatchSpec> = sets::hybrid()?.into_iter().map(|case| case.spec).collect();
    let rows = timed("hybrid", &specs, device, &WAYS)?;
    let series = (0..WAYS.len()).map(|way| Series {
        name: WAYS[way].name.to_owned(),
        look: (way, way),
        points: times_by_batch(&rows, way),
    });
    let plot = plot("POD Table 1: C0, C1, C2", device, "configuration", "ms", series.collect());
    let summary = every_row(&rows, &WAYS);
    Ok(Set { key: "hybrid", ways: &WAYS, summary, claims: Vec::new(), apart: Vec::new(), plot, rows })
}
