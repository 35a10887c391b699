//! From the texts of tokens to the text of all: a list of steps.

use super::fields::{walk, Fields};
use super::meter;
use super::pattern::{Matches, Pattern};
use crate::error::Result;
use serde_json::Value;
use std::sync::Arc;
use tokenizers::pattern::Pattern as _;
use tokenizers::DecoderWrapper;

/// Longest text that Replace puts in.
const MAX_CONTENT: usize = 1024;

#[derive(Clone)]
pub struct Decoder {
    steps: Arc<[Step]>,
    kinds: Arc<[String]>,
}

enum Step {
    Replace {
        pattern: Pattern,
        content: String,
    },
    /// Takes up to so many `content` from the front and the end of each token. The crate's own reads
    /// beyond a token that is shorter.
    Strip {
        content: char,
        start: usize,
        stop: usize,
    },
    Other(DecoderWrapper),
}

impl Decoder {
    /// None where there is no decoder: then the crate puts spaces between tokens.
    pub fn parse(value: &Value) -> Result<Option<Decoder>> {
        if value.is_null() {
            return Ok(None);
        }
        let (mut steps, mut kinds) = (Vec::new(), Vec::new());
        let part = Fields {
            value,
            place: "decoder",
        };
        walk(part, "decoders", &mut |part, kind| {
            steps.push(match kind {
                "Replace" => Step::Replace {
                    pattern: Pattern::parse(&part)?,
                    content: part.short("content", MAX_CONTENT)?.to_string(),
                },
                "Strip" => {
                    let content = part.text("content")?;
                    let mut chars = content.chars();
                    let (Some(content), None) = (chars.next(), chars.next()) else {
                        return Err(part.error("content is not one character"));
                    };
                    Step::Strip {
                        content,
                        start: part.number("start")?,
                        stop: part.number("stop")?,
                    }
                }
                "WordPiece" => {
                    part.short("prefix", MAX_CONTENT)?;
                    Step::Other(part.parsed()?)
                }
                "BPEDecoder" | "ByteLevel" | "Metaspace" | "CTC" | "Fuse" | "ByteFallback" => {
                    Step::Other(part.parsed()?)
                }
                _ => return Err(part.unknown(kind)),
            });
            kinds.push(kind.to_string());
            Ok(())
        })?;
        Ok(Some(Decoder {
            steps: steps.into(),
            kinds: kinds.into(),
        }))
    }

    /// The types of all steps.
    pub fn kinds(&self) -> &[String] {
        &self.kinds
    }
}

fn bytes(tokens: &[String]) -> usize {
    tokens.iter().map(String::len).sum()
}

fn replace(token: &str, pattern: &Pattern, content: &str, made: &mut usize) -> Result<String> {
    let before = *made;
    let after = std::cell::Cell::new(before);
    let finder = Matches {
        pattern,
        prepare: |bytes: usize, matches: usize| {
            after.set(before.saturating_add(bytes + matches.saturating_mul(content.len())));
            meter::length(after.get())?;
            meter::room((after.get() - before).saturating_add(matches * 96))
        },
        invert: false,
    };
    let pieces = match finder.find_matches(token) {
        Ok(pieces) => pieces,
        Err(error) => return Err(meter::own(error)),
    };
    *made = after.get();
    let mut out = String::new();
    for ((begin, end), is_match) in pieces {
        out.push_str(if is_match {
            content
        } else {
            &token[begin..end]
        });
    }
    Ok(out)
}

fn strip(token: &str, content: char, start: usize, stop: usize) -> String {
    let mut rest = token;
    for _ in 0..start.min(token.len()) {
        match rest.strip_prefix(content) {
            Some(shorter) => rest = shorter,
            None => break,
        }
    }
    for _ in 0..stop.min(token.len()) {
        match rest.strip_suffix(content) {
            Some(shorter) => rest = shorter,
            None => break,
        }
    }
    rest.to_string()
}

impl tokenizers::Decoder for Decoder {
    fn decode_chain(&self, mut tokens: Vec<String>) -> tokenizers::Result<Vec<String>> {
        for step in self.steps.iter() {
            // An empty list is no text, and some parts of the crate take its last element.
            if tokens.is_empty() {
                return Ok(tokens);
            }
            let size = bytes(&tokens);
            meter::tick(size)?;
            // A step makes each byte at most three, and a space for each token.
            meter::room(
                size.saturating_mul(6)
                    .saturating_add(tokens.len().saturating_mul(160)),
            )?;
            tokens = match step {
                Step::Replace { pattern, content } => {
                    let mut made = 0;
                    tokens
                        .into_iter()
                        .map(|token| replace(&token, pattern, content, &mut made))
                        .collect::<Result<_>>()?
                }
                Step::Strip {
                    content,
                    start,
                    stop,
                } => tokens
                    .into_iter()
                    .map(|token| strip(&token, *content, *start, *stop))
                    .collect(),
                Step::Other(decoder) => decoder.decode_chain(tokens)?,
            };
            meter::length(bytes(&tokens))?;
        }
        Ok(tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strip_takes_what_is_there() {
        assert_eq!(strip("  a  ", ' ', 1, 1), " a ");
        assert_eq!(strip("HHH", 'H', 2, 9), "");
        assert_eq!(strip("", 'H', 1, 1), "");
        assert_eq!(strip("Hey", 'H', 1, 0), "ey");
        assert_eq!(strip("abc", 'H', usize::MAX, usize::MAX), "abc");
    }
}
