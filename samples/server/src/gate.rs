//! How many requests are in the house, and the end of the day.
//!
//! ```text
//!   Open ── refuse() ──> Refusing ── end() ──> Over
//!   takes up to `limit`  503 for new ones,     what still runs is given up
//!   429 beyond           the others go on
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::failure::{Failure, Kind, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Phase {
    Open,
    Refusing,
    Over,
}

#[derive(Debug)]
pub struct Gate {
    /// Requests in the house; whoever waits for the last to leave takes no place, so that it stays their number.
    taken: Arc<watch::Sender<u32>>,
    limit: u32,
    phase: watch::Sender<Phase>,
}

/// A place in the house; it is free again when this is dropped.
#[derive(Debug)]
pub struct Ticket {
    deadline: Instant,
    _place: Place,
}

#[derive(Debug)]
struct Place(Arc<watch::Sender<u32>>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.send_modify(|taken| *taken -= 1);
    }
}

impl Gate {
    pub fn new(limit: u32) -> Gate {
        Gate {
            taken: Arc::new(watch::Sender::new(0)),
            limit,
            phase: watch::Sender::new(Phase::Open),
        }
    }

    /// Whether a request would be taken in now: one that would not be need not be read.
    pub fn check(&self) -> Result<()> {
        let is_room = *self.taken.borrow() < self.limit;
        self.admit(is_room.then_some(()))
    }

    /// Takes a request in that came as a whole, so that who sends slowly has no place that others could use.
    pub fn enter(&self, deadline: Instant) -> Result<Ticket> {
        let is_room = self.taken.send_if_modified(|taken| {
            let is_room = *taken < self.limit;
            *taken += u32::from(is_room);
            is_room
        });
        // In this order: whoever sees all places free after refuse() knows that nobody comes in any more.
        let place = self.admit(is_room.then(|| Place(self.taken.clone())))?;
        Ok(Ticket {
            deadline,
            _place: place,
        })
    }

    fn admit<T>(&self, place: Option<T>) -> Result<T> {
        if self.is_refusing() {
            return Err(Failure::stopping());
        }
        place.ok_or_else(|| {
            let message = format!("{} requests are being answered already", self.limit);
            Failure::new(Kind::Overloaded, message)
        })
    }

    pub fn in_flight(&self) -> usize {
        *self.taken.borrow() as usize
    }

    pub fn refuse(&self) {
        self.phase.send_if_modified(|phase| {
            let open = *phase == Phase::Open;
            if open {
                *phase = Phase::Refusing;
            }
            open
        });
    }

    pub fn is_refusing(&self) -> bool {
        *self.phase.borrow() >= Phase::Refusing
    }

    pub fn end(&self) {
        self.phase.send_replace(Phase::Over);
    }

    /// Ready when what still runs is to be given up.
    pub async fn over(&self) {
        let mut phase = self.phase.subscribe();
        let _ = phase.wait_for(|phase| *phase == Phase::Over).await;
    }

    /// Ready when nobody is in the house.
    pub async fn empty(&self) {
        // The sender lives as long as self.
        let _ = self.taken.subscribe().wait_for(|taken| *taken == 0).await;
    }
}

impl Ticket {
    /// What is left of its time; at least a millisecond, so that the engine is who ends it.
    pub fn left(&self) -> Duration {
        let left = self.deadline.saturating_duration_since(Instant::now());
        left.max(Duration::from_millis(1))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn beyond_the_limit_is_overload_and_a_dropped_ticket_is_a_free_place() {
        let gate = Gate::new(2);
        let first = gate.enter(Instant::now()).unwrap();
        let _second = gate.enter(Instant::now()).unwrap();
        for refused in [gate.enter(Instant::now()).map(drop), gate.check()] {
            assert_eq!(refused.unwrap_err().kind, Kind::Overloaded);
        }
        drop(first);
        assert_eq!(gate.in_flight(), 1);
        gate.check().unwrap();
        assert_eq!(gate.in_flight(), 1, "who asks takes no place");
        assert!(gate.enter(Instant::now()).is_ok());
    }

    #[tokio::test]
    async fn who_is_in_when_it_refuses_may_stay() {
        let gate = Gate::new(2);
        let ticket = gate.enter(Instant::now()).unwrap();
        gate.refuse();
        for refused in [gate.enter(Instant::now()).map(drop), gate.check()] {
            assert_eq!(refused.unwrap_err().kind, Kind::Stopping);
        }
        let mut empty = std::pin::pin!(gate.empty());
        assert!((&mut empty).now_or_never().is_none());
        assert_eq!(gate.in_flight(), 1, "who waits is not counted");
        drop(ticket);
        empty.await;
        gate.end();
        gate.over().await;
        gate.refuse(); // does not open it again
        assert!(gate.is_refusing());
        gate.over().await;
    }
}
