//! A capture as comma-separated tables, one file a table, for spreadsheets and notebooks.
//! Columns name their unit; the first line is the heading.

use std::fmt::Write as _;

use crate::capture::Capture;
use crate::plan::CtaWork;
use crate::units::PackIdx;

/// The tables with the names of their files.
pub fn csv_tables(capture: &Capture) -> [(&'static str, String); 5] {
    [
        ("spans.csv", spans(capture)),
        ("kernels.csv", kernels(capture)),
        ("packs.csv", packs(capture)),
        ("counters.csv", counters(capture)),
        ("counts.csv", counts(capture)),
    ]
}

/// Adds a line; writing to a string cannot fail.
macro_rules! line {
    ($out:expr, $($arg:tt)*) => {
        let _ = writeln!($out, $($arg)*);
    };
}

fn spans(capture: &Capture) -> String {
    let plan = &capture.plan;
    let mut out =
        "kind,launch,cta,pack,kv_head,prefill_task,query_head,sm,lane,begin_ns,first_tile_ns,loop_end_ns,end_ns\n"
            .to_owned();
    let numbers = plan.all_numbers();
    for span in capture.spans.iter() {
        let work = numbers.get(span.launch as usize).and_then(|launch| launch.work(span.cta));
        let work = work.filter(|_| span.role.computes());
        // Of the virtual decode CTAs that one CTA hosts, the first stands for all.
        let decode = work.as_ref().and_then(CtaWork::first_decode);
        let (pack, head) = fields(decode.map(|decode| (decode.pack.0, decode.kv_head)));
        let prefill = work.as_ref().and_then(|work| work.prefill);
        let (task, query_head) = fields(prefill.map(|work| (work.task, work.query_head)));
        let kind = span.role.name();
        line!(
            out,
            "{kind},{},{},{pack},{head},{task},{query_head},{},{},{},{},{},{}",
            span.launch,
            span.cta,
            span.sm,
            span.slot,
            span.begin.0,
            span.first_tile.0,
            span.loop_end.0,
            span.end.0
        );
    }
    out
}

/// Two numbers as fields, empty where there are none.
fn fields(pair: Option<(u32, u32)>) -> (String, String) {
    pair.map_or_else(Default::default, |(a, b)| (a.to_string(), b.to_string()))
}

fn kernels(capture: &Capture) -> String {
    let mut out = "launch,stream,ctas,ready_ns,begin_ns,end_ns\n".to_owned();
    for kernel in &capture.kernels {
        let launch = &capture.plan.launches[kernel.launch as usize];
        let ctas = capture.plan.ctas(launch).len();
        line!(out, "{},{},{ctas},{},{},{}", kernel.launch, launch.stream, kernel.ready.0, kernel.begin.0, kernel.end.0);
    }
    out
}

fn packs(capture: &Capture) -> String {
    let mut out = "pack,node,queries,blocks_begin,blocks_end,tokens,tile_m,tile_n,first_query\n".to_owned();
    for (position, pack) in capture.plan.packs.iter().enumerate() {
        let first = capture
            .plan
            .queries_of(PackIdx::from(position))
            .first()
            .map_or_else(String::new, |query| query.0.to_string());
        line!(
            out,
            "{position},{},{},{},{},{},{},{},{first}",
            pack.node.0,
            pack.queries_len,
            pack.blocks_begin,
            pack.blocks_end,
            pack.tokens.0,
            pack.tile.m,
            pack.tile.n
        );
    }
    out
}

fn counters(capture: &Capture) -> String {
    let mut out = "name,unit,begin_ns,end_ns,value\n".to_owned();
    for series in &capture.counters {
        let (name, unit) = (quoted(&series.name), quoted(&series.unit));
        for (step, value) in series.values.iter().enumerate() {
            let begin = series.start.0 + series.step.0 * step as u64;
            line!(out, "{name},{unit},{begin},{},{value}", begin + series.step.0);
        }
    }
    out
}

/// What the hardware counted over the plan and over each launch; the heading alone where it did not.
fn counts(capture: &Capture) -> String {
    let mut out = "launch,counter,unit,value\n".to_owned();
    let Some(counted) = &capture.counted else { return out };
    let launches = counted.launches.iter().map(|of| (of.launch.to_string(), &of.counts));
    for (scope, counts) in std::iter::once(("all".to_owned(), &counted.plan)).chain(launches) {
        for count in &counts.0 {
            let unit = if count.counter.is_bytes() { "B" } else { "share" };
            line!(out, "{scope},{},{unit},{}", count.counter.name(), count.value);
        }
    }
    out
}

/// Text as one field.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}
