//! What a request asks of calls: `tools`, `tool_choice` and `parallel_tool_calls`.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::from_str;
use serde_json::value::RawValue;

use super::form;
use super::functions::{at, functions, object, Function, Tool};
use crate::failure::{Failure, Result};
use crate::fields::Fields;
use crate::openai::form::{Form, Rule};
use crate::tools::format::FORCED;
use crate::tools::part::{self, Known};
use crate::tools::reader::Reader;
use crate::tools::style::Style;

#[derive(Debug, Deserialize)]
struct Body {
    tools: Option<Box<RawValue>>,
    tool_choice: Option<Box<RawValue>>,
    parallel_tool_calls: Option<bool>,
}

/// Which of them, and whether one has to be called.
#[derive(Debug, PartialEq, Eq)]
enum Choice {
    None,
    Auto(Option<Vec<String>>),
    Required(Option<Vec<String>>),
    Named(String),
}

/// What is looked for in an answer, and what form it has to have.
#[derive(Debug, Default)]
pub struct Calls {
    pub asked: Option<part::Asked>,
    pub rule: Option<Rule>,
    /// Whether that keeps all of it to a form, or there may be text.
    pub is_kept: bool,
    pub short_ids: bool,
}

impl Calls {
    /// Of a request without tools.
    pub fn none(fields: &Fields) -> Result<Calls> {
        let rule = fields.read::<Form>()?.rule(None)?;
        Ok(Calls {
            is_kept: rule.is_some(),
            rule,
            ..Calls::default()
        })
    }

    /// Of a request to a model that writes calls in this way.
    pub fn of(fields: &Fields, style: Style) -> Result<Calls> {
        let body: Body = fields.read()?;
        let form: Form = fields.read()?;
        let functions = functions(body.tools.as_deref())?;
        let choice = choice(body.tool_choice.as_deref(), &functions)?;
        let (names, is_forced, one) = match choice {
            Choice::None => return Calls::none(fields),
            Choice::Auto(names) => (names, false, false),
            Choice::Required(names) => (names, true, false),
            Choice::Named(name) => (Some(vec![name]), true, true),
        };
        let is_meant = |function: &&Function| match &names {
            Some(names) => names.contains(&function.name),
            None => true,
        };
        let functions: Vec<&Function> = functions.iter().filter(is_meant).collect();
        let format = match style.format {
            Some(format) => format,
            None if is_forced => FORCED,
            None => return Calls::none(fields),
        };
        if functions.is_empty() {
            return Calls::none(fields);
        }
        let several = style.several && !one && body.parallel_tool_calls != Some(false);
        let (format, rule, is_kept) = match is_forced {
            true => {
                let format = format.forced();
                let rule = form::forced(format, &functions, several);
                (format, form.rule(Some(rule))?, true)
            }
            false => match form.rule(None)? {
                Some(answer) if answer.is_response_format() => {
                    let format = format.forced();
                    let rule = form::or_answer(format, &functions, several, &answer);
                    (format, Some(rule), true)
                }
                // A text that is kept to another form is none of calls.
                Some(other) => {
                    return Ok(Calls {
                        rule: Some(other),
                        is_kept: true,
                        ..Calls::default()
                    });
                }
                None => {
                    let is_strict = functions.iter().any(|function| function.is_strict);
                    let can_be = is_strict && format.keeps_calls();
                    let rule = can_be.then(|| form::among_text(format, &functions, several));
                    (format, rule, false)
                }
            },
        };
        let tools = functions.iter().map(|function| Known {
            name: function.name.clone(),
            parameters: function.parameters.clone(),
        });
        let asked = part::Asked {
            format,
            tools: Arc::new(tools.collect()),
            most: if several { usize::MAX } else { 1 },
            is_forced,
        };
        Ok(Calls {
            asked: Some(asked),
            rule,
            is_kept,
            short_ids: style.short_ids,
        })
    }

    /// For each text that is written.
    pub fn reader(&self) -> Option<Reader> {
        self.asked.as_ref().map(Reader::new)
    }
}

#[derive(Debug, Deserialize)]
struct Chosen {
    #[serde(rename = "type")]
    kind: String,
    function: Option<Box<RawValue>>,
    allowed_tools: Option<Box<RawValue>>,
}

#[derive(Debug, Deserialize)]
struct Named {
    name: String,
}

#[derive(Debug, Deserialize)]
struct Allowed {
    mode: String,
    tools: Vec<Box<RawValue>>,
}

const CHOICES: &str = "\"none\", \"auto\", \"required\", and objects of type \"function\" or \
                       \"allowed_tools\"";

fn choice(choice: Option<&RawValue>, functions: &[Function]) -> Result<Choice> {
    let field = "tool_choice";
    let Some(choice) = choice else {
        return Ok(Choice::Auto(None));
    };
    let needs_tools = |what: &str| match functions.is_empty() {
        true => {
            let message = format!("is {what}, and there are no tools");
            Err(Failure::field(field, message))
        }
        false => Ok(()),
    };
    if let Ok(word) = from_str::<String>(choice.get()) {
        return match word.as_str() {
            "none" => Ok(Choice::None),
            "auto" => Ok(Choice::Auto(None)),
            "required" => {
                needs_tools("\"required\"")?;
                Ok(Choice::Required(None))
            }
            _ => {
                let message = format!("is {word:?}; served are {CHOICES}");
                Err(Failure::field(field, message))
            }
        };
    }
    let chosen: Chosen = object(field, choice)?
        .read()
        .map_err(|why| at(field, why))?;
    match (chosen.kind.as_str(), chosen.function, chosen.allowed_tools) {
        ("function", Some(function), _) => {
            needs_tools("a function")?;
            let name = named(&format!("{field}.function"), &function, functions)?;
            Ok(Choice::Named(name))
        }
        ("allowed_tools", _, Some(allowed)) => {
            needs_tools("a list of tools")?;
            let place = format!("{field}.allowed_tools");
            let allowed: Allowed = object(&place, &allowed)?
                .read()
                .map_err(|why| at(&place, why))?;
            let mut names = Vec::new();
            for (number, tool) in allowed.tools.iter().enumerate() {
                let place = format!("{place}.tools[{number}]");
                let tool: Tool = object(&place, tool)?
                    .read()
                    .map_err(|why| at(&place, why))?;
                let place = format!("{place}.function");
                names.push(named(&place, &tool.function, functions)?);
            }
            if names.is_empty() {
                return Err(Failure::field(format!("{place}.tools"), "is empty"));
            }
            match allowed.mode.as_str() {
                "auto" => Ok(Choice::Auto(Some(names))),
                "required" => Ok(Choice::Required(Some(names))),
                mode => {
                    let message = format!("is {mode:?}; it is \"auto\" or \"required\"");
                    Err(Failure::field(format!("{place}.mode"), message))
                }
            }
        }
        (kind @ ("function" | "allowed_tools"), _, _) => {
            Err(Failure::field(format!("{field}.{kind}"), "is missing"))
        }
        (kind, _, _) => {
            let message = format!("is {kind:?}; served are {CHOICES}");
            Err(Failure::field(format!("{field}.type"), message))
        }
    }
}

fn named(place: &str, function: &RawValue, functions: &[Function]) -> Result<String> {
    let named: Named = object(place, function)?
        .read()
        .map_err(|why| at(place, why))?;
    match functions.iter().any(|one| one.name == named.name) {
        true => Ok(named.name),
        false => {
            let message = format!("is {:?}, which is none of tools", named.name);
            Err(Failure::field(format!("{place}.name"), message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::format::FORMATS;

    /// Calls beside another form, and those that have to come, are in JSON, whatever the model writes.
    #[test]
    fn a_grammar_keeps_calls_in_json_alone() {
        let tools = r#""tools": [{"function": {"name": "f", "strict": true}}]"#;
        for format in &FORMATS {
            let style = Style {
                format: Some(format),
                several: true,
                short_ids: false,
            };
            let asked = |more: &str| {
                let fields = from_str(&format!("{{{tools}{more}}}")).unwrap();
                let calls = Calls::of(&fields, style).unwrap();
                (calls.asked.unwrap().format.name, calls.rule.is_some())
            };
            let is_json = !["qwen3_coder", "olmo3", "pythonic"].contains(&format.name);
            let kept = (if is_json { format.name } else { "json" }, true);
            assert_eq!(
                asked(r#", "response_format": {"type": "json_object"}"#),
                kept
            );
            assert_eq!(asked(r#", "tool_choice": "required""#), kept);
            // Those of a strict function among text, where they have a marker each.
            let is_kept = ["hermes", "phi4_mini"].contains(&format.name);
            assert_eq!(asked(""), (format.name, is_kept));
        }
    }
}
