//! Conversations.

use std::fmt::Write;

use crate::Token;

/// A conversation, for the chat template of a model.
///
/// ```
/// let chat = prefix::Chat::new().system("Be brief.").user("What is a \"prefix\"?");
/// assert_eq!(
///     chat.messages_json(),
///     r#"[{"role":"system","content":"Be brief."},{"role":"user","content":"What is a \"prefix\"?"}]"#
/// );
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chat {
    /// One JSON object each.
    messages: Vec<String>,
    options: Option<String>,
}

/// The tokens of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompt {
    /// The whole prompt.
    pub tokens: Vec<Token>,
    /// `turns[i]` is how many of the first tokens belong to messages 0 to i and stay the same when the
    /// conversation goes on after message i; the last entry is the number of all tokens.
    pub turns: Vec<usize>,
}

impl Chat {
    /// Nothing said yet.
    pub fn new() -> Chat {
        Chat::default()
    }

    /// Adds a message of any role.
    pub fn message(self, role: &str, content: &str) -> Chat {
        let json = format!(
            "{{\"role\":{},\"content\":{}}}",
            quote(role),
            quote(content)
        );
        self.message_json(json)
    }

    /// Adds a message of the system.
    pub fn system(self, content: &str) -> Chat {
        self.message("system", content)
    }

    /// Adds a message of the user.
    pub fn user(self, content: &str) -> Chat {
        self.message("user", content)
    }

    /// Adds a message of the model.
    pub fn assistant(self, content: &str) -> Chat {
        self.message("assistant", content)
    }

    /// Adds a message as a JSON object, with whatever the template reads: `tool_calls`, ...
    pub fn message_json(mut self, object: impl Into<String>) -> Chat {
        self.messages.push(object.into());
        self
    }

    /// Sets the options of the template as a JSON object: `add_generation_prompt`, `tools`, `documents`,
    /// `variables`, `template`, `now`, ... (`prefix_tokenizer_chat_text` in `prefix_text.h`).
    pub fn options_json(mut self, object: impl Into<String>) -> Chat {
        self.options = Some(object.into());
        self
    }

    /// How many messages.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The messages as a JSON array.
    pub fn messages_json(&self) -> String {
        format!("[{}]", self.messages.join(","))
    }

    pub(crate) fn options(&self) -> Option<&str> {
        self.options.as_deref()
    }
}

/// A JSON string.
fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn quotes_what_json_wants_quoted() {
        assert_eq!(
            quote("a\"b\\c\nd\te\u{1}é😀"),
            "\"a\\\"b\\\\c\\nd\\u0009e\\u0001é😀\""
        );
    }
}
