//! "gpt2": byte-level BPE with merges, split by a regex that the file names.

use super::parts::{added, begin_and_end, required, Built, Common};
use crate::error::{quote, Error, Result};
use crate::load::split::split;
use crate::pipeline::{byte_level, meter, Bpe, Model, Normalization, Parts};

pub fn build(common: &Common) -> Result<Built> {
    let pre = common.metadata.text("tokenizer.ggml.pre")?.ok_or_else(|| {
        Error::unsupported(
            "the GGUF file does not name its split (tokenizer.ggml.pre); it was written by an old \
             converter",
        )
    })?;
    let parts = split(pre)?;
    let merges = required(
        common.metadata.texts("tokenizer.ggml.merges")?,
        "tokenizer.ggml.merges",
    )?;
    let model = meter::run(0, || {
        Ok(build_bpe(common.tokens, merges, parts.ignore_merges)?)
    })?;
    let kinds = common.kinds.as_deref().unwrap_or_default();
    let parts = Parts {
        normalizer: Normalization::Json(parts.normalizer),
        pre_tokenizer: parts.pre_tokenizer,
        post_processor: begin_and_end(common, parts.add_bos, false)?,
        decoder: byte_level(true),
    };
    Ok(Built {
        model,
        parts,
        added: added(common.tokens, kinds, |_| false),
    })
}

/// Memory for an entry of the vocabulary or a merge, besides its bytes.
const ROOM_ENTRY: usize = 600;

fn build_bpe(tokens: &[String], merges: &[String], ignore_merges: bool) -> Result<Model> {
    let bytes: usize = tokens.iter().chain(merges).map(String::len).sum();
    meter::room((tokens.len() + merges.len()) * ROOM_ENTRY + bytes * 4)?;
    let mut vocab = tokenizers::models::bpe::Vocab::default();
    vocab.reserve(tokens.len());
    for (id, token) in tokens.iter().enumerate() {
        if vocab.insert(token.clone(), id as u32).is_some() {
            return Err(Error::format(format!(
                "token {} occurs twice in tokenizer.ggml.tokens",
                quote(token)
            )));
        }
    }
    let mut pairs = Vec::with_capacity(merges.len());
    for merge in merges {
        // Spaces inside tokens are written as another character, so exactly one separates.
        let (left, right) = merge
            .split_once(' ')
            .filter(|(l, r)| !l.is_empty() && !r.is_empty() && !r.contains(' '))
            .ok_or_else(|| {
                Error::format(format!(
                    "merge {} is not two tokens with one space between",
                    quote(merge)
                ))
            })?;
        pairs.push((left.to_string(), right.to_string()));
    }
    Model::bpe(Bpe {
        vocab,
        merges: pairs,
        ignore_merges,
        ..Bpe::default()
    })
    .map_err(|e| e.within("tokenizer.ggml"))
}
