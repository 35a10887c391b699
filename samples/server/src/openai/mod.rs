//! What OpenAI's clients ask for.

pub mod chat;
pub mod completions;
pub mod embeddings;
pub mod models;
pub mod writing;

use crate::app::App;
use crate::failure::{Failure, Kind, Result};

/// Clients name a model; there is one.
fn check_model(app: &App, model: Option<&str>) -> Result<()> {
    match model {
        Some(model) if model != app.config.name => {
            let message = format!(
                "the model \"{model}\" is not here, only \"{}\"",
                app.config.name
            );
            Err(Failure {
                field: Some("model".into()),
                ..Failure::new(Kind::NotFound, message)
            })
        }
        _ => Ok(()),
    }
}
