//! classify: the probability of every label for every text.

use super::inputs::Inputs;
use super::kind::{Answer, Asked, Context, ItemText, Kind, Method};
use super::prompt::Fields;
use super::recipe::Field;
use crate::engine::Request;
use crate::error::Result;

pub static KIND: Kind = Kind {
    name: "classify",
    texts: &[ItemText {
        name: "text",
        field: Field::Text,
    }],
    has_labels: true,
    many_prompts: false,
    options: &["raw", "top_n"],
    has_order: true,
    methods: &[("choices", &Classify)],
};

/// Log-probs of each label after the prompt.
#[derive(Debug)]
struct Classify;

impl Method for Classify {
    fn target(&self) -> Option<(&'static str, Field)> {
        Some(("label", Field::Label))
    }

    fn width(&self, inputs: &Inputs, _dimensions: usize) -> usize {
        inputs.labels.len()
    }

    fn example(&self) -> Request {
        Request::Choices {
            tokens: vec![0],
            offsets: vec![0, 1],
        }
    }

    fn ask<'a>(&self, context: &mut Context<'a>, mut fields: Fields<'a>) -> Result<Asked> {
        let inputs = context.inputs;
        let (mut tokens, mut offsets) = (Vec::new(), vec![0]);
        let mut longest = 0;
        fields.labels = inputs.labels.join(", ").into();
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

    fn read(&self, answer: &Answer, values: &mut [f32]) -> Result<()> {
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
}
