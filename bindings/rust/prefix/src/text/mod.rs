//! Text to tokens and back: the tokenizer of a model, its chat template, and text that arrives piece by
//! piece.

mod chat;
mod detok;
mod tokenizer;

pub use chat::{Chat, Prompt};
pub use detok::Detokenizer;
pub use tokenizer::{Encoding, Special, Tokenizer};

use crate::error::{static_text, Result};
use crate::library;

/// `major.minor.patch` of libprefix_text.
pub fn version() -> Result<&'static str> {
    library::text_ready()?;
    // Safety: no precondition.
    Ok(static_text(unsafe {
        prefix_sys::prefix_text_version_string()
    }))
}
