//! Reads the options of a task, as prefix_options_json tells them.

use super::choice::{choose, Choice};
use super::kind::Kind;
use super::method::Method;
use super::model::Model;
use super::options::Options;
use super::prompt::Truncate;
use super::registry::kinds;
use super::stops::Stops;
use crate::constraint::Rules;
use crate::error::{quote, quote_all, Error, Result};
use crate::text::Text;
use serde_json::{Map, Value};

/// libprefix has checked the types and ranges: what is not there has its default.
struct Reader {
    object: Map<String, Value>,
}

impl Reader {
    fn text(&mut self, key: &str) -> Option<String> {
        match self.object.shift_remove(key) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// What an answer must look like; an empty text sets nothing.
    fn rules(&mut self) -> Result<Option<Rules>> {
        let given = |text: &String| !text.is_empty();
        let found = [
            self.text("json_schema").filter(given).map(Rules::Schema),
            self.text("regex").filter(given).map(Rules::Regex),
            self.text("grammar").filter(given).map(Rules::Grammar),
        ];
        let mut found = found.into_iter().flatten();
        let rules = found.next();
        if let (Some(rules), Some(more)) = (&rules, found.next()) {
            return Err(Error::argument(format!(
                "options {} and {} are both set; a text is written by one of them",
                rules.option(),
                more.option()
            )));
        }
        Ok(rules)
    }

    fn flag(&mut self, key: &str) -> bool {
        self.object.shift_remove(key).and_then(|v| v.as_bool()) == Some(true)
    }

    fn number(&mut self, key: &str, default: usize) -> usize {
        self.object
            .shift_remove(key)
            .and_then(|v| v.as_u64())
            .and_then(|n| usize::try_from(n).ok())
            .unwrap_or(default)
    }
}

/// Options that not every task has are refused where they mean nothing.
fn check_keys(object: &Map<String, Value>, kind: &Kind) -> Result<()> {
    for key in object.keys() {
        // What tasks read is theirs to say: a recipe has a head, or none.
        if key == "head" {
            return Err(Error::argument(format!(
                "option head is for requests of token ids: what task {} reads of its own is in its recipe",
                kind.name
            )));
        }
        let takers: Vec<&str> = kinds()
            .filter(|other| other.options.contains(&key.as_str()))
            .map(|other| other.name)
            .collect();
        if !takers.is_empty() && !takers.contains(&kind.name) {
            return Err(Error::argument(format!(
                "option {key} is for {}; {} does not take it",
                takers.join(", "),
                kind.name
            )));
        }
    }
    Ok(())
}

/// The options, and the method of their recipe. `json`: an object of what was set, "{}" for nothing.
pub fn parse(
    json: &str,
    kind: &'static Kind,
    model: &Model,
    text: &Text,
) -> Result<(Options, &'static dyn Method)> {
    let value: Value = crate::json::parse(json)
        .map_err(|e| Error::argument(format!("options is not JSON: {e}")))?;
    let Value::Object(object) = value else {
        return Err(Error::argument("options is not a JSON object"));
    };
    check_keys(&object, kind)?;
    let mut reader = Reader { object };
    let name = reader.text("recipe").filter(|name| name != "auto");
    let Choice {
        recipe,
        method,
        reason,
        warning,
    } = choose(name.as_deref(), kind, model, text)?;
    let recipe = recipe.of_model(model);
    let truncate = match reader.text("truncate").as_deref() {
        Some("left") => Truncate::Left,
        Some("off") => Truncate::Off,
        _ => Truncate::Right,
    };
    let mut stops: Vec<String> = match reader.object.shift_remove("stop") {
        Some(Value::Array(stops)) => stops
            .iter()
            .filter_map(|stop| stop.as_str().map(str::to_string))
            .collect(),
        _ => Vec::new(),
    };
    // Rules end a text by themselves; what would end another one may stand in it.
    let rules = reader.rules()?;
    if rules.is_none() {
        stops.push(recipe.stop.clone());
    }
    let prompt = reader.text("prompt").filter(|name| !name.is_empty());
    let prompt = match (prompt, recipe.prompts.len()) {
        (Some(name), _) => name,
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
    let instruction = reader.text("instruction");
    if instruction.as_ref().is_some_and(|text| !text.is_empty()) && !recipe.takes_instruction() {
        return Err(Error::argument(format!(
            "option instruction has no place in the prompts of recipe {}",
            quote(&recipe.name)
        )));
    }
    let options = Options {
        instruction: instruction.unwrap_or_else(|| recipe.instruction.clone()),
        truncate,
        max_prompt_tokens: match reader.number("max_prompt_tokens", 0) {
            0 => method.most_tokens(model),
            limit => limit,
        },
        raw: reader.flag("raw"),
        top_n: reader.number("top_n", 0),
        prompt,
        chunk_tokens: reader.number("chunk_tokens", 65_536),
        stream: reader.flag("stream"),
        samples: reader.number("samples", 1),
        stops: Stops::new(stops)?,
        rules,
        deadline_ms: reader.number("deadline_ms", 0) as u64,
        request: {
            let mut request = recipe.request.clone();
            if !recipe.pooling.is_empty() {
                request.insert("pooling".into(), recipe.pooling.clone().into());
            }
            for (key, value) in method.request() {
                request.insert(key.to_string(), (*value).into());
            }
            request.extend(reader.object);
            request
        },
        recipe,
        reason,
        warning,
    };
    Ok((options, method))
}
