//! A tokenizer.json: its parts, with a look at their sizes before they are read into memory.

use super::fields::plain;
use super::model::{Bpe, Model};
use super::{assemble, meter, Normalization, Parts, Tokenizer};
use crate::error::{quote, Error, Result};
use serde::de::{self, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::Value;
use std::collections::HashMap;
use std::fmt;
use tokenizers::models::bpe::{Merges, Vocab};
use tokenizers::AddedToken;

/// Largest file; the largest real ones have some 35 MB.
const MAX_FILE: usize = 128 << 20;
/// Most values of a file: entries of the vocabulary, merges and their halves.
const MAX_VALUES: usize = 16 << 20;
/// Memory for each value: an entry of three tables.
const ROOM_VALUE: usize = 400;
/// Largest part besides the model and the added tokens. A charsmap has some 300 KB.
const MAX_PART: usize = 4 << 20;

fn bad(place: &str) -> impl Fn(serde_json::Error) -> Error + '_ {
    move |e| Error::format(format!("{place}: {}", plain(&e)))
}

/// Asks for the memory of what a JSON text holds. Counts what may separate values, in strings too.
pub fn room_for(json: &str, place: &str) -> Result<()> {
    let values = json
        .bytes()
        .filter(|c| matches!(c, b',' | b'[' | b'{'))
        .count();
    if values > MAX_VALUES {
        return Err(Error::format(format!(
            "{place} has some {values} values; the limit is {MAX_VALUES}"
        )));
    }
    meter::room(values * ROOM_VALUE + json.len() * 4)
}

/// From the text of a tokenizer.json. Truncation and padding are left out: they are settings of a
/// training run and would cut or fill every text.
pub fn from_json(json: &str) -> Result<Tokenizer> {
    if json.len() > MAX_FILE {
        return Err(Error::format(format!(
            "JSON of {} bytes; the limit is {MAX_FILE}",
            json.len()
        )));
    }
    // The crate never uses its process-wide thread pool for single texts; this says so once more.
    tokenizers::utils::parallelism::set_parallelism(false);
    let read = || Ok(read(json)?);
    let (model, parts, added) = meter::run(json.len(), read).map_err(meter::when_opened)?;
    assemble(model, parts, added)
}

fn read(json: &str) -> Result<(Model, Parts, Vec<AddedToken>)> {
    if json.starts_with('\u{feff}') {
        return Err(Error::format("it starts with a byte order mark"));
    }
    let file: HashMap<String, &RawValue> = serde_json::from_str(json)
        // With the position: here it is that of the file.
        .map_err(|e| Error::format(e.to_string()))?;
    let text = |key: &str| file.get(key).map_or("null", |raw| raw.get());
    let version: Value = part(text("version"), "version")?;
    if !version.is_null() && version != "1.0" {
        return Err(Error::format(format!(
            "version is {}; \"1.0\" is known",
            quote(version.as_str().unwrap_or(&version.to_string()))
        )));
    }
    let parts = Parts {
        normalizer: Normalization::Json(part(text("normalizer"), "normalizer")?),
        pre_tokenizer: part(text("pre_tokenizer"), "pre_tokenizer")?,
        post_processor: part(text("post_processor"), "post_processor")?,
        decoder: part(text("decoder"), "decoder")?,
    };
    let added = added_tokens(text("added_tokens"))?;
    let Some(raw) = file.get("model") else {
        return Err(Error::format("it has no model"));
    };
    Ok((model(raw.get())?, parts, added))
}

fn part(json: &str, place: &str) -> Result<Value> {
    if json.len() > MAX_PART {
        return Err(Error::format(format!(
            "{place} has {} bytes; the limit is {MAX_PART}",
            json.len()
        )));
    }
    room_for(json, place)?;
    serde_json::from_str(json).map_err(bad(place))
}

fn added_tokens(json: &str) -> Result<Vec<AddedToken>> {
    const PLACE: &str = "added_tokens";
    room_for(json, PLACE)?;
    let list: Option<Vec<AddedToken>> = serde_json::from_str(json).map_err(bad(PLACE))?;
    Ok(list.unwrap_or_default())
}

/// What tells the kinds of models apart; the oldest files do not name them.
#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(borrow)]
    vocab: Option<&'a RawValue>,
    merges: Option<IgnoredAny>,
    max_input_chars_per_word: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct BpeJson {
    vocab: Vocab,
    merges: MergeList,
    dropout: Option<f32>,
    unk_token: Option<String>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    fuse_unk: Option<bool>,
    byte_fallback: Option<bool>,
    ignore_merges: Option<bool>,
}

#[derive(Deserialize)]
struct WordPieceJson {
    vocab: Vocab,
    unk_token: String,
    continuing_subword_prefix: String,
    max_input_chars_per_word: usize,
}

#[derive(Deserialize)]
struct WordLevelJson {
    vocab: Vocab,
    unk_token: String,
}

#[derive(Deserialize)]
struct UnigramJson {
    vocab: Vec<(String, f64)>,
    unk_id: Option<usize>,
    byte_fallback: Option<bool>,
}

fn model(json: &str) -> Result<Model> {
    const PLACE: &str = "model";
    room_for(json, PLACE)?;
    let kind: Kind = serde_json::from_str(json).map_err(bad(PLACE))?;
    let name = kind.kind.as_deref().unwrap_or_else(|| {
        let is_list = kind.vocab.is_some_and(|raw| raw.get().starts_with('['));
        match (kind.merges, kind.max_input_chars_per_word) {
            (Some(_), _) => "BPE",
            _ if is_list => "Unigram",
            (None, Some(_)) => "WordPiece",
            (None, None) => "WordLevel",
        }
    });
    match name {
        "BPE" => {
            let json: BpeJson = serde_json::from_str(json).map_err(bad(PLACE))?;
            if let Some(rate) = json.dropout.filter(|rate| *rate != 0.0) {
                return Err(Error::unsupported(format!(
                    "model: dropout is {rate}; a tokenizer that gives other tokens each time is not \
                     supported"
                )));
            }
            Model::bpe(Bpe {
                vocab: json.vocab,
                merges: json.merges.0,
                unk_token: json.unk_token,
                prefix: json.continuing_subword_prefix,
                suffix: json.end_of_word_suffix,
                fuse_unk: json.fuse_unk.unwrap_or(false),
                byte_fallback: json.byte_fallback.unwrap_or(false),
                ignore_merges: json.ignore_merges.unwrap_or(false),
            })
        }
        "WordPiece" => {
            let json: WordPieceJson = serde_json::from_str(json).map_err(bad(PLACE))?;
            Model::word_piece(
                json.vocab,
                json.unk_token,
                json.continuing_subword_prefix,
                json.max_input_chars_per_word,
            )
        }
        "WordLevel" => {
            let json: WordLevelJson = serde_json::from_str(json).map_err(bad(PLACE))?;
            Model::word_level(json.vocab, json.unk_token)
        }
        "Unigram" => {
            let json: UnigramJson = serde_json::from_str(json).map_err(bad(PLACE))?;
            Model::unigram(json.vocab, json.unk_id, json.byte_fallback.unwrap_or(false))
        }
        other => Err(Error::unsupported(format!(
            "model: the type {} is not known; BPE, WordPiece, WordLevel and Unigram are",
            quote(other)
        ))),
    }
}

/// "a b" or ["a", "b"], each.
struct MergeList(Merges);

struct Merge(String, String);

impl<'de> Deserialize<'de> for MergeList {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Merges;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a list of merges")
            }
            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut list: A,
            ) -> std::result::Result<Merges, A::Error> {
                let mut merges = Merges::new();
                while let Some(Merge(left, right)) =
                    list.next_element().map_err(|e: A::Error| {
                        de::Error::custom(format!("merge {}: {e}", merges.len()))
                    })?
                {
                    if !left.is_empty() || !right.is_empty() {
                        merges.push((left, right));
                    }
                }
                Ok(merges)
            }
        }
        from.deserialize_seq(List).map(MergeList)
    }
}

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct One;
        impl<'de> Visitor<'de> for One {
            type Value = Merge;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("two tokens, as \"a b\" or [\"a\", \"b\"]")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<Merge, E> {
                if text.starts_with("#version") {
                    return Ok(Merge(String::new(), String::new())); // a comment of old files
                }
                match text.split_once(' ') {
                    Some((left, right)) if !right.contains(' ') => {
                        Ok(Merge(left.to_string(), right.to_string()))
                    }
                    _ => Err(E::custom(format!(
                        "{} is not two tokens with one space between",
                        quote(text)
                    ))),
                }
            }
            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut list: A,
            ) -> std::result::Result<Merge, A::Error> {
                let (left, right) = (list.next_element()?, list.next_element()?);
                let more: Option<IgnoredAny> = list.next_element()?;
                match (left, right, more) {
                    (Some(left), Some(right), None) => Ok(Merge(left, right)),
                    _ => Err(de::Error::custom("a merge is two tokens")),
                }
            }
        }
        from.deserialize_any(One)
    }
}
