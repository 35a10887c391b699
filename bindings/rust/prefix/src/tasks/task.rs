//! A task at work, and its results.

use std::future::IntoFuture;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use prefix_sys as sys;
use prefix_sys::Init;

use crate::awaited::{Awaited, Queue};
use crate::error::{call, Error, Result, Status};
use crate::raw::{into_text, read_array, read_array_into, read_text, Handle};
use crate::readers::Readers;
use crate::results::read_top;
use crate::{
    Done, Event, EventStream, Events, Finished, JobTotals, ResultInfo, TextToken, Token, Values,
};

/// Texts at work. Clones are the same task; any thread may use it. When the last clone is gone, and every
/// [`Finished`] and [`EventStream`] made from it, what is unfinished is cancelled.
///
/// Results of an item can be read when it is finished, and are [`Status::Misuse`] before.
///
/// ```no_run
/// use prefix::{Engine, Task, TaskKind, Tokenizer};
/// # fn main() -> prefix::Result<()> {
/// # let (engine, tokenizer) = (Engine::open("")?, Tokenizer::open("")?);
/// let (queries, documents) = (["Which city?", "What is baked?"], ["Paris is a city.", "Bread is baked."]);
/// let mut builder = Task::builder(&engine, &tokenizer, TaskKind::Rerank, None)?;
/// builder.add_product(&queries, &documents)?;
/// let task = builder.submit()?;
/// task.wait()?;
/// for (i, query) in queries.iter().enumerate() {
///     let items = i * documents.len()..(i + 1) * documents.len();
///     println!("{query} {}", documents[task.ranking(items)?[0].index]);
/// }
/// # Ok(()) }
/// ```
///
/// A text can be read while it is written:
///
/// ```no_run
/// # use prefix::{Engine, Options, Task, TaskKind, Tokenizer};
/// # async fn stream() -> prefix::Result<()> {
/// # let (engine, tokenizer) = (Engine::open("")?, Tokenizer::open("")?);
/// let options = Options::new()?.set("stream", true)?.set("stop", &["\n\n"])?;
/// let mut builder = Task::builder(&engine, &tokenizer, TaskKind::Generate, Some(&options))?;
/// builder.add(&["Once upon a time"])?;
/// let mut events = builder.submit()?.event_stream();
/// while let Some(event) = events.next_event().await {
///     println!("{}", event?.text());
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Task(Arc<Owned>);

#[derive(Debug)]
struct Owned {
    handle: Handle<sys::prefix_task>,
    items: usize,
    readers: Arc<Readers>,
}

// Safety: the header lets any thread call every function of a task at any time.
unsafe impl Sync for Owned {}

/// A place in a ranking.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranked {
    /// Which one, counted from the first that was ranked.
    pub index: usize,
    /// Its value.
    pub score: f32,
}

impl Task {
    pub(super) fn new(handle: Handle<sys::prefix_task>, items: usize) -> Task {
        let readers = Arc::default();
        Task(Arc::new(Owned {
            handle,
            items,
            readers,
        }))
    }

    /// How many items it has.
    pub fn len(&self) -> usize {
        self.0.items
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the task is made of, as JSON: its recipe, and why it has this one.
    pub fn info_json(&self) -> Result<String> {
        info_json(&self.0.handle)
    }

    /// How many of them are finished.
    pub fn finished_count(&self) -> Result<usize> {
        let mut count = 0;
        // Safety: a live handle; also below.
        call(|err| unsafe { sys::prefix_task_finished_count(self.raw(), &mut count, err) })?;
        Ok(count)
    }

    /// Waits until all items are finished. One that fails does not fail the task.
    pub fn wait(&self) -> Result<()> {
        self.source().wait()
    }

    /// The same for some time; tells whether all items are finished.
    pub fn wait_for(&self, time: Duration) -> Result<bool> {
        self.source().wait_for(time)
    }

    /// Waits without holding a thread: a future that is ready when all items are finished. All of a process share
    /// one thread of this crate, and need no particular executor. Dropping the future does not cancel the task,
    /// only dropping the last clone of the task does.
    pub fn finished(&self) -> Finished {
        Finished::new(self.0.clone())
    }

    /// What happens, as it happens: [`Text`](crate::EventKind::Text) with option `stream`, and the end of each item.
    /// The iterator blocks and ends with the task. The events of a task are one stream: two iterators share it.
    pub fn events(&self) -> Events<'_> {
        Events::new(self.source())
    }

    /// The same without holding a thread: its [`next_event`](EventStream::next_event) is awaited, with any
    /// executor. Several streams share the events, too.
    pub fn event_stream(&self) -> EventStream {
        EventStream::new(self.0.clone(), self.0.readers.clone())
    }

    /// Ends the items that are unfinished with [`Status::Cancelled`]; texts that were begun keep what there is
    /// ([`partial_text`](Task::partial_text)). Calling it twice is harmless.
    pub fn cancel(&self) -> Result<()> {
        call(|err| unsafe { sys::prefix_task_cancel(self.raw(), err) })
    }

    /// The tokens of an item as the engine is given them, for instance to look for them in its cache or to pin
    /// them there: its prompt, and what is scored after it (not the labels of classify). They are made anew. The
    /// error of an item whose prompt cannot be made.
    pub fn tokens(&self, item: usize) -> Result<Vec<Token>> {
        tokens(&self.0.handle, item)
    }

    /// How many values an item has: 1 for rerank, the dimensions for embed, the labels for classify, else 0.
    pub fn width(&self) -> Result<usize> {
        let mut width = 0;
        call(|err| unsafe { sys::prefix_task_width(self.raw(), &mut width, err) })?;
        Ok(width)
    }

    /// What became of an item; that it failed is no error here. Behind a stop text some tokens may have been
    /// generated.
    pub fn info(&self, item: usize) -> Result<ResultInfo> {
        let mut out = sys::prefix_result_info::init();
        // Safety: a live handle and a struct with its size; also below.
        call(|err| unsafe { sys::prefix_task_item_info(self.raw(), item, &mut out, err) })?;
        Ok(out.into())
    }

    /// The sentence that goes with the status of an item that failed; "" otherwise.
    pub fn message(&self, item: usize) -> Result<String> {
        // Safety: a live handle and a buffer with its capacity; also below.
        read_text(512, |buf, cap, needed, err| unsafe {
            sys::prefix_task_item_message(self.raw(), item, buf, cap, needed, err)
        })
    }

    /// The values of an item: a score, a vector, or the probabilities of the labels. The error of the item when
    /// it failed.
    pub fn values(&self, item: usize) -> Result<Vec<f32>> {
        let width = self.width()?;
        read_array(width, |out, capacity, needed, err| unsafe {
            sys::prefix_task_item_values(self.raw(), item, out, capacity, needed, err)
        })
    }

    /// The values of all items in one call; NaN for one that failed or is unfinished.
    pub fn all_values(&self) -> Result<Values> {
        let width = self.width()?;
        let mut values = Values {
            values: Vec::with_capacity(self.len() * width),
            offsets: (0..=self.len()).map(|item| (item * width) as i64).collect(),
        };
        read_array_into(&mut values.values, |out, capacity, needed, err| unsafe {
            sys::prefix_task_all_values(self.raw(), out, capacity, needed, err)
        })?;
        Ok(values)
    }

    /// The text of an item, without white space around it. The error of the item when it failed.
    pub fn text(&self, item: usize) -> Result<String> {
        read_text(512, |buf, cap, needed, err| unsafe {
            sys::prefix_task_item_text(self.raw(), item, buf, cap, needed, err)
        })
    }

    /// The same, also what there is of a text that was cancelled or ran out of time.
    pub fn partial_text(&self, item: usize) -> Result<String> {
        read_text(512, |buf, cap, needed, err| unsafe {
            sys::prefix_task_item_partial_text(self.raw(), item, buf, cap, needed, err)
        })
    }

    /// With the option `logprobs` or `top_logprobs`: the tokens that the text of an item is made of, from number `first`
    /// on, without those of a stop text and without the one that ended the text. With the option `stream` also while
    /// the text is written: those that begin in a piece are there as soon as the piece is.
    pub fn logprobs(&self, item: usize, first: usize) -> Result<Vec<TextToken>> {
        let (mut logprobs, mut offsets) = (Vec::new(), Vec::new());
        // Safety: three buffers with their capacities.
        let tokens = read_array(64, |tokens, capacity, needed, err| unsafe {
            logprobs.resize(capacity, 0.0);
            offsets.resize(capacity, 0);
            sys::prefix_task_item_logprobs(
                self.raw(),
                item,
                first,
                tokens,
                capacity,
                needed,
                logprobs.as_mut_ptr(),
                capacity,
                offsets.as_mut_ptr(),
                capacity,
                err,
            )
        })?;
        let mut found: Vec<TextToken> = Vec::with_capacity(tokens.len());
        for (i, ((token, logprob), offset)) in
            tokens.into_iter().zip(logprobs).zip(offsets).enumerate()
        {
            // Where the first place has none, no place has.
            let top = match found.first().is_some_and(|first| first.top.is_empty()) {
                true => Vec::new(),
                // Safety: two buffers with their capacities.
                false => read_top(|tokens, n, needed, logprobs, err| unsafe {
                    let (task, place) = (self.raw(), first + i);
                    sys::prefix_task_item_top(
                        task, item, place, tokens, n, needed, logprobs, n, err,
                    )
                })?,
            };
            found.push(TextToken {
                token,
                logprob,
                offset: offset as usize,
                top,
            });
        }
        Ok(found)
    }

    /// The status of every item; [`Status::NoEvent`] for one that is unfinished.
    pub fn statuses(&self) -> Result<Vec<Status>> {
        let codes = read_array(self.len(), |out, capacity, needed, err| unsafe {
            sys::prefix_task_statuses(self.raw(), out, capacity, needed, err)
        })?;
        Ok(codes.into_iter().map(Status::from_code).collect())
    }

    /// The number and the error of the first item that failed; `None` when none has, so far.
    pub fn first_failure(&self) -> Result<Option<(usize, Error)>> {
        let mut item = usize::MAX;
        match call(|err| unsafe { sys::prefix_task_first_failure(self.raw(), &mut item, err) }) {
            Ok(()) => Ok(None),
            Err(error) if item == usize::MAX => Err(error), // of the call
            Err(error) => Ok(Some((item, error))),
        }
    }

    /// Values from best to worst, at most `top_n` (an option), without those of items that failed; equal ones stay
    /// in the order of the input. The range counts the values of all items: for rerank these are items, such as the
    /// documents of one query; for classify with n labels, those of an item are `item * n..(item + 1) * n`.
    pub fn ranking(&self, range: Range<usize>) -> Result<Vec<Ranked>> {
        let (first, count) = (range.start, range.len());
        // A range beyond the values is refused whatever the capacity.
        let capacity = count.min(self.len() * self.width()?);
        let mut order = vec![0; capacity];
        let mut scores = vec![0.0; capacity];
        let mut needed = 0;
        call(|err| unsafe {
            sys::prefix_task_ranking(
                self.raw(),
                first,
                count,
                order.as_mut_ptr(),
                capacity,
                &mut needed,
                scores.as_mut_ptr(),
                capacity,
                err,
            )
        })?;
        let places = order.into_iter().zip(scores).take(needed);
        Ok(places
            .map(|(index, score)| Ranked {
                index: index as usize,
                score,
            })
            .collect())
    }

    /// What the engine did for the whole task so far; complete when it is done.
    pub fn totals(&self) -> Result<JobTotals> {
        let mut out = sys::prefix_job_totals::init();
        call(|err| unsafe { sys::prefix_task_get_totals(self.raw(), &mut out, err) })?;
        Ok(out.into())
    }

    fn source(&self) -> &dyn Awaited {
        &*self.0
    }

    fn raw(&self) -> *mut sys::prefix_task {
        self.0.handle.get()
    }
}

impl IntoFuture for Task {
    type Output = Result<Task>;
    type IntoFuture = Done<Task>;

    fn into_future(self) -> Done<Task> {
        Done::new(self.finished(), self)
    }
}

pub(super) fn info_json(task: &Handle<sys::prefix_task>) -> Result<String> {
    // Safety: a live handle, a buffer with its capacity.
    read_text(256, |buf, cap, needed, err| unsafe {
        sys::prefix_task_info_json(task.get(), buf, cap, needed, err)
    })
}

pub(super) fn tokens(task: &Handle<sys::prefix_task>, item: usize) -> Result<Vec<Token>> {
    // Safety: a live handle and a buffer with its capacity.
    read_array(512, |out, capacity, needed, err| unsafe {
        sys::prefix_task_item_tokens(task.get(), item, out, capacity, needed, err)
    })
}

// Safety, for all: live handles, a struct with its size and a buffer with its capacity.
impl Awaited for Owned {
    fn wait_ms(&self, timeout_ms: i64) -> Result<()> {
        call(|err| unsafe { sys::prefix_task_wait(self.handle.get(), timeout_ms, err) })
    }

    fn next_event(&self, timeout_ms: i64) -> Result<Event> {
        let mut event = sys::prefix_event::init();
        let piece = read_array::<u8>(64, |buf, cap, needed, err| unsafe {
            let (task, buf) = (self.handle.get(), buf.cast());
            sys::prefix_task_next_event(task, timeout_ms, &mut event, buf, cap, needed, err)
        })?;
        Ok(Event::new(event, into_text(piece)?))
    }

    fn notify(&self, queue: &Queue, tag: i64) -> Result<()> {
        call(|err| unsafe { sys::prefix_task_notify(self.handle.get(), queue.get(), tag, err) })
    }

    fn notify_events(&self, queue: &Queue, tag: i64) -> Result<()> {
        call(|err| unsafe {
            sys::prefix_task_notify_events(self.handle.get(), queue.get(), tag, err)
        })
    }
}
