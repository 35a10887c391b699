//! From a token to the bytes it stands for, by kind of decoder.

use crate::pipeline::{byte_of_token, Tokenizer};
use std::collections::HashSet;

/// What the decoder of a tokenizer.json does to the text of one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Each character of a token is one byte (GPT-2 and all that followed).
    ByteLevel,
    /// U+2581 stands for a space and <0x41> for a byte (SentencePiece).
    Sentence,
    /// "##ing" continues a word (BERT).
    WordPiece,
    Other,
}

pub struct Pieces {
    kind: Kind,
    /// Tokens such as <0x41> are bytes.
    byte_tokens: bool,
    special: HashSet<u32>,
}

impl Pieces {
    pub fn new(tokenizer: &Tokenizer) -> Self {
        let types = tokenizer.get_decoder().map_or(&[][..], |d| d.kinds());
        let has = |name: &str| types.iter().any(|t| t == name);
        let only_bytes = types.iter().all(|t| ["ByteLevel", "Fuse"].contains(&&**t));
        let kind = if has("ByteLevel") && only_bytes {
            Kind::ByteLevel
        } else if has("ByteFallback") || has("Metaspace") {
            Kind::Sentence
        } else if has("WordPiece") {
            Kind::WordPiece
        } else {
            Kind::Other
        };
        let special = tokenizer
            .get_added_tokens_decoder()
            .iter()
            .filter(|(_, token)| token.special)
            .map(|(id, _)| *id)
            .collect();
        Pieces {
            kind,
            byte_tokens: has("ByteFallback"),
            special,
        }
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether the token is a single byte. A row of them is decoded as a whole: one that is no UTF-8
    /// turns all of its bytes into U+FFFD.
    pub fn is_byte(&self, tokenizer: &Tokenizer, id: u32) -> bool {
        self.byte_tokens
            && tokenizer
                .id_to_token(id)
                .is_some_and(|token| byte_of_token(&token).is_some())
    }

    pub fn is_special(&self, id: u32) -> bool {
        self.special.contains(&id)
    }

    pub fn bytes(&self, tokenizer: &Tokenizer, id: u32) -> Vec<u8> {
        let Some(token) = tokenizer.id_to_token(id) else {
            return Vec::new();
        };
        match self.kind {
            // Special tokens too, as the decoder does it; they are ASCII in all but a few models.
            Kind::ByteLevel => byte_level(&token),
            _ if self.is_special(id) => token.into_bytes(),
            Kind::Sentence => {
                if let Some(byte) = byte_of_token(&token) {
                    return vec![byte];
                }
                token.replace('\u{2581}', " ").into_bytes()
            }
            Kind::WordPiece => match token.strip_prefix("##") {
                Some(rest) if !rest.is_empty() => rest.as_bytes().to_vec(),
                _ => token.into_bytes(),
            },
            Kind::Other => token.into_bytes(),
        }
    }
}

/// The byte that a character of a byte-level vocabulary stands for. Printable Latin-1 stands for
/// itself; the other 68 byte values, in order, are U+0100 onwards.
fn byte_of(c: char) -> Option<u8> {
    match c as u32 {
        n @ (0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) => Some(n as u8),
        n @ 0x100..=0x120 => Some((n - 0x100) as u8), // 0x00-0x20
        n @ 0x121..=0x142 => Some((n - 0x121 + 0x7f) as u8), // 0x7f-0xa0
        0x143 => Some(0xad),
        _ => None,
    }
}

/// A token with any character that is no byte is taken as it is written, as the decoder does.
fn byte_level(token: &str) -> Vec<u8> {
    token
        .chars()
        .map(byte_of)
        .collect::<Option<Vec<u8>>>()
        .unwrap_or_else(|| token.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokenizers::pre_tokenizers::byte_level::ByteLevel;

    #[test]
    fn byte_alphabet_is_a_bijection() {
        let alphabet = ByteLevel::alphabet();
        let mut bytes: Vec<u8> = alphabet.iter().map(|c| byte_of(*c).unwrap()).collect();
        bytes.sort();
        assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
        assert_eq!(byte_level("Ġa"), b" a");
        assert_eq!(byte_level("Ċ"), b"\n");
        assert_eq!(byte_level("a b"), b"a b");
    }
}
