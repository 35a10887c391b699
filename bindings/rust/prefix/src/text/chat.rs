//! Conversations.

use std::fmt::Write;

use crate::{Token, Value};

/// A conversation, for the chat template of a model, with what that template is told besides.
///
/// ```
/// let chat = prefix::Chat::new().system("Be brief.").user("What is a \"prefix\"?");
/// let messages =
///     r#"[{"role":"system","content":"Be brief."},{"role":"user","content":"What is a \"prefix\"?"}]"#;
/// assert_eq!(chat.json(), messages);
///
/// let thinking = chat.variable("enable_thinking", true);
/// let options = r#""variables":{"enable_thinking":true}"#;
/// assert_eq!(thinking.json(), format!("{{\"messages\":{messages},{options}}}"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chat {
    /// One JSON object each.
    messages: Vec<String>,
    /// Those of `prefix_tokenizer_chat_text` but `variables`.
    options: Members,
    variables: Members,
}

/// The members of a JSON object: names, and values as JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Members(Vec<(String, String)>);

impl Members {
    /// In place of an earlier one of that name.
    fn set(&mut self, name: &str, json: String) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, value)) => *value = json,
            None => self.0.push((name.to_string(), json)),
        }
    }

    fn text(&self) -> String {
        let members = self.0.iter();
        let texts: Vec<String> = members
            .map(|(name, json)| format!("{}:{json}", quote(name)))
            .collect();
        texts.join(",")
    }
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

    /// Whether the model's turn begins at the end; it does by default.
    pub fn add_generation_prompt(self, add: bool) -> Chat {
        self.option_json("add_generation_prompt", add.to_string())
    }

    /// Whether the last message is left open, for the model to go on with it; then the model's turn does not begin.
    pub fn continue_final_message(self, open: bool) -> Chat {
        self.option_json("continue_final_message", open.to_string())
    }

    /// The tools that the model may call: a JSON array of their definitions.
    pub fn tools_json(self, array: impl Into<String>) -> Chat {
        self.option_json("tools", array)
    }

    /// Documents for templates that take them: a JSON array of objects.
    pub fn documents_json(self, array: impl Into<String>) -> Chat {
        self.option_json("documents", array)
    }

    /// Another template than the default, by its name.
    pub fn template(self, name: &str) -> Chat {
        self.option_json("template", quote(name))
    }

    /// The time, as `2026-01-31T23:59:59`, for templates that print the date; the default is the clock.
    pub fn now(self, time: &str) -> Chat {
        self.option_json("now", quote(time))
    }

    /// A further variable of the template, such as `enable_thinking`.
    pub fn variable<'v>(self, name: &str, value: impl Into<Value<'v>>) -> Chat {
        self.variable_json(name, json(&value.into()))
    }

    /// The same with a value of any shape, as JSON.
    pub fn variable_json(mut self, name: &str, value: impl Into<String>) -> Chat {
        self.variables.set(name, value.into());
        self
    }

    /// Any option of `prefix_tokenizer_chat_text` (`prefix_text.h`) with its value as JSON, for instance one that is
    /// newer than this crate. One that the library does not know is
    /// [`Status::UnknownOption`](crate::Status::UnknownOption) where the conversation is used.
    pub fn option_json(mut self, name: &str, value: impl Into<String>) -> Chat {
        self.options.set(name, value.into());
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

    /// The conversation as an item of [`TaskKind::Chat`](crate::TaskKind::Chat): its messages, with the options where
    /// it has any.
    pub fn json(&self) -> String {
        match self.members() {
            options if options.is_empty() => self.messages_json(),
            options => format!("{{\"messages\":{},{options}}}", self.messages_json()),
        }
    }

    /// The options as a JSON object.
    pub(crate) fn options_json(&self) -> String {
        format!("{{{}}}", self.members())
    }

    fn members(&self) -> String {
        let mut all = self.options.clone();
        if !self.variables.0.is_empty() {
            all.set("variables", format!("{{{}}}", self.variables.text()));
        }
        all.text()
    }
}

/// A value as JSON. A number that JSON does not have is refused by the library.
fn json(value: &Value) -> String {
    let list = |items: Vec<String>| format!("[{}]", items.join(","));
    match value {
        Value::Int(n) => n.to_string(),
        Value::Float(x) => format!("{x:?}"), // 1.0 stays a number with a point
        Value::Bool(on) => on.to_string(),
        Value::Text(text) => quote(text),
        Value::Ints(numbers) => list(numbers.iter().map(i32::to_string).collect()),
        Value::Texts(texts) => list(texts.iter().map(|text| quote(text)).collect()),
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
    use super::{json, quote, Chat};
    use crate::Value;

    #[test]
    fn quotes_what_json_wants_quoted() {
        assert_eq!(
            quote("a\"b\\c\nd\te\u{1}é😀"),
            "\"a\\\"b\\\\c\\nd\\u0009e\\u0001é😀\""
        );
    }
    #[test]
    fn values_are_json() {
        let texts = ["a\"", "b"];
        for (value, text) in [
            (Value::from(-7), "-7"),
            (1.0.into(), "1.0"),
            (1e300.into(), "1e300"),
            (false.into(), "false"),
            ("é\n".into(), "\"é\\n\""),
            ((&[1, 2]).into(), "[1,2]"),
            ((&texts).into(), "[\"a\\\"\",\"b\"]"),
        ] {
            assert_eq!(json(&value), text);
        }
    }

    #[test]
    fn what_is_set_again_is_replaced() {
        let chat = Chat::new()
            .add_generation_prompt(true)
            .variable("a", 1)
            .add_generation_prompt(false)
            .variable("b", "x")
            .variable("a", 2)
            .template("t");
        assert_eq!(
            chat.options_json(),
            r#"{"add_generation_prompt":false,"template":"t","variables":{"a":2,"b":"x"}}"#
        );
    }
}
