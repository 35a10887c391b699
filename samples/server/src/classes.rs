//! Classes of texts: by the classification head of the model, or by how likely the names of the classes are.

use prefix::TaskKind;

use crate::app::Call;
use crate::failure::{Failure, Kind, Result};
use crate::ranking::Cut;

#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    pub label: String,
    pub score: f32,
}

/// For each text its classes, the likeliest first. The model's own recipe says how its head is read.
pub async fn classify(
    call: &Call,
    texts: Vec<String>,
    raw: bool,
    cut: Cut,
) -> Result<Vec<Vec<Class>>> {
    let app = &call.app;
    app.check_count("inputs", texts.len())?;
    let head = app.model.head_labels();
    let (labels, chosen) = match head.is_empty() {
        true => (app.config.labels.clone(), app.config.labels.clone()),
        false => (head, Vec::new()),
    };
    if labels.is_empty() {
        let message = "the model is not a classifier: it has no classification head, and the service was started \
                       without --labels";
        return Err(Failure::new(Kind::NotServed, message));
    }
    let mut options = call.options()?.set("truncate", cut.option())?;
    if raw {
        options.put("raw", true)?;
    }
    let task = call
        .run_task(TaskKind::Classify, options, move |builder| {
            if !chosen.is_empty() {
                builder.set_labels(&chosen)?;
            }
            builder.add(&texts).map(drop)
        })
        .await?;
    let rows = task.all_values()?;
    Ok(rows.iter().map(|row| ranked(&labels, row)).collect())
}

fn ranked(labels: &[String], row: &[f32]) -> Vec<Class> {
    let pairs = labels.iter().zip(row);
    let mut classes: Vec<Class> = pairs
        .map(|(label, &score)| Class {
            label: label.clone(),
            score,
        })
        .collect();
    classes.sort_by(|a, b| b.score.total_cmp(&a.score));
    classes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likeliest_class_is_the_first() {
        let labels = ["a".to_string(), "b".to_string()];
        let classes = ranked(&labels, &[0.2, 0.8]);
        assert_eq!(classes[0].label, "b");
        assert_eq!(classes.len(), 2);
    }
}
