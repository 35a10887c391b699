//! The tokens of a text with their log-probs, as the clients of completions and of chats read them.
//!
//! ```text
//!   chats         logprobs: true, top_logprobs: 0..20     {"content": [{"token", "logprob", "bytes", "top_logprobs": [...]}],
//!                                                          "refusal": null}
//!   completions   logprobs: 0..20                         {"tokens": [...], "token_logprobs": [...], "top_logprobs": [{...}],
//!                                                          "text_offset": [...]}
//!
//!   a stream      each piece of a text has the tokens that begin in it; the others come with its end
//! ```

use std::collections::VecDeque;

use prefix::{Status, TextToken, Token, Tokenizer, TopToken};
use serde::Deserialize;
use serde_json::{json, Map, Value};

use super::api::Api;
use crate::failure::{Failure, Result};
use crate::fields::Fields;

/// Likely tokens of each place: as many as clients of chats may ask for.
const MOST: u64 = 20;

/// What stands for a token that cannot come, since JSON has no infinity.
const UNLIKELY: f32 = -9999.0;

#[derive(Debug, Deserialize)]
struct Asked {
    logprobs: Option<Value>,
    top_logprobs: Option<Value>,
    prompt_logprobs: Option<Value>,
    echo: Option<Value>,
}

/// How many likely tokens are asked for with each of a text; `None`: none of them is told.
pub fn asked(api: Api, fields: &Fields) -> Result<Option<usize>> {
    let asked: Asked = fields.read()?;
    let nothing = |value: &Option<Value>| matches!(value, None | Some(Value::Bool(false)));
    for (field, value) in [
        ("prompt_logprobs", &asked.prompt_logprobs),
        ("echo", &asked.echo),
    ] {
        if !nothing(value) {
            let message = "is not served: an answer tells of what is written, not of its prompt";
            return Err(Failure::field(field, message));
        }
    }
    match api {
        Api::Completions => {
            fields.refuse(&["top_logprobs"])?;
            match &asked.logprobs {
                value if nothing(value) => Ok(None),
                Some(value) => count("logprobs", value).map(Some),
                None => Ok(None),
            }
        }
        Api::Chat => match (&asked.logprobs, &asked.top_logprobs) {
            (Some(Value::Bool(true)), None) => Ok(Some(0)),
            (Some(Value::Bool(true)), Some(top)) => count("top_logprobs", top).map(Some),
            (value, top) if nothing(value) => match top {
                Some(top) if *top != json!(0) => {
                    let message = format!("is {top}; it goes with logprobs, which is not true");
                    Err(Failure::field("top_logprobs", message))
                }
                _ => Ok(None),
            },
            (Some(value), _) => {
                let message = format!("is {value}; of a chat it is true or false");
                Err(Failure::field("logprobs", message))
            }
            (None, _) => Ok(None),
        },
    }
}

fn count(field: &'static str, value: &Value) -> Result<usize> {
    match value.as_u64() {
        Some(n) if n <= MOST => Ok(n as usize),
        _ => {
            let message = format!("is {value}; served are whole numbers from 0 to {MOST}");
            Err(Failure::field(field, message))
        }
    }
}

/// The tokens of a text from a number on, as far as they are there.
pub trait Read: Fn(usize) -> prefix::Result<Vec<TextToken>> {}
impl<F: Fn(usize) -> prefix::Result<Vec<TextToken>>> Read for F {}

/// The tokens of one text, as far as they were told with its pieces.
#[derive(Debug, Default)]
pub struct Told {
    /// How many the library was asked for, and those of them that begin behind the pieces.
    read: usize,
    waiting: VecDeque<TextToken>,
    /// Bytes of the pieces.
    told: usize,
    /// How many characters there are in so many bytes.
    bytes: usize,
    characters: usize,
}

/// Some tokens of a text, each with the characters before it.
#[derive(Debug, Default)]
pub struct Tokens(Vec<(TextToken, usize)>);

impl Told {
    /// The tokens that begin in the next piece of a text. `read` gives those from a number on.
    pub fn piece(&mut self, read: impl Read, piece: &str) -> Result<Tokens> {
        let end = self.told + piece.len();
        let mut tokens = Tokens::default();
        loop {
            if self.waiting.is_empty() {
                self.read(&read)?;
            }
            match self.waiting.pop_front() {
                Some(next) if next.offset < end => {
                    self.count(next.offset, piece);
                    tokens.0.push((next, self.characters));
                }
                Some(later) => {
                    self.waiting.push_front(later);
                    break;
                }
                None => break,
            }
        }
        self.count(end, piece);
        self.told = end;
        Ok(tokens)
    }

    /// The others, when all pieces were told: those of white space behind the text.
    pub fn rest(&mut self, read: impl Read) -> Result<Tokens> {
        self.read(&read)?;
        let rest = self.waiting.drain(..).map(|next| (next, self.characters));
        Ok(Tokens(rest.collect()))
    }

    fn read(&mut self, read: &impl Read) -> Result<()> {
        let more = read(self.read)?;
        self.read += more.len();
        self.waiting.extend(more);
        Ok(())
    }

    /// Counts the characters of a piece up to this byte of the text.
    fn count(&mut self, byte: usize, piece: &str) {
        let (from, to) = (self.bytes - self.told, byte.saturating_sub(self.told));
        if let Some(more) = piece.get(from..to) {
            self.characters += more.chars().count();
            self.bytes = byte;
        }
    }
}

impl Tokens {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn extend(&mut self, more: Tokens) {
        self.0.extend(more.0);
    }

    pub fn json(&self, api: Api, tokenizer: &Tokenizer) -> Result<Value> {
        match api {
            Api::Chat => {
                let content = self.0.iter().map(|(token, _)| of_chat(token, tokenizer));
                Ok(json!({"content": content.collect::<Result<Vec<_>>>()?, "refusal": null}))
            }
            Api::Completions => {
                let (mut tokens, mut logprobs) = (Vec::new(), Vec::new());
                let (mut top, mut offsets) = (Vec::new(), Vec::new());
                for (token, characters) in &self.0 {
                    tokens.push(name(&bytes(token.token, tokenizer)?));
                    logprobs.push(number(token.logprob));
                    top.push(likely(token, tokenizer)?);
                    offsets.push(*characters);
                }
                Ok(
                    json!({"tokens": tokens, "token_logprobs": logprobs, "top_logprobs": top,
                    "text_offset": offsets}),
                )
            }
        }
    }
}

fn of_chat(token: &TextToken, tokenizer: &Tokenizer) -> Result<Value> {
    let one = |token: Token, logprob: f32| -> Result<Value> {
        let bytes = bytes(token, tokenizer)?;
        let text = String::from_utf8_lossy(&bytes);
        let bytes = match bytes.is_empty() {
            true => Value::Null,
            false => json!(bytes),
        };
        Ok(json!({"token": text, "logprob": number(logprob), "bytes": bytes}))
    };
    let top = token.top.iter().map(|top| one(top.token, top.logprob));
    let top = top.collect::<Result<Vec<_>>>()?;
    let mut value = one(token.token, token.logprob)?;
    value["top_logprobs"] = json!(top);
    Ok(value)
}

/// The likely tokens of a place by their names, and the one that came there.
fn likely(token: &TextToken, tokenizer: &Tokenizer) -> Result<Value> {
    let own = TopToken {
        token: token.token,
        logprob: token.logprob,
    };
    let mut all = Map::new();
    for one in token.top.iter().chain([&own]) {
        let name = name(&bytes(one.token, tokenizer)?);
        // Two may have one name, as special tokens do that are spelt alike: the likelier one has it.
        all.entry(name).or_insert(json!(number(one.logprob)));
    }
    Ok(Value::Object(all))
}

/// What a token is written with; nothing for one that a model has beyond its tokenizer.
fn bytes(token: Token, tokenizer: &Tokenizer) -> Result<Vec<u8>> {
    match tokenizer.token_bytes(token) {
        Err(error) if error.status() == Status::OutOfRange => Ok(Vec::new()),
        bytes => Ok(bytes?),
    }
}

/// Its text, or its bytes where they are only a part of a character: names of different tokens differ.
fn name(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_string(),
        Err(_) => {
            let bytes = bytes.iter().map(|byte| format!("\\x{byte:02x}"));
            format!("bytes:{}", bytes.collect::<String>())
        }
    }
}

/// In the fewest digits that tell it from others of its type.
fn number(logprob: f32) -> f64 {
    let logprob = if logprob.is_nan() {
        UNLIKELY
    } else {
        logprob.max(UNLIKELY)
    };
    logprob.to_string().parse().unwrap_or(logprob.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(api: Api, body: &str) -> Result<Option<usize>> {
        asked(api, &serde_json::from_str(body).unwrap())
    }

    #[test]
    fn how_many_are_asked_for() {
        for (api, body, count) in [
            (Api::Chat, "{}", None),
            (
                Api::Chat,
                r#"{"logprobs": null, "top_logprobs": null}"#,
                None,
            ),
            (
                Api::Chat,
                r#"{"logprobs": false, "top_logprobs": 0, "echo": false}"#,
                None,
            ),
            (Api::Chat, r#"{"logprobs": true}"#, Some(0)),
            (
                Api::Chat,
                r#"{"logprobs": true, "top_logprobs": 20}"#,
                Some(20),
            ),
            (Api::Completions, r#"{"logprobs": null}"#, None),
            (
                Api::Completions,
                r#"{"logprobs": false, "top_logprobs": 0}"#,
                None,
            ),
            (Api::Completions, r#"{"logprobs": 0}"#, Some(0)),
            (Api::Completions, r#"{"logprobs": 20}"#, Some(20)),
        ] {
            assert_eq!(read(api, body).unwrap(), count, "{body}");
        }
        for (api, body, field, why) in [
            (Api::Chat, r#"{"logprobs": 2}"#, "logprobs", "true or false"),
            (
                Api::Chat,
                r#"{"logprobs": true, "top_logprobs": 21}"#,
                "top_logprobs",
                "is 21",
            ),
            (
                Api::Chat,
                r#"{"logprobs": true, "top_logprobs": -1}"#,
                "top_logprobs",
                "0 to 20",
            ),
            (
                Api::Chat,
                r#"{"logprobs": true, "top_logprobs": 1.5}"#,
                "top_logprobs",
                "1.5",
            ),
            (
                Api::Chat,
                r#"{"top_logprobs": 3}"#,
                "top_logprobs",
                "logprobs",
            ),
            (
                Api::Chat,
                r#"{"logprobs": false, "top_logprobs": 3}"#,
                "top_logprobs",
                "is 3",
            ),
            (
                Api::Chat,
                r#"{"prompt_logprobs": 0}"#,
                "prompt_logprobs",
                "prompt",
            ),
            (Api::Completions, r#"{"echo": true}"#, "echo", "prompt"),
            (Api::Completions, r#"{"logprobs": 21}"#, "logprobs", "is 21"),
            (
                Api::Completions,
                r#"{"logprobs": true}"#,
                "logprobs",
                "is true",
            ),
            (
                Api::Completions,
                r#"{"logprobs": 1, "top_logprobs": 1}"#,
                "top_logprobs",
                "served",
            ),
        ] {
            let failure = read(api, body).unwrap_err();
            assert_eq!(failure.field.as_deref(), Some(field), "{body}");
            assert!(failure.message.contains(why), "{body}: {failure:?}");
        }
    }

    #[test]
    fn parts_of_characters_have_names_of_their_own() {
        assert_eq!(name("\u{20ac}".as_bytes()), "\u{20ac}");
        assert_eq!(name(&[0xe2, 0x82]), "bytes:\\xe2\\x82");
        assert_eq!(name(b""), "");
    }

    #[test]
    fn numbers_are_short_and_there_is_no_infinity() {
        assert_eq!(json!(number(-0.1)).to_string(), "-0.1");
        assert_eq!(number(f32::NEG_INFINITY), -9999.0);
        assert_eq!(number(f32::NAN), -9999.0);
    }

    #[test]
    fn a_token_is_told_with_the_piece_that_it_begins_in() {
        // White space in front, a character of two tokens, a token in two pieces, white space behind.
        let all: Vec<TextToken> = [0, 0, 1, 1, 3, 6, 8]
            .iter()
            .enumerate()
            .map(|(token, offset)| TextToken {
                token: token as Token,
                logprob: -1.0,
                offset: *offset,
                top: Vec::new(),
            })
            .collect();
        // However far the library is when it is asked.
        for ahead in [1, 2, all.len()] {
            let read = |first: usize| Ok(all[first..(first + ahead).min(all.len())].to_vec());
            let (mut told, mut found) = (Told::default(), Vec::new());
            for piece in ["a\u{e9}", "bcd", "ef"] {
                found.push(told.piece(read, piece).unwrap());
            }
            found.push(told.rest(|first| Ok(all[first..].to_vec())).unwrap());
            let found: Vec<Vec<(Token, usize)>> = found
                .iter()
                .map(|tokens| {
                    tokens
                        .0
                        .iter()
                        .map(|(token, at)| (token.token, *at))
                        .collect()
                })
                .collect();
            let pieces = [
                vec![(0, 0), (1, 0), (2, 1), (3, 1)],
                vec![(4, 2)],
                vec![(5, 5)],
                vec![(6, 7)],
            ];
            assert_eq!(found, pieces, "{ahead}");
        }
    }
}
