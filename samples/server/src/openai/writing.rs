//! Texts that the model writes; what completions and chats share.
//!
//! ```text
//!   asked ──> task ──> nothing yet │ failed: a status code and an error
//!                                  │ a first piece, or the end: 200, then
//!                      stream      │ data: {...piece...}   until every text has its finish_reason
//!                                  │ data: {"error": ...}  when one fails in the middle
//!                                  │ data: [DONE]
//! ```
//!
//! The client that goes away drops the answer, which drops the task, which cancels it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{HeaderName, CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::Json;
use futures_util::stream;
use prefix::{EventKind, EventStream, Finish, Task, TaskBuilder, Tokenizer};
use serde_json::{json, Value};

use super::api::{Answer, Api, Begin};
use super::asked::{self, Asked};
use super::calls::Calls;
use super::form::Rule;
use super::logprobs::{self, Tokens, Told};
use super::reading::Reading;
use super::thoughts::{self, Thoughts};
use super::usage;
use crate::app::{self, Call};
use crate::dialect::Dialect;
use crate::failure::{Failure, Kind, Result};
use crate::fields::Fields;
use crate::ids;
use crate::say::say;
use crate::tools::part::Part;

/// Proxies such as nginx gather what is small unless an answer says otherwise.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The most that can be written behind the longest of these items, at least 1.
async fn room(
    call: &Call,
    api: Api,
    mut options: prefix::Options,
    items: Arc<Vec<String>>,
) -> Result<(prefix::Options, usize)> {
    let app = call.app.clone();
    options.put("max_tokens", 1)?;
    app::blocking(&call.app.gate, move || {
        let (engine, tokenizer) = (&app.engine, &app.tokenizer);
        let mut builder = Task::builder(engine, tokenizer, api.kind(), Some(&options))?;
        builder.add(&items[..])?;
        // An item that has no prompt fails when the task runs, and is told then.
        let lengths = (0..items.len()).filter_map(|item| Some(builder.tokens(item).ok()?.len()));
        let longest = lengths.max().unwrap_or(0);
        let left = app.model.max_positions.saturating_sub(longest);
        Ok((options, left.max(1)))
    })
    .await
}

/// Writes a text for each item: a prompt, or messages as JSON.
pub async fn write(
    call: Call,
    api: Api,
    fields: &Fields,
    items: Vec<String>,
    mut calls: Calls,
) -> Result<Response> {
    let rule = calls.rule.take();
    let written = write_by(call, api, fields, items, &rule, calls).await;
    written.map_err(|failure| match &rule {
        Some(rule) => rule.name(asked::name(failure)),
        None => asked::name(failure),
    })
}

async fn write_by(
    call: Call,
    api: Api,
    fields: &Fields,
    items: Vec<String>,
    rule: &Option<Rule>,
    calls: Calls,
) -> Result<Response> {
    let asked: Asked = fields.read()?;
    call.app.check_model(asked.model.as_deref())?;
    asked.check(fields)?;
    if !call.app.model.logits {
        let message = "the model embeds or classifies; it does not write";
        return Err(Failure::new(Kind::NotServed, message));
    }
    let samples = asked.samples(&call, items.len())?;
    let (mut options, items) = (asked.options(&call, api)?, Arc::new(items));
    let likely = logprobs::asked(api, fields)?;
    if let Some(likely) = likely {
        options.put("logprobs", true)?;
        options.put("top_logprobs", likely)?;
    }
    if let Some(rule) = rule {
        options.put(rule.option, &*rule.text)?;
    }
    let newer = asked.max_completion_tokens;
    let newer = newer.map(|n| ("max_completion_tokens", n));
    let length = match newer.or(asked.max_tokens.map(|n| ("max_tokens", n))) {
        Some((field, 0)) => return Err(Failure::field(field, "is 0, the least is 1")),
        Some((_, n)) => n,
        None => {
            let (same, room) = room(&call, api, options, items.clone()).await?;
            options = same;
            room.min(match api {
                Api::Completions => 16,
                Api::Chat => call.app.config.chat_tokens,
            })
        }
    };
    asked.put_lengths(&mut options, length)?;
    asked.put_samples(&mut options, samples)?;
    let streamed = asked.stream == Some(true);
    let short_ids = calls.short_ids;
    // A text that is kept to a form has no thought in front of it.
    let parts_thoughts = api == Api::Chat && call.app.config.thoughts && !calls.is_kept;
    let opened = Arc::new(AtomicBool::new(false));
    let fill = {
        let (opened, tokenizer) = (opened.clone(), call.app.tokenizer.clone());
        move |builder: &mut TaskBuilder| {
            builder.add(&items[..])?;
            if parts_thoughts {
                // A chat is one item; one without a prompt fails later.
                let prompt = builder.tokens(0).unwrap_or_default();
                opened.store(thoughts::are_open(&tokenizer, &prompt), Ordering::Relaxed);
            }
            Ok(())
        }
    };
    let reading = move || {
        let is_open = opened.load(Ordering::Relaxed);
        let thoughts = parts_thoughts.then(|| Thoughts::new(is_open));
        Reading::new(thoughts, calls.reader())
    };
    let name = call.app.config.name.clone();
    let head = json!({"id": ids::next(api.id()), "object": api.object(streamed), "created": ids::now(), "model": name});
    if !streamed {
        let task = call.run_task(api.kind(), options, fill).await?;
        let choices = match likely {
            None => choices(api, &task, None, reading, short_ids)?,
            // Each token is asked for, with all that were likely in its place.
            Some(_) => {
                let (task, tokenizer) = (task.clone(), call.app.tokenizer.clone());
                app::blocking(&call.app.gate, move || {
                    choices(api, &task, Some(&tokenizer), reading, short_ids)
                })
                .await?
            }
        };
        let mut answer = head;
        answer["choices"] = json!(choices);
        answer["usage"] = usage::of(&task, samples)?;
        return Ok(Json(answer).into_response());
    }
    let task = call.start_task(api.kind(), options, fill).await?;
    let with_usage = asked.stream_options.and_then(|o| o.include_usage) == Some(true);
    let mut head = head;
    if with_usage {
        head["usage"] = Value::Null; // until the last chunk
    }
    let mut flow = Flow {
        api,
        head,
        with_usage,
        begun: vec![false; task.len()],
        readings: (0..task.len()).map(|_| reading()).collect(),
        called: vec![false; task.len()],
        waiting: (0..task.len()).map(|_| Tokens::default()).collect(),
        short_ids,
        told: likely.map(|_| (0..task.len()).map(|_| Told::default()).collect()),
        unfinished: task.len(),
        samples,
        events: task.event_stream(),
        task,
        ready: VecDeque::new(),
        is_over: false,
        call,
    };
    // What fails before a word is there has a status code of its own.
    if let Some(failure) = flow.advance().await {
        flow.is_over = true;
        return Err(failure);
    }
    let pieces = stream::unfold(flow, |mut flow| async move {
        let piece = flow.next().await?;
        Some((Ok::<_, std::convert::Infallible>(piece), flow))
    });
    let kind = [
        // Clients take other texts whose charset is not said for ISO-8859-1.
        (CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (CACHE_CONTROL, "no-cache"),
        (BUFFERING, "no"),
    ];
    Ok((kind, Body::from_stream(pieces)).into_response())
}

/// The texts of a task that is done; with a tokenizer also their tokens.
fn choices(
    api: Api,
    task: &Task,
    tokenizer: Option<&Tokenizer>,
    reading: impl Fn() -> Reading,
    short_ids: bool,
) -> Result<Vec<Value>> {
    let choices = (0..task.len()).map(|item| {
        let text = task.text(item)?;
        let logprobs = match tokenizer {
            Some(tokenizer) => {
                let mut told = Told::default();
                let read = |first| task.logprobs(item, first);
                let mut tokens = told.piece(read, &text)?;
                tokens.extend(told.rest(read)?);
                tokens.json(api, tokenizer)?
            }
            None => Value::Null,
        };
        let mut reading = reading();
        let parts = reading.push(&text).into_iter().chain(reading.end());
        let answer = Answer::of(parts, short_ids);
        let finish = finish_of(task.info(item)?.finish, !answer.calls.is_empty());
        Ok(api.whole(item, answer, finish, logprobs))
    });
    choices.collect()
}

/// An answer that is being written.
struct Flow {
    api: Api,
    head: Value,
    with_usage: bool,
    /// Of each text whether a piece of it was sent.
    begun: Vec<bool>,
    /// What finds thoughts and calls in each, and whether there were any calls.
    readings: Vec<Reading>,
    called: Vec<bool>,
    short_ids: bool,
    /// Tokens of a text that is held back, since a call may have begun.
    waiting: Vec<Tokens>,
    /// The same for their tokens, where these are asked for.
    told: Option<Vec<Told>>,
    unfinished: usize,
    /// Texts of each prompt.
    samples: usize,
    events: EventStream,
    task: Task,
    ready: VecDeque<String>,
    is_over: bool,
    call: Call,
}

impl Flow {
    /// The next lines to send; `None` at the end.
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(lines) = self.ready.pop_front() {
                return Some(lines);
            }
            if self.is_over {
                return None;
            }
            if let Some(failure) = self.advance().await {
                self.is_over = true;
                if failure.kind == Kind::Internal {
                    let id = self.head["id"].as_str().unwrap_or_default();
                    say(format_args!("{id}: {}", failure.message));
                }
                self.send(&Dialect::OpenAi.body(&failure));
            }
        }
    }

    /// Reads events until there is something to send, or a failure.
    async fn advance(&mut self) -> Option<Failure> {
        while self.ready.is_empty() && !self.is_over {
            let event = tokio::select! {
                event = self.events.next_event() => event,
                () = self.call.app.gate.over() => return Some(Failure::stopping()),
            };
            let done = match event {
                Some(Ok(event)) => self.take(event.request, event.kind),
                Some(Err(error)) => Err(error.into()),
                None => Err(Failure::internal("a text has no end")),
            };
            if let Err(failure) = done {
                return Some(failure);
            }
        }
        None
    }

    fn take(&mut self, item: usize, event: EventKind) -> Result<()> {
        match event {
            EventKind::Text(text) => {
                let tokens = self.tell(item, |told, task| {
                    told.piece(|n| task.logprobs(item, n), &text)
                })?;
                let reading = self.readings.get_mut(item);
                let parts = reading.map_or(Vec::new(), |reading| reading.push(&text));
                self.send_parts(item, parts, tokens)?;
            }
            EventKind::Finished { .. } => {
                if let Some(reading) = self.readings.get_mut(item) {
                    let parts = reading.end();
                    self.send_parts(item, parts, Tokens::default())?;
                }
                let mut tokens = self.take_waiting(item);
                tokens.extend(self.tell(item, |told, task| told.rest(|n| task.logprobs(item, n)))?);
                let logprobs = self.json(tokens)?;
                let called = self.called.get(item) == Some(&true);
                let finish = finish_of(self.task.info(item)?.finish, called);
                let begin = self.begin(item);
                self.send_choice(self.api.end(item, finish, begin, logprobs));
                self.unfinished = self.unfinished.saturating_sub(1);
                if self.unfinished == 0 {
                    if self.with_usage {
                        let mut last = self.head.clone();
                        last["choices"] = json!([]);
                        last["usage"] = usage::of(&self.task, self.samples)?;
                        self.send(&last);
                    }
                    self.ready.push_back("data: [DONE]\n\n".into());
                    self.is_over = true;
                }
            }
            EventKind::Failed { .. } => {
                return Err(match self.task.first_failure()? {
                    Some((item, error)) => app::at(item, self.task.len(), error),
                    None => Failure::internal("a failure without its reason"),
                });
            }
            _ => {}
        }
        Ok(())
    }

    /// The tokens that go out with a piece of a text, or with its end.
    fn tell(
        &mut self,
        item: usize,
        tokens: impl FnOnce(&mut Told, &Task) -> Result<Tokens>,
    ) -> Result<Tokens> {
        let told = self.told.as_mut().and_then(|told| told.get_mut(item));
        told.map_or(Ok(Tokens::default()), |told| tokens(told, &self.task))
    }

    fn json(&self, tokens: Tokens) -> Result<Value> {
        match tokens.is_empty() {
            true => Ok(Value::Null),
            false => tokens.json(self.api, &self.call.app.tokenizer),
        }
    }

    fn take_waiting(&mut self, item: usize) -> Tokens {
        let waiting = self.waiting.get_mut(item);
        waiting.map(std::mem::take).unwrap_or_default()
    }

    /// Sends the parts of an answer that came with some tokens, which go out with the first of them, or wait for one.
    fn send_parts(&mut self, item: usize, parts: Vec<Part>, tokens: Tokens) -> Result<()> {
        if let Some(waiting) = self.waiting.get_mut(item) {
            waiting.extend(tokens);
        }
        for part in parts {
            if let (Part::Call { .. }, Some(called)) = (&part, self.called.get_mut(item)) {
                *called = true;
            }
            let tokens = self.take_waiting(item);
            let logprobs = self.json(tokens)?;
            let begin = self.begin(item);
            self.send_choice(self.api.piece(item, part, begin, logprobs));
        }
        Ok(())
    }

    /// What a piece has besides; the next is not the first one.
    fn begin(&mut self, item: usize) -> Begin {
        let begun = self.begun.get_mut(item);
        Begin {
            is_first: begun.is_some_and(|begun| !std::mem::replace(begun, true)),
            short_ids: self.short_ids,
        }
    }

    fn send_choice(&mut self, choice: Value) {
        let mut chunk = self.head.clone();
        chunk["choices"] = json!([choice]);
        self.send(&chunk);
    }

    fn send(&mut self, chunk: &Value) {
        self.ready.push_back(format!("data: {chunk}\n\n"));
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        if !self.is_over {
            let metrics = &self.call.app.metrics;
            metrics.disconnects.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn finish_of(finish: Finish, called: bool) -> &'static str {
    match (finish, called) {
        (Finish::Length, _) => "length",
        (_, true) => "tool_calls",
        _ => "stop",
    }
}
