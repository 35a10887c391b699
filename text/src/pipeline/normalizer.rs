//! What happens to a text before it is cut: a list of steps.

use super::fields::{plain, walk, Fields};
use super::meter;
use super::pattern::{Matches, Pattern};
use super::sentence_piece::Rules;
use crate::error::Result;
use serde_json::Value;
use std::sync::Arc;
use tokenizers::normalizers::{BertNormalizer, Precompiled, Strip};
use tokenizers::{NormalizedString, NormalizerWrapper};

/// Longest text that Replace and Prepend put in. A replacement stands for some characters.
const MAX_CONTENT: usize = 1024;
/// Memory for each byte that a step gives: characters with what they replace, and their origins.
const ROOM: usize = 64;

#[derive(Clone)]
pub struct Normalizer {
    steps: Arc<[Step]>,
    /// Texts go on others, so that nothing is put in front of them.
    continues: bool,
}

enum Step {
    Replace {
        pattern: Pattern,
        content: String,
    },
    /// `charsmap` of SentencePiece: the most bytes that one byte becomes, in ASCII and elsewhere.
    Precompiled {
        step: Precompiled,
        ascii: usize,
        other: usize,
    },
    /// A part of the crate; the most bytes that one byte becomes, and bytes that it adds to a text.
    Other {
        step: NormalizerWrapper,
        growth: usize,
        adds: usize,
    },
    SentencePiece(Rules),
}

/// The most bytes that one byte becomes, beyond ASCII.
fn growth(kind: &str) -> Option<usize> {
    Some(match kind {
        "NFC" | "NFD" => 4,
        "NFKC" | "NFKD" => 11,
        "Bert" | "BertNormalizer" => 8,
        "Lowercase" => 3,
        "ByteLevel" => 2,
        "Nmt" | "Strip" | "StripAccents" | "Prepend" => 1,
        _ => return None,
    })
}

/// The charsmap is base64 of: u32 bytes of the trie, the trie as u32, replacements that end with 0.
/// The crate takes the first number for the size of what it allocates.
fn precompiled(part: &Fields) -> Result<Step> {
    let wrong = |why: &str| part.error(&format!("precompiled_charsmap {why}"));
    let text = part.text("precompiled_charsmap")?;
    let bytes = base64(text).ok_or_else(|| wrong("is not base64"))?;
    let trie = match bytes.first_chunk() {
        Some(head) => u32::from_le_bytes(*head) as usize,
        None => {
            return Err(wrong(&format!(
                "has {} bytes; it begins with 4",
                bytes.len()
            )))
        }
    };
    let Some(rules) = bytes.get(4 + trie..).filter(|_| trie != 0 && trie % 4 == 0) else {
        return Err(wrong(&format!(
            "says that its trie has {trie} bytes, and has {} itself",
            bytes.len()
        )));
    };
    // Through text, because the crate wants to borrow the string.
    let json = serde_json::json!({"type": "Precompiled", "precompiled_charsmap": text}).to_string();
    let step: Precompiled = serde_json::from_str(&json).map_err(|e| wrong(&plain(&e)))?;
    let of = |text: &str| {
        step.transform(text)
            .map_or(0, str::len)
            .div_ceil(text.len())
    };
    let ascii = (1..128u8)
        .map(|byte| of(&char::from(byte).to_string()))
        .chain([of("\r\n"), 1])
        .max()
        .unwrap_or(1);
    let longest = rules.split(|byte| *byte == 0).map(<[u8]>::len).max();
    Ok(Step::Precompiled {
        step,
        ascii,
        other: longest.unwrap_or(0).max(1),
    })
}

/// The bytes that base64 stands for, padded or not.
fn base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let (mut bits, mut count) = (0u32, 0);
    for c in text.trim_end_matches('=').bytes() {
        let six = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        (bits, count) = (bits << 6 | u32::from(six), count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

impl Normalizer {
    pub fn parse(value: &Value) -> Result<Normalizer> {
        let mut steps = Vec::new();
        let part = Fields {
            value,
            place: "normalizer",
        };
        walk(part, "normalizers", &mut |part, kind| {
            steps.push(match kind {
                "Replace" => Step::Replace {
                    pattern: Pattern::parse(&part)?,
                    content: part.short("content", MAX_CONTENT)?.to_string(),
                },
                "Precompiled" => precompiled(&part)?,
                kind => {
                    let growth = growth(kind).ok_or_else(|| part.unknown(kind))?;
                    let adds = match kind {
                        "Prepend" => part.short("prepend", MAX_CONTENT)?.len(),
                        _ => 0,
                    };
                    Step::Other {
                        // What the crate does not know by this name it takes for whatever has its fields.
                        step: match kind {
                            "BertNormalizer" => part.parsed::<BertNormalizer>()?.into(),
                            _ => part.parsed()?,
                        },
                        growth,
                        adds,
                    }
                }
            });
            Ok(())
        })?;
        Ok(Normalizer::new(steps.into()))
    }

    pub fn sentence_piece(rules: Rules) -> Normalizer {
        Normalizer::new([Step::SentencePiece(rules)].into())
    }

    fn new(steps: Arc<[Step]>) -> Normalizer {
        Normalizer {
            steps,
            continues: false,
        }
    }

    /// The same for texts that go on others.
    pub fn continuing(&self) -> Normalizer {
        Normalizer {
            steps: self.steps.clone(),
            continues: true,
        }
    }
}

/// Asks for room for a text of so many bytes, which must not be longer than it may become.
fn make(bytes: usize) -> Result<()> {
    meter::length(bytes)?;
    meter::room(bytes.saturating_mul(ROOM))
}

impl Step {
    fn run(&self, text: &mut NormalizedString, continues: bool) -> tokenizers::Result<()> {
        match self {
            Step::Other {
                step: NormalizerWrapper::Prepend(_),
                ..
            } if continues => Ok(()),
            Step::Replace { pattern, content } => {
                let prepare = |bytes: usize, matches: usize| {
                    make(bytes.saturating_add(matches.saturating_mul(content.len())))
                };
                text.replace(
                    Matches {
                        pattern,
                        prepare,
                        invert: false,
                    },
                    content,
                )
            }
            Step::Precompiled { step, ascii, other } => {
                let before = text.get();
                let worst = if before.is_ascii() { ascii } else { other };
                let mut most = before.len().saturating_mul(*worst);
                // Exactly, where the worst case would be too much to ask for.
                if most > 1 << 20 && meter::length(before.len()).is_ok() {
                    meter::room(before.len().saturating_mul(3 * *worst))?;
                    most = step.normalize_string(before).len();
                }
                meter::room(most.saturating_mul(ROOM))?;
                tokenizers::Normalizer::normalize(step, text)
            }
            Step::Other { step, growth, adds } => {
                let before = text.get();
                // Of all steps only the spelling of bytes changes the length of ASCII.
                let growth = match step {
                    NormalizerWrapper::ByteLevel(_) => *growth,
                    _ if before.is_ascii() => 1,
                    _ => *growth,
                };
                let most = before.len().saturating_mul(growth).saturating_add(*adds);
                meter::room(most.saturating_mul(ROOM))?;
                match step {
                    // White space in front of it stands between the two texts.
                    NormalizerWrapper::StripNormalizer(strip) if continues => {
                        let right = Strip::new(false, strip.strip_right);
                        tokenizers::Normalizer::normalize(&right, text)
                    }
                    _ => tokenizers::Normalizer::normalize(step, text),
                }
            }
            Step::SentencePiece(rules) => Ok(rules.run(text, continues)?),
        }
    }
}

impl tokenizers::Normalizer for Normalizer {
    fn normalize(&self, text: &mut NormalizedString) -> tokenizers::Result<()> {
        // What is behind an added token in the text begins anew.
        let continues = self.continues && text.offsets_original().0 == 0;
        for step in self.steps.iter() {
            meter::check()?;
            meter::tick(text.get().len())?;
            step.run(text, continues)?;
            meter::length(text.get().len())?;
        }
        Ok(meter::normalized(text.get().len())?)
    }
}
