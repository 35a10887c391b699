//! What was published, again: a subscriber that has missed batches, or is new, asks for all from a number on.
//!
//! ```text
//!   asked       ["", number]
//!   answered    ["", topic, number, batch]...   then  ["", "", -1, ""]       without the topic but in dialect vllm
//! ```
//!
//! When the first of them are not kept any more, a snapshot comes in their place: everything was cleared, and all that is
//! there now was stored, under the number of the newest batch that it contains.

use std::io;
use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::feed::{Asked, Snapshot};
use super::history::History;
use super::zmtp::{self, Heard, Reader, PATIENCE};

/// -1: no batch has this number.
const END: [u8; 8] = [0xff; 8];

pub async fn serve(
    stream: TcpStream,
    history: Arc<History>,
    snapshots: mpsc::Sender<Asked>,
) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut reader = Reader::new(read);
    let peers = ["REQ", "DEALER", "ROUTER"];
    timeout(PATIENCE, reader.greet(&mut write, "ROUTER", &peers)).await??;
    loop {
        match reader.hear().await? {
            Heard::Closed => return Ok(()),
            Heard::Ping(context) => {
                timeout(PATIENCE, write.write_all(&zmtp::pong(&context))).await??;
            }
            Heard::Message(parts) => {
                let [empty, number] = &parts[..] else {
                    continue;
                };
                let Ok(number) = <[u8; 8]>::try_from(&number[..]) else {
                    continue;
                };
                if !empty.is_empty() {
                    continue;
                }
                let mut send = async |number: [u8; 8], topic: &str, payload: &[u8]| {
                    let parts: [&[u8]; 4] = [b"", topic.as_bytes(), &number, payload];
                    let bytes = if history.dialect.replays_topic() {
                        zmtp::message(&parts)
                    } else {
                        zmtp::message(&[parts[0], parts[2], parts[3]])
                    };
                    timeout(PATIENCE, write.write_all(&bytes)).await?
                };
                let topic = history.topic.as_str();
                let (mut batches, complete) = history.since(u64::from_be_bytes(number));
                if !complete {
                    if let Some(snapshot) = ask(&snapshots).await {
                        send(snapshot.number.to_be_bytes(), topic, &snapshot.payload).await?;
                        batches = history.since(snapshot.number + 1).0;
                    }
                }
                for batch in batches {
                    send(batch.number.to_be_bytes(), topic, &batch.payload).await?;
                }
                send(END, "", b"").await?;
            }
        }
    }
}

async fn ask(snapshots: &mpsc::Sender<Asked>) -> Option<Arc<Snapshot>> {
    let (answer, answered) = tokio::sync::oneshot::channel();
    snapshots.send(answer).await.ok()?;
    answered.await.ok()
}
