//! Errors of the library: a status code of `prefix.h` and one sentence that names the value and the
//! limit that it broke.

use crate::prefix_h;
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

macro_rules! codes {
    ($($name:ident = $status:ident,)*) => {
        /// Status codes of `prefix.h`: those that this library gives, or passes on from libprefix.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(i32)]
        pub enum Code {
            $($name = prefix_h::$status,)*
        }

        impl Code {
            /// From a status of libprefix. One that is not known here is reported as internal.
            pub fn from_status(status: i32) -> Code {
                match status {
                    $(prefix_h::$status => Code::$name,)*
                    _ => Code::Internal,
                }
            }
        }
    };
}

codes! {
    InvalidArgument = PREFIX_ERR_INVALID_ARGUMENT,
    InvalidUtf8 = PREFIX_ERR_INVALID_UTF8,
    UnknownOption = PREFIX_ERR_UNKNOWN_OPTION,
    OutOfRange = PREFIX_ERR_OUT_OF_RANGE,
    StructTooOld = PREFIX_ERR_STRUCT_TOO_OLD,
    BufferTooSmall = PREFIX_ERR_BUFFER_TOO_SMALL,
    Misuse = PREFIX_ERR_MISUSE,
    Forked = PREFIX_ERR_FORKED,
    NotFound = PREFIX_ERR_NOT_FOUND,
    Io = PREFIX_ERR_IO,
    Format = PREFIX_ERR_FORMAT,
    UnsupportedModel = PREFIX_ERR_UNSUPPORTED_MODEL,
    UnsupportedDevice = PREFIX_ERR_UNSUPPORTED_DEVICE,
    PromptTooLong = PREFIX_ERR_PROMPT_TOO_LONG,
    NotFinite = PREFIX_ERR_NOT_FINITE,
    OutOfMemory = PREFIX_ERR_OUT_OF_MEMORY,
    CacheFull = PREFIX_ERR_CACHE_FULL,
    QueueFull = PREFIX_ERR_QUEUE_FULL,
    Timeout = PREFIX_ERR_TIMEOUT,
    Cancelled = PREFIX_ERR_CANCELLED,
    Deadline = PREFIX_ERR_DEADLINE,
    DeviceLost = PREFIX_ERR_DEVICE_LOST,
    EngineFailed = PREFIX_ERR_ENGINE_FAILED,
    NoEvent = PREFIX_ERR_NO_EVENT,
    Internal = PREFIX_ERR_INTERNAL,
}

#[derive(Clone, Debug)]
pub struct Error {
    pub code: Code,
    pub message: String,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Error {
            code,
            message: message.into(),
        }
    }

    pub fn argument(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    pub fn format(message: impl Into<String>) -> Self {
        Self::new(Code::Format, message)
    }

    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(Code::UnsupportedModel, message)
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Code::NotFound, message)
    }

    pub fn range(message: impl Into<String>) -> Self {
        Self::new(Code::OutOfRange, message)
    }

    /// The system could not open or read `path`.
    pub fn io(path: &Path, error: &std::io::Error) -> Self {
        let code = match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => Code::NotFound,
            _ => Code::Io,
        };
        Self::new(code, format!("{}: {error}", quote_path(path)))
    }

    /// The same error with the place where it happened in front.
    pub fn within(self, place: &str) -> Self {
        Error {
            message: format!("{place}: {}", self.message),
            ..self
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Text from a file or a caller, fit for a message: quoted, without control characters, and short.
pub fn quote(text: &str) -> String {
    quote_most(text, 80)
}

/// Paths come from the caller, who must be able to find the file: more of them is shown.
pub fn quote_path(path: &Path) -> String {
    quote_most(&path.to_string_lossy(), 1024)
}

fn quote_most(text: &str, most: usize) -> String {
    let mut out = String::from("\"");
    for (i, c) in text.chars().enumerate() {
        if i == most {
            out.push_str("...");
            break;
        }
        push_printable(&mut out, c);
    }
    out.push('"');
    out
}

/// Some names of a list.
pub fn quote_all(names: &[&str]) -> String {
    const MOST: usize = 8;
    let mut all: Vec<String> = names.iter().take(MOST).map(|name| quote(name)).collect();
    if names.len() > MOST {
        all.push(format!("{} more", names.len() - MOST));
    }
    all.join(", ")
}

/// A message as it goes out. Parts of it may come from a file or from a crate that repeats what it
/// read; no terminal shall obey them.
pub fn printable(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    message.chars().for_each(|c| push_printable(&mut out, c));
    out
}

fn push_printable(out: &mut String, c: char) {
    // Besides control characters, those that turn the direction of a line.
    if c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}') {
        out.extend(c.escape_default());
    } else {
        out.push(c);
    }
}

/// The known name that is nearest to a misspelt one, if it is near at all.
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let distance = |a: &str, b: &str| -> usize {
        let b: Vec<char> = b.chars().collect();
        let mut row: Vec<usize> = (0..=b.len()).collect();
        for (i, ca) in a.chars().enumerate() {
            let mut diagonal = row[0];
            row[0] = i + 1;
            for (j, cb) in b.iter().enumerate() {
                let next = (diagonal + usize::from(ca != *cb))
                    .min(row[j] + 1)
                    .min(row[j + 1] + 1);
                diagonal = row[j + 1];
                row[j + 1] = next;
            }
        }
        row[b.len()]
    };
    if name.len() > 64 {
        return None;
    }
    known
        .iter()
        .map(|k| (distance(name, k), *k))
        .min()
        .filter(|(d, k)| *d <= k.len() / 2)
        .map(|(_, k)| k)
}
