//! What makes a task: what it is given, what it asks of the engine, how it reads the results.
//!
//! ```text
//!   Kind "rerank" ─┬─ method "likelihood": a Task      one Kind in each of rerank.rs, embed.rs,
//!                  └─ method "yes-no":     a Task      answer.rs and classify.rs
//!
//!   item ── texts() ──> Fields ── ask() ──> Asked ── engine ── read() ──> values, text
//! ```

use super::inputs::Inputs;
use super::options::Options;
use super::prompt::{Built, Fields, Prompts};
use super::recipe::{Field, Recipe};
use crate::engine::{Job, Request};
use crate::error::Result;
use crate::text::Text;
use serde_json::{Map, Value};
use std::fmt::Debug;

/// A task by its name, and what options and recipes of it may say.
#[derive(Debug)]
pub struct Kind {
    pub name: &'static str,
    /// The texts that its prompts are made of, besides {instruction}.
    pub fields: &'static [(&'static str, Field)],
    /// Whether a recipe may have several prompts, of which option prompt chooses one.
    pub many_prompts: bool,
    /// Options besides those of every task.
    pub options: &'static [&'static str],
    /// Those of them that go to the engine, so that option request may not have them.
    pub engine_options: &'static [&'static str],
    /// Whether the values of a row have an order, from best to worst.
    pub has_order: bool,
    /// How a recipe may get the results.
    pub methods: &'static [(&'static str, &'static dyn Task)],
}

/// Rows and columns of the values. An item is a row, or a value of its own.
pub struct Shape {
    pub rows: usize,
    pub columns: usize,
    pub item_is_value: bool,
}

impl Shape {
    /// None: more than can be counted.
    pub fn items(&self) -> Option<usize> {
        match self.item_is_value {
            true => self.rows.checked_mul(self.columns),
            false => Some(self.rows),
        }
    }

    /// How many values an item has.
    pub fn width(&self) -> usize {
        match self.item_is_value {
            true => 1,
            false => self.columns,
        }
    }
}

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
}

/// What a question is made with.
pub struct Context<'a, 'p> {
    pub inputs: &'a Inputs,
    pub options: &'a Options,
    pub prompts: &'a mut Prompts<'p>,
    /// What `Task::ids` gave.
    pub ids: &'a [i32],
    /// Longest prompt with what follows it.
    pub positions: usize,
    /// Most tokens that the engine generates after a prompt.
    pub generated: usize,
}

impl Context<'_, '_> {
    /// The prompt of an item when `more` tokens follow it.
    pub fn prompt(&mut self, fields: &Fields, more: usize) -> Result<Built> {
        let mut limit = self.positions.saturating_sub(more);
        for max in [
            self.options.max_prompt_tokens,
            self.options.recipe.max_prompt_tokens,
        ] {
            if max != 0 {
                limit = limit.min(max);
            }
        }
        self.prompts.build(fields, limit, self.options.truncate)
    }

    /// The recipe's target, which follows the prompt.
    pub fn target(&self, fields: &Fields) -> Result<Vec<i32>> {
        self.prompts
            .continuation(&self.options.recipe.target, fields)
    }
}

/// What came back for one item.
pub struct Answer<'a> {
    pub job: &'a Job,
    /// Of the request in the job.
    pub index: usize,
    /// Tokens of each choice of the request.
    pub lengths: &'a [usize],
    pub options: &'a Options,
    pub text: &'a Text,
}

impl Answer<'_> {
    pub fn values(&self) -> Result<Vec<f32>> {
        self.job.values(self.index)
    }

    pub fn tokens(&self) -> Result<Vec<i32>> {
        self.job.tokens(self.index)
    }
}

/// A task by one of its methods.
pub trait Task: Debug + Sync {
    /// The field of the recipe's target: a text that is scored after the prompt.
    fn target(&self) -> Option<(&'static str, Field)> {
        None
    }

    /// Whether the recipe names two words, yes and no.
    fn has_words(&self) -> bool {
        false
    }

    /// `hidden`: values of a hidden state of the model.
    fn shape(&self, inputs: &Inputs, options: &Options, hidden: usize) -> Result<Shape>;

    /// Its items, for a message that says that they are too many.
    fn counted(&self, shape: &Shape) -> String {
        format!("{} texts", shape.rows)
    }

    /// Whether items are in the order of the documents where those stand first in a prompt.
    fn by_document(&self) -> bool {
        false
    }

    /// Token ids that every request asks for.
    fn ids(&self, _text: &Text, _recipe: &Recipe) -> Result<Vec<i32>> {
        Ok(Vec::new())
    }

    /// Adds to the options of the engine's requests.
    fn set_options(&self, _text: &Text, _options: &Options, _request: &mut Map<String, Value>) {}

    /// The texts of an item, besides the instruction.
    fn texts<'a>(&self, inputs: &'a Inputs, shape: &Shape, item: usize) -> Result<Fields<'a>>;

    fn ask<'a>(&self, context: &mut Context<'a, '_>, fields: Fields<'a>) -> Result<Asked>;

    /// Writes the values of an item; its text, where it has one.
    fn read(&self, answer: &Answer, values: &mut [f32]) -> Result<String>;

    /// What there is of the text of an item that was cancelled or ran out of time.
    fn read_begun(&self, _answer: &Answer) -> Result<String> {
        Ok(String::new())
    }
}
