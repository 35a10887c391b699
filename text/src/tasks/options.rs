//! The options of a task, its own and those of its requests. options_json.rs reads them.

use super::prompt::Truncate;
use super::recipe::Recipe;
use super::stops::Stops;
use crate::constraint::Rules;
use serde_json::{Map, Value};

pub struct Options {
    pub recipe: Recipe,
    /// Why this recipe.
    pub reason: String,
    pub warning: Option<String>,
    pub instruction: String,
    pub truncate: Truncate,
    /// Of the caller, or else of the model's files; 0 = no limit of theirs.
    pub max_prompt_tokens: usize,
    pub raw: bool,
    pub top_n: usize,
    pub prompt: String,
    pub chunk_tokens: usize,
    pub stream: bool,
    /// Texts of each prompt.
    pub samples: usize,
    /// Texts before which an answer ends.
    pub stops: Stops,
    /// What an answer must look like.
    pub rules: Option<Rules>,
    /// Of the whole task; 0 = none.
    pub deadline_ms: u64,
    /// Options of the engine's requests.
    pub request: Map<String, Value>,
}

impl Options {
    /// Whether white space around a text is a part of it. Of one by rules it is: they speak of all of it.
    pub fn keeps_space(&self) -> bool {
        self.recipe.keep_space || self.rules.is_some()
    }
}
