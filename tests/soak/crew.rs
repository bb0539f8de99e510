//! Hands cases to worker processes, watches over them, and adds up what they say.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::Args;
use crate::captures;
use crate::checks::Verdict;
use crate::kept;
use crate::kinds::{Input, Kind};
use crate::worker::{Answer, Job};

/// A case that takes longer hangs. One of a dozen edits plans and runs as often, some five seconds of work in all, and
/// others may have most of the machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(if cfg!(debug_assertions) { 240 } else { 60 });

/// A worker process with a thread that reads its answers.
struct Worker {
    child: Child,
    jobs: ChildStdin,
    answers: Receiver<Answer>,
}

impl Worker {
    fn start() -> Result<Self> {
        let mut command = Command::new(std::env::current_exe().context("finding this program")?);
        command.arg("--worker").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().context("starting a worker")?;
        let jobs = child.stdin.take().context("a worker without stdin")?;
        let out = child.stdout.take().context("a worker without stdout")?;
        let (tell, answers) = sync_channel(1);
        std::thread::Builder::new().name("answers".to_owned()).spawn(move || {
            for line in BufReader::new(out).lines().map_while(std::io::Result::ok) {
                let Ok(answer) = serde_json::from_str(&line) else { break };
                if tell.send(answer).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self { child, jobs, answers })
    }

    /// Runs a case; what the process does not survive is a fault like any other.
    fn run(&mut self, job: &Job) -> Result<Answer> {
        let start = Instant::now();
        let mut line = serde_json::to_vec(job)?;
        line.push(b'\n');
        // One that has died is found where its answer stays out.
        drop(self.jobs.write_all(&line).and_then(|()| self.jobs.flush()));
        let fault = match self.answers.recv_timeout(PATIENCE) {
            Ok(answer) => return Ok(answer),
            Err(RecvTimeoutError::Timeout) => {
                self.child.kill().context("ending a worker that hangs")?;
                format!("it took more than {} s", PATIENCE.as_secs())
            }
            Err(RecvTimeoutError::Disconnected) => "the process died".to_owned(),
        };
        let status = self.child.wait().context("waiting for a worker")?;
        *self = Self::start()?;
        let ms = start.elapsed().as_secs_f64() * 1e3;
        Ok(Answer { tried: Err(format!("{fault} ({status})")), peak: 0, loading: None, ms })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Runs the soak; whether every case held.
pub(crate) fn soak(args: &Args) -> Result<bool> {
    let start = Instant::now();
    let (tell, told) = sync_channel(64);
    let mut tally = Tally::default();
    let jobs = jobs(args)?;
    let feed = std::sync::Mutex::new(jobs);
    let end = args.minutes.map(|minutes| start + Duration::from_secs_f64(minutes * 60.0));
    std::thread::scope(|scope| -> Result<()> {
        for _ in 0..args.jobs.max(1) {
            let (feed, tell) = (&feed, tell.clone());
            std::thread::Builder::new().name("crew".to_owned()).spawn_scoped(scope, move || {
                let failed = work_off(feed, end, &tell);
                drop(failed.map_err(|error| tell.send(Err(error))));
            })?;
        }
        drop(tell);
        // Gone with this thread, so that no other waits for it.
        for answer in told {
            let (job, answer) = answer?;
            tally.add(args, &job, &answer)?;
        }
        Ok(())
    })?;
    tally.print(start.elapsed());
    Ok(tally.faults.is_empty())
}

type Feed<'a> = Box<dyn Iterator<Item = Job> + Send + 'a>;

/// The kept cases, then the seeds.
fn jobs(args: &Args) -> Result<Feed<'static>> {
    if let (Some(kind), Some(seed)) = (args.kind, args.seed) {
        return Ok(Box::new(std::iter::once(Job::Seed(kind, seed))));
    }
    let (kind, from) = (args.kind, args.from);
    let kept = kept::all()?.into_iter().filter(move |kept| kind.is_none_or(|kind| kind == kept.kind));
    let kept = kept.map(|kept| Job::Kept(kept.kind, kept.seed));
    let count = if args.minutes.is_some() { u64::MAX } else { args.count };
    let drawn = (from..).zip(0..count).map(move |(seed, _)| Job::Seed(kind.unwrap_or(Kind::of(seed)), seed));
    Ok(Box::new(kept.chain(drawn)))
}

type Told = Result<(Job, Answer)>;

fn work_off(feed: &std::sync::Mutex<Feed<'_>>, end: Option<Instant>, tell: &SyncSender<Told>) -> Result<()> {
    let mut worker = Worker::start()?;
    loop {
        if end.is_some_and(|end| Instant::now() > end) {
            return Ok(());
        }
        let job = feed.lock().map_err(|_| anyhow::anyhow!("another thread panicked"))?.next();
        let Some(job) = job else { return Ok(()) };
        let answer = worker.run(&job)?;
        if tell.send(Ok((job, answer))).is_err() {
            return Ok(());
        }
    }
}

/// What came of all cases.
#[derive(Default)]
struct Tally {
    verdicts: BTreeMap<(Kind, Verdict), u64>,
    faults: Vec<String>,
    /// Share of its limit that loading a capture took, with the figures: memory, length, case.
    loading: Option<(f64, u64, u64, Job)>,
    peak: Option<(u64, Job)>,
    slowest: Option<(f64, Job)>,
}

impl Tally {
    fn add(&mut self, args: &Args, job: &Job, answer: &Answer) -> Result<()> {
        let (Job::Seed(kind, seed) | Job::Kept(kind, seed)) = *job;
        match &answer.tried {
            Ok(verdict) => *self.verdicts.entry((kind, *verdict)).or_default() += 1,
            Err(fault) => {
                let which = if matches!(job, Job::Kept(..)) { " (kept)" } else { "" };
                let line = format!("--kind {} --seed {seed}{which}: {fault}", kind.name());
                println!("FAULT {line}");
                self.faults.push(line);
            }
        }
        if matches!(job, Job::Seed(..)) && (answer.tried.is_err() || args.seed.is_some()) {
            fs::create_dir_all(&args.out).with_context(|| args.out.display().to_string())?;
            let path = args.out.join(kept::file_name(kind, seed));
            // Making it may be what panicked.
            match std::panic::catch_unwind(|| Input::draw(kind, seed)?.to_bytes()) {
                Ok(input) => {
                    fs::write(&path, input?).with_context(|| path.display().to_string())?;
                    println!("      its input is {}", path.display());
                }
                Err(_) => println!("      its input cannot be made"),
            }
        }
        if let Some((peak, length)) = answer.loading {
            let share = peak as f64 / captures::limit(length as usize) as f64;
            if self.loading.as_ref().is_none_or(|worst| worst.0 < share) {
                self.loading = Some((share, peak, length, job.clone()));
            }
        }
        if self.peak.as_ref().is_none_or(|worst| worst.0 < answer.peak) {
            self.peak = Some((answer.peak, job.clone()));
        }
        if self.slowest.as_ref().is_none_or(|worst| worst.0 < answer.ms) {
            self.slowest = Some((answer.ms, job.clone()));
        }
        Ok(())
    }

    fn print(&self, took: Duration) {
        println!("{:<8} {:>9} {:>9} {:>9}", "kind", "taken", "refused", "cancelled");
        for kind in Kind::ALL {
            let count = |verdict| self.verdicts.get(&(kind, verdict)).copied().unwrap_or(0);
            let (taken, refused) = (count(Verdict::Taken), count(Verdict::Refused));
            println!("{:<8} {taken:>9} {refused:>9} {:>9}", kind.name(), count(Verdict::Cancelled));
        }
        if let Some((share, peak, length, job)) = &self.loading {
            let percent = share * 100.0;
            println!("loading a capture took at most {percent:.1} % of its limit: {peak} bytes for {length}, {job:?}");
        }
        if let Some((peak, job)) = &self.peak {
            println!("most memory of a case: {} MiB, {job:?}", peak >> 20);
        }
        if let Some((ms, job)) = &self.slowest {
            println!("slowest case: {ms:.0} ms, {job:?}");
        }
        let all: u64 = self.verdicts.values().sum::<u64>() + self.faults.len() as u64;
        println!("{all} cases in {:.1} s, {} faults", took.as_secs_f64(), self.faults.len());
    }
}
