//! Requests to be run together.

use std::borrow::Cow;
use std::marker::PhantomData;

use prefix_sys as sys;

use crate::error::{call, Result};
use crate::options::raw_or_null;
use crate::raw::{read_text, Handle};
use crate::{library, Constraint, Engine, Options, Token};

/// Requests to be run together. Tokens are copied into it, so it borrows nothing; it keeps its engine alive.
///
/// It may move to another thread, but two threads cannot use one batch:
///
/// ```compile_fail,E0277
/// fn needs_sync<T: Sync>() {}
/// needs_sync::<prefix::Batch>();
/// ```
///
/// What a request is made of need not outlive the batch, but a [`Request`] cannot outlive its tokens:
///
/// ```compile_fail,E0597
/// let request = {
///     let tokens = vec![1, 5, 9];
///     prefix::Request::embedding(&tokens)
/// };
/// drop(request);
/// ```
#[derive(Debug)]
pub struct Batch {
    handle: Handle<sys::prefix_batch>,
    not_sync: PhantomData<std::cell::Cell<()>>,
}

impl Engine {
    /// An empty batch for this engine.
    pub fn batch(&self) -> Result<Batch> {
        Batch::new(self)
    }
}

impl Batch {
    /// An empty batch for this engine; the same as [`Engine::batch`].
    pub fn new(engine: &Engine) -> Result<Batch> {
        Batch::create(engine.raw())
    }

    /// A batch without an engine, which can be planned ([`plan_json`](Batch::plan_json)) but not run.
    pub fn plan_only() -> Result<Batch> {
        library::ready()?;
        Batch::create(std::ptr::null_mut())
    }

    fn create(engine: *mut sys::prefix_engine) -> Result<Batch> {
        // Safety: a live handle or NULL.
        let handle =
            Handle::create(|out, err| unsafe { sys::prefix_batch_create(engine, out, err) })?;
        Ok(Batch {
            handle,
            not_sync: PhantomData,
        })
    }

    /// Adds a request and returns its number, counting from 0 ([`Request::continuations`]: the number of
    /// the first of several). What is wrong with one request only, such as a token outside the
    /// vocabulary, is reported with its result.
    pub fn add(&mut self, request: Request<'_>) -> Result<usize> {
        let batch = self.handle.get();
        let (tokens, n_tokens) = (request.tokens.as_ptr(), request.tokens.len());
        let options = raw_or_null(request.options);
        let tag = request.tag;
        let mut index = 0;
        // Safety, for all arms: arrays with their lengths, options that outlive the call or NULL, and &mut
        // self, so no other call on this handle.
        call(|err| match &request.task {
            Task::Logits(ids) => unsafe {
                sys::prefix_batch_add_logits(
                    batch,
                    tokens,
                    n_tokens,
                    ids.as_ptr(),
                    ids.len(),
                    options,
                    tag,
                    &mut index,
                    err,
                )
            },
            Task::Logprobs(from) => unsafe {
                let from = i32::try_from(*from).unwrap_or(i32::MAX);
                sys::prefix_batch_add_logprobs(
                    batch, tokens, n_tokens, from, options, tag, &mut index, err,
                )
            },
            Task::Choices(l) => unsafe {
                sys::prefix_batch_add_choices(
                    batch,
                    tokens,
                    n_tokens,
                    l.tokens.as_ptr(),
                    l.tokens.len(),
                    l.offsets.as_ptr(),
                    l.offsets.len(),
                    options,
                    tag,
                    &mut index,
                    err,
                )
            },
            Task::Continuations(l) => unsafe {
                sys::prefix_batch_add_continuations(
                    batch,
                    tokens,
                    n_tokens,
                    l.tokens.as_ptr(),
                    l.tokens.len(),
                    l.offsets.as_ptr(),
                    l.offsets.len(),
                    options,
                    tag,
                    &mut index,
                    err,
                )
            },
            Task::Embedding => unsafe {
                sys::prefix_batch_add_embedding(
                    batch, tokens, n_tokens, options, tag, &mut index, err,
                )
            },
            Task::Generate => unsafe {
                sys::prefix_batch_add_generate(
                    batch, tokens, n_tokens, options, tag, &mut index, err,
                )
            },
            Task::Warm => unsafe {
                sys::prefix_batch_add_warm(batch, tokens, n_tokens, options, tag, &mut index, err)
            },
        })?;
        Ok(index)
    }

    /// A request that generates goes on with tokens that the constraint allows; `None` takes one away.
    pub fn constrain(&mut self, request: usize, constraint: Option<&Constraint>) -> Result<()> {
        let constraint = constraint.map_or(std::ptr::null_mut(), Constraint::raw);
        // Safety: a constraint that outlives the call or NULL, and &mut self, so no other call on this handle.
        call(|err| unsafe { sys::prefix_batch_constrain(self.raw(), request, constraint, err) })
    }

    /// Takes all requests out.
    pub fn clear(&mut self) -> Result<()> {
        // Safety: &mut self, so no other call on this handle.
        call(|err| unsafe { sys::prefix_batch_clear(self.raw(), err) })
    }

    /// How many requests it holds.
    pub fn len(&self) -> Result<usize> {
        let mut count = 0;
        // Safety: not Sync, so no other call on this handle; also below.
        call(|err| unsafe { sys::prefix_batch_count(self.raw(), &mut count, err) })?;
        Ok(count)
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// How the requests share, as JSON, without running them or looking into the cache.
    pub fn plan_json(&self) -> Result<String> {
        read_text(4096, |buf, cap, needed, err| unsafe {
            sys::prefix_batch_plan_json(self.raw(), buf, cap, needed, err)
        })
    }

    pub(crate) fn raw(&self) -> *mut sys::prefix_batch {
        self.handle.get()
    }
}

/// One piece of work for [`Batch::add`]: a task, its tokens, and if wanted options and a tag.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    task: Task<'a>,
    tokens: &'a [Token],
    options: Option<&'a Options>,
    tag: i64,
}

#[derive(Debug, Clone)]
enum Task<'a> {
    Logits(&'a [Token]),
    Logprobs(usize),
    Choices(Lists<'a>),
    Continuations(Lists<'a>),
    Embedding,
    Generate,
    Warm,
}

/// List i is tokens[offsets[i] .. offsets[i + 1]].
#[derive(Debug, Clone)]
pub(crate) struct Lists<'a> {
    pub(crate) tokens: Cow<'a, [Token]>,
    pub(crate) offsets: Cow<'a, [i64]>,
}

impl<'a> Lists<'a> {
    pub(crate) fn join<T: AsRef<[Token]>>(lists: &[T]) -> Lists<'a> {
        let mut tokens = Vec::with_capacity(lists.iter().map(|list| list.as_ref().len()).sum());
        let mut offsets = Vec::with_capacity(lists.len() + 1);
        offsets.push(0);
        for list in lists {
            tokens.extend_from_slice(list.as_ref());
            offsets.push(tokens.len() as i64);
        }
        Lists {
            tokens: tokens.into(),
            offsets: offsets.into(),
        }
    }
}

impl<'a> Request<'a> {
    fn new(task: Task<'a>, tokens: &'a [Token]) -> Self {
        Request {
            task,
            tokens,
            options: None,
            tag: 0,
        }
    }

    /// The raw logits of `ids` after the last token: one value for each.
    pub fn logits(tokens: &'a [Token], ids: &'a [Token]) -> Self {
        Self::new(Task::Logits(ids), tokens)
    }

    /// The log-probability of each token from number `from` (at least 1) on: `tokens.len() - from` values.
    pub fn logprobs(tokens: &'a [Token], from: usize) -> Self {
        Self::new(Task::Logprobs(from), tokens)
    }

    /// Choices after a prompt. Values: the sum of the log-probabilities of each choice;
    /// [`Job::logprobs`](crate::Job::logprobs) has those of their tokens in a row.
    pub fn choices<T: AsRef<[Token]>>(tokens: &'a [Token], choices: &[T]) -> Self {
        Self::new(Task::Choices(Lists::join(choices)), tokens)
    }

    /// The same from one array: choice i is `choice_tokens[offsets[i] .. offsets[i + 1]]`.
    pub fn choices_flat(
        tokens: &'a [Token],
        choice_tokens: &'a [Token],
        offsets: &'a [i64],
    ) -> Self {
        let lists = Lists {
            tokens: choice_tokens.into(),
            offsets: offsets.into(),
        };
        Self::new(Task::Choices(lists), tokens)
    }

    /// One prefix and many continuations, as in reranking: a request for each continuation, whose values are
    /// the log-probabilities of its tokens. Continuation i gets the tag plus i.
    pub fn continuations<T: AsRef<[Token]>>(tokens: &'a [Token], continuations: &[T]) -> Self {
        Self::new(Task::Continuations(Lists::join(continuations)), tokens)
    }

    /// The same from one array: continuation i is `continuation_tokens[offsets[i] .. offsets[i + 1]]`.
    pub fn continuations_flat(
        tokens: &'a [Token],
        continuation_tokens: &'a [Token],
        offsets: &'a [i64],
    ) -> Self {
        let lists = Lists {
            tokens: continuation_tokens.into(),
            offsets: offsets.into(),
        };
        Self::new(Task::Continuations(lists), tokens)
    }

    /// The final hidden state of the last token: options `dimensions`, `normalize`.
    pub fn embedding(tokens: &'a [Token]) -> Self {
        Self::new(Task::Embedding, tokens)
    }

    /// New tokens: options `max_tokens`, `temperature`, `seed`, `stop_tokens`, `logprobs`, `top_logprobs` and others.
    pub fn generate(tokens: &'a [Token]) -> Self {
        Self::new(Task::Generate, tokens)
    }

    /// No values: the tokens are computed, or fetched from disk or store (options of the engine), and stay
    /// in the cache for those who come later.
    pub fn warm(tokens: &'a [Token]) -> Self {
        Self::new(Task::Warm, tokens)
    }

    /// With these options.
    pub fn options(mut self, options: &'a Options) -> Self {
        self.options = Some(options);
        self
    }

    /// With a number of your own, which comes back with results and events.
    pub fn tag(mut self, tag: i64) -> Self {
        self.tag = tag;
        self
    }
}
