//! The batches that were published last, by number.
//!
//! ```text
//!   number   41        42        43   <- next
//!   kept   [ batch ][ batch ][       ]     as many as were asked for, and fit BYTES
//!                        └── broadcast ──> subscribers; one that is too slow misses some, sees the gap, and asks for
//!                                          them on the other port
//! ```

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::broadcast;

use super::message::Dialect;
use super::zmtp;

const BYTES: usize = 64 << 20;
/// How far a subscriber may lag behind.
const LAG: usize = 1024;

#[derive(Debug)]
pub struct Batch {
    pub number: u64,
    pub payload: Vec<u8>,
}

#[derive(Debug)]
pub struct History {
    pub topic: String,
    pub dialect: Dialect,
    limit: usize,
    kept: Mutex<Kept>,
    live: broadcast::Sender<Arc<[u8]>>,
}

#[derive(Debug, Default)]
struct Kept {
    batches: VecDeque<Arc<Batch>>,
    bytes: usize,
    next: u64,
}

impl History {
    /// Keeps at most `limit` batches.
    pub fn new(topic: String, dialect: Dialect, limit: usize) -> History {
        History {
            topic,
            dialect,
            limit,
            kept: Mutex::default(),
            live: broadcast::Sender::new(LAG),
        }
    }

    pub fn publish(&self, payload: Vec<u8>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let number = kept.next;
        kept.next += 1;
        let parts = [self.topic.as_bytes(), &number.to_be_bytes(), &payload];
        // In the lock, so that numbers go out in their order. Nobody may listen.
        let _ = self.live.send(zmtp::message(&parts).into());
        kept.bytes += payload.len();
        kept.batches.push_back(Arc::new(Batch { number, payload }));
        while kept.batches.len() > self.limit || kept.bytes > BYTES {
            match kept.batches.pop_front() {
                Some(oldest) => kept.bytes -= oldest.payload.len(),
                None => break,
            }
        }
    }

    pub fn subscribe(&self) -> broadcast::Receiver<Arc<[u8]>> {
        self.live.subscribe()
    }

    /// What is kept from a number on, and whether nothing is missing in front of it.
    pub fn since(&self, number: u64) -> (Vec<Arc<Batch>>, bool) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = kept.batches.front().map_or(kept.next, |batch| batch.number);
        let wanted = kept.batches.iter().filter(|batch| batch.number >= number);
        (wanted.cloned().collect(), number >= oldest)
    }

    /// The number of the newest batch.
    pub fn newest(&self) -> Option<u64> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.next.checked_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_make_room_and_numbers_have_no_gaps() {
        let history = History::new("topic".into(), Dialect::Vllm, 100);
        assert_eq!(history.newest(), None);
        for _ in 0..105 {
            history.publish(vec![1]);
        }
        let (all, complete) = history.since(0);
        assert_eq!((all.len(), complete), (100, false));
        assert_eq!(all[0].number, 5);
        assert!(all.windows(2).all(|two| two[0].number + 1 == two[1].number));
        assert!(history.since(5).1);
        let newest = history.newest().unwrap();
        assert_eq!(history.since(newest).0.len(), 1);
        assert!(history.since(newest + 1).0.is_empty());
    }

    #[test]
    fn bytes_have_a_limit() {
        let history = History::new(String::new(), Dialect::Vllm, 100);
        for _ in 0..5 {
            history.publish(vec![0; BYTES / 2]);
        }
        assert_eq!(history.since(0).0.len(), 2);
    }
}
