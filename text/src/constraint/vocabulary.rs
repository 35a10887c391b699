//! The tokens of a tokenizer as a tree of their bytes.

use crate::error::{Code, Error, Result};
use crate::pipeline::meter::room;
use llguidance::api::ParserLimits;
use llguidance::toktrie::{
    ApproximateTokEnv, InferenceCapabilities, SimpleVob, TokEnv, TokRxInfo, TokTrie,
};
use llguidance::{earley::SlicedBiasComputer, ParserFactory};
use std::sync::Arc;

/// The tree has room for no longer ones. They are books and runs of spaces.
const LONGEST: usize = 1024;
/// And for so many tokens.
const MOST: usize = 1 << 21;
/// Memory for each byte of the tokens and for each token, in the tree and its parts.
const ROOM_BYTE: usize = 128;
const ROOM_TOKEN: usize = 512;
/// States of the automaton for the words of a grammar: one to two kilobytes each.
const MAX_STATES: usize = 50_000;
/// What may come next at a place, in rules: some four for each property that may be left out.
const MAX_ITEMS: usize = 10_000;
/// Symbols in the rules of a grammar.
const MAX_SYMBOLS: usize = 100_000;

pub struct Vocabulary {
    pub factory: ParserFactory,
    /// Tokens that a text may have, and those that end it. Others are never written, whatever a grammar says.
    written: SimpleVob,
    ends: Vec<u32>,
}

impl Vocabulary {
    /// `words`: the bytes of each token, and none of those that stand for no text: special ones. `ends`: the tokens
    /// after which a text is over.
    pub fn new(mut words: Vec<Vec<u8>>, ends: &[u32]) -> Result<Vocabulary> {
        if words.len() > MOST {
            return Err(Error::unsupported(format!(
                "a vocabulary of {} tokens; the limit for structured output is {MOST}",
                words.len()
            )));
        }
        for end in ends {
            words[*end as usize].clear();
        }
        for word in &mut words {
            // The tree takes 0xff, which no text has, for its own mark.
            if word.len() > LONGEST || word.first() == Some(&0xff) {
                word.clear();
            }
        }
        let bytes: usize = words.iter().map(Vec::len).sum();
        room(bytes * ROOM_BYTE + words.len() * ROOM_TOKEN)?;
        let mut written = SimpleVob::alloc(words.len());
        for (id, word) in (0u32..).zip(&words) {
            written.set(id as usize, !word.is_empty() || ends.contains(&id));
        }
        let first = ends.first().copied().unwrap_or_default();
        let tree = TokTrie::from(&TokRxInfo::new(words.len() as u32, first), &words);
        let tree = match ends {
            [] => tree,
            ends => tree.with_eos_tokens(ends),
        };
        // It need not encode: what a grammar forces, a model writes in tokens of its own choice.
        let tokens: TokEnv = Arc::new(ApproximateTokEnv::new(tree));
        let slices = SlicedBiasComputer::general_slices();
        let mut factory = ParserFactory::new(&tokens, InferenceCapabilities::default(), &slices)
            .map_err(|e| Error::new(Code::Internal, e.to_string()))?;
        factory.quiet();
        *factory.limits_mut() = ParserLimits {
            max_lexer_states: MAX_STATES,
            max_grammar_size: MAX_SYMBOLS,
            max_items_in_row: MAX_ITEMS,
            verbose_errors: false,
            ..ParserLimits::default()
        };
        Ok(Vocabulary {
            factory,
            written,
            ends: ends.to_vec(),
        })
    }

    /// An error when a model of so many tokens has none that ends a text.
    pub fn check_ends(&self, size: usize) -> Result<()> {
        match self.ends.iter().any(|end| (*end as usize) < size) {
            true => Ok(()),
            false => Err(Error::unsupported(
                "the tokenizer names no token of the model that ends a text",
            )),
        }
    }

    pub fn written(&self) -> &SimpleVob {
        &self.written
    }
}
