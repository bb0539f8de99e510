//! `kill -9` at a hundred moments: a process edits in the real window until it is killed, and a new window begins with
//! one of its last edits. Each test starts itself once more for that, with a variable of its own.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use engine::workload::BatchSpec;
use packscope::window::command::Command;
use packscope::window::{App, Opening};

use crate::window::{app, batch, open_with, small};

/// Set to the session's file in the process that edits.
const SESSION: &str = "PACKSCOPE_KILLED_SESSION";
/// What each line of an edit begins with.
const EDIT: &str = "edit ";
/// Processes that edit at the same time; most of their time they sleep.
const CREW: usize = 10;
const KILLS: usize = 100;
/// What is lost at most; on an idle machine it is 2 s, and this one may be busy with other tests.
const LOST: Duration = Duration::from_secs(10);

/// The batch after so many edits.
fn edited(edits: u64) -> BatchSpec {
    let mut spec = small();
    spec.roots[0].tokens += 16 * edits;
    spec
}

/// How many edits made a batch.
fn edits(spec: &BatchSpec) -> u64 {
    let edits = (spec.roots[0].tokens - small().roots[0].tokens) / 16;
    assert_eq!(spec.roots, edited(edits).roots, "a batch that was never there");
    edits
}

fn edit_until_killed(path: PathBuf) {
    let mut window = open_with(batch(small()), move |ctx, opening| {
        let mut app = App::new(ctx, opening).unwrap();
        app.keep_session(ctx, path.clone(), false).unwrap();
        app
    });
    for edit in 1.. {
        app(&mut window).send(Command::Edit(Box::new(edited(edit))));
        window.step();
        println!("{EDIT}{edit}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The process that edits, and when it told of each edit.
fn editor(session: &Path) -> (Child, Receiver<(u64, Instant)>) {
    let test = "window_kills::kill_9_at_any_of_100_moments_loses_the_last_edits_alone";
    let mut program = Program::new(std::env::current_exe().unwrap());
    program.args([test, "--exact", "--nocapture"]).env(SESSION, session);
    let mut child = program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (tell, told) = sync_channel(1 << 16);
    let read = move || {
        let edits = lines.map_while(Result::ok).filter_map(|line| line.strip_prefix(EDIT)?.parse().ok());
        edits.for_each(|edit: u64| _ = tell.send((edit, Instant::now())));
    };
    std::thread::Builder::new().name("edits".to_owned()).spawn(read).unwrap();
    (child, told)
}

/// Kills an editor so long after its first edit; says how much of its work was lost.
fn killed(after: Duration) -> Duration {
    let folder = tempfile::tempdir().unwrap();
    let session = folder.path().join("session.ron");
    let (mut child, told) = editor(&session);
    let mut all = vec![told.recv_timeout(Duration::from_mins(1)).expect("an edit")];
    std::thread::sleep(after);
    child.kill().unwrap();
    let end = Instant::now();
    child.wait().unwrap();
    all.extend(told.iter());
    let kept = kept(&session);
    let lost = all.iter().find(|(edit, _)| *edit > kept).map_or(Duration::ZERO, |(_, at)| end.duration_since(*at));
    // One more may be kept than was told of.
    assert!(kept <= all.last().unwrap().0 + 1, "edit {kept} was never made");
    lost
}

/// The edit that a new window begins with.
fn kept(session: &Path) -> u64 {
    let path = session.to_owned();
    let mut window = open_with(Opening::Example, move |ctx, opening| {
        let mut app = App::new(ctx, opening).unwrap();
        app.keep_session(ctx, path.clone(), true).unwrap();
        app
    });
    let app = app(&mut window);
    assert!(app.log().iter().any(|(_, line)| line.contains("the last session is back")), "{:?}", app.log());
    edits(&app.document().spec)
}

#[test]
fn kill_9_at_any_of_100_moments_loses_the_last_edits_alone() {
    if let Some(session) = std::env::var_os(SESSION) {
        return edit_until_killed(session.into());
    }
    let mut lost: Vec<Duration> = Vec::new();
    for round in 0..KILLS / CREW {
        let after = |at: usize| Duration::from_millis(25 * (round + at * KILLS / CREW) as u64);
        std::thread::scope(|scope| {
            let crew: Vec<_> = (0..CREW).map(|at| scope.spawn(move || killed(after(at)))).collect();
            lost.extend(crew.into_iter().map(|one| one.join().unwrap()));
        });
    }
    lost.sort_unstable();
    println!("lost: {:?} in the median, {:?} at most", lost[KILLS / 2], lost[KILLS - 1]);
    assert!(lost[KILLS - 1] < LOST, "{lost:?}");
}
