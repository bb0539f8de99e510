//! Signals that end the program: one message, the exit code that shells expect, nothing half-written.
//!
//! ```text
//! signal ─► what is being written is removed, the work is cancelled ─► main comes back ─► message, 128 + signal
//!                                                   └─ still at it after GRACE ─► message, 128 + signal
//! ```

use std::io::{IsTerminal, Write as _};
use std::process::ExitCode;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use engine::cancel::Cancel;

use crate::cli::exit;
use crate::cli::stderr;

/// What every long work of a command looks at.
static CANCEL: LazyLock<Cancel> = LazyLock::new(Cancel::default);
/// The signal that came; 0 before.
static CAME: AtomicI32 = AtomicI32::new(0);
/// Whether a person was told.
static TOLD: AtomicBool = AtomicBool::new(false);

/// Cancelled when a signal asks the program to end.
pub(crate) fn cancel() -> &'static Cancel {
    &CANCEL
}

/// The exit code where a signal ended the work, once that is told.
pub(crate) fn exit_code() -> Option<ExitCode> {
    let signal = CAME.load(Ordering::Acquire);
    (signal != 0).then(|| {
        tell(signal);
        ExitCode::from(u8::try_from(128 + signal).unwrap_or(exit::FAILED))
    })
}

fn tell(signal: i32) {
    if TOLD.swap(true, Ordering::AcqRel) {
        return;
    }
    if std::io::stderr().is_terminal() {
        // The line of a progress bar.
        let _ = write!(std::io::stderr(), "\r\x1b[2K");
    }
    stderr::note(&format!("stopped by {}; what was not finished is not written", name(signal)));
}

#[cfg(not(unix))]
fn name(_signal: i32) -> &'static str {
    "a signal"
}

/// Nothing to listen to: the system ends the program.
#[cfg(not(unix))]
pub(crate) fn listen() {}

#[cfg(unix)]
fn name(signal: i32) -> &'static str {
    signal_hook::low_level::signal_name(signal).unwrap_or("a signal")
}

/// Begins to take signals, for the commands and the window alike.
#[cfg(unix)]
pub(crate) fn listen() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
    use signal_hook::iterator::Signals;
    // A write past the file-size limit then fails with an error that says so, as on a full disk.
    let _ = signal_hook::flag::register(SIGXFSZ, std::sync::Arc::default());
    let mut wanted = vec![SIGINT, SIGTERM];
    if !is_ignored(SIGHUP) {
        wanted.push(SIGHUP);
    }
    // Without a thread to spare signals end the program as the system does it.
    if let Ok(signals) = Signals::new(wanted) {
        let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(move || end(signals));
    }
}

/// Waits for a signal, and sees to it that the program ends.
#[cfg(unix)]
fn end(mut signals: signal_hook::iterator::Signals) {
    use std::time::Duration;
    /// For the work to stop by itself, which frees a GPU and closes files.
    const GRACE: Duration = Duration::from_millis(400);
    /// For a message to someone who does not read it.
    const TELLING: Duration = Duration::from_millis(200);
    let Some(signal) = signals.forever().next() else { return };
    CAME.store(signal, Ordering::Release);
    engine::capture::abandon();
    CANCEL.cancel();
    std::thread::sleep(GRACE);
    let (told, done) = crossbeam_channel::bounded(1);
    let telling = move || {
        tell(signal);
        let _ = told.send(());
    };
    if std::thread::Builder::new().name("last words".to_owned()).spawn(telling).is_ok() {
        let _ = done.recv_timeout(TELLING);
    }
    signal_hook::low_level::exit(128 + signal);
}

/// Whether this process was started with the signal ignored, as `nohup` does with SIGHUP.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}
