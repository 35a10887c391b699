//! Who reads the events of one job or task without blocking, any number of streams. The library has one notice for each
//! job and task, so that they share it: what it tells wakes all of them, and those who find nothing wait again.
//!
//! ```text
//!   EventStream ──┐
//!   EventStream ──┼── Readers ── Place ── waiter.rs      the place is there while one of them waits
//!   EventStream ──┘
//! ```

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Wake, Waker};

use crate::awaited::Awaited;
use crate::error::Result;
use crate::raw::caught;
use crate::waiter::Place;

#[derive(Debug, Default)]
pub(crate) struct Readers(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    streams: usize,
    place: Option<Place>,
    wakers: HashMap<u64, Waker>,
}

/// What the place wakes. It does not keep the readers, which keep the place.
struct Bell(Weak<Readers>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        if let Some(readers) = self.0.upgrade() {
            // Outside of the lock, as all that is done with wakers: what they do is their own.
            let wakers = mem::take(&mut readers.state().wakers);
            for waker in wakers.into_values() {
                caught(|| waker.wake()); // the others are woken even so
            }
        }
    }
}

impl Readers {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The number of a new stream.
    pub fn enter(&self) -> u64 {
        let mut state = self.state();
        state.streams += 1;
        state.next += 1;
        state.next
    }

    /// A stream that is dropped. The place goes with the last of them.
    pub fn leave(&self, stream: u64) {
        let mut state = self.state();
        state.streams -= 1;
        let waker = state.wakers.remove(&stream);
        let place = match state.streams {
            0 => state.place.take(),
            _ => None,
        };
        drop(state);
        drop((waker, place));
    }

    /// This waker of the stream is called when there may be an event. It is to be set before the look: an event that
    /// comes after the look finds it there.
    pub fn set(self: &Arc<Self>, stream: u64, waker: &Waker) {
        let waker = waker.clone();
        let mut state = self.state();
        let before = state.wakers.insert(stream, waker);
        if let Some(place) = &state.place {
            place.set(&self.bell());
        }
        drop(state);
        drop(before);
    }

    /// For a look that found nothing: asks for the notice, where none of the streams has. It comes at once when there is
    /// an event.
    pub fn ask(self: &Arc<Self>, source: &dyn Awaited) -> Result<()> {
        let mut state = self.state();
        if state.place.is_none() {
            state.place = Some(Place::of_events(source, &self.bell())?);
        }
        Ok(())
    }

    fn bell(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::new(Bell(Arc::downgrade(self))))
    }
}
