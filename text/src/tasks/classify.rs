//! classify: the probability of every label for every text.

use super::inputs::Inputs;
use super::options::Options;
use super::prompt::Fields;
use super::recipe::Field;
use super::task::{Answer, Asked, Context, Kind, Shape, Task};
use crate::engine::Request;
use crate::error::{Error, Result};

pub static KIND: Kind = Kind {
    name: "classify",
    fields: &[("text", Field::Text), ("labels", Field::Labels)],
    many_prompts: false,
    options: &["raw", "top_n"],
    engine_options: &[],
    has_order: true,
    methods: &[("choices", &Classify)],
};

/// Log-probs of each label after the prompt.
#[derive(Debug)]
struct Classify;

impl Task for Classify {
    fn target(&self) -> Option<(&'static str, Field)> {
        Some(("label", Field::Label))
    }

    fn shape(&self, inputs: &Inputs, _options: &Options, _hidden: usize) -> Result<Shape> {
        let (rows, columns) = (inputs.documents.len(), inputs.labels.len());
        if columns == 0 {
            return Err(Error::argument("there are no labels"));
        }
        Ok(Shape {
            rows,
            columns,
            item_is_value: false,
        })
    }

    fn texts<'a>(&self, inputs: &'a Inputs, _shape: &Shape, item: usize) -> Result<Fields<'a>> {
        let labels = (0..inputs.labels.len()).map(|i| inputs.labels.get(i, "label"));
        Ok(Fields {
            document: inputs.documents.get(item, "text")?,
            labels: labels.collect::<Result<Vec<_>>>()?.join(", ").into(),
            ..Fields::default()
        })
    }

    fn ask<'a>(&self, context: &mut Context<'a, '_>, mut fields: Fields<'a>) -> Result<Asked> {
        let inputs = context.inputs;
        let (mut tokens, mut offsets) = (Vec::new(), vec![0]);
        let mut longest = 0;
        for i in 0..inputs.labels.len() {
            fields.label = inputs.labels.get(i, "label")?;
            let label = context.target(&fields)?;
            longest = longest.max(label.len());
            tokens.extend(label);
            offsets.push(tokens.len() as i64);
        }
        let built = context.prompt(&fields, longest)?;
        Ok(Asked::new(built, Request::Choices { tokens, offsets }))
    }

    fn read(&self, answer: &Answer, values: &mut [f32]) -> Result<String> {
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
        Ok(String::new())
    }
}
