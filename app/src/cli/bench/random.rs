//! `bench --set random` and `--set trace`: random decode batches, or windows of a trace, under several schedulers and
//! strategies, on the simulator or on a GPU: what each takes beside the floor and beside peers, how far the simulator is
//! off, and how close what `auto` takes comes to the fastest.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use engine::Error;
use engine::export::SCHEMA;
use engine::hw::Device;
use engine::pack;
use engine::plan::{LaunchPlan, Strategy};
use engine::session::{self, PlanOptions, Runner};
use engine::units::{Nanos, counted};
use engine::workload::{random_forest, random_order};
use serde_json::{Value, json};

use super::peers::Peers;
use super::trace;
use crate::cli::args::{BenchArgs, BenchSet};
use crate::cli::bench::hybrid::{Row, try_way};
use crate::cli::exit::FAILED;
use crate::cli::fault::{Fault, Outcome};
use crate::cli::figures::{Spread, ratio};
use crate::cli::sets::Case;
use crate::cli::table::Table;
use crate::cli::{figures, input, interrupt, output};

/// Ways that `--tune` tries.
const TUNED: usize = 3;

/// One batch in every way that plans and that the machine takes, in the order in which they were tried.
struct Tried {
    case: Case,
    /// Places in `rows` of the ways that auto ranks first, in its order.
    ranked: Vec<usize>,
    floor: Nanos,
    /// Times of peers, in the order of their names.
    peers: Vec<Option<Nanos>>,
    rows: Vec<Row>,
    /// The plan of each row.
    plans: Vec<Arc<LaunchPlan>>,
    refused: Vec<(String, String)>,
}

impl Tried {
    fn fastest(&self) -> Option<&Row> {
        self.rows.iter().min_by_key(|row| row.run.makespan_ns)
    }

    /// What auto takes.
    fn auto(&self) -> Option<&Row> {
        self.ranked.first().map(|at| &self.rows[*at])
    }

    /// The fastest of so many that auto ranks first, over the fastest.
    fn regret(&self, tries: usize) -> Option<f64> {
        let taken = self.ranked.iter().take(tries).map(|at| self.rows[*at].run.makespan_ns).min()?;
        Some(taken as f64 / self.fastest()?.run.makespan_ns.max(1) as f64)
    }

    fn errors(&self) -> impl Iterator<Item = f64> {
        self.rows.iter().map(|row| (row.simulated.as_f64() / row.run.makespan_ns.max(1) as f64 - 1.0).abs())
    }

    fn json(&self, peers: &Peers, measured: bool) -> Vec<Value> {
        let batch = self.case.spec.to_ron().ok();
        let row = |row: &Row| {
            json!({
                "sample": self.case.name, "batch_ron": batch, "scheduler": row.scheduler,
                "strategy": row.strategy.name(), "floor_ns": self.floor.0, "makespan_ns": row.run.makespan_ns,
                "simulated_ns": measured.then_some(row.simulated.0), "peers_ns": peers.json(&self.peers), "run": row.run,
            })
        };
        self.rows.iter().map(row).collect()
    }

    fn summary(&self) -> Value {
        let refused: Vec<Value> = self.refused.iter().map(|(way, why)| json!({ "way": way, "why": why })).collect();
        json!({
            "sample": self.case.name, "floor_ns": self.floor.0, "best": self.fastest().map(name),
            "best_ns": self.fastest().map(|row| row.run.makespan_ns), "auto": self.auto().map(name),
            "auto_ns": self.auto().map(|row| row.run.makespan_ns), "auto_over_best": self.regret(1),
            "tuned_over_best": self.regret(TUNED), "refused": refused,
        })
    }

    fn line(&self) -> Vec<String> {
        let shape = &self.case.spec.shape;
        let of = |row: Option<&Row>| {
            row.map_or_else(String::new, |row| format!("{} {}", name(row), Nanos(row.run.makespan_ns)))
        };
        vec![
            self.case.spec.name.clone(),
            format!("{}/{} d{}", shape.query_heads, shape.kv_heads, shape.head_dim),
            self.floor.to_string(),
            of(self.fastest()),
            self.fastest().map_or_else(String::new, |row| ratio(row.run.makespan_ns, self.floor.0)),
            of(self.auto()),
            self.regret(1).map_or_else(String::new, |regret| format!("{regret:.3}×")),
        ]
    }
}

fn name(row: &Row) -> String {
    format!("{} {}", row.scheduler, row.strategy.name())
}

/// The command.
pub(crate) fn bench(args: &BenchArgs, device: &Device, runner: &mut Runner) -> Outcome<ExitCode> {
    let measured = runner.device().is_some();
    let limits = runner.limits(figures::REPEATS, interrupt::cancel())?;
    let (set, cases, peers) = cases(args)?;
    let bar = output::progress(cases.len() as u64, set);
    let mut all = Vec::new();
    for (number, case) in (0..).zip(cases) {
        let peers = peers.of(&case);
        all.push(Tried { peers, ..try_case(args, (device, limits.as_ref()), runner, (number, case))? });
        bar.inc(1);
    }
    bar.finish_and_clear();
    let error = measured.then(|| Spread::of(all.iter().flat_map(Tried::errors)));
    let regret = Spread::of(all.iter().filter_map(|tried| tried.regret(1)));
    let tuned = Spread::of(all.iter().filter_map(|tried| tried.regret(TUNED)));
    if args.json {
        let runs: Vec<Value> = all.iter().flat_map(|tried| tried.json(&peers, measured)).collect();
        let batches: Vec<Value> = all.iter().map(Tried::summary).collect();
        output::print_json(&json!({
            "schema": SCHEMA, "set": set, "seed": args.seed, "l2": "cold", "calibrated": device.calibrated,
            "simulator_error": error,
            "auto_over_best": regret, "tuned_over_best": tuned, "runs": runs, "batches": batches,
        }))?;
    } else {
        let source = if measured { "measured" } else { figures::simulated(device) };
        let text = text(&all, (set, device, source), (error.as_ref(), &regret, &tuned));
        let peers = beside(&peers, &all, source);
        output::print(format!("{text}\n{peers}").trim_end())?;
    }
    let wrong = all.iter().flat_map(|tried| &tried.rows).filter(|row| row.wrong).count();
    if wrong > 0 {
        let runs = counted(wrong as u64, "run");
        output::note(&format!("the outputs of {runs} differ from the f64 reference by more than they may"));
    }
    Ok(ExitCode::from(if wrong > 0 { FAILED } else { 0 }))
}

/// The name of the set, its cases, and the times of peers for them.
fn cases(args: &BenchArgs) -> Outcome<(&'static str, Vec<Case>, Peers)> {
    if args.set == BenchSet::Trace {
        let (cases, peers) = trace::cases(args)?;
        return Ok(("trace", cases, peers));
    }
    let case = |number| Case { name: format!("random-{}-{number}", args.seed), spec: random_forest(args.seed, number) };
    Ok(("random", (0..args.count).map(case).collect(), Peers::default()))
}

/// The fastest way of each batch beside peers; empty without them.
fn beside(peers: &Peers, all: &[Tried], source: &str) -> String {
    let best = |tried: &Tried| Some(tried.fastest()?.run.makespan_ns);
    let row = |tried| Some((tried, best(tried)?));
    let rows: Vec<(&Tried, u64)> = all.iter().filter_map(row).collect();
    let rows: Vec<_> = rows.iter().map(|(tried, ns)| (tried.case.name.as_str(), *ns, &tried.peers[..])).collect();
    peers.table(source, &rows)
}

fn try_case(
    args: &BenchArgs,
    (device, limits): (&Device, Option<&engine::metrics::Limits>),
    runner: &mut Runner,
    (number, case): (u32, Case),
) -> Outcome<Tried> {
    let auto = input::options_of(device, input::AUTO, input::AUTO, &args.choice.rules, false)?;
    let ranking = session::ranking(&case.spec, &auto)?;
    let mut tried = Tried {
        case,
        ranked: Vec::new(),
        floor: Nanos::ZERO,
        peers: Vec::new(),
        rows: Vec::new(),
        plans: Vec::new(),
        refused: Vec::new(),
    };
    for (options, _) in ranking {
        if tried.ranked.len() == TUNED {
            break;
        }
        if let Some(at) = tried.run(args, limits, runner, &options)? {
            tried.ranked.push(at);
        }
    }
    let ways = ways(args, device, &tried.case, number)?;
    let most = args.pairs.map_or(usize::MAX, |pairs| pairs as usize);
    let mut taken = 0;
    for options in ways {
        if taken == most {
            break;
        }
        taken += usize::from(tried.run(args, limits, runner, &options)?.is_some());
    }
    if tried.rows.is_empty() {
        let why = tried.refused.into_iter().map(|(_, why)| why).next().unwrap_or_default();
        return Err(Fault::failed(format!("{}: no way runs it: {why}", tried.case.name)));
    }
    Ok(tried)
}

/// The ways to try of a batch: those that were asked for, or all in a random order.
fn ways(args: &BenchArgs, device: &Device, case: &Case, number: u32) -> Outcome<Vec<PlanOptions>> {
    let names = |given: &[String], all: Vec<String>| if given.is_empty() { all } else { given.to_vec() };
    let strategies: Vec<String> =
        Strategy::of(&case.spec.build()?).iter().map(|strategy| strategy.name().to_owned()).collect();
    let strategies = names(&args.strategies, strategies);
    if args.pairs.is_none() {
        let schedulers = names(&args.schedulers, pack::AUTO.map(str::to_owned).to_vec());
        return input::ways(device, &schedulers, &strategies, &args.choice.rules);
    }
    let schedulers: Vec<String> = pack::schedulers().iter().map(|scheduler| scheduler.name().to_owned()).collect();
    let all = input::ways(device, &schedulers, &strategies, &args.choice.rules)?;
    Ok(random_order(args.seed, number, all.len()).into_iter().map(|at| all[at].clone()).collect())
}

impl Tried {
    /// Runs a way, unless it was tried before; gives its place among the rows, and nothing where it is refused.
    fn run(
        &mut self,
        args: &BenchArgs,
        limits: Option<&engine::metrics::Limits>,
        runner: &mut Runner,
        options: &PlanOptions,
    ) -> Outcome<Option<usize>> {
        let same = |row: &Row| (&row.scheduler, row.strategy) == (&options.scheduler, options.strategy);
        if let Some(at) = self.rows.iter().position(same) {
            return Ok(Some(at));
        }
        let way = format!("{} {}", options.scheduler, options.strategy.name());
        if self.refused.iter().any(|(refused, _)| *refused == way) {
            return Ok(None);
        }
        let planned = match figures::accepted(runner, &self.case.spec, options) {
            Ok(planned) => planned,
            Err(error @ Error::Unsupported { .. }) => {
                self.refused.push((way, error.to_string()));
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let least = limits.map_or_else(
            || session::oracle_ns(&planned),
            |limits| limits.floor(&planned.batch, &planned.tree).time().as_f64(),
        );
        self.floor = Nanos(least.ceil() as u64);
        // Two times of one program differ by noise alone.
        let same = |plan: &Arc<LaunchPlan>| plan.launches_as(&planned.plan);
        if let Some(at) = self.plans.iter().position(same).filter(|_| args.pairs.is_some()) {
            return Ok(Some(at));
        }
        self.rows.push(try_way(args, runner, &planned)?);
        self.plans.push(planned.plan);
        Ok(Some(self.rows.len() - 1))
    }
}

fn text(
    all: &[Tried],
    (set, device, source): (&str, &Device, &str),
    (error, regret, tuned): (Option<&Spread>, &Spread, &Spread),
) -> String {
    let mut table = Table::new(1, &["batch", "heads", "floor", "fastest", "over floor", "auto", "over fastest"]);
    for tried in all {
        table.row(tried.line());
    }
    let what = if set == "trace" { "windows of a trace" } else { "random decode batches" };
    let mut text = format!(
        "{what} on {}, all times {source}, cold L2; auto is the way that it would take of itself\n\n{}\n",
        device.name,
        table.text()
    );
    let mut say = |what: &str, spread: &Spread, figure: fn(f64) -> String| {
        let Spread { median, nine_of_ten, worst, .. } = *spread;
        let [median, nine_of_ten, worst] = [median, nine_of_ten, worst].map(figure);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{what}: median {median}, nine of ten below {nine_of_ten}, worst {worst}");
    };
    if let Some(error) = error {
        say(&format!("error of the simulator in {} runs", error.count), error, |error| {
            format!("{:.1} %", 100.0 * error)
        });
    }
    say("auto by the model, over the fastest", regret, |ratio| format!("{ratio:.3}×"));
    say("the fastest of the model's three best, over the fastest", tuned, |ratio| format!("{ratio:.3}×"));
    let refused: usize = all.iter().map(|tried| tried.refused.len()).sum();
    if refused > 0 {
        let _ = writeln!(text, "{} refused; --json says why", counted(refused as u64, "run"));
    }
    text + &figures::expected(all.iter().flat_map(|tried| &tried.rows).find_map(|row| row.run.expected_error))
}
