//! `replay`: a trace served step by step under several ways.

use std::fmt::Write as _;
use std::process::ExitCode;

use engine::capture::write_atomically;
use engine::export::SCHEMA;
use engine::hw::Device;
use engine::import::{self, ImportOptions, Part, Trace};
use engine::replay::{self, Percentiles, ReplayOptions, Replayed, Sampled, ServingOptions, Step, Summary};
use engine::session::{PlanOptions, Runner};
use engine::units::{Bytes, Nanos, counted, grouped};
use engine::workload::{self, Model};
use serde_json::{Value, json};

use crate::cli::args::ReplayArgs;
use crate::cli::fault::{Fault, Outcome};
use crate::cli::figures::{Spread, simulated, time_or_dash};
use crate::cli::table::Table;
use crate::cli::{from, input, interrupt, output};

/// Steps that are named where a way loses.
const NAMED: usize = 5;

/// The command.
pub(crate) fn replay(args: &ReplayArgs) -> Outcome<ExitCode> {
    let (device, mut runner) = input::setup(&args.device)?;
    let options = options(args)?;
    let trace = trace(args)?;
    trace.notes.iter().for_each(|note| output::note(note));
    let ways = input::ways(&device, &args.schedulers, &args.strategies, &args.rules)?;
    if ways.iter().any(|way| way.auto.any()) {
        return Err(Fault::input("auto is no way of a replay", "name the schedulers and strategies to compare"));
    }
    let all = run(args, &trace, &ways, &options, &mut runner)?;
    if let Some(step) = &args.batch_of {
        save(args, &all, step)?;
    }
    if args.json {
        let ways: Vec<Value> = all.iter().map(json_of).collect();
        output::print_json(&json!({
            "schema": SCHEMA, "trace": output::path(&args.trace), "requests": trace.requests.len(),
            "model": options.model.name, "tp": options.gpus, "device": device.key, "calibrated": device.calibrated,
            "measured_every": runner.device().map(|_| args.measure_every), "notes": trace.notes, "ways": ways,
        }))?;
    } else {
        output::print(&text(&all, &trace, &options, &device))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn options(args: &ReplayArgs) -> Outcome<ReplayOptions> {
    if !(args.time_scale.is_finite() && args.time_scale >= 0.0) {
        let problem = format!("--time-scale is {}", args.time_scale);
        return Err(Fault::input(problem, "it must be a number of at least 0"));
    }
    let model = Model::find(&args.model)?;
    let block = u64::from(args.block_size.max(1));
    let most = u64::from(u32::MAX >> 2);
    if args.cache_tokens < block || args.cache_tokens / block > most {
        let problem = format!("--cache-tokens is {}", grouped(args.cache_tokens));
        return Err(Fault::input(
            problem,
            format!("the cache must have 1 to {} blocks of {block} tokens", grouped(most)),
        ));
    }
    Ok(ReplayOptions {
        model,
        gpus: args.tp,
        block_size: args.block_size,
        serving: ServingOptions {
            token_budget: args.token_budget,
            max_running: args.max_running as usize,
            cache_tokens: args.cache_tokens,
            time_scale: args.time_scale,
        },
        max_steps: args.steps,
    })
}

fn trace(args: &ReplayArgs) -> Outcome<Trace> {
    let window = args.window.as_deref().map(workload::parse_window).transpose()?;
    let part = window.map(|(start, count)| Part::Window { start, count });
    let options = ImportOptions { part, trace_block: args.trace_block, ..ImportOptions::default() };
    let trace = from::trace(import::find(&args.format)?, &args.trace, &options)?;
    match window {
        Some((start, count)) if trace.requests.len() < count => Err(Fault::input(
            format!("--window {start}:{count}: the trace has {}, counted from 0", counted(trace.rows, "request")),
            "choose a window inside it",
        )),
        _ => Ok(trace),
    }
}

fn run(
    args: &ReplayArgs,
    trace: &Trace,
    ways: &[PlanOptions],
    options: &ReplayOptions,
    runner: &mut Runner,
) -> Outcome<Vec<Replayed>> {
    let bar = output::progress(args.steps * ways.len() as u64, "steps");
    let tell = || bar.inc(1);
    let cancel = interrupt::cancel();
    let all = if runner.device().is_some() {
        let mut sampled = Sampled { by: runner, every: args.measure_every };
        replay::replay_measured(trace, ways, options, &mut sampled, cancel, &tell)
    } else {
        replay::replay(trace, ways, options, cancel, &tell)
    };
    bar.finish_and_clear();
    Ok(all?)
}

fn save(args: &ReplayArgs, all: &[Replayed], asked: &str) -> Outcome<()> {
    let (Some(way), Some(path)) = (all.last(), &args.output) else { return Ok(()) };
    let step = match asked {
        "worst" => way.lost().first().copied().unwrap_or_default(),
        number => number.parse().map_err(|_| {
            Fault::input(
                format!("--batch-of is '{}'", engine::shown::quoted(number)),
                "write a step such as 12, or worst",
            )
        })?,
    };
    let batch = way.batch_of(step).ok_or_else(|| {
        let there = counted(way.steps.len() as u64, "step");
        Fault::input(format!("--batch-of is {step}, but there are {there}"), "the first step is 0")
    })?;
    write_atomically(path, "writing the batch file", batch.to_ron()?.as_bytes())?;
    output::note(&format!("wrote step {step} to {}", path.display()));
    Ok(())
}

/// How far the simulator is off on the steps that were measured.
fn errors(way: &Replayed) -> Vec<f64> {
    let measured = way.steps.iter().map(|step| &step.attention).filter(|timed| timed.measured && timed.time.0 > 0);
    measured.map(|timed| (timed.simulated.as_f64() / timed.time.as_f64() - 1.0).abs()).collect()
}

fn percentiles(times: Option<Percentiles>) -> Value {
    times.map_or(
        Value::Null,
        |Percentiles { p50, p90, p99, mean }| json!({ "p50": p50.0, "p90": p90.0, "p99": p99.0, "mean": mean.0 }),
    )
}

fn json_of(way: &Replayed) -> Value {
    let Summary { duration, output_tokens, prefill_tokens, cached_tokens, done, attention, rest, .. } = way.summary;
    let summary = &way.summary;
    let errors = errors(way);
    json!({
        "scheduler": way.scheduler, "strategy": way.strategy, "requests_done": done, "requests_refused": way.refused,
        "duration_ns": duration.0, "output_tokens": output_tokens, "prefill_tokens": prefill_tokens,
        "cached_tokens": cached_tokens, "output_tokens_per_s": summary.throughput(),
        "ttft_ns": percentiles(summary.ttft), "time_per_output_token_ns": percentiles(summary.time_per_output_token),
        "attention_ns": attention.0, "rest_ns": rest.0, "rest_source": "roofline",
        "issued_bytes": summary.issued.0, "first_issued_bytes": summary.issued_first.0,
        "first_attention_of_a_layer_ns": summary.attention_first.0, "steps_lost": summary.steps_lost,
        "steps_stood_in": summary.steps_stood_in,
        "cache_blocks": way.cache_blocks, "evicted_blocks": way.evicted,
        "steps_measured": errors.len(), "simulator_error": (!errors.is_empty()).then(|| Spread::of(errors.iter().copied())),
        "steps": way.steps.iter().map(json_of_step).collect::<Vec<_>>(),
    })
}

fn json_of_step(step: &Step) -> Value {
    let decodes = step.work.iter().filter(|work| work.chunk.is_none()).count();
    let prefill: u64 = step.work.iter().filter_map(|work| work.chunk).sum();
    let bubbles: Vec<Value> = step
        .attention
        .bubbles
        .iter()
        .map(|(cause, time)| json!({ "cause": cause.name(), "slot_ns": time.0 }))
        .collect();
    json!({
        "begin_ns": step.begin.0, "duration_ns": step.duration.0, "decodes": decodes, "prefill_tokens": prefill,
        "kv_tokens": step.kv_tokens(), "attention_ns": step.attention.time.0,
        "source": if step.attention.measured { "measured" } else { "simulated" },
        "simulated_ns": step.attention.simulated.0, "first_attention_ns": step.first_way().time.0,
        "issued_bytes": step.attention.issued.0, "first_issued_bytes": step.first_way().issued.0,
        "compulsory_bytes": step.attention.compulsory.0, "rest_ns": step.rest.0,
        "planned": step.how.map_or("anew", |how| how.name()), "stood_in": step.stood_in, "blocks_held": step.blocks_held,
        "busy_slot_ns": step.attention.busy_slot.0, "bubbles": bubbles,
    })
}

fn text(all: &[Replayed], trace: &Trace, options: &ReplayOptions, device: &Device) -> String {
    let headings = [
        "way",
        "steps",
        "tokens/s",
        "TTFT p50",
        "p99",
        "time/token p50",
        "p99",
        "attention",
        "rest",
        "KV bytes saved",
        "steps lost",
    ];
    let mut table = Table::new(1, &headings);
    for way in all {
        table.row(row(way));
    }
    let ServingOptions { token_budget, max_running, cache_tokens, time_scale } = options.serving;
    let mut told = format!(
        "{} of {} on {}{}, attention {}; the rest of a layer is the least by a roofline, without head, all-reduce and host\n\
         {} query tokens a step, {} requests at once, room for {} KV tokens, arrival times × {time_scale}\n\n{}",
        counted(trace.requests.len() as u64, "request"),
        options.model.title,
        device.name,
        if options.gpus > 1 { format!(" ×{}", options.gpus) } else { String::new() },
        source(all, device),
        grouped(token_budget),
        grouped(max_running as u64),
        grouped(cache_tokens),
        table.text()
    );
    for way in all.iter().filter(|way| way.summary.steps_stood_in > 0) {
        let steps = counted(way.summary.steps_stood_in, "step");
        // Writing to a string cannot fail.
        let _ = writeln!(told, "{} refuses {steps}, which {} planned", way.scheduler, replay::STAND_IN);
    }
    for way in all.iter().skip(1) {
        let lost = way.lost();
        if !lost.is_empty() {
            let named: Vec<String> = lost.iter().take(NAMED).map(|at| of_step(way, *at)).collect();
            let _ = writeln!(told, "{} loses most to {} in step {}", way.scheduler, all[0].scheduler, named.join(", "));
        }
    }
    let (refused, unfinished) = (all[0].refused.len() as u64, left(&all[0], trace));
    if refused > 0 {
        let _ = writeln!(told, "{} longer than the whole cache, not served", counted(refused, "request"));
    }
    if unfinished > 0 {
        let _ = writeln!(told, "{} not done when the last step ended", counted(unfinished, "request"));
    }
    told
}

fn left(way: &Replayed, trace: &Trace) -> u64 {
    (trace.requests.len() as u64).saturating_sub(way.summary.done + way.refused.len() as u64)
}

fn of_step(way: &Replayed, at: usize) -> String {
    let step = &way.steps[at];
    format!("{at} ({} against {})", step.attention.time, step.first_way().time)
}

fn source(all: &[Replayed], device: &Device) -> String {
    let measured: usize = all.iter().map(|way| errors(way).len()).sum();
    let steps: usize = all.iter().map(|way| way.steps.len()).sum();
    if measured == 0 {
        return simulated(device).to_owned();
    }
    let Spread { median, nine_of_ten, .. } = Spread::of(all.iter().flat_map(errors));
    let (median, most) = (100.0 * median, 100.0 * nine_of_ten);
    format!(
        "measured in {measured} of {steps} steps, on which the simulator is off by {median:.1} % in the median and \
         {most:.1} % in nine of ten; else simulated"
    )
}

fn row(way: &Replayed) -> Vec<String> {
    let summary = &way.summary;
    let time = |times: Option<Percentiles>, which: fn(&Percentiles) -> Nanos| time_or_dash(times.as_ref().map(which));
    let saved = summary.issued_first.0 as f64 - summary.issued.0 as f64;
    let share = 100.0 * saved / summary.issued_first.as_f64().max(1.0);
    vec![
        format!("{} {}", way.scheduler, way.strategy),
        way.steps.len().to_string(),
        format!("{:.0}", summary.throughput()),
        time(summary.ttft, |times| times.p50),
        time(summary.ttft, |times| times.p99),
        time(summary.time_per_output_token, |times| times.p50),
        time(summary.time_per_output_token, |times| times.p99),
        summary.attention.to_string(),
        summary.rest.to_string(),
        if saved >= 0.0 {
            format!("{} ({share:.0} %)", Bytes(saved as u64))
        } else {
            format!("-{} ({share:.0} %)", Bytes(-saved as u64))
        },
        summary.steps_lost.to_string(),
    ]
}
