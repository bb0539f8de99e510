//! POD-Attention's sensitivity studies (section 5.4): CTAs an SM (Figure 13), scheduling policy (Figure 14) and limited
//! prefill splits (Table 8), each with what the paper reports.

use engine::hw::Device;
use engine::plan::Strategy;
use engine::plan::hybrid::{PodChoice, PodWay};
use engine::units::Nanos;
use engine::workload::{PodRow, pod_figure_13, pod_figure_14, pod_table_8};

use super::claims::{Claim, gain_text, mean, near};
use super::report::{Set, every_row};
use super::row::{RELEASED, SERIAL, Timed, WAYS, Way};
use super::timed::{plot, specs, timed, times_by_batch};
use crate::cli::fault::Outcome;
use crate::cli::published::Apart;
use crate::picture::plot::Series;

const fn pod(name: &'static str, way: usize) -> Way {
    Way { name, strategy: Strategy::Fused, pod: PodChoice::Way(PodWay::ALL[way]) }
}

/// Every way of POD's kernel; serial and the release first.
static POD_WAYS: [Way; WAYS.len()] = [
    Way { name: "serial", strategy: Strategy::Serial, pod: PodChoice::Released },
    Way { name: "released", strategy: Strategy::Fused, pod: PodChoice::Released },
    pod("2 equal", 0),
    pod("2 proportional", 1),
    pod("4 equal", 2),
    pod("4 proportional", 3),
];
const TWO_EQUAL: usize = 2;
const TWO: usize = 3;
const FOUR_EQUAL: usize = 4;
const FOUR: usize = 5;

/// What the studies have that no batch here shows.
fn apart() -> Vec<Apart> {
    vec![Apart {
        what: "served requests by the ratio of prefill to decode (Figure 15)",
        why: "it is the throughput of a whole server under Sarathi; here single batches run",
    }]
}

/// `--set pod-figure-13`.
pub(super) fn figure_13(device: &Device) -> Outcome<Set> {
    let all = pod_figure_13();
    let rows = timed("pod-figure-13", &specs(&all), device, &POD_WAYS)?;
    let by_decodes = all.chunk_by(|a, b| a.decodes == b.decodes).map(|of| of[0].decodes).enumerate();
    let contexts = all.len() / by_decodes.clone().count().max(1);
    let series = by_decodes.map(|(at, decodes)| {
        let points = (at * contexts..(at + 1) * contexts).map(|row| {
            let times = &rows[row].times;
            (all[row].context as f64 / 1024.0, times[FOUR].as_f64() / times[TWO].as_f64())
        });
        Series { name: format!("{decodes} decodes"), look: (at, at), points: points.collect() }
    });
    let title = "POD Figure 13: Llama-3-8B, 4 CTAs an SM over 2, by context and decodes";
    let plot = plot(title, device, "context, K tokens", "time of 4 CTAs over 2", series.collect());
    let (claims, summary) = (claims_of_13(&all, &rows), every_row(&rows, &POD_WAYS));
    Ok(Set { key: "pod-figure-13", ways: &POD_WAYS, summary, claims, apart: apart(), plot, rows })
}

fn claims_of_13(all: &[PodRow], rows: &[Timed]) -> Vec<Claim> {
    let (shortest, longest) =
        all.iter().fold((u64::MAX, 0), |(least, most), row| (least.min(row.context), most.max(row.context)));
    // Of the batches of a context those in which one number of CTAs takes less than the other, and all.
    let faster = |context: u64, fast: usize, slow: usize| {
        let of = || all.iter().zip(rows).filter(move |(row, _)| row.context == context);
        (of().filter(|(_, timed)| timed.times[fast] < timed.times[slow]).count(), of().count())
    };
    let claim = |what, (won, all): (usize, usize)| Claim {
        what,
        paper: "most",
        got: format!("{won} of {all}"),
        agrees: 2 * won > all,
        near: None,
    };
    vec![
        claim("batches at the longest context in which 2 CTAs an SM are faster", faster(longest, TWO, FOUR)),
        claim("batches at the shortest in which 4 are", faster(shortest, FOUR, TWO)),
    ]
}

/// `--set pod-figure-14`.
pub(super) fn figure_14(device: &Device) -> Outcome<Set> {
    let all = pod_figure_14();
    let rows = timed("pod-figure-14", &specs(&all), device, &POD_WAYS)?;
    let half = rows.len() / 2;
    let series = [("llama-3-8b", 0), ("yi-6b", half)].into_iter().enumerate().flat_map(|(model, (name, from))| {
        let (all, rows) = (&all[from..from + half], &rows[from..from + half]);
        ["equal", "proportional"].into_iter().enumerate().map(move |(look, policy)| {
            let time = |row: &Timed| policies(row)[look].as_f64() * 1e-6;
            let points = all.iter().zip(rows).map(|(of, row)| (f64::from(of.decodes), time(row)));
            Series { name: format!("{name} {policy}"), look: (look, model), points: points.collect() }
        })
    });
    let plot = plot("POD Figure 14: scheduling policy, 8K context", device, "decodes", "ms", series.collect());
    let (claims, summary) = (claims_of_14(&all, &rows), every_row(&rows, &POD_WAYS));
    Ok(Set { key: "pod-figure-14", ways: &POD_WAYS, summary, claims, apart: apart(), plot, rows })
}

/// 50:50 and proportional, each at the better number of CTAs.
fn policies(row: &Timed) -> [Nanos; 2] {
    [(TWO_EQUAL, FOUR_EQUAL), (TWO, FOUR)].map(|(two, four)| row.times[two].min(row.times[four]))
}

fn claims_of_14(all: &[PodRow], rows: &[Timed]) -> Vec<Claim> {
    let gain = |row: &Timed| policies(row)[0].as_f64() / policies(row)[1].as_f64();
    let most = rows.iter().map(gain).fold(f64::NEG_INFINITY, f64::max);
    let at = |decodes: Option<u32>| {
        mean(all.iter().zip(rows).filter(|(of, _)| Some(of.decodes) == decodes).map(|(_, row)| gain(row)))
    };
    let [few, many] = [all.iter().map(|of| of.decodes).min(), all.iter().map(|of| of.decodes).max()].map(at);
    vec![
        Claim {
            what: "most that proportional gains over 50:50",
            paper: "up to +14 %",
            got: gain_text(most),
            agrees: most > 1.005,
            near: Some(near(most, 1.14)),
        },
        Claim {
            what: "what it gains at the fewest decodes, and at the most",
            paper: "improves with load",
            got: format!("{}, {}", gain_text(few), gain_text(many)),
            agrees: many > few + 0.005,
            near: None,
        },
    ]
}

/// `--set pod-table-8`.
pub(super) fn table_8(device: &Device) -> Outcome<Set> {
    let rows = timed("pod-table-8", &specs(&pod_table_8()), device, &WAYS)?;
    let series = [SERIAL, RELEASED].map(|way| Series {
        name: WAYS[way].name.to_owned(),
        look: (way, way),
        points: times_by_batch(&rows, way),
    });
    let title = "POD Table 8: Llama-3-8B TP2, last four chunks of 512 of 16K, 64 decodes";
    let plot = plot(title, device, "chunk, from 28", "ms", series.into());
    let mut apart = apart();
    apart.push(Apart {
        what: "POD with splits that are not limited, 1.68 to 1.71 ms (0.86 to 0.87× serial)",
        why: "packscope plans POD's kernel with its limit of two full waves alone",
    });
    let (claims, summary) = (claims_of_table_8(&rows), every_row(&rows, &WAYS));
    Ok(Set { key: "pod-table-8", ways: &WAYS, summary, claims, apart, plot, rows })
}

fn claims_of_table_8(rows: &[Timed]) -> Vec<Claim> {
    let times = |what, paper, published: [f64; 4], way: usize| {
        let ours: Vec<f64> = rows.iter().map(|row| row.times[way].as_f64() * 1e-6).collect();
        let texts: Vec<String> = ours.iter().map(|time| format!("{time:.2}")).collect();
        Claim {
            what,
            paper,
            got: format!("{} ms", texts.join(", ")),
            // A later chunk never takes less.
            agrees: ours.windows(2).all(|pair| pair[1] >= 0.995 * pair[0]),
            near: Some(ours.iter().zip(published).all(|(ours, paper)| near(ours / paper, 1.0))),
        }
    };
    let ratio = mean(rows.iter().map(|row| row.times[RELEASED].as_f64() / row.times[SERIAL].as_f64()));
    vec![
        times("serial", "1.93, 1.96, 1.98, 1.99 ms", [1.93, 1.96, 1.98, 1.99], SERIAL),
        times("POD with limited splits", "1.45, 1.45, 1.45, 1.46 ms", [1.45, 1.45, 1.45, 1.46], RELEASED),
        Claim {
            what: "POD with limited splits over serial, mean",
            paper: "0.73 to 0.75×",
            got: format!("{ratio:.2}×"),
            agrees: ratio < 0.995,
            near: Some(near(ratio, 0.74)),
        },
    ]
}
