//! A batch at work, and its results.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use prefix_sys as sys;
use prefix_sys::Init;

use crate::error::{call, Error, Result, Status};
use crate::raw::{count, milliseconds, read_array, read_array_into, read_text, Handle};
use crate::{Batch, Engine, EventStream, Events, Finished, Token};

/// A batch that was given to an engine. Clones are the same job; any thread may use it. When the last
/// clone is gone, what still runs is cancelled.
#[derive(Debug, Clone)]
pub struct Job(Arc<Owned>);

#[derive(Debug)]
struct Owned {
    handle: Handle<sys::prefix_job>,
    requests: usize,
}

// Safety: the header lets any thread call every function of a job at any time.
unsafe impl Sync for Owned {}

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
        Ok(Job(Arc::new(Owned { handle, requests })))
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
        call(|err| unsafe { sys::prefix_job_wait(self.raw(), -1, err) })
    }

    /// The same for some time; tells whether all requests are done.
    pub fn wait_for(&self, time: Duration) -> Result<bool> {
        match call(|err| unsafe { sys::prefix_job_wait(self.raw(), milliseconds(time), err) }) {
            Ok(()) => Ok(true),
            Err(error) if error.status() == Status::Timeout => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits without holding a thread: a future that is ready when all requests are done. All of a process share
    /// one thread of this crate, and need no particular executor.
    pub fn finished(&self) -> Finished {
        Finished::new(self.clone())
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
        Events::new(self)
    }

    /// The same without holding a thread: its [`next_event`](EventStream::next_event) is awaited, with any
    /// executor. A job wakes one stream, the last that was awaited.
    pub fn event_stream(&self) -> EventStream {
        EventStream::new(self.clone())
    }

    /// To fire and forget: the job goes on when the last clone is dropped.
    pub fn detach(&self) -> Result<()> {
        // Safety: a live handle.
        call(|err| unsafe { sys::prefix_job_detach(self.raw(), err) })
    }

    /// Ends all requests that are not done with [`Status::Cancelled`]. Calling it twice is harmless.
    pub fn cancel(&self) -> Result<()> {
        call(|err| unsafe { sys::prefix_job_cancel(self.raw(), err) })
    }

    /// The same for one request.
    pub fn cancel_request(&self, request: usize) -> Result<()> {
        call(|err| unsafe { sys::prefix_job_cancel_request(self.raw(), request, err) })
    }

    /// What became of a request. [`Status::Misuse`] while it is unfinished; that it failed is no error here.
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

    pub(crate) fn raw(&self) -> *mut sys::prefix_job {
        self.0.handle.get()
    }
}

/// The values of all requests of a job, in one array.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Values {
    values: Vec<f32>,
    offsets: Vec<i64>,
}

impl Values {
    /// How many requests.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values of one request; NaN when it failed. `None` beyond the last.
    pub fn get(&self, request: usize) -> Option<&[f32]> {
        self.values.get(self.range(request)?)
    }

    /// The values of each request in turn.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f32]> + '_ {
        (0..self.len()).map(|request| self.get(request).unwrap_or(&[]))
    }

    /// All values, request after request.
    pub fn as_slice(&self) -> &[f32] {
        &self.values
    }

    fn range(&self, request: usize) -> Option<Range<usize>> {
        let end = *self.offsets.get(request.checked_add(1)?)?;
        Some(self.offsets[request] as usize..end as usize)
    }
}

/// Why a generation ended.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// It was no generation.
    None,
    /// At a stop token.
    Stop,
    /// At `max_tokens`, or where the context ends.
    Length,
    /// Cancelled.
    Cancelled,
    /// Failed.
    Error,
    /// A reason that is newer than this crate.
    Other(i32),
}

/// What became of a request. `prompt_tokens` = cached + shared + computed.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultInfo {
    /// [`Status::Ok`], or why it failed.
    pub status: Status,
    /// Why generation ended.
    pub finish: Finish,
    /// The number that was given with the request.
    pub tag: i64,
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Found computed before this batch.
    pub cached_tokens: u64,
    /// Computed in this batch for another request.
    pub shared_tokens: u64,
    /// Computed for this one.
    pub computed_tokens: u64,
    /// New tokens.
    pub generated_tokens: u64,
    /// From submission to the first step.
    pub queued: Duration,
    /// From submission to the first result.
    pub first: Duration,
    /// From submission to the end.
    pub total: Duration,
    /// Of a generation's draws.
    pub seed: i64,
}

impl From<sys::prefix_result_info> for ResultInfo {
    fn from(c: sys::prefix_result_info) -> Self {
        // Without "..": a field that the header gains must be looked at here.
        let sys::prefix_result_info {
            struct_size: _,
            status,
            finish,
            reserved: _,
            user_tag,
            prompt_tokens,
            cached_tokens,
            shared_tokens,
            computed_tokens,
            generated_tokens,
            queue_us,
            first_us,
            total_us,
            seed,
        } = c;
        ResultInfo {
            status: Status::from_code(status),
            finish: match finish {
                sys::PREFIX_FINISH_NONE => Finish::None,
                sys::PREFIX_FINISH_STOP => Finish::Stop,
                sys::PREFIX_FINISH_LENGTH => Finish::Length,
                sys::PREFIX_FINISH_CANCELLED => Finish::Cancelled,
                sys::PREFIX_FINISH_ERROR => Finish::Error,
                other => Finish::Other(other),
            },
            tag: user_tag,
            prompt_tokens: count(prompt_tokens),
            cached_tokens: count(cached_tokens),
            shared_tokens: count(shared_tokens),
            computed_tokens: count(computed_tokens),
            generated_tokens: count(generated_tokens),
            queued: Duration::from_micros(count(queue_us)),
            first: Duration::from_micros(count(first_us)),
            total: Duration::from_micros(count(total_us)),
            seed,
        }
    }
}

/// What a whole job did.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobTotals {
    /// Requests.
    pub requests: u64,
    /// Those that failed.
    pub failed: u64,
    /// Tokens of all prompts; = cached + shared + computed.
    pub tokens_given: u64,
    /// Computed.
    pub tokens_computed: u64,
    /// Found computed before.
    pub tokens_cached: u64,
    /// Computed once for several requests.
    pub tokens_shared: u64,
    /// New tokens.
    pub tokens_generated: u64,
    /// Runs of the model.
    pub steps: u64,
    /// What the model really computed.
    pub rows: u64,
    /// From submission to the end.
    pub time: Duration,
}

impl From<sys::prefix_job_totals> for JobTotals {
    fn from(c: sys::prefix_job_totals) -> Self {
        let sys::prefix_job_totals {
            struct_size: _,
            reserved: _,
            requests,
            failed,
            tokens_given,
            tokens_computed,
            tokens_cached,
            tokens_shared,
            tokens_generated,
            steps,
            rows,
            total_us,
        } = c;
        JobTotals {
            requests: count(requests),
            failed: count(failed),
            tokens_given: count(tokens_given),
            tokens_computed: count(tokens_computed),
            tokens_cached: count(tokens_cached),
            tokens_shared: count(tokens_shared),
            tokens_generated: count(tokens_generated),
            steps: count(steps),
            rows: count(rows),
            time: Duration::from_micros(count(total_us)),
        }
    }
}
