//! What a task has found so far: filled by the thread that works on it, read by any.
//!
//! ```text
//!   items    [ done | done | -- | done ]      values   [ 0.3 | NaN | NaN | 0.9 ]   width 1
//!   events   TEXT 3 "Par" <- FINISHED 0 <- ...          read from the front
//! ```

use super::scored::Scored;
use crate::engine::Queue;
use crate::error::{printable, Code, Error, Result};
use crate::prefix_h::{
    prefix_job_totals, prefix_result_info, Sized32, PREFIX_FINISH_CANCELLED, PREFIX_FINISH_ERROR,
};
use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

pub struct Item {
    pub info: prefix_result_info,
    pub message: String,
    pub text: String,
    /// Its tokens, with options logprobs or top_logprobs.
    pub scored: Vec<Scored>,
}

/// When it happened, on the clock of prefix_event.
pub struct Timed {
    pub time_us: i64,
    pub event: Event,
}

pub enum Event {
    /// More of the text of an item.
    Text { item: usize, text: String },
    /// An item can be read.
    Ended { item: usize },
}

/// A tag for a queue of the caller.
struct Watcher {
    queue: Queue,
    tag: i64,
}

impl Watcher {
    fn tell(&self) {
        // A queue that has no memory for a tag cannot be told.
        let _ = self.queue.post(self.tag);
    }
}

pub struct Found {
    pub width: usize,
    pub items: Vec<Option<Item>>,
    /// Those of an item follow each other; NaN where it failed or is unfinished.
    pub values: Vec<f32>,
    pub totals: prefix_job_totals,
    pub finished: usize,
    pub is_done: bool,
    submitted: Instant,
    /// The tokens of texts that are being written, as far as their text was given out.
    begun: BTreeMap<usize, Vec<Scored>>,
    events: VecDeque<Timed>,
    watchers: Vec<Watcher>,
    events_watcher: Option<Watcher>,
    /// A reader has found no event, and waits for the tag that tells of the next.
    is_awaited: bool,
}

pub struct Results {
    found: Mutex<Found>,
    changed: Condvar,
}

fn no_memory() -> Error {
    Error::new(Code::OutOfMemory, "there is no memory for the results")
}

/// A list of this length, or an error where there is no memory.
fn filled<T>(count: Option<usize>, value: impl FnMut() -> T) -> Result<Vec<T>> {
    let mut list = Vec::new();
    let count = count.filter(|n| list.try_reserve_exact(*n).is_ok());
    let count = count.ok_or_else(no_memory)?;
    list.resize_with(count, value);
    Ok(list)
}

/// Microseconds of the monotonic clock, which libprefix tells too.
fn monotonic_us() -> i64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a timespec to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}

/// When a wait of so many milliseconds ends; None: never.
pub fn until(timeout_ms: i64) -> Option<Instant> {
    let ms = u64::try_from(timeout_ms).ok()?;
    Instant::now().checked_add(Duration::from_millis(ms))
}

/// How an item with an error ends, as a request of the engine does: whatever was not cancelled has
/// failed, a deadline too.
pub fn finish_of(error: Code) -> i32 {
    match error {
        Code::Cancelled => PREFIX_FINISH_CANCELLED,
        _ => PREFIX_FINISH_ERROR,
    }
}

impl Item {
    pub fn failed(error: &Error) -> Item {
        Item {
            info: prefix_result_info {
                status: error.code as i32,
                finish: finish_of(error.code),
                ..prefix_result_info::sized()
            },
            message: printable(&error.message),
            text: String::new(),
            scored: Vec::new(),
        }
    }

    /// The error of an item that failed.
    pub fn check(&self) -> Result<()> {
        match self.info.status {
            0 => Ok(()),
            status => Err(Error::new(Code::from_status(status), &self.message)),
        }
    }
}

impl Results {
    pub fn new(items: usize, width: usize) -> Result<Results> {
        // Each item ends once; pieces of texts come on top.
        let mut events = VecDeque::new();
        if events.try_reserve_exact(items).is_err() {
            return Err(no_memory());
        }
        Ok(Results {
            found: Mutex::new(Found {
                width,
                items: filled(Some(items), || None)?,
                values: filled(items.checked_mul(width), || f32::NAN)?,
                totals: prefix_job_totals {
                    requests: items as i64,
                    ..prefix_job_totals::sized()
                },
                finished: 0,
                is_done: false,
                submitted: Instant::now(),
                begun: BTreeMap::new(),
                events,
                watchers: Vec::new(),
                events_watcher: None,
                is_awaited: false,
            }),
            changed: Condvar::new(),
        })
    }

    pub fn lock(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Changes what was found, and tells those who wait.
    pub fn change<T>(&self, body: impl FnOnce(&mut Found) -> T) -> T {
        let mut found = self.lock();
        let result = body(&mut found);
        found.tell_of_events();
        drop(found);
        self.changed.notify_all();
        result
    }

    /// All items have their result.
    pub fn end(&self) {
        self.change(|found| {
            found.is_done = true;
            found.totals.total_us = found.submitted.elapsed().as_micros() as i64;
            for watcher in found.watchers.drain(..) {
                watcher.tell();
            }
        });
    }

    /// Whether all is done before the time is over.
    pub fn wait(&self, until: Option<Instant>) -> bool {
        self.wait_for(until, |found| found.is_done.then_some(()))
            .is_some()
    }

    fn wait_for<T>(
        &self,
        until: Option<Instant>,
        mut ready: impl FnMut(&mut Found) -> Option<T>,
    ) -> Option<T> {
        let mut found = self.lock();
        loop {
            if let Some(value) = ready(&mut found) {
                return Some(value);
            }
            found = match until {
                None => self.changed.wait(found).unwrap_or_else(|e| e.into_inner()),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return None;
                    }
                    let (found, _) = self
                        .changed
                        .wait_timeout(found, left)
                        .unwrap_or_else(|e| e.into_inner());
                    found
                }
            }
        }
    }

    /// Gives the oldest event to `take`, which says whether it goes. Err: TIMEOUT or NO_EVENT.
    pub fn next_event(
        &self,
        timeout_ms: i64,
        take: impl FnOnce(&Found, &Timed) -> Result<bool>,
    ) -> Result<()> {
        let mut take = Some(take);
        let next = self.wait_for(until(timeout_ms), |found| match found.events.front() {
            Some(event) => {
                let gone = take.take()?(found, event);
                if matches!(gone, Ok(true)) {
                    found.events.pop_front();
                }
                Some(gone.map(|_| ()))
            }
            None if found.is_done => Some(Err(Error::new(
                Code::NoEvent,
                "there will be no more events",
            ))),
            None => None,
        });
        next.unwrap_or_else(|| {
            self.change(|found| found.is_awaited = true);
            Err(Error::new(
                Code::Timeout,
                format!("no event within {timeout_ms} ms"),
            ))
        })
    }

    pub fn notify(&self, queue: Queue, tag: i64) {
        let watcher = Watcher { queue, tag };
        let mut found = self.lock();
        match found.is_done {
            true => watcher.tell(),
            false => found.watchers.push(watcher),
        }
    }

    pub fn notify_events(&self, queue: Queue, tag: i64) {
        self.change(|found| {
            found.events_watcher = Some(Watcher { queue, tag });
            found.is_awaited = true;
        });
    }
}

impl Found {
    /// The result of an item, once.
    pub fn put(&mut self, index: usize, mut item: Item, user_tag: i64) {
        if self.items[index].is_some() {
            return;
        }
        item.info.user_tag = user_tag;
        if item.info.total_us == 0 {
            // The engine never had it.
            item.info.total_us = self.submitted.elapsed().as_micros() as i64;
        }
        self.begun.remove(&index);
        self.totals.failed += i64::from(item.info.status != 0);
        self.finished += 1;
        self.items[index] = Some(item);
        self.put_event(Event::Ended { item: index });
    }

    pub fn put_text(&mut self, item: usize, text: String) {
        if !text.is_empty() {
            self.put_event(Event::Text { item, text });
        }
    }

    /// Tokens that the next text of an item brings.
    pub fn put_scored(&mut self, item: usize, scored: Vec<Scored>) {
        if !scored.is_empty() {
            self.begun.entry(item).or_default().extend(scored);
        }
    }

    /// The tokens of an item, as far as they are there.
    pub fn scored(&self, item: usize) -> &[Scored] {
        match self.items.get(item) {
            Some(Some(done)) => &done.scored,
            _ => self.begun.get(&item).map_or(&[], Vec::as_slice),
        }
    }

    fn put_event(&mut self, event: Event) {
        self.events.push_back(Timed {
            time_us: monotonic_us(),
            event,
        });
    }

    pub fn values_of(&mut self, item: usize) -> &mut [f32] {
        &mut self.values[item * self.width..][..self.width]
    }

    fn tell_of_events(&mut self) {
        let has_news = self.is_done || !self.events.is_empty();
        if has_news && self.is_awaited {
            if let Some(watcher) = &self.events_watcher {
                self.is_awaited = false;
                watcher.tell();
            }
        }
    }

    pub fn submitted(&self) -> Instant {
        self.submitted
    }

    /// So far, or when all was done.
    pub fn totals(&self) -> prefix_job_totals {
        let mut totals = self.totals;
        if !self.is_done {
            totals.total_us = self.submitted.elapsed().as_micros() as i64;
        }
        totals
    }

    pub fn add(&mut self, t: &prefix_job_totals) {
        self.totals.tokens_given += t.tokens_given;
        self.totals.tokens_computed += t.tokens_computed;
        self.totals.tokens_cached += t.tokens_cached;
        self.totals.tokens_shared += t.tokens_shared;
        self.totals.tokens_generated += t.tokens_generated;
        self.totals.steps += t.steps;
        self.totals.rows += t.rows;
    }

    /// Places of the best of some values, with these values.
    pub fn ranking(&self, first: usize, count: usize, top_n: usize) -> (Vec<i64>, Vec<f32>) {
        let values = &self.values[first..first + count];
        let mut order: Vec<usize> = (0..count).filter(|at| !values[*at].is_nan()).collect();
        // Stable: equal values stay in the order of the input.
        order.sort_by(|a, b| {
            values[*b]
                .partial_cmp(&values[*a])
                .unwrap_or(Ordering::Equal)
        });
        if top_n != 0 {
            order.truncate(top_n);
        }
        order.iter().map(|at| (*at as i64, values[*at])).unzip()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_cancelled_finishes_so() {
        let finish = |code| Item::failed(&Error::new(code, "")).info.finish;
        assert_eq!(finish(Code::Cancelled), PREFIX_FINISH_CANCELLED);
        for code in [Code::Deadline, Code::EngineFailed, Code::PromptTooLong] {
            assert_eq!(finish(code), PREFIX_FINISH_ERROR, "{code:?}");
        }
    }

    #[test]
    fn ties_keep_the_order_of_the_input() {
        let results = Results::new(8, 1).unwrap();
        let mut found = results.lock();
        found.values = vec![1.0, 2.0, 2.0, f32::NAN, 0.5, -0.0, 0.0, 0.5];
        let order = |first, count, top| found.ranking(first, count, top).0;
        assert_eq!(order(0, 4, 0), [1, 2, 0]);
        assert_eq!(order(0, 4, 2), [1, 2]);
        assert_eq!(order(4, 4, 0), [0, 3, 1, 2]);
        assert_eq!(order(8, 0, 0), [0i64; 0]);
        assert_eq!(found.ranking(3, 2, 0), (vec![1], vec![0.5]));
    }
}
