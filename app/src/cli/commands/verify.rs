//! `verify`: integrity and invariants of a capture.

use std::process::ExitCode;

use engine::capture;
use engine::export::SCHEMA;
use engine::units::counted;
use serde_json::json;

use crate::cli::args::VerifyArgs;
use crate::cli::commands::convert;
use crate::cli::exit::FAILED;
use crate::cli::fault::Outcome;
use crate::cli::output;

/// The command; exit code 1 where the capture is not whole or breaks an invariant.
pub(crate) fn verify(args: &VerifyArgs) -> Outcome<ExitCode> {
    let loaded = convert::load(&args.capture)?;
    let findings = capture::verify(&loaded.capture);
    let sound = loaded.missing.is_empty() && findings.is_empty();
    if args.json {
        let findings: Vec<_> =
            findings.iter().map(|finding| json!({ "rule": finding.rule, "text": finding.text })).collect();
        output::print_json(&json!({
            "schema": SCHEMA,
            "sound": sound,
            "spans": loaded.capture.spans.len(),
            "missing": loaded.missing,
            "findings": findings,
        }))?;
    } else {
        for finding in &findings {
            output::print(&format!("{}: {}", finding.rule, finding.text))?;
        }
        let spans = counted(loaded.capture.spans.len() as u64, "span");
        let verdict = if sound { "whole, and every invariant holds" } else { "not sound" };
        output::print(&format!("{}: {spans}, {verdict}", args.capture.display()))?;
    }
    Ok(ExitCode::from(if sound { 0 } else { FAILED }))
}
