//! How models write calls of tools.
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
