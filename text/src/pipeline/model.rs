//! The vocabulary: words in, tokens out. Shared by all copies of a tokenizer.

use super::meter;
use super::sentence_piece::SentencePiece;
use crate::error::{quote, Error, Result};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokenizers::models::bpe::{BpeTrainer, Merges, Vocab, BPE};
use tokenizers::models::unigram::Unigram;
use tokenizers::models::wordlevel::WordLevel;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::models::TrainerWrapper;
use tokenizers::{ModelWrapper, Token};

/// Most tokens of a vocabulary; the largest has some 900,000.
const MAX_TOKENS: usize = 4 << 20;
/// Longest token that stands for what is not in the vocabulary, and longest mark of parts of words:
/// each may be put in for every character of a text.
const MAX_UNKNOWN: usize = 256;
/// Memory for a token of some characters: itself, its place in the result, and the model's notes.
const ROOM_TOKEN: usize = 320;
const MAX_MARK: usize = 64;
/// A position of a text is compared with tokens of every length there is in a Unigram vocabulary;
/// this many bytes together. All lengths up to 360 are within.
const MAX_COMPARED: usize = 65_536;
/// Memory for each byte of a Unigram vocabulary: a node of its tree.
const ROOM_NODE: usize = 400;

enum Inner {
    Crate(ModelWrapper),
    SentencePiece(SentencePiece),
}

#[derive(Clone)]
pub struct Model {
    inner: Arc<Inner>,
    /// Ids are below this.
    size: u32,
    /// Bytes of the longest token.
    longest: usize,
    /// Bytes of the longest token that may stand for any character.
    unknown: usize,
}

/// The parts of a BPE model that a file may set.
#[derive(Default)]
pub struct Bpe {
    pub vocab: Vocab,
    pub merges: Merges,
    pub unk_token: Option<String>,
    pub prefix: Option<String>,
    pub suffix: Option<String>,
    pub fuse_unk: bool,
    pub byte_fallback: bool,
    pub ignore_merges: bool,
}

fn at_most(text: &str, what: &str, most: usize) -> Result<()> {
    if text.len() > most {
        return Err(Error::format(format!(
            "model: {what} has {} bytes; the limit is {most}",
            text.len()
        )));
    }
    Ok(())
}

fn count(tokens: usize) -> Result<()> {
    if tokens > MAX_TOKENS {
        return Err(Error::format(format!(
            "model: a vocabulary of {tokens} tokens; the limit is {MAX_TOKENS}"
        )));
    }
    Ok(())
}

/// Size of the id space, bytes of the longest token and of the longest that may stand for any. Where two tokens have one id, the crate takes
/// either for the other, and a long one would stand for every short one of a text.
fn measure(vocab: &Vocab, unknown: &str) -> Result<(u32, usize, usize)> {
    at_most(unknown, "unk_token", MAX_UNKNOWN)?;
    let mut max_unknown = unknown.len();
    count(vocab.len())?;
    let mut ids: Vec<u32> = vocab.values().copied().collect();
    ids.sort_unstable();
    let longest = vocab.keys().map(String::len).max().unwrap_or(0);
    if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
        if longest > MAX_UNKNOWN {
            return Err(Error::format(format!(
                "model: two tokens have the id {}, and the longest token has {longest} bytes; with \
                 ids twice the limit is {MAX_UNKNOWN}",
                pair[0]
            )));
        }
        max_unknown = longest;
    }
    let size = ids.last().map_or(0, |id| id.saturating_add(1));
    Ok((size, longest, max_unknown))
}

impl Model {
    fn new(inner: impl Into<ModelWrapper>, measured: (u32, usize, usize)) -> Result<Model> {
        Self::around(Inner::Crate(inner.into()), measured)
    }

    fn around(inner: Inner, (size, longest, unknown): (u32, usize, usize)) -> Result<Model> {
        if size == 0 || size > i32::MAX as u32 {
            return Err(Error::format(format!("a vocabulary of {size} tokens")));
        }
        Ok(Model {
            inner: Arc::new(inner),
            size,
            longest,
            unknown,
        })
    }

    pub fn size(&self) -> u32 {
        self.size
    }

    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Memory that a byte of a word may take, when it becomes a token.
    pub fn room_for_byte(&self) -> usize {
        ROOM_TOKEN + self.unknown
    }

    pub fn bpe(parts: Bpe) -> Result<Model> {
        let measured = measure(&parts.vocab, parts.unk_token.as_deref().unwrap_or(""))?;
        let prefix = parts.prefix.unwrap_or_default();
        let suffix = parts.suffix.unwrap_or_default();
        at_most(&prefix, "continuing_subword_prefix", MAX_MARK)?;
        at_most(&suffix, "end_of_word_suffix", MAX_MARK)?;
        // The crate cuts so many bytes off the right part without a look.
        if let Some((i, (_, right))) = parts
            .merges
            .iter()
            .enumerate()
            .find(|(_, (_, right))| !right.starts_with(prefix.as_str()))
        {
            return Err(Error::format(format!(
                "model: merge {i} has {} on its right, which does not begin with the \
                 continuing_subword_prefix {}",
                quote(right),
                quote(&prefix)
            )));
        }
        let mut builder = BPE::builder()
            .vocab_and_merges(parts.vocab, parts.merges)
            // The crate's cache is per thread and outlives its tokenizer.
            .cache_capacity(0)
            .fuse_unk(parts.fuse_unk)
            .byte_fallback(parts.byte_fallback)
            .ignore_merges(parts.ignore_merges);
        if let Some(token) = parts.unk_token {
            builder = builder.unk_token(token);
        }
        if !prefix.is_empty() {
            builder = builder.continuing_subword_prefix(prefix);
        }
        if !suffix.is_empty() {
            builder = builder.end_of_word_suffix(suffix);
        }
        let bpe = builder
            .build()
            .map_err(|e| Error::format(format!("model: {e}")))?;
        Self::new(bpe, measured)
    }

    pub fn word_piece(vocab: Vocab, unk: String, prefix: String, most: usize) -> Result<Model> {
        let measured = measure(&vocab, &unk)?;
        at_most(&prefix, "continuing_subword_prefix", MAX_MARK)?;
        let model = WordPiece::builder()
            .vocab(vocab)
            .unk_token(unk)
            .continuing_subword_prefix(prefix)
            .max_input_chars_per_word(most)
            .build()
            .map_err(|e| Error::format(format!("model: {e}")))?;
        Self::new(model, measured)
    }

    pub fn word_level(vocab: Vocab, unk: String) -> Result<Model> {
        let measured = measure(&vocab, &unk)?;
        let model = WordLevel::builder()
            .vocab(vocab)
            .unk_token(unk)
            .build()
            .map_err(|e| Error::format(format!("model: {e}")))?;
        Self::new(model, measured)
    }

    pub fn unigram(
        vocab: Vec<(String, f64)>,
        unk_id: Option<usize>,
        byte_fallback: bool,
    ) -> Result<Model> {
        count(vocab.len())?;
        let mut lengths: Vec<usize> = vocab.iter().map(|(token, _)| token.len()).collect();
        let bytes: usize = lengths.iter().sum();
        meter::room(bytes.saturating_mul(ROOM_NODE))?;
        lengths.sort_unstable();
        lengths.dedup();
        let compared = lengths.iter().fold(0usize, |sum, n| sum.saturating_add(*n));
        if compared > MAX_COMPARED {
            return Err(Error::format(format!(
                "model: tokens of {} lengths, {compared} bytes together; the limit for Unigram is \
                 {MAX_COMPARED}",
                lengths.len()
            )));
        }
        if let Some(unknown) = unk_id.and_then(|id| vocab.get(id)) {
            at_most(&unknown.0, "the unknown token", MAX_UNKNOWN)?;
        }
        let longest = lengths.last().copied().unwrap_or(0);
        let measured = (vocab.len() as u32, longest, MAX_UNKNOWN);
        let model = Unigram::from(vocab, unk_id, byte_fallback)
            .map_err(|e| Error::format(format!("model: {e}")))?;
        Self::new(model, measured)
    }

    pub fn sentence_piece(model: SentencePiece) -> Result<Model> {
        let texts = model.vocabulary().texts();
        count(texts.len())?;
        let longest = texts.iter().map(String::len).max().unwrap_or(0);
        let unknown = match model.vocabulary().bytes() {
            Some(_) => "<0x00>",
            None => model.vocabulary().text(model.vocabulary().unknown()),
        };
        let measured = (texts.len() as u32, longest, unknown.len());
        Self::around(Inner::SentencePiece(model), measured)
    }

    /// WordPiece tries every part of a word, each as often as it has characters. The others take time
    /// that is near the length of the word.
    fn check_word(&self, word: &str) -> Result<()> {
        meter::tick(word.len())?;
        let Inner::Crate(ModelWrapper::WordPiece(model)) = &*self.inner else {
            return Ok(());
        };
        // Longer words are unknown at once. Most are short, and their count is within the bound.
        if word.len() < 1024 {
            return Ok(());
        }
        let characters = word.chars().count();
        if characters > model.max_input_chars_per_word {
            return Ok(());
        }
        let bytes = word.len() as u128 + MAX_MARK as u128;
        meter::work((characters as u128).pow(2) * bytes / 2, || {
            format!(
                "a word of {characters} characters (max_input_chars_per_word is {})",
                model.max_input_chars_per_word
            )
        })
    }
}

impl tokenizers::Model for Model {
    type Trainer = TrainerWrapper;

    fn tokenize(&self, word: &str) -> tokenizers::Result<Vec<Token>> {
        self.check_word(word)?;
        match &*self.inner {
            Inner::Crate(model) => model.tokenize(word),
            Inner::SentencePiece(model) => Ok(model.tokenize(word)?),
        }
    }

    fn token_to_id(&self, token: &str) -> Option<u32> {
        match &*self.inner {
            Inner::Crate(model) => model.token_to_id(token),
            Inner::SentencePiece(model) => model.vocabulary().id(token),
        }
    }

    fn id_to_token(&self, id: u32) -> Option<String> {
        match &*self.inner {
            Inner::Crate(model) => model.id_to_token(id),
            Inner::SentencePiece(model) => model.vocabulary().texts().get(id as usize).cloned(),
        }
    }

    fn get_vocab(&self) -> HashMap<String, u32> {
        match &*self.inner {
            Inner::Crate(model) => model.get_vocab(),
            Inner::SentencePiece(model) => model.vocabulary().ids().clone(),
        }
    }

    fn get_vocab_size(&self) -> usize {
        match &*self.inner {
            Inner::Crate(model) => model.get_vocab_size(),
            Inner::SentencePiece(model) => model.vocabulary().texts().len(),
        }
    }

    fn save(&self, folder: &Path, prefix: Option<&str>) -> tokenizers::Result<Vec<PathBuf>> {
        match &*self.inner {
            Inner::Crate(model) => model.save(folder, prefix),
            Inner::SentencePiece(_) => Err("a SentencePiece model is not saved".into()),
        }
    }

    fn get_trainer(&self) -> TrainerWrapper {
        match &*self.inner {
            Inner::Crate(model) => model.get_trainer(),
            Inner::SentencePiece(_) => BpeTrainer::default().into(),
        }
    }
}
