//! The C functions as a C program calls them, with Rust types around for the tests.

use prefix_text::ffi::*;
use std::ffi::c_char;
use std::ptr::{null, null_mut};

pub const INVALID_ARGUMENT: i32 = 100;
pub const INVALID_UTF8: i32 = 101;
pub const UNKNOWN_OPTION: i32 = 102;
pub const OUT_OF_RANGE: i32 = 103;
pub const BUFFER_TOO_SMALL: i32 = 105;
pub const MISUSE: i32 = 200;
pub const NOT_FOUND: i32 = 300;
pub const IO: i32 = 301;
pub const FORMAT: i32 = 400;
pub const UNSUPPORTED_MODEL: i32 = 401;

#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    pub code: i32,
    pub domain: String,
    pub message: String,
}

pub type Outcome<T> = Result<T, Failure>;

fn zero_terminated(text: &[c_char]) -> String {
    let end = text.iter().position(|c| *c == 0).expect("no zero");
    let bytes = text[..end].iter().map(|c| *c as u8).collect();
    String::from_utf8(bytes).expect("a message that is not UTF-8")
}

/// One call. The status and the code in the error agree, and an error is written on failure only.
pub fn call(function: impl FnOnce(*mut PrefixError) -> i32) -> Outcome<()> {
    let mut error = PrefixError::new();
    let status = function(&mut error);
    assert_eq!(status, error.code, "{}", error.text());
    if status == PREFIX_OK {
        assert_eq!(error.message[0], 0);
        return Ok(());
    }
    let failure = Failure {
        code: status,
        domain: zero_terminated(&error.domain),
        message: zero_terminated(&error.message),
    };
    assert!(!failure.message.is_empty(), "{failure:?}");
    assert_ne!(status, 1000, "{failure:?}"); // PREFIX_ERR_INTERNAL is a bug in any test
    Err(failure)
}

/// First asks for the size, then for the content.
pub fn sized<T: Default + Clone>(
    mut function: impl FnMut(*mut T, usize, *mut usize, *mut PrefixError) -> i32,
) -> Outcome<Vec<T>> {
    let mut needed = 0;
    call(|err| function(null_mut(), 0, &mut needed, err))?;
    let mut out = vec![T::default(); needed + 1]; // text ends with a zero
    let mut again = usize::MAX;
    call(|err| function(out.as_mut_ptr(), out.len(), &mut again, err))?;
    assert_eq!(needed, again);
    out.truncate(needed);
    Ok(out)
}

/// With a buffer of `cap` elements, and again when that was too small.
pub fn filled<T: Default + Clone>(
    cap: usize,
    mut function: impl FnMut(*mut T, usize, *mut usize, *mut PrefixError) -> i32,
) -> Outcome<Vec<T>> {
    let mut out = vec![T::default(); cap];
    loop {
        let mut needed = 0;
        match call(|err| function(out.as_mut_ptr(), out.len(), &mut needed, err)) {
            Err(e) if e.code == BUFFER_TOO_SMALL => out.resize(needed + 1, T::default()),
            Err(e) => return Err(e),
            Ok(()) => {
                out.truncate(needed);
                return Ok(out);
            }
        }
    }
}

pub struct Tokenizer(pub *mut PrefixTokenizer);

// Handles may be used from any thread.
unsafe impl Send for Tokenizer {}
unsafe impl Sync for Tokenizer {}

impl Drop for Tokenizer {
    fn drop(&mut self) {
        unsafe { prefix_tokenizer_release(self.0) };
    }
}

impl Tokenizer {
    pub fn open(path: &str) -> Outcome<Self> {
        let mut out = null_mut();
        call(|err| unsafe { prefix_tokenizer_open(path.as_ptr(), path.len(), &mut out, err) })?;
        Ok(Tokenizer(out))
    }

    pub fn from_json(json: &[u8], config: &[u8]) -> Outcome<Self> {
        let mut out = null_mut();
        let config_at = if config.is_empty() {
            null()
        } else {
            config.as_ptr()
        };
        call(|err| unsafe {
            prefix_tokenizer_from_json(
                json.as_ptr(),
                json.len(),
                config_at,
                config.len(),
                &mut out,
                err,
            )
        })?;
        Ok(Tokenizer(out))
    }

    /// With a chat template and nothing else of note.
    pub fn with_template(template: &str) -> Outcome<Self> {
        let config =
            serde_json::json!({"chat_template": template, "bos_token": "<s>", "eos_token": "</s>"});
        Self::from_json(
            super::fixture("llama2").as_bytes(),
            config.to_string().as_bytes(),
        )
    }

    pub fn vocab_size(&self) -> i64 {
        let mut size = -1;
        call(|err| unsafe { prefix_tokenizer_vocab_size(self.0, &mut size, err) }).unwrap();
        size
    }

    pub fn info(&self) -> serde_json::Value {
        let bytes = sized(|out, cap, needed, err| unsafe {
            prefix_tokenizer_info_json(self.0, out, cap, needed, err)
        })
        .unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    /// In one call, which nearly all texts allow: most have fewer tokens than bytes.
    pub fn encode(&self, text: &[u8], flags: i32) -> Outcome<Vec<i32>> {
        filled(text.len() + 8, |out, cap, needed, err| unsafe {
            prefix_tokenizer_encode(
                self.0,
                text.as_ptr(),
                text.len(),
                flags,
                out,
                cap,
                needed,
                err,
            )
        })
    }

    pub fn encode_offsets(&self, text: &[u8], flags: i32) -> Outcome<(Vec<i32>, Vec<i64>)> {
        let mut most = text.len() + 8;
        loop {
            let (mut out, mut offsets) = (vec![0; most], vec![0; 2 * most]);
            let mut needed = 0;
            let done = call(|err| unsafe {
                prefix_tokenizer_encode_offsets(
                    self.0,
                    text.as_ptr(),
                    text.len(),
                    flags,
                    out.as_mut_ptr(),
                    out.len(),
                    &mut needed,
                    offsets.as_mut_ptr(),
                    offsets.len(),
                    err,
                )
            });
            match done {
                Err(e) if e.code == BUFFER_TOO_SMALL => most = needed,
                Err(e) => return Err(e),
                Ok(()) => {
                    out.truncate(needed);
                    offsets.truncate(2 * needed);
                    return Ok((out, offsets));
                }
            }
        }
    }

    /// In one call where 8 bytes for each token are enough.
    pub fn decode(&self, tokens: &[i32], flags: i32) -> Outcome<String> {
        let bytes = filled(8 * tokens.len() + 64, |out, cap, needed, err| unsafe {
            prefix_tokenizer_decode(
                self.0,
                tokens.as_ptr(),
                tokens.len(),
                flags,
                out,
                cap,
                needed,
                err,
            )
        })?;
        Ok(String::from_utf8(bytes).expect("decoded text is UTF-8"))
    }

    /// In one call where 64 KiB are enough: rendering can be long.
    pub fn chat_text(&self, messages: &str, options: &str) -> Outcome<String> {
        let bytes = filled(1 << 16, |out, cap, needed, err| unsafe {
            prefix_tokenizer_chat_text(
                self.0,
                messages.as_ptr(),
                messages.len(),
                options.as_ptr(),
                options.len(),
                out,
                cap,
                needed,
                err,
            )
        })?;
        Ok(String::from_utf8(bytes).expect("a prompt is UTF-8"))
    }

    pub fn chat_tokens(
        &self,
        messages: &str,
        options: &str,
        n_messages: usize,
    ) -> Outcome<(Vec<i32>, Vec<i64>)> {
        let mut segments = vec![-1; n_messages + 1];
        let tokens = sized(|out, cap, needed, err| unsafe {
            prefix_tokenizer_chat_tokens(
                self.0,
                messages.as_ptr(),
                messages.len(),
                options.as_ptr(),
                options.len(),
                out,
                cap,
                needed,
                segments.as_mut_ptr(),
                segments.len(),
                err,
            )
        })?;
        Ok((tokens, segments))
    }
}

/// A stream of tokens.
pub struct Detok(pub *mut PrefixDetok);

impl Drop for Detok {
    fn drop(&mut self) {
        unsafe { prefix_detok_release(self.0) };
    }
}

impl Detok {
    pub fn new(tokenizer: &Tokenizer, flags: i32) -> Self {
        let mut out = null_mut();
        call(|err| unsafe { prefix_detok_create(tokenizer.0, flags, &mut out, err) }).unwrap();
        Detok(out)
    }

    pub fn push(&self, tokens: &[i32]) -> Outcome<String> {
        let bytes = sized(|out, cap, needed, err| unsafe {
            prefix_detok_push(self.0, tokens.as_ptr(), tokens.len(), out, cap, needed, err)
        })?;
        Ok(String::from_utf8(bytes).expect("streamed text is UTF-8"))
    }

    pub fn flush(&self) -> Outcome<String> {
        let bytes = sized(|out, cap, needed, err| unsafe {
            prefix_detok_flush(self.0, out, cap, needed, err)
        })?;
        Ok(String::from_utf8(bytes).expect("streamed text is UTF-8"))
    }
}
