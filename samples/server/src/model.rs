//! What the engine says of the model that it has.

use prefix::Engine;
use serde::Deserialize;

use crate::failure::{Failure, Result};

#[derive(Debug, Clone, Deserialize)]
pub struct Model {
    pub architecture: String,
    pub max_positions: usize,
    /// Whether it says what comes next; embedders and classifiers do not.
    pub logits: bool,
    /// Outputs of a classification head.
    labels: usize,
    declared: Declared,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct Declared {
    labels: Vec<String>,
    pooling: String,
}

#[derive(Deserialize)]
struct Info {
    model: Model,
    dtype: String,
}

impl Model {
    /// The model and the type of its numbers.
    pub fn of(engine: &Engine) -> Result<(Model, String)> {
        let info: Info = serde_json::from_str(&engine.info_json()?).map_err(Failure::internal)?;
        Ok((info.model, info.dtype))
    }

    /// The names of the outputs of its classification head; none without a head.
    pub fn head_labels(&self) -> Vec<String> {
        (0..self.labels)
            .map(|i| match self.declared.labels.get(i) {
                Some(label) => label.clone(),
                None => format!("LABEL_{i}"),
            })
            .collect()
    }

    /// How token ids without a recipe become a vector.
    pub fn pooling(&self) -> &str {
        match self.declared.pooling.as_str() {
            known @ ("mean" | "first") => known,
            _ => "last",
        }
    }
}
