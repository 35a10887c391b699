//! Tasks: rerank, embed, answer, classify. Each turns texts into requests of an engine, in chunks of
//! bounded size, and their results into scores, vectors and answers.
//!
//! ```text
//!   items in the order that shares most
//!   |=== done ===|== chunk in work ==|== chunk queued ==|... not encoded yet ...|
//!                  while the engine computes one chunk, the next is encoded
//! ```

mod inputs;
mod options;
mod outcome;
mod prompt;
mod recipe;
mod work;

pub use inputs::{Inputs, Texts};
pub use options::Options;
pub use outcome::Item;
pub use recipe::{shipped_json, TaskKind, SHIPPED};
pub use work::Task;
