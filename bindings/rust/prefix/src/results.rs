//! What came of requests and of items: values, how each of them went, and what all of them cost.

use std::ops::Range;
use std::time::Duration;

use prefix_sys as sys;

use crate::error::{Result, Status};
use crate::raw::{count, read_array};
use crate::Token;

/// The values of all requests of a job, or of all items of a task, in one array.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Values {
    pub(crate) values: Vec<f32>,
    pub(crate) offsets: Vec<i64>,
}

impl Values {
    /// How many requests or items.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values of one of them; NaN when it failed. `None` beyond the last.
    pub fn get(&self, request: usize) -> Option<&[f32]> {
        self.values.get(self.range(request)?)
    }

    /// The values of each of them in turn.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f32]> + '_ {
        (0..self.len()).map(|request| self.get(request).unwrap_or(&[]))
    }

    /// All values, one request or item after another.
    pub fn as_slice(&self) -> &[f32] {
        &self.values
    }

    fn range(&self, request: usize) -> Option<Range<usize>> {
        let end = *self.offsets.get(request.checked_add(1)?)?;
        Some(self.offsets[request] as usize..end as usize)
    }
}

/// A token that was likely at its place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TopToken {
    /// Which.
    pub token: Token,
    /// Its log-probability, of the model's own logits.
    pub logprob: f32,
}

/// One of the tokens that a text is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct TextToken {
    /// Which.
    pub token: Token,
    /// Its log-probability, of the model's own logits.
    pub logprob: f32,
    /// The byte of the text where it begins.
    pub offset: usize,
    /// The likeliest tokens of its place, with the option `top_logprobs`.
    pub top: Vec<TopToken>,
}

/// Two arrays of one length: `function(tokens, capacity, needed, logprobs, error)`.
pub(crate) fn read_top(
    function: impl Fn(
        *mut Token,
        usize,
        *mut usize,
        *mut f32,
        *mut sys::prefix_error,
    ) -> sys::prefix_status,
) -> Result<Vec<TopToken>> {
    let mut logprobs: Vec<f32> = Vec::new();
    let tokens = read_array(64, |tokens, capacity, needed, err| {
        logprobs.resize(capacity, 0.0);
        function(tokens, capacity, needed, logprobs.as_mut_ptr(), err)
    })?;
    let pairs = tokens.into_iter().zip(logprobs);
    Ok(pairs
        .map(|(token, logprob)| TopToken { token, logprob })
        .collect())
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

/// What became of a request or an item. `prompt_tokens` = cached + shared + computed.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultInfo {
    /// [`Status::Ok`], or why it failed.
    pub status: Status,
    /// Why generation ended.
    pub finish: Finish,
    /// Whether the prompt of an item was cut to fit; never of a request.
    pub was_cut: bool,
    /// The number that was given with it.
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
    /// Tokens computed since nobody had asked for them before. This and the next five are the reasons of
    /// [`Stats`](crate::Stats), whose counters are the sums of these: together they are `computed_tokens`,
    /// and 0 with option `sharing=false`.
    pub miss_first_seen: u64,
    /// Tokens computed since only another namespace had them.
    pub miss_namespace: u64,
    /// Tokens computed since they had made room (`cache_bytes`, a quota).
    pub miss_budget: u64,
    /// Tokens computed since they were dropped, expired or not kept.
    pub miss_evicted: u64,
    /// Tokens computed although they are there, for a result at them.
    pub miss_granularity: u64,
    /// Tokens computed although their keys are there, since no state of the recurrent layers was.
    pub miss_state: u64,
    /// Tokens of a generation that were guessed and checked (option `draft_tokens`).
    pub draft_tokens: u64,
    /// Those of them that the model said as well.
    pub draft_tokens_accepted: u64,
}

impl From<sys::prefix_result_info> for ResultInfo {
    fn from(c: sys::prefix_result_info) -> Self {
        // Without "..": a field that the header gains must be looked at here.
        let sys::prefix_result_info {
            struct_size: _,
            status,
            finish,
            flags,
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
            miss_first_seen,
            miss_namespace,
            miss_budget,
            miss_evicted,
            miss_granularity,
            miss_state,
            draft_tokens,
            draft_tokens_accepted,
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
            was_cut: flags & sys::PREFIX_RESULT_CUT != 0,
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
            miss_first_seen: count(miss_first_seen),
            miss_namespace: count(miss_namespace),
            miss_budget: count(miss_budget),
            miss_evicted: count(miss_evicted),
            miss_granularity: count(miss_granularity),
            miss_state: count(miss_state),
            draft_tokens: count(draft_tokens),
            draft_tokens_accepted: count(draft_tokens_accepted),
        }
    }
}

/// What a whole job or task did.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobTotals {
    /// Requests, or items.
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
