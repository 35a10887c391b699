//! A whole task in one call, with one rule: results come with their failures, and the call fails only when nothing
//! has succeeded. Errors of texts have what was begun of them.

use super::{Ranked, Task, TaskBuilder, TaskKind};
use crate::error::{Error, Result};
use crate::{Chat, Engine, Options, Tokenizer};

/// Documents in the order of their scores.
#[non_exhaustive]
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ranking {
    /// From best to worst, at most `top_n` (an option).
    pub ranked: Vec<Ranked>,
    /// The documents that have no score, and why.
    pub failures: Vec<(usize, Error)>,
}

/// Ranks documents by how well they fit the query. Documents that fail are told apart; `Err` when all do.
///
/// ```no_run
/// # fn main() -> prefix::Result<()> {
/// # let (engine, tokenizer) = (prefix::Engine::open("")?, prefix::Tokenizer::open("")?);
/// let documents = ["Bread is baked from flour.", "Paris is the capital of France."];
/// let ranking = prefix::rerank(&engine, &tokenizer, "Which city rules France?", &documents, None)?;
/// println!("best: {}", documents[ranking.ranked[0].index]);
/// # Ok(()) }
/// ```
pub fn rerank(
    engine: &Engine,
    tokenizer: &Tokenizer,
    query: &str,
    documents: &[impl AsRef<str>],
    options: Option<&Options>,
) -> Result<Ranking> {
    let builder = Task::builder(engine, tokenizer, TaskKind::Rerank, options)?;
    let task = run(builder, |builder| builder.add_product(&[query], documents))?;
    let failed = |item| task.values(item).err().map(|error| (item, error));
    Ok(Ranking {
        ranked: task.ranking(0..task.len())?,
        failures: (0..task.len()).filter_map(failed).collect(),
    })
}

/// A vector for each text, or why it has none; `Err` when none has.
pub fn embed(
    engine: &Engine,
    tokenizer: &Tokenizer,
    texts: &[impl AsRef<str>],
    options: Option<&Options>,
) -> Result<Vec<Result<Vec<f32>>>> {
    let builder = Task::builder(engine, tokenizer, TaskKind::Embed, options)?;
    let task = run(builder, |builder| builder.add(texts))?;
    Ok((0..task.len()).map(|item| task.values(item)).collect())
}

/// The labels for each text from likeliest to least, at most `top_n` (an option), with their probabilities; or why
/// it has none. `Err` when none has. No labels: those of the model's classification head.
pub fn classify(
    engine: &Engine,
    tokenizer: &Tokenizer,
    texts: &[impl AsRef<str>],
    labels: &[impl AsRef<str>],
    options: Option<&Options>,
) -> Result<Vec<Result<Vec<Ranked>>>> {
    let mut builder = Task::builder(engine, tokenizer, TaskKind::Classify, options)?;
    if !labels.is_empty() {
        builder.set_labels(labels)?;
    }
    let task = run(builder, |builder| builder.add(texts))?;
    let ranking = |item| {
        let width = task.values(item)?.len(); // or its error
        task.ranking(item * width..(item + 1) * width)
    };
    Ok((0..task.len()).map(ranking).collect())
}

/// An answer to each question about a context, which is computed once; or why it has none. `Err` when none has.
pub fn answer(
    engine: &Engine,
    tokenizer: &Tokenizer,
    context: &str,
    questions: &[impl AsRef<str>],
    options: Option<&Options>,
) -> Result<Vec<Result<String>>> {
    let builder = Task::builder(engine, tokenizer, TaskKind::Answer, options)?;
    write(builder, |builder| {
        builder.add_product(&[context], questions)
    })
}

/// What follows each prompt, or why nothing does; `Err` when nothing follows any.
pub fn generate(
    engine: &Engine,
    tokenizer: &Tokenizer,
    prompts: &[impl AsRef<str>],
    options: Option<&Options>,
) -> Result<Vec<Result<String>>> {
    let builder = Task::builder(engine, tokenizer, TaskKind::Generate, options)?;
    write(builder, |builder| builder.add(prompts))
}

/// The next message of each conversation, or why there is none; `Err` when there is none at all.
///
/// What the template is told besides messages is said by each [`Chat`]; `options` are those of the task.
///
/// ```no_run
/// # fn main() -> prefix::Result<()> {
/// # let (engine, tokenizer) = (prefix::Engine::open("")?, prefix::Tokenizer::open("")?);
/// let chat = prefix::Chat::new().user("What is a prefix tree?").variable("enable_thinking", true);
/// println!("{}", prefix::chat(&engine, &tokenizer, &[chat], None)?.remove(0)?);
/// # Ok(()) }
/// ```
pub fn chat(
    engine: &Engine,
    tokenizer: &Tokenizer,
    chats: &[Chat],
    options: Option<&Options>,
) -> Result<Vec<Result<String>>> {
    let items: Vec<String> = chats.iter().map(Chat::json).collect();
    let builder = Task::builder(engine, tokenizer, TaskKind::Chat, options)?;
    write(builder, |builder| builder.add(&items))
}

/// A task that is done, and of which something has succeeded.
fn run<T>(builder: TaskBuilder, fill: impl FnOnce(&mut TaskBuilder) -> Result<T>) -> Result<Task> {
    let task = finish(builder, fill)?;
    match failure(&task)? {
        Some(error) => Err(error),
        None => Ok(task),
    }
}

/// The same of one that writes: its texts. Errors have what was begun of the texts that they are of.
fn write<T>(
    builder: TaskBuilder,
    fill: impl FnOnce(&mut TaskBuilder) -> Result<T>,
) -> Result<Vec<Result<String>>> {
    let task = finish(builder, fill)?;
    let begun = |item| task.partial_text(item).unwrap_or_default();
    let items = 0..task.len();
    if let Some(error) = failure(&task)? {
        return Err(error.with_partial_texts(items.map(begun).collect()));
    }
    let text = |item| {
        let text = task.text(item);
        text.map_err(|error| error.with_partial_texts(vec![begun(item)]))
    };
    Ok(items.map(text).collect())
}

fn finish<T>(
    mut builder: TaskBuilder,
    fill: impl FnOnce(&mut TaskBuilder) -> Result<T>,
) -> Result<Task> {
    fill(&mut builder)?;
    let task = builder.submit()?;
    task.wait()?;
    Ok(task)
}

/// Why nothing has succeeded.
fn failure(task: &Task) -> Result<Option<Error>> {
    if task.totals()?.failed == task.len() as u64 {
        return Ok(task.first_failure()?.map(|(_, error)| error));
    }
    Ok(None)
}
