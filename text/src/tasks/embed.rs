//! embed: a vector for every text.

use super::inputs::Inputs;
use super::kind::{ItemText, Kind};
use super::method::{Answer, Asked, Context, Method, Methods};
use super::model::Model;
use super::piece::Field;
use super::prompt::Fields;
use super::recipe::{Recipe, OF_MODEL};
use crate::engine::Request;
use crate::error::{quote, quote_all, Error, Result};

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
};

/// How a recipe may get the results.
pub const METHODS: Methods = &[("embedding", &Embed)];

/// The final hidden state of the last token.
#[derive(Debug)]
struct Embed;

/// Whether the engine does all that the files say about how a vector comes out of a text.
fn check_files(model: &Model) -> Result<()> {
    if !["", "last", "mean", "first"].contains(&model.pooling.as_str()) {
        return Err(Error::unsupported(format!(
            "its files name the pooling {}; last, mean and first are run",
            quote(&model.pooling)
        )));
    }
    if model.pools_without_prompt && model.pooling != "last" {
        let message = "its pooling leaves prompts out (include_prompt is false in its files), \
                       which is not run";
        return Err(Error::unsupported(message));
    }
    if model.has_lower_case {
        let message = "its texts are made small letters (do_lower_case is true in \
                       sentence_bert_config.json), which is not run";
        return Err(Error::unsupported(message));
    }
    let takes = |kind: &str| model.modalities.iter().any(|one| one == kind);
    if takes("message") {
        let message = "its texts become messages of its chat template (modality_config of \
                       sentence_bert_config.json has \"message\"), which needs a recipe of one's own";
        return Err(Error::unsupported(message));
    }
    if !model.modalities.is_empty() && !takes("text") {
        let kinds: Vec<&str> = model.modalities.iter().map(String::as_str).collect();
        return Err(Error::unsupported(format!(
            "it takes {} and no texts (modality_config of sentence_bert_config.json)",
            quote_all(&kinds)
        )));
    }
    if let Some(module) = &model.other_module {
        return Err(Error::unsupported(format!(
            "its files have a module {} that is not run",
            quote(module)
        )));
    }
    if model.has_other_dense {
        let message = "its files have a module Dense that is not run: one elsewhere than right \
                       behind the pooling";
        return Err(Error::unsupported(message));
    }
    Ok(())
}

impl Method for Embed {
    fn width(&self, _inputs: &Inputs, dimensions: usize) -> usize {
        dimensions
    }

    fn example(&self) -> Request {
        Request::Embedding
    }

    fn fit(&self, recipe: &Recipe, model: &Model) -> Result<()> {
        if recipe.pooling != OF_MODEL {
            return Ok(());
        }
        if model.pooling.is_empty() {
            let message = "its files name no pooling; last, mean and first are run";
            return Err(Error::unsupported(message));
        }
        check_files(model)
    }

    fn agree(&self, recipe: &Recipe, model: &Model) -> Result<()> {
        check_files(model)?;
        let pooling = match recipe.pooling.as_str() {
            "" => "last",
            pooling => pooling,
        };
        if ["", pooling].contains(&model.pooling.as_str()) || pooling == OF_MODEL {
            return Ok(());
        }
        Err(Error::unsupported(format!(
            "its files name the pooling {}, and that of the recipe is {pooling}",
            quote(&model.pooling)
        )))
    }

    fn most_tokens(&self, model: &Model) -> usize {
        model.max_tokens
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
