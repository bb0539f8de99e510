//! `plan`: packs and tiles, no run.

use std::fmt::Write as _;
use std::process::ExitCode;

use engine::export::{HybridJson, PlanJson, PrefillJson, decisions_json, plan_json};
use engine::plan::LaunchPlan;
use engine::session::{self, Planned};
use engine::units::{Bytes, Nanos, counted, grouped};

use crate::cli::args::PlanArgs;
use crate::cli::fault::Outcome;
use crate::cli::table::Table;
use crate::cli::{input, output};
use engine::shown;

/// Plannings of which the best is told.
const PLANNINGS: u32 = 5;

/// The command.
pub(crate) fn plan(args: &PlanArgs) -> Outcome<ExitCode> {
    let (mut device, mut choice) = (args.device.clone(), args.choice.clone());
    let spec = input::shown(&args.batch, &mut device, Some(&mut choice))?;
    let device = input::device(&device)?;
    let options = input::options(&device, &choice, args.explain)?;
    let planned = session::plan_spec(&spec, &options)?;
    let mut json = timed_json(&planned)?;
    json.decisions = args.explain.then(|| decisions_json(&planned.plan));
    if args.json {
        output::print_json(&json)?;
    } else {
        output::print(&text(&planned, &json))?;
    }
    if args.explain {
        let reasons = decisions(&planned);
        if args.json { output::note(&reasons) } else { output::print(&reasons)? }
    }
    Ok(ExitCode::SUCCESS)
}

/// The plan object with its planning time.
pub(crate) fn timed_json(planned: &Planned) -> Outcome<PlanJson> {
    let time = session::best_plan_time(planned, PLANNINGS)?;
    let json = plan_json(&planned.batch, &planned.tree, &planned.plan, Some(time));
    let auto = planned.options.auto;
    let asked = |auto: bool| auto.then_some(input::AUTO);
    Ok(PlanJson { scheduler_asked: asked(auto.scheduler), strategy_asked: asked(auto.strategy), ..json })
}

fn decisions(planned: &Planned) -> String {
    let mut out = format!("\n{}\n", counted(planned.plan.decisions.len() as u64, "decision"));
    for decision in &planned.plan.decisions {
        out.push_str(&decision.sentence());
        out.push('\n');
    }
    out
}

fn prefill_line(prefill: &PrefillJson) -> String {
    format!(
        "{}, {}, tile {}×{}, {}, {}",
        counted(prefill.chunks, "chunk"),
        counted(prefill.query_tokens, "query token"),
        prefill.tile_m,
        prefill.tile_n,
        counted(u64::from(prefill.splits), "split"),
        counted(prefill.ctas, "CTA")
    )
}

fn hybrid_line(hybrid: &HybridJson) -> String {
    let ratio = match (hybrid.ratio_prefill, hybrid.ratio_decode) {
        (Some(prefill), Some(decode)) => format!(", tickets {prefill} prefill : {decode} decode"),
        _ => String::new(),
    };
    format!(
        "{} prefill and {} in {} and {}, grid {}{ratio}",
        grouped(u64::from(hybrid.prefill_ctas)),
        counted(u64::from(hybrid.decode_ctas), "decode CTA"),
        grouped(u64::from(hybrid.prefill_slots)),
        counted(u64::from(hybrid.decode_slots), "slot"),
        grouped(u64::from(hybrid.grid))
    )
}

/// How many of the packs read whole subtrees, where some do.
fn subtrees(plan: &LaunchPlan) -> String {
    match plan.subtree_packs() {
        0 => String::new(),
        count => format!(", {} of whole subtrees", grouped(count)),
    }
}

fn text(planned: &Planned, json: &PlanJson) -> String {
    let batch = &json.batch;
    let shape = format!(
        "{}/{} heads, d {}, {}, blocks of {}",
        batch.query_heads, batch.kv_heads, batch.head_dim, batch.dtype, batch.block_size
    );
    let mut out = format!("{}\n", shown::line(&planned.batch.name));
    let mut say = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  {name:<11} {value}");
    };
    say("batch", format!("{}, {shape}", counted(batch.requests, "request")));
    if let Some(prefill) = &json.prefill {
        say("prefill", prefill_line(prefill));
    }
    if let Some(hybrid) = &json.hybrid {
        say("hybrid", hybrid_line(hybrid));
    }
    say("KV tokens", format!("{} in all, {} unique", grouped(batch.kv_tokens), grouped(batch.kv_tokens_unique)));
    let (nodes, levels) = (planned.tree.nodes.len() as u64, u64::from(planned.tree.depth()));
    say("tree", format!("{}, {}", counted(nodes, "node"), counted(levels, "level")));
    // What the plan was chosen by, and every time that the decisions tell, rests on the constants of the simulator.
    let fitted = if planned.options.device.calibrated { "" } else { ", not calibrated" };
    say("plan", format!("{} under {} on {}{fitted}", json.scheduler, json.strategy, json.device));
    say(
        "packs",
        format!(
            "{} a KV head{}, {}, {}",
            grouped(json.packs),
            subtrees(&planned.plan),
            counted(json.ctas, "CTA"),
            counted(planned.plan.launches.len() as u64, "launch")
        ),
    );
    say("KV read", format!("{} a KV head", counted(json.kv_tokens_read, "token")));
    say(
        "partials",
        format!("{} a query head, at most {} a query", grouped(json.partials), json.max_partials_per_query),
    );
    say("planned in", Nanos(json.plan_ns.unwrap_or(0)).to_string());
    let mut tiles = Table::new(1, &["tile m×n", "packs"]);
    for tile in &json.tiles {
        tiles.row(vec![format!("{}×{}", tile.m, tile.n), grouped(u64::from(tile.packs))]);
    }
    let traffic = &json.traffic;
    let mut bytes = Table::new(1, &["traffic", "bytes"]);
    for (name, amount) in [
        ("KV read", traffic.kv_read_bytes),
        ("Q read", traffic.q_read_bytes),
        ("partials written", traffic.partial_write_bytes),
        ("partials read", traffic.partial_read_bytes),
        ("output written", traffic.output_write_bytes),
        ("compulsory", traffic.compulsory_bytes),
    ] {
        bytes.row(vec![name.to_owned(), Bytes(amount).to_string()]);
    }
    format!("{out}\n{}\n{}", tiles.text(), bytes.text())
}
