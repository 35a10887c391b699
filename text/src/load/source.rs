//! What a tokenizer's files gave, however they are written.

use crate::pipeline::Tokenizer;
use crate::roles::Roles;
use std::collections::BTreeMap;

/// What a file or directory gave.
pub struct Source {
    /// "gguf", "directory" or "json".
    pub kind: &'static str,
    pub tokenizer: Tokenizer,
    /// End-of-generation ids that the model's own settings list.
    pub end_ids: Vec<u32>,
    pub roles: Roles,
    /// Special tokens without a role, for templates.
    pub extra_special: Vec<String>,
    /// Chat templates by name; the usual one is "default".
    pub templates: BTreeMap<String, String>,
}
