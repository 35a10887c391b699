//! How byte-level BPE vocabularies in GGUF files split text before merging.
//!
//! A GGUF file does not hold the split regex; it names it (`tokenizer.ggml.pre`). A wrong guess
//! gives plausible but wrong ids, so a name that is not in this table is an error.

use crate::error::{nearest, quote, Error, Result};
use crate::pipeline::byte_level;
use serde_json::{json, Value};

/// What a name stands for, as parts of a Hugging Face tokenizer.
pub struct Split {
    pub normalizer: Value,
    pub pre_tokenizer: Value,
    /// Take a word that is in the vocabulary as it is, without merging.
    pub ignore_merges: bool,
    /// Whether a text begins with the bos token when the file does not say.
    pub add_bos: bool,
}

const LLAMA3: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const QWEN2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const GPT4O: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

const NAMES: &[&str] = &[
    "gpt-2",
    "gpt-4o",
    "llama-bpe",
    "llama3",
    "llama-v3",
    "dbrx",
    "smaug-bpe",
    "qwen2",
    "deepseek-r1-qwen",
    "smollm",
    "starcoder",
    "refact",
    "command-r",
];

fn regex_split(pattern: &str) -> Value {
    json!({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false},
        byte_level(false),
    ]})
}

pub fn split(name: &str) -> Result<Split> {
    let plain = |pre_tokenizer| Split {
        normalizer: Value::Null,
        pre_tokenizer,
        ignore_merges: false,
        add_bos: false,
    };
    Ok(match name {
        "gpt-2" => plain(byte_level(true)),
        // Every digit on its own, then as GPT-2.
        "smollm" | "starcoder" | "refact" | "command-r" => plain(json!({
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": true}, byte_level(true)],
        })),
        "llama-bpe" | "llama3" | "llama-v3" => Split {
            ignore_merges: true,
            add_bos: true,
            ..plain(regex_split(LLAMA3))
        },
        "dbrx" | "smaug-bpe" => plain(regex_split(LLAMA3)),
        "qwen2" | "deepseek-r1-qwen" => Split {
            normalizer: json!({"type": "NFC"}),
            ..plain(regex_split(QWEN2))
        },
        "gpt-4o" => plain(regex_split(GPT4O)),
        other => {
            let hint = nearest(other, NAMES)
                .map(|n| format!("; the nearest known one is {}", quote(n)))
                .unwrap_or_default();
            return Err(Error::unsupported(format!(
                "tokenizer.ggml.pre {} is not known{hint}",
                quote(other)
            )));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::pipeline::{Normalizer, PreTokenizer};

    #[test]
    fn every_name_gives_parts_that_the_tokenizer_accepts() {
        for name in NAMES {
            let parts = split(name).unwrap();
            PreTokenizer::parse(&parts.pre_tokenizer, 0).unwrap();
            Normalizer::parse(&parts.normalizer).unwrap();
        }
    }

    #[test]
    fn an_unknown_name_is_an_error_with_a_hint() {
        let error = split("smolm").err().unwrap();
        assert_eq!(error.code, Code::UnsupportedModel);
        assert!(error.message.contains("\"smollm\""), "{}", error.message);
        assert_eq!(split("default").err().unwrap().code, Code::UnsupportedModel);
    }
}
