//! answer: a text for every question about one context.

use super::inputs::Inputs;
use super::options::Options;
use super::prompt::Fields;
use super::recipe::Field;
use super::task::{self, Asked, Context, Kind, Shape, Task};
use crate::engine::Request;
use crate::error::Result;
use crate::text::{EncodeOptions, Text};
use serde_json::{json, Map, Value};

pub static KIND: Kind = Kind {
    name: "answer",
    fields: &[("context", Field::Context), ("question", Field::Question)],
    many_prompts: false,
    options: &[],
    engine_options: &[],
    has_order: false,
    methods: &[("generate", &Answer)],
};

#[derive(Debug)]
struct Answer;

impl Task for Answer {
    fn shape(&self, inputs: &Inputs, _options: &Options, _hidden: usize) -> Result<Shape> {
        Ok(Shape {
            rows: inputs.queries.len(),
            columns: 0,
            item_is_value: false,
        })
    }

    fn set_options(&self, text: &Text, options: &Options, request: &mut Map<String, Value>) {
        if request.contains_key("stop_tokens") {
            return;
        }
        let mut stops = text.ends().to_vec();
        // Where the stop text is a token of its own, the engine itself can end there.
        if let Ok(ids) = text.encode(&options.recipe.stop, EncodeOptions::default()) {
            if let [id] = ids[..] {
                stops.push(id);
            }
        }
        request.insert("stop_tokens".into(), json!(stops));
    }

    fn texts<'a>(&self, inputs: &'a Inputs, _shape: &Shape, item: usize) -> Result<Fields<'a>> {
        Ok(Fields {
            query: inputs.queries.get(item, "question")?,
            document: inputs.documents.get(0, "context")?,
            ..Fields::default()
        })
    }

    fn ask<'a>(&self, context: &mut Context<'a, '_>, fields: Fields<'a>) -> Result<Asked> {
        let built = context.prompt(&fields, context.generated)?;
        Ok(Asked::new(built, Request::Generate))
    }

    fn read(&self, answer: &task::Answer, _values: &mut [f32]) -> Result<String> {
        let known = with_text(&answer.tokens()?, answer.text.vocab_size());
        let text = answer.text.decode(&known, true)?;
        let stop = &answer.options.recipe.stop;
        let text = text.trim_start();
        let end = (!stop.is_empty())
            .then(|| text.find(stop.as_str()))
            .flatten();
        Ok(text[..end.unwrap_or(text.len())].trim_end().to_string())
    }

    fn read_begun(&self, answer: &task::Answer) -> Result<String> {
        self.read(answer, &mut [])
    }
}

/// Models pad their embedding beyond the vocabulary; those tokens stand for no text.
fn with_text(tokens: &[i32], vocab_size: u32) -> Vec<i32> {
    let size = i64::from(vocab_size);
    tokens
        .iter()
        .copied()
        .filter(|token| (0..size).contains(&i64::from(*token)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_beyond_the_vocabulary_have_no_text() {
        assert_eq!(with_text(&[4, 0, 5, -1, 6, 3], 5), [4, 0, 3]);
    }
}
