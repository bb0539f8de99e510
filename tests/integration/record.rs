//! `record --kv-events` against a publisher.

use std::time::{Duration, Instant};

use engine::import::{self, ImportOptions, Progress, Watch};
use zeromq::{PubSocket, Socket as _, SocketSend as _, ZmqMessage};

use crate::program::{Ran, command_in, output_of, packscope, started};
use crate::written::{self, Style};

/// What an engine publishes: one more block a message, of which the fourth never arrives.
fn messages() -> Vec<[Vec<u8>; 3]> {
    let message = |at: u64| {
        let parent = at.checked_sub(1).map(|before| 500 + before);
        let event = written::stored(Style::Names, &[500 + at], parent, 16);
        written::message(Style::Names, at, at as f64, vec![event])
    };
    (0..8).filter(|at| *at != 3).map(message).collect()
}

#[test]
fn what_is_published_is_kept_and_can_be_imported() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ran = runtime.block_on(async {
        let mut publisher = PubSocket::new();
        let address = publisher.bind("tcp://127.0.0.1:0").await.unwrap().to_string();
        let args = ["record", "--kv-events", &address, "-o", "events.kvr", "--messages", "20", "--json"];
        let mut child = started(&mut command_in(folder.path(), &args));
        // A publisher does not wait for who comes late: it goes on as an engine does, beginning anew.
        let begun = Instant::now();
        while child.try_wait().unwrap().is_none() && begun.elapsed() < Duration::from_mins(1) {
            for frames in messages() {
                let [topic, sequence, payload] = frames;
                let mut message = ZmqMessage::from(topic);
                message.push_back(sequence.into());
                message.push_back(payload.into());
                // Who has ended since reads no more, and a socket may wait for that.
                let sent = tokio::time::timeout(Duration::from_secs(1), publisher.send(message)).await;
                sent.unwrap_or(Ok(())).unwrap();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        Ran::of(output_of(child))
    });
    let json = ran.json();
    assert_eq!(json["messages"], 20);
    assert!(json["lost"].as_u64().unwrap() >= 2, "{json}");
    let file = folder.path().join("events.kvr");
    let mut quiet = |_: u64, _: Option<u64>| ();
    let mut watch = Watch { cancel: &engine::cancel::Cancel::default(), progress: Progress(&mut quiet) };
    let imported = import::find("kv-events").unwrap().read(&file, &ImportOptions::default(), &mut watch).unwrap();
    assert_eq!(imported.records, 20);
    assert!(imported.notes.iter().any(|note| note.contains("began anew")), "{:?}", imported.notes);
    assert_eq!(imported.batch.shape.block_size, 16);
}

#[test]
fn an_address_that_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("e.kvr");
    let ran = packscope(&["record", "--kv-events", "here", "-o", file.to_str().unwrap()]);
    ran.fails(2, &["nothing can be received from here", "tcp://127.0.0.1:5557"]);
    assert!(!file.exists());
}
