//! "llama" and "t5": SentencePiece, BPE with scores instead of merges or Unigram.

use super::parts::{added, begin_and_end, required, Built, Common};
use crate::error::{Error, Result};
use crate::pipeline::{
    meter, CharsMap, Kind, Model, Normalization, Parts, Rules, SentencePiece, Vocabulary,
};
use serde_json::{json, Value};

/// Stands for a space.
const MARK: &str = "\u{2581}";

pub fn bpe(common: &Common) -> Result<Built> {
    let model = |vocabulary| Ok(SentencePiece::bpe(vocabulary));
    let space_in_front = common.flag("add_space_prefix", true)?;
    let post_processor = begin_and_end(common, true, false)?;
    build(common, model, space_in_front, post_processor)
}

pub fn unigram(common: &Common) -> Result<Built> {
    let space_in_front = common.flag("add_space_prefix", false)?;
    let post_processor = begin_and_end(common, false, true)?;
    build(
        common,
        SentencePiece::unigram,
        space_in_front,
        post_processor,
    )
}

fn build(
    common: &Common,
    model: impl FnOnce(Vocabulary) -> Result<SentencePiece>,
    space_in_front: bool,
    post_processor: Value,
) -> Result<Built> {
    const SCORES: &str = "tokenizer.ggml.scores";
    let scores = required(common.metadata.floats(SCORES)?, SCORES)?;
    let kinds = required(common.kinds.clone(), "tokenizer.ggml.token_type")?;
    let texts = spelt(common.tokens, &kinds);
    let architecture = common.metadata.text("general.architecture")?;
    let added = added(&texts, &kinds, |token| takes_space(architecture, token));
    let unknown = common.roles.get("unk").map(|(id, _)| id);
    let model = meter::run(0, || {
        let vocabulary = Vocabulary::new(texts, kinds, scores, unknown);
        let model = vocabulary
            .and_then(model)
            .map_err(|e| e.within("tokenizer.ggml"))?;
        Ok(Model::sentence_piece(model)?)
    })
    .map_err(meter::when_opened)?;
    let rules = Rules {
        charsmap: charsmap(common)?,
        one_space: common.flag("remove_extra_whitespaces", false)?,
        space_in_front,
    };
    let parts = Parts {
        normalizer: Normalization::SentencePiece(rules),
        pre_tokenizer: Value::Null,
        post_processor,
        decoder: decoder(space_in_front),
    };
    Ok(Built {
        model,
        parts,
        added,
    })
}

fn charsmap(common: &Common) -> Result<Option<CharsMap>> {
    const KEY: &str = "tokenizer.ggml.precompiled_charsmap";
    let numbers = common.metadata.ints(KEY)?.unwrap_or_default();
    if numbers.is_empty() {
        return Ok(None);
    }
    // Written as u8 or as i8.
    let byte = |number: &i64| match number {
        -128..=255 => Ok(*number as u8),
        other => Err(Error::format(format!(
            "{KEY} has the number {other}, which is no byte"
        ))),
    };
    let bytes: Vec<u8> = numbers.iter().map(byte).collect::<Result<_>>()?;
    CharsMap::parse(&bytes)
        .map(Some)
        .map_err(|e| e.within("tokenizer.ggml"))
}

/// Tokens as texts have them. Those that are found in a text before it is cut have its spaces; some
/// converters write these so, and others as pieces.
fn spelt(tokens: &[String], kinds: &[Kind]) -> Vec<String> {
    let spell = |(token, kind): (&String, &Kind)| match kind {
        Kind::UserDefined => token.replace(MARK, " "),
        _ => token.clone(),
    };
    tokens.iter().zip(kinds).map(spell).collect()
}

/// Phi-3 takes the white space behind its marks with them, which GGUF files do not say.
fn takes_space(architecture: Option<&str>, token: &str) -> bool {
    architecture == Some("phi3") && !["<unk>", "<s>", "<|endoftext|>"].contains(&token)
}

fn decoder(space_in_front: bool) -> Value {
    let mut steps = vec![
        json!({"type": "Replace", "pattern": {"String": MARK}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if space_in_front {
        steps.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    json!({"type": "Sequence", "decoders": steps})
}
