//! Ready-made tasks: text in, scores, vectors or answers out.
//!
//! A task is made by [`rerank`], [`embed`], [`answer`] or [`classify`], works in [`Task::run`], and then has its
//! results. Which prompts it writes is said by a recipe ([`recipes`]). Options are a JSON object;
//! `prefix_text.h` lists them: `recipe`, `instruction`, `truncate`, `top_n`, `dimensions`, `request`, ...

use std::sync::Arc;
use std::time::Duration;

use prefix_sys as sys;
use prefix_sys::Init;

use crate::error::{call, static_text, Result, Status};
use crate::raw::{count, milliseconds, read_array, read_text, text_or_null, Handle, Texts};
use crate::{library, Engine, JobTotals, ResultInfo, Tokenizer};

/// Scores every document for every query; a higher score is better. Rows are queries, columns documents.
///
/// ```no_run
/// # fn main() -> prefix::Result<()> {
/// # let (engine, tokenizer) = (prefix::Engine::open("")?, prefix::Tokenizer::open("")?);
/// let documents = ["Bread is baked from flour.", "Paris is the capital of France."];
/// let task = prefix::tasks::rerank(&engine, &tokenizer, &["Which city rules France?"], &documents, None)?;
/// task.run()?;
/// println!("best: {}", documents[task.order(0)?[0]]);
/// # Ok(()) }
/// ```
pub fn rerank(
    engine: &Engine,
    tokenizer: &Tokenizer,
    queries: &[impl AsRef<str>],
    documents: &[impl AsRef<str>],
    options_json: Option<&str>,
) -> Result<Task> {
    let (queries, documents) = (Texts::join(queries), Texts::join(documents));
    // Safety: live handles, and arrays and texts with their lengths; so in all four.
    Task::create(options_json, |options, options_len, out, err| unsafe {
        sys::prefix_rerank(
            engine.raw(),
            tokenizer.raw(),
            queries.start(),
            queries.bytes.len(),
            queries.offsets.as_ptr(),
            queries.offsets.len(),
            documents.start(),
            documents.bytes.len(),
            documents.offsets.as_ptr(),
            documents.offsets.len(),
            options,
            options_len,
            out,
            err,
        )
    })
}

/// Makes a vector of each text. Rows are texts, columns dimensions.
pub fn embed(
    engine: &Engine,
    tokenizer: &Tokenizer,
    texts: &[impl AsRef<str>],
    options_json: Option<&str>,
) -> Result<Task> {
    let texts = Texts::join(texts);
    Task::create(options_json, |options, options_len, out, err| unsafe {
        sys::prefix_embed(
            engine.raw(),
            tokenizer.raw(),
            texts.start(),
            texts.bytes.len(),
            texts.offsets.as_ptr(),
            texts.offsets.len(),
            options,
            options_len,
            out,
            err,
        )
    })
}

/// Answers many questions about one context, which is computed once. [`Task::text`] has the answers.
pub fn answer(
    engine: &Engine,
    tokenizer: &Tokenizer,
    context: &str,
    questions: &[impl AsRef<str>],
    options_json: Option<&str>,
) -> Result<Task> {
    let questions = Texts::join(questions);
    Task::create(options_json, |options, options_len, out, err| unsafe {
        sys::prefix_answer(
            engine.raw(),
            tokenizer.raw(),
            context.as_ptr().cast(),
            context.len(),
            questions.start(),
            questions.bytes.len(),
            questions.offsets.as_ptr(),
            questions.offsets.len(),
            options,
            options_len,
            out,
            err,
        )
    })
}

/// Gives each label a probability for each text; those of a text add up to 1. Rows are texts, columns labels.
pub fn classify(
    engine: &Engine,
    tokenizer: &Tokenizer,
    texts: &[impl AsRef<str>],
    labels: &[impl AsRef<str>],
    options_json: Option<&str>,
) -> Result<Task> {
    let (texts, labels) = (Texts::join(texts), Texts::join(labels));
    Task::create(options_json, |options, options_len, out, err| unsafe {
        sys::prefix_classify(
            engine.raw(),
            tokenizer.raw(),
            texts.start(),
            texts.bytes.len(),
            texts.offsets.as_ptr(),
            texts.offsets.len(),
            labels.start(),
            labels.bytes.len(),
            labels.offsets.as_ptr(),
            labels.offsets.len(),
            options,
            options_len,
            out,
            err,
        )
    })
}

/// The names of the recipes that the library holds.
pub fn recipes() -> Result<Vec<&'static str>> {
    library::text_ready()?;
    // Safety: no precondition; also below.
    let count = unsafe { sys::prefix_recipe_count() };
    let name = |index| static_text(unsafe { sys::prefix_recipe_name(index) });
    Ok((0..count).map(name).collect())
}

/// The file of a recipe that the library holds, to start from.
pub fn recipe_json(name: &str) -> Result<String> {
    library::text_ready()?;
    // Safety: a text with its length and a buffer with its capacity.
    read_text(2048, |buf, cap, needed, err| unsafe {
        sys::prefix_recipe_json(name.as_ptr().cast(), name.len(), buf, cap, needed, err)
    })
}

/// Texts at work. Clones are the same task; one thread runs it, any thread may watch or cancel it. When the
/// last clone is gone, what still runs is cancelled.
///
/// Results are there when [`run`](Task::run) has returned; before, asking for them is
/// [`Status::Misuse`].
#[derive(Debug, Clone)]
pub struct Task(Arc<Owned>);

#[derive(Debug)]
struct Owned(Handle<sys::prefix_task>);

// Safety: the header lets any thread call every function of a task; a second thread in prefix_task_run is
// answered with MISUSE.
unsafe impl Sync for Owned {}

impl Task {
    fn create(
        options: Option<&str>,
        create: impl FnOnce(
            *const std::ffi::c_char,
            usize,
            *mut *mut sys::prefix_task,
            *mut sys::prefix_error,
        ) -> sys::prefix_status,
    ) -> Result<Task> {
        let (options, length) = text_or_null(options);
        let handle = Handle::create(|out, err| create(options, length, out, err))?;
        Ok(Task(Arc::new(Owned(handle))))
    }

    /// Works in this thread until every item has its result. An item that fails does not fail the task.
    pub fn run(&self) -> Result<()> {
        // Safety: a live handle; also below.
        call(|err| unsafe { sys::prefix_task_run(self.raw(), -1, err) })
    }

    /// The same for some time; tells whether every item has its result. The next call goes on.
    pub fn run_for(&self, time: Duration) -> Result<bool> {
        match call(|err| unsafe { sys::prefix_task_run(self.raw(), milliseconds(time), err) }) {
            Ok(()) => Ok(true),
            Err(error) if error.status() == Status::Timeout => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Ends the items without a result with [`Status::Cancelled`]; [`run`](Task::run) returns soon after.
    pub fn cancel(&self) -> Result<()> {
        call(|err| unsafe { sys::prefix_task_cancel(self.raw(), err) })
    }

    /// How many items have their result, and how many there are.
    pub fn progress(&self) -> Result<(u64, u64)> {
        let (mut done, mut total) = (0, 0);
        call(|err| unsafe { sys::prefix_task_progress(self.raw(), &mut done, &mut total, err) })?;
        Ok((count(done), count(total)))
    }

    /// All values, in the order of the input; NaN where an item failed.
    pub fn values(&self) -> Result<Table> {
        let (mut rows, mut columns) = (0, 0);
        call(|err| unsafe { sys::prefix_task_shape(self.raw(), &mut rows, &mut columns, err) })?;
        let (rows, columns) = (count(rows) as usize, count(columns) as usize);
        // Safety: buffers with their capacities, here and below.
        let values = read_array(
            rows.saturating_mul(columns),
            |out, capacity, needed, err| unsafe {
                sys::prefix_task_values(self.raw(), out, capacity, needed, err)
            },
        )?;
        Ok(Table {
            values,
            rows,
            columns,
        })
    }

    /// The columns of a row from best to worst, at most `top_n`, without failed ones. For [`rerank`] and
    /// [`classify`].
    pub fn order(&self, row: usize) -> Result<Vec<usize>> {
        let order = read_array(64, |out, capacity, needed, err| unsafe {
            sys::prefix_task_order(self.raw(), number(row), out, capacity, needed, err)
        })?;
        Ok(order
            .into_iter()
            .map(|column| count(column) as usize)
            .collect())
    }

    /// The status of every item.
    pub fn statuses(&self) -> Result<Vec<Status>> {
        let codes = read_array(64, |out, capacity, needed, err| unsafe {
            sys::prefix_task_statuses(self.raw(), out, capacity, needed, err)
        })?;
        Ok(codes.into_iter().map(Status::from_code).collect())
    }

    /// What became of an item. Its tag is 1 when the prompt was cut because it was too long.
    pub fn info(&self, item: usize) -> Result<ResultInfo> {
        let mut out = sys::prefix_result_info::init();
        // Safety: a struct with its size; also below.
        call(|err| unsafe { sys::prefix_task_item_info(self.raw(), number(item), &mut out, err) })?;
        Ok(out.into())
    }

    /// The sentence that goes with the status of an item that failed; "" otherwise.
    pub fn message(&self, item: usize) -> Result<String> {
        read_text(512, |buf, cap, needed, err| unsafe {
            sys::prefix_task_item_message(self.raw(), number(item), buf, cap, needed, err)
        })
    }

    /// The text of an [`answer`], without surrounding white space. The error of the item when it failed.
    pub fn text(&self, item: usize) -> Result<String> {
        read_text(512, |buf, cap, needed, err| unsafe {
            sys::prefix_task_item_text(self.raw(), number(item), buf, cap, needed, err)
        })
    }

    /// The same, also what there is of an answer that was cancelled or ran out of time.
    pub fn text_so_far(&self, item: usize) -> Result<String> {
        read_text(512, |buf, cap, needed, err| unsafe {
            sys::prefix_task_item_partial_text(self.raw(), number(item), buf, cap, needed, err)
        })
    }

    /// What the engine did for the whole task.
    pub fn totals(&self) -> Result<JobTotals> {
        let mut out = sys::prefix_job_totals::init();
        call(|err| unsafe { sys::prefix_task_totals(self.raw(), &mut out, err) })?;
        Ok(out.into())
    }

    fn raw(&self) -> *mut sys::prefix_task {
        self.0 .0.get()
    }
}

/// An index as the library takes it; one that is too large for that is out of range there too.
fn number(item: usize) -> i64 {
    i64::try_from(item).unwrap_or(i64::MAX)
}

/// The values of a task, row after row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    values: Vec<f32>,
    rows: usize,
    columns: usize,
}

impl Table {
    /// Rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        (self.rows, self.columns)
    }

    /// One row.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn row(&self, row: usize) -> &[f32] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        &self.values[row * self.columns..][..self.columns]
    }

    /// Each row in turn.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f32]> + '_ {
        (0..self.rows).map(|row| self.row(row))
    }

    /// All values, row after row.
    pub fn as_slice(&self) -> &[f32] {
        &self.values
    }
}
