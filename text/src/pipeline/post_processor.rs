//! What is put around the tokens of a text.

use super::fields::{walk, Fields};
use crate::error::Result;
use serde_json::Value;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::processors::bert::BertProcessing;
use tokenizers::processors::roberta::RobertaProcessing;
use tokenizers::processors::sequence::Sequence;
use tokenizers::processors::template::TemplateProcessing;
use tokenizers::PostProcessorWrapper;

/// Most tokens that are put around a text, and most parts of a template.
const MAX_AROUND: usize = 1024;

/// A template says what stands around a text: special tokens, which may be several ids each, and the
/// text itself, once.
fn check_template(part: &Fields) -> Result<()> {
    let list = |key: &str| {
        part.value
            .get(key)
            .and_then(Value::as_array)
            .ok_or_else(|| part.error(&format!("{key} is not a list")))
    };
    for key in ["single", "pair"] {
        if list(key)?.len() > MAX_AROUND {
            return Err(part.error(&format!(
                "{key} has {} parts; the limit is {MAX_AROUND}",
                list(key)?.len()
            )));
        }
    }
    let (mut tokens, mut texts) = (0usize, 0);
    for piece in list("single")? {
        if let Some(id) = piece.pointer("/SpecialToken/id").and_then(Value::as_str) {
            let count = |key: &str| {
                part.value["special_tokens"][id][key]
                    .as_array()
                    .map_or(0, Vec::len)
            };
            if count("ids") != count("tokens") {
                return Err(part.error(&format!(
                    "a special token has {} ids and {} tokens",
                    count("ids"),
                    count("tokens")
                )));
            }
            tokens = tokens.saturating_add(count("ids"));
        } else {
            texts += 1;
        }
    }
    if tokens > MAX_AROUND {
        return Err(part.error(&format!(
            "it puts {tokens} tokens around a text; the limit is {MAX_AROUND}"
        )));
    }
    if texts > 1 {
        return Err(part.error(&format!("single has the text {texts} times; it may once")));
    }
    Ok(())
}

pub fn parse(value: &Value) -> Result<Option<PostProcessorWrapper>> {
    let mut steps: Vec<PostProcessorWrapper> = Vec::new();
    let part = Fields {
        value,
        place: "post_processor",
    };
    walk(part, "processors", &mut |part, kind| {
        // The crate looks at the fields only and not at the type.
        steps.push(match kind {
            "RobertaProcessing" => part.parsed::<RobertaProcessing>()?.into(),
            "BertProcessing" => part.parsed::<BertProcessing>()?.into(),
            "ByteLevel" => part.parsed::<ByteLevel>()?.into(),
            "TemplateProcessing" => {
                check_template(&part)?;
                part.parsed::<TemplateProcessing>()?.into()
            }
            _ => return Err(part.unknown(kind)),
        });
        Ok(())
    })?;
    Ok(match steps.len() {
        0 | 1 => steps.pop(),
        _ => Some(PostProcessorWrapper::Sequence(Sequence::new(steps))),
    })
}
