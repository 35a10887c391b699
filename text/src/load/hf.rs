//! Reads what Hugging Face directories hold: tokenizer.json, tokenizer_config.json,
//! special_tokens_map.json, generation_config.json or config.json, and chat templates.

use super::{read_text, read_text_if_there, Source, MAX_FILE, MAX_SETTINGS, MAX_TEMPLATE};
use crate::error::{quote, Code, Error, Result};
use crate::pipeline;
use crate::roles::Roles;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use tokenizers::AddedToken;

/// Roles whose tokens are special ones, whatever tokenizer.json says of them.
const SPECIAL_ROLES: [&str; 7] = ["bos", "eos", "unk", "sep", "pad", "cls", "mask"];

pub fn load_directory(folder: &Path) -> Result<Source> {
    let text = read_text_if_there(&folder.join("tokenizer.json"), MAX_FILE)?.ok_or_else(|| {
        Error::new(
            Code::NotFound,
            "the directory has no tokenizer.json (a tokenizer.model alone is not enough)",
        )
    })?;
    let mut source = from_texts(
        &text,
        read_text_if_there(&folder.join("tokenizer_config.json"), MAX_SETTINGS)?.as_deref(),
    )?;
    source.kind = "directory";
    if let Some(map) = read_json(folder, "special_tokens_map.json")? {
        // Only what tokenizer_config.json leaves open.
        add_roles(&mut source, &map, false)?;
    }
    for name in ["generation_config.json", "config.json"] {
        if let Some(settings) = read_json(folder, name)? {
            let ids = end_ids(&settings).map_err(|e| e.within(name))?;
            if !ids.is_empty() {
                source.end_ids = ids;
                break;
            }
        }
    }
    // A template of its own file wins over the one inside tokenizer_config.json.
    if let Some(text) = read_text_if_there(&folder.join("chat_template.jinja"), MAX_TEMPLATE)? {
        source.templates.insert("default".to_string(), text);
    }
    let more = folder.join("additional_chat_templates");
    if more.symlink_metadata().is_ok() {
        let unread = |e| Error::io(&more, &e);
        for entry in std::fs::read_dir(&more).map_err(unread)?.take(64) {
            let entry = entry.map_err(unread)?;
            let name = entry.file_name();
            if let Some(stem) = name.to_str().and_then(|n| n.strip_suffix(".jinja")) {
                source
                    .templates
                    .insert(stem.to_string(), read_text(&entry.path(), MAX_TEMPLATE)?);
            }
        }
    }
    Ok(source)
}

/// A tokenizer.json, with the files beside it when there are any.
pub fn load_file(path: &Path) -> Result<Source> {
    if path.file_name().is_some_and(|n| n == "tokenizer.json") {
        if let Some(folder) = path.parent() {
            let folder = if folder.as_os_str().is_empty() {
                Path::new(".")
            } else {
                folder
            };
            return load_directory(folder);
        }
    }
    from_texts(&read_text(path, MAX_FILE)?, None)
}

/// From the contents of tokenizer.json and, if there is one, tokenizer_config.json.
pub fn from_texts(tokenizer_json: &str, config_json: Option<&str>) -> Result<Source> {
    if let Some(text) = config_json.filter(|text| text.len() as u64 > MAX_SETTINGS) {
        return Err(Error::format(format!(
            "tokenizer_config.json of {} bytes; the limit is {MAX_SETTINGS}",
            text.len()
        )));
    }
    let tokenizer = pipeline::from_json(tokenizer_json).map_err(|e| e.within("tokenizer.json"))?;
    let mut source = Source {
        kind: "json",
        tokenizer,
        end_ids: Vec::new(),
        roles: Roles::default(),
        extra_special: Vec::new(),
        templates: BTreeMap::new(),
    };
    if let Some(text) = config_json {
        pipeline::room_for(text, "tokenizer_config.json")?;
        let config: Value = crate::json::parse(text)
            .map_err(|e| Error::format(format!("tokenizer_config.json: {e}")))?;
        if !config.is_object() {
            return Err(Error::format("tokenizer_config.json is not an object"));
        }
        add_roles(&mut source, &config, true)?;
        source.templates = templates(&config)?;
    }
    Ok(source)
}

fn read_json(folder: &Path, name: &str) -> Result<Option<Value>> {
    let Some(text) = read_text_if_there(&folder.join(name), MAX_SETTINGS)? else {
        return Ok(None);
    };
    pipeline::room_for(&text, name)?;
    let value: Value =
        crate::json::parse(&text).map_err(|e| Error::format(format!("{name}: {e}")))?;
    if !value.is_object() {
        return Err(Error::format(format!("{name} is not an object")));
    }
    Ok(Some(value))
}

/// A token is written as its text or as {"content": text, ...}.
fn token_text(value: &Value) -> Option<&str> {
    value
        .as_str()
        .or_else(|| value.get("content").and_then(Value::as_str))
}

/// The special token that a file names.
fn special_token(value: &Value) -> Option<AddedToken> {
    let flag = |name: &str| value.get(name).and_then(Value::as_bool) == Some(true);
    let token = AddedToken::from(token_text(value)?, true)
        .single_word(flag("single_word"))
        .lstrip(flag("lstrip"))
        .rstrip(flag("rstrip"))
        .normalized(flag("normalized"));
    Some(token)
}

/// Makes those special that are plain words of the vocabulary in tokenizer.json, as transformers does.
fn make_special(source: &mut Source, tokens: Vec<AddedToken>) -> Result<()> {
    let tokenizer = &source.tokenizer;
    let added = tokenizer.get_added_vocabulary().get_added_tokens_decoder();
    let is_plain = |token: &AddedToken| {
        let id = tokenizer.token_to_id(&token.content);
        id.is_some_and(|id| !added.contains_key(&id))
    };
    let plain: Vec<AddedToken> = tokens.into_iter().filter(is_plain).collect();
    if plain.is_empty() {
        return Ok(());
    }
    pipeline::add_tokens(&mut source.tokenizer, plain)
}

/// Takes every `<role>_token` and the lists of further special tokens.
fn add_roles(source: &mut Source, object: &Value, replace: bool) -> Result<()> {
    let Some(entries) = object.as_object() else {
        return Ok(());
    };
    let mut special = Vec::new();
    for (key, value) in entries {
        let Some(role) = key.strip_suffix("_token") else {
            continue;
        };
        let Some(text) = token_text(value) else {
            continue;
        };
        if !replace && source.roles.get(role).is_some() {
            continue;
        }
        // add_bos_token and the like are booleans and never get here; a token that the vocabulary
        // does not have cannot be used.
        if let Some(id) = source.tokenizer.token_to_id(text) {
            source.roles.set(role, id, text);
            if SPECIAL_ROLES.contains(&role) {
                special.extend(special_token(value));
            }
        }
    }
    if replace || source.extra_special.is_empty() {
        for key in ["additional_special_tokens", "extra_special_tokens"] {
            if let Some(list) = object.get(key).and_then(Value::as_array) {
                source
                    .extra_special
                    .extend(list.iter().filter_map(token_text).map(str::to_string));
                special.extend(list.iter().filter_map(special_token));
            }
        }
    }
    make_special(source, special)
}

/// eos_token_id is a number, a list, or absent.
fn end_ids(settings: &Value) -> Result<Vec<u32>> {
    let one = |value: &Value| {
        value
            .as_u64()
            .and_then(|id| u32::try_from(id).ok())
            .ok_or_else(|| {
                Error::format(format!(
                    "eos_token_id {} is not a token id",
                    quote(&value.to_string())
                ))
            })
    };
    match settings.get("eos_token_id") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) => list.iter().map(one).collect(),
        Some(value) => Ok(vec![one(value)?]),
    }
}

/// chat_template is a text or a list of {"name", "template"}.
fn templates(config: &Value) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    match config.get("chat_template") {
        None | Some(Value::Null) => {}
        Some(Value::String(text)) => {
            found.insert("default".to_string(), text.clone());
        }
        Some(Value::Array(list)) => {
            for entry in list {
                let field = |name: &str| entry.get(name).and_then(Value::as_str);
                let (Some(name), Some(text)) = (field("name"), field("template")) else {
                    return Err(Error::format(
                        "tokenizer_config.json: an entry of chat_template has no name or template",
                    ));
                };
                found.insert(name.to_string(), text.to_string());
            }
        }
        Some(_) => {
            return Err(Error::format(
                "tokenizer_config.json: chat_template is neither text nor a list",
            ));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{EncodeOptions, Text};
    use serde_json::json;

    #[test]
    fn tokens_that_a_config_names_are_special() {
        let words = json!({"model": {"type": "WordLevel", "unk_token": "?",
            "vocab": {"?": 0, "a": 1, "</s>": 2, "<x>": 3, "<y>": 4}}, "pre_tokenizer": {"type": "Whitespace"}});
        let config = json!({"eos_token": {"content": "</s>", "lstrip": true}, "pad_token": "<none>",
            "boi_token": "<y>", "additional_special_tokens": ["<x>"]});
        let loaded = from_texts(&words.to_string(), Some(&config.to_string())).unwrap();
        let text = Text::new(loaded).unwrap();
        let encode = |of: &str| text.encode(of, EncodeOptions::default()).unwrap();
        assert_eq!(encode("a </s>a"), [1, 2, 1]);
        assert_eq!(encode("a<x>"), [1, 3]);
        assert_eq!(encode("a<y>"), [1, 0, 0, 0], "no role of special tokens");
        assert_eq!(text.decode(&[1, 2, 3], true).unwrap(), "a");
        assert_eq!(
            text.vocab_size(),
            5,
            "what the vocabulary lacks is not added"
        );
        let literal = EncodeOptions {
            literal: true,
            ..EncodeOptions::default()
        };
        assert!(!text.encode("</s>", literal).unwrap().contains(&2));
    }
}
