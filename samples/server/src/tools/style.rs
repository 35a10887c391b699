//! Which format a model has: what its chat template writes for a message with calls is read with each of them.

use std::sync::Arc;

use prefix::text::{Chat, Special};
use prefix::Tokenizer;

use super::format::{Body, Format, FORMATS};
use super::part::{Asked, Known, Part};
use super::reader::Reader;

/// Which format the service reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Chosen {
    /// What the template of the model has.
    #[default]
    Template,
    Format(&'static Format),
    /// No call is read, unless a request says that one has to come.
    None,
}

impl std::str::FromStr for Chosen {
    type Err = ();

    fn from_str(name: &str) -> Result<Chosen, ()> {
        match name {
            "template" => Ok(Chosen::Template),
            "none" => Ok(Chosen::None),
            name => {
                let mut formats = FORMATS.iter();
                let format = formats.find(|format| format.name == name);
                format.map(Chosen::Format).ok_or(())
            }
        }
    }
}

/// How a model writes calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Of calls that are found in a text; without one they stay text.
    pub format: Option<&'static Format>,
    /// Whether its template takes several calls in a message, so that an answer may have them.
    pub several: bool,
    /// Whether names of calls are nine letters and digits, which templates of Mistral want.
    pub short_ids: bool,
}

/// A tool that a template is tried with, and what it is called with.
const PROBE: &str = "get_place";
const ARGUMENTS: &str = r#"{"name": "north"}"#;

impl Style {
    /// What the template of a model writes for a message with calls is read with each format.
    pub fn of(tokenizer: &Tokenizer, chosen: Chosen) -> Style {
        let candidates: Vec<&'static Format> = match chosen {
            Chosen::Template => FORMATS.iter().collect(),
            Chosen::Format(format) => vec![format],
            Chosen::None => Vec::new(),
        };
        for short_ids in [false, true] {
            let Some(text) = written(tokenizer, 1, short_ids) else {
                continue;
            };
            let reads = |format: &&&'static Format| read(format, &text) == 1;
            let Some(format) = candidates.iter().find(reads) else {
                continue;
            };
            let two = written(tokenizer, 2, short_ids);
            return Style {
                format: Some(format),
                several: two.is_some_and(|text| read(format, &text) == 2),
                short_ids,
            };
        }
        // A format that was named is read, whatever the template has.
        let format = match chosen {
            Chosen::Format(format) => Some(format),
            _ => None,
        };
        Style {
            format,
            several: format.is_some(),
            short_ids: false,
        }
    }
}

/// The text of an answer with so many calls, as a model would write it and the service would see it.
fn written(tokenizer: &Tokenizer, calls: usize, short_ids: bool) -> Option<String> {
    let tools = format!(
        r#"[{{"type": "function", "function": {{"name": "{PROBE}", "description": "A place.",
        "parameters": {{"type": "object", "properties": {{"name": {{"type": "string", "description": "Its name."}}}},
        "required": ["name"]}}}}}}]"#
    );
    let calls = (0..calls).map(|number| {
        let id = match short_ids {
            true => format!("call0000{number}"),
            false => format!("call_{number}"),
        };
        format!(r#"{{"id": "{id}", "type": "function", "function": {{"name": "{PROBE}", "arguments": {ARGUMENTS}}}}}"#)
    });
    let calls = calls.collect::<Vec<_>>().join(", ");
    let message = format!(r#"{{"role": "assistant", "content": "", "tool_calls": [{calls}]}}"#);
    let asked = Chat::new().user("Where?").tools_json(tools);
    let before = tokenizer.chat_text(&asked).ok()?;
    let answered = asked.message_json(message).add_generation_prompt(false);
    let whole = tokenizer.chat_text(&answered).ok()?;
    let same = before.chars().zip(whole.chars());
    let same = same.take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8());
    let same = whole.get(..same.sum())?;
    // A prompt that opens a thought has the first letters of a marker, too.
    let begin = same.rfind(['\n', '>', ']']).map_or(0, |at| at + 1);
    let answer = whole.get(begin..)?;
    // Without special tokens, as texts of answers are.
    let tokens = tokenizer.encode(answer, Special::Continues).ok()?;
    let text = tokenizer.decode(&tokens, true).ok()?;
    Some(text.trim().to_string())
}

/// How many calls of the probe a format finds; 0 when one is another, or is written with another word.
fn read(format: &'static Format, text: &str) -> usize {
    if format.body == Body::Json && !text.contains(&format!("\"{}\"", format.key)) {
        return 0;
    }
    let asked = Asked {
        format,
        tools: Arc::new(vec![Known {
            name: PROBE.to_string(),
            parameters: None,
        }]),
        most: usize::MAX,
        is_forced: false,
    };
    let mut reader = Reader::new(&asked);
    let mut calls = 0;
    for part in reader.push(text).into_iter().chain(reader.end()) {
        match part {
            Part::Call { .. } => calls += 1,
            Part::Arguments { text, .. } if !same(&text, ARGUMENTS) => return 0,
            _ => {}
        }
    }
    calls
}

fn same(a: &str, b: &str) -> bool {
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    value(a).is_some() && value(a) == value(b)
}
