//! How far a task is: what is encoded, what the engine has, and why it ends.

use super::list_state::{ListWork, SentBlock};
use super::texts::Texts;
use crate::engine::{Batch, Job};
use crate::error::Error;
use crate::tasks::constrained::Told;
use crate::tasks::inputs::Inputs;
use crate::tasks::prompt::Prompts;
use crate::tasks::results::{Item, Results};
use crate::tasks::seeds::Seeds;
use crate::tasks::setup::Setup;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

pub struct Work {
    pub setup: Arc<Setup>,
    pub inputs: Box<Inputs>,
    /// They outlive the rest: the caller is told of the end when the engine is let go.
    pub results: Arc<Results>,
    /// When option deadline_ms ends it.
    pub deadline: Option<Instant>,
    pub progress: Mutex<Progress>,
    /// The caller may set it at any moment, also while the first chunk is encoded.
    pub is_cancelled: Arc<AtomicBool>,
}

pub struct Progress {
    pub prompts: Prompts,
    /// Of a method that reads lists.
    pub lists: Option<ListWork>,
    pub seeds: Option<Seeds>,
    /// Items before this one, in the order of work, were encoded.
    pub next: usize,
    /// Encoded, but the engine's queue was full.
    pub waiting: Option<Chunk>,
    pub running: Vec<Running>,
    /// Why items that are not in work will not be.
    pub over: Option<Error>,
}

pub struct Chunk {
    pub batch: Batch,
    pub items: Vec<Sent>,
}

/// What has to be known when the result of an item comes back.
pub struct Sent {
    pub item: usize,
    pub was_cut: bool,
    /// Tokens of each of its choices.
    pub lengths: Vec<usize>,
    /// Of a list, which has more items than the one above.
    pub block: Option<SentBlock>,
    /// Why rules ended its text.
    pub told: Option<Told>,
    /// Its result was taken.
    pub is_read: bool,
}

/// A chunk that the engine has.
pub struct Running {
    pub job: Job,
    pub items: Vec<Sent>,
    /// Where texts are looked at while they are written.
    pub texts: Option<Texts>,
    /// After the task.
    pub submitted_us: i64,
}

impl Work {
    pub fn new(
        setup: Arc<Setup>,
        inputs: Box<Inputs>,
        is_cancelled: Arc<AtomicBool>,
    ) -> std::result::Result<Work, (Box<Inputs>, Error)> {
        let make = || {
            let results = Results::new(inputs.len(), setup.width(&inputs))?;
            let lists = setup.lists()?.map(ListWork::new);
            Ok((results, setup.prompts()?, lists, setup.seeds()?))
        };
        let (results, prompts, lists, seeds) = match make() {
            Ok(made) => made,
            Err(error) => return Err((inputs, error)),
        };
        let deadline = match setup.options.deadline_ms {
            0 => None,
            ms => Instant::now().checked_add(Duration::from_millis(ms)),
        };
        Ok(Work {
            setup,
            inputs,
            results: Arc::new(results),
            deadline,
            progress: Mutex::new(Progress {
                prompts,
                lists,
                seeds,
                next: 0,
                waiting: None,
                running: Vec::new(),
                over: None,
            }),
            is_cancelled,
        })
    }

    /// For another try, where nothing has begun.
    pub fn into_inputs(self) -> Box<Inputs> {
        self.inputs
    }

    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    pub fn is_late(&self) -> bool {
        self.deadline.is_some_and(|end| Instant::now() >= end)
    }

    pub fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub fn fail(&self, items: impl Iterator<Item = usize>, error: &Error) {
        self.results.change(|found| {
            for item in items {
                found.put(item, Item::failed(error), self.inputs.user_tag(item));
            }
        });
    }

    /// The same for requests, with the lists that they belong to.
    pub fn fail_sent<'a>(
        &self,
        lists: &mut Option<ListWork>,
        sent: impl Iterator<Item = &'a Sent>,
        error: &Error,
    ) {
        let items = sent.flat_map(|sent| match (&sent.block, &mut *lists) {
            (Some(block), Some(lists)) => lists.lose(block),
            _ => sent.item..sent.item + 1,
        });
        let items: Vec<usize> = items.collect();
        self.fail(items.into_iter(), error);
    }
}
