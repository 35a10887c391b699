//! The tokens of a text with their log-probs, and what else was likely in their places.
//!
//! ```text
//!   tokens    " "  "Par"  "is"  "."  "\n\n"  "Q"  ":"          stop text "\n\nQ:"
//!   text          |P a r   i s   . |                           without white space around it
//!   offset     0   0       3     5    (the stop text and what comes behind it: left out)
//! ```

use super::stops::Stops;
use super::written::Written;
use crate::error::Result;
use crate::text::Text;
use std::sync::Arc;

/// A token of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Scored {
    pub token: i32,
    pub logprob: f32,
    /// Where it begins in the text, in bytes; that of the first byte of a character whose bytes are in several tokens.
    pub offset: usize,
    /// The likeliest tokens of its place, with their log-probs.
    pub top: Vec<(i32, f32)>,
}

/// Where these tokens begin in the text that is made of them: of those before the stop text, if there is one.
pub fn offsets(
    text: &Arc<Text>,
    stops: &Stops,
    keep_space: bool,
    tokens: &[i32],
) -> Result<Vec<usize>> {
    let mut written = Written::with_places(text, stops, keep_space);
    for token in tokens {
        written.push(*token, stops)?;
    }
    written.finish(stops)?;
    Ok((0..).map_while(|token| written.begin(token)).collect())
}

/// The tokens of one text while they come.
#[derive(Default)]
pub struct Following {
    /// Without their offsets.
    tokens: Vec<Scored>,
    given: usize,
}

impl Following {
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    pub fn push(&mut self, token: Scored) {
        self.tokens.push(token);
    }

    /// Those whose text begins in what was given out, as far as they were not given before.
    pub fn give(&mut self, written: &Written) -> Vec<Scored> {
        let mut given = Vec::new();
        for (number, token) in self.tokens.iter().enumerate().skip(self.given) {
            match written.begin(number) {
                Some(offset) if offset < written.given() => given.push(Scored {
                    offset,
                    ..token.clone()
                }),
                _ => break,
            }
        }
        self.given += given.len();
        given
    }

    pub fn logprobs(&self) -> Vec<f32> {
        self.tokens.iter().map(|token| token.logprob).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::from_texts;

    /// A vocabulary of bytes: one token for each letter, three for the euro, and a word.
    fn text() -> Arc<Text> {
        let tokenizer = serde_json::json!({
            "added_tokens": [{"id": 9, "content": "<end>", "special": true, "single_word": false,
                "lstrip": false, "rstrip": false, "normalized": false}],
            "model": {"type": "BPE", "merges": [], "vocab": {
                "a": 0, "b": 1, "\u{2581}": 2, "<0xE2>": 3, "<0x82>": 4, "<0xAC>": 5, "ab.": 6, ".": 7, "c": 8}},
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "\u{2581}"}, "content": " "},
                {"type": "ByteFallback"}, {"type": "Fuse"}]},
        });
        let loaded = from_texts(&tokenizer.to_string(), None).unwrap();
        Arc::new(Text::new(loaded).unwrap())
    }

    const SPACE: i32 = 2;
    const EURO: [i32; 3] = [3, 4, 5];
    const END: i32 = 9;

    /// What is given at the end, which what was given on the way is the beginning of.
    fn of(tokens: &[i32], stop: &str, keep_space: bool) -> Vec<usize> {
        let text = text();
        let stops = Stops::new(vec![stop.to_string()]).unwrap();
        let all = offsets(&text, &stops, keep_space, tokens).unwrap();
        let mut written = Written::with_places(&text, &stops, keep_space);
        let (mut following, mut pieces, mut given) =
            (Following::default(), String::new(), Vec::new());
        for token in tokens {
            if written.is_over {
                break;
            }
            following.push(Scored {
                token: *token,
                logprob: -1.0,
                offset: 0,
                top: Vec::new(),
            });
            written.push(*token, &stops).unwrap();
            let piece = written.piece(&stops);
            if !piece.is_empty() {
                given.extend(following.give(&written).iter().map(|token| token.offset));
            }
            pieces += &piece;
            assert!(
                given.iter().all(|offset| *offset < pieces.len()),
                "{tokens:?}"
            );
            assert_eq!(given[..], all[..given.len()], "{tokens:?} {stop:?}");
        }
        // Whatever begins in a piece has come with it.
        let begun = all.iter().take_while(|offset| **offset < pieces.len());
        assert_eq!(begun.count(), given.len(), "{tokens:?} {stop:?}");
        all
    }

    #[test]
    fn tokens_begin_where_their_text_does() {
        assert_eq!(of(&[0, 6, 1], "", false), [0, 1, 4]);
        assert_eq!(of(&[], "", false), [0usize; 0]);
        let parts = [[0].as_slice(), &EURO, &[1]].concat();
        assert_eq!(of(&parts, "", false), [0, 1, 1, 1, 4], "of a character");
        assert_eq!(of(&[0, 3, 4, 1], "", false), [0, 1, 4, 7], "of none");
        assert_eq!(of(&[0, END, 1], "", false), [0, 1, 1], "without a text");
        assert_eq!(of(&[0, 3, 4], "", false), [0, 1, 4], "at the end");
    }

    #[test]
    fn white_space_around_a_text_keeps_its_tokens() {
        let spaces = [SPACE, SPACE, 0, SPACE, 1, SPACE];
        assert_eq!(of(&spaces, "", false), [0, 0, 0, 1, 2, 3]);
        assert_eq!(of(&spaces, "", true), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn what_a_stop_text_begins_with_is_left_out() {
        assert_eq!(of(&[0, SPACE, 7, 1, 8], ".b", false), [0, 1]);
        assert_eq!(of(&[0, 6, 1, 8], ".b", false), [0, 1], "a part of a token");
        assert_eq!(of(&[7, 1, 0], ".b", false), [0usize; 0]);
        assert_eq!(of(&[0, 7, 7, 1, 8], ".b", false), [0, 1], "begun twice");
    }
}
