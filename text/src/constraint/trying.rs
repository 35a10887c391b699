//! Rules without a model, for the tests and for tests/fuzz: a vocabulary of single bytes, and texts that are drawn.

use super::{Compiled, Rules, Vocabulary};
use crate::error::{Error, Result};
use std::sync::{Arc, LazyLock};

/// Ends a text; behind it is a token that stands for none.
pub const END: u32 = 256;
pub const SIZE: usize = 258;

static BYTES: LazyLock<Arc<Vocabulary>> = LazyLock::new(|| {
    let words = (0..=255).map(|byte| vec![byte]);
    let words = words.chain([Vec::new(), Vec::new()]).collect();
    Arc::new(Vocabulary::new(words, &[END]).expect("some hundred tokens"))
});

pub fn bytes() -> Arc<Vocabulary> {
    BYTES.clone()
}

pub fn compiled(rules: &Rules) -> Result<Compiled> {
    Compiled::new(rules, SIZE, || Ok(bytes()))
}

/// A text by these rules: `choose` takes one of so many bytes. None when it goes on behind `most` of them.
pub fn written(
    compiled: &Compiled,
    most: usize,
    mut choose: impl FnMut(&[u32]) -> usize,
) -> Result<Option<Vec<u8>>> {
    let mut following = compiled.begin();
    let mut text = Vec::new();
    while text.len() < most {
        let mut mask = [0; SIZE.div_ceil(32)];
        following.allow(&mut mask).map_err(Error::argument)?;
        let is_set = |id: &u32| mask[*id as usize / 32] >> (id % 32) & 1 == 1;
        let all: Vec<u32> = (0..SIZE as u32).filter(is_set).collect();
        assert!(!all.is_empty(), "nothing may follow {text:?}");
        let token = all[choose(&all)];
        if token == END {
            return Ok(Some(text));
        }
        following.accept(token).map_err(Error::argument)?;
        text.push(token as u8);
    }
    Ok(None)
}

/// An input of the fuzz target: which rules, 16 bytes that choose, and the text.
pub fn try_input(input: &[u8]) -> Result<()> {
    let Some((kind, rest)) = input.split_first() else {
        return Ok(());
    };
    let (choices, text) = rest.split_at(rest.len().min(16));
    let text = match std::str::from_utf8(text) {
        Ok(text) => text.to_string(),
        Err(_) => return Ok(()),
    };
    let rules = match kind % 3 {
        0 => Rules::Schema(text),
        1 => Rules::Regex(text),
        _ => Rules::Grammar(text),
    };
    try_rules(&rules, choices)
}

/// What a task does with rules before it meets an engine, and texts that these bytes choose.
fn try_rules(rules: &Rules, choices: &[u8]) -> Result<()> {
    let compiled = compiled(rules)?;
    for choices in choices.chunks(8) {
        let mut at = 0;
        // A text may be too much for its automaton: then it ends, and others begin.
        let _ = written(&compiled, 100, |all| {
            at += 1;
            usize::from(choices[at % choices.len()]) * all.len() / 256
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    /// The inputs of the fuzz target `constraint`, cut short and changed too, as tests/fuzz/corpus_test.cc does it with those
    /// of the targets that need no more than the public functions.
    #[test]
    fn what_a_fuzzer_found_is_taken_or_refused() {
        let folder = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../tests/fuzz/corpus/constraint"
        );
        let (mut inputs, mut taken) = (0, 0);
        for entry in std::fs::read_dir(folder).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            let mut tried = vec![bytes.clone()];
            for i in (1..=8).filter(|_| !bytes.is_empty()) {
                let mut changed = bytes.clone();
                changed[bytes.len() * i / 9] ^= 1 << (i % 8);
                tried.extend([changed, bytes[..bytes.len() * i / 9].to_vec()]);
            }
            for input in tried {
                inputs += 1;
                match try_input(&input) {
                    Ok(()) => taken += 1,
                    Err(refusal) => assert_ne!(refusal.code, Code::Internal, "{refusal}"),
                }
            }
        }
        assert!(taken > 20 && inputs > 100, "{taken} of {inputs}");
    }
}
