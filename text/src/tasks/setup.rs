//! What stays the same while a task runs: its engine, tokenizer, options and prompts.

use super::choice::refused;
use super::constrained::Constrained;
use super::inputs::Inputs;
use super::kind::Kind;
use super::listwise::{ListContext, Lists};
use super::method::{prompt_limit, Asked, Context, Method};
use super::model::Model;
use super::options::Options;
use super::prompt::{Fields, Prompts};
use super::recipe::Recipe;
use super::seeds::Seeds;
use crate::constraint::Compiled;
use crate::engine::{self, Engine};
use crate::error::{Error, Result};
use crate::text::{EncodeOptions, Text};
use serde_json::Value;
use std::sync::Arc;

/// Most requests of one chunk, for short texts.
const CHUNK_ITEMS: usize = 8192;
/// Chunks that the engine has at a time: one to compute, one to go on with.
pub const CHUNKS: usize = 2;

pub struct Setup {
    pub engine: Engine,
    pub text: Arc<Text>,
    pub kind: &'static Kind,
    pub method: &'static dyn Method,
    pub options: Options,
    pub request: engine::Options,
    /// Of texts whose tokens are told with their log-probs: how many of the likeliest of each place.
    pub likeliest: Option<usize>,
    /// What texts must look like.
    pub constrained: Option<Constrained>,
    pub model: Model,
    /// What every request asks for.
    pub ids: Vec<i32>,
    /// Values of an embedding.
    dimensions: usize,
    /// Longest prompt with what is generated after it.
    pub positions: usize,
    /// Most tokens that the engine generates after a prompt.
    pub generated: usize,
    /// Most requests of one chunk.
    pub chunk_items: usize,
}

impl Setup {
    pub fn new(
        engine: Engine,
        text: Arc<Text>,
        kind: &'static Kind,
        method: &'static dyn Method,
        options: Options,
        model: Model,
    ) -> Result<Setup> {
        let info = engine.info()?;
        check_fit(&engine, &text, info.vocabulary)?;
        let request = request_options(&engine, &text, method, &options, info.vocabulary)?;
        // In the engine's words: it knows its defaults, and how numbers may be spelt.
        let number = |key| -> Result<usize> { Ok(request.text(key)?.parse().unwrap_or(0)) };
        if request.text("pooling")? == "tokens" {
            return Err(Error::argument(format!(
                "option pooling is tokens; {} has one vector for each text, others come from \
                 prefix_batch_add_embedding",
                kind.name
            )));
        }
        let most = match &*request.text("dense")? {
            "false" | "0" | "off" => info.hidden as usize,
            _ => model.vector,
        };
        let dimensions = match number("dimensions")? {
            0 => most,
            dimensions if dimensions <= most => dimensions,
            dimensions => {
                return Err(Error::range(format!(
                    "option dimensions is {dimensions}; the model has {most}"
                )))
            }
        };
        let is_scored = method.writes_text() && is_true(&request.text("logprobs")?);
        let setup = Setup {
            likeliest: match is_scored {
                true => Some(number("top_logprobs")?),
                false => None,
            },
            constrained: constrained(&text, &options, &request, info.vocabulary)?,
            dimensions,
            positions: info.max_positions as usize,
            generated: number("max_tokens")?,
            chunk_items: chunk_items(&engine)?,
            ids: method.ids(&text, &options.recipe)?,
            engine,
            text,
            kind,
            method,
            options,
            request,
            model,
        };
        // What is wrong with the recipe or with options shows now, not with the first item.
        let prompts = setup.prompts();
        prompts
            .and_then(|_| setup.lists())
            .map_err(|error| refused(&setup.options.recipe, &setup.model, error))?;
        let example = setup.method.example();
        setup
            .engine
            .batch()?
            .add(&[0, 0], &example, &setup.request)?;
        Ok(setup)
    }

    pub fn prompts(&self) -> Result<Prompts> {
        let recipe: &Recipe = &self.options.recipe;
        let prompt = recipe
            .prompts
            .get(&self.options.prompt)
            .ok_or_else(|| Error::not_found("the recipe has no such prompt"))?;
        Prompts::new(&self.text, recipe, prompt)
    }

    /// Those of the texts of a prompt, where each has one of its own.
    pub fn seeds(&self) -> Result<Option<Seeds>> {
        Seeds::new(&self.engine, &self.request, self.options.samples)
    }

    /// How lists become prompts, where the method reads lists.
    pub fn lists(&self) -> Result<Option<Lists>> {
        let recipe = &self.options.recipe;
        let list = recipe.list.as_ref();
        list.map(|list| Lists::new(&self.text, recipe, list))
            .transpose()
    }

    /// Most tokens of a prompt that nothing follows.
    pub fn limit(&self) -> usize {
        prompt_limit(self.positions, &self.options)
    }

    /// The tokens of the prompt that an item is in.
    pub fn tokens(&self, inputs: &Inputs, item: usize) -> Result<Vec<i32>> {
        let Some(mut lists) = self.lists()? else {
            return Ok(self.ask(inputs, item, &mut self.prompts()?)?.tokens);
        };
        let context = ListContext {
            inputs,
            options: &self.options,
            limit: self.limit(),
        };
        let mut next = 0;
        loop {
            let end = inputs.end_of_list(next);
            if item >= end {
                next = end;
                continue;
            }
            let block = lists.block(context, next..end)?;
            if let Some((_, error)) = block.bad.iter().find(|(bad, _)| *bad == item) {
                return Err(error.clone());
            }
            if item < block.next {
                return Ok(block.tokens);
            }
            next = block.next;
        }
    }

    /// What the engine is asked for an item.
    pub fn ask(&self, inputs: &Inputs, item: usize, prompts: &mut Prompts) -> Result<Asked> {
        let texts = inputs.texts(item)?;
        let mut fields = Fields {
            instruction: &self.options.instruction,
            ..Fields::default()
        };
        for (what, text) in self.kind.texts.iter().zip(texts) {
            fields.set(what.field, text);
        }
        let mut context = Context {
            inputs,
            options: &self.options,
            text: &self.text,
            prompts,
            ids: &self.ids,
            positions: self.positions,
            generated: self.generated,
        };
        self.method.ask(&mut context, fields)
    }

    /// Values of an item.
    pub fn width(&self, inputs: &Inputs) -> usize {
        self.method.width(inputs, self.dimensions)
    }
}

/// Ids that the model does not have, or a text that it would end elsewhere, tell of a tokenizer of
/// another model: the results would be plausible and wrong.
fn check_fit(engine: &Engine, text: &Text, vocabulary: i32) -> Result<()> {
    // Added tokens beyond the model's exist, where a padding token was added and never used.
    let size = text.tokenizer().get_model().size();
    if i64::from(size) > i64::from(vocabulary) {
        return Err(Error::argument(format!(
            "the tokenizer has a vocabulary of {size} and the model of {vocabulary}; they do not \
             belong together"
        )));
    }
    let (model, own) = (engine.end_tokens()?, text.ends());
    let is_known = model.is_empty() || own.is_empty() || model.iter().any(|id| own.contains(id));
    if !is_known {
        return Err(Error::argument(format!(
            "texts end with tokens {own:?} for the tokenizer and {model:?} for the model; they do not \
             belong together"
        )));
    }
    Ok(())
}

fn request_options(
    engine: &Engine,
    text: &Text,
    method: &dyn Method,
    options: &Options,
    vocabulary: i32,
) -> Result<engine::Options> {
    let mut request = options.request.clone();
    if method.writes_text() {
        let given = engine.options(&Value::Object(request.clone()).to_string())?;
        let mut stops = match is_true(&given.text("ignore_eos")?) {
            true => Vec::new(),
            false => text
                .ends()
                .iter()
                // An added token beyond those of the model is never written.
                .filter(|id| **id < vocabulary)
                .map(ToString::to_string)
                .collect(),
        };
        // Where a stop text is a token of its own, the engine itself can end there. White space does not end a text
        // that it begins.
        let texts = options.stops.texts().iter();
        for stop in texts.filter(|stop| !stop.trim().is_empty()) {
            if let Some(id) = own_token(text, stop).filter(|id| *id < vocabulary) {
                stops.push(id.to_string());
            }
        }
        let asked = given.text("stop_tokens")?;
        stops.extend((!asked.is_empty()).then_some(asked));
        request.insert("stop_tokens".into(), stops.join(",").into());
        // Those of a place come with that of its token.
        if given.text("top_logprobs")? != "0" {
            request.insert("logprobs".into(), true.into());
        }
    }
    engine.options(&Value::Object(request).to_string())
}

fn constrained(
    text: &Text,
    options: &Options,
    request: &engine::Options,
    vocabulary: i32,
) -> Result<Option<Constrained>> {
    let Some(rules) = &options.rules else {
        return Ok(None);
    };
    if is_true(&request.text("ignore_eos")?) {
        return Err(Error::argument(format!(
            "option ignore_eos is true; a text by option {} ends with an end token",
            rules.option()
        )));
    }
    let compiled = Compiled::new(rules, vocabulary as usize, || text.vocabulary())?;
    Ok(Some(Constrained::new(compiled)))
}

/// As the engine spells it.
fn is_true(flag: &str) -> bool {
    ["true", "1", "on"].contains(&flag)
}

/// The token that is this text. A normalizer makes that of another text too, and of unknown ones there is one for all.
fn own_token(text: &Text, stop: &str) -> Option<i32> {
    let ids = text.encode(stop, EncodeOptions::default()).ok()?;
    let &[id] = &ids[..] else {
        return None;
    };
    // A special token may show in no text.
    let is_named = text.token_id(stop) == u32::try_from(id).ok();
    let is_own = is_named || text.decode(&ids, false).ok()?.trim() == stop.trim();
    is_own.then_some(id)
}

/// A chunk that is longer than the engine's queue would never fit.
fn chunk_items(engine: &Engine) -> Result<usize> {
    let info: Value = serde_json::from_str(&engine.info_json()?)
        .map_err(|e| Error::argument(format!("prefix_engine_info_json: {e}")))?;
    let queue: Option<usize> = info["options"]["queue_limit"]
        .as_str()
        .and_then(|limit| limit.parse().ok());
    Ok(queue.map_or(CHUNK_ITEMS, |n| (n / CHUNKS).clamp(1, CHUNK_ITEMS)))
}
