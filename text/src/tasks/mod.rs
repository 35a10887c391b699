//! Tasks: rerank, embed, classify, answer, generate, chat. Each turns texts into requests of an
//! engine, in chunks of bounded size, and their results into scores, vectors and texts. What differs
//! between them is in method.rs (the trait) and one file each; the rest here is the same for all.
//!
//! ```text
//!   task.rs ── inputs ──> work.rs ── prompt.rs ──> requests ── engine ──> results.rs
//!      caller's handle      stepped by driver.rs, the one thread             read by any thread
//! ```

mod choice;
mod classify;
mod constrained;
mod driver;
mod embed;
mod generate;
mod head;
mod inputs;
mod kind;
mod listwise;
mod messages;
mod method;
mod model;
mod options;
mod options_json;
mod piece;
mod places;
mod prompt;
mod recipe;
mod recipe_file;
mod registry;
mod rerank;
mod results;
mod scored;
mod seeds;
mod setup;
#[cfg(test)]
mod spelt;
mod stops;
mod task;
#[cfg(any(test, feature = "fuzzing"))]
mod try_recipe;
mod work;
mod written;

pub use choice::{shipped_json, SHIPPED};
pub use results::{Event, Found, Item, Timed};
pub use scored::Scored;
pub use task::Task;
#[cfg(feature = "fuzzing")]
pub use try_recipe::try_recipe;
