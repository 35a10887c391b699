//! How deep a grammar leads: into brackets, from rule to rule, into the schemas that it has.
//!
//! Its text is cut as the crate cuts it, as far as that takes: brackets in a comment or a string are none.

use super::schema;
use crate::error::{Error, Result};
use serde_json::{Deserializer, Value};

/// Longest regular expression, and all of a grammar together: a class of letters may be a thousand ranges.
pub const MAX_REGEX: usize = 16 << 10;
/// Brackets within brackets.
const MAX_DEPTH: usize = 128;
/// Rules and terminals, each of which may lead to the next one.
const MAX_RULES: usize = 4096;

/// The grammar with its schemas as the crate takes them, and what they cost; an error when it is too much.
pub fn ready(text: &str) -> Result<(String, usize)> {
    let (mut depth, mut rules, mut regexes, mut cost) = (0usize, 0, 0, 0);
    let mut ready = String::new();
    let mut rest = text;
    let line = |rest: &str| text[..text.len() - rest.len()].matches('\n').count() + 1;
    while let Some((part, after)) = cut(rest) {
        let given = &rest[..rest.len() - after.len()];
        let mut own = None;
        match part {
            Part::Open => depth += 1,
            Part::Close => depth = depth.saturating_sub(1),
            Part::Colon => rules += 1,
            Part::Regex(bytes) => regexes += bytes,
            Part::Json => cost += given.len(),
            Part::Schema(value) => {
                let schema = schema::ready(&value);
                let (schema, its) =
                    schema.map_err(|e| e.within(&format!("line {}", line(rest))))?;
                cost += its;
                // What follows stays in its line.
                own = Some(format!(
                    "%json {schema}{}",
                    "\n".repeat(given.matches('\n').count())
                ));
            }
            Part::Other => {}
        }
        ready += own.as_deref().unwrap_or(given);
        rest = after;
        for (what, count, most) in [
            ("brackets within brackets", depth, MAX_DEPTH),
            ("rules", rules, MAX_RULES),
            ("bytes of regular expressions", regexes, MAX_REGEX),
            ("units of schemas", cost, schema::MAX_COST),
        ] {
            if count > most {
                let line = line(rest);
                return Err(Error::range(format!(
                    "{count} {what} up to line {line}; the limit is {most}"
                )));
            }
        }
    }
    Ok((ready + rest, cost))
}

enum Part {
    Open,
    Close,
    Colon,
    /// Bytes of a regular expression.
    Regex(usize),
    Schema(Value),
    /// That is no schema.
    Json,
    Other,
}

/// The first part and what follows; None where the text ends, and where the crate refuses what follows.
fn cut(text: &str) -> Option<(Part, &str)> {
    let first = text.chars().next()?;
    let other = |end: usize| Some((Part::Other, &text[end..]));
    let single = &text[first.len_utf8()..];
    match first {
        '(' | '[' | '{' => Some((Part::Open, single)),
        ')' | ']' | '}' => Some((Part::Close, single)),
        ':' => Some((Part::Colon, single)),
        '#' => other(text.find('\n').unwrap_or(text.len())),
        '/' if single.starts_with('/') => other(text.find('\n').unwrap_or(text.len())),
        '/' => {
            let end = 2 + closing(single, '/')?;
            Some((Part::Regex(end), &text[end..]))
        }
        '"' => other(2 + closing(single, '"')?),
        // A special token, if it is one.
        '<' => {
            let end = single.find(|c: char| "<>".contains(c) || c.is_whitespace());
            match end.filter(|end| single[*end..].starts_with('>')) {
                Some(end) => other(end + 2),
                None => other(1),
            }
        }
        '%' => {
            let words = ["%json", "%llguidance", "%regex"];
            let Some(word) = words.iter().find(|word| text.starts_with(**word)) else {
                return other(1);
            };
            let rest = &text[word.len()..];
            let mut values = Deserializer::from_str(rest).into_iter::<Value>();
            let value = values.next()?.ok()?;
            let part = match *word {
                "%json" => Part::Schema(value),
                _ => Part::Json,
            };
            Some((part, &rest[values.byte_offset()..]))
        }
        _ => other(first.len_utf8()),
    }
}

/// Where the closing character is that no backslash stands before.
fn closing(text: &str, close: char) -> Option<usize> {
    let mut is_escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let is_end = c == close && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end.then_some(at)
    })
}
