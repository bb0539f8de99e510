//! `bench --set hybrid` and `--set random-hybrid`: every strategy on every batch, beside the floor, the two
//! halves alone, and what peers take; on the simulator and on a GPU alike.
//!
//! The floor is the least time in which tensor cores and reads, alone and at once, do all prefill products and bring all
//! compulsory bytes: at the rates that the GPU showed just before, or by the device file. What `auto` would take is the
//! strategy of the least simulated time, also where the times themselves are measured.

use std::process::ExitCode;

use engine::Error;
use engine::export::{RunJson, SCHEMA};
use engine::hw::{Device, HybridLimits};
use engine::plan::{Strategy, hybrid};
use engine::session::{self, PlanOptions, Planned, RunOptions, Runner};
use engine::units::{Nanos, counted};
use engine::workload::{BatchSpec, RequestSpec, random_hybrid};
use serde_json::{Value, json};

use crate::cli::args::{BenchArgs, BenchSet};
use crate::cli::bench::peers::Peers;
use crate::cli::exit::FAILED;
use crate::cli::fault::{Fault, Outcome};
use crate::cli::figures::ratio;
use crate::cli::sets::Case;
use crate::cli::table::Table;
use crate::cli::{figures, input, interrupt, output, sets};

/// Runs shorter than this come in two clusters some 15 % apart, and a median of 20 falls in either: one kernel by the names
/// of three strategies took 6.8 to 8.5 µs on an H100.
const SHORT: Nanos = Nanos(20_000);
const REPEATS_OF_SHORT: u32 = 100;

/// One way on one batch.
pub(crate) struct Row {
    pub(crate) strategy: Strategy,
    pub(crate) scheduler: String,
    pub(crate) simulated: Nanos,
    /// Whether the outputs are further from the reference than a right run's.
    pub(crate) wrong: bool,
    pub(crate) run: RunJson,
}

/// One batch under all strategies.
pub(crate) struct Tried {
    case: Case,
    floor: Nanos,
    /// Each half by itself, in series.
    halves: [Nanos; 2],
    peers: Vec<Option<Nanos>>,
    rows: Vec<Row>,
    /// What each strategy that does not take the batch says.
    refused: Vec<(String, String)>,
}

/// All batches of a set.
pub(crate) struct Hybrids {
    peers: Peers,
    pub(crate) tried: Vec<Tried>,
    limits: Option<HybridLimits>,
    measured: bool,
}

/// The batches of a set.
pub(crate) fn cases(args: &BenchArgs) -> Outcome<Vec<Case>> {
    if args.set == BenchSet::Hybrid {
        return sets::hybrid();
    }
    let case = |number| Case { name: format!("random-{}-{number}", args.seed), spec: random_hybrid(args.seed, number) };
    Ok((0..args.count).map(case).collect())
}

/// Runs every batch under every strategy.
pub(crate) fn run(args: &BenchArgs, device: &Device, runner: &mut Runner) -> Outcome<Hybrids> {
    let measured = runner.limits(figures::REPEATS, interrupt::cancel())?.and_then(|limits| limits.hybrid);
    let limits = measured.or(device.hybrid_limits.filter(|_| device.prefill_kernel.is_some()));
    let cases = cases(args)?;
    let peers = Peers::read(args.peers.as_deref(), "hybrid", &cases)?;
    let bar = output::progress(cases.len() as u64, "hybrid");
    let mut tried = Vec::new();
    for case in cases {
        tried.push(try_case(args, device, (runner, limits.as_ref()), (case, &peers))?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(Hybrids { peers, tried, limits, measured: runner.device().is_some() })
}

fn try_case(
    args: &BenchArgs,
    device: &Device,
    (runner, limits): (&mut Runner, Option<&HybridLimits>),
    (case, peers): (Case, &Peers),
) -> Outcome<Tried> {
    let (mut rows, mut refused, mut floor) = (Vec::new(), Vec::new(), Nanos::ZERO);
    for options in ways(args, device, &case.spec)? {
        match figures::accepted(runner, &case.spec, &options) {
            Ok(planned) => {
                floor = Nanos(session::floor_ns(&planned, limits).ceil() as u64);
                rows.push(try_way(args, runner, &planned)?);
            }
            Err(error @ Error::Unsupported { .. }) => {
                refused.push((options.strategy.name().to_owned(), error.to_string()));
            }
            Err(error) => return Err(error.into()),
        }
    }
    if rows.is_empty() {
        let why = refused.into_iter().map(|(_, why)| why).next().unwrap_or_default();
        return Err(Fault::failed(format!("{}: no strategy runs it: {why}", case.name)));
    }
    let halves = halves(args, device, runner, &case.spec)?;
    Ok(Tried { floor, halves, peers: peers.of(&case), rows, refused, case })
}

/// Every scheduler under every strategy that was asked for, or under all that the device has kernels for.
fn ways(args: &BenchArgs, device: &Device, spec: &BatchSpec) -> Outcome<Vec<PlanOptions>> {
    let choice = &args.choice;
    let schedulers =
        if args.schedulers.is_empty() { vec![choice.scheduler().to_owned()] } else { args.schedulers.clone() };
    let asked = choice.strategy.clone().filter(|name| name != input::AUTO);
    let strategies = match (&args.strategies[..], asked) {
        ([], None) => hybrid::offered(device, &spec.build()?).iter().map(|s| s.name().to_owned()).collect(),
        ([], Some(one)) => vec![one],
        (many, _) => many.to_vec(),
    };
    input::ways(device, &schedulers, &strategies, &choice.rules)
}

/// A plan run, and simulated where it was measured.
pub(crate) fn try_way(args: &BenchArgs, runner: &mut Runner, planned: &Planned) -> Outcome<Row> {
    let check = if args.check { Some(runner.check(planned, args.seed, interrupt::cancel())?) } else { None };
    let simulated = runner.device().is_some().then(|| simulated(planned)).transpose()?;
    let repeats = if simulated.is_some_and(|time| time < SHORT) { REPEATS_OF_SHORT } else { figures::REPEATS };
    let run = figures::run_planned(runner, planned, &figures::cold(repeats), check.as_ref())?.json;
    Ok(Row {
        strategy: planned.plan.strategy,
        scheduler: planned.plan.scheduler.clone(),
        simulated: simulated.unwrap_or(Nanos(run.makespan_ns)),
        wrong: check.is_some_and(|check| !check.is_right()),
        run,
    })
}

fn simulated(planned: &Planned) -> Outcome<Nanos> {
    Ok(session::simulate(planned, &RunOptions::default(), interrupt::cancel())?.makespan())
}

/// Prefill alone and decode alone.
fn halves(args: &BenchArgs, device: &Device, runner: &mut Runner, spec: &BatchSpec) -> Outcome<[Nanos; 2]> {
    let is_prefill = |request: &RequestSpec| matches!(request, RequestSpec::Prefill { .. });
    let (prefills, decodes): (Vec<RequestSpec>, Vec<RequestSpec>) = spec.requests.iter().cloned().partition(is_prefill);
    let prefill = BatchSpec { roots: Vec::new(), requests: prefills, ..spec.clone() };
    let decode = BatchSpec { requests: decodes, ..spec.clone() };
    let mut options = input::bench_options(device, &args.choice)?;
    (options.strategy, options.auto.strategy) = (Strategy::Serial, false);
    let mut time = |spec: &BatchSpec| -> Outcome<Nanos> {
        let planned = session::plan_spec(spec, &options)?;
        Ok(runner.run(&planned, &figures::cold(figures::REPEATS), interrupt::cancel())?.time())
    };
    Ok([time(&prefill)?, time(&decode)?])
}

impl Tried {
    fn best(&self) -> Option<&Row> {
        self.rows.iter().min_by_key(|row| row.run.makespan_ns)
    }

    /// What `auto` takes: the least simulated time.
    fn auto(&self) -> Option<&Row> {
        self.rows.iter().min_by_key(|row| row.simulated)
    }

    fn json(&self, peers: &Peers, measured: bool) -> Vec<Value> {
        let batch = self.case.spec.to_ron().ok();
        let row = |row: &Row| {
            json!({
                "sample": self.case.name, "batch_ron": batch, "strategy": row.strategy.name(),
                "scheduler": row.scheduler, "floor_ns": self.floor.0, "makespan_ns": row.run.makespan_ns,
                "simulated_ns": measured.then_some(row.simulated.0), "peers_ns": peers.json(&self.peers), "run": row.run,
            })
        };
        self.rows.iter().map(row).collect()
    }

    fn summary(&self) -> Value {
        let refused: Vec<Value> =
            self.refused.iter().map(|(strategy, why)| json!({ "strategy": strategy, "why": why })).collect();
        json!({
            "sample": self.case.name, "floor_ns": self.floor.0,
            "prefill_alone_ns": self.halves[0].0, "decode_alone_ns": self.halves[1].0,
            "best": self.best().map(|row| row.strategy.name()), "best_ns": self.best().map(|row| row.run.makespan_ns),
            "auto": self.auto().map(|row| row.strategy.name()), "auto_ns": self.auto().map(|row| row.run.makespan_ns),
            "refused": refused,
        })
    }
}

impl Hybrids {
    /// Whether any outputs are wrong.
    pub(crate) fn wrong(&self) -> usize {
        self.tried.iter().flat_map(|tried| &tried.rows).filter(|row| row.wrong).count()
    }

    /// `runs` and `batches` of the JSON: a row a (batch, strategy), and a row a batch.
    pub(crate) fn json(&self) -> (Vec<Value>, Vec<Value>) {
        let runs = self.tried.iter().flat_map(|tried| tried.json(&self.peers, self.measured)).collect();
        (runs, self.tried.iter().map(Tried::summary).collect())
    }

    /// One line a batch: every strategy, what `auto` takes, and the floor; then the best beside peers.
    pub(crate) fn text(&self, set: &str, device: &Device) -> String {
        let source = if self.measured { "measured" } else { figures::simulated(device) };
        let all: Vec<Strategy> = Strategy::ALL
            .into_iter()
            .filter(|strategy| self.tried.iter().any(|tried| tried.rows.iter().any(|row| row.strategy == *strategy)))
            .collect();
        let mut headings = vec!["batch", "prefill", "decode"];
        headings.extend(all.iter().map(|strategy| strategy.name()));
        headings.extend(["auto", "floor", "best over floor"]);
        let mut table = Table::new(1, &headings);
        for tried in &self.tried {
            table.row(line(tried, &all));
        }
        let mut text = format!(
            "{set} under every strategy on {}, all times {source}, cold L2; prefill and decode are each half alone; auto is\n\
             the strategy of the least simulated time; {}\n\n{}",
            device.name,
            self.about_floor(),
            table.text()
        );
        for why in self.refusals() {
            text.push_str("refused: ");
            text.push_str(why);
            text.push('\n');
        }
        let best: Vec<(&str, u64, &[Option<Nanos>])> = self
            .tried
            .iter()
            .filter_map(|tried| Some((tried.case.name.as_str(), tried.best()?.run.makespan_ns, &tried.peers[..])))
            .collect();
        let beside = self.peers.table(source, &best);
        if beside.is_empty() { text } else { format!("{text}\nour best of all strategies, {beside}") }
    }

    fn about_floor(&self) -> String {
        let Some(limits) = &self.limits else {
            return "floor = the larger of the prefill products at the fastest prefill kernel's rate and the compulsory\n\
                    bytes at what a plain read reaches, by the device file"
                .to_owned();
        };
        let tera = |rate: u64| rate as f64 / 1e12;
        let from = if self.measured { "measured now" } else { "by the device file" };
        format!(
            "floor = prefill products and compulsory bytes at {:.0} TFLOP/s\n\
             beside {:.2} TB/s (SMs at {:.2} GHz), and what is left of either alone at {:.0} TFLOP/s ({:.2} GHz) or {:.2} TB/s, {from}",
            tera(limits.flops),
            tera(limits.bytes_per_s),
            limits.clock as f64 / 1e9,
            tera(limits.flops_alone),
            limits.clock_alone as f64 / 1e9,
            tera(limits.bytes_per_s_alone),
        )
    }

    /// The limits behind the floor, as JSON.
    pub(crate) fn limits_json(&self) -> Value {
        json!(self.limits)
    }

    fn refusals(&self) -> Vec<&str> {
        let mut all: Vec<&str> =
            self.tried.iter().flat_map(|tried| &tried.refused).map(|(_, why)| why.as_str()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

fn line(tried: &Tried, all: &[Strategy]) -> Vec<String> {
    let mut cells = vec![tried.case.name.clone()];
    cells.extend(tried.halves.iter().map(Nanos::to_string));
    cells.extend(all.iter().map(|strategy| {
        let of = tried.rows.iter().filter(|row| row.strategy == *strategy).map(|row| row.run.makespan_ns).min();
        of.map_or_else(|| "refused".to_owned(), |time| Nanos(time).to_string())
    }));
    cells.push(tried.auto().map_or_else(String::new, |row| row.strategy.name().to_owned()));
    cells.push(tried.floor.to_string());
    cells.push(tried.best().map_or_else(String::new, |row| ratio(row.run.makespan_ns, tried.floor.0)));
    cells
}

/// The command on a GPU, and for random batches: no published figures stand beside them.
pub(crate) fn bench(args: &BenchArgs, key: &str, device: &Device, runner: &mut Runner) -> Outcome<ExitCode> {
    let hybrids = run(args, device, runner)?;
    if args.json {
        let (runs, batches) = hybrids.json();
        let seed = (args.set == BenchSet::RandomHybrid).then_some(args.seed);
        output::print_json(&json!({
            "schema": SCHEMA, "set": key, "seed": seed, "l2": "cold", "hybrid_limits": hybrids.limits_json(),
            "runs": runs, "batches": batches,
        }))?;
    } else {
        output::print(&hybrids.text(key, device))?;
    }
    let wrong = hybrids.wrong();
    if wrong > 0 {
        let runs = counted(wrong as u64, "run");
        output::note(&format!("the outputs of {runs} differ from the f64 reference by more than they may"));
    }
    Ok(ExitCode::from(if wrong > 0 { FAILED } else { 0 }))
}
