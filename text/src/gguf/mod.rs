//! Reads the key-values at the front of a GGUF file, never its tensors.
//!
//! ```text
//! "GGUF"  u32 version  u64 tensors  u64 pairs  { string key, u32 type, value }*  ...
//! string = u64 length, bytes          array = u32 element type, u64 count, elements
//! ```
//!
//! Everything here is untrusted: each length and count is checked against the bytes that are left
//! in the file and against a limit before anything is allocated. Only `tokenizer.*` and
//! `general.architecture` are kept.

mod reader;

pub use reader::read;

use crate::error::{quote, Error, Result};
use std::collections::HashMap;

/// Limits that no real file comes near.
pub const MAX_PAIRS: u64 = 65_536;
pub const MAX_KEY: u64 = 65_535;
pub const MAX_STRING: u64 = 16 << 20;
pub const MAX_ELEMENTS: u64 = 4 << 20;
/// All strings and arrays that are kept, together.
pub const MAX_KEPT: u64 = 512 << 20;

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Int(i64),
    Float(f64),
    Bool(bool),
    Text(String),
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    Bools(Vec<bool>),
    Texts(Vec<String>),
}

impl Value {
    fn kind(&self) -> &'static str {
        match self {
            Value::Int(_) => "an integer",
            Value::Float(_) => "a number",
            Value::Bool(_) => "a boolean",
            Value::Text(_) => "a string",
            Value::Ints(_) => "an array of integers",
            Value::Floats(_) => "an array of numbers",
            Value::Bools(_) => "an array of booleans",
            Value::Texts(_) => "an array of strings",
        }
    }
}

/// The pairs that were kept, with typed access. A key of the wrong type is an error, never a
/// default.
#[derive(Debug, Default)]
pub struct Metadata {
    pairs: HashMap<String, Value>,
}

impl Metadata {
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.pairs.keys().map(String::as_str)
    }

    fn wrong(key: &str, wanted: &str, found: &Value) -> Error {
        Error::format(format!(
            "GGUF key {} is {}, not {wanted}",
            quote(key),
            found.kind()
        ))
    }

    pub fn text(&self, key: &str) -> Result<Option<&str>> {
        match self.pairs.get(key) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(other) => Err(Self::wrong(key, "a string", other)),
        }
    }

    pub fn texts(&self, key: &str) -> Result<Option<&[String]>> {
        match self.pairs.get(key) {
            None => Ok(None),
            Some(Value::Texts(texts)) => Ok(Some(texts)),
            Some(other) => Err(Self::wrong(key, "an array of strings", other)),
        }
    }

    pub fn int(&self, key: &str) -> Result<Option<i64>> {
        match self.pairs.get(key) {
            None => Ok(None),
            Some(Value::Int(number)) => Ok(Some(*number)),
            Some(other) => Err(Self::wrong(key, "an integer", other)),
        }
    }

    pub fn ints(&self, key: &str) -> Result<Option<&[i64]>> {
        match self.pairs.get(key) {
            None => Ok(None),
            Some(Value::Ints(numbers)) => Ok(Some(numbers)),
            Some(other) => Err(Self::wrong(key, "an array of integers", other)),
        }
    }

    pub fn floats(&self, key: &str) -> Result<Option<&[f32]>> {
        match self.pairs.get(key) {
            None => Ok(None),
            Some(Value::Floats(numbers)) => Ok(Some(numbers)),
            Some(other) => Err(Self::wrong(key, "an array of numbers", other)),
        }
    }

    pub fn bool(&self, key: &str) -> Result<Option<bool>> {
        match self.pairs.get(key) {
            None => Ok(None),
            Some(Value::Bool(yes)) => Ok(Some(*yes)),
            Some(other) => Err(Self::wrong(key, "a boolean", other)),
        }
    }
}
