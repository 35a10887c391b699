//! A batch at work, and its results.

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use prefix_sys as sys;
use prefix_sys::Init;

use crate::awaited::{Awaited, Queue};
use crate::error::{call, Error, Result};
use crate::raw::{read_array, read_array_into, read_text, Handle};
use crate::readers::Readers;
use crate::results::read_top;
use crate::{
    Batch, Done, Engine, Event, EventStream, Events, Finished, JobTotals, ResultInfo, Token,
    TopToken, Values,
};

/// A batch that was given to an engine. Clones are the same job; any thread may use it. When the last
/// clone is gone, what still runs is cancelled.
#[derive(Debug, Clone)]
pub struct Job(Arc<Owned>);

#[derive(Debug)]
struct Owned {
    handle: Handle<sys::prefix_job>,
    requests: usize,
    readers: Arc<Readers>,
}

// Safety: the header lets any thread call every function of a job at any time.
unsafe impl Sync for Owned {}

impl Engine {
    /// Runs a batch and waits until all its requests are done. A request that fails does not fail the run;
    /// its results say so. Runs of several threads share what they have in common. Nobody has the job before:
    /// [`submit`](Engine::submit) gives one that can be cancelled.
    pub fn run(&self, batch: &Batch) -> Result<Job> {
        Job::run(self, batch)
    }

    /// The same without waiting.
    pub fn submit(&self, batch: &Batch) -> Result<Job> {
        Job::submit(self, batch)
    }
}

impl Job {
    pub(crate) fn run(engine: &Engine, batch: &Batch) -> Result<Job> {
        // Safety: live handles; the batch is not Sync, so no other call on it. Also below.
        Job::start(batch, |out, err| unsafe {
            sys::prefix_run(engine.raw(), batch.raw(), out, err)
        })
    }

    pub(crate) fn submit(engine: &Engine, batch: &Batch) -> Result<Job> {
        Job::start(batch, |out, err| unsafe {
            sys::prefix_submit(engine.raw(), batch.raw(), out, err)
        })
    }

    fn start(
        batch: &Batch,
        start: impl FnOnce(*mut *mut sys::prefix_job, *mut sys::prefix_error) -> sys::prefix_status,
    ) -> Result<Job> {
        let requests = batch.len()?;
        let handle = Handle::create(start)?;
        let readers = Arc::default();
        Ok(Job(Arc::new(Owned {
            handle,
            requests,
            readers,
        })))
    }

    /// How many requests it has.
    pub fn len(&self) -> usize {
        self.0.requests
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many of them are done.
    pub fn finished_count(&self) -> Result<usize> {
        let mut count = 0;
        // Safety: a live handle; also below.
        call(|err| unsafe { sys::prefix_job_finished_count(self.raw(), &mut count, err) })?;
        Ok(count)
    }

    /// Waits until all requests are done.
    pub fn wait(&self) -> Result<()> {
        self.source().wait()
    }

    /// The same for some time; tells whether all requests are done.
    pub fn wait_for(&self, time: Duration) -> Result<bool> {
        self.source().wait_for(time)
    }

    /// Waits without holding a thread: a future that is ready when all requests are done. All of a process share
    /// one thread of this crate, and need no particular executor.
    pub fn finished(&self) -> Finished {
        Finished::new(self.0.clone())
    }

    /// What happens, as it happens; the iterator blocks and ends with the job. The events of a job are one
    /// stream: two iterators share it.
    ///
    /// ```compile_fail,E0597
    /// # fn submit() -> prefix::Job { unimplemented!() }
    /// let events = {
    ///     let job = submit();
    ///     job.events() // cannot outlive the job
    /// };
    /// events.count();
    /// ```
    pub fn events(&self) -> Events<'_> {
        Events::new(self.source())
    }

    /// The same without holding a thread: its [`next_event`](EventStream::next_event) is awaited, with any
    /// executor. Several streams share the events, too.
    pub fn event_stream(&self) -> EventStream {
        EventStream::new(self.0.clone(), self.0.readers.clone())
    }

    /// To fire and forget: the job goes on when the last clone is dropped.
    pub fn detach(&self) -> Result<()> {
        // Safety: a live handle.
        call(|err| unsafe { sys::prefix_job_detach(self.raw(), err) })
    }

    /// Ends all requests that are not done with [`Status::Cancelled`](crate::Status::Cancelled). Calling it twice is
    /// harmless.
    pub fn cancel(&self) -> Result<()> {
        call(|err| unsafe { sys::prefix_job_cancel(self.raw(), err) })
    }

    /// The same for one request.
    pub fn cancel_request(&self, request: usize) -> Result<()> {
        call(|err| unsafe { sys::prefix_job_cancel_request(self.raw(), request, err) })
    }

    /// What became of a request. [`Status::Misuse`](crate::Status::Misuse) while it is unfinished; that it failed is
    /// no error here.
    pub fn info(&self, request: usize) -> Result<ResultInfo> {
        let mut out = sys::prefix_result_info::init();
        // Safety: a live handle and a struct with its size.
        call(|err| unsafe { sys::prefix_job_result_info(self.raw(), request, &mut out, err) })?;
        Ok(out.into())
    }

    /// The sentence that goes with the status of a request that failed; "" otherwise.
    pub fn message(&self, request: usize) -> Result<String> {
        // Safety: a live handle and a buffer with its capacity; also below.
        read_text(512, |buf, cap, needed, err| unsafe {
            sys::prefix_job_result_message(self.raw(), request, buf, cap, needed, err)
        })
    }

    /// The values of a request: logits, log-probabilities, sums of choices or an embedding. Empty for
    /// generation. The error of the request when it failed.
    pub fn values(&self, request: usize) -> Result<Vec<f32>> {
        read_array(64, |out, capacity, needed, err| unsafe {
            sys::prefix_job_result_values(self.raw(), request, out, capacity, needed, err)
        })
    }

    /// The tokens that were generated, with the one that stopped it. The error of the request when it failed.
    pub fn tokens(&self, request: usize) -> Result<Vec<Token>> {
        read_array(64, |out, capacity, needed, err| unsafe {
            sys::prefix_job_result_tokens(self.raw(), request, out, capacity, needed, err)
        })
    }

    /// The tokens that there are, also of a request that was cancelled or ran out of time.
    pub fn partial_tokens(&self, request: usize) -> Result<Vec<Token>> {
        read_array(64, |out, capacity, needed, err| unsafe {
            sys::prefix_job_partial_tokens(self.raw(), request, out, capacity, needed, err)
        })
    }

    /// Generation with the option `logprobs`: one for each token. Choices: one for each token of all choices
    /// in a row. The error of the request when it failed.
    pub fn logprobs(&self, request: usize) -> Result<Vec<f32>> {
        read_array(64, |out, capacity, needed, err| unsafe {
            sys::prefix_job_result_logprobs(self.raw(), request, out, capacity, needed, err)
        })
    }

    /// With the option `top_logprobs`: for each token that was generated or scored the likeliest tokens of its place,
    /// in their order. The error of the request when it failed.
    pub fn top(&self, request: usize) -> Result<Vec<Vec<TopToken>>> {
        // Safety: two buffers with their capacities; also below.
        let all = read_top(|tokens, n, needed, logprobs, err| unsafe {
            sys::prefix_job_result_top(self.raw(), request, tokens, n, needed, logprobs, n, err)
        })?;
        let places = match self.tokens(request)?.len() {
            0 => self.values(request)?.len(),
            generated => generated,
        };
        let width = all.len().checked_div(places).unwrap_or(0).max(1);
        Ok(all.chunks(width).map(<[TopToken]>::to_vec).collect())
    }

    /// Those of one place of a generation, as soon as its event can be read and however the request ends.
    pub fn partial_top(&self, request: usize, place: usize) -> Result<Vec<TopToken>> {
        read_top(|tokens, n, needed, logprobs, err| unsafe {
            let job = self.raw();
            sys::prefix_job_partial_top(job, request, place, tokens, n, needed, logprobs, n, err)
        })
    }

    /// The number and the error of the first request that failed; `None` when all succeeded. The job must be
    /// done.
    pub fn first_failure(&self) -> Result<Option<(usize, Error)>> {
        let mut index = usize::MAX;
        // Safety: a live handle.
        match call(|err| unsafe { sys::prefix_job_first_failure(self.raw(), &mut index, err) }) {
            Ok(()) => Ok(None),
            Err(error) if index == usize::MAX => Err(error), // of the call
            Err(error) => Ok(Some((index, error))),
        }
    }

    /// The values of all requests in one call; those of a request that failed are NaN. The job must be done.
    pub fn all_values(&self) -> Result<Values> {
        let mut values = Values::default();
        values.values.reserve_exact(self.len());
        self.all_values_into(&mut values)?;
        Ok(values)
    }

    /// The same into arrays that are there already: no allocation when they are large enough.
    pub fn all_values_into(&self, out: &mut Values) -> Result<()> {
        let entries = self.len() + 1;
        out.offsets.resize(entries, 0);
        let offsets = out.offsets.as_mut_ptr();
        // Safety: two buffers with their capacities.
        read_array_into(&mut out.values, |values, capacity, needed, err| unsafe {
            sys::prefix_job_all_values(self.raw(), values, capacity, needed, offsets, entries, err)
        })
    }

    /// What the whole job did; complete when it is done.
    pub fn totals(&self) -> Result<JobTotals> {
        let mut out = sys::prefix_job_totals::init();
        // Safety: a live handle and a struct with its size.
        call(|err| unsafe { sys::prefix_job_get_totals(self.raw(), &mut out, err) })?;
        Ok(out.into())
    }

    fn source(&self) -> &dyn Awaited {
        &*self.0
    }

    fn raw(&self) -> *mut sys::prefix_job {
        self.0.handle.get()
    }
}

impl IntoFuture for Job {
    type Output = Result<Job>;
    type IntoFuture = Done<Job>;

    fn into_future(self) -> Done<Job> {
        Done::new(self.finished(), self)
    }
}

// Safety, for all: live handles.
impl Awaited for Owned {
    fn wait_ms(&self, timeout_ms: i64) -> Result<()> {
        call(|err| unsafe { sys::prefix_job_wait(self.handle.get(), timeout_ms, err) })
    }

    fn next_event(&self, timeout_ms: i64) -> Result<Event> {
        let mut event = sys::prefix_event::init();
        call(|err| unsafe {
            sys::prefix_job_next_event(self.handle.get(), timeout_ms, &mut event, err)
        })?;
        Ok(Event::new(event, String::new()))
    }

    fn notify(&self, queue: &Queue, tag: i64) -> Result<()> {
        call(|err| unsafe { sys::prefix_job_notify(self.handle.get(), queue.get(), tag, err) })
    }

    fn notify_events(&self, queue: &Queue, tag: i64) -> Result<()> {
        call(|err| unsafe {
            sys::prefix_job_notify_events(self.handle.get(), queue.get(), tag, err)
        })
    }
}
