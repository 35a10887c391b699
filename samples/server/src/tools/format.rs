//! How models write calls of tools.
//!
//! ```text
//!   hermes        text <tool_call>        a special token is in no text: of Mistral's [TOOL_CALLS], of Llama's
//!                 {"name": .., "arguments": {..}}       <|python_tag|> and of LFM's <|tool_call_start|> nothing is left,
//!                 </tool_call> ...                      so that a call of theirs is known by where it stands, at the
//!   phi4_mini     <|tool_call|>{..}<|/tool_call|>       front, and by its form
//!   nemotron_json <TOOLCALL>[{..}, ..]</TOOLCALL>
//!   mistral       [{"name": .., "arguments": {..}}, ...]
//!   llama3_json   {"name": .., "parameters": {..}}
//!   json          {"name": .., "arguments": {..}}
//!   qwen3_coder   text <tool_call>
//!                 <function=..><parameter=..>value</parameter> ..</function>
//!                 </tool_call> ...
//!   olmo3         text <function_calls>
//!                 name(argument=value, ..)
//!                 </function_calls> ...
//!   pythonic      [name(argument=value, ..), ...]
//! ```

/// What a call is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    Json,
    /// With a tag for each argument, whose value is a text.
    Tags,
    /// As Python calls a function.
    Python,
}

/// A way of writing calls.
#[derive(Debug, PartialEq, Eq)]
pub struct Format {
    /// As the option of the command has it.
    pub name: &'static str,
    pub body: Body,
    /// What stands in front of calls, where that may be a text.
    pub marker: &'static str,
    /// Whether calls may come anywhere, since no other text has the marker.
    pub is_marked: bool,
    /// What ends a call, and what stands between it and both.
    pub end: &'static str,
    pub line: &'static str,
    /// Whether all calls of an answer are one list.
    pub is_list: bool,
    /// What JSON calls arguments; readers take either word.
    pub key: &'static str,
}

impl Format {
    /// The way in which calls are written that have to come: this one, or that of a model without a way of its own.
    pub fn forced(&'static self) -> &'static Format {
        match self.body {
            Body::Json => self,
            Body::Tags | Body::Python => FORCED,
        }
    }

    /// Whether a grammar can keep calls among text.
    pub fn keeps_calls(&self) -> bool {
        self.is_marked && !self.is_list && self.body == Body::Json
    }

    /// Whether other calls may stand between a marker and its end.
    pub fn repeats(&self) -> bool {
        self.is_marked && self.body != Body::Json
    }

    /// The parts of calls as models with this format write them, apart from the objects: before the first, before and
    /// behind each, between two, behind the last.
    pub fn parts(&self) -> Parts {
        let (begin, end) = match self.is_marked {
            true => (
                format!("{}{}", self.marker, self.line),
                format!("{}{}", self.line, self.end),
            ),
            false => Default::default(),
        };
        match self.is_list {
            true => Parts {
                first: begin + "[",
                open: String::new(),
                close: String::new(),
                between: ", ",
                last: "]".to_string() + &end,
            },
            false => Parts {
                first: String::new(),
                open: begin,
                close: end,
                between: "\n",
                last: String::new(),
            },
        }
    }

    /// The beginning of the object of a call, up to its arguments. The names of functions need no escapes.
    pub fn head(&self, name: &str) -> String {
        format!("{{\"name\": \"{name}\", \"{}\": ", self.key)
    }
}

#[derive(Debug)]
pub struct Parts {
    pub first: String,
    pub open: String,
    pub close: String,
    pub between: &'static str,
    pub last: String,
}

const fn plain(name: &'static str, key: &'static str) -> Format {
    Format {
        name,
        body: Body::Json,
        marker: "<|python_tag|>",
        is_marked: false,
        end: "",
        line: "",
        is_list: false,
        key,
    }
}

const fn marked(name: &'static str, marker: &'static str, end: &'static str) -> Format {
    Format {
        name,
        body: Body::Json,
        marker,
        is_marked: true,
        end,
        line: "",
        is_list: false,
        key: "arguments",
    }
}

/// In the order in which a template is tried with them.
pub static FORMATS: [Format; 9] = [
    Format {
        line: "\n",
        ..marked("hermes", "<tool_call>", "</tool_call>")
    },
    marked("phi4_mini", "<|tool_call|>", "<|/tool_call|>"),
    Format {
        is_list: true,
        ..marked("nemotron_json", "<TOOLCALL>", "</TOOLCALL>")
    },
    Format {
        marker: "[TOOL_CALLS]",
        is_list: true,
        ..plain("mistral", "arguments")
    },
    plain("llama3_json", "parameters"),
    plain("json", "arguments"),
    Format {
        body: Body::Tags,
        line: "\n",
        ..marked("qwen3_coder", "<tool_call>", "</tool_call>")
    },
    Format {
        body: Body::Python,
        line: "\n",
        ..marked("olmo3", "<function_calls>", "</function_calls>")
    },
    Format {
        body: Body::Python,
        marker: "<|tool_call_start|>",
        end: "",
        is_list: true,
        ..plain("pythonic", "")
    },
];

/// For calls that have to come from a model whose template has no way of its own, or one that no form keeps.
pub static FORCED: &Format = &FORMATS[5];
