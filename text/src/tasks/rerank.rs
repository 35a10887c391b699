//! rerank: a score for every document and every query.

use super::inputs::Inputs;
use super::kind::{Answer, Asked, Context, ItemText, Kind, Method};
use super::prompt::Fields;
use super::recipe::{Field, Recipe};
use crate::engine::Request;
use crate::error::{Error, Result};
use crate::text::{EncodeOptions, Text};

pub static KIND: Kind = Kind {
    name: "rerank",
    texts: &[
        ItemText {
            name: "query",
            field: Field::Query,
        },
        ItemText {
            name: "document",
            field: Field::Document,
        },
    ],
    has_labels: false,
    many_prompts: false,
    options: &["raw", "top_n"],
    has_order: true,
    methods: &[
        ("likelihood", &Rerank::Likelihood),
        ("yes-no", &Rerank::YesNo),
    ],
};

#[derive(Debug, PartialEq)]
enum Rerank {
    /// Log-probs of the target after the prompt.
    Likelihood,
    /// Logits of two tokens after the prompt.
    YesNo,
}

impl Method for Rerank {
    fn target(&self) -> Option<(&'static str, Field)> {
        (*self == Rerank::Likelihood).then_some(("query", Field::Query))
    }

    fn has_words(&self) -> bool {
        *self == Rerank::YesNo
    }

    fn width(&self, _inputs: &Inputs, _dimensions: usize) -> usize {
        1
    }

    fn example(&self) -> Request {
        match self {
            Rerank::Likelihood => Request::Logprobs { from: 1 },
            Rerank::YesNo => Request::Logits { ids: vec![0] },
        }
    }

    fn ids(&self, text: &Text, recipe: &Recipe) -> Result<Vec<i32>> {
        if !self.has_words() {
            return Ok(Vec::new());
        }
        [&recipe.yes, &recipe.no]
            .into_iter()
            .map(
                |word| match text.encode(word, EncodeOptions::default())?[..] {
                    [id] => Ok(id),
                    ref ids => Err(Error::unsupported(format!(
                        "the recipe's word \"{word}\" has {} tokens in this model; it needs one",
                        ids.len()
                    ))),
                },
            )
            .collect()
    }

    fn ask<'a>(&self, context: &mut Context<'a>, fields: Fields<'a>) -> Result<Asked> {
        match self {
            Rerank::Likelihood => {
                let target = context.target(&fields)?;
                let mut built = context.prompt(&fields, target.len())?;
                let from = built.tokens.len();
                built.tokens.extend(target);
                Ok(Asked::new(built, Request::Logprobs { from }))
            }
            Rerank::YesNo => {
                let ids = context.ids.to_vec();
                let built = context.prompt(&fields, 0)?;
                Ok(Asked::new(built, Request::Logits { ids }))
            }
        }
    }

    fn read(&self, answer: &Answer, values: &mut [f32]) -> Result<()> {
        let found = answer.values()?;
        let raw = answer.options.raw;
        let score = match self {
            Rerank::Likelihood => {
                let sum: f64 = found.iter().map(|v| f64::from(*v)).sum();
                if raw {
                    sum
                } else {
                    sum / found.len() as f64
                }
            }
            Rerank::YesNo => {
                // softmax over two logits = sigmoid of their difference
                let difference = f64::from(found[0]) - f64::from(found[1]);
                if raw {
                    difference
                } else {
                    1.0 / (1.0 + (-difference).exp())
                }
            }
        };
        values[0] = score as f32;
        Ok(())
    }
}
