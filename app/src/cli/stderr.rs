//! Remarks and reports to stderr.

use std::io::Write;

use engine::shown;

/// Writes a remark to stderr.
pub(crate) fn note(text: &str) {
    report(&shown::lines(text));
}

/// Writes a report to stderr, with the colours that it has.
pub(crate) fn report(text: &str) {
    let mut stderr = std::io::stderr().lock();
    // Nowhere is left to say that stderr is closed.
    let _ = writeln!(stderr, "{}", text.trim_end());
}
