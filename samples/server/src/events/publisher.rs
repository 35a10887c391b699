//! A subscriber: gets every batch from the moment on in which it subscribed.

use std::io;
use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout;

use super::history::History;
use super::zmtp::{self, Heard, Reader, PATIENCE};

/// Topics that a peer may ask for.
const SUBSCRIPTIONS: usize = 64;

pub async fn serve(stream: TcpStream, history: Arc<History>) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut reader = Reader::new(read);
    timeout(PATIENCE, reader.greet(&mut write, "PUB", &["SUB", "XSUB"])).await??;
    let mut live = history.subscribe();
    let mut wanted: Vec<Vec<u8>> = Vec::new();
    loop {
        tokio::select! {
            // What it asks for first: a batch may be for it already.
            biased;
            heard = reader.hear() => match heard? {
                Heard::Message(parts) => subscribe(&mut wanted, &parts),
                Heard::Ping(context) => timeout(PATIENCE, write.write_all(&zmtp::pong(&context))).await??,
                Heard::Closed => return Ok(()),
            },
            batch = live.recv() => match batch {
                Ok(batch) if wanted.iter().any(|topic| history.topic.as_bytes().starts_with(topic)) => {
                    timeout(PATIENCE, write.write_all(&batch)).await??;
                }
                // Too slow: it sees a gap in the numbers.
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return Ok(()),
            },
        }
    }
}

/// A message of one part: 1 and a topic, or 0 and one that is not wanted any more.
fn subscribe(wanted: &mut Vec<Vec<u8>>, parts: &[Vec<u8>]) {
    let [part] = parts else { return };
    match part.split_first() {
        Some((1, topic)) if wanted.len() < SUBSCRIPTIONS => wanted.push(topic.to_vec()),
        Some((0, topic)) => {
            if let Some(i) = wanted.iter().position(|known| known == topic) {
                wanted.swap_remove(i);
            }
        }
        _ => {}
    }
}
