//! Builds a tokenizer from the metadata of a GGUF file, by the kind that `tokenizer.ggml.model` names.

mod byte_level;
mod sentence_piece;
mod word_piece;

use super::Source;
use crate::error::{quote, Code, Error, Result};
use crate::gguf::{self, Metadata};
use crate::pipeline::{assemble, Kind, Model, Parts};
use crate::roles::Roles;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use tokenizers::AddedToken;

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

/// What all kinds of tokenizers have.
struct Common<'a> {
    metadata: &'a Metadata,
    tokens: &'a [String],
    /// What each token is for, when the file says so.
    kinds: Option<Vec<Kind>>,
    roles: Roles,
}

/// A tokenizer before what is around it.
struct Built {
    model: Model,
    parts: Parts,
    added: Vec<AddedToken>,
}

pub fn from_metadata(metadata: &Metadata) -> Result<Source> {
    let model = metadata.text("tokenizer.ggml.model")?.ok_or_else(|| {
        Error::new(
            Code::NotFound,
            "the GGUF file has no tokenizer (tokenizer.ggml.model)",
        )
    })?;
    let build = match model {
        "gpt2" => byte_level::build,
        "llama" => sentence_piece::bpe,
        "t5" => sentence_piece::unigram,
        "bert" => word_piece::build,
        "none" | "no_vocab" => {
            return Err(Error::unsupported(
                "the GGUF file says that it has no tokenizer; this model takes token ids only",
            ));
        }
        other => {
            return Err(Error::unsupported(format!(
                "tokenizer.ggml.model {} is not supported; \"gpt2\" (byte-level BPE), \"llama\" \
                 (SentencePiece BPE), \"t5\" (Unigram) and \"bert\" (WordPiece) are",
                quote(other)
            )));
        }
    };
    let tokens = required(
        metadata.texts("tokenizer.ggml.tokens")?,
        "tokenizer.ggml.tokens",
    )?;
    if tokens.is_empty() {
        return Err(Error::format("tokenizer.ggml.tokens is empty"));
    }
    let common = Common {
        metadata,
        tokens,
        kinds: read_kinds(metadata, tokens.len())?,
        roles: read_roles(metadata, tokens)?,
    };
    let Built {
        model,
        parts,
        added,
    } = build(&common)?;
    Ok(Source {
        kind: "gguf",
        tokenizer: assemble(model, parts, added)?,
        end_ids: Vec::new(),
        roles: common.roles,
        extra_special: Vec::new(),
        templates: read_templates(metadata)?,
    })
}

fn read_kinds(metadata: &Metadata, tokens: usize) -> Result<Option<Vec<Kind>>> {
    let Some(types) = metadata.ints("tokenizer.ggml.token_type")? else {
        return Ok(None);
    };
    if types.len() != tokens {
        return Err(Error::format(format!(
            "tokenizer.ggml.token_type has {} entries for {tokens} tokens",
            types.len()
        )));
    }
    let kinds = types.iter().enumerate().map(|(i, number)| {
        Kind::from_number(*number)
            .ok_or_else(|| Error::format(format!("token {i} has the unknown type {number}")))
    });
    kinds.collect::<Result<_>>().map(Some)
}

impl Common<'_> {
    /// A flag of the tokenizer, or what holds when the file does not say.
    fn flag(&self, name: &str, otherwise: bool) -> Result<bool> {
        let flag = self.metadata.bool(&format!("tokenizer.ggml.{name}"))?;
        Ok(flag.unwrap_or(otherwise))
    }
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

/// What a text has around it by default: bos in front, eos behind.
fn begin_and_end(common: &Common, bos: bool, eos: bool) -> Result<Value> {
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
fn around(front: Option<(u32, &str)>, back: Option<(u32, &str)>) -> Value {
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
fn added(texts: &[String], kinds: &[Kind], rstrip: impl Fn(&str) -> bool) -> Vec<AddedToken> {
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
