//! The messages of a recipe as a piece of its prompt: the model's chat template writes what stands around the fields.
//!
//! ```text
//!   {"role": "user", "content": "Context: {context}"}   ->   [<|im_start|>user\nContext: {context}<|im_end|>...]
//! ```

use super::piece::{parse_piece, Field, Part, Piece};
use crate::chat::Request;
use crate::error::{Code, Error, Result};
use crate::text::Text;
use serde_json::{json, Map, Value};

/// Renders messages once with marks in place of the fields, and takes the marks out again.
pub fn rendered(
    text: &Text,
    messages: &[Map<String, Value>],
    variables: &Map<String, Value>,
) -> Result<Piece> {
    // From the private use area of Unicode; templates have no reason to contain or change these.
    const OPEN: char = '\u{f8d0}';
    let known = [
        ("instruction", Field::Instruction),
        ("query", Field::Query),
        ("document", Field::Document),
        ("text", Field::Text),
        ("prompt", Field::Prompt),
        ("context", Field::Context),
        ("question", Field::Question),
        ("labels", Field::Labels),
    ];
    let sign = |field: Field| {
        let at = known.iter().position(|(_, f)| *f == field).unwrap_or(0);
        char::from_u32(OPEN as u32 + 1 + at as u32).unwrap_or(OPEN)
    };
    let mut put = Vec::new();
    let mut filled = Vec::new();
    for message in messages {
        let mut message = message.clone();
        let mut content = String::new();
        for part in parse_piece(message["content"].as_str().unwrap_or(""), &known)? {
            match part {
                Part::Fixed(fixed) => content.push_str(&fixed),
                Part::Field(field) => {
                    content.push(sign(field));
                    put.push(sign(field));
                }
            }
        }
        message.insert("content".to_string(), Value::String(content));
        filled.push(Value::Object(message));
    }
    let request = Request::parse(
        &Value::Array(filled).to_string(),
        &json!({ "variables": variables }).to_string(),
    )?;
    let whole = text.templates.render(request, false).map_err(|e| Error {
        // To the caller it is the recipe that does not fit the model.
        code: match e.code {
            Code::NotFound => Code::UnsupportedModel,
            code => code,
        },
        ..e.within("the recipe's messages")
    })?;
    let whole = whole.text;

    let mut piece = Piece::new();
    let mut fixed = String::new();
    let mut seen = Vec::new();
    for c in whole.chars() {
        match known.iter().find(|(_, field)| sign(*field) == c) {
            None => fixed.push(c),
            Some((_, field)) => {
                seen.push(c);
                piece.push(Part::Fixed(std::mem::take(&mut fixed)));
                piece.push(Part::Field(*field));
            }
        }
    }
    piece.push(Part::Fixed(fixed));
    put.sort_unstable();
    seen.sort_unstable();
    if put != seen {
        return Err(Error::unsupported(
            "the model's chat template repeats or drops the contents of messages",
        ));
    }
    Ok(piece)
}
