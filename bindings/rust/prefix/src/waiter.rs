//! The one thread of the process that waits for jobs, tasks, their events and loads, whatever their number: it takes
//! their tags from a completion queue and wakes who awaits them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

use prefix_sys as sys;

use crate::awaited::{Awaited, Queue};
use crate::error::{call, Error, Result, Status};
use crate::raw::{caught, Handle};
use crate::Engine;

static WAITER: Mutex<Option<Arc<Waiter>>> = Mutex::new(None);

#[derive(Debug)]
pub(crate) struct Waiter {
    queue: Queue,
    next: AtomicI64,
    wakers: Mutex<HashMap<i64, Waker>>,
}

// Safety: the header lets any thread call every function of a queue at any time.
unsafe impl Sync for Waiter {}

/// A place in the queue; giving it up is dropping it.
#[derive(Debug)]
pub(crate) struct Place {
    waiter: Arc<Waiter>,
    tag: i64,
}

impl Waiter {
    fn get() -> Result<Arc<Waiter>> {
        let mut guard = WAITER.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(waiter) = &*guard {
            return Ok(waiter.clone());
        }
        let waiter = Arc::new(Waiter {
            // Safety: writes a handle.
            queue: Handle::create(|out, err| unsafe { sys::prefix_queue_create(out, err) })?,
            next: AtomicI64::new(1),
            wakers: Mutex::default(),
        });
        let theirs = waiter.clone();
        std::thread::Builder::new()
            .name("prefix-wait".into())
            .spawn(move || theirs.run())
            .map_err(|why| {
                let sentence = format!("cannot start a thread that waits: {why}");
                Error::new(Status::OutOfMemory, "", sentence)
            })?;
        *guard = Some(waiter.clone());
        Ok(waiter)
    }

    fn run(&self) {
        loop {
            let mut tag = 0;
            // Safety: a live handle, since this thread owns the waiter.
            if call(|err| unsafe { sys::prefix_queue_next(self.queue.get(), -1, &mut tag, err) })
                .is_err()
            {
                return; // the library is of no use any more, as after a fork
            }
            let waker = self.wakers().remove(&tag);
            if let Some(waker) = waker {
                caught(|| waker.wake()); // all others wait for this thread too
            }
        }
    }

    /// What a waker does when it is cloned or dropped is its own, and it may come back here: both without the lock.
    fn set(&self, tag: i64, waker: &Waker) {
        let waker = waker.clone();
        let before = self.wakers().insert(tag, waker);
        drop(before);
    }

    fn forget(&self, tag: i64) {
        let waker = self.wakers().remove(&tag);
        drop(waker);
    }

    fn wakers(&self) -> MutexGuard<'_, HashMap<i64, Waker>> {
        self.wakers.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Place {
    /// The waker is called when all is done, at once when it is.
    pub fn of_end(source: &dyn Awaited, waker: &Waker) -> Result<Place> {
        Place::new(waker, |queue, tag| source.notify(queue, tag))
    }

    /// The same when there is an event to read, and again each time after there was none. A job or a task has one
    /// such place: the last. It is that of its readers.
    pub fn of_events(source: &dyn Awaited, waker: &Waker) -> Result<Place> {
        Place::new(waker, |queue, tag| source.notify_events(queue, tag))
    }

    /// The waker is called when the load of an engine has ended, at once when it has.
    pub fn of_load(engine: &Engine, waker: &Waker) -> Result<Place> {
        Place::new(waker, |queue, tag| {
            // Safety: live handles.
            call(|err| unsafe { sys::prefix_engine_notify(engine.raw(), queue.get(), tag, err) })
        })
    }

    fn new(waker: &Waker, notify: impl FnOnce(&Queue, i64) -> Result<()>) -> Result<Place> {
        let waiter = Waiter::get()?;
        let tag = waiter.next.fetch_add(1, Ordering::Relaxed);
        waiter.set(tag, waker);
        let place = Place { waiter, tag };
        notify(&place.waiter.queue, tag)?;
        Ok(place)
    }

    /// This waker is called from now on, once.
    pub fn set(&self, waker: &Waker) {
        self.waiter.set(self.tag, waker);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.waiter.forget(self.tag);
    }
}
