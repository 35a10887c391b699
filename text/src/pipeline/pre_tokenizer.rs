//! How a text is cut into words before the model sees it: a list of steps.

use super::fields::{walk, Fields};
use super::meter;
use super::pattern::{Matches, Pattern};
use crate::error::Result;
use serde_json::{json, Value};
use std::sync::{Arc, LazyLock};
use tokenizers::pre_tokenizers::delimiter::CharDelimiterSplit;
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::{
    NormalizedString, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizerWrapper,
    SplitDelimiterBehavior,
};

/// Memory for each word: itself, twice where a list grows, with its first token.
const ROOM_WORD: usize = 760;
/// For each byte of a text that a step changes.
const ROOM_BYTE: usize = 64;

/// How GPT-2 cuts texts. The crate has it too, but its own gives up on long rows of spaces and says so
/// nowhere.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

static GPT2_PATTERN: LazyLock<Result<Pattern>> = LazyLock::new(|| Pattern::known(GPT2));

#[derive(Clone)]
pub struct PreTokenizer {
    steps: Arc<[Step]>,
    /// Memory that the model may take for a byte.
    model_room: usize,
    /// Texts go on others, so that nothing is put in front of them.
    continues: bool,
}

enum Step {
    Split {
        pattern: Pattern,
        behavior: SplitDelimiterBehavior,
        invert: bool,
    },
    /// A space in front of every piece that has none.
    Space,
    /// Spaces as marks, and a mark in front. The crate's own cannot leave that out for one piece.
    Metaspace(Metaspace),
    /// A part of the crate that cuts.
    Cuts(PreTokenizerWrapper),
    /// One that writes bytes as characters.
    Bytes(PreTokenizerWrapper),
}

/// The part that writes bytes as characters, as JSON; `use_regex`: and cuts as GPT-2 does before.
pub fn byte_level(use_regex: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
           "use_regex": use_regex})
}

fn add_byte_level(part: &Fields, steps: &mut Vec<Step>) -> Result<()> {
    if part.flag("add_prefix_space")? {
        steps.push(Step::Space);
    }
    // Older files do not say.
    let cuts = match part.value.get("use_regex") {
        None => true,
        Some(_) => part.flag("use_regex")?,
    };
    if cuts {
        steps.push(Step::Split {
            pattern: GPT2_PATTERN.clone()?,
            behavior: SplitDelimiterBehavior::Isolated,
            invert: false,
        });
    }
    let bytes = byte_level(false);
    let bytes = Fields {
        value: &bytes,
        place: part.place,
    };
    steps.push(Step::Bytes(bytes.parsed()?));
    Ok(())
}

impl PreTokenizer {
    pub fn parse(value: &Value, model_room: usize) -> Result<PreTokenizer> {
        let mut steps = Vec::new();
        let part = Fields {
            value,
            place: "pre_tokenizer",
        };
        walk(part, "pretokenizers", &mut |part, kind| {
            match kind {
                "ByteLevel" => return add_byte_level(&part, &mut steps),
                "Split" => {
                    let behavior = part.value.get("behavior").cloned().unwrap_or_default();
                    steps.push(Step::Split {
                        pattern: Pattern::parse(&part)?,
                        behavior: serde_json::from_value(behavior)
                            .map_err(|_| part.error("behavior is not a known one"))?,
                        invert: part.flag("invert")?,
                    });
                }
                "FixedLength" => {
                    if part.value.get("length").is_some() && part.number("length")? == 0 {
                        return Err(part.error("length is 0"));
                    }
                    steps.push(Step::Cuts(part.parsed()?));
                }
                "CharDelimiterSplit" | "Delimiter" => {
                    steps.push(Step::Cuts(part.parsed::<CharDelimiterSplit>()?.into()));
                }
                "Metaspace" => steps.push(Step::Metaspace(part.parsed()?)),
                "BertPreTokenizer" | "Whitespace" | "Punctuation" | "WhitespaceSplit"
                | "Digits" | "UnicodeScripts" => {
                    steps.push(Step::Cuts(part.parsed()?));
                }
                _ => return Err(part.unknown(kind)),
            }
            Ok(())
        })?;
        Ok(PreTokenizer {
            steps: steps.into(),
            model_room,
            continues: false,
        })
    }

    /// The same for texts that go on others.
    pub fn continuing(&self) -> PreTokenizer {
        PreTokenizer {
            continues: true,
            ..self.clone()
        }
    }
}

/// Whether a piece of the text is its beginning.
fn is_first(piece: &NormalizedString) -> bool {
    piece.offsets_original().0 == 0
}

/// As the crate's own, but for texts that go on others.
fn metaspace(
    step: &Metaspace,
    mut piece: NormalizedString,
    continues: bool,
) -> tokenizers::Result<Vec<NormalizedString>> {
    let mark = step.get_replacement();
    piece.replace(' ', &mark.to_string())?;
    let puts = match step.get_prepend_scheme() {
        PrependScheme::Always => !continues || !is_first(&piece),
        PrependScheme::First => !continues && is_first(&piece),
        PrependScheme::Never => false,
    };
    if puts && !piece.get().starts_with(mark) {
        piece.prepend(&mark.to_string());
    }
    match step.get_split() {
        true => piece.split(mark, SplitDelimiterBehavior::MergedWithNext),
        false => Ok(vec![piece]),
    }
}

/// Words without tokens yet, and their bytes.
fn extent(text: &PreTokenizedString) -> (usize, usize) {
    let mut all = (0, 0);
    for (word, _, tokens) in text.get_splits(OffsetReferential::Normalized, OffsetType::None) {
        if tokens.is_none() {
            all = (all.0 + 1, all.1 + word.len());
        }
    }
    all
}

impl Step {
    fn run(
        &self,
        text: &mut PreTokenizedString,
        bytes: usize,
        continues: bool,
    ) -> tokenizers::Result<()> {
        match self {
            Step::Split {
                pattern,
                behavior,
                invert,
            } => {
                // All words of the step together: many short ones are as much as a long one.
                let done = std::cell::Cell::new(0usize);
                let cut = |_: usize, word: NormalizedString| {
                    word.split(
                        Matches {
                            pattern,
                            prepare: |bytes: usize, matches: usize| {
                                let words = done.get() + 2 * matches + 1;
                                done.set(words);
                                let room = words.saturating_mul(ROOM_WORD / 2);
                                meter::room(room.saturating_add(bytes.saturating_mul(ROOM_BYTE)))
                            },
                            invert: *invert,
                        },
                        *behavior,
                    )
                };
                text.split(cut)
            }
            Step::Space => {
                meter::room(bytes.saturating_mul(ROOM_BYTE))?;
                text.split(|_, mut word| {
                    let puts = !continues || !is_first(&word);
                    if puts && !word.get().starts_with(' ') {
                        word.prepend(" ");
                    }
                    Ok::<_, tokenizers::Error>(vec![word])
                })
            }
            Step::Metaspace(step) => {
                // A mark has up to four bytes in the place of a space.
                meter::room(bytes.saturating_mul(ROOM_WORD + 4 * ROOM_BYTE))?;
                text.split(|_, piece| metaspace(step, piece, continues))
            }
            Step::Cuts(step) => {
                meter::room(bytes.saturating_mul(ROOM_WORD + ROOM_BYTE))?;
                tokenizers::PreTokenizer::pre_tokenize(step, text)
            }
            Step::Bytes(step) => {
                meter::room(bytes.saturating_mul(2 * ROOM_BYTE))?;
                tokenizers::PreTokenizer::pre_tokenize(step, text)
            }
        }
    }
}

impl tokenizers::PreTokenizer for PreTokenizer {
    fn pre_tokenize(&self, text: &mut PreTokenizedString) -> tokenizers::Result<()> {
        meter::check()?;
        let (mut words, mut bytes) = extent(text);
        meter::length(bytes)?;
        for step in self.steps.iter() {
            meter::tick(bytes)?;
            step.run(text, bytes, self.continues)?;
            (words, bytes) = extent(text);
            meter::length(bytes)?;
        }
        let tokens = bytes.saturating_mul(self.model_room);
        meter::room(tokens.saturating_add(words.saturating_mul(ROOM_WORD / 3)))?;
        Ok(())
    }
}
