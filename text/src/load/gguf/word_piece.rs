//! "bert": WordPiece. GGUF files write the begin of a word with U+2581 in front and what goes on in a
//! word as it is; BERT's own files write them as they are and with "##" in front.
//!
//! ```text
//!   GGUF         ▁play  ing  ▁##  [CLS]        the types tell [CLS] from a part of a word
//!   vocabulary   play  ##ing  ##  [CLS]
//! ```

use super::parts::{added, around, required, Built, Common};
use crate::error::{quote, Error, Result};
use crate::pipeline::{meter, Kind, Model, Normalization, Parts};
use serde_json::json;
use tokenizers::models::bpe::Vocab;

const WORD: char = '\u{2581}';
const INSIDE: &str = "##";
/// Longer words are unknown; BERT's own limit.
const LONGEST_WORD: usize = 100;

pub fn build(common: &Common) -> Result<Built> {
    let kinds = required(common.kinds.as_deref(), "tokenizer.ggml.token_type")?;
    let texts: Vec<String> = common.tokens.iter().zip(kinds).map(spelt).collect();
    let role = |names: [&str; 2], text: &str| {
        let id = names
            .iter()
            .find_map(|name| common.roles.get(name))
            .map(|(id, _)| id as usize);
        let id = id.or_else(|| texts.iter().position(|token| token == text));
        id.map(|id| (id as u32, texts[id].as_str())).ok_or_else(|| {
            let [name, _] = names;
            Error::format(format!(
                "there is neither a {name} token (tokenizer.ggml) nor {text}"
            ))
        })
    };
    let front = match common.flag("add_bos_token", true)? {
        true => Some(role(["cls", "bos"], "[CLS]")?),
        false => None,
    };
    let back = match common.flag("add_sep_token", true)? || common.flag("add_eos_token", false)? {
        true => Some(role(["sep", "eos"], "[SEP]")?),
        false => None,
    };
    let (_, unknown) = role(["unk", "unk"], "[UNK]")?;
    let model = meter::run(0, || Ok(model(&texts, unknown)?)).map_err(meter::when_opened)?;
    let metadata = common.metadata;
    let lowercase = match metadata.bool("tokenizer.ggml.normalizer.lowercase")? {
        Some(lowercase) => lowercase,
        None => !has_upper_case(&texts, kinds),
    };
    let parts = Parts {
        normalizer: Normalization::Json(json!({
            "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": metadata.bool("tokenizer.ggml.normalizer.strip_accents")?,
            "lowercase": lowercase,
        })),
        pre_tokenizer: json!({"type": "BertPreTokenizer"}),
        post_processor: around(front, back),
        decoder: json!({"type": "WordPiece", "prefix": INSIDE, "cleanup": true}),
    };
    Ok(Built {
        model,
        parts,
        added: added(&texts, kinds, |_| false),
    })
}

fn spelt((token, kind): (&String, &Kind)) -> String {
    if !matches!(kind, Kind::Normal | Kind::Unused | Kind::Byte) {
        return token.clone();
    }
    match token.strip_prefix(WORD).filter(|word| !word.is_empty()) {
        Some(word) => word.to_string(),
        // Old converters left all in brackets alone. No part of a word has a bracket beside others.
        None if token.len() > 2 && token.starts_with('[') && token.ends_with(']') => token.clone(),
        None => format!("{INSIDE}{token}"),
    }
}

/// A vocabulary of lower-case words, made of texts in lower case, has none in upper case. Files before
/// tokenizer.ggml.normalizer.lowercase do not say it otherwise.
fn has_upper_case(texts: &[String], kinds: &[Kind]) -> bool {
    texts.iter().zip(kinds).any(|(text, kind)| {
        *kind == Kind::Normal
            && !text.starts_with('[')
            && text.bytes().any(|c| c.is_ascii_uppercase())
    })
}

fn model(texts: &[String], unknown: &str) -> Result<Model> {
    meter::room(texts.iter().map(|text| text.len() * 4 + 600).sum())?;
    let mut vocab = Vocab::default();
    vocab.reserve(texts.len());
    for (id, text) in texts.iter().enumerate() {
        if let Some(other) = vocab.insert(text.clone(), id as u32) {
            return Err(Error::format(format!(
                "tokenizer.ggml: the tokens {other} and {id} are both {}",
                quote(text)
            )));
        }
    }
    Model::word_piece(vocab, unknown.to_string(), INSIDE.to_string(), LONGEST_WORD)
        .map_err(|e| e.within("tokenizer.ggml"))
}
