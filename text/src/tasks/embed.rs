//! embed: a vector for every text.

use super::inputs::Inputs;
use super::options::Options;
use super::prompt::Fields;
use super::recipe::Field;
use super::task::{Answer, Asked, Context, Kind, Shape, Task};
use crate::engine::Request;
use crate::error::{Error, Result};
use crate::text::Text;
use serde_json::{json, Map, Value};

pub static KIND: Kind = Kind {
    name: "embed",
    fields: &[("text", Field::Text)],
    many_prompts: true,
    options: &["prompt", "dimensions", "normalize"],
    engine_options: &["dimensions", "normalize"],
    has_order: false,
    methods: &[("embedding", &Embed)],
};

/// The final hidden state of the last token.
#[derive(Debug)]
struct Embed;

impl Task for Embed {
    fn shape(&self, inputs: &Inputs, options: &Options, hidden: usize) -> Result<Shape> {
        if options.dimensions > hidden {
            return Err(Error::range(format!(
                "option dimensions is {}; the model has {hidden}",
                options.dimensions
            )));
        }
        Ok(Shape {
            rows: inputs.documents.len(),
            columns: match options.dimensions {
                0 => hidden,
                dimensions => dimensions,
            },
            item_is_value: false,
        })
    }

    fn set_options(&self, _text: &Text, options: &Options, request: &mut Map<String, Value>) {
        request.insert("dimensions".into(), json!(options.dimensions));
        request.insert("normalize".into(), json!(options.normalize));
    }

    fn texts<'a>(&self, inputs: &'a Inputs, _shape: &Shape, item: usize) -> Result<Fields<'a>> {
        Ok(Fields {
            document: inputs.documents.get(item, "text")?,
            ..Fields::default()
        })
    }

    fn ask<'a>(&self, context: &mut Context<'a, '_>, fields: Fields<'a>) -> Result<Asked> {
        Ok(Asked::new(context.prompt(&fields, 0)?, Request::Embedding))
    }

    fn read(&self, answer: &Answer, values: &mut [f32]) -> Result<String> {
        let found = answer.values()?;
        values.copy_from_slice(&found[..values.len()]);
        Ok(String::new())
    }
}
