//! What OpenAI's clients ask for.

mod asked;
pub mod chat;
pub mod completions;
pub mod embeddings;
pub mod models;
pub mod writing;
