//! The thread that works on all tasks of the process. It is there while tasks run and ends with the
//! last of them.
//!
//! ```text
//!   jobs of the engine ──tag──┐
//!   submit, cancel ────tag────┼──> queue ──> thread: one step of the task with that tag
//!   a task with more to encode ┘
//! ```
//!
//! A queue may have no memory for a tag, or for saying that its time is over. So the thread goes on
//! after such an error, and looks by itself at every task whose tag may be lost.

use super::work::{Next, Work};
use crate::engine::Queue;
use crate::error::{Code, Error, Result};
use crate::panics::{panic_text, quiet};
use std::collections::BTreeMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How often the thread looks without a tag: whether the engine's queue has room again, too.
const LOOK: Duration = Duration::from_millis(20);
/// Chat templates and regular expressions go deep.
const STACK_BYTES: usize = 8 << 20;

struct Entry {
    work: Arc<Work>,
    /// Until it has passed.
    deadline: Option<Instant>,
    /// There is something to do, and perhaps no tag that says so.
    looks: bool,
}

struct Tasks {
    /// Of the thread that runs; without a queue there is none.
    queue: Option<Arc<Queue>>,
    entries: BTreeMap<i64, Entry>,
    /// Places that were asked for and not taken yet.
    promised: usize,
    last_tag: i64,
}

static TASKS: Mutex<Tasks> = Mutex::new(Tasks {
    queue: None,
    entries: BTreeMap::new(),
    promised: 0,
    last_tag: 0,
});

fn tasks() -> MutexGuard<'static, Tasks> {
    TASKS.lock().unwrap_or_else(|e| e.into_inner())
}

/// A tag for a task that is about to start; the thread stays while there is one.
pub struct Place {
    pub queue: Arc<Queue>,
    pub tag: i64,
}

impl Place {
    pub fn new(make_queue: impl FnOnce() -> Result<Queue>) -> Result<Place> {
        let mut tasks = tasks();
        let queue = match &tasks.queue {
            Some(queue) => queue.clone(),
            None => {
                let queue = Arc::new(make_queue()?);
                let its = queue.clone();
                std::thread::Builder::new()
                    .name("prefix-tasks".into())
                    .stack_size(STACK_BYTES)
                    .spawn(move || quiet(|| run(&its)))
                    .map_err(|e| {
                        Error::new(Code::OutOfMemory, format!("no thread for tasks: {e}"))
                    })?;
                tasks.queue.insert(queue).clone()
            }
        };
        tasks.last_tag += 1;
        let tag = tasks.last_tag;
        // Wakes the thread, which looks from time to time as long as there is a promise.
        queue.post(tag)?;
        tasks.promised += 1;
        Ok(Place { queue, tag })
    }

    /// The thread goes on with the task.
    pub fn take(self, work: Arc<Work>) {
        let entry = Entry {
            deadline: work.deadline,
            work,
            looks: true,
        };
        tasks().entries.insert(self.tag, entry);
        // Dropping the place wakes the thread.
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        tasks().promised -= 1;
        let _ = self.queue.post(self.tag);
    }
}

fn run(queue: &Queue) {
    loop {
        let Some(until) = to_wait_for() else {
            return;
        };
        let timeout = match until {
            None => -1,
            // A millisecond more than what is left: no wait that ends before its time.
            Some(until) => until.saturating_duration_since(Instant::now()).as_millis() as i64 + 1,
        };
        match queue.next(timeout) {
            Ok(Some(tag)) => step(queue, tag),
            Ok(None) => {}
            Err(e) if e.code == Code::OutOfMemory => {}
            // The queue is gone: the process is being taken down.
            Err(_) => return,
        }
        // Also between the tags of busy tasks, which may leave no gap.
        for tag in late() {
            step(queue, tag);
        }
    }
}

/// When to look again without a tag; None when there are no tasks, and the thread is to end.
fn to_wait_for() -> Option<Option<Instant>> {
    let mut tasks = tasks();
    if tasks.entries.is_empty() && tasks.promised == 0 {
        tasks.queue = None;
        return None;
    }
    let looks = tasks.promised > 0 || tasks.entries.values().any(|entry| entry.looks);
    let look = looks.then(|| Instant::now() + LOOK);
    let deadlines = tasks.entries.values().filter_map(|e| e.deadline);
    Some(deadlines.chain(look).min())
}

/// Tasks whose deadline has come, and those to look at.
fn late() -> Vec<i64> {
    let now = Instant::now();
    let mut tasks = tasks();
    let late = |(tag, entry): (&i64, &mut Entry)| {
        let is_late = entry.deadline.take_if(|end| *end <= now).is_some();
        (is_late || entry.looks).then_some(*tag)
    };
    tasks.entries.iter_mut().filter_map(late).collect()
}

fn step(queue: &Queue, tag: i64) {
    let Some(work) = tasks().entries.get(&tag).map(|entry| entry.work.clone()) else {
        return;
    };
    let next = catch_unwind(AssertUnwindSafe(|| work.step(queue, tag))).unwrap_or_else(|cause| {
        let text = format!("a bug in the library: {}", panic_text(&*cause));
        std::mem::forget(cause); // dropping it may panic in theory
        work.abandon(Error::new(Code::Internal, text));
        Next {
            is_done: true,
            ..Next::default()
        }
    });
    if next.is_done {
        let entry = tasks().entries.remove(&tag);
        drop(entry); // with an engine, perhaps: not under the lock
        return;
    }
    // Behind the tags of others.
    let is_lost = next.more && queue.post(tag).is_err();
    if let Some(entry) = tasks().entries.get_mut(&tag) {
        entry.looks = next.is_blocked || is_lost;
    }
}
