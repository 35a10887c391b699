//! Reads what Hugging Face directories hold: tokenizer.json, tokenizer_config.json,
//! special_tokens_map.json, generation_config.json or config.json, and chat templates.

use super::added;
use super::files::{read_text, read_text_if_there, MAX_FILE, MAX_SETTINGS, MAX_TEMPLATE};
use super::source::Source;
use crate::error::{quote, Code, Error, Result};
use crate::pipeline;
use crate::roles::Roles;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;

pub fn load_directory(folder: &Path) -> Result<Source> {
    let text = read_text_if_there(&folder.join("tokenizer.json"), MAX_FILE)?.ok_or_else(|| {
        Error::new(
            Code::NotFound,
            "the directory has no tokenizer.json (a tokenizer.model alone is not enough)",
        )
    })?;
    let mut config = read_json(folder, CONFIG)?;
    if let Some(map) = read_json(folder, "special_tokens_map.json")? {
        add_map(config.get_or_insert_default(), map);
    }
    let mut source = from_settings(&text, config)?;
    source.kind = "directory";
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

type Settings = Map<String, Value>;

const CONFIG: &str = "tokenizer_config.json";

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
    from_settings(
        tokenizer_json,
        config_json.map(|text| settings(text, CONFIG)).transpose()?,
    )
}

fn from_settings(tokenizer_json: &str, config: Option<Settings>) -> Result<Source> {
    let tokenizer = pipeline::from_json(tokenizer_json).map_err(|e| e.within("tokenizer.json"))?;
    let mut source = Source {
        kind: "json",
        tokenizer,
        end_ids: Vec::new(),
        roles: Roles::default(),
        extra_special: Vec::new(),
        templates: BTreeMap::new(),
    };
    let Some(config) = config else {
        return Ok(source);
    };
    added::add(&mut source.tokenizer, &config).map_err(|e| e.within(CONFIG))?;
    for (role, value) in added::roles(&config) {
        let text = added::token_text(value).unwrap_or_default();
        if let Some(id) = source.tokenizer.token_to_id(text) {
            source.roles.set(role, id, text);
        }
    }
    source.extra_special = added::without_role(&config)
        .filter_map(added::token_text)
        .map(str::to_string)
        .collect();
    source.templates = templates(&config)?;
    Ok(source)
}

fn settings(text: &str, name: &str) -> Result<Settings> {
    if text.len() as u64 > MAX_SETTINGS {
        return Err(Error::format(format!(
            "{name} of {} bytes; the limit is {MAX_SETTINGS}",
            text.len()
        )));
    }
    pipeline::room_for(text, name)?;
    match crate::json::parse(text).map_err(|e| Error::format(format!("{name}: {e}")))? {
        Value::Object(settings) => Ok(settings),
        _ => Err(Error::format(format!("{name} is not an object"))),
    }
}

fn read_json(folder: &Path, name: &str) -> Result<Option<Settings>> {
    read_text_if_there(&folder.join(name), MAX_SETTINGS)?
        .map(|text| settings(&text, name))
        .transpose()
}

/// As transformers reads special_tokens_map.json: only beside a tokenizer_config.json that lists no tokens, of the
/// time when each file had a half of them, and then its roles go before those of that one.
fn add_map(config: &mut Settings, map: Settings) {
    const OLDER: &str = "additional_special_tokens";
    const FURTHER: &str = "extra_special_tokens";
    let has = |config: &Settings, key: &str| config.get(key).is_some_and(|value| !value.is_null());
    if has(config, "added_tokens_decoder") {
        return;
    }
    let has_further = has(config, OLDER) || config.get(FURTHER).is_some_and(Value::is_array);
    for (key, mut value) in map {
        let is_kept = match &*key {
            OLDER => has_further,
            // A role of this model alone.
            key => !added::is_standard(key) && key.ends_with("_token") && has(config, key),
        };
        if is_kept {
            continue;
        }
        if key == FURTHER {
            if let (Some(Value::Array(there)), Value::Array(more)) = (config.get(&key), &value) {
                let new = more.iter().filter(|token| !there.contains(token));
                value = Value::Array(there.iter().chain(new).cloned().collect());
            }
        }
        config.insert(key, value);
    }
}

/// eos_token_id is a number, a list, or absent.
fn end_ids(settings: &Settings) -> Result<Vec<u32>> {
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
fn templates(config: &Settings) -> Result<BTreeMap<String, String>> {
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
