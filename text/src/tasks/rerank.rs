//! rerank: a score for every document and every query.

use super::head::{self, sigmoid, Label};
use super::inputs::Inputs;
use super::kind::{ItemText, Kind};
use super::method::{Answer, Asked, Context, Method, Methods};
use super::model::Model;
use super::piece::Field;
use super::prompt::Fields;
use super::recipe::Recipe;
use crate::engine::Request;
use crate::error::{Code, Error, Result};
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
    has_own_models: true,
    many_prompts: false,
    options: &["raw", "top_n"],
    has_order: true,
};

/// How a recipe may get the results.
pub const METHODS: Methods = &[
    ("likelihood", &Rerank::Likelihood),
    ("yes-no", &Rerank::YesNo),
    ("head", &Rerank::Head),
    ("listwise", &Rerank::Listwise),
];

#[derive(Debug, PartialEq)]
enum Rerank {
    /// Log-probs of the target after the prompt.
    Likelihood,
    /// Logits of one or two tokens after the prompt.
    YesNo,
    /// What the model's classification head says at the last token.
    Head,
    /// The cosine of a document's vector and the query's, in a prompt with all documents.
    Listwise,
}

/// Which output of the model's head is the score.
fn place(recipe: &Recipe, model: &Model) -> Result<usize> {
    match &recipe.label {
        // Whatever it is called: there is no other.
        Label::Name(_) if model.labels.len() == 1 => Ok(0),
        label => head::place(label, model),
    }
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
            Rerank::Head | Rerank::Listwise => Request::Embedding,
        }
    }

    fn fit(&self, recipe: &Recipe, model: &Model) -> Result<()> {
        match self {
            Rerank::Head => {
                place(recipe, model)?;
                head::fit(recipe.activation, model)
            }
            Rerank::Listwise if model.has_dense_of_tokens => Ok(()),
            Rerank::Listwise => Err(Error::unsupported(
                "its files have no projector for the vectors of single tokens",
            )),
            _ => model.need_logits(),
        }
    }

    fn request(&self) -> &'static [(&'static str, bool)] {
        match self {
            Rerank::Head => &[("head", true)],
            _ => &[],
        }
    }

    fn reads_lists(&self) -> bool {
        *self == Rerank::Listwise
    }

    fn ids(&self, text: &Text, recipe: &Recipe) -> Result<Vec<i32>> {
        if !self.has_words() {
            return Ok(Vec::new());
        }
        std::iter::once(&recipe.yes)
            .chain(&recipe.no)
            .map(
                |word| match text.encode(word, EncodeOptions::default())?[..] {
                    [id] => Ok(id),
                    ref ids => Err(Error::unsupported(format!(
                        "the word \"{word}\" has {} tokens in this model; it needs one",
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
            Rerank::Head => Ok(Asked::new(context.prompt(&fields, 0)?, Request::Embedding)),
            Rerank::Listwise => Err(Error::new(Code::Internal, "a list is asked as a whole")),
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
                let no = found.get(1).copied().map_or(0.0, f64::from);
                let difference = f64::from(found[0]) - no;
                if raw {
                    difference
                } else {
                    sigmoid(difference / answer.options.recipe.scale)
                }
            }
            Rerank::Head => {
                let place = place(&answer.options.recipe, answer.model)?;
                head::scores(answer.activation(), &found)[place]
            }
            Rerank::Listwise => {
                return Err(Error::new(Code::Internal, "a list is read as a whole"))
            }
        };
        values[0] = score as f32;
        Ok(())
    }
}
