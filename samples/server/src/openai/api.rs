//! What tells completions and chats apart in their answers.

use prefix::TaskKind;
use serde_json::{json, Value};

/// How an API writes answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    Completions,
    Chat,
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

    pub fn whole(self, index: usize, text: &str, finish: &str, logprobs: Value) -> Value {
        let mut choice = json!({"index": index, "logprobs": logprobs, "finish_reason": finish});
        match self {
            Api::Completions => choice["text"] = json!(text),
            Api::Chat => {
                choice["message"] = json!({"role": "assistant", "content": text, "refusal": null});
            }
        }
        choice
    }

    /// A piece of a text; the first of a chat says whose turn it is.
    pub fn piece(self, index: usize, text: &str, first: bool, logprobs: Value) -> Value {
        let mut choice = json!({"index": index, "logprobs": logprobs, "finish_reason": null});
        match (self, first) {
            (Api::Completions, _) => choice["text"] = json!(text),
            (Api::Chat, true) => choice["delta"] = json!({"role": "assistant", "content": text}),
            (Api::Chat, false) => choice["delta"] = json!({"content": text}),
        }
        choice
    }

    /// The end of a text, which may have no piece before it.
    pub fn end(self, index: usize, finish: &str, first: bool, logprobs: Value) -> Value {
        let mut choice = self.piece(index, "", first, logprobs);
        choice["finish_reason"] = json!(finish);
        if let (Api::Chat, false) = (self, first) {
            choice["delta"] = json!({});
        }
        choice
    }
}
