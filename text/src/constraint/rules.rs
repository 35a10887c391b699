//! What a caller gives, of which there is at most one.

use super::grammar::MAX_REGEX;
use super::said::said;
use super::{grammar, schema};
use crate::error::{Error, Result};
use crate::pipeline::meter::room;
use llguidance::api::TopLevelGrammar;
use llguidance::derivre::RegexBuilder;
use serde_json::Value;

/// Longest text of a schema or grammar.
const MAX_BYTES: usize = 256 << 10;

/// Memory for whatever rules, for each unit of a schema's cost, and for each byte of others.
const ROOM: usize = 16 << 20;
const ROOM_COST: usize = 2 << 10;
const ROOM_REGEX: usize = 8 << 10;
const ROOM_GRAMMAR: usize = 512;

#[derive(Debug)]
pub enum Rules {
    /// A JSON schema, as JSON.
    Schema(String),
    Regex(String),
    /// In the syntax of llguidance, which is like that of Lark.
    Grammar(String),
}

impl Rules {
    /// The option that it comes from.
    pub fn option(&self) -> &'static str {
        match self {
            Rules::Schema(_) => "json_schema",
            Rules::Regex(_) => "regex",
            Rules::Grammar(_) => "grammar",
        }
    }

    pub fn text(&self) -> &str {
        match self {
            Rules::Schema(text) | Rules::Regex(text) | Rules::Grammar(text) => text,
        }
    }

    /// What the crate says is wrong with it, as a sentence.
    pub fn said(&self, error: &str) -> String {
        let is_undecided = error.contains(schema::UNDECIDED);
        let shown = match self.schema().filter(|_| is_undecided) {
            Some(value) => schema::undecided(&value),
            None => None,
        };
        shown.unwrap_or_else(|| said(error))
    }

    pub fn schema(&self) -> Option<Value> {
        match self {
            Rules::Schema(text) => crate::json::parse(text).ok(),
            _ => None,
        }
    }

    /// As the crate takes it, when it is within bounds.
    pub fn checked(&self) -> Result<TopLevelGrammar> {
        let most = match self {
            Rules::Regex(_) => MAX_REGEX,
            _ => MAX_BYTES,
        };
        let bytes = self.text().len();
        if bytes > most {
            return Err(Error::range(format!("{bytes} bytes; the limit is {most}")));
        }
        match self {
            Rules::Schema(text) => {
                let value = crate::json::parse(text).map_err(Error::argument)?;
                let (value, cost) = schema::ready(&value)?;
                room(ROOM + cost * ROOM_COST)?;
                Ok(TopLevelGrammar::from_json_schema(value))
            }
            Rules::Regex(text) => {
                room(ROOM + bytes * ROOM_REGEX)?;
                check_regex(text)?;
                Ok(TopLevelGrammar::from_regex(text))
            }
            Rules::Grammar(text) => {
                let (text, cost) = grammar::ready(text)?;
                room(ROOM + bytes * ROOM_GRAMMAR + cost * ROOM_COST)?;
                Ok(TopLevelGrammar::from_lark(text))
            }
        }
    }
}

/// Before it becomes a part of a grammar, where what is wrong would show elsewhere.
fn check_regex(text: &str) -> Result<()> {
    if text.is_empty() {
        return Err(Error::argument("it is empty"));
    }
    RegexBuilder::new()
        .mk_regex(text)
        .map(|_| ())
        .map_err(|e| Error::argument(said(&e.to_string())))
}
