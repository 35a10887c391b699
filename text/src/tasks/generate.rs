//! answer, generate, chat: a text for every item.

use super::inputs::Inputs;
use super::kind::{ItemText, Kind};
use super::method::{Asked, Context, Method, Methods};
use super::piece::Field;
use super::prompt::{Built, Fields};
use super::recipe::Prompt;
use crate::chat;
use crate::engine::Request;
use crate::error::{Code, Error, Result};
use crate::text::EncodeOptions;
use serde_json::{json, Map, Value};

/// Options of all three.
const OPTIONS: &[&str] = &[
    "stream",
    "stop",
    "samples",
    "json_schema",
    "regex",
    "grammar",
    "logprobs",
    "top_logprobs",
];

/// A text for every question about a context.
pub static ANSWER: Kind = Kind {
    name: "answer",
    texts: &[
        ItemText {
            name: "context",
            field: Field::Context,
        },
        ItemText {
            name: "question",
            field: Field::Question,
        },
    ],
    has_labels: false,
    has_own_models: false,
    many_prompts: false,
    options: OPTIONS,
    has_order: false,
};

/// What follows a prompt.
pub static GENERATE: Kind = Kind {
    name: "generate",
    texts: &[ItemText {
        name: "prompt",
        field: Field::Prompt,
    }],
    has_labels: false,
    has_own_models: false,
    many_prompts: false,
    options: OPTIONS,
    has_order: false,
};

/// The next message of a conversation.
pub static CHAT: Kind = Kind {
    name: "chat",
    texts: &[ItemText {
        name: "messages",
        field: Field::Prompt,
    }],
    has_labels: false,
    has_own_models: false,
    many_prompts: false,
    options: OPTIONS,
    has_order: false,
};

/// How a recipe may get an answer, or what follows a prompt.
pub const METHODS: Methods = &[("generate", &Generate::Recipe)];
/// How a recipe may get the next message.
pub const CHAT_METHODS: Methods = &[("messages", &Generate::Messages)];

/// By where the prompt comes from.
#[derive(Debug, PartialEq)]
enum Generate {
    Recipe,
    Messages,
}

impl Method for Generate {
    fn has_own_prompt(&self) -> bool {
        *self == Generate::Messages
    }

    fn writes_text(&self) -> bool {
        true
    }

    fn width(&self, _inputs: &Inputs, _dimensions: usize) -> usize {
        0
    }

    fn example(&self) -> Request {
        Request::Generate
    }

    fn ask<'a>(&self, context: &mut Context<'a>, fields: Fields<'a>) -> Result<Asked> {
        let built = match self {
            Generate::Recipe => context.prompt(&fields, context.generated)?,
            Generate::Messages => messages(context, fields.document)?,
        };
        Ok(Asked::new(built, Request::Generate))
    }
}

/// The prompt of messages, or of an object of messages and options of the template; nothing of it is
/// ever cut.
fn messages(context: &Context, given: &str) -> Result<Built> {
    let mut options = Map::new();
    let mut messages = given.to_string();
    if given.trim_start().starts_with('{') {
        if let Value::Object(object) = crate::json::parse_exact(given, "messages")? {
            options = object;
        }
        let own = options
            .shift_remove("messages")
            .ok_or_else(|| Error::argument("messages is an object without \"messages\""))?;
        messages = own.to_string();
    }
    if let Some(Prompt::Own { variables }) = context.options.recipe.prompts.values().next() {
        let all = options.entry("variables").or_insert_with(|| json!({}));
        if let Value::Object(all) = all {
            for (name, value) in variables {
                all.entry(name).or_insert_with(|| value.clone());
            }
        }
    }
    let request = chat::Request::parse(&messages, &Value::Object(options).to_string())?;
    let rendered = context.text.templates.render(request, false)?;
    let tokens = context
        .text
        .encode(&rendered.text, EncodeOptions::default())?;
    let limit = context.limit(context.generated);
    if tokens.len() > limit {
        let said = format!(
            "the messages have {} tokens; the limit is {limit}",
            tokens.len()
        );
        let error = Error::new(Code::PromptTooLong, said);
        return Err(context.with_reason(error, context.generated));
    }
    if tokens.is_empty() {
        return Err(Error::argument("the messages have no tokens"));
    }
    Ok(Built {
        tokens,
        was_cut: false,
    })
}
