//! Errors of the library: a status code of `prefix.h` and one sentence that names the value and the
//! limit that it broke.

use std::fmt;

/// Status codes; the numbers are those of `prefix.h` and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    InvalidArgument = 100,
    InvalidUtf8 = 101,
    UnknownOption = 102,
    OutOfRange = 103,
    StructTooOld = 104,
    Misuse = 200,
    Forked = 201,
    NotFound = 300,
    Io = 301,
    Format = 400,
    UnsupportedModel = 401,
    UnsupportedDevice = 402,
    PromptTooLong = 500,
    NotFinite = 501,
    OutOfMemory = 600,
    CacheFull = 602,
    QueueFull = 700,
    Timeout = 701,
    Cancelled = 702,
    DeviceLost = 800,
    EngineFailed = 801,
    Internal = 1000,
}

impl Code {
    /// From a status of libprefix. One that this library does not know is reported as internal.
    pub fn from_status(status: i32) -> Code {
        use Code::*;
        [
            InvalidArgument,
            InvalidUtf8,
            UnknownOption,
            OutOfRange,
            StructTooOld,
            Misuse,
            Forked,
            NotFound,
            Io,
            Format,
            UnsupportedModel,
            UnsupportedDevice,
            PromptTooLong,
            NotFinite,
            OutOfMemory,
            CacheFull,
            QueueFull,
            Timeout,
            Cancelled,
            DeviceLost,
            EngineFailed,
        ]
        .into_iter()
        .find(|code| *code as i32 == status)
        .unwrap_or(Internal)
    }
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
    pub fn io(path: &std::path::Path, error: &std::io::Error) -> Self {
        let code = if error.kind() == std::io::ErrorKind::NotFound {
            Code::NotFound
        } else {
            Code::Io
        };
        Self::new(code, format!("{}: {error}", quote(&path.to_string_lossy())))
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
    const MOST: usize = 80;
    let mut out = String::from("\"");
    for (i, c) in text.chars().enumerate() {
        if i == MOST {
            out.push_str("...");
            break;
        }
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out.push('"');
    out
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
