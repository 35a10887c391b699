//! One loaded tokenizer: encoding, decoding and what is known about its tokens. Immutable after
//! loading, so every method may be called from any thread.

use crate::chat::Templates;
use crate::constraint::{Kept, Vocabulary};
use crate::error::{Error, Result};
use crate::load::Source;
use crate::pieces::Pieces;
use crate::pipeline::{continuing, meter, Tokenizer};
use crate::renamed::{self, Renamed};
use crate::roles::{end_tokens, Roles};
use std::sync::{Arc, OnceLock};
use tokenizers::PostProcessorWrapper;

/// Longest text of one call. Tokenizing needs some hundred bytes of memory per byte of text, and no
/// context window holds more.
pub const MAX_TEXT: usize = 16 << 20;
/// Most tokens of one call to decode.
pub const MAX_TOKENS: usize = 16 << 20;
/// Most bytes of these tokens together.
const MAX_SPELT: usize = 256 << 20;

/// What encoding does beyond the text itself.
#[derive(Clone, Copy, Default)]
pub struct EncodeOptions {
    /// Add what the model wants around a text, e.g. a begin-of-text token.
    pub special: bool,
    /// Special tokens that are written in the text are ordinary characters.
    pub literal: bool,
    /// The text goes on another one: nothing stands in front of it for a beginning.
    pub continues: bool,
}

pub struct Encoded {
    pub tokens: Vec<i32>,
    /// Bytes of the text that each token comes from: begin and end.
    pub offsets: Vec<(usize, usize)>,
}

pub struct Text {
    tokenizer: Tokenizer,
    /// Copies that take special tokens in the text literally, take it for one that goes on another, or
    /// both; each made at first use.
    copies: [OnceLock<Box<Tokenizer>>; 3],
    /// One that knows special tokens by other names; made at first use.
    renamed: OnceLock<Box<Renamed>>,
    pieces: Pieces,
    /// The tokens by their bytes, for texts that are written by rules; made at first use.
    vocabulary: Kept<Vocabulary>,
    /// Whether offsets leave out the spaces of a token.
    trims_offsets: bool,
    kind: &'static str,
    roles: Roles,
    ends: Vec<i32>,
    /// Ids are below this; vocabularies may have holes.
    size: u32,
    /// Bytes of the longest token, as the vocabulary spells it.
    longest: usize,
    pub templates: Templates,
}

fn check_length(text: &str) -> Result<()> {
    if text.len() <= MAX_TEXT {
        return Ok(());
    }
    Err(Error::range(format!(
        "a text of {} bytes; the limit is {MAX_TEXT}",
        text.len()
    )))
}

fn as_tokens(ids: &[u32]) -> Vec<i32> {
    // Text::new refused vocabularies beyond i32.
    ids.iter().map(|id| *id as i32).collect()
}

/// Memory for each byte of a text before anything is made of it: two copies, and where each byte
/// comes from.
const ROOM_TEXT: usize = 64;
/// Memory for each token to decode, besides its own text.
const ROOM_TOKEN: usize = 160;
/// Memory for each added token of a tokenizer.
const ROOM_ADDED: usize = 600;

/// Parts of a tokenizer.json may each be right and yet not fit together; the crate finds that out when
/// it encodes, some of it by a panic, and some of it never: ids that no token has. Ids are below `size`.
fn probe(tokenizer: &Tokenizer, size: u32) -> Result<()> {
    let text = "Probe 12, \u{e9}\u{6f22}\n  a";
    let beyond = meter::run(text.len(), || {
        let tokens = tokenizer.encode(text, true)?;
        tokenizer.decode(tokens.get_ids(), false)?;
        Ok(tokens.get_ids().iter().copied().find(|id| *id >= size))
    })
    .map_err(meter::when_opened)?;
    match beyond {
        None => Ok(()),
        Some(id) => Err(Error::format(format!(
            "the tokenizer does not work: it makes token {id} of a text; the ids of its vocabulary are \
             below {size}"
        ))),
    }
}

fn trims_offsets(tokenizer: &Tokenizer) -> bool {
    fn any(processor: &PostProcessorWrapper) -> bool {
        match processor {
            PostProcessorWrapper::Roberta(part) => part.trim_offsets,
            PostProcessorWrapper::ByteLevel(part) => part.trim_offsets,
            PostProcessorWrapper::Sequence(all) => all.as_ref().iter().any(any),
            PostProcessorWrapper::Bert(_) | PostProcessorWrapper::Template(_) => false,
        }
    }
    tokenizer.get_post_processor().is_some_and(any)
}

fn metered<T>(text: &str, body: impl FnOnce() -> tokenizers::Result<T>) -> Result<T> {
    meter::run(text.len(), || {
        meter::room(text.len() * ROOM_TEXT)?;
        body()
    })
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
        let added = tokenizer.get_added_vocabulary().get_added_tokens_decoder();
        let last = added.keys().max().map_or(0, |id| id.saturating_add(1));
        let size = tokenizer.get_model().size().max(last);
        if size == 0 || size > i32::MAX as u32 {
            return Err(Error::format(format!("a vocabulary of {size} tokens")));
        }
        let longest = added.values().map(|token| token.content.len()).max();
        let longest = longest.unwrap_or(0).max(tokenizer.get_model().longest());
        probe(&tokenizer, size)?;
        let mut ends = end_tokens(&tokenizer, &roles, &end_ids);
        ends.retain(|id| *id < size);
        Ok(Text {
            pieces: Pieces::new(&tokenizer),
            trims_offsets: trims_offsets(&tokenizer),
            copies: Default::default(),
            renamed: OnceLock::new(),
            vocabulary: Kept::new(),
            kind,
            ends: as_tokens(&ends),
            size,
            longest,
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
        check_length(text)?;
        let copy = match (options.literal, options.continues) {
            (false, false) => return Ok(&self.tokenizer),
            (true, false) => &self.copies[0],
            (false, true) => &self.copies[1],
            (true, true) => &self.copies[2],
        };
        self.made(copy, || {
            let copy = match options.literal {
                true => renamed::literal(&self.tokenizer),
                false => self.tokenizer.clone(),
            };
            match options.continues {
                true => continuing(copy),
                false => Ok(copy),
            }
        })
    }

    /// Special tokens under names that no text of a caller has.
    pub fn renamed(&self) -> Result<&Renamed> {
        self.made(&self.renamed, || Renamed::new(&self.tokenizer))
    }

    /// What is made of the tokenizer once, in the room that its added tokens take.
    fn made<'a, T>(
        &self,
        kept: &'a OnceLock<Box<T>>,
        make: impl FnOnce() -> tokenizers::Result<T>,
    ) -> Result<&'a T> {
        if let Some(made) = kept.get() {
            return Ok(made);
        }
        let added = self.tokenizer.get_added_vocabulary();
        let bytes = added.get_vocab().keys().map(String::len).sum();
        let made = meter::run(bytes, || {
            meter::room(added.len().saturating_mul(3 * ROOM_ADDED))?;
            make()
        })?;
        Ok(kept.get_or_init(|| Box::new(made)))
    }

    /// Ids only, which takes less memory and time than with offsets.
    pub fn encode(&self, text: &str, options: EncodeOptions) -> Result<Vec<i32>> {
        let tokenizer = self.encoder(text, options)?;
        let encoding = metered(text, || tokenizer.encode_fast(text, options.special))?;
        Ok(as_tokens(encoding.get_ids()))
    }

    pub fn encode_offsets(&self, text: &str, options: EncodeOptions) -> Result<Encoded> {
        self.encode_with(self.encoder(text, options)?, text, options.special)
    }

    /// A text in which special tokens have the names of `renamed`. They alone are tokens: what the text
    /// spells otherwise is not. Offsets are into this text.
    pub fn encode_renamed(&self, text: &str) -> Result<Encoded> {
        check_length(text)?;
        let renamed = self.renamed()?;
        let mut encoded = self.encode_with(renamed.tokenizer(), text, false)?;
        renamed.give_back(&mut encoded.tokens);
        Ok(encoded)
    }

    fn encode_with(&self, tokenizer: &Tokenizer, text: &str, special: bool) -> Result<Encoded> {
        // Where offsets leave out spaces, the crate counts these as one unit each: right for
        // characters, wrong for bytes beyond ASCII.
        let in_characters = self.trims_offsets && !text.is_ascii();
        let encoding = metered(text, || {
            if in_characters {
                tokenizer.encode_char_offsets(text, special)
            } else {
                tokenizer.encode(text, special)
            }
        })?;
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
        let bytes = self.spelt(ids)?;
        meter::run(bytes, || {
            let tokens = ids.len().saturating_mul(ROOM_TOKEN);
            meter::room(tokens.saturating_add(bytes.saturating_mul(3)))?;
            if !skip_special {
                return self.tokenizer.decode(ids, false);
            }
            // The crate compares texts, and misses a token whose text the normalizer changes.
            let kept = ids.iter().filter(|id| !self.pieces.is_special(**id));
            self.tokenizer
                .decode(&kept.copied().collect::<Vec<_>>(), false)
        })
    }

    /// The bytes of tokens as the vocabulary spells them; an error when they are more than a call may
    /// give. A vocabulary may hold a book in one token.
    pub fn spelt(&self, ids: &[u32]) -> Result<usize> {
        let most = ids.len().saturating_mul(self.longest);
        if most <= MAX_SPELT {
            return Ok(most);
        }
        let mut bytes = 0usize;
        for id in ids {
            bytes += self
                .tokenizer
                .id_to_token(*id)
                .map_or(0, |token| token.len());
            if bytes > MAX_SPELT {
                return Err(Error::range(format!(
                    "{} tokens of more than {MAX_SPELT} bytes together, the limit",
                    ids.len()
                )));
            }
        }
        Ok(bytes)
    }

    /// The bytes that a token stands for; empty for a hole in the vocabulary.
    pub fn token_bytes(&self, token: i32) -> Result<Vec<u8>> {
        let id = self.check_one(token)?;
        Ok(self.pieces.bytes(&self.tokenizer, id))
    }

    /// The tokens by their bytes, for texts that are written by rules.
    pub fn vocabulary(&self) -> Result<Arc<Vocabulary>> {
        self.vocabulary.get(|| {
            let mut words = Vec::new();
            for id in 0..self.size {
                words.push(match self.pieces.is_special(id) {
                    true => Vec::new(),
                    false => self.pieces.bytes(&self.tokenizer, id),
                });
            }
            self.check_sum(&words)?;
            let ends: Vec<u32> = self.ends.iter().map(|id| *id as u32).collect();
            Vocabulary::new(words, &ends)
        })
    }

    /// Whether the bytes of tokens are those of their text: a tokenizer that puts spaces between words, or takes some
    /// away, writes other texts than rules see.
    fn check_sum(&self, words: &[Vec<u8>]) -> Result<()> {
        const LOOKED_AT: usize = 64;
        let texts = words
            .iter()
            .enumerate()
            .filter(|(_, word)| word.len() > 1 && word.iter().all(|byte| byte.is_ascii_graphic()));
        let step = texts.clone().count() / LOOKED_AT + 1;
        let (ids, sum): (Vec<u32>, Vec<&[u8]>) = texts
            .step_by(step)
            .map(|(id, word)| (id as u32, &**word))
            .unzip();
        let text = self.decode_ids(&ids, false)?;
        match text.trim_start().as_bytes() == sum.concat() {
            true => Ok(()),
            false => Err(Error::unsupported(
                "the texts of this tokenizer are not those of its tokens one after the other, which structured output \
                 needs",
            )),
        }
    }

    pub fn pieces(&self) -> &Pieces {
        &self.pieces
    }

    /// The id of an entry of the vocabulary, spelt as the vocabulary spells it.
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.tokenizer.token_to_id(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detok::Detok;
    use crate::error::Code;
    use crate::load::from_texts;
    use serde_json::json;
    use std::sync::Arc;

    /// What a text that goes on another one becomes is what it becomes when both are one text.
    #[test]
    fn texts_that_go_on_others_have_nothing_in_front() {
        let mark = "\u{2581}";
        let vocab = json!({"?": 0, "a": 1, "b": 2, " ": 3, mark: 4, "\u{120}": 5, "c": 6});
        let characters = json!({"type": "Split", "pattern": {"Regex": "[\\s\\S]"}, "behavior": "Isolated", "invert": false});
        let steps =
            |steps: Vec<serde_json::Value>| json!({"type": "Sequence", "pretokenizers": steps});
        let metaspace = |scheme: &str, split: bool| {
            let step = json!({"type": "Metaspace", "replacement": mark, "prepend_scheme": scheme, "split": split});
            json!({"pre_tokenizer": steps(vec![step, characters.clone()])})
        };
        let words = |scheme: &str| {
            let step = json!({"type": "Metaspace", "replacement": mark, "prepend_scheme": scheme});
            json!({"pre_tokenizer": steps(vec![json!({"type": "WhitespaceSplit"}), step, characters.clone()])})
        };
        let prepend = json!({"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": mark},
            {"type": "Replace", "pattern": {"String": " "}, "content": mark}]}, "pre_tokenizer": characters});
        let stripped = json!({"normalizer": {"type": "Strip", "strip_left": true, "strip_right": true},
            "pre_tokenizer": characters});
        let bytes = |space: bool| {
            let step = json!({"type": "ByteLevel", "add_prefix_space": space, "use_regex": true, "trim_offsets": true});
            json!({"pre_tokenizer": steps(vec![step, characters.clone()])})
        };
        for (parts, puts) in [
            (prepend, true),
            (metaspace("first", false), true),
            (metaspace("first", true), true),
            (metaspace("always", true), true),
            (metaspace("never", true), false),
            (words("always"), true),
            (bytes(true), true),
            (bytes(false), false),
            (stripped, false),
        ] {
            let mut file = json!({"model": {"type": "WordLevel", "unk_token": "?", "vocab": vocab},
                "added_tokens": [{"id": 7, "content": "<s>", "special": true, "single_word": false, "lstrip": false,
                    "rstrip": false, "normalized": false}]});
            let (file_parts, parts) = (file.as_object_mut().unwrap(), parts.as_object().unwrap());
            file_parts.extend(parts.clone());
            let text = Text::new(from_texts(&file.to_string(), None).unwrap()).unwrap();
            let encode = |text_of: &str, continues, literal| {
                let options = EncodeOptions {
                    continues,
                    literal,
                    special: false,
                };
                let tokens = text.encode(text_of, options).unwrap();
                let found = text.encode_offsets(text_of, options).unwrap();
                assert_eq!(tokens, found.tokens, "{text_of:?}");
                tokens
            };
            for (first, second) in [
                ("a", "b"),
                ("a", " b"),
                ("a", " b c"),
                ("a", "<s>b"),
                ("a", " <s> b"),
            ] {
                let whole = encode(&[first, second].concat(), false, false);
                let both = [encode(first, false, false), encode(second, true, false)].concat();
                assert_eq!(both, whole, "{second:?} {parts:?}");
            }
            assert_eq!(encode("b", true, false), [2], "{parts:?}");
            assert_eq!(encode("b", true, true), [2], "{parts:?}");
            assert_eq!(
                encode("b", false, true).len(),
                1 + usize::from(puts),
                "{parts:?}"
            );
            assert!(!encode("<s>", true, true).contains(&7), "{parts:?}");
        }
    }

    /// As in a stream, whatever the normalizer makes of its text.
    #[test]
    fn a_special_token_is_left_out_of_a_text() {
        for normalized in [false, true] {
            let file = json!({"model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "a": 1}},
                "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "WhitespaceSplit"}, "added_tokens": [{"id": 2, "content": "<E>",
                    "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": normalized}]});
            let text = Arc::new(Text::new(from_texts(&file.to_string(), None).unwrap()).unwrap());
            let tokens = text.encode("A<E>a", EncodeOptions::default()).unwrap();
            assert_eq!(tokens, [1, 2, 1]);
            for (skip, wanted) in [
                (true, "a a"),
                (false, if normalized { "a <e> a" } else { "a <E> a" }),
            ] {
                assert_eq!(text.decode(&tokens, skip).unwrap(), wanted);
                let mut stream = Detok::new(text.clone(), skip);
                let begun = stream.push(&tokens).unwrap();
                assert_eq!(begun + &stream.finish().unwrap(), wanted);
            }
        }
    }

    #[test]
    fn tokens_of_256_mib_are_spelt_and_not_a_byte_more() {
        let mib = "x".repeat(1 << 20);
        let words = json!({"model": {"type": "WordLevel", "unk_token": "?",
            "vocab": {"?": 0, mib.as_str(): 1}}});
        let text = Text::new(from_texts(&words.to_string(), None).unwrap()).unwrap();
        let mut ids = vec![1; 256];
        assert_eq!(text.spelt(&ids).unwrap(), 256 << 20);
        ids.push(0);
        let error = text.spelt(&ids).unwrap_err();
        assert_eq!(error.code, Code::OutOfRange);
        assert!(error.message.contains("268435456"), "{}", error.message);
        let short = vec![0; 1000];
        assert_eq!(
            text.spelt(&[&ids[255..], &short].concat()).unwrap(),
            (1 << 20) + 1001
        );
    }
}
