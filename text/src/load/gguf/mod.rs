//! Builds a tokenizer from the metadata of a GGUF file, by the kind that `tokenizer.ggml.model` names.

mod byte_level;
mod parts;
mod sentence_piece;
mod word_piece;

use self::parts::{required, Built, Common};
use super::files;
use super::source::Source;
use crate::error::{quote, Code, Error, Result};
use crate::gguf::{self, Metadata};
use crate::pipeline::{assemble, Kind};
use crate::roles::Roles;
use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::Path;

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
    let file = files::open(path)?;
    let size = file.metadata().map_err(|e| Error::io(path, &e))?.len();
    let metadata = gguf::read(BufReader::with_capacity(1 << 16, file), size)?;
    from_metadata(&metadata)
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
