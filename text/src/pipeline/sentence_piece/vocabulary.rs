//! The pieces of a SentencePiece model, their scores and types.

use crate::error::{quote, Error, Result};
use crate::pipeline::meter;
use std::collections::HashMap;

/// What a token is for: `tokenizer.ggml.token_type`, 1 to 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Normal,
    /// Stands for what the vocabulary lacks.
    Unknown,
    /// Never comes of text: the begin of a text, the end of a turn.
    Control,
    /// Found in the text before it is cut.
    UserDefined,
    /// Not given out: where merging leads to it, its parts are.
    Unused,
    /// One byte, written <0x41>.
    Byte,
}

impl Kind {
    pub fn from_number(number: i64) -> Option<Kind> {
        use Kind::*;
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        [Normal, Unknown, Control, UserDefined, Unused, Byte]
            .get(index)
            .copied()
    }
}

/// Longest piece that a text is cut into. Each place of a text may be compared with one.
const MAX_PIECE: usize = 1024;
/// Longest token that stands for what the vocabulary lacks; a text may be made of it.
const MAX_UNKNOWN: usize = 256;
/// Memory for a piece besides its bytes: two strings, its place in two tables, its score.
const ROOM_PIECE: usize = 240;

pub struct Vocabulary {
    texts: Vec<String>,
    ids: HashMap<String, u32>,
    kinds: Vec<Kind>,
    scores: Vec<f32>,
    /// The tokens of all bytes.
    bytes: Option<Box<[u32; 256]>>,
    unknown: u32,
    /// Bytes of the longest piece that a text is cut into.
    longest_piece: usize,
}

/// "<0x41>" is byte 0x41.
pub fn byte_of_token(token: &str) -> Option<u8> {
    let hex = token.strip_prefix("<0x")?.strip_suffix('>')?;
    (hex.len() == 2 && hex.bytes().all(|c| c.is_ascii_hexdigit()))
        .then(|| u8::from_str_radix(hex, 16).ok())
        .flatten()
}

fn byte_tokens(texts: &[String], kinds: &[Kind]) -> Result<Option<Box<[u32; 256]>>> {
    let mut found = [None; 256];
    for (id, text) in texts
        .iter()
        .enumerate()
        .filter(|(id, _)| kinds[*id] == Kind::Byte)
    {
        let byte = byte_of_token(text).ok_or_else(|| {
            Error::format(format!(
                "token {id} is of the type byte, but written {}",
                quote(text)
            ))
        })?;
        // Texts are distinct, but for the case of the digits.
        if found[usize::from(byte)].replace(id as u32).is_some() {
            return Err(Error::format(format!(
                "two tokens stand for the byte {byte}"
            )));
        }
    }
    if found.iter().all(Option::is_none) {
        return Ok(None);
    }
    match found.iter().position(Option::is_none) {
        Some(byte) => Err(Error::format(format!(
            "there are tokens of the type byte, but none for the byte {byte}"
        ))),
        None => Ok(Some(Box::new(found.map(Option::unwrap_or_default)))),
    }
}

impl Vocabulary {
    /// Tokens in the order of their ids. `unknown` is the token for what the others cannot spell;
    /// without it, the one of that type.
    pub fn new(
        texts: Vec<String>,
        kinds: Vec<Kind>,
        scores: &[f32],
        unknown: Option<u32>,
    ) -> Result<Vocabulary> {
        let all: usize = texts.iter().map(String::len).sum();
        meter::room(
            texts
                .len()
                .saturating_mul(ROOM_PIECE)
                .saturating_add(all * 2),
        )?;
        for (what, entries) in [("scores", scores.len()), ("token_type", kinds.len())] {
            if entries != texts.len() {
                return Err(Error::format(format!(
                    "{what} has {entries} entries for {} tokens",
                    texts.len()
                )));
            }
        }
        if let Some(id) = scores.iter().position(|score| !score.is_finite()) {
            return Err(Error::format(format!(
                "token {id} has the score {}",
                scores[id]
            )));
        }
        let bytes = byte_tokens(&texts, &kinds)?;
        let first = || {
            kinds
                .iter()
                .position(|kind| *kind == Kind::Unknown)
                .map(|id| id as u32)
        };
        // With tokens for all bytes it is never used.
        let unknown = unknown
            .or_else(first)
            .or(bytes.as_ref().map(|_| 0))
            .ok_or_else(|| {
                Error::format("there is neither an unknown token nor tokens for all bytes")
            })?;
        if bytes.is_none() && texts[unknown as usize].len() > MAX_UNKNOWN {
            return Err(Error::format(format!(
                "the unknown token has {} bytes; the limit is {MAX_UNKNOWN}",
                texts[unknown as usize].len()
            )));
        }
        let mut ids = HashMap::with_capacity(texts.len());
        let mut longest_piece = 0;
        for (id, (text, kind)) in texts.iter().zip(&kinds).enumerate() {
            if let Some(other) = ids.insert(text.clone(), id as u32) {
                return Err(Error::format(format!(
                    "the tokens {other} and {id} are both {}",
                    quote(text)
                )));
            }
            if !matches!(kind, Kind::Normal | Kind::Unused) {
                continue;
            }
            if text.len() > MAX_PIECE {
                return Err(Error::format(format!(
                    "token {id} has {} bytes; the limit for a piece is {MAX_PIECE}",
                    text.len()
                )));
            }
            longest_piece = longest_piece.max(text.len());
        }
        Ok(Vocabulary {
            ids,
            kinds,
            // 0.0 and -0.0 are one score.
            scores: scores.iter().map(|score| score + 0.0).collect(),
            bytes,
            unknown,
            longest_piece,
            texts,
        })
    }

    pub fn text(&self, id: u32) -> &str {
        &self.texts[id as usize]
    }

    pub fn score(&self, id: u32) -> f32 {
        self.scores[id as usize]
    }

    pub fn is_unused(&self, id: u32) -> bool {
        self.kinds[id as usize] == Kind::Unused
    }

    pub fn bytes(&self) -> Option<&[u32; 256]> {
        self.bytes.as_deref()
    }

    pub fn unknown(&self) -> u32 {
        self.unknown
    }

    /// The id of any token.
    pub fn id(&self, text: &str) -> Option<u32> {
        self.ids.get(text).copied()
    }

    /// The piece that a part of a text is: a normal one, or an unused one on the way to others.
    pub fn piece(&self, text: &str) -> Option<u32> {
        if text.len() > self.longest_piece {
            return None;
        }
        self.id(text)
            .filter(|id| matches!(self.kinds[*id as usize], Kind::Normal | Kind::Unused))
    }

    /// The pieces that a text may be cut into.
    pub fn normal(&self) -> impl Iterator<Item = u32> + '_ {
        (0u32..)
            .zip(&self.kinds)
            .filter_map(|(id, kind)| (*kind == Kind::Normal).then_some(id))
    }

    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    pub fn ids(&self) -> &HashMap<String, u32> {
        &self.ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| text.to_string()).collect()
    }

    #[test]
    fn types_are_the_numbers_of_the_format() {
        assert_eq!(Kind::from_number(1), Some(Kind::Normal));
        assert_eq!(Kind::from_number(4), Some(Kind::UserDefined));
        assert_eq!(Kind::from_number(6), Some(Kind::Byte));
        for number in [0, 7, -1, i64::MAX] {
            assert_eq!(Kind::from_number(number), None);
        }
    }

    #[test]
    fn bytes_are_written_with_two_digits() {
        assert_eq!(byte_of_token("<0x0A>"), Some(10));
        assert_eq!(byte_of_token("<0xff>"), Some(255));
        for text in ["<0x0AB>", "<0xZZ>", "<0x+1>", "<0x>", "0x0A"] {
            assert_eq!(byte_of_token(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        use Kind::*;
        let refused = |list: &[&str], kinds: &[Kind], scores: &[f32], unknown| {
            let made = Vocabulary::new(texts(list), kinds.to_vec(), scores, unknown);
            made.err().unwrap().message
        };
        let pair = [Unknown, Normal];
        assert!(refused(&["?", "a"], &pair, &[0.0], None).contains("scores has 1 entries for 2"));
        assert!(refused(&["?"], &pair, &[0.0], None).contains("token_type has 2 entries for 1"));
        assert!(refused(&["?", "a"], &pair, &[0.0, f32::NAN], None)
            .contains("token 1 has the score NaN"));
        assert!(
            refused(&["a", "a"], &pair, &[0.0; 2], None).contains("tokens 0 and 1 are both \"a\"")
        );
        assert!(refused(&["a", "b"], &[Normal; 2], &[0.0; 2], None).contains("neither an unknown"));
        assert!(refused(&["?", "a"], &[Unknown, Byte], &[0.0; 2], None).contains("written \"a\""));
        assert!(
            refused(&["?", "<0x00>"], &[Unknown, Byte], &[0.0; 2], None).contains("for the byte 1")
        );
        let twice = refused(
            &["?", "<0x0a>", "<0x0A>"],
            &[Unknown, Byte, Byte],
            &[0.0; 3],
            None,
        );
        assert!(
            twice.contains("two tokens stand for the byte 10"),
            "{twice}"
        );
        let long = "a".repeat(MAX_PIECE + 1);
        assert!(
            refused(&["?", &long], &pair, &[0.0; 2], None).contains("has 1025 bytes; the limit")
        );
        assert!(
            refused(&["?", &long], &pair, &[0.0; 2], Some(1)).contains("unknown token has 1025")
        );
        let longest = &long[1..];
        assert!(Vocabulary::new(texts(&["?", longest]), pair.to_vec(), &[0.0; 2], None).is_ok());
    }
}
