//! A task that is being filled.

use std::ops::Range;

use prefix_sys as sys;

use super::task::{info_json, tokens, Task};
use crate::error::{call, Result};
use crate::options::raw_or_null;
use crate::raw::{Handle, TextRefs};
use crate::{Chat, Engine, Options, Token, Tokenizer};

/// What a task makes of its items.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaskKind {
    /// An item is a query and a document; it gets a score, and a higher one is better.
    Rerank,
    /// An item is a text; it gets a vector.
    Embed,
    /// An item is a text; it gets a probability for each label, and together they are 1.
    Classify,
    /// An item is a context and a question; it gets a text.
    Answer,
    /// An item is a prompt; it gets the text that follows.
    Generate,
    /// An item is a conversation ([`Chat::json`]); it gets the next message.
    Chat,
}

impl TaskKind {
    /// As `prefix_text.h` has it, for instance `rerank`.
    pub fn name(self) -> &'static str {
        match self {
            TaskKind::Rerank => "rerank",
            TaskKind::Embed => "embed",
            TaskKind::Classify => "classify",
            TaskKind::Answer => "answer",
            TaskKind::Generate => "generate",
            TaskKind::Chat => "chat",
        }
    }
}

/// A task that is being filled; made by [`Task::builder`]. Texts are copied into it, so it borrows nothing.
///
/// A task that was submitted takes nothing more:
///
/// ```compile_fail,E0382
/// # fn f(mut builder: prefix::TaskBuilder) -> prefix::Result<()> {
/// let task = builder.submit()?;
/// builder.add(&["too late"])?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a task begins when it is submitted"]
pub struct TaskBuilder(Handle<sys::prefix_task>);

// Safety: the header lets any thread call every function of a task at any time.
unsafe impl Sync for TaskBuilder {}

impl Task {
    /// A task to be filled and submitted. Options are those of tasks and of the requests that it makes; one that
    /// has no effect on this kind is refused, as is a tokenizer that does not fit the model. `deadline_ms` counts
    /// from [`TaskBuilder::submit`], for the whole task.
    pub fn builder(
        engine: &Engine,
        tokenizer: &Tokenizer,
        kind: TaskKind,
        options: Option<&Options>,
    ) -> Result<TaskBuilder> {
        TaskBuilder::new(engine, tokenizer, kind, options)
    }
}

impl TaskBuilder {
    fn new(
        engine: &Engine,
        tokenizer: &Tokenizer,
        kind: TaskKind,
        options: Option<&Options>,
    ) -> Result<TaskBuilder> {
        let name = kind.name();
        // Safety: live handles, a text with its length, and options that outlive the call or NULL.
        let handle = Handle::create(|out, err| unsafe {
            sys::prefix_task_create(
                engine.raw(),
                tokenizer.raw(),
                name.as_ptr().cast(),
                name.len(),
                raw_or_null(options),
                out,
                err,
            )
        })?;
        Ok(TaskBuilder(handle))
    }

    /// Sets the labels of [`TaskKind::Classify`], in place of earlier ones.
    pub fn set_labels(&mut self, labels: &[impl AsRef<str>]) -> Result<()> {
        let labels = TextRefs::new(labels);
        let (starts, lengths) = (labels.starts.as_ptr(), labels.lengths.as_ptr());
        // Safety: a live handle, and arrays and texts with their lengths; also below.
        call(|err| unsafe {
            sys::prefix_task_set_labels(self.0.get(), starts, lengths, labels.len(), err)
        })
    }

    /// Adds items: the texts of an item follow each other (query, document, query, document, ...). Returns the
    /// numbers of the items. One with a text that is too long fails alone.
    pub fn add(&mut self, texts: &[impl AsRef<str>]) -> Result<Range<usize>> {
        self.add_tagged(texts, 0)
    }

    /// The same with a number that comes back with the events and the info of these items.
    pub fn add_tagged(&mut self, texts: &[impl AsRef<str>], tag: i64) -> Result<Range<usize>> {
        let texts = TextRefs::new(texts);
        let (starts, lengths) = (texts.starts.as_ptr(), texts.lengths.as_ptr());
        let mut first = 0;
        call(|err| unsafe {
            let (task, count) = (self.0.get(), texts.len());
            sys::prefix_task_add(task, starts, lengths, count, tag, &mut first, err)
        })?;
        Ok(first..self.len()?)
    }

    /// Adds an item for every second text with every first one, as all documents for each query: the items of the
    /// first query, then those of the next one. Returns their numbers.
    pub fn add_product(
        &mut self,
        firsts: &[impl AsRef<str>],
        seconds: &[impl AsRef<str>],
    ) -> Result<Range<usize>> {
        self.add_product_tagged(firsts, seconds, 0)
    }

    /// The same with a number that comes back with the events and the info of these items.
    pub fn add_product_tagged(
        &mut self,
        firsts: &[impl AsRef<str>],
        seconds: &[impl AsRef<str>],
        tag: i64,
    ) -> Result<Range<usize>> {
        let (firsts, seconds) = (TextRefs::new(firsts), TextRefs::new(seconds));
        let mut first = 0;
        call(|err| unsafe {
            sys::prefix_task_add_product(
                self.0.get(),
                firsts.starts.as_ptr(),
                firsts.lengths.as_ptr(),
                firsts.len(),
                seconds.starts.as_ptr(),
                seconds.lengths.as_ptr(),
                seconds.len(),
                tag,
                &mut first,
                err,
            )
        })?;
        Ok(first..self.len()?)
    }

    /// Adds a conversation to a task of [`TaskKind::Chat`], with its options of the template. Returns its number. One that
    /// the template or the library refuses fails alone.
    pub fn add_chat(&mut self, chat: &Chat) -> Result<usize> {
        Ok(self.add(&[chat.json()])?.start)
    }

    /// The same as [`Task::info_json`].
    pub fn info_json(&self) -> Result<String> {
        info_json(&self.0)
    }

    /// The same as [`Task::tokens`].
    pub fn tokens(&self, item: usize) -> Result<Vec<Token>> {
        tokens(&self.0, item)
    }

    /// How many items it has.
    pub fn len(&self) -> Result<usize> {
        let mut count = 0;
        call(|err| unsafe { sys::prefix_task_count(self.0.get(), &mut count, err) })?;
        Ok(count)
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Starts the task. The first chunk of it (half of option `chunk_tokens`) is encoded in this thread.
    pub fn submit(self) -> Result<Task> {
        let items = self.len()?;
        call(|err| unsafe { sys::prefix_task_submit(self.0.get(), err) })?;
        Ok(Task::new(self.0, items))
    }
}
