//! An engine whose model is still being loaded.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use prefix_sys as sys;

use crate::error::{call, Result, Status};
use crate::raw::milliseconds;
use crate::source::Bytes;
use crate::waiter::Place;
use crate::Engine;

/// A model that the library loads in a thread of its own; made by [`Engine::load`] and
/// [`Engine::load_source`]. As a future it is ready
/// with the engine. Dropping it gives up, soon and without waiting.
#[derive(Debug)]
#[must_use = "dropping it ends the load"]
pub struct Loading {
    engine: Engine,
    place: Option<Place>,
    // Dropped after the engine: what is loaded is read until the last reference to that goes.
    _kept: Vec<Bytes>,
}

impl Loading {
    /// `kept`: what it reads; the only reference to the engine comes with it.
    pub(crate) fn new(engine: Engine, kept: Vec<Bytes>) -> Loading {
        Loading {
            engine,
            place: None,
            _kept: kept,
        }
    }

    /// Waits up to this long: true when the engine is ready, an error when the load failed.
    pub fn wait_for(&self, time: Duration) -> Result<bool> {
        self.look(milliseconds(time)).map(|(ready, _)| ready)
    }

    /// How much is loaded, in [0, 1]; it never goes back.
    pub fn fraction(&self) -> Result<f64> {
        self.look(0).map(|(_, fraction)| fraction)
    }

    /// Waits for the engine.
    pub fn wait(self) -> Result<Engine> {
        self.look(-1)?;
        Ok(self.engine)
    }

    fn look(&self, timeout_ms: i64) -> Result<(bool, f64)> {
        let mut fraction = 0.0;
        // Safety: a live handle and a number.
        match call(|err| unsafe {
            sys::prefix_engine_wait(self.engine.raw(), timeout_ms, &mut fraction, err)
        }) {
            Ok(()) => Ok((true, fraction)),
            Err(error) if error.status() == Status::Timeout => Ok((false, fraction)),
            Err(error) => Err(error),
        }
    }
}

impl Future for Loading {
    type Output = Result<Engine>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // The waker is there before the look: a load that ends after the look finds it.
        if let Some(place) = &self.place {
            place.set(context.waker());
        }
        match self.look(0) {
            Ok((false, _)) => {}
            Ok((true, _)) => return Poll::Ready(Ok(self.engine.clone())),
            Err(error) => return Poll::Ready(Err(error)),
        }
        if self.place.is_none() {
            match Place::of_load(&self.engine, context.waker()) {
                Ok(place) => self.place = Some(place),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Pending
    }
}
