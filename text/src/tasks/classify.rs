//! classify: the probability of every label for every text.

use super::head::{self, Label};
use super::inputs::Inputs;
use super::kind::{ItemText, Kind};
use super::method::{Answer, Asked, Context, Method, Methods};
use super::model::Model;
use super::piece::Field;
use super::prompt::Fields;
use super::recipe::Recipe;
use crate::engine::Request;
use crate::error::{Error, Result};

pub static KIND: Kind = Kind {
    name: "classify",
    texts: &[ItemText {
        name: "text",
        field: Field::Text,
    }],
    has_labels: true,
    has_own_models: false,
    many_prompts: false,
    options: &["raw", "top_n"],
    has_order: true,
};

/// How a recipe may get the results.
pub const METHODS: Methods = &[("choices", &Classify::Choices), ("head", &Classify::Head)];

#[derive(Debug, PartialEq)]
enum Classify {
    /// Log-probs of each label after the prompt: any labels, of any causal model.
    Choices,
    /// What the model's classification head says at the end of the prompt: of its own labels.
    Head,
}

fn ask_choices<'a>(context: &mut Context<'a>, mut fields: Fields<'a>) -> Result<Asked> {
    let inputs = context.inputs;
    let (mut tokens, mut offsets) = (Vec::new(), vec![0]);
    let mut longest = 0;
    for label in &inputs.labels {
        fields.label = label;
        let label = context.target(&fields)?;
        longest = longest.max(label.len());
        tokens.extend(label);
        offsets.push(tokens.len() as i64);
    }
    let built = context.prompt(&fields, longest)?;
    Ok(Asked::new(built, Request::Choices { tokens, offsets }))
}

fn read_choices(answer: &Answer, values: &mut [f32]) -> Result<()> {
    let found = answer.values()?;
    let means: Vec<f64> = found
        .iter()
        .zip(answer.lengths)
        .map(|(sum, n)| f64::from(*sum) / *n as f64)
        .collect();
    let max = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = means.iter().map(|m| (m - max).exp()).sum();
    for (value, mean) in values.iter_mut().zip(&means) {
        *value = if answer.options.raw {
            *mean as f32
        } else {
            ((mean - max).exp() / total) as f32
        };
    }
    Ok(())
}

impl Method for Classify {
    fn target(&self) -> Option<(&'static str, Field)> {
        (*self == Classify::Choices).then_some(("label", Field::Label))
    }

    fn width(&self, inputs: &Inputs, _dimensions: usize) -> usize {
        inputs.labels.len()
    }

    fn example(&self) -> Request {
        match self {
            Classify::Choices => Request::Choices {
                tokens: vec![0],
                offsets: vec![0, 1],
            },
            Classify::Head => Request::Embedding,
        }
    }

    fn fit(&self, recipe: &Recipe, model: &Model) -> Result<()> {
        match self {
            Classify::Choices => model.need_logits(),
            Classify::Head => {
                head::place(&Label::Number(0), model)?;
                head::fit(recipe.activation, model)
            }
        }
    }

    fn labels(&self, model: &Model) -> Vec<String> {
        match self {
            Classify::Choices => Vec::new(),
            Classify::Head => model.labels.clone(),
        }
    }

    fn places(&self, labels: &[String], model: &Model) -> Result<Vec<usize>> {
        match self {
            Classify::Choices => Ok(Vec::new()),
            Classify::Head => {
                let place = |label: &String| head::place(&Label::Name(label.clone()), model);
                let places: Result<Vec<_>> = labels.iter().map(place).collect();
                let hint = match model.has_logits {
                    true => "; recipe choices takes any",
                    false => "",
                };
                places.map_err(|e| Error::new(e.code, e.message + hint))
            }
        }
    }

    fn request(&self) -> &'static [(&'static str, bool)] {
        match self {
            Classify::Choices => &[],
            Classify::Head => &[("head", true)],
        }
    }

    fn ask<'a>(&self, context: &mut Context<'a>, mut fields: Fields<'a>) -> Result<Asked> {
        fields.labels = context.inputs.labels.join(", ").into();
        match self {
            Classify::Choices => ask_choices(context, fields),
            Classify::Head => Ok(Asked::new(context.prompt(&fields, 0)?, Request::Embedding)),
        }
    }

    fn read(&self, answer: &Answer, values: &mut [f32]) -> Result<()> {
        match self {
            Classify::Choices => read_choices(answer, values),
            Classify::Head => {
                let scores = head::scores(answer.activation(), &answer.values()?);
                let places = answer.places.iter();
                for (value, place) in values.iter_mut().zip(places) {
                    *value = scores[*place] as f32;
                }
                Ok(())
            }
        }
    }
}
