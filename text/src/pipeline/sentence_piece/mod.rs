//! SentencePiece as GGUF files hold it: pieces with scores and types instead of merges.
//!
//! ```text
//!   " two  cats" -> Rules ->  "▁▁two▁▁cats"  -> bpe or unigram ->  "▁▁two"  "▁▁cat"  "s"  -> tokens
//!                   CharsMap, spaces             Vocabulary     what is not in the vocabulary becomes
//!                                                               bytes <0xE6> or the unknown token
//! ```
//!
//! The tokenizers crate merges by rank and not by score, replaces characters by the shortest key that
//! fits, and adds scores for each word. Here ids are those of SentencePiece.

mod bpe;
mod charsmap;
mod rules;
mod unigram;
mod vocabulary;

pub use charsmap::CharsMap;
pub use rules::Rules;
pub use vocabulary::{byte_of_token, Kind, Vocabulary};

use crate::error::Result;
use tokenizers::Token;

/// A vocabulary with its way of cutting a text.
pub struct SentencePiece {
    vocabulary: Vocabulary,
    /// For Unigram; without it, pieces are joined.
    trie: Option<unigram::Trie>,
}

impl SentencePiece {
    /// Joins the pair of neighbours that makes the piece of the highest score, again and again.
    pub fn bpe(vocabulary: Vocabulary) -> SentencePiece {
        SentencePiece {
            vocabulary,
            trie: None,
        }
    }

    /// Takes the pieces whose scores have the highest sum.
    pub fn unigram(vocabulary: Vocabulary) -> Result<SentencePiece> {
        Ok(SentencePiece {
            trie: Some(unigram::Trie::new(&vocabulary)?),
            vocabulary,
        })
    }

    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    pub fn tokenize(&self, text: &str) -> Result<Vec<Token>> {
        let mut tokens = Tokens {
            vocabulary: &self.vocabulary,
            list: Vec::new(),
            unknown: false,
        };
        let mut each = |begin, end, id| tokens.piece(text, begin, end, id);
        match &self.trie {
            Some(trie) => unigram::cut(&self.vocabulary, trie, text, &mut each)?,
            None => bpe::cut(&self.vocabulary, text, &mut each)?,
        }
        Ok(tokens.list)
    }
}

/// Collects the pieces of a text.
struct Tokens<'a> {
    vocabulary: &'a Vocabulary,
    list: Vec<Token>,
    /// Whether the last token is the unknown one, which takes in all that are behind it.
    unknown: bool,
}

impl Tokens<'_> {
    fn push(&mut self, id: u32, begin: usize, end: usize) {
        let value = self.vocabulary.text(id).to_string();
        self.list.push(Token::new(id, value, (begin, end)));
    }

    /// The part of the text from `begin` to `end`; without an id when no piece is like it.
    fn piece(&mut self, text: &str, begin: usize, end: usize, id: Option<u32>) {
        match (id, self.vocabulary.bytes(), self.list.last_mut()) {
            (Some(id), ..) => self.push(id, begin, end),
            (None, Some(bytes), _) => {
                for (i, byte) in text.as_bytes()[begin..end].iter().enumerate() {
                    self.push(bytes[usize::from(*byte)], begin + i, begin + i + 1);
                }
            }
            (None, None, Some(last)) if self.unknown => last.offsets.1 = end,
            (None, None, _) => self.push(self.vocabulary.unknown(), begin, end),
        }
        self.unknown = id.is_none();
    }
}
