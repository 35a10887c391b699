//! A task as its caller sees it: filled, submitted once, read.

use super::choice::refused;
use super::driver::Place;
use super::inputs::Inputs;
use super::model::Model;
use super::options_json;
use super::registry::{kind, kinds};
use super::results::{until, Found};
use super::setup::Setup;
use super::work::Work;
use crate::engine::{Engine, Queue};
use crate::error::{Code, Error, Result};
use crate::prefix_h::prefix_queue;
use crate::text::Text;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

pub struct Task {
    setup: Arc<Setup>,
    draft: Mutex<Draft>,
    is_cancelled: Arc<AtomicBool>,
    submitted: OnceLock<Submitted>,
}

/// Before a task is submitted.
struct Draft {
    /// None: it is submitted.
    inputs: Option<Box<Inputs>>,
    watchers: Vec<(Queue, i64)>,
    events_watcher: Option<(Queue, i64)>,
}

impl Drop for Draft {
    /// Those who wait for a task that is never submitted are told, too.
    fn drop(&mut self) {
        let watchers = self.watchers.drain(..);
        for (queue, tag) in watchers.chain(self.events_watcher.take()) {
            // A queue that has no memory for a tag cannot be told.
            let _ = queue.post(tag);
        }
    }
}

struct Submitted {
    work: Arc<Work>,
    /// Where the thread of tasks listens.
    queue: Arc<Queue>,
    tag: i64,
}

impl Submitted {
    /// Has the thread of tasks look at it. Without memory for a tag it looks later.
    fn wake(&self) {
        let _ = self.queue.post(self.tag);
    }
}

/// A program makes a task for each of its users' requests: it is told once.
fn warn_once(engine: &Engine, warning: &str) {
    const MOST: usize = 1024;
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut told = TOLD.lock().unwrap_or_else(|e| e.into_inner());
    let is_new = told.len() < MOST && told.insert(warning.to_string());
    drop(told);
    if is_new {
        engine.warn(warning);
    }
}

impl Task {
    /// `options`: an object of JSON.
    pub fn new(engine: Engine, text: Arc<Text>, name: &str, options: &str) -> Result<Task> {
        let kind = kind(name)?;
        let model = Model::new(&engine.info_json()?, &text)?;
        let (options, method) = options_json::parse(options, kind, &model, &text)?;
        if let Some(warning) = &options.warning {
            warn_once(&engine, warning);
        }
        let mut inputs = Inputs::new(kind, options.samples);
        inputs.labels = method.labels(&model);
        inputs.places = (0..inputs.labels.len()).collect();
        Ok(Task {
            setup: Arc::new(Setup::new(engine, text, kind, method, options, model)?),
            draft: Mutex::new(Draft {
                inputs: Some(Box::new(inputs)),
                watchers: Vec::new(),
                events_watcher: None,
            }),
            is_cancelled: Arc::default(),
            submitted: OnceLock::new(),
        })
    }

    /// What it is made of, as JSON.
    pub fn info_json(&self) -> String {
        let options = &self.setup.options;
        let recipe = &options.recipe;
        let mut info = json!({
            "kind": self.setup.kind.name,
            "recipe": recipe.name,
            "method": recipe.method,
            "reason": options.reason,
            "model": self.setup.model.name,
        });
        if self.setup.kind.has_labels {
            info["labels"] = json!(self.labels());
        }
        info.to_string()
    }

    fn labels(&self) -> Vec<String> {
        if let Some(submitted) = self.submitted.get() {
            return submitted.work.inputs.labels.clone();
        }
        let draft = self.draft();
        match (&draft.inputs, self.submitted.get()) {
            (Some(inputs), _) => inputs.labels.clone(),
            (None, submitted) => submitted.map_or(Vec::new(), |s| s.work.inputs.labels.clone()),
        }
    }

    fn draft(&self) -> MutexGuard<'_, Draft> {
        self.draft.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Changes what the task is given.
    pub fn fill<T>(&self, body: impl FnOnce(&mut Inputs) -> Result<T>) -> Result<T> {
        match &mut self.draft().inputs {
            Some(inputs) => body(inputs),
            None => Err(Error::new(
                Code::Misuse,
                "the task was submitted; it takes nothing more",
            )),
        }
    }

    pub fn set_labels(&self, labels: Vec<String>) -> Result<()> {
        let (method, recipe) = (self.setup.method, &self.setup.options.recipe);
        let model = &self.setup.model;
        self.fill(|inputs| {
            if !inputs.kind.has_labels {
                return Err(Error::new(
                    Code::Misuse,
                    format!("{} has no labels", inputs.kind.name),
                ));
            }
            inputs.places = method
                .places(&labels, model)
                .map_err(|error| refused(recipe, model, error))?;
            inputs.labels = labels;
            Ok(())
        })
    }

    /// Encodes the first chunk in this thread; the thread of tasks goes on with it.
    pub fn submit(&self) -> Result<()> {
        let mut draft = self.draft();
        let inputs = draft.inputs.take().ok_or_else(|| {
            Error::new(Code::Misuse, "the task was submitted; it is submitted once")
        })?;
        match self.begin(inputs, &mut draft) {
            Ok(submitted) => {
                let submitted = self.submitted.get_or_init(|| submitted);
                // Whoever cancelled it meanwhile had nobody to tell.
                if self.is_cancelled.load(Ordering::SeqCst) {
                    submitted.wake();
                }
                Ok(())
            }
            Err((inputs, error)) => {
                draft.inputs = Some(inputs);
                Err(error)
            }
        }
    }

    fn begin(
        &self,
        inputs: Box<Inputs>,
        draft: &mut Draft,
    ) -> std::result::Result<Submitted, (Box<Inputs>, Error)> {
        if inputs.kind.has_labels && inputs.labels.is_empty() {
            return Err((inputs, Error::argument("there are no labels")));
        }
        let work = Work::new(self.setup.clone(), inputs, self.is_cancelled.clone())?;
        let started = Place::new(|| self.setup.engine.new_queue())
            .and_then(|place| work.start(&place.queue, place.tag).map(|()| place));
        let place = match started {
            Ok(place) => place,
            Err(error) => return Err((work.into_inputs(), error)),
        };
        let work = Arc::new(work);
        for (queue, tag) in draft.watchers.drain(..) {
            work.results.notify(queue, tag);
        }
        if let Some((queue, tag)) = draft.events_watcher.take() {
            work.results.notify_events(queue, tag);
        }
        let submitted = Submitted {
            work: work.clone(),
            queue: place.queue.clone(),
            tag: place.tag,
        };
        place.take(work);
        Ok(submitted)
    }

    fn submitted(&self) -> Result<&Submitted> {
        self.submitted.get().ok_or_else(|| {
            Error::new(
                Code::Misuse,
                "the task was not submitted; prefix_task_submit starts it",
            )
        })
    }

    pub fn work(&self) -> Result<&Work> {
        Ok(&self.submitted()?.work)
    }

    /// What was found so far.
    pub fn found(&self) -> Result<MutexGuard<'_, Found>> {
        Ok(self.work()?.results.lock())
    }

    /// Whether texts come piece by piece.
    pub fn is_streamed(&self) -> bool {
        self.setup.options.stream
    }

    /// Whether all items have their result.
    pub fn wait(&self, timeout_ms: i64) -> Result<bool> {
        Ok(self.work()?.results.wait(until(timeout_ms)))
    }

    /// Of a task without a caller nobody reads the results.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::SeqCst);
        // A submission that is under way sees it before it is over.
        if let Some(submitted) = self.submitted.get() {
            submitted.wake();
        }
    }

    pub fn notify(&self, queue: Queue, tag: i64) {
        let mut draft = self.draft();
        match self.submitted.get() {
            Some(submitted) => submitted.work.results.notify(queue, tag),
            None => draft.watchers.push((queue, tag)),
        }
    }

    pub fn notify_events(&self, queue: Queue, tag: i64) {
        let mut draft = self.draft();
        match self.submitted.get() {
            Some(submitted) => submitted.work.results.notify_events(queue, tag),
            None => draft.events_watcher = Some((queue, tag)),
        }
    }

    pub fn queue(&self, handle: *mut prefix_queue) -> Result<Queue> {
        // SAFETY: libprefix checks what it is given.
        unsafe { self.setup.engine.retain_queue(handle) }
    }

    /// All items, and those that have their result.
    pub fn counts(&self) -> (usize, usize) {
        if let Ok(found) = self.found() {
            return (found.items.len(), found.finished);
        }
        let draft = self.draft();
        (draft.inputs.as_ref().map_or(0, |inputs| inputs.len()), 0)
    }

    /// The tokens of an item as the engine is given them.
    pub fn tokens(&self, item: usize) -> Result<Vec<i32>> {
        let draft = self.draft();
        let inputs = match (&draft.inputs, self.submitted.get()) {
            (Some(inputs), _) => inputs,
            (None, Some(submitted)) => &submitted.work.inputs,
            (None, None) => return Err(Error::new(Code::Misuse, "the task is being submitted")),
        };
        if item >= inputs.len() {
            return Err(Error::range(format!(
                "item {item}; the task has {}",
                inputs.len()
            )));
        }
        self.setup.tokens(inputs, item)
    }

    /// Places and values of the best of `count` values, from `first` on.
    pub fn ranking(&self, first: usize, count: usize) -> Result<(Vec<i64>, Vec<f32>)> {
        let found = self.found()?;
        if !self.setup.kind.has_order {
            let ordered = kinds().filter(|kind| kind.has_order);
            let names: Vec<&str> = ordered.map(|kind| kind.name).collect();
            return Err(Error::new(
                Code::Misuse,
                format!("only the values of {} have an order", names.join(" and ")),
            ));
        }
        let all = found.values.len();
        if first > all || count > all - first {
            return Err(Error::range(format!(
                "{count} values from {first} on; the task has {all}"
            )));
        }
        Ok(found.ranking(first, count, self.setup.options.top_n))
    }
}
