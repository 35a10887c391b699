//! Renders one request with the right template.

use super::environment::environment;
use super::{budget, Request};
use crate::error::{quote, Code, Error, Result};
use crate::roles::Roles;
use minijinja::value::Serde;
use minijinja::Value;
use std::collections::BTreeMap;

/// Largest template; real ones have up to some 30 KB.
const MAX_TEMPLATE: usize = 256 << 10;

/// The chat templates of a model and the special tokens they may name.
pub struct Templates {
    texts: BTreeMap<String, String>,
    tokens: BTreeMap<String, Value>,
}

impl Templates {
    pub fn new(texts: BTreeMap<String, String>, roles: &Roles, extra: Vec<String>) -> Self {
        let mut tokens: BTreeMap<String, Value> = roles
            .iter()
            .map(|(role, _, token)| (format!("{role}_token"), Value::from(token)))
            .collect();
        if !extra.is_empty() {
            tokens.insert("additional_special_tokens".to_string(), Value::from(extra));
        }
        Templates { texts, tokens }
    }

    pub fn names(&self) -> Vec<&str> {
        self.texts.keys().map(String::as_str).collect()
    }

    fn choose(&self, request: &Request) -> Result<&str> {
        let wanted = match &request.template {
            Some(name) => name,
            None if request.tools.is_some() && self.texts.contains_key("tool_use") => "tool_use",
            None => "default",
        };
        self.texts.get(wanted).map(String::as_str).ok_or_else(|| {
            Error::not_found(if self.texts.is_empty() {
                "the model has no chat template".to_string()
            } else {
                format!(
                    "no chat template {}; there are: {}",
                    quote(wanted),
                    self.names().join(", ")
                )
            })
        })
    }

    pub fn render(&self, request: &Request) -> Result<String> {
        let source = self.choose(request)?;
        if source.len() > MAX_TEMPLATE {
            return Err(Error::range(format!(
                "the chat template has {} bytes; the limit is {MAX_TEMPLATE}",
                source.len()
            )));
        }
        let env = environment(request.now);
        budget::begin();
        let mut context: BTreeMap<String, Value> = self.tokens.clone();
        for (name, value) in &request.variables {
            context.insert(name.clone(), Value::from(Serde(value)));
        }
        context.insert("messages".into(), Value::from(Serde(&request.messages)));
        context.insert("tools".into(), Value::from(Serde(&request.tools)));
        context.insert("documents".into(), Value::from(Serde(&request.documents)));
        context.insert(
            "add_generation_prompt".into(),
            request.add_generation_prompt.into(),
        );
        env.render_str(source, Value::from(context))
            .map_err(|e| template_error(&e))
    }
}

fn template_error(error: &minijinja::Error) -> Error {
    Error::new(Code::Format, format!("chat template: {error}"))
}
