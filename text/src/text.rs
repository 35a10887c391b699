//! One loaded tokenizer: encoding, decoding and what is known about its tokens. Immutable after
//! loading, so every method may be called from any thread.

use crate::chat::Templates;
use crate::error::{Code, Error, Result};
use crate::load::Source;
use crate::panics::{panic_text, quiet};
use crate::pieces::Pieces;
use crate::roles::{end_tokens, Roles};
use serde_json::Value;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::OnceLock;
use tokenizers::Tokenizer;

/// Longest text of one call. Tokenizing needs some hundred bytes of memory per byte of text, and no
/// context window holds more.
pub const MAX_TEXT: usize = 16 << 20;
/// Longest run of white space where a regex splits the text. The regex engine gives up at a million
/// characters that it might have to take back, and the crate would then leave the rest unsplit.
const MAX_SPACE: usize = 999_000;
/// Most tokens of one call to decode.
pub const MAX_TOKENS: usize = 16 << 20;

/// What encoding does beyond the text itself.
#[derive(Clone, Copy, Default)]
pub struct EncodeOptions {
    /// Add what the model wants around a text, e.g. a begin-of-text token.
    pub special: bool,
    /// Special tokens that are written in the text are ordinary characters.
    pub literal: bool,
}

pub struct Encoded {
    pub tokens: Vec<i32>,
    /// Bytes of the text that each token comes from: begin and end.
    pub offsets: Vec<(usize, usize)>,
}

pub struct Text {
    tokenizer: Tokenizer,
    /// A copy that takes special tokens in the text literally; made at first use.
    literal: OnceLock<Box<Tokenizer>>,
    pieces: Pieces,
    /// Whether a regex splits texts before the model sees them.
    splits_by_regex: bool,
    /// Whether offsets leave out the spaces of a token.
    trims_offsets: bool,
    kind: &'static str,
    roles: Roles,
    ends: Vec<i32>,
    /// Ids are below this; vocabularies may have holes.
    size: u32,
    pub templates: Templates,
}

fn as_tokens(ids: &[u32]) -> Vec<i32> {
    // Text::new refused vocabularies beyond i32.
    ids.iter().map(|id| *id as i32).collect()
}

fn cannot_encode(error: tokenizers::Error) -> Error {
    Error::new(
        Code::Internal,
        format!("the text cannot be encoded: {error}"),
    )
}

/// Parts of a tokenizer.json may each be right and yet not fit together; the crate finds that out when
/// it encodes, some of it by a panic.
fn probe(tokenizer: &Tokenizer) -> Result<()> {
    let bad = |what: &str| Error::format(format!("the tokenizer does not work: {what}"));
    let encode = || tokenizer.encode("Probe 12, \u{e9}\u{6f22}\n", true);
    match catch_unwind(AssertUnwindSafe(|| quiet(encode))) {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(e)) => Err(bad(&e.to_string())),
        Err(cause) => Err(bad(panic_text(&*cause))),
    }
}

/// Whether a part of a component, as JSON, holds `key` with `value`.
fn holds(component: Option<&Value>, key: &str, value: fn(&Value) -> bool) -> bool {
    fn any(whole: &Value, key: &str, value: fn(&Value) -> bool) -> bool {
        match whole {
            Value::Object(map) => map
                .iter()
                .any(|(k, v)| (k == key && value(v)) || any(v, key, value)),
            Value::Array(list) => list.iter().any(|v| any(v, key, value)),
            _ => false,
        }
    }
    component.is_some_and(|c| any(c, key, value))
}

fn trims_offsets(tokenizer: &Tokenizer) -> bool {
    let json = tokenizer
        .get_post_processor()
        .and_then(|p| serde_json::to_value(p).ok());
    holds(json.as_ref(), "trim_offsets", |v| *v == Value::Bool(true))
}

fn splits_by_regex(tokenizer: &Tokenizer) -> bool {
    let json = tokenizer
        .get_pre_tokenizer()
        .and_then(|p| serde_json::to_value(p).ok());
    holds(json.as_ref(), "Regex", Value::is_string)
        || holds(json.as_ref(), "use_regex", |v| *v == Value::Bool(true))
}

/// The most white space in one place, in characters.
fn longest_space(text: &str) -> usize {
    let (mut longest, mut run) = (0, 0);
    for c in text.chars() {
        run = if c.is_whitespace() { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

impl Text {
    pub fn new(source: Source) -> Result<Self> {
        let Source {
            kind,
            tokenizer,
            end_ids,
            roles,
            extra_special,
            templates,
        } = source;
        let size = tokenizer
            .get_vocab(true)
            .into_values()
            .max()
            .map_or(0, |id| id.saturating_add(1));
        if size == 0 || size > i32::MAX as u32 {
            return Err(Error::format(format!("a vocabulary of {size} tokens")));
        }
        probe(&tokenizer)?;
        let mut ends = end_tokens(&tokenizer, &roles, &end_ids);
        ends.retain(|id| *id < size);
        Ok(Text {
            pieces: Pieces::new(&tokenizer),
            splits_by_regex: splits_by_regex(&tokenizer),
            trims_offsets: trims_offsets(&tokenizer),
            literal: OnceLock::new(),
            kind,
            ends: as_tokens(&ends),
            size,
            templates: Templates::new(templates, &roles, extra_special),
            roles,
            tokenizer,
        })
    }

    pub fn kind(&self) -> &'static str {
        self.kind
    }

    pub fn vocab_size(&self) -> u32 {
        self.size
    }

    pub fn roles(&self) -> &Roles {
        &self.roles
    }

    pub fn ends(&self) -> &[i32] {
        &self.ends
    }

    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    fn encoder(&self, text: &str, options: EncodeOptions) -> Result<&Tokenizer> {
        if text.len() > MAX_TEXT {
            return Err(Error::range(format!(
                "a text of {} bytes; the limit is {MAX_TEXT}",
                text.len()
            )));
        }
        if self.splits_by_regex && text.len() > MAX_SPACE {
            let space = longest_space(text);
            if space > MAX_SPACE {
                return Err(Error::range(format!(
                    "{space} characters of white space in a row; the limit is {MAX_SPACE}"
                )));
            }
        }
        Ok(if options.literal {
            self.literal.get_or_init(|| {
                let mut copy = self.tokenizer.clone();
                copy.set_encode_special_tokens(true);
                Box::new(copy)
            })
        } else {
            &self.tokenizer
        })
    }

    /// Ids only, which takes less memory and time than with offsets.
    pub fn encode(&self, text: &str, options: EncodeOptions) -> Result<Vec<i32>> {
        let encoding = self
            .encoder(text, options)?
            .encode_fast(text, options.special)
            .map_err(cannot_encode)?;
        Ok(as_tokens(encoding.get_ids()))
    }

    pub fn encode_offsets(&self, text: &str, options: EncodeOptions) -> Result<Encoded> {
        let tokenizer = self.encoder(text, options)?;
        // Where offsets leave out spaces, the crate counts these as one unit each: right for
        // characters, wrong for bytes beyond ASCII.
        let in_characters = self.trims_offsets && !text.is_ascii();
        let encoding = if in_characters {
            tokenizer.encode_char_offsets(text, options.special)
        } else {
            tokenizer.encode(text, options.special)
        }
        .map_err(cannot_encode)?;
        let mut offsets = encoding.get_offsets().to_vec();
        if in_characters {
            let starts: Vec<u32> = text.char_indices().map(|(at, _)| at as u32).collect();
            let byte = |n: usize| starts.get(n).map_or(text.len(), |at| *at as usize);
            for pair in &mut offsets {
                *pair = (byte(pair.0), byte(pair.1));
            }
        }
        Ok(Encoded {
            tokens: as_tokens(encoding.get_ids()),
            offsets,
        })
    }

    /// Checks ids that come from outside.
    pub fn check(&self, tokens: &[i32]) -> Result<Vec<u32>> {
        if tokens.len() > MAX_TOKENS {
            return Err(Error::range(format!(
                "{} tokens; the limit is {MAX_TOKENS}",
                tokens.len()
            )));
        }
        tokens.iter().map(|id| self.check_one(*id)).collect()
    }

    pub fn check_one(&self, token: i32) -> Result<u32> {
        u32::try_from(token)
            .ok()
            .filter(|id| *id < self.size)
            .ok_or_else(|| {
                Error::range(format!(
                    "token {token} is outside the vocabulary of {} tokens",
                    self.size
                ))
            })
    }

    pub fn decode(&self, tokens: &[i32], skip_special: bool) -> Result<String> {
        let ids = self.check(tokens)?;
        self.decode_ids(&ids, skip_special)
    }

    pub fn decode_ids(&self, ids: &[u32], skip_special: bool) -> Result<String> {
        self.tokenizer
            .decode(ids, skip_special)
            .map_err(|e| Error::new(Code::Internal, format!("the tokens cannot be decoded: {e}")))
    }

    /// The bytes that a token stands for; empty for a hole in the vocabulary.
    pub fn token_bytes(&self, token: i32) -> Result<Vec<u8>> {
        let id = self.check_one(token)?;
        Ok(self.pieces.bytes(&self.tokenizer, id))
    }

    pub fn pieces(&self) -> &Pieces {
        &self.pieces
    }

    /// The id of an entry of the vocabulary, spelt as the vocabulary spells it.
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.tokenizer.token_to_id(token)
    }
}
