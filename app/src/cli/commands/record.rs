//! `record --kv-events`: keeps what an engine publishes, message by message, until it is interrupted or has enough.

use std::fs::File;
use std::process::ExitCode;
use std::time::Duration;

use engine::Error;
use engine::export::SCHEMA;
use engine::import::KvEventsWriter;
use engine::units::counted;
use serde_json::json;
use zeromq::{Socket as _, SocketRecv as _, SubSocket};

use crate::cli::args::RecordArgs;
use crate::cli::fault::{Fault, Outcome};
use crate::cli::{interrupt, output};

/// How long a publisher is waited for before whoever stops this is asked after.
const PATIENCE: Duration = Duration::from_millis(100);

/// What came.
#[derive(Default)]
struct Came {
    messages: u64,
    bytes: u64,
    lost: u64,
    last: Option<u64>,
}

/// The command.
pub(crate) fn record(args: &RecordArgs) -> Outcome<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Fault::failed(format!("the receiver did not start: {error}")))?;
    let came = runtime.block_on(receive(args))?;
    if args.json {
        let file = output::path(&args.output);
        output::print_json(&json!({
            "schema": SCHEMA, "file": file, "messages": came.messages, "bytes": came.bytes, "lost": came.lost,
        }))?;
    } else {
        let lost = if came.lost > 0 { format!(", {} lost", came.lost) } else { String::new() };
        let messages = counted(came.messages, "message");
        output::print(&format!("wrote {} with {messages}{lost}", args.output.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn receive(args: &RecordArgs) -> Outcome<Came> {
    let address = &args.kv_events;
    let mut socket = SubSocket::new();
    let refused = |error: zeromq::ZmqError| {
        Fault::input(
            format!("nothing can be received from {address}: {error}"),
            "write it like tcp://127.0.0.1:5557, with the host and port where the engine publishes its KV events",
        )
    };
    let connected = tokio::time::timeout(Duration::from_secs(10), socket.connect(address)).await;
    connected.map_err(|_| Fault::failed(format!("nobody answers at {address} within 10 s")))?.map_err(refused)?;
    socket.subscribe("").await.map_err(refused)?;
    let failed = || Error::io("writing the events", &args.output);
    // Not whole or not at all, as other files: what came before a stream breaks off is what one wants to have.
    let file = File::create(&args.output).map_err(failed())?;
    let mut writer = KvEventsWriter::new(file).map_err(failed())?;
    let bar = output::working("messages");
    let mut came = Came::default();
    while args.messages.is_none_or(|most| came.messages < most) && !interrupt::cancel().is_cancelled() {
        let Ok(message) = tokio::time::timeout(PATIENCE, socket.recv()).await else { continue };
        let frames = message.map_err(refused)?.into_vec();
        writer.add(&frames).map_err(failed())?;
        came.count(&frames.iter().map(AsRef::as_ref).collect::<Vec<&[u8]>>());
        bar.set_message(counted(came.messages, "message"));
    }
    bar.finish_and_clear();
    Ok(came)
}

impl Came {
    fn count(&mut self, frames: &[&[u8]]) {
        self.messages += 1;
        self.bytes += frames.iter().map(|frame| frame.len() as u64).sum::<u64>();
        let sequence = frames.get(1).and_then(|frame| <[u8; 8]>::try_from(*frame).ok()).map(u64::from_be_bytes);
        if let (Some(last), Some(now)) = (self.last, sequence) {
            self.lost += now.saturating_sub(last + 1);
        }
        self.last = sequence.or(self.last);
    }
}
