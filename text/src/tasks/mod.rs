//! Tasks: rerank, embed, classify, answer, generate, chat. Each turns texts into requests of an
//! engine, in chunks of bounded size, and their results into scores, vectors and texts. What differs
//! between them is in kind.rs (the trait) and one file each; the rest here is the same for all.
//!
//! ```text
//!   task.rs ── inputs ──> work.rs ── prompt.rs ──> requests ── engine ──> results.rs
//!      caller's handle      stepped by driver.rs, the one thread             read by any thread
//! ```

mod choice;
mod classify;
mod driver;
mod embed;
mod generate;
mod head;
mod inputs;
mod kind;
mod listwise;
mod model;
mod options;
mod prompt;
mod recipe;
mod rerank;
mod results;
mod setup;
mod task;
mod work;
mod written;

pub use choice::{shipped_json, SHIPPED};
pub use results::{Event, Found, Item, Timed};
pub use task::Task;

/// The tasks; a new one is a file with an `impl Method`, and its place here.
static KINDS: &[&kind::Kind] = &[
    &rerank::KIND,
    &embed::KIND,
    &classify::KIND,
    &generate::ANSWER,
    &generate::GENERATE,
    &generate::CHAT,
];

/// What a task does with a recipe before it meets an engine; for tests/fuzz.
#[cfg(feature = "fuzzing")]
pub fn try_recipe(
    text: &std::sync::Arc<crate::text::Text>,
    recipe: &str,
) -> crate::error::Result<()> {
    let recipe = recipe::Recipe::parse(recipe)?;
    let fields = prompt::Fields {
        instruction: &recipe.instruction,
        query: "who?",
        document: "a text with a few words, to be cut",
        label: "yes",
        labels: "yes, no".into(),
        index: 1,
        count: 2,
    };
    for prompt in recipe.prompts.values() {
        for truncate in [prompt::Truncate::Right, prompt::Truncate::Left] {
            // Refusals are as good as prompts.
            if let Ok(mut prompts) = prompt::Prompts::new(text, &recipe, prompt) {
                prompts.document_first();
                let _ = prompts.build(&fields, 1 << 20, truncate);
                let _ = prompts.build(&fields, 24, truncate);
            }
        }
    }
    Ok(())
}
