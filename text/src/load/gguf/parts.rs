//! What tokenizers of all kinds have in a GGUF file, and what their parts are made with.

use crate::error::{Error, Result};
use crate::gguf::Metadata;
use crate::pipeline::{Kind, Model, Parts};
use crate::roles::Roles;
use serde_json::{json, Value};
use tokenizers::AddedToken;

pub fn required<T>(value: Option<T>, key: &str) -> Result<T> {
    value.ok_or_else(|| Error::format(format!("the GGUF file has no {key}")))
}

/// What all kinds of tokenizers have.
pub struct Common<'a> {
    pub metadata: &'a Metadata,
    pub tokens: &'a [String],
    /// What each token is for, when the file says so.
    pub kinds: Option<Vec<Kind>>,
    pub roles: Roles,
}

/// A tokenizer before what is around it.
pub struct Built {
    pub model: Model,
    pub parts: Parts,
    pub added: Vec<AddedToken>,
}

impl Common<'_> {
    /// A flag of the tokenizer, or what holds when the file does not say.
    pub fn flag(&self, name: &str, otherwise: bool) -> Result<bool> {
        let flag = self.metadata.bool(&format!("tokenizer.ggml.{name}"))?;
        Ok(flag.unwrap_or(otherwise))
    }
}

/// What a text has around it by default: bos in front, eos behind.
pub fn begin_and_end(common: &Common, bos: bool, eos: bool) -> Result<Value> {
    let token = |role: &str, otherwise| {
        let wanted = common.flag(&format!("add_{role}_token"), otherwise)?;
        if !wanted {
            return Ok(None);
        }
        common.roles.get(role).map(Some).ok_or_else(|| {
            Error::format(format!(
                "a text has the {role} token around it (tokenizer.ggml.add_{role}_token), but there is \
                 none (tokenizer.ggml.{role}_token_id)"
            ))
        })
    };
    Ok(around(token("bos", bos)?, token("eos", eos)?))
}

/// The post-processor that puts one token in front and one behind; null when there is nothing to add.
pub fn around(front: Option<(u32, &str)>, back: Option<(u32, &str)>) -> Value {
    if front.or(back).is_none() {
        return Value::Null;
    }
    let special = |token: Option<(u32, &str)>, kind: u32| {
        token.map(|(_, text)| json!({"SpecialToken": {"id": text, "type_id": kind}}))
    };
    let text = |name: &str, kind: u32| Some(json!({"Sequence": {"id": name, "type_id": kind}}));
    let first = [special(front, 0), text("A", 0), special(back, 0)];
    let second = [text("B", 1), special(back, 1)];
    let single: Vec<Value> = first.iter().flatten().cloned().collect();
    let pair: Vec<Value> = first.into_iter().chain(second).flatten().collect();
    let tokens: serde_json::Map<String, Value> = [front, back]
        .into_iter()
        .flatten()
        .map(|(id, text)| {
            (
                text.to_string(),
                json!({"id": text, "ids": [id], "tokens": [text]}),
            )
        })
        .collect();
    json!({"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": tokens})
}

/// Tokens that are found in a text before it is cut. `rstrip` says of a special one whether it takes
/// the white space behind it too.
pub fn added(texts: &[String], kinds: &[Kind], rstrip: impl Fn(&str) -> bool) -> Vec<AddedToken> {
    let mut added = Vec::new();
    for (text, kind) in texts.iter().zip(kinds) {
        let special = matches!(kind, Kind::Control | Kind::Unknown);
        if (special || *kind == Kind::UserDefined) && !text.is_empty() {
            let token = AddedToken::from(text.clone(), special).normalized(false);
            added.push(token.rstrip(special && rstrip(text)));
        }
    }
    added
}
