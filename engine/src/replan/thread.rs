//! Planning on a thread of its own, so that the next step is planned while the GPU runs this one.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use crate::error::{Error, Result};
use crate::replan::{Replanned, Replanner};
use crate::workload::Change;

/// Steps that may be sent, and plans that may lie ready, before one is fetched.
const AHEAD: usize = 64;

/// A named thread that owns a [`Replanner`]. Steps are planned in the order in which they were sent,
/// one plan a step. Dropping it ends the thread after the step at hand.
#[derive(Debug)]
pub struct PlanningThread {
    /// Gone when the thread is to end.
    channels: Option<Channels>,
    thread: Option<JoinHandle<()>>,
}

/// To and from the thread.
#[derive(Debug)]
struct Channels {
    steps: SyncSender<Vec<Change>>,
    plans: Receiver<Result<Replanned>>,
}

impl PlanningThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// [`Error::Plan`] where the system gives no thread.
    pub fn start(mut replanner: Replanner) -> Result<Self> {
        let (steps, todo) = sync_channel::<Vec<Change>>(AHEAD);
        let (done, plans) = sync_channel(AHEAD);
        let work = move || {
            for changes in todo {
                if done.send(replanner.step(&changes)).is_err() {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("planning".to_owned())
            .spawn(work)
            .map_err(|error| Error::Plan(format!("the planning thread did not start: {error}")))?;
        Ok(Self { channels: Some(Channels { steps, plans }), thread: Some(thread) })
    }

    /// Sends the changes of the next step and returns at once.
    ///
    /// # Errors
    /// [`Error::Plan`] where the thread has ended, or is so many steps behind that plans must be fetched
    /// first.
    pub fn send(&self, changes: Vec<Change>) -> Result<()> {
        let channels = self.channels.as_ref().ok_or_else(ended)?;
        channels.steps.try_send(changes).map_err(|error| match error {
            TrySendError::Full(_) => Error::Plan(format!("{AHEAD} steps wait to be planned; fetch plans first")),
            TrySendError::Disconnected(_) => ended(),
        })
    }

    /// Waits for the plan of the oldest step that was sent and not yet fetched.
    ///
    /// # Errors
    /// What planning that step gave; [`Error::Plan`] where the thread has ended.
    pub fn wait(&self) -> Result<Replanned> {
        let channels = self.channels.as_ref().ok_or_else(ended)?;
        channels.plans.recv().map_err(|_gone| ended())?
    }

    /// The same, if it is there already.
    pub fn try_next(&self) -> Option<Result<Replanned>> {
        self.channels.as_ref().and_then(|channels| channels.plans.try_recv().ok())
    }
}

impl Drop for PlanningThread {
    fn drop(&mut self) {
        self.channels = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was told by the panic hook; there is nobody to give it to here.
            let _ended = thread.join();
        }
    }
}

fn ended() -> Error {
    Error::Plan("the planning thread has ended; start a new one".to_owned())
}
