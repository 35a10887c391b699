//! `continue_final_message`: the prompt ends inside the last message, so that the model goes on
//! with it. As transformers does it: a marker is put behind the text of that message, and the
//! rendered prompt is cut there.

use super::Request;
use crate::error::{Error, Result};
use serde_json::Value;

const MARKER: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

pub struct OpenMessage {
    text: String,
}

impl Request {
    /// Marks the last message when it is to be continued.
    pub fn open_last_message(&mut self) -> Result<Option<OpenMessage>> {
        if !self.continue_final_message {
            return Ok(None);
        }
        let none = || Error::argument("continue_final_message: the last message has no text");
        let content = self
            .messages
            .last_mut()
            .and_then(|m| m.get_mut("content"))
            .ok_or_else(none)?;
        let slot = match content {
            Value::Array(blocks) => blocks
                .iter_mut()
                .rev()
                .find_map(|b| b.get_mut("text"))
                .ok_or_else(none)?,
            other => other,
        };
        let Value::String(text) = slot else {
            return Err(none());
        };
        let before = text.clone();
        text.push_str(MARKER);
        Ok(Some(OpenMessage { text: before }))
    }
}

impl OpenMessage {
    /// The prompt up to the marker.
    pub fn cut(&self, rendered: &str) -> Result<String> {
        let at = rendered
            .rfind(MARKER.trim_end())
            .filter(|_| rendered.contains(self.text.trim()))
            .ok_or_else(|| {
                Error::argument(
                    "continue_final_message: the template leaves out or changes the last message",
                )
            })?;
        let kept = &rendered[..at];
        // A template that trims the message has trimmed the marker's space: so is the text trimmed.
        Ok(if rendered[at..].starts_with(MARKER) {
            kept.to_string()
        } else {
            kept.trim_end().to_string()
        })
    }
}
