//! What OpenAI's clients ask for.

mod api;
mod asked;
mod calls;
pub mod chat;
pub mod completions;
pub mod embeddings;
mod form;
mod logprobs;
pub mod models;
mod reading;
mod thoughts;
pub mod usage;
pub mod writing;
