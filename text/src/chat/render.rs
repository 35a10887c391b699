//! Renders one request with the right template.

use super::budget::Allowance;
use super::environment::{
    environment, with_plain_newlines, without_generation_tags, Program, RAISED,
};
use super::{budget, stack, Request};
use crate::error::{quote, quote_all, Code, Error, Result};
use crate::roles::Roles;
use minijinja::value::Serde;
use minijinja::{ErrorKind, Value};
use std::collections::BTreeMap;

/// Largest template; real ones have up to some 30 KB.
const MAX_TEMPLATE: usize = 256 << 10;
/// Finding where turns end renders once per message.
const MAX_TURNS: usize = 1024;

/// The chat templates of a model and the special tokens they may name.
pub struct Templates {
    texts: BTreeMap<String, String>,
    tokens: BTreeMap<String, Value>,
}

pub struct Rendered {
    pub text: String,
    /// turns[i]: how many of the first bytes belong to messages 0..=i and stay when the
    /// conversation goes on after message i. Empty unless asked for.
    pub turns: Vec<usize>,
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

    /// The templates themselves.
    pub fn sources(&self) -> impl Iterator<Item = &str> {
        self.texts.values().map(String::as_str)
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
                    quote_all(&self.names())
                )
            })
        })
    }

    pub fn render(&self, mut request: Request, with_turns: bool) -> Result<Rendered> {
        let source = self.choose(&request)?;
        if source.len() > MAX_TEMPLATE {
            return Err(Error::range(format!(
                "the chat template has {} bytes; the limit is {MAX_TEMPLATE}",
                source.len()
            )));
        }
        if with_turns && request.messages.len() > MAX_TURNS {
            return Err(Error::range(format!(
                "{} messages; segments are found for at most {MAX_TURNS}",
                request.messages.len()
            )));
        }
        let source = without_generation_tags(&with_plain_newlines(source));
        let open = request.open_last_message()?;
        stack::on_large_stack(|| {
            let program = Program::compile(&source).map_err(|e| template_error(&e))?;
            let mut allowance = Allowance::ONE;
            let mut text = self.run(&program, &request, None, &mut allowance)?;
            if let Some(last) = &open {
                text = last.cut(&text)?;
            }
            let mut turns = Vec::new();
            if with_turns {
                let mut allowance = Allowance::TURNS;
                for n in 1..=request.messages.len() {
                    let before = turns.last().copied().unwrap_or(0);
                    let shared = match self.run(&program, &request, Some(n), &mut allowance) {
                        Ok(part) => common(&part, &text).max(before),
                        Err(e) if e.code == Code::OutOfRange => {
                            return Err(e.within("finding where turns end"));
                        }
                        // A template may refuse a conversation that stops here.
                        Err(_) => before,
                    };
                    turns.push(shared);
                }
            }
            Ok(Rendered { text, turns })
        })
    }

    /// With `first`: only that many messages and no generation prompt. Takes what it used from the
    /// allowance; a rendering that failed is taken to have used all that one may.
    fn run(
        &self,
        program: &Program,
        request: &Request,
        first: Option<usize>,
        allowance: &mut Allowance,
    ) -> Result<String> {
        let given = allowance.next();
        allowance.fuel -= given.fuel;
        allowance.units -= given.units;
        let env = environment(request.now, given.fuel).map_err(|e| template_error(&e))?;
        let mut context = self.tokens.clone();
        for (name, value) in &request.variables {
            context.insert(name.clone(), Value::from(Serde(value)));
        }
        let messages = &request.messages[..first.unwrap_or(request.messages.len())];
        context.insert("messages".into(), Value::from(Serde(messages)));
        context.insert("tools".into(), Value::from(Serde(&request.tools)));
        context.insert("documents".into(), Value::from(Serde(&request.documents)));
        context.insert(
            "add_generation_prompt".into(),
            (first.is_none() && request.add_generation_prompt).into(),
        );
        let (text, left) = program
            .run(&env, Value::from(context), given)
            .map_err(|e| template_error(&e))?;
        allowance.fuel += left.fuel;
        allowance.units += left.units;
        Ok(text)
    }
}

/// Bytes that two texts have in common at the front, in whole characters.
fn common(a: &str, b: &str) -> usize {
    let mut n = a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
    while !a.is_char_boundary(n) {
        n -= 1;
    }
    n
}

/// What failed decides the status: the messages, the template, or its appetite.
fn template_error(error: &minijinja::Error) -> Error {
    // The engine wraps errors of calls; the innermost one has the reason.
    let mut reason = error;
    let mut next = std::error::Error::source(error);
    while let Some(inner) = next {
        if let Some(inner) = inner.downcast_ref::<minijinja::Error>() {
            reason = inner;
        }
        next = inner.source();
    }
    let detail = reason.detail().unwrap_or_default();
    if let Some(words) = detail.strip_prefix(RAISED) {
        return Error::argument(format!("the chat template refuses the messages: {words}"));
    }
    let code = if detail.starts_with(budget::NO_ROOM) {
        Code::OutOfMemory
    } else if detail.starts_with(budget::TOO_MUCH)
        || detail.contains("recursion limit")
        || reason.kind() == ErrorKind::OutOfFuel
    {
        Code::OutOfRange
    } else {
        match reason.kind() {
            ErrorKind::SyntaxError
            | ErrorKind::UnknownFilter
            | ErrorKind::UnknownFunction
            | ErrorKind::UnknownTest
            | ErrorKind::UnknownMethod => Code::UnsupportedModel,
            _ => Code::InvalidArgument,
        }
    };
    let mut message = "chat template: ".to_string();
    if reason.kind() == ErrorKind::OutOfFuel {
        message.push_str(&format!(
            "{}more than {} instructions, the limit",
            budget::TOO_MUCH,
            budget::FUEL
        ));
    } else if detail.is_empty() {
        message.push_str(&reason.kind().to_string());
    } else {
        message.push_str(&format!("{}: {detail}", reason.kind()));
    }
    if let Some(line) = reason.line().or(error.line()) {
        message.push_str(&format!(" (line {line})"));
    }
    Error::new(code, message)
}
