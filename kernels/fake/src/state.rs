//! What the driver knows: the memory and handles that it gave out, the calls it counted, and what is to fail.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// `CUresult`.
pub(crate) type Code = u32;
pub(crate) const SUCCESS: Code = 0;
pub(crate) const INVALID_VALUE: Code = 1;
pub(crate) const OUT_OF_MEMORY: Code = 2;
pub(crate) const NOT_READY: Code = 600;
pub(crate) const ILLEGAL_ADDRESS: Code = 700;
pub(crate) const NOT_SUPPORTED: Code = 801;

/// Of an H200, bytes.
const MEMORY: u64 = 143_771 << 20;
/// Larger buffers have no bytes behind them: no test reads what a KV cache holds.
const BACKED: u64 = 64 << 20;

/// What is to fail; call and launch 0 are none.
#[derive(Default)]
struct Plan {
    fail: (u64, Code),
    lose: (u64, Code),
    hang: u64,
    memory: Option<u64>,
    compile: Duration,
}

impl Plan {
    fn read() -> Self {
        let text = std::env::var_os(crate::PLAN).and_then(|path| std::fs::read_to_string(path).ok());
        let mut plan = Self::default();
        for line in text.unwrap_or_default().lines() {
            let mut words = line.split_whitespace();
            let key = words.next().unwrap_or_default();
            let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).unwrap_or_default();
            match key {
                "fail" => plan.fail = (number(), number() as Code),
                "lose" => plan.lose = (number(), number() as Code),
                "hang" => plan.hang = number(),
                "memory" => plan.memory = Some(number()),
                "compile" => plan.compile = Duration::from_millis(number()),
                _ => {}
            }
        }
        plan
    }
}

/// A kind of handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Stream,
    Event,
    Module,
    Graph,
}

#[derive(Default)]
pub(crate) struct State {
    plan: Plan,
    calls: u64,
    /// Kernels, fills and graphs that went to the GPU.
    launches: u64,
    /// When the last of them went there.
    launched: Option<Instant>,
    /// The longest time between two of them.
    longest_rest: Duration,
    /// Launches go into a graph, not to the GPU.
    capturing: bool,
    lost: Code,
    hanging: bool,
    after_loss: u64,
    retained: u32,
    handles: BTreeSet<(Kind, usize)>,
    next: usize,
    /// Size and bytes by address.
    buffers: BTreeMap<u64, (u64, Vec<u8>)>,
    /// Nanoseconds on the GPU.
    pub(crate) clock: u64,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

/// Works on the state.
pub(crate) fn with<T>(work: impl FnOnce(&mut State) -> T) -> T {
    let mut state: MutexGuard<'_, Option<State>> = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    work(state.get_or_insert_default())
}

/// A call that is counted, and may fail.
pub(crate) fn call(work: impl FnOnce(&mut State) -> Code) -> Code {
    with(|state| match state.enter() {
        SUCCESS => work(state),
        code => code,
    })
}

/// A call that gives something back. Where a kernel hangs, it waits for as long.
pub(crate) fn give_back(work: impl FnOnce(&mut State)) -> Code {
    let code = with(|state| {
        state.after_loss += u64::from(state.lost != SUCCESS);
        state.lost
    });
    while with(|state| state.hanging) {
        std::thread::sleep(Duration::from_millis(1));
    }
    with(work);
    code
}

impl State {
    /// The driver is started: reads what is to fail, and counts anew. A kernel that hung has ended.
    pub(crate) fn start(&mut self) {
        self.plan = Plan::read();
        self.hanging = false;
        if self.retained == 0 {
            self.lost = SUCCESS;
        }
        self.calls = 0;
        self.launches = 0;
        (self.launched, self.longest_rest) = (None, Duration::ZERO);
        self.capturing = false;
        self.after_loss = 0;
    }

    fn enter(&mut self) -> Code {
        self.calls += 1;
        if self.lost != SUCCESS {
            self.after_loss += 1;
            return self.lost;
        }
        if self.calls == self.plan.lose.0 {
            self.lost = self.plan.lose.1;
            return self.lost;
        }
        if self.calls == self.plan.fail.0 { self.plan.fail.1 } else { SUCCESS }
    }

    /// Work goes to the GPU, or into the graph that is captured.
    pub(crate) fn launch(&mut self) {
        if !self.capturing {
            self.launches += 1;
            let now = Instant::now();
            let rest = self.launched.replace(now).map_or(Duration::ZERO, |before| now - before);
            self.longest_rest = self.longest_rest.max(rest);
            self.hanging |= self.launches == self.plan.hang;
        }
    }

    pub(crate) fn capture(&mut self, begins: bool) -> Code {
        self.capturing = begins;
        SUCCESS
    }

    /// Whether the work on the streams has ended.
    pub(crate) fn ended(&self) -> Code {
        if self.hanging { NOT_READY } else { SUCCESS }
    }

    pub(crate) fn compile_time(&self) -> Duration {
        self.plan.compile
    }

    pub(crate) fn retain(&mut self) {
        self.retained += 1;
    }

    /// The context goes with its last user, and a fault with the context.
    pub(crate) fn release(&mut self) {
        self.retained = self.retained.saturating_sub(1);
        if self.retained > 0 {
            return;
        }
        let left: u64 = self.buffers.values().map(|buffer| buffer.0).sum();
        let report = format!(
            "calls {}\nlaunches {}\nlongest_rest_ms {}\nbuffers {}\nbytes {left}\nhandles {}\nafter_loss {}\n",
            self.calls,
            self.launches,
            self.longest_rest.as_millis(),
            self.buffers.len(),
            self.handles.len(),
            // This very release is one.
            self.after_loss.saturating_sub(1),
        );
        if let Some(path) = std::env::var_os(crate::REPORT) {
            let _ = std::fs::write(path, report);
        }
        self.buffers.clear();
        self.handles.clear();
        self.lost = SUCCESS;
    }

    pub(crate) fn total(&self) -> u64 {
        self.plan.memory.unwrap_or(MEMORY)
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.total().saturating_sub(self.buffers.values().map(|buffer| buffer.0).sum())
    }

    /// Address of a new buffer; `None` where there is no room.
    pub(crate) fn allocate(&mut self, bytes: u64) -> Option<u64> {
        if bytes > self.free_bytes() {
            return None;
        }
        let last = self.buffers.last_key_value().map_or(1 << 32, |(address, buffer)| address + buffer.0);
        let address = last.next_multiple_of(1 << 20) + (1 << 20);
        let backed = if bytes <= BACKED { vec![0; bytes as usize] } else { Vec::new() };
        self.buffers.insert(address, (bytes, backed));
        Some(address)
    }

    pub(crate) fn free(&mut self, address: u64) {
        self.buffers.remove(&address);
    }

    /// Bytes of device memory; empty where the buffer is too large to have any, `None` for what is no buffer.
    pub(crate) fn bytes(&mut self, address: u64, count: u64) -> Option<&mut [u8]> {
        let (begin, (size, backed)) = self.buffers.range_mut(..=address).next_back()?;
        let at = address - begin;
        if at + count > *size {
            return None;
        }
        if backed.is_empty() {
            return Some(&mut []);
        }
        backed.get_mut(at as usize..(at + count) as usize)
    }

    pub(crate) fn handle(&mut self, kind: Kind) -> usize {
        self.next += 16;
        self.handles.insert((kind, self.next));
        self.next
    }

    pub(crate) fn drop_handle(&mut self, kind: Kind, handle: usize) {
        self.handles.remove(&(kind, handle));
    }

    /// A fault of a kernel.
    pub(crate) fn fault(&mut self) -> Code {
        self.lost = ILLEGAL_ADDRESS;
        self.lost
    }
}
