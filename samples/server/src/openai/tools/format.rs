//! How models write calls of tools, and which way a model's chat template has.
//!
//! ```text
//!   hermes        text <tool_call>        a special token is in no text: of Mistral's [TOOL_CALLS] and of Llama's
//!                 {"name": .., "arguments": {..}}       <|python_tag|> nothing is left, so that a call of theirs is
//!                 </tool_call> ...                      known by where it stands, at the front, and by its form
//!   phi4_mini     <|tool_call|>{..}<|/tool_call|>
//!   mistral       [{"name": .., "arguments": {..}}, ...]
//!   llama3_json   {"name": .., "parameters": {..}}
//!   json          {"name": .., "arguments": {..}}
//! ```

use std::sync::Arc;

use prefix::text::{Chat, Special};
use prefix::Tokenizer;

use super::reader::{Asked, Part, Reader};

/// A way of writing calls.
#[derive(Debug, PartialEq, Eq)]
pub struct Format {
    /// As the option of the command has it.
    pub name: &'static str,
    /// What stands in front of calls, where that may be a text.
    pub marker: &'static str,
    /// Whether calls may come anywhere, since no other text has the marker.
    pub is_marked: bool,
    /// What ends a call, and what stands between its object and both.
    pub end: &'static str,
    pub line: &'static str,
    /// Whether all calls of an answer are one list.
    pub is_list: bool,
    /// What arguments are called; readers take either word.
    pub key: &'static str,
}

impl Format {
    /// The parts of calls as models with this format write them, apart from the objects: before the first, before and
    /// behind each, between two, behind the last.
    pub fn parts(&self) -> Parts {
        let (open, close) = match self.is_marked {
            true => (
                format!("{}{}", self.marker, self.line),
                format!("{}{}", self.line, self.end),
            ),
            false => Default::default(),
        };
        let (first, between, last) = match self.is_list {
            true => ("[", ", ", "]"),
            false => ("", "\n", ""),
        };
        Parts {
            first,
            open,
            close,
            between,
            last,
        }
    }

    /// The beginning of the object of a call, up to its arguments. The names of functions need no escapes.
    pub fn head(&self, name: &str) -> String {
        format!("{{\"name\": \"{name}\", \"{}\": ", self.key)
    }
}

#[derive(Debug)]
pub struct Parts {
    pub first: &'static str,
    pub open: String,
    pub close: String,
    pub between: &'static str,
    pub last: &'static str,
}

const fn plain(name: &'static str, key: &'static str) -> Format {
    Format {
        name,
        marker: "<|python_tag|>",
        is_marked: false,
        end: "",
        line: "",
        is_list: false,
        key,
    }
}

/// In the order in which a template is tried with them.
pub static FORMATS: [Format; 5] = [
    Format {
        name: "hermes",
        marker: "<tool_call>",
        is_marked: true,
        end: "</tool_call>",
        line: "\n",
        is_list: false,
        key: "arguments",
    },
    Format {
        name: "phi4_mini",
        marker: "<|tool_call|>",
        is_marked: true,
        end: "<|/tool_call|>",
        line: "",
        is_list: false,
        key: "arguments",
    },
    Format {
        name: "mistral",
        marker: "[TOOL_CALLS]",
        is_marked: false,
        end: "",
        line: "",
        is_list: true,
        key: "arguments",
    },
    plain("llama3_json", "parameters"),
    plain("json", "arguments"),
];

/// For calls that have to come from a model whose template has no way of its own.
pub static FORCED: &Format = &FORMATS[4];

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
    if !text.contains(&format!("\"{}\"", format.key)) {
        return 0;
    }
    let asked = Asked {
        format,
        names: Arc::new(vec![PROBE.to_string()]),
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
