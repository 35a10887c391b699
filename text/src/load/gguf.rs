//! Builds a Hugging Face tokenizer from the metadata of a GGUF file.

use super::split::split;
use super::Source;
use crate::error::{quote, Code, Error, Result};
use crate::gguf::{self, Metadata};
use crate::pipeline::{assemble, meter, Bpe, Model, Parts};
use crate::roles::Roles;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use tokenizers::AddedToken;

// tokenizer.ggml.token_type
const NORMAL: i64 = 1;
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;

/// GGUF keys of special tokens and the roles they stand for.
const ROLE_KEYS: &[(&str, &str)] = &[
    ("bos_token_id", "bos"),
    ("eos_token_id", "eos"),
    ("eot_token_id", "eot"),
    ("eom_token_id", "eom"),
    ("unknown_token_id", "unk"),
    ("seperator_token_id", "sep"), // spelt like this in the format
    ("separator_token_id", "sep"),
    ("padding_token_id", "pad"),
    ("cls_token_id", "cls"),
    ("mask_token_id", "mask"),
    ("fim_pre_token_id", "fim_prefix"),
    ("fim_suf_token_id", "fim_suffix"),
    ("fim_mid_token_id", "fim_middle"),
    ("fim_pad_token_id", "fim_pad"),
    ("fim_rep_token_id", "fim_repository"),
    ("fim_sep_token_id", "fim_separator"),
];

pub fn load(path: &Path) -> Result<Source> {
    let file = File::open(path).map_err(|e| Error::io(path, &e))?;
    let size = file.metadata().map_err(|e| Error::io(path, &e))?.len();
    let metadata = gguf::read(BufReader::with_capacity(1 << 16, file), size)?;
    from_metadata(&metadata)
}

fn required<T>(value: Option<T>, key: &str) -> Result<T> {
    value.ok_or_else(|| Error::format(format!("the GGUF file has no {key}")))
}

pub fn from_metadata(metadata: &Metadata) -> Result<Source> {
    let model = metadata.text("tokenizer.ggml.model")?.ok_or_else(|| {
        Error::new(
            Code::NotFound,
            "the GGUF file has no tokenizer (tokenizer.ggml.model)",
        )
    })?;
    match model {
        "gpt2" => {}
        "none" | "no_vocab" => {
            return Err(Error::unsupported(
                "the GGUF file says that it has no tokenizer; this model takes token ids only",
            ));
        }
        other => {
            return Err(Error::unsupported(format!(
                "tokenizer.ggml.model {} is not supported; \"gpt2\" (byte-level BPE) is",
                quote(other)
            )));
        }
    }
    let pre = metadata.text("tokenizer.ggml.pre")?.ok_or_else(|| {
        Error::unsupported(
            "the GGUF file does not name its split (tokenizer.ggml.pre); it was written by an old \
             converter",
        )
    })?;
    let parts = split(pre)?;
    let tokens = required(
        metadata.texts("tokenizer.ggml.tokens")?,
        "tokenizer.ggml.tokens",
    )?;
    let merges = required(
        metadata.texts("tokenizer.ggml.merges")?,
        "tokenizer.ggml.merges",
    )?;
    let types = metadata.ints("tokenizer.ggml.token_type")?;
    check_types(types, tokens.len())?;

    let model = meter::run(0, || Ok(build_bpe(tokens, merges, parts.ignore_merges)?))?;
    let roles = read_roles(metadata, tokens)?;
    let add_bos = metadata
        .bool("tokenizer.ggml.add_bos_token")?
        .unwrap_or(parts.add_bos);
    let add_eos = metadata
        .bool("tokenizer.ggml.add_eos_token")?
        .unwrap_or(false);
    let parts = Parts {
        normalizer: parts.normalizer,
        pre_tokenizer: parts.pre_tokenizer,
        post_processor: around(&roles, add_bos, add_eos)?,
        decoder: super::byte_level(true),
    };
    let tokenizer = assemble(model, &parts, special_tokens(tokens, types))?;
    Ok(Source {
        kind: "gguf",
        tokenizer,
        end_ids: Vec::new(),
        roles,
        extra_special: Vec::new(),
        templates: read_templates(metadata)?,
    })
}

fn check_types(types: Option<&[i64]>, tokens: usize) -> Result<()> {
    let Some(types) = types else { return Ok(()) };
    if types.len() != tokens {
        return Err(Error::format(format!(
            "tokenizer.ggml.token_type has {} entries for {tokens} tokens",
            types.len()
        )));
    }
    match types.iter().position(|t| !(NORMAL..=6).contains(t)) {
        Some(i) => Err(Error::format(format!(
            "token {i} has the unknown type {}",
            types[i]
        ))),
        None => Ok(()),
    }
}

/// Memory for an entry of the vocabulary or a merge, besides its bytes.
const ROOM_ENTRY: usize = 600;

fn build_bpe(tokens: &[String], merges: &[String], ignore_merges: bool) -> Result<Model> {
    if tokens.is_empty() {
        return Err(Error::format("tokenizer.ggml.tokens is empty"));
    }
    let bytes: usize = tokens.iter().chain(merges).map(String::len).sum();
    meter::room((tokens.len() + merges.len()) * ROOM_ENTRY + bytes * 4)?;
    let mut vocab = tokenizers::models::bpe::Vocab::default();
    vocab.reserve(tokens.len());
    for (id, token) in tokens.iter().enumerate() {
        if vocab.insert(token.clone(), id as u32).is_some() {
            return Err(Error::format(format!(
                "token {} occurs twice in tokenizer.ggml.tokens",
                quote(token)
            )));
        }
    }
    let mut pairs = Vec::with_capacity(merges.len());
    for merge in merges {
        // Spaces inside tokens are written as another character, so exactly one separates.
        let (left, right) = merge
            .split_once(' ')
            .filter(|(l, r)| !l.is_empty() && !r.is_empty() && !r.contains(' '))
            .ok_or_else(|| {
                Error::format(format!(
                    "merge {} is not two tokens with one space between",
                    quote(merge)
                ))
            })?;
        pairs.push((left.to_string(), right.to_string()));
    }
    Model::bpe(Bpe {
        vocab,
        merges: pairs,
        ignore_merges,
        ..Bpe::default()
    })
    .map_err(|e| e.within("tokenizer.ggml"))
}

fn special_tokens(tokens: &[String], types: Option<&[i64]>) -> Vec<AddedToken> {
    let mut added = Vec::new();
    for (token, kind) in tokens.iter().zip(types.unwrap_or(&[])) {
        let special = *kind == CONTROL;
        if (special || *kind == USER_DEFINED) && !token.is_empty() {
            added.push(AddedToken::from(token.clone(), special).normalized(false));
        }
    }
    added
}

fn read_roles(metadata: &Metadata, tokens: &[String]) -> Result<Roles> {
    let mut roles = Roles::default();
    for (key, role) in ROLE_KEYS {
        let key = format!("tokenizer.ggml.{key}");
        let Some(id) = metadata.int(&key)? else {
            continue;
        };
        // 2^32 - 1 is how some writers say "none".
        if id == i64::from(u32::MAX) {
            continue;
        }
        let token = usize::try_from(id)
            .ok()
            .and_then(|i| tokens.get(i))
            .ok_or_else(|| {
                Error::format(format!(
                    "{key} is {id}, but there are {} tokens",
                    tokens.len()
                ))
            })?;
        roles.set(role, id as u32, token);
    }
    Ok(roles)
}

/// The post-processor that puts bos in front and eos behind; null when there is nothing to add.
fn around(roles: &Roles, add_bos: bool, add_eos: bool) -> Result<Value> {
    let mut single = vec![json!({"Sequence": {"id": "A", "type_id": 0}})];
    let mut pair = vec![
        json!({"Sequence": {"id": "A", "type_id": 0}}),
        json!({"Sequence": {"id": "B", "type_id": 0}}),
    ];
    let mut special = serde_json::Map::new();
    for (wanted, role, front) in [(add_bos, "bos", true), (add_eos, "eos", false)] {
        if !wanted {
            continue;
        }
        let (id, token) = roles.get(role).ok_or_else(|| {
            Error::format(format!(
                "tokenizer.ggml.add_{role}_token is set, but there is no {role} token"
            ))
        })?;
        let piece = json!({"SpecialToken": {"id": token, "type_id": 0}});
        for list in [&mut single, &mut pair] {
            let at = if front { 0 } else { list.len() };
            list.insert(at, piece.clone());
        }
        special.insert(
            token.to_string(),
            json!({"id": token, "ids": [id], "tokens": [token]}),
        );
    }
    if special.is_empty() {
        return Ok(Value::Null);
    }
    Ok(
        json!({"type": "TemplateProcessing", "single": single, "pair": pair,
                   "special_tokens": special}),
    )
}

fn read_templates(metadata: &Metadata) -> Result<BTreeMap<String, String>> {
    const KEY: &str = "tokenizer.chat_template";
    let mut templates = BTreeMap::new();
    for key in metadata.keys() {
        let name = match key.strip_prefix(KEY) {
            Some("") => "default",
            Some(rest) if rest.starts_with('.') && rest.len() > 1 => &rest[1..],
            _ => continue,
        };
        // tokenizer.chat_templates lists the names; it does not begin with KEY and a dot.
        if let Some(text) = metadata.text(key)? {
            templates.insert(name.to_string(), text.to_string());
        }
    }
    Ok(templates)
}
