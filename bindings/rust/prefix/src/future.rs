//! Waiting for a job without blocking: a future with a thread that wakes it.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::error::{Error, Result, Status};
use crate::Job;

/// How soon a thread notices that nobody waits any more.
const SLICE: Duration = Duration::from_millis(50);

/// Ready when all requests of a job are done; made by [`Job::finished`].
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited"]
pub struct Finished {
    job: Job,
    thread: Option<Arc<Shared>>,
}

/// What the future and its thread have in common.
#[derive(Debug, Default)]
struct Shared {
    waker: Mutex<Option<Waker>>,
    abandoned: AtomicBool,
}

impl Shared {
    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Finished {
    pub(crate) fn new(job: Job) -> Finished {
        Finished { job, thread: None }
    }

    fn start_thread(&mut self, waker: Waker) -> Result<()> {
        let shared = Arc::new(Shared {
            waker: Mutex::new(Some(waker)),
            ..Shared::default()
        });
        let watch = self.job.watch()?;
        let theirs = shared.clone();
        let run = move || {
            while !theirs.abandoned.load(Ordering::Relaxed) {
                if watch.ended_within(SLICE) {
                    let waker = theirs.waker().take();
                    if let Some(waker) = waker {
                        waker.wake();
                    }
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("prefix-wait".into())
            .spawn(run)
            .map_err(|why| {
                Error::new(
                    Status::OutOfMemory,
                    "",
                    format!("cannot start a thread that waits: {why}"),
                )
            })?;
        self.thread = Some(shared);
        Ok(())
    }
}

impl Future for Finished {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // The waker is there before the look: a job that ends after the look finds it.
        if let Some(shared) = &self.thread {
            *shared.waker() = Some(context.waker().clone());
        }
        match self.job.wait_for(Duration::ZERO) {
            Ok(false) => {}
            Ok(true) => return Poll::Ready(Ok(())),
            Err(error) => return Poll::Ready(Err(error)),
        }
        if self.thread.is_none() {
            if let Err(error) = self.start_thread(context.waker().clone()) {
                return Poll::Ready(Err(error));
            }
        }
        Poll::Pending
    }
}

impl Drop for Finished {
    fn drop(&mut self) {
        if let Some(shared) = &self.thread {
            shared.abandoned.store(true, Ordering::Relaxed);
        }
    }
}
