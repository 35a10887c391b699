//! embed: a vector for every text.

use super::inputs::Inputs;
use super::kind::{Answer, Asked, Context, ItemText, Kind, Method};
use super::model::Model;
use super::prompt::Fields;
use super::recipe::{Field, Recipe};
use crate::engine::Request;
use crate::error::{quote, Error, Result};

pub static KIND: Kind = Kind {
    name: "embed",
    texts: &[ItemText {
        name: "text",
        field: Field::Text,
    }],
    has_labels: false,
    has_own_models: true,
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

    fn fit(&self, recipe: &Recipe, model: &Model) -> Result<()> {
        if recipe.pooling != "model" {
            return Ok(());
        }
        if !["last", "mean", "first"].contains(&model.pooling.as_str()) {
            let message = match model.pooling.as_str() {
                "" => "its files name no pooling".to_string(),
                other => format!("its files name the pooling {}", quote(other)),
            };
            return Err(Error::unsupported(
                message + "; last, mean and first are run",
            ));
        }
        if model.pools_without_prompt && model.pooling != "last" {
            let message = "its pooling leaves prompts out (include_prompt is false in its files), \
                           which is not run";
            return Err(Error::unsupported(message));
        }
        if let Some(module) = &model.other_module {
            return Err(Error::unsupported(format!(
                "its files have a module {} that is not run",
                quote(module)
            )));
        }
        if model.has_other_dense {
            let message = "its files have a module Dense that is not run: one elsewhere than \
                           right behind the pooling";
            return Err(Error::unsupported(message));
        }
        Ok(())
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
