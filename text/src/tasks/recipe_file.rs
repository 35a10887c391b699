//! Recipes as files: their fields, and what is wrong with one. The format is described in docs/recipes.md.

use super::head::{Activation, Label};
use super::kind::Kind;
use super::method::Method;
use super::model::{Line, FACTS};
use super::piece::{one_of, parse_piece, Field, Part, Piece};
use super::recipe::{ListPrompt, Prompt, Recipe, Special, OF_MODEL};
use super::registry::TASKS;
use crate::error::{nearest, quote, Error, Result};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Largest recipe file.
pub const MAX_FILE: usize = 1 << 20;

const KEYS: &[&str] = &[
    "name",
    "task",
    "method",
    "doc",
    "prompt",
    "prompts",
    "messages",
    "variables",
    "pooling",
    "target",
    "instruction",
    "yes",
    "no",
    "scale",
    "special",
    "markup",
    "cut",
    "max_prompt_tokens",
    "stop",
    "keep_space",
    "request",
    "match",
    "needs",
    "attention",
    "label",
    "activation",
    "list",
];

/// The fields of a prompt for lists, and those of a document in it.
const LIST_FIELDS: &[(&str, Field)] = &[
    ("query", Field::Query),
    ("count", Field::Count),
    ("documents", Field::Documents),
];
const DOCUMENT_FIELDS: &[(&str, Field)] = &[
    ("query", Field::Query),
    ("index", Field::Index),
    ("document", Field::Document),
];
const LIST_KEYS: &[&str] = &[
    "document",
    "read_document",
    "read_query",
    "max_documents",
    "max_document_tokens",
    "max_query_tokens",
];

struct Reader<'a> {
    object: &'a Map<String, Value>,
}

impl<'a> Reader<'a> {
    fn text(&self, key: &str) -> Result<Option<&'a str>> {
        match self.object.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Error::format(format!("{key} is not a string"))),
        }
    }

    fn required(&self, key: &str) -> Result<&'a str> {
        self.text(key)?
            .ok_or_else(|| Error::format(format!("{key} is missing")))
    }

    fn texts(&self, key: &str) -> Result<Vec<String>> {
        let wrong = || Error::format(format!("{key} is not a list of strings"));
        let Some(value) = self.object.get(key) else {
            return Ok(Vec::new());
        };
        let list = value.as_array().ok_or_else(wrong)?.iter();
        list.map(|text| text.as_str().map(str::to_string).ok_or_else(wrong))
            .collect()
    }

    /// A whole number from 1 on, below 2^24; None where it is not there.
    fn size(&self, key: &str) -> Result<Option<usize>> {
        let Some(value) = self.object.get(key) else {
            return Ok(None);
        };
        let size = value.as_u64().filter(|n| (1..1 << 24).contains(n));
        let wrong = || Error::format(format!("{key} is not a whole number from 1 to 16777215"));
        size.map(|n| Some(n as usize)).ok_or_else(wrong)
    }

    fn flag(&self, key: &str) -> Result<bool> {
        match self.object.get(key) {
            None => Ok(false),
            Some(Value::Bool(on)) => Ok(*on),
            Some(_) => Err(Error::format(format!("{key} is not true or false"))),
        }
    }

    fn object(&self, key: &str) -> Result<Map<String, Value>> {
        match self.object.get(key) {
            None => Ok(Map::new()),
            Some(Value::Object(object)) => Ok(object.clone()),
            Some(_) => Err(Error::format(format!("{key} is not an object"))),
        }
    }
}

fn pieces(what: &str, value: &Value, known: &[(&str, Field)]) -> Result<Prompt> {
    let list = value
        .as_array()
        .filter(|list| !list.is_empty())
        .ok_or_else(|| Error::format(format!("{what} is not a list of strings")))?;
    let pieces = list
        .iter()
        .map(|piece| {
            let text = piece
                .as_str()
                .ok_or_else(|| Error::format(format!("{what} is not a list of strings")))?;
            parse_piece(text, known)
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Prompt::Pieces(pieces))
}

fn messages(value: &Value, variables: Map<String, Value>) -> Result<Prompt> {
    let wrong = || Error::format("messages is not a list of {\"role\": ..., \"content\": ...}");
    let list = value
        .as_array()
        .filter(|l| !l.is_empty())
        .ok_or_else(wrong)?;
    let messages = list
        .iter()
        .map(|m| {
            m.as_object()
                .filter(|m| {
                    m.get("role").is_some_and(Value::is_string)
                        && m.get("content").is_some_and(Value::is_string)
                })
                .cloned()
                .ok_or_else(wrong)
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Prompt::Messages {
        messages,
        variables,
    })
}

/// A recipe with the method that it names.
#[derive(Clone)]
pub struct Parsed {
    pub recipe: Recipe,
    pub method: &'static dyn Method,
}

pub fn parse(text: &str) -> Result<Parsed> {
    if text.len() > MAX_FILE {
        return Err(Error::range(format!(
            "the recipe has {} bytes; the limit is {MAX_FILE}",
            text.len()
        )));
    }
    let value: Value =
        crate::json::parse(text).map_err(|e| Error::format(format!("not JSON: {e}")))?;
    let object = value
        .as_object()
        .ok_or_else(|| Error::format("not a JSON object"))?;
    if let Some(key) = object.keys().find(|k| !KEYS.contains(&k.as_str())) {
        let hint = nearest(key, KEYS)
            .map(|n| format!("; the nearest one is {}", quote(n)))
            .unwrap_or_default();
        return Err(Error::format(format!("no field {}{hint}", quote(key))));
    }
    let reader = Reader { object };
    let tasks: Vec<_> = TASKS.iter().map(|task| (task.kind.name, task)).collect();
    let entry = one_of("task", reader.required("task")?, &tasks)?;
    let method_name = reader.required("method")?;
    let method = one_of("method", method_name, entry.methods)?;
    let task = entry.kind;
    let known = match method.reads_lists() {
        true => LIST_FIELDS.to_vec(),
        false => task.fields(),
    };

    reader.text("doc")?; // for people, but a text all the same
    let prompts = prompts_of(&reader, task, method, &known)?;
    let list = match (method.reads_lists(), object.get("list")) {
        (false, None) => None,
        (true, Some(_)) => Some(list_prompt(&reader, &prompts)?),
        (true, None) => return Err(Error::format("list is missing")),
        (false, Some(_)) => {
            return Err(Error::format(
                "list is for methods that read lists: listwise",
            ))
        }
    };
    let target = target_of(&reader, method)?;
    let cut = reader
        .text("cut")?
        .map(|name| one_of("cut", name, &known))
        .transpose()?;
    let special = reader.text("special")?.map_or(Ok(Special::None), |name| {
        let all = [
            ("none", Special::None),
            ("front", Special::Front),
            ("both", Special::Both),
        ];
        one_of("special", name, &all)
    })?;
    let mut yes = String::new();
    if method.has_words() {
        yes = reader.required("yes")?.to_string();
    }
    let scale = match object.get("scale") {
        None => 1.0,
        Some(value) => value
            .as_f64()
            .filter(|n| (1e-6..=1e6).contains(n))
            .ok_or_else(|| Error::format("scale is not a number from 1e-6 to 1e6"))?,
    };
    let recipe = Recipe {
        name: reader.text("name")?.unwrap_or("").to_string(),
        task,
        method: method_name.to_string(),
        prompts,
        has_prompts_of_model: object.get("prompts").is_some_and(|p| p == OF_MODEL),
        pooling: match reader.text("pooling")? {
            Some(name) => {
                let all = ["last", "mean", "first", OF_MODEL].map(|name| (name, name));
                one_of("pooling", name, &all)?.to_string()
            }
            None => String::new(),
        },
        target,
        instruction: reader.text("instruction")?.unwrap_or("").to_string(),
        yes,
        no: reader.text("no")?.map(str::to_string),
        scale,
        special,
        markup: reader.flag("markup")?,
        cut,
        max_prompt_tokens: reader.size("max_prompt_tokens")?.unwrap_or(0),
        stop: reader.text("stop")?.unwrap_or("").to_string(),
        keep_space: reader.flag("keep_space")?,
        request: reader.object("request")?,
        lines: lines_of(&reader)?,
        needs: reader.texts("needs")?,
        needs_bidirectional: reader.text("attention")?.map_or(Ok(false), |name| {
            one_of(
                "attention",
                name,
                &[("any", false), ("bidirectional", true)],
            )
        })?,
        label: match object.get("label") {
            None => Label::Number(0),
            Some(Value::String(name)) => Label::Name(name.clone()),
            Some(value) => value
                .as_u64()
                .and_then(|n| usize::try_from(n).ok())
                .map(Label::Number)
                .ok_or_else(|| Error::format("label is neither a string nor a whole number"))?,
        },
        activation: match reader.text("activation")? {
            Some(name) => {
                let all = [
                    ("none", Activation::None),
                    ("sigmoid", Activation::Sigmoid),
                    ("softmax", Activation::Softmax),
                    (OF_MODEL, Activation::OfModel),
                ];
                one_of("activation", name, &all)?
            }
            None => Activation::Softmax,
        },
        list,
    };
    Ok(Parsed { recipe, method })
}

fn lines_of(reader: &Reader) -> Result<Vec<Line>> {
    let wrong =
        || Error::format("match is not a list of {fact: pattern, ...} with texts for patterns");
    let Some(value) = reader.object.get("match") else {
        return Ok(Vec::new());
    };
    let line = |value: &Value| -> Result<Line> {
        let object = value.as_object().filter(|o| !o.is_empty());
        let facts = object.ok_or_else(wrong)?.iter().map(|(fact, pattern)| {
            if !FACTS.contains(&fact.as_str()) {
                let known: Vec<_> = FACTS.iter().map(|fact| (*fact, ())).collect();
                one_of("a fact of match", fact, &known)?;
            }
            let pattern = pattern.as_str().ok_or_else(wrong)?;
            Ok((fact.clone(), pattern.to_string()))
        });
        facts.collect()
    };
    let list = value.as_array().ok_or_else(wrong)?;
    list.iter().map(line).collect()
}

fn prompts_of(
    reader: &Reader,
    task: &Kind,
    method: &dyn Method,
    known: &[(&str, Field)],
) -> Result<BTreeMap<String, Prompt>> {
    let mut prompts = BTreeMap::new();
    let given = |key: &str| reader.object.get(key);
    match (given("prompt"), given("prompts"), given("messages")) {
        (None, None, None) if method.has_own_prompt() => {
            let variables = reader.object("variables")?;
            prompts.insert("default".to_string(), Prompt::Own { variables });
        }
        _ if method.has_own_prompt() => {
            return Err(Error::format(
                "there may be no prompt, messages or prompts: items bring their own",
            ))
        }
        (Some(value), None, None) => {
            prompts.insert("default".to_string(), pieces("prompt", value, known)?);
        }
        (None, Some(Value::String(whose)), None) if task.many_prompts && whose == OF_MODEL => {
            prompts.insert("default".to_string(), Prompt::Pieces(Vec::new()));
        }
        (None, Some(_), None) if task.many_prompts => {
            for (name, value) in reader.object("prompts")? {
                prompts.insert(name.clone(), pieces(&name, &value, known)?);
            }
            if prompts.is_empty() {
                return Err(Error::format("prompts is empty"));
            }
        }
        (None, None, Some(value)) => {
            let prompt = messages(value, reader.object("variables")?)?;
            if let Prompt::Messages { messages, .. } = &prompt {
                for message in messages {
                    parse_piece(message["content"].as_str().unwrap_or(""), known)?;
                }
            }
            prompts.insert("default".to_string(), prompt);
        }
        _ => {
            return Err(Error::format(
                "there must be one of prompt, messages and (embed only) prompts",
            ))
        }
    }
    Ok(prompts)
}

fn target_of(reader: &Reader, method: &dyn Method) -> Result<Piece> {
    match method.target() {
        Some(field) => parse_piece(reader.required("target")?, &[field]),
        None => Ok(Piece::new()),
    }
}

fn list_prompt(reader: &Reader, prompts: &BTreeMap<String, Prompt>) -> Result<ListPrompt> {
    let object = reader.object("list")?;
    if let Some(key) = object.keys().find(|k| !LIST_KEYS.contains(&k.as_str())) {
        return Err(Error::format(format!("list has no field {}", quote(key))));
    }
    if ["special", "markup", "cut"]
        .iter()
        .any(|key| reader.object.contains_key(*key))
    {
        return Err(Error::format(
            "a prompt for lists takes none of special, markup and cut; list says how documents are cut",
        ));
    }
    let Some(Prompt::Pieces(whole)) = prompts.get("default") else {
        return Err(Error::format("a prompt for lists is a list of strings"));
    };
    let place = [Part::Field(Field::Documents)];
    let is_place = |piece: &Piece| piece.contains(&place[0]);
    let places = whole.iter().flatten().filter(|part| **part == place[0]);
    let at = whole.iter().position(is_place);
    let (1, Some(at)) = (places.count(), at.filter(|at| whole[*at] == place)) else {
        return Err(Error::format(
            "a prompt for lists has one piece that is \"{documents}\" and nothing else",
        ));
    };
    let list = Reader { object: &object };
    let value = object.get("document").unwrap_or(&Value::Null);
    let Prompt::Pieces(document) = pieces("list.document", value, DOCUMENT_FIELDS)? else {
        return Err(Error::format("list.document is not a list of strings"));
    };
    Ok(ListPrompt {
        head: whole[..at].to_vec(),
        document,
        tail: whole[at + 1..].to_vec(),
        read_document: list.required("read_document")?.to_string(),
        read_query: list.required("read_query")?.to_string(),
        max_documents: list.size("max_documents")?.unwrap_or(usize::MAX),
        max_document_tokens: list.size("max_document_tokens")?.unwrap_or(usize::MAX),
        max_query_tokens: list.size("max_query_tokens")?.unwrap_or(usize::MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_recipes_name_the_field() {
        let cases = [
            ("[]", "object"),
            ("{", "JSON"),
            ("\u{feff}{}", "byte order mark"),
            (r#"{"task":"rank"}"#, "task"),
            (r#"{"task":"rerank","method":"generate"}"#, "method"),
            (
                r#"{"task":"rerank","method":"yes-no","prompt":["{text}"]}"#,
                "field",
            ),
            (
                r#"{"task":"rerank","method":"yes-no","prompt":["x"]}"#,
                "yes",
            ),
            (
                r#"{"task":"rerank","method":"likelihood","prompt":["x"]}"#,
                "target",
            ),
            (r#"{"task":"rerank","method":"likelihood"}"#, "prompt"),
            (
                r#"{"task":"embed","method":"embedding","prompts":{}}"#,
                "prompts",
            ),
            (
                r#"{"task":"embed","method":"embedding","prompt":[]}"#,
                "prompt",
            ),
            (
                r#"{"task":"embed","method":"embedding","promt":["x"]}"#,
                "prompt",
            ),
            (
                r#"{"task":"embed","method":"embedding","prompt":["x"],"cut":"y"}"#,
                "cut",
            ),
            (
                r#"{"task":"embed","method":"embedding","prompt":["x"],"attention":"causal"}"#,
                "attention",
            ),
            (
                r#"{"task":"embed","method":"embedding","prompt":["x"],"max_prompt_tokens":-1}"#,
                "max_prompt_tokens",
            ),
        ];
        for (text, word) in cases {
            let error = parse(text).map(|_| ()).expect_err(text);
            assert!(error.message.contains(word), "{text}: {error}");
        }
    }
}
