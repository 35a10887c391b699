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
//!
//! A turn of the thread is a tag, which most often is a token of a text, so it does not go through all
//! tasks: it ends those whose deadline has come, and looks at one of those that want it.

use super::work::{Next, Work};
use crate::engine::Queue;
use crate::error::{Code, Error, Result};
use crate::panics::{panic_text, quiet};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How often the thread looks at a task without a tag: whether the engine's queue has room again, too.
const LOOK: Duration = Duration::from_millis(20);
/// Chat templates and regular expressions go deep.
const STACK_BYTES: usize = 8 << 20;

struct Entry<W> {
    work: W,
    deadline: Option<Instant>,
}

struct Tasks<W> {
    /// Of the thread that runs; without a queue there is none.
    queue: Option<Arc<Queue>>,
    entries: BTreeMap<i64, Entry<W>>,
    /// Those that have not passed, with their tags.
    deadlines: BTreeSet<(Instant, i64)>,
    /// Tags of tasks that have something to do, and perhaps no tag in the queue that says so.
    looks: BTreeSet<i64>,
    /// The one of them that had its turn last.
    looked_at: i64,
    /// Places that were asked for and not taken yet.
    promised: usize,
    last_tag: i64,
}

static TASKS: Mutex<Tasks<Arc<Work>>> = Mutex::new(Tasks::new());

fn tasks() -> MutexGuard<'static, Tasks<Arc<Work>>> {
    TASKS.lock().unwrap_or_else(|e| e.into_inner())
}

impl<W> Tasks<W> {
    const fn new() -> Tasks<W> {
        Tasks {
            queue: None,
            entries: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            looks: BTreeSet::new(),
            looked_at: 0,
            promised: 0,
            last_tag: 0,
        }
    }

    fn add(&mut self, tag: i64, work: W, deadline: Option<Instant>) {
        self.deadlines.extend(deadline.map(|end| (end, tag)));
        self.looks.insert(tag);
        self.entries.insert(tag, Entry { work, deadline });
    }

    fn remove(&mut self, tag: i64) -> Option<W> {
        let entry = self.entries.remove(&tag)?;
        if let Some(end) = entry.deadline {
            self.deadlines.remove(&(end, tag));
        }
        self.looks.remove(&tag);
        Some(entry.work)
    }

    fn set_looks(&mut self, tag: i64, looks: bool) {
        match looks && self.entries.contains_key(&tag) {
            true => self.looks.insert(tag),
            false => self.looks.remove(&tag),
        };
    }

    /// When the thread goes on without a tag; None: it does not. `has_room`: the task that it looked
    /// at last could go on, and so perhaps can the next one.
    fn until(&self, now: Instant, has_room: bool) -> Option<Instant> {
        let promise = (self.promised > 0).then_some(LOOK);
        let look = match self.looks.len() {
            0 => None,
            _ if has_room => Some(Duration::ZERO),
            looks => Some(LOOK / u32::try_from(looks).unwrap_or(u32::MAX)),
        };
        let soon = [promise, look].into_iter().flatten().min();
        let deadline = self.deadlines.first().map(|(end, _)| *end);
        let times = [soon.map(|soon| now + soon), deadline];
        times.into_iter().flatten().min()
    }

    /// A task whose deadline has come, once.
    fn late(&mut self, now: Instant) -> Option<i64> {
        let (end, tag) = *self.deadlines.first()?;
        (end <= now).then(|| {
            self.deadlines.pop_first();
            tag
        })
    }

    /// The next one to look at, in turn.
    fn next_look(&mut self) -> Option<i64> {
        let behind = (Bound::Excluded(self.looked_at), Bound::Unbounded);
        let next = self.looks.range(behind).next();
        self.looked_at = *next.or_else(|| self.looks.first())?;
        Some(self.looked_at)
    }
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
        let deadline = work.deadline;
        tasks().add(self.tag, work, deadline);
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
    let mut has_room = false;
    loop {
        let Some(until) = to_wait_for(has_room) else {
            return;
        };
        let timeout = match until.map(|end| end.saturating_duration_since(Instant::now())) {
            None => -1,
            Some(Duration::ZERO) => 0,
            // A millisecond more than what is left: no wait that ends before its time.
            Some(left) => left.as_millis() as i64 + 1,
        };
        match queue.next(timeout) {
            Ok(Some(tag)) => {
                step(queue, tag);
            }
            Ok(None) => {}
            Err(e) if e.code == Code::OutOfMemory => {}
            // The queue is gone: the process is being taken down.
            Err(_) => return,
        }
        // Also between the tags of busy tasks, which may leave no gap.
        while let Some(tag) = late() {
            step(queue, tag);
        }
        // One of them: while thousands are asked whether they have room, no text goes on.
        has_room = next_look().is_some_and(|tag| !step(queue, tag));
    }
}

/// When to go on without a tag; None when there are no tasks, and the thread is to end.
fn to_wait_for(has_room: bool) -> Option<Option<Instant>> {
    let mut tasks = tasks();
    if tasks.entries.is_empty() && tasks.promised == 0 {
        tasks.queue = None;
        return None;
    }
    Some(tasks.until(Instant::now(), has_room))
}

fn late() -> Option<i64> {
    tasks().late(Instant::now())
}

fn next_look() -> Option<i64> {
    tasks().next_look()
}

/// Whether the task is to be looked at again.
fn step(queue: &Queue, tag: i64) -> bool {
    let Some(work) = tasks().entries.get(&tag).map(|entry| entry.work.clone()) else {
        return false;
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
        let results = work.results.clone();
        let entry = tasks().remove(tag);
        // With an engine, perhaps: not under the lock, and before the caller is told, who may release
        // his and count on the engine to be gone.
        drop((entry, work));
        results.end();
        return false;
    }
    // Behind the tags of others.
    let is_lost = next.more && queue.post(tag).is_err();
    let looks = next.is_blocked || is_lost;
    tasks().set_looks(tag, looks);
    looks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_late(tasks: &mut Tasks<()>, now: Instant) -> Vec<i64> {
        std::iter::from_fn(|| tasks.late(now)).take(9).collect()
    }

    /// Tasks with these tags, that the thread has looked at.
    fn running(now: Instant, deadlines: &[(i64, Option<u64>)]) -> Tasks<()> {
        let mut tasks = Tasks::new();
        for (tag, seconds) in deadlines {
            let end = seconds.map(|s| now + Duration::from_secs(s));
            tasks.add(*tag, (), end);
            tasks.set_looks(*tag, false);
        }
        tasks
    }

    #[test]
    fn every_deadline_comes_once_and_in_its_time() {
        let now = Instant::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        let ends = [(1, Some(9)), (2, None), (3, Some(5)), (4, Some(5))];
        let mut tasks = running(now, &ends);
        assert_eq!(tasks.until(now, false), Some(after(5)));
        assert_eq!(all_late(&mut tasks, after(4)), [0i64; 0]);
        assert_eq!(all_late(&mut tasks, after(5)), [3, 4]);
        assert_eq!(all_late(&mut tasks, after(5)), [0i64; 0], "once");
        assert_eq!(tasks.until(now, false), Some(after(9)));
        assert_eq!(all_late(&mut tasks, after(9)), [1]);
        assert_eq!(tasks.until(now, false), None, "the rest has no deadline");
        assert_eq!(tasks.entries.len(), 4, "they end by their steps");
    }

    #[test]
    fn nothing_is_left_of_a_task_that_has_ended() {
        let now = Instant::now();
        let far = now + Duration::from_secs(9);
        let mut tasks = running(now, &[(1, Some(5)), (2, Some(9))]);
        tasks.set_looks(1, true);
        assert_eq!(tasks.remove(1), Some(()));
        assert_eq!(tasks.remove(1), None);
        assert_eq!(tasks.next_look(), None);
        tasks.set_looks(1, true);
        assert_eq!(tasks.next_look(), None);
        assert_eq!(tasks.until(now, true), Some(far));
        assert_eq!(all_late(&mut tasks, far), [2]);
        tasks.remove(2);
        assert!(tasks.entries.is_empty() && tasks.deadlines.is_empty() && tasks.looks.is_empty());
    }

    #[test]
    fn those_to_look_at_have_their_turn_one_by_one() {
        let now = Instant::now();
        let mut tasks = running(now, &[(1, None), (2, None), (3, None), (4, None)]);
        assert_eq!((tasks.next_look(), tasks.until(now, true)), (None, None));
        for tag in [1, 2, 4] {
            tasks.set_looks(tag, true);
        }
        let turns = |tasks: &mut Tasks<()>, n| -> Vec<_> {
            (0..n).filter_map(|_| tasks.next_look()).collect()
        };
        assert_eq!(turns(&mut tasks, 5), [1, 2, 4, 1, 2]);
        tasks.set_looks(1, false);
        tasks.add(5, (), None);
        assert_eq!(turns(&mut tasks, 4), [4, 5, 2, 4], "a new one, too");
        tasks.set_looks(4, false);
        assert_eq!(turns(&mut tasks, 3), [5, 2, 5]);
    }

    #[test]
    fn the_thread_wakes_for_those_to_look_at_and_for_promises() {
        let now = Instant::now();
        let mut tasks = running(now, &[(1, Some(9)), (2, None)]);
        tasks.promised = 1;
        assert_eq!(tasks.until(now, false), Some(now + LOOK));
        tasks.promised = 0;
        tasks.set_looks(2, true);
        assert_eq!(tasks.until(now, false), Some(now + LOOK));
        tasks.set_looks(1, true);
        assert_eq!(
            tasks.until(now, false),
            Some(now + LOOK / 2),
            "each in LOOK"
        );
        assert_eq!(
            tasks.until(now, true),
            Some(now),
            "no wait while there is room"
        );
    }
}
