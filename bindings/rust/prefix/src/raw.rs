//! What all modules need to talk to C: owned handles, buffers that grow to the size the library asks for,
//! paths as text.

use std::ffi::c_char;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::ptr::NonNull;

use prefix_sys as sys;

use crate::error::{call, Error, Result, Status};

/// A type of handle and how a reference to it is given back.
pub(crate) trait Release {
    /// # Safety
    /// `handle` is one reference that the caller owns and gives up.
    unsafe fn release(handle: *mut Self);
}

macro_rules! release {
    ($($(#[$meta:meta])* $handle:ident: $function:ident,)*) => {$(
        $(#[$meta])*
        impl Release for sys::$handle {
            unsafe fn release(handle: *mut Self) {
                // Safety: that of the trait.
                unsafe { sys::$function(handle) }
            }
        }
    )*};
}
release! {
    prefix_options: prefix_options_release,
    prefix_pool: prefix_pool_release,
    prefix_engine: prefix_engine_release,
    prefix_constraint: prefix_constraint_release,
    prefix_batch: prefix_batch_release,
    prefix_job: prefix_job_release,
    prefix_queue: prefix_queue_release,
    prefix_source: prefix_source_release,
    #[cfg(feature = "text")]
    prefix_tokenizer: prefix_tokenizer_release,
    #[cfg(feature = "text")]
    prefix_detok: prefix_detok_release,
    #[cfg(feature = "text")]
    prefix_task: prefix_task_release,
}

/// One reference to a handle of the library.
#[derive(Debug)]
pub(crate) struct Handle<T: Release>(NonNull<T>);

// Safety: any thread may release a handle. Which calls may overlap is up to the types around this one: it
// gives out the pointer, and those that must not be shared are not Sync.
unsafe impl<T: Release> Send for Handle<T> {}

impl<T: Release> Handle<T> {
    /// From a function that writes a new handle.
    pub fn create(
        function: impl FnOnce(*mut *mut T, *mut sys::prefix_error) -> sys::prefix_status,
    ) -> Result<Self> {
        let mut out = std::ptr::null_mut();
        call(|err| function(&mut out, err))?;
        NonNull::new(out).map(Handle).ok_or_else(|| {
            Error::new(
                Status::Internal,
                "",
                "the library gave no handle and no reason",
            )
        })
    }

    pub fn get(&self) -> *mut T {
        self.0.as_ptr()
    }
}

impl<T: Release> Drop for Handle<T> {
    fn drop(&mut self) {
        // Safety: the reference that this value owns.
        unsafe { T::release(self.0.as_ptr()) }
    }
}

/// Fills a vector whose length only the library knows: `function(buffer, capacity, needed, error)`, with room
/// for `guess` elements at first.
pub(crate) fn read_array<T: Copy>(
    guess: usize,
    function: impl FnMut(*mut T, usize, *mut usize, *mut sys::prefix_error) -> sys::prefix_status,
) -> Result<Vec<T>> {
    let mut out = Vec::with_capacity(guess);
    read_array_into(&mut out, function)?;
    Ok(out)
}

/// The same into a vector that is there; its contents are replaced.
pub(crate) fn read_array_into<T: Copy>(
    out: &mut Vec<T>,
    mut function: impl FnMut(*mut T, usize, *mut usize, *mut sys::prefix_error) -> sys::prefix_status,
) -> Result<()> {
    out.clear();
    out.reserve(1); // a capacity of 0 would only ask
    loop {
        let mut needed = 0;
        match call(|err| function(out.as_mut_ptr(), out.capacity(), &mut needed, err)) {
            Ok(()) => {
                // Safety: the library has written `needed` elements.
                unsafe { out.set_len(needed) };
                return Ok(());
            }
            Err(error) if error.status() == Status::BufferTooSmall => {}
            Err(error) => return Err(error),
        }
        out.reserve_exact(needed + 1); // text ends with a zero
    }
}

/// The same for text.
pub(crate) fn read_text(
    guess: usize,
    mut function: impl FnMut(
        *mut c_char,
        usize,
        *mut usize,
        *mut sys::prefix_error,
    ) -> sys::prefix_status,
) -> Result<String> {
    let bytes = read_array::<u8>(guess, |out, capacity, needed, err| {
        function(out.cast(), capacity, needed, err)
    })?;
    into_text(bytes)
}

pub(crate) fn into_text(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|_| {
        Error::new(
            Status::Internal,
            "",
            "the library gave text that is not UTF-8",
        )
    })
}

/// Many texts in one buffer: text i is bytes offsets[i] up to offsets[i + 1].
pub(crate) struct Texts {
    pub bytes: String,
    pub offsets: Vec<i64>,
}

impl Texts {
    pub fn join<T: AsRef<str>>(texts: &[T]) -> Texts {
        let size = texts.iter().map(|text| text.as_ref().len()).sum();
        let mut bytes = String::with_capacity(size);
        let mut offsets = Vec::with_capacity(texts.len() + 1);
        offsets.push(0);
        for text in texts {
            bytes.push_str(text.as_ref());
            offsets.push(bytes.len() as i64);
        }
        Texts { bytes, offsets }
    }

    pub fn start(&self) -> *const c_char {
        self.bytes.as_ptr().cast()
    }
}

/// Texts where they lie: their places and their lengths.
pub(crate) struct TextRefs {
    pub starts: Vec<*const c_char>,
    pub lengths: Vec<usize>,
}

impl TextRefs {
    pub fn new<T: AsRef<str>>(texts: &[T]) -> TextRefs {
        // Each is asked once: safe code may answer with a longer text the second time.
        let (starts, lengths) = texts
            .iter()
            .map(AsRef::as_ref)
            .map(|text| (text.as_ptr().cast(), text.len()))
            .unzip();
        TextRefs { starts, lengths }
    }

    pub fn len(&self) -> usize {
        self.starts.len()
    }
}

/// Optional text; NULL with length 0 stands for none.
#[cfg(feature = "text")]
pub(crate) fn text_or_null(text: Option<&str>) -> (*const c_char, usize) {
    text.map_or((std::ptr::null(), 0), |text| {
        (text.as_ptr().cast(), text.len())
    })
}

/// What a function of the program gives; `None` when it panics, of which the hook of panics has told. Nothing goes on
/// from here, through C or in a thread that others wait for: not a panic of what was thrown either, when it is dropped.
pub(crate) fn caught<R>(function: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(function)) {
        Ok(given) => Some(given),
        Err(thrown) => {
            if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(thrown))) {
                std::mem::forget(again);
            }
            None
        }
    }
}

/// The library takes paths as UTF-8.
pub(crate) fn path_text<'a>(path: &'a Path, function: &str) -> Result<&'a str> {
    path.to_str().ok_or_else(|| {
        let message = format!("the path {} is not UTF-8", path.display());
        Error::new(Status::InvalidUtf8, function, message)
    })
}

/// Counters are never negative.
pub(crate) fn count(number: i64) -> u64 {
    number.max(0) as u64
}

/// The library has no more bytes than fit its numbers.
pub(crate) fn bytes(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Times as the library takes them: milliseconds, -1 without limit.
pub(crate) fn milliseconds(time: std::time::Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// The same of a limit: 0 stands for none, so a time below a millisecond is 1.
pub(crate) fn limit_ms(time: std::time::Duration) -> i64 {
    milliseconds(time).max(i64::from(!time.is_zero()))
}

/// A struct of counters with the fields of one of the library, all of them.
macro_rules! mirror {
    ($(#[$meta:meta])* $name:ident = $c:ident { $($(#[$about:meta])* $field:ident,)* }) => {
        $(#[$meta])*
        #[non_exhaustive]
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$about])* pub $field: u64,)*
        }

        impl From<prefix_sys::$c> for $name {
            fn from(c: prefix_sys::$c) -> Self {
                // Without "..": a field that the header gains must be added here.
                let prefix_sys::$c { struct_size: _, reserved: _, $($field,)* } = c;
                $name { $($field: $crate::raw::count($field),)* }
            }
        }
    };
}
pub(crate) use mirror;

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::{caught, TextRefs};

    /// Answers with a longer text each time.
    struct Growing(Cell<usize>);

    static TEXTS: [&str; 3] = ["a", "a longer", "a text that is the longest"];

    impl AsRef<str> for Growing {
        fn as_ref(&self) -> &str {
            TEXTS[self.0.replace(self.0.get() + 1)]
        }
    }

    #[test]
    fn lengths_are_those_of_the_texts_at_their_places() {
        let refs = TextRefs::new(&[Growing(Cell::new(0)), Growing(Cell::new(1))]);
        let starts: Vec<_> = TEXTS[..2].iter().map(|text| text.as_ptr().cast()).collect();
        assert_eq!(refs.starts, starts);
        assert_eq!(refs.lengths, [TEXTS[0].len(), TEXTS[1].len()]);
    }

    /// What a panic throws may panic when it is dropped.
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::panic_any(Bomb);
        }
    }

    #[test]
    fn a_panic_goes_no_further() {
        assert_eq!(caught(|| 7), Some(7));
        assert_eq!(caught(|| -> i32 { std::panic::panic_any(Bomb) }), None);
    }
}
