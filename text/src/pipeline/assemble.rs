//! Puts a tokenizer together of its parts.

use super::sentence_piece::Rules;
use super::{meter, post_processor, Decoder, Model, Normalizer, PreTokenizer};
use crate::error::{quote, Error, Result};
use serde_json::Value;
use tokenizers::{AddedToken, PostProcessorWrapper, TokenizerImpl};

/// The crate's tokenizer with parts of ours. A copy shares the model.
pub type Tokenizer = TokenizerImpl<Model, Normalizer, PreTokenizer, PostProcessorWrapper, Decoder>;

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
                quote(&token.content)
            ))));
        }
    }
    Ok(())
}
