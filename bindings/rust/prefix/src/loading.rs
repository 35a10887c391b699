//! An engine whose model is still being loaded.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use prefix_sys as sys;

use crate::error::{call, Result, Status};
use crate::options::raw_or_null;
use crate::raw::{milliseconds, path_text, Handle};
use crate::source::Bytes;
use crate::waiter::Place;
use crate::{library, Engine, Options, Source};

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

impl Engine {
    /// Starts to load a model and returns at once: to see how far it is, to give up, or to await it.
    ///
    /// ```no_run
    /// # fn main() -> prefix::Result<()> {
    /// let loading = prefix::Engine::load("model.gguf", None)?;
    /// while !loading.wait_for(std::time::Duration::from_millis(200))? {
    ///     eprintln!("{:.0} %", loading.fraction()? * 100.0);
    /// }
    /// let engine = loading.wait()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn load(path: impl AsRef<Path>, options: Option<&Options>) -> Result<Loading> {
        library::ready()?;
        let path = path_text(path.as_ref(), "prefix_engine_open")?;
        let options = raw_or_null(options);
        // Safety: a text with its length, and options that outlive the call or NULL.
        let handle = Handle::create(|out, err| unsafe {
            sys::prefix_engine_open(path.as_ptr().cast(), path.len(), options, out, err)
        })?;
        Ok(Loading::new(Engine::owning(handle), Vec::new()))
    }

    /// The same from files in memory. The source may be changed or dropped at once; its bytes are kept until the
    /// load has ended.
    pub fn load_source(source: &Source, options: Option<&Options>) -> Result<Loading> {
        let options = raw_or_null(options);
        // Safety: live handles, and options that outlive the call or NULL.
        let handle = Handle::create(|out, err| unsafe {
            sys::prefix_engine_open_source(source.raw(), options, out, err)
        })?;
        Ok(Loading::new(Engine::owning(handle), source.kept()))
    }
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
