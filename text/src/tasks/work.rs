//! Runs a task on an engine, chunk by chunk.

mod order;
mod requests;
mod results;

use self::order::Order;
use super::inputs::Inputs;
use super::options::Options;
use super::outcome::{Item, Outcome};
use super::prompt::Prompts;
use super::task::{Shape, Task};
use super::KINDS;
use crate::engine::prefix_h::{prefix_job_totals, Sized32};
use crate::engine::{self, Engine, Job};
use crate::error::{Code, Error, Result};
use crate::text::Text;
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Most requests of one chunk, for short texts.
const CHUNK_ITEMS: usize = 8192;
/// Most items of a task: lists of empty texts cost nothing, their product does.
const MAX_ITEMS: usize = 1 << 24;
/// Chunks that the engine has at a time: one to compute, one to go on with.
const CHUNKS: usize = 2;
/// How often a waiting task looks whether it was cancelled.
const LOOK_MS: i64 = 20;

/// A chunk that the engine has.
struct Running {
    job: Job,
    items: Vec<Sent>,
}

/// What has to be known when the result of an item comes back.
struct Sent {
    item: usize,
    was_cut: bool,
    /// Tokens of each of its choices.
    lengths: Vec<usize>,
}

struct Chunk {
    batch: engine::Batch,
    items: Vec<Sent>,
}

#[derive(Default)]
struct State {
    /// Items before this one, in the order of work, were encoded.
    next: usize,
    /// Encoded, but the engine's queue was full.
    waiting: Option<Chunk>,
    running: VecDeque<Running>,
    found: Vec<Option<Item>>,
    values: Vec<f32>,
    totals: Vec<prefix_job_totals>,
    started: Option<Instant>,
    /// An error that concerns all items.
    broken: Option<Error>,
}

/// A task that is being run.
pub struct Work {
    engine: Engine,
    text: Arc<Text>,
    options: Options,
    request: engine::Options,
    inputs: Inputs,
    shape: Shape,
    /// What every request asks for.
    ids: Vec<i32>,
    /// Longest prompt with what is generated after it.
    positions: usize,
    /// Most tokens that the engine generates after a prompt.
    generated: usize,
    /// Most requests of one chunk.
    chunk_items: usize,
    state: Mutex<State>,
    outcome: OnceLock<Outcome>,
    cancelled: AtomicBool,
    done: AtomicI64,
}

impl Work {
    pub fn new(engine: Engine, text: Arc<Text>, inputs: Inputs, options: Options) -> Result<Work> {
        let info: Value = serde_json::from_str(&engine.info_json()?)
            .map_err(|e| Error::new(Code::Internal, format!("prefix_engine_info_json: {e}")))?;
        let number = |key: &str| info["model"][key].as_u64().unwrap_or(0) as usize;
        let task = options.recipe.method;
        let shape = task.shape(&inputs, &options, number("hidden"))?;
        let items = shape.items().filter(|n| *n <= MAX_ITEMS).ok_or_else(|| {
            let what = task.counted(&shape);
            Error::range(format!("{what} are more than {MAX_ITEMS} items"))
        })?;
        let mut request = options.request.clone();
        task.set_options(&text, &options, &mut request);
        let request = engine.options(&Value::Object(request).to_string())?;
        // In the engine's words: it knows its defaults, and how numbers may be spelt.
        let generated = request.text("max_tokens")?.parse().unwrap_or(1);
        // A chunk that is longer than the engine's queue would never fit.
        let queue: Option<usize> = info["options"]["queue_limit"]
            .as_str()
            .and_then(|limit| limit.parse().ok());
        let chunk_items = queue.map_or(CHUNK_ITEMS, |n| (n / CHUNKS).clamp(1, CHUNK_ITEMS));
        let mut work = Work {
            engine,
            text,
            request,
            inputs,
            ids: Vec::new(),
            positions: number("max_positions"),
            generated,
            chunk_items,
            state: Mutex::new(State {
                found: filled(Some(items), || None)?,
                values: filled(shape.rows.checked_mul(shape.columns), || f32::NAN)?,
                ..State::default()
            }),
            outcome: OnceLock::new(),
            cancelled: AtomicBool::new(false),
            done: AtomicI64::new(0),
            shape,
            options,
        };
        // What is wrong with the recipe shows now, not with the first item.
        work.prompts()?;
        work.ids = task.ids(&work.text, &work.options.recipe)?;
        Ok(work)
    }

    fn task(&self) -> &'static dyn Task {
        self.options.recipe.method
    }

    fn prompts(&self) -> Result<Prompts<'_>> {
        let recipe = &self.options.recipe;
        let prompt = recipe
            .prompts
            .get(&self.options.prompt)
            .ok_or_else(|| Error::not_found("the recipe has no such prompt"))?;
        Prompts::new(&self.text, recipe, prompt)
    }

    pub fn outcome(&self) -> Result<&Outcome> {
        self.outcome.get().ok_or_else(|| {
            Error::new(
                Code::Misuse,
                "the task is not done; prefix_task_run has to return PREFIX_OK first",
            )
        })
    }

    pub fn top_n(&self) -> usize {
        self.options.top_n
    }

    pub fn require_order(&self) -> Result<()> {
        if self.inputs.kind.has_order {
            return Ok(());
        }
        let ordered = KINDS.iter().filter(|kind| kind.has_order);
        let names: Vec<&str> = ordered.map(|kind| kind.name).collect();
        Err(Error::new(
            Code::Misuse,
            format!("only the values of {} have an order", names.join(" and ")),
        ))
    }

    /// Items with their result, and all.
    pub fn progress(&self) -> (i64, i64) {
        (self.done.load(Ordering::Relaxed), self.items() as i64)
    }

    fn items(&self) -> usize {
        self.shape.items().unwrap_or(0)
    }

    /// Takes effect in the thread that runs the task.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Works until all is done (true) or the time is over (false).
    pub fn run(&self, timeout_ms: i64) -> Result<bool> {
        let mut state = self.state.try_lock().map_err(|_| {
            Error::new(
                Code::Misuse,
                "the task is being run by another thread, or an earlier run failed badly",
            )
        })?;
        if self.outcome.get().is_some() {
            return Ok(true);
        }
        if let Some(error) = &state.broken {
            return Err(error.clone());
        }
        let begin = *state.started.get_or_insert_with(Instant::now);
        let until = u64::try_from(timeout_ms)
            .ok()
            .and_then(|ms| Instant::now().checked_add(Duration::from_millis(ms)));
        let result = self.work(&mut state, until);
        match &result {
            Ok(true) => self.finish(&mut state, begin.elapsed().as_micros() as i64),
            Ok(false) => {}
            Err(e) => {
                state.running.clear(); // releasing a job cancels it
                state.broken = Some(e.clone());
            }
        }
        result
    }

    fn work(&self, state: &mut State, until: Option<Instant>) -> Result<bool> {
        let mut prompts = self.prompts()?;
        let left = |until: Option<Instant>| match until {
            None => LOOK_MS,
            Some(until) => {
                LOOK_MS.min(until.saturating_duration_since(Instant::now()).as_millis() as i64)
            }
        };
        let mut is_cancelled = false;
        loop {
            let mut is_full = false;
            while !is_full
                && !self.cancelled.load(Ordering::Relaxed)
                && state.running.len() < CHUNKS
            {
                let chunk = match state.waiting.take() {
                    Some(chunk) => chunk,
                    None if state.next < self.items() => self.encode(state, &mut prompts)?,
                    None => break,
                };
                if chunk.items.is_empty() {
                    continue; // all of them were bad
                }
                match self.engine.submit(&chunk.batch) {
                    Ok(job) => state.running.push_back(Running {
                        job,
                        items: chunk.items,
                    }),
                    Err(e) if e.code == Code::QueueFull => {
                        state.waiting = Some(chunk);
                        is_full = true;
                    }
                    Err(e) => return Err(e),
                }
            }
            // After the loop above, which encodes and so takes a while.
            if self.cancelled.load(Ordering::Relaxed) && !is_cancelled {
                is_cancelled = true;
                self.drop_rest(state)?;
                is_full = false;
            }
            if let Some(front) = state.running.front() {
                if front.job.wait(left(until))? {
                    if let Some(running) = state.running.pop_front() {
                        self.collect(state, &running)?;
                    }
                    continue;
                }
            } else if is_full {
                // Others have filled the engine's queue, and nothing tells when there is room.
                std::thread::sleep(Duration::from_millis(left(until) as u64));
            } else {
                return Ok(true);
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(false);
            }
        }
    }

    /// Cancels what runs and gives up what was not begun.
    fn drop_rest(&self, state: &mut State) -> Result<()> {
        for running in &state.running {
            running.job.cancel()?;
        }
        let error = Error::new(Code::Cancelled, "the task was cancelled");
        let waiting = state.waiting.take().map_or(Vec::new(), |c| c.items);
        let order = Order::new(self, self.prompts()?.document_first());
        let rest = (state.next..self.items()).map(|at| order.item(at));
        for item in waiting.iter().map(|sent| sent.item).chain(rest) {
            self.found(&mut state.found, item, Item::failed(&error));
        }
        state.next = self.items();
        Ok(())
    }

    fn found(&self, found: &mut [Option<Item>], index: usize, item: Item) {
        if found[index].replace(item).is_none() {
            self.done.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn finish(&self, state: &mut State, total_us: i64) {
        let missing = Error::new(Code::Internal, "the item has no result");
        let items: Vec<Item> = std::mem::take(&mut state.found)
            .into_iter()
            .map(|item| item.unwrap_or_else(|| Item::failed(&missing)))
            .collect();
        let mut outcome = Outcome {
            rows: self.shape.rows,
            columns: self.shape.columns,
            values: std::mem::take(&mut state.values),
            totals: prefix_job_totals {
                requests: items.len() as i64,
                failed: items.iter().filter(|i| i.info.status != 0).count() as i64,
                total_us,
                ..prefix_job_totals::sized()
            },
            items,
        };
        for totals in &state.totals {
            outcome.add(totals);
        }
        let _ = self.outcome.set(outcome);
    }
}

/// A list of this length, or an error where memory or the length itself will not do.
fn filled<T>(count: Option<usize>, value: impl FnMut() -> T) -> Result<Vec<T>> {
    let mut list = Vec::new();
    let count = count.filter(|n| list.try_reserve_exact(*n).is_ok());
    let count =
        count.ok_or_else(|| Error::new(Code::OutOfMemory, "there is no memory for the results"))?;
    list.resize_with(count, value);
    Ok(list)
}
