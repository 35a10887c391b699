//! A text or a number of a schema, and whether any is left by all that is said of it.

use super::shape::{Kind, Text};
use super::wording::Said;
use llguidance::{api::ParserLimits, GrammarBuilder, JsonCompileOptions};
use serde_json::json;

/// How the crate begins where it cannot tell whether any text is left.
pub const UNDECIDED: &str = "Unable to determine if regex is empty";

/// Whether there is a value of it, as far as the crate need not be asked.
pub fn is_sure(kind: &Kind) -> Option<bool> {
    match kind {
        Kind::Any | Kind::Null | Kind::Boolean(_) => Some(true),
        Kind::Never => Some(false),
        Kind::Number {
            is_integer,
            factor,
            bounds,
            ..
        } => match (bounds.is_empty(*is_integer), factor) {
            (true, _) => Some(false),
            (false, None) => Some(true),
            (false, Some(_)) => None,
        },
        Kind::Text(text) => of_text(text),
        _ => None,
    }
}

fn of_text(text: &Text) -> Option<bool> {
    if text.most.is_some_and(|most| most < text.least) {
        return Some(false);
    }
    match (&text.literal, text.patterns) {
        (_, 1..) => None,
        (None, 0) => Some(true),
        (Some(literal), 0) => {
            let length = literal.chars().count();
            Some(text.least <= length && text.most.is_none_or(|most| length <= most))
        }
    }
}

/// What the crate finds: an error where that takes more steps than it goes.
pub fn ask(said: &Said) -> Result<bool, ()> {
    let schema = json!({"allOf": said.parts()});
    let builder = GrammarBuilder::new(None, ParserLimits::default());
    match JsonCompileOptions::default().json_to_llg(builder, schema) {
        Ok(_) => Ok(true),
        Err(error) => {
            let error = error.to_string();
            match error.starts_with(UNDECIDED) {
                true => Err(()),
                // What else is wrong it says where it makes the whole schema.
                false => Ok(!error.starts_with("Unsatisfiable")),
            }
        }
    }
}
