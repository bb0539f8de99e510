//! `bench --set pat-serving` and `--set pod-serving`: the papers' serving experiments, replayed on the simulator, with
//! what is published beside it. Traces that are not public are built from their descriptions; see the engine's `replay`.

use std::process::ExitCode;
use std::slice::from_ref;

use engine::export::SCHEMA;
use engine::hw::Device;
use engine::import::Trace;
use engine::plan::Strategy;
use engine::plan::hybrid::PodChoice;
use engine::replay::{self, Percentiles, ReplayOptions, Replayed, ServingOptions};
use engine::session::PlanOptions;
use engine::units::Nanos;
use engine::workload::Model;
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::cli::args::{BenchArgs, BenchSet};
use crate::cli::fault::{Fault, Outcome};
use crate::cli::figures::{simulated, time_or_dash};
use crate::cli::table::Table;
use crate::cli::{interrupt, output};

/// A figure that is published: what a way gains over another, as a share of the other's.
struct Published {
    /// What it is of: mean time per output token, or output tokens a second.
    figure: Figure,
    /// The way that it is compared with.
    over: usize,
    /// Least and most that is reported.
    range: (f64, f64),
}

/// What of a replay is compared.
#[derive(Clone, Copy, PartialEq)]
enum Figure {
    TimePerToken,
    Throughput,
}

/// One experiment under all its ways, the paper's own being the first.
struct Experiment {
    name: String,
    trace: Trace,
    options: ReplayOptions,
    ways: Vec<PlanOptions>,
    published: Vec<Published>,
}

/// The command.
pub(crate) fn bench(args: &BenchArgs, device: &Device) -> Outcome<ExitCode> {
    let experiments = if args.set == BenchSet::PatServing { pat(args, device)? } else { pod(args, device)? };
    let bar = output::progress(experiments.len() as u64, "experiments");
    let mut done: Vec<(Experiment, Vec<Replayed>)> = Vec::new();
    for experiment in experiments {
        let Experiment { trace, options, ways, .. } = &experiment;
        // Each by itself: what a first way would have taken for the steps of another is no part of the comparison.
        let alone = |way| replay::replay(trace, from_ref(way), options, interrupt::cancel(), &|| ());
        let all: Vec<Vec<Replayed>> = ways.par_iter().map(alone).collect::<engine::Result<_>>()?;
        done.push((experiment, all.into_iter().flatten().collect()));
        bar.inc(1);
    }
    bar.finish_and_clear();
    if args.json {
        let rows: Vec<Value> = done.iter().flat_map(|(experiment, all)| rows_of(experiment, all)).collect();
        output::print_json(&json!({
            "schema": SCHEMA, "set": key(args.set), "device": device.key, "calibrated": device.calibrated,
            "source": "simulated", "requests": args.count, "rows": rows,
        }))?;
    } else {
        output::print(&text(args, device, &done))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn key(set: BenchSet) -> &'static str {
    if set == BenchSet::PatServing { "pat-serving" } else { "pod-serving" }
}

fn way(device: &Device, scheduler: &str, strategy: Strategy) -> PlanOptions {
    PlanOptions { scheduler: scheduler.to_owned(), strategy, explain: false, ..PlanOptions::new(device) }
}

/// PAT's Figure 11 (b) to (d): the conversation trace over the request rate.
fn pat(args: &BenchArgs, device: &Device) -> Outcome<Vec<Experiment>> {
    let mut all = Vec::new();
    for name in ["llama-3-8b", "qwen3-8b"] {
        for rate in [4.0, 8.0, 11.0] {
            let options = ReplayOptions {
                model: Model::find(name)?,
                gpus: 1,
                block_size: 16,
                serving: ServingOptions::default(),
                max_steps: 1_000_000,
            };
            let below = |over, least, most| Published { figure: Figure::TimePerToken, over, range: (least, most) };
            all.push(Experiment {
                name: format!("{name}, {rate} requests/s"),
                trace: replay::pat_conversation(args.seed, args.count, rate),
                options,
                ways: [
                    ("pat", Strategy::Streams),
                    ("relay-plus-plus", Strategy::Streams),
                    ("query-centric", Strategy::Serial),
                    ("flashinfer-decode", Strategy::Serial),
                ]
                .map(|(scheduler, strategy)| way(device, scheduler, strategy))
                .to_vec(),
                published: vec![below(1, 0.172, 0.681), below(2, 0.170, 0.895), below(3, 0.322, 0.931)],
            });
        }
    }
    Ok(all)
}

/// POD's Figure 12 and Tables 5 and 6: Sarathi with and without its kernel. Both run FlashAttention 2's and POD's kernels.
fn pod(args: &BenchArgs, device: &Device) -> Outcome<Vec<Experiment>> {
    let device = &Device { prefill_kernel: None, ..device.clone() };
    let fused = PlanOptions { pod: PodChoice::Released, ..way(device, "query-centric", Strategy::Fused) };
    let ways = vec![fused, way(device, "query-centric", Strategy::Serial)];
    let options = |name: &str, gpus, chunk| -> Outcome<ReplayOptions> {
        let serving = ServingOptions { token_budget: chunk, cache_tokens: 1_000_000, ..ServingOptions::default() };
        Ok(ReplayOptions { model: Model::find(name)?, gpus, block_size: 16, serving, max_steps: 1_000_000 })
    };
    let mut all = Vec::new();
    for (name, gpus, chunk, out, gain) in
        [("yi-6b", 1, 512, 2048, 0.22), ("llama-2-7b", 2, 1024, 256, 0.20), ("llama-3-8b", 2, 1024, 1024, 0.19)]
    {
        all.push(Experiment {
            name: format!("offline, {name}, chunks of {chunk}"),
            trace: replay::pod_offline(args.count, out),
            options: options(name, gpus, chunk)?,
            ways: ways.clone(),
            published: vec![Published { figure: Figure::Throughput, over: 1, range: (gain, gain) }],
        });
    }
    for (name, rate, chunk, mean) in [("internal", 1.1, 1536, (10_500, 331)), ("arXiv", 0.85, 1024, (9_500, 470))] {
        all.push(Experiment {
            name: format!("online, {name}, {rate} requests/s"),
            trace: replay::pod_online(args.seed, args.count, rate, mean),
            options: options("llama-3-8b", 2, chunk)?,
            ways: ways.clone(),
            // Medians of 0.10 s against 0.10 s, and 0.08 s against 0.08 s.
            published: vec![Published { figure: Figure::TimePerToken, over: 1, range: (0.0, 0.0) }],
        });
    }
    Ok(all)
}

/// What the first way gains over another: the share of its time that is saved, or of its throughput that is added.
fn gain(all: &[Replayed], published: &Published) -> Option<f64> {
    let (own, other) = (&all.first()?.summary, &all.get(published.over)?.summary);
    match published.figure {
        Figure::Throughput => Some(own.throughput() / other.throughput() - 1.0),
        Figure::TimePerToken => {
            let mean = |times: Option<Percentiles>| times.map(|times| times.mean.as_f64());
            Some(1.0 - mean(own.time_per_output_token)? / mean(other.time_per_output_token)?)
        }
    }
}

/// Half of what is published, or as little as it, is the same conclusion; a per cent is none.
fn verdict(gain: f64, (least, most): (f64, f64)) -> &'static str {
    match gain {
        gain if gain >= least && gain <= most => "in the published range",
        gain if most.abs() < 0.01 && gain.abs() < 0.05 => "alike, as published",
        gain if gain > most => "more than published",
        gain if gain > 0.01 => "same direction, less",
        _ => "not confirmed",
    }
}

fn rows_of(experiment: &Experiment, all: &[Replayed]) -> Vec<Value> {
    let mean = |times: Option<Percentiles>| times.map(|times| times.mean.0);
    let of = |(at, way): (usize, &Replayed)| {
        let published = experiment.published.iter().find(|one| one.over == at);
        let gain = published.and_then(|one| gain(all, one));
        json!({
            "experiment": experiment.name, "scheduler": way.scheduler, "strategy": way.strategy,
            "steps": way.steps.len(), "steps_stood_in": way.summary.steps_stood_in, "output_tokens_per_s": way.summary.throughput(),
            "mean_ttft_ns": mean(way.summary.ttft), "mean_time_per_output_token_ns": mean(way.summary.time_per_output_token),
            "p99_time_per_output_token_ns": way.summary.time_per_output_token.map(|times| times.p99.0),
            "first_way_gains": gain, "published_least": published.map(|one| one.range.0),
            "published_most": published.map(|one| one.range.1),
            "verdict": gain.zip(published).map(|(gain, one)| verdict(gain, one.range)),
        })
    };
    all.iter().enumerate().map(of).collect()
}

fn text(args: &BenchArgs, device: &Device, done: &[(Experiment, Vec<Replayed>)]) -> String {
    let headings = [
        "experiment",
        "way",
        "steps",
        "refused",
        "tokens/s",
        "mean TTFT",
        "mean time/token",
        "P99",
        "first way gains",
        "published",
        "verdict",
    ];
    let mut table = Table::new(2, &headings);
    for (experiment, all) in done {
        for (at, way) in all.iter().enumerate() {
            table.row(row(experiment, all, (at, way)));
        }
    }
    let stood_in = done.iter().flat_map(|(_, all)| all).any(|way| way.summary.steps_stood_in > 0);
    let refused = if stood_in {
        format!("refused: steps that the scheduler cannot take, planned by {}\n", replay::STAND_IN)
    } else {
        String::new()
    };
    format!(
        "{} on {}: {} requests each, attention {}, the rest of a layer by a roofline\n\
         traces are built from the papers' descriptions; gains are of mean time per output token, offline of throughput\n{refused}\n{}",
        key(args.set),
        device.name,
        args.count,
        simulated(device),
        table.text()
    )
}

fn row(experiment: &Experiment, all: &[Replayed], (at, way): (usize, &Replayed)) -> Vec<String> {
    let of = |times: Option<Percentiles>, which: fn(&Percentiles) -> Nanos| time_or_dash(times.as_ref().map(which));
    let published = experiment.published.iter().find(|one| one.over == at);
    let gained = published.and_then(|one| Some((gain(all, one)?, one.range)));
    let (own, told, verdict) = gained.map_or_else(Default::default, |(gain, (least, most))| {
        let told = if least < most {
            format!("{:.1} to {:.1} %", 100.0 * least, 100.0 * most)
        } else {
            format!("{:.0} %", 100.0 * most)
        };
        (format!("{:.1} %", 100.0 * gain), told, verdict(gain, (least, most)).to_owned())
    });
    vec![
        if at == 0 { experiment.name.clone() } else { String::new() },
        format!("{} {}", way.scheduler, way.strategy),
        way.steps.len().to_string(),
        way.summary.steps_stood_in.to_string(),
        format!("{:.0}", way.summary.throughput()),
        of(way.summary.ttft, |times| times.mean),
        of(way.summary.time_per_output_token, |times| times.mean),
        of(way.summary.time_per_output_token, |times| times.p99),
        own,
        told,
        verdict,
    ]
}

/// The sets are simulated, as no trace of theirs is public.
pub(crate) fn refuse_gpu(measured: bool) -> Outcome<()> {
    if measured {
        return Err(Fault::input(
            "the serving sets are simulated",
            "use --backend sim; 'packscope replay' measures a trace on the GPU",
        ));
    }
    Ok(())
}
