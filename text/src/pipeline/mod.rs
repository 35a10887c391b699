//! The tokenizers crate, kept within limits.
//!
//! A tokenizer.json describes a pipeline. Each part of it is read here, checked, and becomes steps of
//! ours around the crate's own, so that what happens between two steps can be measured:
//!
//! ```text
//!   text -> [added tokens] -> Normalizer -> PreTokenizer -> Model -> PostProcessor -> tokens
//!                              step, step    step, step     word, word
//!                                  \_____________\____________\____ meter: bytes, memory, time
//! ```
//!
//! Files come with models and are untrusted: a few lines can ask for terabytes or for years. What may
//! be used follows from the length of the text (`meter`). A step whose worst case there is no memory
//! for is not begun, since the crate would end the process.

mod assemble;
mod decoder;
mod fields;
mod json;
pub mod meter;
mod model;
mod normalizer;
mod pattern;
mod post_processor;
mod pre_tokenizer;
mod sentence_piece;

pub use assemble::{add_tokens, assemble, continuing, Normalization, Parts, Tokenizer};
pub use decoder::Decoder;
pub use json::{from_json, room_for};
pub use model::{Bpe, Model};
pub use normalizer::Normalizer;
pub use pre_tokenizer::{byte_level, PreTokenizer};
pub use sentence_piece::{byte_of_token, CharsMap, Kind, Rules, SentencePiece, Vocabulary};
