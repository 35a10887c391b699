//! embed: a vector for every text.

use super::inputs::Inputs;
use super::kind::{Answer, Asked, Context, ItemText, Kind, Method};
use super::prompt::Fields;
use super::recipe::Field;
use crate::engine::Request;
use crate::error::Result;

pub static KIND: Kind = Kind {
    name: "embed",
    texts: &[ItemText {
        name: "text",
        field: Field::Text,
    }],
    has_labels: false,
    many_prompts: true,
    options: &["prompt"],
    has_order: false,
    methods: &[("embedding", &Embed)],
};

/// The final hidden state of the last token.
#[derive(Debug)]
struct Embed;

impl Method for Embed {
    fn width(&self, _inputs: &Inputs, dimensions: usize) -> usize {
        dimensions
    }

    fn example(&self) -> Request {
        Request::Embedding
    }

    fn ask<'a>(&self, context: &mut Context<'a>, fields: Fields<'a>) -> Result<Asked> {
        Ok(Asked::new(context.prompt(&fields, 0)?, Request::Embedding))
    }

    fn read(&self, answer: &Answer, values: &mut [f32]) -> Result<()> {
        let found = answer.values()?;
        values.copy_from_slice(&found[..values.len()]);
        Ok(())
    }
}
