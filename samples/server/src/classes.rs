//! Classes of texts: by the classification head of the model, or by how likely the names of the classes are.

use std::sync::Arc;

use prefix::text::Special;
use prefix::{Request, TaskKind};

use crate::app::Call;
use crate::failure::{Failure, Kind, Result};
use crate::ranking::Cut;

#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    pub label: String,
    pub score: f32,
}

/// For each text its classes, the likeliest first.
pub async fn classify(
    call: &Call,
    texts: Vec<String>,
    raw: bool,
    cut: Cut,
) -> Result<Vec<Vec<Class>>> {
    let app = &call.app;
    app.check_count("inputs", texts.len())?;
    let head = app.model.head_labels();
    let (labels, rows) = if !head.is_empty() {
        (head, by_head(call, texts, raw, cut).await?)
    } else if !app.config.labels.is_empty() {
        let rows = by_choices(call, texts, raw, cut).await?;
        (app.config.labels.clone(), rows)
    } else {
        let message = "the model is not a classifier: it has no classification head, and the service was started \
                       without --labels";
        return Err(Failure::new(Kind::NotServed, message));
    };
    Ok(rows.into_iter().map(|row| ranked(&labels, &row)).collect())
}

async fn by_head(call: &Call, texts: Vec<String>, raw: bool, cut: Cut) -> Result<Vec<Vec<f32>>> {
    let options = call.options()?.set("head", true)?;
    let options = Arc::new(options.set("pooling", call.app.model.pooling())?);
    let limit = call.app.model.max_positions;
    let job = call
        .run_job(move |engine, tokenizer| {
            let mut batch = engine.batch()?;
            for (i, text) in texts.iter().enumerate() {
                let mut tokens = tokenizer.encode(text, Special::LiteralAdded)?;
                if tokens.len() > limit {
                    shorten(&mut tokens, limit, cut).ok_or_else(|| too_long(i, limit))?;
                }
                batch.add(Request::embedding(&tokens).options(&options))?;
            }
            Ok(engine.submit(&batch)?)
        })
        .await?;
    let mut rows: Vec<Vec<f32>> = job.all_values()?.iter().map(<[f32]>::to_vec).collect();
    if !raw {
        rows.iter_mut().for_each(|row| probabilities(row));
    }
    Ok(rows)
}

async fn by_choices(call: &Call, texts: Vec<String>, raw: bool, cut: Cut) -> Result<Vec<Vec<f32>>> {
    let mut options = call.options()?.set("truncate", cut.option())?;
    if raw {
        options.put("raw", true)?;
    }
    let labels = call.app.config.labels.clone();
    let task = call
        .run_task(TaskKind::Classify, options, move |builder| {
            builder.set_labels(&labels)?;
            builder.add(&texts).map(drop)
        })
        .await?;
    Ok(task.all_values()?.iter().map(<[f32]>::to_vec).collect())
}

fn too_long(text: usize, limit: usize) -> Failure {
    let message =
        format!("text {text} has more than {limit} tokens, the most that the model takes");
    Failure::new(Kind::TooLong, message)
}

/// Takes from the end or from the front; `None` when nothing may be taken.
fn shorten(tokens: &mut Vec<prefix::Token>, limit: usize, cut: Cut) -> Option<()> {
    match cut {
        Cut::Off => return None,
        Cut::Right => tokens.truncate(limit),
        Cut::Left => drop(tokens.drain(..tokens.len() - limit)),
    }
    Some(())
}

/// Logits become probabilities: of one output its sigmoid, of several their softmax.
fn probabilities(row: &mut [f32]) {
    if let [one] = row {
        *one = 1.0 / (1.0 + (-*one).exp());
        return;
    }
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    row.iter_mut().for_each(|x| *x = (*x - most).exp());
    let sum: f32 = row.iter().sum();
    row.iter_mut().for_each(|x| *x /= sum);
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
    fn logits_become_probabilities() {
        let mut several = [1.0, 3.0, 2.0];
        probabilities(&mut several);
        assert!((several.iter().sum::<f32>() - 1.0).abs() < 1e-6);
        assert!((several[1] / several[2] - 1f32.exp()).abs() < 1e-5);
        let mut one = [0.0];
        probabilities(&mut one);
        assert_eq!(one, [0.5]);
        let mut large = [1000.0, 0.0];
        probabilities(&mut large);
        assert_eq!(large, [1.0, 0.0]);
    }

    #[test]
    fn the_likeliest_class_is_the_first() {
        let labels = ["a".to_string(), "b".to_string()];
        let classes = ranked(&labels, &[0.2, 0.8]);
        assert_eq!(classes[0].label, "b");
        assert_eq!(classes.len(), 2);
    }

    #[test]
    fn tokens_are_taken_from_the_side_that_was_asked_for() {
        let whole = vec![1, 2, 3, 4];
        let mut tokens = whole.clone();
        assert!(shorten(&mut tokens, 3, Cut::Off).is_none());
        assert!(shorten(&mut tokens, 3, Cut::Right).is_some());
        assert_eq!(tokens, [1, 2, 3]);
        let mut tokens = whole;
        assert!(shorten(&mut tokens, 3, Cut::Left).is_some());
        assert_eq!(tokens, [2, 3, 4]);
    }
}
