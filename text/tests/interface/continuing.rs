//! Texts that go on others, by tokenizers of every kind.

use crate::support::capi::Tokenizer;
use crate::tokenizer;

const SPECIAL: i32 = 1;
const LITERAL: i32 = 2;
const CONTINUES: i32 = 4;

/// Cut before a space, a text has the tokens of its two parts.
pub fn continuing() {
    for (name, puts) in [
        ("llama3", false),
        ("roberta", true),
        ("llama2", true),
        ("unigram", true),
        ("llama-spm.gguf", true),
        ("gemma-spm.gguf", false),
        ("t5-spm.gguf", true),
        ("bytes-spm.gguf", true),
    ] {
        let tokenizer = tokenizer(name);
        let encode = |text: &str, flags| tokenizer.encode(text.as_bytes(), flags).unwrap();
        for text in [" two", " hello world", " (a) b", " <s> x", " n\u{e4}he 12"] {
            for flags in [0, LITERAL] {
                let whole = encode(&format!("one{text}"), flags);
                let parts = [encode("one", flags), encode(text, flags | CONTINUES)].concat();
                assert_eq!(parts, whole, "{name} {text:?} {flags}");
            }
            same_with_offsets(&tokenizer, text);
        }
        let (alone, behind) = (encode("(", 0), encode("(", CONTINUES));
        assert_eq!(alone != behind, puts, "{name} {alone:?} {behind:?}");
        assert!(encode("", CONTINUES).is_empty(), "{name}");
        let around = encode("(", SPECIAL).len() - alone.len();
        assert_eq!(
            encode("(", SPECIAL | CONTINUES).len(),
            behind.len() + around,
            "{name}"
        );
    }
}

fn same_with_offsets(tokenizer: &Tokenizer, text: &str) {
    let (tokens, offsets) = tokenizer
        .encode_offsets(text.as_bytes(), CONTINUES)
        .unwrap();
    assert_eq!(
        tokens,
        tokenizer.encode(text.as_bytes(), CONTINUES).unwrap()
    );
    assert_eq!(offsets.last(), Some(&(text.len() as i64)), "{text:?}");
}
