//! `bench --peers`: times of other systems, measured elsewhere, to stand beside ours.
//!
//! A file has `rows`. Each says which case it is of, and holds times in µs:
//!
//! | the case | by |
//! |---|---|
//! | one of a set | `config`: the number of `pat-11`, or the name of `pod-c0`; and `heads` |
//! | a step of a trace | `trace`, `window` and `heads` |
//!
//! | a time | by |
//! |---|---|
//! | `NAME_us: 36.9` | its name |
//! | `us: {NAME: 36.9}`, `us_2: {…}` | the name within |
//!
//! Floors (`NAME_floor_us`) are left out, since `bench` finds its own. `null` is no time. Whatever else stands
//! where a time should is an error with its place.

use std::path::Path;

use engine::shown::{quoted, reason};
use engine::units::Nanos;
use engine::workload::parse_heads;
use serde_json::{Map, Value};

use crate::cli::fault::{Fault, Outcome};
use crate::cli::files;
use crate::cli::sets::Case;
use crate::cli::table::Table;

/// What a row is of.
#[derive(Clone, Debug, PartialEq)]
enum Of {
    /// A case of a set, by the last part of its name: `11`, `c0`.
    Case(String),
    /// A step of a trace: its file and its window, as such a case is named.
    Trace(String),
}

/// Times of other systems for one batch.
#[derive(Clone, Debug)]
struct Row {
    of: Of,
    heads: (u32, u32),
    times: Vec<(String, Nanos)>,
}

/// A file of times; empty where none was given.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    /// Names of the systems, in the order of the file.
    pub(crate) names: Vec<String>,
    rows: Vec<Row>,
}

impl Peers {
    /// The file, held against the cases that it is to stand beside.
    pub(crate) fn read(path: Option<&Path>, set: &str, cases: &[Case]) -> Outcome<Self> {
        let Some(path) = path else { return Ok(Self::default()) };
        let text = files::text(path, &files::PEERS)?;
        let file = path.display();
        let mut peers = parse(&text).map_err(|what| {
            let remedy =
                "rows should hold config (or trace and window), heads, and times such as NAME_us or us: {NAME}";
            Fault::input(format!("{file}: {what}"), remedy)
        })?;
        peers.rows.retain(|row| cases.iter().any(|case| row.is_of(case)));
        if peers.rows.is_empty() {
            return Err(Fault::input(
                format!("{file}: no row is of a case of {set}"),
                "config, or trace and window, and heads name the case; bench --heads sets those of pat-figure-10 and trace",
            ));
        }
        peers.names.retain(|name| peers.rows.iter().any(|row| row.time(name).is_some()));
        Ok(peers)
    }

    /// Refuses a file for a set whose report has no place for it.
    pub(crate) fn refuse(path: Option<&Path>, set: &str) -> Outcome<()> {
        path.map_or(Ok(()), |path| {
            Err(Fault::input(
                format!("--peers {}: {set} has no runs that the times could stand beside", path.display()),
                "give it with --set pat-figure-10, hybrid or trace, or leave it out",
            ))
        })
    }

    /// What each peer takes for a case, in the order of the names.
    pub(crate) fn of(&self, case: &Case) -> Vec<Option<Nanos>> {
        let row = self.rows.iter().find(|row| row.is_of(case));
        self.names.iter().map(|name| row?.time(name)).collect()
    }

    /// As an object of nanoseconds by name.
    pub(crate) fn json(&self, times: &[Option<Nanos>]) -> Value {
        let object: Map<String, Value> =
            self.names.iter().zip(times).map(|(name, time)| (name.clone(), time.map(|time| time.0).into())).collect();
        object.into()
    }

    /// A line a case: our time as a factor of each peer's; empty without peers. `source` says how ours came about.
    pub(crate) fn table(&self, source: &str, rows: &[(&str, u64, &[Option<Nanos>])]) -> String {
        if self.names.is_empty() {
            return String::new();
        }
        let headings: Vec<String> = self.names.iter().map(|name| format!("over {name}")).collect();
        let headings: Vec<&str> = ["sample", "ours"].into_iter().chain(headings.iter().map(String::as_str)).collect();
        let mut table = Table::new(1, &headings);
        for (name, ours, peers) in rows {
            let mut cells = vec![(*name).to_owned(), Nanos(*ours).to_string()];
            cells.extend(peers.iter().map(|peer| over(*ours, *peer)));
            table.row(cells);
        }
        format!("beside peers, whose times are those of the file, measured; ours are {source}\n\n{}", table.text())
    }
}

/// Ours as a factor of a peer's time.
pub(crate) fn over(ours: u64, peer: Option<Nanos>) -> String {
    peer.map_or_else(|| "–".to_owned(), |peer| crate::cli::figures::ratio(ours, peer.0))
}

impl Row {
    fn is_of(&self, case: &Case) -> bool {
        let shape = &case.spec.shape;
        let same = match &self.of {
            Of::Trace(window) => *window == case.name,
            Of::Case(config) => {
                case.name.rsplit_once('-').is_some_and(|(_, name)| match (name.parse::<u32>(), config.parse::<u32>()) {
                    (Ok(name), Ok(config)) => name == config,
                    _ => name.eq_ignore_ascii_case(config),
                })
            }
        };
        same && self.heads == (shape.query_heads, shape.kv_heads)
    }

    fn time(&self, name: &str) -> Option<Nanos> {
        self.times.iter().find(|(known, _)| known == name).map(|(_, time)| *time)
    }
}

/// What a file says, or what is wrong with it and where.
fn parse(text: &str) -> Result<Peers, String> {
    let file: Value = serde_json::from_str(text).map_err(|error| reason(&error.to_string()))?;
    if file.get("cold_read").is_some() && file.get("rows").is_none() {
        return Err("it holds limits of a GPU (cold_read), not times of peers; bench measures limits itself".to_owned());
    }
    let rows = file.get("rows").and_then(Value::as_array).ok_or("it has no list 'rows'")?;
    let mut peers = Peers::default();
    for (at, row) in rows.iter().enumerate() {
        let row = parse_row(row).map_err(|what| format!("rows[{at}]{what}"))?;
        if peers.rows.iter().any(|other| (&other.of, other.heads) == (&row.of, row.heads)) {
            return Err(format!("rows[{at}] is of the same case and heads as a row before it"));
        }
        for (name, _) in &row.times {
            if !peers.names.contains(name) {
                peers.names.push(name.clone());
            }
        }
        peers.rows.push(row);
    }
    if peers.rows.is_empty() {
        return Err("'rows' is empty".to_owned());
    }
    Ok(peers)
}

/// One row; the error goes on after `rows[AT]`.
fn parse_row(row: &Value) -> Result<Row, String> {
    let row = row.as_object().ok_or(" is no object")?;
    let text = |key: &str| row.get(key).and_then(Value::as_str);
    let of = match (row.get("config"), text("trace"), text("window")) {
        (Some(Value::Number(number)), ..) => Of::Case(number.to_string()),
        (Some(Value::String(name)), ..) => Of::Case(name.clone()),
        (Some(other), ..) => {
            return Err(format!(".config is {}, neither a number nor a name", quoted(&other.to_string())));
        }
        (None, Some(trace), Some(window)) => Of::Trace(format!("{trace} {window}")),
        (None, ..) => return Err(" has neither config nor trace and window".to_owned()),
    };
    let heads = text("heads").ok_or(".heads is no text such as \"32/8\"")?;
    let heads = parse_heads(heads).map_err(|error| format!(".heads: {error}"))?;
    let mut times: Vec<(String, Nanos)> = Vec::new();
    for (key, value) in row {
        if key == "us" || key.starts_with("us_") {
            let within = value.as_object().ok_or_else(|| format!(".{} is no object of times by name", quoted(key)))?;
            for (name, value) in within {
                push(&mut times, name, value, &format!(".{}.{}", quoted(key), quoted(name)))?;
            }
        } else if let Some(name) = key.strip_suffix("_us").filter(|name| !name.ends_with("_floor")) {
            push(&mut times, name, value, &format!(".{}", quoted(key)))?;
        }
    }
    if times.is_empty() {
        return Err(" has no time, neither as NAME_us nor within us".to_owned());
    }
    Ok(Row { of, heads, times })
}

fn push(times: &mut Vec<(String, Nanos)>, name: &str, value: &Value, place: &str) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    // An hour is no time of an attention call.
    let micros = value.as_f64().filter(|micros| *micros > 0.0 && *micros < 3.6e9);
    let micros = micros.ok_or_else(|| format!("{place} is {}, not a time in µs", quoted(&value.to_string())))?;
    if times.iter().any(|(known, _)| known == name) {
        return Err(format!("{place}: the row has another time of {}", quoted(name)));
    }
    times.push((name.to_owned(), Nanos((micros * 1e3).round() as u64)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use engine::workload::{AttentionShape, BatchSpec};

    use super::*;

    fn case(name: &str, heads: (u32, u32)) -> Case {
        let shape = AttentionShape { query_heads: heads.0, kv_heads: heads.1, ..AttentionShape::default() };
        Case { name: name.to_owned(), spec: BatchSpec::empty(shape) }
    }

    /// The forms in which peers were kept: one of flat times, one of nested ones with names for numbers, one of traces.
    const FLAT: &str = r#"{"rows": [
        {"config": 1, "heads": "32/8", "pat_us": 36.9, "fa3_us": 57.2, "read_floor_us": 13.8, "kv_unique_bytes": 7},
        {"config": 1, "heads": "32/32", "pat_us": 120, "fa3_us": null},
        {"config": 12, "heads": "32/8", "fa3_us": 9.5}]}"#;
    const NESTED: &str = r#"{"rows": [
        {"config": "C0", "heads": "16/4", "us": {"fi_pod": 638.2}, "us_2": {"fa3_mixed": 687.4}, "overlap_floor_us": 447.4,
         "best_us": 638.2, "best": "fi_pod"},
        {"config": "C1", "heads": "16/4", "us": {"fi_pod": 2766.7}, "prefill_tflop": 0.6}]}"#;
    const TRACES: &str =
        r#"{"rows": [{"trace": "t.jsonl", "window": "1000:64", "heads": "32/8", "requests": 64, "fa3_us": 1052.5}]}"#;

    #[test]
    fn times_are_found_flat_and_nested_for_the_case_that_they_are_of() {
        let flat = parse(FLAT).unwrap();
        assert_eq!(flat.names, ["fa3", "pat"]);
        let of = |name, heads| flat.of(&case(name, heads)).into_iter().map(|t| t.map(|t| t.0)).collect::<Vec<_>>();
        assert_eq!(of("pat-01", (32, 8)), [Some(57_200), Some(36_900)]);
        assert_eq!(of("pat-01", (32, 32)), [None, Some(120_000)]);
        assert_eq!(of("pat-12", (32, 8)), [Some(9_500), None]);
        assert_eq!(of("pat-02", (32, 8)), [None, None]);
        let nested = parse(NESTED).unwrap();
        assert_eq!(nested.names, ["best", "fi_pod", "fa3_mixed"]);
        let of = |name| nested.of(&case(name, (16, 4))).into_iter().map(|t| t.map(|t| t.0)).collect::<Vec<_>>();
        assert_eq!(of("pod-c0"), [Some(638_200), Some(638_200), Some(687_400)]);
        assert_eq!(of("pod-c1"), [None, Some(2_766_700), None]);
        let traces = parse(TRACES).unwrap();
        let of = |name, heads| traces.of(&case(name, heads)).into_iter().map(|t| t.map(|t| t.0)).collect::<Vec<_>>();
        assert_eq!(of("t.jsonl 1000:64", (32, 8)), [Some(1_052_500)]);
        assert_eq!(of("t.jsonl 1000:64", (32, 32)), [None]);
        assert_eq!(of("t.jsonl 1000:256", (32, 8)), [None]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let row = |row: &str| format!(r#"{{"rows": [{{"config": 1, "heads": "32/8", "a_us": 1}}, {row}]}}"#);
        for (text, says) in [
            (r#"{"cold_read": {}, "date": ""}"#.to_owned(), "limits of a GPU"),
            (r#"{"what": 3}"#.to_owned(), "no list 'rows'"),
            (r#"{"rows": []}"#.to_owned(), "'rows' is empty"),
            (r#"{"rows": ["#.to_owned(), "line 1"),
            (row("7"), "rows[1] is no object"),
            (row(r#"{"heads": "32/8", "a_us": 1}"#), "rows[1] has neither config nor trace"),
            (row(r#"{"config": [1], "heads": "32/8", "a_us": 1}"#), "rows[1].config is [1]"),
            (row(r#"{"config": 2, "a_us": 1}"#), "rows[1].heads"),
            (row(r#"{"config": 2, "heads": "32", "a_us": 1}"#), "rows[1].heads"),
            (row(r#"{"config": 2, "heads": "32/8", "a_us": "fast"}"#), "rows[1].a_us is \"fast\""),
            (row(r#"{"config": 2, "heads": "32/8", "us": {"a": -1}}"#), "rows[1].us.a is -1"),
            (row(r#"{"config": 2, "heads": "32/8", "us": 3}"#), "rows[1].us is no object"),
            (row(r#"{"config": 2, "heads": "32/8", "a_us": 1, "us": {"a": 2}}"#), "another time of a"),
            (row(r#"{"config": 2, "heads": "32/8", "a_floor_us": 1}"#), "rows[1] has no time"),
            (row(r#"{"config": 1, "heads": "32/8", "a_us": 1}"#), "the same case and heads"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_wrong_repeats_little_of_the_file() {
        let long = "long".repeat(70_000);
        for text in [
            format!(r#"{{"rows": [{{"config": ["{long}"], "heads": "32/8"}}]}}"#),
            format!(r#"{{"rows": [{{"config": 1, "heads": "{long}"}}]}}"#),
            format!(r#"{{"rows": [{{"config": 1, "heads": "32/8", "{long}_us": "{long}"}}]}}"#),
            format!(r#"{{"rows": [{{"config": 1, "heads": "32/8", "us": {{"{long}": "{long}"}}}}]}}"#),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.contains("longlong") && error.len() < 400, "{error:.300}");
        }
    }
}
