//! A task at work: a step at a time, chunk by chunk, never waiting for the engine.
//!
//! ```text
//!   items in the order that shares most
//!   |=== done ===|== chunk in work ==|== chunk queued ==|... not encoded yet ...|
//!                  while the engine computes one chunk, the next is encoded
//! ```

mod lists;
mod requests;
mod texts;

use self::lists::{ListWork, SentBlock};
use self::texts::Texts;
use super::inputs::Inputs;
use super::kind::Answer;
use super::prompt::Prompts;
use super::results::{finish_of, Item, Results};
use super::setup::{Setup, CHUNKS};
use crate::engine::prefix_h::{
    PREFIX_EVENT_ERROR, PREFIX_EVENT_FINISHED, PREFIX_EVENT_LOST, PREFIX_EVENT_TOKEN,
    PREFIX_FINISH_STOP, PREFIX_RESULT_CUT,
};
use crate::engine::{Batch, Job, NextEvent, Queue};
use crate::error::{printable, Code, Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

pub struct Work {
    pub setup: Arc<Setup>,
    pub inputs: Box<Inputs>,
    /// They outlive the rest: the caller is told of the end when the engine is let go.
    pub results: Arc<Results>,
    /// When option deadline_ms ends it.
    pub deadline: Option<Instant>,
    progress: Mutex<Progress>,
    /// The caller may set it at any moment, also while the first chunk is encoded.
    is_cancelled: Arc<AtomicBool>,
}

struct Progress {
    prompts: Prompts,
    /// Of a method that reads lists.
    lists: Option<ListWork>,
    /// Items before this one, in the order of work, were encoded.
    next: usize,
    /// Encoded, but the engine's queue was full.
    waiting: Option<Chunk>,
    running: Vec<Running>,
    /// Why items that are not in work will not be.
    over: Option<Error>,
}

struct Chunk {
    batch: Batch,
    items: Vec<Sent>,
}

/// What has to be known when the result of an item comes back.
struct Sent {
    item: usize,
    was_cut: bool,
    /// Tokens of each of its choices.
    lengths: Vec<usize>,
    /// Of a list, which has more items than the one above.
    block: Option<SentBlock>,
    /// Its result was taken.
    is_read: bool,
}

/// A chunk that the engine has.
struct Running {
    job: Job,
    items: Vec<Sent>,
    /// Where texts are looked at while they are written.
    texts: Option<Texts>,
    /// After the task.
    submitted_us: i64,
}

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
    pub fn new(
        setup: Arc<Setup>,
        inputs: Box<Inputs>,
        is_cancelled: Arc<AtomicBool>,
    ) -> std::result::Result<Work, (Box<Inputs>, Error)> {
        let make = || {
            let results = Results::new(inputs.len(), setup.width(&inputs))?;
            Ok((results, setup.prompts()?, setup.lists()?.map(ListWork::new)))
        };
        let (results, prompts, lists) = match make() {
            Ok(made) => made,
            Err(error) => return Err((inputs, error)),
        };
        let deadline = match setup.options.deadline_ms {
            0 => None,
            ms => Instant::now().checked_add(Duration::from_millis(ms)),
        };
        Ok(Work {
            setup,
            inputs,
            results: Arc::new(results),
            deadline,
            progress: Mutex::new(Progress {
                prompts,
                lists,
                next: 0,
                waiting: None,
                running: Vec::new(),
                over: None,
            }),
            is_cancelled,
        })
    }

    /// For another try, where nothing has begun.
    pub fn into_inputs(self) -> Box<Inputs> {
        self.inputs
    }

    fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|end| Instant::now() >= end)
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(|e| e.into_inner())
    }

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
        let started = engine.submit(&chunk.batch).and_then(|job| {
            let told = job.notify_events(queue, tag);
            if told.is_err() {
                let _ = job.cancel(); // nobody would hear of it
            }
            told.map(|()| job)
        });
        let job = match started {
            Ok(job) => job,
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
            texts: Texts::new(&self.setup, chunk.items.len()),
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

    fn fail(&self, items: impl Iterator<Item = usize>, error: &Error) {
        self.results.change(|found| {
            for item in items {
                found.put(item, Item::failed(error), self.inputs.user_tag(item));
            }
        });
    }

    /// The same for requests, with the lists that they belong to.
    fn fail_sent<'a>(
        &self,
        lists: &mut Option<ListWork>,
        sent: impl Iterator<Item = &'a Sent>,
        error: &Error,
    ) {
        let items = sent.flat_map(|sent| match (&sent.block, &mut *lists) {
            (Some(block), Some(lists)) => lists.lose(block),
            _ => sent.item..sent.item + 1,
        });
        let items: Vec<usize> = items.collect();
        self.fail(items.into_iter(), error);
    }

    /// Takes the texts and results that have come.
    fn collect(&self, progress: &mut Progress) {
        let over = progress.over.clone();
        let Progress { running, lists, .. } = progress;
        running.retain_mut(|running| {
            let result = self.follow(running).and_then(|(ended, is_done)| {
                self.read(running, lists, ended, &over)?;
                if is_done {
                    let all = 0..running.items.len();
                    self.read(running, lists, all.collect(), &over)?;
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
                    if texts.push(index, event.token, stops)? {
                        running.job.cancel_request(index)?;
                    }
                    pieces.push((index, texts.piece(index, stops)));
                }
                _ => {}
            }
        };
        pieces.retain(|(_, piece)| !piece.is_empty());
        if self.setup.options.stream && !pieces.is_empty() {
            self.results.change(|found| {
                for (index, text) in pieces {
                    found.put_text(running.items[index].item, text);
                }
            });
        }
        Ok((ended, is_done))
    }

    /// The results of requests that have ended, as far as they were not taken.
    fn read(
        &self,
        running: &mut Running,
        lists: &mut Option<ListWork>,
        ended: Vec<usize>,
        over: &Option<Error>,
    ) -> Result<()> {
        let width = self.results.lock().width;
        let mut read = Vec::with_capacity(ended.len());
        for index in ended {
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
            return Ok(());
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
        Ok(())
    }

    /// With its values.
    fn read_item(
        &self,
        running: &Running,
        index: usize,
        sent: &Sent,
        over: &Option<Error>,
        values: &mut [f32],
    ) -> Result<Item> {
        let item = self.item_of(running, index, sent, over)?;
        if item.info.status == 0 {
            let answer = Answer {
                job: &running.job,
                index,
                lengths: &sent.lengths,
                options: &self.setup.options,
                model: &self.setup.model,
                places: &self.inputs.places,
            };
            self.setup.method().read(&answer, values)?;
        }
        Ok(item)
    }

    fn item_of(
        &self,
        running: &Running,
        index: usize,
        sent: &Sent,
        over: &Option<Error>,
    ) -> Result<Item> {
        let (job, setup) = (&running.job, &self.setup);
        let mut item = Item {
            info: job.info(index)?,
            message: String::new(),
            text: String::new(),
        };
        let info = &mut item.info;
        info.flags = i32::from(sent.was_cut) * PREFIX_RESULT_CUT;
        for time in [&mut info.queue_us, &mut info.first_us, &mut info.total_us] {
            *time += running.submitted_us;
        }
        let ended_here = running.texts.as_ref().is_some_and(|t| t.was_ended(index));
        if info.status == Code::Cancelled as i32 && ended_here {
            info.status = 0;
        }
        if setup.method().writes_text() && (info.status == 0 || info.generated_tokens > 0) {
            let tokens = job.tokens(index)?;
            let stops = &setup.options.stops;
            let keep_space = setup.options.recipe.keep_space;
            let (text, is_stopped) =
                super::written::finished(&setup.text, stops, keep_space, &tokens)?;
            item.text = text;
            if is_stopped && info.status == 0 {
                info.finish = PREFIX_FINISH_STOP;
            }
        }
        if info.status != 0 {
            item.message = printable(&job.message(index)?);
            if let (Some(over), true) = (over, info.status == Code::Cancelled as i32) {
                info.status = over.code as i32;
                info.finish = finish_of(over.code);
                item.message = printable(&over.message);
            }
        }
        Ok(item)
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
