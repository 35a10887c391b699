//! The options of a task: a JSON object.

use super::prompt::Truncate;
use super::recipe::Recipe;
use super::task::Kind;
use crate::error::{nearest, quote, quote_all, Code, Error, Result};
use serde_json::{Map, Value};

/// Most distinct tokens in work at once, unless the caller says otherwise: enough to keep the engine
/// busy for seconds, and some megabytes of token lists.
const CHUNK_TOKENS: usize = 65_536;

pub struct Options {
    pub recipe: Recipe,
    pub instruction: String,
    pub truncate: Truncate,
    /// 0 = no limit of the caller.
    pub max_prompt_tokens: usize,
    pub raw: bool,
    pub top_n: usize,
    pub prompt: String,
    pub dimensions: usize,
    pub normalize: bool,
    pub chunk_tokens: usize,
    /// Options of the engine's requests.
    pub request: Map<String, Value>,
}

/// Options of every task; a `Kind` lists its own.
const KEYS: &[&str] = &[
    "recipe",
    "instruction",
    "truncate",
    "max_prompt_tokens",
    "chunk_tokens",
    "request",
];

struct Reader {
    object: Map<String, Value>,
}

impl Reader {
    fn text(&self, key: &str) -> Result<Option<&str>> {
        match self.object.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Error::argument(format!("option {key} is not a string"))),
        }
    }

    fn flag(&self, key: &str, default: bool) -> Result<bool> {
        self.object.get(key).map_or(Ok(default), |value| {
            value
                .as_bool()
                .ok_or_else(|| Error::argument(format!("option {key} is not true or false")))
        })
    }

    fn number(&self, key: &str, default: usize, min: usize) -> Result<usize> {
        const MAX: usize = 1 << 30;
        let Some(value) = self.object.get(key) else {
            return Ok(default);
        };
        let number = value
            .as_i64()
            .ok_or_else(|| Error::argument(format!("option {key} is not a whole number")))?;
        usize::try_from(number)
            .ok()
            .filter(|n| (min..=MAX).contains(n))
            .ok_or_else(|| {
                Error::range(format!(
                    "option {key} is {number}; it must be from {min} to {MAX}"
                ))
            })
    }
}

fn check_keys(object: &Map<String, Value>, kind: &Kind) -> Result<()> {
    let known: Vec<&str> = KEYS.iter().chain(kind.options).copied().collect();
    let Some(key) = object.keys().find(|key| !known.contains(&key.as_str())) else {
        return Ok(());
    };
    let hint = nearest(key, &known)
        .map(|n| format!("; the nearest one is {}", quote(n)))
        .unwrap_or_default();
    Err(Error::new(
        Code::UnknownOption,
        format!(
            "{} has no option {}{hint}; options of the engine go into \"request\"",
            kind.name,
            quote(key)
        ),
    ))
}

impl Options {
    /// `text` may be empty.
    pub fn parse(text: &str, kind: &'static Kind) -> Result<Options> {
        let object = if text.trim().is_empty() {
            Map::new()
        } else {
            let value: Value = crate::json::parse(text)
                .map_err(|e| Error::argument(format!("options is not JSON: {e}")))?;
            let Value::Object(object) = value else {
                return Err(Error::argument("options is not a JSON object"));
            };
            object
        };
        check_keys(&object, kind)?;
        let reader = Reader { object };
        let recipe = Recipe::load(reader.text("recipe")?, kind)?;
        let truncate = match reader.text("truncate")?.unwrap_or("right") {
            "right" => Truncate::Right,
            "left" => Truncate::Left,
            "off" => Truncate::Off,
            other => {
                return Err(Error::argument(format!(
                    "option truncate is {}; it must be right, left or off",
                    quote(other)
                )))
            }
        };
        let mut request = recipe.request.clone();
        match reader.object.get("request") {
            None => {}
            Some(Value::Object(given)) => {
                request.extend(
                    given
                        .iter()
                        .map(|(key, value)| (key.clone(), value.clone())),
                );
            }
            Some(_) => return Err(Error::argument("option request is not an object")),
        }
        if let Some(key) = kind
            .engine_options
            .iter()
            .find(|k| request.contains_key(**k))
        {
            return Err(Error::argument(format!(
                "{key} is an option of {} itself, not of its \"request\"",
                kind.name
            )));
        }
        let prompt = match (reader.text("prompt")?, recipe.prompts.len()) {
            (Some(name), _) => name.to_string(),
            (None, 1) => recipe.prompts.keys().next().cloned().unwrap_or_default(),
            (None, _) => "document".to_string(),
        };
        if !recipe.prompts.contains_key(&prompt) {
            let names: Vec<&str> = recipe.prompts.keys().map(String::as_str).collect();
            return Err(Error::not_found(format!(
                "the recipe has no prompt {}; there are {}",
                quote(&prompt),
                quote_all(&names)
            )));
        }
        Ok(Options {
            instruction: reader
                .text("instruction")?
                .unwrap_or(&recipe.instruction)
                .to_string(),
            truncate,
            max_prompt_tokens: reader.number("max_prompt_tokens", 0, 0)?,
            raw: reader.flag("raw", false)?,
            top_n: reader.number("top_n", 0, 0)?,
            prompt,
            dimensions: reader.number("dimensions", 0, 0)?,
            normalize: reader.flag("normalize", true)?,
            chunk_tokens: reader.number("chunk_tokens", CHUNK_TOKENS, 1)?,
            request,
            recipe,
        })
    }
}
