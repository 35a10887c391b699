//! Reads the fields of a part of a tokenizer.json, which is untrusted, with messages that name them.

use crate::error::{quote, Error, Result};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Most steps of one part; real tokenizers have up to some thirty.
const MAX_STEPS: usize = 256;
/// Nesting of sequences.
const MAX_DEPTH: usize = 8;

/// One component, e.g. a normalizer, and where it stands.
#[derive(Clone, Copy)]
pub struct Fields<'a> {
    pub value: &'a Value,
    pub place: &'a str,
}

/// The message of serde without the position, which is that of a part and would mislead.
pub fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(at) => text[..at].to_string(),
        None => text,
    }
}

impl<'a> Fields<'a> {
    pub fn error(&self, what: &str) -> Error {
        Error::format(format!("{}: {what}", self.place))
    }

    pub fn kind(&self) -> Result<&'a str> {
        self.value
            .get("type")
            .and_then(Value::as_str)
            .ok_or_else(|| self.error("it is not an object with a \"type\""))
    }

    pub fn text(&self, key: &str) -> Result<&'a str> {
        self.value
            .get(key)
            .and_then(Value::as_str)
            .ok_or_else(|| self.error(&format!("{key} is not a string")))
    }

    /// A text of at most `most` bytes.
    pub fn short(&self, key: &str, most: usize) -> Result<&'a str> {
        let text = self.text(key)?;
        if text.len() > most {
            return Err(self.error(&format!(
                "{key} has {} bytes; the limit is {most}",
                text.len()
            )));
        }
        Ok(text)
    }

    pub fn flag(&self, key: &str) -> Result<bool> {
        self.value
            .get(key)
            .and_then(Value::as_bool)
            .ok_or_else(|| self.error(&format!("{key} is not true or false")))
    }

    pub fn number(&self, key: &str) -> Result<usize> {
        self.value
            .get(key)
            .and_then(Value::as_u64)
            .and_then(|n| usize::try_from(n).ok())
            .ok_or_else(|| self.error(&format!("{key} is not a whole number")))
    }

    /// The component as the crate's own type.
    pub fn parsed<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_value(self.value.clone()).map_err(|e| self.error(&plain(&e)))
    }

    pub fn unknown(&self, kind: &str) -> Error {
        self.error(&format!("the type {} is not known", quote(kind)))
    }
}

/// Calls `each` for every component, in the order of work: those inside of sequences, whose lists are
/// called `list`, one by one. `null` is none.
pub fn walk<'a>(
    part: Fields<'a>,
    list: &str,
    each: &mut dyn FnMut(Fields<'a>, &'a str) -> Result<()>,
) -> Result<()> {
    fn inside<'a>(
        part: Fields<'a>,
        list: &str,
        depth: usize,
        count: &mut usize,
        each: &mut dyn FnMut(Fields<'a>, &'a str) -> Result<()>,
    ) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(part.error(&format!("sequences are nested deeper than {MAX_DEPTH}")));
        }
        // A sequence counts too: an empty one inside another takes time all the same.
        *count += 1;
        if *count > MAX_STEPS {
            return Err(part.error(&format!("it has more than {MAX_STEPS} steps, the limit")));
        }
        let kind = part.kind()?;
        if kind != "Sequence" {
            return each(part, kind);
        }
        let steps = part
            .value
            .get(list)
            .and_then(Value::as_array)
            .ok_or_else(|| part.error(&format!("{list} is not a list")))?;
        for value in steps {
            inside(Fields { value, ..part }, list, depth + 1, count, each)?;
        }
        Ok(())
    }
    if part.value.is_null() {
        return Ok(());
    }
    inside(part, list, 0, &mut 0, each)
}
