//! Text that arrives piece by piece.

use prefix_sys as sys;

use super::tokenizer::decode_flags;
use crate::error::Result;
use crate::raw::{read_text, Handle};
use crate::{Token, Tokenizer};

/// Text of tokens that arrive one by one, never cutting a character: the pieces of
/// [`push`](Detokenizer::push) and the one of [`flush`](Detokenizer::flush) add up to [`Tokenizer::decode`].
#[derive(Debug)]
pub struct Detokenizer(Handle<sys::prefix_detok>);

impl Tokenizer {
    /// Text of tokens that arrive one by one, never cutting a character.
    pub fn detok(&self, skip_special: bool) -> Result<Detokenizer> {
        Detokenizer::new(self, decode_flags(skip_special))
    }
}

impl Detokenizer {
    fn new(tokenizer: &Tokenizer, flags: i32) -> Result<Detokenizer> {
        // Safety: a live handle.
        Handle::create(|out, err| unsafe {
            sys::prefix_detok_create(tokenizer.raw(), flags, out, err)
        })
        .map(Detokenizer)
    }

    /// Takes tokens and returns the text that has become complete, often none.
    pub fn push(&mut self, tokens: &[Token]) -> Result<String> {
        // Safety: &mut self, so no other call on this handle; an array and a buffer with their sizes.
        read_text(16 * tokens.len() + 64, |buf, cap, needed, err| unsafe {
            sys::prefix_detok_push(
                self.0.get(),
                tokens.as_ptr(),
                tokens.len(),
                buf,
                cap,
                needed,
                err,
            )
        })
    }

    /// The end of the stream: the rest of the text. Then the next stream may begin.
    pub fn flush(&mut self) -> Result<String> {
        // Safety: as above.
        read_text(64, |buf, cap, needed, err| unsafe {
            sys::prefix_detok_flush(self.0.get(), buf, cap, needed, err)
        })
    }
}
