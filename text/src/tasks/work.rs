//! Runs a task on an engine, chunk by chunk.

use super::options::Options;
use super::outcome::{Item, Outcome};
use super::prompt::{Built, Fields, Prompts};
use super::recipe::{Method, TaskKind};
use crate::error::{Code, Error, Result};
use crate::ffi::libprefix::{self, Engine, Job, Request, Totals};
use crate::text::{EncodeOptions, Text};
use serde_json::{json, Value};
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

/// Texts of the caller; bytes that are no UTF-8 fail alone, so they are kept as they came.
#[derive(Default)]
pub struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Texts {
    /// `cuts`: where each text begins, and the end of the last.
    pub fn new(bytes: &[u8], cuts: &[i64]) -> Texts {
        Texts {
            bytes: bytes.to_vec(),
            ends: cuts.iter().map(|at| *at as usize).collect(),
        }
    }

    pub fn one(bytes: &[u8]) -> Texts {
        Self::new(bytes, &[0, bytes.len() as i64])
    }

    pub fn len(&self) -> usize {
        self.ends.len().saturating_sub(1)
    }

    pub fn get(&self, index: usize, what: &str) -> Result<&str> {
        let bytes = &self.bytes[self.ends[index]..self.ends[index + 1]];
        std::str::from_utf8(bytes).map_err(|e| {
            Error::new(
                Code::InvalidUtf8,
                format!(
                    "{what} {index} is not UTF-8 from byte {} on",
                    e.valid_up_to()
                ),
            )
        })
    }
}

pub struct Inputs {
    pub task: TaskKind,
    /// Queries, questions; empty for embed and classify.
    pub queries: Texts,
    /// Documents, texts; the context.
    pub documents: Texts,
    /// Of classify.
    pub labels: Texts,
}

/// A chunk that the engine has.
struct Running {
    job: Job,
    items: Vec<Sent>,
}

/// What has to be known when the result of an item comes back.
struct Sent {
    item: usize,
    was_cut: bool,
    /// Of each label.
    lengths: Vec<usize>,
}

struct Chunk {
    batch: libprefix::Batch,
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
    totals: Vec<Totals>,
    started: Option<Instant>,
    /// An error that concerns all items.
    broken: Option<Error>,
}

pub struct Task {
    engine: Engine,
    text: Arc<Text>,
    options: Options,
    request: libprefix::Options,
    inputs: Inputs,
    rows: usize,
    columns: usize,
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

impl Task {
    pub fn new(engine: Engine, text: Arc<Text>, inputs: Inputs, options: Options) -> Result<Task> {
        let info: Value = serde_json::from_str(&engine.info_json()?)
            .map_err(|e| Error::new(Code::Internal, format!("prefix_engine_info_json: {e}")))?;
        let number = |key: &str| info["model"][key].as_u64().unwrap_or(0) as usize;
        let hidden = number("hidden");
        let (rows, columns) = match inputs.task {
            TaskKind::Rerank => (inputs.queries.len(), inputs.documents.len()),
            TaskKind::Answer => (inputs.queries.len(), 0),
            TaskKind::Classify => (inputs.documents.len(), inputs.labels.len()),
            TaskKind::Embed if options.dimensions == 0 => (inputs.documents.len(), hidden),
            TaskKind::Embed => (inputs.documents.len(), options.dimensions.min(hidden)),
        };
        if inputs.task == TaskKind::Classify && columns == 0 {
            return Err(Error::argument("there are no labels"));
        }
        if options.dimensions > hidden {
            return Err(Error::range(format!(
                "option dimensions is {}; the model has {hidden}",
                options.dimensions
            )));
        }
        let items = match inputs.task {
            TaskKind::Rerank => rows.checked_mul(columns),
            _ => Some(rows),
        };
        let items = items.filter(|n| *n <= MAX_ITEMS).ok_or_else(|| {
            let what = match inputs.task {
                TaskKind::Rerank => format!("{rows} queries and {columns} documents"),
                _ => format!("{rows} texts"),
            };
            Error::range(format!("{what} are more than {MAX_ITEMS} items"))
        })?;
        let request = engine.options(&Self::request_json(&text, &inputs, &options).to_string())?;
        // In the engine's words: it knows its defaults, and how numbers may be spelt.
        let generated = request.text("max_tokens")?.parse().unwrap_or(1);
        // A chunk that is longer than the engine's queue would never fit.
        let queue: Option<usize> = info["options"]["queue_limit"]
            .as_str()
            .and_then(|limit| limit.parse().ok());
        let chunk_items = queue.map_or(CHUNK_ITEMS, |n| (n / CHUNKS).clamp(1, CHUNK_ITEMS));
        let task = Task {
            engine,
            text,
            request,
            inputs,
            rows,
            columns,
            positions: number("max_positions"),
            generated,
            chunk_items,
            state: Mutex::new(State {
                found: filled(Some(items), || None)?,
                values: filled(rows.checked_mul(columns), || f32::NAN)?,
                ..State::default()
            }),
            outcome: OnceLock::new(),
            cancelled: AtomicBool::new(false),
            done: AtomicI64::new(0),
            options,
        };
        // What is wrong with the recipe shows now, not with the first item.
        task.prompts()?;
        task.yes_no()?;
        Ok(task)
    }

    /// The engine's options: the recipe's, the caller's, and what follows from the task.
    fn request_json(text: &Text, inputs: &Inputs, options: &Options) -> Value {
        let mut request = options.request.clone();
        match inputs.task {
            TaskKind::Embed => {
                request.insert("dimensions".into(), json!(options.dimensions));
                request.insert("normalize".into(), json!(options.normalize));
            }
            TaskKind::Answer if !request.contains_key("stop_tokens") => {
                let mut stops = text.ends().to_vec();
                // Where the stop text is a token of its own, the engine itself can end there.
                if let Ok(ids) = text.encode(&options.recipe.stop, EncodeOptions::default()) {
                    if let [id] = ids[..] {
                        stops.push(id);
                    }
                }
                request.insert("stop_tokens".into(), json!(stops));
            }
            _ => {}
        }
        Value::Object(request)
    }

    fn prompts(&self) -> Result<Prompts<'_>> {
        let recipe = &self.options.recipe;
        let prompt = recipe
            .prompts
            .get(&self.options.prompt)
            .ok_or_else(|| Error::not_found("the recipe has no such prompt"))?;
        Prompts::new(&self.text, recipe, prompt)
    }

    fn yes_no(&self) -> Result<[i32; 2]> {
        let recipe = &self.options.recipe;
        if recipe.method != Method::YesNo {
            return Ok([0; 2]);
        }
        let token = |word: &str| -> Result<i32> {
            match self.text.encode(word, EncodeOptions::default())?[..] {
                [id] => Ok(id),
                ref ids => Err(Error::unsupported(format!(
                    "the recipe's word \"{word}\" has {} tokens in this model; it needs one",
                    ids.len()
                ))),
            }
        };
        Ok([token(&recipe.yes)?, token(&recipe.no)?])
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

    pub fn has_order(&self) -> bool {
        matches!(self.inputs.task, TaskKind::Rerank | TaskKind::Classify)
    }

    /// Items with their result, and all.
    pub fn progress(&self) -> (i64, i64) {
        (self.done.load(Ordering::Relaxed), self.items() as i64)
    }

    fn items(&self) -> usize {
        match self.inputs.task {
            TaskKind::Rerank => self.rows * self.columns,
            _ => self.rows,
        }
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
            Ok(true) => self.finish(&mut state, begin.elapsed().as_secs_f64()),
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
        let yes_no = self.yes_no()?;
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
                    None if state.next < self.items() => {
                        self.encode(state, &mut prompts, &yes_no)?
                    }
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

    /// The next chunk of requests.
    fn encode(&self, state: &mut State, prompts: &mut Prompts, yes_no: &[i32; 2]) -> Result<Chunk> {
        let order = Order::new(self, prompts.document_first());
        let mut chunk = Chunk {
            batch: self.engine.batch()?,
            items: Vec::new(),
        };
        let mut before: Vec<i32> = Vec::new();
        let mut distinct = 0;
        while state.next < self.items()
            && chunk.items.len() < self.chunk_items
            && distinct * CHUNKS < self.options.chunk_tokens
            && !self.cancelled.load(Ordering::Relaxed)
        {
            let item = order.item(state.next);
            state.next += 1;
            match self.add(item, prompts, yes_no, &mut chunk) {
                Ok((tokens, choices)) => {
                    let shared = before.iter().zip(&tokens).take_while(|(a, b)| a == b);
                    distinct += tokens.len() - shared.count() + choices;
                    before = tokens;
                }
                Err(error) => self.found(&mut state.found, item, Item::failed(&error)),
            }
        }
        Ok(chunk)
    }

    /// Adds the request of an item to the chunk; its tokens, and how many its choices have.
    fn add(
        &self,
        item: usize,
        prompts: &mut Prompts,
        yes_no: &[i32; 2],
        chunk: &mut Chunk,
    ) -> Result<(Vec<i32>, usize)> {
        let inputs = &self.inputs;
        let labels: String;
        let mut fields = Fields {
            instruction: &self.options.instruction,
            ..Fields::default()
        };
        match inputs.task {
            TaskKind::Rerank => {
                fields.query = inputs.queries.get(item / self.columns, "query")?;
                fields.document = inputs.documents.get(item % self.columns, "document")?;
            }
            TaskKind::Answer => {
                fields.query = inputs.queries.get(item, "question")?;
                fields.document = inputs.documents.get(0, "context")?;
            }
            TaskKind::Embed => fields.document = inputs.documents.get(item, "text")?,
            TaskKind::Classify => {
                fields.document = inputs.documents.get(item, "text")?;
                labels = (0..inputs.labels.len())
                    .map(|i| inputs.labels.get(i, "label"))
                    .collect::<Result<Vec<_>>>()?
                    .join(", ");
                fields.labels = &labels;
            }
        }

        let method = self.options.recipe.method;
        let mut sent = Sent {
            item,
            was_cut: false,
            lengths: Vec::new(),
        };
        let target = &self.options.recipe.target;
        let (tokens, after) = match method {
            Method::Likelihood => {
                let after = prompts.continuation(target, &fields)?;
                let Built {
                    mut tokens,
                    was_cut,
                } = prompts.build(&fields, self.limit(after.len()), self.options.truncate)?;
                sent.was_cut = was_cut;
                tokens.extend(&after);
                (tokens, after)
            }
            Method::Choices => {
                let mut after = Vec::new();
                for i in 0..inputs.labels.len() {
                    fields.label = inputs.labels.get(i, "label")?;
                    let label = prompts.continuation(target, &fields)?;
                    sent.lengths.push(label.len());
                    after.extend(label);
                }
                let longest = sent.lengths.iter().copied().max().unwrap_or(0);
                let built = prompts.build(&fields, self.limit(longest), self.options.truncate)?;
                sent.was_cut = built.was_cut;
                (built.tokens, after)
            }
            _ => {
                let more = if method == Method::Generate {
                    self.generated
                } else {
                    0
                };
                let built = prompts.build(&fields, self.limit(more), self.options.truncate)?;
                sent.was_cut = built.was_cut;
                (built.tokens, Vec::new())
            }
        };

        let mut offsets = vec![0i64];
        for n in &sent.lengths {
            offsets.push(offsets[offsets.len() - 1] + *n as i64);
        }
        let request = match method {
            Method::Likelihood => Request::Logprobs {
                from: tokens.len() - after.len(),
            },
            Method::YesNo => Request::Logits { ids: yes_no },
            Method::Embedding => Request::Embedding,
            Method::Generate => Request::Generate,
            Method::Choices => Request::Choices {
                tokens: &after,
                offsets: &offsets,
            },
        };
        chunk.batch.add(&tokens, &request, &self.request)?;
        chunk.items.push(sent);
        let choices = offsets[offsets.len() - 1] as usize;
        Ok((tokens, choices))
    }

    /// Longest prompt when `more` tokens follow it.
    fn limit(&self, more: usize) -> usize {
        let mut limit = self.positions.saturating_sub(more);
        for most in [
            self.options.max_prompt_tokens,
            self.options.recipe.max_prompt_tokens,
        ] {
            if most != 0 {
                limit = limit.min(most);
            }
        }
        limit
    }

    fn collect(&self, state: &mut State, running: &Running) -> Result<()> {
        for (i, sent) in running.items.iter().enumerate() {
            let info = running.job.info(i)?;
            let mut item = Item {
                info,
                message: String::new(),
                text: String::new(),
            };
            item.info.user_tag = i64::from(sent.was_cut);
            if info.status != 0 {
                item.message = running.job.message(i)?;
            } else if let Err(error) = self.read(state, running, i, sent, &mut item) {
                item = Item::failed(&error);
            }
            self.found(&mut state.found, sent.item, item);
        }
        state.totals.push(running.job.totals()?);
        Ok(())
    }

    /// From the values of a request to those of its item.
    fn read(
        &self,
        state: &mut State,
        running: &Running,
        index: usize,
        sent: &Sent,
        item: &mut Item,
    ) -> Result<()> {
        let method = self.options.recipe.method;
        if method == Method::Generate {
            item.text = self.answer(&running.job.tokens(index)?)?;
            return Ok(());
        }
        let values = running.job.values(index)?;
        let raw = self.options.raw;
        match method {
            Method::Likelihood => {
                let sum: f64 = values.iter().map(|v| f64::from(*v)).sum();
                let score = if raw { sum } else { sum / values.len() as f64 };
                state.values[sent.item] = score as f32;
            }
            Method::YesNo => {
                // softmax over two logits = sigmoid of their difference
                let difference = f64::from(values[0]) - f64::from(values[1]);
                let score = if raw {
                    difference
                } else {
                    1.0 / (1.0 + (-difference).exp())
                };
                state.values[sent.item] = score as f32;
            }
            Method::Choices => {
                let means: Vec<f64> = values
                    .iter()
                    .zip(&sent.lengths)
                    .map(|(sum, n)| f64::from(*sum) / *n as f64)
                    .collect();
                let most = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = means.iter().map(|m| (m - most).exp()).sum();
                let row = &mut state.values[sent.item * self.columns..][..self.columns];
                for (value, mean) in row.iter_mut().zip(&means) {
                    *value = if raw {
                        *mean as f32
                    } else {
                        ((mean - most).exp() / total) as f32
                    };
                }
            }
            _ => {
                let row = &mut state.values[sent.item * self.columns..][..self.columns];
                row.copy_from_slice(&values[..self.columns]);
            }
        }
        Ok(())
    }

    fn answer(&self, tokens: &[i32]) -> Result<String> {
        // Models pad their embedding beyond the vocabulary; those tokens stand for no text.
        let size = self.text.vocab_size() as i64;
        let known: Vec<i32> = tokens
            .iter()
            .copied()
            .filter(|token| (0..size).contains(&i64::from(*token)))
            .collect();
        let text = self.text.decode(&known, true)?;
        let stop = &self.options.recipe.stop;
        let text = text.trim_start();
        let end = (!stop.is_empty())
            .then(|| text.find(stop.as_str()))
            .flatten();
        Ok(text[..end.unwrap_or(text.len())].trim_end().to_string())
    }

    fn finish(&self, state: &mut State, seconds: f64) {
        let missing = Error::new(Code::Internal, "the item has no result");
        let items: Vec<Item> = std::mem::take(&mut state.found)
            .into_iter()
            .map(|item| item.unwrap_or_else(|| Item::failed(&missing)))
            .collect();
        let mut outcome = Outcome {
            rows: self.rows,
            columns: self.columns,
            values: std::mem::take(&mut state.values),
            totals: Totals {
                struct_size: size_of::<Totals>() as i32,
                requests: items.len() as i64,
                failed: items.iter().filter(|i| i.info.status != 0).count() as i64,
                seconds,
                ..Totals::default()
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

/// The order of work: items that share most follow each other.
struct Order {
    rows: usize,
    columns: usize,
    by_column: bool,
}

impl Order {
    fn new(task: &Task, document_first: bool) -> Order {
        Order {
            rows: task.rows,
            columns: task.columns,
            by_column: task.inputs.task == TaskKind::Rerank && document_first,
        }
    }

    fn item(&self, at: usize) -> usize {
        if self.by_column {
            (at % self.rows) * self.columns + at / self.rows
        } else {
            at
        }
    }
}
