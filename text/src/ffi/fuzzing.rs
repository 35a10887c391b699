//! Parsers that the public functions reach only with a model at hand, for tests/fuzz.

use super::handles::{self, PrefixTokenizer};
use super::{bytes_in, entry, text_in, PrefixError};
use crate::constraint::try_input;
use crate::tasks::try_recipe;

/// A recipe, as it stands in a file, and the prompts that it makes.
#[no_mangle]
pub unsafe extern "C" fn prefix_fuzz_recipe(
    tokenizer: *const PrefixTokenizer,
    recipe: *const u8,
    recipe_len: usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_fuzz_recipe", || {
            let text = handles::text(tokenizer)?;
            try_recipe(&text, text_in(recipe, recipe_len, "recipe")?)
        })
    }
}

/// What a text must look like: a schema, a regular expression or a grammar, and texts by it.
#[no_mangle]
pub unsafe extern "C" fn prefix_fuzz_constraint(
    input: *const u8,
    input_len: usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_fuzz_constraint", || {
            try_input(bytes_in(input, input_len, "input")?)
        })
    }
}
