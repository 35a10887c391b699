//! A task at work: a step at a time, chunk by chunk, never waiting for the engine.
//!
//! ```text
//!   items in the order that shares most
//!   |=== done ===|== chunk in work ==|== chunk queued ==|... not encoded yet ...|
//!                  while the engine computes one chunk, the next is encoded
//! ```

mod items;
mod list_state;
mod lists;
mod requests;
mod state;
mod texts;

pub use self::state::Work;

use self::list_state::ListWork;
use self::state::{Progress, Running};
use self::texts::{Piece, Texts};
use super::results::Item;
use super::setup::CHUNKS;
use crate::engine::{NextEvent, Queue};
use crate::error::{Code, Error, Result};
use crate::prefix_h::{
    PREFIX_EVENT_ERROR, PREFIX_EVENT_FINISHED, PREFIX_EVENT_LOST, PREFIX_EVENT_TOKEN,
};

/// Pieces of texts, and results, that wait for those who read: more would be large lists.
const AT_ONCE: usize = 1024;

/// What is to be done after a step; of a task that is done, to end its results.
#[derive(Default)]
pub struct Next {
    pub is_done: bool,
    /// There is more to encode.
    pub more: bool,
    /// Others have filled the engine's queue, and nothing tells when there is room.
    pub is_blocked: bool,
}

/// Why a task that has begun ends. An engine that takes no more calls was shut down meanwhile: its
/// requests end as cancelled, and so do those that it was not given yet.
fn while_it_ran(error: Error) -> Error {
    match error.code {
        Code::Misuse => Error::new(
            Code::Cancelled,
            "the engine was shut down while the task ran",
        ),
        _ => error,
    }
}

impl Work {
    /// The first step: an error means that nothing has begun.
    pub fn start(&self, queue: &Queue, tag: i64) -> Result<()> {
        let mut progress = self.progress();
        if progress.next < self.inputs.len() && !self.is_cancelled() {
            self.submit(&mut progress, queue, tag)?;
        }
        Ok(())
    }

    /// One step: collects what is finished, encodes at most one chunk. The engine puts `tag` into
    /// `queue` when there is more to do.
    pub fn step(&self, queue: &Queue, tag: i64) -> Next {
        let mut progress = self.progress();
        let mut next = Next::default();
        self.look_at_the_end(&mut progress);
        self.collect(&mut progress);
        let is_room = progress.running.len() < CHUNKS && progress.over.is_none();
        if is_room && (progress.waiting.is_some() || progress.next < self.inputs.len()) {
            match self.submit(&mut progress, queue, tag) {
                Ok(is_blocked) => next.is_blocked = is_blocked,
                Err(error) => self.give_up(&mut progress, while_it_ran(error)),
            }
        }
        let has_more = progress.next < self.inputs.len();
        next.more = has_more && progress.running.len() < CHUNKS && !next.is_blocked;
        let is_idle = progress.running.is_empty() && progress.waiting.is_none();
        next.is_done = is_idle && progress.next == self.inputs.len();
        next
    }

    /// After a panic: what is unfinished gets this error, and the task is done.
    pub fn abandon(&self, error: Error) {
        let mut progress = self.progress();
        self.give_up(&mut progress, error.clone());
        let lost = std::mem::take(&mut progress.running);
        self.fail_sent(
            &mut progress.lists,
            lost.iter().flat_map(|r| &r.items),
            &error,
        );
    }

    /// The next chunk to the engine; whether its queue was full.
    fn submit(&self, progress: &mut Progress, queue: &Queue, tag: i64) -> Result<bool> {
        let chunk = match progress.waiting.take() {
            Some(chunk) => chunk,
            None => self.encode(progress)?,
        };
        if chunk.items.is_empty() {
            return Ok(false); // all of them were bad
        }
        // Before the engine takes its own time, so that the sum of both never exceeds what has passed.
        let submitted_us = self.results.lock().submitted().elapsed().as_micros() as i64;
        let engine = &self.setup.engine;
        let texts = Texts::new(&self.setup, chunk.items.len());
        let started = texts.and_then(|texts| {
            let job = engine.submit(&chunk.batch)?;
            let told = job.notify_events(queue, tag);
            if told.is_err() {
                let _ = job.cancel(); // nobody would hear of it
            }
            told.map(|()| (job, texts))
        });
        let (job, texts) = match started {
            Ok(started) => started,
            Err(e) => {
                progress.waiting = Some(chunk);
                return match e.code {
                    Code::QueueFull => Ok(true),
                    _ => Err(e),
                };
            }
        };
        progress.running.push(Running {
            job,
            texts,
            items: chunk.items,
            submitted_us,
        });
        Ok(false)
    }

    /// Whether the caller or the deadline has ended the task.
    fn look_at_the_end(&self, progress: &mut Progress) {
        if progress.over.is_some() {
            return;
        }
        if self.is_cancelled() {
            self.give_up(
                progress,
                Error::new(Code::Cancelled, "the task was cancelled"),
            );
        } else if self.is_late() {
            let ms = self.setup.options.deadline_ms;
            let message = format!("the task was not done after {ms} ms (option deadline_ms)");
            self.give_up(progress, Error::new(Code::Deadline, message));
        }
    }

    /// Cancels what runs and ends what was not begun.
    fn give_up(&self, progress: &mut Progress, error: Error) {
        for running in &progress.running {
            // A job that cannot be cancelled ends by itself.
            let _ = running.job.cancel();
        }
        let waiting = progress.waiting.take().map_or(Vec::new(), |c| c.items);
        self.fail_sent(&mut progress.lists, waiting.iter(), &error);
        // Lists of which only a part is read have no scores.
        let lists = progress.lists.as_mut().map_or(Vec::new(), ListWork::drain);
        let second_first = progress.prompts.document_first();
        let rest = (progress.next..self.inputs.len())
            .map(|at| self.inputs.in_order_of_work(at, second_first));
        self.fail(lists.into_iter().chain(rest), &error);
        progress.next = self.inputs.len();
        progress.over = Some(error);
    }

    /// Takes the texts and results that have come.
    fn collect(&self, progress: &mut Progress) {
        let over = progress.over.clone();
        let Progress { running, lists, .. } = progress;
        running.retain_mut(|running| {
            let result = self.follow(running).and_then(|(ended, is_done)| {
                self.read(running, lists, &ended, &over);
                if is_done {
                    let all: Vec<usize> = (0..running.items.len()).collect();
                    self.read(running, lists, &all, &over);
                    let totals = running.job.totals()?;
                    self.results.change(|found| found.add(&totals));
                }
                Ok(is_done)
            });
            match result {
                Ok(is_done) => !is_done,
                Err(error) => {
                    self.fail_sent(lists, running.items.iter(), &error);
                    false // releasing a job cancels it
                }
            }
        });
    }

    /// Takes the events of a job: pieces of texts go out; the requests that have ended, and whether
    /// all have.
    fn follow(&self, running: &mut Running) -> Result<(Vec<usize>, bool)> {
        let stops = &self.setup.options.stops;
        let mut ended = Vec::new();
        let mut pieces = Vec::new();
        let is_done = loop {
            let event = match running.job.next_event()? {
                NextEvent::Event(event) => event,
                NextEvent::Later => break false,
                NextEvent::Over => break true,
            };
            let index = event.request as usize;
            match (event.kind, &mut running.texts) {
                (PREFIX_EVENT_FINISHED | PREFIX_EVENT_ERROR, _) => ended.push(index),
                (PREFIX_EVENT_LOST, Some(texts)) => texts.lose(),
                (PREFIX_EVENT_TOKEN, Some(texts)) => {
                    if texts.push(index, &event, &running.job, stops)? {
                        running.job.cancel_request(index)?;
                    }
                    let piece = texts.piece(index, stops);
                    if self.setup.options.stream && !piece.text.is_empty() {
                        pieces.push((index, piece));
                    }
                }
                _ => {}
            }
            if pieces.len() >= AT_ONCE {
                self.give(running, &mut pieces);
            }
        };
        self.give(running, &mut pieces);
        Ok((ended, is_done))
    }

    /// Pieces of texts to those who stream.
    fn give(&self, running: &Running, pieces: &mut Vec<(usize, Piece)>) {
        if pieces.is_empty() {
            return;
        }
        self.results.change(|found| {
            for (index, piece) in pieces.drain(..) {
                let item = running.items[index].item;
                found.put_scored(item, piece.scored);
                found.put_text(item, piece.text);
            }
        });
    }

    /// The results of requests that have ended, as far as they were not taken.
    fn read(
        &self,
        running: &mut Running,
        lists: &mut Option<ListWork>,
        ended: &[usize],
        over: &Option<Error>,
    ) {
        for some in ended.chunks(AT_ONCE) {
            self.read_some(running, lists, some, over);
        }
    }

    fn read_some(
        &self,
        running: &mut Running,
        lists: &mut Option<ListWork>,
        ended: &[usize],
        over: &Option<Error>,
    ) {
        let width = self.results.lock().width;
        let mut read = Vec::with_capacity(ended.len());
        for &index in ended {
            if std::mem::replace(&mut running.items[index].is_read, true) {
                continue;
            }
            if let Some(lists) = lists {
                self.read_block(running, index, over, lists);
                continue;
            }
            let sent = &running.items[index];
            let mut values = vec![f32::NAN; width];
            let item = self
                .read_item(running, index, sent, over, &mut values)
                .unwrap_or_else(|error| {
                    values.fill(f32::NAN);
                    Item::failed(&error)
                });
            read.push((index, sent.item, item, values));
        }
        if read.is_empty() {
            return;
        }
        self.results.change(|found| {
            for (index, at, item, values) in read {
                if let (Some(texts), true) = (&running.texts, self.setup.options.stream) {
                    found.put_text(at, texts.rest(index, &item.text));
                }
                found.values_of(at).copy_from_slice(&values);
                found.put(at, item, self.inputs.user_tag(at));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_whose_engine_is_shut_down_is_cancelled() {
        let error = while_it_ran(Error::new(Code::Misuse, "it takes no more calls"));
        assert_eq!(error.code, Code::Cancelled);
        assert_eq!(error.message, "the engine was shut down while the task ran");
        let error = while_it_ran(Error::new(Code::EngineFailed, "a reason"));
        assert_eq!(
            (error.code, &*error.message),
            (Code::EngineFailed, "a reason")
        );
    }
}
