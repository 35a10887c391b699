//! The libprefix that the program has loaded, found at run time: this library works without it, and
//! an engine handle can only come from a loaded one.
//!
//! ```text
//!   Engine ── batch() ──> Batch ── add(tokens, Request) ... ── submit() ──> Job ── values, tokens
//! ```

mod constraint;
mod library;

pub use constraint::{Constrains, Constraint, Steps};

use self::library::{check, sized, Library};
use crate::error::{Code, Error, Result};
use crate::prefix_h::{
    prefix_batch, prefix_engine, prefix_engine_info, prefix_event, prefix_job, prefix_job_totals,
    prefix_options, prefix_queue, prefix_result_info, Sized32, PREFIX_ABI_VERSION,
    PREFIX_LOG_WARNING,
};
use std::ptr::null_mut;
use std::sync::Arc;

/// One request, as the functions prefix_batch_add_* take it.
pub enum Request {
    Logits {
        ids: Vec<i32>,
    },
    Logprobs {
        from: usize,
    },
    /// Choice i is `tokens[offsets[i] .. offsets[i + 1]]`.
    Choices {
        tokens: Vec<i32>,
        offsets: Vec<i64>,
    },
    Embedding,
    Generate,
}

/// A reference to an engine.
pub struct Engine {
    handle: *mut prefix_engine,
    library: Library,
}

// SAFETY: prefix.h declares all functions used here as callable from any thread.
unsafe impl Send for Engine {}
unsafe impl Sync for Engine {}

impl Engine {
    /// # Safety
    /// `handle` is whatever a caller gives as engine; libprefix checks it.
    pub unsafe fn retain(handle: *mut prefix_engine) -> Result<Engine> {
        if handle.is_null() {
            return Err(Error::argument("engine is NULL"));
        }
        let library = Library::find()?;
        let version = unsafe { (library.prefix_abi_version)() };
        if version < PREFIX_ABI_VERSION {
            return Err(Error::new(
                Code::Misuse,
                format!("libprefix has ABI version {version}; tasks need {PREFIX_ABI_VERSION}"),
            ));
        }
        check(|err| unsafe { (library.prefix_engine_retain)(handle, err) })?;
        Ok(Engine { handle, library })
    }

    pub fn info_json(&self) -> Result<String> {
        let bytes = sized::<u8>(|buf, cap, needed, err| unsafe {
            (self.library.prefix_engine_info_json)(self.handle, buf.cast(), cap, needed, err)
        })?;
        String::from_utf8(bytes).map_err(|e| Error::new(Code::Internal, e.to_string()))
    }

    /// A message in the log of libprefix. Without one nothing is lost but the message.
    pub fn warn(&self, text: &str) {
        let write = self.library.prefix_log_write;
        let _ = check(|err| unsafe {
            write(PREFIX_LOG_WARNING, text.as_ptr().cast(), text.len(), err)
        });
    }

    pub fn info(&self) -> Result<prefix_engine_info> {
        let mut info = prefix_engine_info::sized();
        check(|err| unsafe { (self.library.prefix_engine_get_info)(self.handle, &mut info, err) })?;
        Ok(info)
    }

    /// The tokens after which the model's files end a generation.
    pub fn end_tokens(&self) -> Result<Vec<i32>> {
        sized(|out, capacity, needed, err| unsafe {
            (self.library.prefix_engine_end_tokens)(self.handle, out, capacity, needed, err)
        })
    }

    /// What was set of a caller's options, as JSON.
    ///
    /// # Safety
    /// As retain.
    pub unsafe fn options_json(&self, handle: *const prefix_options) -> Result<String> {
        if handle.is_null() {
            return Ok("{}".to_string());
        }
        let bytes = sized::<u8>(|buf, cap, needed, err| unsafe {
            (self.library.prefix_options_json)(handle, buf.cast(), cap, needed, err)
        })?;
        String::from_utf8(bytes).map_err(|e| Error::new(Code::Internal, e.to_string()))
    }

    pub fn new_queue(&self) -> Result<Queue> {
        let mut handle = null_mut();
        check(|err| unsafe { (self.library.prefix_queue_create)(&mut handle, err) })?;
        Ok(Queue {
            handle,
            library: self.library,
        })
    }

    /// # Safety
    /// As retain.
    pub unsafe fn retain_queue(&self, handle: *mut prefix_queue) -> Result<Queue> {
        check(|err| unsafe { (self.library.prefix_queue_retain)(handle, err) })?;
        Ok(Queue {
            handle,
            library: self.library,
        })
    }

    pub fn options(&self, json: &str) -> Result<Options> {
        let mut handle = null_mut();
        check(|err| unsafe { (self.library.prefix_options_create)(&mut handle, err) })?;
        let options = Options {
            handle,
            library: self.library,
        };
        check(|err| unsafe {
            (self.library.prefix_options_set_json)(handle, json.as_ptr().cast(), json.len(), err)
        })?;
        Ok(options)
    }

    pub fn batch(&self) -> Result<Batch> {
        let mut handle = null_mut();
        check(|err| unsafe { (self.library.prefix_batch_create)(self.handle, &mut handle, err) })?;
        Ok(Batch {
            handle,
            library: self.library,
        })
    }

    /// Rules for the tokens of requests that generate.
    pub fn constraint(&self, rules: Arc<dyn Constrains>) -> Result<Constraint> {
        Constraint::new(self.library, rules)
    }

    pub fn submit(&self, batch: &Batch) -> Result<Job> {
        let mut handle = null_mut();
        check(|err| unsafe {
            (self.library.prefix_submit)(self.handle, batch.handle, &mut handle, err)
        })?;
        Ok(Job {
            handle,
            library: self.library,
        })
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        unsafe { (self.library.prefix_engine_release)(self.handle) }
    }
}

pub struct Options {
    handle: *mut prefix_options,
    library: Library,
}

// SAFETY: &mut self keeps changes apart.
unsafe impl Send for Options {}
unsafe impl Sync for Options {}

impl Options {
    /// The value in force of an option.
    pub fn text(&self, key: &str) -> Result<String> {
        let bytes = sized::<u8>(|buf, cap, needed, err| unsafe {
            let get = self.library.prefix_options_get;
            get(
                self.handle,
                key.as_ptr().cast(),
                key.len(),
                buf.cast(),
                cap,
                needed,
                err,
            )
        })?;
        String::from_utf8(bytes).map_err(|e| Error::new(Code::Internal, e.to_string()))
    }

    /// What was set, as Engine::options takes it.
    pub fn json(&self) -> Result<String> {
        let bytes = sized::<u8>(|buf, cap, needed, err| unsafe {
            (self.library.prefix_options_json)(self.handle, buf.cast(), cap, needed, err)
        })?;
        String::from_utf8(bytes).map_err(|e| Error::new(Code::Internal, e.to_string()))
    }

    pub fn set_int(&mut self, key: &str, value: i64) -> Result<()> {
        let set = self.library.prefix_options_set_int;
        check(|err| unsafe { set(self.handle, key.as_ptr().cast(), key.len(), value, err) })
    }
}

impl Drop for Options {
    fn drop(&mut self) {
        unsafe { (self.library.prefix_options_release)(self.handle) }
    }
}

/// A reference to a completion queue.
pub struct Queue {
    handle: *mut prefix_queue,
    library: Library,
}

// SAFETY: as for Engine.
unsafe impl Send for Queue {}
unsafe impl Sync for Queue {}

impl Queue {
    pub fn post(&self, tag: i64) -> Result<()> {
        check(|err| unsafe { (self.library.prefix_queue_post)(self.handle, tag, err) })
    }

    /// The oldest tag; None when there is none in time.
    pub fn next(&self, timeout_ms: i64) -> Result<Option<i64>> {
        let mut tag = 0;
        match check(|err| unsafe {
            (self.library.prefix_queue_next)(self.handle, timeout_ms, &mut tag, err)
        }) {
            Ok(()) => Ok(Some(tag)),
            Err(e) if e.code == Code::Timeout => Ok(None),
            Err(e) => Err(e),
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        unsafe { (self.library.prefix_queue_release)(self.handle) }
    }
}

pub struct Batch {
    handle: *mut prefix_batch,
    library: Library,
}

// SAFETY: a batch may move between threads; &mut keeps calls apart.
unsafe impl Send for Batch {}

impl Batch {
    pub fn add(&mut self, tokens: &[i32], request: &Request, options: &Options) -> Result<()> {
        let l = &self.library;
        let (at, n) = (tokens.as_ptr(), tokens.len());
        let (batch, options) = (self.handle, options.handle);
        check(|err| unsafe {
            match request {
                Request::Logits { ids } => (l.prefix_batch_add_logits)(
                    batch,
                    at,
                    n,
                    ids.as_ptr(),
                    ids.len(),
                    options,
                    0,
                    null_mut(),
                    err,
                ),
                Request::Logprobs { from } => (l.prefix_batch_add_logprobs)(
                    batch,
                    at,
                    n,
                    *from as i32,
                    options,
                    0,
                    null_mut(),
                    err,
                ),
                Request::Choices { tokens, offsets } => (l.prefix_batch_add_choices)(
                    batch,
                    at,
                    n,
                    tokens.as_ptr(),
                    tokens.len(),
                    offsets.as_ptr(),
                    offsets.len(),
                    options,
                    0,
                    null_mut(),
                    err,
                ),
                Request::Embedding => {
                    (l.prefix_batch_add_embedding)(batch, at, n, options, 0, null_mut(), err)
                }
                Request::Generate => {
                    (l.prefix_batch_add_generate)(batch, at, n, options, 0, null_mut(), err)
                }
            }
        })
    }

    /// Request `index` keeps to these rules.
    pub fn constrain(&mut self, index: usize, constraint: &Constraint) -> Result<()> {
        let constrain = self.library.prefix_batch_constrain;
        check(|err| unsafe { constrain(self.handle, index, constraint.handle(), err) })
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        unsafe { (self.library.prefix_batch_release)(self.handle) }
    }
}

pub enum NextEvent {
    Event(prefix_event),
    /// There is none now.
    Later,
    /// The job is done, and there will be none.
    Over,
}

pub struct Job {
    handle: *mut prefix_job,
    library: Library,
}

// SAFETY: as for Engine.
unsafe impl Send for Job {}
unsafe impl Sync for Job {}

impl Job {
    /// A tag for the queue whenever there is an event after next_event has found none, and when the
    /// job is done.
    pub fn notify_events(&self, queue: &Queue, tag: i64) -> Result<()> {
        let notify = self.library.prefix_job_notify_events;
        check(|err| unsafe { notify(self.handle, queue.handle, tag, err) })
    }

    /// The next event, if there is one now.
    pub fn next_event(&self) -> Result<NextEvent> {
        let mut event = prefix_event::sized();
        match check(|err| unsafe {
            (self.library.prefix_job_next_event)(self.handle, 0, &mut event, err)
        }) {
            Ok(()) => Ok(NextEvent::Event(event)),
            Err(e) if e.code == Code::Timeout => Ok(NextEvent::Later),
            Err(e) if e.code == Code::NoEvent => Ok(NextEvent::Over),
            Err(e) => Err(e),
        }
    }

    pub fn cancel_request(&self, index: usize) -> Result<()> {
        let cancel = self.library.prefix_job_cancel_request;
        check(|err| unsafe { cancel(self.handle, index, err) })
    }

    pub fn cancel(&self) -> Result<()> {
        check(|err| unsafe { (self.library.prefix_job_cancel)(self.handle, err) })
    }

    pub fn info(&self, index: usize) -> Result<prefix_result_info> {
        let mut info = prefix_result_info::sized();
        check(|err| unsafe {
            (self.library.prefix_job_result_info)(self.handle, index, &mut info, err)
        })?;
        Ok(info)
    }

    pub fn message(&self, index: usize) -> Result<String> {
        let bytes = sized::<u8>(|buf, cap, needed, err| unsafe {
            (self.library.prefix_job_result_message)(
                self.handle,
                index,
                buf.cast(),
                cap,
                needed,
                err,
            )
        })?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub fn values(&self, index: usize) -> Result<Vec<f32>> {
        sized(|out, capacity, needed, err| unsafe {
            (self.library.prefix_job_result_values)(self.handle, index, out, capacity, needed, err)
        })
    }

    /// What was generated, also by a request that was ended before it was done.
    pub fn tokens(&self, index: usize) -> Result<Vec<i32>> {
        sized(|out, capacity, needed, err| unsafe {
            (self.library.prefix_job_partial_tokens)(self.handle, index, out, capacity, needed, err)
        })
    }

    /// Of a request that was not ended before it was done: one for each token that was generated.
    pub fn logprobs(&self, index: usize) -> Result<Vec<f32>> {
        let read = self.library.prefix_job_result_logprobs;
        sized(|out, capacity, needed, err| unsafe {
            read(self.handle, index, out, capacity, needed, err)
        })
    }

    /// The `count` likeliest tokens of a place of a generation, with their log-probs: as soon as the event of its token
    /// was read, and however the request ended.
    pub fn top(&self, index: usize, place: usize, count: usize) -> Result<Vec<(i32, f32)>> {
        let read = self.library.prefix_job_partial_top;
        let (mut tokens, mut logprobs) = (vec![0; count], vec![0.0; count]);
        let (to, of_them) = (tokens.as_mut_ptr(), logprobs.as_mut_ptr());
        if count > 0 {
            let mut needed = 0;
            check(|err| unsafe {
                read(
                    self.handle,
                    index,
                    place,
                    to,
                    count,
                    &mut needed,
                    of_them,
                    count,
                    err,
                )
            })?;
        }
        Ok(tokens.into_iter().zip(logprobs).collect())
    }

    pub fn totals(&self) -> Result<prefix_job_totals> {
        let mut totals = prefix_job_totals::sized();
        check(|err| unsafe {
            (self.library.prefix_job_get_totals)(self.handle, &mut totals, err)
        })?;
        Ok(totals)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        unsafe { (self.library.prefix_job_release)(self.handle) }
    }
}
