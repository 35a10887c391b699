//! What went wrong, as the library says it.

use std::ffi::{c_char, CStr};
use std::fmt;
use std::io;

use prefix_sys as sys;
use prefix_sys::Init;

/// `Result` with the [`Error`] of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! statuses {
    ($($(#[$meta:meta])* $name:ident = $constant:ident,)*) => {
        /// What kind of failure: the `PREFIX_ERR_` constants of `prefix.h`, and `Ok`.
        #[non_exhaustive]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Status {
            $($(#[$meta])* $name,)*
            /// A number of a library that is newer than this crate.
            Other(i32),
        }

        impl Status {
            /// From the number in `prefix.h`.
            pub fn from_code(code: i32) -> Status {
                match code {
                    $(sys::$constant => Status::$name,)*
                    other => Status::Other(other),
                }
            }

            /// The number in `prefix.h`.
            pub fn code(self) -> i32 {
                match self {
                    $(Status::$name => sys::$constant,)*
                    Status::Other(code) => code,
                }
            }

            /// The name in `prefix.h`, for instance `PREFIX_ERR_FORMAT`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Status::$name => stringify!($constant),)*
                    Status::Other(_) => "PREFIX_ERR_UNKNOWN",
                }
            }
        }
    };
}

statuses! {
    /// No failure.
    Ok = PREFIX_OK,
    /// An empty list, or a value that makes no sense.
    InvalidArgument = PREFIX_ERR_INVALID_ARGUMENT,
    /// Text that is not UTF-8.
    InvalidUtf8 = PREFIX_ERR_INVALID_UTF8,
    /// No such option; the message may name one like it.
    UnknownOption = PREFIX_ERR_UNKNOWN_OPTION,
    /// A number outside its limits.
    OutOfRange = PREFIX_ERR_OUT_OF_RANGE,
    /// A struct of these bindings is smaller than the first layout.
    StructTooOld = PREFIX_ERR_STRUCT_TOO_OLD,
    /// Never from this crate, which asks again with more room.
    BufferTooSmall = PREFIX_ERR_BUFFER_TOO_SMALL,
    /// The wrong moment: a result that is not there yet, an engine that is shut down.
    Misuse = PREFIX_ERR_MISUSE,
    /// Called in the child of a `fork()`.
    Forked = PREFIX_ERR_FORKED,
    /// No such file, namespace, result.
    NotFound = PREFIX_ERR_NOT_FOUND,
    /// The system could not read or write.
    Io = PREFIX_ERR_IO,
    /// A corrupt or contradictory file.
    Format = PREFIX_ERR_FORMAT,
    /// A valid model that the library does not run.
    UnsupportedModel = PREFIX_ERR_UNSUPPORTED_MODEL,
    /// This machine lacks what was asked for.
    UnsupportedDevice = PREFIX_ERR_UNSUPPORTED_DEVICE,
    /// A snapshot of another model or version.
    IncompatibleSnapshot = PREFIX_ERR_INCOMPATIBLE_SNAPSHOT,
    /// More tokens than the context holds.
    PromptTooLong = PREFIX_ERR_PROMPT_TOO_LONG,
    /// The model computed a NaN or an infinity for this request.
    NotFinite = PREFIX_ERR_NOT_FINITE,
    /// Memory ran out.
    OutOfMemory = PREFIX_ERR_OUT_OF_MEMORY,
    /// The memory of a device ran out.
    OutOfDeviceMemory = PREFIX_ERR_OUT_OF_DEVICE_MEMORY,
    /// `cache_bytes` is too small for the request.
    CacheFull = PREFIX_ERR_CACHE_FULL,
    /// Too many unfinished requests; try again later.
    QueueFull = PREFIX_ERR_QUEUE_FULL,
    /// A wait that ran out.
    Timeout = PREFIX_ERR_TIMEOUT,
    /// Cancelled by the program.
    Cancelled = PREFIX_ERR_CANCELLED,
    /// The `deadline_ms` of a request has passed.
    Deadline = PREFIX_ERR_DEADLINE,
    /// A device disappeared.
    DeviceLost = PREFIX_ERR_DEVICE_LOST,
    /// An earlier internal failure; open a new engine.
    EngineFailed = PREFIX_ERR_ENGINE_FAILED,
    /// Nothing to poll now.
    NoEvent = PREFIX_ERR_NO_EVENT,
    /// A bug in the library.
    Internal = PREFIX_ERR_INTERNAL,
}

impl Status {
    /// Whether the same call may succeed later.
    pub fn is_retryable(self) -> bool {
        matches!(self, Status::QueueFull | Status::Timeout | Status::NoEvent)
    }

    /// The nearest kind of the standard library: `NotFound`, `InvalidInput` for arguments and options, `InvalidData`
    /// for files and text, `Unsupported` for models and devices, `TimedOut`, `WouldBlock` for what may succeed later,
    /// `OutOfMemory`; `Other` for the rest.
    pub fn kind(self) -> io::ErrorKind {
        use io::ErrorKind;
        match self {
            Status::NotFound => ErrorKind::NotFound,
            Status::InvalidArgument
            | Status::UnknownOption
            | Status::OutOfRange
            | Status::PromptTooLong => ErrorKind::InvalidInput,
            Status::InvalidUtf8 | Status::Format | Status::IncompatibleSnapshot => {
                ErrorKind::InvalidData
            }
            Status::UnsupportedModel | Status::UnsupportedDevice => ErrorKind::Unsupported,
            Status::Timeout | Status::Deadline => ErrorKind::TimedOut,
            Status::QueueFull | Status::NoEvent => ErrorKind::WouldBlock,
            Status::OutOfMemory | Status::OutOfDeviceMemory | Status::CacheFull => {
                ErrorKind::OutOfMemory
            }
            _ => ErrorKind::Other,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Status::Other(code) => write!(f, "{} ({code})", self.name()),
            _ => f.write_str(self.name()),
        }
    }
}

/// A failed call, or a failed request of a batch.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    code: i32,
    message: String,
    function: String,
    partial_texts: Vec<String>,
}

impl Error {
    pub(crate) fn new(status: Status, function: &str, message: impl Into<String>) -> Error {
        Error {
            code: status.code(),
            message: message.into(),
            function: function.into(),
            partial_texts: Vec::new(),
        }
    }

    #[cfg(feature = "text")]
    pub(crate) fn with_partial_texts(mut self, texts: Vec<String>) -> Error {
        self.partial_texts = texts;
        self
    }

    /// The kind of failure, to match on.
    pub fn status(&self) -> Status {
        Status::from_code(self.code)
    }

    /// The number of [`status`](Error::status) in `prefix.h`.
    pub fn code(&self) -> i32 {
        self.code
    }

    /// The [`Status::kind`], as an [`std::io::Error`] has it, which is made from an error by `into()` or `?`.
    pub fn kind(&self) -> io::ErrorKind {
        self.status().kind()
    }

    /// One sentence, with the value and the limit that it broke.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The function of the library that failed.
    pub fn function(&self) -> &str {
        &self.function
    }

    /// What there is of the texts that `chat`, `generate` or `answer` did not finish, as where a deadline passed: of the
    /// error of an item that one, of the error of a call all of them; "" where nothing was begun. None for other calls.
    pub fn partial_texts(&self) -> &[String] {
        &self.partial_texts
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.message.is_empty() {
            write!(f, "{}", self.status())
        } else {
            write!(f, "{} ({})", self.message, self.status())
        }
    }
}

/// What `unwrap` and a `main` that returns an error print: the function, and the sentence.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {self}", self.function)
    }
}

impl std::error::Error for Error {}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        io::Error::new(error.kind(), error)
    }
}

/// Makes a call that takes a `prefix_error*`.
pub(crate) fn call(
    function: impl FnOnce(*mut sys::prefix_error) -> sys::prefix_status,
) -> Result<()> {
    let mut error = sys::prefix_error::init();
    let status = function(&mut error);
    if status == sys::PREFIX_OK {
        return Ok(());
    }
    Err(Error {
        code: status,
        message: text(&error.message),
        function: text(&error.domain),
        partial_texts: Vec::new(),
    })
}

/// Text that ends in zero or with its array.
fn text(chars: &[c_char]) -> String {
    let bytes: Vec<u8> = chars
        .iter()
        .map(|&c| c as u8)
        .take_while(|&b| b != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A static text of the library; NULL is "".
pub(crate) fn static_text(text: *const c_char) -> &'static str {
    if text.is_null() {
        return "";
    }
    // Safety: the header says that it is static, UTF-8, and ends in zero.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("")
}
