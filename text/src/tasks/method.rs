//! A way to get the results of a task: what it asks of the engine, how it reads what comes back.
//!
//! ```text
//!   Kind "rerank" ─┬─ "likelihood": a Method      one Kind in each of rerank.rs, embed.rs,
//!                  └─ "yes-no":     a Method      classify.rs; three in generate.rs
//!
//!   item ── texts ──> Fields ── ask() ──> Asked ── engine ──┬─ read() ──> values
//!                                                           └─ written.rs ──> text
//! ```

use super::head::Activation;
use super::inputs::Inputs;
use super::model::Model;
use super::options::Options;
use super::piece::Field;
use super::prompt::{Built, Fields, Prompts};
use super::recipe::Recipe;
use crate::engine::{Job, Request};
use crate::error::{Code, Error, Result};
use crate::text::Text;
use std::fmt::Debug;

/// What is asked of the engine for one item.
pub struct Asked {
    pub tokens: Vec<i32>,
    pub request: Request,
    pub was_cut: bool,
}

impl Asked {
    pub fn new(built: Built, request: Request) -> Asked {
        Asked {
            tokens: built.tokens,
            request,
            was_cut: built.was_cut,
        }
    }

    /// Its tokens that are not those of the prompt before it.
    pub fn distinct(&self, before: &[i32]) -> usize {
        let shared = before.iter().zip(&self.tokens);
        let shared = shared.take_while(|(a, b)| a == b).count();
        let choices = match &self.request {
            Request::Choices { tokens, .. } => tokens.len(),
            _ => 0,
        };
        self.tokens.len() - shared + choices
    }
}

/// What a question is made with.
pub struct Context<'a> {
    pub inputs: &'a Inputs,
    pub options: &'a Options,
    pub text: &'a Text,
    pub prompts: &'a mut Prompts,
    /// What `Method::ids` gave.
    pub ids: &'a [i32],
    /// Longest prompt with what follows it.
    pub positions: usize,
    /// Most tokens that the engine generates after a prompt.
    pub generated: usize,
}

impl Context<'_> {
    /// Most tokens of a prompt when `more` tokens follow it.
    pub fn limit(&self, more: usize) -> usize {
        prompt_limit(self.positions.saturating_sub(more), self.options)
    }

    /// The prompt of an item when `more` tokens follow it.
    pub fn prompt(&mut self, fields: &Fields, more: usize) -> Result<Built> {
        let limit = self.limit(more);
        self.prompts
            .build(fields, limit, self.options.truncate)
            .map_err(|error| self.with_reason(error, more))
    }

    /// Where a prompt is too long because of what follows it, the error says so.
    pub fn with_reason(&self, mut error: Error, more: usize) -> Error {
        if error.code == Code::PromptTooLong
            && more > 0
            && self.limit(more) == self.positions.saturating_sub(more)
        {
            error.message += &format!(
                " ({} positions, of which {more} are kept for what follows)",
                self.positions
            );
        }
        error
    }

    /// The recipe's target, which follows the prompt.
    pub fn target(&self, fields: &Fields) -> Result<Vec<i32>> {
        self.prompts
            .continuation(&self.options.recipe.target, fields)
    }
}

/// Most tokens of a prompt in so many positions.
pub fn prompt_limit(positions: usize, options: &Options) -> usize {
    let limits = [options.max_prompt_tokens, options.recipe.max_prompt_tokens];
    let limits = limits.into_iter().filter(|limit| *limit != 0);
    limits.fold(positions, usize::min)
}

/// What came back for one item.
pub struct Answer<'a> {
    pub job: &'a Job,
    /// Of the request in the job.
    pub index: usize,
    /// Tokens of each choice of the request.
    pub lengths: &'a [usize],
    pub options: &'a Options,
    pub model: &'a Model,
    /// Which outputs of a classification head the labels of its item are.
    pub places: &'a [usize],
}

impl Answer<'_> {
    /// What the logits of a classification head become.
    pub fn activation(&self) -> Activation {
        match self.options.raw {
            true => Activation::None,
            false => self.options.recipe.activation,
        }
    }

    pub fn values(&self) -> Result<Vec<f32>> {
        self.job.values(self.index)
    }
}

/// Methods by the names that recipes call them.
pub type Methods = &'static [(&'static str, &'static dyn Method)];

/// One way to get the results of a kind.
pub trait Method: Debug + Sync {
    /// The field of the recipe's target: a text that is scored after the prompt.
    fn target(&self) -> Option<(&'static str, Field)> {
        None
    }

    /// Whether the recipe names two words, yes and no.
    fn has_words(&self) -> bool {
        false
    }

    /// Whether the recipe has no prompt, since items bring their own.
    fn has_own_prompt(&self) -> bool {
        false
    }

    /// Whether one request reads all documents of a query: a ListPrompt says how.
    fn reads_lists(&self) -> bool {
        false
    }

    /// Whether a result is a text.
    fn writes_text(&self) -> bool {
        false
    }

    /// Values of an item. `dimensions`: of an embedding as the engine gives it.
    fn width(&self, inputs: &Inputs, dimensions: usize) -> usize;

    /// A request of the kind that it makes, to see whether the engine takes the options.
    fn example(&self) -> Request;

    /// Token ids that every request asks for.
    fn ids(&self, _text: &Text, _recipe: &Recipe) -> Result<Vec<i32>> {
        Ok(Vec::new())
    }

    /// Whether the model has what is read, beside tokens.
    fn fit(&self, _recipe: &Recipe, _model: &Model) -> Result<()> {
        Ok(())
    }

    /// Whether the files say nothing against a recipe that nobody named.
    fn agree(&self, _recipe: &Recipe, _model: &Model) -> Result<()> {
        Ok(())
    }

    /// Most tokens of a prompt as the model's files say it, for a caller who does not; 0 = no limit.
    fn most_tokens(&self, _model: &Model) -> usize {
        0
    }

    /// Labels that its items have unless the caller gives others.
    fn labels(&self, _model: &Model) -> Vec<String> {
        Vec::new()
    }

    /// Which outputs of the model's classification head these labels are, where they are read there.
    fn places(&self, _labels: &[String], _model: &Model) -> Result<Vec<usize>> {
        Ok(Vec::new())
    }

    /// Options that its requests need.
    fn request(&self) -> &'static [(&'static str, bool)] {
        &[]
    }

    /// `fields`: the texts of an item and the instruction.
    fn ask<'a>(&self, context: &mut Context<'a>, fields: Fields<'a>) -> Result<Asked>;

    /// Writes the values of an item; those of a method that writes text are none.
    fn read(&self, _answer: &Answer, _values: &mut [f32]) -> Result<()> {
        Ok(())
    }
}
