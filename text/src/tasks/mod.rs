//! Tasks: rerank, embed, answer, classify. Each turns texts into requests of an engine, in chunks of
//! bounded size, and their results into scores, vectors and answers. What differs between them is in
//! task.rs (the trait) and one file each; the rest here is the same for all.
//!
//! ```text
//!   items in the order that shares most
//!   |=== done ===|== chunk in work ==|== chunk queued ==|... not encoded yet ...|
//!                  while the engine computes one chunk, the next is encoded
//! ```

pub mod answer;
pub mod classify;
pub mod embed;
mod inputs;
mod options;
mod outcome;
mod prompt;
mod recipe;
pub mod rerank;
mod task;
mod work;

pub use inputs::{Inputs, Texts};
pub use options::Options;
pub use outcome::Item;
pub use recipe::{shipped_json, SHIPPED};
pub use work::Work;

/// The tasks; a new one is a file with an `impl Task`, and its place here.
static KINDS: &[&task::Kind] = &[&rerank::KIND, &embed::KIND, &answer::KIND, &classify::KIND];

/// What a task does with a recipe before it meets an engine; for tests/fuzz.
#[cfg(feature = "fuzzing")]
pub fn try_recipe(text: &crate::text::Text, recipe: &str) -> crate::error::Result<()> {
    let recipe = recipe::Recipe::parse(recipe)?;
    let fields = prompt::Fields {
        instruction: &recipe.instruction,
        query: "who?",
        document: "a text with a few words, to be cut",
        label: "yes",
        labels: "yes, no".into(),
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
