//! Texts that filters have marked as HTML, Jinja's `Markup`: what is added to one is escaped.

use super::budget;
use super::show::text_of;
use minijinja::{Error, Value};

/// The text of a value as HTML.
pub fn escape(value: &Value) -> Result<Value, Error> {
    if value.is_safe() {
        return Ok(value.clone());
    }
    let text = text_of(value)?;
    let longer = text.matches(['&', '<', '>', '\'', '"']).count() * 5;
    budget::text(text.len() + longer)?;
    let mut out = String::with_capacity(text.len() + longer);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            c => out.push(c),
        }
    }
    Ok(Value::from_safe_string(out))
}

/// A text that was made of another is marked as that is.
pub fn like(value: &Value, text: impl Into<String>) -> Value {
    match value.is_safe() {
        true => Value::from_safe_string(text.into()),
        false => Value::from(text.into()),
    }
}

/// The sum of two texts of which one is marked.
pub fn add(left: &Value, right: &Value) -> Result<Value, Error> {
    let (left, right) = (escape(left)?, escape(right)?);
    let parts = [left.as_str().unwrap_or(""), right.as_str().unwrap_or("")];
    budget::text(parts[0].len() + parts[1].len())?;
    Ok(Value::from_safe_string(parts.concat()))
}
