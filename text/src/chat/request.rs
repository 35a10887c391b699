//! What a caller asks for: messages and options, both JSON.

use super::clock::DateTime;
use crate::error::{nearest, quote, Code, Error, Result};
use serde_json::{Map, Value};

/// Longest JSON of one call; deeper nesting than 128 is refused by the parser.
const MAX_JSON: usize = 16 << 20;
const MAX_MESSAGES: usize = 65_536;

const OPTIONS: &[&str] = &[
    "tools",
    "documents",
    "add_generation_prompt",
    "continue_final_message",
    "template",
    "now",
    "variables",
];

/// Names that the library itself gives to templates.
const RESERVED: &[&str] = &["messages", "tools", "documents", "add_generation_prompt"];

pub struct Request {
    pub messages: Vec<Value>,
    pub tools: Option<Value>,
    pub documents: Option<Value>,
    pub add_generation_prompt: bool,
    pub continue_final_message: bool,
    /// Name of the template; None: "tool_use" when there are tools and the model has it, else
    /// "default".
    pub template: Option<String>,
    pub now: Option<DateTime>,
    /// Further variables of the template, e.g. enable_thinking.
    pub variables: Map<String, Value>,
}

fn parse(text: &str, what: &str) -> Result<Value> {
    if text.len() > MAX_JSON {
        return Err(Error::range(format!(
            "{what} has {} bytes; the limit is {MAX_JSON}",
            text.len()
        )));
    }
    crate::pipeline::room_for(text, what)?;
    crate::json::parse_exact(text, what)
}

fn boolean(key: &str, value: &Value) -> Result<bool> {
    value
        .as_bool()
        .ok_or_else(|| Error::argument(format!("option {key} is not true or false")))
}

fn text(key: &str, value: Value) -> Result<String> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(Error::argument(format!("option {key} is not a string"))),
    }
}

/// null counts as absent.
fn list(key: &str, value: Value) -> Result<Option<Value>> {
    match value {
        Value::Null => Ok(None),
        Value::Array(items) => {
            if let Some(i) = items.iter().position(|item| !item.is_object()) {
                return Err(Error::argument(format!("{key}[{i}] is not an object")));
            }
            Ok(Some(Value::Array(items)))
        }
        _ => Err(Error::argument(format!("option {key} is not an array"))),
    }
}

/// Names under which callers pass the reasoning of a message; templates read the first.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// A message as transformers hands it to templates: keys whose value is null are left out, since
/// templates would print "None"; reasoning is there under the names that templates read.
fn normalized(message: Value) -> Value {
    let Value::Object(mut message) = message else {
        return message;
    };
    message.retain(|_, value| !value.is_null());
    let reasoning = REASONING.iter().find_map(|name| message.get(*name));
    if let Some(reasoning) = reasoning.cloned() {
        let [standard, older, _] = REASONING;
        let first = message.get(older).unwrap_or(&reasoning).clone();
        let mut ordered = Map::from_iter([(older.to_string(), first)]);
        ordered.extend(message.into_iter().filter(|(key, _)| key != older));
        ordered.insert(standard.to_string(), reasoning);
        message = ordered;
    }
    Value::Object(message)
}

impl Request {
    /// `options` may be empty.
    pub fn parse(messages: &str, options: &str) -> Result<Self> {
        let Value::Array(messages) = parse(messages, "messages")? else {
            return Err(Error::argument("messages is not a JSON array"));
        };
        if messages.len() > MAX_MESSAGES {
            return Err(Error::range(format!(
                "{} messages; the limit is {MAX_MESSAGES}",
                messages.len()
            )));
        }
        for (i, message) in messages.iter().enumerate() {
            if !message.get("role").is_some_and(Value::is_string) {
                return Err(Error::argument(format!(
                    "messages[{i}] is not an object with a \"role\""
                )));
            }
        }
        if messages.is_empty() {
            return Err(Error::argument("messages is empty; a prompt needs one"));
        }
        let mut request = Request {
            messages: messages.into_iter().map(normalized).collect(),
            tools: None,
            documents: None,
            add_generation_prompt: true,
            continue_final_message: false,
            template: None,
            now: None,
            variables: Map::new(),
        };
        if !options.trim().is_empty() {
            let Value::Object(options) = parse(options, "options")? else {
                return Err(Error::argument("options is not a JSON object"));
            };
            request.set(options)?;
        }
        Ok(request)
    }

    fn set(&mut self, options: Map<String, Value>) -> Result<()> {
        let mut prompt_given = false;
        for (key, value) in options {
            match &*key {
                "tools" => self.tools = list(&key, value)?,
                "documents" => self.documents = list(&key, value)?,
                "add_generation_prompt" => {
                    self.add_generation_prompt = boolean(&key, &value)?;
                    prompt_given = self.add_generation_prompt;
                }
                "continue_final_message" => self.continue_final_message = boolean(&key, &value)?,
                "template" => self.template = Some(text(&key, value)?),
                "now" => self.now = Some(DateTime::parse(&text(&key, value)?)?),
                "variables" => {
                    let Value::Object(variables) = value else {
                        return Err(Error::argument("option variables is not an object"));
                    };
                    if let Some(name) = RESERVED.iter().find(|n| variables.contains_key(**n)) {
                        return Err(Error::argument(format!(
                            "{name} is an option of its own, not one of variables"
                        )));
                    }
                    self.variables = variables;
                }
                other => {
                    let hint = nearest(other, OPTIONS)
                        .map(|n| format!("; the nearest one is {}", quote(n)))
                        .unwrap_or_default();
                    return Err(Error::new(
                        Code::UnknownOption,
                        format!(
                            "no option {}{hint}; variables of the template go into \"variables\"",
                            quote(other)
                        ),
                    ));
                }
            }
        }
        if self.continue_final_message {
            if prompt_given {
                return Err(Error::argument(
                    "continue_final_message and add_generation_prompt exclude each other",
                ));
            }
            if self.messages.is_empty() {
                return Err(Error::argument(
                    "continue_final_message is set, but there is no message",
                ));
            }
            self.add_generation_prompt = false;
        }
        Ok(())
    }
}
