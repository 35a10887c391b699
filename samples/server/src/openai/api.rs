//! What tells completions and chats apart in their answers.

use prefix::TaskKind;
use serde_json::{json, Map, Value};

use crate::ids;
use crate::tools::part::Part;

/// How an API writes answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    Completions,
    Chat,
}

/// What a piece of an answer has besides.
#[derive(Debug, Clone, Copy)]
pub struct Begin {
    /// Whether nothing was sent of the answer before.
    pub is_first: bool,
    /// Whether calls have short names.
    pub short_ids: bool,
}

/// A whole answer.
#[derive(Debug, Default)]
pub struct Answer {
    pub thought: String,
    pub text: String,
    pub calls: Vec<Value>,
}

impl Answer {
    pub fn of(parts: impl IntoIterator<Item = Part>, short_ids: bool) -> Answer {
        let mut calls: Vec<(String, String)> = Vec::new();
        let (mut thought, mut whole) = (String::new(), String::new());
        for part in parts {
            match part {
                Part::Thought(text) => thought += &text,
                Part::Text(text) => whole += &text,
                Part::Call { name, .. } => calls.push((name, String::new())),
                Part::Arguments { text, .. } => {
                    if let Some((_, arguments)) = calls.last_mut() {
                        *arguments += &text;
                    }
                }
            }
        }
        let calls = calls.into_iter();
        Answer {
            thought,
            text: whole,
            calls: calls
                .map(|(name, arguments)| call(short_ids, name, arguments))
                .collect(),
        }
    }
}

fn call(is_short: bool, name: String, arguments: String) -> Value {
    let function = json!({"name": name, "arguments": arguments});
    json!({"id": ids::call(is_short), "type": "function", "function": function})
}

impl Api {
    pub fn kind(self) -> TaskKind {
        match self {
            Api::Completions => TaskKind::Generate,
            Api::Chat => TaskKind::Chat,
        }
    }

    pub fn id(self) -> &'static str {
        match self {
            Api::Completions => "cmpl",
            Api::Chat => "chatcmpl",
        }
    }

    pub fn object(self, streamed: bool) -> &'static str {
        match (self, streamed) {
            (Api::Completions, _) => "text_completion",
            (Api::Chat, false) => "chat.completion",
            (Api::Chat, true) => "chat.completion.chunk",
        }
    }

    pub fn whole(self, index: usize, answer: Answer, finish: &str, logprobs: Value) -> Value {
        let mut choice = json!({"index": index, "logprobs": logprobs, "finish_reason": finish});
        match self {
            Api::Completions => choice["text"] = json!(answer.text),
            Api::Chat => {
                let content = match answer.text.is_empty() && !answer.calls.is_empty() {
                    true => Value::Null,
                    false => json!(answer.text),
                };
                let mut message = json!({"role": "assistant", "content": content, "refusal": null});
                if !answer.thought.is_empty() {
                    message["reasoning_content"] = json!(answer.thought);
                }
                if !answer.calls.is_empty() {
                    message["tool_calls"] = json!(answer.calls);
                }
                choice["message"] = message;
            }
        }
        choice
    }

    /// A piece of an answer; the first of a chat says whose turn it is.
    pub fn piece(self, index: usize, part: Part, begin: Begin, logprobs: Value) -> Value {
        let mut choice = json!({"index": index, "logprobs": logprobs, "finish_reason": null});
        let text = match (self, part) {
            (Api::Completions, Part::Text(text)) => {
                choice["text"] = json!(text);
                return choice;
            }
            (_, part) => part,
        };
        let mut delta = Map::new();
        if begin.is_first {
            delta.insert("role".into(), json!("assistant"));
        }
        match text {
            Part::Thought(text) => {
                delta.insert("reasoning_content".into(), json!(text));
            }
            Part::Text(text) => {
                delta.insert("content".into(), json!(text));
            }
            Part::Call { number, name } => {
                if begin.is_first {
                    delta.insert("content".into(), Value::Null);
                }
                let mut call = call(begin.short_ids, name, String::new());
                call["index"] = json!(number);
                delta.insert("tool_calls".into(), json!([call]));
            }
            Part::Arguments { number, text } => {
                let call = json!({"index": number, "function": {"arguments": text}});
                delta.insert("tool_calls".into(), json!([call]));
            }
        }
        choice["delta"] = Value::Object(delta);
        choice
    }

    /// The end of an answer, which may have no piece before it.
    pub fn end(self, index: usize, finish: &str, begin: Begin, logprobs: Value) -> Value {
        let is_first = begin.is_first;
        let mut choice = self.piece(index, Part::Text(String::new()), begin, logprobs);
        choice["finish_reason"] = json!(finish);
        if let (Api::Chat, false) = (self, is_first) {
            choice["delta"] = json!({});
        }
        choice
    }
}
