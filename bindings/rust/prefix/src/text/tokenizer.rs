//! The tokenizer of a model.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use prefix_sys as sys;

use crate::error::{call, Result};
use crate::raw::{path_text, read_array, read_text, text_or_null, Handle, Texts};
use crate::text::{Chat, Prompt};
use crate::{library, Token};

/// What happens to special tokens, such as `<|im_end|>`, when text is encoded, and to what stands for the beginning
/// of a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Special {
    /// Those written in the text are recognised.
    #[default]
    Written,
    /// The same, and what the model wants around a text is added, e.g. bos in front.
    Added,
    /// Those written in the text are plain characters: for text from outside that must not steer the model.
    Literal,
    /// Plain characters as in `Literal`, and what the model wants around a text is added.
    LiteralAdded,
    /// As `Written`, of a text that goes on another, as what is scored after a prompt does: a tokenizer that puts a
    /// space in front of a text puts none here.
    Continues,
    /// Plain characters as in `Literal`, of a text that goes on another.
    LiteralContinues,
}

impl Special {
    fn flags(self) -> i32 {
        match self {
            Special::Written => 0,
            Special::Added => sys::PREFIX_ENCODE_SPECIAL,
            Special::Literal => sys::PREFIX_ENCODE_LITERAL,
            Special::LiteralAdded => sys::PREFIX_ENCODE_SPECIAL | sys::PREFIX_ENCODE_LITERAL,
            Special::Continues => sys::PREFIX_ENCODE_CONTINUES,
            Special::LiteralContinues => sys::PREFIX_ENCODE_CONTINUES | sys::PREFIX_ENCODE_LITERAL,
        }
    }
}

/// Tokens and the bytes of the text that each comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Encoding {
    /// The tokens.
    pub tokens: Vec<Token>,
    /// One range for each token, empty at 0 for those that were added.
    pub ranges: Vec<Range<usize>>,
}

/// A tokenizer with the chat templates of its model. Clones are the same tokenizer; any thread may use it.
#[derive(Debug, Clone)]
pub struct Tokenizer(Arc<Owned>);

#[derive(Debug)]
struct Owned(Handle<sys::prefix_tokenizer>);

// Safety: the header lets any thread call every function of a tokenizer at any time.
unsafe impl Sync for Owned {}

impl Tokenizer {
    /// Opens a `.gguf` file, a Hugging Face directory or a `tokenizer.json`.
    pub fn open(path: impl AsRef<Path>) -> Result<Tokenizer> {
        library::text_ready()?;
        let path = path_text(path.as_ref(), "prefix_tokenizer_open")?;
        // Safety: a text with its length.
        let handle = Handle::create(|out, err| unsafe {
            sys::prefix_tokenizer_open(path.as_ptr().cast(), path.len(), out, err)
        })?;
        Ok(Tokenizer(Arc::new(Owned(handle))))
    }

    /// From the contents of `tokenizer.json` and of `tokenizer_config.json`.
    pub fn from_json(tokenizer: &str, config: Option<&str>) -> Result<Tokenizer> {
        library::text_ready()?;
        let (config, config_len) = text_or_null(config);
        // Safety: texts with their lengths, or NULL with 0.
        let handle = Handle::create(|out, err| unsafe {
            sys::prefix_tokenizer_from_json(
                tokenizer.as_ptr().cast(),
                tokenizer.len(),
                config,
                config_len,
                out,
                err,
            )
        })?;
        Ok(Tokenizer(Arc::new(Owned(handle))))
    }

    /// Where it comes from, its size, special tokens and templates, as JSON.
    pub fn info_json(&self) -> Result<String> {
        // Safety: a live handle and a buffer with its capacity; also below.
        read_text(4096, |buf, cap, needed, err| unsafe {
            sys::prefix_tokenizer_info_json(self.raw(), buf, cap, needed, err)
        })
    }

    /// Tokens are below this number.
    pub fn vocab_size(&self) -> Result<usize> {
        let mut size = 0;
        call(|err| unsafe { sys::prefix_tokenizer_vocab_size(self.raw(), &mut size, err) })?;
        Ok(usize::try_from(size).unwrap_or(0))
    }

    /// The token of a role: `bos`, `eos`, `pad`, `eot`, ... [`Status::NotFound`](crate::Status::NotFound) when the model has none.
    pub fn special_token(&self, role: &str) -> Result<Token> {
        let mut token = 0;
        // Safety: a text with its length; also below.
        call(|err| unsafe {
            sys::prefix_tokenizer_special_token(
                self.raw(),
                role.as_ptr().cast(),
                role.len(),
                &mut token,
                err,
            )
        })?;
        Ok(token)
    }

    /// All tokens after which a generation is over; meant for the option `stop_tokens`.
    pub fn end_tokens(&self) -> Result<Vec<Token>> {
        read_array(16, |out, capacity, needed, err| unsafe {
            sys::prefix_tokenizer_end_tokens(self.raw(), out, capacity, needed, err)
        })
    }

    /// The bytes that a token stands for inside a text; they may be a part of a character.
    pub fn token_bytes(&self, token: Token) -> Result<Vec<u8>> {
        read_array::<u8>(64, |out, capacity, needed, err| unsafe {
            sys::prefix_tokenizer_token_bytes(self.raw(), token, out.cast(), capacity, needed, err)
        })
    }

    /// The token with this name in the vocabulary, e.g. `<|im_end|>`.
    pub fn token_id(&self, name: &str) -> Result<Token> {
        let mut token = 0;
        call(|err| unsafe {
            sys::prefix_tokenizer_token_id(
                self.raw(),
                name.as_ptr().cast(),
                name.len(),
                &mut token,
                err,
            )
        })?;
        Ok(token)
    }

    /// The tokens of a text. Encoding "AB" is not encoding "A" and then "B".
    pub fn encode(&self, text: &str, special: Special) -> Result<Vec<Token>> {
        read_array(token_guess(text), |out, capacity, needed, err| unsafe {
            sys::prefix_tokenizer_encode(
                self.raw(),
                text.as_ptr().cast(),
                text.len(),
                special.flags(),
                out,
                capacity,
                needed,
                err,
            )
        })
    }

    /// The same with the bytes of the text that each token comes from.
    pub fn encode_ranges(&self, text: &str, special: Special) -> Result<Encoding> {
        let mut offsets: Vec<i64> = Vec::new();
        let tokens = read_array(token_guess(text), |out, capacity, needed, err| {
            offsets.resize(2 * capacity, 0);
            unsafe {
                sys::prefix_tokenizer_encode_offsets(
                    self.raw(),
                    text.as_ptr().cast(),
                    text.len(),
                    special.flags(),
                    out,
                    capacity,
                    needed,
                    offsets.as_mut_ptr(),
                    offsets.len(),
                    err,
                )
            }
        })?;
        let ranges = offsets.chunks_exact(2).take(tokens.len());
        let ranges = ranges
            .map(|pair| pair[0] as usize..pair[1] as usize)
            .collect();
        Ok(Encoding { tokens, ranges })
    }

    /// Many texts at once, each on its own. One bad text fails the call; the message says which.
    pub fn encode_batch<T: AsRef<str>>(
        &self,
        texts: &[T],
        special: Special,
    ) -> Result<Vec<Vec<Token>>> {
        let texts = Texts::join(texts);
        let mut ends = vec![0; texts.offsets.len()];
        let guess = texts.bytes.len() + 4 * ends.len();
        let tokens = read_array(guess, |out, capacity, needed, err| unsafe {
            sys::prefix_tokenizer_encode_batch(
                self.raw(),
                texts.start(),
                texts.bytes.len(),
                texts.offsets.as_ptr(),
                texts.offsets.len(),
                special.flags(),
                out,
                capacity,
                needed,
                ends.as_mut_ptr(),
                ends.len(),
                err,
            )
        })?;
        Ok(ends
            .windows(2)
            .map(|pair| tokens[pair[0] as usize..pair[1] as usize].to_vec())
            .collect())
    }

    /// The text of tokens; bytes that are no characters become U+FFFD.
    pub fn decode(&self, tokens: &[Token], skip_special: bool) -> Result<String> {
        let flags = decode_flags(skip_special);
        read_text(8 * tokens.len() + 16, |buf, cap, needed, err| unsafe {
            sys::prefix_tokenizer_decode(
                self.raw(),
                tokens.as_ptr(),
                tokens.len(),
                flags,
                buf,
                cap,
                needed,
                err,
            )
        })
    }

    /// The prompt of a conversation, as the template of the model writes it.
    pub fn chat_text(&self, chat: &Chat) -> Result<String> {
        let messages = chat.messages_json();
        let options = chat.options_json();
        read_text(2 * messages.len() + 256, |buf, cap, needed, err| unsafe {
            sys::prefix_tokenizer_chat_text(
                self.raw(),
                messages.as_ptr().cast(),
                messages.len(),
                options.as_ptr().cast(),
                options.len(),
                buf,
                cap,
                needed,
                err,
            )
        })
    }

    /// The tokens of that text.
    pub fn chat_tokens(&self, chat: &Chat) -> Result<Vec<Token>> {
        self.chat_tokens_into(chat, &mut [])
    }

    /// The same with the places where its turns end.
    pub fn chat_prompt(&self, chat: &Chat) -> Result<Prompt> {
        let mut segments = vec![0; chat.len() + 1];
        let tokens = self.chat_tokens_into(chat, &mut segments)?;
        Ok(Prompt {
            tokens,
            turns: segments.iter().map(|&end| end as usize).collect(),
        })
    }

    fn chat_tokens_into(&self, chat: &Chat, segments: &mut [i64]) -> Result<Vec<Token>> {
        let messages = chat.messages_json();
        let options = chat.options_json();
        let ends = if segments.is_empty() {
            std::ptr::null_mut()
        } else {
            segments.as_mut_ptr()
        };
        read_array(messages.len() + 256, |out, capacity, needed, err| unsafe {
            sys::prefix_tokenizer_chat_tokens(
                self.raw(),
                messages.as_ptr().cast(),
                messages.len(),
                options.as_ptr().cast(),
                options.len(),
                out,
                capacity,
                needed,
                ends,
                segments.len(),
                err,
            )
        })
    }

    pub(crate) fn raw(&self) -> *mut sys::prefix_tokenizer {
        self.0 .0.get()
    }
}

/// A text seldom has more tokens than bytes, plus a few that are added.
fn token_guess(text: &str) -> usize {
    text.len() + 4
}

pub(super) fn decode_flags(skip_special: bool) -> i32 {
    if skip_special {
        sys::PREFIX_DECODE_SKIP_SPECIAL
    } else {
        0
    }
}
