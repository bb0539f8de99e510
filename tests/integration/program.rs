//! Driving the real program.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{LazyLock, mpsc};
use std::time::Duration;

/// The program beside this test: `target/<profile>/packscope`. It is built here once a run, so that
/// the tests never drive an older one; where nothing has changed that takes a moment.
static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
    let test = std::env::current_exe().unwrap();
    let folder = test.ancestors().nth(2).unwrap().to_owned();
    let program = folder.join(format!("packscope{}", std::env::consts::EXE_SUFFIX));
    let mut build = Command::new(env!("CARGO"));
    // With the features that the tests were built with: for the program alone cargo would build most of what it uses again.
    build.args(["build", "--quiet", "--workspace", "--bins", "--test", "packscope", "--target-dir"]);
    build.arg(folder.parent().unwrap());
    if folder.ends_with("release") {
        build.arg("--release");
    }
    assert!(build.status().unwrap().success(), "packscope does not build");
    program
});

/// What no call of the program takes, however busy the machine: past it the call is ended, so that a test which
/// waits for it fails and says so.
const PATIENCE: Duration = Duration::from_mins(5);

/// What a call of the program gave.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let ran = Self {
            code: output.status.code().expect("ended by a signal, or by the tests for taking minutes"),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        };
        for word in ["panicked", "RUST_BACKTRACE", "unwrap()"] {
            assert!(!ran.stderr.contains(word), "the program panicked: {}", ran.stderr);
        }
        ran
    }

    /// stdout as the one JSON object that `--json` promises.
    pub(crate) fn json(&self) -> serde_json::Value {
        assert_eq!(self.code, 0, "{}", self.stderr);
        let value: serde_json::Value = serde_json::from_str(&self.stdout).unwrap();
        assert!(value.is_object());
        value
    }

    /// Asserts a failure with this code, nothing on stdout, and all these words in its message.
    #[track_caller]
    pub(crate) fn fails(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        assert_eq!(self.stdout, "", "a failure writes nothing to stdout");
        for word in words {
            assert!(self.stderr.contains(word), "'{word}' is not in: {}", self.stderr);
        }
    }
}

/// The program, to be run in a folder, with no display.
pub(crate) fn command_in(folder: &Path, args: &[impl AsRef<OsStr>]) -> Command {
    without_display(Command::new(&*PROGRAM), folder, args)
}

/// A shell in a folder that runs `script`; `"$@"` in it are the program and its arguments.
pub(crate) fn shell_in(folder: &Path, script: &str, args: &[&str]) -> Ran {
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh"]).arg(&*PROGRAM);
    Ran::of(output(&mut without_display(shell, folder, args)))
}

fn without_display(mut command: Command, folder: &Path, args: &[impl AsRef<OsStr>]) -> Command {
    command.current_dir(folder).args(args);
    for name in ["DISPLAY", "WAYLAND_DISPLAY", "WAYLAND_SOCKET", "PACKSCOPE_LOG"] {
        command.env_remove(name);
    }
    command
}

/// Runs the program in a folder, with no display.
pub(crate) fn packscope_in(folder: &Path, args: &[impl AsRef<OsStr>]) -> Ran {
    Ran::of(output(&mut command_in(folder, args)))
}

/// Starts a command in a process group of its own, and gives what it wrote until it ended.
pub(crate) fn output(command: &mut Command) -> Output {
    output_of(started(command))
}

/// Starts a command whose output [`output_of`] takes.
pub(crate) fn started(command: &mut Command) -> Child {
    use std::os::unix::process::CommandExt as _;
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// What a command of [`started`] wrote until it ended; it is killed with what it started where that takes too long.
pub(crate) fn output_of(child: Child) -> Output {
    let group = format!("-{}", child.id());
    let (ends, ended) = mpsc::sync_channel::<()>(0);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if ended.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
            }
        });
        let output = child.wait_with_output().unwrap();
        drop(ends);
        output
    })
}

/// Runs the program, with no display.
pub(crate) fn packscope(args: &[&str]) -> Ran {
    packscope_in(Path::new(env!("CARGO_MANIFEST_DIR")), args)
}

/// A file of `tests/fixtures`.
pub(crate) fn fixture(name: &str) -> String {
    format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}
