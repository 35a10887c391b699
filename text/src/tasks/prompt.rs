//! From the texts of an item to the tokens of its prompt.
//!
//! ```text
//!   piece 0            piece 1 (encoded as one text)               piece 2
//!   [<|im_start|>...]  [<Query>: {query}\n<Document>: {document}]  [<|im_end|>...]
//!                                                     \______/
//!                                          cut, when the prompt is too long
//! ```
//!
//! Pieces are encoded on their own, so that what is around a text never changes its tokens, and
//! what a text spells never those around it. What is cut are tokens of one field, so what follows it always survives.

use super::messages::rendered;
use super::piece::{Field, Part, Piece};
use super::recipe::{Prompt, Recipe, Special};
use crate::error::{Code, Error, Result};
use crate::text::{EncodeOptions, Encoded, Text};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truncate {
    Right,
    Left,
    Off,
}

/// The texts of one item.
#[derive(Clone, Default)]
pub struct Fields<'a> {
    pub instruction: &'a str,
    /// The query, the question.
    pub query: &'a str,
    /// The document, the text, the context.
    pub document: &'a str,
    pub label: &'a str,
    pub labels: Cow<'a, str>,
    /// Of a list: how many documents it has, and the number of this one.
    pub count: usize,
    pub index: usize,
}

impl<'a> Fields<'a> {
    /// Sets the text of an item.
    pub fn set(&mut self, field: Field, text: &'a str) {
        match field {
            Field::Query | Field::Question => self.query = text,
            _ => self.document = text,
        }
    }

    fn get(&self, field: Field) -> Cow<'_, str> {
        match field {
            Field::Instruction => self.instruction.into(),
            Field::Query | Field::Question => self.query.into(),
            Field::Document | Field::Text | Field::Context | Field::Prompt => self.document.into(),
            Field::Label => self.label.into(),
            Field::Labels => (&*self.labels).into(),
            Field::Documents => "".into(), // they are built one by one
            Field::Count => self.count.to_string().into(),
            Field::Index => self.index.to_string().into(),
        }
    }
}

pub struct Built {
    pub tokens: Vec<i32>,
    pub was_cut: bool,
}

/// Where in the text of a piece its fields are.
type Given = Vec<(Field, Range<usize>)>;

/// The text of a piece with its fields.
#[derive(Clone, PartialEq)]
struct Whole {
    text: String,
    given: Given,
}

impl Whole {
    fn of<'a>(piece: &'a Piece, fields: &Fields, fixed: impl Fn(&'a str) -> Cow<'a, str>) -> Whole {
        let (mut text, mut given) = (String::new(), Vec::new());
        for part in piece {
            match part {
                Part::Fixed(own) => text.push_str(&fixed(own)),
                Part::Field(field) => {
                    let begin = text.len();
                    text.push_str(&fields.get(*field));
                    given.push((*field, begin..text.len()));
                }
            }
        }
        Whole { text, given }
    }
}

/// One piece as tokens; `cut`: those that may go.
#[derive(Clone, Default)]
struct Tokens {
    tokens: Vec<i32>,
    cut: Range<usize>,
}

pub struct Prompts {
    text: Arc<Text>,
    pieces: Vec<Piece>,
    cut: Option<Field>,
    front: Vec<i32>,
    back: Vec<i32>,
    markup: bool,
    /// Whether special tokens go by other names, whatever the texts spell.
    renames: bool,
    /// What each piece was last, with its tokens: items in a row often share most pieces.
    last: Vec<Option<(Whole, Tokens)>>,
}

impl Prompts {
    pub fn new(text: &Arc<Text>, recipe: &Recipe, prompt: &Prompt) -> Result<Self> {
        let (pieces, special) = match prompt {
            Prompt::Pieces(pieces) => (pieces.clone(), recipe.special),
            Prompt::Messages {
                messages,
                variables,
            } => (vec![rendered(text, messages, variables)?], Special::None),
            Prompt::Own { .. } => (Vec::new(), Special::None),
        };
        let (mut front, mut back) = (Vec::new(), Vec::new());
        if special != Special::None {
            (front, back) = around(text)?;
        }
        if special == Special::Front {
            back.clear();
        }
        Ok(Prompts {
            text: text.clone(),
            last: vec![None; pieces.len()],
            pieces,
            cut: recipe.cut,
            front,
            back,
            markup: recipe.markup,
            renames: changes_special(text),
        })
    }

    /// Whether the document stands before the query, so that items are best ordered by document.
    pub fn document_first(&self) -> bool {
        let first = self.pieces.iter().flatten().find_map(|part| match part {
            Part::Field(Field::Instruction) | Part::Fixed(_) => None,
            Part::Field(field) => Some(*field),
        });
        matches!(first, Some(Field::Document))
    }

    /// The tokens of a prompt of at most `limit` tokens.
    pub fn build(&mut self, fields: &Fields, limit: usize, truncate: Truncate) -> Result<Built> {
        let pieces = (0..self.pieces.len())
            .map(|i| self.piece(i, fields))
            .collect::<Result<Vec<_>>>()?;
        let around = self.front.len() + self.back.len();
        let total = around + pieces.iter().map(|p| p.tokens.len()).sum::<usize>();
        let over = total.saturating_sub(limit);
        let can_go: usize = pieces.iter().map(|p| p.cut.len()).sum();
        if over > 0 && (truncate == Truncate::Off || over > can_go) {
            let why = if truncate == Truncate::Off {
                "cutting is off".to_string()
            } else {
                format!("{} of them may not be cut", total - can_go)
            };
            return Err(Error::new(
                Code::PromptTooLong,
                format!("the prompt has {total} tokens; the limit is {limit}, and {why}"),
            ));
        }
        let mut left = over;
        let mut tokens = self.front.clone();
        for piece in &pieces {
            let n = left.min(piece.cut.len());
            left -= n;
            let gone = match truncate {
                Truncate::Left => piece.cut.start..piece.cut.start + n,
                _ => piece.cut.end - n..piece.cut.end,
            };
            tokens.extend(&piece.tokens[..gone.start]);
            tokens.extend(&piece.tokens[gone.end..]);
        }
        tokens.extend(&self.back);
        if tokens.is_empty() {
            return Err(Error::argument("the text has no tokens"));
        }
        Ok(Built {
            tokens,
            was_cut: over > 0,
        })
    }

    fn piece(&mut self, index: usize, fields: &Fields) -> Result<Tokens> {
        let piece = &self.pieces[index];
        let whole = Whole::of(piece, fields, Cow::from);
        if let Some((last, tokens)) = &self.last[index] {
            if *last == whole {
                return Ok(tokens.clone());
            }
        }
        let (encoded, given) = self.encode(piece, fields, &whole)?;
        let cut = given
            .iter()
            .find(|(field, _)| Some(*field) == self.cut)
            .map_or(0..0, |(_, bytes)| inside(&encoded.offsets, bytes));
        let tokens = Tokens {
            tokens: encoded.tokens,
            cut,
        };
        self.last[index] = Some((whole, tokens.clone()));
        Ok(tokens)
    }

    /// Special tokens of the recipe are special tokens; what a caller's text spells, or finishes
    /// spelling, is one only where the recipe has markup.
    fn encode(&self, piece: &Piece, fields: &Fields, whole: &Whole) -> Result<(Encoded, Given)> {
        if self.markup || !self.renames {
            let options = EncodeOptions::default();
            let encoded = self.text.encode_offsets(&whole.text, options)?;
            if self.markup || !self.is_spelt(&encoded, &whole.given) {
                return Ok((encoded, whole.given.clone()));
            }
        }
        let renamed = self.text.renamed()?;
        let whole = Whole::of(piece, fields, |own| renamed.rename(own).into());
        Ok((self.text.encode_renamed(&whole.text)?, whole.given))
    }

    /// Whether some of a special token is of a caller's text. The tokens tell: a normalizer may make one
    /// of letters that are others.
    fn is_spelt(&self, encoded: &Encoded, given: &Given) -> bool {
        let is_given = |(begin, end): (usize, usize)| {
            let mut ranges = given.iter().map(|(_, bytes)| bytes);
            ranges.any(|bytes| begin < bytes.end && bytes.start < end)
        };
        let mut found = encoded.tokens.iter().zip(&encoded.offsets);
        found.any(|(token, bytes)| self.text.pieces().is_special(*token as u32) && is_given(*bytes))
    }

    /// The tokens of a target or a label, which follows the prompt.
    pub fn continuation(&self, piece: &Piece, fields: &Fields) -> Result<Vec<i32>> {
        let text: String = piece
            .iter()
            .map(|part| match part {
                Part::Fixed(fixed) => fixed.into(),
                Part::Field(field) => fields.get(*field),
            })
            .collect();
        let options = EncodeOptions {
            literal: true,
            continues: true,
            ..EncodeOptions::default()
        };
        let tokens = self.text.encode(&text, options)?;
        if tokens.is_empty() {
            return Err(Error::argument("the text to score has no tokens"));
        }
        Ok(tokens)
    }
}

/// From the first token that lies wholly inside these bytes to the last. Tokens of no bytes may be
/// between them: of white space that offsets leave out, or that the tokenizer put in.
fn inside(offsets: &[(usize, usize)], bytes: &Range<usize>) -> Range<usize> {
    let is_inside = |o: &(usize, usize)| o.0 >= bytes.start && o.1 <= bytes.end && o.1 > o.0;
    let begin = offsets.iter().position(is_inside);
    let last = offsets.iter().rposition(is_inside);
    begin
        .zip(last)
        .map_or(0..0, |(begin, last)| begin..last + 1)
}

/// What the tokenizer puts before and after a text.
fn around(text: &Text) -> Result<(Vec<i32>, Vec<i32>)> {
    let encode = |special| {
        let options = EncodeOptions {
            special,
            ..EncodeOptions::default()
        };
        text.encode("a", options)
    };
    let (bare, whole) = (encode(false)?, encode(true)?);
    let at = whole
        .windows(bare.len().max(1))
        .position(|w| w == bare)
        .ok_or_else(|| Error::unsupported("the special tokens around a text depend on the text"))?;
    Ok((whole[..at].to_vec(), whole[at + bare.len()..].to_vec()))
}

/// Whether a normalizer changes the text of a special token, which is then not found where the recipe has it.
fn changes_special(text: &Text) -> bool {
    let added = text.tokenizer().get_added_vocabulary();
    let mut all = added.get_added_tokens_decoder().iter();
    all.any(|(id, token)| {
        token.special && added.simple_id_to_token(*id).as_ref() != Some(&token.content)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::from_texts;
    use crate::tasks::recipe_file::parse;
    use serde_json::json;

    const WORDS: &str = r#"{"model": {"type": "WordLevel", "unk_token": "?",
        "vocab": {"?": 0, "a": 1, "b": 2, "c": 3, "to": 4, "sum": 5, "up": 6}},
        "pre_tokenizer": {"type": "Whitespace"}}"#;

    fn build(limit: usize, truncate: Truncate) -> Result<Built> {
        let recipe = r#"{"task": "embed", "method": "embedding", "prompt": ["to {text} sum up"],
            "cut": "text"}"#;
        let text = Arc::new(Text::new(from_texts(WORDS, None)?)?);
        let recipe = parse(recipe)?.recipe;
        let fields = Fields {
            document: "a b c",
            ..Fields::default()
        };
        Prompts::new(&text, &recipe, &recipe.prompts["default"])?.build(&fields, limit, truncate)
    }

    #[test]
    fn what_the_model_wants_around_a_text_is_in_front_behind_or_not_there() {
        const WORDS: &str = r#"{"model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "a": 1, "b": 2}},
            "pre_tokenizer": {"type": "Whitespace"}, "added_tokens": [
                {"id": 3, "content": "<s>", "special": true, "single_word": false, "lstrip": false, "rstrip": false,
                    "normalized": false},
                {"id": 4, "content": "</s>", "special": true, "single_word": false, "lstrip": false, "rstrip": false,
                    "normalized": false}],
            "post_processor": {"type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                    {"SpecialToken": {"id": "</s>", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [3], "tokens": ["<s>"]},
                    "</s>": {"id": "</s>", "ids": [4], "tokens": ["</s>"]}}}}"#;
        let text = Arc::new(Text::new(from_texts(WORDS, None).unwrap()).unwrap());
        for (special, wanted) in [
            ("none", &[1, 2][..]),
            ("front", &[3, 1, 2]),
            ("both", &[3, 1, 2, 4]),
        ] {
            let recipe = format!(
                r#"{{"task": "embed", "method": "embedding", "prompt": ["{{text}}"], "special": "{special}"}}"#
            );
            let recipe = parse(&recipe).unwrap().recipe;
            let fields = Fields {
                document: "a b",
                ..Fields::default()
            };
            let mut prompts = Prompts::new(&text, &recipe, &recipe.prompts["default"]).unwrap();
            let built = prompts.build(&fields, 9, Truncate::Off).unwrap();
            assert_eq!(built.tokens, wanted, "{special}");
        }
    }

    /// The blanks between words are tokens of no bytes, and so is what stands for the first word.
    #[test]
    fn tokens_of_no_bytes_inside_a_field_are_cut_with_it() {
        let vocab = json!({"?": 0, "a": 1, "b": 2, "c": 3, "\u{120}": 4, "u": 5});
        let tokenizer = json!({
            "model": {"type": "BPE", "vocab": vocab, "merges": [], "unk_token": "?"},
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
            "post_processor": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        });
        let text = Arc::new(Text::new(from_texts(&tokenizer.to_string(), None).unwrap()).unwrap());
        let recipe =
            json!({"task": "embed", "method": "embedding", "prompt": ["u{text}u"], "cut": "text"});
        let recipe = parse(&recipe.to_string()).unwrap().recipe;
        let fields = Fields {
            document: "a  b c",
            ..Fields::default()
        };
        let mut prompts = Prompts::new(&text, &recipe, &recipe.prompts["default"]).unwrap();
        let mut build = |limit, truncate| prompts.build(&fields, limit, truncate).unwrap().tokens;
        assert_eq!(build(8, Truncate::Off), [5, 1, 4, 4, 2, 4, 3, 5]);
        for (limit, right, left) in [
            (6, &[5, 1, 4, 4, 2, 5][..], &[5, 4, 2, 4, 3, 5][..]),
            (4, &[5, 1, 4, 5], &[5, 4, 3, 5]),
            (2, &[5, 5], &[5, 5]),
        ] {
            assert_eq!(build(limit, Truncate::Right), right, "{limit}");
            assert_eq!(build(limit, Truncate::Left), left, "{limit}");
        }
    }

    #[test]
    fn a_field_may_be_cut_to_its_last_token_and_no_further() {
        for truncate in [Truncate::Right, Truncate::Left] {
            assert_eq!(build(6, truncate).unwrap().tokens, [4, 1, 2, 3, 5, 6]);
            let all = build(3, truncate).unwrap();
            assert_eq!((all.tokens, all.was_cut), (vec![4, 5, 6], true));
            let error = build(2, truncate).err().expect("what may not be cut");
            assert_eq!(error.code, Code::PromptTooLong);
            assert!(error.message.contains("3 of them may not"), "{error}");
        }
        assert_eq!(build(4, Truncate::Right).unwrap().tokens, [4, 1, 5, 6]);
        assert_eq!(build(4, Truncate::Left).unwrap().tokens, [4, 3, 5, 6]);
        assert!(build(5, Truncate::Off).is_err());
    }

    #[test]
    fn the_same_text_of_other_fields_is_cut_elsewhere() {
        let recipe = r#"{"task": "rerank", "method": "head", "prompt": ["{query} {document}"],
            "cut": "document", "label": 0}"#;
        let text = Arc::new(Text::new(from_texts(WORDS, None).unwrap()).unwrap());
        let recipe = parse(recipe).unwrap().recipe;
        let mut prompts = Prompts::new(&text, &recipe, &recipe.prompts["default"]).unwrap();
        for (query, document, wanted) in [("a", "b c", [1, 3]), ("a b", "c", [1, 2])] {
            let fields = Fields {
                query,
                document,
                ..Fields::default()
            };
            let built = prompts.build(&fields, 2, Truncate::Left).unwrap();
            assert_eq!(built.tokens, wanted, "{query:?} {document:?}");
        }
    }
}
