//! `bench --set lazy-update`: planning cost of each decode step over a Mooncake window, with a plan
//! that is carried from step to step and with one that is made anew.
//!
//! In each step every request gets a token. One whose output is done leaves, and the next of the trace
//! comes in with its whole prompt, so that the batch keeps its size while the trace lasts.

use std::process::ExitCode;

use engine::export::SCHEMA;
use engine::import;
use engine::replan::{How, Replanner, plan_anew};
use engine::session::PlanOptions;
use engine::units::{BlockIdx, Nanos, QueryIdx, Tokens, counted};
use engine::workload::{self, AttentionShape, Batch, BlockTables, Change, Request, RequestKind};
use serde_json::json;

use crate::cli::args::BenchArgs;
use crate::cli::fault::{Fault, Outcome};
use crate::cli::table::Table;
use crate::cli::{from, input, interrupt, output};

/// Requests behind the window that may come in, as a multiple of the window.
const BEHIND: usize = 8;
/// Repeats of a step's planning anew, and of the lazy step, of which the shortest counts.
const REPEATS: u32 = 3;

/// A running request.
struct Running {
    /// Its place among the requests of the trace.
    request: usize,
    kv: u64,
}

/// The requests of a trace window with their final block tables, and those that run.
struct Serving {
    rows: Batch,
    prompt: Vec<u64>,
    running: Vec<Running>,
    next: usize,
    block_size: u64,
}

/// What one step cost.
struct Step {
    how: How,
    lazy: Nanos,
    anew: Nanos,
    joined: usize,
}

/// The command.
pub(crate) fn lazy(args: &BenchArgs) -> Outcome<ExitCode> {
    let device = input::device(&args.device)?;
    let options = input::bench_options(&device, &args.choice)?;
    let mut serving = Serving::open(args)?;
    let mut replanner = Replanner::new(serving.batch()?, &options)?;
    let bar = output::progress(u64::from(args.steps), "steps");
    let mut steps = Vec::new();
    for _ in 0..args.steps {
        interrupt::cancel().check()?;
        steps.push(step(&mut serving, &mut replanner, &options)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let requests = replanner.batch().requests().len();
    if args.json {
        let list: Vec<_> = steps
            .iter()
            .map(|step| json!({ "how": step.how.name(), "joined": step.joined, "lazy_ns": step.lazy.0, "anew_ns": step.anew.0 }))
            .collect();
        let kinds: Vec<_> = How::ALL.iter().map(|how| summary(&steps, Some(*how)).json(how.name())).collect();
        let all = summary(&steps, None).json("all");
        output::print_json(&json!({
            "schema": SCHEMA, "set": "lazy-update", "scheduler": options.scheduler, "strategy": options.strategy.name(),
            "requests": requests, "kinds": kinds, "all": all, "steps": list,
        }))?;
    } else {
        output::print(&text(args, &options, requests, &steps))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One decode step, planned both ways; the shortest of a few plannings counts, as elsewhere.
fn step(serving: &mut Serving, replanner: &mut Replanner, options: &PlanOptions) -> Outcome<Step> {
    let (changes, joined) = serving.step();
    let before = replanner.clone();
    let first = replanner.step(&changes)?;
    let (mut lazy, mut anew) = (first.time, std::time::Duration::MAX);
    for _ in 1..REPEATS {
        lazy = lazy.min(before.clone().step(&changes)?.time);
    }
    for _ in 0..REPEATS {
        let planned = plan_anew(replanner.batch(), options)?;
        if planned.plan != first.plan {
            return Err(Fault::failed("the carried plan differs from the one made anew; please report it"));
        }
        anew = anew.min(planned.time);
    }
    let nanos = |time: std::time::Duration| Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    Ok(Step { how: first.how, lazy: nanos(lazy), anew: nanos(anew), joined })
}

impl Serving {
    fn open(args: &BenchArgs) -> Outcome<Self> {
        let (Some(trace), [window]) = (&args.mooncake, args.window.as_slice()) else {
            return Err(Fault::input(
                "--set lazy-update needs one window of a trace",
                "add --mooncake FILE.jsonl --window START:COUNT, such as --window 0:256",
            ));
        };
        let (start, count) = workload::parse_window(window)?;
        let trace = from::mooncake(trace)?;
        let (query_heads, kv_heads) = workload::parse_heads(&args.heads)?;
        let shape = AttentionShape { query_heads, kv_heads, ..AttentionShape::default() };
        let most = (count * (1 + BEHIND)).min(workload::Limits::REQUESTS).max(count);
        let all = most.min(trace.requests.len().saturating_sub(start)).max(count);
        // Each row as it is at the end of its output; a running request has the first blocks of it.
        let rows = import::spec_from_window(&trace, shape, start, all, u64::MAX)?.build()?;
        // A batch has its requests in the order of the tree, not of the trace; one token into the output the
        // tree is the same, so that the prompts stand in the order of the rows.
        let begun = import::spec_from_window(&trace, shape, start, all, 1)?.build()?;
        let prompt: Vec<u64> = begun.requests().iter().map(|request| request.kv.0 - 1).collect();
        let mut serving = Self { rows, prompt, running: Vec::new(), next: 0, block_size: u64::from(shape.block_size) };
        for _ in 0..count {
            serving.admit(args.step);
        }
        Ok(serving)
    }

    /// The next request of the trace starts, `step` tokens into its output.
    fn admit(&mut self, step: u64) -> Option<Change> {
        let request = self.next;
        let end = self.rows.requests().get(request)?.kv.0;
        let kv = self.prompt[request].saturating_add(step.max(1)).min(end);
        self.next += 1;
        self.running.push(Running { request, kv });
        Some(Change::Join { kv: Tokens(kv), row: self.row(request, kv).to_vec() })
    }

    fn row(&self, request: usize, kv: u64) -> &[BlockIdx] {
        &self.rows.tables().row(QueryIdx::from(request))[..kv.div_ceil(self.block_size) as usize]
    }

    /// A token for everyone; those that are done leave and others come in.
    fn step(&mut self) -> (Vec<Change>, usize) {
        let mut changes = Vec::new();
        let mut at = 0;
        while at < self.running.len() {
            let Running { request, kv } = self.running[at];
            let query = QueryIdx::from(at);
            if kv == self.rows.request(QueryIdx::from(request)).kv.0 {
                self.running.remove(at);
                changes.push(Change::Leave { query });
                continue;
            }
            let block = kv.is_multiple_of(self.block_size).then(|| self.row(request, kv + 1).last().copied()).flatten();
            self.running[at].kv += 1;
            changes.push(Change::Append { query, block });
            at += 1;
        }
        let left = changes.iter().filter(|change| matches!(change, Change::Leave { .. })).count();
        let joins: Vec<Change> = (0..left).map_while(|_| self.admit(1)).collect();
        let joined = joins.len();
        changes.extend(joins);
        (changes, joined)
    }

    /// The batch of those that run.
    fn batch(&self) -> Outcome<Batch> {
        let mut tables = BlockTables::new();
        let mut requests = Vec::new();
        for running in &self.running {
            tables.push(self.row(running.request, running.kv).iter().copied());
            requests.push(Request { kind: RequestKind::Decode, kv: Tokens(running.kv) });
        }
        Ok(Batch::new(self.rows.name.clone(), self.rows.shape, requests, tables)?)
    }
}

/// Steps of one kind, in sum.
struct Summary {
    steps: usize,
    lazy_median: Nanos,
    anew_median: Nanos,
    lazy_total: Nanos,
    anew_total: Nanos,
}

fn summary(steps: &[Step], how: Option<How>) -> Summary {
    let of: Vec<&Step> = steps.iter().filter(|step| how.is_none_or(|how| step.how == how)).collect();
    let figures = |time: fn(&Step) -> Nanos| {
        let mut times: Vec<Nanos> = of.iter().map(|step| time(step)).collect();
        times.sort_unstable();
        (times.get(times.len() / 2).copied().unwrap_or_default(), times.iter().copied().sum::<Nanos>())
    };
    let (lazy_median, lazy_total) = figures(|step| step.lazy);
    let (anew_median, anew_total) = figures(|step| step.anew);
    Summary { steps: of.len(), lazy_median, anew_median, lazy_total, anew_total }
}

impl Summary {
    fn json(&self, kind: &str) -> serde_json::Value {
        json!({
            "kind": kind, "steps": self.steps,
            "lazy_median_ns": self.lazy_median.0, "anew_median_ns": self.anew_median.0,
            "lazy_total_ns": self.lazy_total.0, "anew_total_ns": self.anew_total.0,
        })
    }

    fn row(&self, kind: &str) -> Vec<String> {
        let times = if self.lazy_total.0 == 0 { 0.0 } else { self.anew_total.as_f64() / self.lazy_total.as_f64() };
        vec![
            kind.to_owned(),
            self.steps.to_string(),
            self.lazy_median.to_string(),
            self.anew_median.to_string(),
            self.lazy_total.to_string(),
            self.anew_total.to_string(),
            format!("{times:.2}×"),
        ]
    }
}

fn text(args: &BenchArgs, options: &PlanOptions, requests: usize, steps: &[Step]) -> String {
    let headings = ["step", "steps", "lazy median", "anew median", "lazy total", "anew total", "anew / lazy"];
    let mut table = Table::new(1, &headings);
    for how in How::ALL {
        let summary = summary(steps, Some(how));
        if summary.steps > 0 {
            table.row(summary.row(how.name()));
        }
    }
    table.row(summary(steps, None).row("all"));
    let joined: usize = steps.iter().map(|step| step.joined).sum();
    format!(
        "lazy-update: {} under {}, {} of {} from {}, {joined} joined\nplanning on one thread, best of {REPEATS}; every carried plan equals the one made anew\n\n{}",
        options.scheduler,
        options.strategy.name(),
        counted(steps.len() as u64, "step"),
        counted(requests as u64, "request"),
        args.window.first().map_or("", String::as_str),
        table.text()
    )
}
