//! The tokenizers crate, kept within limits.
//!
//! A tokenizer.json describes a pipeline. Each part of it is read here, checked, and becomes steps of
//! ours around the crate's own, so that what happens between two steps can be measured:
//!
//! ```text
//!   text -> [added tokens] -> Normalizer -> PreTokenizer -> Model -> PostProcessor -> tokens
//!                              step, step    step, step     word, word
//!                                  \_____________\____________\____ meter: bytes, memory, time
//! ```
//!
//! Files come with models and are untrusted: a few lines can ask for terabytes or for years. What may
//! be used follows from the length of the text (`meter`). A step whose worst case there is no memory
//! for is not begun, since the crate would end the process.

mod decoder;
mod fields;
mod json;
pub mod meter;
mod model;
mod normalizer;
mod pattern;
mod post_processor;
mod pre_tokenizer;
mod sentence_piece;

pub use decoder::Decoder;
pub use json::{from_json, room_for};
pub use model::{Bpe, Model};
pub use normalizer::Normalizer;
pub use pre_tokenizer::PreTokenizer;
pub use sentence_piece::{byte_of_token, CharsMap, Kind, Rules, SentencePiece, Vocabulary};

use crate::error::{Error, Result};
use serde_json::Value;
use tokenizers::{AddedToken, PostProcessorWrapper, TokenizerImpl};

/// The crate's tokenizer with parts of ours. A copy shares the model.
pub type Tokenizer = TokenizerImpl<Model, Normalizer, PreTokenizer, PostProcessorWrapper, Decoder>;

/// Most steps of one part; real tokenizers have up to some thirty.
const MAX_STEPS: usize = 256;
/// Nesting of sequences.
const MAX_DEPTH: usize = 8;
/// Most added tokens, and what their texts have together.
const MAX_ADDED: usize = 1 << 20;
const MAX_ADDED_BYTES: usize = 16 << 20;

/// What happens to a text before it is cut.
pub enum Normalization {
    Json(Value),
    SentencePiece(Rules),
}

/// The parts of a pipeline, most as JSON; `null` where there is none.
pub struct Parts {
    pub normalizer: Normalization,
    pub pre_tokenizer: Value,
    pub post_processor: Value,
    pub decoder: Value,
}

/// The bytes of added tokens.
fn added_bytes(added: &[AddedToken]) -> Result<usize> {
    let bytes: usize = added.iter().map(|token| token.content.len()).sum();
    if added.len() > MAX_ADDED || bytes > MAX_ADDED_BYTES {
        return Err(Error::format(format!(
            "{} added tokens of {bytes} bytes together; the limits are {MAX_ADDED} and \
             {MAX_ADDED_BYTES}",
            added.len()
        )));
    }
    Ok(bytes)
}

/// Puts a tokenizer together.
pub fn assemble(model: Model, parts: Parts, added: Vec<AddedToken>) -> Result<Tokenizer> {
    let bytes = added_bytes(&added)?;
    meter::run(bytes, || {
        let normalizer = match parts.normalizer {
            Normalization::Json(value) => Normalizer::parse(&value)?,
            Normalization::SentencePiece(rules) => Normalizer::sentence_piece(rules),
        };
        let pre_tokenizer = PreTokenizer::parse(&parts.pre_tokenizer, model.room_for_byte())?;
        let post_processor = post_processor::parse(&parts.post_processor)?;
        let decoder = Decoder::parse(&parts.decoder)?;
        // Strings in three tables, and the automaton that finds them in a text.
        meter::room(added.len().saturating_mul(600) + bytes.saturating_mul(128))?;
        let mut tokenizer = Tokenizer::new(model);
        tokenizer.with_normalizer(Some(normalizer))?;
        // Without steps too: what the model may use is measured there.
        tokenizer.with_pre_tokenizer(Some(pre_tokenizer));
        tokenizer.with_post_processor(post_processor);
        tokenizer.with_decoder(decoder);
        refuse_endless_stripping(&tokenizer, &added)?;
        tokenizer.add_tokens(added)?;
        Ok(tokenizer)
    })
    .map_err(meter::when_opened)
}

/// Adds tokens to those that are found in a text before it is cut.
pub fn add_tokens(tokenizer: &mut Tokenizer, added: Vec<AddedToken>) -> Result<()> {
    let bytes = added_bytes(&added)?;
    // The automaton is made anew, of those that were there too.
    let count = added.len() + tokenizer.get_added_vocabulary().len();
    meter::run(bytes, || {
        meter::room(count.saturating_mul(600) + bytes.saturating_mul(128))?;
        refuse_endless_stripping(tokenizer, &added)?;
        tokenizer.add_tokens(added)?;
        Ok(())
    })
    .map_err(meter::when_opened)
}

/// The same for texts that go on others: where the tokenizer puts a mark or a space in front of a text,
/// there is none.
pub fn continuing(mut tokenizer: Tokenizer) -> tokenizers::Result<Tokenizer> {
    let normalizer = tokenizer.get_normalizer().map(Normalizer::continuing);
    let pre_tokenizer = tokenizer.get_pre_tokenizer().map(PreTokenizer::continuing);
    tokenizer.with_normalizer(normalizer)?;
    tokenizer.with_pre_tokenizer(pre_tokenizer);
    Ok(tokenizer)
}

/// A token that is white space and takes the white space beside it matches inside what it has taken,
/// so that a row of n spaces becomes n overlapping pieces.
fn refuse_endless_stripping(tokenizer: &Tokenizer, added: &[AddedToken]) -> tokenizers::Result<()> {
    for token in added.iter().filter(|t| t.lstrip || t.rstrip) {
        let mut text = tokenizers::NormalizedString::from(token.content.as_str());
        if let (true, Some(normalizer)) = (token.normalized, tokenizer.get_normalizer()) {
            tokenizers::Normalizer::normalize(normalizer, &mut text)?;
        }
        if text.get().trim().is_empty() || token.content.trim().is_empty() {
            return Err(Box::new(Error::format(format!(
                "the added token {} is white space and has lstrip or rstrip",
                crate::error::quote(&token.content)
            ))));
        }
    }
    Ok(())
}
