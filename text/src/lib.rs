//! The text library of libprefix: tokenizers and chat templates behind `include/prefix_text.h`.
//!
//! `ffi` holds the C functions, `engine` calls those of libprefix, which `prefix_h` declares: nearly all
//! `unsafe` is in these and in `memory`, a reserve for when the system has none; everything else is safe Rust that
//! knows nothing of C. `load` and `gguf` read files, `text`, `renamed`, `pieces` and `detok` convert between text and
//! tokens, `chat` renders templates, `constraint` keeps what is written to rules, `tasks` runs ready-made work on an
//! engine of libprefix. No module uses one that uses it.

mod chat;
mod constraint;
mod detok;
mod engine;
mod error;
pub mod ffi;
mod gguf;
mod json;
mod load;
mod memory;
mod panics;
mod pieces;
mod pipeline;
mod prefix_h;
#[cfg(test)]
mod random;
mod renamed;
mod roles;
mod tasks;
mod text;
