//! Which recipe a task has: the one that its caller names, the model's own, the one that the model's
//! files call for, or the default of its kind.

use super::kind::Kind;
use super::method::Method;
use super::model::Model;
use super::recipe::Recipe;
use super::recipe_file::{parse, Parsed, MAX_FILE};
use crate::error::{quote, Code, Error, Result};
use crate::text::Text;
use std::sync::OnceLock;

macro_rules! shipped {
    ($name:literal) => {
        (
            concat!($name, "\0"),
            include_str!(concat!("../../recipes/", $name, ".json")),
        )
    };
}

/// The shipped recipes. The first of each task is its default; among the others, the first that a
/// model's files call for is taken.
pub const SHIPPED: &[(&str, &str)] = &[
    shipped!("query-likelihood"),
    shipped!("qwen3-reranker"),
    shipped!("qwen3-reranker-head"),
    shipped!("mxbai-rerank-v2"),
    shipped!("bge-reranker-v2-gemma"),
    shipped!("zerank"),
    shipped!("llama-nemotron-rerank"),
    shipped!("jina-reranker-v3"),
    shipped!("last-token"),
    shipped!("qwen3-embedding"),
    shipped!("e5-mistral"),
    shipped!("embeddinggemma"),
    shipped!("gte-qwen2"),
    shipped!("llama-nemotron-embed"),
    shipped!("sentence-transformers"),
    shipped!("question-answering"),
    shipped!("extractive-qa"),
    shipped!("choices"),
    shipped!("classification-head"),
    shipped!("completion"),
    shipped!("completion-markup"),
    shipped!("chat-turn"),
    shipped!("conversation"),
];

pub struct Choice {
    pub recipe: Recipe,
    pub method: &'static dyn Method,
    /// Why, in a sentence.
    pub reason: String,
    /// What there is to say about it in the log.
    pub warning: Option<String>,
}

impl Choice {
    fn new(Parsed { recipe, method }: Parsed, reason: impl Into<String>) -> Choice {
        Choice {
            recipe,
            method,
            reason: reason.into(),
            warning: None,
        }
    }
}

/// `name`: None lets the model choose.
pub fn choose(
    name: Option<&str>,
    task: &'static Kind,
    model: &Model,
    text: &Text,
) -> Result<Choice> {
    let is_of_task = |parsed: &Parsed| std::ptr::eq(parsed.recipe.task, task);
    if let Some(name) = name {
        let recipe = load(name, task)?;
        fit(&recipe, model, text)?;
        return Ok(Choice::new(recipe, "option recipe names it"));
    }
    if let Some(recipe) = own(model)?.filter(is_of_task) {
        fit(&recipe, model, text)?;
        return Ok(Choice::new(
            recipe,
            "prefix_recipe.json is among the model's files",
        ));
    }
    let of_task = || all().iter().filter(|parsed| is_of_task(parsed));
    for recipe in of_task() {
        if let Some(reason) = model.reason(&recipe.recipe.lines) {
            // Another one would be a guess.
            fit(recipe, model, text)
                .and_then(|()| agree(recipe, model))
                .map_err(|e| e.within(&format!("{reason}; option recipe names another one")))?;
            return Ok(Choice::new(recipe.clone(), reason));
        }
    }
    let default = of_task()
        .next()
        .ok_or_else(|| Error::not_found("no recipe for the task"))?;
    let mut choice = Choice::new(default.clone(), "it is the default of the task");
    if task.has_own_models {
        choice.reason = format!("no recipe for {} knows the model's files", task.name);
        agree(default, model)
            .map_err(|e| e.within(&format!("{}; option recipe names one", choice.reason)))?;
        choice.warning = Some(format!(
            "no recipe for {} knows the files of model {}: the default, {}, may not be what it was \
             made for; option recipe names another",
            task.name,
            quote(&model.name),
            quote(&default.recipe.name)
        ));
    }
    Ok(choice)
}

/// Whether the model has what the recipe is made of. The error names both.
fn fit(Parsed { recipe, method }: &Parsed, model: &Model, text: &Text) -> Result<()> {
    let check = || {
        if let Some(token) = recipe.needs.iter().find(|t| text.token_id(t).is_none()) {
            let message = format!("its tokenizer has no token {}", quote(token));
            return Err(Error::unsupported(message));
        }
        if recipe.needs_bidirectional && !model.is_bidirectional {
            let message =
                "its attention is causal and must be bidirectional; its files do not say \
                           so, option attention of the engine can";
            return Err(Error::unsupported(message));
        }
        method.fit(recipe, model)?;
        method.ids(text, recipe).map(|_| ())
    };
    check().map_err(|error| refused(recipe, model, error))
}

/// Whether the model's files let a recipe be that they do not name. The error names both.
fn agree(Parsed { recipe, method }: &Parsed, model: &Model) -> Result<()> {
    let agreed = method.agree(recipe, model);
    agreed.map_err(|error| refused(recipe, model, error))
}

/// An error about what a model lacks, with the names of both.
pub fn refused(recipe: &Recipe, model: &Model, error: Error) -> Error {
    if error.code != Code::UnsupportedModel {
        return error;
    }
    let (recipe, model) = (quote(&recipe.name), quote(&model.name));
    error.within(&format!("recipe {recipe} does not fit model {model}"))
}

/// What the model's files have of their own.
fn own(model: &Model) -> Result<Option<Parsed>> {
    if model.recipe.is_empty() {
        return Ok(None);
    }
    parse(&model.recipe).map(Some).map_err(|e| {
        e.within(&format!(
            "prefix_recipe.json of model {}",
            quote(&model.name)
        ))
    })
}

fn all() -> &'static [Parsed] {
    static ALL: OnceLock<Vec<Parsed>> = OnceLock::new();
    ALL.get_or_init(|| {
        let parsed = SHIPPED.iter().map(|(_, text)| parse(text));
        parsed.filter_map(Result::ok).collect()
    })
}

/// A shipped recipe by its name, or a file.
fn load(name: &str, task: &'static Kind) -> Result<Parsed> {
    let parsed = match name.contains('/') || name.ends_with(".json") {
        true => from_file(name)?,
        false => parse(shipped_json(name)?)?,
    };
    let recipe = &parsed.recipe;
    if !std::ptr::eq(recipe.task, task) {
        return Err(Error::argument(format!(
            "recipe {} is for the task {}, not {}",
            quote(&recipe.name),
            recipe.task.name,
            task.name
        )));
    }
    Ok(parsed)
}

fn from_file(path: &str) -> Result<Parsed> {
    let within = |e: Error| e.within(&format!("recipe {}", quote(path)));
    let path = std::path::Path::new(path);
    let size = std::fs::metadata(path).map_err(|e| Error::io(path, &e))?;
    if !size.is_file() || size.len() > MAX_FILE as u64 {
        return Err(within(Error::range(format!(
            "not a file of at most {MAX_FILE} bytes"
        ))));
    }
    let bytes = std::fs::read(path).map_err(|e| Error::io(path, &e))?;
    let text = String::from_utf8(bytes).map_err(|e| {
        within(Error::format(format!(
            "not UTF-8 at byte {}",
            e.utf8_error().valid_up_to()
        )))
    })?;
    parse(&text).map_err(within)
}

fn shipped_names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| name.trim_end_matches('\0'))
}

/// The text of a shipped recipe.
pub fn shipped_json(name: &str) -> Result<&'static str> {
    SHIPPED
        .iter()
        .find(|(n, _)| n.trim_end_matches('\0') == name)
        .map(|(_, text)| *text)
        .ok_or_else(|| {
            let names: Vec<&str> = shipped_names().collect();
            Error::not_found(format!(
                "no recipe {}; there are {}; a file needs a \"/\" or the ending .json",
                quote(name),
                names.join(", ")
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_recipe_is_right_and_has_its_name() {
        for (name, text) in SHIPPED {
            let parsed = parse(text).unwrap_or_else(|e| panic!("{name}: {e}"));
            let recipe = parsed.recipe;
            assert_eq!(recipe.name, name.trim_end_matches('\0'));
            // The end of a prompt that is to be continued must not go; a list has bounds of its own.
            let is_cut = !["generate", "chat"].contains(&recipe.task.name) && recipe.list.is_none();
            assert_eq!(recipe.cut.is_some(), is_cut, "{name}");
        }
    }

    #[test]
    fn a_default_is_for_every_model() {
        let mut seen: Vec<&str> = Vec::new();
        for Parsed { recipe, .. } in all() {
            if !seen.contains(&recipe.task.name) {
                seen.push(recipe.task.name);
                assert!(recipe.lines.is_empty() && recipe.needs.is_empty());
            }
        }
    }
}
