//! What a generated text must look like: a JSON schema, a regular expression or a grammar, kept by the crate
//! `llguidance`. It knows the tokens of a tokenizer by their bytes, and says which of them may come next.
//!
//! ```text
//!   Vocabulary   the tokens of a tokenizer, once for each           (vocabulary.rs)
//!       │
//!   Rules ──> bounds checked ──> Compiled, once for each task       (rules.rs, schema/, grammar.rs, compiled.rs, ends.rs)
//!                                   │ begin
//!                                Following: allow, accept, allow... one for each text   (following.rs)
//! ```
//!
//! What callers give is not trusted. The crate bounds what it computes for a token, and what it makes of regular
//! expressions; how deep it goes and how often it copies is for us to bound, before it begins.

mod compiled;
mod ends;
mod following;
mod grammar;
mod kept;
mod needs;
#[cfg(test)]
mod realistic;
mod rules;
mod said;
mod schema;
#[cfg(any(test, feature = "fuzzing"))]
mod trying;
#[cfg(test)]
mod validity;
mod vocabulary;

pub use compiled::Compiled;
pub use following::Following;
pub use kept::Kept;
pub use rules::Rules;
#[cfg(feature = "fuzzing")]
pub use trying::try_input;
pub use vocabulary::Vocabulary;
