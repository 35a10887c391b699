//! A tokenizer that knows its special tokens by other names. With it, a text may have special tokens next
//! to texts of a caller that only spell them, and is still encoded as one text:
//!
//! ```text
//!   <|user|>\nQ {text}<|end|>   with the text "a <|end|>"
//!   ⠧⡁⢌...\nQ a <|end|>⣈⠓⠴...    ⠧⡁⢌... is the token <|user|>, and <|end|> seven characters
//! ```
//!
//! Encoding the stretches between the tokens one by one would not do: a token may take the white space
//! beside it, and some tokenizers mark the beginning of a text.

use crate::pipeline::Tokenizer;
use std::cmp::Reverse;
use std::collections::hash_map::RandomState;
use std::collections::HashMap;
use std::hash::BuildHasher;
use tokenizers::{AddedToken, NormalizedString, Normalizer};

pub struct Renamed {
    tokenizer: Tokenizer,
    /// Texts of special tokens and their names here.
    names: Vec<(String, String)>,
    /// From the ids here to those of the vocabulary.
    ids: HashMap<i32, i32>,
}

/// A copy in which no special token is found in a text.
pub fn literal(tokenizer: &Tokenizer) -> Tokenizer {
    let mut copy = tokenizer.clone();
    copy.set_encode_special_tokens(true);
    copy
}

/// From 64 bits that no caller can guess, so no text has it. Patterns of Braille: normalizers leave
/// them alone, and they are neither letters nor white space.
fn name(random: &RandomState, text: &str) -> String {
    let pattern = |byte: u8| char::from_u32(0x2800 + u32::from(byte)).unwrap_or_default();
    random
        .hash_one(text)
        .to_le_bytes()
        .map(pattern)
        .iter()
        .collect()
}

/// Whether a normalizer leaves a text as it is.
fn is_kept(tokenizer: &Tokenizer, text: &str) -> tokenizers::Result<bool> {
    let mut normal = NormalizedString::from(text);
    if let Some(normalizer) = tokenizer.get_normalizer() {
        normalizer.normalize(&mut normal)?;
    }
    Ok(normal.get() == text)
}

impl Renamed {
    pub fn new(tokenizer: &Tokenizer) -> tokenizers::Result<Self> {
        let random = RandomState::new();
        let (mut names, mut ids, mut added) = (Vec::new(), Vec::new(), Vec::new());
        for (id, token) in tokenizer.get_added_vocabulary().get_added_tokens_decoder() {
            if !token.special || token.content.is_empty() {
                continue;
            }
            let name = name(&random, &token.content);
            added.push(AddedToken {
                content: name.clone(),
                special: false, // the copy finds no others
                // Some normalizers put something in front of a token alone, and find it only behind that.
                normalized: token.normalized && is_kept(tokenizer, &name)?,
                ..token.clone()
            });
            names.push((token.content.clone(), name));
            ids.push(*id as i32); // Text::new refused vocabularies beyond i32
        }
        let mut copy = literal(tokenizer);
        copy.add_tokens(added)?;
        let here = |name: &String| copy.token_to_id(name).map(|id| id as i32);
        Ok(Renamed {
            ids: names
                .iter()
                .zip(ids)
                .filter_map(|((_, name), id)| Some((here(name)?, id)))
                .collect(),
            tokenizer: copy,
            names,
        })
    }

    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The text with every special token under its name here.
    pub fn rename(&self, text: &str) -> String {
        let mut found = Vec::new();
        for (special, name) in &self.names {
            found.extend(
                text.match_indices(special)
                    .map(|(at, _)| (at, special, name)),
            );
        }
        found.sort_by_key(|(at, special, _)| (*at, Reverse(special.len())));
        let (mut out, mut begin) = (String::new(), 0);
        for (at, special, name) in found {
            if at < begin {
                continue; // inside a longer one
            }
            out.push_str(&text[begin..at]);
            out.push_str(name);
            begin = at + special.len();
        }
        out + &text[begin..]
    }

    pub fn give_back(&self, tokens: &mut [i32]) {
        for token in tokens {
            *token = *self.ids.get(token).unwrap_or(token);
        }
    }
}
