//! The classification head of a model: which of its outputs a label is, and what its logits become.

use super::model::Model;
use crate::error::{quote, quote_all, Error, Result};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Label {
    Number(usize),
    Name(String),
}

/// What makes a score of the logits of a classification head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    None,
    Sigmoid,
    Softmax,
    /// As the model's files say (Recipe::of_model).
    OfModel,
}

pub fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The output that a label is of.
pub fn place(label: &Label, model: &Model) -> Result<usize> {
    let labels = &model.labels;
    if labels.is_empty() {
        return Err(Error::unsupported("it has no classification head"));
    }
    let found = match label {
        Label::Number(number) => Some(*number).filter(|n| *n < labels.len()),
        Label::Name(name) => labels.iter().position(|label| label == name),
    };
    found.ok_or_else(|| {
        let names: Vec<&str> = labels.iter().map(String::as_str).collect();
        let label = match label {
            Label::Number(number) => number.to_string(),
            Label::Name(name) => quote(name),
        };
        Error::unsupported(format!(
            "its classification head has no label {label}; it has {}: {}",
            labels.len(),
            quote_all(&names)
        ))
    })
}

/// What transformers makes of the logits of a head, by the problem that it was trained for.
pub fn activation_of(model: &Model) -> Result<Activation> {
    match &*model.problem_type {
        "regression" => Ok(Activation::None),
        "multi_label_classification" => Ok(Activation::Sigmoid),
        "single_label_classification" | "" => Ok(Activation::Softmax),
        other => Err(Error::unsupported(format!(
            "its files have problem_type {} for its classification head; known are regression, \
             single_label_classification and multi_label_classification",
            quote(other)
        ))),
    }
}

/// Whether the model has what a recipe leaves to it.
pub fn fit(activation: Activation, model: &Model) -> Result<()> {
    match activation {
        Activation::OfModel => activation_of(model).map(|_| ()),
        _ => Ok(()),
    }
}

/// A score for each logit.
pub fn scores(activation: Activation, logits: &[f32]) -> Vec<f64> {
    let logits = logits.iter().map(|logit| f64::from(*logit));
    match activation {
        Activation::None => logits.collect(),
        Activation::Sigmoid => logits.map(sigmoid).collect(),
        // Of one output against nothing: 0.
        _ if logits.len() == 1 => logits.map(sigmoid).collect(),
        Activation::Softmax | Activation::OfModel => {
            let most = logits.clone().fold(f64::NEG_INFINITY, f64::max);
            let all: Vec<f64> = logits.map(|logit| (logit - most).exp()).collect();
            let sum: f64 = all.iter().sum();
            all.into_iter().map(|one| one / sum).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logits_become_scores() {
        let near = |got: Vec<f64>, wanted: &[f64]| {
            assert_eq!(got.len(), wanted.len());
            let pairs = got.iter().zip(wanted);
            assert!(pairs.clone().all(|(a, b)| (a - b).abs() < 1e-7), "{got:?}");
        };
        let third = 1.0 / 3.0;
        near(scores(Activation::Softmax, &[2.0; 3]), &[third; 3]);
        near(scores(Activation::Softmax, &[1000.0, 0.0]), &[1.0, 0.0]);
        near(scores(Activation::Softmax, &[0.0]), &[0.5]);
        near(
            scores(Activation::Sigmoid, &[0.0, 1.0]),
            &[0.5, 0.7310585786],
        );
        near(scores(Activation::None, &[-3.0, 7.0]), &[-3.0, 7.0]);
        let lost = scores(Activation::Softmax, &[f32::NAN, 1.0]);
        assert!(lost.iter().all(|score| score.is_nan()), "{lost:?}");
    }
}
